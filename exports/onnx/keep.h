/* The composite ops that have an op of ONNX, and are exported before `lower` decomposes them. */
#ifndef DL_ONNX_KEEP_H
#define DL_ONNX_KEEP_H
#include "ir/graph.h"

/* For dl_pass_ctx. ONNX Runtime's CPU provider has some ops for f32 alone; ops of 16 bits are
 * lowered, because `lower` computes them in f32. */
bool dl_onnx_keeps(const dl_node *n);
/* Padding after the i-th spatial axis of a pool, in which its last window ends. */
int64_t dl_onnx_pool_end(const dl_node *n, int i);
/* Do all spatial axes of the result divide the operand's (adaptive pooling), or the operand's the
 * result's (upsampling)? */
bool dl_onnx_divides(const dl_node *n);
#endif
