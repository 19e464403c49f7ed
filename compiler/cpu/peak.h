/* This machine's peak rates as programs of a plan, so that they run on the same thread pool as
 * the programs that are compared with them. */
#ifndef DL_PEAK_H
#define DL_PEAK_H
#include "compiler/target/target.h"
#include "ir/plan/plan.h"

/* A plan with the programs "flops" and "stream". One run of "flops" does *flops operations on
 * `threads` threads: multiply-adds of f32, or of `products`, a 16-bit type that the target
 * multiplies. One run of "stream" moves *bytes through memory. Errors as dl_jit_compile. */
dl_plan *dl_peak_plan(dl_arena *parent, const dl_target *t, dl_dtype products, int threads,
                      double *flops, double *bytes, dl_error *err);
#endif
