#include "exports/onnx/ops.h"

#include "exports/export.h"

/* Ops without a row are refused: those of training and of several ranks, random numbers. */
static const struct {
    dl_onnx_emitter *emit;
    const char *word;
} rows[DL_NOPS] = {
    [DL_OP_const] = {dl_onnx_const, NULL},
    [DL_OP_iota] = {dl_onnx_iota, "Range"},
    [DL_OP_neg] = {dl_onnx_one, "Neg"},
    [DL_OP_abs] = {dl_onnx_one, "Abs"},
    [DL_OP_sign] = {dl_onnx_one, "Sign"},
    [DL_OP_exp] = {dl_onnx_one, "Exp"},
    [DL_OP_log] = {dl_onnx_one, "Log"},
    [DL_OP_expm1] = {dl_onnx_expm1, NULL},
    [DL_OP_log1p] = {dl_onnx_log1p, NULL},
    [DL_OP_rsqrt] = {dl_onnx_rsqrt, NULL},
    [DL_OP_sqrt] = {dl_onnx_one, "Sqrt"},
    [DL_OP_tanh] = {dl_onnx_one, "Tanh"},
    [DL_OP_sigmoid] = {dl_onnx_one, "Sigmoid"},
    [DL_OP_sin] = {dl_onnx_one, "Sin"},
    [DL_OP_cos] = {dl_onnx_one, "Cos"},
    [DL_OP_erf] = {dl_onnx_one, "Erf"},
    [DL_OP_floor] = {dl_onnx_floor, "Floor"},
    [DL_OP_relu] = {dl_onnx_relu, "Relu"},
    [DL_OP_leaky_relu] = {dl_onnx_leaky_relu, "LeakyRelu"},
    [DL_OP_elu] = {dl_onnx_elu, "Elu"},
    [DL_OP_not] = {dl_onnx_one, "Not"},
    [DL_OP_cast] = {dl_onnx_to, "Cast"},
    [DL_OP_stop_gradient] = {dl_onnx_same, NULL},
    [DL_OP_add] = {dl_onnx_several, "Add"},
    [DL_OP_sub] = {dl_onnx_several, "Sub"},
    [DL_OP_mul] = {dl_onnx_several, "Mul"},
    [DL_OP_div] = {dl_onnx_several, "Div"},
    [DL_OP_pow] = {dl_onnx_several, "Pow"},
    [DL_OP_atan2] = {dl_onnx_atan2, "Atan"},
    [DL_OP_min] = {dl_onnx_several, "Min"},
    [DL_OP_max] = {dl_onnx_several, "Max"},
    [DL_OP_eq] = {dl_onnx_compare, "Equal"},
    [DL_OP_ne] = {dl_onnx_compare, "Equal"},
    [DL_OP_lt] = {dl_onnx_compare, "Less"},
    [DL_OP_le] = {dl_onnx_compare, "LessOrEqual"},
    [DL_OP_gt] = {dl_onnx_compare, "Greater"},
    [DL_OP_ge] = {dl_onnx_compare, "GreaterOrEqual"},
    [DL_OP_and] = {dl_onnx_several, "And"},
    [DL_OP_or] = {dl_onnx_several, "Or"},
    [DL_OP_select] = {dl_onnx_select, "Where"},
    [DL_OP_sum] = {dl_onnx_reduce, "ReduceSum"},
    [DL_OP_mean] = {dl_onnx_reduce, "ReduceMean"},
    [DL_OP_reduce_max] = {dl_onnx_reduce, "ReduceMax"},
    [DL_OP_reduce_min] = {dl_onnx_reduce, "ReduceMin"},
    [DL_OP_first_max] = {dl_onnx_reduce, "ReduceMax"},
    [DL_OP_broadcast] = {dl_onnx_broadcast, "Expand"},
    [DL_OP_slice] = {dl_onnx_slice, "Slice"},
    [DL_OP_pad] = {dl_onnx_pad, "Pad"},
    [DL_OP_cat] = {dl_onnx_cat, "Concat"},
    [DL_OP_squeeze] = {dl_onnx_drop, "Squeeze"},
    [DL_OP_unsqueeze] = {dl_onnx_insert, "Unsqueeze"},
    [DL_OP_rename] = {dl_onnx_same, NULL},
    [DL_OP_relayout] = {dl_onnx_same, NULL},
    [DL_OP_reshape] = {dl_onnx_refit, "Reshape"},
    [DL_OP_affine] = {dl_onnx_affine, "Gather"},
    [DL_OP_gather] = {dl_onnx_gather, "Gather"},
    [DL_OP_scatter_add] = {dl_onnx_scatter_add, "ScatterElements"},
    [DL_OP_scatter_max] = {dl_onnx_scatter_max, "ReduceMax"},
    [DL_OP_enter] = {dl_onnx_same, NULL},
    [DL_OP_scale_gradient] = {dl_onnx_same, NULL},
    [DL_OP_contract] = {dl_onnx_contract, NULL},
    [DL_OP_conv] = {dl_onnx_conv, "Conv"},
    [DL_OP_conv_grad_input] = {dl_onnx_conv_transpose, "ConvTranspose"},
    [DL_OP_softplus] = {dl_onnx_softplus, "Softplus"},
    [DL_OP_clamp] = {dl_onnx_clamp, "Where"},
    [DL_OP_prod] = {dl_onnx_reduce, "ReduceProd"},
    [DL_OP_log_softmax] = {dl_onnx_along, "LogSoftmax"},
    [DL_OP_softmax] = {dl_onnx_along, "Softmax"},
    [DL_OP_layer_norm] = {dl_onnx_layer_norm, "LayerNormalization"},
    [DL_OP_batch_norm] = {dl_onnx_batch_norm, "BatchNormalization"},
    [DL_OP_batch_mean] = {dl_onnx_reduce, "ReduceMean"},
    [DL_OP_group_norm] = {dl_onnx_group_norm, "InstanceNormalization"},
    [DL_OP_max_pool] = {dl_onnx_pool, "MaxPool"},
    [DL_OP_avg_pool] = {dl_onnx_pool, "AveragePool"},
    [DL_OP_adaptive_avg_pool] = {dl_onnx_adaptive_pool, "AveragePool"},
    [DL_OP_upsample] = {dl_onnx_upsample, "Resize"},
    [DL_OP_attention] = {dl_onnx_attention, NULL},
    [DL_OP_recurrence] = {dl_onnx_recurrence, NULL},
    [DL_OP_scan_linear] = {dl_onnx_scan, "CumSum"},
    [DL_OP_scan] = {dl_onnx_steps, "Scan"},
    [DL_OP_fourier] = {dl_onnx_fourier, "MatMul"},
    [DL_OP_complex_contract] = {dl_onnx_complex_contract, NULL},
    [DL_OP_argmax] = {dl_onnx_argmax, "ArgMax"},
    [DL_OP_argsort] = {dl_onnx_argsort, "TopK"},
};

bool dl_onnx_has(dl_op op) { return rows[op].emit != NULL; }

bool dl_onnx_emit(dl_onnx *o, const dl_node *n) {
    o->node = n;
    if (!rows[n->op].emit) return dl_export_refuse(n, "ONNX", o->err);
    bool ok = rows[n->op].emit(o, n, rows[n->op].word);
    o->node = NULL;
    return ok;
}
