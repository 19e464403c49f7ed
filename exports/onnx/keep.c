#include "exports/onnx/keep.h"

#include "ir/relation.h"

int64_t dl_onnx_pool_end(const dl_node *n, int i) {
    const dl_windows w = dl_node_windows(n);
    int64_t size = n->in[0]->type.axis[2 + i].size, windows = n->out[0].type.axis[2 + i].size,
            taps = dl_node_attr(n, DL_ATTR_kernel)->ints[i];
    int64_t end = (windows - 1) * w.stride[i] + (taps - 1) * w.dilation[i] + 1 - size - w.pad_lo[i];
    return end > w.pad_hi[i] ? end : w.pad_hi[i];
}

/* ONNX Runtime refuses padding as long as the window. An average that counts padding does not
 * count elements after it, which ONNX cannot say. */
static bool keeps_pool(const dl_node *n) {
    const dl_windows w = dl_node_windows(n);
    bool counts = n->op == DL_OP_avg_pool && dl_node_int(n, DL_ATTR_counts_pad);
    for (int i = 0; i < w.n; i++) {
        int64_t taps = dl_node_attr(n, DL_ATTR_kernel)->ints[i], end = dl_onnx_pool_end(n, i);
        if (w.pad_lo[i] >= taps || end >= taps || (counts && end > w.pad_hi[i])) return false;
    }
    return true;
}

bool dl_onnx_divides(const dl_node *n) {
    bool up = n->op == DL_OP_upsample;
    for (int i = 2; i < n->out[0].type.rank; i++) {
        int64_t in = n->in[0]->type.axis[i].size, out = n->out[0].type.axis[i].size;
        if (up ? out % in : in % out) return false;
    }
    return true;
}

static bool is_global(const dl_node *n) {
    for (int i = 2; i < n->out[0].type.rank; i++)
        if (n->out[0].type.axis[i].size != 1) return false;
    return true;
}

bool dl_onnx_keeps(const dl_node *n) {
    if (!n->nin) return false;
    dl_dtype d = n->in[0]->type.dtype;
    bool f32 = d == DL_F32, wide = f32 || d == DL_F64;
    switch (n->op) {
    case DL_OP_attention: return dl_node_float(n, DL_ATTR_rate) == 0;
    case DL_OP_clamp: return true;
    case DL_OP_prod: return !dl_dtype_is_half(d);
    case DL_OP_softmax:
    case DL_OP_log_softmax:
    case DL_OP_argmax:
    case DL_OP_layer_norm: return wide;
    case DL_OP_batch_norm: return wide && !dl_node_int(n, DL_ATTR_training);
    case DL_OP_batch_mean: return wide && !dl_node_int(n, DL_ATTR_correction);
    case DL_OP_group_norm:
    case DL_OP_recurrence: return f32;
    case DL_OP_softplus: return f32 && dl_node_float(n, DL_ATTR_threshold) >= 15;
    case DL_OP_max_pool: return wide && keeps_pool(n);
    case DL_OP_avg_pool: return f32 && keeps_pool(n);
    case DL_OP_adaptive_avg_pool: return wide && (is_global(n) || (f32 && dl_onnx_divides(n)));
    case DL_OP_upsample: return f32 && dl_onnx_divides(n);
    default: return false;
    }
}
