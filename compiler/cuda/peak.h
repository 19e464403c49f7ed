/* A GPU's peak rates as programs of a plan, as in compiler/cpu/peak.h. */
#ifndef DL_CUDA_PEAK_H
#define DL_CUDA_PEAK_H
#include "compiler/target/target.h"
#include "ir/plan/plan.h"

/* A plan with the programs "flops" and "stream". One run of "flops" does *flops operations in
 * bf16 products on tensor cores (wgmma where available, else mma.sync); one run of "stream"
 * moves *bytes through memory, for which the plan takes half a GiB. Errors: those of the
 * backend's build. */
dl_plan *dl_cuda_peak_plan(dl_arena *parent, const dl_target *t, double *flops, double *bytes,
                           dl_error *err);
#endif
