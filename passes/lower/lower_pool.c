/* Pooling and resizing: windows as affine views, one axis after the other, and an ordinary
 * reduction over their taps. */
#include "ir/base/counts.h"
#include "ir/relation.h"
#include "passes/lower/lower.h"

static dl_value *mul(dl_builder *b, dl_value *x, dl_value *y) {
    return dl_build2(b, DL_OP_mul, x, y);
}

/* Windows of this length avoid a view of taps where they can: its gradient reads every tap for
 * every element. */
enum { LONG_WINDOW = 64, MOST_BINS = 256 };

static dl_value *build_slice(dl_builder *b, dl_value *x, const char *axis, int64_t from,
                             int64_t to) {
    if (from == 0 && to == x->type.axis[dl_type_axis(&x->type, axis)].size) return x;
    return dl_build_slice(b, x, axis, from, to);
}

static dl_value *build_unsqueeze(dl_builder *b, dl_value *x, const char *axis, int at) {
    dl_attr to[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_int(DL_ATTR_index, at)};
    return dl_build(b, DL_OP_unsqueeze, 1, &x, 2, to);
}

/* The first size*taps elements of an axis as `size` parts of `taps` elements each, along the new
 * axis `tap`. */
static dl_value *split_axis(dl_builder *b, dl_value *x, dl_axis to, const char *tap, int64_t taps) {
    int at = dl_type_axis(&x->type, to.name);
    x = build_slice(b, x, to.name, 0, to.size * taps);
    dl_type t = x->type;
    for (int i = t.rank++; i > at; i--) t.axis[i] = t.axis[i - 1];
    t.axis[at] = to, t.axis[at + 1] = (dl_axis){tap, taps};
    return dl_build_as(b, DL_OP_reshape, 1, &x, 0, NULL, t);
}

/* The windows of the i-th spatial axis of x without a view. A single window is the axis itself,
 * as far as the window extends, and its axis is that of the taps. Long adjacent windows split
 * the axis. NULL: a view is needed. */
static dl_value *plain_windows(dl_builder *b, const dl_node *n, dl_value *x, int i,
                               const char **tap) {
    dl_windows w = dl_node_windows(n);
    const dl_attr *dilation = dl_node_attr(n, DL_ATTR_dilation);
    dl_axis to = n->out[0].type.axis[2 + i], of = n->in[0]->type.axis[2 + i];
    int64_t taken = dl_node_attr(n, DL_ATTR_kernel)->ints[i], lo = w.pad_lo[i];
    if (dilation && dilation->ints[i] != 1) return NULL;
    if (to.size == 1 && lo < taken && of.size > 0) {
        *tap = to.name;
        return build_slice(b, x, to.name, 0, taken - lo < of.size ? taken - lo : of.size);
    }
    if (taken < LONG_WINDOW || w.stride[i] != taken || lo || to.size > of.size / taken) return NULL;
    return split_axis(b, x, to, *tap, taken);
}

/* The spatial axes of x as windows of n's stride, padding and dilation. The names of the tap
 * axes are returned in `taps`; mostly they are new. Views come last: the gradient of a maximum
 * looks for them there. */
static dl_value *windows(dl_builder *b, const dl_node *n, dl_value *x, dl_outside outside,
                         const char *taps[3]) {
    const dl_attr *stride = dl_node_attr(n, DL_ATTR_stride), *lo = dl_node_attr(n, DL_ATTR_pad_lo),
                  *kernel = dl_node_attr(n, DL_ATTR_kernel),
                  *dilation = dl_node_attr(n, DL_ATTR_dilation);
    bool plain[3];
    for (int i = 0; i < stride->n; i++) {
        taps[i] = dl_type_fresh(&x->type, dl_internf("k%s", n->out[0].type.axis[2 + i].name));
        dl_value *made = plain_windows(b, n, x, i, &taps[i]);
        if ((plain[i] = made != NULL)) x = made;
    }
    for (int i = 0; i < stride->n; i++) {
        dl_axis to = n->out[0].type.axis[2 + i];
        if (plain[i]) continue;
        x = dl_build_affine(b, x,
                            (dl_affine){.axis = to.name,
                                        .tap = taps[i],
                                        .size = to.size,
                                        .stride = stride->ints[i],
                                        .start = -lo->ints[i],
                                        .taps = kernel->ints[i],
                                        .tap_stride = dilation ? dilation->ints[i] : 1,
                                        .outside = outside});
    }
    return x;
}

/* Reduces x over the axes of taps; a single window becomes an axis of size 1. */
static dl_value *reduce_windows(dl_builder *b, const dl_node *n, dl_op op, dl_value *x,
                                const char *taps[3]) {
    int spatial = dl_node_attr(n, DL_ATTR_stride)->n;
    x = dl_build_reduce(b, op, x, spatial, taps);
    for (int i = 0; i < spatial; i++) {
        const char *axis = n->out[0].type.axis[2 + i].name;
        if (taps[i] == axis) x = build_unsqueeze(b, x, axis, 2 + i);
    }
    return x;
}

dl_value *dl_lower_max_pool(dl_builder *b, const dl_node *n) {
    const char *taps[3];
    dl_value *x = windows(b, n, n->in[0], DL_OUT_LOWEST, taps);
    return reduce_windows(b, n, DL_OP_first_max, x, taps);
}

/* A vector of ones along an axis. */
static dl_value *ones(dl_builder *b, dl_dtype dtype, dl_axis axis) {
    dl_value *one = dl_build_const(b, dtype, 1);
    dl_type t = dl_scalar(dtype);
    t.axis[t.rank++] = axis;
    return dl_build_as(b, DL_OP_broadcast, 1, &one, 0, NULL, t);
}

/* The number of elements of the i-th axis in each window: those of the axis, and padding where
 * it counts. */
static dl_value *count_elements(dl_builder *b, const dl_node *n, int i) {
    dl_windows w = dl_node_windows(n);
    dl_axis of = n->in[0]->type.axis[2 + i], to = n->out[0].type.axis[2 + i];
    bool padded = dl_node_int(n, DL_ATTR_counts_pad);
    if (padded) of.size += w.pad_lo[i] + w.pad_hi[i];
    const char *tap = dl_type_fresh(&n->in[0]->type, dl_internf("k%s", to.name));
    dl_value *v = dl_build_affine(b, ones(b, n->in[0]->type.dtype, of),
                                  (dl_affine){.axis = to.name,
                                              .tap = tap,
                                              .size = to.size,
                                              .stride = w.stride[i],
                                              .start = padded ? 0 : -w.pad_lo[i],
                                              .taps = dl_node_attr(n, DL_ATTR_kernel)->ints[i],
                                              .tap_stride = 1});
    return dl_build_reduce(b, DL_OP_sum, v, 1, &tap);
}

/* Has each window the same number of elements: does every one end within the padding, and does
 * padding count? */
static bool all_alike(const dl_node *n) {
    dl_windows w = dl_node_windows(n);
    bool alike = dl_node_int(n, DL_ATTR_counts_pad);
    for (int i = 0; i < w.n; i++) {
        int64_t last = (n->out[0].type.axis[2 + i].size - 1) * w.stride[i];
        int64_t room = n->in[0]->type.axis[2 + i].size + w.pad_lo[i] + w.pad_hi[i];
        alike &= last + dl_node_attr(n, DL_ATTR_kernel)->ints[i] <= room;
    }
    return alike;
}

dl_value *dl_lower_avg_pool(dl_builder *b, const dl_node *n) {
    const char *taps[3];
    const dl_attr *kernel = dl_node_attr(n, DL_ATTR_kernel);
    dl_value *x = windows(b, n, n->in[0], DL_OUT_ZERO, taps);
    double count = 1;
    bool whole = true; /* all elements that a window counts are in x */
    for (int i = 0; i < kernel->n; i++) {
        whole &= x->type.axis[dl_type_axis(&x->type, taps[i])].size == kernel->ints[i];
        count *= (double)kernel->ints[i];
    }
    if (all_alike(n) && whole) return reduce_windows(b, n, DL_OP_mean, x, taps);
    x = reduce_windows(b, n, DL_OP_sum, x, taps);
    if (all_alike(n)) return dl_build_k(b, DL_OP_div, x, count);
    for (int i = 0; i < kernel->n; i++) x = dl_build2(b, DL_OP_div, x, count_elements(b, n, i));
    return x;
}

/* The mean of each bin by itself: for few bins of many elements. */
static dl_value *mean_of_few(dl_builder *b, dl_value *x, int axis, int64_t m) {
    dl_axis of = x->type.axis[axis];
    dl_value **bins = DL_NEWS(b->graph->module->arena, dl_value *, m);
    for (int64_t i = 0; i < m; i++) {
        dl_value *bin =
            build_slice(b, x, of.name, i * of.size / m, ((i + 1) * of.size + m - 1) / m);
        bin = dl_build_reduce(b, DL_OP_mean, bin, 1, &of.name);
        bins[i] = build_unsqueeze(b, bin, of.name, axis);
    }
    dl_attr along = dl_attr_name(DL_ATTR_axis, of.name);
    return m == 1 ? bins[0] : dl_build(b, DL_OP_cat, (int)m, bins, 1, &along);
}

/* The i-th of m bins of n elements: from floor(i n / m) up to ceil((i+1) n / m), as
 * torch.nn.AdaptiveAvgPool. */
static dl_value *mean_of_bins(dl_builder *b, dl_value *x, int axis, int64_t m) {
    dl_axis of = x->type.axis[axis];
    const char *tap = dl_type_fresh(&x->type, dl_internf("k%s", of.name));
    int64_t n = of.size;
    if (m == 1) return mean_of_few(b, x, axis, m);
    if (n % m == 0 && n / m >= LONG_WINDOW) {
        x = split_axis(b, x, (dl_axis){of.name, m}, tap, n / m);
        return dl_build_reduce(b, DL_OP_mean, x, 1, &tap);
    }
    if (n / m >= LONG_WINDOW && m <= MOST_BINS) return mean_of_few(b, x, axis, m);
    if (n % m == 0) {
        x = dl_build_affine(b, x,
                            (dl_affine){.axis = of.name,
                                        .tap = tap,
                                        .size = m,
                                        .stride = n / m,
                                        .taps = n / m,
                                        .tap_stride = 1});
        return dl_build_reduce(b, DL_OP_mean, x, 1, &tap);
    }
    dl_affine first = {.axis = of.name, .size = m, .stride = n, .div = m}, last = first;
    last.start = n - 1;
    dl_affine reach = {
        .axis = of.name, .tap = tap, .size = n, .stride = 1, .taps = n / m + 2, .tap_stride = 1};
    dl_value *number = dl_build_count(b, &x->type, axis, x->type.dtype);
    dl_value *from = dl_build_affine(b, number, first), *to = dl_build_affine(b, number, last);
    x = dl_build_affine(b, dl_build_affine(b, x, reach), first);
    dl_value *tap_number = dl_build_count(b, &x->type, x->type.rank - 1, x->type.dtype);
    dl_value *length = dl_build_k(b, DL_OP_add, dl_build2(b, DL_OP_sub, to, from), 1);
    dl_value *in_bin = dl_build2(b, DL_OP_gt, length, tap_number);
    dl_value *zero = dl_build_const(b, x->type.dtype, 0);
    dl_type all = x->type; /* the type with x's order of axes */
    all.dtype = DL_BOOL;
    in_bin = dl_build_as(b, DL_OP_broadcast, 1, &in_bin, 0, NULL, all);
    x = dl_build3(b, DL_OP_select, in_bin, x, zero);
    return dl_build2(b, DL_OP_div, dl_build_reduce(b, DL_OP_sum, x, 1, &tap), length);
}

dl_value *dl_lower_adaptive_avg_pool(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0];
    for (int i = 2; i < x->type.rank; i++) x = mean_of_bins(b, x, i, n->out[0].type.axis[i].size);
    return x;
}

/* Linear interpolation between the two neighbours of position (i s + c) / d of the axis,
 * weighted by distance. Before the first and after the last element it is that element alone. */
static dl_value *interpolate(dl_builder *b, dl_value *x, int axis, int64_t m, bool corners) {
    dl_axis of = x->type.axis[axis];
    dl_dtype dtype = x->type.dtype;
    int64_t n = of.size, s = corners ? n - 1 : 2 * n, c = corners ? 0 : n - m,
            d = corners ? m - 1 : 2 * m;
    if (d == 0) s = 0, d = 1; /* one position: the first element */
    int64_t by = dl_gcd(dl_gcd(s, d), c < 0 ? -c : c);
    s /= by, c /= by, d /= by;
    const char *tap = dl_type_fresh(&x->type, dl_internf("k%s", of.name));
    /* Element j of `pairs` is x[j-1] and x[j]; the index is one more than in x, so that it is
     * never outside. */
    dl_affine pair = {.axis = of.name,
                      .tap = tap,
                      .size = n + 1,
                      .stride = 1,
                      .start = -1,
                      .taps = 2,
                      .tap_stride = 1};
    dl_affine place = {
        .axis = of.name, .size = m, .stride = s ? s : 1, .start = c + d, .div = s ? d : m};
    if (!s) place.start = m;
    dl_value *pairs = dl_build_affine(b, x, pair), *u = dl_build_affine(b, pairs, place);
    dl_value *left = dl_build_affine(b, dl_build_count(b, &pairs->type, axis, dtype), place);
    dl_value *number = dl_build_count(b, &u->type, axis, dtype);
    dl_value *at = dl_build_k(b, DL_OP_add, dl_build_k(b, DL_OP_mul, number, (double)s / (double)d),
                              (double)c / (double)d);
    at = dl_build_k(b, DL_OP_min, dl_build_k(b, DL_OP_max, at, 0), (double)(n - 1));
    /* 1 - |at - (left - 1 + tap)| */
    dl_value *taps = dl_build_count(b, &u->type, u->type.rank - 1, dtype);
    dl_value *past = dl_build_k(b, DL_OP_add, dl_build2(b, DL_OP_sub, at, left), 1);
    dl_value *far = dl_build2(b, DL_OP_sub, past, taps);
    dl_value *share =
        dl_build_k(b, DL_OP_add, dl_build1(b, DL_OP_neg, dl_build1(b, DL_OP_abs, far)), 1);
    return dl_build_reduce(b, DL_OP_sum, mul(b, u, dl_build_k(b, DL_OP_max, share, 0)), 1, &tap);
}

dl_value *dl_lower_upsample(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0];
    bool linear = strcmp(dl_node_name(n, DL_ATTR_mode), "linear") == 0;
    for (int i = 2; i < x->type.rank; i++) {
        int64_t m = n->out[0].type.axis[i].size, size = x->type.axis[i].size, by = dl_gcd(size, m);
        if (m == size) continue;
        if (linear)
            x = interpolate(b, x, i, m, dl_node_int(n, DL_ATTR_corners));
        else
            x = dl_build_affine(
                b, x,
                (dl_affine){
                    .axis = x->type.axis[i].name, .size = m, .stride = size / by, .div = m / by});
    }
    return x;
}
