/* Operands that a tensor map describes (ir/tensor_map.h), whose boxes are tiles as wgmma takes them
 * (kernels/contract_groups.cu): matrices of memory, of the type that is multiplied, along the terms or, in 16
 * bits, along their rows. */
#include "compiler/cuda/emit_tiles.h"

bool dl_product_boxes(const dl_product *p, const dl_operand *o, int rows, dl_tensor_map *map) {
    dl_matrix m;
    bool ok = p->has_maps && (o->along_k || p->word == 2) && dl_product_matrix(p, o, &m) &&
              m.dtype == o->dtype && m.across != o->along_k;
    if (!ok) return false;
    int64_t own = p->number[o->is_left ? DL_ROWS : DL_COLUMNS].size, terms = p->number[DL_TERMS].size,
            batch = p->number[DL_BATCH].size, lines = m.across ? terms : own;
    *map = (dl_tensor_map){
        .param = m.param,
        .dtype = m.dtype,
        .swizzle = m.across ? DL_LINE_BLOCK : DL_LINE,
        .box = {(m.across ? DL_LINE_BLOCK : DL_LINE) / p->word, m.across ? DL_LINE / p->word : rows, 1},
        .offset = m.offset,
        .size = {m.across ? own : terms, lines, m.next ? batch : 1},
        .step = {m.line * p->word, (m.next ? m.next : m.line * lines) * p->word}};
    return dl_tensor_map_fits(map, dl_type_bytes(dl_operand_part(p, o, 0)));
}

/* "b0 * 12 + b1": which product of the batch the block makes; 0 where the operand is the same for all. */
static void put_matrix(dl_emitter *e, const dl_product *p, const dl_operand *o) {
    const dl_number *b = &p->number[DL_BATCH];
    dl_matrix m;
    int64_t step = b->size;
    bool any = false;
    for (int i = 0; i < b->n && dl_product_matrix(p, o, &m) && m.next; i++) {
        step /= b->at[i].size;
        if (b->at[i].size == 1) continue;
        dl_putf(e->out, "%s%s", any ? " + " : "", b->at[i].name);
        if (step != 1) dl_putf(e->out, " * %lld%s", (long long)step, e->dialect->whole);
        any = true;
    }
    if (!any) dl_puts(e->out, "0");
}

void dl_product_put_boxes(dl_emitter *e, const dl_product *p, const dl_operand *o) {
    dl_product_put_head(e, o, dl_operand_side(o));
    dl_putf(e->out,
            "    enum { ALONG_K = %d, BYTES = CT_BOXES };\n    const kd_map *map;\n"
            "    INLINE int matrix() const { return (int)(",
            o->along_k);
    put_matrix(e, p, o);
    dl_puts(e->out, "); }\n};\n");
}
