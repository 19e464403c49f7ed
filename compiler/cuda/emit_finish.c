/* What stands behind a contraction's sums: the rest of the kernel at each point of a block of them, and beside
 * it reductions that keep nothing or the channels. Each block leaves their partial results in the workspace. */
#include "compiler/cuda/emit_tiles.h"

/* ---- reductions ---- */

static bool is_reduction(const dl_emitter *e, int i) {
    return e->steps[e->now->run.at[i]].kind == DL_K_REDUCE;
}

bool dl_finish_sums(const dl_emitter *e) {
    for (int i = 0; i < e->now->run.n; i++)
        if (is_reduction(e, i)) return true;
    return false;
}

bool dl_finish_check(dl_emitter *e, dl_error *err) {
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (is_reduction(e, i) && e->steps[number].axes & ~2u)
            return dl_emit_refuse(e->k, &e->k->instrs.at[number], err,
                                  "beside a contraction only sums over all or by channel are made [DL-E0803]");
    }
    return true;
}

/* A thread's part of a reduction: a few dozen values. */
static const char *part_type(const dl_emitter *e, const dl_kinstr *in) {
    bool sum = in->op == DL_OP_sum && dl_emit_is_float(e->k->instrs.at[in->args[0]].type);
    return sum ? "float" : dl_emit_partial_type(in);
}

static void reduce(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    if (in->op == DL_OP_sum)
        dl_putf(e->out, "    s%d += v%d;\n", number, in->args[0]);
    else
        dl_putf(e->out, "    s%d = %s(s%d, v%d);\n", number, dl_emit_combine(in), number, in->args[0]);
}

static bool keeps(const dl_emitter *e, int number) { return e->steps[number].axes != 0; }

static void put_starts(dl_emitter *e, bool kept) {
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        if (is_reduction(e, i) && keeps(e, number) == kept)
            dl_putf(e->out, "    %s s%d = %s;\n", part_type(e, in), number, dl_emit_start(in));
    }
}

/* Where the partial results of all units lie. */
static void place_sums(dl_emitter *e, const dl_finish *f, int64_t blocks, dl_emitted *code) {
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (!is_reduction(e, i)) continue;
        dl_partial *p = &e->partial[number];
        bool kept = keeps(e, number);
        *p = (dl_partial){.n = kept, .axis = {1}, .count = kept ? e->k->space[1].size : 1, .base = code->workspace};
        p->units = kept ? f->units : blocks, p->all = p->count;
        code->workspace += dl_plan_round(p->units * p->all * (int64_t)sizeof(double));
    }
}

/* ---- points ---- */

static void put_coordinates(dl_emitter *e, const dl_product *p, dl_number_kind kind) {
    for (int i = 0; i < e->k->nspace; i++)
        if (p->of[i] == kind)
            dl_putf(e->out, "        const %s x%d = %s;\n        (void)x%d;\n", e->dialect->index, i,
                    p->coordinate[i], i);
}

static void put_row_head(dl_emitter *e, const dl_finish *f, int lanes) {
    dl_putf(e->out, "    for (int row = (int)threadIdx.x / %d; row < %d && m + row < u.rows(); row += %d) {\n", lanes,
            f->rows, f->threads / lanes);
    dl_product_split(e, &f->p->number[DL_ROWS], "m + row");
    put_coordinates(e, f->p, DL_ROWS);
}

static void put_column_head(dl_emitter *e, const dl_finish *f, int lanes) {
    dl_putf(e->out,
            "    for (int column = (int)threadIdx.x %% %d; column < %d && n + column < u.columns(); column += %d) {\n",
            lanes, f->p->tiling.bn, lanes);
    dl_product_split(e, &f->p->number[DL_COLUMNS], "n + column");
    put_coordinates(e, f->p, DL_COLUMNS);
}

static void put_point(dl_emitter *e, const dl_finish *f) {
    dl_putf(e->out, "    const float sum = %s, *const acc = &sum;\n    (void)acc;\n", f->sum);
    dl_emit_run(e);
}

/* Sums by channel: a thread keeps to a column, the block's threads of one column lie in shared memory. */
static void put_with_sums(dl_emitter *e, const dl_finish *f, int lanes) {
    int groups = f->threads / lanes, bn = f->p->tiling.bn;
    put_starts(e, false);
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (is_reduction(e, i) && keeps(e, number))
            dl_putf(e->out, "    __shared__ %s sums%d[%d];\n", part_type(e, &e->k->instrs.at[number]), number,
                    groups * bn);
    }
    put_column_head(e, f, lanes);
    put_starts(e, true);
    put_row_head(e, f, lanes);
    put_point(e, f);
    dl_puts(e->out, "    }\n");
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (is_reduction(e, i) && keeps(e, number))
            dl_putf(e->out, "    sums%d[(int)threadIdx.x / %d * %d + column] = s%d;\n", number, lanes, bn, number);
    }
    dl_puts(e->out, "    }\n    __syncthreads();\n");
    dl_putf(e->out, "    for (int column = (int)threadIdx.x; column < %d && n + column < u.columns(); column += %d) {\n",
            bn, f->threads);
    dl_product_split(e, &f->p->number[DL_COLUMNS], "n + column");
    put_coordinates(e, f->p, DL_COLUMNS);
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        const dl_partial *p = &e->partial[number];
        if (!is_reduction(e, i) || !keeps(e, number)) continue;
        dl_putf(e->out, "    %s t%d = %s;\n    for (int g = 0; g < %d; g++) ", dl_emit_partial_type(in), number,
                dl_emit_start(in), groups);
        if (in->op == DL_OP_sum)
            dl_putf(e->out, "t%d += sums%d[g * %d + column];\n", number, number, bn);
        else
            dl_putf(e->out, "t%d = %s(t%d, sums%d[g * %d + column]);\n", number, dl_emit_combine(in), number, number,
                    bn);
        dl_putf(e->out, "    ((%s *)(workspace + %lldL))[(long)(%s) * %lldL + x1] = t%d;\n", dl_emit_partial_type(in),
                (long long)p->base, f->unit, (long long)p->all, number);
    }
    dl_puts(e->out, "    }\n");
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        if (!is_reduction(e, i) || keeps(e, number)) continue;
        const char *type = dl_emit_partial_type(in),
                   *by = in->op == DL_OP_sum ? "sum" : in->op == DL_OP_reduce_max ? "max" : "min";
        dl_putf(e->out,
                "    const %s t%d = block_%s<%d>((%s)s%d);\n"
                "    if (threadIdx.x == 0) ((%s *)(workspace + %lldL))[blockIdx.x] = t%d;\n",
                type, number, by, f->threads, type, number, type, (long long)e->partial[number].base, number);
    }
}

void dl_finish_put(dl_emitter *e, const dl_finish *f, int64_t blocks, dl_emitted *code) {
    int lanes = f->p->tiling.bn < DL_WARP ? f->p->tiling.bn : DL_WARP;
    const dl_number *b = &f->p->number[DL_BATCH];
    for (int i = 0; i < 3; i++)
        if (f->p->parities[i] > 1) dl_putf(e->out, "    const int q%d = u.q%d;\n    (void)q%d;\n", i, i, i);
    for (int i = 0; i < b->n; i++)
        if (b->at[i].size != 1)
            dl_putf(e->out, "    const %s b%d = u.b%d;\n    (void)b%d;\n", e->dialect->index, i, i, i);
    put_coordinates(e, f->p, DL_BATCH);
    e->reduce = reduce;
    if (dl_finish_sums(e)) {
        place_sums(e, f, blocks, code);
        put_with_sums(e, f, lanes);
        return;
    }
    put_row_head(e, f, lanes);
    put_column_head(e, f, lanes);
    put_point(e, f);
    dl_puts(e->out, "    }\n    }\n");
}

/* ---- behind ---- */

/* v<number>, a reduction's result, by the first thread of each kept point. */
static void put_combination(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    const dl_partial *p = &e->partial[number];
    const char *type = dl_emit_partial_type(in);
    dl_putf(e->out,
            "    %s t%d = %s;\n    if (inside)\n        for (long unit = group; unit < %lldL; unit += 32) {\n"
            "            const %s one = ((const %s *)(workspace + %lldL))[unit * %lldL + ",
            type, number, dl_emit_start(in), (long long)p->units, type, type, (long long)p->base, (long long)p->all);
    dl_emit_number(e, p->n, p->axis);
    if (in->op == DL_OP_sum)
        dl_putf(e->out, "];\n            t%d += one;\n        }\n", number);
    else
        dl_putf(e->out, "];\n            t%d = %s(t%d, one);\n        }\n", number, dl_emit_combine(in), number);
    dl_putf(e->out,
            "    __shared__ %s all%d[%d];\n    all%d[threadIdx.x] = t%d;\n    __syncthreads();\n"
            "    t%d = %s;\n    for (int g = 0; g < 32; g++) ",
            type, number, DL_BLOCK, number, number, number, dl_emit_start(in));
    if (in->op == DL_OP_sum)
        dl_putf(e->out, "t%d += all%d[g * 8 + lane];\n", number, number);
    else
        dl_putf(e->out, "t%d = %s(t%d, all%d[g * 8 + lane]);\n", number, dl_emit_combine(in), number, number);
    dl_cast c = dl_emit_rounding(DL_SINGLE, in->type, true);
    if (!*c.open) c.open = dl_format(e->arena, "(%s)(", dl_emit_type(e, in->type)), c.close = ")";
    dl_putf(e->out, "    const %s v%d = %st%d%s;\n    (void)v%d;\n", dl_emit_type(e, in->type), number, c.open, number,
            c.close, number);
}

static bool is_combined(const dl_sweep *s, int number) {
    for (int i = 0; i < s->combined.n; i++)
        if (s->combined.at[i] == number) return true;
    return false;
}

/* Eight kept points a block, 32 threads each. */
static bool put_behind(dl_emitter *e, const dl_sweep *s, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    int64_t points = dl_axes_points(k->nspace, k->space, s->axes);
    const dl_partial *lead = &e->partial[s->combined.at[0]];
    e->now = s;
    if (!dl_cuda_head(e, code, dl_ceil_div(points, 8), DL_BLOCK, 0, err)) return false;
    const char *index = e->dialect->index;
    dl_putf(e->out,
            "    const int lane = (int)threadIdx.x %% 8, group = (int)threadIdx.x / 8;\n"
            "    const %s point = (%s)blockIdx.x * 8 + lane;\n    const bool inside = point < %lld%s;\n",
            index, index, (long long)points, e->dialect->whole);
    for (int i = 0; i < k->nspace; i++)
        if (lead->n && lead->axis[0] == i)
            dl_putf(e->out, "    const %s x%d = point;\n    (void)x%d;\n", index, i, i);
        else
            dl_putf(e->out, "    const %s x%d = 0;\n    (void)x%d;\n", index, i, i);
    for (int i = 0; i < s->combined.n; i++) put_combination(e, s->combined.at[i]);
    dl_puts(e->out, "    if (group || !inside) return;\n");
    for (int i = 0; i < s->read.n; i++)
        if (!is_combined(s, s->read.at[i])) dl_emit_read(e, s->read.at[i]);
    for (int i = 0; i < s->run.n; i++) dl_emit_instr(e, s->run.at[i]);
    for (int i = 0; i < s->combined.n; i++)
        if (e->sweeps.kept[s->combined.at[i]]) dl_emit_keep(e, s->combined.at[i]);
    for (int i = 0; i < s->run.n; i++)
        if (e->sweeps.kept[s->run.at[i]]) dl_emit_keep(e, s->run.at[i]);
    dl_cuda_foot(e);
    return true;
}

/* A sweep over points that adds nothing up. */
static bool put_points(dl_emitter *e, const dl_sweep *s, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    int64_t points = dl_axes_points(k->nspace, k->space, s->axes), rest = points;
    e->now = s;
    if (dl_finish_sums(e))
        return dl_emit_refuse(k, &k->instrs.at[0], err,
                              "beside a contraction something else is summed up [DL-E0803]");
    if (!dl_cuda_head(e, code, dl_ceil_div(points, DL_BLOCK), DL_BLOCK, 0, err)) return false;
    const char *index = e->dialect->index, *whole = e->dialect->whole;
    dl_putf(e->out, "    const %s point = (%s)blockIdx.x * %d + (%s)threadIdx.x;\n    if (point >= %lld%s) return;\n",
            index, index, DL_BLOCK, index, (long long)points, whole);
    for (int i = 0; i < k->nspace; i++) {
        if (s->axes >> i & 1) {
            rest /= k->space[i].size ? k->space[i].size : 1;
            dl_putf(e->out, "    const %s x%d = point / %lld%s %% %lld%s;\n", index, i, (long long)rest, whole,
                    (long long)(k->space[i].size ? k->space[i].size : 1), whole);
        } else {
            dl_putf(e->out, "    const %s x%d = 0;\n", index, i);
        }
        dl_putf(e->out, "    (void)x%d;\n", i);
    }
    dl_emit_run(e);
    dl_cuda_foot(e);
    return true;
}

bool dl_finish_sweeps(dl_emitter *e, dl_emitted *code, dl_error *err) {
    for (int i = 1; i < e->sweeps.n; i++) {
        const dl_sweep *s = &e->sweeps.at[i];
        if (!(s->behind ? put_behind : put_points)(e, s, code, err)) return false;
    }
    return true;
}
