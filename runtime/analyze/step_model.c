#include "runtime/analyze/step_model.h"

double dl_collective_us(const dl_plan_collective *c, const dl_network *n) {
    if (c->op == DL_OP_shift && c->ranks > 1) /* one message, from each to the next */
        return n->latency_us + (double)(dl_plan_elements_from(c) * dl_dtype_bytes(c->dtype)) /
                                   (n->bandwidth_gbs * 1e3);
    double bytes = (double)(c->outer * c->size * c->inner * dl_dtype_bytes(c->dtype));
    double others = c->ranks - 1, phases = c->op == DL_OP_all_reduce ? 2 : 1;
    double sent = bytes * others / c->ranks;
    return others > 0 ? phases * (others * n->latency_us + sent / (n->bandwidth_gbs * 1e3)) : 0;
}

dl_scaled dl_scale_program(const dl_plan_program *p, const double *launch_us,
                           const dl_network *network) {
    dl_arena *arena = dl_arena_new(NULL);
    double *done = DL_NEWS(arena, double, p->collectives.n + 1), now = 0, busy_until = 0;
    dl_scaled s = {.collectives = p->collectives.n};
    for (int i = 0; i < dl_plan_nsteps(p); i++) {
        dl_plan_step step = dl_plan_step_at(p, i);
        const dl_plan_collective *c =
            step.kind == DL_STEP_LAUNCH ? NULL : &p->collectives.at[step.number];
        if (!c) {
            now += launch_us[step.number], s.compute_ms += launch_us[step.number] * 1e-3;
        } else if (step.kind == DL_STEP_START) {
            double us = dl_collective_us(c, network);
            busy_until = done[step.number] = (busy_until > now ? busy_until : now) + us;
            s.network_ms += us * 1e-3,
                s.bytes += dl_plan_elements_from(c) * dl_dtype_bytes(c->dtype);
        } else if (done[step.number] > now) {
            s.exposed_ms += (done[step.number] - now) * 1e-3, now = done[step.number];
        }
    }
    s.step_ms = now * 1e-3;
    dl_arena_free(arena);
    return s;
}
