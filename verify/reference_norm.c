/* References of softmax and ops that depend on it, of normalisations, and of the linear layer. */
#include <math.h>

#include "verify/reference.h"

/* ---- along the axis of classes ---- */

static dl_around around_axis(const dl_node *n) {
    const dl_type *t = &n->in[0]->type;
    return dl_type_around(t, dl_type_axis(t, dl_node_name(n, DL_ATTR_axis)));
}

/* Log of the sum of exponentials of a line's scores. */
static double log_sum(const dl_around *a, const double *x, int64_t o, int64_t k) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < a->size; i++) {
        double v = x[dl_ref_along(a, o, i, k)];
        if (isnan(v) || v > most) most = v;
    }
    for (int64_t i = 0; i < a->size; i++) sum += exp(x[dl_ref_along(a, o, i, k)] - most);
    return most + log(sum);
}

static void log_shares(const dl_node *n, const double *x, double *out) {
    dl_around a = around_axis(n);
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t k = 0; k < a.inner; k++) {
            double all = log_sum(&a, x, o, k);
            for (int64_t i = 0; i < a.size; i++)
                out[dl_ref_along(&a, o, i, k)] = x[dl_ref_along(&a, o, i, k)] - all;
        }
}

void dl_ref_log_softmax(const dl_node *n, const double *const *in, double *out,
                        const dl_reference_draw *draw) {
    (void)draw;
    log_shares(n, in[0], out);
}

void dl_ref_softmax(const dl_node *n, const double *const *in, double *out,
                    const dl_reference_draw *draw) {
    (void)draw;
    log_shares(n, in[0], out);
    for (int64_t i = 0; i < dl_type_count(&n->out[0].type); i++) out[i] = exp(out[i]);
}

/* -log softmax at the class, infinite where there is no such class; with weights of the classes,
 * the sum of -weight log softmax (torch.nn.functional.cross_entropy, reduction="none"). */
void dl_ref_cross_entropy(const dl_node *n, const double *const *in, double *out,
                          const dl_reference_draw *draw) {
    const dl_type *scores = &n->in[0]->type, *t = &n->in[1]->type, *to = &n->out[0].type;
    int axis = dl_type_axis(scores, dl_node_name(n, DL_ATTR_axis));
    dl_around a = around_axis(n);
    bool shares = dl_dtype_is_float(t->dtype);
    int64_t at[DL_MAX_RANK] = {0};
    (void)draw;
    if (!dl_type_count(to)) return;
    for (int64_t row = 0;; row++) {
        int64_t whole[DL_MAX_RANK] = {0}, o = a.inner ? row / a.inner : 0,
                k = a.inner ? row % a.inner : 0;
        for (int i = 0; i < to->rank; i++) whole[i + (i >= axis)] = at[i];
        double all = log_sum(&a, in[0], o, k), loss = 0;
        for (int64_t i = 0; i < a.size && shares; i++) {
            whole[axis] = i;
            double share = in[1][dl_ref_follow(t, scores, whole)];
            loss += share * (all - in[0][dl_ref_along(&a, o, i, k)]);
        }
        double class = shares ? 0 : in[1][dl_ref_follow(t, to, at)];
        bool there = class >= 0 && class < (double)a.size;
        if (!shares) loss = there ? all - in[0][dl_ref_along(&a, o, (int64_t) class, k)] : INFINITY;
        out[row] = loss;
        if (!dl_ref_next(to, at)) return;
    }
}

/* The first maximum; NaN counts as the maximum. */
void dl_ref_argmax(const dl_node *n, const double *const *in, double *out,
                   const dl_reference_draw *draw) {
    dl_around a = around_axis(n);
    (void)draw;
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t k = 0; k < a.inner; k++) {
            int64_t best = 0;
            for (int64_t i = 1; i < a.size; i++) {
                double v = in[0][dl_ref_along(&a, o, i, k)],
                       most = in[0][dl_ref_along(&a, o, best, k)];
                if (!isnan(most) && (isnan(v) || v > most)) best = i;
            }
            out[o * a.inner + k] = (double)best;
        }
}

/* Has the row's class a score, and do fewer than k other scores exceed it? */
void dl_ref_in_top_k(const dl_node *n, const double *const *in, double *out,
                     const dl_reference_draw *draw) {
    int64_t rows = n->in[0]->type.axis[0].size, classes = n->in[0]->type.axis[1].size;
    (void)draw;
    for (int64_t r = 0; r < rows; r++) {
        const double *y = in[0] + r * classes;
        double class = in[1][r], own = NAN;
        int64_t above = 0;
        bool there = class >= 0 && class < (double)classes;
        if (there) own = y[(int64_t) class];
        for (int64_t i = 0; i < classes; i++) above += y[i] > own || (isnan(y[i]) && !isnan(own));
        out[r] = there && above < dl_node_int(n, DL_ATTR_k);
    }
}

/* ---- normalisations ---- */

/* (x - mean) / sqrt(variance + eps), with the biased variance, of n elements `step` apart in each
 * of `blocks` blocks, which begin `apart` elements from each other. */
static void standardise_run(const double *x, double *out, int64_t n, int64_t step, int64_t blocks,
                            int64_t apart, double eps) {
    double mean = 0, variance = 0, count = (double)(n * blocks);
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = 0; i < n; i++) mean += x[b * apart + i * step] / count;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = 0; i < n; i++) {
            double d = x[b * apart + i * step] - mean;
            variance += d * d / count;
        }
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = 0; i < n; i++)
            out[b * apart + i * step] = (x[b * apart + i * step] - mean) / sqrt(variance + eps);
}

/* Multiplies and adds each channel's own factor and summand. */
static void scale_channels(const dl_node *n, int axis, const double *const *in, double *out) {
    dl_around a = dl_type_around(&n->in[0]->type, axis);
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < a.size; i++)
            for (int64_t k = 0; k < a.inner; k++) {
                double *y = &out[dl_ref_along(&a, o, i, k)];
                *y = *y * in[1][i] + in[2][i];
            }
}

/* Over the last axis (Ba, Kiros and Hinton 2016). */
void dl_ref_layer_norm(const dl_node *n, const double *const *in, double *out,
                       const dl_reference_draw *draw) {
    const dl_type *t = &n->in[0]->type;
    int64_t last = t->axis[t->rank - 1].size, all = dl_type_count(t);
    (void)draw;
    for (int64_t i = 0; i < all; i += last)
        standardise_run(in[0] + i, out + i, last, 1, 1, 0, dl_node_float(n, DL_ATTR_eps));
    scale_channels(n, t->rank - 1, in, out);
}

/* For each sample, over the channels of a group and all following axes (Wu and He 2018). */
void dl_ref_group_norm(const dl_node *n, const double *const *in, double *out,
                       const dl_reference_draw *draw) {
    const dl_type *t = &n->in[0]->type;
    int64_t all = dl_type_count(t), pieces = t->axis[0].size * dl_node_int(n, DL_ATTR_groups);
    (void)draw;
    if (!all) return;
    for (int64_t i = 0; i < all; i += all / pieces)
        standardise_run(in[0] + i, out + i, all / pieces, 1, 1, 0, dl_node_float(n, DL_ATTR_eps));
    scale_channels(n, 1, in, out);
}

/* For each channel, over the batch and all following axes (Ioffe and Szegedy 2015); in evaluation
 * with the running statistics. */
void dl_ref_batch_norm(const dl_node *n, const double *const *in, double *out,
                       const dl_reference_draw *draw) {
    dl_around a = dl_type_around(&n->in[0]->type, 1);
    double eps = dl_node_float(n, DL_ATTR_eps);
    (void)draw;
    for (int64_t c = 0; c < a.size; c++) {
        int64_t first = c * a.inner, apart = a.size * a.inner;
        if (dl_node_int(n, DL_ATTR_training)) {
            standardise_run(in[0] + first, out + first, a.inner, 1, a.outer, apart, eps);
            continue;
        }
        for (int64_t o = 0; o < a.outer; o++)
            for (int64_t k = 0; k < a.inner; k++)
                out[first + o * apart + k] =
                    (in[0][first + o * apart + k] - in[3][c]) / sqrt(in[4][c] + eps);
    }
    scale_channels(n, 1, in, out);
}

/* ---- the linear layer ---- */

/* y[..., e, ...] = sum over i of x[..., i, ...] w[e, i], along the axis of x that the weight's
 * second names, or the last. */
void dl_ref_linear(const dl_node *n, const double *const *in, double *out,
                   const dl_reference_draw *draw) {
    const dl_type *x = &n->in[0]->type, *w = &n->in[1]->type;
    int axis = *w->axis[1].name ? dl_type_axis(x, w->axis[1].name) : -1;
    dl_around a = dl_type_around(x, axis < 0 ? x->rank - 1 : axis), to = a;
    to.size = w->axis[0].size;
    (void)draw;
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t e = 0; e < to.size; e++)
            for (int64_t k = 0; k < a.inner; k++) {
                double sum = 0;
                for (int64_t i = 0; i < a.size; i++)
                    sum += in[0][dl_ref_along(&a, o, i, k)] * in[1][e * a.size + i];
                out[dl_ref_along(&to, o, e, k)] = sum;
            }
}
