/* Norms, and the activation that has parameters. */
#include "frontends/dl/builtin.h"

static dl_val norm_param(dl_call *c, const char *role, dl_axis axis, double value) {
    dl_type t = dl_scalar(dl_param_type(c->arg[0]));
    dl_type_push(&t, axis.name, axis.size);
    return dl_make_param(c, role, t, (dl_init){value ? DL_INIT_CONST : DL_INIT_ZERO, value, 0}, 1,
                         1);
}

/* Builds the same nodes as the lowered layer (passes/lower/lower_rules.c), so that both are
 * merged. */
static dl_val batch_mean(dl_call *c, dl_val x, int n, const char *const *over, int correction) {
    dl_attr attrs[] = {dl_attr_names(DL_ATTR_over, n, over),
                       dl_attr_int(DL_ATTR_correction, correction)};
    return dl_tensor_op(c->E, c->where, DL_OP_batch_mean, 1, &x, 2, attrs, NULL);
}

static int all_but_channels(const dl_type *t, const char *over[DL_MAX_RANK]) {
    int n = 0;
    for (int i = 0; i < t->rank; i++)
        if (i != 1) over[n++] = t->axis[i].name;
    return n;
}

/* running = momentum * running + (1 - momentum) * batch: Keras' momentum, which is 1 - PyTorch's.
 * The running variance is the unbiased one, as in both. */
static void update_statistics(dl_call *c, dl_val x, dl_val mean, dl_val var, double momentum) {
    const char *over[DL_MAX_RANK];
    const int n = all_but_channels(&x.t->type, over);
    dl_val m = batch_mean(c, x, n, over, 0);
    dl_val stopped = dl_tensor_op(c->E, c->where, DL_OP_stop_gradient, 1, &m, 0, NULL, NULL);
    dl_val d = dl_call_elem(c, DL_OP_sub, x, stopped);
    dl_val v = batch_mean(c, dl_call_elem(c, DL_OP_mul, d, d), n, over, 1);
    dl_val keep = dl_val_float(momentum, c->where), take = dl_val_float(1 - momentum, c->where);
    dl_val new_mean = dl_call_elem(c, DL_OP_mul, m, take), new_var;
    new_mean = dl_call_elem(c, DL_OP_add, dl_call_elem(c, DL_OP_mul, mean, keep), new_mean);
    dl_update_state(c, "running_mean", new_mean);
    new_var = dl_call_elem(c, DL_OP_mul, v, take);
    new_var = dl_call_elem(c, DL_OP_add, dl_call_elem(c, DL_OP_mul, var, keep), new_var);
    dl_update_state(c, "running_var", new_var);
}

/* The same number for each entry of an axis: in place of a norm's parameter. */
static dl_val vector_of(dl_call *c, dl_dtype type, dl_axis axis, double number) {
    dl_type vector = dl_scalar(type);
    dl_type_push(&vector, axis.name, axis.size);
    dl_val v = dl_tensor_of(c->E, dl_val_float(number, c->where), type);
    return dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &v, 0, NULL, &vector);
}

/* The norm by the statistics of the batch, in evaluation, too. In mixed precision these are f32,
 * and so is the result, as layer_norm's is. */
static dl_val by_batch(dl_call *c, dl_val x, double eps, dl_val w, dl_val b) {
    const char *over[DL_MAX_RANK];
    dl_val none = {.kind = DL_V_NONE};
    x = dl_tensor_pin(c->E, c->where, x);
    const int n = all_but_channels(&x.t->type, over);
    dl_val d = dl_call_elem(c, DL_OP_sub, x, batch_mean(c, x, n, over, 0));
    dl_val v = batch_mean(c, dl_call_elem(c, DL_OP_mul, d, d), n, over, 0);
    dl_val root = dl_call_elem(c, DL_OP_add, v, dl_val_float(eps, c->where));
    dl_val y = dl_call_elem(c, DL_OP_mul, d, dl_call_elem(c, DL_OP_rsqrt, root, none));
    return c->arg[3].b ? dl_call_elem(c, DL_OP_add, dl_call_elem(c, DL_OP_mul, y, w), b) : y;
}

dl_val dl_layer_batch_norm(dl_call *c) {
    dl_elab *E = c->E;
    dl_val x = c->arg[0];
    double momentum = dl_val_number(c->arg[1]), eps = dl_val_number(c->arg[2]);
    if (!dl_call_float(c, &x)) return dl_poison();
    if (x.t->type.rank < 2 || !*x.t->type.axis[1].name)
        return dl_bad(E, c->where, DL_DIAG_rank_mismatch,
                      "batch_norm works on [N, C, ...], but its input is %s",
                      dl_type_text(&x.t->type));
    dl_axis channel = x.t->type.axis[1];
    dl_type vector = dl_scalar(dl_param_type(x));
    dl_type_push(&vector, channel.name, channel.size);
    const bool affine = c->arg[3].b;
    dl_dtype type = x.t->type.dtype;
    dl_val w = affine ? norm_param(c, "weight", channel, 1) : vector_of(c, type, channel, 1),
           b = affine ? norm_param(c, "bias", channel, 0) : vector_of(c, type, channel, 0);
    if (w.kind != DL_V_TENSOR || b.kind != DL_V_TENSOR) return dl_poison();
    if (!c->arg[4].b) return by_batch(c, x, eps, w, b);
    dl_val mean = dl_make_state(c, "running_mean", vector, (dl_init){0});
    dl_val var = dl_make_state(c, "running_var", vector, (dl_init){DL_INIT_CONST, 1, 0});
    dl_val seen = dl_make_state(c, "num_batches_tracked", dl_scalar(DL_I64), (dl_init){0});
    if (mean.kind != DL_V_TENSOR || seen.kind != DL_V_TENSOR || var.kind != DL_V_TENSOR)
        return dl_poison();
    dl_attr attrs[] = {dl_attr_float(DL_ATTR_eps, eps), dl_attr_float(DL_ATTR_momentum, momentum),
                       dl_attr_int(DL_ATTR_training, E->train)};
    dl_val y = dl_tensor_op(E, c->where, DL_OP_batch_norm, 5, (dl_val[]){x, w, b, mean, var}, 3,
                            attrs, NULL);
    if (!E->train || y.kind != DL_V_TENSOR) return y;
    update_statistics(c, x, mean, var, momentum);
    dl_update_state(c, "num_batches_tracked",
                    dl_call_elem(c, DL_OP_add, seen, dl_val_int(1, c->where)));
    return y;
}

/* x with an axis moved to the place `to`. */
static dl_val with_axis_at(dl_call *c, dl_val x, int from, int to) {
    dl_type t = x.t->type;
    dl_axis moved = t.axis[from];
    for (int i = from; i < to; i++) t.axis[i] = t.axis[i + 1];
    for (int i = from; i > to; i--) t.axis[i] = t.axis[i - 1];
    t.axis[to] = moved;
    return from == to ? x : dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &x, 0, NULL, &t);
}

/* Normalizes along the last axis, or along the one that `over` names, which is moved to the end
 * meanwhile. */
dl_val dl_layer_layer_norm(dl_call *c) {
    dl_val x = c->arg[0];
    if (!dl_call_float(c, &x)) return dl_poison();
    int last = x.t->type.rank - 1, at = last, n;
    const char *names[DL_MAX_RANK];
    if (last < 0 || !*x.t->type.axis[last].name)
        return dl_bad(c->E, c->where, DL_DIAG_rank_mismatch,
                      "layer_norm works along the last axis, but its input is %s",
                      dl_type_text(&x.t->type));
    if (c->arg[2].kind != DL_V_NONE) {
        if (!dl_call_axes_of(c, 2, x, &n, names)) return dl_poison();
        at = dl_type_axis(&x.t->type, names[0]);
    }
    dl_doubt_one_value(c->E, c->where, c->what->name, &x.t->type, at);
    dl_axis axis = x.t->type.axis[at];
    bool affine = c->arg[3].b, biased = affine && c->arg[4].b;
    dl_dtype type = x.t->type.dtype;
    dl_val w = affine ? norm_param(c, "weight", axis, 1) : vector_of(c, type, axis, 1),
           b = biased ? norm_param(c, "bias", axis, 0) : vector_of(c, type, axis, 0);
    dl_attr eps = dl_attr_float(DL_ATTR_eps, dl_val_number(c->arg[1]));
    dl_val in[] = {with_axis_at(c, x, at, last), w, b};
    dl_val y = dl_tensor_op(c->E, c->where, DL_OP_layer_norm, 3, in, 1, &eps, NULL);
    return y.kind == DL_V_TENSOR ? with_axis_at(c, y, last, at) : y;
}

/* x / sqrt(mean(x^2) + eps) along an axis, times a weight (Zhang and Sennrich 2019). Squares and
 * their mean are f32 in mixed precision, and so is the result, as layer_norm's is. */
dl_val dl_layer_rms_norm(dl_call *c) {
    dl_val x = c->arg[0];
    int n = 1;
    const char *names[DL_MAX_RANK];
    if (!dl_call_float(c, &x)) return dl_poison();
    int last = x.t->type.rank - 1;
    if (c->arg[2].kind != DL_V_NONE) {
        if (!dl_call_axes_of(c, 2, x, &n, names)) return dl_poison();
    } else if (last < 0 || !*(names[0] = x.t->type.axis[last].name))
        return dl_bad(c->E, c->where, DL_DIAG_rank_mismatch,
                      "rms_norm works along the last axis, but its input is %s",
                      dl_type_text(&x.t->type));
    x = dl_tensor_pin(c->E, c->where, x);
    dl_doubt_one_value(c->E, c->where, c->what->name, &x.t->type,
                       dl_type_axis(&x.t->type, names[0]));
    dl_val mean =
        dl_tensor_reduce(c->E, c->where, DL_OP_mean, dl_tensor_square(c->E, c->where, x), 1, names);
    dl_val eps = dl_val_float(dl_val_number(c->arg[1]), c->where);
    dl_val root = dl_call_elem(c, DL_OP_rsqrt, dl_call_elem(c, DL_OP_add, mean, eps),
                               (dl_val){.kind = DL_V_NONE});
    dl_val y = dl_call_elem(c, DL_OP_mul, x, root);
    if (!c->arg[3].b) return y;
    dl_val w = norm_param(c, "weight", x.t->type.axis[dl_type_axis(&x.t->type, names[0])], 1);
    return dl_call_elem(c, DL_OP_mul, y, w);
}

/* x where it is positive, else x times a weight: one, or one an entry of an axis (He et al.
 * 2015). */
dl_val dl_layer_prelu(dl_call *c) {
    dl_val x = c->arg[0];
    int n;
    const char *names[DL_MAX_RANK];
    if (!dl_call_float(c, &x)) return dl_poison();
    dl_type t = dl_scalar(dl_param_type(x));
    if (c->arg[1].kind != DL_V_NONE) {
        if (!dl_call_axes_of(c, 1, x, &n, names)) return dl_poison();
        dl_axis axis = x.t->type.axis[dl_type_axis(&x.t->type, names[0])];
        dl_type_push(&t, axis.name, axis.size);
    } else
        dl_type_push(&t, dl_intern(""), 1);
    dl_init init = {DL_INIT_CONST, dl_val_number(c->arg[2]), 0};
    dl_val w = dl_make_param(c, "weight", t, init, 1, 1);
    dl_val zero = dl_val_float(0, c->where), below = dl_call_elem(c, DL_OP_mul, x, w);
    dl_val positive = dl_call_elem(c, DL_OP_gt, x, zero);
    return dl_tensor_elem(c->E, c->where, DL_OP_select, 3, (dl_val[]){positive, x, below}, 0, NULL);
}

/* Checks a group with a single value. PyTorch refuses an instance norm of one value, but a group
 * norm only of a single sample. False: reported. */
static bool check_values(dl_call *c, const dl_type *t) {
    bool refused = strcmp(c->what->name, "instance_norm") == 0;
    dl_bad(c->E, c->where, refused ? DL_DIAG_one_value : DL_DIAG_one_value_a_group,
           "%s divides by the deviation of one value, which is 0: its input is %s", c->what->name,
           dl_type_text(t));
    return !refused;
}

/* Normalizes groups of channels; one group per channel is instance_norm. Without parameters it
 * equals weight 1 and bias 0. */
static dl_val normalise_groups(dl_call *c, int64_t groups, double eps, bool affine) {
    dl_val x = c->arg[0], w, b;
    if (!dl_call_float(c, &x)) return dl_poison();
    const dl_type *t = &x.t->type;
    if (t->rank < 2 || !*t->axis[1].name)
        return dl_bad(c->E, c->where, DL_DIAG_rank_mismatch,
                      "%s works on [N, C, ...], but its input is %s", c->what->name,
                      dl_type_text(t));
    dl_axis channel = t->axis[1];
    if (groups > 0 && dl_type_count(t) == t->axis[0].size * groups && channel.size >= groups &&
        t->axis[0].size && !check_values(c, t))
        return dl_poison();
    if (affine) {
        w = norm_param(c, "weight", channel, 1), b = norm_param(c, "bias", channel, 0);
    } else {
        w = vector_of(c, t->dtype, channel, 1), b = vector_of(c, t->dtype, channel, 0);
    }
    dl_attr attrs[] = {dl_attr_float(DL_ATTR_eps, eps), dl_attr_int(DL_ATTR_groups, groups)};
    return dl_tensor_op(c->E, c->where, DL_OP_group_norm, 3, (dl_val[]){x, w, b}, 2, attrs, NULL);
}

dl_val dl_layer_group_norm(dl_call *c) {
    return normalise_groups(c, c->arg[1].i, dl_val_number(c->arg[2]), c->arg[3].b);
}

dl_val dl_layer_instance_norm(dl_call *c) {
    const dl_type *t = &c->arg[0].t->type;
    return normalise_groups(c, t->rank > 1 && t->axis[1].size ? t->axis[1].size : 1,
                            dl_val_number(c->arg[1]), c->arg[2].b);
}
