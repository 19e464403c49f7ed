/* Coordinates of a contraction as C text: an index of rows, columns, terms or products taken apart
 * into the coordinates that it counts, and the struct <kernel>_unit, which has those that all of a
 * block share. */
#ifndef DL_CUDA_GEMM_COORDINATES_H
#define DL_CUDA_GEMM_COORDINATES_H
#include "compiler/cuda/emit_tiles.h"

/* Does it count one alone, whatever the parity? */
static inline bool dl_counter_is_point(const dl_counter *c) { return c->size == 1 && !c->text; }
/* "        const int m0 = ...": the coordinates that the C expression `from` counts. What one
 * thread of a block does, or none as a rule, has all counters' variables, so that products that
 * differ in what counts one alone are alike but for numbers (fold.c). */
void dl_product_split(dl_emitter *e, const dl_number *n, const char *from);
void dl_product_split_all(dl_emitter *e, const dl_number *n, const char *from);
/* A bit for each counter that counts more than one or that a coordinate of the space is made of;
 * the same of those: what stands behind a contraction is alike for images of one position and of
 * many, for one tap and for several. `once`: by each thread. */
unsigned dl_product_asked(const dl_product *p, const dl_number *n);
void dl_product_split_asked(dl_emitter *e, const dl_product *p, const dl_number *n, bool once,
                            const char *from);
/* The struct <kernel>_unit: parities, products of a batch, and how many rows, columns and terms
 * there are. */
void dl_product_put_unit(dl_emitter *e, const dl_product *p);
/* "    <kernel>_unit u;", filled with what is left of `unit` beside tiles. */
void dl_product_unit(dl_emitter *e, const dl_product *p);
#endif
