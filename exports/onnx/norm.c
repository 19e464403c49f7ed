/* Normalisations, which ONNX has as ops. */
#include "exports/onnx/ops.h"

static const char *normalise(dl_onnx *o, const dl_node *n, const char *word, int nin,
                             const char *const *in, dl_buf *attributes) {
    dl_onnx_put_float(attributes, "epsilon", dl_node_float(n, DL_ATTR_eps));
    return dl_onnx_add(o, word, nin, in, attributes);
}

bool dl_onnx_layer_norm(dl_onnx *o, const dl_node *n, const char *word) {
    const char *in[3];
    dl_buf attributes = {0};
    for (int i = 0; i < 3; i++) in[i] = dl_onnx_in(o, n, i).name;
    dl_onnx_put_int(&attributes, "axis", -1);
    return dl_onnx_set(o, n, normalise(o, n, word, 3, in, &attributes));
}

bool dl_onnx_batch_norm(dl_onnx *o, const dl_node *n, const char *word) {
    const char *in[5];
    dl_buf attributes = {0};
    for (int i = 0; i < 5; i++) in[i] = dl_onnx_in(o, n, i).name;
    return dl_onnx_set(o, n, normalise(o, n, word, 5, in, &attributes));
}

/* A vector of channels, for [N, C, ...]. */
static const char *channels(dl_onnx *o, const dl_node *n, int i) {
    unsigned after = (1u << (n->in[0]->type.rank - 1)) - 2; /* axes 1 to rank - 2 */
    return dl_onnx_unsqueeze(o, dl_onnx_in(o, n, i), after).name;
}

/* Each group of channels as one instance channel; weight and bias follow. */
bool dl_onnx_group_norm(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_onnx_value x = dl_onnx_in(o, n, 0);
    int64_t groups = dl_node_int(n, DL_ATTR_groups), inner = x.type.axis[1].size / groups;
    dl_onnx_value t = {.type = dl_scalar(x.type.dtype)};
    dl_buf attributes = {0};
    for (int i = 1; i < x.type.rank; i++)
        if (x.per[i]) return dl_onnx_needs_batch(o);
    for (int i = 2; i < x.type.rank; i++) inner *= x.type.axis[i].size;
    dl_onnx_push_axis(&t, &x, 0), dl_onnx_push(&t, "", groups, 0), dl_onnx_push(&t, "", inner, 0);
    double *ones = DL_NEWS(o->arena, double, groups), *zeros = DL_NEWS(o->arena, double, groups);
    for (int64_t i = 0; i < groups; i++) ones[i] = 1;
    dl_type vector = dl_scalar(x.type.dtype);
    dl_type_push(&vector, "", groups);
    const char *in[] = {dl_onnx_reshape(o, x, &t).name, dl_onnx_doubles(o, vector, ones),
                        dl_onnx_doubles(o, vector, zeros)};
    t.name = normalise(o, n, word, 3, in, &attributes);
    const char *y = dl_onnx_reshape(o, t, &x).name;
    y = dl_onnx_add2(o, "Mul", y, channels(o, n, 1));
    return dl_onnx_set(o, n, dl_onnx_add2(o, "Add", y, channels(o, n, 2)));
}
