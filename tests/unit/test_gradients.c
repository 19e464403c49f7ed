/* Gradients against central differences in f64 on the interpreter, for every op that has a rule. */
#include "ir/builder.h"
#include "ir/fourier.h"
#include "ir/interp/interp.h"
#include "ir/validate/validate.h"
#include "passes/pass.h"
#include "tests/check.h"
#include "tests/unit/random_numbers.h"

enum { MAX_PARAMS = 3 };

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
static dl_value *apply(dl_builder *b, const grad_case *c, dl_value **p) {
    int n = 0;
    while (n < MAX_PARAMS && c->types[n]) n++;
    dl_attr slope = dl_attr_float(DL_ATTR_slope, 0.3);
    return dl_build(b, c->op, n, p, c->op == DL_OP_leaky_relu, &slope);
}
static dl_value *with_alpha(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr alpha = dl_attr_float(DL_ATTR_alpha, 0.7);
    return dl_build(b, c->op, 1, p, 1, &alpha);
}
static dl_value *with_softplus(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_beta, 1.5), dl_attr_float(DL_ATTR_threshold, 2)};
    return dl_build(b, c->op, 1, p, 2, at);
}
static dl_value *with_bounds(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_low, -0.5), dl_attr_float(DL_ATTR_high, 1)};
    return dl_build(b, c->op, 1, p, 2, at);
}
/* Four of the five along C, by numbers along K. */
static dl_value *numbered(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_type k = parse_type("K=4", DL_F64), x = parse_type("N=2 C=5", DL_F64);
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    dl_value *in[] = {p[0], dl_build_count(b, &k, 0, DL_I32)};
    if (c->op == DL_OP_gather) return dl_build1(b, DL_OP_sin, dl_build(b, c->op, 2, in, 1, &axis));
    return dl_build1(b, DL_OP_sin, dl_build_as(b, c->op, 2, in, 1, &axis, x));
}
static dl_value *along_c(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    return dl_build1(b, DL_OP_sin, dl_build(b, c->op, 1, p, 1, &axis));
}
static dl_value *regroup(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build1(b, DL_OP_sin,
                     dl_build_as(b, c->op, 1, p, 0, NULL, parse_type("A=2 B=6", DL_F64)));
}
static dl_value *falling_leak(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr slope = dl_attr_float(DL_ATTR_slope, -0.3);
    return dl_build(b, c->op, 1, p, 1, &slope);
}
static dl_value *cast_there_and_back(dl_builder *b, const grad_case *c, dl_value **p) {
    (void)c;
    return dl_build_cast(b, dl_build_cast(b, dl_build1(b, DL_OP_exp, p[0]), DL_F32), DL_F64);
}
static dl_value *select_by_sign(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build3(b, c->op, dl_build_k(b, DL_OP_gt, p[0], 0), p[1], p[2]);
}
static dl_value *square(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build_k(b, c->op, p[0], 2);
}
static dl_value *reduce_inner(dl_builder *b, const grad_case *c, dl_value **p) {
    const char *over[] = {dl_intern("C"), dl_intern("N")};
    return dl_build_reduce(b, c->op, dl_build1(b, DL_OP_sin, p[0]), 2, over);
}
static dl_value *reduce_batch(dl_builder *b, const grad_case *c, dl_value **p) {
    const char *over[] = {dl_intern("N"), dl_intern("T")};
    dl_attr at[] = {dl_attr_names(DL_ATTR_over, 2, over), dl_attr_int(DL_ATTR_correction, 1)};
    dl_value *x = dl_build1(b, DL_OP_sin, p[0]);
    return dl_build(b, c->op, 1, &x, 2, at);
}
static dl_value *reduce_all(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build_reduce(b, c->op, dl_build1(b, DL_OP_exp, p[0]), 0, NULL);
}
static dl_value *normalise(dl_builder *b, const grad_case *c,
                           dl_value **p) { /* x / reduced x, by name */
    const char *over[] = {dl_intern("C")};
    return dl_build2(b, DL_OP_div, p[0], dl_build_reduce(b, c->op, p[0], 1, over));
}
static dl_value *broadcast_up(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_value *v = dl_build_as(b, c->op, 1, p, 0, NULL, parse_type("T=2 C=3 N=2", DL_F64));
    return dl_build1(b, DL_OP_sin, v);
}
static dl_value *slice_c(dl_builder *b, dl_value *v, int64_t start, int64_t stop) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, "C"), dl_attr_int(DL_ATTR_start, start),
                    dl_attr_int(DL_ATTR_stop, stop)};
    return dl_build(b, DL_OP_slice, 1, &v, 3, at);
}
static dl_value *slices(dl_builder *b, const grad_case *c, dl_value **p) { /* overlapping */
    (void)c;
    return dl_build2(b, DL_OP_mul, slice_c(b, p[0], 0, 2), slice_c(b, p[0], 1, 3));
}
static dl_value *pad_c(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t lo = 2, hi = 1;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, "C"), dl_attr_ints(DL_ATTR_pad_lo, 1, &lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 1, &hi)};
    return dl_build1(b, DL_OP_sin, dl_build(b, c->op, 1, p, 3, at));
}
static dl_value *cat_c(dl_builder *b, const grad_case *c, dl_value **p) { /* one operand twice */
    dl_value *in[] = {p[0], dl_build1(b, DL_OP_sin, p[1]), p[0]};
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    return dl_build1(b, DL_OP_exp, dl_build(b, c->op, 3, in, 1, &axis));
}
static dl_value *cat_slice(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    dl_value *whole = dl_build(b, DL_OP_cat, 2, p, 1, &axis);
    (void)c;
    return dl_build2(b, DL_OP_mul, slice_c(b, whole, 0, 3), slice_c(b, whole, 2, 5));
}
static dl_value *reshape(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr in[] = {dl_attr_name(DL_ATTR_axis, "T"), dl_attr_int(DL_ATTR_index, 1)},
            out = dl_attr_name(DL_ATTR_axis, "C");
    (void)c;
    dl_value *v = dl_build(b, DL_OP_unsqueeze, 1, p, 2, in);
    v = dl_build(b, DL_OP_squeeze, 1, &v, 1, &out);
    v = dl_build_as(b, DL_OP_rename, 1, &v, 0, NULL, parse_type("H=4 W=1", DL_F64));
    return dl_build1(b, DL_OP_exp, v);
}

/* The gradient of a gradient, by a value between the parameters and the result. */
static dl_value *gradient(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_value *x = dl_build1(b, DL_OP_sin, p[0]), *v = dl_build2(b, DL_OP_mul, x, p[1]);
    for (int i = 0; i < 2; i++) {
        v = dl_build_reduce(b, DL_OP_sum, dl_build1(b, DL_OP_exp, v), 0, NULL);
        v = dl_build2(b, c->op, v, x);
    }
    return v;
}

static dl_value *windows(dl_builder *b, const grad_case *c,
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
static dl_value *first_of_windows(dl_builder *b, const grad_case *c, dl_value **p) {
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
static dl_value *choice_of(dl_builder *b, const grad_case *c, dl_value **p) {
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
static dl_value *pool(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t stride[] = {2, 1}, lo[] = {1, 0}, hi[] = {1, 1}, kernel[] = {3, 2}, dilation[] = {2, 1};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 2, stride), dl_attr_ints(DL_ATTR_pad_lo, 2, lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 2, hi), dl_attr_ints(DL_ATTR_kernel, 2, kernel),
                    c->op == DL_OP_max_pool ? dl_attr_ints(DL_ATTR_dilation, 2, dilation)
                                            : dl_attr_int(DL_ATTR_counts_pad, 0)};
    return dl_build(b, c->op, 1, p, 5, at);
}
static dl_value *resize(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t size[] = {4, 5};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_size, 2, size), dl_attr_name(DL_ATTR_mode, "linear"),
                    dl_attr_int(DL_ATTR_corners, 0)};
    return dl_build(b, c->op, 1, p, dl_ops[c->op].nattrs, at);
}
static dl_value *group_norm(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_eps, 1e-2), dl_attr_int(DL_ATTR_groups, 3)};
    return dl_build(b, c->op, 3, p, 2, at);
}

/* The attributes among these that the op has. */
static dl_value *slide(dl_builder *b, const grad_case *c, dl_value **p, const dl_attr *of, int n) {
    dl_attr at[DL_MAX_ATTRS];
    int count = 0;
    for (int i = 0; i < dl_ops[c->op].nattrs; i++)
        for (int k = 0; k < n; k++)
            if (of[k].id == dl_ops[c->op].attrs[i]) at[count++] = of[k];
    return dl_build(b, c->op, 2, p, count, at);
}
/* Two spatial axes of odd geometry: strides 2 and 1, uneven padding, a remainder behind the last
 * window. */
static dl_value *convolve(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t stride[] = {2, 1}, lo[] = {1, 0}, hi[] = {0, 2}, size[] = {6, 4}, kernel[] = {3, 2};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 2, stride), dl_attr_ints(DL_ATTR_pad_lo, 2, lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 2, hi), dl_attr_ints(DL_ATTR_size, 2, size),
                    dl_attr_ints(DL_ATTR_kernel, 2, kernel)};
    return slide(b, c, p, at, 5);
}
/* The same with dilations 2 and 3 and two groups. */
static dl_value *convolve_groups(dl_builder *b, const grad_case *c, dl_value **p) {
    int64_t stride[] = {2, 1}, lo[] = {1, 2}, hi[] = {0, 2}, size[] = {6, 4}, kernel[] = {3, 2},
            by[] = {2, 3};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 2, stride), dl_attr_ints(DL_ATTR_pad_lo, 2, lo),
                    dl_attr_ints(DL_ATTR_pad_hi, 2, hi),     dl_attr_ints(DL_ATTR_dilation, 2, by),
                    dl_attr_int(DL_ATTR_groups, 2),          dl_attr_ints(DL_ATTR_size, 2, size),
                    dl_attr_ints(DL_ATTR_kernel, 2, kernel)};
    return slide(b, c, p, at, 7);
}

static dl_value *conv3(dl_builder *b, dl_op op, dl_value *x, dl_value *w, int64_t size) {
    int64_t stride[] = {2, 2, 2}, pad[] = {1, 1, 1}, sizes[] = {size, size, size};
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 3, stride), dl_attr_ints(DL_ATTR_pad_lo, 3, pad),
                    dl_attr_ints(DL_ATTR_pad_hi, 3, pad), dl_attr_ints(DL_ATTR_size, 3, sizes)};
    dl_value *in[] = {x, w};
    return dl_build(b, op, 2, in, op == DL_OP_conv ? 3 : 4, at);
}
/* Down, up, and a skip connection, as in the U-Net. */
static dl_value *little_unet(dl_builder *b, const grad_case *c, dl_value **p) {
    (void)c;
    dl_attr slope = dl_attr_float(DL_ATTR_slope, 0.01), axis = dl_attr_name(DL_ATTR_axis, "C");
    dl_value *h = dl_build2(b, DL_OP_add, conv3(b, DL_OP_conv, p[0], p[1], 0), p[2]);
    h = dl_build(b, DL_OP_leaky_relu, 1, &h, 1, &slope);
    dl_value *up = dl_build1(b, DL_OP_relu, conv3(b, DL_OP_conv_grad_input, h, p[1], 4)),
             *both[] = {up, p[0]};
    return dl_build1(b, DL_OP_tanh, dl_build(b, DL_OP_cat, 2, both, 1, &axis));
}

/* Composites, with the attributes that each wants. */
static dl_value *composite(dl_builder *b, const grad_case *c, dl_value **p) {
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
static dl_value *batch_norm(dl_builder *b, const grad_case *c,
                            dl_value **p) { /* the running statistics do not count */
    dl_value *in[] = {p[0], p[1], p[2], p[1], p[2]};
    dl_attr at[] = {dl_attr_float(DL_ATTR_eps, 1e-3), dl_attr_float(DL_ATTR_momentum, 0.9),
                    dl_attr_int(DL_ATTR_training, 1)};
    return dl_build(b, c->op, 5, in, 3, at);
}
static dl_value *classify(dl_builder *b, const grad_case *c,
                          dl_value **p) { /* classes 0, 1, 0, 1, ... */
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "N");
    dl_type t = dl_scalar(DL_I32);
    t.axis[t.rank++] = p[0]->type.axis[0];
    dl_value *number = dl_build_as(b, DL_OP_iota, 0, NULL, 1, &axis, t);
    dl_value *in[] = {p[0], dl_build_k(b, DL_OP_sub, number, 0)};
    dl_attr classes = dl_attr_name(DL_ATTR_axis, "C");
    return dl_build(b, c->op, 2, in, 1, &classes);
}
static dl_value *share_out(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr classes = dl_attr_name(DL_ATTR_axis, "C");
    return dl_build(b, c->op, 2, p, 1, &classes);
}
static dl_value *contract_k(dl_builder *b, const grad_case *c, dl_value **p) {
    const char *over[] = {dl_intern("K")};
    dl_attr attr = dl_attr_names(DL_ATTR_over, 1, over);
    return dl_build(b, c->op, 2, p, 1, &attr);
}
static dl_value *reshape_split(dl_builder *b, const grad_case *c, dl_value **p) {
    return dl_build1(b, DL_OP_sin,
                     dl_build_as(b, c->op, 1, p, 0, NULL, parse_type("T=4 H=3", DL_F64)));
}
static dl_value *rearrange(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr pattern = {.id = DL_ATTR_pattern,
                       .s = dl_intern("n (h=2 w=3) (p=2 c=2) -> n c (h p) w")};
    dl_value *v = dl_build_as(b, c->op, 1, p, 1, &pattern, parse_type("N=2 C=2 H=4 W=3", DL_F64));
    return dl_build1(b, DL_OP_sin, v);
}
/* Few modes of a real transform, and its inverse; a complex one of modes of both signs. */
static dl_value *there_and_back(dl_builder *b, const grad_case *c, dl_value **p) {
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
/* Two products: one as it is, one with both operands conjugated. */
static dl_value *spectral(dl_builder *b, const grad_case *c, dl_value **p) {
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
static dl_value *attend(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_rate, 0), dl_attr_int(DL_ATTR_heads, 2)};
    return dl_build(b, c->op, 3, p, 2, at);
}
static dl_value *attend_some(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr at[] = {dl_attr_float(DL_ATTR_rate, 0.4), dl_attr_int(DL_ATTR_heads, 2)};
    return dl_build(b, c->op, 3, p, 2, at);
}
/* The template itself: causal where the second parameter says so, by the name of its second axis.
 */
static dl_value *flash(dl_builder *b, const grad_case *c, dl_value **p) {
    bool causal = *p[1]->type.axis[1].name == 'S';
    dl_attr at[] = {dl_attr_float(DL_ATTR_rate, 0), dl_attr_int(DL_ATTR_number, 0),
                    dl_attr_int(DL_ATTR_heads, 2), dl_attr_int(DL_ATTR_causal, causal)};
    return dl_build(b, c->op, 3, p, 4, at);
}
static dl_value *drop(dl_builder *b, const grad_case *c, dl_value **p) {
    dl_attr rate = dl_attr_float(DL_ATTR_rate, 0.4);
    return dl_build1(b, DL_OP_sin, dl_build(b, c->op, 1, p, 1, &rate));
}
static dl_value *stop(dl_builder *b, const grad_case *c,
                      dl_value **p) { /* x sg(x): its gradient is sg(x) */
    return dl_build2(b, DL_OP_mul, p[0], dl_build1(b, c->op, p[0]));
}

#define ONE "N=2 C=3"
static const grad_case cases[] = {
    {"neg", DL_OP_neg, apply, -2, 2, {ONE}},
    {"abs", DL_OP_abs, apply, -2, 2, {ONE}},
    {"exp", DL_OP_exp, apply, -2, 2, {ONE}},
    {"log", DL_OP_log, apply, 0.3, 2, {ONE}},
    {"expm1", DL_OP_expm1, apply, -2, 2, {ONE}},
    {"log1p", DL_OP_log1p, apply, -0.7, 2, {ONE}},
    {"rsqrt", DL_OP_rsqrt, apply, 0.3, 2, {ONE}},
    {"elu", DL_OP_elu, with_alpha, -2, 2, {ONE}},
    {"gelu_tanh", DL_OP_gelu_tanh, apply, -2, 2, {ONE}},
    {"silu", DL_OP_silu, apply, -2, 2, {ONE}},
    {"softplus", DL_OP_softplus, with_softplus, -2, 2, {ONE}},
    {"clamp", DL_OP_clamp, with_bounds, -2, 2, {ONE}},
    {"prod", DL_OP_prod, reduce_inner, -2, 2, {"N=3 C=5 T=2"}},
    {"cumsum", DL_OP_cumsum, along_c, -2, 2, {"N=2 C=7"}},
    {"gather", DL_OP_gather, numbered, -2, 2, {"N=2 C=5"}},
    {"scatter_add", DL_OP_scatter_add, numbered, -2, 2, {"N=2 K=4"}},
    {"log_softmax", DL_OP_log_softmax, along_c, -2, 2, {"N=2 C=5"}},
    {"reshape, several into others", DL_OP_reshape, regroup, -2, 2, {"N=4 C=3"}},
    {"sqrt", DL_OP_sqrt, apply, 0.3, 2, {ONE}},
    {"tanh", DL_OP_tanh, apply, -2, 2, {ONE}},
    {"sigmoid", DL_OP_sigmoid, apply, -2, 2, {ONE}},
    {"sin", DL_OP_sin, apply, -2, 2, {ONE}},
    {"cos", DL_OP_cos, apply, -2, 2, {ONE}},
    {"erf", DL_OP_erf, apply, -2, 2, {ONE}},
    {"relu", DL_OP_relu, apply, -2, 2, {ONE}},
    {"leaky_relu", DL_OP_leaky_relu, apply, -2, 2, {ONE}},
    {"leaky_relu, slope < 0", DL_OP_leaky_relu, falling_leak, -2, 2, {ONE}},
    {"unnamed axis", DL_OP_sin, apply, -2, 2, {"1 C=3 1"}},
    {"add", DL_OP_add, apply, -2, 2, {ONE, ONE}},
    {"add, scalar", DL_OP_add, apply, -2, 2, {ONE, ""}},
    {"sub, subset", DL_OP_sub, apply, -2, 2, {"C=3", ONE}},
    {"sub, disjoint", DL_OP_sub, apply, -2, 2, {"C=3", "N=2"}},
    {"mul", DL_OP_mul, apply, -2, 2, {ONE, ONE}},
    {"mul, other order", DL_OP_mul, apply, -2, 2, {ONE, "C=3 N=2"}},
    {"mul, overlapping", DL_OP_mul, apply, -2, 2, {"N=2 C=3", "C=3 T=2"}},
    {"mul, unnamed axis", DL_OP_mul, apply, -2, 2, {"1 T=2 C=3", "N=2 T=2 C=3"}},
    {"div", DL_OP_div, apply, 0.5, 2, {ONE, ONE}},
    {"div, subset", DL_OP_div, apply, 0.5, 2, {"N=2", ONE}},
    {"pow", DL_OP_pow, apply, 0.5, 2, {ONE, ONE}},
    {"pow, subset", DL_OP_pow, apply, 0.5, 2, {ONE, "C=3"}},
    {"pow, square", DL_OP_pow, square, -2, 2, {ONE}},
    {"min", DL_OP_min, apply, -2, 2, {ONE, ONE}},
    {"min, subset", DL_OP_min, apply, -2, 2, {"C=3", ONE}},
    {"max", DL_OP_max, apply, -2, 2, {ONE, ONE}},
    {"max, subset", DL_OP_max, apply, -2, 2, {ONE, "C=3"}},
    {"select", DL_OP_select, select_by_sign, -2, 2, {ONE, ONE, ONE}},
    {"select, broadcast", DL_OP_select, select_by_sign, -2, 2, {"C=3", "N=2", "T=2"}},
    {"cast", DL_OP_cast, cast_there_and_back, -2, 2, {ONE}},
    {"sum", DL_OP_sum, reduce_inner, -2, 2, {"T=2 N=2 C=3"}},
    {"sum, all", DL_OP_sum, reduce_all, -2, 2, {ONE}},
    {"sum, normalised", DL_OP_sum, normalise, 0.5, 2, {"C=3 N=2"}},
    {"mean", DL_OP_mean, reduce_inner, -2, 2, {"N=2 T=2 C=3"}},
    {"batch_mean", DL_OP_batch_mean, reduce_batch, -2, 2, {"N=2 C=3 T=2"}},
    {"mean, all", DL_OP_mean, reduce_all, -2, 2, {ONE}},
    {"mean, normalised", DL_OP_mean, normalise, 0.5, 2, {ONE}},
    {"reduce_max", DL_OP_reduce_max, reduce_inner, -2, 2, {"N=2 C=3 T=2"}},
    {"reduce_max, normalised", DL_OP_reduce_max, normalise, 0.5, 2, {"C=3 N=2"}},
    {"reduce_min", DL_OP_reduce_min, reduce_inner, -2, 2, {"N=2 C=3 T=2"}},
    {"first_max", DL_OP_first_max, reduce_inner, -2, 2, {"N=2 C=3 T=2"}},
    {"first_max, windows", DL_OP_first_max, first_of_windows, -2, 2, {"N=2 C=7"}},
    {"affine, windows", DL_OP_affine, windows, -2, 2, {"N=2 C=5"}},
    {"affine, every third", DL_OP_affine, choice_of, -2, 2, {"N=2 C=7", "a=3"}},
    {"affine, backwards", DL_OP_affine, choice_of, -2, 2, {"N=2 C=7", "b=4"}},
    {"affine, enlarged", DL_OP_affine, choice_of, -2, 2, {"N=2 C=3", "c=7"}},
    {"affine, made smaller", DL_OP_affine, choice_of, -2, 2, {"N=2 C=7", "d=3"}},
    {"affine, around", DL_OP_affine, choice_of, -2, 2, {"N=2 C=3", "e=9"}},
    {"affine, mirrored", DL_OP_affine, choice_of, -2, 2, {"N=2 C=4", "f=15"}},
    {"affine, edges", DL_OP_affine, choice_of, -2, 2, {"N=2 C=3", "g=8"}},
    {"affine, exact", DL_OP_affine, choice_of, -2, 2, {"N=2 C=4", "h=9"}},
    {"affine, mirrored, one", DL_OP_affine, choice_of, -2, 2, {"N=2 C=1", "f=4"}},
    {"max_pool", DL_OP_max_pool, pool, -2, 2, {"N=1 C=2 H=6 W=5"}},
    {"avg_pool", DL_OP_avg_pool, pool, -2, 2, {"N=1 C=2 H=6 W=5"}},
    {"adaptive_avg_pool", DL_OP_adaptive_avg_pool, resize, -2, 2, {"N=1 C=2 H=6 W=5"}},
    {"upsample", DL_OP_upsample, resize, -2, 2, {"N=1 C=2 H=3 W=5"}},
    {"group_norm", DL_OP_group_norm, group_norm, -2, 2, {"N=2 C=6 H=2", "C=6", "C=6"}},
    {"broadcast", DL_OP_broadcast, broadcast_up, -2, 2, {ONE}},
    {"slice", DL_OP_slice, slices, -2, 2, {ONE}},
    {"pad", DL_OP_pad, pad_c, -2, 2, {ONE}},
    {"cat", DL_OP_cat, cat_c, -2, 2, {ONE, "N=2 C=1"}},
    {"slice of cat", DL_OP_cat, cat_slice, -2, 2, {ONE, "N=2 C=2"}},
    {"squeeze", DL_OP_squeeze, reshape, -2, 2, {"N=4 C=1"}},
    {"unsqueeze", DL_OP_unsqueeze, reshape, -2, 2, {"N=4 C=1"}},
    {"rename", DL_OP_rename, reshape, -2, 2, {"N=4 C=1"}},
    {"conv, channels O", DL_OP_conv, convolve, -1, 1, {"N=2 O=2 H=6 W=4", "O=3 C=2 h=3 w=2"}},
    {"gelu", DL_OP_gelu, composite, -2, 2, {ONE}},
    {"softmax", DL_OP_softmax, composite, -2, 2, {ONE}},
    {"softmax, inner", DL_OP_softmax, composite, -2, 2, {"C=4 N=3"}},
    {"grad", DL_OP_grad, gradient, -2, 2, {"N=2 C=3", "C=3"}},
    {"layer_norm", DL_OP_layer_norm, composite, -2, 2, {"N=2 T=2 C=3", "C=3", "C=3"}},
    {"layer_norm, other name", DL_OP_layer_norm, composite, -2, 2, {ONE, "E=3", "E=3"}},
    {"batch_norm", DL_OP_batch_norm, batch_norm, -2, 2, {"N=3 C=2 H=2", "C=2", "C=2"}},
    {"cross_entropy", DL_OP_cross_entropy, classify, -2, 2, {"N=3 C=4"}},
    {"cross_entropy, shares", DL_OP_cross_entropy, share_out, -2, 2, {"N=3 C=4 T=2", "T=2 C=4"}},
    {"contract", DL_OP_contract, contract_k, -1, 1, {"N=2 K=3", "O=4 K=3"}},
    {"contract, batch", DL_OP_contract, contract_k, -1, 1, {"N=2 T=3 K=2", "K=2 N=2 S=3"}},
    {"contract, to a scalar", DL_OP_contract, contract_k, -1, 1, {"K=3", "K=3"}},
    {"reshape", DL_OP_reshape, reshape_split, -1, 1, {"N=2 C=6"}},
    {"rearrange", DL_OP_rearrange, rearrange, -1, 1, {"N=2 T=6 C=4"}},
    {"linear", DL_OP_linear, composite, -1, 1, {"N=2 T=3 E=2", "O=4 E=2"}},
    {"attention", DL_OP_attention, attend, -1, 1, {"N=2 T=3 E=4", "N=2 T=3 E=4", "N=2 T=3 E=4"}},
    {"attention, some shares",
     DL_OP_attention,
     attend_some,
     -1,
     1,
     {"N=2 T=5 E=4", "N=2 T=5 E=4", "N=2 T=5 E=4"}},
    {"complex_contract",
     DL_OP_complex_contract,
     spectral,
     -1,
     1,
     {"N=2 C=3 K=4 Z=2", "C=3 O=2 K=4 Z=2"}},
    {"fourier", DL_OP_fourier, there_and_back, -1, 1, {"N=2 W=7 C=2"}},
    {"flash_attention",
     DL_OP_flash_attention,
     flash,
     -1,
     1,
     {"N=2 T=3 E=4", "N=2 R=5 E=4", "N=2 R=5 E=4"}},
    {"flash_attention, causal",
     DL_OP_flash_attention,
     flash,
     -1,
     1,
     {"N=2 T=5 E=2", "N=2 S=4 E=2", "N=2 S=4 E=2"}},
    {"dropout", DL_OP_dropout, drop, -2, 2, {"N=4 C=7"}},
    {"dropout, unnamed axis", DL_OP_dropout, drop, -2, 2, {"1 C=7 1"}},
    {"drop_path", DL_OP_drop_path, drop, -2, 2, {"N=9 C=3"}},
    {"little U-Net",
     DL_OP_conv,
     little_unet,
     -1,
     1,
     {"N=1 C=2 D=4 H=4 W=4", "O=3 C=2 d=4 h=4 w=4", "C=3"}},
};
enum { NCASES = (int)(sizeof cases / sizeof *cases) };

/* ---- the check ---- */

/* Loss: sum(y * r) with an input r, so that the gradient of y is different everywhere. */
static dl_module *build_case(const grad_case *c, dl_value **p) {
    dl_module *m = dl_module_new(NULL);
    dl_graph *g = dl_graph_new(m, "train");
    dl_builder b = {.graph = g};
    for (int i = 0; i < MAX_PARAMS && c->types[i]; i++)
        p[i] = &dl_graph_var(g, DL_VAR_PARAM, dl_internf("p%d", i), parse_type(c->types[i], DL_F64),
                             (dl_init){0}, b.loc)
                    ->value;
    dl_value *y = c->build(&b, c, p);
    dl_value *r = &dl_graph_var(g, DL_VAR_INPUT, "r", y->type, (dl_init){0}, b.loc)->value;
    dl_value *loss = dl_build_reduce(&b, DL_OP_sum, dl_build2(&b, DL_OP_mul, y, r), 0, NULL);
    dl_graph_result(g, DL_RESULT_LOSS, "loss", loss, NULL);
    return m;
}

/* In the same step each time: what is drawn stays. */
static double eval_loss(dl_interp *run, const dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->role == DL_VAR_STATE) *dl_interp_data(run, &g->vars.at[i]->value) = 11;
    CHECK(dl_interp_run(run, err), "%s", err->message);
    return *dl_interp_data(run, dl_graph_find_result(g, DL_RESULT_LOSS, NULL)->value);
}

static void check_param(dl_interp *run, const dl_graph *g, const dl_var *p, const char *name,
                        const char *passes) {
    const double eps = 1e-6, rtol = 1e-4, atol = 1e-6;
    const dl_result *grad = dl_graph_find_result(g, DL_RESULT_GRAD, p->name);
    dl_error err = {0};
    CHECK(grad && grad->var == p, "%s (%s): no gradient of %s", name, passes, p->name);
    if (!grad) return;
    int64_t n = dl_type_count(&p->value.type), wrong = 0;
    double *x = dl_interp_data(run, &p->value), got, want;
    for (int64_t i = 0; i < n; i++) {
        double keep = x[i];
        x[i] = keep + eps;
        double up = eval_loss(run, g, &err);
        x[i] = keep - eps;
        double down = eval_loss(run, g, &err);
        x[i] = keep;
        eval_loss(run, g, &err);
        got = dl_interp_data(run, grad->value)[i], want = (up - down) / (2 * eps);
        if (!(fabs(got - want) <= atol + rtol * fabs(want))) {
            if (!wrong++)
                printf("%s (%s): %s[%lld] is %.9g, want %.9g\n", name, passes, p->name,
                       (long long)i, got, want);
        }
    }
    CHECK(wrong == 0, "%s (%s): %lld of %lld of %s", name, passes, (long long)wrong, (long long)n,
          p->name);
}

static void check_case(const grad_case *c, const char *passes) {
    dl_value *p[MAX_PARAMS] = {0};
    dl_module *m = build_case(c, p);
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = m->arena, .step_options.optimizer = DL_OPT_NONE, .err = &err};
    bool fine = dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES});
    CHECK(fine, "%s: %s", c->name, err.message);
    if (fine) {
        dl_graph *g = m->graphs.at[0];
        dl_interp *run = dl_interp_new(g, false);
        rng r = {0x5eed + (uint64_t)c->op};
        for (int i = 0; i < g->vars.n; i++) {
            const dl_value *v = &g->vars.at[i]->value;
            bool is_param = v->var->role == DL_VAR_PARAM;
            double *x = dl_interp_data(run, v);
            for (int64_t k = 0; k < dl_type_count(&v->type); k++)
                x[k] = is_param ? uniform(&r, c->lo, c->hi) : uniform(&r, -1, 1);
        }
        for (int i = 0; i < MAX_PARAMS && p[i]; i++) {
            /* A condition is a parameter without influence: no gradient, and no rule to check. */
            if (c->op == DL_OP_select && i == 0) continue;
            check_param(run, g, p[i]->var, c->name, passes);
        }
        dl_interp_free(run);
    }
    dl_arena_free(m->arena);
}

/* Every op by windows, whichever of x, w and y its operands are: plain, and dilated in groups. */
static void check_windows(const char *passes) {
    static const char *const plain[] = {NULL, "N=2 C=2 H=6 W=4", "O=3 C=2 h=3 w=2",
                                        "N=2 C=3 H=3 W=5"};
    static const char *const grouped[] = {NULL, "N=2 C=4 H=6 W=4", "O=6 C=2 h=3 w=2",
                                          "N=2 C=6 H=2 W=5"};
    for (int op = 0; op < DL_NOPS; op++) {
        if (!dl_op_slides((dl_op)op)) continue;
        dl_tensor a = dl_op_tensor((dl_op)op, 0), b = dl_op_tensor((dl_op)op, 1);
        check_case(&(grad_case){dl_ops[op].name, (dl_op)op, convolve, -1, 1, {plain[a], plain[b]}},
                   passes);
        check_case(
            &(grad_case){
                dl_ops[op].name, (dl_op)op, convolve_groups, -1, 1, {grouped[a], grouped[b]}},
            passes);
    }
}

/* Every op with a rule has a case. */
static void check_coverage(void) {
    static const char *const rule[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, attrs, expr) #grad,
#include "ir/ops.def"
#undef OP
    };
    static const char *const lowered[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, attrs, expr) #lower,
#include "ir/ops.def"
#undef OP
    };
    for (int op = 0; op < DL_NOPS; op++) {
        bool has_rule = strcmp(rule[op], "zero") != 0 &&
                        (strcmp(rule[op], "none") != 0 || strcmp(lowered[op], "none") != 0);
        bool found = dl_op_slides((dl_op)op);
        bool between = dl_ops[op].class == DL_CLASS_COLLECTIVE || op == DL_OP_enter ||
                       op == DL_OP_scale_gradient;
        if (between) continue; /* ranks: test_shard.c */
        for (int i = 0; i < NCASES; i++) found = found || cases[i].op == (dl_op)op;
        CHECK(found || !has_rule, "no gradient case for op '%s'", dl_ops[op].name);
    }
}

/* Equal winners share, as in PyTorch. */
static void check_ties(dl_op op, build_fn *build, const char *const types[2], double want) {
    grad_case c = {"ties", op, build, 0, 0, {types[0], types[1]}};
    dl_value *p[MAX_PARAMS] = {0};
    dl_module *m = build_case(&c, p);
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = m->arena, .step_options.optimizer = DL_OPT_NONE, .err = &err};
    CHECK(dl_run_passes(m, "autodiff", &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
          "%s", err.message);
    dl_graph *g = m->graphs.at[0];
    dl_interp *run = dl_interp_new(g, false);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        for (int64_t k = 0; k < dl_type_count(&v->type); k++) dl_interp_data(run, v)[k] = 1;
    }
    eval_loss(run, g, &err);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        for (int64_t k = 0; r->role == DL_RESULT_GRAD && k < dl_type_count(&r->value->type); k++)
            CHECK_NEAR(dl_interp_data(run, r->value)[k], want, 1e-12);
    }
    dl_interp_free(run);
    dl_arena_free(m->arena);
}

/* A parameter after an op without a rule: the place and the op. */
static void check_faults(void) {
    dl_module *m = dl_module_new(NULL);
    dl_graph *g = dl_graph_new(m, "train");
    dl_builder b = {.graph = g, .loc = {dl_intern("model.dl"), 7, 3}};
    dl_value *p =
        &dl_graph_var(g, DL_VAR_PARAM, "p", parse_type("N=2 C=3 W=4", DL_F32), (dl_init){0}, b.loc)
             ->value;
    dl_value *y =
        dl_build1(&b, DL_OP_gelu, p); /* a composite: without `lower`, nobody takes it apart */
    dl_graph_result(g, DL_RESULT_LOSS, "loss", dl_build_reduce(&b, DL_OP_sum, y, 0, NULL), NULL);
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = m->arena, .err = &err};
    CHECK(!dl_run_passes(m, "autodiff", &ctx, (dl_pass_options){0}) && err.code == DL_INPUT, "%s",
          err.message);
    CHECK_STR(err.message, "model.dl:7:3: error: 'gelu' is checked, but this version cannot "
                           "compile it yet [DL-E0801]");
    dl_arena_free(m->arena);
}

int main(void) {
    check_coverage();
    for (int i = 0; i < NCASES; i++) {
        check_case(&cases[i], "lower,autodiff");
        check_case(&cases[i], "lower,simplify,autodiff,simplify");
    }
    check_windows("lower,autodiff");
    check_windows("lower,simplify,autodiff,simplify");
    check_ties(DL_OP_max, apply, (const char *const[]){ONE, ONE}, 0.5);
    check_ties(DL_OP_min, apply, (const char *const[]){ONE, ONE}, 0.5);
    check_ties(DL_OP_reduce_max, reduce_all, (const char *const[]){ONE, NULL}, exp(1) / 6);
    check_ties(DL_OP_stop_gradient, stop, (const char *const[]){ONE, NULL}, 1);
    check_faults();
    return dl_test_end();
}
