#include "compiler/cpu/operands.h"
#include "ir/base/cpus.h"

/* What a thread of a Zen 3 reaches, two at work (`dlc bench` measures both ceilings). */
static const double gflops_a_lane = 12.5, gbytes = 22, launch_us = 5;

double dl_cpu_predict(const dl_kernel *k, const dl_target *t) {
    int threads = dl_cpus_allowed();
    bool contraction = dl_kernel_anchor(k) >= 0 || dl_kernel_call(k);
    bool tiles =
        t->tiles && !dl_kernel_call(k); /* attention by them still waits for its exponentials */
    /* Shares of the ceilings there: convolutions of 64 channels and more 0.70 to 0.81 alone on a
     * core, kernels that stream weights and moments 0.68 to 0.75. */
    double lane = gflops_a_lane * (!dl_cpu_pairs(k, t) ? 1 : tiles ? 16 : 2);
    double arithmetic =
        (double)k->flops / (lane * t->lanes * threads * (contraction ? 0.75 : 0.15)) * 1e-3;
    double traffic = (double)k->bytes / (gbytes * threads * 0.7) * 1e-3;
    return (arithmetic > traffic ? arithmetic : traffic) + launch_us;
}
