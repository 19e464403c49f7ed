/* How far one number in f32 may be from the same in double precision: what an op makes of its
 * operands' errors, and its own rounding. error_bound.h says what for. */
#ifndef DL_ERROR_SCALAR_H
#define DL_ERROR_SCALAR_H
#include <math.h>

#include "ir/interp/interp.h"

#define REWRITES 4.0

static inline double unit_of(dl_dtype d) {
    static const double units[DL_NDTYPES] = {
        [DL_F32] = 0x1p-24, [DL_F64] = 0x1p-53, [DL_F16] = 0x1p-11, [DL_BF16] = 0x1p-8};
    return units[d];
}
/* The type in which the elements of a sum are added up. */
static inline double unit_of_sum(dl_dtype d) { return unit_of(dl_kernel_type(d)); }

/* Units that a function's result may be off by, everywhere it is called exact to the last bit or
 * two. */
static inline double accuracy(dl_op op) {
    switch (op) {
    case DL_OP_tanh:
    case DL_OP_sigmoid: return 8;
    case DL_OP_add:
    case DL_OP_sub:
    case DL_OP_mul:
    case DL_OP_div:
    case DL_OP_sqrt:
    case DL_OP_leaky_relu:
    case DL_OP_cast: return 1;
    case DL_OP_updated:
    case DL_OP_stop_gradient: /* as the cheap ops that are left: chooses, compares, changes a sign
                               */
    case DL_OP_abs:
    case DL_OP_floor:
    case DL_OP_relu:
    case DL_OP_sign: return 0;
    default: return dl_ops[op].class == DL_CLASS_ELEM && !dl_op_is_trivial(op) ? 4 : 0;
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

/* The range of a function that only rises or only falls: its ends. */
static inline double by_ends(dl_op op, double v, double a, double e, double p) {
    double ends[] = {dl_interp_scalar(op, a - e, 0, 0, p), dl_interp_scalar(op, a + e, 0, 0, p)};
    return e == 0 ? 0 : isinf(e) ? INFINITY : furthest(v, ends, 2);
}

/* The range of any function that is smooth between the ends: twice what is seen at some places. */
static inline double by_places(dl_op op, double v, double a, double e, double p) {
    enum { PLACES = 9 };
    double seen[PLACES];
    for (int i = 0; i < PLACES && e > 0 && isfinite(e); i++)
        seen[i] = dl_interp_scalar(op, a + e * (2.0 * i / (PLACES - 1) - 1), 0, 0, p);
    return e == 0 ? 0 : isinf(e) ? INFINITY : 2 * furthest(v, seen, PLACES);
}

static inline double by_corners(dl_op op, double v, const double *a, const double *e) {
    double corners[4];
    for (int i = 0; i < 4; i++)
        corners[i] = dl_interp_scalar(op, a[0] + (i & 1 ? e[0] : -e[0]),
                                      a[1] + (i & 2 ? e[1] : -e[1]), 0, 0);
    return furthest(v, corners, 4);
}

static inline double bound_cast(const dl_type *from, const dl_type *to, double v, double a,
                                double e) {
    if (dl_dtype_is_float(to->dtype) || e == 0) return e;
    if (to->dtype == DL_BOOL) return fabs(a) > e ? 0 : 1;
    (void)from;
    double ends[] = {trunc(a - e), trunc(a + e)};
    return furthest(v, ends, 2);
}

/* The effect of errors `e` of operands `a` on v = op(a). An operand beyond f32's range may be no
 * number, which not even a function between -1 and 1 bounds. */
static inline double handed_on(dl_op op, double v, const double *a, const double *e, double p) {
    double d = fabs(a[0] - a[1]), both = e[0] + e[1];
    switch (op) {
    case DL_OP_neg:
    case DL_OP_stop_gradient:
    case DL_OP_updated:
    case DL_OP_abs: return e[0];
    case DL_OP_add:
    case DL_OP_sub: return both;
    case DL_OP_mul: return fabs(a[0]) * e[1] + fabs(a[1]) * e[0] + e[0] * e[1];
    case DL_OP_div:
        return fabs(a[1]) <= e[1] ? INFINITY : (e[0] + fabs(v) * e[1]) / (fabs(a[1]) - e[1]);
    case DL_OP_sin:
    case DL_OP_cos: return isinf(e[0]) ? INFINITY : fmin(e[0], 2);
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
    case DL_OP_sign: return fabs(a[0]) > e[0] || e[0] == 0 ? 0 : isinf(e[0]) ? INFINITY : 2;
    case DL_OP_pow:
        if (both == 0) return 0;
        if (fabs(a[0]) <= e[0] && (a[1] - e[1] < 1 || a[1] != rint(a[1]))) return INFINITY;
        return by_corners(op, v, a, e);
    case DL_OP_atan2: /* the distance from the origin bounds the slope; left of it the angle jumps
                       */
        if (both == 0) return 0;
        if (hypot(a[0], a[1]) <= hypot(e[0], e[1]) || (a[1] <= e[1] && fabs(a[0]) <= e[0]))
            return INFINITY;
        return hypot(e[0], e[1]) / (hypot(a[0], a[1]) - hypot(e[0], e[1]));
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
    default: /* of several operands and without a rule an op is not checked: bounded_op says so */
        return dl_ops[op].arity == 1 ? by_places(op, v, a[0], e[0], p) : INFINITY;
    }
}
/* Is there a rule for this pointwise op? Everything else follows from its class. */
static inline bool bounded_op(dl_op op) {
    double zero[3] = {0};
    return dl_ops[op].class != DL_CLASS_ELEM || op == DL_OP_cast || op == DL_OP_div ||
           op == DL_OP_pow || handed_on(op, 0, zero, zero, 0) == 0;
}

/* A multiple of 1/64 below 2^15: sums and products of a few such are exact in f32. */
static inline bool is_round(double v) { return fabs(v) < 0x1p15 && v * 64 == rint(v * 64); }
static inline bool fits_f32(double v) { return (double)(float)v == v; }
static inline bool fits_type(dl_dtype d, double v) {
    return fits_f32(v) && (!dl_dtype_is_half(d) || dl_interp_convert(d, v, true) == v);
}

static inline double with_rounding(dl_dtype d, double v, double e, double own) {
    double all = e + own * (fabs(v) + e);
    if (own > 0 && (d == DL_F32 || d == DL_BF16))
        all += d == DL_F32 ? 0x1p-140 : 0x1p-130; /* below the normal range, units are absolute */
    if (own > 0 && d == DL_F16) all += 0x1p-22;
    double most = d == DL_F32 || d == DL_BF16 ? 3e38
                  : d == DL_F16               ? 65500
                  : d == DL_I32               ? 0x1p31
                  : d == DL_I64               ? 0x1p53
                                              : INFINITY;
    return !(fabs(v) + all < most) ? INFINITY : all;
}

/* How many roundings of its size a sum of n terms may be off by. */
static inline double roundings(double n) { return ceil(fmin(n, 8 * sqrt(n))); }
static inline double of_terms(double n) { return REWRITES * roundings(n); }
#endif
