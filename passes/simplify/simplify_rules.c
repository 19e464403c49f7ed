/* The rules of simplify, one function for each op. Each returns a value that may replace the
 * node's result, or NULL.
 *
 * Rounding: a rule may change the last bit of a value (a mean becomes a product with 1/n; a sum of
 * n equal values their product with n), never more. x * 0 stays, because x may be NaN or
 * infinite. */
#include <math.h>

#include "ir/interp/interp.h"
#include "ir/relation.h"
#include "passes/simplify/simplify.h"

static dl_value *result(dl_node *n) { return &n->out[0]; }

/* v, where it can replace n's result without a change. */
static dl_value *same_typed(dl_node *n, dl_value *v) {
    const dl_type *t = &result(n)->type;
    return dl_type_same(&v->type, t) && dl_layout_same(v->type.layout, t->layout) ? v : NULL;
}

static bool is_const(const dl_value *v, double *k) {
    if (!dl_made_by(v, DL_OP_const)) return false;
    *k = dl_node_float(v->def, DL_ATTR_value);
    return true;
}

static bool equals(const dl_value *v, double k) {
    double c;
    return is_const(v, &c) && c == k;
}

static int64_t size_of(const dl_value *v, const char *axis) {
    return v->type.axis[dl_type_axis(&v->type, axis)].size;
}

static dl_value *build_slice(dl_simplifier *s, dl_value *v, const char *axis, int64_t start,
                             int64_t stop) {
    if (start == 0 && stop == size_of(v, axis)) return v;
    return dl_build_slice(&s->b, v, axis, start, stop);
}

/* ---- constants ---- */

/* Can the element type hold v? Then rounds *v to it. 16-bit floats are not folded. */
static bool round_to(dl_dtype type, double *v) {
    if (!isfinite(*v)) return false;
    switch (type) {
    case DL_F64: return true;
    case DL_F32: return *v = (float)*v, isfinite(*v);
    case DL_I32: return *v == floor(*v) && fabs(*v) <= INT32_MAX;
    case DL_I64: return *v == floor(*v) && fabs(*v) <= 0x1p53;
    case DL_BOOL: return *v == 0 || *v == 1;
    default: return false;
    }
}

static dl_value *fold(dl_simplifier *s, dl_node *n) {
    double k[3] = {0}, p = 0;
    for (int i = 0; i < n->nin; i++)
        if (!is_const(n->in[i], &k[i])) return NULL;
    for (int i = 0; i < n->nattrs; i++)
        if (dl_attrs[n->attrs[i].id].kind == DL_KIND_FLOAT) p = n->attrs[i].f;
    double v = dl_interp_scalar(n->op, k[0], k[1], k[2], p);
    dl_dtype type = result(n)->type.dtype;
    return round_to(type, &v) ? dl_build_const(&s->b, type, v) : NULL;
}

/* ---- broadcasts among the operands of a pointwise op ---- */

/* The type of n with other operands. */
static bool type_with(const dl_node *n, dl_value *const *in, dl_type *t) {
    const dl_type *types[3];
    dl_shape_fault fault;
    for (int i = 0; i < n->nin; i++) types[i] = &in[i]->type;
    if (!dl_infer_broadcast(types, n->nin, t, &fault)) return false;
    t->dtype = n->out[0].type.dtype;
    return true;
}

static dl_value *source(dl_value *v) { return dl_made_by(v, DL_OP_broadcast) ? v->def->in[0] : v; }

/* Removes broadcasts of operands that the other operands make redundant, in place. */
static void drop_broadcasts(dl_simplifier *s, dl_node *n) {
    for (int i = 0; i < n->nin; i++) {
        dl_value *in[3];
        memcpy(in, n->in, sizeof *in * (size_t)n->nin);
        in[i] = source(in[i]);
        if (in[i] == n->in[i]) continue;
        dl_type t;
        bool same = type_with(n, in, &t) && dl_type_same(&t, &result(n)->type);
        if (!same &&
            (n->op == DL_OP_add || n->op == DL_OP_mul)) { /* the axes may fit in the other order */
            dl_value *first = in[0];
            in[0] = in[1], in[1] = first;
            same = type_with(n, in, &t) && dl_type_same(&t, &result(n)->type);
        }
        if (!same) continue;
        memcpy(n->in, in, sizeof *in * (size_t)n->nin);
        s->changed = true;
        i = -1; /* the operands may have been swapped: start again */
    }
}

/* f(broadcast x, broadcast y, scalar) -> broadcast f(x, y, scalar): computes fewer elements. */
static dl_value *sink_broadcasts(dl_simplifier *s, dl_node *n) {
    dl_value *in[3];
    bool any = false;
    for (int i = 0; i < n->nin; i++) in[i] = source(n->in[i]), any = any || in[i] != n->in[i];
    dl_type t;
    if (!any || !type_with(n, in, &t) || dl_type_count(&t) >= dl_type_count(&result(n)->type))
        return NULL;
    dl_value *v = dl_build_as(&s->b, n->op, n->nin, in, n->nattrs, n->attrs, t);
    return dl_build_broadcast(&s->b, v, result(n)->type);
}

/* ---- pointwise ops ---- */
static dl_value *simplify_add(dl_simplifier *s, dl_node *n) {
    (void)s;
    if (equals(n->in[1], 0)) return same_typed(n, n->in[0]);
    if (equals(n->in[0], 0)) return same_typed(n, n->in[1]);
    return NULL;
}

static dl_value *simplify_sub(dl_simplifier *s, dl_node *n) {
    (void)s;
    return equals(n->in[1], 0) ? same_typed(n, n->in[0]) : NULL;
}

static dl_value *simplify_mul(dl_simplifier *s, dl_node *n) {
    (void)s;
    if (equals(n->in[1], 1)) return same_typed(n, n->in[0]);
    if (equals(n->in[0], 1)) return same_typed(n, n->in[1]);
    return NULL;
}

static dl_value *simplify_div(dl_simplifier *s, dl_node *n) {
    (void)s;
    return equals(n->in[1], 1) ? same_typed(n, n->in[0]) : NULL;
}

static dl_value *simplify_pow(dl_simplifier *s, dl_node *n) {
    if (equals(n->in[1], 1)) return same_typed(n, n->in[0]);
    if (equals(n->in[1], 2) && same_typed(n, n->in[0]))
        return dl_build2(&s->b, DL_OP_mul, n->in[0], n->in[0]);
    return NULL;
}

static dl_value *simplify_neg(dl_simplifier *s, dl_node *n) {
    (void)s;
    return dl_made_by(n->in[0], DL_OP_neg) ? same_typed(n, n->in[0]->def->in[0]) : NULL;
}

static dl_value *simplify_select(dl_simplifier *s, dl_node *n) {
    (void)s;
    double c;
    if (n->in[1] == n->in[2]) return same_typed(n, n->in[1]);
    return is_const(n->in[0], &c) ? same_typed(n, n->in[c != 0 ? 1 : 2]) : NULL;
}

/* Does a float of the second type hold each of the first? */
static bool widens(dl_dtype from, dl_dtype to) {
    return dl_dtype_is_float(from) && (to == DL_F64 || (to == DL_F32 && from != DL_F64));
}

/* A cast to a wider type and back, or on to a wider one, is one cast. */
static dl_value *simplify_cast(dl_simplifier *s, dl_node *n) {
    dl_value *v = same_typed(n, n->in[0]);
    if (v || !dl_made_by(n->in[0], DL_OP_cast)) return v;
    dl_value *before = n->in[0]->def->in[0];
    if (!widens(before->type.dtype, n->in[0]->type.dtype)) return NULL;
    v = same_typed(n, before);
    if (v || !dl_dtype_is_float(result(n)->type.dtype)) return v;
    return dl_build_cast(&s->b, before, result(n)->type.dtype);
}

static dl_value *simplify_relayout(dl_simplifier *s, dl_node *n) {
    dl_value *v = same_typed(n, n->in[0]);
    if (v || !dl_made_by(n->in[0], DL_OP_relayout)) return v;
    dl_value *before = n->in[0]->def->in[0];
    v = same_typed(n, before);
    return v ? v : dl_build_as(&s->b, DL_OP_relayout, 1, &before, 0, NULL, result(n)->type);
}

static dl_value *simplify_rename(dl_simplifier *s, dl_node *n) {
    dl_value *v = dl_simplify_order(s, n);
    return v ? v : dl_simplify_rename(s, n);
}

/* ---- reductions ---- */

/* Splits `over` for a broadcast operand: *kept has the axes that its source has; returns how many
 * equal elements the others span. */
static int64_t split_over(const dl_node *n, const dl_value *from, dl_attr *kept) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    int64_t alike = 1;
    *kept = (dl_attr){.id = DL_ATTR_over};
    for (int i = 0; i < over->n; i++) {
        const char *axis = over->names[i];
        if (dl_type_axis(&from->type, axis) >= 0)
            kept->names[kept->n++] = axis;
        else
            alike *= size_of(n->in[0], axis);
    }
    return alike;
}

static dl_value *simplify_reduce(dl_simplifier *s, dl_node *n) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    if (over->n == 0) return same_typed(n, n->in[0]);
    if (!dl_made_by(n->in[0], DL_OP_broadcast)) return NULL;
    dl_attr kept;
    dl_value *v = source(n->in[0]);
    int64_t alike = split_over(n, v, &kept);
    /* The maximum of no elements and inf * 0 must not change, and a mere transposition saves
     * nothing. */
    if (alike == 0 || kept.n == over->n) return NULL;
    if (kept.n) v = dl_build(&s->b, n->op, 1, &v, 1, &kept);
    if (n->op == DL_OP_sum) v = dl_build_k(&s->b, DL_OP_mul, v, (double)alike);
    return dl_build_broadcast(&s->b, v, result(n)->type);
}

/* mean -> sum * 1/n, so that later passes handle one additive reduction. */
static dl_value *simplify_mean(dl_simplifier *s, dl_node *n) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    int64_t count = 1;
    for (int i = 0; i < n->in[0]->type.rank; i++)
        for (int k = 0; k < over->n; k++)
            if (over->names[k] == n->in[0]->type.axis[i].name) count *= n->in[0]->type.axis[i].size;
    dl_value *sum = dl_build(&s->b, DL_OP_sum, 1, n->in, 1, over);
    if (count == 0) return dl_build_k(&s->b, DL_OP_div, sum, 0); /* 0 / 0 */
    return dl_build_k(&s->b, DL_OP_mul, sum, 1 / (double)count);
}

/* ---- moves ---- */
static dl_value *simplify_broadcast(dl_simplifier *s, dl_node *n) {
    dl_value *v = dl_simplify_order(s, n);
    return v || source(n->in[0]) == n->in[0]
               ? v
               : dl_build_broadcast(&s->b, source(n->in[0]), result(n)->type);
}

/* The part that a slice is of. Of shares without elements it could be any: then a collective that
 * another part needs would be dead on this rank alone. */
static dl_value *slice_of_cat(dl_simplifier *s, dl_node *cat, const char *axis, int64_t start,
                              int64_t stop) {
    if (s->ranks || dl_node_name(cat, DL_ATTR_axis) != axis) return NULL;
    for (int i = 0; i < cat->nin; i++) {
        int64_t size = size_of(cat->in[i], axis);
        if (start >= 0 && stop <= size) return build_slice(s, cat->in[i], axis, start, stop);
        start -= size, stop -= size;
    }
    return NULL;
}

static dl_value *slice_of_pad(dl_simplifier *s, dl_node *pad, const char *axis, int64_t start,
                              int64_t stop) {
    if (dl_node_name(pad, DL_ATTR_axis) != axis) return NULL;
    int64_t lo = dl_node_attr(pad, DL_ATTR_pad_lo)->ints[0];
    bool inside = start >= lo && stop <= lo + size_of(pad->in[0], axis);
    return inside ? build_slice(s, pad->in[0], axis, start - lo, stop - lo) : NULL;
}

static dl_value *slice_of_slice(dl_simplifier *s, dl_node *inner, const char *axis, int64_t start,
                                int64_t stop) {
    if (dl_node_name(inner, DL_ATTR_axis) != axis) return NULL;
    int64_t at = dl_node_int(inner, DL_ATTR_start);
    return build_slice(s, inner->in[0], axis, at + start, at + stop);
}

static dl_value *slice_of_broadcast(dl_simplifier *s, dl_node *b, const char *axis, int64_t start,
                                    int64_t stop) {
    dl_type t = b->out[0].type;
    t.axis[dl_type_axis(&t, axis)].size = stop - start;
    dl_value *v = b->in[0];
    if (dl_type_axis(&v->type, axis) >= 0) v = build_slice(s, v, axis, start, stop);
    return dl_build_broadcast(&s->b, v, t);
}

/* Are all readers of v slices along `axis`, which together read no more than v has? Then each may
 * compute its own part. */
static bool is_only_sliced(const dl_simplifier *s, const dl_value *v, const char *axis) {
    if (v->id >= s->known || s->uses[v->id].results) return false;
    const dl_uses *u = &s->uses[v->id];
    int64_t taken = 0;
    for (int i = 0; i < u->n; i++) {
        const dl_node *r = u->readers[i];
        if (r->op != DL_OP_slice || dl_node_name(r, DL_ATTR_axis) != axis) return false;
        taken += r->out[0].type.axis[dl_type_axis(&r->out[0].type, axis)].size;
    }
    return taken <= size_of(v, axis);
}

/* Output channels of a convolution are rows of its weight: slices the weight instead of the
 * result. */
static dl_value *slice_of_conv(dl_simplifier *s, dl_node *conv, const char *axis, int64_t start,
                               int64_t stop) {
    const char *rows = conv->in[1]->type.axis[0].name;
    if (dl_node_windows(conv).groups > 1) return NULL; /* a slice may begin within a group */
    bool channels = axis == conv->out[0].type.axis[1].name;
    if (!channels || !*rows || start == stop || !is_only_sliced(s, &conv->out[0], axis))
        return NULL;
    dl_value *in[] = {conv->in[0], build_slice(s, conv->in[1], rows, start, stop)};
    return dl_build(&s->b, conv->op, 2, in, conv->nattrs, conv->attrs);
}

typedef dl_value *slice_rule(dl_simplifier *s, dl_node *of, const char *axis, int64_t start,
                             int64_t stop);
static slice_rule *const slice_rules[DL_NOPS] = {
    [DL_OP_cat] = slice_of_cat,
    [DL_OP_slice] = slice_of_slice,
    [DL_OP_pad] = slice_of_pad,
    [DL_OP_conv] = slice_of_conv,
    [DL_OP_broadcast] = slice_of_broadcast,
};

static dl_value *simplify_slice(dl_simplifier *s, dl_node *n) {
    dl_value *v = same_typed(n, n->in[0]);
    dl_node *of = n->in[0]->def;
    if (v || !of || !slice_rules[of->op]) return v;
    return slice_rules[of->op](s, of, dl_node_name(n, DL_ATTR_axis), dl_node_int(n, DL_ATTR_start),
                               dl_node_int(n, DL_ATTR_stop));
}

static dl_value *simplify_pad(dl_simplifier *s, dl_node *n) {
    (void)s;
    return same_typed(n, n->in[0]);
}

static dl_value *simplify_cat(dl_simplifier *s, dl_node *n) {
    (void)s;
    return n->nin == 1 ? same_typed(n, n->in[0]) : NULL;
}

/* squeeze and unsqueeze keep elements and their order: a pair that restores the type is removed. */
static dl_value *simplify_reshaping(dl_simplifier *s, dl_node *n) {
    (void)s;
    dl_op inverse = n->op == DL_OP_squeeze ? DL_OP_unsqueeze : DL_OP_squeeze;
    return dl_made_by(n->in[0], inverse) ? same_typed(n, n->in[0]->def->in[0]) : NULL;
}

typedef dl_value *rule(dl_simplifier *s, dl_node *n);
static rule *const rules[DL_NOPS] = {
    [DL_OP_add] = simplify_add,
    [DL_OP_sub] = simplify_sub,
    [DL_OP_mul] = simplify_mul,
    [DL_OP_div] = simplify_div,
    [DL_OP_pow] = simplify_pow,
    [DL_OP_neg] = simplify_neg,
    [DL_OP_select] = simplify_select,
    [DL_OP_cast] = simplify_cast,
    [DL_OP_rename] = simplify_rename,
    [DL_OP_relayout] = simplify_relayout,
    [DL_OP_sum] = simplify_reduce,
    [DL_OP_reduce_max] = simplify_reduce,
    [DL_OP_reduce_min] = simplify_reduce,
    [DL_OP_first_max] = simplify_reduce,
    [DL_OP_mean] = simplify_mean,
    [DL_OP_broadcast] = simplify_broadcast,
    [DL_OP_slice] = simplify_slice,
    [DL_OP_pad] = simplify_pad,
    [DL_OP_cat] = simplify_cat,
    [DL_OP_squeeze] = simplify_reshaping,
    [DL_OP_unsqueeze] = simplify_reshaping,
};

dl_value *dl_simplify_node(dl_simplifier *s, dl_node *n) {
    /* After the layout pass, types have layouts that these rules do not look at: only relayouts
     * are simplified. */
    if (result(n)->type.layout.kind != DL_ROW && n->op != DL_OP_relayout) return NULL;
    bool pointwise = dl_ops[n->op].class == DL_CLASS_ELEM;
    if (pointwise) drop_broadcasts(s, n);
    /* Rules before folding: then 1 * k is k itself, not k rounded to the element type. */
    dl_value *v = rules[n->op] ? rules[n->op](s, n) : NULL;
    /* Arithmetic drops axes without a name. */
    if (v && v->type.layout.kind == DL_ROW) v = dl_build_broadcast(&s->b, v, result(n)->type);
    if (!v && pointwise) v = fold(s, n);
    if (!v && pointwise) v = sink_broadcasts(s, n);
    return v;
}
