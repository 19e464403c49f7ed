#include "compiler/cpu/operands.h"
#include "ir/base/cpus.h"

/* One thread's rates on a Zen 3 with two at work (`dlc bench` measures peak rates). */
static const double gflops_a_lane = 12.5, gbytes = 22, launch_us = 5;

/* One thread's time; `share`: of the arithmetic's peak rate. */
static double time_of(const dl_kernel *k, const dl_target *t, double share) {
    /* attention by AMX tiles still waits for its exponentials */
    bool tiles = t->tiles && !dl_kernel_call(k);
    double lane = gflops_a_lane * (!dl_cpu_pairs(k, t) ? 1 : tiles ? 16 : 2);
    double arithmetic = (double)k->flops / (lane * t->lanes * share) * 1e-3;
    double traffic = (double)k->bytes / (gbytes * 0.7) * 1e-3;
    return arithmetic > traffic ? arithmetic : traffic;
}

/* The shares of the peak rates that kernels reach: convolutions of 64 or more channels 0.70 to
 * 0.81, kernels that stream weights and optimiser state 0.68 to 0.75. */
static double share_of(const dl_kernel *k) {
    const dl_node *call = dl_kernel_call(k);
    if (call && call->op == DL_OP_fourier) return 0.2; /* few fused multiply-adds, many loads */
    return dl_kernel_anchor(k) >= 0 || call ? 0.75 : 0.15;
}

double dl_cpu_predict(const dl_kernel *k, const dl_target *t) {
    return time_of(k, t, share_of(k)) / dl_cpus_allowed() + launch_us;
}

/* A small reduction may go element by element, at 1 to 4 operations a nanosecond. */
double dl_cpu_serial(const dl_kernel *k, const dl_target *t) {
    bool reduces = dl_kernel_anchor(k) < 0 && !dl_kernel_call(k) && dl_kernel_reductions(k) > 0;
    return time_of(k, t, reduces ? 1 / (gflops_a_lane * t->lanes) : share_of(k));
}
