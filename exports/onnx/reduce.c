/* Reductions, and ops along one axis. */
#include "exports/onnx/ops.h"

/* ReduceSum takes its axes as an operand since opset 13, others since 18. */
const char *dl_onnx_reduced(dl_onnx *o, const char *word, const char *x, int n, const int64_t *axes,
                            bool keep) {
    dl_buf attributes = {0};
    const char *in[2] = {x, NULL};
    bool sums = strcmp(word, "ReduceSum") == 0;
    dl_onnx_put_int(&attributes, "keepdims", keep);
    if (sums)
        in[1] = dl_onnx_ints(o, n, axes);
    else
        dl_onnx_put_ints(&attributes, "axes", n, axes);
    return dl_onnx_add(o, word, sums ? 2 : 1, in, &attributes);
}

/* Truth values are reduced as whole numbers. */
bool dl_onnx_reduce(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    dl_onnx_value x = dl_onnx_in(o, n, 0), out = dl_onnx_out(o, n);
    int64_t axes[DL_MAX_RANK];
    int count = 0;
    for (int i = 0; i < x.type.rank; i++)
        if (dl_names_have(over->n, over->names, x.type.axis[i].name)) axes[count++] = i;
    if (!count) return dl_onnx_same(o, n, word);
    bool truth = x.type.dtype == DL_BOOL;
    if (truth) x = dl_onnx_cast(o, x, DL_I32);
    out.name = dl_onnx_reduced(o, word, x.name, count, axes, false);
    if (truth) out.type.dtype = DL_I32, out = dl_onnx_cast(o, out, DL_BOOL);
    return dl_onnx_set(o, n, out.name);
}

static int axis_of(const dl_node *n) {
    return dl_type_axis(&n->in[0]->type, dl_node_name(n, DL_ATTR_axis));
}

bool dl_onnx_argmax(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_onnx_value x = dl_onnx_in(o, n, 0);
    dl_onnx_value out = dl_onnx_out(o, n);
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "axis", axis_of(n));
    dl_onnx_put_int(&attributes, "keepdims", 0);
    out.name = dl_onnx_add(o, word, 1, &x.name, &attributes);
    out.type.dtype = DL_I64;
    return dl_onnx_set(o, n, dl_onnx_cast(o, out, n->out[0].type.dtype).name);
}

/* The numbers of all elements in order. Of equal ones TopK, too, takes the first first. */
bool dl_onnx_argsort(dl_onnx *o, const dl_node *n, const char *word) {
    const int axis = axis_of(n);
    dl_onnx_value x = dl_onnx_in(o, n, 0), out = dl_onnx_out(o, n);
    if (x.per[axis]) return dl_onnx_needs_batch(o);
    if (dl_dtype_is_half(x.type.dtype)) x = dl_onnx_cast(o, x, DL_F32);
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "axis", axis);
    dl_onnx_put_int(&attributes, "largest", dl_node_int(n, DL_ATTR_descending));
    const int64_t all = x.type.axis[axis].size;
    const char *in[] = {x.name, dl_onnx_ints(o, 1, &all)}, *made[2];
    dl_onnx_add_all(o, word, 2, in, &attributes, 2, made);
    out.name = made[1], out.type.dtype = DL_I64;
    return dl_onnx_set(o, n, dl_onnx_cast(o, out, n->out[0].type.dtype).name);
}

bool dl_onnx_along(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_onnx_value x = dl_onnx_in(o, n, 0);
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "axis", axis_of(n));
    return dl_onnx_set(o, n, dl_onnx_add(o, word, 1, &x.name, &attributes));
}
