/* Modes and operands of a GEMM problem: operands.h. */
#include "compiler/cuda/operands.h"

void dl_gemm_add_axis(dl_gemm_problem *p, dl_emitter *e, dl_mode_kind kind, int64_t size,
                      const char *text) {
    static const char letters[DL_MODES] = {'b', 'm', 'n', 'k'};
    dl_mode *n = &p->mode[kind];
    if (!n->n) n->size = 1;
    const char *variable = dl_format(e->arena, "%c%d", letters[kind], n->n),
               *name = size == 1 && !text ? "0" : variable;
    n->at[n->n++] = (dl_mode_axis){name, text, size, variable};
    n->size *= size;
    n->varies |= text != NULL;
}

void dl_gemm_place(dl_gemm_problem *p, int axis, dl_mode_kind kind, const char *text,
                   const char *variable) {
    p->coordinate[axis] = text, p->of[axis] = kind;
    p->reads[axis][0] = variable, p->reads[axis][1] = NULL;
}

dl_operand dl_operand_new(const dl_gemm_problem *p, int place, bool left) {
    dl_operand o = {
        .place = place, .nparts = p->c->nparts[place], .group = -1, .map = -1, .is_left = left};
    for (int i = 0; i < o.nparts; i++) {
        o.param[i] = p->c->parts[place][i];
        const dl_type *t = dl_operand_part(p, &o, i);
        o.start[i + 1] = o.start[i] + (t->rank > 1 ? t->axis[1].size : 0);
    }
    for (int i = 0; i < 3; i++) o.origin[i] = NULL, o.limit[i] = 1;
    return o;
}

void dl_operand_follow(const dl_gemm_problem *p, dl_operand *o, dl_mode_kind kind, int mode_axis,
                       int axis, int64_t times) {
    for (int i = 0; i < o->nparts; i++) {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(dl_operand_part(p, o, i), stride);
        o->step[i][kind][mode_axis] += stride[axis] * times;
    }
}
