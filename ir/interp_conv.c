/* The three contractions in plain loops.
 *
 * They share one relation: output p of y and tap t meet element q = p * stride + t - pad of x, where it lies
 * inside. At each meeting a row of channels of x, a row of channels of y and the tap's matrix of w take part,
 * so all three are brought to channels last first: x [n][q][c], y [n][p][o], w [t][c][o] (or [t][o][c]). */
#include <math.h>

#include "ir/interp_parts.h"

/* dst [n0][n1][n2], dense, from src with these strides. */
static void permute(double *dst, const double *src, int64_t n0, int64_t n1, int64_t n2, int64_t s0,
                    int64_t s1, int64_t s2) {
    for (int64_t i = 0; i < n0; i++)
        for (int64_t j = 0; j < n1; j++)
            for (int64_t k = 0; k < n2; k++) *dst++ = src[i * s0 + j * s1 + k * s2];
}

static void add_scaled(double *restrict y, const double *restrict x, double scale, int64_t n, bool single) {
    if (single)
        for (int64_t i = 0; i < n; i++) y[i] = (double)(float)(y[i] + scale * x[i]);
    else
        for (int64_t i = 0; i < n; i++) y[i] += scale * x[i];
}

/* Meetings of one tap, done several at a time so that a row of the tap's matrix is reused while it is near.
 */
enum { GROUP = 8 };
typedef struct {
    int n;
    bool single; /* accumulators are rounded to float32 */
    double *x[GROUP], *y[GROUP];
} group;

/* conv:             y[o] += x[c] w[c][o]
 * conv_grad_input:  x[c] += y[o] w[o][c]
 * conv_grad_weight: w[c][o] += x[c] y[o] */
static void meet(const dl_extents *e, group *g, double *w) {
    bool input = e->op == DL_OP_conv_grad_input;
    int64_t rows = input ? e->o : e->c, width = input ? e->c : e->o;
    for (int64_t i = 0; i < rows; i++)
        for (int m = 0; m < g->n; m++) {
            if (e->op == DL_OP_conv) add_scaled(g->y[m], w + i * width, g->x[m][i], width, g->single);
            if (e->op == DL_OP_conv_grad_input)
                add_scaled(g->x[m], w + i * width, g->y[m][i], width, g->single);
            if (e->op == DL_OP_conv_grad_weight)
                add_scaled(w + i * width, g->y[m], g->x[m][i], width, g->single);
        }
    g->n = 0;
}

/* Places p of y along one axis that meet an element of x with tap t: from *first, up to but not *last. */
static void clip(const dl_extents *e, int axis, int64_t t, int64_t *first, int64_t *last) {
    *first = 0, *last = e->out[axis];
    while (*first < *last && *first * e->stride[axis] + t < e->pad[axis]) ++*first;
    while (*last > *first && (*last - 1) * e->stride[axis] + t - e->pad[axis] >= e->in[axis]) --*last;
}

static void run_tap(const dl_extents *e, const int64_t t[3], double *x, double *y, double *w, bool single) {
    int64_t first[3], last[3], p[3];
    for (int i = 0; i < 3; i++) clip(e, i, t[i], &first[i], &last[i]);
    group g = {.single = single};
    for (int64_t n = 0; n < e->n; n++)
        for (p[0] = first[0]; p[0] < last[0]; p[0]++)
            for (p[1] = first[1]; p[1] < last[1]; p[1]++)
                for (p[2] = first[2]; p[2] < last[2]; p[2]++) {
                    int64_t at_x = n, at_y = n;
                    for (int i = 0; i < 3; i++) {
                        at_x = at_x * e->in[i] + p[i] * e->stride[i] + t[i] - e->pad[i];
                        at_y = at_y * e->out[i] + p[i];
                    }
                    g.x[g.n] = x + at_x * e->c, g.y[g.n] = y + at_y * e->o;
                    if (++g.n == GROUP) meet(e, &g, w);
                }
    meet(e, &g, w);
}

/* out[i] = sum over j and k of a[j][i][k] squared. */
static void square(double *out, const double *a, int64_t outer, int64_t n, int64_t inner) {
    for (int64_t j = 0; j < outer; j++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < inner; k++, a++) out[i] += *a * *a;
}

/* out[n][k] = sum over i of a[n][i][k] squared. */
static void square_channels(double *out, const double *a, int64_t n, int64_t channels, int64_t inner) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < channels; i++)
            for (int64_t k = 0; k < inner; k++, a++) out[j * inner + k] += *a * *a;
}

void dl_interp_conv_size(const dl_extents *e, const double *a, const double *b, double *size) {
    int64_t q = e->in[0] * e->in[1] * e->in[2], p = e->out[0] * e->out[1] * e->out[2];
    int64_t taps = e->taps[0] * e->taps[1] * e->taps[2];
    bool conv = e->op == DL_OP_conv, weight = e->op == DL_OP_conv_grad_weight;
    /* One operand keeps the places (of its squares, all weighing 1); the other leaves one number a channel.
     */
    dl_extents one = *e;
    one.o = 1, one.c = weight ? e->c : 1;
    int64_t from = weight ? e->n * e->c * q : e->n * (conv ? q : p),
            into = weight ? e->c * taps : e->n * (conv ? p : q);
    int64_t channels = conv || weight ? e->o : e->c, ones = weight ? e->n * p : taps;
    dl_arena *scratch = dl_arena_new(NULL);
    double *squares = DL_NEWS(scratch, double, from), *unit = DL_NEWS(scratch, double, ones);
    double *rows = DL_NEWS(scratch, double, into), *other = DL_NEWS(scratch, double, channels);
    for (int64_t i = 0; i < ones; i++) unit[i] = 1;
    if (weight)
        square(squares, a, 1, from, 1), square(other, b, e->n, e->o, p);
    else
        square_channels(squares, a, e->n, conv ? e->c : e->o, conv ? q : p);
    if (conv) square(other, b, 1, e->o, e->c * taps);
    if (!conv && !weight) square(other, b, e->o, e->c, taps);
    dl_interp_conv(&one, squares, unit, rows, false);
    int64_t outer = weight ? 1 : e->n, row = into / (outer ? outer : 1);
    for (int64_t n = 0; n < outer; n++)
        for (int64_t i = 0; i < channels; i++)
            for (int64_t k = 0; k < row; k++) *size++ = sqrt(rows[n * row + k] * other[i]);
    dl_arena_free(scratch);
}

void dl_interp_conv(const dl_extents *e, const double *a, const double *b, double *result, bool single) {
    int64_t n = e->n, c = e->c, o = e->o, t[3];
    int64_t q = e->in[0] * e->in[1] * e->in[2], p = e->out[0] * e->out[1] * e->out[2];
    int64_t taps = e->taps[0] * e->taps[1] * e->taps[2];
    dl_arena *scratch = dl_arena_new(NULL);
    double *x = DL_NEWS(scratch, double, n *q *c), *y = DL_NEWS(scratch, double, n *p *o);
    double *w = DL_NEWS(scratch, double, taps *c *o);
    if (e->op == DL_OP_conv) {
        permute(x, a, n, q, c, c * q, 1, q);
        permute(w, b, taps, c, o, 1, taps, c * taps);
    } else if (e->op == DL_OP_conv_grad_input) {
        permute(y, a, n, p, o, o * p, 1, p);
        permute(w, b, taps, o, c, 1, c * taps, taps);
    } else {
        permute(x, a, n, q, c, c * q, 1, q);
        permute(y, b, n, p, o, o * p, 1, p);
    }
    double *w_at = w;
    for (t[0] = 0; t[0] < e->taps[0]; t[0]++)
        for (t[1] = 0; t[1] < e->taps[1]; t[1]++)
            for (t[2] = 0; t[2] < e->taps[2]; t[2]++, w_at += c * o) run_tap(e, t, x, y, w_at, single);
    if (e->op == DL_OP_conv) permute(result, y, n, o, p, p * o, 1, o);
    if (e->op == DL_OP_conv_grad_input) permute(result, x, n, c, q, q * c, 1, c);
    if (e->op == DL_OP_conv_grad_weight) permute(result, w, o, c, taps, 1, o, c * o);
    dl_arena_free(scratch);
}
