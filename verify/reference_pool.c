/* References of pooling and resizing, of attention, and of ops that move elements. */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ir/base/philox.h"
#include "verify/reference.h"

/* ---- windows ---- */

typedef struct {
    int n; /* spatial axes: 2, 3, ... of operand and result */
    const int64_t *stride, *pad_lo, *pad_hi, *kernel;
    int64_t dilation[DL_MAX_RANK];
} pool;

static pool pool_of(const dl_node *n) {
    pool p = {n->in[0]->type.rank - 2,
              dl_node_attr(n, DL_ATTR_stride)->ints,
              dl_node_attr(n, DL_ATTR_pad_lo)->ints,
              dl_node_attr(n, DL_ATTR_pad_hi)->ints,
              dl_node_attr(n, DL_ATTR_kernel)->ints,
              {0}};
    const dl_attr *dilation = dl_node_attr(n, DL_ATTR_dilation);
    for (int i = 0; i < p.n; i++) p.dilation[i] = dilation ? dilation->ints[i] : 1;
    return p;
}

typedef struct {
    double sum, most;
    int64_t place; /* the index of the first maximum */
} pooled;

/* Combines the taps of the window at `at` that are inside the operand. */
static pooled pool_at(const pool *p, const dl_type *x, const double *data,
                      const int64_t at[DL_MAX_RANK]) {
    pooled r = {0, -INFINITY, -1};
    dl_type taps = dl_scalar(DL_F64);
    int64_t tap[DL_MAX_RANK] = {0};
    taps.rank = p->n;
    for (int i = 0; i < p->n; i++) taps.axis[i].size = p->kernel[i];
    do {
        int64_t from[DL_MAX_RANK] = {at[0], at[1]};
        bool inside = true;
        for (int i = 0; i < p->n; i++) {
            from[2 + i] = at[2 + i] * p->stride[i] - p->pad_lo[i] + tap[i] * p->dilation[i];
            inside = inside && from[2 + i] >= 0 && from[2 + i] < x->axis[2 + i].size;
        }
        if (!inside) continue;
        double v = data[dl_ref_place(x, from)];
        r.sum += v;
        if (isnan(v) || v > r.most) r.most = v, r.place = dl_ref_place(x, from);
    } while (dl_ref_next(&taps, tap));
    return r;
}

void dl_ref_max_pool(const dl_node *n, const double *const *in, double *out,
                     const dl_reference_draw *draw) {
    const dl_type *t = &n->out[0].type;
    pool p = pool_of(n);
    int64_t at[DL_MAX_RANK] = {0}, i = 0;
    (void)draw;
    if (!dl_type_count(t)) return;
    do out[i++] = pool_at(&p, &n->in[0]->type, in[0], at).most;
    while (dl_ref_next(t, at));
}

void dl_ref_max_places(const dl_node *n, const double *x, double *place) {
    const dl_type *t = &n->out[0].type;
    pool p = pool_of(n);
    int64_t at[DL_MAX_RANK] = {0}, i = 0;
    if (!dl_type_count(t)) return;
    do place[i++] = (double)pool_at(&p, &n->in[0]->type, x, at).place;
    while (dl_ref_next(t, at));
}

/* The sum divided by the number of elements of the window inside the operand, or inside it and its
 * padding (torch.nn.AvgPool: count_include_pad). */
void dl_ref_avg_pool(const dl_node *n, const double *const *in, double *out,
                     const dl_reference_draw *draw) {
    const dl_type *t = &n->out[0].type, *x = &n->in[0]->type;
    pool p = pool_of(n);
    bool padded = dl_node_int(n, DL_ATTR_counts_pad);
    int64_t at[DL_MAX_RANK] = {0}, k = 0;
    (void)draw;
    if (!dl_type_count(t)) return;
    do {
        double count = 1;
        for (int i = 0; i < p.n; i++) {
            int64_t size = x->axis[2 + i].size, from = at[2 + i] * p.stride[i] - p.pad_lo[i];
            int64_t to = from + p.kernel[i], end = padded ? size + p.pad_hi[i] : size;
            if (to > end) to = end;
            if (!padded && from < 0) from = 0;
            count *= (double)(to - from);
        }
        out[k++] = pool_at(&p, x, in[0], at).sum / count;
    } while (dl_ref_next(t, at));
}

/* Bin i of m of n elements: from floor(i n / m) up to ceil((i + 1) n / m)
 * (torch.nn.AdaptiveAvgPool). */
void dl_ref_adaptive_avg_pool(const dl_node *n, const double *const *in, double *out,
                              const dl_reference_draw *draw) {
    const dl_type *t = &n->out[0].type, *x = &n->in[0]->type;
    int64_t at[DL_MAX_RANK] = {0}, k = 0;
    (void)draw;
    if (!dl_type_count(t)) return;
    do {
        int64_t first[DL_MAX_RANK] = {at[0], at[1]}, inside[DL_MAX_RANK] = {0};
        dl_type bin = dl_scalar(DL_F64);
        bin.rank = x->rank, bin.axis[0].size = bin.axis[1].size = 1;
        for (int i = 2; i < x->rank; i++) {
            int64_t size = x->axis[i].size, m = t->axis[i].size;
            first[i] = at[i] * size / m;
            bin.axis[i].size = ((at[i] + 1) * size + m - 1) / m - first[i];
        }
        double sum = 0;
        if (dl_type_count(&bin)) do {
                int64_t from[DL_MAX_RANK];
                for (int i = 0; i < x->rank; i++) from[i] = first[i] + inside[i];
                sum += in[0][dl_ref_place(x, from)];
            } while (dl_ref_next(&bin, inside));
        out[k++] = sum / (double)dl_type_count(&bin);
    } while (dl_ref_next(t, at));
}

/* The position of element i of m along an axis of n elements (torch.nn.functional.interpolate). */
static double source(int64_t i, int64_t n, int64_t m, bool corners) {
    if (corners) return m > 1 ? (double)i * (double)(n - 1) / (double)(m - 1) : 0;
    double at = ((double)i + 0.5) * (double)n / (double)m - 0.5;
    return at < 0 ? 0 : at;
}

/* Interpolates linearly along each axis in turn, or takes the nearest element below (mode
 * "nearest"). */
void dl_ref_upsample(const dl_node *n, const double *const *in, double *out,
                     const dl_reference_draw *draw) {
    const dl_type *t = &n->out[0].type, *x = &n->in[0]->type;
    bool linear = strcmp(dl_node_name(n, DL_ATTR_mode), "linear") == 0,
         corners = dl_node_int(n, DL_ATTR_corners);
    int64_t at[DL_MAX_RANK] = {0}, k = 0;
    (void)draw;
    if (!dl_type_count(t)) return;
    do {
        double sum = 0;
        for (unsigned side = 0; side < 1u << (x->rank - 2); side++) {
            int64_t from[DL_MAX_RANK] = {at[0], at[1]};
            double share = 1;
            for (int i = 2; i < x->rank; i++) {
                int64_t size = x->axis[i].size, m = t->axis[i].size;
                bool upper = side >> (i - 2) & 1;
                double place = source(at[i], size, m, corners), below = floor(place);
                if (size == m) place = below = (double)at[i];
                if (!linear) place = below = (double)(at[i] * size / m);
                from[i] = (int64_t)below + upper < size ? (int64_t)below + upper : size - 1;
                share *= upper ? place - below : 1 - (place - below);
            }
            if (share != 0) sum += share * in[0][dl_ref_place(x, from)];
        }
        out[k++] = sum;
    } while (dl_ref_next(t, at));
}

/* ---- attention ---- */

/* The sum that is added to a score: biases, and minus infinity where a mask is false. An addend's
 * axes of size 1 are shared. */
static double added(const dl_node *n, const double *const *in, const int64_t at[4]) {
    double sum = 0;
    for (int k = 3; k < n->nin; k++) {
        const dl_type *t = &n->in[k]->type;
        int64_t place = 0;
        for (int j = 0; j < 4; j++)
            place = place * t->axis[j].size + (t->axis[j].size == 1 ? 0 : at[j]);
        sum += t->dtype != DL_BOOL ? in[k][place] : in[k][place] != 0 ? 0 : -INFINITY;
    }
    return sum;
}

/* softmax(q k^T / sqrt(E / heads)) v for each head; where all keys are hidden, zeros; if causal, a
 * query sees no later key; dropout is applied to the softmax
 * (torch.nn.functional.scaled_dot_product_attention). */
void dl_ref_attention(const dl_node *n, const double *const *in, double *out,
                      const dl_reference_draw *draw) {
    const dl_type *q = &n->in[0]->type, *k = &n->in[1]->type;
    const dl_attr *causal = dl_node_attr(n, DL_ATTR_causal);
    int64_t heads = dl_node_int(n, DL_ATTR_heads), queries = q->axis[1].size,
            keys = k->axis[1].size;
    int64_t row = q->axis[2].size, size = row / heads;
    double rate = dl_node_float(n, DL_ATTR_rate),
           *share = dl_calloc((size_t)keys + 1, sizeof *share);
    for (int64_t b = 0; b < q->axis[0].size; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < queries; i++) {
                const double *own = in[0] + (b * queries + i) * row + h * size;
                int64_t seen = causal && causal->i && i + 1 < keys ? i + 1 : keys;
                double most = -INFINITY, sum = 0, *y = out + (b * queries + i) * row + h * size;
                for (int64_t j = 0; j < seen; j++) {
                    const double *key = in[1] + (b * keys + j) * row + h * size;
                    share[j] = 0;
                    for (int64_t f = 0; f < size; f++)
                        share[j] += own[f] * key[f] / sqrt((double)size);
                    share[j] += added(n, in, (int64_t[]){b, h, i, j});
                    if (isnan(share[j]) || share[j] > most) most = share[j];
                }
                bool blind = n->nin > 3 && most < -DBL_MAX;
                for (int64_t j = 0; j < seen; j++)
                    sum += share[j] = blind ? 0 : exp(share[j] - most);
                for (int64_t f = 0; f < size; f++) y[f] = 0;
                for (int64_t j = 0; j < seen; j++) {
                    uint64_t element = (uint64_t)(((b * heads + h) * queries + i) * keys + j);
                    double drawn = rate > 0 ? (double)dl_unit_float(dl_random_word(
                                                  draw->seed, draw->step, draw->number, element))
                                            : 1;
                    double p =
                        rate < 1 && drawn >= rate && !blind ? share[j] / sum / (1 - rate) : 0;
                    for (int64_t f = 0; f < size; f++)
                        y[f] += p * in[2][(b * keys + j) * row + h * size + f];
                }
            }
    free(share);
}

/* ---- moves ---- */

void dl_ref_reshape(const dl_node *n, const double *const *in, double *out,
                    const dl_reference_draw *draw) {
    (void)draw;
    memcpy(out, in[0], sizeof *out * (size_t)dl_type_count(&n->out[0].type));
}

void dl_ref_cat(const dl_node *n, const double *const *in, double *out,
                const dl_reference_draw *draw) {
    (void)draw;
    const dl_type *t = &n->out[0].type;
    int axis = dl_type_axis(t, dl_node_name(n, DL_ATTR_axis));
    int64_t rows = 1;
    for (int i = 0; i < axis; i++) rows *= t->axis[i].size;
    for (int64_t row = 0; row < rows; row++)
        for (int k = 0; k < n->nin; k++) {
            int64_t size = dl_type_count(&n->in[k]->type) / rows;
            memcpy(out, in[k] + row * size, sizeof *out * (size_t)size);
            out += size;
        }
}

/* One side of a pattern: its names in order, and sizes where they are given or an atom is a whole
 * axis. */
typedef struct {
    int n;
    char name[DL_MAX_ATOMS][64];
    int64_t size[DL_MAX_ATOMS];
} atoms;

static atoms read_side(const char *s, const char *end, const dl_type *whole) {
    atoms a = {0};
    int group = 0;
    bool inside = false;
    while (s < end && a.n < DL_MAX_ATOMS) {
        size_t n = 0;
        while (s + n < end && (isalnum((unsigned char)s[n]) || s[n] == '_')) n++;
        if (!n) {
            group += *s == ')';
            inside = *s == '(' || (inside && *s != ')');
            s++;
            continue;
        }
        memcpy(a.name[a.n], s, n < 63 ? n : 63);
        s += n;
        a.size[a.n] = whole && !inside && group < whole->rank ? whole->axis[group].size : 0;
        if (s < end && *s == '=') a.size[a.n] = strtoll(s + 1, (char **)&s, 10);
        group += !inside, a.n++;
    }
    return a;
}

/* einops' rearrange: the atoms of the left side, in the order of the right side. */
void dl_ref_rearrange(const dl_node *n, const double *const *in, double *out,
                      const dl_reference_draw *draw) {
    const char *pattern = dl_node_attr(n, DL_ATTR_pattern)->s, *arrow = strstr(pattern, "->");
    atoms left = read_side(pattern, arrow, &n->in[0]->type),
          right = read_side(arrow + 2, pattern + strlen(pattern), NULL);
    int64_t stride[DL_MAX_ATOMS] = {0}, at[DL_MAX_ATOMS] = {0}, size[DL_MAX_ATOMS] = {0}, count = 1;
    (void)draw;
    for (int k = left.n - 1; k >= 0; k--) {
        for (int i = 0; i < right.n; i++)
            if (strcmp(right.name[i], left.name[k]) == 0) stride[i] = count, size[i] = left.size[k];
        count *= left.size[k];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t place = 0;
        for (int k = 0; k < right.n; k++) place += at[k] * stride[k];
        out[i] = in[0][place];
        for (int k = right.n - 1; k >= 0 && ++at[k] == size[k]; k--) at[k] = 0;
    }
}
