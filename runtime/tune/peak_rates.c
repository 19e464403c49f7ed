#include "runtime/tune/peak_rates.h"

#include "compiler/cpu/peak.h"
#include "compiler/cuda/peak.h"
#include "runtime/base/debug.h"

enum { ROUNDS = 5, MOST_LAUNCHES = 16 };

/* The type that most of the plan's products are of. */
static dl_dtype products_of(const dl_plan *p) {
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].role == DL_VAR_COPY) return p->vars.at[i].type.dtype;
    return DL_F32;
}

const char *dl_peak_rates_counted(const dl_plan *p) {
    bool cpu = !dl_target_is_gpu(p->target);
    return cpu && products_of(p) == DL_F32 ? "f32" : "products of bf16";
}

bool dl_peak_rates_open(dl_arena *arena, const dl_plan *of, const dl_target *target,
                        const char *device, int threads, dl_peak_rates *c, dl_error *err) {
    *c = (dl_peak_rates){0};
    bool cpu = !dl_target_is_gpu(target->name);
    dl_plan *plan =
        cpu ? dl_peak_plan(arena, target, products_of(of), threads, &c->flops, &c->bytes, err)
            : dl_cuda_peak_plan(arena, target, &c->flops, &c->bytes, err);
    c->exec =
        plan ? dlr_exec_open(plan, (dlr_exec_options){.threads = threads, .device = device}, err)
             : NULL;
    return c->exec != NULL;
}

static void time_program(dlr_exec *exec, int program, double work, double *best) {
    int64_t launch_ns[MOST_LAUNCHES] = {0}, all = 0;
    dlr_exec_run(exec, program, launch_ns);
    for (int i = 0; i < MOST_LAUNCHES; i++) all += launch_ns[i];
    if (all > 0 && work / (double)all > *best)
        *best = work / (double)all; /* a nanosecond: 1e9 a second */
}

/* Best rate of some rounds: a ceiling is what the machine can do, not its rate among its
 * neighbours. */
bool dl_peak_rates_measure(dl_peak_rates *c, dl_error *err) {
    const int rounds = dlr_debugs("brief") ? 1 : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        time_program(c->exec, 0, c->flops, &c->gflops);
        time_program(c->exec, 1, c->bytes, &c->gbytes);
    }
    return dlr_exec_check(c->exec, err);
}

void dl_peak_rates_close(dl_peak_rates *c) {
    dlr_exec_close(c->exec);
    c->exec = NULL;
}
