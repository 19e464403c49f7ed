#include "compiler/cost.h"

#include <sched.h>

/* Stand-in rates per thread until `dlc bench` has measured this machine. */
static dl_machine rates;

const dl_machine *dl_machine_rates(const dl_target *t) {
    if (!rates.threads) {
        cpu_set_t set;
        int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        rates = (dl_machine){.threads = n, .gflops = 16.0 * t->lanes * n, .gbytes = 20.0 * n, .launch_us = 5};
    }
    return &rates;
}

double dl_predict_us(const dl_kernel *k, const dl_target *t) {
    const dl_machine *m = dl_machine_rates(t);
    bool contraction = dl_kernel_anchor(k) >= 0;
    double arithmetic = (double)k->flops / (m->gflops * (contraction ? 0.75 : 0.15)) * 1e-3;
    double traffic = (double)k->bytes / (m->gbytes * 0.8) * 1e-3;
    return (arithmetic > traffic ? arithmetic : traffic) + m->launch_us;
}
