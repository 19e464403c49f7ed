/* The machine's peak rates, measured with the threads that a plan runs on. Profiles and `dlc bench`
 * compare kernels with them. */
#ifndef DL_PEAK_RATES_H
#define DL_PEAK_RATES_H
#include "compiler/target/target.h"
#include "runtime/exec/exec.h"

typedef struct {
    double gflops, gbytes; /* the best so far, a second */
    dlr_exec *exec;
    double flops, bytes; /* of a round */
} dl_peak_rates;

/* Opens the programs that measure, for the kernels of `plan`, which was compiled for `target`;
 * gflops and gbytes are 0 until a measurement. On a CPU, gflops count f32 operations, or products
 * of 16-bit numbers where the plan keeps 16-bit copies of weights. device: as in dlr_exec_options.
 * Errors: DL_RESOURCE (no compiler, memory, threads or device), and those of dl_peak_plan,
 * dl_cuda_peak_plan and dlr_exec_open. */
bool dl_peak_rates_open(dl_arena *arena, const dl_plan *plan, const dl_target *target,
                        const char *device, int threads, dl_peak_rates *peak_rates, dl_error *err);
/* The operations that `gflops` counts: "f32", or "products of bf16". */
const char *dl_peak_rates_counted(const dl_plan *plan);
/* Measures several rounds of each rate, half a second in all (one round with DLR_DEBUG=brief);
 * keeps the maximum. Errors: DL_RESOURCE (the device failed). */
bool dl_peak_rates_measure(dl_peak_rates *peak_rates, dl_error *err);
void dl_peak_rates_close(dl_peak_rates *peak_rates); /* zeroed is fine */
#endif
