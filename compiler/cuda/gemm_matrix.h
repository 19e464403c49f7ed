/* Operands that are plain matrices in memory: for library calls, TMA tiles and the choice of
 * tilings. In: a GEMM problem with its operands (gemm_problem.h). */
#ifndef DL_CUDA_GEMM_MATRIX_H
#define DL_CUDA_GEMM_MATRIX_H
#include "compiler/cuda/gemm_problem.h"

/* The number of GEMMs that are tiled separately. */
int64_t dl_gemm_batch(const dl_gemm_problem *p);
/* Is it tiled, with equal extents of M, N and K for each stride phase? */
bool dl_gemm_is_uniform(const dl_gemm_problem *p);
/* The stride of a mode's linear index, if its coordinates are contiguous by their strides; -1:
 * it has none. */
int64_t dl_mode_stride(const dl_mode *n, const int64_t *step);
/* Is an operand a matrix in memory, or a batch of matrices, of constant sizes? The same for a
 * part, which has some of its channels. */
bool dl_gemm_matrix(const dl_gemm_problem *p, const dl_operand *o, dl_matrix *to);
bool dl_gemm_matrix_of(const dl_gemm_problem *p, const dl_operand *o, int part, dl_matrix *to);
#endif
