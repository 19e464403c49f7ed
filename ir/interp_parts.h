/* The interpreter's own header; the interface is interp.h. */
#ifndef DL_INTERP_PARTS_H
#define DL_INTERP_PARTS_H
#include "ir/interp.h"

/* A contraction on row-major operands as the op takes them, into a row-major result. interp_conv.c */
void dl_interp_conv(const dl_extents *e, const double *a, const double *b, double *result);

/* A fused kernel on its parameters' data, inputs then outputs. interp_kernel.c */
void dl_interp_kernel(const dl_kernel *k, double *const *data, bool round);

/* What a reduction starts from. */
double dl_interp_identity(dl_op op);
#endif
