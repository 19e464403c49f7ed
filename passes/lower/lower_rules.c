/* The lowering rules of composite ops. Where numbers could overflow or cancel, the order of
 * operations is that of a careful implementation in the same precision: softmax subtracts the
 * maximum, variance is that of deviations from the mean. */
#include <math.h>

#include "passes/core/wide_cat.h"
#include "passes/lower/lower.h"

static dl_value *add(dl_builder *b, dl_value *x, dl_value *y) {
    return dl_build2(b, DL_OP_add, x, y);
}
static dl_value *sub(dl_builder *b, dl_value *x, dl_value *y) {
    return dl_build2(b, DL_OP_sub, x, y);
}
static dl_value *mul(dl_builder *b, dl_value *x, dl_value *y) {
    return dl_build2(b, DL_OP_mul, x, y);
}
static dl_value *divide(dl_builder *b, dl_value *x, dl_value *y) {
    return dl_build2(b, DL_OP_div, x, y);
}
static dl_value *scale(dl_builder *b, dl_value *x, double k) {
    return dl_build_k(b, DL_OP_mul, x, k);
}

static dl_value *reduce_one(dl_builder *b, dl_op op, dl_value *x, const char *axis) {
    return dl_build_reduce(b, op, x, 1, &axis);
}

/* A vector whose axis is renamed to that which it varies along. */
static dl_value *along(dl_builder *b, dl_value *vector, const char *axis) {
    if (vector->type.axis[0].name == axis) return vector;
    dl_type t = vector->type;
    t.axis[0].name = axis;
    return dl_build_as(b, DL_OP_rename, 1, &vector, 0, NULL, t);
}

/* x Phi(x): Hendrycks and Gimpel 2016, with the error function as in torch.nn.GELU(). */
dl_value *dl_lower_gelu(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0], *erf = dl_build1(b, DL_OP_erf, scale(b, x, M_SQRT1_2));
    dl_value *twice = dl_build_k(b, DL_OP_add, erf, 1);
    return mul(b, scale(b, x, 0.5), twice);
}

/* The same with tanh for the error function (Hendrycks and Gimpel 2016): GELU(approximate="tanh").
 */
dl_value *dl_lower_gelu_tanh(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0], *cube = mul(b, mul(b, x, x), x);
    dl_value *inner = scale(b, add(b, x, scale(b, cube, 0.044715)), M_2_SQRTPI * M_SQRT1_2);
    dl_value *twice = dl_build_k(b, DL_OP_add, dl_build1(b, DL_OP_tanh, inner), 1);
    return mul(b, scale(b, x, 0.5), twice);
}

dl_value *dl_lower_silu(dl_builder *b, const dl_node *n) {
    return mul(b, n->in[0], dl_build1(b, DL_OP_sigmoid, n->in[0]));
}

/* log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold
 * (torch.nn.Softplus). The branch that is not chosen must not overflow, or its gradient would be
 * 0 times infinity. */
dl_value *dl_lower_softplus(dl_builder *b, const dl_node *n) {
    double beta = dl_node_float(n, DL_ATTR_beta), most = dl_node_float(n, DL_ATTR_threshold);
    dl_value *x = n->in[0], *steep = scale(b, x, beta),
             *straight = dl_build_k(b, DL_OP_gt, steep, most);
    dl_value *bounded =
        dl_build3(b, DL_OP_select, straight, dl_build_const(b, x->type.dtype, most), steep);
    dl_value *bent = dl_build1(b, DL_OP_log1p, dl_build1(b, DL_OP_exp, bounded));
    return dl_build3(b, DL_OP_select, straight, x, scale(b, bent, 1 / beta));
}

/* A NaN remains one. The gradient is dy between the bounds, both included (torch.clamp), and 0
 * outside. */
dl_value *dl_lower_clamp(dl_builder *b, const dl_node *n) {
    static const dl_attr_id bounds[] = {DL_ATTR_low, DL_ATTR_high};
    static const dl_op beyond[] = {DL_OP_lt, DL_OP_gt}, within[] = {DL_OP_ge, DL_OP_le};
    dl_value *x = n->in[0], *inside = NULL, *moved = dl_build1(b, DL_OP_stop_gradient, x);
    for (int i = 0; i < 2; i++) {
        const dl_attr *bound = dl_node_attr(n, bounds[i]);
        if (!bound) continue;
        dl_value *end = dl_build_const(b, x->type.dtype, bound->f),
                 *in = dl_build2(b, within[i], x, end);
        inside = inside ? dl_build2(b, DL_OP_and, inside, in) : in;
        moved = dl_build3(b, DL_OP_select, dl_build2(b, beyond[i], moved, end), end, moved);
    }
    if (!inside) return dl_build_as(b, DL_OP_broadcast, 1, &x, 0, NULL, n->out[0].type);
    return dl_build3(b, DL_OP_select, inside, x, moved);
}

/* A concatenation of many parts, in steps. */
dl_value *dl_lower_cat(dl_builder *b, const dl_node *n) {
    if (!dl_cat_is_wide(n->nin)) return NULL;
    return dl_build_wide_cat(b, n->nin, n->in, dl_node_name(n, DL_ATTR_axis));
}

/* The product along an axis by halving: one half times the other until one element is left.
 * There is no division, so zeros have gradients, too; the number of roundings is that of
 * halvings. */
static dl_value *multiply_along(dl_builder *b, dl_value *x, const char *axis) {
    dl_value *rest = NULL;
    dl_attr squeezed = dl_attr_name(DL_ATTR_axis, axis);
    int64_t n = x->type.axis[dl_type_axis(&x->type, axis)].size;
    if (!n) { /* the product of no elements is 1 */
        dl_value *none = reduce_one(b, DL_OP_sum, x, axis);
        return dl_build_k(b, DL_OP_add, none, 1);
    }
    for (; n > 1; n /= 2) {
        if (n % 2) {
            dl_value *last = dl_build_slice(b, x, axis, n - 1, n);
            rest = rest ? mul(b, rest, last) : last;
        }
        dl_value *upper = dl_build_slice(b, x, axis, n / 2, n / 2 * 2);
        x = mul(b, dl_build_slice(b, x, axis, 0, n / 2), upper);
    }
    if (rest) x = mul(b, x, rest);
    return dl_build(b, DL_OP_squeeze, 1, &x, 1, &squeezed);
}

dl_value *dl_lower_prod(dl_builder *b, const dl_node *n) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    dl_value *x = n->in[0];
    if (!over->n) return dl_build_as(b, DL_OP_broadcast, 1, &x, 0, NULL, n->out[0].type);
    for (int i = 0; i < over->n; i++) x = multiply_along(b, x, over->names[i]);
    return x;
}

/* Scores minus their maximum along the axis. The maximum has no gradient: softmax does not
 * depend on it. */
static dl_value *shift_scores(dl_builder *b, dl_value *x, const char *axis) {
    dl_value *most = dl_build1(b, DL_OP_stop_gradient, reduce_one(b, DL_OP_reduce_max, x, axis));
    return sub(b, x, most);
}

static dl_value *contract(dl_builder *b, dl_value *x, dl_value *y, const char *over) {
    dl_value *in[] = {x, y};
    dl_attr attr = dl_attr_names(DL_ATTR_over, 1, &over);
    return dl_build(b, DL_OP_contract, 2, in, 1, &attr);
}

/* The type with a name for each axis, because contractions match axes by name. */
static dl_type with_names(dl_type t) {
    for (int i = 0; i < t.rank; i++)
        if (!*t.axis[i].name) t.axis[i].name = dl_type_fresh(&t, "unnamed");
    return t;
}
static dl_value *rename_to(dl_builder *b, dl_value *v, dl_type t) {
    return dl_type_same(&v->type, &t) ? v : dl_build_as(b, DL_OP_rename, 1, &v, 0, NULL, t);
}

/* y[..., e] = sum over i of x[..., i] w[e, i]. The input features are renamed to i, so that e
 * may have their name. */
dl_value *dl_lower_linear(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0], *w = n->in[1];
    int at = *w->type.axis[1].name ? dl_type_axis(&x->type, w->type.axis[1].name) : -1;
    if (at < 0) at = x->type.rank - 1;
    dl_type t = with_names(x->type), made = t, weight = w->type;
    const char *inner = dl_type_fresh(&t, t.axis[at].name);
    weight.axis[0].name = t.axis[at].name, weight.axis[1].name = inner;
    t.axis[at].name = inner, made.axis[at].size = weight.axis[0].size;
    w = rename_to(b, w, weight);
    dl_value *y = contract(b, rename_to(b, x, t), w, inner);
    return rename_to(b, dl_build_broadcast(b, y, made), n->out[0].type);
}

dl_value *dl_lower_softmax(dl_builder *b, const dl_node *n) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    dl_value *e = dl_build1(b, DL_OP_exp, shift_scores(b, n->in[0], axis));
    return divide(b, e, reduce_one(b, DL_OP_sum, e, axis));
}

/* Without a division: for scores far below the maximum the probability is 0, its logarithm is
 * not. */
dl_value *dl_lower_log_softmax(dl_builder *b, const dl_node *n) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    dl_value *z = shift_scores(b, n->in[0], axis);
    dl_value *all = reduce_one(b, DL_OP_sum, dl_build1(b, DL_OP_exp, z), axis);
    return sub(b, z, dl_build1(b, DL_OP_log, all));
}

/* The mean of this rank's elements. */
static dl_value *own_mean(dl_builder *b, const dl_node *norm, dl_value *x, int n,
                          const char *const *over) {
    (void)norm;
    return dl_build_reduce(b, DL_OP_mean, x, n, over);
}

/* The sum over all ranks, for values that each rank computes for its own samples. The gradient
 * of the sum is the sum of the ranks' gradients, hence the `enter`. */
static dl_value *sum_over_ranks(dl_builder *b, dl_value *sum, int64_t ranks) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_group, "dp"), dl_attr_int(DL_ATTR_ranks, ranks),
                    dl_attr_of(b->graph, "a batch's statistics")};
    if (ranks == 1) return sum;
    sum = dl_build(b, DL_OP_all_reduce, 1, &sum, 3, at);
    return dl_build(b, DL_OP_enter, 1, &sum, 3, at);
}

/* The sum over the batch, divided by the number of its elements minus `correction`. All ranks
 * have equal numbers. */
static dl_value *batch_mean(dl_builder *b, dl_value *x, int n, const char *const *over,
                            int64_t correction) {
    int64_t ranks = dl_lowering_of(b)->batch_ranks, count = ranks;
    for (int i = 0; i < n; i++) count *= x->type.axis[dl_type_axis(&x->type, over[i])].size;
    dl_value *sum = sum_over_ranks(b, dl_build_reduce(b, DL_OP_sum, x, n, over), ranks);
    if (correction && count > 0) count = count > correction ? count - correction : 1;
    return scale(b, sum, 1.0 / (double)count);
}

static dl_value *mean_of_batch(dl_builder *b, const dl_node *norm, dl_value *x, int n,
                               const char *const *over) {
    (void)norm;
    return batch_mean(b, x, n, over, 0);
}

dl_value *dl_lower_batch_mean(dl_builder *b, const dl_node *n) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    return batch_mean(b, n->in[0], over->n, over->names, dl_node_int(n, DL_ATTR_correction));
}

/* The mean over the axes that a norm needs: that of this rank, of all ranks, or of its groups. */
typedef dl_value *mean_rule(dl_builder *b, const dl_node *norm, dl_value *x, int n,
                            const char *const *over);

/* (x - mean) / sqrt(variance + eps) over the axes, with the biased variance. One root and one
 * division for each mean, followed by multiplications, as in PyTorch. The gradient of the
 * variance does not flow through the mean: deviations sum to zero, and would leave only their
 * rounding. The gradient's own gradient does. */
static dl_value *standardise(dl_builder *b, const dl_node *norm, dl_value *x, int n,
                             const char *const *over, mean_rule *take_mean) {
    dl_value *mean = take_mean(b, norm, x, n, over);
    bool twice = dl_lower_twice(b, norm);
    dl_value *d = sub(b, x, twice ? mean : dl_build1(b, DL_OP_stop_gradient, mean));
    dl_value *variance = take_mean(b, norm, mul(b, d, d), n, over);
    dl_value *scale = dl_build1(
        b, DL_OP_rsqrt, dl_build_k(b, DL_OP_add, variance, dl_node_float(norm, DL_ATTR_eps)));
    return mul(b, sub(b, x, mean), scale);
}

/* (x - mean) / sqrt(variance + eps) * weight + bias along axis `kept`, with statistics over the
 * axes whose bits are set. The variance is biased, and has a gradient (Ioffe and Szegedy 2015;
 * Ba, Kiros and Hinton 2016). */
static dl_value *normalise(dl_builder *b, const dl_node *n, unsigned statistics, int kept,
                           mean_rule *take_mean) {
    const dl_type t = with_names(n->in[0]->type);
    const char *over[DL_MAX_RANK];
    int n_over = 0;
    for (int i = 0; i < t.rank; i++)
        if (statistics >> i & 1) over[n_over++] = t.axis[i].name;
    dl_value *w = along(b, n->in[1], t.axis[kept].name),
             *bias = along(b, n->in[2], t.axis[kept].name);
    dl_value *y = standardise(b, n, rename_to(b, n->in[0], t), n_over, over, take_mean);
    return rename_to(b, add(b, mul(b, y, w), bias), n->out[0].type);
}

dl_value *dl_lower_layer_norm(dl_builder *b, const dl_node *n) {
    int last = n->in[0]->type.rank - 1;
    return normalise(b, n, 1u << last, last, own_mean);
}

/* By sample and channel: the mean over the channel's group and the axes `over`, all that follow
 * channels. Only sums by channel are split into groups, so that tensors of x's size keep its axes,
 * and with them the memory layout of the convolutions around the norm. */
static dl_value *mean_of_group(dl_builder *b, const dl_node *norm, dl_value *x, int n,
                               const char *const *over) {
    int64_t groups = dl_node_int(norm, DL_ATTR_groups);
    double count = 1;
    for (int i = 1; i < x->type.rank; i++) count *= (double)x->type.axis[i].size;
    dl_value *sums = n ? dl_build_reduce(b, DL_OP_sum, x, n, over) : x;
    const dl_type by_channel = sums->type;
    dl_axis channels = by_channel.axis[1];
    if (groups == channels.size) return scale(b, sums, (double)groups / count);
    dl_type split = by_channel;
    split.axis[split.rank++] = (dl_axis){channels.name, channels.size / groups};
    split.axis[1] = (dl_axis){dl_type_fresh(&by_channel, channels.name), groups};
    sums = dl_build_as(b, DL_OP_reshape, 1, &sums, 0, NULL, split);
    dl_value *mean =
        scale(b, reduce_one(b, DL_OP_sum, sums, channels.name), (double)groups / count);
    mean = dl_build_broadcast(b, mean, split);
    return dl_build_as(b, DL_OP_reshape, 1, &mean, 0, NULL, by_channel);
}

/* Statistics over the channels of a group and all following axes (Wu and He 2018). */
dl_value *dl_lower_group_norm(dl_builder *b, const dl_node *n) {
    unsigned following = ~3u;
    return normalise(b, n, following, 1, mean_of_group);
}

/* (x - mean) weight / sqrt(variance + eps) + bias with the running statistics: root and division
 * are those of vectors. */
static dl_value *normalise_by_running(dl_builder *b, const dl_node *n) {
    const dl_type t = with_names(n->in[0]->type);
    dl_value *x = rename_to(b, n->in[0], t), *v[5];
    for (int i = 1; i < 5; i++) v[i] = along(b, n->in[i], t.axis[1].name);
    dl_value *variance = dl_build_k(b, DL_OP_add, v[4], dl_node_float(n, DL_ATTR_eps));
    dl_value *scale = divide(b, v[1], dl_build1(b, DL_OP_sqrt, variance));
    dl_value *y = mul(b, sub(b, x, v[3]), scale);
    return rename_to(b, add(b, y, v[2]), n->out[0].type);
}

/* In training with the batch's statistics; the front end updates the running ones from these. */
dl_value *dl_lower_batch_norm(dl_builder *b, const dl_node *n) {
    if (!dl_node_int(n, DL_ATTR_training)) return normalise_by_running(b, n);
    return normalise(b, n, ~(1u << 1), 1, mean_of_batch);
}

/* One-hot: true along axis `at` of the scores where the index is the row's class. */
static dl_value *hits(dl_builder *b, dl_value *scores, dl_value *classes, int at) {
    return dl_build2(b, DL_OP_eq, classes,
                     dl_build_count(b, &scores->type, at, classes->type.dtype));
}

/* The score of the class; 0 where the class has none. */
static dl_value *pick(dl_builder *b, dl_value *scores, dl_value *hit, int at) {
    dl_value *only =
        dl_build3(b, DL_OP_select, hit, scores, dl_build_const(b, scores->type.dtype, 0));
    return reduce_one(b, DL_OP_sum, only, scores->type.axis[at].name);
}

/* torch.nn.functional.cross_entropy(reduction="none"). A class without a score has probability
 * 0, and the loss -log 0. */
dl_value *dl_lower_cross_entropy(dl_builder *b, const dl_node *n) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    dl_value *z = shift_scores(b, n->in[0], axis), *t = n->in[1];
    dl_value *all = reduce_one(b, DL_OP_sum, dl_build1(b, DL_OP_exp, z), axis),
             *log = dl_build1(b, DL_OP_log, all);
    if (dl_dtype_is_float(t->type.dtype))
        return reduce_one(b, DL_OP_sum, mul(b, sub(b, log, z), t), axis);
    int at = dl_type_axis(&z->type, axis);
    dl_value *hit = hits(b, z, t, at), *loss = sub(b, log, pick(b, z, hit, at));
    dl_value *known = reduce_one(b, DL_OP_sum, dl_build_cast(b, hit, z->type.dtype), axis);
    return sub(b, loss, dl_build1(b, DL_OP_log, known));
}

/* The first maximum; a NaN counts as the maximum, as in PyTorch. */
dl_value *dl_lower_argmax(dl_builder *b, const dl_node *n) {
    dl_value *x = n->in[0];
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    int at = dl_type_axis(&x->type, axis);
    dl_value *most = reduce_one(b, DL_OP_reduce_max, x, axis);
    dl_value *is_nan = dl_build2(b, DL_OP_ne, x, x);
    dl_value *is_most = dl_build2(b, DL_OP_or, dl_build2(b, DL_OP_eq, x, most), is_nan);
    dl_value *number = dl_build_count(b, &x->type, at, n->out[0].type.dtype);
    dl_value *none = dl_build_const(b, n->out[0].type.dtype, (double)x->type.axis[at].size);
    return reduce_one(b, DL_OP_reduce_min, dl_build3(b, DL_OP_select, is_most, number, none), axis);
}

/* Operand i of a node of scores [N, C] and classes [N], with names for both axes. */
static dl_value *with_class_names(dl_builder *b, const dl_node *n, int i) {
    dl_type scores = with_names(n->in[0]->type), t = n->in[i]->type;
    for (int k = 0; k < t.rank; k++) t.axis[k].name = scores.axis[k].name;
    return rename_to(b, n->in[i], t);
}

static dl_value *count_true(dl_builder *b, dl_value *truths, const char *axis) {
    return reduce_one(b, DL_OP_sum, dl_build_cast(b, truths, DL_F32), axis);
}

/* True where the row's class has a score and fewer than k scores are greater; a NaN is greater
 * than all numbers, as in argmax. */
dl_value *dl_lower_in_top_k(dl_builder *b, const dl_node *n) {
    dl_value *y = with_class_names(b, n, 0), *hit = hits(b, y, with_class_names(b, n, 1), 1);
    dl_value *own = pick(b, y, hit, 1);
    dl_value *nan = dl_build2(b, DL_OP_ne, y, y), *number = dl_build2(b, DL_OP_eq, own, own);
    dl_value *above = dl_build2(b, DL_OP_gt, y, own);
    above = dl_build2(b, DL_OP_or, above, dl_build2(b, DL_OP_and, nan, number));
    above = count_true(b, above, y->type.axis[1].name);
    dl_value *known = dl_build_k(b, DL_OP_gt, count_true(b, hit, y->type.axis[1].name), 0);
    dl_value *among = dl_build_k(b, DL_OP_lt, above, (double)dl_node_int(n, DL_ATTR_k));
    return rename_to(b, dl_build2(b, DL_OP_and, known, among), n->out[0].type);
}
