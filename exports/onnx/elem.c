/* Pointwise ops. */
#include "exports/onnx/ops.h"

#include <math.h>

bool dl_onnx_same(dl_onnx *o, const dl_node *n, const char *word) {
    (void)word;
    o->values[n->out[0].id].name = dl_onnx_in(o, n, 0).name;
    return true;
}

bool dl_onnx_one(dl_onnx *o, const dl_node *n, const char *word) {
    return dl_onnx_set(o, n, dl_onnx_add1(o, word, dl_onnx_in(o, n, 0).name));
}

bool dl_onnx_several(dl_onnx *o, const dl_node *n, const char *word) {
    const char *in[3];
    const dl_onnx_value out = dl_onnx_out(o, n);
    for (int i = 0; i < n->nin; i++) in[i] = dl_onnx_align(o, dl_onnx_in(o, n, i), &out).name;
    return dl_onnx_set(o, n, dl_onnx_add(o, word, n->nin, in, NULL));
}

bool dl_onnx_select(dl_onnx *o, const dl_node *n, const char *word) {
    const char *in[3];
    const dl_onnx_value out = dl_onnx_out(o, n);
    (void)word;
    for (int i = 0; i < 3; i++) in[i] = dl_onnx_align(o, dl_onnx_in(o, n, i), &out).name;
    return dl_onnx_set(o, n, dl_onnx_where(o, in[0], in[1], in[2], out.type.dtype));
}

bool dl_onnx_floor(dl_onnx *o, const dl_node *n, const char *word) {
    bool real = dl_dtype_is_float(n->out[0].type.dtype);
    return real ? dl_onnx_one(o, n, word) : dl_onnx_same(o, n, word);
}

bool dl_onnx_rsqrt(dl_onnx *o, const dl_node *n, const char *word) {
    (void)word;
    const char *root = dl_onnx_add1(o, "Sqrt", dl_onnx_in(o, n, 0).name);
    return dl_onnx_set(o, n, dl_onnx_add1(o, "Reciprocal", root));
}

static const char *number(dl_onnx *o, const dl_node *n, double value) {
    return dl_onnx_scalar(o, n->in[0]->type.dtype, value);
}

/* exp(x) - 1 without cancellation: for small x it is 2 t / (1 - t) with t = tanh(x / 2). */
static const char *expm1_of(dl_onnx *o, const dl_node *n) {
    const char *x = dl_onnx_in(o, n, 0).name, *one = number(o, n, 1), *two = number(o, n, 2);
    const char *large = dl_onnx_add2(o, "Sub", dl_onnx_add1(o, "Exp", x), one);
    const char *t = dl_onnx_add1(o, "Tanh", dl_onnx_add2(o, "Div", x, two));
    const char *twice = dl_onnx_add2(o, "Mul", t, two), *rest = dl_onnx_add2(o, "Sub", one, t);
    const char *small = dl_onnx_add2(o, "Div", twice, rest);
    const char *near = dl_onnx_add2(o, "Less", dl_onnx_add1(o, "Abs", x), one);
    return dl_onnx_add3(o, "Where", near, small, large);
}

bool dl_onnx_expm1(dl_onnx *o, const dl_node *n, const char *word) {
    (void)word;
    return dl_onnx_set(o, n, expm1_of(o, n));
}

/* log(u), u = 1 + x, times x / (u - 1), which corrects the rounding of the sum (Kahan). Where x is
 * less than that rounding, it is x; where it is large, log(u). */
bool dl_onnx_log1p(dl_onnx *o, const dl_node *n, const char *word) {
    (void)word;
    const char *x = dl_onnx_in(o, n, 0).name, *one = number(o, n, 1);
    const char *u = dl_onnx_add2(o, "Add", x, one), *log = dl_onnx_add1(o, "Log", u);
    const char *by = dl_onnx_add2(o, "Div", x, dl_onnx_add2(o, "Sub", u, one));
    const char *none = dl_onnx_add2(o, "Equal", u, one);
    const char *small = dl_onnx_add3(o, "Where", none, x, dl_onnx_add2(o, "Mul", log, by));
    const char *near = dl_onnx_add2(o, "Less", dl_onnx_add1(o, "Abs", x), one);
    return dl_onnx_set(o, n, dl_onnx_add3(o, "Where", near, small, log));
}

bool dl_onnx_relu(dl_onnx *o, const dl_node *n, const char *word) {
    if (dl_dtype_is_float(n->out[0].type.dtype)) return dl_onnx_one(o, n, word);
    return dl_onnx_set(o, n, dl_onnx_add2(o, "Max", dl_onnx_in(o, n, 0).name, number(o, n, 0)));
}

/* ONNX has Atan alone, of a ratio of at most 1 here: the angle in the first half quadrant, which is
 * reflected into the others. Both signs of 0 are one. */
bool dl_onnx_atan2(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_onnx_value out = dl_onnx_out(o, n);
    const char *y = dl_onnx_align(o, dl_onnx_in(o, n, 0), &out).name,
               *x = dl_onnx_align(o, dl_onnx_in(o, n, 1), &out).name;
    const char *high = dl_onnx_add1(o, "Abs", y), *wide = dl_onnx_add1(o, "Abs", x),
               *zero = number(o, n, 0), *half = number(o, n, acos(-1) / 2),
               *pi = number(o, n, acos(-1));
    const char *most = dl_onnx_add2(o, "Max", high, wide);
    const char *none = dl_onnx_add2(o, "Equal", most, zero);
    const char *by = dl_onnx_add3(o, "Where", none, number(o, n, 1), most);
    const char *ratio = dl_onnx_add2(o, "Div", dl_onnx_add2(o, "Min", high, wide), by);
    const char *a = dl_onnx_add1(o, word, ratio);
    const char *steep = dl_onnx_add2(o, "Greater", high, wide);
    a = dl_onnx_add3(o, "Where", steep, dl_onnx_add2(o, "Sub", half, a), a);
    const char *left = dl_onnx_add2(o, "Less", x, zero), *below = dl_onnx_add2(o, "Less", y, zero);
    a = dl_onnx_add3(o, "Where", left, dl_onnx_add2(o, "Sub", pi, a), a);
    return dl_onnx_set(o, n, dl_onnx_add3(o, "Where", below, dl_onnx_add1(o, "Neg", a), a));
}

/* x where it is positive, and `other` elsewhere. */
static const char *unless_positive(dl_onnx *o, const dl_node *n, const char *other) {
    const char *x = dl_onnx_in(o, n, 0).name;
    return dl_onnx_add3(o, "Where", dl_onnx_add2(o, "Greater", x, number(o, n, 0)), x, other);
}

/* ONNX Runtime has LeakyRelu and Elu for f32 alone. */
bool dl_onnx_leaky_relu(dl_onnx *o, const dl_node *n, const char *word) {
    const char *x = dl_onnx_in(o, n, 0).name;
    double slope = dl_node_float(n, DL_ATTR_slope);
    dl_buf attributes = {0};
    if (n->out[0].type.dtype != DL_F32)
        return dl_onnx_set(o, n,
                           unless_positive(o, n, dl_onnx_add2(o, "Mul", x, number(o, n, slope))));
    dl_onnx_put_float(&attributes, "alpha", slope);
    return dl_onnx_set(o, n, dl_onnx_add(o, word, 1, &x, &attributes));
}

bool dl_onnx_elu(dl_onnx *o, const dl_node *n, const char *word) {
    const char *x = dl_onnx_in(o, n, 0).name;
    double alpha = dl_node_float(n, DL_ATTR_alpha);
    dl_buf attributes = {0};
    if (n->out[0].type.dtype != DL_F32) {
        const char *bent = dl_onnx_add2(o, "Mul", expm1_of(o, n), number(o, n, alpha));
        return dl_onnx_set(o, n, unless_positive(o, n, bent));
    }
    dl_onnx_put_float(&attributes, "alpha", alpha);
    return dl_onnx_set(o, n, dl_onnx_add(o, word, 1, &x, &attributes));
}

/* Truth values are compared as whole numbers. */
bool dl_onnx_compare(dl_onnx *o, const dl_node *n, const char *word) {
    const char *in[2];
    const dl_onnx_value out = dl_onnx_out(o, n);
    for (int i = 0; i < 2; i++) {
        dl_onnx_value v = dl_onnx_in(o, n, i);
        if (v.type.dtype == DL_BOOL) v = dl_onnx_cast(o, v, DL_I32);
        in[i] = dl_onnx_align(o, v, &out).name;
    }
    const char *holds = dl_onnx_add(o, word, 2, in, NULL);
    return dl_onnx_set(o, n, n->op == DL_OP_ne ? dl_onnx_add1(o, "Not", holds) : holds);
}

bool dl_onnx_to(dl_onnx *o, const dl_node *n, const char *word) {
    dl_onnx_value v = dl_onnx_in(o, n, 0);
    if (v.type.dtype == n->out[0].type.dtype) return dl_onnx_same(o, n, word);
    return dl_onnx_set(o, n, dl_onnx_cast(o, v, n->out[0].type.dtype).name);
}

/* log(1 + exp(beta x)) / beta. Above the threshold it is x within its rounding (keep.h). */
bool dl_onnx_softplus(dl_onnx *o, const dl_node *n, const char *word) {
    double beta = dl_node_float(n, DL_ATTR_beta);
    const char *x = dl_onnx_in(o, n, 0).name, *by = beta == 1 ? NULL : number(o, n, beta);
    if (by) x = dl_onnx_add2(o, "Mul", x, by);
    x = dl_onnx_add1(o, word, x);
    return dl_onnx_set(o, n, by ? dl_onnx_add2(o, "Div", x, by) : x);
}

/* Clip may lose a NaN, which stays one in ours. */
bool dl_onnx_clamp(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_attr *low = dl_node_attr(n, DL_ATTR_low), *high = dl_node_attr(n, DL_ATTR_high);
    const char *x = dl_onnx_in(o, n, 0).name;
    if (!low && !high) return dl_onnx_same(o, n, word);
    for (int i = 0; i < 2; i++) {
        const dl_attr *bound = i ? high : low;
        if (!bound) continue;
        const char *end = number(o, n, bound->f);
        x = dl_onnx_add3(o, word, dl_onnx_add2(o, i ? "Greater" : "Less", x, end), end, x);
    }
    return dl_onnx_set(o, n, x);
}
