/* The phases of a kernel's sweeps; finalizing sweeps, which combine the items' partial results
 * in order; and kernels without a contraction, which consist of sweeps alone. */
#include "compiler/cpu/emit_cpu.h"
#include "compiler/cpu/partials.h"

/* v<number> from the partial results of all items, combined in their order. */
static void put_combination(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    const dl_partial *p = &e->partial[number];
    const char *type = dl_emit_partial_type(in);
    dl_putf(e->out, "    %s t%d = %s;\n    for (long u = 0; u < %lldL; u++)\n", type, number,
            dl_emit_start(in), (long long)p->items);
    if (!p->n) dl_putf(e->out, "        for (long j = 0; j < %lldL; j++)\n", (long long)p->count);
    dl_putf(
        e->out,
        "        {\n            %s one = ((const %s *)(workspace + %lldL))[u * %lldL + %lldL + ",
        type, type, (long long)p->base, (long long)p->all, (long long)p->at);
    dl_emit_linear_index(e, p->n, p->axis);
    dl_puts(e->out, p->n ? "];\n" : " + j];\n");
    if (in->op == DL_OP_sum)
        dl_putf(e->out, "            t%d += one;\n", number);
    else
        dl_putf(e->out, "            t%d = %s(t%d, one);\n", number, dl_emit_combine(in), number);
    dl_cast c = dl_emit_rounding(DL_SINGLE, in->type, true);
    if (!*c.open) c.open = dl_format(e->arena, "(%s)", dl_emit_type(e, in->type));
    dl_putf(e->out, "        }\n    %s v%d = %st%d%s;\n    (void)v%d;\n", dl_emit_type(e, in->type),
            number, c.open, number, c.close, number);
}

/* One value at a time: it is small. */
int64_t dl_emit_finalize(dl_emitter *e, const dl_loop_nest *s) {
    enum { CHUNK = 256 };
    const dl_kernel *k = e->k;
    const dl_partial *lead = &e->partial[s->combined.at[0]];
    int64_t points = dl_axes_points(k->nspace, k->space, s->axes), stride = points;
    e->now = s, e->mode = DL_SINGLE, e->flat = false, e->lane_axis = -1;
    dl_emit_sweep_head(e);
    dl_putf(e->out, "    for (long at = item * %d; at < (item + 1) * %d && at < %lldL; at++) {\n",
            CHUNK, CHUNK, (long long)points);
    for (int i = 0; i < k->nspace; i++)
        if (!(s->axes >> i & 1)) dl_putf(e->out, "    const long x%d = 0;\n    (void)x%d;\n", i, i);
    for (int i = 0; i < lead->n; i++) {
        int64_t size = k->space[lead->axis[i]].size;
        stride /= size ? size : 1;
        dl_putf(e->out, "    const long x%d = at / %lldL %% %lldL;\n    (void)x%d;\n",
                lead->axis[i], (long long)stride, (long long)(size ? size : 1), lead->axis[i]);
    }
    for (int i = 0; i < s->combined.n; i++) put_combination(e, s->combined.at[i]);
    dl_emit_run_finalize(e);
    dl_puts(e->out, "    }\n}\n");
    return dl_ceil_div(points, CHUNK);
}

static int64_t put_sweep(dl_emitter *e, const dl_loop_nest *s, dl_emitted *code) {
    e->now = s;
    return s->finalize ? dl_emit_finalize(e, s)
           : s->row    ? dl_emit_resident(e, code)
                       : dl_emit_points(e, code);
}

/* Sweeps [from, to), which do not depend on each other, as one phase. */
static void put_phase(dl_emitter *e, int from, int to, dl_emitted *code) {
    int phase = code->phases++;
    dl_buf items = {0};
    e->own_phase = to - from == 1;
    for (int i = from; i < to; i++) {
        dl_buf name = {0};
        dl_putf(&name, e->own_phase ? "%s_%d" : "%s_%d_%d", e->k->name, phase, i - from);
        e->name = dl_strdup(e->arena, name.at);
        dl_buf_free(&name);
        int64_t n = put_sweep(e, &e->sweeps.at[i], code);
        dl_putf(&items,
                "    if (item < %lldL) {\n        %s(arg, item, scratch, workspace);\n        "
                "return;\n    }\n",
                (long long)n, e->name);
        dl_putf(&items, "    item -= %lldL;\n", (long long)n);
        code->items[phase] += n;
    }
    if (!e->own_phase)
        dl_putf(e->out,
                "void %s_%d(char *const *arg, long item, char *scratch, char *workspace) {\n%s}\n",
                e->k->name, phase, items.at);
    dl_buf_free(&items);
}

bool dl_emit_loop_nests(dl_emitter *e, int from, dl_emitted *code, dl_error *err) {
    for (int to; from < e->sweeps.n; from = to) {
        to = dl_loop_nests_independent(&e->sweeps, from);
        if (!dl_emit_has_phase(e, code, err)) return false;
        put_phase(e, from, to, code);
    }
    return true;
}

bool dl_emit_pointwise(dl_emitter *e, dl_emitted *code, dl_error *err) {
    dl_emit_find_kept(e, code);
    return dl_emit_loop_nests(e, 0, code, err);
}
