/* The machine's peak rates, measured with the threads that a plan runs on: what its kernels
 * are held against. */
#ifndef DL_PEAK_RATES_H
#define DL_PEAK_RATES_H
#include "compiler/target/target.h"
#include "runtime/exec/exec.h"

typedef struct {
    double gflops, gbytes; /* the best so far, a second */
    dlr_exec *exec;
    double flops, bytes; /* of a round */
} dl_peak_rates;

/* Makes it ready for kernels of `plan`, made for `target`: gflops and gbytes are 0. On a CPU gflops
 * are those of f32, or, where the plan keeps weights in 16 bits, of their products. device: as
 * dlr_exec_options has it. Errors: DL_RESOURCE (no compiler, memory, threads or device), and what
 * else dl_peak_plan, dl_cuda_peak_plan and dlr_exec_open give. */
bool dl_peak_rates_open(dl_arena *arena, const dl_plan *plan, const dl_target *target,
                        const char *device, int threads, dl_peak_rates *peak_rates, dl_error *err);
/* The operations that `gflops` counts: "f32", or "products of bf16". */
const char *dl_peak_rates_counted(const dl_plan *plan);
/* Some rounds of each, a second or so in all. Errors: DL_RESOURCE (the device failed). */
bool dl_peak_rates_measure(dl_peak_rates *peak_rates, dl_error *err);
void dl_peak_rates_close(dl_peak_rates *peak_rates); /* zeroed is fine */
#endif
