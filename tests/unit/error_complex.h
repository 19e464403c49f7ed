/* Error bounds of Fourier transforms and complex contractions, for error_bound.h: the operands'
 * errors times the factors' sizes, and the roundings of a sum of as many terms. */
#ifndef DL_ERROR_COMPLEX_H
#define DL_ERROR_COMPLEX_H
#include "ir/complex.h"
#include "ir/fourier.h"
#include "tests/unit/error_scalar.h"

/* A value's numbers: themselves, and their errors' bounds. */
typedef struct {
    const double *v, *e;
} bounded_numbers;

/* Every number of a line's result may have the error that all of the line's have together. */
static inline void bound_fourier(const dl_node *n, bounded_numbers x, const double *y, double *e) {
    dl_fourier f = dl_fourier_of(n);
    bool makes_modes = dl_fourier_makes_modes(f.mode);
    int64_t in = makes_modes ? f.samples : f.modes, out = makes_modes ? f.modes : f.samples;
    int64_t of_x = f.mode == DL_FOURIER_R2C ? 1 : 2, of_y = f.mode == DL_FOURIER_C2R ? 1 : 2;
    dl_dtype type = n->out[0].type.dtype;
    double scale = fabs(f.scale) * (f.twice ? 2 : 1), stages = log2((double)f.size) + 2;
    for (int64_t o = 0; o < f.outer; o++)
        for (int64_t i = 0; i < f.inner; i++) {
            double size = 0, off = 0;
            for (int64_t k = 0; k < in * of_x; k++) {
                int64_t at = ((o * in + k / of_x) * f.inner + i) * of_x + k % of_x;
                size += fabs(x.v[at]) + x.e[at], off += x.e[at];
            }
            double rounded = (of_terms((double)(2 * in)) + 4 * stages) * unit_of(type) * size;
            for (int64_t k = 0; k < out * of_y; k++) {
                int64_t at = ((o * out + k / of_y) * f.inner + i) * of_y + k % of_y;
                e[at] = size == 0 ? 0
                                  : with_rounding(type, y[at], scale * (off + rounded),
                                                  2 * unit_of(type));
            }
        }
}

static inline void bound_complex(const dl_node *n, bounded_numbers a, bounded_numbers b,
                                 const double *y, double *e) {
    dl_complex_contract c = dl_complex_contract_of(n);
    dl_dtype type = n->out[0].type.dtype;
    int64_t results = c.batch.count * c.rows.count * c.columns.count;
    for (int64_t i = 0; i < results; i++) {
        int64_t at[3][DL_COMPLEX_TENSORS], first[DL_COMPLEX_TENSORS], k[DL_COMPLEX_TENSORS];
        dl_complex_offsets(&c.columns, i % c.columns.count, at[0]);
        dl_complex_offsets(&c.rows, i / c.columns.count % c.rows.count, at[1]);
        dl_complex_offsets(&c.batch, i / c.columns.count / c.rows.count, at[2]);
        for (int t = 0; t < DL_COMPLEX_TENSORS; t++)
            first[t] = 2 * (at[0][t] + at[1][t] + at[2][t]);
        for (int64_t lane = 0; lane < 2 * c.lanes; lane += 2) {
            double size = 0, off = 0;
            for (int64_t term = 0; term < c.terms.count; term++) {
                dl_complex_offsets(&c.terms, term, k);
                int64_t p = first[0] + 2 * k[0] + lane, q = first[1] + 2 * k[1] + lane;
                double ea = a.e[p] + a.e[p + 1], eb = b.e[q] + b.e[q + 1];
                double va = fabs(a.v[p]) + fabs(a.v[p + 1]), vb = fabs(b.v[q]) + fabs(b.v[q + 1]);
                off += va * eb + ea * vb + ea * eb, size += (va + ea) * (vb + eb);
            }
            double rounded = of_terms((double)(2 * c.terms.count)) * unit_of(type) * size;
            for (int64_t to = first[2] + lane; to < first[2] + lane + 2; to++)
                e[to] =
                    size == 0 ? 0 : with_rounding(type, y[to], off + rounded, 2 * unit_of(type));
        }
    }
}
#endif
