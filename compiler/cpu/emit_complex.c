/* Calls of complex contractions: writes their sizes and strides as constants. The loops are in
 * compiler/cpu/kernels/complex.c. */
#include "compiler/cpu/emit_cpu.h"
#include "ir/complex.h"

static void put_axes(dl_emitter *e, const char *name, const dl_complex_axes *axes) {
    dl_putf(e->out, ".%s = {.n = %d, .size = {", name, axes->n);
    for (int i = 0; i < axes->n; i++) dl_putf(e->out, "%lld, ", (long long)axes->size[i]);
    dl_puts(e->out, "0}, .stride = {");
    for (int t = 0; t < DL_COMPLEX_TENSORS; t++) {
        dl_puts(e->out, "{");
        for (int i = 0; i < axes->n; i++) dl_putf(e->out, "%lld, ", (long long)axes->stride[t][i]);
        dl_puts(e->out, "0}, ");
    }
    dl_puts(e->out, "}}, ");
}

bool dl_emit_complex(dl_emitter *e, dl_emitted *code, dl_error *err) {
    enum { ITEMS = 32 }; /* so that all threads have work */
    (void)err;
    dl_complex_contract c = dl_complex_contract_of(dl_kernel_call(e->k));
    bool wide = e->k->params.at[0].type.dtype == DL_F64;
    const char *suffix = wide ? "f64" : "f32", *name = DL_OWN_NAME;
    int64_t blocks = dl_ceil_div(c.lanes, wide ? e->t->lanes / 2 : e->t->lanes);
    int64_t items = c.batch.count * blocks, parts = 1, pairs = dl_ceil_div(c.columns.count, 2);
    while (items && items * parts < ITEMS && parts < pairs) parts++;
    dl_putf(e->out,
            "static const struct contraction_%s %s_shape = {.lanes = %lld, .batches = %lld, "
            ".blocks = %lld, .parts = %lld, .rows = %lld, .columns = %lld, .terms = %lld, ",
            suffix, name, (long long)c.lanes, (long long)c.batch.count, (long long)blocks,
            (long long)parts, (long long)c.rows.count, (long long)c.columns.count,
            (long long)c.terms.count);
    put_axes(e, "batch", &c.batch), put_axes(e, "row", &c.rows);
    put_axes(e, "column", &c.columns), put_axes(e, "term", &c.terms);
    dl_putf(e->out, ".conj_a = %d, .conj_b = %d};\n", c.conj[0] ? -1 : 1, c.conj[1] ? -1 : 1);
    dl_emit_phase(
        e, code, items * parts,
        dl_format(e->arena, "complex_item_%s(&%s_shape, arg, item, scratch);", suffix, name));
    code->scratch = 16 * dl_at_least(1, c.terms.count);
    code->needs[DL_NEED_LOOPS] |= DL_LOOPS_COMPLEX;
    return true;
}
