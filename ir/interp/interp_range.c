/* Ranges: between which two numbers a float32 computation of a value may end, if double precision
 * gives `at`.
 *
 * This is interval arithmetic plus the rounding of each operation. u is the element type's unit
 * roundoff, 2^-24 for f32: an operation that rounds once has an error of at most u times its
 * result. A discontinuity (a comparison, floor, sign, a cast to integers) inside a range gives the
 * range of both sides' results.
 *
 * f16 and bf16 are storage types: values are computed in f32 and then rounded. Rounding is
 * monotonic, so the rounded ends are the ends of the rounded range. */
#include <float.h>
#include <math.h>

#include "ir/interp/interp_parts.h"

static double unit_of(dl_dtype d) {
    static const double units[DL_NDTYPES] = {[DL_F32] = 0x1p-24, [DL_F64] = 0x1p-53};
    return units[d];
}

/* Roundings of one op, in u. The vectors' exp, erf and tanh promise 2, 2 and 3 ulp, each of up to
 * 2 u; sigmoid adds a sum and a division to exp; the C library promises 1 ulp. An op that does not
 * say gets the largest number. */
static double roundings_of(dl_op op) {
    enum { WORST = 6 };
    int known = dl_op_roundings(op);
    return known < 0 ? WORST : known;
}

static dl_range whole(double at) { return (dl_range){at, -INFINITY, INFINITY}; }

dl_range dl_range_exact(double at) { return (dl_range){at, at, at}; }

dl_range dl_range_store(dl_dtype type, dl_range r) {
    bool round = dl_dtype_is_half(type);
    return (dl_range){dl_interp_convert(type, r.at, round), dl_interp_convert(type, r.low, round),
                      dl_interp_convert(type, r.high, round)};
}

dl_range dl_range_widen(dl_dtype type, dl_range r, double roundings) {
    if (dl_dtype_is_half(type)) return dl_range_store(type, dl_range_widen(DL_F32, r, roundings));
    double u = unit_of(type) * roundings;
    if (u == 0) return r;
    double least = type == DL_F32 ? roundings * 0x1p-149
                                  : 0; /* below the normal range the size of an ulp is constant */
    r.low -= u * fabs(r.low) + least, r.high += u * fabs(r.high) + least;
    if (type == DL_F32 && r.high > (double)FLT_MAX) r.high = INFINITY;
    if (type == DL_F32 && r.low < -(double)FLT_MAX) r.low = -INFINITY;
    return r;
}

/* A range's ends, and zero if it is inside: the extrema of the table's functions are among these.
 */
static int points_of(dl_range r, double points[3]) {
    int n = 0;
    if (r.low == r.high || isnan(r.low)) return points[0] = r.at, 1;
    points[n++] = r.low, points[n++] = r.high;
    if (r.low < 0 && r.high > 0) points[n++] = 0;
    return n;
}

static void take_in(dl_range *r, double v) {
    if (isnan(v) && !isnan(r->at)) *r = whole(r->at);
    if (v < r->low) r->low = v;
    if (v > r->high) r->high = v;
}

static bool overlap(dl_range a, dl_range b) { return a.low <= b.high && b.low <= a.high; }

/* Ops whose range does not follow from values at the ends and at zero; true when it was handled. */
static bool special(const dl_kinstr *in, const dl_range *arg, dl_range *r) {
    dl_range a = arg[0], b = arg[1];
    switch (in->op) {
    case DL_OP_sin:
    case DL_OP_cos: { /* its slope is at most 1 */
        double reach = fmax(a.high - a.at, a.at - a.low), at = r->at;
        *r =
            isfinite(reach) ? (dl_range){at, fmax(-1, at - reach), fmin(1, at + reach)} : whole(at);
        return true;
    }
    case DL_OP_div: /* a divisor of either sign */
        if (b.low < b.high && b.low <= 0 && b.high >= 0) return *r = whole(r->at), true;
        return false;
    case DL_OP_atan2: /* left of the origin the angle jumps from -pi to pi */
        if (a.low > 0 || a.high < 0 || b.low > 0 || (a.low == a.high && b.low == b.high))
            return false;
        return *r = whole(r->at), true;
    case DL_OP_eq:
    case DL_OP_ne: /* values may be equal inside, even if no ends are */
        if (!overlap(a, b) || (a.low == a.high && b.low == b.high)) return false;
        return r->low = 0, r->high = 1, true;
    case DL_OP_mul: /* a square is not the product of two independent ranges */
        if (in->args[0] != in->args[1]) return false;
        r->low = a.low <= 0 && a.high >= 0 ? 0 : fmin(a.low * a.low, a.high * a.high);
        r->high = fmax(a.low * a.low, a.high * a.high);
        return true;
    default: return false;
    }
}

static double value_of(const dl_kinstr *in, double a, double b, double c) {
    double v = dl_interp_scalar(in->op, a, b, c, in->p);
    return dl_dtype_is_float(in->type) ? v : dl_interp_convert(in->type, v, false);
}

static dl_range elem(const dl_kinstr *in, dl_range a, dl_range b, dl_range c) {
    dl_range args[] = {a, b, c};
    double pa[3], pb[3], pc[3];
    dl_range r = dl_range_exact(value_of(in, a.at, b.at, c.at));
    if (!special(in, args, &r)) {
        int na = points_of(a, pa), nb = points_of(b, pb), nc = points_of(c, pc);
        for (int i = 0; i < na; i++)
            for (int j = 0; j < nb; j++)
                for (int k = 0; k < nc; k++) take_in(&r, value_of(in, pa[i], pb[j], pc[k]));
    }
    bool rounds_p =
        (double)(float)in->p != in->p; /* its attribute is rounded, as a constant would be */
    r = dl_range_widen(in->type, r, roundings_of(in->op) + rounds_p);
    if (in->op == DL_OP_sigmoid && in->type != DL_F64 && r.low < 0x1p-126)
        r.low = 0; /* its exp overflows */
    r.at = dl_interp_convert(in->type, r.at, true);
    return r;
}

static inline double least_of(double a, double b) { return a < b ? a : b; }
static inline double most_of(double a, double b) { return a > b ? a : b; }

/* A fast path for most programs: sums, differences, products and quotients in f32, without a call
 * for each corner. False: another op, or a number that is not finite. */
static bool quick(const dl_kinstr *in, const dl_ranges *arg, dl_ranges to, int n) {
    const double u = 0x1p-24, least = 0x1p-149;
    const double *a = arg[0].at, *al = arg[0].low, *ah = arg[0].high;
    const double *b = arg[1].at, *bl = arg[1].low, *bh = arg[1].high;
    double *restrict low = to.low, *restrict high = to.high, *restrict at = to.at, bad = 0;
    if (in->type != DL_F32) return false;
    if (in->op == DL_OP_add) {
        for (int k = 0; k < n; k++)
            at[k] = a[k] + b[k], low[k] = al[k] + bl[k], high[k] = ah[k] + bh[k];
    } else if (in->op == DL_OP_sub) {
        for (int k = 0; k < n; k++)
            at[k] = a[k] - b[k], low[k] = al[k] - bh[k], high[k] = ah[k] - bl[k];
    } else if (in->op == DL_OP_mul &&
               in->args[0] == in->args[1]) { /* not the product of two independent ranges */
        for (int k = 0; k < n; k++) {
            double ll = al[k] * al[k], hh = ah[k] * ah[k];
            at[k] = a[k] * a[k], high[k] = most_of(ll, hh);
            low[k] = al[k] <= 0 && ah[k] >= 0 ? 0 : least_of(ll, hh);
        }
    } else if (in->op == DL_OP_mul || in->op == DL_OP_div) {
        bool div = in->op == DL_OP_div;
        for (int k = 0; k < n; k++) {
            bool either = div && bl[k] <= 0 && bh[k] >= 0; /* the divisor may have either sign */
            double ll = div ? al[k] / bl[k] : al[k] * bl[k],
                   lh = div ? al[k] / bh[k] : al[k] * bh[k];
            double hl = div ? ah[k] / bl[k] : ah[k] * bl[k],
                   hh = div ? ah[k] / bh[k] : ah[k] * bh[k];
            at[k] = div ? a[k] / b[k] : a[k] * b[k];
            low[k] = least_of(least_of(ll, lh), least_of(hl, hh));
            high[k] = most_of(most_of(ll, lh), most_of(hl, hh));
            bad += 0 * (either ? INFINITY : ll + lh + hl + hh); /* a NaN stays one */
        }
    } else if (in->op == DL_OP_sqrt) {
        for (int k = 0; k < n; k++) at[k] = sqrt(a[k]), low[k] = sqrt(al[k]), high[k] = sqrt(ah[k]);
    } else {
        return false;
    }
    for (int k = 0; k < n; k++) bad += 0 * (low[k] + high[k]);
    if (isnan(bad)) return false;
    for (int k = 0; k < n; k++) { /* dl_range_widen by one rounding */
        low[k] -= u * fabs(low[k]) + least, high[k] += u * fabs(high[k]) + least;
        high[k] = high[k] > (double)FLT_MAX ? INFINITY : high[k];
        low[k] = low[k] < -(double)FLT_MAX ? -INFINITY : low[k];
        at[k] = (double)(float)at[k];
    }
    return true;
}

void dl_range_elems(const dl_kinstr *in, const dl_ranges arg[3], dl_ranges to, int n) {
    if (quick(in, arg, to, n)) return;
    for (int k = 0; k < n; k++)
        dl_ranges_put(
            to, k,
            elem(in, dl_ranges_get(arg[0], k), dl_ranges_get(arg[1], k), dl_ranges_get(arg[2], k)));
}

/* The error grows as the square root of the number of terms (each step's error has either sign;
 * Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput.
 * 41, 2019), and never faster than linearly, whatever the order. The bound is 4 standard
 * deviations of steps with maximal errors; real errors are 2 to 3 times smaller. One more rounding
 * is that of the product or the store. Where terms are similar (a constant summed a million times)
 * the errors have one sign; twice the error of a plain float32 loop is allowed, too. */
double dl_sum_slack(dl_dtype type, int64_t terms, double size, double at, double chain) {
    if (dl_dtype_is_half(type)) type = DL_F32;
    double n = (double)terms, lost = type == DL_F32 ? 2 * fabs(at - chain) : 0;
    return unit_of(type) * (fmin(n, 4 * sqrt(n)) + 1) * size + (isfinite(lost) ? lost : 0);
}

void dl_range_add(dl_range_sum *s, dl_range term) {
    if (!s->terms++) s->least = term.low, s->most = term.high;
    s->least = fmin(s->least, term.low), s->most = fmax(s->most, term.high);
    s->sum.at += term.at, s->sum.low += term.low, s->sum.high += term.high;
    s->size += fmax(fabs(term.low), fabs(term.high));
    s->chain = (double)(float)(s->chain + term.at);
}

dl_range dl_range_of_sum(dl_dtype type, const dl_range_sum *s) {
    dl_range r = s->sum;
    if (isnan(r.low) || isnan(r.high)) return whole(r.at);
    double slack = dl_sum_slack(type, s->terms, s->size, s->sum.at, s->chain);
    r = dl_range_widen(type, (dl_range){r.at, r.low - slack, r.high + slack}, 1);
    if (s->least >= 0)
        r.low = fmax(r.low, 0); /* sums of non-negative terms are not negative, even rounded */
    if (s->most <= 0) r.high = fmin(r.high, 0);
    r.at = dl_interp_convert(type, r.at, true);
    return r;
}
