/* Kernels around a contraction: its tiles, by blocks, and behind them the rest of the kernel. Where there are
 * few tiles and long sums, several blocks share the terms of a tile; the next phase adds up what they leave.
 */
#include "compiler/cuda/emit_tiles.h"

#include "compiler/cuda/emit_loops.h"

enum {
    MULTIPROCESSORS = 132, /* of the GPUs that this is for: enough blocks for each */
    LEAST_TILES = 8,       /* in depth, that a block multiplies */
    MOST_SPLITS = 64,
    MOST_SHARES = 256, /* blocks that share the terms of a tile; of sums by themselves */
    FINISHED = 2048,   /* points of a block that adds up others' sums */
    LINE = 64          /* bytes: CT_LINE */
};

/* Tiles by rows and columns, with how much of a multiprocessor's arithmetic each reaches: guesses by how
 * often an element in shared memory is used. */
static const struct {
    int bm, bn, wm, wn, stages;
    double reach;
    bool wide;  /* two registers a sum are too many for it */
    bool alone; /* sums by themselves, on as many threads */
} tilings[] = {{128, 128, 2, 4, 4, 1.0, true, false}, {128, 64, 4, 2, 4, 0.8, false, false},
               {64, 128, 2, 4, 4, 0.8, false, false}, {64, 64, 2, 2, 4, 0.65, false, false},
               {128, 32, 4, 1, 4, 0.5, false, false}, {128, 8, 4, 1, 4, 0.2, false, false},
               {16, 128, 1, 4, 4, 0.3, false, false}, {32, 32, 2, 4, 0, 0.02, false, true}};

int64_t dl_tiling_shared(const dl_tiling *t) {
    int64_t tiles = (int64_t)t->stages * (t->bm + t->bn) * LINE, sums = (int64_t)t->bm * (t->bn + 8) * 4;
    return tiles > sums ? tiles : sums;
}

static int64_t products(const dl_product *p) {
    return (p->alone ? 1 : p->number[DL_BATCH].size) * p->parities[0] * p->parities[1] * p->parities[2];
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

dl_tiling dl_product_tile(const dl_product *p) {
    dl_tiling best = {0};
    double least = 0;
    int64_t m = p->number[DL_ROWS].size, n = p->across.size, k = p->number[DL_TERMS].size;
    for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++) {
        if ((tilings[i].wide && p->word == 4) || tilings[i].alone != p->alone) continue;
        dl_tiling t = {
            tilings[i].bm, tilings[i].bn, tilings[i].wm, tilings[i].wn, tilings[i].stages, 1, 0, 0, 0};
        int64_t depth = LINE / p->word, tiles = products(p), terms = dl_ceil_div(k, depth);
        t.mt = dl_ceil_div(m, t.bm), t.nt = dl_ceil_div(n, t.bn);
        tiles *= t.mt * t.nt;
        if (tiles < MULTIPROCESSORS)
            t.splits =
                at_least(1, at_most(at_most(2 * MULTIPROCESSORS / at_least(tiles, 1), terms / LEAST_TILES),
                                    p->alone ? MOST_SHARES : MOST_SPLITS));
        t.depth = dl_ceil_div(at_least(terms, 1), t.splits) * depth;
        t.splits = at_least(1, dl_ceil_div(k, t.depth));
        double waves = (double)dl_ceil_div(tiles * t.splits, MULTIPROCESSORS);
        double time = waves * t.bm * t.bn * (double)(t.depth + 4 * depth) / tilings[i].reach;
        if (t.splits > 1) /* written and read, 4 bytes a sum: some 200 products' time a multiprocessor */
            time += 400.0 * (double)tiles * t.bm * t.bn * (double)t.splits / MULTIPROCESSORS;
        if (!best.bm || time < least) best = t, least = time;
    }
    return best;
}

/* Does a sweep make the contraction, which is instruction 0? */
static bool contracts(const dl_sweep *s) { return s->run.n && s->run.at[0] == 0; }

static int64_t longest_axis(int rank, const dl_axis *axis) {
    int64_t most = 0;
    for (int i = 0; i < rank; i++)
        if (axis[i].size > most) most = axis[i].size;
    return most;
}

static bool check(dl_emitter *e, const dl_kinstr *c, dl_error *err) {
    const dl_kernel *k = e->k;
    int64_t longest = longest_axis(k->nspace, k->space);
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < c->nparts[o]; i++) {
            const dl_type *t = &k->params.at[c->parts[o][i]].type;
            longest = at_least(longest, longest_axis(t->rank, t->axis));
            if (!dl_emit_is_float(t->dtype) || !dl_emit_is_float(c->type))
                return dl_emit_refuse(
                    k, c, err, "'%s' is in %s, and GPUs' kernels compute it in f32 [DL-E0803]",
                    dl_ops[c->op].name, dl_dtype_name(dl_emit_is_float(c->type) ? t->dtype : c->type));
            if (t->layout.kind == DL_PANEL)
                return dl_emit_refuse(k, c, err, "an operand of '%s' lies in panels [DL-E0803]",
                                      dl_ops[c->op].name);
        }
    if (longest > 1 << 30)
        return dl_emit_refuse(
            k, c, err, "an axis of '%s' has more than 2^30 elements: use a smaller batch or crop [DL-E0804]",
            dl_ops[c->op].name);
    int sweeps = 0; /* of the contraction: the first, or none */
    for (int i = 0; i < e->sweeps.n; i++) sweeps += contracts(&e->sweeps.at[i]);
    if (sweeps != 1)
        return dl_emit_refuse(k, c, err, "what stands beside '%s' is swept over %s [DL-E0803]",
                              dl_ops[c->op].name, sweeps ? "more than once" : "without it");
    return dl_finish_check(e, err);
}

static void put_number(dl_emitter *e, const char *name, int64_t n) {
    dl_putf(e->out, "    const int %s = (int)(unit %% %lldU);\n    unit /= %lldU;\n", name,
            (long long)at_least(n, 1), (long long)at_least(n, 1));
}

/* What a phase of blocks by tiles knows of its place; `inner`: what its unit counts below tiles. */
static void put_place(dl_emitter *e, const dl_product *p, const char *inner, int64_t count) {
    const dl_tiling *t = &p->tiling;
    const char *index = e->dialect->index;
    dl_puts(e->out, "    unsigned unit = blockIdx.x;\n");
    put_number(e, inner, count);
    dl_puts(e->out, "    const unsigned tile = unit;\n    (void)tile;\n");
    put_number(e, "column_tile", t->nt);
    put_number(e, "row_tile", t->mt);
    dl_putf(e->out, "    const %s n = column_tile * (%s)%d;\n", index, index, t->bn);
    dl_product_unit(e, p);
}

static const char *unit_text(dl_emitter *e, const dl_product *p, int64_t slices) {
    return dl_format(e->arena, "(((u.q0 * %lld + u.q1) * %lld + u.q2) * %lld + row_tile) * %lld + slice",
                     (long long)p->parities[1], (long long)p->parities[2], (long long)p->tiling.mt,
                     (long long)slices);
}

static int64_t units_of(const dl_product *p, int64_t slices) {
    return p->parities[0] * p->parities[1] * p->parities[2] * p->tiling.mt * slices;
}

static bool put_tiles(dl_emitter *e, const dl_product *p, dl_emitted *code, dl_error *err) {
    const dl_tiling *t = &p->tiling;
    const char *name = e->k->name, *index = e->dialect->index;
    int threads = dl_tiling_threads(t);
    int64_t tiles = products(p) * t->mt * t->nt;
    if (!dl_cuda_head(e, code, tiles * t->splits, threads, dl_tiling_shared(t), err)) return false;
    dl_puts(e->out, "    KD_SHARED(unsigned char, shared);\n");
    put_place(e, p, "split", t->splits);
    dl_putf(e->out,
            "    const %s m = row_tile * (%s)%d;\n"
            "    %s_left left;\n    %s_right right;\n    (%s_unit &)left = u, (%s_unit &)right = u;\n",
            index, index, t->bm, name, name, name, name);
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < p->operand[o].nparts; i++)
            dl_putf(e->out, "    %s.p%d = p%d;\n", o ? "right" : "left", p->operand[o].param[i],
                    p->operand[o].param[i]);
    bool sums = dl_finish_sums(e);
    if (p->number[DL_ROWS].varies && !sums) dl_puts(e->out, "    if (m >= u.rows()) return;\n");
    dl_putf(e->out,
            "    const %s from = split * (%s)%lld, all = u.terms(), end = from + %lld < all ? from + %lld : "
            "all;\n",
            index, index, (long long)t->depth, (long long)t->depth, (long long)t->depth);
    if (p->alone)
        dl_putf(e->out,
                "    const float *sums = ct_alone<%d, %d, %d>(left, right, m, n, from, end, %lld, shared);\n",
                t->bm, t->bn, threads, (long long)p->across.size);
    else
        dl_putf(e->out,
                "    const float *sums = ct_tile<%s, %d, %d, %d, %d, %d>(left, right, m, n, from, end, "
                "shared);\n",
                p->arithmetic, t->bm, t->bn, t->wm, t->wn, t->stages);
    if (t->splits > 1) {
        dl_putf(e->out,
                "    ct_leave<%d, %d, %d>(sums, (float *)(workspace + %lldL) + ((long)tile * %lld + split) * "
                "%d);\n",
                t->bm, t->bn, threads, (long long)code->workspace, (long long)t->splits, t->bm * t->bn);
    } else {
        dl_puts(e->out, "    const int slice = 0;\n    (void)slice;\n");
        dl_finish f = {
            .p = p, .threads = threads, .rows = t->bm, .unit = unit_text(e, p, 1), .units = units_of(p, 1)};
        f.sum = dl_format(e->arena, "ct_take(own, sums + row * %d + column);\n", t->bn + 8);
        dl_finish_put(e, &f, code->units[code->phases - 1], code);
    }
    dl_cuda_foot(e);
    return true;
}

/* Behind blocks that shared the terms of tiles. */
static bool put_totals(dl_emitter *e, const dl_product *p, dl_emitted *code, dl_error *err) {
    const dl_tiling *t = &p->tiling;
    const char *index = e->dialect->index;
    int64_t tiles = products(p) * t->mt * t->nt, base = code->workspace;
    int rows = (int)at_least(1, at_most(FINISHED / t->bn, t->bm)), slices = t->bm / rows;
    code->workspace += tiles * t->splits * t->bm * t->bn * 4;
    if (!dl_cuda_head(e, code, tiles * slices, DL_BLOCK, 0, err)) return false;
    put_place(e, p, "slice", slices);
    dl_putf(e->out,
            "    const %s m = row_tile * (%s)%d + slice * %d;\n"
            "    const float *sums = (const float *)(workspace + %lldL) + (long)tile * %lldL + slice * %d;\n",
            index, index, t->bm, rows, (long long)base, (long long)(t->splits * t->bm * t->bn), rows * t->bn);
    dl_finish f = {.p = p, .threads = DL_BLOCK, .rows = rows};
    f.unit = unit_text(e, p, slices), f.units = units_of(p, slices);
    f.sum = dl_format(e->arena, "ct_total(own, sums + row * %d + column, %lld, %d);\n", t->bn,
                      (long long)t->splits, t->bm * t->bn);
    dl_finish_put(e, &f, code->units[code->phases - 1], code);
    dl_cuda_foot(e);
    return true;
}

bool dl_cuda_contraction(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    const dl_kinstr *c = &k->instrs.at[dl_kernel_anchor(k)];
    e->sweeps = dl_find_sweeps(e->arena, k->instrs.n, e->steps, 0);
    for (int i = e->sweeps.n - 1; i > 0; i--) /* first of all */
        if (contracts(&e->sweeps.at[i])) {
            dl_sweep s = e->sweeps.at[i];
            e->sweeps.at[i] = e->sweeps.at[i - 1], e->sweeps.at[i - 1] = s;
        }
    e->now = &e->sweeps.at[0];
    if (!check(e, c, err)) return false;
    code->needs[DL_NEED_TILES] = code->needs[DL_NEED_SWEEPS] = 1;
    dl_emit_find_kept(e, code);
    dl_product p = dl_product_find(e, c);
    p.tiling = dl_product_tile(&p);
    dl_product_put(e, &p);
    return put_tiles(e, &p, code, err) && (p.tiling.splits == 1 || put_totals(e, &p, code, err)) &&
           dl_cuda_phases(e, 1, code, err);
}
