/* A graph of tensor ops in double precision, and how far from that a right program in f32 may be: a
 * running error analysis (Wilkinson; Higham, Accuracy and Stability of Numerical Algorithms, 2002,
 * section 3.3).
 *
 * Each element carries a bound on its error. An op hands on what its operands' errors can do to it,
 * by intervals, and adds its own rounding: u times its size, u the unit roundoff of its type, times
 * how many the function is within (`accuracy`), times REWRITES for what passes may write
 * differently (a division as a product...). A sum of n terms adds min(n, 8 sqrt n) u times the sum
 * of their sizes (the probabilistic bound of Higham and Mary 2019), whatever its order. What is
 * exact stays exact, so that ties stay ties.
 *
 * A chain of additions is such a sum, too: a gradient is accumulated in the order of its readers,
 * and which of them are one node is the passes' affair. What cancels first here may cancel last
 * there, and two products added here, exact or not, may be the product of a sum there. So the sizes
 * of all that was added up are kept
 * (`terms`) and bear a rounding each, and a chain is exact only where it would be in any order. A
 * factor of a sum may be one of its terms instead: of a sum that is exact here, these bear a
 * rounding each, too.
 *
 * Where a comparison, a kink or a step is nearer than the errors of its operands, both sides are
 * right: the bound holds the distance between them. Beyond f32's range, and where nothing is known,
 * it is infinite. */
#ifndef DL_ERROR_BOUND_H
#define DL_ERROR_BOUND_H
#include <stdlib.h>

#include "ir/relation.h"
#include "tests/unit/error_complex.h"
#include "tests/unit/error_scalar.h"
#include "tests/unit/error_scan.h"

typedef struct {
    const dl_graph *graph;
    dl_interp *value, *bound, *size;
    dl_interp *terms; /* sizes of what was added up to make an element, once for each rounding that
                         it may bear */
    bool *added;      /* by value id: made by additions */
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
    dl_interp *others[] = {r->bound, r->size,
                           r->terms}; /* of tables too they hold other things than numbers */
    for (int i = 0; i < g->vars.n; i++)
        for (int k = 0; k < 3 && g->vars.at[i]->role == DL_VAR_TABLE; k++)
            memset(dl_interp_data(others[k], &g->vars.at[i]->value), 0,
                   sizeof(double) * (size_t)dl_type_count(&g->vars.at[i]->value.type));
    return r;
}
static inline void bounded_free(bounded_run *r) {
    for (uint32_t i = 0; i <= r->graph->next_id; i++) free(r->rivals[i]);
    dl_interp_free(r->value), dl_interp_free(r->bound), dl_interp_free(r->size),
        dl_interp_free(r->terms);
    free(r->added), free(r->rivals), free(r);
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

/* The effect of rounding the terms of operand k on a product, where they are multiplied one by one:
 * `terms` is the size of all. Where the sum is not exact, its own error has room for it. */
static inline double of_factor(int k, const double *a, const double *ea, double terms) {
    double other = a[1 - k];
    return ea[k] == 0 && terms > fabs(a[k]) && !is_round(other) ? (terms - fabs(a[k])) * fabs(other)
                                                                : 0;
}

/* Does the op leave a sum what it is, but for signs? */
static inline bool keeps_sum(const dl_node *n) {
    bool cast = n->op == DL_OP_cast && dl_dtype_is_float(n->out[0].type.dtype);
    return n->op == DL_OP_neg || n->op == DL_OP_stop_gradient || n->op == DL_OP_updated || cast;
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
    /* An element compared with its own extreme: the two are one number where it has no rival. */
    bool mine = n->op == DL_OP_eq && is_extreme(n->in[1]) && n->in[1]->def->in[0] == n->in[0];
    for (int64_t i = 0; i < count; i++, step_on(&y->type, at)) {
        double a[3] = {0}, ea[3] = {0}, of[3] = {0}, sum = 0;
        for (int k = 0; k < n->nin; k++) {
            int64_t from = place_at(&y->type, at, stride[k]);
            a[k] = dl_interp_data(r->value, n->in[k])[from],
            ea[k] = dl_interp_data(r->bound, n->in[k])[from];
            sum += of[k] = dl_interp_data(r->terms, n->in[k])[from];
        }
        if (adds || keeps_sum(n)) terms[i] = sum;
        bool exact =
            ea[0] == 0 && ea[1] == 0 && fits_type(y->type.dtype, v[i]) &&
            (n->op == DL_OP_add || n->op == DL_OP_sub || n->op == DL_OP_mul || n->op == DL_OP_cast);
        double h = n->op == DL_OP_cast ? bound_cast(&n->in[0]->type, &y->type, v[i], a[0], ea[0])
                                       : handed_on(n->op, v[i], a, ea, p);
        if (n->nin == 2 && n->in[0] == n->in[1] && y->type.dtype == DL_BOOL && !isnan(a[0])) h = 0;
        if (mine && r->rivals[n->in[1]->id][place_at(&y->type, at, stride[1])] == 1) h = 0;
        if (n->op == DL_OP_cast && dl_dtype_is_float(n->in[0]->type.dtype) &&
            unit_of(n->in[0]->type.dtype) >= u)
            exact = true; /* to a type at least as wide */
        if (adds && on)
            exact &= !dl_dtype_is_half(y->type.dtype) && is_round(v[i]) && is_round(sum);
        if (adds && !exact) h += own * (sum - fabs(v[i]));
        for (int k = 0; k < 2 && n->op == DL_OP_mul; k++) h += own * of_factor(k, a, ea, of[k]);
        e[i] = with_rounding(y->type.dtype, v[i], h, exact ? 0 : own);
    }
    r->added[y->id] = adds || (keeps_sum(n) && on);
}

/* sum and mean: the sizes of what was summed decide. */
static inline void bound_sum(bounded_run *r, const dl_node *n) {
    const dl_value *x = n->in[0], *y = &n->out[0];
    const double *v = dl_interp_data(r->value, y), *a = dl_interp_data(r->value, x);
    double *e = dl_interp_data(r->bound, y), *ea = dl_interp_data(r->bound, x),
           *s = dl_interp_data(r->size, y), *all = dl_interp_data(r->terms, y);
    const double *parts = dl_interp_data(r->terms, x);
    int64_t at[DL_MAX_RANK] = {0}, stride[DL_MAX_RANK], from = dl_type_count(&x->type),
            to = dl_type_count(&y->type);
    double terms = to ? (double)from / (double)to : 0, u = unit_of(y->type.dtype),
           sums = unit_of_sum(y->type.dtype);
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
        bool exact = !rough[i] && is_round(s[i]) && !dl_dtype_is_half(y->type.dtype) &&
                     (n->op == DL_OP_sum || fits_f32(share));
        all[i] = share * (all[i] + roundings(terms) * s[i]);
        e[i] = exact ? 0
                     : with_rounding(y->type.dtype, v[i],
                                     share * (e[i] + of_terms(terms) * sums * s[i]), 2 * u);
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

/* Does an image come from a weight that is not finite? Then what stands for the places outside
 * counts: zeros, whose products are NaN, or no products at all, as in PyTorch's several
 * convolutions. In f64 they are none. */
static inline bool meets_edges(const bounded_run *r, const dl_node *n) {
    if (!dl_op_slides(n->op) || dl_op_makes_weight(n->op)) return false;
    if (n->out[0].type.dtype == DL_F64) return false;
    const dl_value *w = n->in[dl_op_place(n->op, DL_TENSOR_W)];
    for (int64_t i = 0; i < dl_type_count(&w->type); i++)
        if (!isfinite(dl_interp_data(r->value, w)[i])) return true;
    return false;
}

/* Sums of products: the same contraction of sizes. */
static inline bool bound_contraction(bounded_run *r, const dl_node *n, dl_error *err) {
    const dl_value *y = &n->out[0];
    int64_t count = dl_type_count(&y->type);
    const double *v = dl_interp_data(r->value, y);
    double *e = dl_interp_data(r->bound, y), *s = dl_interp_data(r->size, y),
           u = unit_of(y->type.dtype), sums = unit_of_sum(y->type.dtype);
    bool exact = !dl_dtype_is_half(y->type.dtype);
    for (int k = 0; k < 2; k++) {
        const double *a = dl_interp_data(r->value, n->in[k]),
                     *ea = dl_interp_data(r->bound, n->in[k]);
        double *size = dl_interp_data(r->size, n->in[k]);
        for (int64_t i = 0; i < dl_type_count(&n->in[k]->type); i++)
            size[i] = fabs(a[i]),
            exact &= ea[i] == 0 && fabs(a[i]) < 64 && a[i] * 8 == rint(a[i] * 8);
    }
    if (!dl_interp_node(r->size, n, err)) return false;
    for (int64_t i = 0; i < count; i++) e[i] = s[i], exact &= s[i] < 0x1p15;
    for (int k = 0; k < 2; k++) {
        const double *a = dl_interp_data(r->value, n->in[k]),
                     *ea = dl_interp_data(r->bound, n->in[k]);
        double *size = dl_interp_data(r->size, n->in[k]);
        for (int64_t i = 0; i < dl_type_count(&n->in[k]->type); i++) size[i] = fabs(a[i]) + ea[i];
    }
    if (!dl_interp_node(r->size, n, err)) return false;
    dl_relation relation = dl_relation_of(n);
    double terms = (double)dl_relation_k_extent(&relation);
    bool open = meets_edges(r, n);
    for (int64_t i = 0; i < count; i++) {
        double h = open ? INFINITY : s[i] - e[i] + of_terms(terms) * sums * s[i];
        dl_interp_data(r->terms, y)[i] = roundings(terms) * s[i];
        e[i] = exact ? 0 : with_rounding(y->type.dtype, v[i], isnan(h) ? INFINITY : h, 2 * u);
    }
    return true;
}

/* ---- by number ---- */

/* The elements of an axis that a number may mean, by its own error; -1 and `size` are none. */
typedef struct {
    int64_t first, last;
} meant;
static inline meant meant_by(double number, double e, int64_t size) {
    double first = fmin(fmax(number - e, -1), (double)size),
           last = fmax(fmin(number + e, (double)size), -1);
    return (meant){(int64_t)ceil(first), (int64_t)floor(last)};
}

/* A walk over what gather makes or scatter_add takes: for each element its number's place and, in
 * `along`, whose axis of `size` the numbers go along, that of element 0, `own` from one to the
 * next. */
typedef struct {
    int64_t number[DL_MAX_RANK], place[DL_MAX_RANK], at[DL_MAX_RANK], own, size;
} numbered;
static inline numbered numbered_along(const dl_node *n, const dl_type *whole,
                                      const dl_type *along) {
    int axis = dl_type_axis(along, dl_node_name(n, DL_ATTR_axis)),
        same = dl_type_axis(whole, along->axis[axis].name);
    numbered w = {.own = 1, .size = along->axis[axis].size};
    for (int i = axis + 1; i < along->rank; i++) w.own *= along->axis[i].size;
    strides_along(&n->in[1]->type, whole, w.number), strides_along(along, whole, w.place);
    if (same >= 0) w.place[same] = 0;
    return w;
}

/* The furthest of the elements that the number may mean. */
static inline void bound_gather(bounded_run *r, const dl_node *n) {
    const dl_value *x = n->in[0], *y = &n->out[0];
    const double *v = dl_interp_data(r->value, y), *a = dl_interp_data(r->value, x),
                 *ea = dl_interp_data(r->bound, x), *parts = dl_interp_data(r->terms, x),
                 *k = dl_interp_data(r->value, n->in[1]), *ek = dl_interp_data(r->bound, n->in[1]);
    double *e = dl_interp_data(r->bound, y), *all = dl_interp_data(r->terms, y);
    numbered w = numbered_along(n, &y->type, &x->type);
    for (int64_t i = 0; i < dl_type_count(&y->type); i++, step_on(&y->type, w.at)) {
        int64_t from = place_at(&y->type, w.at, w.number), p = place_at(&y->type, w.at, w.place);
        meant m = meant_by(k[from], ek[from], w.size);
        e[i] = all[i] = 0;
        for (int64_t j = m.first; j <= m.last; j++) {
            bool there = j >= 0 && j < w.size;
            double other = there ? a[p + j * w.own] : dl_dtype_is_float(y->type.dtype) ? NAN : 0;
            double far = furthest(v[i], &other, 1) + (there ? ea[p + j * w.own] : 0);
            e[i] = isnan(far) ? INFINITY : fmax(e[i], far);
            all[i] = fmax(all[i], there ? parts[p + j * w.own] : 0);
        }
    }
    r->added[y->id] = r->added[x->id];
}

/* A sum; a number that may mean several elements brings each of them the whole size of what it
 * takes there. */
static inline void bound_scatter_add(bounded_run *r, const dl_node *n) {
    const dl_value *x = n->in[0], *y = &n->out[0];
    const double *v = dl_interp_data(r->value, y), *a = dl_interp_data(r->value, x),
                 *ea = dl_interp_data(r->bound, x), *parts = dl_interp_data(r->terms, x),
                 *k = dl_interp_data(r->value, n->in[1]), *ek = dl_interp_data(r->bound, n->in[1]);
    double *e = dl_interp_data(r->bound, y), *s = dl_interp_data(r->size, y),
           *all = dl_interp_data(r->terms, y), u = unit_of(y->type.dtype);
    int64_t to = dl_type_count(&y->type), *terms = calloc((size_t)to + 1, sizeof *terms);
    bool *rough = calloc((size_t)to + 1, sizeof *rough);
    numbered w = numbered_along(n, &x->type, &y->type);
    for (int64_t i = 0; i < to; i++) e[i] = s[i] = all[i] = 0;
    for (int64_t i = 0; i < dl_type_count(&x->type); i++, step_on(&x->type, w.at)) {
        int64_t from = place_at(&x->type, w.at, w.number),
                first = place_at(&x->type, w.at, w.place);
        meant m = meant_by(k[from], ek[from], w.size);
        for (int64_t j = m.first < 0 ? 0 : m.first; j <= m.last && j < w.size; j++) {
            int64_t p = first + j * w.own;
            double far = ea[i] + (m.first < m.last ? fabs(a[i]) : 0);
            e[p] += far, s[p] += fabs(a[i]) + ea[i], all[p] += parts[i] - fabs(a[i]), terms[p]++;
            rough[p] |= far != 0 || !is_round(a[i]);
        }
    }
    for (int64_t i = 0; i < to; i++) {
        double many = (double)terms[i];
        all[i] += roundings(many) * s[i];
        e[i] = !rough[i] && is_round(s[i])
                   ? 0
                   : with_rounding(y->type.dtype, v[i], e[i] + of_terms(many) * u * s[i], 2 * u);
    }
    free(terms), free(rough);
}

/* Where the numbers are sure, the largest is off by as much as the worst of its values. Otherwise
 * it may be any of those that may be there, or 0. */
static inline void bound_scatter_max(bounded_run *r, const dl_node *n) {
    const dl_value *x = n->in[0], *y = &n->out[0];
    const double *v = dl_interp_data(r->value, y), *a = dl_interp_data(r->value, x),
                 *ea = dl_interp_data(r->bound, x), *parts = dl_interp_data(r->terms, x),
                 *k = dl_interp_data(r->value, n->in[1]), *ek = dl_interp_data(r->bound, n->in[1]);
    double *e = dl_interp_data(r->bound, y), *all = dl_interp_data(r->terms, y);
    int64_t to = dl_type_count(&y->type);
    numbered w = numbered_along(n, &x->type, &y->type);
    for (int64_t i = 0; i < to; i++) e[i] = all[i] = 0;
    for (int64_t i = 0; i < dl_type_count(&x->type); i++, step_on(&x->type, w.at)) {
        int64_t from = place_at(&x->type, w.at, w.number),
                first = place_at(&x->type, w.at, w.place);
        meant m = meant_by(k[from], ek[from], w.size);
        for (int64_t j = m.first < 0 ? 0 : m.first; j <= m.last && j < w.size; j++) {
            int64_t p = first + j * w.own;
            double far = m.first == m.last ? 0 : fmax(furthest(v[p], &a[i], 1), fabs(v[p]));
            e[p] = isnan(far + ea[i]) ? INFINITY : fmax(e[p], far + ea[i]);
            all[p] = fmax(all[p], parts[i]);
        }
    }
}

/* Errors and sums move with their elements. */
static inline bool bound_move(bounded_run *r, const dl_node *n, dl_error *err) {
    if (n->op == DL_OP_gather) return bound_gather(r, n), true;
    if (n->op == DL_OP_scatter_add) return bound_scatter_add(r, n), true;
    if (n->op == DL_OP_scatter_max) return bound_scatter_max(r, n), true;
    if (!dl_interp_node(r->bound, n, err) || !dl_interp_node(r->terms, n, err)) return false;
    for (int k = 0; k < n->nin; k++) r->added[n->out[0].id] |= r->added[n->in[k]->id];
    return true;
}

/* Sizes of what a value's elements are the sum of: their own, where they are none. */
static inline void set_terms(bounded_run *r, const dl_value *v) {
    const double *a = dl_interp_data(r->value, v);
    double *terms = dl_interp_data(r->terms, v);
    for (int64_t i = 0; i < dl_type_count(&v->type); i++) terms[i] = fabs(a[i]);
}

/* May two numbers be in the other order? Equal ones without errors are not. */
static inline bool may_swap(bounded_numbers x, int64_t i, int64_t j) {
    double off = x.e[i] + x.e[j];
    return off != 0 && !(fabs(x.v[i] - x.v[j]) > off);
}

/* Places are exact where the order is sure, and anything where two numbers may swap. */
static inline void bound_argsort(const dl_node *n, bounded_numbers x, double *e) {
    const dl_type *t = &n->in[0]->type;
    int axis = dl_type_axis(t, dl_node_attr(n, DL_ATTR_axis)->s);
    int64_t size = t->axis[axis].size, inner = 1;
    for (int i = axis + 1; i < t->rank; i++) inner *= t->axis[i].size;
    for (int64_t at = 0; at < dl_type_count(t); at++) {
        int64_t first = at - at / inner % size * inner;
        bool unsure = false;
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j < i; j++)
                unsure |= may_swap(x, first + i * inner, first + j * inner);
        e[at] = unsure ? (double)size : 0;
    }
}

static inline void bound_template(bounded_run *r, const dl_node *n) {
    bounded_numbers in[2] = {0};
    for (int i = 0; i < n->nin && i < 2; i++)
        in[i] = (bounded_numbers){dl_interp_data(r->value, n->in[i]),
                                  dl_interp_data(r->bound, n->in[i])};
    const double *y = dl_interp_data(r->value, &n->out[0]);
    double *e = dl_interp_data(r->bound, &n->out[0]);
    if (n->op == DL_OP_fourier)
        bound_fourier(n, in[0], y, e);
    else if (n->op == DL_OP_complex_contract)
        bound_complex(n, in[0], in[1], y, e);
    else if (n->op == DL_OP_scan_linear)
        bound_scan(n, in[DL_SCAN_B], n->nin > DL_SCAN_A ? &in[DL_SCAN_A] : NULL, y, e);
    else if (n->op == DL_OP_argsort)
        bound_argsort(n, in[0], e);
    else
        DL_CHECK(!"a template whose errors are bounded");
}

/* Values and bounds of every node; variables' values stand in r->value already. False: the
 * interpreter's error. */
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
        case DL_CLASS_TEMPLATE: bound_template(r, n); break;
        case DL_CLASS_MOVE:
            if (!bound_move(r, n, err)) return false;
            break;
        default: /* sources */
            for (int64_t k = 0; k < dl_type_count(&y->type); k++) {
                double v = dl_interp_data(r->value, y)[k];
                dl_interp_data(r->bound, y)[k] =
                    !fits_type(y->type.dtype, v) && y->type.dtype != DL_F64
                        ? REWRITES * unit_of(y->type.dtype) * fabs(v)
                        : 0;
            }
        }
    }
    return true;
}
#endif
