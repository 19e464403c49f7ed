/* Error bounds of linear scans, for error_bound.h, step by step. */
#ifndef DL_ERROR_SCAN_H
#define DL_ERROR_SCAN_H
#include "ir/scan.h"
#include "tests/unit/error_complex.h"

/* a NULL: the factors are 1. */
static inline void bound_scan(const dl_node *n, bounded_numbers b, const bounded_numbers *a,
                              const double *y, double *e) {
    const dl_scan s = dl_scan_of(n);
    dl_dtype type = n->out[0].type.dtype;
    double u = 2 * unit_of(type);
    int64_t next = s.reverse ? -s.inner : s.inner;
    for (int64_t line = 0; line < s.outer * s.inner; line++) {
        int64_t at = line / s.inner * s.steps * s.inner + line % s.inner;
        if (s.reverse) at += (s.steps - 1) * s.inner;
        for (int64_t i = 0; i < s.steps; i++, at += next) {
            int64_t of = s.before ? at - next : at;
            double own = 0, size = fabs(b.v[at]) + b.e[at];
            if (i && a) {
                double far = fabs(a->v[of]) + a->e[of];
                own = far * e[at - next] + a->e[of] * fabs(y[at - next]);
                size += far * (fabs(y[at - next]) + e[at - next]);
            } else if (i) {
                own = e[at - next], size += fabs(y[at - next]) + own;
            }
            bool exact = !own && !b.e[at] && (!i || (!a && is_round(b.v[at]) && is_round(y[at])));
            e[at] = exact ? 0 : with_rounding(type, y[at], own + b.e[at] + u * size, u);
        }
    }
}
#endif
