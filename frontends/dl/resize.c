/* Resizing by tables: each element along an axis is a weighted sum, or the maximum, of a few
 * elements, which are known when compiling. */
#include <math.h>

#include "frontends/dl/resize.h"

/* The elements that each of `to` elements reads along an axis, and their weights: [to][taps]. */
typedef struct {
    int64_t to, taps;
    double *element, *weight;
} readers;

static readers new_readers(dl_call *c, int64_t to, int64_t taps) {
    size_t n = (size_t)(to * taps);
    return (readers){to, taps, DL_NEWS(c->E->arena, double, n), DL_NEWS(c->E->arena, double, n)};
}

/* x read along its axis `at`: the axis counts the readers, and `taps` their elements. */
static dl_val read(dl_call *c, dl_val x, int at, const readers *r, dl_axis taps) {
    dl_type t = x.t->type, numbers = dl_scalar(DL_I32);
    const char *place = dl_intern("place_");
    dl_type_push(&numbers, place, r->to), dl_type_push(&numbers, taps.name, taps.size);
    t.axis[at] = (dl_axis){place, r->to};
    dl_type_push(&t, taps.name, taps.size);
    if (!dl_check_count(c->E, c->where, &t)) return dl_poison();
    dl_val in[] = {x, dl_tensor_table(c->E, c->where, numbers, r->element)};
    dl_attr axis = dl_attr_name(DL_ATTR_axis, x.t->type.axis[at].name);
    dl_val y = dl_tensor_op(c->E, c->where, DL_OP_gather, 2, in, 1, &axis, NULL);
    return dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &y, 0, NULL, &t);
}

/* Combines the taps and gives the axis its name back. */
static dl_val combine(dl_call *c, dl_op op, dl_val y, const char *taps, int at, const char *name) {
    dl_attr over = dl_attr_names(DL_ATTR_over, 1, &taps);
    y = dl_tensor_op(c->E, c->where, op, 1, &y, 1, &over, NULL);
    if (y.kind != DL_V_TENSOR) return y;
    dl_type t = y.t->type;
    t.axis[at].name = name;
    return dl_tensor_op(c->E, c->where, DL_OP_rename, 1, &y, 0, NULL, &t);
}

/* ---- resizing ---- */

/* Keys' cubic convolution with the parameter a; 1 at 0, and 0 from 2 on. */
static double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}
static double triangle(double x) { return fmax(0, 1 - fabs(x)); }

static int64_t within(int64_t i, int64_t size) { return i < 0 ? 0 : i < size ? i : size - 1; }

/* Elements of the input between neighbouring places of the output. */
static double step_of(int64_t from, int64_t to, bool corners) {
    if (!corners) return (double)from / (double)to;
    return to > 1 ? (double)(from - 1) / (double)(to - 1) : 0;
}

/* Four neighbours of each place, with a = -0.75; elements outside are those at the edge. */
static readers cubic_readers(dl_call *c, int64_t from, int64_t to, bool corners) {
    readers r = new_readers(c, to, 4);
    double step = step_of(from, to, corners);
    for (int64_t i = 0; i < to; i++) {
        double at = corners ? step * (double)i : ((double)i + 0.5) * step - 0.5, low = floor(at);
        for (int64_t k = 0; k < 4; k++) {
            r.element[4 * i + k] = (double)within((int64_t)low + k - 1, from);
            r.weight[4 * i + k] = cubic(at - low - (double)(k - 1), -0.75);
        }
    }
    return r;
}

/* A filter as wide as an output's share of the input, whose weights within the axis sum to 1
 * (Pillow's resampling; a = -0.5). */
static readers smooth_readers(dl_call *c, int64_t from, int64_t to, bool corners, bool is_cubic) {
    double step = step_of(from, to, corners);
    double wide = fmax(step, 1), support = (is_cubic ? 2 : 1) * wide;
    readers r = new_readers(c, to, 2 * (int64_t)ceil(support) + 1);
    for (int64_t i = 0; i < to; i++) {
        double at = step * ((double)i + 0.5), sum = 0;
        int64_t first = (int64_t)fmax(at - support + 0.5, 0),
                last = (int64_t)fmin(at + support + 0.5, (double)from);
        double *weight = r.weight + i * r.taps;
        for (int64_t k = 0; k < r.taps; k++) {
            double x = ((double)(first + k) - at + 0.5) / wide;
            weight[k] = first + k < last ? is_cubic ? cubic(x, -0.5) : triangle(x) : 0;
            sum += weight[k];
            r.element[i * r.taps + k] = (double)within(first + k, from);
        }
        for (int64_t k = 0; k < r.taps; k++) weight[k] /= sum;
    }
    return r;
}

dl_val dl_resize(dl_call *c, dl_val x, const int64_t *size, dl_resizing how) {
    const char *taps = dl_intern("tap_");
    x = dl_tensor_pin(c->E, c->where, x);
    for (int i = 2; x.kind == DL_V_TENSOR && i < x.t->type.rank; i++) {
        dl_axis a = x.t->type.axis[i];
        if (a.size == size[i - 2]) continue; /* it stays: the weights are 0 and 1 */
        readers r = how.smooth ? smooth_readers(c, a.size, size[i - 2], how.corners, how.cubic)
                               : cubic_readers(c, a.size, size[i - 2], how.corners);
        dl_val y = read(c, x, i, &r, (dl_axis){taps, r.taps});
        if (y.kind != DL_V_TENSOR) return y;
        dl_type t = dl_scalar(y.t->type.dtype);
        dl_type_push(&t, dl_intern("place_"), r.to), dl_type_push(&t, taps, r.taps);
        dl_val weight = dl_tensor_table(c->E, c->where, t, r.weight);
        dl_type as = y.t->type;
        y = dl_tensor_ordered(c->E, c->where, dl_call_elem(c, DL_OP_mul, y, weight), &as);
        x = combine(c, DL_OP_sum, y, taps, i, a.name);
    }
    return x;
}

/* ---- maxima of bins ---- */

/* Bin i has the elements from floor(i from / to) to ceil((i + 1) from / to) - 1; a shorter bin
 * repeats its last one, which is then not the first maximum. */
static int64_t first_of(int64_t i, int64_t from, int64_t to) { return i * from / to; }
static int64_t last_of(int64_t i, int64_t from, int64_t to) {
    return ((i + 1) * from + to - 1) / to - 1;
}

static readers bins(dl_call *c, int64_t from, int64_t to) {
    int64_t taps = 0;
    for (int64_t i = 0; i < to; i++) {
        int64_t n = last_of(i, from, to) + 1 - first_of(i, from, to);
        if (n > taps) taps = n;
    }
    readers r = new_readers(c, to, taps);
    for (int64_t i = 0; i < to; i++)
        for (int64_t k = 0; k < taps; k++) {
            int64_t last = last_of(i, from, to), at = first_of(i, from, to) + k;
            r.element[i * taps + k] = (double)(at < last ? at : last);
        }
    return r;
}

/* The last axis first, so that of equal elements the first in row-major order has the gradient. */
dl_val dl_layer_adaptive_max_pool(dl_call *c) {
    dl_val x = c->arg[0];
    int64_t size[3];
    if (!dl_call_float(c, &x) || !dl_call_image(c, &x.t->type) ||
        !dl_call_window(c, 1, x.t->type.rank - 2, 1, size))
        return dl_poison();
    const char *taps = dl_intern("tap_");
    for (int i = x.t->type.rank - 1; i >= 2 && x.kind == DL_V_TENSOR; i--) {
        dl_axis a = x.t->type.axis[i];
        readers r = bins(c, a.size, size[i - 2]);
        dl_val y = read(c, x, i, &r, (dl_axis){taps, r.taps});
        x = y.kind == DL_V_TENSOR ? combine(c, DL_OP_first_max, y, taps, i, a.name) : y;
    }
    return x;
}
