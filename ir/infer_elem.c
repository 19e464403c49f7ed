/* Shape rules of sources, pointwise ops and reductions. */
#include "ir/base/axis_order.h"
#include "ir/base/philox.h"
#include "ir/infer_rules.h"

/* The first operand that has the axis. */
static int first_with(const dl_type *const *operands, const char *name) {
    int i = 0;
    while (dl_type_axis(operands[i], name) < 0) i++;
    return i;
}

/* Adds the named axes of operand i to `all`; false: *fault is set. */
static bool add_axes(const dl_type *const *operands, int i, dl_type *all, dl_shape_fault *fault) {
    for (int j = 0; j < operands[i]->rank; j++) {
        dl_axis a = operands[i]->axis[j];
        if (!*a.name) continue;
        int at = dl_type_axis(all, a.name);
        if (at < 0 && all->rank == DL_MAX_RANK)
            return dl_fault(fault, i, "rank_mismatch",
                            "together the operands have more than %d axes: %s would be one more",
                            DL_MAX_RANK, a.name);
        if (at < 0) {
            all->axis[all->rank++] = a;
        } else if (all->axis[at].size != a.size) {
            int other = first_with(operands, a.name);
            dl_fault(fault, i, "axis_mismatch", "%s is %lld in %s (%s) and %lld in %s (%s)", a.name,
                     (long long)all->axis[at].size, dl_operand_text(other),
                     dl_type_text(operands[other]), (long long)a.size, dl_operand_text(i),
                     dl_type_text(operands[i]));
            return dl_fault_help(fault, "axes of one name must agree in size; rename one of them "
                                        "if they are different things");
        }
    }
    return true;
}

int dl_infer_leader(const dl_type *const *operands, int n) {
    for (int i = 0; i < n; i++) {
        bool has_all = true;
        for (int k = 0; has_all && k < n; k++)
            for (int j = 0; has_all && j < operands[k]->rank; j++) {
                const char *name = operands[k]->axis[j].name;
                has_all = !*name || dl_type_axis(operands[i], name) >= 0;
            }
        if (has_all) return i;
    }
    return -1;
}

/* Adds the order of an operand's axes to that of the axes of `all`. */
static void add_order(const dl_type *all, const dl_type *operand, unsigned *before) {
    int axes[DL_MAX_RANK], n = 0;
    for (int j = 0; j < operand->rank; j++)
        if (*operand->axis[j].name) axes[n++] = dl_type_axis(all, operand->axis[j].name);
    dl_order_add(before, all->rank, axes, n);
}

bool dl_infer_broadcast(const dl_type *const *operands, int n, dl_type *result,
                        dl_shape_fault *fault) {
    if (n == 1) return *result = dl_row_type(operands[0]), true;
    dl_type all = dl_scalar(operands[0]->dtype);
    for (int i = 0; i < n; i++)
        if (!add_axes(operands, i, &all, fault)) return false;
    unsigned before[DL_MAX_RANK] = {0}, placed = 0;
    int leader = dl_infer_leader(operands, n);
    if (leader >= 0) add_order(&all, operands[leader], before);
    for (int i = 0; i < n; i++) add_order(&all, operands[i], before);
    *result = all;
    for (int k = 0; k < all.rank; k++) {
        int next = dl_order_next(before, all.rank, placed);
        result->axis[k] = all.axis[next], placed |= 1u << next;
    }
    return true;
}

static bool broadcast(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *types[3];
    for (int i = 0; i < n->nin; i++) types[i] = dl_operand(n, i);
    return dl_infer_broadcast(types, n->nin, r, fault);
}

bool dl_rule_const(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    *r = dl_row_type(&n->out[0].type);
    return r->rank == 0 ||
           dl_fault(fault, -1, "rank_mismatch", "a constant is a scalar, not %s", dl_type_text(r));
}

bool dl_rule_iota(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    *r = dl_row_type(&n->out[0].type);
    if (r->rank != 1)
        return dl_fault(fault, -1, "rank_mismatch", "iota has the one axis %s, not %s", axis,
                        dl_type_text(r));
    if (r->axis[0].name != axis || !*axis)
        return dl_fault(fault, -1, "missing_axis",
                        "iota counts along the axis '%s', but its type is %s", axis,
                        dl_type_text(r));
    return r->dtype != DL_BOOL || dl_fault(fault, -1, "type_mismatch",
                                           "iota counts, which %s cannot hold", dl_type_text(r));
}

bool dl_rule_random(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    int64_t number = dl_node_int(n, DL_ATTR_number);
    *r = dl_row_type(&n->out[0].type);
    if (n->nin < 2 || n->nin > 3)
        return dl_fault(fault, -1, "wrong_arity",
                        "random takes a seed, a step and perhaps a part, not %d operands", n->nin);
    for (int i = 0; i < n->nin; i++) {
        const dl_type *t = dl_operand(n, i);
        if (t->rank || t->dtype != DL_I64)
            return dl_fault(
                fault, i, "type_mismatch",
                "random takes a seed and a step, i64[] each, as a part is, but %s is %s",
                dl_operand_text(i), dl_type_text(t));
    }
    if (number < 0 || number >= DL_RANDOM_NUMBERS)
        return dl_fault(fault, -1, "bad_range", "random is number %lld; numbers go from 0 to %d",
                        (long long)number, DL_RANDOM_NUMBERS - 1);
    return r->dtype == DL_F32 || r->dtype == DL_F64 ||
           dl_fault(fault, -1, "type_mismatch", "random makes f32 or f64, not %s", dl_type_text(r));
}

bool dl_rule_elem(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    for (int i = 0; i < n->nin; i++)
        if (dl_operand(n, i)->dtype == DL_BOOL)
            return dl_fault(fault, i, "type_mismatch", "%s computes with numbers, but %s is %s",
                            dl_op_text(n), dl_operand_text(i), dl_type_text(dl_operand(n, i))),
                   dl_fault_help(fault, "cast it to f32 (true becomes 1)");
    return dl_want_same_dtype(n, fault) && broadcast(n, r, fault);
}

bool dl_rule_same(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    return broadcast(n, r, fault);
}

bool dl_rule_elem_compare(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (!dl_want_same_dtype(n, fault) || !broadcast(n, r, fault)) return false;
    r->dtype = DL_BOOL;
    return true;
}

static bool want_bool(const dl_node *n, int i, dl_shape_fault *fault) {
    if (dl_operand(n, i)->dtype == DL_BOOL) return true;
    dl_fault(fault, i, "type_mismatch", "%s needs %s to be true or false, but it is %s",
             dl_op_text(n), dl_operand_text(i), dl_type_text(dl_operand(n, i)));
    return dl_fault_help(fault, "compare it with something, for example != 0");
}

bool dl_rule_elem_logic(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    for (int i = 0; i < n->nin; i++)
        if (!want_bool(n, i, fault)) return false;
    return broadcast(n, r, fault);
}

bool dl_rule_elem_select(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *a = dl_operand(n, 1), *b = dl_operand(n, 2);
    if (!want_bool(n, 0, fault)) return false;
    if (a->dtype != b->dtype)
        return dl_fault(fault, 2, "type_mismatch", "select chooses between %s and %s",
                        dl_type_text(a), dl_type_text(b)),
               dl_fault_help(fault, "cast one of them to the other's element type");
    if (!broadcast(n, r, fault)) return false;
    r->dtype = a->dtype;
    return true;
}

bool dl_rule_cast(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    dl_type x = dl_row_type(dl_operand(n, 0));
    *r = dl_row_type(&n->out[0].type);
    x.dtype = r->dtype;
    return dl_type_same(&x, r) || dl_fault(fault, 0, "axis_mismatch",
                                           "cast changes only the element type, but makes %s of %s",
                                           dl_type_text(r), dl_type_text(dl_operand(n, 0)));
}

/* "" in the list removes an axis without a name. */
bool dl_rule_reduce(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    if ((n->op == DL_OP_sum || n->op == DL_OP_prod) && x->dtype == DL_BOOL)
        return dl_fault(fault, 0, "type_mismatch", "%s works on numbers, but its operand is %s",
                        dl_op_text(n), dl_type_text(x)),
               dl_fault_help(fault, "cast it to f32 to count what is true");
    for (int i = 0; i < over->n; i++) {
        const char *name = over->names[i];
        if (dl_type_axis(x, name) < 0)
            return dl_fault(fault, 0, "missing_axis",
                            "%s goes over axis %s, which %s does not have", dl_op_text(n), name,
                            dl_type_text(x)),
                   dl_fault_help(fault, "name axes of %s", dl_type_text(x));
        if (*name && dl_names_have(i, over->names, name))
            return dl_fault(fault, -1, "duplicate_axis", "%s names the axis %s twice",
                            dl_op_text(n), name),
                   dl_fault_help(fault, "name it once");
    }
    *r = dl_scalar(x->dtype);
    for (int i = 0; i < x->rank; i++) {
        bool goes = dl_names_have(over->n, over->names, x->axis[i].name);
        if (!goes) r->axis[r->rank++] = x->axis[i];
    }
    return true;
}
