#include "runtime/analyze/plan_text.h"

static void put_launch(dl_buf *b, const dl_plan *p, const dl_plan_program *g, int i) {
    const dl_plan_kernel *k = &p->kernels.at[g->launches.at[i].kernel];
    dl_putf(b, "  %3d @%-10s %9.2f MFLOP %9.2f MiB %8.3f ms predicted, %6lld items  %s\n", i,
            k->name, (double)k->flops * 1e-6, (double)k->bytes / 0x1p20, k->predicted_us * 1e-3,
            (long long)k->items[0], k->where);
}

/* The bytes are those of the whole tensor, of a shift those that go round. */
static void put_collective(dl_buf *b, const dl_plan_collective *c, bool begins) {
    int64_t whole = c->size * c->outer * c->inner;
    double bytes = (double)((c->op == DL_OP_shift ? dl_plan_elements_from(c) : whole) *
                            dl_dtype_bytes(c->dtype));
    dl_putf(b, "      %s %s over %s", begins ? "begin" : "wait for", dl_ops[c->op].name, c->group);
    if (begins)
        dl_putf(b, ", %d ranks: %.2f MiB at %lld", c->ranks, bytes / 0x1p20, (long long)c->to);
    dl_puts(b, " of "), dl_plan_put_of(b, c);
    dl_putf(b, "  %s\n", c->where);
}

void dl_put_plan(dl_buf *b, const dl_plan *p) {
    for (int g = 0; g < p->programs.n; g++) {
        const dl_plan_program *program = &p->programs.at[g];
        dl_putf(b, "program %s\n", program->name);
        for (int i = 0; i < dl_plan_nsteps(program); i++) {
            dl_plan_step s = dl_plan_step_at(program, i);
            if (s.kind == DL_STEP_LAUNCH)
                put_launch(b, p, program, s.number);
            else
                put_collective(b, &program->collectives.at[s.number], s.kind == DL_STEP_START);
        }
    }
}
