/* A GPU's ceilings as programs of a plan, as compiler/cpu/peak.h has the CPU's. */
#ifndef DL_CUDA_PEAK_H
#define DL_CUDA_PEAK_H
#include "compiler/target/target.h"
#include "ir/plan/plan.h"

/* A plan with the programs "flops" and "stream". One run of "flops" does *flops operations in
 * products of bf16 on tensor cores (wgmma where there is one, else mma.sync); one of "stream" moves
 * *bytes through memory, of which the plan takes half a GiB. Errors: those of the backend's build.
 */
dl_plan *dl_cuda_peak_plan(dl_arena *parent, const dl_target *t, double *flops, double *bytes,
                           dl_error *err);
#endif
