/* Vector accesses of a thread as statements (the library's vec): of a load, a store, or a value
 * that an earlier loop nest has kept. */
#include "compiler/codegen/emit_parts.h"

/* "p1 + x0 * 8": the address of a vector. */
static void put_place(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    if (dl_emit_is_access(in)) {
        dl_putf(e->out, "%s + ", dl_emit_param(e, in->param));
        dl_emit_address(e, &e->k->params.at[in->param].type, in->index);
    } else {
        dl_emit_kept_place(e, number), dl_puts(e->out, " + ");
        dl_emit_linear_index(e, &e->kept[number].by);
    }
}

const char *dl_emit_vector_type(const dl_emitter *e, int number, int width) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    dl_dtype type =
        dl_emit_is_access(in) ? e->k->params.at[in->param].type.dtype : dl_kernel_type(in->type);
    return dl_format(e->arena, "vec<%s, %d>", dl_emit_element_type(type), width);
}

void dl_emit_load_vector(dl_emitter *e, const char *to, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    const dl_type *t = dl_emit_is_access(in) ? &e->k->params.at[in->param].type : NULL;
    size_t mark = e->out->n;
    dl_putf(e->out, "    %s.load_where(", to);
    bool bounded = t && dl_emit_bounds(e, t, in->index);
    if (bounded)
        dl_puts(e->out, ", ");
    else
        e->out->n = mark, dl_putf(e->out, "    %s.load(", to);
    put_place(e, number);
    if (bounded) {
        bool half = dl_dtype_is_half(t->dtype);
        dl_puts(e->out, !half ? ", " : t->dtype == DL_F16 ? ", s_narrow_f16(" : ", s_narrow_bf16(");
        dl_emit_constant(e, dl_kernel_type(t->dtype), dl_kinstr_outside(in, e->k->space, t));
        dl_puts(e->out, half ? ")" : "");
    }
    dl_puts(e->out, ");\n");
}

void dl_emit_store_vector(dl_emitter *e, int number) {
    dl_putf(e->out, "    $l%d$.store(", number), put_place(e, number), dl_puts(e->out, ");\n");
}
