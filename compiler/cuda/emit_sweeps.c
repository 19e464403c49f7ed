/* Kernels without a contraction: which sweeps they become, and these as phases. Sweeps that do not wait for
 * each other are one phase, whose blocks are the first one's, then the next one's. */
#include "compiler/cuda/emit_loops.h"

enum {
    KEPT_ENOUGH = 4096,   /* kept points, a row of terms each: they need no partial results */
    ACROSS_TERMS = 512,   /* of a row whose neighbours in memory are others': a thread goes over it alone */
    ALONG_TERMS = 1 << 14 /* of any other: a group of threads does */
};

/* The row of a kernel whose reductions each kept point should do by itself: all are over the same axes, and
 * there are enough of them for all of a GPU. 0: none. */
static unsigned find_within(dl_emitter *e) {
    const dl_kernel *k = e->k;
    unsigned row = 0, all = 0;
    int inner = dl_kernel_inner(k);
    for (int i = 0; i < k->nspace; i++) all |= k->space[i].size != 1 ? 1u << i : 0;
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i].alias >= 0) return 0; /* whose old values other points may read */
    for (int i = 0; i < k->instrs.n; i++) {
        if (e->steps[i].kind != DL_K_REDUCE) continue;
        if (row && e->steps[i].over != row) return 0;
        row = e->steps[i].over;
    }
    int64_t terms = dl_axes_points(k->nspace, k->space, row),
            kept = dl_axes_points(k->nspace, k->space, all & ~row);
    bool across = inner >= 0 && !(row >> inner & 1);
    if (!row || terms > (across ? ACROSS_TERMS : ALONG_TERMS) || kept < KEPT_ENOUGH) return 0;
    dl_sweeps s = dl_find_sweeps(e->arena, k->instrs.n, e->steps, row);
    return s.valid && s.n == 1 ? row : 0;
}

/* Sets the sweeps by a row. False: some of them cannot be emitted. */
static bool try_row(dl_emitter *e, unsigned row, dl_emitted *code) {
    e->sweeps = dl_find_sweeps(e->arena, e->k->instrs.n, e->steps, row);
    code->workspace = 0; /* of the row that was tried before */
    dl_emit_find_kept(e, code);
    for (int i = 0; i < e->sweeps.n; i++)
        if (!e->sweeps.at[i].behind && e->sweeps.at[i].row && !dl_cuda_has_rows(e, &e->sweeps.at[i]))
            return false;
    return e->sweeps.valid;
}

/* Sweeps [from, to). */
static bool put_phase(dl_emitter *e, int from, int to, dl_emitted *code, dl_error *err) {
    dl_buf text = {0}, *out = e->out;
    const char *index = e->dialect->index;
    int64_t units = 0, most = 0;
    e->out = &text;
    for (int i = from; i < to; i++) {
        dl_buf body = {0};
        int64_t shared = 0, n;
        e->out = &body, e->now = &e->sweeps.at[i];
        n = e->now->behind ? dl_cuda_behind(e)
            : e->now->row  ? dl_cuda_rows(e, code, &shared)
                           : dl_cuda_points(e, code);
        if (i + 1 < to) dl_putf(&text, "    if (unit < %lld%s) {\n", (long long)n, e->dialect->whole);
        dl_putn(&text, body.at, body.n);
        if (i + 1 < to)
            dl_putf(&text, "    return;\n    }\n    unit -= %lld%s;\n", (long long)n, e->dialect->whole);
        dl_buf_free(&body);
        units += n, most = shared > most ? shared : most;
    }
    e->out = out;
    bool ok = dl_cuda_head(e, code, units, DL_BLOCK, most, err);
    if (ok) {
        dl_putf(e->out, "    %s%s unit = (%s)blockIdx.x;\n", to - from > 1 ? "" : "const ", index, index);
        dl_putn(e->out, text.at, text.n);
        dl_cuda_foot(e);
    }
    dl_buf_free(&text);
    return ok;
}

bool dl_cuda_sweeps(dl_emitter *e, dl_emitted *code, dl_error *err) {
    e->resident = 2; /* else the compiler spills a few registers for a block more */
    unsigned row = find_within(e);
    code->needs[DL_NEED_SWEEPS] = 1;
    if (!row || !try_row(e, row, code)) {
        row = dl_choose_row(e->arena, e->k->instrs.n, e->steps, e->k->nspace, e->k->space,
                            dl_kernel_inner(e->k));
        if (!try_row(e, row, code)) try_row(e, 0, code);
    }
    return dl_cuda_phases(e, 0, code, err);
}

bool dl_cuda_phases(dl_emitter *e, int from, dl_emitted *code, dl_error *err) {
    for (int to; from < e->sweeps.n; from = to) {
        to = dl_sweeps_beside(&e->sweeps, from);
        if (!put_phase(e, from, to, code, err)) return false;
    }
    return true;
}
