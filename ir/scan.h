/* Linear scans along one axis, the T steps of a first-order linear recurrence:
 *
 *   h[t] = a[t] h[t-1] + b[t],  h[first] = b[first]
 *
 * Without a, it is 1: a cumulative sum. With b of one element, the first, it is a cumulative
 * product. Exponential averages, discounted sums and the selective scan of Mamba (Gu and Dao 2023)
 * are scans, too. `reverse`: steps run from the last element to the first.
 *
 * Ops of the language are cumsum, cumprod and linear_scan; all are lowered to the template
 * `scan_linear`. It takes the steps one after the other, with lanes and threads along the other
 * axes: time and memory are linear, and no product of factors is formed that could overflow where
 * the states do not. States are f32 with 16-bit operands.
 *
 * `mode` names the step whose factor multiplies the state before: `own`, as above, or `before`,
 * a[t-1]. The gradient by b is a scan of dy in the other direction, whose step t needs the factor
 * of step t + 1, so that each mode is the other's gradient without a copy of a:
 *
 *   g[t] = dy[t] + a[t+1] g[t+1],  db[t] = g[t],  da[t] = g[t] h[t-1]
 *
 * It divides by nothing: gradients of products are right at zeros, and may be differentiated. */
#ifndef DL_SCAN_H
#define DL_SCAN_H
#include "ir/graph.h"

/* Operands of `scan_linear`, without factors or with them; both have the result's type. */
enum { DL_SCAN_B, DL_SCAN_A };

typedef struct {
    bool has_factors, reverse, before; /* before: mode `before` */
    int64_t outer, steps, inner;       /* elements in front of the axis, along it, after it */
} dl_scan;
/* The scan of a valid `scan_linear`. */
dl_scan dl_scan_of(const dl_node *n);
/* Does it go from the last step to the first? Of the composites, too, which may leave it out. */
bool dl_scan_is_reverse(const dl_node *n);
/* A step is a multiply-add, or without factors an addition. */
int64_t dl_scan_flops(const dl_node *n);
#endif
