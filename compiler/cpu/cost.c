#include "compiler/cpu/operands.h"
#include "ir/base/cpus.h"

/* One thread's rates on a Zen 3 with two at work (`dlc bench` measures peak rates). */
static const double gflops_a_lane = 12.5, gbytes = 22, launch_us = 5;

double dl_cpu_predict(const dl_kernel *k, const dl_target *t) {
    int threads = dl_cpus_allowed();
    bool contraction = dl_kernel_anchor(k) >= 0 || dl_kernel_call(k);
    /* attention by AMX tiles still waits for its exponentials */
    bool tiles = t->tiles && !dl_kernel_call(k);
    /* The shares of the peak rates that kernels reach: convolutions of 64 or more channels 0.70
     * to 0.81, kernels that stream weights and optimiser state 0.68 to 0.75. */
    double lane = gflops_a_lane * (!dl_cpu_pairs(k, t) ? 1 : tiles ? 16 : 2);
    double arithmetic =
        (double)k->flops / (lane * t->lanes * threads * (contraction ? 0.75 : 0.15)) * 1e-3;
    double traffic = (double)k->bytes / (gbytes * threads * 0.7) * 1e-3;
    return (arithmetic > traffic ? arithmetic : traffic) + launch_us;
}
