/* Random nodes, made from types so that nearly every one is legal.
 *
 * Each op of ops.def is made by the maker of its shape rule (column `infer`): a new row is drawn as
 * soon as it stands there, and a new rule does not build until it has a maker here or in
 * random_composites.h. Ops that are not drawn are named in random_left_out; pass_fuzz fails
 * when another is never drawn. */
#ifndef DL_RANDOM_NODES_H
#define DL_RANDOM_NODES_H
#include <math.h>

#include "ir/builder.h"
#include "ir/relation.h"
#include "tests/unit/random_numbers.h"

/* Ops that only passes make, a template by what it serves (attention); recurrent layers and scans,
 * whose errors grow from step to step (tests/oracle/check_random_text.py and check_scan_cells.py
 * have them); and `updated`, since a loss that reads what its own step leaves has no order. */
static const dl_op random_left_out[] = {DL_OP_fused,
                                        DL_OP_scan,
                                        DL_OP_relayout,
                                        DL_OP_flash_attention,
                                        DL_OP_flash_attention_grad,
                                        DL_OP_flash_attention_bias_grad,
                                        DL_OP_all_reduce,
                                        DL_OP_all_gather,
                                        DL_OP_reduce_scatter,
                                        DL_OP_shift,
                                        DL_OP_enter,
                                        DL_OP_scale_gradient,
                                        DL_OP_updated,
                                        DL_OP_recurrence,
                                        DL_OP_recurrent,
                                        DL_OP_recurrent_grad};
/* Element types that cannot be computed in yet. */
static const dl_dtype random_no_types[] = {DL_F16, DL_BF16};

static inline bool random_makes(dl_op op) {
    for (size_t i = 0; i < sizeof random_left_out / sizeof *random_left_out; i++)
        if (random_left_out[i] == op) return false;
    return true;
}

typedef struct {
    long made[DL_NOPS];
    long tries, refused; /* nodes asked for; of these, those that a shape rule refused */
} random_counts;

enum { RANDOM_VALUES = 400, RANDOM_LARGEST = 3000, RANDOM_HUGE = 40000 };

typedef struct {
    dl_builder b;
    rng r;
    dl_dtype real; /* element type of what is trained */
    dl_value *pool[RANDOM_VALUES];
    int n, nvars;
    int64_t largest; /* elements of a value */
    random_counts *counts;
} random_maker;

/* ---- operands ---- */

static inline dl_value *random_keep(random_maker *g, dl_value *v) {
    if (v && g->n < RANDOM_VALUES) g->pool[g->n++] = v;
    return v;
}

/* A node, or NULL where its rule refuses; too large or too many axes are not even asked for. */
static inline dl_value *random_node(random_maker *g, dl_op op, int n, dl_value *const *in,
                                    int nattrs, const dl_attr *attrs, const dl_type *given) {
    dl_shape_fault fault;
    g->counts->tries++;
    dl_value *v = dl_build_try(&g->b, op, n, in, nattrs, attrs, given, &fault);
    if (!v) g->counts->refused++;
    if (v) g->counts->made[op]++;
    return v;
}
static inline dl_value *random_1(random_maker *g, dl_op op, dl_value *a) {
    return random_node(g, op, 1, &a, 0, NULL, NULL);
}
static inline dl_value *random_2(random_maker *g, dl_op op, dl_value *a, dl_value *b) {
    dl_value *in[] = {a, b};
    return random_node(g, op, 2, in, 0, NULL, NULL);
}
static inline dl_value *random_k(random_maker *g, dl_op op, dl_value *a, double k) {
    g->counts->made[DL_OP_const]++;
    return random_2(g, op, a, dl_build_const(&g->b, a->type.dtype, k));
}

static const int random_sizes[] = {1, 1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 11, 13, 16, 17, 19, 31, 64};
static inline int64_t random_size(random_maker *g) {
    return random_sizes[below(&g->r, (int)(sizeof random_sizes / sizeof *random_sizes))];
}

/* Numbers of a table: of every second one multiples of 1/2, for ties. */
static inline dl_var *random_table(random_maker *g, dl_type t, rng r) {
    double numbers[RANDOM_LARGEST + 1];
    int n = (int)dl_type_count(&t);
    bool halves = one_in(&r, 2);
    for (int i = 0; i < n; i++) {
        double x = uniform(&r, -1.5, 1.5);
        numbers[i] = !dl_dtype_is_float(t.dtype) ? floor(3 * x)
                     : halves                    ? rint(2 * x) / 2
                                                 : (double)(float)x;
        if (t.dtype == DL_BOOL) numbers[i] = x > 0;
    }
    return dl_graph_table(g->b.graph, dl_internf("table %d", g->nvars++), t, n, numbers, g->b.loc);
}

static inline dl_value *random_var(random_maker *g, dl_type t) {
    dl_var_role role = one_in(&g->r, 3)   ? DL_VAR_INPUT
                       : one_in(&g->r, 5) ? DL_VAR_TARGET
                                          : DL_VAR_PARAM;
    if (!dl_dtype_is_float(t.dtype)) role = DL_VAR_INPUT;
    /* Decided apart from the graph's own random numbers: a seed makes the graph that it made
     * without tables. */
    rng apart = {g->r.state ^ 0x7461626c65u};
    if (role == DL_VAR_INPUT && dl_type_count(&t) <= RANDOM_LARGEST && one_in(&apart, 3))
        return random_keep(g, &random_table(g, t, apart)->value);
    dl_var *v =
        dl_graph_var(g->b.graph, role, dl_internf("v%d", g->nvars++), t, (dl_init){0}, g->b.loc);
    return random_keep(g, &v->value);
}

/* A type of up to `most` axes, each of the size that its name has elsewhere where there is such a
 * value. */
static inline dl_type random_type(random_maker *g, dl_dtype dtype, int most) {
    static const char *const names[] = {"N", "C", "D", "H", "W", "K", "P"};
    dl_type t = dl_scalar(dtype);
    int rank = below(&g->r, most + 1);
    for (int i = 0; i < rank; i++) {
        const char *name = dl_intern(names[below(&g->r, 7)]);
        int64_t size = random_size(g);
        for (int k = 0; k < g->n; k++) {
            int at = dl_type_axis(&g->pool[k]->type, name);
            if (at >= 0 && !one_in(&g->r, 8)) size = g->pool[k]->type.axis[at].size;
        }
        if (dl_type_axis(&t, name) < 0 && dl_type_count(&t) * size <= g->largest)
            dl_type_push(&t, name, size);
    }
    if (one_in(&g->r, 40) && t.rank < 4) dl_type_push(&t, "", 1);
    return t;
}

/* The same axes in another order. */
static inline void random_shuffle(random_maker *g, dl_type *t) {
    for (int i = 0; i + 1 < t->rank; i++) {
        int j = i + below(&g->r, t->rank - i);
        dl_axis swap = t->axis[i];
        t->axis[i] = t->axis[j], t->axis[j] = swap;
    }
}

typedef bool random_filter(const random_maker *g, const dl_type *t);
static inline bool is_real(const random_maker *g, const dl_type *t) { return t->dtype == g->real; }
static inline bool is_number(const random_maker *g, const dl_type *t) {
    return (void)g, t->dtype != DL_BOOL;
}
static inline bool is_truth(const random_maker *g, const dl_type *t) {
    return (void)g, t->dtype == DL_BOOL;
}
static inline bool is_any(const random_maker *g, const dl_type *t) {
    return (void)g, (void)t, true;
}
static inline bool has_axes(const random_maker *g, const dl_type *t) {
    return (void)g, t->rank > 0;
}
static inline bool real_axes(const random_maker *g, const dl_type *t) {
    return is_real(g, t) && t->rank;
}

/* A value from the pool, the later the likelier; NULL when none fits. */
static inline dl_value *random_pick(random_maker *g, random_filter *fits) {
    for (int i = 0; i < 40 && g->n; i++) {
        int from = one_in(&g->r, 2) && g->n > 5 ? g->n - 5 : 0;
        dl_value *v = g->pool[from + below(&g->r, g->n - from)];
        if (fits(g, &v->type)) return v;
    }
    return NULL;
}
/* The same, made where there is none. */
static inline dl_value *random_real(random_maker *g) {
    dl_value *v = random_pick(g, is_real);
    return v ? v : random_var(g, random_type(g, g->real, 4));
}
static inline dl_value *random_with_axes(random_maker *g) {
    dl_value *v = random_pick(g, real_axes);
    while (!v || !v->type.rank) v = random_var(g, random_type(g, g->real, 4));
    return v;
}
static inline dl_value *random_truth(random_maker *g) {
    dl_value *v = random_pick(g, is_truth);
    return v ? v : random_keep(g, random_k(g, DL_OP_gt, random_real(g), 0));
}

/* Can these two be broadcast together, and not too large? */
static inline bool random_joins(const random_maker *g, const dl_type *a, const dl_type *b) {
    if (a->dtype != b->dtype) return false;
    int64_t count = dl_type_count(a);
    int rank = a->rank;
    for (int i = 0; i < b->rank; i++) {
        int at = *b->axis[i].name ? dl_type_axis(a, b->axis[i].name) : -1;
        if (at >= 0 && a->axis[at].size != b->axis[i].size) return false;
        if (at < 0) count *= b->axis[i].size, rank++;
    }
    return count <= g->largest && rank <= 5;
}

/* An operand to go with x: another value, a new one of some of its axes, x itself, or a constant.
 */
static inline dl_value *random_partner(random_maker *g, dl_value *x) {
    for (int i = 0; i < 12; i++) {
        dl_value *y = g->pool[below(&g->r, g->n)];
        if (y != x && random_joins(g, &x->type, &y->type)) return y;
    }
    if (one_in(&g->r, 3)) return x;
    if (one_in(&g->r, 2) || x->type.dtype != g->real) {
        g->counts->made[DL_OP_const]++;
        return dl_build_const(&g->b, x->type.dtype,
                              below(&g->r, 3) + (x->type.dtype == g->real) * 0.5);
    }
    dl_type t = dl_scalar(g->real);
    for (int i = 0; i < x->type.rank; i++)
        if (*x->type.axis[i].name && one_in(&g->r, 2)) t.axis[t.rank++] = x->type.axis[i];
    return random_var(g, t);
}

/* |x| + k: where a function asks for positive numbers. Now and then x as it is: not-a-numbers are
 * numbers too. */
static inline dl_value *random_positive(random_maker *g, dl_value *x, double k) {
    return one_in(&g->r, 24) ? x : random_k(g, DL_OP_add, random_1(g, DL_OP_abs, x), k);
}

/* The op's numbers; of those that may be absent one in four is. Whole where the operand is. */
static inline int random_floats(random_maker *g, dl_op op, const dl_value *x,
                                dl_attr attrs[DL_MAX_ATTRS]) {
    static const double sharp[] = {0.5, 1, 2, -1}, threshold[] = {0.5, 1, 4, 20};
    int n = 0;
    for (int i = 0; i < dl_ops[op].nattrs; i++) {
        dl_attr_id id = dl_ops[op].attrs[i];
        double v = (below(&g->r, 5) - 1) * 0.25;
        if (id == DL_ATTR_beta) v = sharp[below(&g->r, 4)];
        if (id == DL_ATTR_threshold) v = threshold[below(&g->r, 4)];
        if (id == DL_ATTR_low || id == DL_ATTR_high)
            v = (below(&g->r, 5) - 3 * (id == DL_ATTR_low)) *
                (dl_dtype_is_float(x->type.dtype) ? 0.5 : 1);
        bool absent = i >= dl_ops[op].nattrs - dl_ops[op].noptional && one_in(&g->r, 4);
        if (!absent) attrs[n++] = dl_attr_float(id, v);
    }
    return n;
}

/* ---- makers, one a shape rule ---- */
typedef dl_value *random_rule(random_maker *g, dl_op op);

static inline dl_value *random_rule_const(random_maker *g, dl_op op) {
    (void)op, g->counts->made[DL_OP_const]++;
    return dl_build_const(&g->b, g->real, (below(&g->r, 9) - 4) * (one_in(&g->r, 2) ? 0.5 : 0.3));
}
static inline dl_value *random_rule_iota(random_maker *g, dl_op op) {
    static const dl_dtype types[] = {DL_F32, DL_I32, DL_I64};
    const dl_type *t = &random_with_axes(g)->type;
    dl_axis a = t->axis[below(&g->r, t->rank)];
    if (!*a.name) return NULL;
    dl_type to = dl_scalar(one_in(&g->r, 2) ? g->real : types[below(&g->r, 3)]);
    to.axis[to.rank++] = a;
    dl_attr at = dl_attr_name(DL_ATTR_axis, a.name);
    return random_node(g, op, 0, NULL, 1, &at, &to);
}
/* A scalar to draw by: one that is there, or a new one. */
static inline dl_value *random_counter(random_maker *g) {
    for (int i = 0; i < g->n; i++)
        if (g->pool[i]->type.dtype == DL_I64 && !g->pool[i]->type.rank && !one_in(&g->r, 4))
            return g->pool[i];
    return random_var(g, dl_scalar(DL_I64));
}
/* Bare, or what dropout does to a value; one number now and then serves two. */
static inline dl_value *random_rule_random(random_maker *g, dl_op op) {
    dl_value *x = random_real(g), *in[3] = {random_counter(g), random_counter(g)};
    dl_attr number = dl_attr_int(DL_ATTR_number, below(&g->r, 9));
    in[2] = in[number.i % 2]; /* for a part any counter does */
    dl_type t = x->type;
    if (t.rank && one_in(&g->r, 4)) t.rank = 1;
    dl_value *u = random_node(g, op, number.i % 3 ? 2 : 3, in, 1, &number, &t);
    if (one_in(&g->r, 3)) return u;
    dl_value *kept = random_k(g, DL_OP_ge, u, below(&g->r, 5) * 0.25);
    dl_value *choose[] = {kept, random_k(g, DL_OP_mul, x, 1.5), dl_build_const(&g->b, g->real, 0)};
    return random_node(g, DL_OP_select, 3, choose, 0, NULL, NULL);
}
static inline dl_value *random_elem_float(random_maker *g, dl_op op) {
    dl_value *x = random_real(g), *y;
    switch (op) {
    case DL_OP_exp: return random_1(g, op, one_in(&g->r, 4) ? x : random_1(g, DL_OP_tanh, x));
    case DL_OP_log: return random_1(g, op, random_positive(g, x, 0.5));
    case DL_OP_log1p: return random_1(g, op, random_positive(g, x, 0));
    case DL_OP_rsqrt: return random_1(g, op, random_positive(g, x, 0.5));
    case DL_OP_expm1:
    case DL_OP_elu: x = random_1(g, DL_OP_tanh, x); break;
    case DL_OP_sqrt: return random_1(g, op, random_positive(g, x, 0.25));
    case DL_OP_div: return y = random_partner(g, x), random_2(g, op, x, random_positive(g, y, 0.5));
    case DL_OP_atan2: /* of points right of the origin */
        return y = random_partner(g, x), random_2(g, op, x, random_positive(g, y, 0.5));
    case DL_OP_pow:
        if (one_in(&g->r, 2)) return random_k(g, op, x, 1 + below(&g->r, 3));
        if (one_in(&g->r, 2))
            return random_k(g, op, random_positive(g, x, 0.5), below(&g->r, 7) * 0.5 - 1);
        y = random_partner(g, x);
        return random_2(g, op, random_positive(g, x, 0.5), random_1(g, DL_OP_sin, y));
    default: break;
    }
    dl_attr attrs[DL_MAX_ATTRS];
    return random_node(g, op, 1, &x, random_floats(g, op, x, attrs), attrs, NULL);
}
static inline dl_value *random_rule_elem(random_maker *g, dl_op op) {
    if (dl_op_wants_float(op)) return random_elem_float(g, op);
    dl_value *x = one_in(&g->r, 4) ? random_pick(g, is_number) : random_real(g);
    if (!x) return NULL;
    if (dl_ops[op].arity == 2) return random_2(g, op, x, random_partner(g, x));
    dl_attr attrs[DL_MAX_ATTRS];
    return random_node(g, op, 1, &x, random_floats(g, op, x, attrs), attrs, NULL);
}
static inline dl_value *random_rule_elem_logic(random_maker *g, dl_op op) {
    dl_value *x = random_truth(g);
    if (!x || dl_ops[op].arity == 1) return x ? random_1(g, op, x) : NULL;
    for (int i = 0; i < 12; i++) {
        dl_value *y = random_truth(g);
        if (y && random_joins(g, &x->type, &y->type)) return random_2(g, op, x, y);
    }
    return random_2(g, op, x, x);
}
static inline dl_value *random_rule_elem_compare(random_maker *g, dl_op op) {
    dl_value *x = one_in(&g->r, 6) ? random_pick(g, is_any) : random_real(g);
    if (x->type.dtype == DL_BOOL) return random_2(g, op, x, x);
    return random_2(g, op, x, random_partner(g, x));
}
static inline dl_value *random_rule_elem_select(random_maker *g, dl_op op) {
    dl_value *c = random_truth(g);
    for (int i = 0; c && i < 12; i++) {
        dl_value *x = random_pick(g, is_number), *y = x ? random_partner(g, x) : NULL;
        dl_type both = c->type;
        if (!x || (both.dtype = x->type.dtype, !random_joins(g, &both, &x->type))) continue;
        dl_shape_fault fault;
        const dl_type *types[] = {&both, &x->type};
        if (!dl_infer_broadcast(types, 2, &both, &fault) || !random_joins(g, &both, &y->type))
            continue;
        dl_value *in[] = {c, x, y};
        return random_node(g, op, 3, in, 0, NULL, NULL);
    }
    return NULL;
}
static inline dl_value *random_rule_cast(random_maker *g, dl_op op) {
    static const dl_dtype types[] = {DL_F32, DL_F32, DL_I32, DL_I64, DL_BOOL, DL_F64};
    dl_value *x = random_pick(g, is_any);
    if (!x) return NULL;
    dl_type t = x->type;
    t.dtype = one_in(&g->r, 2) ? g->real : types[below(&g->r, 6)];
    return random_node(g, op, 1, &x, 0, NULL, &t);
}
/* Over some axes, with another attribute where `more` is one. */
static inline dl_value *random_reduction(random_maker *g, dl_op op, dl_value *x,
                                         const dl_attr *more) {
    const char *over[DL_MAX_RANK];
    int n = 0, named = 0;
    bool all = one_in(&g->r, 3);
    for (int i = 0; i < x->type.rank; i++) named += *x->type.axis[i].name != 0;
    for (int i = 0; i < x->type.rank; i++)
        if (*x->type.axis[i].name && (all || one_in(&g->r, 2))) over[n++] = x->type.axis[i].name;
    if (!n && named && !one_in(&g->r, 6)) return NULL;
    if (n > 1 && one_in(&g->r, 2)) {
        const char *first = over[0];
        over[0] = over[n - 1], over[n - 1] = first;
    }
    dl_attr attrs[2] = {dl_attr_names(DL_ATTR_over, n, over)};
    if (more) attrs[1] = *more;
    return random_node(g, op, 1, &x, more ? 2 : 1, attrs, NULL);
}
static inline dl_value *random_full(random_maker *g, dl_op op, dl_value *x) {
    g->counts->made[op]++;
    return dl_build_reduce(&g->b, op, x, 0, NULL);
}
static inline dl_value *random_rule_reduce(random_maker *g, dl_op op) {
    dl_value *x =
        op != DL_OP_mean && one_in(&g->r, 6) ? random_pick(g, is_number) : random_with_axes(g);
    return x ? random_reduction(g, op, x, NULL) : NULL;
}
static inline dl_value *random_rule_broadcast(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, is_any);
    dl_type to = dl_scalar(x->type.dtype);
    for (int i = 0; i < x->type.rank; i++) /* an axis without a name goes */
        if (*x->type.axis[i].name) to.axis[to.rank++] = x->type.axis[i];
    const dl_type *more = &random_real(g)->type;
    for (int i = 0; i < more->rank; i++)
        if (*more->axis[i].name && dl_type_axis(&to, more->axis[i].name) < 0 && to.rank < 5 &&
            dl_type_count(&to) * more->axis[i].size <= g->largest)
            to.axis[to.rank++] = more->axis[i];
    for (int i = 0; i + 1 < to.rank; i++) {
        int j = i + below(&g->r, to.rank - i);
        if (one_in(&g->r, 2)) continue;
        dl_axis swap = to.axis[i];
        to.axis[i] = to.axis[j], to.axis[j] = swap;
    }
    return random_node(g, op, 1, &x, 0, NULL, &to);
}

/* Some named axis of x, or -1. */
static inline int random_axis(random_maker *g, const dl_value *x) {
    int at = x->type.rank ? below(&g->r, x->type.rank) : -1;
    return at >= 0 && *x->type.axis[at].name ? at : -1;
}
static inline dl_value *random_slice(random_maker *g, dl_value *x, int at, int64_t start,
                                     int64_t stop) {
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_axis, x->type.axis[at].name),
                       dl_attr_int(DL_ATTR_start, start), dl_attr_int(DL_ATTR_stop, stop)};
    return random_node(g, DL_OP_slice, 1, &x, 3, attrs, NULL);
}
static inline dl_value *random_rule_slice(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, has_axes);
    int at = x ? random_axis(g, x) : -1;
    if ((void)op, at < 0) return NULL;
    int size = (int)x->type.axis[at].size, start = below(&g->r, size);
    return random_slice(g, x, at, start, start + 1 + below(&g->r, size - start));
}
static inline dl_value *random_rule_pad(random_maker *g, dl_op op) {
    dl_value *x = random_with_axes(g);
    int at = random_axis(g, x);
    int64_t lo = below(&g->r, 3), hi = below(&g->r, 3);
    if (at < 0) return NULL;
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_axis, x->type.axis[at].name),
                       dl_attr_ints(DL_ATTR_pad_lo, 1, &lo), dl_attr_ints(DL_ATTR_pad_hi, 1, &hi)};
    return random_node(g, op, 1, &x, 3, attrs, NULL);
}
static inline dl_value *random_rule_cat(random_maker *g, dl_op op) {
    dl_value *x = random_with_axes(g), *in[6] = {x};
    int at = random_axis(g, x), want = 1 + below(&g->r, 6), n = 1;
    if (at < 0) return NULL;
    int64_t along = x->type.axis[at].size;
    for (int i = 0; i < 30 && n < want; i++) {
        dl_value *y = one_in(&g->r, 3) ? x : g->pool[below(&g->r, g->n)];
        bool alike = y->type.rank == x->type.rank && y->type.dtype == x->type.dtype;
        for (int k = 0; alike && k < x->type.rank; k++)
            alike = x->type.axis[k].name == y->type.axis[k].name &&
                    (k == at || x->type.axis[k].size == y->type.axis[k].size);
        if (alike) in[n++] = y, along += y->type.axis[at].size;
    }
    if (dl_type_count(&x->type) / x->type.axis[at].size * along > g->largest) n = 1;
    dl_attr attr = dl_attr_name(DL_ATTR_axis, x->type.axis[at].name);
    return random_node(g, op, n, in, 1, &attr, NULL);
}
static inline dl_value *random_rule_squeeze(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, has_axes);
    int at = x ? random_axis(g, x) : -1;
    if (at < 0) return NULL;
    if (x->type.axis[at].size > 1) {
        int64_t i = below(&g->r, (int)x->type.axis[at].size);
        x = random_slice(g, x, at, i, i + 1);
    }
    dl_attr attr = dl_attr_name(DL_ATTR_axis, x->type.axis[at].name);
    return random_node(g, op, 1, &x, 1, &attr, NULL);
}
static inline dl_value *random_rule_unsqueeze(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, is_any);
    const char *name = dl_intern(one_in(&g->r, 2) ? "U" : "K");
    if (x->type.rank > 4 || dl_type_axis(&x->type, name) >= 0) return NULL;
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_axis, name),
                       dl_attr_int(DL_ATTR_index, below(&g->r, x->type.rank + 1))};
    return random_node(g, op, 1, &x, 2, attrs, NULL);
}
static inline dl_value *random_rule_rename(random_maker *g, dl_op op) {
    dl_value *x = random_pick(g, has_axes);
    int at = x ? random_axis(g, x) : -1;
    const char *name = dl_internf("R%d", below(&g->r, 3));
    if (at < 0 || dl_type_axis(&x->type, name) >= 0) return NULL;
    dl_type t = x->type;
    t.axis[at].name = name;
    return random_node(g, op, 1, &x, 0, NULL, &t);
}
#endif
