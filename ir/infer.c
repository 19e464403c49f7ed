/* Asking for a node's type: arity and attributes, then the row's rule, then the result's own legality. */
#include "ir/infer.h"

#include <stdarg.h>
#include <stdio.h>

#include "ir/infer_rules.h"

static dl_rule *const rules[DL_NOPS] = {
#define OP(id, text, arity, class, infer, ...) dl_rule_##infer,
#include "ir/ops.def"
#undef OP
};

/* A tensor has at most this many elements: offsets and byte counts then fit 64 bits with room to spare. */
static const int64_t max_count = (int64_t)1 << 47;

bool dl_fault(dl_shape_fault *fault, int operand, const char *code, const char *format, ...) {
    fault->operand = operand;
    fault->code = code;
    fault->help[0] = 0;
    va_list ap;
    va_start(ap, format);
    vsnprintf(fault->message, sizeof fault->message, format, ap);
    va_end(ap);
    return false;
}

bool dl_fault_help(dl_shape_fault *fault, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(fault->help, sizeof fault->help, format, ap);
    va_end(ap);
    return false;
}

const char *dl_operand_text(int i) {
    static const char *const words[] = {"the first operand", "the second operand", "the third operand"};
    return i < 3 ? words[i] : dl_internf("operand %d", i + 1);
}

dl_type dl_row_type(const dl_type *t) {
    dl_type row = *t;
    row.layout = (dl_layout){DL_ROW, 0};
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
            dl_fault(fault, -1, "missing_axis", "%s works along an axis, which must be named", dl_op_text(n));
        dl_fault_help(fault, "name one of the axes of %s", dl_type_text(x));
    }
    return at;
}

bool dl_want_same_dtype(const dl_node *n, dl_shape_fault *fault) {
    for (int i = 1; i < n->nin; i++) {
        if (dl_operand(n, i)->dtype == dl_operand(n, 0)->dtype) continue;
        dl_fault(fault, i, "type_mismatch", "%s has %s as the first operand and %s as %s", dl_op_text(n),
                 dl_type_text(dl_operand(n, 0)), dl_type_text(dl_operand(n, i)), dl_operand_text(i));
        return dl_fault_help(fault,
                             "nothing is converted silently: cast one of them to the other's element type");
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
    dl_fault(fault, operand, "type_mismatch", "%s needs floating-point numbers, but %s is %s", dl_op_text(n),
             dl_operand_text(operand), dl_type_text(t));
    return dl_fault_help(fault, "cast it to f32");
}

bool dl_want_rank(const dl_node *n, int operand, int rank, const char *form, dl_shape_fault *fault) {
    const dl_type *t = dl_operand(n, operand);
    return t->rank == rank || dl_fault(fault, operand, "rank_mismatch", "%s expects %s as %s, but it is %s",
                                       dl_op_text(n), dl_operand_text(operand), form, dl_type_text(t));
}

static bool check_layout(const dl_type *t, dl_shape_fault *fault) {
    bool legal = t->layout.kind == DL_ROW || (t->layout.kind == DL_CL && t->rank >= 2) ||
                 (t->layout.kind == DL_PANEL && t->rank >= 3 && t->layout.width >= 1 &&
                  t->layout.width <= DL_MAX_PANEL);
    return legal ||
           dl_fault(
               fault, -1, "bad_range",
               "no such layout of %d axes: channels-last needs two, panels need three and a width of 1 to %d",
               t->rank, DL_MAX_PANEL);
}

/* Is it legal but for the number of its elements? */
static bool check_axes(const dl_type *t, dl_shape_fault *fault) {
    if ((unsigned)t->dtype >= DL_NDTYPES)
        return dl_fault(fault, -1, "type_mismatch", "no such element type (number %d)", (int)t->dtype);
    if (t->rank < 0 || t->rank > DL_MAX_RANK)
        return dl_fault(fault, -1, "rank_mismatch", "a tensor has at most %d axes, not %d", DL_MAX_RANK,
                        t->rank);
    for (int i = 0; i < t->rank; i++) {
        dl_axis a = t->axis[i];
        if (!*a.name && a.size != 1)
            return dl_fault(fault, -1, "missing_axis", "axis %d has no name, so its size must be 1, not %lld",
                            i + 1, (long long)a.size),
                   dl_fault_help(fault, "name the axis");
        if (*a.name && dl_type_axis(t, a.name) != i)
            return dl_fault(fault, -1, "duplicate_axis", "%s names the axis %s twice", dl_type_text(t),
                            a.name),
                   dl_fault_help(fault, "give every axis a name of its own");
        if (a.size < 0)
            return dl_fault(fault, -1, "bad_range", "axis %s has size %lld; a size is 0 or more", a.name,
                            (long long)a.size);
    }
    return check_layout(t, fault);
}

bool dl_infer_type(const dl_type *t, dl_shape_fault *fault) {
    if (!check_axes(t, fault)) return false;
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        int64_t size = t->axis[i].size ? t->axis[i].size : 1;
        if (size > max_count / count)
            return dl_fault(fault, -1, "too_large",
                            "%s has more than 2^47 elements (reached at axis %s=%lld)", dl_type_text(t),
                            t->axis[i].name, (long long)t->axis[i].size),
                   dl_fault_help(fault, "make one of its axes smaller");
        count *= size;
    }
    return true;
}

static bool check_arity(const dl_node *n, dl_shape_fault *fault) {
    const dl_op_info *op = &dl_ops[n->op];
    /* A kernel of constants and coordinates alone reads nothing. */
    if (op->class == DL_CLASS_FUSED || n->nin == op->arity || (op->arity < 0 && n->nin >= 1)) return true;
    if (op->arity < 0)
        return dl_fault(fault, -1, "wrong_arity", "%s takes one operand or more, not none", op->name);
    return dl_fault(fault, -1, "wrong_arity", "%s takes %d operand%s, not %d", op->name, op->arity,
                    op->arity == 1 ? "" : "s", n->nin);
}

/* Exactly the row's attributes, in schema order, lists within bounds. */
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
                            "attribute '%s' lists %d elements; at most %d are possible", dl_attrs[a->id].name,
                            a->n, DL_MAX_RANK);
        if (a->id == DL_ATTR_of && a->n != n->nout)
            return dl_fault(fault, -1, "bad_attribute", "%s makes %d values, and `of` names %d", op->name,
                            n->nout, a->n);
    }
    return true;
}

static bool infer(const dl_node *n, dl_type *result, dl_shape_fault *fault,
                  bool (*legal)(const dl_type *, dl_shape_fault *)) {
    dl_type type[DL_MAX_RESULTS] = {0};
    if ((unsigned)n->op >= DL_NOPS)
        return dl_fault(fault, -1, "bad_attribute", "no such op (number %d)", (int)n->op);
    if (!check_arity(n, fault) || !check_attrs(n, fault) || !rules[n->op](n, type, fault)) return false;
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
    return infer(n, result, fault, check_axes);
}
