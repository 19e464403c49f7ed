/* A graph of tensor ops in double precision, and how far from that a right program in f32 may be: a running
 * error analysis (Wilkinson; Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.3).
 *
 * Each element carries a bound on its error. An op hands on what its operands' errors can do to it, by
 * intervals, and adds its own rounding: u times its size, u the unit roundoff of its type, times how many the
 * function is within (`accuracy`), times REWRITES for what passes may write differently (a division as a
 * product...). A sum of n terms adds min(n, 8 sqrt n) u times the sum of their sizes (the probabilistic bound
 * of Higham and Mary 2019), whatever its order. What is exact stays exact, so that ties stay ties.
 *
 * A chain of additions is such a sum, too: a gradient is accumulated in the order of its readers, and which
 * of them are one node is the passes' affair. What cancels first here may cancel last there, and two products
 * added here, exact or not, may be the product of a sum there. So the sizes of all that was added up are kept
 * (`terms`) and bear a rounding each, and a chain is exact only where it would be in any order.
 *
 * Where a comparison, a kink or a step is nearer than the errors of its operands, both sides are right: the
 * bound holds the distance between them. Beyond f32's range, and where nothing is known, it is infinite. */
#ifndef DL_ERROR_BOUND_H
#define DL_ERROR_BOUND_H
#include <math.h>
#include <stdlib.h>

#include "ir/interp.h"
#include "ir/relation.h"

#define REWRITES 4.0

typedef struct {
    const dl_graph *graph;
    dl_interp *value, *bound, *size;
    dl_interp
        *terms;   /* sizes of what was added up to make an element, once for each rounding that it may bear */
    bool *added;  /* by value id: made by additions */
    int **rivals; /* by value id, of the largest and smallest: elements that may be the extreme */
} bounded_run;

static inline bounded_run *bounded_new(const dl_graph *g) {
    bounded_run *r = calloc(1, sizeof *r);
    DL_CHECK(r);
    *r = (bounded_run){.graph = g,
                       .value = dl_interp_new(g, false),
                       .bound = dl_interp_new(g, false),
                       .size = dl_interp_new(g, false),
                       .terms = dl_interp_new(g, false),
                       .added = calloc(g->next_id + 1, sizeof(bool)),
                       .rivals = calloc(g->next_id + 1, sizeof(int *))};
    DL_CHECK(r->rivals && r->added);
    dl_interp *beside[] = {r->bound, r->size,
                           r->terms}; /* of tables too they hold other things than numbers */
    for (int i = 0; i < g->vars.n; i++)
        for (int k = 0; k < 3 && g->vars.at[i]->role == DL_VAR_TABLE; k++)
            memset(dl_interp_data(beside[k], &g->vars.at[i]->value), 0,
                   sizeof(double) * (size_t)dl_type_count(&g->vars.at[i]->value.type));
    return r;
}
static inline void bounded_free(bounded_run *r) {
    for (uint32_t i = 0; i <= r->graph->next_id; i++) free(r->rivals[i]);
    dl_interp_free(r->value), dl_interp_free(r->bound), dl_interp_free(r->size), dl_interp_free(r->terms);
    free(r->added), free(r->rivals), free(r);
}

static inline double unit_of(dl_dtype d) { return d == DL_F32 ? 0x1p-24 : d == DL_F64 ? 0x1p-53 : 0; }

/* ---- one value ---- */

/* Units that a function's result may be off by, everywhere it is called exact to the last bit or two. */
static inline double accuracy(dl_op op) {
    switch (op) {
    case DL_OP_exp:
    case DL_OP_expm1:
    case DL_OP_log1p:
    case DL_OP_rsqrt:
    case DL_OP_elu:
    case DL_OP_log:
    case DL_OP_sin:
    case DL_OP_cos:
    case DL_OP_erf:
    case DL_OP_pow: return 4;
    case DL_OP_tanh:
    case DL_OP_sigmoid: return 8;
    case DL_OP_add:
    case DL_OP_sub:
    case DL_OP_mul:
    case DL_OP_div:
    case DL_OP_sqrt:
    case DL_OP_leaky_relu:
    case DL_OP_cast: return 1;
    default: return 0; /* chooses, compares, changes a sign */
    }
}

static inline double furthest(double v, const double *other, int n) {
    double far = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(other[i])) return INFINITY;
        far = fmax(far, fabs(other[i] - v));
    }
    return far;
}

/* Of a function that only rises or only falls: its ends. */
static inline double by_ends(dl_op op, double v, double a, double e, double p) {
    double ends[] = {dl_interp_scalar(op, a - e, 0, 0, p), dl_interp_scalar(op, a + e, 0, 0, p)};
    return e == 0 ? 0 : furthest(v, ends, 2);
}

static inline double by_corners(dl_op op, double v, const double *a, const double *e) {
    double corners[4];
    for (int i = 0; i < 4; i++)
        corners[i] = dl_interp_scalar(op, a[0] + (i & 1 ? e[0] : -e[0]), a[1] + (i & 2 ? e[1] : -e[1]), 0, 0);
    return furthest(v, corners, 4);
}

static inline double bound_cast(const dl_type *from, const dl_type *to, double v, double a, double e) {
    if (dl_dtype_is_float(to->dtype) || e == 0) return e;
    if (to->dtype == DL_BOOL) return fabs(a) > e ? 0 : 1;
    (void)from;
    double ends[] = {trunc(a - e), trunc(a + e)};
    return furthest(v, ends, 2);
}

/* What errors `e` of operands `a` can do to v = op(a). */
static inline double handed_on(dl_op op, double v, const double *a, const double *e, double p) {
    double d = fabs(a[0] - a[1]), both = e[0] + e[1];
    switch (op) {
    case DL_OP_neg:
    case DL_OP_stop_gradient:
    case DL_OP_abs: return e[0];
    case DL_OP_add:
    case DL_OP_sub: return both;
    case DL_OP_mul: return fabs(a[0]) * e[1] + fabs(a[1]) * e[0] + e[0] * e[1];
    case DL_OP_div: return fabs(a[1]) <= e[1] ? INFINITY : (e[0] + fabs(v) * e[1]) / (fabs(a[1]) - e[1]);
    case DL_OP_sin:
    case DL_OP_cos: return fmin(e[0], 2);
    case DL_OP_exp:
    case DL_OP_expm1:
    case DL_OP_log:
    case DL_OP_log1p:
    case DL_OP_sqrt:
    case DL_OP_tanh:
    case DL_OP_sigmoid:
    case DL_OP_erf:
    case DL_OP_floor:
    case DL_OP_relu: return by_ends(op, v, a[0], e[0], p);
    case DL_OP_elu:
    case DL_OP_leaky_relu:
        return fmax(p < 0 && fabs(a[0]) <= e[0] ? fabs(v) : 0, by_ends(op, v, a[0], e[0], p));
    case DL_OP_sign: return fabs(a[0]) > e[0] || e[0] == 0 ? 0 : 2;
    case DL_OP_pow:
        if (both == 0) return 0;
        if (fabs(a[0]) <= e[0] && (a[1] - e[1] < 1 || a[1] != rint(a[1]))) return INFINITY;
        return by_corners(op, v, a, e);
    case DL_OP_max: return d > both ? (a[0] > a[1] ? e[0] : e[1]) : fmax(e[0], e[1]);
    case DL_OP_min: return d > both ? (a[0] < a[1] ? e[0] : e[1]) : fmax(e[0], e[1]);
    case DL_OP_eq:
    case DL_OP_ne:
    case DL_OP_lt:
    case DL_OP_le:
    case DL_OP_gt:
    case DL_OP_ge: return d > both || both == 0 ? 0 : 1;
    case DL_OP_not: return e[0];
    case DL_OP_rsqrt: return e[0] == 0 ? 0 : a[0] > e[0] ? by_ends(op, v, a[0], e[0], p) : INFINITY;
    case DL_OP_and: return (e[0] && (a[1] || e[1])) || (e[1] && a[0]) ? 1 : 0;
    case DL_OP_or: return (e[0] && (!a[1] || e[1])) || (e[1] && !a[0]) ? 1 : 0;
    case DL_OP_select: return e[0] ? fabs(a[1] - a[2]) + fmax(e[1], e[2]) : a[0] ? e[1] : e[2];
    default: return INFINITY; /* an op without a rule here is not checked: bounded_op says so */
    }
}
/* Is there a rule for this pointwise op? Everything else follows from its class. */
static inline bool bounded_op(dl_op op) {
    double zero[3] = {0};
    return dl_ops[op].class != DL_CLASS_ELEM || op == DL_OP_cast || op == DL_OP_div || op == DL_OP_pow ||
           handed_on(op, 0, zero, zero, 0) == 0;
}

/* A multiple of 1/64 below 2^15: sums and products of a few such are exact in f32. */
static inline bool is_round(double v) { return fabs(v) < 0x1p15 && v * 64 == rint(v * 64); }
static inline bool fits_f32(double v) { return (double)(float)v == v; }

static inline double with_rounding(dl_dtype d, double v, double e, double own) {
    double all = e + own * (fabs(v) + e);
    if (own > 0 && d == DL_F32) all += 0x1p-140; /* below the normal range, units are absolute */
    double most = d == DL_F32 ? 3e38 : d == DL_I32 ? 0x1p31 : d == DL_I64 ? 0x1p53 : INFINITY;
    return !(fabs(v) + all < most) ? INFINITY : all;
}

/* ---- nodes ---- */

/* Strides of a row-major tensor `t` by the axes of `walked`: 0 where it has no such axis. */
static inline void strides_along(const dl_type *t, const dl_type *walked, int64_t *stride) {
    int64_t next = 1, own[DL_MAX_RANK];
    for (int i = t->rank - 1; i >= 0; i--) own[i] = next, next *= t->axis[i].size;
    for (int i = 0; i < walked->rank; i++) {
        int j = *walked->axis[i].name ? dl_type_axis(t, walked->axis[i].name) : -1;
        stride[i] = j < 0 ? 0 : own[j];
    }
}
static inline int64_t place_at(const dl_type *walked, const int64_t *at, const int64_t *stride) {
    int64_t place = 0;
    for (int i = 0; i < walked->rank; i++) place += at[i] * stride[i];
    return place;
}
static inline void step_on(const dl_type *t, int64_t *at) {
    for (int i = t->rank - 1; i >= 0 && ++at[i] == t->axis[i].size; i--) at[i] = 0;
}

static inline bool is_extreme(const dl_value *v) {
    return v->def && (v->def->op == DL_OP_reduce_max || v->def->op == DL_OP_first_max ||
                      v->def->op == DL_OP_reduce_min);
}

/* Does the op leave a sum what it is, but for signs? */
static inline bool keeps_sum(const dl_node *n) {
    bool cast = n->op == DL_OP_cast && dl_dtype_is_float(n->out[0].type.dtype);
    return n->op == DL_OP_neg || n->op == DL_OP_stop_gradient || cast;
}

static inline void bound_elem(bounded_run *r, const dl_node *n) {
    const dl_value *y = &n->out[0];
    bool adds = n->op == DL_OP_add || n->op == DL_OP_sub, on = false;
    for (int k = 0; k < n->nin; k++) on |= r->added[n->in[k]->id];
    const double *v = dl_interp_data(r->value, y);
    double *e = dl_interp_data(r->bound, y), *terms = dl_interp_data(r->terms, y), p = 0;
    int64_t at[DL_MAX_RANK] = {0}, stride[3][DL_MAX_RANK], count = dl_type_count(&y->type);
    if (n->nattrs && dl_attrs[n->attrs[0].id].kind == DL_KIND_FLOAT) p = n->attrs[0].f;
    for (int k = 0; k < n->nin; k++) strides_along(&n->in[k]->type, &y->type, stride[k]);
    double u = unit_of(y->type.dtype), own = REWRITES * accuracy(n->op) * u;
    /* An element beside its own extreme: the two are one number where it has no rival. */
    bool mine = n->op == DL_OP_eq && is_extreme(n->in[1]) && n->in[1]->def->in[0] == n->in[0];
    for (int64_t i = 0; i < count; i++, step_on(&y->type, at)) {
        double a[3] = {0}, ea[3] = {0}, sum = 0;
        for (int k = 0; k < n->nin; k++) {
            int64_t from = place_at(&y->type, at, stride[k]);
            a[k] = dl_interp_data(r->value, n->in[k])[from], ea[k] = dl_interp_data(r->bound, n->in[k])[from];
            sum += dl_interp_data(r->terms, n->in[k])[from];
        }
        if (adds || keeps_sum(n)) terms[i] = sum;
        bool exact = ea[0] == 0 && ea[1] == 0 && fits_f32(v[i]) &&
                     (n->op == DL_OP_add || n->op == DL_OP_sub || n->op == DL_OP_mul || n->op == DL_OP_cast);
        double h = n->op == DL_OP_cast ? bound_cast(&n->in[0]->type, &y->type, v[i], a[0], ea[0])
                                       : handed_on(n->op, v[i], a, ea, p);
        if (n->nin == 2 && n->in[0] == n->in[1] && y->type.dtype == DL_BOOL && !isnan(a[0])) h = 0;
        if (mine && r->rivals[n->in[1]->id][place_at(&y->type, at, stride[1])] == 1) h = 0;
        if (n->op == DL_OP_cast && dl_dtype_is_float(n->in[0]->type.dtype) &&
            unit_of(n->in[0]->type.dtype) >= u)
            exact = true; /* to a type at least as wide */
        if (adds && on) exact &= is_round(v[i]) && is_round(sum);
        if (adds && !exact) h += own * (sum - fabs(v[i]));
        e[i] = with_rounding(y->type.dtype, v[i], h, exact ? 0 : own);
    }
    r->added[y->id] = adds || (keeps_sum(n) && on);
}

/* How many roundings of its size a sum of n terms may be off by. */
static inline double roundings(double n) { return ceil(fmin(n, 8 * sqrt(n))); }
static inline double of_terms(double n) { return REWRITES * roundings(n); }

/* sum and mean: the sizes of what was summed decide. */
static inline void bound_sum(bounded_run *r, const dl_node *n) {
    const dl_value *x = n->in[0], *y = &n->out[0];
    const double *v = dl_interp_data(r->value, y), *a = dl_interp_data(r->value, x);
    double *e = dl_interp_data(r->bound, y), *ea = dl_interp_data(r->bound, x),
           *s = dl_interp_data(r->size, y), *all = dl_interp_data(r->terms, y);
    const double *parts = dl_interp_data(r->terms, x);
    int64_t at[DL_MAX_RANK] = {0}, stride[DL_MAX_RANK], from = dl_type_count(&x->type),
            to = dl_type_count(&y->type);
    double terms = to ? (double)from / (double)to : 0, u = unit_of(y->type.dtype);
    double share = n->op == DL_OP_mean ? 1 / terms : 1;
    bool *rough = calloc((size_t)to + 1, sizeof *rough);
    strides_along(&y->type, &x->type, stride);
    for (int64_t i = 0; i < to; i++) e[i] = s[i] = all[i] = 0;
    for (int64_t i = 0; i < from; i++, step_on(&x->type, at)) {
        int64_t p = place_at(&x->type, at, stride);
        e[p] += ea[i], s[p] += fabs(a[i]) + ea[i], all[p] += parts[i] - fabs(a[i]);
        rough[p] |= ea[i] != 0 || !is_round(a[i]);
    }
    for (int64_t i = 0; i < to; i++) {
        bool exact = !rough[i] && is_round(s[i]) && (n->op == DL_OP_sum || fits_f32(share));
        all[i] = share * (all[i] + roundings(terms) * s[i]);
        e[i] = exact ? 0
                     : with_rounding(y->type.dtype, v[i], share * (e[i] + of_terms(terms) * u * s[i]), 2 * u);
    }
    free(rough);
}

static inline void bound_extreme(bounded_run *r, const dl_node *n) {
    const dl_value *x = n->in[0], *y = &n->out[0];
    const double *v = dl_interp_data(r->value, y), *a = dl_interp_data(r->value, x);
    double *e = dl_interp_data(r->bound, y), *ea = dl_interp_data(r->bound, x),
           *low = dl_interp_data(r->size, y);
    int64_t at[DL_MAX_RANK] = {0}, stride[DL_MAX_RANK], from = dl_type_count(&x->type),
            to = dl_type_count(&y->type);
    double sign = n->op == DL_OP_reduce_min ? -1 : 1; /* a minimum is the maximum of the negative */
    int *rivals = r->rivals[y->id] = calloc((size_t)to + 1, sizeof *rivals);
    strides_along(&y->type, &x->type, stride);
    for (int64_t i = 0; i < to; i++) e[i] = 0, low[i] = -INFINITY;
    for (int64_t i = 0; i < from; i++, step_on(&x->type, at)) {
        int64_t p = place_at(&x->type, at, stride);
        low[p] = fmax(low[p], sign * a[i] - ea[i]);
        e[p] = isnan(ea[i]) ? INFINITY : fmax(e[p], sign * a[i] + ea[i] - sign * v[p]);
    }
    for (int64_t i = 0; i < from; i++, step_on(&x->type, at)) {
        int64_t p = place_at(&x->type, at, stride);
        rivals[p] += sign * a[i] + ea[i] >= low[p];
    }
    for (int64_t i = 0; i < to; i++)
        e[i] = with_rounding(y->type.dtype, v[i], fmax(e[i], sign * v[i] - low[i]), 0);
}

/* Sums of products: the same contraction of sizes. */
static inline bool bound_contraction(bounded_run *r, const dl_node *n, dl_error *err) {
    const dl_value *y = &n->out[0];
    int64_t count = dl_type_count(&y->type);
    const double *v = dl_interp_data(r->value, y);
    double *e = dl_interp_data(r->bound, y), *s = dl_interp_data(r->size, y), u = unit_of(y->type.dtype);
    bool exact = true;
    for (int k = 0; k < 2; k++) {
        const double *a = dl_interp_data(r->value, n->in[k]), *ea = dl_interp_data(r->bound, n->in[k]);
        double *size = dl_interp_data(r->size, n->in[k]);
        for (int64_t i = 0; i < dl_type_count(&n->in[k]->type); i++)
            size[i] = fabs(a[i]), exact &= ea[i] == 0 && fabs(a[i]) < 64 && a[i] * 8 == rint(a[i] * 8);
    }
    if (!dl_interp_node(r->size, n, err)) return false;
    for (int64_t i = 0; i < count; i++) e[i] = s[i], exact &= s[i] < 0x1p15;
    for (int k = 0; k < 2; k++) {
        const double *a = dl_interp_data(r->value, n->in[k]), *ea = dl_interp_data(r->bound, n->in[k]);
        double *size = dl_interp_data(r->size, n->in[k]);
        for (int64_t i = 0; i < dl_type_count(&n->in[k]->type); i++) size[i] = fabs(a[i]) + ea[i];
    }
    if (!dl_interp_node(r->size, n, err)) return false;
    dl_relation relation = dl_relation_of(n);
    double terms = (double)dl_relation_terms(&relation);
    for (int64_t i = 0; i < count; i++) {
        double h = s[i] - e[i] + of_terms(terms) * u * s[i];
        dl_interp_data(r->terms, y)[i] = roundings(terms) * s[i];
        e[i] = exact ? 0 : with_rounding(y->type.dtype, v[i], isnan(h) ? INFINITY : h, 2 * u);
    }
    return true;
}

/* Sizes of what a value's elements are the sum of: their own, where they are none. */
static inline void set_terms(bounded_run *r, const dl_value *v) {
    const double *a = dl_interp_data(r->value, v);
    double *terms = dl_interp_data(r->terms, v);
    for (int64_t i = 0; i < dl_type_count(&v->type); i++) terms[i] = fabs(a[i]);
}

/* Values and bounds of every node; variables' values stand in r->value already. False: the interpreter's
 * error. */
static inline bool bounded_run_all(bounded_run *r, dl_error *err) {
    for (int i = 0; i < r->graph->vars.n; i++) set_terms(r, &r->graph->vars.at[i]->value);
    for (int i = 0; i < r->graph->nodes.n; i++) {
        const dl_node *n = r->graph->nodes.at[i];
        if (!dl_interp_node(r->value, n, err)) return false;
        const dl_value *y = &n->out[0];
        set_terms(r, y);
        switch (dl_ops[n->op].class) {
        case DL_CLASS_ELEM: bound_elem(r, n); break;
        case DL_CLASS_REDUCE:
            (n->op == DL_OP_sum || n->op == DL_OP_mean ? bound_sum : bound_extreme)(r, n);
            break;
        case DL_CLASS_CONTRACT:
            if (!bound_contraction(r, n, err)) return false;
            break;
        case DL_CLASS_MOVE: /* errors and sums move with their elements */
            if (!dl_interp_node(r->bound, n, err) || !dl_interp_node(r->terms, n, err)) return false;
            for (int k = 0; k < n->nin; k++) r->added[y->id] |= r->added[n->in[k]->id];
            break;
        default: /* sources */
            for (int64_t k = 0; k < dl_type_count(&y->type); k++) {
                double v = dl_interp_data(r->value, y)[k];
                dl_interp_data(r->bound, y)[k] =
                    y->type.dtype == DL_F32 && !fits_f32(v) ? REWRITES * unit_of(DL_F32) * fabs(v) : 0;
            }
        }
    }
    return true;
}
#endif
