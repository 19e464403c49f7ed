#include "ir/op.h"

#include "ir/templates.h"

/* The column attrs: the number of attributes, their ids, and how many of them are optional. */
#define NONE                      0, {0}, 0
#define AT(a)                     DL_ATTR_##a
#define A1(a)                     1, {AT(a)}, 0
#define A2(a, b)                  2, {AT(a), AT(b)}, 0
#define A2_1(a, b, c)             3, {AT(a), AT(b), AT(c)}, 1
#define A2_3(a, b, c, d, e)       5, {AT(a), AT(b), AT(c), AT(d), AT(e)}, 3
#define A3(a, b, c)               3, {AT(a), AT(b), AT(c)}, 0
#define A4(a, b, c, d)            4, {AT(a), AT(b), AT(c), AT(d)}, 0
#define A5(a, b, c, d, e)         5, {AT(a), AT(b), AT(c), AT(d), AT(e)}, 0
#define A7(a, b, c, d, e, f, g)   7, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g)}, 0
#define A5_1(a, b, c, d, e, f)    6, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f)}, 1
#define A1_1(a, b)                2, {AT(a), AT(b)}, 1
#define A0_2(a, b)                2, {AT(a), AT(b)}, 2
#define A3_2(a, b, c, d, e)       5, {AT(a), AT(b), AT(c), AT(d), AT(e)}, 2
#define A5_2(a, b, c, d, e, f, g) 7, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g)}, 2
#define A4_1(a, b, c, d, e)       5, {AT(a), AT(b), AT(c), AT(d), AT(e)}, 1
#define A4_2(a, b, c, d, e, f)    6, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f)}, 2

#define A5_3(a, b, c, d, e, f, g, h) 8, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g), AT(h)}, 3
#define A6_2(a, b, c, d, e, f, g, h) 8, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g), AT(h)}, 2
#define A4_5(a, b, c, d, e, f, g, h, i)                                                            \
    9, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g), AT(h), AT(i)}, 5

const dl_op_info dl_ops[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, attrs, expr)                           \
    {text, arity, DL_CLASS_##class, DL_AMP_##amp, attrs, #expr},
#include "ir/ops.def"
#undef OP
};

const dl_attr_info dl_attrs[DL_NATTRS] = {
#define ATTR(id, text, kind) {text, DL_KIND_##kind},
#include "ir/attrs.def"
#undef ATTR
};

#define DL_TEMPLATE(id, ...)                   [DL_OP_##id] = __VA_ARGS__,
#define CALL(results, family, variants, shard) results
#define OP                                     DL_TEMPLATE_ROW
static const int results[DL_NOPS] = {
#include "ir/ops.def"
};
#undef OP

int dl_op_results(dl_op op) {
    if (dl_ops[op].class == DL_CLASS_FUSED || op == DL_OP_all_reduce) return 0;
    return dl_ops[op].class == DL_CLASS_TEMPLATE ? results[op] : 1;
}

bool dl_op_forwards(dl_op op) { return op == DL_OP_shift; }
bool dl_op_is_collective(dl_op op) { return dl_ops[op].class == DL_CLASS_COLLECTIVE; }

bool dl_op_is_opaque(dl_op op) {
    return dl_ops[op].class == DL_CLASS_TEMPLATE || dl_op_is_collective(op);
}

bool dl_op_wants_rows(dl_op op) {
    return dl_ops[op].class == DL_CLASS_TEMPLATE || op == DL_OP_shift;
}

bool dl_op_is_partitioned(dl_op op) { return op == DL_OP_all_gather || op == DL_OP_reduce_scatter; }

int dl_op_find(const char *name) {
    for (int i = 0; i < DL_NOPS; i++)
        if (strcmp(dl_ops[i].name, name) == 0) return i;
    return -1;
}

int dl_attr_find(const char *name) {
    for (int i = 0; i < DL_NATTRS; i++)
        if (strcmp(dl_attrs[i].name, name) == 0) return i;
    return -1;
}

bool dl_op_is_trivial(dl_op op) {
    switch (op) {
    case DL_OP_neg:
    case DL_OP_not:
    case DL_OP_cast:
    case DL_OP_add:
    case DL_OP_sub:
    case DL_OP_mul:
    case DL_OP_min:
    case DL_OP_max:
    case DL_OP_relu:
    case DL_OP_abs:
    case DL_OP_stop_gradient:
    case DL_OP_updated:
    case DL_OP_eq:
    case DL_OP_ne:
    case DL_OP_lt:
    case DL_OP_le:
    case DL_OP_gt:
    case DL_OP_ge:
    case DL_OP_and:
    case DL_OP_or:
    case DL_OP_select: return true;
    default: return false;
    }
}

bool dl_op_is_transcendental(dl_op op) {
    switch (op) {
    case DL_OP_log:
    case DL_OP_log1p:
    case DL_OP_expm1:
    case DL_OP_elu:
    case DL_OP_sin:
    case DL_OP_cos:
    case DL_OP_pow:
    case DL_OP_atan2: return true;
    default: return false;
    }
}
