/* Attention and its gradients, one query at a time, in plain loops; and the ranges in which
 * float32 results may lie.
 *
 * The ranges are first-order bounds of the rounding in any order of evaluation. A score is a sum
 * of `size` products. An exponential has the relative error of its exponent's absolute error. The
 * sums over keys and over queries add terms that have errors already. With 16-bit operands,
 * probabilities and gradients of scores may be rounded to their type before a GEMM, as PyTorch's
 * own kernels do: an error of half an ulp each, so 2^-8 of sum |p v| in bf16 and 2^-11 in f16, and
 * likewise of sum |ds k| and others.
 *
 * Keys that a causal mask hides from a query do not contribute. But kernels may multiply their
 * values by a probability of zero, as PyTorch's do: where such a value is not finite, the ranges
 * include NaN. */
#include <math.h>
#include <stdlib.h>

#include "ir/attention.h"
#include "ir/base/philox.h"
#include "ir/interp/interp_parts.h"

typedef struct {
    dl_attention a;
    dl_dtype type,
        made; /* type: of the computation; made: of stored results other than logarithms */
    const double *q, *k, *v, *log, *dy, *addend[DL_ATT_ADDENDS];
    double unit,
        tiny; /* unit: roundoff of the computation; tiny: results this small may also be 0 */
    double factor_unit;         /* roundoff of the factors of 16-bit operands */
    uint64_t seed, step, first; /* first: the index of the part's first score */
    bool drops, round;
    int64_t row; /* elements of a token */
    /* For the current query, by key: the score and its error bound, its probability, dropout's
     * multiplier. */
    double *score, *score_off, *share, *factor;
} work;

static work begin(const dl_node *n, double *const *data, bool round) {
    work w = {.a = dl_attention_of(n),
              .type = n->in[0]->type.dtype == DL_F64 ? DL_F64 : DL_F32,
              .made = n->in[0]->type.dtype,
              .round = round};
    dl_attention all = w.a;
    int seed = w.a.seed;
    for (int i = 0; i < w.a.addends; i++) w.addend[i] = data[w.a.addend + i];
    memset(all.first, 0, sizeof all.first);
    w.q = data[DL_ATT_Q], w.k = data[DL_ATT_K], w.v = data[DL_ATT_V];
    w.unit = dl_range_widen(w.type, dl_range_exact(1), 1).high - 1;
    w.tiny = w.type == DL_F32 ? 0x1p-125 : 0;
    w.factor_unit = w.made == DL_BF16 ? 0x1p-8 : w.made == DL_F16 ? 0x1p-11 : 0;
    w.row = w.a.heads * w.a.size;
    w.drops = w.a.rate > 0;
    if (w.drops)
        w.seed = (uint64_t)(int64_t)data[seed][0], w.step = (uint64_t)(int64_t)data[seed + 1][0];
    if (w.a.in_parts)
        w.first =
            (uint64_t)(int64_t)data[seed + 2][0] * dl_attention_number(&all, w.a.batch, 0, 0, 0);
    w.score = dl_calloc((size_t)w.a.keys * 4, sizeof(double));
    w.score_off = w.score + w.a.keys, w.share = w.score_off + w.a.keys,
    w.factor = w.share + w.a.keys;
    return w;
}

static int64_t query_at(const work *w, int64_t n, int64_t i, int64_t head) {
    return (n * w->a.queries + i) * w->row + head * w->a.size;
}
static int64_t key_at(const work *w, int64_t n, int64_t j, int64_t head) {
    return (n * w->a.keys + j) * w->row + head * w->a.size;
}
static int64_t log_at(const work *w, int64_t n, int64_t i, int64_t head) {
    return (n * w->a.heads + head) * w->a.queries + i;
}

static double dot(const double *x, const double *y, int64_t n, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t f = 0; f < n; f++) sum += x[f] * y[f], *size += fabs(x[f] * y[f]);
    return sum;
}

/* The error bound of a sum of so many terms that comes from the additions. */
static double slack(const work *w, int64_t terms, double size) {
    return dl_sum_slack(w->type, terms, size, 0, 0) + (double)terms * w->tiny;
}

/* The scores of a query, and dropout's multiplier of each probability. Returns the number of keys
 * that the query sees. */
static int64_t find_scores(work *w, int64_t n, int64_t i, int64_t head) {
    const dl_attention *a = &w->a;
    const double *q = w->q + query_at(w, n, i, head);
    int64_t seen = dl_attention_seen(a, i);
    for (int64_t j = 0; j < seen; j++) {
        double size, s = dot(q, w->k + key_at(w, n, j, head), a->size, &size) * a->scale, added = 0;
        for (int k = 0; k < a->addends; k++) {
            double more = w->addend[k][dl_attention_addend_at(a, k, n, head, i) + j];
            s += more;
            /* kernels may divide it by the scale and multiply it again; infinities are exact */
            if (isfinite(more)) added += 4 * w->unit * fabs(more);
        }
        w->score[j] = dl_interp_convert(
            w->type, s, w->round); /* without it, exp(score - log) could be anything */
        w->score_off[j] = slack(w, a->size, size * a->scale) + 3 * w->unit * size * a->scale +
                          added + 2 * w->unit * a->addends * size * a->scale;
        w->factor[j] = 1;
        if (!w->drops) continue;
        uint64_t element = w->first + dl_attention_number(a, n, head, i, j);
        double drawn =
            (double)dl_unit_float(dl_random_word(w->seed, w->step, (uint32_t)a->number, element));
        w->factor[j] = drawn < a->threshold ? 0 : a->kept;
    }
    return seen;
}

/* The relative error of exp(score - reference): the exponent's own error, that of the subtraction,
 * and the function's. */
static double share_off(const work *w, int64_t j, double reference) {
    double exponent = w->score_off[j] + w->unit * fabs(w->score[j] - reference);
    return expm1(exponent) + 8 * w->unit;
}

static void put(const dl_interp_ends *to, dl_dtype type, int k, int64_t at, double value,
                double off) {
    if (!to) return;
    bool finite = isfinite(value) && isfinite(off);
    dl_range r = dl_range_store(type, (dl_range){value, value - off, value + off});
    to->low[k][at] = finite ? r.low : -INFINITY;
    to->high[k][at] = finite ? r.high : INFINITY;
}

/* Adds to the error bound zero times a masked value, which is NaN where that value is not
 * finite. */
static void hide(double *moved, const double *of, int64_t n) {
    for (int64_t f = 0; f < n; f++) moved[f] += 0 * of[f];
}

/* Probabilities of the keys, relative to the largest score; the query's y and logarithm. `sized`
 * and `moved`: for each element of y, the sum of its terms' magnitudes, and of their errors. */
static void attend(work *w, int64_t n, int64_t i, int64_t head, double *const *out, double *sized,
                   double *moved, const dl_interp_ends *ranges) {
    const dl_attention *a = &w->a;
    int64_t seen = find_scores(w, n, i, head), at = query_at(w, n, i, head),
            log = log_at(w, n, i, head);
    double most = -INFINITY, sum = 0, worst = 0, *y = out[DL_ATT_Y] + at;
    for (int64_t j = 0; j < seen; j++)
        most = isnan(w->score[j]) || w->score[j] > most ? w->score[j] : most;
    bool blind = a->addends && dl_attention_blind(most);
    for (int64_t j = 0; j < seen; j++) sum += w->share[j] = blind ? 0 : exp(w->score[j] - most);
    for (int64_t j = 0; j < seen; j++)
        if (w->share[j] > 0) worst = fmax(worst, share_off(w, j, most));
    for (int64_t f = 0; f < a->size; f++) y[f] = sized[f] = moved[f] = 0;
    for (int64_t j = 0; j < seen; j++) {
        const double *v = w->v + key_at(w, n, j, head);
        double p = (blind ? 0 : w->share[j] / sum) * w->factor[j];
        double off = ranges && w->share[j] > 0 ? share_off(w, j, most) + w->factor_unit : 0;
        for (int64_t f = 0; f < a->size; f++) {
            y[f] += p * v[f];
            sized[f] += fabs(p * v[f]), moved[f] += fabs(p * v[f]) * off + fabs(v[f]) * w->tiny;
        }
    }
    out[DL_ATT_LOG][log] = blind ? -INFINITY : most + log1p(sum - 1);
    if (!ranges) return;
    for (int64_t j = seen; j < a->keys; j++) hide(moved, w->v + key_at(w, n, j, head), a->size);
    /* The additions count twice: partial sums are rescaled, block by block, when a larger score
     * occurs. */
    double whole = worst + 2 * slack(w, seen, 1);
    for (int64_t f = 0; f < a->size; f++)
        put(ranges, w->made, DL_ATT_Y, at + f, y[f],
            moved[f] + 2 * slack(w, seen, sized[f]) + sized[f] * (whole + 4 * w->unit));
    put(ranges, w->type, DL_ATT_LOG, log, out[DL_ATT_LOG][log],
        whole + 4 * w->unit * (1 + fabs(most) + fabs(out[DL_ATT_LOG][log])));
}

void dl_interp_flash_attention(const dl_node *n, double *const *data, bool round,
                               const dl_interp_ends *ranges) {
    work w = begin(n, data, round);
    double *sums = dl_calloc((size_t)w.a.size * 2 + 1, sizeof *sums);
    for (int64_t b = 0; b < w.a.batch; b++)
        for (int64_t h = 0; h < w.a.heads; h++)
            for (int64_t i = 0; i < w.a.queries; i++)
                attend(&w, b, i, h, data + n->nin, sums, sums + w.a.size, ranges);
    free(sums), free(w.score);
}

/* Sums for the ranges of gradients, by result and in the results' layout: magnitudes, and error
 * bounds. */
typedef struct {
    double *sized[3], *moved[3];
} totals;

static void add(const totals *t, double *const *out, int k, int64_t at, double factor,
                double factor_off, const double *of, int64_t n) {
    for (int64_t f = 0; f < n; f++) out[k][at + f] += factor * of[f];
    for (int64_t f = 0; f < n && t; f++) {
        t->sized[k][at + f] += fabs(factor * of[f]);
        t->moved[k][at + f] += fabs(factor_off * of[f]);
    }
}

/* The place in the gradient of addend `of` of a query's first key: that gradient has all queries.
 */
static int64_t addend_grad_at(const dl_attention *a, int of, int64_t n, int64_t head, int64_t i) {
    int64_t scale = a->stride[of].query ? 1 : a->queries; /* of the distances in the addend */
    return (n * a->stride[of].sample + head * a->stride[of].head) * scale + i * a->keys;
}

/* With p = exp(score - log), d = sum of y dy: dv = p dy, ds = p (v dy - d) scale, dq = ds k, dk =
 * ds q; where dropout drops a probability, the term is 0 in dv and in v dy. With `of` from 0 on
 * instead the gradient of that addend, p (v dy - d). */
static void attend_back(work *w, int64_t n, int64_t i, int64_t head, int of, const double *y,
                        double *const *out, const totals *t) {
    const dl_attention *a = &w->a;
    int64_t seen = find_scores(w, n, i, head), at = query_at(w, n, i, head);
    double log = w->log[log_at(w, n, i, head)], size;
    if (a->addends && dl_attention_blind(log)) log = 0;
    const double *dy = w->dy + at, *q = w->q + at;
    double d = dot(dy, y + at, a->size, &size), d_off = slack(w, a->size, size);
    for (int64_t j = 0; j < seen; j++) {
        int64_t key = key_at(w, n, j, head);
        double p = exp(w->score[j] - log),
               p_off = t ? (p > 0 ? p * share_off(w, j, log) : 0) + w->tiny : 0;
        double dp = dot(dy, w->v + key, a->size, &size) * w->factor[j];
        double dp_off = slack(w, a->size, size * w->factor[j]);
        double scale = of < 0 ? a->scale : 1, ds = p * (dp - d) * scale;
        double ds_off =
            (p_off * fabs(dp - d) + p * (dp_off + d_off + 4 * w->unit * (fabs(dp) + fabs(d)))) *
            scale;
        p_off += w->factor_unit * p, ds_off += w->factor_unit * fabs(ds);
        if (of >= 0) {
            const double one = 1;
            add(t, out, 0, addend_grad_at(a, of, n, head, i) + j, ds, ds_off, &one, 1);
            continue;
        }
        add(t, out, DL_GRAD_DV, key, p * w->factor[j], p_off * w->factor[j], dy, a->size);
        add(t, out, DL_GRAD_DQ, at, ds, ds_off, w->k + key, a->size);
        add(t, out, DL_GRAD_DK, key, ds, ds_off, q, a->size);
    }
    for (int64_t j = seen; of < 0 && t && j < a->keys; j++) {
        int64_t key = key_at(w, n, j, head);
        hide(t->moved[DL_GRAD_DV] + key, dy, a->size);
        hide(t->moved[DL_GRAD_DQ] + at, w->k + key, a->size);
        hide(t->moved[DL_GRAD_DK] + key, q, a->size);
    }
}

/* The backward halves; `of`: the addend whose gradient is found, or -1. */
static void find_gradients(const dl_node *n, double *const *data, bool round, int of,
                           const dl_interp_ends *ranges) {
    work w = begin(n, data, round);
    double *const *out = data + n->nin;
    totals sums, *t = ranges ? &sums : NULL;
    w.log = data[DL_GRAD_LOG], w.dy = data[DL_GRAD_DY];
    for (int k = 0; k < n->nout; k++) {
        size_t count = (size_t)dl_type_count(&n->out[k].type);
        memset(out[k], 0, sizeof(double) * count);
        sums.sized[k] = ranges ? dl_calloc(count + 1, sizeof(double)) : NULL;
        sums.moved[k] = ranges ? dl_calloc(count + 1, sizeof(double)) : NULL;
    }
    for (int64_t b = 0; b < w.a.batch; b++)
        for (int64_t h = 0; h < w.a.heads; h++)
            for (int64_t i = 0; i < w.a.queries; i++)
                attend_back(&w, b, i, h, of, data[DL_GRAD_Y], out, t);
    for (int k = 0; k < n->nout; k++) {
        int64_t terms = of >= 0 ? w.a.batch * w.a.heads : k == DL_GRAD_DQ ? w.a.keys : w.a.queries;
        for (int64_t i = 0; ranges && i < dl_type_count(&n->out[k].type); i++)
            put(ranges, n->out[k].type.dtype, k, i, out[k][i],
                sums.moved[k][i] + slack(&w, terms, sums.sized[k][i]) +
                    4 * w.unit * sums.sized[k][i]);
        free(sums.sized[k]), free(sums.moved[k]);
    }
    free(w.score);
}

void dl_interp_flash_attention_grad(const dl_node *n, double *const *data, bool round,
                                    const dl_interp_ends *ranges) {
    find_gradients(n, data, round, -1, ranges);
}

void dl_interp_flash_attention_bias_grad(const dl_node *n, double *const *data, bool round,
                                         const dl_interp_ends *ranges) {
    find_gradients(n, data, round, (int)dl_node_int(n, DL_ATTR_k), ranges);
}
