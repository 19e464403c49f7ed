/* Shape rules of attention, as a composite and as templates; its shape for all other folders. */
#include <math.h>

#include "ir/attention.h"
#include "ir/base/philox.h"
#include "ir/collective.h"
#include "ir/infer_rules.h"

/* Checks that operand i has type `want`; `what` describes it in messages. */
static bool want_type(const dl_node *n, int i, const dl_type *want, const char *what,
                      dl_shape_fault *fault) {
    return dl_type_same(dl_operand(n, i), want) ||
           dl_fault(fault, i, "axis_mismatch", "%s expects %s %s as %s, but it is %s",
                    dl_op_text(n), what, dl_type_text(want), dl_operand_text(i),
                    dl_type_text(dl_operand(n, i)));
}

/* q [N, T, E]; k and v [N, S, E], with one element type; heads divide E. */
static bool check_shapes(const dl_node *n, dl_shape_fault *fault) {
    const dl_type *q = dl_operand(n, 0), *k = dl_operand(n, 1), *v = dl_operand(n, 2);
    int64_t heads = dl_node_int(n, DL_ATTR_heads);
    if (!dl_want_float(n, 0, fault) || !dl_want_rate(n, fault)) return false;
    if (!dl_want_rank(n, 0, 3, "queries [N, T, E]", fault) ||
        !dl_want_rank(n, 1, 3, "keys [N, S, E]", fault) ||
        !dl_want_rank(n, 2, 3, "values [N, S, E]", fault))
        return false;
    if (!dl_type_same(k, v))
        return dl_fault(fault, 2, "axis_mismatch",
                        "%s expects keys and values of one type, but has %s and %s (%s)",
                        dl_op_text(n), dl_type_text(k), dl_type_text(v), dl_operand_text(2));
    dl_type like = dl_row_type(q);
    like.axis[1] = k->axis[1];
    /* In a model's text one name has one size; in a template the queries may be a shard of the
     * tokens. */
    bool torn = n->op == DL_OP_attention && k->axis[1].name == q->axis[1].name &&
                k->axis[1].size != q->axis[1].size;
    if (!dl_type_same(k, &like) || torn)
        return dl_fault(
            fault, 1, "axis_mismatch",
            "%s expects keys that differ from the queries' %s in their second axis alone, but "
            "they are %s",
            dl_op_text(n), dl_type_text(q), dl_type_text(k));
    if (k->axis[1].size < 1)
        return dl_fault(fault, 1, "bad_range", "%s needs a key to look at, but the keys are %s",
                        dl_op_text(n), dl_type_text(k));
    if (heads < 1 || q->axis[2].size % heads)
        return dl_fault(fault, 0, "bad_range",
                        "%s splits %s=%lld into %lld heads, which leaves a rest", dl_op_text(n),
                        q->axis[2].name, (long long)q->axis[2].size, (long long)heads),
               dl_fault_help(fault, "take a number of heads that divides %lld",
                             (long long)q->axis[2].size);
    return dl_want_switch(n, DL_ATTR_causal, fault);
}

static bool want_same_dtypes(const dl_node *n, int count, dl_shape_fault *fault) {
    dl_node some = *n;
    if (some.nin > count) some.nin = count;
    return dl_want_same_dtype(&some, fault);
}

/* How many of the operands from `first` on are addends: draws are scalars. */
static int count_addends(const dl_node *n, int first) {
    int count = 0;
    while (first + count < n->nin && dl_operand(n, first + count)->rank > 0) count++;
    return count;
}

/* The addends from operand `first` on. `logic`: masks of bools are among them. */
static bool check_addends(const dl_node *n, int first, bool logic, dl_shape_fault *fault) {
    const dl_type *q = dl_operand(n, 0), *k = dl_operand(n, 1);
    const int64_t own[] = {q->axis[0].size, dl_node_int(n, DL_ATTR_heads), q->axis[1].size,
                           k->axis[1].size};
    int count = count_addends(n, first);
    if (count > DL_ATT_ADDENDS)
        return dl_fault(fault, first + DL_ATT_ADDENDS, "wrong_arity", "%s takes %d addends at most",
                        dl_op_text(n), (int)DL_ATT_ADDENDS);
    for (int i = first; i < first + count; i++) {
        const dl_type *t = dl_operand(n, i);
        if (!(logic && t->dtype == DL_BOOL) && !dl_want_float(n, i, fault)) return false;
        if (!dl_want_rank(n, i, 4, "addends [N, head, T, S]", fault)) return false;
        for (int j = 0; j < 4; j++)
            if (t->axis[j].size != own[j] && (j == 3 || t->axis[j].size != 1))
                return dl_fault(fault, i, "axis_mismatch",
                                "%s expects an addend of %lld samples, %lld heads, %lld queries "
                                "and %lld keys, but %s is %s",
                                dl_op_text(n), (long long)own[0], (long long)own[1],
                                (long long)own[2], (long long)own[3], dl_operand_text(i),
                                dl_type_text(t));
    }
    return true;
}

bool dl_rule_attention(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (n->nin < DL_ATT_FIXED)
        return dl_fault(fault, -1, "wrong_arity", "%s takes queries, keys and values",
                        dl_op_text(n));
    *r = dl_row_type(dl_operand(n, 0));
    return want_same_dtypes(n, DL_ATT_FIXED, fault) && check_shapes(n, fault) &&
           check_addends(n, DL_ATT_FIXED, true, fault) &&
           (DL_ATT_FIXED + count_addends(n, DL_ATT_FIXED) == n->nin ||
            dl_fault(fault, -1, "wrong_arity", "%s takes masks and biases after the values",
                     dl_op_text(n)));
}

/* Seed, step and part, from operand `first` on: they exist exactly with dropout. */
static bool check_draws(const dl_node *n, int first, dl_shape_fault *fault) {
    const dl_type counter = dl_scalar(DL_I64);
    bool drops = dl_node_float(n, DL_ATTR_rate) > 0;
    int64_t number = dl_node_int(n, DL_ATTR_number);
    int want = drops ? first + 2 : first;
    if (n->nin != want && !(drops && n->nin == want + 1))
        return dl_fault(fault, -1, "wrong_arity", "%s %s takes %d operands%s, not %d",
                        dl_op_text(n), drops ? "with dropout" : "without dropout", want,
                        drops ? ", or a part after them" : "", n->nin);
    if (number < 0 || number >= DL_RANDOM_NUMBERS)
        return dl_fault(fault, -1, "bad_range", "random op %lld", (long long)number);
    return !drops || (want_type(n, first, &counter, "the seed", fault) &&
                      want_type(n, first + 1, &counter, "the step", fault) &&
                      (n->nin == want || want_type(n, first + 2, &counter, "the part", fault)));
}

/* Keys that travel round a ring: the attributes of the group. A shard's keys begin at the first
 * key. */
static bool check_ring(const dl_node *n, const dl_attr *whole, dl_shape_fault *fault) {
    const dl_attr *group = dl_node_attr(n, DL_ATTR_group), *ranks = dl_node_attr(n, DL_ATTR_ranks),
                  *rank = dl_node_attr(n, DL_ATTR_rank);
    if (!group && !ranks && !rank) return true;
    if (!group || !ranks || !rank || !whole)
        return dl_fault(fault, -1, "bad_attribute",
                        "%s round a ring wants `group`, `ranks`, `rank`, `first` and `whole`",
                        dl_op_text(n));
    if (ranks->i < 1 || ranks->i > INT32_MAX || rank->i < 0 || rank->i >= ranks->i)
        return dl_fault(fault, -1, "bad_range", "%s has no rank %lld of %lld", dl_op_text(n),
                        (long long)rank->i, (long long)ranks->i);
    int64_t own = dl_ring_share(whole->ints[DL_ATT_KEY], ranks->i, rank->i, 0).n,
            size = dl_operand(n, 1)->axis[1].size;
    return own == size ||
           dl_fault(fault, 1, "axis_mismatch",
                    "%s: of %lld keys rank %lld of %lld has %lld, not %lld", dl_op_text(n),
                    (long long)whole->ints[DL_ATT_KEY], (long long)rank->i, (long long)ranks->i,
                    (long long)own, (long long)size);
}

/* The attributes of a shard of a larger attention. */
static bool check_part(const dl_node *n, dl_shape_fault *fault) {
    const dl_attr *first = dl_node_attr(n, DL_ATTR_first), *whole = dl_node_attr(n, DL_ATTR_whole);
    static const char *const what[] = {"heads", "queries", "keys"};
    const int64_t own[DL_ATT_CUTS] = {dl_node_int(n, DL_ATTR_heads), dl_operand(n, 0)->axis[1].size,
                                      dl_operand(n, 1)->axis[1].size};
    if (!first && !whole) return check_ring(n, NULL, fault);
    if (!first || !whole || first->n != DL_ATT_CUTS || whole->n != DL_ATT_CUTS)
        return dl_fault(fault, -1, "bad_attribute",
                        "%s of a part wants `first` and `whole`, each of heads, queries and keys",
                        dl_op_text(n));
    for (int i = 0; i < DL_ATT_CUTS; i++)
        if (first->ints[i] < 0 || whole->ints[i] > INT32_MAX ||
            first->ints[i] > whole->ints[i] - own[i])
            return dl_fault(fault, -1, "bad_range", "%s has %lld %s from %lld on of %lld",
                            dl_op_text(n), (long long)own[i], what[i], (long long)first->ints[i],
                            (long long)whole->ints[i]);
    if (!check_ring(n, whole, fault)) return false;
    return !dl_node_int(n, DL_ATTR_causal) || dl_attention_goes_round(n) ||
           first->ints[DL_ATT_QUERY] >= first->ints[DL_ATT_KEY] ||
           dl_fault(fault, -1, "bad_range", "%s, causal, has queries in front of all its keys",
                    dl_op_text(n));
}

/* The type of the logarithms: one for each query and head, f32 at least, because scores are used
 * by their distance from it. */
static dl_type log_type(const dl_node *n) {
    const dl_type *q = dl_operand(n, 0);
    dl_type t = dl_row_type(q);
    if (t.dtype != DL_F64) t.dtype = DL_F32;
    const char *head = dl_intern("head");
    while (dl_type_axis(q, head) >= 0) head = dl_internf("%s_", head);
    t.axis[2] = q->axis[1];
    t.axis[1] = (dl_axis){head, dl_node_int(n, DL_ATTR_heads)};
    return t;
}

/* The templates' addends have the type of their logarithms, f32 at least. */
static bool check_tail(const dl_node *n, int first, dl_shape_fault *fault) {
    if (!check_addends(n, first, false, fault)) return false;
    const dl_dtype want = log_type(n).dtype;
    int seed = first + count_addends(n, first);
    for (int i = first; i < seed; i++)
        if (dl_operand(n, i)->dtype != want)
            return dl_fault(fault, i, "type_mismatch", "%s expects addends in %s, but %s is %s",
                            dl_op_text(n), dl_dtype_name(want), dl_operand_text(i),
                            dl_type_text(dl_operand(n, i)));
    return check_part(n, fault) && check_draws(n, seed, fault);
}

bool dl_rule_flash_attention(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (n->nin < DL_ATT_FIXED)
        return dl_fault(fault, -1, "wrong_arity", "%s takes queries, keys and values",
                        dl_op_text(n));
    if (!want_same_dtypes(n, DL_ATT_FIXED, fault) || !check_shapes(n, fault) ||
        !check_tail(n, DL_ATT_FIXED, fault))
        return false;
    r[DL_ATT_Y] = dl_row_type(dl_operand(n, DL_ATT_Q));
    r[DL_ATT_LOG] = log_type(n);
    return true;
}

/* The operands of either backward half. */
static bool check_backward(const dl_node *n, dl_shape_fault *fault) {
    if (n->nin < DL_GRAD_FIXED)
        return dl_fault(fault, -1, "wrong_arity", "%s takes q, k, v, y, the logarithms and dy",
                        dl_op_text(n));
    if (!want_same_dtypes(n, DL_GRAD_Y, fault) || !check_shapes(n, fault) ||
        !check_tail(n, DL_GRAD_FIXED, fault))
        return false;
    const dl_type y = dl_row_type(dl_operand(n, DL_GRAD_Q)), log = log_type(n);
    return want_type(n, DL_GRAD_Y, &y, "the result", fault) &&
           want_type(n, DL_GRAD_LOG, &log, "logarithms", fault) &&
           want_type(n, DL_GRAD_DY, &y, "the result's gradient", fault);
}

bool dl_rule_flash_attention_bias_grad(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (!check_backward(n, fault)) return false;
    int64_t k = dl_node_int(n, DL_ATTR_k);
    if (k < 0 || k >= count_addends(n, DL_GRAD_FIXED))
        return dl_fault(fault, -1, "bad_range", "%s has no addend %lld", dl_op_text(n),
                        (long long)k);
    *r = dl_row_type(dl_operand(n, DL_GRAD_FIXED + (int)k));
    r->axis[2].size = dl_operand(n, DL_GRAD_Q)->axis[1].size;
    return true;
}

bool dl_rule_flash_attention_grad(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (!check_backward(n, fault)) return false;
    for (int i = 0; i < 3; i++) r[i] = dl_row_type(dl_operand(n, i));
    return true;
}

dl_attention dl_attention_of(const dl_node *n) {
    const dl_type *q = &n->in[DL_ATT_Q]->type, *k = &n->in[DL_ATT_K]->type;
    dl_attention a = {.batch = q->axis[0].size,
                      .queries = q->axis[1].size,
                      .keys = k->axis[1].size,
                      .heads = dl_node_int(n, DL_ATTR_heads),
                      .rate = dl_node_float(n, DL_ATTR_rate),
                      .number = (int)dl_node_int(n, DL_ATTR_number),
                      .causal = dl_node_int(n, DL_ATTR_causal)};
    a.addend = n->op == DL_OP_flash_attention ? (int)DL_ATT_FIXED : (int)DL_GRAD_FIXED;
    a.addends = count_addends(n, a.addend), a.seed = a.addend + a.addends;
    for (int i = 0; i < a.addends; i++) {
        const dl_axis *own = n->in[a.addend + i]->type.axis;
        int64_t query = own[3].size, head = query * own[2].size, sample = head * own[1].size;
        a.stride[i].query = own[2].size == 1 ? 0 : query;
        a.stride[i].head = own[1].size == 1 ? 0 : head;
        a.stride[i].sample = own[0].size == 1 ? 0 : sample;
    }
    a.in_parts = n->nin > a.seed + 2;
    const dl_attr *first = dl_node_attr(n, DL_ATTR_first), *whole = dl_node_attr(n, DL_ATTR_whole);
    const int64_t own[DL_ATT_CUTS] = {a.heads, a.queries, a.keys};
    for (int i = 0; i < DL_ATT_CUTS; i++)
        a.first[i] = first ? first->ints[i] : 0, a.whole[i] = whole ? whole->ints[i] : own[i];
    a.size = q->axis[2].size / a.heads;
    a.scale = 1 / sqrt((double)(a.size ? a.size : 1));
    a.threshold = ceil(a.rate * 0x1p24) * 0x1p-24;
    a.kept = a.rate < 1 ? 1 / (1 - a.rate) : 0;
    return a;
}

int64_t dl_attention_flops(const dl_node *n) {
    dl_attention a = dl_attention_of(n);
    int64_t products = n->op == DL_OP_flash_attention_grad ? 5 : 2, flops = 2 * products;
    const int64_t sizes[] = {a.batch, a.heads, a.queries, a.keys, a.size};
    for (int i = 0; i < 5; i++)
        if (__builtin_mul_overflow(flops, sizes[i], &flops)) return INT64_MAX;
    return flops;
}
