/* The three contractions in plain loops.
 *
 * They share one relation: output p of y and tap t meet element q = p * stride + t - pad of x, where it lies
 * inside. At each meeting a row of channels of x, a row of channels of y and the tap's matrix of w take part,
 * so all three are brought to channels last first: x [n][q][c], y [n][p][o], w [t][c][o] (or [t][o][c]). */
#include "ir/interp_parts.h"

/* dst [n0][n1][n2], dense, from src with these strides. */
static void permute(double *dst, const double *src, int64_t n0, int64_t n1, int64_t n2, int64_t s0,
                    int64_t s1, int64_t s2) {
    for (int64_t i = 0; i < n0; i++)
        for (int64_t j = 0; j < n1; j++)
            for (int64_t k = 0; k < n2; k++) *dst++ = src[i * s0 + j * s1 + k * s2];
}

static void add_scaled(double *restrict y, const double *restrict x, double scale, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += scale * x[i];
}

/* Meetings of one tap, done several at a time so that a row of the tap's matrix is reused while it is near.
 */
enum { GROUP = 8 };
typedef struct {
    int n;
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
            if (e->op == DL_OP_conv) add_scaled(g->y[m], w + i * width, g->x[m][i], width);
            if (e->op == DL_OP_conv_grad_input) add_scaled(g->x[m], w + i * width, g->y[m][i], width);
            if (e->op == DL_OP_conv_grad_weight) add_scaled(w + i * width, g->y[m], g->x[m][i], width);
        }
    g->n = 0;
}

/* Places p of y along one axis that meet an element of x with tap t: from *first, up to but not *last. */
static void clip(const dl_extents *e, int axis, int64_t t, int64_t *first, int64_t *last) {
    *first = 0, *last = e->out[axis];
    while (*first < *last && *first * e->stride[axis] + t < e->pad[axis]) ++*first;
    while (*last > *first && (*last - 1) * e->stride[axis] + t - e->pad[axis] >= e->in[axis]) --*last;
}

static void run_tap(const dl_extents *e, const int64_t t[3], double *x, double *y, double *w) {
    int64_t first[3], last[3], p[3];
    for (int i = 0; i < 3; i++) clip(e, i, t[i], &first[i], &last[i]);
    group g = {0};
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

void dl_interp_conv(const dl_extents *e, const double *a, const double *b, double *result) {
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
            for (t[2] = 0; t[2] < e->taps[2]; t[2]++, w_at += c * o) run_tap(e, t, x, y, w_at);
    if (e->op == DL_OP_conv) permute(result, y, n, o, p, p * o, 1, o);
    if (e->op == DL_OP_conv_grad_input) permute(result, x, n, c, q, q * c, 1, c);
    if (e->op == DL_OP_conv_grad_weight) permute(result, w, o, c, taps, 1, o, c * o);
    dl_arena_free(scratch);
}
