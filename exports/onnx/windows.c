/* Convolutions, pooling, resizing. */
#include "exports/onnx/keep.h"
#include "exports/onnx/ops.h"
#include "ir/relation.h"

/* Strides, dilation and padding of a node by windows; `end` is the padding after each axis. */
static void put_windows(dl_buf *attributes, const dl_windows *w, const int64_t *taps,
                        const int64_t *end) {
    int64_t pads[6];
    for (int i = 0; i < w->n; i++) pads[i] = w->pad_lo[i], pads[w->n + i] = end[i];
    dl_onnx_put_ints(attributes, "kernel_shape", w->n, taps);
    dl_onnx_put_ints(attributes, "strides", w->n, w->stride);
    dl_onnx_put_ints(attributes, "pads", 2 * w->n, pads);
}

static void put_conv(dl_buf *attributes, const dl_node *n, const dl_windows *w) {
    int64_t taps[3];
    for (int i = 0; i < w->n; i++) taps[i] = n->in[1]->type.axis[2 + i].size;
    put_windows(attributes, w, taps, w->pad_hi);
    dl_onnx_put_ints(attributes, "dilations", w->n, w->dilation);
    dl_onnx_put_int(attributes, "group", w->groups);
}

static bool set_conv(dl_onnx *o, const dl_node *n, const char *word, dl_buf *attributes) {
    const char *in[] = {dl_onnx_in(o, n, 0).name, dl_onnx_in(o, n, 1).name};
    return dl_onnx_set(o, n, dl_onnx_add(o, word, 2, in, attributes));
}

bool dl_onnx_conv(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_windows w = dl_node_windows(n);
    dl_buf attributes = {0};
    put_conv(&attributes, n, &w);
    return set_conv(o, n, word, &attributes);
}

/* The result's size is given: elements that no window reaches are added after the others. */
bool dl_onnx_conv_transpose(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_windows w = dl_node_windows(n);
    int64_t added[3];
    for (int i = 0; i < w.n; i++)
        added[i] = n->out[0].type.axis[2 + i].size + w.pad_lo[i] + w.pad_hi[i] - 1 -
                   (n->in[0]->type.axis[2 + i].size - 1) * w.stride[i] -
                   (n->in[1]->type.axis[2 + i].size - 1) * w.dilation[i];
    dl_buf attributes = {0};
    put_conv(&attributes, n, &w);
    dl_onnx_put_ints(&attributes, "output_padding", w.n, added);
    return set_conv(o, n, word, &attributes);
}

bool dl_onnx_pool(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_windows w = dl_node_windows(n);
    const char *x = dl_onnx_in(o, n, 0).name;
    int64_t end[3];
    for (int i = 0; i < w.n; i++) end[i] = dl_onnx_pool_end(n, i);
    dl_buf attributes = {0};
    put_windows(&attributes, &w, dl_node_attr(n, DL_ATTR_kernel)->ints, end);
    if (n->op == DL_OP_max_pool)
        dl_onnx_put_ints(&attributes, "dilations", w.n, w.dilation);
    else
        dl_onnx_put_int(&attributes, "count_include_pad", dl_node_int(n, DL_ATTR_counts_pad));
    return dl_onnx_set(o, n, dl_onnx_add(o, word, 1, &x, &attributes));
}

bool dl_onnx_adaptive_pool(dl_onnx *o, const dl_node *n, const char *word) {
    const char *x = dl_onnx_in(o, n, 0).name;
    int64_t taps[DL_MAX_RANK], axes[DL_MAX_RANK], most = 1;
    int spatial = n->out[0].type.rank - 2;
    for (int i = 0; i < spatial; i++) {
        int64_t out = n->out[0].type.axis[2 + i].size;
        taps[i] = n->in[0]->type.axis[2 + i].size / out, axes[i] = 2 + i;
        if (out > most) most = out;
    }
    dl_buf attributes = {0};
    if (most == 1) {
        dl_onnx_put_ints(&attributes, "axes", spatial, axes);
        dl_onnx_put_int(&attributes, "keepdims", 1);
        return dl_onnx_set(o, n, dl_onnx_add(o, "ReduceMean", 1, &x, &attributes));
    }
    dl_onnx_put_ints(&attributes, "kernel_shape", spatial, taps);
    dl_onnx_put_ints(&attributes, "strides", spatial, taps);
    return dl_onnx_set(o, n, dl_onnx_add(o, word, 1, &x, &attributes));
}

/* By whole factors (keep.h). The unused operand is the region of another mode. */
bool dl_onnx_upsample(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_onnx_value x = dl_onnx_in(o, n, 0);
    double factor[DL_MAX_RANK] = {1, 1};
    dl_type t = dl_scalar(DL_F32);
    dl_type_push(&t, "", x.type.rank);
    for (int i = 2; i < x.type.rank; i++)
        factor[i] = (double)(n->out[0].type.axis[i].size / x.type.axis[i].size);
    bool linear = strcmp(dl_node_name(n, DL_ATTR_mode), "linear") == 0;
    const char *where = !linear                           ? "asymmetric"
                        : dl_node_int(n, DL_ATTR_corners) ? "align_corners"
                                                          : "half_pixel";
    dl_buf attributes = {0};
    dl_onnx_put_text(&attributes, "mode", linear ? "linear" : "nearest");
    dl_onnx_put_text(&attributes, "coordinate_transformation_mode", where);
    if (!linear) dl_onnx_put_text(&attributes, "nearest_mode", "floor");
    const char *in[] = {x.name, "", dl_onnx_doubles(o, t, factor)};
    return dl_onnx_set(o, n, dl_onnx_add(o, word, 3, in, &attributes));
}
