/* Contractions (relation.h) in plain loops, on row-major operands.
 *
 * By windows: output p and tap t use input q = p * stride + t * dilation - pad, where that is
 * inside. Each such pair combines a row of channels of x, a row of channels of y and the tap's
 * matrix of w. So all three are converted to channels last first: x [n][q][c], y [n][p][o], w
 * [t][c][o] (or [t][o][c]). Groups are computed one by one. */
#include <math.h>

#include "ir/interp/interp_parts.h"

/* A relation by windows of one group of channels. */
typedef struct {
    const dl_relation *r;
    dl_tensor made; /* the result */
    bool single;    /* accumulators are rounded to float32 */
    int64_t n, c, o, in[3], taps[3], out[3];
} windows;

static int64_t product(const int64_t v[3]) { return v[0] * v[1] * v[2]; }

/* dst [n0][n1][n2], dense, from src with these strides, of which s0 is mostly 1. It writes a line
 * of dst at a time, and reads a number of lines of src that fit in the cache. */
static void permute(double *dst, const double *src, int64_t n0, int64_t n1, int64_t n2, int64_t s0,
                    int64_t s1, int64_t s2) {
    enum { LINE = 8 };
    for (int64_t j = 0; j < n1; j++)
        for (int64_t first = 0; first < n2; first += LINE) {
            int64_t last = first + LINE < n2 ? first + LINE : n2;
            for (int64_t i = 0; i < n0; i++)
                for (int64_t k = first; k < last; k++)
                    dst[(i * n1 + j) * n2 + k] = src[i * s0 + j * s1 + k * s2];
        }
}

/* y += scale[0] x[0], then scale[1] x[1]...: `rows` of them, up to AT_ONCE; each addition is
 * rounded by itself. */
enum { AT_ONCE = 4 };
static void add_scaled(double *restrict y, double *const *x, const double *scale, int rows,
                       int64_t n, bool single) {
    const double *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    double s0 = scale[0], s1 = scale[1], s2 = scale[2], s3 = scale[3];
    if (rows == AT_ONCE && !single) {
        for (int64_t i = 0; i < n; i++)
            y[i] = y[i] + s0 * x0[i] + s1 * x1[i] + s2 * x2[i] + s3 * x3[i];
        return;
    }
    for (int k = 0; k < rows; k++)
        for (int64_t i = 0; i < n; i++) {
            double sum = y[i] + scale[k] * x[k][i];
            y[i] = single ? (double)(float)sum : sum;
        }
}

/* Pairs of one tap, several at a time, so that a row of the tap's matrix stays in the cache. */
enum { GROUP = 8 };
typedef struct {
    int n;
    double *x[GROUP], *y[GROUP];
} group;

/* For the result w: w[c][o] += x[c] y[o]; one row after another, with the pairs in their order. */
static void meet_into_weight(const windows *v, const group *g, double *w) {
    for (int64_t i = 0; i < v->c; i++, w += v->o)
        for (int m = 0; m < g->n; m += AT_ONCE) {
            double *from[AT_ONCE] = {0}, scale[AT_ONCE] = {0};
            int rows = g->n - m < AT_ONCE ? g->n - m : AT_ONCE;
            for (int k = 0; k < rows; k++) from[k] = g->y[m + k], scale[k] = g->x[m + k][i];
            add_scaled(w, from, scale, rows, v->o, v->single);
        }
}

/* For the result y: y[o] += x[c] w[c][o]; for the result x: x[c] += y[o] w[o][c]. */
static void meet(const windows *v, group *g, double *w) {
    bool x_made = v->made == DL_TENSOR_X;
    int64_t all = x_made ? v->o : v->c, width = x_made ? v->c : v->o;
    if (v->made == DL_TENSOR_W) meet_into_weight(v, g, w), all = 0;
    for (int64_t i = 0; i < all; i += AT_ONCE) {
        double *from[AT_ONCE] = {0};
        int rows = all - i < AT_ONCE ? (int)(all - i) : AT_ONCE;
        for (int k = 0; k < rows; k++) from[k] = w + (i + k) * width;
        for (int m = 0; m < g->n; m++) {
            double scale[AT_ONCE] = {0};
            for (int k = 0; k < rows; k++) scale[k] = (x_made ? g->y[m] : g->x[m])[i + k];
            add_scaled(x_made ? g->x[m] : g->y[m], from, scale, rows, width, v->single);
        }
    }
    g->n = 0;
}

/* The index of x along one axis for position p of y and tap t. */
static int64_t meets(const windows *v, int axis, int64_t p, int64_t t) {
    const dl_relation_window *w = &v->r->window[axis];
    return p * w->stride + t * w->dilation - w->pad;
}

/* The positions of y along one axis that use an element of x with tap t: from *first, up to but
 * not including *last. */
static void clip(const windows *v, int axis, int64_t t, int64_t *first, int64_t *last) {
    *first = 0, *last = v->out[axis];
    while (*first < *last && meets(v, axis, *first, t) < 0) ++*first;
    while (*last > *first && meets(v, axis, *last - 1, t) >= v->in[axis]) --*last;
}

static void run_tap(const windows *v, const int64_t t[3], double *x, double *y, double *w) {
    int64_t first[3], last[3], p[3];
    for (int i = 0; i < 3; i++) clip(v, i, t[i], &first[i], &last[i]);
    group g = {0};
    for (int64_t n = 0; n < v->n; n++)
        for (p[0] = first[0]; p[0] < last[0]; p[0]++)
            for (p[1] = first[1]; p[1] < last[1]; p[1]++)
                for (p[2] = first[2]; p[2] < last[2]; p[2]++) {
                    int64_t at_x = n, at_y = n;
                    for (int i = 0; i < 3; i++) {
                        at_x = at_x * v->in[i] + meets(v, i, p[i], t[i]);
                        at_y = at_y * v->out[i] + p[i];
                    }
                    g.x[g.n] = x + at_x * v->c, g.y[g.n] = y + at_y * v->o;
                    if (++g.n == GROUP) meet(v, &g, w);
                }
    meet(v, &g, w);
}

/* All taps. */
static void run_taps(const windows *v, double *x, double *y, double *w) {
    int64_t t[3];
    for (t[0] = 0; t[0] < v->taps[0]; t[0]++)
        for (t[1] = 0; t[1] < v->taps[1]; t[1]++)
            for (t[2] = 0; t[2] < v->taps[2]; t[2]++, w += v->c * v->o) run_tap(v, t, x, y, w);
}

/* The number of a tap's channels to process at a time: so few that the matrix stays in the cache,
 * and that a weight's copy takes less memory than the weight. */
static int64_t channels_at_once(int64_t rows, int64_t width) {
    enum { NEAR = 1 << 15, LEAST = 32 };
    int64_t n = rows > 0 ? NEAR / rows : width;
    return n < LEAST ? LEAST : n;
}

/* Converts channels [first, first + n) of an image [batch][channels][points] to channels last, or
 * back. */
static void transpose_channels(double *dense, double *image, int64_t batch, int64_t channels,
                               int64_t points, int64_t first, int64_t n, bool back) {
    for (int64_t b = 0; b < batch; b++) {
        double *here = dense + b * points * n, *there = image + (b * channels + first) * points;
        if (back)
            permute(there, here, n, 1, points, 1, 0, n);
        else
            permute(here, there, points, 1, n, 1, 0, points);
    }
}

/* The same columns of the weight [o][c][taps] as one matrix for each tap: [c][o] or, `across`,
 * [o][c]. */
static void transpose_weight(const windows *v, const windows *part, double *dense, double *weight,
                             int64_t first, bool back) {
    int64_t taps = product(v->taps);
    bool across = v->made == DL_TENSOR_X;
    double *at = weight + first * (across ? taps : v->c * taps);
    if (back)
        permute(at, dense, part->o, v->c, taps, 1, part->o, v->c * part->o);
    else
        permute(dense, at, taps, across ? v->o : v->c, across ? part->c : part->o, 1,
                across ? v->c * taps : taps, across ? taps : v->c * taps);
}

/* data[tensor]: row-major; the result is written. The image with the rows of the matrices is
 * converted to channels last once, the other data by columns. */
static void sum_windows(const windows *v, double *const data[DL_NTENSORS]) {
    bool across = v->made == DL_TENSOR_X; /* the matrix is stored [o][c] */
    int64_t q = product(v->in), p = product(v->out), taps = product(v->taps);
    int64_t rows = across ? v->o : v->c, width = across ? v->c : v->o,
            each = channels_at_once(rows, width);
    int64_t points = across ? q : p, other = across ? p : q;
    if (each > width) each = width;
    dl_tensor image = across ? DL_TENSOR_X : DL_TENSOR_Y,
              whole = across ? DL_TENSOR_Y : DL_TENSOR_X;
    dl_arena *scratch = dl_arena_new(NULL);
    double *all = DL_NEWS(scratch, double, v->n *other *rows + 1);
    double *part = DL_NEWS(scratch, double, v->n *points *each + 1);
    double *w = DL_NEWS(scratch, double, taps *rows *each + 1);
    transpose_channels(all, data[whole], v->n, rows, other, 0, rows, false);
    for (int64_t first = 0; first < width; first += each) {
        windows of = *v;
        int64_t n = width - first < each ? width - first : each;
        *(across ? &of.c : &of.o) = n;
        if (v->made == image)
            memset(part, 0, sizeof *part * (size_t)(v->n * points * n));
        else
            transpose_channels(part, data[image], v->n, width, points, first, n, false);
        if (v->made == DL_TENSOR_W)
            memset(w, 0, sizeof *w * (size_t)(taps * rows * n));
        else
            transpose_weight(v, &of, w, data[DL_TENSOR_W], first, false);
        run_taps(&of, across ? part : all, across ? all : part, w);
        if (v->made == image)
            transpose_channels(part, data[image], v->n, width, points, first, n, true);
        if (v->made == DL_TENSOR_W) transpose_weight(v, &of, w, data[DL_TENSOR_W], first, true);
    }
    dl_arena_free(scratch);
}

/* out[i] = sum over j and k of a[j][i][k] squared. */
static void square(double *out, const double *a, int64_t outer, int64_t n, int64_t inner) {
    for (int64_t j = 0; j < outer; j++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < inner; k++, a++) out[i] += *a * *a;
}

/* out[n][k] = sum over i of a[n][i][k] squared. */
static void square_channels(double *out, const double *a, int64_t n, int64_t channels,
                            int64_t inner) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < channels; i++)
            for (int64_t k = 0; k < inner; k++, a++) out[j * inner + k] += *a * *a;
}

/* For each element of the result, an upper bound of the sum of its terms' magnitudes: the product
 * of the norms of its two rows (Cauchy and Schwarz), at the cost of one channel. */
static void size_windows(const windows *v, double *const data[DL_NTENSORS], double *size) {
    int64_t q = product(v->in), p = product(v->out), taps = product(v->taps);
    bool y_made = v->made == DL_TENSOR_Y, w_made = v->made == DL_TENSOR_W;
    /* One operand provides the positions (with squares, all of weight 1); the other one number for
     * each channel. */
    windows one = *v;
    one.o = 1, one.c = w_made ? v->c : 1, one.single = false;
    int64_t from = w_made ? v->n * v->c * q : v->n * (y_made ? q : p),
            into = w_made ? v->c * taps : v->n * (y_made ? p : q);
    int64_t channels = y_made || w_made ? v->o : v->c, ones = w_made ? v->n * p : taps;
    dl_arena *scratch = dl_arena_new(NULL);
    double *squares = DL_NEWS(scratch, double, from), *unit = DL_NEWS(scratch, double, ones);
    double *rows = DL_NEWS(scratch, double, into), *other = DL_NEWS(scratch, double, channels);
    for (int64_t i = 0; i < ones; i++) unit[i] = 1;
    if (w_made)
        square(squares, data[DL_TENSOR_X], 1, from, 1),
            square(other, data[DL_TENSOR_Y], v->n, v->o, p);
    else if (y_made)
        square_channels(squares, data[DL_TENSOR_X], v->n, v->c, q),
            square(other, data[DL_TENSOR_W], 1, v->o, v->c * taps);
    else
        square_channels(squares, data[DL_TENSOR_Y], v->n, v->o, p),
            square(other, data[DL_TENSOR_W], v->o, v->c, taps);
    double *alike[DL_NTENSORS] = {[DL_TENSOR_X] = y_made || w_made ? squares : rows,
                                  [DL_TENSOR_W] = w_made ? rows : unit,
                                  [DL_TENSOR_Y] = y_made   ? rows
                                                  : w_made ? unit
                                                           : squares};
    sum_windows(&one, alike);
    int64_t outer = w_made ? 1 : v->n, row = into / (outer ? outer : 1);
    for (int64_t n = 0; n < outer; n++)
        for (int64_t i = 0; i < channels; i++)
            for (int64_t k = 0; k < row; k++) *size++ = sqrt(rows[n * row + k] * other[i]);
    dl_arena_free(scratch);
}

/* The tensor at a place of a relation by windows. */
static dl_tensor tensor_at(const dl_relation *r, int place) {
    const dl_relation_window *w = &r->window[2];
    return r->axis[w->in].at[place] >= 0    ? DL_TENSOR_X
           : r->axis[w->tap].at[place] >= 0 ? DL_TENSOR_W
                                            : DL_TENSOR_Y;
}

/* Copies group g of a tensor [batch, groups, rest...] into a dense one, or back. */
static void copy_group(double *all, double *own, int64_t batch, int64_t groups, int64_t g,
                       int64_t rest, bool back) {
    for (int64_t n = 0; n < batch; n++) {
        double *here = all + (n * groups + g) * rest, *there = own + n * rest;
        memcpy(back ? here : there, back ? there : here, sizeof *own * (size_t)rest);
    }
}

static void run_windows(const dl_relation *r, const double *const operand[2],
                        const dl_interp_sums *to) {
    windows v = {.r = r, .made = tensor_at(r, DL_RESULT_PLACE), .n = r->axis[0].size};
    int64_t groups = dl_relation_size(r, DL_MODE_BATCH), count[DL_NTENSORS], batch[DL_NTENSORS];
    for (int i = 0; i < 3; i++) {
        const dl_relation_window *w = &r->window[i];
        v.in[i] = r->axis[w->in].size, v.taps[i] = r->axis[w->tap].size,
        v.out[i] = r->axis[w->out].size;
    }
    for (int i = 0; i < r->n; i++) { /* x and w share one axis of channels, w and y the other */
        int at[DL_NTENSORS] = {0};
        for (int p = 0; p < DL_PLACES; p++) at[tensor_at(r, p)] = r->axis[i].at[p];
        if (r->axis[i].slides || r->axis[i].role == DL_MODE_BATCH) continue;
        if (at[DL_TENSOR_W] < 0) v.n = r->axis[i].size;
        if (at[DL_TENSOR_Y] < 0) v.c = r->axis[i].size;
        if (at[DL_TENSOR_X] < 0) v.o = r->axis[i].size;
    }
    batch[DL_TENSOR_X] = batch[DL_TENSOR_Y] = v.n, batch[DL_TENSOR_W] = 1;
    count[DL_TENSOR_X] = v.c * product(v.in), count[DL_TENSOR_Y] = v.o * product(v.out);
    count[DL_TENSOR_W] = v.o * v.c * product(v.taps);
    double *results[] = {to->sum, to->chain, to->size};
    dl_arena *scratch = dl_arena_new(NULL);
    double *data[DL_NTENSORS] = {0};
    for (int t = DL_TENSOR_X; t < DL_NTENSORS && groups > 1; t++)
        data[t] = DL_NEWS(scratch, double, batch[t] * count[t]);
    double *own = data[v.made];
    for (int64_t g = 0; g < groups; g++) {
        for (int p = 0; p < 2; p++) {
            dl_tensor t = tensor_at(r, p);
            if (groups == 1)
                data[t] = (double *)operand[p]; /* already dense */
            else
                copy_group((double *)operand[p], data[t], batch[t], groups, g, count[t], false);
        }
        for (int k = 0; k < 3; k++) {
            if (!results[k]) continue;
            v.single = results[k] == to->chain;
            if (groups == 1) data[v.made] = own = results[k];
            if (results[k] == to->size)
                size_windows(&v, data, own);
            else
                sum_windows(&v, data);
            if (groups > 1)
                copy_group(results[k], own, batch[v.made], groups, g, count[v.made], true);
        }
    }
    dl_arena_free(scratch);
}

/* ---- by names ---- */

/* Strides of a dense operand along the relation's axes. */
static void find_steps(const dl_relation *r, int place, int64_t step[DL_MAX_RELATION]) {
    int64_t size[DL_MAX_RANK], own[DL_MAX_RANK], s = 1;
    for (int i = 0; i < DL_MAX_RANK; i++) size[i] = 1;
    for (int i = 0; i < r->n; i++)
        if (r->axis[i].at[place] >= 0) size[r->axis[i].at[place]] = r->axis[i].size;
    for (int i = DL_MAX_RANK - 1; i >= 0; i--) own[i] = s, s *= size[i];
    for (int i = 0; i < r->n; i++)
        step[i] = r->axis[i].at[place] >= 0 ? own[r->axis[i].at[place]] : 0;
}

/* The result's axes come first, in its order: the outer loops; the others are the inner loops. */
static void run_names(const dl_relation *r, const double *const operand[2],
                      const dl_interp_sums *to) {
    int64_t step[2][DL_MAX_RELATION], results = 1, terms = dl_relation_k_extent(r);
    int kept = 0;
    for (int side = 0; side < 2; side++) find_steps(r, side, step[side]);
    while (kept < r->n && r->axis[kept].at[DL_RESULT_PLACE] >= 0) results *= r->axis[kept++].size;
    for (int64_t p = 0; p < results; p++) {
        int64_t at[2] = {0}, rest = p;
        for (int i = kept - 1; i >= 0; rest /= r->axis[i--].size)
            for (int side = 0; side < 2; side++) at[side] += rest % r->axis[i].size * step[side][i];
        double sum = 0, chain = 0, size = 0;
        for (int64_t t = 0; t < terms; t++) {
            int64_t place[2] = {at[0], at[1]}, left = t;
            for (int i = r->n - 1; i >= kept; left /= r->axis[i--].size)
                for (int side = 0; side < 2; side++)
                    place[side] += left % r->axis[i].size * step[side][i];
            double term = operand[0][place[0]] * operand[1][place[1]];
            sum += term, size += fabs(term), chain = (double)(float)(chain + term);
        }
        to->sum[p] = sum;
        if (to->size) to->size[p] = size;
        if (to->chain) to->chain[p] = chain;
    }
}

void dl_interp_contract(const dl_relation *r, const double *a, const double *b,
                        const dl_interp_sums *to) {
    const double *operand[] = {a, b};
    (r->nwindows ? run_windows : run_names)(r, operand, to);
}
