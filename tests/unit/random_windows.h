/* Makers of random nodes, with random_nodes.h: contractions by windows, pooling, resizing and group
 * norms. */
#ifndef DL_RANDOM_WINDOWS_H
#define DL_RANDOM_WINDOWS_H
#include "tests/unit/random_nodes.h"

/* ---- contractions ---- */
static inline bool is_image(const random_maker *g, const dl_type *t) {
    bool named = t->dtype == g->real && t->rank >= 3 && t->rank <= 5;
    for (int i = 1; named && i < t->rank; i++) named = *t->axis[i].name != 0;
    return named;
}
static inline dl_value *random_image(random_maker *g) {
    dl_value *x = random_pick(g, is_image);
    if (x && !one_in(&g->r, 4)) return x;
    static const char *const names[] = {"N", "C", "D", "H", "W"};
    int spatial = 1 + below(&g->r, 3);
    dl_type t = dl_scalar(g->real);
    for (int i = 0; i < 2 + spatial; i++) {
        int64_t size = i == 0 ? 1 + below(&g->r, 3) : random_size(g);
        while (dl_type_count(&t) * size > RANDOM_LARGEST) size = size / 2 > 0 ? size / 2 : 1;
        dl_type_push(&t, dl_intern(names[i < 2 ? i : 5 - spatial + i - 2]), size);
    }
    return random_var(g, t);
}
typedef struct {
    dl_attr
        attrs[6]; /* stride, pad_lo, pad_hi, perhaps dilation and groups; room for size or kernel */
    int n;        /* of them, without the last */
    int64_t kernel[3], out[3], groups;
} random_window;

/* A window over the spatial axes of x that slides at least once; `up`: x is what the windows would
 * make. One in three has groups, which divide x's channels: as many as there are, or some. */
static inline random_window random_slide(random_maker *g, const dl_type *x, bool up) {
    random_window w = {.groups = 1};
    int64_t stride[3], lo[3], hi[3], dilation[3];
    int n = x->rank - 2;
    bool spread = one_in(&g->r, 3);
    for (int i = 0; i < n; i++) {
        int64_t size = x->axis[2 + i].size, k = 1 + below(&g->r, one_in(&g->r, 4) ? 7 : 4);
        dilation[i] = spread ? 1 + below(&g->r, 3) : 1;
        int64_t reach = (k - 1) * dilation[i] + 1;
        stride[i] = 1 + below(&g->r, 3), lo[i] = below(&g->r, (int)reach),
        hi[i] = below(&g->r, (int)reach);
        while (!up && size + lo[i] + hi[i] < (k - 1) * dilation[i] + 1) k--;
        reach = (k - 1) * dilation[i] + 1;
        w.kernel[i] = k;
        w.out[i] = (size + lo[i] + hi[i] - reach) / stride[i] + 1;
        if (up) { /* with what a floor division would drop */
            int64_t least = (size - 1) * stride[i] + reach;
            while (least - lo[i] - hi[i] < 1)
                lo[i] = lo[i] ? lo[i] - 1 : 0, hi[i] = hi[i] ? hi[i] - 1 : 0;
            w.out[i] = least - lo[i] - hi[i] + below(&g->r, (int)stride[i]);
        }
    }
    int64_t channels = x->axis[1].size;
    if (one_in(&g->r, 3)) w.groups = one_in(&g->r, 2) ? channels : 1 + below(&g->r, (int)channels);
    while (channels % w.groups) w.groups--;
    w.attrs[w.n++] = dl_attr_ints(DL_ATTR_stride, n, stride);
    w.attrs[w.n++] = dl_attr_ints(DL_ATTR_pad_lo, n, lo),
    w.attrs[w.n++] = dl_attr_ints(DL_ATTR_pad_hi, n, hi);
    if (spread) w.attrs[w.n++] = dl_attr_ints(DL_ATTR_dilation, n, dilation);
    if (w.groups > 1 || one_in(&g->r, 8)) w.attrs[w.n++] = dl_attr_int(DL_ATTR_groups, w.groups);
    return w;
}
/* As many channels as the other side may have: a multiple of the groups, often the same as there.
 */
static inline int64_t random_channels(random_maker *g, const dl_type *x, const random_window *w) {
    if (one_in(&g->r, 2)) return x->axis[1].size;
    int64_t n = random_size(g);
    return w->groups == 1 ? n : w->groups * (1 + (n - 1) % 4);
}
/* A weight of these sizes: one that is there, or a new one. */
static inline dl_value *random_weight(random_maker *g, int64_t o, int64_t c, int n,
                                      const int64_t *kernel, const dl_type *x) {
    dl_type t = dl_scalar(g->real);
    dl_type_push(&t, dl_intern("O"), o), dl_type_push(&t, dl_intern("C"), c);
    for (int i = 0; i < n; i++) dl_type_push(&t, dl_internf("k%s", x->axis[2 + i].name), kernel[i]);
    for (int i = 0; i < g->n; i++)
        if (dl_type_same(&g->pool[i]->type, &t) && !one_in(&g->r, 4)) return g->pool[i];
    return random_var(g, t);
}
static inline bool random_fits(const random_maker *g, const dl_type *x, int64_t channels,
                               const int64_t *out) {
    int64_t count = x->axis[0].size * channels;
    for (int i = 0; i + 2 < x->rank; i++) count *= out[i];
    return count <= g->largest;
}
/* The node of an op by windows whose operands are these; the other is NULL. */
static inline dl_value *random_windows(random_maker *g, dl_op op, dl_value *const of[DL_NTENSORS],
                                       const random_window *w) {
    dl_value *in[] = {of[dl_op_tensor(op, 0)], of[dl_op_tensor(op, 1)]};
    return random_node(g, op, 2, in, w->n, w->attrs, NULL);
}
static inline dl_value *random_windows_y(random_maker *g, dl_op op) {
    dl_value *x = random_image(g);
    random_window w = random_slide(g, &x->type, false);
    int64_t o = random_channels(g, &x->type, &w), c = x->type.axis[1].size / w.groups;
    if (!random_fits(g, &x->type, o, w.out)) return NULL;
    dl_value *weight = random_weight(g, o, c, x->type.rank - 2, w.kernel, &x->type);
    return random_windows(g, op, (dl_value *[]){NULL, x, weight, NULL}, &w);
}
static inline dl_value *random_windows_x(random_maker *g, dl_op op) {
    dl_value *y = random_image(g);
    random_window w = random_slide(g, &y->type, true);
    int n = y->type.rank - 2;
    int64_t c = random_channels(g, &y->type, &w), o = y->type.axis[1].size;
    if (!random_fits(g, &y->type, c, w.out)) return NULL;
    w.attrs[w.n++] = dl_attr_ints(DL_ATTR_size, n, w.out);
    dl_value *weight = random_weight(g, o, c / w.groups, n, w.kernel, &y->type);
    return random_windows(g, op, (dl_value *[]){NULL, NULL, weight, y}, &w);
}
static inline dl_value *random_windows_w(random_maker *g, dl_op op) {
    dl_value *x = random_image(g);
    random_window w = random_slide(g, &x->type, false);
    dl_type y = x->type;
    y.axis[1].size = random_channels(g, &x->type, &w);
    for (int i = 2; i < y.rank; i++) y.axis[i].size = w.out[i - 2];
    if (dl_type_count(&y) > g->largest) return NULL;
    w.attrs[w.n++] = dl_attr_ints(DL_ATTR_kernel, y.rank - 2, w.kernel);
    return random_windows(g, op, (dl_value *[]){NULL, x, NULL, random_var(g, y)}, &w);
}
static inline dl_value *random_rule_windows(random_maker *g, dl_op op) {
    dl_tensor makes = dl_op_tensor(op, DL_RESULT_PLACE);
    return (makes == DL_TENSOR_X   ? random_windows_x
            : makes == DL_TENSOR_Y ? random_windows_y
                                   : random_windows_w)(g, op);
}

/* ---- windows and other affine views ---- */
static inline dl_value *random_read(random_maker *g, dl_value *x, dl_affine a) {
    const char *along[] = {a.axis, a.tap};
    int64_t stride[] = {a.stride, a.tap_stride};
    int n = a.tap ? 2 : 1;
    dl_type t = x->type;
    t.axis[dl_type_axis(&t, a.axis)].size = a.size;
    if (a.tap) dl_type_push(&t, a.tap, a.taps);
    if (a.size < 1 || dl_type_count(&t) > g->largest) return NULL;
    dl_attr attrs[] = {dl_attr_ints(DL_ATTR_stride, n, stride), dl_attr_int(DL_ATTR_start, a.start),
                       dl_attr_names(DL_ATTR_along, n, along),
                       dl_attr_int(DL_ATTR_div, a.div ? a.div : 1),
                       dl_attr_name(DL_ATTR_outside, dl_outside_names[a.outside])};
    return random_node(g, DL_OP_affine, 1, &x, 5, attrs, &t);
}
static inline dl_value *random_rule_affine(random_maker *g, dl_op op) {
    static const dl_outside ways[] = {DL_OUT_EDGE, DL_OUT_WRAP, DL_OUT_REFLECT};
    dl_value *x = random_with_axes(g);
    int at = random_axis(g, x), kind = below(&g->r, 4);
    if ((void)op, at < 0) return NULL;
    int64_t n = x->type.axis[at].size, s = 1 + below(&g->r, 3), d = 1 + below(&g->r, 3);
    dl_affine a = {.axis = x->type.axis[at].name, .stride = s};
    if (kind == 0) { /* a window */
        a.tap = dl_internf("k%s", a.axis);
        if (x->type.rank > 4 || dl_type_axis(&x->type, a.tap) >= 0) return NULL;
        a.taps = 1 + below(&g->r, 4), a.tap_stride = d, a.start = -below(&g->r, 3);
        a.size = (n - a.start - (a.taps - 1) * d - 1) / s + 1;
    } else if (kind == 1) { /* some elements, from either end, and a few beyond */
        a.start = below(&g->r, 3) - 1, a.size = n / s + below(&g->r, 3);
        if (one_in(&g->r, 2)) a.stride = -s, a.start = n - 1;
    } else if (kind == 2) { /* more elements, or fewer */
        a.div = d, a.start = below(&g->r, 3), a.size = (n * d - a.start + s - 1) / s;
    } else {
        int64_t lo = below(&g->r, 4);
        a.stride = 1, a.start = -lo, a.size = n + lo + below(&g->r, 4),
        a.outside = ways[below(&g->r, 3)];
        if (one_in(&g->r, 3)) a.start = below(&g->r, 3), a.size = n;
    }
    return random_read(g, x, a);
}
static inline dl_value *random_rule_pool(random_maker *g, dl_op op) {
    dl_value *x = random_image(g);
    random_window w = random_slide(g, &x->type, false);
    int n = x->type.rank - 2;
    if (one_in(&g->r, 3)) w.attrs[0] = dl_attr_ints(DL_ATTR_stride, n, w.kernel);
    int64_t one[] = {1, 1, 1 + below(&g->r, 2)};
    rng apart = {g->r.state ^ 0x6365696cu}; /* as of tables: see random_var */
    dl_attr attrs[] = {w.attrs[0],
                       w.attrs[1],
                       w.attrs[2],
                       dl_attr_ints(DL_ATTR_kernel, n, w.kernel),
                       op == DL_OP_max_pool ? dl_attr_ints(DL_ATTR_dilation, n, one)
                                            : dl_attr_int(DL_ATTR_counts_pad, below(&g->r, 2)),
                       dl_attr_int(DL_ATTR_ceil, below(&apart, 2))};
    for (int i = 0; i < n; i++) /* half the window at most */
        for (int k = 1; k < 3; k++)
            if (attrs[k].ints[i] > w.kernel[i] / 2) attrs[k].ints[i] = w.kernel[i] / 2;
    return random_node(g, op, 1, &x, 5 + one_in(&apart, 2), attrs, NULL);
}
static inline dl_value *random_rule_resize(random_maker *g, dl_op op) {
    dl_value *x = random_image(g);
    int64_t size[3], count = x->type.axis[0].size * x->type.axis[1].size;
    int n = x->type.rank - 2;
    for (int i = 0; i < n; i++) count *= size[i] = random_size(g) % 9 + 1;
    if (count > g->largest) return NULL;
    dl_attr attrs[] = {dl_attr_ints(DL_ATTR_size, n, size),
                       dl_attr_name(DL_ATTR_mode, one_in(&g->r, 2) ? "linear" : "nearest"),
                       dl_attr_int(DL_ATTR_corners, below(&g->r, 2))};
    return random_node(g, op, 1, &x, dl_ops[op].nattrs, attrs, NULL);
}
static inline dl_value *random_rule_group_norm(random_maker *g, dl_op op) {
    dl_value *x = random_image(g);
    dl_type t = dl_scalar(g->real);
    t.axis[t.rank++] = x->type.axis[1];
    int64_t groups = 1 + below(&g->r, 4);
    if (x->type.axis[1].size % groups) groups = x->type.axis[1].size;
    dl_value *in[] = {x, random_var(g, t), random_var(g, t)};
    dl_attr attrs[] = {dl_attr_float(DL_ATTR_eps, 0.1), dl_attr_int(DL_ATTR_groups, groups)};
    return random_node(g, op, 3, in, 2, attrs, NULL);
}
#endif
