/* Shape rules of the composite ops (class HIGH), except pooling and attention. */
#include <string.h>

#include "ir/infer_rules.h"

/* Operand i must be a vector of `size` elements, one for each element of the axis `of`. */
static bool want_vector(const dl_node *n, int i, dl_axis of, dl_shape_fault *fault) {
    const dl_type *v = dl_operand(n, i);
    if (v->rank == 1 && v->axis[0].size == of.size) return true;
    return dl_fault(fault, i, v->rank == 1 ? "channel_mismatch" : "rank_mismatch",
                    "%s expects %s with one axis of %lld elements (as %s), but it is %s",
                    dl_op_text(n), dl_operand_text(i), (long long)of.size, of.name,
                    dl_type_text(v));
}

/* Class indices [N] for scores [N, C]. */
static bool want_classes(const dl_node *n, dl_shape_fault *fault) {
    const dl_type *y = dl_operand(n, 0), *t = dl_operand(n, 1);
    if (!dl_want_float(n, 0, fault) || !dl_want_rank(n, 0, 2, "scores [N, C]", fault) ||
        !dl_want_rank(n, 1, 1, "class numbers [N]", fault))
        return false;
    if (t->dtype != DL_I32 && t->dtype != DL_I64)
        return dl_fault(fault, 1, "type_mismatch",
                        "%s expects class numbers (i32 or i64), but the second operand is %s",
                        dl_op_text(n), dl_type_text(t));
    if (t->axis[0].name != y->axis[0].name || t->axis[0].size != y->axis[0].size)
        return dl_fault(fault, 1, "axis_mismatch",
                        "%s expects one class for each row of %s, but the second operand is %s",
                        dl_op_text(n), dl_type_text(y), dl_type_text(t));
    return true;
}

bool dl_rule_dropout(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    return dl_want_rate(n, fault) && dl_rule_elem(n, r, fault);
}

bool dl_rule_rand(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    (void)fault;
    *r = dl_row_type(dl_operand(n, 0));
    if (r->dtype != DL_F64) r->dtype = DL_F32;
    return true;
}

bool dl_rule_linear(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0), *w = dl_operand(n, 1);
    if (!dl_want_float(n, 0, fault) || !dl_want_same_dtype(n, fault) ||
        !dl_want_rank(n, 1, 2, "a weight [O, E]", fault))
        return false;
    if (x->rank < 1)
        return dl_fault(fault, 0, "rank_mismatch",
                        "linear expects an input with a feature axis, but it is %s",
                        dl_type_text(x));
    int at = *w->axis[1].name ? dl_type_axis(x, w->axis[1].name) : -1;
    if (at < 0) at = x->rank - 1;
    dl_axis e = x->axis[at];
    if (e.size != w->axis[1].size)
        return dl_fault(fault, 0, "channel_mismatch",
                        "linear weight expects %lld input features (%s), but the input has %s=%lld",
                        (long long)w->axis[1].size, e.name, e.name, (long long)e.size),
               dl_fault_help(fault, "the weight is %s and the input %s", dl_type_text(w),
                             dl_type_text(x));
    *r = dl_row_type(x);
    r->axis[at].size = w->axis[0].size;
    return true;
}

bool dl_rule_softmax(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    *r = dl_row_type(dl_operand(n, 0));
    return dl_rule_axis(n, fault) >= 0;
}

bool dl_rule_layer_norm(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    if (!dl_want_float(n, 0, fault) || !dl_want_same_dtype(n, fault)) return false;
    if (x->rank < 1)
        return dl_fault(fault, 0, "rank_mismatch",
                        "layer_norm works along the last axis, but its operand is a scalar");
    double eps = dl_node_float(n, DL_ATTR_eps);
    if (!(eps >= 0))
        return dl_fault(fault, -1, "bad_range", "layer_norm's eps is %g; it must be 0 or more",
                        eps);
    *r = dl_row_type(x);
    return want_vector(n, 1, x->axis[x->rank - 1], fault) &&
           want_vector(n, 2, x->axis[x->rank - 1], fault);
}

bool dl_rule_batch_mean(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    int64_t correction = dl_node_int(n, DL_ATTR_correction);
    if (correction < 0)
        return dl_fault(fault, -1, "bad_range",
                        "batch_mean's correction is %lld; it must be 0 or more",
                        (long long)correction);
    return dl_want_float(n, 0, fault) && dl_rule_reduce(n, r, fault);
}

bool dl_rule_batch_norm(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    double eps = dl_node_float(n, DL_ATTR_eps), momentum = dl_node_float(n, DL_ATTR_momentum);
    if (!dl_want_float(n, 0, fault) || !dl_want_same_dtype(n, fault)) return false;
    if (x->rank < 2)
        return dl_fault(fault, 0, "rank_mismatch",
                        "batch_norm expects a batch axis and a channel axis, but its operand is %s",
                        dl_type_text(x));
    if (!(eps >= 0))
        return dl_fault(fault, -1, "bad_range", "batch_norm's eps is %g; it must be 0 or more",
                        eps);
    if (!(momentum >= 0 && momentum <= 1))
        return dl_fault(
            fault, -1, "bad_range",
            "batch_norm keeps a share of %g of the old statistics; a share is from 0 to 1",
            momentum);
    if (!dl_want_switch(n, DL_ATTR_training, fault)) return false;
    for (int i = 1; i < n->nin; i++)
        if (!want_vector(n, i, x->axis[1], fault)) return false;
    *r = dl_row_type(x);
    return true;
}

bool dl_rule_group_norm(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    int64_t groups = dl_node_int(n, DL_ATTR_groups);
    double eps = dl_node_float(n, DL_ATTR_eps);
    if (!dl_want_float(n, 0, fault) || !dl_want_same_dtype(n, fault)) return false;
    if (x->rank < 2 || x->rank == DL_MAX_RANK)
        return dl_fault(fault, 0, "rank_mismatch",
                        "group_norm expects a batch axis and a channel axis, but its operand is %s",
                        dl_type_text(x));
    if (!(eps >= 0))
        return dl_fault(fault, -1, "bad_range", "group_norm's eps is %g; it must be 0 or more",
                        eps);
    if (groups < 1 || x->axis[1].size % groups)
        return dl_fault(fault, 0, "bad_range",
                        "group_norm splits %s=%lld into %lld groups, which leaves a rest",
                        x->axis[1].name, (long long)x->axis[1].size, (long long)groups),
               dl_fault_help(fault, "take a number of groups that divides %lld",
                             (long long)x->axis[1].size);
    for (int i = 1; i < n->nin; i++)
        if (!want_vector(n, i, x->axis[1], fault)) return false;
    *r = dl_row_type(x);
    return true;
}

bool dl_rule_cross_entropy(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *y = dl_operand(n, 0), *t = dl_operand(n, 1);
    int at = dl_rule_axis(n, fault);
    if (at < 0 || !dl_want_float(n, 0, fault)) return false;
    bool classes = t->dtype == DL_I32 || t->dtype == DL_I64;
    if (!classes && t->dtype != y->dtype)
        return dl_fault(fault, 1, "type_mismatch",
                        "cross_entropy expects class numbers (i32 or i64) or shares of the classes "
                        "(%s), but the "
                        "second operand is %s",
                        dl_dtype_name(y->dtype), dl_type_text(t));
    *r = dl_row_type(y);
    memmove(&r->axis[at], &r->axis[at + 1], sizeof *r->axis * (size_t)(--r->rank - at));
    bool fits = classes ? t->rank == r->rank : true;
    for (int i = 0; fits && i < t->rank; i++) {
        int k = dl_type_axis(classes ? r : y, t->axis[i].name);
        fits = k >= 0 && (classes ? r : y)->axis[k].size == t->axis[i].size;
    }
    if (fits) return true;
    return dl_fault(
        fault, 1, "axis_mismatch",
        classes
            ? "cross_entropy expects one class for each row along %s of %s, but the second operand "
              "is %s"
            : "cross_entropy expects shares of the classes %s of %s, but the second operand is %s",
        y->axis[at].name, dl_type_text(y), dl_type_text(t));
}

bool dl_rule_argmax(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    int at = dl_rule_axis(n, fault);
    if (at < 0) return false;
    if (x->axis[at].size < 1)
        return dl_fault(fault, 0, "bad_range",
                        "argmax needs at least one element along %s, but its operand is %s",
                        x->axis[at].name, dl_type_text(x));
    if (x->axis[at].size > INT32_MAX) {
        dl_fault(fault, 0, "too_large",
                 "argmax counts in i32, up to 2^31 - 1 elements, but %s is %lld long",
                 x->axis[at].name, (long long)x->axis[at].size);
        return dl_fault_help(fault, "take it of parts: x[%s=:1000]", x->axis[at].name);
    }
    *r = dl_scalar(DL_I32);
    for (int i = 0; i < x->rank; i++)
        if (i != at) r->axis[r->rank++] = x->axis[i];
    return true;
}

bool dl_rule_in_top_k(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (!want_classes(n, fault)) return false;
    const dl_type *y = dl_operand(n, 0);
    int64_t k = dl_node_int(n, DL_ATTR_k);
    if (k < 1 || k > y->axis[1].size)
        return dl_fault(fault, 0, "bad_range",
                        "in_top_k looks among the %lld best of %s=%lld classes", (long long)k,
                        y->axis[1].name, (long long)y->axis[1].size),
               dl_fault_help(fault, "k goes from 1 to %lld", (long long)y->axis[1].size);
    *r = dl_row_type(dl_operand(n, 1));
    r->dtype = DL_BOOL;
    return true;
}

/* The scalar is checked here; whether it depends on x, where the node is built. */
bool dl_rule_grad(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    for (int i = 0; i < 2; i++)
        if (!dl_dtype_is_float(dl_operand(n, i)->dtype))
            return dl_fault(fault, i, "type_mismatch",
                            "grad takes floats, which have derivatives, but the %s operand is %s",
                            i ? "second" : "first", dl_type_text(dl_operand(n, i)));
    if (dl_operand(n, 0)->rank) {
        dl_fault(fault, 0, "rank_mismatch",
                 "grad takes the gradient of one number, but its first operand is %s",
                 dl_type_text(dl_operand(n, 0)));
        return dl_fault_help(fault, "take that of its sum: grad(sum(y), x)");
    }
    return *r = dl_row_type(dl_operand(n, 1)), true;
}
