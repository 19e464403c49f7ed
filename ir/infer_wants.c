/* Checks of operands and attributes that several rules share, and their messages. */
#include "ir/infer_rules.h"

const char *dl_operand_text(int i) {
    static const char *const words[] = {"the first operand", "the second operand",
                                        "the third operand"};
    return i < 3 ? words[i] : dl_internf("operand %d", i + 1);
}

dl_type dl_row_type(const dl_type *t) {
    dl_type row = *t;
    row.layout = (dl_layout){.kind = DL_ROW};
    return row;
}

int dl_rule_axis(const dl_node *n, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    const char *name = dl_node_name(n, DL_ATTR_axis);
    int at = *name ? dl_type_axis(x, name) : -1;
    if (at < 0) {
        if (*name)
            dl_fault(fault, 0, "missing_axis", "%s works along axis %s, which %s does not have",
                     dl_op_text(n), name, dl_type_text(x));
        else
            dl_fault(fault, -1, "missing_axis", "%s works along an axis, which must be named",
                     dl_op_text(n));
        dl_fault_help(fault, "name one of the axes of %s", dl_type_text(x));
    }
    return at;
}

bool dl_want_same_dtype(const dl_node *n, dl_shape_fault *fault) {
    for (int i = 1; i < n->nin; i++) {
        if (dl_operand(n, i)->dtype == dl_operand(n, 0)->dtype) continue;
        dl_fault(fault, i, "type_mismatch", "%s has %s as the first operand and %s as %s",
                 dl_op_text(n), dl_type_text(dl_operand(n, 0)), dl_type_text(dl_operand(n, i)),
                 dl_operand_text(i));
        return dl_fault_help(
            fault, "nothing is converted silently: cast one of them to the other's element type");
    }
    return true;
}

bool dl_want_factors(const dl_node *n, dl_dtype *product, dl_shape_fault *fault) {
    dl_dtype a = dl_operand(n, 0)->dtype, b = dl_operand(n, 1)->dtype;
    *product = dl_dtype_is_half(b) ? b : a;
    return dl_want_float(n, 0, fault) && dl_want_float(n, 1, fault) &&
           ((a == DL_F32 && dl_dtype_is_half(b)) || (dl_dtype_is_half(a) && b == DL_F32) ||
            dl_want_same_dtype(n, fault));
}

bool dl_want_float(const dl_node *n, int operand, dl_shape_fault *fault) {
    const dl_type *t = dl_operand(n, operand);
    if (dl_dtype_is_float(t->dtype)) return true;
    dl_fault(fault, operand, "type_mismatch", "%s needs floating-point numbers, but %s is %s",
             dl_op_text(n), dl_operand_text(operand), dl_type_text(t));
    return dl_fault_help(fault, "cast it to f32");
}

bool dl_want_rank(const dl_node *n, int operand, int rank, const char *form,
                  dl_shape_fault *fault) {
    const dl_type *t = dl_operand(n, operand);
    return t->rank == rank ||
           dl_fault(fault, operand, "rank_mismatch", "%s expects %s as %s, but it is %s",
                    dl_op_text(n), dl_operand_text(operand), form, dl_type_text(t));
}

bool dl_want_rate(const dl_node *n, dl_shape_fault *fault) {
    double rate = dl_node_float(n, DL_ATTR_rate);
    return (rate >= 0 && rate <= 1) ||
           dl_fault(fault, -1, "bad_range", "%s drops a share of %g; a share is from 0 to 1",
                    dl_op_text(n), rate);
}

bool dl_want_switch(const dl_node *n, dl_attr_id id, dl_shape_fault *fault) {
    const dl_attr *a = dl_node_attr(n, id);
    return !a || a->i == 0 || a->i == 1 ||
           dl_fault(fault, -1, "bad_attribute", "%s is %s (1) or not (0), not %lld", dl_op_text(n),
                    dl_attrs[id].name, (long long)a->i);
}
