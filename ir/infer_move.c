/* Shape rules of ops that move elements. */
#include "ir/affine.h"
#include "ir/infer_rules.h"

bool dl_rule_broadcast(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    *r = dl_row_type(&n->out[0].type);
    if (r->dtype != x->dtype)
        return dl_fault(fault, 0, "type_mismatch",
                        "broadcast keeps the element type, but makes %s of %s", dl_type_text(r),
                        dl_type_text(x));
    for (int i = 0; i < x->rank; i++) {
        dl_axis a = x->axis[i];
        if (!*a.name) continue;
        int at = dl_type_axis(r, a.name);
        if (at < 0)
            return dl_fault(fault, 0, "missing_axis",
                            "broadcast to %s loses the axis %s=%lld of its operand",
                            dl_type_text(r), a.name, (long long)a.size);
        if (r->axis[at].size != a.size)
            return dl_fault(fault, 0, "axis_mismatch",
                            "broadcast to %s, but %s is %lld in its operand", dl_type_text(r),
                            a.name, (long long)a.size);
    }
    return true;
}

bool dl_rule_reshape(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    *r = dl_row_type(&n->out[0].type);
    if (r->dtype != x->dtype)
        return dl_fault(fault, 0, "type_mismatch",
                        "reshape keeps the element type, but makes %s of %s", dl_type_text(r),
                        dl_type_text(x));
    return dl_type_count(r) == dl_type_count(x) ||
           dl_fault(fault, 0, "axis_mismatch",
                    "reshape makes %s, which has another number of elements, of %s",
                    dl_type_text(r), dl_type_text(x));
}

bool dl_rule_slice(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    int at = dl_rule_axis(n, fault);
    if (at < 0) return false;
    *r = dl_row_type(dl_operand(n, 0));
    int64_t start = dl_node_int(n, DL_ATTR_start), stop = dl_node_int(n, DL_ATTR_stop),
            size = r->axis[at].size;
    if (start < 0 || start > stop || stop > size)
        return dl_fault(fault, 0, "bad_range",
                        "slice takes %s from %lld up to %lld, but %s has size %lld",
                        r->axis[at].name, (long long)start, (long long)stop, r->axis[at].name,
                        (long long)size),
               dl_fault_help(fault, "0 <= start <= stop <= %lld must hold", (long long)size);
    r->axis[at].size = stop - start;
    return true;
}

bool dl_rule_pad(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_attr *lo = dl_node_attr(n, DL_ATTR_pad_lo), *hi = dl_node_attr(n, DL_ATTR_pad_hi);
    int at = dl_rule_axis(n, fault);
    if (at < 0) return false;
    *r = dl_row_type(dl_operand(n, 0));
    if (lo->n != 1 || hi->n != 1)
        return dl_fault(fault, -1, "bad_range",
                        "pad works along one axis, but pad_lo has %d entries and pad_hi %d", lo->n,
                        hi->n);
    if (lo->ints[0] < 0 || hi->ints[0] < 0)
        return dl_fault(fault, -1, "bad_range",
                        "pad adds %lld before and %lld after axis %s; neither may be negative",
                        (long long)lo->ints[0], (long long)hi->ints[0], r->axis[at].name),
               dl_fault_help(fault, "take elements away with a slice");
    int64_t size;
    if (__builtin_add_overflow(lo->ints[0], hi->ints[0], &size) ||
        __builtin_add_overflow(size, r->axis[at].size, &r->axis[at].size))
        return dl_fault(fault, -1, "too_large", "pad makes axis %s longer than 2^47",
                        r->axis[at].name);
    return true;
}

bool dl_rule_cat(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (!dl_want_same_dtype(n, fault)) return false;
    int at = dl_rule_axis(n, fault);
    if (at < 0) return false;
    *r = dl_row_type(dl_operand(n, 0));
    for (int i = 1; i < n->nin; i++) {
        const dl_type *x = dl_operand(n, i);
        bool alike = x->rank == r->rank;
        for (int j = 0; alike && j < x->rank; j++) alike = x->axis[j].name == r->axis[j].name;
        if (!alike)
            return dl_fault(
                fault, i, "rank_mismatch",
                "cat joins %s and %s (%s), whose axes are not the same in the same order",
                dl_type_text(dl_operand(n, 0)), dl_type_text(x), dl_operand_text(i));
        for (int j = 0; j < x->rank; j++)
            if (j != at && x->axis[j].size != r->axis[j].size)
                return dl_fault(
                           fault, i, "axis_mismatch",
                           "cat along %s: %s is %lld in the first operand (%s) and %lld in %s (%s)",
                           r->axis[at].name, x->axis[j].name, (long long)r->axis[j].size,
                           dl_type_text(dl_operand(n, 0)), (long long)x->axis[j].size,
                           dl_operand_text(i), dl_type_text(x)),
                       dl_fault_help(fault, "all axes but %s must have equal sizes",
                                     r->axis[at].name);
        if (__builtin_add_overflow(r->axis[at].size, x->axis[at].size, &r->axis[at].size))
            return dl_fault(fault, i, "too_large", "cat makes axis %s longer than 2^47",
                            r->axis[at].name);
    }
    return true;
}

static bool check_factors(const dl_node *n, dl_shape_fault *fault) {
    const dl_attr *along = dl_node_attr(n, DL_ATTR_along),
                  *stride = dl_node_attr(n, DL_ATTR_stride);
    int64_t start = dl_node_int(n, DL_ATTR_start), div = dl_node_int(n, DL_ATTR_div);
    bool twice = along->n == 2 && along->names[0] == along->names[1];
    if (along->n < 1 || along->n > 2 || stride->n != along->n || twice)
        return dl_fault(
            fault, -1, "bad_range",
            "affine goes along one axis or two different ones, each with its stride, but has %d "
            "axes%s and %d strides",
            along->n, twice ? " of one name" : "", stride->n);
    for (int i = 0; i < stride->n; i++)
        if (!stride->ints[i] || stride->ints[i] > INT32_MAX || stride->ints[i] < -INT32_MAX)
            return dl_fault(fault, -1, "bad_stride", "affine: a stride of %lld",
                            (long long)stride->ints[i]);
    if (div < 1 || div > INT32_MAX || start > (int64_t)1 << 47 || start < -((int64_t)1 << 47))
        return dl_fault(fault, -1, "bad_range", "affine: it starts at %lld and divides by %lld",
                        (long long)start, (long long)div);
    return true;
}

/* The result's type is given. It must be the operand's, except for the size of the first axis of
 * `along` and a new second one. */
bool dl_rule_affine(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    *r = dl_row_type(&n->out[0].type);
    if (!check_factors(n, fault)) return false;
    const dl_attr *along = dl_node_attr(n, DL_ATTR_along);
    int outside = dl_outside_find(dl_node_name(n, DL_ATTR_outside));
    int at = *along->names[0] ? dl_type_axis(x, along->names[0]) : -1;
    if (at < 0)
        return dl_fault(fault, 0, "missing_axis", "affine goes along %s, which %s lacks",
                        along->names[0], dl_type_text(x));
    bool inserts = along->n == 2 && dl_type_axis(x, along->names[1]) < 0;
    bool alike = r->dtype == x->dtype && r->rank == x->rank + inserts;
    for (int i = 0; alike && i < x->rank; i++)
        alike =
            r->axis[i].name == x->axis[i].name && (i == at || r->axis[i].size == x->axis[i].size);
    if (!alike || (inserts && (!*along->names[1] || r->axis[x->rank].name != along->names[1])))
        return dl_fault(fault, 0, "axis_mismatch", "affine along %s makes %s of %s",
                        along->names[0], dl_type_text(r), dl_type_text(x));
    if (outside < 0)
        return dl_fault(fault, -1, "bad_range", "affine: '%s' says nothing about what lies outside",
                        dl_node_name(n, DL_ATTR_outside));
    if ((outside == DL_OUT_LOWEST || outside == DL_OUT_NAN) && !dl_dtype_is_float(x->dtype))
        return dl_fault(fault, 0, "type_mismatch", "affine: %s has no lowest number and no NaN",
                        dl_type_text(x));
    if (!dl_outside_fills((dl_outside)outside) && !x->axis[at].size)
        return dl_fault(fault, 0, "bad_range", "affine: there is no element along %s",
                        along->names[0]);
    return true;
}

static void remove_axis(dl_type *t, int at) {
    for (int i = at; i + 1 < t->rank; i++) t->axis[i] = t->axis[i + 1];
    t->axis[--t->rank] = (dl_axis){0};
}

bool dl_rule_squeeze(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    int at = dl_rule_axis(n, fault);
    if (at < 0) return false;
    *r = dl_row_type(dl_operand(n, 0));
    if (r->axis[at].size != 1)
        return dl_fault(fault, 0, "bad_range",
                        "squeeze removes an axis of size 1, but %s has size %lld in %s",
                        r->axis[at].name, (long long)r->axis[at].size,
                        dl_type_text(dl_operand(n, 0))),
               dl_fault_help(fault, "take one element of it, or reduce over it");
    remove_axis(r, at);
    return true;
}

bool dl_rule_unsqueeze(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const char *name = dl_node_name(n, DL_ATTR_axis);
    int64_t at = dl_node_int(n, DL_ATTR_index);
    *r = dl_row_type(dl_operand(n, 0));
    if (!*name)
        return dl_fault(fault, -1, "missing_axis",
                        "unsqueeze inserts an axis, which must be named");
    if (dl_type_axis(r, name) >= 0)
        return dl_fault(fault, 0, "duplicate_axis",
                        "unsqueeze inserts an axis %s, which %s already has", name,
                        dl_type_text(r));
    if (r->rank == DL_MAX_RANK)
        return dl_fault(fault, 0, "rank_mismatch",
                        "unsqueeze: %s already has %d axes, the most possible", dl_type_text(r),
                        DL_MAX_RANK);
    if (at < 0 || at > r->rank)
        return dl_fault(fault, -1, "bad_range",
                        "unsqueeze inserts %s as axis number %lld, but %s has places 0 to %d", name,
                        (long long)at, dl_type_text(r), r->rank);
    for (int i = r->rank++; i > at; i--) r->axis[i] = r->axis[i - 1];
    r->axis[at] = (dl_axis){name, 1};
    return true;
}

bool dl_rule_rename(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    *r = dl_row_type(&n->out[0].type);
    bool alike = x->rank == r->rank && x->dtype == r->dtype;
    for (int i = 0; alike && i < x->rank; i++) alike = x->axis[i].size == r->axis[i].size;
    return alike || dl_fault(fault, 0, "axis_mismatch",
                             "rename changes only the names of axes, but makes %s of %s",
                             dl_type_text(r), dl_type_text(x));
}

bool dl_rule_relayout(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    *r = n->out[0].type;
    return dl_type_same(x, r) || dl_fault(fault, 0, "axis_mismatch",
                                          "relayout changes only the layout, but makes %s of %s",
                                          dl_type_text(r), dl_type_text(x));
}

bool dl_rule_given(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (n->nout < 1) return dl_fault(fault, -1, "wrong_arity", "%s has no result", dl_op_text(n));
    *r = n->out[0].type;
    return true;
}

/* The type of gather's result: x at the indices n. */
static bool gathered(const dl_type *x, const dl_type *n, const char *axis, dl_type *r,
                     dl_shape_fault *fault) {
    *r = dl_row_type(n);
    r->dtype = x->dtype;
    for (int i = 0; i < x->rank; i++) {
        dl_axis a = x->axis[i];
        if (a.name == axis) continue;
        int at = *a.name ? dl_type_axis(n, a.name) : -1;
        if (at >= 0 && n->axis[at].size != a.size)
            return dl_fault(
                fault, 1, "axis_mismatch", "%s is %lld in %s and %lld in the numbers, %s", a.name,
                (long long)a.size, dl_type_text(x), (long long)n->axis[at].size, dl_type_text(n));
        if (at < 0 && r->rank == DL_MAX_RANK)
            return dl_fault(fault, 1, "rank_mismatch", "together there are more than %d axes",
                            DL_MAX_RANK);
        if (at < 0) r->axis[r->rank++] = a;
    }
    return true;
}

static bool want_numbers(const dl_node *n, dl_shape_fault *fault) {
    const dl_type *t = dl_operand(n, 1);
    if (!*dl_node_name(n, DL_ATTR_axis))
        return dl_fault(fault, -1, "missing_axis", "%s goes along an axis that has a name",
                        dl_op_text(n));
    if (t->dtype == DL_I32 || t->dtype == DL_I64) return true;
    dl_fault(fault, 1, "type_mismatch",
             "%s takes elements by whole numbers, but the second operand is %s", dl_op_text(n),
             dl_type_text(t));
    return dl_fault_help(fault, "cast it to i32");
}

bool dl_rule_gather(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    return dl_rule_axis(n, fault) >= 0 && want_numbers(n, fault) &&
           gathered(dl_operand(n, 0), dl_operand(n, 1), dl_node_name(n, DL_ATTR_axis), r, fault);
}

bool dl_rule_scatter_add(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    dl_type from;
    *r = dl_row_type(&n->out[0].type);
    if (!want_numbers(n, fault)) return false;
    if (x->dtype == DL_BOOL || x->dtype != r->dtype)
        return dl_fault(fault, 0, "type_mismatch", "%s takes numbers, but makes %s of %s",
                        dl_op_text(n), dl_type_text(r), dl_type_text(x));
    if (dl_type_axis(r, axis) < 0)
        return dl_fault(fault, -1, "missing_axis", "%s goes along %s, which %s lacks",
                        dl_op_text(n), axis, dl_type_text(r));
    if (!gathered(r, dl_operand(n, 1), axis, &from, fault)) return false;
    bool alike = from.rank == x->rank;
    for (int i = 0; alike && i < x->rank; i++) {
        int at = dl_type_axis(&from, x->axis[i].name);
        alike = at >= 0 && from.axis[at].size == x->axis[i].size;
    }
    return alike || dl_fault(fault, 0, "axis_mismatch", "%s makes %s of %s, not of %s",
                             dl_op_text(n), dl_type_text(r), dl_type_text(&from), dl_type_text(x));
}
