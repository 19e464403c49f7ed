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
#define A3_1(a, b, c, d)          4, {AT(a), AT(b), AT(c), AT(d)}, 1
#define A3_2(a, b, c, d, e)       5, {AT(a), AT(b), AT(c), AT(d), AT(e)}, 2
#define A5_2(a, b, c, d, e, f, g) 7, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g)}, 2
#define A4_1(a, b, c, d, e)       5, {AT(a), AT(b), AT(c), AT(d), AT(e)}, 1
#define A4_2(a, b, c, d, e, f)    6, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f)}, 2

#define A5_3(a, b, c, d, e, f, g, h) 8, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g), AT(h)}, 3
#define A6_2(a, b, c, d, e, f, g, h) 8, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g), AT(h)}, 2
#define A4_5(a, b, c, d, e, f, g, h, i)                                                            \
    9, {AT(a), AT(b), AT(c), AT(d), AT(e), AT(f), AT(g), AT(h), AT(i)}, 5

/* The column facts, with its words. */
enum { OPEN, SUM, PRODUCT, CHOICE, SAME, CAST };
enum { UNKNOWN, TRIVIAL, VECTOR, LIBRARY };
enum { NO, FLOAT, LINEAR, CHOOSES = 1 << 2, SAMPLES = 1 << 3, IDENTITY = 1 << 4 };
/* clang-format off */
#define FACTS(move, curve, ...) {DL_MOVE_##move, DL_CURVE_##curve, __VA_ARGS__}
#define PLAIN               FACTS(NONE, UNKNOWN, ANY, OPEN, UNKNOWN, NO)
#define HAS(flags)          FACTS(NONE, UNKNOWN, ANY, OPEN, UNKNOWN, flags)
#define MOVES(move, flags)  FACTS(move, UNKNOWN, ANY, OPEN, UNKNOWN, flags)
#define CURVE(curve, flags) FACTS(NONE, curve, ANY, OPEN, UNKNOWN, flags)
#define SCALAR(curve, rounding, product, cost, flags)                                              \
    FACTS(NONE, curve, rounding, product, cost, flags)
#define ANY                 0, false
#define EXACT(n)            1 + (n), true
#define WITHIN(n)           1 + (n), false
/* clang-format on */

const dl_op_info dl_ops[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr)                    \
    {text, arity, DL_CLASS_##class, #grad, DL_AMP_##amp, facts, attrs, #expr},
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
    if (dl_ops[op].class == DL_CLASS_FUSED || dl_op_has_body(op) || op == DL_OP_all_reduce)
        return 0;
    return dl_ops[op].class == DL_CLASS_TEMPLATE ? results[op] : 1;
}

bool dl_op_forwards(dl_op op) { return op == DL_OP_shift; }
bool dl_op_is_collective(dl_op op) { return dl_ops[op].class == DL_CLASS_COLLECTIVE; }
bool dl_op_has_body(dl_op op) { return dl_ops[op].class == DL_CLASS_BODY; }

bool dl_op_is_opaque(dl_op op) {
    return dl_ops[op].class == DL_CLASS_TEMPLATE || dl_op_is_collective(op) || dl_op_has_body(op);
}

bool dl_op_wants_rows(dl_op op) {
    return dl_ops[op].class == DL_CLASS_TEMPLATE || dl_op_has_body(op) || op == DL_OP_shift;
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

static bool is_scalar(dl_op op) { return dl_ops[op].class == DL_CLASS_ELEM; }

dl_move dl_op_move(dl_op op) { return dl_ops[op].facts.move; }
bool dl_op_is_view(dl_op op) {
    dl_move move = dl_op_move(op);
    return move != DL_MOVE_NONE && move < DL_MOVE_JOIN;
}
dl_curve dl_op_curve(dl_op op) { return dl_ops[op].facts.curve; }
bool dl_op_is_flat(dl_op op) { return strcmp(dl_ops[op].grad, "zero") == 0; }
int dl_op_roundings(dl_op op) { return dl_ops[op].facts.rounding - 1; }
bool dl_op_is_approximate(dl_op op) { return is_scalar(op) && !dl_ops[op].facts.exact; }

bool dl_op_is_trivial(dl_op op) { return dl_ops[op].facts.cost == TRIVIAL; }

bool dl_op_is_transcendental(dl_op op) {
    int cost = dl_ops[op].facts.cost;
    return is_scalar(op) && cost != TRIVIAL && cost != VECTOR;
}

bool dl_op_is_sum(dl_op op) { return dl_ops[op].facts.product == SUM; }

bool dl_op_takes_rounded(dl_op op) {
    int product = dl_ops[op].facts.product;
    return product == PRODUCT || product == CHOICE || product == SAME;
}

bool dl_op_may_contract(dl_op op) {
    int product = dl_ops[op].facts.product;
    return is_scalar(op) && product != SUM && product != CHOICE;
}

bool dl_op_forwards_product(dl_op op) {
    int product = dl_ops[op].facts.product;
    return product == SAME || product == CAST;
}

bool dl_op_wants_float(dl_op op) { return dl_ops[op].facts.flags & FLOAT; }
bool dl_op_is_linear(dl_op op) { return dl_ops[op].facts.flags & LINEAR; }
bool dl_op_chooses(dl_op op) { return dl_ops[op].facts.flags & CHOOSES; }
bool dl_op_is_identity(dl_op op) { return dl_ops[op].facts.flags & IDENTITY; }

bool dl_op_takes_sequences(dl_op op) {
    bool composite = dl_ops[op].class == DL_CLASS_HIGH && !(dl_ops[op].facts.flags & SAMPLES);
    return composite || dl_ops[op].class == DL_CLASS_TEMPLATE || dl_op_has_body(op);
}
