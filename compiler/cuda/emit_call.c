/* Kernels whose GEMM a library can compute: contractions that are plain matrix products in
 * memory, and what such a call computes of a kernel (ir/call.h). Convolutions are in
 * emit_call_windows.c; the rest of the kernel, after a call that computes the sums alone, in
 * emit_contract.c. */
#include "compiler/cuda/gemm_matrix.h"

enum { LINE = 8 /* elements: rows of sums begin at multiples of it */ };

/* ---- what the call computes ---- */

static bool is_point(const dl_mode_axis *c) { return c->size == 1; }

/* The coordinate that equals a space axis; false: the axis has extent 1, or several coordinates. */
static bool counter_of(const dl_gemm_problem *p, int axis, dl_mode_kind *kind, int *mode_axis) {
    *kind = p->of[axis];
    for (*mode_axis = 0; *mode_axis < p->mode[*kind].n; ++*mode_axis)
        if (!is_point(&p->mode[*kind].at[*mode_axis]) &&
            strcmp(p->mode[*kind].at[*mode_axis].name, p->coordinate[axis]) == 0)
            return true;
    return false;
}

/* A store's destination as a matrix whose lines are the rows. */
static bool find_result(const dl_gemm_problem *p, const dl_kinstr *store, dl_matrix *to) {
    const dl_kparam *param = &p->k->params.at[store->param];
    int64_t stride[DL_MAX_RANK], step[DL_MODES][DL_MAX_RELATION], offset = 0, whole[DL_MODES];
    for (int k = 0; k < DL_MODES; k++)
        for (int c = 0; c < DL_MAX_RELATION; c++) step[k][c] = -1;
    if (param->alias >= 0 || param->type.layout.kind == DL_PANEL) return false;
    dl_type_strides(&param->type, stride);
    for (int i = 0; i < param->type.rank; i++) {
        const dl_index *index = &store->index[i];
        dl_mode_kind kind;
        int mode_axis;
        if (index->nterms || index->div || index->indirect ||
            !dl_index_inside(p->k->space, index, param->type.axis[i].size))
            return false;
        offset += index->offset * stride[i];
        if (index->axis < 0 || p->k->space[index->axis].size == 1) continue;
        if (!counter_of(p, index->axis, &kind, &mode_axis)) return false;
        step[kind][mode_axis] = stride[i];
    }
    for (int k = 0; k < DL_MODES; k++) whole[k] = dl_mode_stride(&p->mode[k], step[k]);
    int64_t columns = p->mode[DL_MODE_N].size, rows = p->mode[DL_MODE_M].size;
    *to = (dl_matrix){.param = store->param,
                      .offset = offset * dl_dtype_bytes(param->type.dtype),
                      .dtype = param->type.dtype,
                      .line = rows == 1 ? columns : whole[DL_MODE_M],
                      .next = whole[DL_MODE_BATCH]};
    return whole[DL_MODE_BATCH] >= 0 && (columns == 1 || whole[DL_MODE_N] == 1) &&
           to->line >= columns;
}

/* Is it one number per column, in their order? */
static bool is_bias(const dl_gemm_problem *p, const dl_kinstr *in) {
    const dl_type *t = &p->k->params.at[in->param].type;
    dl_mode_kind kind;
    int mode_axis;
    return in->kind == DL_K_LOAD && t->rank == 1 && in->index[0].axis >= 0 &&
           !in->index[0].indirect && dl_index_natural(p->k->space, in->index) &&
           counter_of(p, in->index[0].axis, &kind, &mode_axis) && kind == DL_MODE_N &&
           p->mode[kind].size == p->mode[kind].at[mode_axis].size &&
           t->axis[0].size == p->mode[kind].size && t->layout.kind != DL_PANEL;
}

static bool is_op(const dl_kinstr *in, dl_op op) {
    return in->kind == DL_K_ELEM && in->op == op && in->type == DL_F32;
}

/* Is the kernel exactly a GEMM, a bias, relu and one store, in that order? */
static bool find_whole(const dl_gemm_problem *p, dl_matmul *m) {
    const dl_kernel *k = p->k;
    int at = 1, value = 0, n = k->instrs.n;
    const dl_kinstr *in = k->instrs.at;
    if (at + 1 < n && is_bias(p, &in[at]) && is_op(&in[at + 1], DL_OP_add) &&
        ((in[at + 1].args[0] == value && in[at + 1].args[1] == at) ||
         (in[at + 1].args[1] == value && in[at + 1].args[0] == at))) {
        m->bias = in[at].param, m->bias_type = k->params.at[m->bias].type.dtype;
        value = at + 1, at += 2;
    }
    if (at < n && is_op(&in[at], DL_OP_relu) && in[at].args[0] == value)
        m->relu = true, value = at++;
    return at == n - 1 && in[at].kind == DL_K_STORE && in[at].args[0] == value &&
           find_result(p, &in[at], &m->result) &&
           (m->result.dtype == DL_F32 || m->result.dtype == m->left.dtype);
}

/* Dense, by batch, then row. */
static dl_matrix sums_of(const dl_matmul *m) {
    int64_t line = (m->columns + LINE - 1) / LINE * LINE;
    return (dl_matrix){
        .param = DL_IN_WORKSPACE, .dtype = DL_F32, .line = line, .next = line * m->rows};
}

static int find_matmuls(const dl_gemm_problem *p, dl_call *forms) {
    dl_matmul m = {.batch = p->mode[DL_MODE_BATCH].size,
                   .rows = p->mode[DL_MODE_M].size,
                   .columns = p->mode[DL_MODE_N].size,
                   .terms = p->mode[DL_MODE_K].size,
                   .tf32 = p->c->tf32,
                   .bias = -1};
    int n = 0;
    if (!dl_gemm_matrix(p, &p->operand[0], &m.left) ||
        !dl_gemm_matrix(p, &p->operand[1], &m.right) || m.left.dtype != m.right.dtype ||
        !dl_call_takes(m.left.dtype))
        return 0;
    dl_matmul whole = m;
    if (find_whole(p, &whole))
        forms[n++] =
            (dl_call){.algorithm.form = DL_FORM_WHOLE, .what = DL_CALLED_MATMUL, .matmul = whole};
    if (n && whole.bias < 0 && !whole.relu) return n; /* the sums alone are the whole kernel */
    m.result = sums_of(&m);
    forms[n++] = (dl_call){.algorithm.form = DL_FORM_SUMS, .what = DL_CALLED_MATMUL, .matmul = m};
    return n;
}

int dl_gemm_calls(const dl_gemm_problem *p, dl_call *forms) {
    if (p->c->type != DL_F32) return 0;
    int n = find_matmuls(p, forms);
    return n + dl_gemm_convolutions(p, forms + n);
}

/* ---- the place of its sums ---- */

/* Dense, by batch, then row. */
static dl_sums_place place_matmul(dl_emitter *e, const dl_gemm_problem *p, const dl_call *c) {
    const dl_matrix *sums = &c->matmul.result;
    int64_t line = sums->line;
    return (dl_sums_place){
        .first = dl_format(e->arena, "((long)(tile / $/%lldU$) * $%lldL$ + m) * $%lldL$ + n",
                           (long long)(p->tiling.mt * p->tiling.nt),
                           (long long)p->mode[DL_MODE_M].size, (long long)line),
        .at = dl_format(e->arena, "(long)row * $%lldL$ + column", (long long)line)};
}

/* A tensor with the coordinates of the space, which is the result's. */
static dl_sums_place place_convolution(dl_emitter *e, const dl_gemm_problem *p, const dl_call *c) {
    const dl_convolution *v = &c->convolution;
    const char *at = "";
    for (int i = 0; i < p->k->nspace; i++)
        at = dl_format(e->arena, "%s%s(long)$x%d$ * $%lldL$", at, i ? " + " : "", i,
                       (long long)v->of[v->makes].step[dl_gemm_tensor_axis(p, i)]);
    return (dl_sums_place){.first = "0", .at = at};
}

dl_sums_place dl_gemm_sums(dl_emitter *e, const dl_gemm_problem *p, const dl_call *c) {
    static dl_sums_place (*const place[DL_NCALLED])(dl_emitter *, const dl_gemm_problem *,
                                                    const dl_call *) = {
        [DL_CALLED_MATMUL] = place_matmul, [DL_CALLED_CONVOLUTION] = place_convolution};
    return place[c->what](e, p, c);
}
