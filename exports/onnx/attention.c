/* Attention: products of heads, and a softmax. */
#include <math.h>

#include "exports/onnx/ops.h"

/* x [N, T, E] as heads: [N, head, T, E / heads], or with the last two axes exchanged. */
static dl_onnx_value heads_of(dl_onnx *o, dl_onnx_value x, int64_t heads, bool keys) {
    const int plain[] = {0, 2, 1, 3}, exchanged[] = {0, 2, 3, 1};
    dl_onnx_value t = {.type = dl_scalar(x.type.dtype)};
    dl_onnx_push_axis(&t, &x, 0), dl_onnx_push_axis(&t, &x, 1);
    dl_onnx_push(&t, "", heads, 0);
    dl_onnx_push(&t, "", x.type.axis[2].size / heads, 0);
    return dl_onnx_permute(o, dl_onnx_reshape(o, x, &t), keys ? exchanged : plain);
}

/* Minus infinity for each key after its query, [T, S]. */
static const char *mask_of(dl_onnx *o, dl_dtype dtype, int64_t queries, int64_t keys) {
    dl_type t = dl_scalar(dtype);
    dl_type_push(&t, "T", queries), dl_type_push(&t, "S", keys);
    double *mask = DL_NEWS(o->arena, double, queries *keys + 1);
    for (int64_t i = 0; i < queries; i++)
        for (int64_t k = i + 1; k < keys; k++) mask[i * keys + k] = -INFINITY;
    return dl_onnx_doubles(o, t, mask);
}

/* Scores and addend `i` of the node: numbers, or a mask of bools that are true where a query may
 * see a key. */
static const char *with_addend(dl_onnx *o, const dl_node *n, int i, const char *scores) {
    const char *addend = dl_onnx_in(o, n, i).name;
    if (n->in[i]->type.dtype != DL_BOOL) return dl_onnx_add2(o, "Add", scores, addend);
    return dl_onnx_add3(o, "Where", addend, scores,
                        dl_onnx_scalar(o, n->in[0]->type.dtype, -INFINITY));
}

/* The softmax of scores along the keys; `hidden`: a query may see none, and then all are zero. */
static const char *softmax(dl_onnx *o, const dl_node *n, const char *scores, bool hidden) {
    dl_dtype type = n->in[0]->type.dtype;
    dl_buf along = {0};
    const int64_t keys = 3;
    dl_onnx_put_int(&along, "axis", -1);
    const char *shares = dl_onnx_add(o, "Softmax", 1, &scores, &along);
    if (!hidden) return shares;
    const char *top = dl_onnx_reduced(o, "ReduceMax", scores, 1, &keys, true);
    const char *blind = dl_onnx_add2(o, "Equal", top, dl_onnx_scalar(o, type, -INFINITY));
    return dl_onnx_add3(o, "Where", blind, dl_onnx_scalar(o, type, 0), shares);
}

bool dl_onnx_attention(dl_onnx *o, const dl_node *n, const char *word) {
    const int back[] = {0, 2, 1, 3};
    const dl_onnx_value q = dl_onnx_in(o, n, 0), k = dl_onnx_in(o, n, 1), v = dl_onnx_in(o, n, 2),
                        out = dl_onnx_out(o, n);
    int64_t heads = dl_node_int(n, DL_ATTR_heads), size = q.type.axis[2].size / heads;
    const dl_attr *causal = dl_node_attr(n, DL_ATTR_causal);
    (void)word;
    if (q.per[1] || k.per[1] || q.per[2]) return dl_onnx_needs_batch(o);
    dl_onnx_value queries = heads_of(o, q, heads, false), values = heads_of(o, v, heads, false);
    queries.name = dl_onnx_add2(o, "Mul", queries.name,
                                dl_onnx_scalar(o, q.type.dtype, 1 / sqrt((double)size)));
    const char *scores = dl_onnx_add2(o, "MatMul", queries.name, heads_of(o, k, heads, true).name);
    if (causal && causal->i)
        scores = dl_onnx_add2(o, "Add", scores,
                              mask_of(o, q.type.dtype, q.type.axis[1].size, k.type.axis[1].size));
    for (int i = 3; i < n->nin; i++) scores = with_addend(o, n, i, scores);
    const char *shares = softmax(o, n, scores, n->nin > 3);
    queries.name = dl_onnx_add2(o, "MatMul", shares, values.name);
    dl_onnx_value y = dl_onnx_permute(o, queries, back);
    return dl_onnx_set(o, n, dl_onnx_reshape(o, y, &out).name);
}
