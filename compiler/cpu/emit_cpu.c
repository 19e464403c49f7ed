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

/* Refuses contractions that the hand-written loops cannot compute. */
static bool check_contraction(const dl_emitter *e, const dl_kinstr *c, dl_error *err) {
    const dl_kernel *k = e->k;
    if (!dl_emit_check_contraction(e, c, "the CPU's kernels", err)) return false;
    if (!dl_emit_has_lanes(e, &e->nests.at[0]))
        return dl_emit_refuse(k, c, err,
                              "next to '%s' are values of types without CPU vectors [DL-E0803]",
                              dl_ops[c->op].name);
    bool in_order = e->t->contractions->in_memory_order(c->op);
    for (int i = 0; i < k->instrs.n && in_order; i++)
        if (k->instrs.at[i].kind == DL_K_COORD || k->instrs.at[i].kind == DL_K_RANDOM)
            return dl_emit_refuse(k, c, err,
                                  "next to '%s' coordinates are not available [DL-E0803]",
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

/* Does the target have the variant that the schedule names, if it names one? */
static bool has_variant(const dl_kernel *k, const dl_target *t) {
    const char *names[DL_MOST_VARIANTS], *own = k->schedule.variant;
    int n = own ? dl_cpu_variants(k, t, names) : 0;
    bool any = !own;
    for (int i = 0; i < n && n > 1; i++) any |= strcmp(names[i], own) == 0;
    return any;
}

bool dl_cpu_emit(dl_arena *arena, dl_buf *out, const dl_kernel *k, const dl_target *t,
                 dl_emitted *code, dl_error *err) {
    dl_buf text = {0};
    dl_emitter e = {.out = &text,
                    .k = k,
                    .t = t,
                    .arena = dl_arena_new(NULL),
                    .lane_axis = -1,
                    .dialect = &dl_dialect_c};
    *code = (dl_emitted){0};
    bool ok = has_variant(k, t) ? emit(&e, code, err) : dl_emit_refuse_variant(k, t, err);
    if (ok) {
        dl_puts(out, "\n");
        dl_emit_title(&e, out);
        dl_fill_holes(out, text.n ? text.at : "", k->name);
        dl_buf nameless = {0};
        dl_fill_holes(&nameless, text.n ? text.at : "", DL_OWN_NAME);
        code->nameless = dl_strdup(arena, nameless.at ? nameless.at : "");
        dl_buf_free(&nameless);
    }
    dl_buf_free(&text);
    dl_arena_free(e.arena);
    return ok;
}
