/* Reductions over all points of a sweep: each unit of work leaves partial results in the workspace, which the
 * sweep behind combines in the order of units; what later sweeps read stays there. And the phases that a
 * kernel's sweeps become. */
#include "compiler/cpu/emit_cpu.h"

/* The axes of `axes` in the order of `order`. */
static int sort_axes(unsigned axes, int norder, const int *order, int *to) {
    int n = 0;
    for (int i = 0; i < norder; i++)
        if (axes >> order[i] & 1) to[n++] = order[i];
    return n;
}

int64_t dl_emit_find_partial(dl_emitter *e, int norder, const int *order) {
    int64_t all = 0;
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (e->steps[number].kind != DL_K_REDUCE || (e->now->row && e->steps[number].over == e->now->row))
            continue;
        dl_partial *p = &e->partial[number];
        p->n = sort_axes(e->steps[number].axes, norder, order, p->axis);
        p->count = dl_axes_points(e->k->nspace, e->k->space, e->steps[number].axes);
        if (!p->n && e->mode == DL_LANES) p->count = e->t->lanes;
        p->at = all, all += p->count;
    }
    return all;
}

void dl_emit_sums(dl_emitter *e, const dl_sharing *s, dl_emitted *code) {
    int64_t all = 0;
    for (int i = 0; i < e->now->run.n; i++) all += e->partial[e->now->run.at[i]].count;
    dl_putf(e->out, "    double *sums = (double *)(workspace + %lldL) + %s * %lldL;\n    (void)sums;\n",
            (long long)code->workspace, s->unit, (long long)all);
    for (int i = 0; i < e->now->run.n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[e->now->run.at[i]];
        dl_partial *p = &e->partial[e->now->run.at[i]];
        if (!p->count) continue;
        p->base = code->workspace, p->units = s->units, p->all = all;
        const char *to = s->to ? s->to : dl_format(e->arena, "%lldL", (long long)p->count);
        dl_putf(e->out, "    for (long i = %s; i < %s; i++) ((%s *)sums)[%lldL + i] = %s;\n",
                s->from ? s->from : "0", to, dl_emit_partial_type(in), (long long)p->at, dl_emit_start(in));
    }
    code->workspace += all * s->units * (int64_t)sizeof(double);
}

void dl_emit_unit_sums(dl_emitter *e, int64_t units, dl_emitted *code) {
    dl_emit_sums(e, &(dl_sharing){.units = units, .unit = "unit"}, code);
}

void dl_emit_sweep_head(dl_emitter *e) {
    dl_putf(e->out,
            "%s%svoid %s(char *const *arg, long unit, char *scratch, char *workspace) {\n    (void)arg, "
            "(void)scratch, (void)workspace;\n",
            e->now->behind || dl_emit_is_plain(e, e->now) ? "" : "WARM ", e->alone ? "" : "static ", e->name);
}

/* v<number> of the partial results of all units, in their order. */
static void put_combination(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    const dl_partial *p = &e->partial[number];
    const char *type = dl_emit_partial_type(in);
    dl_putf(e->out, "    %s t%d = %s;\n    for (long u = 0; u < %lldL; u++)\n", type, number,
            dl_emit_start(in), (long long)p->units);
    if (!p->n) dl_putf(e->out, "        for (long j = 0; j < %lldL; j++)\n", (long long)p->count);
    dl_putf(e->out, "        {\n            %s one = ((const %s *)(workspace + %lldL))[u * %lldL + %lldL + ",
            type, type, (long long)p->base, (long long)p->all, (long long)p->at);
    dl_emit_number(e, p->n, p->axis);
    dl_puts(e->out, p->n ? "];\n" : " + j];\n");
    if (in->op == DL_OP_sum)
        dl_putf(e->out, "            t%d += one;\n", number);
    else
        dl_putf(e->out, "            t%d = %s(t%d, one);\n", number, dl_emit_combine(in), number);
    dl_cast c = dl_emit_rounding(DL_SINGLE, in->type, true);
    if (!*c.open) c.open = dl_format(e->arena, "(%s)", dl_emit_type(e, in->type));
    dl_putf(e->out, "        }\n    %s v%d = %st%d%s;\n    (void)v%d;\n", dl_emit_type(e, in->type), number,
            c.open, number, c.close, number);
}

/* One value at a time: it is small. */
int64_t dl_emit_behind(dl_emitter *e, const dl_sweep *s) {
    enum { CHUNK = 256 };
    const dl_kernel *k = e->k;
    const dl_partial *lead = &e->partial[s->combined.at[0]];
    int64_t points = dl_axes_points(k->nspace, k->space, s->axes), stride = points;
    e->now = s, e->mode = DL_SINGLE, e->flat = false, e->lane_axis = -1;
    dl_emit_sweep_head(e);
    dl_putf(e->out, "    for (long at = unit * %d; at < (unit + 1) * %d && at < %lldL; at++) {\n", CHUNK,
            CHUNK, (long long)points);
    for (int i = 0; i < k->nspace; i++)
        if (!(s->axes >> i & 1)) dl_putf(e->out, "    const long x%d = 0;\n    (void)x%d;\n", i, i);
    for (int i = 0; i < lead->n; i++) {
        int64_t size = k->space[lead->axis[i]].size;
        stride /= size ? size : 1;
        dl_putf(e->out, "    const long x%d = at / %lldL %% %lldL;\n    (void)x%d;\n", lead->axis[i],
                (long long)stride, (long long)(size ? size : 1), lead->axis[i]);
    }
    for (int i = 0; i < s->combined.n; i++) put_combination(e, s->combined.at[i]);
    dl_emit_run_behind(e);
    dl_puts(e->out, "    }\n}\n");
    return dl_ceil_div(points, CHUNK);
}

static int64_t put_sweep(dl_emitter *e, const dl_sweep *s, dl_emitted *code) {
    e->now = s;
    return s->behind ? dl_emit_behind(e, s) : s->row ? dl_emit_rows(e, code) : dl_emit_points(e, code);
}

/* Sweeps [from, to), which do not wait for each other, as one phase. */
static void put_phase(dl_emitter *e, int from, int to, dl_emitted *code) {
    int phase = code->phases++;
    dl_buf units = {0};
    e->alone = to - from == 1;
    for (int i = from; i < to; i++) {
        dl_buf name = {0};
        dl_putf(&name, e->alone ? "%s_%d" : "%s_%d_%d", e->k->name, phase, i - from);
        e->name = dl_strdup(e->arena, name.at);
        dl_buf_free(&name);
        int64_t n = put_sweep(e, &e->sweeps.at[i], code);
        dl_putf(
            &units,
            "    if (unit < %lldL) {\n        %s(arg, unit, scratch, workspace);\n        return;\n    }\n",
            (long long)n, e->name);
        dl_putf(&units, "    unit -= %lldL;\n", (long long)n);
        code->units[phase] += n;
    }
    if (!e->alone)
        dl_putf(e->out, "void %s_%d(char *const *arg, long unit, char *scratch, char *workspace) {\n%s}\n",
                e->k->name, phase, units.at);
    dl_buf_free(&units);
}

bool dl_emit_sweeps(dl_emitter *e, int from, dl_emitted *code, dl_error *err) {
    for (int to; from < e->sweeps.n; from = to) {
        to = dl_sweeps_beside(&e->sweeps, from);
        if (!dl_emit_has_phase(e, code, err)) return false;
        put_phase(e, from, to, code);
    }
    return true;
}
