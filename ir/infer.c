/* Type inference of a node: arity and attributes first, then the rule of the op's row, then the
 * legality of the results. */
#include "ir/infer_rules.h"

static dl_rule *const rules[DL_NOPS] = {
#define OP(id, text, arity, class, infer, ...) dl_rule_##infer,
#include "ir/ops.def"
#undef OP
};

static bool check_arity(const dl_node *n, dl_shape_fault *fault) {
    const dl_op_info *op = &dl_ops[n->op];
    /* A kernel of constants and coordinates alone has no operands. */
    if (op->class == DL_CLASS_FUSED || n->nin == op->arity || (op->arity < 0 && n->nin >= 1))
        return true;
    if (op->arity < 0)
        return dl_fault(fault, -1, "wrong_arity", "%s takes one operand or more, not none",
                        op->name);
    return dl_fault(fault, -1, "wrong_arity", "%s takes %d operand%s, not %d", op->name, op->arity,
                    op->arity == 1 ? "" : "s", n->nin);
}

/* The node must have exactly the attributes of its row, in schema order, with lists within bounds.
 */
static bool check_attrs(const dl_node *n, dl_shape_fault *fault) {
    const dl_op_info *op = &dl_ops[n->op];
    int row = 0;
    for (int i = 0; i < op->nattrs - op->noptional; i++)
        if (!dl_node_attr(n, op->attrs[i]))
            return dl_fault(fault, -1, "bad_attribute", "%s needs the attribute '%s'", op->name,
                            dl_attrs[op->attrs[i]].name);
    for (int i = 0; i < n->nattrs; i++, row++) {
        const dl_attr *a = &n->attrs[i];
        while (row < op->nattrs && op->attrs[row] != a->id) row++;
        if (row == op->nattrs)
            return dl_fault(fault, -1, "bad_attribute", "%s takes no attribute '%s' here", op->name,
                            (unsigned)a->id < DL_NATTRS ? dl_attrs[a->id].name : "?");
        dl_attr_kind kind = dl_attrs[a->id].kind;
        bool list = kind == DL_KIND_INTS || kind == DL_KIND_NAMES;
        if (list && (a->n < 0 || a->n > DL_MAX_RANK))
            return dl_fault(fault, -1, "bad_attribute",
                            "attribute '%s' lists %d elements; at most %d are possible",
                            dl_attrs[a->id].name, a->n, DL_MAX_RANK);
        if (a->id == DL_ATTR_of && a->n != n->nout)
            return dl_fault(fault, -1, "bad_attribute", "%s makes %d values, and `of` names %d",
                            op->name, n->nout, a->n);
    }
    return true;
}

static bool infer(const dl_node *n, dl_type *result, dl_shape_fault *fault,
                  bool (*legal)(const dl_type *, dl_shape_fault *)) {
    dl_type type[DL_MAX_RESULTS] = {0};
    if ((unsigned)n->op >= DL_NOPS)
        return dl_fault(fault, -1, "bad_attribute", "no such op (number %d)", (int)n->op);
    if (!check_arity(n, fault) || !check_attrs(n, fault)) return false;
    for (int i = 0; i < n->nin && dl_op_wants_float(n->op); i++)
        if (!dl_want_float(n, i, fault)) return false;
    if (!rules[n->op](n, type, fault)) return false;
    int results = dl_op_results(n->op) ? dl_op_results(n->op) : 1;
    for (int i = 0; i < results; i++)
        if (!legal(&type[i], fault)) return false;
    memcpy(result, type, sizeof *type * (size_t)results);
    return true;
}

bool dl_infer(const dl_node *n, dl_type *result, dl_shape_fault *fault) {
    return infer(n, result, fault, dl_infer_type);
}

bool dl_infer_any_size(const dl_node *n, dl_type *result, dl_shape_fault *fault) {
    return infer(n, result, fault, dl_infer_axes);
}
