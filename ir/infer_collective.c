/* Shape rules of collectives. */
#include "ir/collective.h"
#include "ir/infer_rules.h"

static bool want_group(const dl_node *n, dl_shape_fault *fault) {
    int64_t ranks = dl_node_int(n, DL_ATTR_ranks);
    return (ranks >= 1 && ranks <= INT32_MAX) ||
           dl_fault(fault, -1, "bad_range", "%s between %lld ranks", dl_op_text(n),
                    (long long)ranks);
}

/* Each result has the type of its operand. */
bool dl_rule_all_reduce(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    *r = *dl_operand(n, 0);
    for (int i = 0; i < n->nin; i++) {
        if (!dl_want_float(n, i, fault)) return false;
        if (i && i < n->nout && !dl_type_same(&n->out[i].type, dl_operand(n, i)))
            return dl_fault(fault, i, "type_mismatch", "%s makes %s of %s", dl_op_text(n),
                            dl_type_text(&n->out[i].type), dl_type_text(dl_operand(n, i)));
    }
    return dl_want_same_dtype(n, fault) && want_group(n, fault);
}

static bool want_rank(const dl_node *n, dl_shape_fault *fault) {
    int64_t ranks = dl_node_int(n, DL_ATTR_ranks), rank = dl_node_int(n, DL_ATTR_rank);
    return (rank >= 0 && rank < ranks) ||
           dl_fault(fault, -1, "bad_range", "%s has no rank %lld of %lld", dl_op_text(n),
                    (long long)rank, (long long)ranks);
}

bool dl_rule_all_gather(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    int axis = dl_rule_axis(n, fault);
    if (axis < 0 || !want_group(n, fault) || !want_rank(n, fault)) return false;
    const dl_attr *size = dl_node_attr(n, DL_ATTR_size);
    if (size->n != 1 || size->ints[0] < 0)
        return dl_fault(fault, -1, "bad_range", "%s takes one size of 0 or more", dl_op_text(n));
    *r = dl_row_type(dl_operand(n, 0));
    int64_t ranks = dl_node_int(n, DL_ATTR_ranks), own = r->axis[axis].size;
    dl_share share = dl_share_of(size->ints[0], ranks, dl_node_int(n, DL_ATTR_rank));
    if (own != share.n)
        return dl_fault(fault, 0, "axis_mismatch",
                        "%s of %s=%lld over %lld ranks: rank %lld has %lld, not %lld",
                        dl_op_text(n), r->axis[axis].name, (long long)size->ints[0],
                        (long long)ranks, (long long)dl_node_int(n, DL_ATTR_rank),
                        (long long)share.n, (long long)own);
    r->axis[axis].size = size->ints[0];
    return true;
}

bool dl_rule_reduce_scatter(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    int axis = dl_rule_axis(n, fault);
    if (axis < 0 || !dl_want_float(n, 0, fault) || !want_group(n, fault) || !want_rank(n, fault))
        return false;
    int64_t ranks = dl_node_int(n, DL_ATTR_ranks), rank = dl_node_int(n, DL_ATTR_rank);
    *r = dl_row_type(dl_operand(n, 0));
    r->axis[axis].size = dl_share_of(r->axis[axis].size, ranks, rank).n;
    return true;
}

bool dl_rule_shift(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (n->nin < 1)
        return dl_fault(fault, -1, "wrong_arity", "%s takes a piece, and what it waits for",
                        dl_op_text(n));
    int axis = dl_rule_axis(n, fault);
    if (axis < 0 || !want_group(n, fault) || !want_rank(n, fault)) return false;
    int64_t ranks = dl_node_int(n, DL_ATTR_ranks), rank = dl_node_int(n, DL_ATTR_rank),
            ring_step = dl_node_int(n, DL_ATTR_ring_step);
    const dl_attr *size = dl_node_attr(n, DL_ATTR_size);
    if (size->n != 1 || size->ints[0] < 0 || ring_step < 0 || ring_step >= ranks)
        return dl_fault(fault, -1, "bad_range",
                        "%s takes one size of 0 or more, and a ring step below %lld", dl_op_text(n),
                        (long long)ranks);
    *r = dl_row_type(dl_operand(n, 0));
    dl_share own = dl_ring_share(size->ints[0], ranks, rank, ring_step);
    if (r->axis[axis].size != own.n)
        return dl_fault(
            fault, 0, "axis_mismatch",
            "%s of %s=%lld over %lld ranks: rank %lld has %lld in ring step %lld, not %lld",
            dl_op_text(n), r->axis[axis].name, (long long)size->ints[0], (long long)ranks,
            (long long)rank, (long long)own.n, (long long)ring_step, (long long)r->axis[axis].size);
    r->axis[axis].size = dl_ring_share(size->ints[0], ranks, rank, ring_step + 1).n;
    return true;
}
