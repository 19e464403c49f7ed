/* Sources, and ops that move elements. */
#include "exports/onnx/batch.h"
#include "exports/onnx/ops.h"

bool dl_onnx_const(dl_onnx *o, const dl_node *n, const char *word) {
    (void)word;
    o->values[n->out[0].id].name =
        dl_onnx_scalar(o, n->out[0].type.dtype, dl_node_float(n, DL_ATTR_value));
    return true;
}

/* Along the batch the numbers are counted when the network runs; ONNX counts in wide types. */
bool dl_onnx_iota(dl_onnx *o, const dl_node *n, const char *word) {
    dl_onnx_value out = dl_onnx_out(o, n);
    int64_t size = out.type.axis[0].size;
    if (out.per[0]) {
        if (out.per[0] != 1) return dl_onnx_needs_batch(o);
        dl_onnx_value count = {.name = dl_onnx_batch(o), .type = dl_scalar(DL_I64)};
        dl_onnx_push(&count, "", 1, 0);
        count = dl_onnx_squeeze(o, count, 1);
        count.name = dl_onnx_add3(o, word, dl_onnx_scalar(o, DL_I64, 0), count.name,
                                  dl_onnx_scalar(o, DL_I64, 1));
        return dl_onnx_set(o, n, dl_onnx_cast(o, count, out.type.dtype).name);
    }
    double *numbers = DL_NEWS(o->arena, double, size + 1);
    for (int64_t i = 0; i < size; i++) numbers[i] = (double)i;
    o->values[n->out[0].id].name = dl_onnx_doubles(o, out.type, numbers);
    return true;
}

bool dl_onnx_broadcast(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_onnx_value x = dl_onnx_in(o, n, 0), out = dl_onnx_out(o, n);
    const char *name = dl_onnx_expand(o, x, &out).name;
    return name == x.name ? dl_onnx_same(o, n, word) : dl_onnx_set(o, n, name);
}

/* The position of the axis that the node names in its operand. */
static int axis_of(const dl_node *n) {
    return dl_type_axis(&n->in[0]->type, dl_node_name(n, DL_ATTR_axis));
}

bool dl_onnx_slice(dl_onnx *o, const dl_node *n, const char *word) {
    static const dl_attr_id bounds[] = {DL_ATTR_start, DL_ATTR_stop};
    int at = axis_of(n);
    const char *in[4] = {dl_onnx_in(o, n, 0).name};
    for (int i = 0; i < 2; i++) {
        int64_t per = o->sizes->cuts[n->out[0].id][i], value = dl_node_int(n, bounds[i]);
        if (i && value == n->in[0]->type.axis[at].size) value = INT64_MAX; /* the end */
        in[1 + i] = per ? dl_onnx_batches(o, per) : dl_onnx_int(o, value);
    }
    in[3] = dl_onnx_int(o, at);
    return dl_onnx_set(o, n, dl_onnx_add(o, word, 4, in, NULL));
}

bool dl_onnx_pad(dl_onnx *o, const dl_node *n, const char *word) {
    int at = axis_of(n), rank = n->in[0]->type.rank;
    int64_t pads[2 * DL_MAX_RANK] = {0};
    pads[at] = dl_node_attr(n, DL_ATTR_pad_lo)->ints[0];
    pads[rank + at] = dl_node_attr(n, DL_ATTR_pad_hi)->ints[0];
    return dl_onnx_set(
        o, n, dl_onnx_add2(o, word, dl_onnx_in(o, n, 0).name, dl_onnx_ints(o, 2 * rank, pads)));
}

bool dl_onnx_cat(dl_onnx *o, const dl_node *n, const char *word) {
    const char **in = DL_NEWS(o->arena, const char *, n->nin);
    dl_buf attributes = {0};
    for (int i = 0; i < n->nin; i++) in[i] = dl_onnx_in(o, n, i).name;
    dl_onnx_put_int(&attributes, "axis", axis_of(n));
    return dl_onnx_set(o, n, dl_onnx_add(o, word, n->nin, in, &attributes));
}

bool dl_onnx_drop(dl_onnx *o, const dl_node *n, const char *word) {
    (void)word;
    return dl_onnx_set(o, n, dl_onnx_squeeze(o, dl_onnx_in(o, n, 0), 1u << axis_of(n)).name);
}

bool dl_onnx_insert(dl_onnx *o, const dl_node *n, const char *word) {
    unsigned at = 1u << dl_node_int(n, DL_ATTR_index);
    (void)word;
    return dl_onnx_set(o, n, dl_onnx_unsqueeze(o, dl_onnx_in(o, n, 0), at).name);
}

bool dl_onnx_refit(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_onnx_value out = dl_onnx_out(o, n);
    (void)word;
    return dl_onnx_set(o, n, dl_onnx_reshape(o, dl_onnx_in(o, n, 0), &out).name);
}
