/* What the composite ops consist of. Where numbers could overflow or cancel, the order is that of a careful
 * implementation in the same precision: softmax without its largest score, variance around the mean. */
#include <math.h>

#include "passes/lower.h"

static dl_value *add(dl_builder *b, dl_value *x, dl_value *y) { return dl_build2(b, DL_OP_add, x, y); }
static dl_value *sub(dl_builder *b, dl_value *x, dl_value *y) { return dl_build2(b, DL_OP_sub, x, y); }
static dl_value *mul(dl_builder *b, dl_value *x, dl_value *y) { return dl_build2(b, DL_OP_mul, x, y); }
static dl_value *divide(dl_builder *b, dl_value *x, dl_value *y) { return dl_build2(b, DL_OP_div, x, y); }
static dl_value *scale(dl_builder *b, dl_value *x, double k) { return dl_build_k(b, DL_OP_mul, x, k); }

static dl_value *reduce_one(dl_builder *b, dl_op op, dl_value *x, const char *axis) {
    return dl_build_reduce(b, op, x, 1, &axis);
}

/* A vector under the name of the axis that it goes along. */
static dl_value *along(dl_builder *b, dl_value *vector, const char *axis) {
    if (vector->type.axis[0].name == axis) return vector;
    dl_type t = vector->type;
    t.axis[0].name = axis;
    return dl_build_as(b, DL_OP_rename, 1, &vector, 0, NULL, t);
}

/* The result under the type that the composite promised: its order of axes, where broadcasting made another.
 */
static dl_value *as_promised(dl_builder *b, dl_value *v, const dl_node *n) {
    const dl_type *want = &n->out[0].type;
    return dl_type_same(&v->type, want) ? v : dl_build_as(b, DL_OP_broadcast, 1, &v, 0, NULL, *want);
}

/* x Phi(x): Hendrycks and Gimpel 2016, with the error function as in torch.nn.GELU(). */
dl_value *dl_lower_gelu(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0], *erf = dl_build1(b, DL_OP_erf, scale(b, x, M_SQRT1_2));
    return mul(b, scale(b, x, 0.5), dl_build_k(b, DL_OP_add, erf, 1));
}

/* The same with tanh for the error function (Hendrycks and Gimpel 2016): GELU(approximate="tanh"). */
dl_value *dl_lower_gelu_tanh(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0], *cube = mul(b, mul(b, x, x), x);
    dl_value *inner = scale(b, add(b, x, scale(b, cube, 0.044715)), M_2_SQRTPI * M_SQRT1_2);
    return mul(b, scale(b, x, 0.5), dl_build_k(b, DL_OP_add, dl_build1(b, DL_OP_tanh, inner), 1));
}

dl_value *dl_lower_silu(dl_builder *b, const dl_node *n) {
    return mul(b, n->in[0], dl_build1(b, DL_OP_sigmoid, n->in[0]));
}

/* log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold (torch.nn.Softplus); what is
 * not chosen must not overflow, for its gradient would be 0 times infinity. */
dl_value *dl_lower_softplus(dl_builder *b, const dl_node *n) {
    double beta = dl_node_float(n, DL_ATTR_beta), most = dl_node_float(n, DL_ATTR_threshold);
    dl_value *x = n->in[0], *steep = scale(b, x, beta), *straight = dl_build_k(b, DL_OP_gt, steep, most);
    dl_value *bounded = dl_build3(b, DL_OP_select, straight, dl_build_const(b, x->type.dtype, most), steep);
    dl_value *bent = dl_build1(b, DL_OP_log1p, dl_build1(b, DL_OP_exp, bounded));
    return dl_build3(b, DL_OP_select, straight, x, scale(b, bent, 1 / beta));
}

/* A NaN stays one. The gradient goes through from bound to bound, both included (torch.clamp). */
dl_value *dl_lower_clamp(dl_builder *b, const dl_node *n) {
    static const dl_attr_id bounds[] = {DL_ATTR_low, DL_ATTR_high};
    static const dl_op beyond[] = {DL_OP_lt, DL_OP_gt}, within[] = {DL_OP_ge, DL_OP_le};
    dl_value *x = n->in[0], *inside = NULL, *moved = dl_build1(b, DL_OP_stop_gradient, x);
    for (int i = 0; i < 2; i++) {
        const dl_attr *bound = dl_node_attr(n, bounds[i]);
        if (!bound) continue;
        dl_value *end = dl_build_const(b, x->type.dtype, bound->f), *in = dl_build2(b, within[i], x, end);
        inside = inside ? dl_build2(b, DL_OP_and, inside, in) : in;
        moved = dl_build3(b, DL_OP_select, dl_build2(b, beyond[i], moved, end), end, moved);
    }
    if (!inside) return dl_build_as(b, DL_OP_broadcast, 1, &x, 0, NULL, n->out[0].type);
    return as_promised(b, dl_build3(b, DL_OP_select, inside, x, moved), n);
}

static dl_value *part(dl_builder *b, dl_value *v, const char *axis, int64_t start, int64_t stop) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_int(DL_ATTR_start, start),
                    dl_attr_int(DL_ATTR_stop, stop)};
    return dl_build(b, DL_OP_slice, 1, &v, 3, at);
}

/* Half times half until one element is left: no division, so zeros have gradients, too; and as many roundings
 * as there are halvings. */
static dl_value *multiply_along(dl_builder *b, dl_value *x, const char *axis) {
    dl_value *rest = NULL;
    dl_attr squeezed = dl_attr_name(DL_ATTR_axis, axis);
    int64_t n = x->type.axis[dl_type_axis(&x->type, axis)].size;
    if (!n) { /* of nothing: 1 */
        dl_value *none = reduce_one(b, DL_OP_sum, x, axis);
        return dl_build_k(b, DL_OP_add, none, 1);
    }
    for (; n > 1; n /= 2) {
        if (n % 2) {
            dl_value *last = part(b, x, axis, n - 1, n);
            rest = rest ? mul(b, rest, last) : last;
        }
        x = mul(b, part(b, x, axis, 0, n / 2), part(b, x, axis, n / 2, n / 2 * 2));
    }
    if (rest) x = mul(b, x, rest);
    return dl_build(b, DL_OP_squeeze, 1, &x, 1, &squeezed);
}

dl_value *dl_lower_prod(dl_builder *b, const dl_node *n) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    dl_value *x = n->in[0];
    if (!over->n) return dl_build_as(b, DL_OP_broadcast, 1, &x, 0, NULL, n->out[0].type);
    for (int i = 0; i < over->n; i++) x = multiply_along(b, x, over->names[i]);
    return as_promised(b, x, n);
}

/* Each element and the one before it, then the two before those, then four (Hillis and Steele 1986): in a
 * fixed order, with as many roundings as there are doublings. */
dl_value *dl_lower_cumsum(dl_builder *b, const dl_node *n) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    dl_value *x = n->in[0];
    int64_t size = x->type.axis[dl_type_axis(&x->type, axis)].size;
    for (int64_t step = 1; step < size; step *= 2)
        x = add(b, x,
                dl_build_affine(b, x, (dl_affine){.axis = axis, .size = size, .stride = 1, .start = -step}));
    return x == n->in[0] ? dl_build_as(b, DL_OP_broadcast, 1, &x, 0, NULL, n->out[0].type) : x;
}

/* Scores less their largest along the axis. Nothing flows through the largest: the sum does not depend on it.
 */
static dl_value *shift_scores(dl_builder *b, dl_value *x, const char *axis) {
    dl_value *most = dl_build1(b, DL_OP_stop_gradient, reduce_one(b, DL_OP_reduce_max, x, axis));
    return sub(b, x, most);
}

/* `v` with one axis of another name. */
static dl_value *rename_axis(dl_builder *b, dl_value *v, int at, const char *name) {
    dl_type t = v->type;
    t.axis[at].name = name;
    return dl_build_as(b, DL_OP_rename, 1, &v, 0, NULL, t);
}

static dl_value *contract(dl_builder *b, dl_value *x, dl_value *y, const char *over) {
    dl_value *in[] = {x, y};
    dl_attr attr = dl_attr_names(DL_ATTR_over, 1, &over);
    return dl_build(b, DL_OP_contract, 2, in, 1, &attr);
}

const char *dl_lower_fresh(const dl_type *t, const char *name) {
    do name = dl_internf("%s_", name);
    while (dl_type_axis(t, name) >= 0);
    return name;
}

/* y[..., e] = sum over i of x[..., i] w[e, i]: the features are called i on the way in, so that e may bear
 * their name. */
dl_value *dl_lower_linear(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0], *w = n->in[1];
    int at = *w->type.axis[1].name ? dl_type_axis(&x->type, w->type.axis[1].name) : -1;
    if (at < 0) at = x->type.rank - 1;
    const char *features = x->type.axis[at].name, *inner = dl_lower_fresh(&x->type, features);
    dl_type t = w->type;
    t.axis[0].name = features, t.axis[1].name = inner;
    w = dl_build_as(b, DL_OP_rename, 1, &w, 0, NULL, t);
    return as_promised(b, contract(b, rename_axis(b, x, at, inner), w, inner), n);
}

/* [N, T, E] as [N, T, heads, E / heads]. */
static dl_value *split_heads(dl_builder *b, dl_value *v, int64_t heads, const char *tokens) {
    dl_type t = v->type;
    int64_t size = t.axis[2].size / heads;
    t.axis[1].name = tokens, t.axis[2] = (dl_axis){dl_intern("head"), heads},
    t.axis[3] = (dl_axis){dl_intern("feature"), size};
    t.rank = 4;
    return dl_build_as(b, DL_OP_reshape, 1, &v, 0, NULL, t);
}

/* softmax(q k^T / sqrt(size of a head)) v, head by head (Vaswani et al. 2017), with dropout of the shares.
 * The scores are stored: a kernel that never does is to come. */
dl_value *dl_lower_attention(dl_builder *b, const dl_node *n) {
    int64_t heads = dl_node_int(n, DL_ATTR_heads);
    const dl_type *t = &n->in[0]->type;
    const char *keys = dl_lower_fresh(t, t->axis[1].name);
    dl_value *q = split_heads(b, n->in[0], heads, t->axis[1].name),
             *k = split_heads(b, n->in[1], heads, keys), *v = split_heads(b, n->in[2], heads, keys);
    double size = (double)t->axis[2].size / (double)heads;
    dl_value *scores = contract(b, scale(b, q, 1 / sqrt(size)), k, dl_intern("feature"));
    dl_value *e = dl_build1(b, DL_OP_exp, shift_scores(b, scores, keys));
    dl_value *share = divide(b, e, reduce_one(b, DL_OP_sum, e, keys));
    share = dl_lower_drop_elements(b, share, dl_node_float(n, DL_ATTR_rate));
    dl_value *y = contract(b, share, v, keys);
    dl_type whole = q->type; /* [N, T, head, feature] in this order before the heads are one axis again */
    if (!dl_type_same(&y->type, &whole)) y = dl_build_as(b, DL_OP_broadcast, 1, &y, 0, NULL, whole);
    return dl_build_as(b, DL_OP_reshape, 1, &y, 0, NULL, n->out[0].type);
}

dl_value *dl_lower_softmax(dl_builder *b, const dl_node *n) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    dl_value *e = dl_build1(b, DL_OP_exp, shift_scores(b, n->in[0], axis));
    return as_promised(b, divide(b, e, reduce_one(b, DL_OP_sum, e, axis)), n);
}

/* Without a division: far below the largest a share is 0, its logarithm is not. */
dl_value *dl_lower_log_softmax(dl_builder *b, const dl_node *n) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    dl_value *z = shift_scores(b, n->in[0], axis);
    dl_value *all = reduce_one(b, DL_OP_sum, dl_build1(b, DL_OP_exp, z), axis);
    return as_promised(b, sub(b, z, dl_build1(b, DL_OP_log, all)), n);
}

/* x less its mean over the axes. */
static dl_value *deviation(dl_builder *b, dl_value *x, int n, const char *const *over) {
    return sub(b, x, dl_build_reduce(b, DL_OP_mean, x, n, over));
}

/* sqrt(variance + eps) of the deviation d; the variance is the biased one. */
static dl_value *spread_of(dl_builder *b, dl_value *d, int n, const char *const *over, double eps) {
    dl_value *variance = dl_build_reduce(b, DL_OP_mean, mul(b, d, d), n, over);
    return dl_build1(b, DL_OP_sqrt, dl_build_k(b, DL_OP_add, variance, eps));
}

/* (x - mean) / sqrt(variance + eps) * weight + bias, the statistics over the given axes; the variance is the
 * biased one, of which the gradient is taken (Ioffe and Szegedy 2015; Ba, Kiros and Hinton 2016). */
static dl_value *normalise(dl_builder *b, const dl_node *n, int n_over, const char *const *over,
                           const char *kept) {
    dl_value *w = along(b, n->in[1], kept), *bias = along(b, n->in[2], kept);
    dl_value *d = deviation(b, n->in[0], n_over, over);
    dl_value *spread = spread_of(b, d, n_over, over, dl_node_float(n, DL_ATTR_eps));
    return as_promised(b, add(b, mul(b, divide(b, d, spread), w), bias), n);
}

dl_value *dl_lower_layer_norm(dl_builder *b, const dl_node *n) {
    const dl_type *t = &n->in[0]->type;
    const char *last = t->axis[t->rank - 1].name;
    return normalise(b, n, 1, &last, last);
}

/* Over the channels of a group and all behind them (Wu and He 2018). */
dl_value *dl_lower_group_norm(dl_builder *b, const dl_node *n) {
    dl_type t = n->in[0]->type;
    const char *channels = t.axis[1].name, *over[DL_MAX_RANK];
    int64_t groups = dl_node_int(n, DL_ATTR_groups);
    int n_over = 0;
    for (int i = t.rank++; i > 2; i--) t.axis[i] = t.axis[i - 1];
    t.axis[2] = (dl_axis){channels, t.axis[1].size / groups};
    t.axis[1] = (dl_axis){dl_lower_fresh(&t, channels), groups};
    for (int i = 2; i < t.rank; i++) over[n_over++] = t.axis[i].name;
    dl_value *x = dl_build_as(b, DL_OP_reshape, 1, n->in, 0, NULL, t);
    dl_value *d = deviation(b, x, n_over, over);
    dl_value *y = divide(b, d, spread_of(b, d, n_over, over, dl_node_float(n, DL_ATTR_eps)));
    y = dl_build_as(b, DL_OP_reshape, 1, &y, 0, NULL, n->out[0].type);
    return as_promised(b, add(b, mul(b, y, along(b, n->in[1], channels)), along(b, n->in[2], channels)), n);
}

/* With the batch's statistics; the running ones are state that the front end updates. */
dl_value *dl_lower_batch_norm(dl_builder *b, const dl_node *n) {
    const dl_type *t = &n->in[0]->type;
    const char *over[DL_MAX_RANK];
    int n_over = 0;
    for (int i = 0; i < t->rank; i++)
        if (i != 1) over[n_over++] = t->axis[i].name;
    return normalise(b, n, n_over, over, t->axis[1].name);
}

/* The score of each row's class: the one element of the row whose number is the class. */
static dl_value *pick(dl_builder *b, dl_value *scores, dl_value *classes) {
    const char *axis = scores->type.axis[1].name;
    dl_value *hit = dl_build2(b, DL_OP_eq, classes, dl_build_count(b, &scores->type, 1, classes->type.dtype));
    dl_value *only = dl_build3(b, DL_OP_select, hit, scores, dl_build_const(b, scores->type.dtype, 0));
    return reduce_one(b, DL_OP_sum, only, axis);
}

/* -log softmax at the class, its mean over the batch (torch.nn.functional.cross_entropy). */
dl_value *dl_lower_cross_entropy(dl_builder *b, const dl_node *n) {
    const char *axis = n->in[0]->type.axis[1].name;
    dl_value *z = shift_scores(b, n->in[0], axis);
    dl_value *all = reduce_one(b, DL_OP_sum, dl_build1(b, DL_OP_exp, z), axis);
    dl_value *loss = sub(b, dl_build1(b, DL_OP_log, all), pick(b, z, n->in[1]));
    return dl_build_reduce(b, DL_OP_mean, loss, 0, NULL);
}

/* The first of the largest; a NaN counts as largest, as in PyTorch. */
dl_value *dl_lower_argmax(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0];
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    int at = dl_type_axis(&x->type, axis);
    dl_value *most = reduce_one(b, DL_OP_reduce_max, x, axis);
    dl_value *is_most = dl_build2(b, DL_OP_or, dl_build2(b, DL_OP_eq, x, most), dl_build2(b, DL_OP_ne, x, x));
    dl_value *number = dl_build_count(b, &x->type, at, n->out[0].type.dtype);
    dl_value *none = dl_build_const(b, n->out[0].type.dtype, (double)x->type.axis[at].size);
    return as_promised(
        b, reduce_one(b, DL_OP_reduce_min, dl_build3(b, DL_OP_select, is_most, number, none), axis), n);
}

/* Fewer than k scores are above that of the row's class. */
dl_value *dl_lower_in_top_k(dl_builder *b, const dl_node *n) {
    dl_value *y = n->in[0];
    dl_value *above = dl_build2(b, DL_OP_gt, y, pick(b, y, n->in[1]));
    dl_value *count = reduce_one(b, DL_OP_sum, dl_build_cast(b, above, DL_F32), y->type.axis[1].name);
    return dl_build_k(b, DL_OP_lt, count, (double)dl_node_int(n, DL_ATTR_k));
}
