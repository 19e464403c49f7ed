/* Kernels without a contraction: emits their loop nests as phases. Those that do not depend
 * on each other are one phase: the first one's CTAs, then the next one's. */
#include "compiler/codegen/finalize.h"
#include "compiler/cuda/emit_loops.h"

bool dl_cuda_runs_loop_nests(dl_emitter *e, dl_emitted *code) {
    dl_emit_find_kept(e, code);
    for (int i = 0; i < e->nests.n; i++)
        if (!e->nests.at[i].finalize && e->nests.at[i].row &&
            !dl_cuda_can_be_resident(e, &e->nests.at[i]))
            return false;
    return e->nests.valid;
}

bool dl_cuda_put_phase(dl_emitter *e, dl_emitted *code, dl_buf *body, int64_t items, int64_t shared,
                       bool moves, dl_error *err) {
    bool ok = dl_cuda_head(e, code, items, DL_BLOCK, shared, err);
    if (ok) {
        dl_putf(e->out, "    %s%s item = %s;\n", moves ? "" : "const ", e->dialect->index,
                e->fused_part ? "block" : "kd_block()");
        dl_putn(e->out, body->at, body->n);
        dl_cuda_foot(e, code, 1);
    }
    dl_buf_free(body);
    return ok;
}

/* Loop nests [from, to). */
static bool put_phase(dl_emitter *e, int from, int to, dl_emitted *code, dl_error *err) {
    dl_buf text = {0}, *out = e->out;
    int64_t items = 0, most = 0;
    e->out = &text;
    for (int i = from; i < to; i++) {
        dl_buf body = {0};
        int64_t shared = 0, n;
        e->out = &body, e->now = &e->nests.at[i], e->coordinates = 0;
        n = e->now->finalize ? dl_emit_finalize(e, DL_BLOCK)
            : e->now->row    ? dl_cuda_resident(e, code, &shared)
                             : dl_cuda_points(e, code);
        e->out = &text;
        if (i + 1 < to)
            dl_putf(&text, "    if (item < $%lld%s$) {\n", (long long)n, e->dialect->whole);
        dl_putn(&text, body.at, body.n);
        if (i + 1 < to)
            dl_putf(&text, "    return;\n    }\n    item -= $%lld%s$;\n", (long long)n,
                    e->dialect->whole);
        dl_buf_free(&body);
        items += n, most = shared > most ? shared : most;
    }
    e->out = out;
    return dl_cuda_put_phase(e, code, &text, items, most, to - from > 1, err);
}

bool dl_cuda_loop_nests(dl_emitter *e, dl_emitted *code, dl_error *err) {
    e->resident = 2; /* otherwise the compiler spills a few registers for one more CTA */
    code->needs[DL_NEED_LOOPS] = 1;
    return dl_cuda_runs_loop_nests(e, code) ? dl_cuda_phases(e, 0, code, err)
                                            : dl_emit_refuse_schedule(e->k, err);
}

bool dl_cuda_phases(dl_emitter *e, int from, dl_emitted *code, dl_error *err) {
    for (int to; from < e->nests.n; from = to) {
        to = dl_loop_nests_independent(&e->nests, from);
        if (!put_phase(e, from, to, code, err)) return false;
    }
    return true;
}
