/* Calls of attention and its gradients: chooses the instance of kernels/attention.cu for each
 * phase. */
#include <stdio.h>

#include "compiler/cuda/emit_cuda.h"
#include "ir/attention.h"

/* An instance's template parameters, except for its results' features. */
typedef struct {
    int groups, warps, columns, stages; /* a warp has 16 rows for each group */
    int resident; /* minimum CTAs per SM: without it the compiler spills a few registers for one
                     more */
    bool wgmma;   /* by warpgroups */
    bool once;    /* backward: dk, dv and dq in one pass (attention_pass.cu) */
    int64_t shared;
} tiles;

/* Ways by wgmma for so many features in shared memory. */
typedef struct {
    bool back;
    int least, most;
    int extras; /* how many of dropout and addends, which take registers */
    tiles t;
} way;

/* In the order of their speed on an H200 (models/vit.dl, bf16) where all were timed: up to 64
 * features forward, 48 backward. The others are by their registers and shared memory; none spills.
 * More rows save reads from L2, more CTAs alternate at the tensor cores. */
static const way by_wgmma[] = {
    {false, 16, 48, 0, {1, 8, 128, 2, 1, true, false, 0}},
    {false, 16, 64, 0, {1, 4, 64, 2, 5, true, false, 0}},
    {false, 16, 64, 0, {1, 8, 64, 2, 2, true, false, 0}},
    {false, 16, 64, 0, {1, 8, 64, 3, 2, true, false, 0}},
    {false, 16, 64, 0, {1, 4, 64, 3, 4, true, false, 0}},
    {false, 96, 96, 0, {1, 8, 64, 2, 2, true, false, 0}},
    {false, 96, 128, 0, {1, 4, 64, 2, 2, true, false, 0}},
    {false, 96, 128, 0, {1, 4, 32, 2, 4, true, false, 0}},
    {false, 16, 128, 1, {1, 4, 64, 2, 2, true, false, 0}},
    {false, 16, 128, 1, {1, 4, 32, 2, 2, true, false, 0}},
    {false, 16, 128, 2, {1, 4, 64, 2, 2, true, false, 0}},
    {true, 16, 48, 0, {1, 4, 64, 2, 3, true, false, 0}},
    {true, 16, 48, 0, {1, 4, 32, 3, 4, true, false, 0}},
    {true, 16, 48, 0, {1, 8, 32, 2, 2, true, false, 0}},
    {true, 64, 128, 0, {1, 4, 64, 2, 2, true, false, 0}},
    {true, 64, 128, 0, {1, 4, 32, 2, 2, true, false, 0}},
    {true, 32, 64, 0, {1, 8, 64, 2, 1, true, true, 0}},
    {true, 32, 64, 0, {1, 8, 64, 3, 1, true, true, 0}},
    {true, 16, 96, 1, {1, 4, 64, 2, 2, true, false, 0}},
    {true, 16, 128, 1, {1, 4, 32, 2, 2, true, false, 0}},
    {true, 16, 48, 2, {1, 4, 64, 2, 2, true, false, 0}},
    {true, 16, 64, 2, {1, 4, 32, 2, 2, true, false, 0}},
};
enum { VARIANTS = sizeof by_wgmma / sizeof *by_wgmma };

typedef struct {
    dl_attention a;
    dl_dtype type;
    int64_t heads;   /* of all samples */
    int64_t width;   /* features of a row in shared memory, */
    int64_t out, of; /* index and number of a CTA's slices of y, and of the gradients */
} shape;

static shape find_shape(const dl_emitter *e, const dl_node *n) {
    /* features whose sums fit into registers with everything else */
    enum { WHOLE = 96, PART = 64 };
    shape s = {.a = dl_attention_of(n), .type = e->k->params.at[DL_ATT_Q].type.dtype};
    s.heads = s.a.batch * s.a.heads;
    s.width = dl_round_up(s.a.size, s.a.size <= WHOLE ? 16 : PART);
    s.out = s.width <= WHOLE ? s.width : PART * (s.width % (2 * PART) ? 1 : 2);
    s.of = s.width <= WHOLE ? s.width : PART;
    return s;
}

/* The shape where wgmma multiplies: all results at once, and features as many as an instruction
 * has (kd_wgmma_left_*). */
static shape shape_of(const shape *s, const tiles *t) {
    shape own = *s;
    if (!t->wgmma) return own;
    own.width = s->a.size <= 64   ? dl_round_up(s->a.size, 16)
                : s->a.size <= 96 ? 96
                                  : dl_round_up(s->a.size, 128);
    own.out = own.of = own.width;
    return own;
}

static int64_t rows_of(const tiles *t) { return 16LL * t->groups * t->warps; }

static int64_t shared_of(const shape *s, const tiles *t, bool back) {
    enum { PANEL = 64 /* features of which wgmma's tiles have a multiple */ };
    int64_t row =
        t->wgmma ? 2 * dl_round_up(s->width, PANEL) : s->width * dl_dtype_bytes(s->type) + 16;
    int64_t statistics = back ? 2LL * t->stages * t->columns * 4 : 0;
    if (t->once) /* gradients of scores, two tiles of dq, a ticket and barriers */
        statistics += rows_of(t) * t->columns * 2 + 2 * t->columns * s->width * 4 + 48;
    return ((back ? 2 : 1) * rows_of(t) + 2LL * t->stages * t->columns) * row + statistics;
}

/* As many rows per warp as registers hold, with as many of them and of prefetched tiles as
 * `room` bytes of shared memory hold. Found by compiling all sizes: none spills. */
static tiles by_warps(const shape *s, int64_t room, bool back) {
    bool half = dl_dtype_is_half(s->type), small = s->width <= 64, drops = s->a.rate > 0;
    tiles t = {.groups = half && small && !back ? 2 : 1,
               .warps = 4,
               .columns = 16,
               .stages = 2,
               .resident = 2};
    if (small && half) t.columns = t.groups == 2 && (drops || s->width == 64) ? 32 : 64;
    if (small != half) t.columns = 32;
    if (back && half && s->width > (drops ? 48 : 64) && s->width <= 96) t.columns /= 2;
    if (shared_of(s, &t, back) > room) t.stages = 1;
    if (shared_of(s, &t, back) > room) t.columns = 16;
    if (shared_of(s, &t, back) > room) t.warps = 2;
    return t;
}

static bool is_back(const dl_node *n) { return n->op == DL_OP_flash_attention_grad; }

/* All variants, wgmma first; returns their number. An addend's gradient has one. */
static int find_variants(const dl_emitter *e, const dl_node *call, const shape *s, tiles *of) {
    int n = 0, extras = (s->a.rate > 0) + (s->a.addends > 0);
    bool can = e->t->has_wgmma && dl_dtype_is_half(s->type), back = is_back(call);
    for (int i = 0; i < VARIANTS && can && call->op != DL_OP_flash_attention_bias_grad; i++) {
        const way *w = &by_wgmma[i];
        int64_t width = shape_of(s, &w->t).width;
        if (w->t.once && s->type != DL_BF16) continue; /* rows of f16 have exponents of their own */
        if (w->back == back && w->extras == extras && width >= w->least && width <= w->most)
            of[n++] = w->t;
    }
    of[n++] = by_warps(s, dl_cuda_tile_room(e->t), back);
    for (int i = 0; i < n; i++) {
        const shape own = shape_of(s, &of[i]);
        of[i].shared = shared_of(&own, &of[i], back);
    }
    return n;
}

static const char *name_of(const tiles *t) {
    return dl_internf("%lldx%d%s%s, %d ahead, %d CTAs per SM", (long long)rows_of(t), t->columns,
                      t->wgmma ? " by wgmma" : "", t->once ? " in one pass" : "", t->stages - 1,
                      t->resident);
}

static void put_shape(dl_emitter *e, const shape *s) {
    const dl_attention *a = &s->a;
    dl_putf(e->out,
            "    const attention_shape s = {$%lld$, $%lld$, $%lld$, $%lld$, $%lld$, $%lld$, "
            "$%lld$, $%lld$, $%lld$, "
            "$%.9g$, "
            "$%.9g$, $%.9g$, $%.9g$, $%d$, %s};\n",
            (long long)a->batch, (long long)a->queries, (long long)a->keys, (long long)a->heads,
            (long long)a->whole[DL_ATT_HEAD], (long long)a->whole[DL_ATT_QUERY],
            (long long)a->whole[DL_ATT_KEY], (long long)dl_attention_number(a, 0, 0, 0, 0),
            (long long)dl_attention_ahead(a), a->scale, a->scale * 1.4426950408889634, a->threshold,
            a->kept, a->number, a->causal ? "true" : "false");
    const char *at[DL_ATT_ADDENDS];
    for (int i = 0; i < DL_ATT_ADDENDS; i++)
        at[i] = i < a->addends ? dl_format(e->arena, "$p%d$", a->addend + i) : "nullptr";
    if (!a->addends) {
        dl_puts(e->out, "    const attention_addends added = {};\n");
        return;
    }
    dl_putf(e->out,
            "    const attention_addends added = {{%s, %s}, {$%lld$, $%lld$}, {$%lld$, $%lld$}, "
            "{$%lld$, $%lld$}, $%.9g$};\n",
            at[0], at[1], (long long)a->stride[0].sample, (long long)a->stride[1].sample,
            (long long)a->stride[0].head, (long long)a->stride[1].head,
            (long long)a->stride[0].query, (long long)a->stride[1].query, 1 / a->scale);
}

/* "of_bf16", "groups_of_bf16", "of_f32<2>" */
static const char *operands(dl_emitter *e, const shape *s, bool wgmma) {
    if (dl_dtype_is_half(s->type))
        return dl_format(e->arena, "%sof_%s", wgmma ? "groups_" : "", dl_dtype_name(s->type));
    return dl_format(e->arena, "of_%s<%d>", dl_dtype_name(s->type), (int)DL_ATTENTION_PARTS);
}

/* The places of seed, step and part, or a mark that there are none. */
static const char *draws(dl_emitter *e, const shape *s) {
    int seed = s->a.seed;
    if (s->a.rate <= 0) return "nullptr, nullptr, nullptr";
    const char *part = s->a.in_parts ? dl_format(e->arena, "$p%d$", seed + 2) : "nullptr";
    return dl_format(e->arena, "$p%d$, $p%d$, %s", seed, seed + 1, part);
}

/* The first result, after the dropout arguments. */
static int first_out(const shape *s) { return s->a.seed + (s->a.rate > 0 ? 2 + s->a.in_parts : 0); }

static const char *truth(bool v) { return v ? "true" : "false"; }

static bool emit_forward(dl_emitter *e, dl_emitted *code, const shape *s, const tiles *t,
                         dl_error *err) {
    bool drops = s->a.rate > 0;
    int out = first_out(s);
    e->resident = t->resident;
    if (!dl_cuda_head(e, code,
                      s->heads * dl_ceil_div(s->a.queries, rows_of(t)) * (s->width / s->out),
                      DL_WARP * t->warps, t->shared, err))
        return false;
    put_shape(e, s);
    dl_putf(e->out,
            "    attention<%s, %lld, %lld, %lld, %s, %d, %d, %d, %d, %d>(s, added, $p0$, $p1$, "
            "$p2$, %s, "
            "$p%d$, $p%d$);\n",
            operands(e, s, t->wgmma), (long long)s->a.size, (long long)s->width, (long long)s->out,
            truth(drops), s->a.addends, t->groups, t->warps, t->columns, t->stages, draws(e, s),
            out, out + 1);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    return true;
}

/* dk and dv by keys, or dq by queries. */
static bool emit_gradients(dl_emitter *e, dl_emitted *code, const shape *s, const tiles *t,
                           bool by_key, dl_error *err) {
    bool drops = s->a.rate > 0;
    int out = first_out(s);
    e->resident = t->resident;
    int64_t blocks =
        dl_ceil_div(by_key ? s->a.keys : s->a.queries, rows_of(t)) * (s->width / s->of);
    if (!dl_cuda_head(e, code, s->heads * blocks, DL_WARP * t->warps, t->shared, err)) return false;
    put_shape(e, s);
    dl_putf(e->out,
            "    attention_back<%s, %lld, %lld, %lld, %s, %s, %d, %d, %d, %d, %d>(s, added, ",
            operands(e, s, t->wgmma), (long long)s->a.size, (long long)s->width, (long long)s->of,
            truth(by_key), truth(drops), s->a.addends, t->groups, t->warps, t->columns, t->stages);
    dl_puts(e->out, by_key ? "$p1$, $p2$, $p0$, $p5$" : "$p0$, $p5$, $p1$, $p2$");
    dl_putf(e->out, ", (const float *)workspace, %s, ", draws(e, s));
    if (by_key)
        dl_putf(e->out, "$p%d$, $p%d$);\n", out + DL_GRAD_DK, out + DL_GRAD_DV);
    else
        dl_putf(e->out, "$p%d$, nullptr);\n", out + DL_GRAD_DQ);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    return true;
}

/* For each query the sum of y dy and its log-sum-exp, in the workspace; `zeros`: also done. */
static bool emit_sums(dl_emitter *e, dl_emitted *code, const shape *s, const char *zeros,
                      dl_error *err) {
    enum { EACH = 32 }; /* queries of a head per CTA: attention_sums */
    int64_t blocks = dl_ceil_div(s->heads * s->a.queries, EACH);
    if (!dl_cuda_head(e, code, blocks || !*zeros ? blocks : 1, DL_BLOCK, 0, err)) return false;
    put_shape(e, s);
    dl_puts(e->out, "    (void)added;\n");
    dl_putf(e->out, "    attention_sums<%s, %lld, %d>(s, $p3$, $p5$, $p4$, (float *)workspace);\n",
            operands(e, s, false), (long long)s->a.size, s->a.addends);
    dl_puts(e->out, zeros);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    code->workspace = 2 * 4 * s->heads * s->a.queries;
    return true;
}

/* dk, dv and dq in one pass: dq's sums in f32 and the turns of their blocks are in the workspace.
 */
static bool emit_once(dl_emitter *e, dl_emitted *code, const shape *s, const tiles *t,
                      dl_error *err) {
    enum { THREADS = 384, VECTOR = 4 };
    int out = first_out(s);
    int64_t counters = s->heads * dl_ceil_div(s->a.queries, t->columns) + 1,
            floats = (counters - 1) * t->columns * s->width,
            at = dl_round_up(2 * 4 * s->heads * s->a.queries, 16), turns = at + 4 * floats;
    const char *dq = dl_format(e->arena, "(float *)(workspace + $%lldL$)", (long long)at),
               *turn = dl_format(e->arena, "(int *)(workspace + $%lldL$)", (long long)turns);
    const char *zeros = dl_format(e->arena, "    attention_zeros(%s, $%lldL$, %s, $%lldL$);\n", dq,
                                  (long long)floats, turn, (long long)counters);
    if (!emit_sums(e, code, s, zeros, err)) return false;
    code->workspace = turns + 4 * counters;
    e->resident = t->resident;
    if (!dl_cuda_head(e, code, s->heads * dl_ceil_div(s->a.keys, rows_of(t)), THREADS, t->shared,
                      err))
        return false;
    put_shape(e, s);
    dl_putf(e->out,
            "    (void)added;\n    attention_back_once<%s, %lld, %lld, %d>(s, $p0$, $p1$, $p2$, "
            "$p5$, (const float *)workspace, %s, %s, $p%d$, $p%d$);\n",
            operands(e, s, true), (long long)s->a.size, (long long)s->width, t->stages, dq, turn,
            out + DL_GRAD_DK, out + DL_GRAD_DV);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    e->resident = 0;
    if (!dl_cuda_head(e, code, dl_ceil_div(floats / VECTOR, DL_BLOCK), DL_BLOCK, 0, err))
        return false;
    put_shape(e, s);
    dl_putf(e->out, "    (void)added;\n    attention_dq<%s, %lld, %lld>(s, %s, $p%d$);\n",
            operands(e, s, true), (long long)s->a.size, (long long)s->width, dq, out + DL_GRAD_DQ);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    return true;
}

static bool emit_backward(dl_emitter *e, dl_emitted *code, const shape *s, const tiles *t,
                          dl_error *err) {
    if (t->once) return emit_once(e, code, s, t, err);
    if (!emit_sums(e, code, s, "", err)) return false;
    return emit_gradients(e, code, s, t, true, err) && emit_gradients(e, code, s, t, false, err);
}

/* The gradient of an addend: the parts of its sum, and these added. */
static bool emit_addend_grad(dl_emitter *e, dl_emitted *code, const dl_node *n, const shape *s,
                             dl_error *err) {
    enum { CTAS = 256 }; /* enough for a device */
    const dl_axis *axis = n->out[0].type.axis;
    tiles t = by_warps(s, dl_cuda_tile_room(e->t), true);
    t.stages = 1;
    int64_t own = axis[0].size * axis[1].size, terms = own ? s->heads / own : 1, parts = 1;
    int64_t blocks =
        own * dl_ceil_div(s->a.queries, rows_of(&t)) * dl_ceil_div(s->a.keys, t.columns);
    while (blocks * parts < CTAS && parts < terms) parts++;
    if (!emit_sums(e, code, s, "", err)) return false;
    e->resident = 1;
    if (!dl_cuda_head(e, code, blocks * parts, DL_WARP * t.warps, shared_of(s, &t, true), err))
        return false;
    put_shape(e, s);
    const char *out = dl_format(e->arena, "$p%d$", first_out(s));
    const char *partial = dl_format(e->arena, "(float *)workspace + $%lld$",
                                    (long long)(2 * s->heads * s->a.queries));
    dl_putf(e->out,
            "    const addend_parts of = {$%lld$, $%lld$, $%lld$};\n    attention_bias_grad<%s, "
            "%lld, %lld, %s, %d, %d, %d>(s, added, of, $p0$, $p1$, $p2$, $p5$, (const float "
            "*)workspace, %s, %s);\n",
            (long long)axis[0].size, (long long)axis[1].size, (long long)parts,
            operands(e, s, false), (long long)s->a.size, (long long)s->width, truth(s->a.rate > 0),
            s->a.addends, t.warps, t.columns, draws(e, s), parts > 1 ? partial : out);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    if (parts == 1) return true;
    int64_t all = own * s->a.queries * s->a.keys;
    code->workspace += 4 * parts * all;
    if (!dl_cuda_head(e, code, dl_ceil_div(all, DL_BLOCK), DL_BLOCK, 0, err)) return false;
    dl_putf(e->out, "    attention_add_parts(%s, %s, $%lld$, $%lld$);\n", partial, out,
            (long long)all, (long long)parts);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    return true;
}

int dl_cuda_attention_variants(dl_emitter *e, const char **names) {
    const dl_node *n = dl_kernel_call(e->k);
    shape s = find_shape(e, n);
    tiles of[VARIANTS + 1];
    int variants_of = find_variants(e, n, &s, of);
    for (int i = 0; i < variants_of; i++) names[i] = name_of(&of[i]);
    return variants_of;
}

bool dl_cuda_attention_by_wgmma(const dl_kernel *k, const dl_target *t) {
    const dl_emitter e = {.k = k, .t = t};
    const dl_node *n = dl_kernel_call(k);
    shape s = find_shape(&e, n);
    tiles of[VARIANTS + 1];
    int variants_of = find_variants(&e, n, &s, of), own = 0;
    for (int i = 0; i < variants_of && k->schedule.variant; i++)
        if (strcmp(name_of(&of[i]), k->schedule.variant) == 0) own = i;
    return of[own].wgmma;
}

bool dl_cuda_attention(dl_emitter *e, int variant, dl_emitted *code, dl_error *err) {
    enum { SIZE_MOST = 256 };
    const dl_node *n = dl_kernel_call(e->k);
    const dl_kinstr *at = &e->k->instrs.at[0];
    if (!dl_emit_check_floats(e, "CUDA's kernels", err)) return false;
    shape s = find_shape(e, n);
    if (s.a.size > SIZE_MOST)
        return dl_emit_refuse(
            e->k, at, err,
            "'%s' has heads of %lld features, and CUDA's kernels take %d at most: use more "
            "heads [DL-E0803]",
            dl_ops[n->op].name, (long long)s.a.size, (int)SIZE_MOST);
    if (s.a.queries > INT32_MAX / 2 || s.a.keys > INT32_MAX / 2)
        return dl_emit_refuse(
            e->k, at, err,
            "'%s' of %lld queries and %lld keys, more than CUDA's kernels count [DL-E0803]",
            dl_ops[n->op].name, (long long)s.a.queries, (long long)s.a.keys);
    tiles of[VARIANTS + 1], t;
    int variants_of = find_variants(e, n, &s, of);
    DL_CHECK(variant < variants_of);
    t = of[variant];
    s = shape_of(&s, &t);
    code->needs[DL_NEED_ATTENTION] = 1, code->needs[DL_NEED_WGMMA] = t.wgmma;
    if (n->op == DL_OP_flash_attention_bias_grad) return emit_addend_grad(e, code, n, &s, err);
    return is_back(n) ? emit_backward(e, code, &s, &t, err) : emit_forward(e, code, &s, &t, err);
}
