/* Operands that are matrices in memory: gemm_matrix.h. */
#include "compiler/cuda/gemm_matrix.h"

int64_t dl_product_many(const dl_product *p) {
    return (p->alone ? 1 : p->number[DL_BATCH].size) * p->parities[0] * p->parities[1] *
           p->parities[2];
}

bool dl_product_even(const dl_product *p) {
    bool even = !p->alone;
    for (int i = 0; i < DL_NUMBERS; i++)
        even &= !p->number[i].varies && p->number[i].size >= 1 && p->number[i].size <= INT32_MAX;
    return even;
}

int64_t dl_number_step(const dl_number *n, const int64_t *step) {
    int64_t first = 0, reach = -1;
    for (int c = n->n - 1; c >= 0; c--) {
        if (n->at[c].size == 1) continue;
        if (reach < 0) first = step[c];
        if (step[c] < 0 || (reach >= 0 && step[c] != reach)) return -1;
        reach = step[c] * n->at[c].size;
    }
    return first;
}

static int64_t operand_step(const dl_product *p, const dl_operand *o, int part,
                            dl_number_kind kind) {
    return dl_number_step(&p->number[kind], o->step[part][kind]);
}

/* The part's channels, where a coordinate counts only a concatenation's channels. */
static bool find_channels(const dl_product *p, const dl_operand *o, int part, int64_t *size) {
    if (o->nparts == 1) return true;
    int64_t channels = o->group < 0 ? 0 : p->number[o->channels].at[o->channel].size;
    size[o->channels] = o->start[part + 1] - o->start[part];
    return channels == o->start[o->nparts] && channels == p->number[o->channels].size;
}

bool dl_product_matrix_of(const dl_product *p, const dl_operand *o, int part, dl_matrix *to) {
    bool even = dl_product_even(p) && dl_product_many(p) == p->number[DL_BATCH].size;
    for (int i = 0; i < 3; i++) even &= !o->bounded[i] && !o->origin[i];
    if (!even) return false;
    dl_number_kind kind = o->is_left ? DL_ROWS : DL_COLUMNS;
    int64_t size[DL_NUMBERS], step = operand_step(p, o, part, kind),
                              along = operand_step(p, o, part, DL_TERMS),
                              next = operand_step(p, o, part, DL_BATCH);
    for (int i = 0; i < DL_NUMBERS; i++) size[i] = p->number[i].size;
    if (!find_channels(p, o, part, size)) return false;
    int64_t own = size[kind], terms = size[DL_TERMS], base = dl_operand_base(o, part);
    dl_dtype type = dl_operand_part(p, o, part)->dtype;
    if (base < 0 || step < 0 || along < 0 || next < 0) return false;
    *to = (dl_matrix){.param = o->param[part],
                      .offset = base * dl_dtype_bytes(type),
                      .dtype = type,
                      .next = next};
    if ((along == 1 || terms == 1) && (step >= terms || own == 1))
        to->line = own == 1 ? terms : step;
    else if ((step == 1 || own == 1) && (along >= own || terms == 1))
        to->across = true, to->line = terms == 1 ? own : along;
    else
        return false;
    return true;
}

bool dl_product_matrix(const dl_product *p, const dl_operand *o, dl_matrix *to) {
    return o->nparts == 1 && dl_product_matrix_of(p, o, 0, to);
}
