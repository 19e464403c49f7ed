/* Complex contractions by their definition, and the ranges in which float32 results may lie. */
#include <math.h>

#include "ir/complex.h"
#include "ir/interp/interp_parts.h"

typedef struct {
    double re, im, size; /* size: the sum of the terms' magnitudes */
} total;

static total sum_terms(const dl_complex_contract *c, const double *a, const double *b) {
    total s = {0};
    for (int64_t k = 0; k < c->terms.count; k++) {
        int64_t at[DL_COMPLEX_TENSORS];
        dl_complex_offsets(&c->terms, k, at);
        const double *x = a + 2 * at[DL_COMPLEX_A], *w = b + 2 * at[DL_COMPLEX_B];
        double xi = c->conj[0] ? -x[1] : x[1], wi = c->conj[1] ? -w[1] : w[1];
        s.re += x[0] * w[0] - xi * wi, s.im += x[0] * wi + xi * w[0];
        s.size += (fabs(x[0]) + fabs(xi)) * (fabs(w[0]) + fabs(wi));
    }
    return s;
}

static void put(const dl_interp_ends *to, dl_dtype type, int64_t terms, int64_t at, double value,
                double size) {
    double tiny = type == DL_F32 ? 0x1p-125 : 0;
    double off = dl_sum_slack(type, 2 * terms + 1, size, 0, 0) + (double)(2 * terms) * tiny;
    dl_range r = dl_range_store(type, (dl_range){value, value - off, value + off});
    bool finite = isfinite(value) && isfinite(off);
    to->low[0][at] = finite ? r.low : -INFINITY;
    to->high[0][at] = finite ? r.high : INFINITY;
}

void dl_interp_complex_contract(const dl_node *n, double *const *data, bool round,
                                const dl_interp_ends *ends) {
    dl_complex_contract c = dl_complex_contract_of(n);
    (void)round;
    for (int64_t o = 0; o < c.batch.count; o++)
        for (int64_t r = 0; r < c.rows.count; r++)
            for (int64_t k = 0; k < c.columns.count; k++) {
                int64_t at[3][DL_COMPLEX_TENSORS], first[DL_COMPLEX_TENSORS];
                dl_complex_offsets(&c.batch, o, at[0]), dl_complex_offsets(&c.rows, r, at[1]);
                dl_complex_offsets(&c.columns, k, at[2]);
                for (int t = 0; t < DL_COMPLEX_TENSORS; t++)
                    first[t] = 2 * (at[0][t] + at[1][t] + at[2][t]);
                for (int64_t i = 0; i < 2 * c.lanes; i += 2) {
                    total s = sum_terms(&c, data[0] + first[DL_COMPLEX_A] + i,
                                        data[1] + first[DL_COMPLEX_B] + i);
                    double *y = data[2] + first[DL_COMPLEX_Y] + i;
                    y[0] = s.re, y[1] = s.im;
                    for (int p = 0; ends && p < 2; p++)
                        put(ends, n->in[0]->type.dtype, c.terms.count, y - data[2] + p, y[p],
                            s.size);
                }
            }
}
