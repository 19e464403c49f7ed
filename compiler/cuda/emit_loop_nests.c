/* Kernels without a contraction: chooses their sweeps and emits them as phases. Sweeps that do
 * not depend on each other are one phase: the first one's CTAs, then the next one's. */
#include "compiler/cuda/emit_loops.h"

enum {
    STRIDED_TERMS = 512,       /* terms of a strided row that a thread loops over alone */
    CONTIGUOUS_TERMS = 1 << 14 /* terms of any other, for a lane group */
};

/* Schedules the kernel with a resident row. False: some sweep cannot be emitted. */
static bool try_row(dl_emitter *e, const dl_kernel *k, unsigned row, dl_emitted *code) {
    dl_emit_by_row(e, k, row);
    code->workspace = 0; /* set by the row that was tried before */
    dl_emit_find_kept(e, code);
    for (int i = 0; i < e->sweeps.n; i++)
        if (!e->sweeps.at[i].finalize && e->sweeps.at[i].row &&
            !dl_cuda_can_be_resident(e, &e->sweeps.at[i]))
            return false;
    return e->sweeps.valid;
}

/* Sweeps [from, to). */
static bool put_phase(dl_emitter *e, int from, int to, dl_emitted *code, dl_error *err) {
    dl_buf text = {0}, *out = e->out;
    const char *index = e->dialect->index;
    int64_t items = 0, most = 0;
    e->out = &text;
    for (int i = from; i < to; i++) {
        dl_buf body = {0};
        int64_t shared = 0, n;
        e->out = &body, e->now = &e->sweeps.at[i], e->coordinates = 0;
        n = e->now->finalize ? dl_cuda_finalize(e)
            : e->now->row    ? dl_cuda_resident(e, code, &shared)
                             : dl_cuda_points(e, code);
        e->out = &text;
        if (i + 1 < to)
            dl_putf(&text, "    if (item < $%lld%s$) {\n", (long long)n, e->dialect->whole);
        dl_cuda_put_point_axes(e, e->now->finalize ? e->now->axes : e->now->axes | e->now->row);
        dl_putn(&text, body.at, body.n);
        if (i + 1 < to)
            dl_putf(&text, "    return;\n    }\n    item -= $%lld%s$;\n", (long long)n,
                    e->dialect->whole);
        dl_buf_free(&body);
        items += n, most = shared > most ? shared : most;
    }
    e->out = out;
    bool ok = dl_cuda_head(e, code, items, DL_BLOCK, most, err);
    if (ok) {
        dl_putf(e->out, "    %s%s item = %s;\n", to - from > 1 ? "" : "const ", index,
                e->fused_part ? "block" : "kd_block()");
        dl_putn(e->out, text.at, text.n);
        dl_cuda_foot(e, code, 1);
    }
    dl_buf_free(&text);
    return ok;
}

bool dl_cuda_sweeps(dl_emitter *e, dl_emitted *code, dl_error *err) {
    e->resident = 2; /* otherwise the compiler spills a few registers for one more CTA */
    code->needs[DL_NEED_SWEEPS] = 1;
    if (dl_cuda_find_per_thread(e)) {
        e->dialect = dl_cuda_dialect(e->k, e->per_thread);
        dl_emit_find_kept(e, code);
        return dl_cuda_phases(e, 0, code, err);
    }
    const dl_kernel *k = e->k;
    const dl_step *steps = e->steps;
    unsigned row = dl_row_within(k, steps, e->arena, CONTIGUOUS_TERMS, STRIDED_TERMS);
    if (!row || !try_row(e, k, row, code)) {
        row = dl_choose_row(e->arena, k->instrs.n, steps, k->nspace, k->space, dl_kernel_inner(k));
        if (!try_row(e, k, row, code)) try_row(e, k, 0, code);
    }
    return dl_cuda_phases(e, 0, code, err);
}

bool dl_cuda_phases(dl_emitter *e, int from, dl_emitted *code, dl_error *err) {
    for (int to; from < e->sweeps.n; from = to) {
        to = dl_loop_nests_independent(&e->sweeps, from);
        if (!put_phase(e, from, to, code, err)) return false;
    }
    return true;
}
