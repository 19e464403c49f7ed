/* Convolutions that a library can compute: windowed contractions of strided tensors, with any
 * strides, dilation, padding and groups, as calls (ir/call.h). */
#include "compiler/cuda/gemm_matrix.h"

int dl_gemm_tensor_axis(const dl_gemm_problem *p, int axis) {
    return axis < 2 ? axis : 2 + dl_conv_spatial(&p->c->windows, axis);
}

/* Strides of missing spatial axes, which have extent 1: the whole of the next axis. */
static void step_over_missing(const dl_convolution *c, const dl_gemm_problem *p, dl_tensor of,
                              dl_lattice *to) {
    int64_t size[DL_TENSOR_AXES];
    dl_convolution_sizes(c, of, size);
    for (int i = DL_TENSOR_AXES - 1 - p->c->windows.n; i >= 2; i--)
        to->step[i] = to->step[i + 1] * size[i + 1];
}

/* An operand with one part; a weight from w_start on. */
static bool find_operand(const dl_gemm_problem *p, const dl_convolution *c, dl_tensor of,
                         dl_lattice *to) {
    int place = dl_op_place(p->c->op, of);
    int64_t stride[DL_MAX_RANK];
    if (p->c->nparts[place] != 1) return false;
    const dl_type *t = &p->k->params.at[p->c->parts[place][0]].type;
    if (!dl_call_takes(t->dtype)) return false;
    dl_type_strides(t, stride);
    *to = (dl_lattice){.param = p->c->parts[place][0], .dtype = t->dtype};
    if (of == DL_TENSOR_W) to->offset = p->c->w_start * stride[0] * dl_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++) to->step[dl_gemm_tensor_axis(p, i)] = stride[i];
    step_over_missing(c, p, of, to);
    return true;
}

/* Is the kernel exactly the convolution and one store of it? Finds the store's destination. */
static bool find_whole(const dl_gemm_problem *p, const dl_convolution *c, dl_dtype operands,
                       dl_lattice *to) {
    const dl_kernel *k = p->k;
    const dl_kinstr *store = &k->instrs.at[1];
    int64_t stride[DL_MAX_RANK], offset = 0;
    unsigned followed = 0;
    if (k->instrs.n != 2 || store->kind != DL_K_STORE || store->args[0] != 0) return false;
    const dl_kparam *param = &k->params.at[store->param];
    dl_dtype type = param->type.dtype;
    if (param->alias >= 0 || param->type.layout.kind == DL_PANEL ||
        (type != DL_F32 && type != operands))
        return false;
    dl_type_strides(&param->type, stride);
    *to = (dl_lattice){.param = store->param, .dtype = type, .step = {1, 1, 1, 1, 1}};
    for (int i = 0; i < param->type.rank; i++) {
        const dl_index *index = &store->index[i];
        if (index->nterms || index->div || index->indirect ||
            !dl_index_inside(k->space, index, param->type.axis[i].size))
            return false;
        offset += index->offset * stride[i];
        if (index->axis < 0) continue;
        if (followed >> index->axis & 1) return false;
        followed |= 1u << index->axis;
        to->step[dl_gemm_tensor_axis(p, index->axis)] = stride[i];
    }
    for (int i = 0; i < k->nspace; i++)
        if (k->space[i].size != 1 && !(followed >> i & 1)) return false;
    to->offset = offset * dl_dtype_bytes(type);
    step_over_missing(c, p, c->makes, to);
    return true;
}

/* The sums, dense, channels last, which libraries prefer. */
static dl_lattice sums_of(const dl_convolution *c) {
    static const int inwards[DL_TENSOR_AXES] = {1, 4, 3, 2, 0};
    dl_lattice to = {.param = DL_IN_WORKSPACE, .dtype = DL_F32};
    int64_t size[DL_TENSOR_AXES], step = 1;
    dl_convolution_sizes(c, c->makes, size);
    for (int i = 0; i < DL_TENSOR_AXES; i++) to.step[inwards[i]] = step, step *= size[inwards[i]];
    return to;
}

int dl_gemm_convolutions(const dl_gemm_problem *p, dl_call *forms) {
    if (!dl_op_slides(p->c->op)) return 0;
    dl_convolution c = {.makes = dl_op_tensor(p->c->op, DL_RESULT_PLACE),
                        .size = dl_relation_sizes(&p->r),
                        .tf32 = p->c->tf32};
    dl_dtype operands = DL_NDTYPES;
    dl_lattice whole;
    bool ok = c.size.samples > 0 && c.size.groups > 0 && c.size.c > 0 && c.size.o > 0;
    /* Negative padding would crop x, which libraries do not support. */
    for (int i = 0; i < 3; i++) ok = ok && dl_convolution_slides(&c, i);
    for (dl_tensor t = DL_TENSOR_X; ok && t < DL_NTENSORS; t++) {
        if (t == c.makes) continue;
        ok = find_operand(p, &c, t, &c.of[t]) &&
             (operands == DL_NDTYPES || operands == c.of[t].dtype);
        operands = c.of[t].dtype;
    }
    if (!ok) return 0;
    dl_call call = {
        .algorithm.form = DL_FORM_SUMS, .what = DL_CALLED_CONVOLUTION, .convolution = c};
    if (find_whole(p, &c, operands, &whole))
        call.algorithm.form = DL_FORM_WHOLE, call.convolution.of[c.makes] = whole;
    else
        call.convolution.of[c.makes] = sums_of(&c);
    forms[0] = call;
    return 1;
}
