/* A contraction's operands as plain matrices of memory, where they are such: library calls, tensor
 * maps and the choice of tiles ask for them. In: a product whose operands are found
 * (emit_tiles.h). */
#ifndef DL_CUDA_GEMM_MATRIX_H
#define DL_CUDA_GEMM_MATRIX_H
#include "compiler/cuda/emit_tiles.h"

/* Products that are cut into tiles, each by itself. */
int64_t dl_product_many(const dl_product *p);
/* Is it cut into tiles, whose rows, columns and terms are as many at each parity? */
bool dl_product_even(const dl_product *p);
/* The step of a number as a whole, by its counters' steps, where these follow each other without
 * gaps; -1: it has none. */
int64_t dl_number_step(const dl_number *n, const int64_t *step);
/* Is an operand a matrix of memory, or several, one for each of the batch, whose sizes do not vary?
 * And is a part of one, which has some of its channels? */
bool dl_product_matrix(const dl_product *p, const dl_operand *o, dl_matrix *to);
bool dl_product_matrix_of(const dl_product *p, const dl_operand *o, int part, dl_matrix *to);
#endif
