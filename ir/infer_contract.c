/* The shape rule of contractions by names. */
#include "ir/infer_rules.h"

/* Every name of `over` must be an axis of both operands, and occur once. */
static bool check_over(const dl_node *n, const dl_attr *over, dl_shape_fault *fault) {
    for (int i = 0; i < over->n; i++) {
        for (int k = 0; k < 2; k++)
            if (!*over->names[i] || dl_type_axis(dl_operand(n, k), over->names[i]) < 0)
                return dl_fault(fault, k, "missing_axis",
                                "%s sums over axis '%s', which %s (%s) does not have",
                                dl_op_text(n), over->names[i], dl_operand_text(k),
                                dl_type_text(dl_operand(n, k)));
        for (int j = 0; j < i; j++)
            if (over->names[j] == over->names[i])
                return dl_fault(fault, -1, "duplicate_axis", "%s names the axis %s twice",
                                dl_op_text(n), over->names[i]);
    }
    return true;
}

/* The first operand's axes in their order, then further axes of the second; without the summed
 * axes. */
bool dl_rule_contract(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    const dl_type *types[] = {dl_operand(n, 0), dl_operand(n, 1)};
    dl_dtype product;
    if (!dl_want_factors(n, &product, fault) || !check_over(n, over, fault)) return false;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < types[k]->rank; i++)
            if (!*types[k]->axis[i].name)
                return dl_fault(fault, k, "missing_axis", "%s needs a name for axis %d of %s",
                                dl_op_text(n), i + 1, dl_type_text(types[k]));
    *r = dl_scalar(product);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < types[k]->rank; i++) {
            dl_axis a = types[k]->axis[i];
            int in_first = k ? dl_type_axis(types[0], a.name) : -1;
            if (in_first >= 0 && types[0]->axis[in_first].size != a.size)
                return dl_fault(
                    fault, 1, "axis_mismatch",
                    "%s: %s is %lld in the first operand (%s) and %lld in the second (%s)",
                    dl_op_text(n), a.name, (long long)types[0]->axis[in_first].size,
                    dl_type_text(types[0]), (long long)a.size, dl_type_text(types[1]));
            if (in_first >= 0 || dl_names_have(over->n, over->names, a.name)) continue;
            if (r->rank == DL_MAX_RANK)
                return dl_fault(fault, k, "rank_mismatch", "the result of %s has more than %d axes",
                                dl_op_text(n), DL_MAX_RANK);
            r->axis[r->rank++] = a;
        }
    return true;
}
