/* The table of ops that have a reference. */
#include "verify/reference.h"

static dl_reference_rule *const of_op[DL_NOPS] = {
    [DL_OP_linear] = dl_ref_linear,
    [DL_OP_gelu] = dl_ref_elem,
    [DL_OP_gelu_tanh] = dl_ref_elem,
    [DL_OP_silu] = dl_ref_elem,
    [DL_OP_softplus] = dl_ref_softplus,
    [DL_OP_clamp] = dl_ref_clamp,
    [DL_OP_prod] = dl_ref_prod,
    [DL_OP_cumsum] = dl_ref_scan,
    [DL_OP_cumprod] = dl_ref_scan,
    [DL_OP_linear_scan] = dl_ref_scan,
    [DL_OP_log_softmax] = dl_ref_log_softmax,
    [DL_OP_softmax] = dl_ref_softmax,
    [DL_OP_layer_norm] = dl_ref_layer_norm,
    [DL_OP_batch_norm] = dl_ref_batch_norm,
    [DL_OP_batch_mean] = dl_ref_batch_mean,
    [DL_OP_dropout] = dl_ref_dropout,
    [DL_OP_drop_path] = dl_ref_drop_path,
    [DL_OP_rand] = dl_ref_rand,
    [DL_OP_group_norm] = dl_ref_group_norm,
    [DL_OP_max_pool] = dl_ref_max_pool,
    [DL_OP_avg_pool] = dl_ref_avg_pool,
    [DL_OP_adaptive_avg_pool] = dl_ref_adaptive_avg_pool,
    [DL_OP_upsample] = dl_ref_upsample,
    [DL_OP_attention] = dl_ref_attention,
    [DL_OP_recurrence] = dl_ref_recurrence,
    [DL_OP_rearrange] = dl_ref_rearrange,
    [DL_OP_cross_entropy] = dl_ref_cross_entropy,
    [DL_OP_argmax] = dl_ref_argmax,
    [DL_OP_in_top_k] = dl_ref_in_top_k,
    [DL_OP_reshape] = dl_ref_reshape,
    [DL_OP_cat] = dl_ref_cat,
};

static dl_reference_rule *const of_class[DL_CLASS_HIGH + 1] = {
    [DL_CLASS_ELEM] = dl_ref_elem, [DL_CLASS_REDUCE] = dl_ref_reduce};

static dl_reference_rule *rule_of(dl_op op) {
    return of_op[op] ? of_op[op] : of_class[dl_ops[op].class];
}

bool dl_reference_has(dl_op op) { return rule_of(op) != NULL; }

bool dl_reference_draws(const dl_node *n) {
    if (n->op == DL_OP_rand) return true;
    bool drops = n->op == DL_OP_dropout || n->op == DL_OP_drop_path;
    if (!drops && n->op != DL_OP_attention) return false;
    double rate = dl_node_float(n, DL_ATTR_rate);
    return rate > 0 && (!drops || rate < 1);
}

void dl_reference_node(const dl_node *n, const double *const *in, double *out,
                       const dl_reference_draw *draw) {
    rule_of(n->op)(n, in, out, draw);
}
