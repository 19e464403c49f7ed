/* This machine's ceilings as programs of a plan, so that they run on the same pool as what is
 * compared with them. */
#ifndef DL_PEAK_H
#define DL_PEAK_H
#include "compiler/target/target.h"
#include "ir/plan/plan.h"

/* A plan with the programs "flops" and "stream". One run of "flops" does *flops operations on
 * `threads` threads, multiply-adds of f32, or, where `products` is a type of 16 bits that the
 * target multiplies, its products; one of "stream" moves *bytes through memory. Errors as
 * dl_jit_compile. */
dl_plan *dl_peak_plan(dl_arena *parent, const dl_target *t, dl_dtype products, int threads,
                      double *flops, double *bytes, dl_error *err);
#endif
