#include "programs/ceilings.h"

#include <string.h>

#include "compiler/cpu/peak.h"
#include "ir/base/clock.h"

enum { ROUNDS = 5 };

bool dl_ceilings_open(dl_arena *arena, const dl_target *target, int threads, dl_ceilings *c, dl_error *err) {
    *c = (dl_ceilings){0};
    if (strncmp(target->name, "cpu:", 4) != 0)
        return dl_fail(err, DL_RESOURCE, "ceilings of %s are not measured in this version", target->name);
    dl_plan *plan = dl_peak_plan(arena, target, threads, &c->flops, &c->bytes, err);
    c->exec = plan ? dlr_exec_open(plan, (dlr_exec_options){.threads = threads}, err) : NULL;
    return c->exec != NULL;
}

static void time_program(dlr_exec *exec, int program, double work, double *best) {
    double ms = dl_clock_ms();
    dlr_exec_run(exec, program, NULL);
    ms = dl_clock_ms() - ms;
    if (work / ms * 1e-6 > *best) *best = work / ms * 1e-6;
}

/* Best rate of some rounds: a ceiling is what the machine can do, not what it did beside its neighbours. */
void dl_ceilings_measure(dl_ceilings *c) {
    for (int i = 0; i < ROUNDS; i++) {
        time_program(c->exec, 0, c->flops, &c->gflops);
        time_program(c->exec, 1, c->bytes, &c->gbytes);
    }
}

void dl_ceilings_close(dl_ceilings *c) {
    dlr_exec_close(c->exec);
    c->exec = NULL;
}
