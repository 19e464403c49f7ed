/* Coordinates of a GEMM as C text: splits an index of M, N, K or batch into the mode's
 * coordinates, and writes the struct <kernel>_item, with coordinates that all threads of a CTA
 * share. */
#ifndef DL_CUDA_GEMM_COORDINATES_H
#define DL_CUDA_GEMM_COORDINATES_H
#include "compiler/cuda/gemm_problem.h"

/* Is its extent 1, for every stride phase? */
static inline bool dl_mode_axis_is_point(const dl_mode_axis *c) { return c->size == 1 && !c->text; }
/* The taps of an operand that is an image; of others one. */
int64_t dl_operand_taps(const dl_gemm_problem *p, const dl_operand *o);
/* "        const int m0 = ...": the mode's coordinates at the C expression `from`. Text that one
 * thread per CTA runs, or usually none, has variables for all coordinates, so that GEMMs which
 * differ in coordinates of extent 1 have equal texts except for numbers (merge.c). */
void dl_gemm_delinearize(dl_emitter *e, const dl_mode *n, const char *from);
void dl_gemm_delinearize_all(dl_emitter *e, const dl_mode *n, const char *from);
/* A bit for each coordinate whose extent is not 1, or that a coordinate of the space depends on;
 * and the latter alone. So epilogues are equal for images of one position and of many, for one
 * tap and for several. `once`: by each thread. */
unsigned dl_gemm_used(const dl_gemm_problem *p, const dl_mode *n);
void dl_gemm_delinearize_used(dl_emitter *e, const dl_gemm_problem *p, const dl_mode *n, bool once,
                              const char *from);
/* The struct <kernel>_item: stride phases, batch coordinates, and the extents of M, N and K. */
void dl_gemm_put_item(dl_emitter *e, const dl_gemm_problem *p);
/* "    <kernel>_item u;", set from the part of `item` that does not count tiles. */
void dl_gemm_item(dl_emitter *e, const dl_gemm_problem *p);
#endif
