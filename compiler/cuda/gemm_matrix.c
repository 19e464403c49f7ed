/* Operands that are matrices in memory: gemm_matrix.h. */
#include "compiler/cuda/gemm_matrix.h"

int64_t dl_gemm_batch(const dl_gemm_problem *p) {
    return (p->direct ? 1 : p->mode[DL_MODE_BATCH].size) * p->stride_phases[0] *
           p->stride_phases[1] * p->stride_phases[2];
}

bool dl_gemm_is_uniform(const dl_gemm_problem *p) {
    bool even = !p->direct;
    for (int i = 0; i < DL_MODES; i++)
        even &= !p->mode[i].varies && p->mode[i].size >= 1 && p->mode[i].size <= INT32_MAX;
    return even;
}

int64_t dl_mode_stride(const dl_mode *n, const int64_t *step) {
    int64_t size[DL_MAX_RELATION];
    for (int c = 0; c < n->n; c++) size[c] = n->at[c].size;
    return dl_linear_stride(n->n, size, step);
}

static int64_t operand_step(const dl_gemm_problem *p, const dl_operand *o, int part,
                            dl_mode_kind kind) {
    return dl_mode_stride(&p->mode[kind], o->step[part][kind]);
}

/* The part's channels, where a coordinate counts only a concatenation's channels. */
static bool find_channels(const dl_gemm_problem *p, const dl_operand *o, int part, int64_t *size) {
    if (o->nparts == 1) return true;
    int64_t channels = o->group < 0 ? 0 : p->mode[o->channels].at[o->channel].size;
    size[o->channels] = o->start[part + 1] - o->start[part];
    return channels == o->start[o->nparts] && channels == p->mode[o->channels].size;
}

bool dl_gemm_matrix_of(const dl_gemm_problem *p, const dl_operand *o, int part, dl_matrix *to) {
    bool even = dl_gemm_is_uniform(p) && dl_gemm_batch(p) == p->mode[DL_MODE_BATCH].size;
    for (int i = 0; i < 3; i++) even &= !o->bounded[i] && !o->origin[i];
    if (!even) return false;
    dl_mode_kind kind = o->is_left ? DL_MODE_M : DL_MODE_N;
    int64_t size[DL_MODES], step = operand_step(p, o, part, kind),
                            along = operand_step(p, o, part, DL_MODE_K),
                            next = operand_step(p, o, part, DL_MODE_BATCH);
    for (int i = 0; i < DL_MODES; i++) size[i] = p->mode[i].size;
    if (!find_channels(p, o, part, size)) return false;
    int64_t own = size[kind], terms = size[DL_MODE_K], base = dl_operand_base(o, part);
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

bool dl_gemm_matrix(const dl_gemm_problem *p, const dl_operand *o, dl_matrix *to) {
    return o->nparts == 1 && dl_gemm_matrix_of(p, o, 0, to);
}
