/* What the machine can do at most, measured with the threads that a plan runs on: what its kernels are held
 * against. */
#ifndef DL_CEILINGS_H
#define DL_CEILINGS_H
#include "compiler/target.h"
#include "runtime/exec.h"

typedef struct {
    double gflops, gbytes; /* the best so far, a second */
    dlr_exec *exec;
    double flops, bytes; /* of a round */
} dl_ceilings;

/* Makes it ready: gflops and gbytes are 0. Errors: DL_RESOURCE (a target whose ceilings are not measured; no
 * compiler, memory or threads), and what else dl_peak_plan gives. */
bool dl_ceilings_open(dl_arena *arena, const dl_target *target, int threads, dl_ceilings *ceilings,
                      dl_error *err);
/* Some rounds of each, a second or so in all. */
void dl_ceilings_measure(dl_ceilings *ceilings);
void dl_ceilings_close(dl_ceilings *ceilings); /* zeroed is fine */
#endif
