/* Kernel IR -> C for the CPU: the choice of a kernel's emitter. */
#include "compiler/cpu/emit_cpu.h"
#include "compiler/codegen/holes.h"

#include "compiler/cpu/emit_windows.h"
#include "ir/base/foreign.h"

/* A kernel's 16-bit types, as bits of DL_NEED_HALVES. */
static unsigned find_halves(const dl_kernel *k) {
    unsigned types = 0;
    for (int i = 0; i < k->params.n; i++) types |= 1u << k->params.at[i].type.dtype;
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind != DL_K_CALL) types |= 1u << k->instrs.at[i].type;
    return (types >> DL_F16 & 1) | (types >> DL_BF16 & 1) << 1;
}

/* Does a loop nest compute the contraction, which is instruction 0? */
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
    if (!dl_emit_check_epilogue(e, c, err)) return false;
    int nests = 0; /* number of the contraction's loop nest, or none */
    for (int i = 0; i < e->nests.n; i++) nests += contracts(&e->nests.at[i]);
    if (nests != 1)
        return dl_emit_refuse(k, c, err, "instructions next to '%s' are swept over %s [DL-E0803]",
                              dl_ops[c->op].name, nests ? "more than once" : "without it");
    if (!dl_emit_has_lanes(e, &e->nests.at[0]))
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

#define DL_TEMPLATE(id, ...)                   [DL_OP_##id] = __VA_ARGS__,
#define CALL(results, family, variants, shard) dl_emit_##family
#define OP                                     DL_TEMPLATE_ROW
static dl_emit_call *const emit_call[DL_NOPS] = {
#include "ir/ops.def"
};
#undef OP

static bool emit(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    if (!dl_is_c_name(k->name))
        return dl_fail(err, DL_INPUT, "kernel @%s: not a name of C", k->name);
    if (!dl_check_constants(k, err)) return false;
    code->needs[DL_NEED_HALVES] = find_halves(k);
    if (k->schedule.kind == DL_BY_CALL) return emit_call[dl_kernel_call(k)->op](e, code, err);
    int anchor = dl_kernel_anchor(k);
    for (int i = 0; i < k->instrs.n; i++)
        code->needs[DL_NEED_DRAWS] |= k->instrs.at[i].kind == DL_K_RANDOM;
    dl_emit_by_schedule(e, k);
    switch (k->schedule.kind) {
    case DL_BY_POINTS:
    case DL_BY_ROWS: return dl_emit_pointwise(e, code, err);
    case DL_BY_SCATTER: return dl_emit_scatter(e, code, err);
    case DL_BY_TILES: break;
    default: return dl_emit_refuse_schedule(k, err);
    }
    e->now = &e->nests.at[0];
    if (!check_contraction(e, &k->instrs.at[anchor], err)) return false;
    return dl_op_slides(k->instrs.at[anchor].op) ? dl_emit_contraction(e, code, err)
                                                 : dl_emit_gemm(e, code, err);
}

bool dl_cpu_emit(dl_arena *arena, dl_buf *out, const dl_kernel *k, const dl_target *t,
                 dl_emitted *code, dl_error *err) {
    dl_buf text = {0};
    dl_emitter e = {.out = &text,
                    .k = k,
                    .t = t,
                    .arena = dl_arena_new(NULL),
                    .name = k->name,
                    .lane_axis = -1,
                    .dialect = &dl_dialect_c};
    *code = (dl_emitted){0};
    (void)arena;
    bool ok = k->schedule.variant ? dl_emit_refuse_variant(k, t, err) : emit(&e, code, err);
    if (ok) {
        dl_puts(out, "\n");
        dl_emit_title(&e, out);
        dl_fill_holes(out, text.n ? text.at : "", k->name);
    }
    dl_buf_free(&text);
    dl_arena_free(e.arena);
    return ok;
}
