/* Kernel IR -> C for the CPU: the head of a source, and the choice of a kernel's emitter. */
#include "compiler/cpu/emit_cpu.h"
#include "compiler/codegen/holes.h"

#include "compiler/cpu/emit_windows.h"
#include "ir/base/foreign.h"

/* The texts of compiler/cpu/kernels/, embedded at build time (scripts/embed.py). */
extern const char dl_kernels_prelude[], dl_kernels_elements[], dl_kernels_contract[],
    dl_kernels_weight[], dl_kernels_weight_tiles[], dl_kernels_weight_pairs[],
    dl_kernels_weight_amx[], dl_kernels_interleaved[], dl_kernels_bf16_pairs[], dl_kernels_amx[],
    dl_kernels_gemm[], dl_kernels_grouped[], dl_kernels_small_n[], dl_kernels_random[],
    dl_kernels_attention[], dl_kernels_attention_tiles[], dl_kernels_attention_pack[],
    dl_kernels_instructions[], dl_kernels_instructions_emulated[];

void dl_cpu_open(dl_buf *out, const dl_target *t, const dl_emitted *needs) {
    dl_putf(out, "#define LANES %d\n#define PANEL %d\n#define TILE_ROWS %d\n#define ROW_BLOCK %d\n",
            t->lanes, t->panel, t->rows, t->row_block);
    dl_putf(out, "#define GRAD_HEIGHT %d\n", t->grad_rows);
    dl_putf(out,
            "#define PACK_ROWS %d\n#define CHAIN %d\n#define M_BLOCK %d\n#define GRAD_ROWS %u\n",
            DL_PACK_ROWS, DL_CHAIN, DL_M_BLOCK, needs->needs[DL_NEED_GRAD_ROWS]);
    const unsigned *has = needs->needs;
    dl_putf(out, "#define PAIR_ROWS %u\n", has[DL_NEED_PAIR_ROWS]);
    bool attends = has[DL_NEED_LOOPS] >> DL_LOOPS_ATTENTION & 1;
    dl_putf(out, "#define DRAWS %u\n#define ATTENTION_REMAINDERS %u\n#define ATTENTION_KINDS %u\n",
            has[DL_NEED_DRAWS], has[DL_NEED_REMAINDERS] & 15, has[DL_NEED_REMAINDERS] >> 4);
    dl_putf(out, "#define HALVES %u\n", has[DL_NEED_HALVES]);
    bool pairs = (t->low_gemms >> DL_BF16 & 1) && has[DL_NEED_HALVES] & 2;
    bool groups = has[DL_NEED_LOOPS] >> DL_LOOPS_GROUP & 1;
    dl_putf(out, "#define HAS_PAIRS %d\n#define HAS_TILES %d\n#define HAS_GROUPS %d\n", pairs,
            pairs && t->tiles, groups);
    dl_puts(out, dl_kernels_prelude);
    if (pairs)
        dl_puts(out, t->emulated ? dl_kernels_instructions_emulated : dl_kernels_instructions);
    if (has[DL_NEED_HALVES] || attends || has[DL_NEED_CONTRACTS]) dl_puts(out, dl_kernels_elements);
    if (attends || has[DL_NEED_CONTRACTS])
        dl_puts(out, dl_kernels_bf16_pairs), dl_puts(out, dl_kernels_amx);
    if (has[DL_NEED_DRAWS]) dl_puts(out, dl_kernels_random);
    if (attends) {
        dl_puts(out, dl_kernels_attention_tiles);
        dl_puts(out, dl_kernels_attention_pack);
        dl_puts(out, dl_kernels_attention);
    }
    if (!has[DL_NEED_CONTRACTS]) return;
    dl_puts(out, dl_kernels_contract);
    dl_puts(out, dl_kernels_small_n);
    dl_puts(out, dl_kernels_weight_tiles);
    dl_puts(out, dl_kernels_weight_pairs);
    dl_puts(out, dl_kernels_weight_amx);
    dl_puts(out, dl_kernels_weight);
    dl_puts(out, dl_kernels_interleaved);
    dl_puts(out, dl_kernels_gemm);
    if (groups) dl_puts(out, dl_kernels_grouped);
}

/* A kernel's 16-bit types, as bits of DL_NEED_HALVES. */
static unsigned find_halves(const dl_kernel *k) {
    unsigned types = 0;
    for (int i = 0; i < k->params.n; i++) types |= 1u << k->params.at[i].type.dtype;
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind != DL_K_CALL) types |= 1u << k->instrs.at[i].type;
    return (types >> DL_F16 & 1) | (types >> DL_BF16 & 1) << 1;
}

/* Does a sweep compute the contraction, which is instruction 0? */
static bool contracts(const dl_loop_nest *s) { return s->run.n && s->run.at[0] == 0; }

static int64_t longest_axis(int rank, const dl_axis *axis) {
    int64_t most = 0;
    for (int i = 0; i < rank; i++)
        if (axis[i].size > most) most = axis[i].size;
    return most;
}

/* Refuses contractions that the hand-written loops cannot address or compute. */
static bool check_contraction(const dl_emitter *e, const dl_kinstr *c, dl_error *err) {
    const dl_kernel *k = e->k;
    for (int o = -1; o < 2; o++)
        for (int i = 0; i < (o < 0 ? 1 : c->nparts[o]); i++) {
            dl_dtype d = o < 0 ? c->type : k->params.at[c->parts[o][i]].type.dtype;
            if (!dl_emit_is_float(d))
                return dl_emit_refuse(
                    k, c, err, "'%s' is in %s, and the CPU's kernels compute it in f32 [DL-E0803]",
                    dl_ops[c->op].name, dl_dtype_name(d));
        }
    bool of_weights = dl_op_makes_weight(c->op);
    for (int i = 0; i < k->nin && dl_op_slides(c->op) && !of_weights; i++)
        if (i == c->parts[dl_op_place(c->op, DL_TENSOR_W)][0] &&
            k->params.at[i].type.layout.kind != DL_PANEL)
            return dl_emit_refuse(k, c, err, "the weight of '%s' does not lie in panels [DL-E0803]",
                                  dl_ops[c->op].name);
    for (int i = 0; i < e->now->run.n; i++) {
        const dl_kinstr *in = &k->instrs.at[e->now->run.at[i]];
        bool reduces = e->steps[e->now->run.at[i]].kind == DL_K_REDUCE,
             keeps = reduces && e->steps[e->now->run.at[i]].axes;
        if (keeps && (!dl_op_slides(c->op) || of_weights))
            return dl_emit_refuse(k, in, err,
                                  "next to '%s' only sums without axes are supported [DL-E0803]",
                                  dl_ops[c->op].name);
        if (reduces && !dl_emit_is_float(in->type))
            return dl_emit_refuse(k, in, err, "next to '%s' only floats can be reduced [DL-E0803]",
                                  dl_ops[c->op].name);
    }
    int sweeps = 0; /* number of the contraction's sweep, or none */
    for (int i = 0; i < e->sweeps.n; i++) sweeps += contracts(&e->sweeps.at[i]);
    if (sweeps != 1)
        return dl_emit_refuse(k, c, err, "instructions next to '%s' are swept over %s [DL-E0803]",
                              dl_ops[c->op].name, sweeps ? "more than once" : "without it");
    if (!dl_emit_has_lanes(e, &e->sweeps.at[0]))
        return dl_emit_refuse(k, c, err,
                              "next to '%s' are values of types without CPU vectors [DL-E0803]",
                              dl_ops[c->op].name);
    for (int i = 0; i < k->instrs.n && of_weights; i++)
        if (k->instrs.at[i].kind == DL_K_COORD || k->instrs.at[i].kind == DL_K_RANDOM)
            return dl_emit_refuse(k, c, err,
                                  "next to '%s' coordinates are not available [DL-E0803]",
                                  dl_ops[c->op].name);
    int64_t longest = longest_axis(k->nspace, k->space);
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < c->nparts[o]; i++) {
            const dl_type *t = &k->params.at[c->parts[o][i]].type;
            int64_t n = longest_axis(t->rank, t->axis);
            if (longest < n) longest = n;
        }
    if (longest > DL_MOST_PLACES)
        return dl_emit_refuse(
            k, c, err,
            "an axis of '%s' has more than 2^30 elements: use a smaller batch or crop [DL-E0804]",
            dl_ops[c->op].name);
    return true;
}

static dl_loops loops_of(const dl_kernel *k) {
    int anchor = dl_kernel_anchor(k);
    if (dl_kernel_call(k)) return DL_LOOPS_ATTENTION;
    if (anchor < 0) return DL_LOOPS_NONE;
    const dl_kinstr *c = &k->instrs.at[anchor];
    if (!dl_op_slides(c->op)) return DL_LOOPS_PRODUCT;
    if (c->windows.groups > 1) return DL_LOOPS_GROUP;
    return dl_op_makes_weight(c->op) ? DL_LOOPS_WEIGHT : DL_LOOPS_IMAGE;
}

static bool emit(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    if (!dl_is_c_name(k->name))
        return dl_fail(err, DL_INPUT, "kernel @%s: not a name of C", k->name);
    if (!dl_check_constants(k, err)) return false;
    code->needs[DL_NEED_HALVES] = find_halves(k);
    if (dl_kernel_call(k)) return dl_emit_attention(e, code, err);
    int anchor = dl_kernel_anchor(k);
    for (int i = 0; i < k->instrs.n; i++)
        code->needs[DL_NEED_DRAWS] |= k->instrs.at[i].kind == DL_K_RANDOM;
    e->steps = dl_kernel_steps(k, e->arena);
    e->partial = DL_NEWS(e->arena, dl_partial, k->instrs.n + 1);
    e->kept = DL_NEWS(e->arena, dl_kept, k->instrs.n + 1);
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind == DL_K_STORE && dl_kinstr_indirect(k, in) >= 0)
            return dl_emit_scatter(e, code, err);
    }
    if (anchor < 0) return dl_emit_pointwise(e, code, err);
    e->sweeps = dl_find_loop_nests(e->arena, k->instrs.n, e->steps, 0);
    for (int i = e->sweeps.n - 1; i > 0; i--) /* first of all */
        if (contracts(&e->sweeps.at[i])) {
            dl_loop_nest t = e->sweeps.at[i];
            e->sweeps.at[i] = e->sweeps.at[i - 1], e->sweeps.at[i - 1] = t;
        }
    e->now = &e->sweeps.at[0];
    if (!check_contraction(e, &k->instrs.at[anchor], err)) return false;
    return dl_op_slides(k->instrs.at[anchor].op) ? dl_emit_contraction(e, code, err)
                                                 : dl_emit_gemm(e, code, err);
}

bool dl_cpu_emit(dl_arena *arena, dl_buf *out, const dl_kernel *k, const dl_target *t,
                 dl_variant variant, dl_emitted *code, dl_error *err) {
    dl_buf text = {0};
    dl_emitter e = {.out = &text,
                    .k = k,
                    .t = t,
                    .arena = dl_arena_new(NULL),
                    .name = k->name,
                    .lane_axis = -1,
                    .dialect = &dl_dialect_c};
    DL_CHECK(variant.variant == 0 && !variant.by);
    *code = (dl_emitted){.needs = {[DL_NEED_LOOPS] = 1u << loops_of(k)}};
    (void)arena;
    bool ok = emit(&e, code, err);
    if (ok) {
        dl_puts(out, "\n");
        dl_emit_title(&e, out);
        dl_fill_holes(out, text.n ? text.at : "", k->name);
    }
    dl_buf_free(&text);
    dl_arena_free(e.arena);
    return ok;
}
