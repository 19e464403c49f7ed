/* Recurrent layers step by step, and the ranges in which float32 results may lie. These are
 * intervals: a step's states are ranges, which the next step starts from. */
#include <math.h>
#include <stdlib.h>

#include "ir/interp/interp_parts.h"
#include "ir/recurrence.h"

enum { FUNCTION = 8 }; /* roundings that the error of tanh and sigmoid is worth */

typedef struct {
    dl_recurrence r;
    dl_dtype type, made; /* of the computation; of stored results */
    bool round;
    const dl_interp_ends *ends;
    const double *w, *b, *start; /* start: NULL where states begin as 0 */
    dl_range *h, *next, *c, *u;  /* states, the next ones, and products of a step */
} work;

static work begin(const dl_node *n, double *const *data, bool round, const dl_interp_ends *ends) {
    dl_dtype made = n->in[0]->type.dtype;
    int start = dl_recurrence_start(n);
    work w = {.r = dl_recurrence_of(n),
              .type = made == DL_F64 ? DL_F64 : DL_F32,
              .made = made,
              .round = round,
              .ends = ends,
              .start = start < 0 ? NULL : data[start]};
    int64_t size = w.r.size;
    w.h = dl_calloc((size_t)size * (3 + (size_t)w.r.gates) + 1, sizeof *w.h);
    w.next = w.h + size, w.c = w.next + size, w.u = w.c + size;
    return w;
}

/* The row of y of sequence b's step. */
static int64_t row_of(const work *w, int64_t b, int64_t step) {
    return b * (w->r.steps + w->r.ends) + step;
}
/* State k, h or c, of unit j before the first step. */
static dl_range first_state(const work *w, int64_t b, int k, int64_t j) {
    const dl_recurrence *r = &w->r;
    return dl_range_exact(w->start ? w->start[(b * r->states + k) * r->size + j] : 0);
}

/* ---- ranges; without ends only their middle is computed ---- */

static dl_range widen(const work *w, dl_range r, double roundings) {
    return w->ends ? dl_range_widen(w->type, r, roundings) : r;
}
static dl_range add(const work *w, dl_range a, dl_range b) {
    return widen(w, (dl_range){a.at + b.at, a.low + b.low, a.high + b.high}, 1);
}
static dl_range product(dl_range a, dl_range b) {
    double ll = a.low * b.low, lh = a.low * b.high, hl = a.high * b.low, hh = a.high * b.high;
    double any = 0 * (ll + lh + hl + hh); /* NaN where one of them is no number */
    return (dl_range){a.at * b.at, fmin(fmin(ll, lh), fmin(hl, hh)) + any,
                      fmax(fmax(ll, lh), fmax(hl, hh)) + any};
}
static dl_range mul(const work *w, dl_range a, dl_range b) { return widen(w, product(a, b), 1); }
static dl_range one_minus(const work *w, dl_range a) {
    return widen(w, (dl_range){1 - a.at, 1 - a.high, 1 - a.low}, 1);
}
/* 1 - a^2 */
static dl_range one_minus_square(const work *w, dl_range a) { return one_minus(w, mul(w, a, a)); }

static double sigmoid(double a) { return 1 / (1 + exp(-a)); }
static double relu(double a) { return a < 0 ? 0 : a; }
static dl_range rising(const work *w, double (*f)(double), dl_range a) {
    dl_range r = {f(a.at), a.at, a.at};
    if (!w->ends) return r;
    r = widen(w, (dl_range){r.at, f(a.low), f(a.high)}, f == relu ? 0 : FUNCTION);
    if (f == sigmoid && w->type == DL_F32 && r.low < 0x1p-126) r.low = 0; /* exp overflows */
    return r;
}

static void put(const work *w, double *to, int k, int64_t at, dl_range r) {
    to[at] = r.at;
    if (!w->ends) return;
    dl_range s = dl_range_store(w->made, widen(w, r, 1));
    bool known = isfinite(r.at) && s.low <= s.high;
    w->ends->low[k][at] = known ? s.low : -INFINITY;
    w->ends->high[k][at] = known ? s.high : INFINITY;
}

/* The sum of n products of numbers `apart` apart and states, plus `first`. */
static dl_range dot(const work *w, dl_range first, const double *x, int64_t apart,
                    const dl_range *of, int64_t n) {
    if (!w->ends) {
        for (int64_t k = 0; k < n; k++) first.at += x[k * apart] * of[k].at;
        return first;
    }
    dl_range_sum s = {0};
    dl_range_add(&s, first);
    for (int64_t k = 0; k < n; k++) dl_range_add(&s, product(dl_range_exact(x[k * apart]), of[k]));
    double at = s.sum.at;
    dl_range r = dl_range_of_sum(w->type, &s);
    r.at = at;
    return r;
}

/* ---- forward ---- */

/* Unit j: its new state, from gates p + u. */
static dl_range cell(work *w, const double *p, int64_t j, double *saved, int64_t at) {
    const dl_recurrence *r = &w->r;
    dl_range g[4] = {0}, *u = w->u + j, keep[5] = {0}, h;
    for (int i = 0; i < r->gates; i++)
        g[i] = add(w, dl_range_exact(p[i * r->size + j]), u[i * r->size]);
    if (r->cell == DL_LSTM) {
        for (int i = 0; i < 4; i++) keep[i] = rising(w, i == 2 ? tanh : sigmoid, g[i]);
        w->c[j] = keep[4] = add(w, mul(w, keep[1], w->c[j]), mul(w, keep[0], keep[2]));
        h = mul(w, keep[3], rising(w, tanh, w->c[j]));
    } else if (r->cell == DL_GRU) {
        keep[0] = rising(w, sigmoid, g[0]), keep[1] = rising(w, sigmoid, g[1]);
        keep[3] = u[2 * r->size];
        keep[2] =
            rising(w, tanh, add(w, dl_range_exact(p[2 * r->size + j]), mul(w, keep[0], keep[3])));
        h = add(w, mul(w, one_minus(w, keep[1]), keep[2]), mul(w, keep[1], w->h[j]));
    } else {
        h = rising(w, r->cell == DL_RNN_TANH ? tanh : relu, g[0]);
    }
    for (int i = 0; i < r->saved; i++)
        put(w, saved, DL_STEPS_SAVED, at * r->saved * r->size + i * r->size + j, keep[i]);
    return h;
}

void dl_interp_recurrent(const dl_node *n, double *const *data, bool round,
                         const dl_interp_ends *ends) {
    work w = begin(n, data, round, ends);
    const dl_recurrence *r = &w.r;
    int64_t rows = r->gates * r->size;
    double *const *out = data + n->nin;
    w.w = data[DL_STEPS_W], w.b = data[DL_STEPS_B];
    for (int64_t b = 0; b < r->batch; b++) {
        for (int64_t j = 0; j < r->size; j++) {
            w.h[j] = first_state(&w, b, 0, j);
            if (r->cell == DL_LSTM) w.c[j] = first_state(&w, b, 1, j);
        }
        for (int64_t i = 0; i < r->steps; i++) {
            int64_t step = r->reverse ? r->steps - 1 - i : i, at = b * r->steps + step;
            for (int64_t j = 0; j < rows; j++)
                w.u[j] = dot(&w, dl_range_exact(w.b[j]), w.w + j * r->size, 1, w.h, r->size);
            for (int64_t j = 0; j < r->size; j++) {
                dl_range h = cell(&w, data[DL_STEPS_P] + at * rows, j, out[DL_STEPS_SAVED], at);
                put(&w, out[DL_STEPS_Y], DL_STEPS_Y, row_of(&w, b, step) * r->size + j, h);
                bool rounded = dl_dtype_is_half(w.made) && (ends || round);
                w.next[j] = rounded ? dl_range_store(w.made, h) : h;
            }
            dl_range *last = w.h;
            w.h = w.next, w.next = last;
        }
        for (int64_t j = 0; j < r->size && r->ends; j++)
            put(&w, out[DL_STEPS_Y], DL_STEPS_Y, row_of(&w, b, r->steps) * r->size + j, w.c[j]);
    }
    free(w.h < w.next ? w.h : w.next);
}

/* ---- backward: w.h is the gradient of a step's result, w.c that of its c ---- */

typedef struct {
    const double *y, *saved, *dy;
} steps;

/* Element k of unit j that step `at` saved. */
static dl_range kept(const work *w, const steps *s, int64_t at, int k, int64_t j) {
    const dl_recurrence *r = &w->r;
    return dl_range_exact(s->saved[(at * r->saved + k) * r->size + j]);
}

/* Unit j of a step of sequence b, after step `before` (or -1): the gradients of p's gates, and of
 * u's, which are those that the weight multiplies; and in w->next the part of the previous state's
 * gradient that does not pass the weight. */
static void cell_back(work *w, const steps *s, int64_t b, int64_t step, int64_t before, int64_t j,
                      dl_range dp[4]) {
    const dl_recurrence *r = &w->r;
    const dl_range zero = dl_range_exact(0);
    int64_t at = b * r->steps + step, row = row_of(w, b, step) * r->size + j;
    dl_range dh = add(w, dl_range_exact(s->dy[row]), w->h[j]), *du = w->u + j, k[5];
    for (int i = 0; i < r->saved; i++) k[i] = kept(w, s, at, i, j);
    w->next[j] = zero;
    if (r->cell == DL_LSTM) {
        dl_range t = rising(w, tanh, k[4]);
        dl_range past =
            before < 0 ? first_state(w, b, 1, j) : kept(w, s, b * r->steps + before, 4, j);
        dl_range dc = add(w, w->c[j], mul(w, mul(w, dh, k[3]), one_minus_square(w, t)));
        dp[0] = mul(w, mul(w, dc, k[2]), mul(w, k[0], one_minus(w, k[0])));
        dp[1] = mul(w, mul(w, dc, past), mul(w, k[1], one_minus(w, k[1])));
        dp[2] = mul(w, mul(w, dc, k[0]), one_minus_square(w, k[2]));
        dp[3] = mul(w, mul(w, dh, t), mul(w, k[3], one_minus(w, k[3])));
        w->c[j] = mul(w, dc, k[1]);
    } else if (r->cell == DL_GRU) {
        dl_range past = before < 0 ? first_state(w, b, 0, j)
                                   : dl_range_exact(s->y[row_of(w, b, before) * r->size + j]);
        dl_range less = {past.at - k[2].at, past.at - k[2].at, past.at - k[2].at};
        dp[2] = mul(w, mul(w, dh, one_minus(w, k[1])), one_minus_square(w, k[2]));
        dp[1] = mul(w, mul(w, dh, widen(w, less, 1)), mul(w, k[1], one_minus(w, k[1])));
        dp[0] = mul(w, mul(w, dp[2], k[3]), mul(w, k[0], one_minus(w, k[0])));
        w->next[j] = mul(w, dh, k[1]);
    } else {
        dl_range y = dl_range_exact(s->y[row]);
        if (r->cell == DL_RNN_TANH)
            dp[0] = mul(w, dh, one_minus_square(w, y));
        else
            dp[0] = y.at > 0 ? dh : zero;
    }
    for (int i = 0; i < r->gates; i++) du[i * r->size] = dp[i];
    if (r->cell == DL_GRU) du[2 * r->size] = mul(w, dp[2], k[0]);
}

void dl_interp_recurrent_grad(const dl_node *n, double *const *data, bool round,
                              const dl_interp_ends *ends) {
    work w = begin(n, data, round, ends);
    const dl_recurrence *r = &w.r;
    int64_t rows = r->gates * r->size, back = r->reverse ? 1 : -1;
    double *const *out = data + n->nin;
    steps s = {data[DL_STEPS_GRAD_Y], data[DL_STEPS_GRAD_SAVED], data[DL_STEPS_GRAD_DY]};
    for (int64_t b = 0; b < r->batch; b++) {
        for (int64_t j = 0; j < r->size; j++) {
            w.h[j] = dl_range_exact(0);
            w.c[j] = dl_range_exact(r->ends ? s.dy[row_of(&w, b, r->steps) * r->size + j] : 0);
        }
        for (int64_t i = r->steps - 1; i >= 0; i--) {
            int64_t step = r->reverse ? r->steps - 1 - i : i, at = b * r->steps + step;
            for (int64_t j = 0; j < r->size; j++) {
                dl_range dp[4];
                cell_back(&w, &s, b, step, i ? step + back : -1, j, dp);
                for (int g = 0; g < r->gates; g++)
                    put(&w, out[DL_STEPS_DP], DL_STEPS_DP, at * rows + g * r->size + j, dp[g]);
            }
            for (int64_t j = 0; j < r->size && (i || r->started); j++)
                w.h[j] = dot(&w, w.next[j], data[DL_STEPS_GRAD_W] + j, r->size, w.u, rows);
        }
        for (int64_t j = 0; j < r->size && r->started; j++)
            for (int k = 0; k < r->states; k++)
                put(&w, out[DL_STEPS_DSTART], DL_STEPS_DSTART, (b * r->states + k) * r->size + j,
                    k ? w.c[j] : w.h[j]);
    }
    free(w.h);
}
