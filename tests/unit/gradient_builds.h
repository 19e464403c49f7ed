/* How the cases of test_gradients.c build their graphs: a function for each form of op. */
#ifndef DL_GRADIENT_BUILDS_H
#define DL_GRADIENT_BUILDS_H
#include "ir/builder.h"
#include "ir/fourier.h"
#include "ir/recurrence.h"
#include "tests/unit/random_numbers.h"

enum { MAX_PARAMS = 5 };

typedef struct grad_case grad_case;
typedef dl_value *build_fn(dl_builder *b, const grad_case *c, dl_value **p);

/* A function of a few parameters. Types as "N=2 C=3" (an axis "1" has no name); values uniform in
 * lo..hi. */
struct grad_case {
    const char *name;
    dl_op op;
    build_fn *build;
    double lo, hi;
    const char *types[MAX_PARAMS];
};

/* ---- how cases are built ---- */
static inline dl_value *apply(dl_builder *b, const grad_case *c, dl_value **p) {
    int n = 0;
    while (n < MAX_PARAMS && c->types[n]) n++;
    dl_attr slope = dl_attr_float(DL_ATTR_slope, 0.3);
    return dl_build(b, c->op, n, p, c->op == DL_OP_leaky_relu, &slope);
}
static inline dl_value *with_alpha(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr alpha = dl_attr_float(DL_ATTR_alpha, 0.7);
    return dl_build(b, c->op, 1, p, 1, &alpha);
}
static inline dl_value *with_softplus(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_beta, 1.5), dl_attr_float(DL_ATTR_threshold, 2)};
    return dl_build(b, c->op, 1, p, 2, at);
}
static inline dl_value *with_bounds(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_low, -0.5), dl_attr_float(DL_ATTR_high, 1)};
    return dl_build(b, c->op, 1, p, 2, at);
}
/* Three of the five along C, by four numbers along K, of which two are the same. */
static inline dl_value *numbered(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_type k = parse_type("K=4", DL_F64), x = parse_type("N=2 C=5", DL_F64);
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    dl_value *count = dl_build_count(b, &k, 0, DL_I32);
    dl_value *in[] = {p[0], dl_build_k(b, DL_OP_min, count, 2)};
    if (c->op == DL_OP_gather) return dl_build1(b, DL_OP_sin, dl_build(b, c->op, 2, in, 1, &axis));
    return dl_build1(b, DL_OP_sin, dl_build_as(b, c->op, 2, in, 1, &axis, x));
}
static inline dl_value *along_c(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    return dl_build1(b, DL_OP_sin, dl_build(b, c->op, 1, p, 1, &axis));
}
static inline dl_value *regroup(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build1(b, DL_OP_sin,
                     dl_build_as(b, c->op, 1, p, 0, NULL, parse_type("A=2 B=6", DL_F64)));
}
static inline dl_value *falling_leak(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr slope = dl_attr_float(DL_ATTR_slope, -0.3);
    return dl_build(b, c->op, 1, p, 1, &slope);
}
static inline dl_value *cast_there_and_back(dl_builder *b, const grad_case *c, dl_value **p) {
    (void)c;
    return dl_build_cast(b, dl_build_cast(b, dl_build1(b, DL_OP_exp, p[0]), DL_F32), DL_F64);
}
static inline dl_value *select_by_sign(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build3(b, c->op, dl_build_k(b, DL_OP_gt, p[0], 0), p[1], p[2]);
}
static inline dl_value *square(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build_k(b, c->op, p[0], 2);
}
static inline dl_value *reduce_inner(dl_builder *b, const grad_case *c, dl_value **p) {
    const char *over[] = {dl_intern("C"), dl_intern("N")};
    return dl_build_reduce(b, c->op, dl_build1(b, DL_OP_sin, p[0]), 2, over);
}
static inline dl_value *reduce_batch(dl_builder *b, const grad_case *c, dl_value **p) {
    const char *over[] = {dl_intern("N"), dl_intern("T")};
    dl_attr at[] = {dl_attr_names(DL_ATTR_over, 2, over), dl_attr_int(DL_ATTR_correction, 1)};
    dl_value *x = dl_build1(b, DL_OP_sin, p[0]);
    return dl_build(b, c->op, 1, &x, 2, at);
}
static inline dl_value *reduce_all(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build_reduce(b, c->op, dl_build1(b, DL_OP_exp, p[0]), 0, NULL);
}
static inline dl_value *normalise(dl_builder *b, const grad_case *c,
                                  dl_value **p) { /* x / reduced x, by name */
    const char *over[] = {dl_intern("C")};
    return dl_build2(b, DL_OP_div, p[0], dl_build_reduce(b, c->op, p[0], 1, over));
}
static inline dl_value *broadcast_up(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_value *v = dl_build_as(b, c->op, 1, p, 0, NULL, parse_type("T=2 C=3 N=2", DL_F64));
    return dl_build1(b, DL_OP_sin, v);
}
static inline dl_value *slice_c(dl_builder *b, dl_value *v, int64_t start, int64_t stop) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, "C"), dl_attr_int(DL_ATTR_start, start),
                    dl_attr_int(DL_ATTR_stop, stop)};
    return dl_build(b, DL_OP_slice, 1, &v, 3, at);
}
static inline dl_value *slices(dl_builder *b, const grad_case *c, dl_value **p) { /* overlapping */
    (void)c;
    return dl_build2(b, DL_OP_mul, slice_c(b, p[0], 0, 2), slice_c(b, p[0], 1, 3));
}
static inline dl_value *pad_c(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t lo = 2, hi = 1;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, "C"), dl_attr_ints(DL_ATTR_pad_lo, 1, &lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 1, &hi)};
    return dl_build1(b, DL_OP_sin, dl_build(b, c->op, 1, p, 3, at));
}
static inline dl_value *cat_c(dl_builder *b, const grad_case *c,
                              dl_value **p) { /* one operand twice */
    dl_value *in[] = {p[0], dl_build1(b, DL_OP_sin, p[1]), p[0]};
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    return dl_build1(b, DL_OP_exp, dl_build(b, c->op, 3, in, 1, &axis));
}
static inline dl_value *cat_slice(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    dl_value *whole = dl_build(b, DL_OP_cat, 2, p, 1, &axis);
    (void)c;
    return dl_build2(b, DL_OP_mul, slice_c(b, whole, 0, 3), slice_c(b, whole, 2, 5));
}
static inline dl_value *reshape(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr in[] = {dl_attr_name(DL_ATTR_axis, "T"), dl_attr_int(DL_ATTR_index, 1)},
            out = dl_attr_name(DL_ATTR_axis, "C");
    (void)c;
    dl_value *v = dl_build(b, DL_OP_unsqueeze, 1, p, 2, in);
    v = dl_build(b, DL_OP_squeeze, 1, &v, 1, &out);
    v = dl_build_as(b, DL_OP_rename, 1, &v, 0, NULL, parse_type("H=4 W=1", DL_F64));
    return dl_build1(b, DL_OP_exp, v);
}

/* The gradient of a gradient, by a value between the parameters and the result. */
static inline dl_value *gradient(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_value *x = dl_build1(b, DL_OP_sin, p[0]), *v = dl_build2(b, DL_OP_mul, x, p[1]);
    for (int i = 0; i < 2; i++) {
        v = dl_build_reduce(b, DL_OP_sum, dl_build1(b, DL_OP_exp, v), 0, NULL);
        v = dl_build2(b, c->op, v, x);
    }
    return v;
}

static inline dl_value *windows(dl_builder *b, const grad_case *c,
                                dl_value **p) { /* padded, dilated, overlapping */
    (void)c;
    dl_affine a = {.axis = dl_intern("C"),
                   .tap = dl_intern("k"),
                   .size = 3,
                   .stride = 2,
                   .start = -1,
                   .taps = 3,
                   .tap_stride = 2};
    return dl_build1(b, DL_OP_sin, dl_build_affine(b, p[0], a));
}
/* The first of the largest in each window, of all windows, and across them. */
static inline dl_value *first_of_windows(dl_builder *b, const grad_case *c, dl_value **p) {
    const char *over[] = {dl_intern("C"), dl_intern("kC"), dl_intern("N")};
    dl_value *x = dl_build_affine(
        b, p[0],
        (dl_affine){
            .axis = over[0], .tap = over[1], .size = 3, .taps = 3, .stride = 2, .tap_stride = 1});
    dl_value *each = dl_build_reduce(b, c->op, x, 1, over + 1),
             *all = dl_build_reduce(b, c->op, x, 2, over),
             *across = dl_build_reduce(b, c->op, x, 1, over + 2);
    return dl_build2(b, DL_OP_mul, dl_build2(b, DL_OP_mul, each, all), across);
}
/* The second parameter's axis tells which choice, and how many elements; it is added. */
static inline dl_value *choice_of(dl_builder *b, const grad_case *c, dl_value **p) {
    static const dl_affine ways[] = {{.stride = 3, .start = -1},
                                     {.stride = -2, .start = 6},
                                     {.stride = 2, .start = 1, .div = 5},
                                     {.stride = 5, .start = 1, .div = 2},
                                     {.stride = 1, .start = -2, .outside = DL_OUT_WRAP},
                                     {.stride = 1, .start = -5, .outside = DL_OUT_REFLECT},
                                     {.stride = 1, .start = -3, .outside = DL_OUT_EDGE},
                                     {.stride = 2, .start = -3, .div = 3, .outside = DL_OUT_EXACT}};
    dl_axis of = p[1]->type.axis[0];
    dl_affine a = ways[*of.name - 'a'];
    (void)c;
    a.axis = dl_intern("C"), a.size = of.size;
    dl_type t = p[1]->type;
    t.axis[0].name = a.axis;
    dl_value *y = dl_build_affine(b, dl_build1(b, DL_OP_exp, p[0]), a);
    return dl_build2(b, DL_OP_add, y, dl_build_as(b, DL_OP_rename, 1, &p[1], 0, NULL, t));
}
static inline dl_value *pool(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t stride[] = {2, 1}, lo[] = {1, 0}, hi[] = {1, 1}, kernel[] = {3, 2}, dilation[] = {2, 1};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 2, stride), dl_attr_ints(DL_ATTR_pad_lo, 2, lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 2, hi), dl_attr_ints(DL_ATTR_kernel, 2, kernel),
                    c->op == DL_OP_max_pool ? dl_attr_ints(DL_ATTR_dilation, 2, dilation)
                                            : dl_attr_int(DL_ATTR_counts_pad, 0)};
    return dl_build(b, c->op, 1, p, 5, at);
}
static inline dl_value *resize(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t size[] = {4, 5};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_size, 2, size), dl_attr_name(DL_ATTR_mode, "linear"),
                    dl_attr_int(DL_ATTR_corners, 0)};
    return dl_build(b, c->op, 1, p, dl_ops[c->op].nattrs, at);
}
static inline dl_value *group_norm(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_eps, 1e-2), dl_attr_int(DL_ATTR_groups, 3)};
    return dl_build(b, c->op, 3, p, 2, at);
}

/* The attributes among these that the op has. */
static inline dl_value *build_windows(dl_builder *b, const grad_case *c, dl_value **p,
                                      const dl_attr *of, int n) {
    dl_attr at[DL_MAX_ATTRS];
    int count = 0;
    for (int i = 0; i < dl_ops[c->op].nattrs; i++)
        for (int k = 0; k < n; k++)
            if (of[k].id == dl_ops[c->op].attrs[i]) at[count++] = of[k];
    return dl_build(b, c->op, 2, p, count, at);
}
/* Two spatial axes of odd geometry: strides 2 and 1, uneven padding, a remainder after the last
 * window. */
static inline dl_value *convolve(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t stride[] = {2, 1}, lo[] = {1, 0}, hi[] = {0, 2}, size[] = {6, 4}, kernel[] = {3, 2};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 2, stride), dl_attr_ints(DL_ATTR_pad_lo, 2, lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 2, hi), dl_attr_ints(DL_ATTR_size, 2, size),
                    dl_attr_ints(DL_ATTR_kernel, 2, kernel)};
    return build_windows(b, c, p, at, 5);
}
/* The same with dilations 2 and 3 and two groups. */
static inline dl_value *convolve_groups(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t stride[] = {2, 1}, lo[] = {1, 2}, hi[] = {0, 2}, size[] = {6, 4}, kernel[] = {3, 2},
            by[] = {2, 3};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 2, stride), dl_attr_ints(DL_ATTR_pad_lo, 2, lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 2, hi),     dl_attr_ints(DL_ATTR_dilation, 2, by),
                    dl_attr_int(DL_ATTR_groups, 2),          dl_attr_ints(DL_ATTR_size, 2, size),
                    dl_attr_ints(DL_ATTR_kernel, 2, kernel)};
    return build_windows(b, c, p, at, 7);
}

static inline dl_value *conv3(dl_builder *b, dl_op op, dl_value *x, dl_value *w, int64_t size) {
    int64_t stride[] = {2, 2, 2}, pad[] = {1, 1, 1}, sizes[] = {size, size, size};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 3, stride), dl_attr_ints(DL_ATTR_pad_lo, 3, pad),
                    dl_attr_ints(DL_ATTR_pad_hi, 3, pad), dl_attr_ints(DL_ATTR_size, 3, sizes)};
    dl_value *in[] = {x, w};
    return dl_build(b, op, 2, in, op == DL_OP_conv ? 3 : 4, at);
}
/* Down, up, and a skip connection, as in the U-Net. */
static inline dl_value *little_unet(dl_builder *b, const grad_case *c, dl_value **p) {
    (void)c;
    dl_attr slope = dl_attr_float(DL_ATTR_slope, 0.01), axis = dl_attr_name(DL_ATTR_axis, "C");
    dl_value *h = dl_build2(b, DL_OP_add, conv3(b, DL_OP_conv, p[0], p[1], 0), p[2]);
    h = dl_build(b, DL_OP_leaky_relu, 1, &h, 1, &slope);
    dl_value *up = dl_build1(b, DL_OP_relu, conv3(b, DL_OP_conv_grad_input, h, p[1], 4)),
             *both[] = {up, p[0]};
    return dl_build1(b, DL_OP_tanh, dl_build(b, DL_OP_cat, 2, both, 1, &axis));
}

/* Composites, with the attributes that each wants. */
static inline dl_value *composite(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[DL_MAX_ATTRS];
    int n = 0, nin = 0;
    while (nin < MAX_PARAMS && c->types[nin]) nin++;
    for (int i = 0; i < dl_ops[c->op].nattrs; i++) {
        dl_attr_id id = dl_ops[c->op].attrs[i];
        at[n++] = id == DL_ATTR_axis ? dl_attr_name(id, "C")
                                     : dl_attr_float(id, id == DL_ATTR_eps ? 1e-3 : 0.9);
    }
    return dl_build(b, c->op, nin, p, n, at);
}
static inline dl_value *batch_norm(dl_builder *b, const grad_case *c,
                                   dl_value **p) { /* the running statistics do not count */
    dl_value *in[] = {p[0], p[1], p[2], p[1], p[2]};
    dl_attr at[] = {dl_attr_float(DL_ATTR_eps, 1e-3), dl_attr_float(DL_ATTR_momentum, 0.9),
                    dl_attr_int(DL_ATTR_training, 1)};
    return dl_build(b, c->op, 5, in, 3, at);
}
static inline dl_value *classify(dl_builder *b, const grad_case *c,
                                 dl_value **p) { /* classes 0, 1, 0, 1, ... */
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "N");
    dl_type t = dl_scalar(DL_I32);
    t.axis[t.rank++] = p[0]->type.axis[0];
    dl_value *number = dl_build_as(b, DL_OP_iota, 0, NULL, 1, &axis, t);
    dl_value *in[] = {p[0], dl_build_k(b, DL_OP_sub, number, 0)};
    dl_attr classes = dl_attr_name(DL_ATTR_axis, "C");
    return dl_build(b, c->op, 2, in, 1, &classes);
}
static inline dl_value *share_out(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr classes = dl_attr_name(DL_ATTR_axis, "C");
    return dl_build(b, c->op, 2, p, 1, &classes);
}
static inline dl_value *contract_k(dl_builder *b, const grad_case *c, dl_value **p) {
    const char *over[] = {dl_intern("K")};
    dl_attr attr = dl_attr_names(DL_ATTR_over, 1, over);
    return dl_build(b, c->op, 2, p, 1, &attr);
}
static inline dl_value *reshape_split(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build1(b, DL_OP_sin,
                     dl_build_as(b, c->op, 1, p, 0, NULL, parse_type("T=4 H=3", DL_F64)));
}
static inline dl_value *rearrange(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr pattern = {.id = DL_ATTR_pattern,
                       .s = dl_intern("n (h=2 w=3) (p=2 c=2) -> n c (h p) w")};
    dl_value *v = dl_build_as(b, c->op, 1, p, 1, &pattern, parse_type("N=2 C=2 H=4 W=3", DL_F64));
    return dl_build1(b, DL_OP_sin, v);
}
/* Few modes of a real transform, and its inverse; a complex one of modes of both signs. */
static inline dl_value *there_and_back(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_fourier_options o = {.axis = dl_intern("W"), .size = 9, .stop = 4, .scale = 0.7};
    dl_attr attrs[DL_FOURIER_ATTRS];
    dl_fourier_attrs(&o, attrs);
    dl_value *modes = dl_build(b, c->op, 1, p, DL_FOURIER_ATTRS, attrs);
    o = (dl_fourier_options){o.axis, DL_FOURIER_FFT, 6, 1, 2, 1, false};
    dl_fourier_attrs(&o, attrs);
    modes = dl_build(b, c->op, 1, &modes, DL_FOURIER_ATTRS, attrs);
    o = (dl_fourier_options){o.axis, DL_FOURIER_C2R, 5, 0, 5, 1, true};
    dl_fourier_attrs(&o, attrs);
    return dl_build(b, c->op, 1, &modes, DL_FOURIER_ATTRS, attrs);
}
/* A linear scan along C, in the direction and the mode that the case names. */
static inline dl_value *scan_c(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[3] = {dl_attr_name(DL_ATTR_axis, dl_intern("C"))};
    int n = 1, nin = p[1] ? 2 : 1;
    if (c->op == DL_OP_scan_linear) at[n++] = dl_attr_name(DL_ATTR_mode, "before");
    at[n++] = dl_attr_int(DL_ATTR_reverse, strstr(c->name, "reverse") != NULL);
    return dl_build(b, c->op, nin, p, n, at);
}
/* A recurrent layer, or its steps, of the cell that the case names. */
static inline dl_value *recur(dl_builder *b, const grad_case *c, dl_value **p) {
    int cell = 0, nin = c->op == DL_OP_recurrence ? (int)DL_LAYER_BIASED : (int)DL_STEPS_IN;
    while (!strstr(c->name, dl_cells[cell].name)) cell++;
    dl_attr at[] = {dl_attr_name(DL_ATTR_mode, dl_cells[cell].name),
                    dl_attr_int(DL_ATTR_reverse, strstr(c->name, "reverse") != NULL),
                    dl_attr_int(DL_ATTR_cell, strstr(c->name, "cell") != NULL)};
    return dl_build(b, c->op, nin + (strstr(c->name, "start") != NULL), p, 3, at);
}
/* Two products: one as it is, one with both operands conjugated. */
static inline dl_value *spectral(dl_builder *b, const grad_case *c, dl_value **p) {
    const char *over = dl_intern("C");
    dl_type t = p[0]->type;
    t.axis[1] = p[1]->type.axis[1];
    dl_value *y[2];
    for (int i = 0; i < 2; i++) {
        dl_attr at[] = {dl_attr_names(DL_ATTR_over, 1, &over),
                        dl_attr_ints(DL_ATTR_conj, 2, (int64_t[]){i, i})};
        y[i] = dl_build_as(b, c->op, 2, p, 2, at, t);
    }
    return dl_build2(b, DL_OP_add, dl_build_k(b, DL_OP_mul, y[0], 0.5), y[1]);
}
static inline dl_value *attend(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_rate, 0), dl_attr_int(DL_ATTR_heads, 2)};
    return dl_build(b, c->op, 3, p, 2, at);
}
static inline dl_value *attend_some(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_rate, 0.4), dl_attr_int(DL_ATTR_heads, 2)};
    return dl_build(b, c->op, 3, p, 2, at);
}
/* The template itself: causal where the second parameter says so, by the name of its second axis.
 */
static inline dl_value *flash(dl_builder *b, const grad_case *c, dl_value **p) {
    bool causal = *p[1]->type.axis[1].name == 'S';
    dl_attr at[] = {dl_attr_float(DL_ATTR_rate, 0), dl_attr_int(DL_ATTR_number, 0),
                    dl_attr_int(DL_ATTR_heads, 2), dl_attr_int(DL_ATTR_causal, causal)};
    return dl_build(b, c->op, 3, p, 4, at);
}
static inline dl_value *drop(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr rate = dl_attr_float(DL_ATTR_rate, 0.4);
    return dl_build1(b, DL_OP_sin, dl_build(b, c->op, 1, p, 1, &rate));
}
static inline dl_value *stop(dl_builder *b, const grad_case *c,
                             dl_value **p) { /* x sg(x): its gradient is sg(x) */
    return dl_build2(b, DL_OP_mul, p[0], dl_build1(b, c->op, p[0]));
}
#endif
