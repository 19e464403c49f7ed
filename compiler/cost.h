/* What a kernel should take: the roofline of a stated machine. */
#ifndef DL_COST_H
#define DL_COST_H
#include "compiler/target.h"
#include "ir/kernel.h"

/* Predicted time of one run of a kernel with as many threads as this process may use: the larger of
 * arithmetic and traffic, each at the share of its ceiling that kernels of this kind reach, plus the launch.
 * Microseconds. */
double dl_predict_us(const dl_kernel *k, const dl_target *t);
#endif
