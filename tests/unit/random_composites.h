/* Makers of random nodes, the rest of random_nodes.h: products by names, moves that regroup
 * elements, and composites. */
#ifndef DL_RANDOM_COMPOSITES_H
#define DL_RANDOM_COMPOSITES_H
#include <stdio.h>

#include "ir/fourier.h"
#include "tests/unit/random_windows.h"

/* A value of this type: one that is there, or a new one. */
static inline dl_value *random_like(random_maker *g, const dl_type *t) {
    for (int i = 0; i < g->n; i++)
        if (dl_type_same(&g->pool[i]->type, t) && one_in(&g->r, 2)) return g->pool[i];
    return random_var(g, *t);
}
/* A learned vector along an axis of x. */
static inline dl_value *random_vector(random_maker *g, const dl_value *x, int at) {
    dl_type t = dl_scalar(g->real);
    t.axis[t.rank++] = x->type.axis[at];
    return random_like(g, &t);
}
static inline bool all_named(const dl_type *t) {
    for (int i = 0; i < t->rank; i++)
        if (!*t->axis[i].name) return false;
    return true;
}

/* ---- products by names ---- */
/* The second operand has some of the first one's axes and some others; of those that both have,
 * some are summed over, in any order. */
static inline dl_value *random_rule_contract(random_maker *g, dl_op op) {
    dl_value *x = random_with_axes(g), *y = random_pick(g, real_axes);
    if (!y || !all_named(&y->type) || !random_joins(g, &x->type, &y->type) || one_in(&g->r, 2)) {
        dl_type t = dl_scalar(g->real);
        for (int i = 0; i < x->type.rank; i++)
            if (one_in(&g->r, 2)) t.axis[t.rank++] = x->type.axis[i];
        for (int i = below(&g->r, 3); i; i--) {
            const char *name = dl_internf("J%d", i);
            if (dl_type_axis(&x->type, name) < 0) dl_type_push(&t, name, random_size(g));
        }
        random_shuffle(g, &t);
        if (!random_joins(g, &x->type, &t)) return NULL;
        y = random_like(g, &t);
    }
    if (!all_named(&x->type)) return NULL;
    const char *over[DL_MAX_RANK];
    int n = 0;
    for (int i = 0; i < y->type.rank; i++)
        if (dl_type_axis(&x->type, y->type.axis[i].name) >= 0 && !one_in(&g->r, 3))
            over[n++] = y->type.axis[i].name;
    dl_attr attr = dl_attr_names(DL_ATTR_over, n, over);
    dl_value *in[] = {x, y};
    if (one_in(&g->r, 2)) in[0] = y, in[1] = x;
    return random_node(g, op, 2, in, 1, &attr, NULL);
}
static inline dl_value *random_rule_linear(random_maker *g, dl_op op) {
    dl_value *x = random_with_axes(g);
    int at = one_in(&g->r, 3) ? random_axis(g, x) : x->type.rank - 1;
    if (at < 0) return NULL;
    bool by_name = at < x->type.rank - 1;
    dl_type t = dl_scalar(g->real);
    const char *in = by_name ? x->type.axis[at].name : dl_intern("I"), *out = dl_intern("O");
    dl_type_push(&t, in == out ? dl_intern("I") : out, random_size(g));
    dl_type_push(&t, in, x->type.axis[at].size);
    if (dl_type_count(&x->type) / t.axis[1].size * t.axis[0].size > g->largest) return NULL;
    return random_2(g, op, x, random_like(g, &t));
}

/* ---- the same elements, regrouped ---- */
/* Neighbours made one axis, or one axis made two. */
static inline dl_value *random_rule_reshape(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, has_axes);
    if (!x) return NULL;
    dl_type t = x->type;
    int at = below(&g->r, t.rank);
    if (one_in(&g->r, 2) && at + 1 < t.rank) {
        t.axis[at] =
            (dl_axis){dl_internf("S%d", below(&g->r, 3)), t.axis[at].size * t.axis[at + 1].size};
        for (int i = at + 1; i + 1 < t.rank; i++) t.axis[i] = t.axis[i + 1];
        t.rank--;
    } else {
        int64_t size = t.axis[at].size, part = 1 + below(&g->r, 8);
        while (size % part) part--;
        if (t.rank > 4) return NULL;
        for (int i = t.rank++; i > at; i--) t.axis[i] = t.axis[i - 1];
        t.axis[at] = (dl_axis){dl_internf("S%d", below(&g->r, 3)), size / part};
        t.axis[at + 1] = (dl_axis){dl_internf("S%d", 3 + below(&g->r, 3)), part};
    }
    for (int i = 0; i < t.rank; i++)
        for (int k = 0; k < i; k++)
            if (*t.axis[i].name && t.axis[i].name == t.axis[k].name) return NULL;
    return random_node(g, op, 1, &x, 0, NULL, &t);
}
static inline dl_value *random_rule_same(random_maker *g, dl_op op) {
    return random_1(g, op, random_real(g));
}
/* "a (b0=2 b1=3) c -> c (a b1) b0", as the front end writes it. */
static inline dl_value *random_rule_given(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, has_axes);
    if (op != DL_OP_rearrange || !x || !all_named(&x->type)) return NULL;
    char left[200] = "", right[200] = "", name[DL_MAX_RANK][16];
    int64_t size[DL_MAX_RANK];
    int atoms = 0;
    for (int i = 0; i < x->type.rank; i++) {
        int64_t whole = x->type.axis[i].size, part = 2 + below(&g->r, 3);
        bool splits = whole % part == 0 && atoms + x->type.rank - i < 5 && one_in(&g->r, 2);
        size_t end = strlen(left);
        snprintf(name[atoms], sizeof name[0], "a%d", atoms),
            size[atoms] = splits ? whole / part : whole;
        if (splits) {
            snprintf(left + end, sizeof left - end, "(%s=%d a%d=%d) ", name[atoms],
                     (int)size[atoms], atoms + 1, (int)part);
            atoms++;
            snprintf(name[atoms], sizeof name[0], "a%d", atoms), size[atoms] = part;
        } else {
            snprintf(left + end, sizeof left - end, "%s ", name[atoms]);
        }
        atoms++;
    }
    int order[DL_MAX_RANK] = {0};
    for (int i = 0; i < atoms; i++) {
        int j = below(&g->r, i + 1);
        order[i] = order[j], order[j] = i;
    }
    dl_type t = dl_scalar(x->type.dtype);
    for (int i = 0; i < atoms;) {
        int joined = one_in(&g->r, 3) && i + 1 < atoms ? 2 : 1;
        size_t end = strlen(right);
        snprintf(right + end, sizeof right - end, joined == 2 ? " (%s %s)" : " %s", name[order[i]],
                 name[order[i + joined - 1]]);
        int64_t n = size[order[i]] * (joined == 2 ? size[order[i + 1]] : 1);
        dl_type_push(&t, dl_internf("Q%d", t.rank), n);
        i += joined;
    }
    dl_attr pattern = dl_attr_name(DL_ATTR_pattern, dl_internf("%s->%s", left, right));
    return random_node(g, op, 1, &x, 1, &pattern, &t);
}

/* ---- norms ---- */
static inline dl_value *random_rule_softmax(random_maker *g, dl_op op) {
    dl_value *x = random_with_axes(g);
    int at = random_axis(g, x);
    if (at < 0) return NULL;
    dl_attr axis = dl_attr_name(DL_ATTR_axis, x->type.axis[at].name);
    return random_node(g, op, 1, &x, 1, &axis, NULL);
}
/* A large eps: of few or equal elements the spread is about its root, and what is divided by it
 * stays within sight of rounding. */
static inline dl_value *random_rule_layer_norm(random_maker *g, dl_op op) {
    dl_value *x = random_with_axes(g);
    int last = x->type.rank - 1;
    dl_value *in[] = {x, random_vector(g, x, last), random_vector(g, x, last)};
    dl_attr eps = dl_attr_float(DL_ATTR_eps, 0.1);
    return random_node(g, op, 3, in, 1, &eps, NULL);
}
static inline dl_value *random_rule_batch_mean(random_maker *g, dl_op op) {
    dl_attr correction = dl_attr_int(DL_ATTR_correction, below(&g->r, 3));
    return random_reduction(g, op, random_with_axes(g), &correction);
}
static inline dl_value *random_rule_batch_norm(random_maker *g, dl_op op) {
    dl_value *x = random_image(g), *in[5] = {x};
    for (int i = 1; i < 5; i++) in[i] = random_vector(g, x, 1);
    bool training = !one_in(&g->r, 3);
    if (!training) in[4] = random_2(g, DL_OP_mul, in[4], in[4]); /* no variance is below 0 */
    dl_attr attrs[] = {dl_attr_float(DL_ATTR_eps, 0.1), dl_attr_float(DL_ATTR_momentum, 0.9),
                       dl_attr_int(DL_ATTR_training, training)};
    return random_node(g, op, 5, in, 3, attrs, NULL);
}

/* ---- what is drawn ---- */
static const double random_rates[] = {0, 0.1, 0.25, 0.5, 0.75, 1};
static inline dl_value *random_rule_dropout(random_maker *g, dl_op op) {
    dl_value *x = random_real(g);
    dl_attr rate = dl_attr_float(DL_ATTR_rate, random_rates[below(&g->r, 6)]);
    return random_node(g, op, 1, &x, 1, &rate, NULL);
}

static inline dl_value *random_rule_rand(random_maker *g, dl_op op) {
    dl_value *x = random_real(g);
    dl_attr training = dl_attr_int(DL_ATTR_training, 1);
    return random_node(g, op, 1, &x, 1, &training, NULL);
}

/* ---- attention, classes ---- */
static inline bool is_tokens(const random_maker *g, const dl_type *t) {
    return is_real(g, t) && t->rank == 3;
}
static inline dl_value *random_rule_attention(random_maker *g, dl_op op) {
    dl_value *q = random_pick(g, is_tokens);
    if (!q || one_in(&g->r, 4)) {
        dl_type t = dl_scalar(g->real);
        dl_type_push(&t, dl_intern("N"), 1 + below(&g->r, 3));
        dl_type_push(&t, dl_intern("T"), random_size(g));
        dl_type_push(&t, dl_intern("E"), random_size(g));
        q = random_var(g, t);
    }
    int64_t e = q->type.axis[2].size, heads = 1 + below(&g->r, 4), tokens = q->type.axis[1].size;
    while (e % heads) heads--;
    dl_type keys = q->type;
    if (one_in(&g->r, 3)) keys.axis[1] = (dl_axis){dl_intern("S"), random_size(g)};
    if (q->type.axis[0].size * heads * tokens * keys.axis[1].size > g->largest) return NULL;
    dl_value *in[] = {q,
                      one_in(&g->r, 3) && dl_type_same(&keys, &q->type) ? q : random_like(g, &keys),
                      random_like(g, &keys), NULL};
    bool biased = one_in(&g->r, 3);
    if (biased) { /* some axes are shared */
        dl_type t = dl_scalar(g->real);
        dl_type_push(&t, dl_intern("Vn"), one_in(&g->r, 2) ? 1 : q->type.axis[0].size);
        dl_type_push(&t, dl_intern("Vh"), one_in(&g->r, 2) ? 1 : heads);
        dl_type_push(&t, dl_intern("Vt"), one_in(&g->r, 2) ? 1 : tokens);
        dl_type_push(&t, dl_intern("Vs"), keys.axis[1].size);
        in[3] = random_like(g, &t);
    }
    dl_attr attrs[] = {
        dl_attr_float(DL_ATTR_rate, one_in(&g->r, 2) ? 0 : random_rates[below(&g->r, 5)]),
        dl_attr_int(DL_ATTR_heads, heads), dl_attr_int(DL_ATTR_causal, below(&g->r, 2))};
    return random_node(g, op, 3 + biased, in, one_in(&g->r, 2) ? 2 : 3, attrs, NULL);
}
static inline bool is_rows(const random_maker *g, const dl_type *t) {
    return is_real(g, t) && t->rank == 2;
}
/* Scores and, in in[1], a class for each row; now and then one that no score has. */
static inline bool random_scores(random_maker *g, dl_value *in[2]) {
    in[0] = random_pick(g, is_rows);
    if (!in[0] || one_in(&g->r, 4)) {
        dl_type t = dl_scalar(g->real);
        dl_type_push(&t, dl_intern("N"), random_size(g)),
            dl_type_push(&t, dl_intern("C"), random_size(g));
        if (dl_type_count(&t) > g->largest) return false;
        in[0] = random_var(g, t);
    }
    dl_type t = dl_scalar(one_in(&g->r, 2) ? DL_I32 : DL_I64);
    t.axis[t.rank++] = in[0]->type.axis[0];
    in[1] = random_like(g, &t);
    return true;
}
static inline dl_value *random_rule_cross_entropy(random_maker *g, dl_op op) {
    dl_value *in[2];
    if (!random_scores(g, in)) return NULL;
    dl_attr axis = dl_attr_name(DL_ATTR_axis, in[0]->type.axis[1].name);
    return random_node(g, op, 2, in, 1, &axis, NULL);
}
static inline dl_value *random_rule_in_top_k(random_maker *g, dl_op op) {
    dl_value *in[2];
    if (!random_scores(g, in)) return NULL;
    dl_attr k = dl_attr_int(DL_ATTR_k, 1 + below(&g->r, (int)in[0]->type.axis[1].size));
    return random_node(g, op, 2, in, 1, &k, NULL);
}
/* The gradient of a sum of a value by one that it is made of. One of a graph: each may double it.
 */
static inline dl_value *random_rule_grad(random_maker *g, dl_op op) {
    dl_value *y = random_pick(g, is_real), *x = y;
    const dl_graph *graph = g->b.graph;
    for (int i = 0; i < graph->nodes.n; i++)
        if (graph->nodes.at[i]->op == op) return NULL;
    for (int up = 1 + below(&g->r, 4); y && up && x->def && x->def->nin; up--) {
        dl_value *in = x->def->in[below(&g->r, x->def->nin)];
        if (!is_real(g, &in->type)) break;
        x = in;
    }
    if (!y) return NULL;
    dl_value *in[] = {random_full(g, DL_OP_sum, y), x};
    return random_node(g, op, 2, in, 0, NULL, NULL);
}
static inline dl_value *random_rule_argmax(random_maker *g, dl_op op) {
    dl_value *x = random_with_axes(g);
    int at = random_axis(g, x);
    if (at < 0) return NULL;
    dl_attr axis = dl_attr_name(DL_ATTR_axis, x->type.axis[at].name);
    return random_node(g, op, 1, &x, 1, &axis, NULL);
}

/* ---- along one axis ---- */
static inline int random_scan_attrs(random_maker *g, const char *axis, dl_attr at[2]) {
    at[0] = dl_attr_name(DL_ATTR_axis, axis),
    at[1] = dl_attr_int(DL_ATTR_reverse, one_in(&g->r, 2));
    return one_in(&g->r, 2) ? 1 : 2;
}
static inline dl_value *random_rule_cumulative(random_maker *g, dl_op op) {
    dl_value *x = one_in(&g->r, 6) ? random_pick(g, is_number) : random_with_axes(g);
    int at = x ? random_axis(g, x) : -1;
    if (at < 0) return NULL;
    if (op == DL_OP_cumprod && dl_dtype_is_float(x->type.dtype)) x = random_1(g, DL_OP_tanh, x);
    dl_attr attrs[2];
    int n = random_scan_attrs(g, x->type.axis[at].name, attrs);
    return random_node(g, op, 1, &x, n, attrs, NULL);
}
/* Factors within one, so that states stay finite. */
static inline dl_value *random_rule_linear_scan(random_maker *g, dl_op op) {
    dl_value *b = random_with_axes(g);
    int at = b ? random_axis(g, b) : -1;
    if (at < 0 || !dl_dtype_is_float(b->type.dtype)) return NULL;
    dl_value *a = random_1(g, DL_OP_tanh, one_in(&g->r, 3) ? random_with_axes(g) : b);
    dl_attr attrs[2];
    dl_value *in[] = {a, b};
    int n = random_scan_attrs(g, b->type.axis[at].name, attrs);
    return a ? random_node(g, op, 2, in, n, attrs, NULL) : NULL;
}
static inline dl_value *random_rule_scan_linear(random_maker *g, dl_op op) {
    dl_value *b = random_with_axes(g);
    int at = b ? random_axis(g, b) : -1;
    if (at < 0) return NULL;
    bool factors = dl_dtype_is_float(b->type.dtype) && one_in(&g->r, 2);
    dl_value *in[] = {b, factors ? random_1(g, DL_OP_tanh, b) : NULL};
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_axis, b->type.axis[at].name),
                       dl_attr_name(DL_ATTR_mode, one_in(&g->r, 2) ? "own" : "before"),
                       dl_attr_int(DL_ATTR_reverse, one_in(&g->r, 2))};
    return random_node(g, op, 1 + factors, in, 3, attrs, NULL);
}

static inline dl_value *random_rule_argsort(random_maker *g, dl_op op) {
    dl_value *x = random_with_axes(g);
    int at = x ? random_axis(g, x) : -1;
    if (at < 0) return NULL;
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_axis, x->type.axis[at].name),
                       dl_attr_int(DL_ATTR_descending, one_in(&g->r, 2))};
    return random_node(g, op, 1, &x, 2, attrs, NULL);
}

/* ---- by number ---- */
static inline bool is_whole(const random_maker *g, const dl_type *t) {
    return is_number(g, t) && !dl_dtype_is_float(t->dtype);
}
/* A new axis, of a name that the type has not. */
static inline void random_new_axis(random_maker *g, dl_type *t) {
    const char *name = dl_internf("V%d", below(&g->r, 3));
    if (t->rank < 5 && dl_type_axis(t, name) < 0) dl_type_push(t, name, random_size(g));
}
/* Numbers made such that each means one of `size` elements, one again and again, too; one in
 * `as_is` times they stay what they are, of which some mean none. */
static inline dl_value *random_places(random_maker *g, dl_value *n, int64_t size, int as_is) {
    if (one_in(&g->r, as_is)) return n;
    dl_value *far = random_k(g, DL_OP_mul, n, 1 + below(&g->r, 1 + (int)(size / 5)));
    return random_k(g, DL_OP_min, random_1(g, DL_OP_abs, far), (double)size - 1);
}
/* By numbers that are there, or by new ones, of which some axes are those of x and others are not.
 */
static inline dl_value *random_rule_gather(random_maker *g, dl_op op) {
    dl_value *x = one_in(&g->r, 4) ? random_pick(g, has_axes) : random_with_axes(g);
    dl_value *n = random_pick(g, is_whole);
    int at = x ? random_axis(g, x) : -1;
    if (at < 0) return NULL;
    dl_type others = x->type;
    others.axis[at] = others.axis[--others.rank], others.dtype = n ? n->type.dtype : DL_I32;
    if (!n || !random_joins(g, &others, &n->type) || one_in(&g->r, 3)) {
        dl_type t = dl_scalar(one_in(&g->r, 2) ? DL_I32 : DL_I64);
        for (int i = 0; i < others.rank; i++)
            if (*others.axis[i].name && one_in(&g->r, 3)) t.axis[t.rank++] = others.axis[i];
        if (one_in(&g->r, 3)) dl_type_push(&t, x->type.axis[at].name, random_size(g));
        for (int i = below(&g->r, 3); i; i--) random_new_axis(g, &t);
        random_shuffle(g, &t);
        others.dtype = t.dtype;
        if (!random_joins(g, &others, &t)) return NULL;
        n = random_like(g, &t);
    }
    dl_value *in[] = {x, random_places(g, n, x->type.axis[at].size, 12)};
    dl_attr axis = dl_attr_name(DL_ATTR_axis, x->type.axis[at].name);
    return random_node(g, op, 2, in, 1, &axis, NULL);
}
/* Some of x's axes are those of the numbers, of these a few the result's, too; the others are the
 * result's. */
static inline dl_value *random_rule_scatter_add(random_maker *g, dl_op op) {
    dl_value *x = one_in(&g->r, 6) ? random_pick(g, is_number) : random_with_axes(g);
    if (!x || !all_named(&x->type)) return NULL;
    dl_type n = dl_scalar(one_in(&g->r, 2) ? DL_I32 : DL_I64), to = dl_scalar(x->type.dtype);
    dl_axis along = {dl_internf("V%d", below(&g->r, 3)), random_size(g)};
    for (int i = 0; i < x->type.rank; i++) {
        bool numbers = !one_in(&g->r, 3);
        if (numbers) n.axis[n.rank++] = x->type.axis[i];
        if (!numbers || one_in(&g->r, 4))
            to.axis[to.rank++] = x->type.axis[i];
        else if (one_in(&g->r, 3))
            along.name = x->type.axis[i].name;
    }
    if (to.rank > 4 || dl_type_axis(&to, along.name) >= 0) return NULL;
    to.axis[to.rank++] = along;
    if (dl_type_count(&to) > g->largest) return NULL;
    random_shuffle(g, &n), random_shuffle(g, &to);
    dl_value *in[] = {x, random_places(g, random_like(g, &n), along.size, 3)};
    dl_attr axis = dl_attr_name(DL_ATTR_axis, along.name);
    return random_node(g, op, 2, in, 1, &axis, &to);
}

/* A real transform of one axis, then another of the complex numbers, along it or another axis; each
 * of some or all of the modes and samples. */
static inline dl_value *random_rule_fourier(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, real_axes);
    if (!x || !all_named(&x->type) || x->type.rank > 4) return NULL;
    for (int turn = 0; x && turn < 2; turn++) {
        int at = below(&g->r, turn ? x->type.rank - 1 : x->type.rank);
        dl_axis axis = x->type.axis[at];
        dl_fourier_options o = {.axis = axis.name, .size = axis.size, .scale = 0.5};
        o.mode = turn ? (dl_fourier_mode)(1 + below(&g->r, 3)) : DL_FOURIER_R2C;
        bool real = dl_fourier_is_real(o.mode);
        if (o.mode == DL_FOURIER_C2R)
            o.size = 2 * axis.size - 1 - one_in(&g->r, 2) + below(&g->r, 4);
        else if (one_in(&g->r, 4))
            o.size += below(&g->r, 4);
        if (o.size < 1) return x;
        o.stop = real && dl_fourier_makes_modes(o.mode) ? o.size / 2 + 1 : o.size;
        if (one_in(&g->r, 3)) o.stop -= below(&g->r, (int)o.stop);
        if (!real && one_in(&g->r, 3) && o.stop > 1) o.stop--, o.negative = 1;
        if (!real && !dl_fourier_makes_modes(o.mode) && axis.size < 1) o.negative = 0;
        o.twice = one_in(&g->r, 2);
        dl_attr attrs[DL_FOURIER_ATTRS];
        dl_fourier_attrs(&o, attrs);
        x = random_node(g, op, 1, &x, DL_FOURIER_ATTRS, attrs, NULL);
    }
    return x;
}

/* A transform times a weight: axes that are kept, summed, or one operand's own. */
static inline dl_value *random_rule_complex_contract(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, real_axes);
    if (!x || !all_named(&x->type) || x->type.rank > 3) return NULL;
    dl_axis last = x->type.axis[x->type.rank - 1];
    dl_fourier_options o = {.axis = last.name, .size = last.size, .scale = 1};
    o.stop = last.size / 2 + 1;
    dl_attr attrs[DL_FOURIER_ATTRS];
    dl_fourier_attrs(&o, attrs);
    dl_value *a = random_node(g, DL_OP_fourier, 1, &x, DL_FOURIER_ATTRS, attrs, NULL);
    if (!a) return NULL;
    dl_type of_b = dl_scalar(g->real), of_y = dl_scalar(g->real);
    dl_attr over = {.id = DL_ATTR_over};
    dl_type_push(&of_b, "O", random_size(g));
    if (dl_type_axis(&x->type, of_b.axis[0].name) >= 0) return NULL;
    for (int i = 0; i + 2 < a->type.rank; i++) {
        dl_axis axis = a->type.axis[i];
        int role = below(&g->r, 3); /* a's own, both's, summed */
        if (role) of_b.axis[of_b.rank++] = axis;
        if (role == 2) over.names[over.n++] = axis.name;
        if (role != 2) of_y.axis[of_y.rank++] = axis;
    }
    of_y.axis[of_y.rank++] = of_b.axis[0];
    random_shuffle(g, &of_b), random_shuffle(g, &of_y);
    for (int i = a->type.rank - 2; i < a->type.rank; i++)
        of_b.axis[of_b.rank++] = a->type.axis[i], of_y.axis[of_y.rank++] = a->type.axis[i];
    if (dl_type_count(&of_b) > g->largest || dl_type_count(&of_y) > g->largest) return NULL;
    dl_value *in[] = {a, random_var(g, of_b)};
    const int64_t conj[] = {below(&g->r, 2), below(&g->r, 2)};
    dl_attr at[] = {over, dl_attr_ints(DL_ATTR_conj, 2, conj)};
    return random_node(g, op, 2, in, 2, at, &of_y);
}

/* Not drawn: random_left_out. */
#define random_rule_relayout                  NULL
#define random_rule_all_reduce                NULL
#define random_rule_all_gather                NULL
#define random_rule_reduce_scatter            NULL
#define random_rule_shift                     NULL
#define random_rule_flash_attention           NULL
#define random_rule_flash_attention_grad      NULL
#define random_rule_flash_attention_bias_grad NULL
#define random_rule_recurrence                NULL
#define random_rule_scan                      NULL
#define random_rule_recurrent                 NULL
#define random_rule_recurrent_grad            NULL

static random_rule *const random_rules[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) random_rule_##infer,
#include "ir/ops.def"
#undef OP
};
#endif
