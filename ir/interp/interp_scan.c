/* Linear scans step by step, and the ranges in which results may lie: intervals, of which a step's
 * is the next one's operand. */
#include <math.h>

#include "ir/interp/interp_parts.h"
#include "ir/scan.h"

typedef struct {
    dl_dtype type, stored; /* of the states; of results */
    const dl_interp_ends *ends;
} work;

static dl_range rounded(const work *w, dl_range r) {
    return w->ends && dl_dtype_is_float(w->type) ? dl_range_widen(w->type, r, 1) : r;
}

/* b + a h; the product may be rounded or not. */
static dl_range step(const work *w, double a, double b, dl_range h) {
    double low = a * h.low, high = a * h.high, any = 0 * (low + high); /* NaN where one is none */
    dl_range p = {a * h.at, fmin(low, high) + any, fmax(low, high) + any};
    if (w->ends && a != 1) p = rounded(w, p);
    return rounded(w, (dl_range){p.at + b, p.low + b, p.high + b});
}

static void put(const work *w, double *to, int64_t at, dl_range r) {
    to[at] = r.at;
    if (!w->ends) return;
    dl_range s = dl_dtype_is_float(w->stored) ? dl_range_store(w->stored, r) : dl_range_exact(r.at);
    bool known = isfinite(r.at) && s.low <= s.high;
    w->ends->low[0][at] = known ? s.low : -INFINITY;
    w->ends->high[0][at] = known ? s.high : INFINITY;
}

void dl_interp_scan_linear(const dl_node *n, double *const *data, bool round,
                           const dl_interp_ends *ends) {
    const dl_scan s = dl_scan_of(n);
    dl_dtype stored = n->out[0].type.dtype;
    const work w = {dl_dtype_is_half(stored) ? DL_F32 : stored, stored, ends};
    const double *b = data[DL_SCAN_B], *a = s.has_factors ? data[DL_SCAN_A] : NULL;
    int64_t next = s.reverse ? -s.inner : s.inner;
    (void)round;
    for (int64_t line = 0; line < s.outer * s.inner; line++) {
        int64_t first = line / s.inner * s.steps * s.inner + line % s.inner;
        int64_t at = s.reverse ? first + (s.steps - 1) * s.inner : first;
        dl_range h = {0};
        for (int64_t i = 0; i < s.steps; i++, at += next) {
            double factor = a && i ? a[s.before ? at - next : at] : 1;
            h = i ? step(&w, factor, b[at], h) : dl_range_exact(b[at]);
            put(&w, data[n->nin], at, h);
        }
    }
}
