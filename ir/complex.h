/* Products of complex numbers summed over axes (op `complex_contract`), for spectral weights: a, b
 * and the result end in the axis Z of complex numbers (ir/fourier.h), and in front of it in a batch
 * axis that all three have, such as the modes. Kernels have their lanes along that axis.
 *
 *   y[batch, rows, columns] = sum over terms of a'[batch, rows, terms] b'[batch, terms, columns]
 *
 * a' is a, or its conjugate where `conj` says so; likewise b'. Both gradients are the same op. */
#ifndef DL_COMPLEX_H
#define DL_COMPLEX_H
#include "ir/graph.h"

enum { DL_COMPLEX_A, DL_COMPLEX_B, DL_COMPLEX_Y, DL_COMPLEX_TENSORS };
/* Axes of one role with their strides in a, b and y, in complex numbers; 0: it has not the axis. */
typedef struct {
    int n;
    int64_t count; /* the product of the sizes */
    int64_t size[DL_MAX_RANK], stride[DL_COMPLEX_TENSORS][DL_MAX_RANK];
} dl_complex_axes;
typedef struct {
    int64_t lanes; /* the last batch axes, which are neighbours in a, b and y, as one; stride 1 */
    dl_complex_axes batch, rows, columns, terms; /* batch: the others */
    bool conj[2];
} dl_complex_contract;

/* The contraction of a valid node. */
dl_complex_contract dl_complex_contract_of(const dl_node *n);
/* The strides in a, b and y of element i along the axes. */
void dl_complex_offsets(const dl_complex_axes *axes, int64_t i, int64_t at[DL_COMPLEX_TENSORS]);
/* A complex multiply-add counts as 8. */
int64_t dl_complex_flops(const dl_node *n);
#endif
