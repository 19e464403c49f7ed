/* The Fourier transform by its definition, and the ranges in which float32 results may lie: those
 * of a sum in any order, and of the products of as many factors as a fast transform has stages. */
#include <math.h>
#include <stdlib.h>

#include "ir/fourier.h"
#include "ir/interp/interp_parts.h"

typedef struct {
    dl_fourier f;
    dl_dtype type;
    const double *twiddle; /* cos and sin of 2 pi i / size, i from 0 */
    double unit, tiny;
} work;

typedef struct {
    double re, im, size; /* size: the sum of the terms' magnitudes */
} total;

/* One element of the result from a line of the operand, whose elements are `step` apart. */
static total sum_line(const work *w, const double *x, int64_t step, int64_t to) {
    const dl_fourier *f = &w->f;
    bool makes_modes = dl_fourier_makes_modes(f->mode), real = dl_fourier_is_real(f->mode);
    int64_t terms = makes_modes ? f->samples : f->modes,
            number = makes_modes ? dl_fourier_number(f, to) : to;
    total s = {0};
    for (int64_t i = 0; i < terms; i++, x += step) {
        int64_t from = makes_modes ? i : dl_fourier_number(f, i), twiddle = from * number % f->size;
        double c = w->twiddle[2 * twiddle],
               d = makes_modes ? -w->twiddle[2 * twiddle + 1] : w->twiddle[2 * twiddle + 1];
        double a = x[0], b = f->mode == DL_FOURIER_R2C ? 0 : x[1];
        if (f->mode == DL_FOURIER_C2R) {
            double weight = dl_fourier_weight(f, from);
            a *= weight, b *= weight;
            if (from == 0 || 2 * from == f->size) b = 0;
        }
        s.re += a * c - b * d, s.size += fabs(a) + fabs(b);
        if (!real || makes_modes) s.im += a * d + b * c;
    }
    double scale = f->scale * (makes_modes ? dl_fourier_weight(f, number) : 1);
    return (total){s.re * scale, s.im * scale, s.size * fabs(scale)};
}

static void put(const work *w, const dl_interp_ends *to, int64_t at, double value, double size) {
    double stages = log2((double)w->f.size) + 1;
    int64_t terms = dl_fourier_makes_modes(w->f.mode) ? w->f.samples : 2 * w->f.modes;
    double off = dl_sum_slack(w->type, terms, size, 0, 0) + 4 * stages * w->unit * size +
                 (double)terms * w->tiny;
    dl_range r = dl_range_store(w->type, (dl_range){value, value - off, value + off});
    bool finite = isfinite(value) && isfinite(off);
    to->low[0][at] = finite ? r.low : -INFINITY;
    to->high[0][at] = finite ? r.high : INFINITY;
}

void dl_interp_fourier(const dl_node *n, double *const *data, bool round,
                       const dl_interp_ends *ends) {
    work w = {.f = dl_fourier_of(n), .type = n->in[0]->type.dtype};
    const dl_fourier *f = &w.f;
    (void)round;
    w.unit = dl_range_widen(w.type, dl_range_exact(1), 1).high - 1;
    w.tiny = w.type == DL_F32 ? 0x1p-125 : 0;
    double *twiddle = dl_calloc((size_t)f->size * 2, sizeof(double));
    for (int64_t i = 0; i < f->size; i++) {
        double angle = 6.283185307179586 * (double)i / (double)f->size;
        twiddle[2 * i] = cos(angle), twiddle[2 * i + 1] = sin(angle);
    }
    w.twiddle = twiddle;
    bool makes_modes = dl_fourier_makes_modes(f->mode);
    int64_t in = makes_modes ? f->samples : f->modes, out = makes_modes ? f->modes : f->samples;
    int64_t parts_in = f->mode == DL_FOURIER_R2C ? 1 : 2,
            parts_out = f->mode == DL_FOURIER_C2R ? 1 : 2;
    for (int64_t o = 0; o < f->outer; o++)
        for (int64_t i = 0; i < f->inner; i++)
            for (int64_t k = 0; k < out; k++) {
                const double *x = data[0] + (o * in * f->inner + i) * parts_in;
                total s = sum_line(&w, x, f->inner * parts_in, k);
                int64_t at = ((o * out + k) * f->inner + i) * parts_out;
                const double made[] = {s.re, s.im};
                for (int p = 0; p < parts_out; p++) {
                    data[1][at + p] = made[p];
                    if (ends) put(&w, ends, at + p, made[p], s.size);
                }
            }
    free(twiddle);
}
