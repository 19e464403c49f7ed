/* Calls of linear scans: writes their sizes as constants. The loops are in
 * compiler/cpu/kernels/scan.c. */
#include "compiler/cpu/emit_cpu.h"
#include "compiler/cpu/operands.h"
#include "ir/scan.h"

bool dl_emit_scan(dl_emitter *e, dl_emitted *code, dl_error *err) {
    /* ITEMS: so that all threads have work. A block of MOST elements and its states fit into the
     * first cache; fewer than LEAST of them would read memory in short pieces. */
    enum { ITEMS = 32, LEAST = 256, MOST = 1024, LINES = 4 };
    static const char *const suffixes[DL_NDTYPES] = {
        [DL_F64] = "f64", [DL_I32] = "i32", [DL_I64] = "i64"};
    (void)err;
    const dl_scan s = dl_scan_of(dl_kernel_call(e->k));
    dl_dtype type = e->k->params.at[0].type.dtype;
    bool floats = !suffixes[type], wide = type == DL_F64 || type == DL_I64;
    const char *suffix = floats ? "f32" : suffixes[type], *name = DL_OWN_NAME;
    int64_t lanes = wide ? e->t->lanes / 2 : e->t->lanes, lines = s.outer * s.inner;
    int64_t block = dl_ceil_div(lines, ITEMS), blocks = 0;
    if (s.inner >= lanes) {
        block = block < LEAST ? LEAST : block > MOST ? MOST : block;
        blocks = dl_ceil_div(s.inner, dl_round_up(block, lanes));
        block = dl_round_up(dl_ceil_div(s.inner, blocks), lanes); /* of nearly equal size */
        blocks = dl_ceil_div(s.inner, block);
    } else {
        block = dl_round_up(block ? block : 1, LINES);
    }
    dl_putf(e->out,
            "static const struct scan_%s %s_shape = {.steps = %lld, .inner = %lld, .lines = %lld, "
            ".block = %lld, .blocks = %lld, .reverse = %d, .before = %d, .has_factors = %d, .type "
            "= %s};\n",
            suffix, name, (long long)s.steps, (long long)s.inner, (long long)lines,
            (long long)block, (long long)blocks, s.reverse, s.before, s.has_factors,
            floats ? dl_emit_element(type) : "0");
    int64_t items = blocks ? s.outer * blocks : dl_ceil_div(lines, block);
    dl_emit_phase(
        e, code, s.steps ? items : 0,
        dl_format(e->arena, "scan_item_%s(&%s_shape, arg, item, scratch);", suffix, name));
    code->scratch = blocks ? block * (wide ? 8 : 4) : 0;
    code->needs[DL_NEED_LOOPS] |= DL_LOOPS_SCAN;
    return true;
}
