/* Calls of a sort: writes its sizes as constants. The loops are in compiler/cpu/kernels/sort.c. */
#include "compiler/cpu/emit_cpu.h"
#include "compiler/cpu/operands.h"
#include "ir/sort.h"

bool dl_emit_sort(dl_emitter *e, dl_emitted *code, dl_error *err) {
    /* SHORT: up to so many elements insertion is faster than digits. From LONG on, wider digits
     * with fewer passes are worth their larger tables. ITEM: elements of a work item. */
    enum { SHORT = 64, LONG = 4096, ITEM = 1 << 14 };
    static const char *const suffixes[DL_NDTYPES] = {
        [DL_F64] = "f64", [DL_I32] = "i32", [DL_I64] = "i64"};
    (void)err;
    const dl_sort s = dl_sort_of(dl_kernel_call(e->k));
    const dl_dtype type = e->k->params.at[0].type.dtype;
    const bool floats = !suffixes[type];
    const char *suffix = floats ? "f32" : suffixes[type], *name = DL_OWN_NAME;
    const int64_t lines = s.outer * s.inner, key = dl_sort_key_bytes(type);
    const int64_t bits = s.size <= SHORT ? 0 : s.size < LONG ? 8 : 11;
    const int64_t each = dl_ceil_div(ITEM, s.size ? s.size : 1);
    dl_putf(e->out,
            "static const struct sort_%s %s_shape = {.size = %lld, .inner = %lld, .lines = %lld, "
            ".each = %lld, .bits = %lld, .descending = %d, .type = %s};\n",
            suffix, name, (long long)s.size, (long long)s.inner, (long long)lines, (long long)each,
            (long long)bits, s.descending, floats ? dl_emit_element(type) : "0");
    dl_emit_phase(
        e, code, s.size ? dl_ceil_div(lines, each) : 0,
        dl_format(e->arena, "sort_item_%s(&%s_shape, arg, item, scratch);", suffix, name));
    const int64_t counts = bits ? dl_ceil_div(8 * key, bits) << bits : 0;
    code->scratch = counts * 4 + 2 * s.size * 2 * key;
    code->needs[DL_NEED_LOOPS] |= DL_LOOPS_SORT;
    return true;
}
