/* Losses, composed of a few ops each, with PyTorch's definitions and gradients, also at kinks. */
#include "frontends/dl/builtin.h"

static dl_val none(void) { return (dl_val){.kind = DL_V_NONE}; }
static dl_val number(dl_call *c, double k) { return dl_val_float(k, c->where); }
static dl_val op1(dl_call *c, dl_op op, dl_val a) { return dl_call_elem(c, op, a, none()); }
static dl_val op2(dl_call *c, dl_op op, dl_val a, dl_val b) { return dl_call_elem(c, op, a, b); }
static dl_val add(dl_call *c, dl_val a, dl_val b) { return op2(c, DL_OP_add, a, b); }
static dl_val sub(dl_call *c, dl_val a, dl_val b) { return op2(c, DL_OP_sub, a, b); }
static dl_val mul(dl_call *c, dl_val a, dl_val b) { return op2(c, DL_OP_mul, a, b); }
static dl_val reduce(dl_call *c, dl_op op, dl_val x) {
    return dl_tensor_reduce(c->E, c->where, op, x, -1, NULL);
}

/* Applies the reduction of argument i: mean (of the sum of `weight` if that is a tensor), sum or
 * none. */
static dl_val finish(dl_call *c, int i, dl_val losses, dl_val weight) {
    const char *how = c->given[i] ? c->arg[i].s : "mean";
    if (strcmp(how, "none") == 0) return losses;
    if (strcmp(how, "sum") == 0) return reduce(c, DL_OP_sum, losses);
    if (strcmp(how, "mean") == 0 && weight.kind != DL_V_TENSOR)
        return reduce(c, DL_OP_mean, losses);
    if (strcmp(how, "mean") == 0) {
        dl_val weights = reduce(c, DL_OP_sum, weight);
        return op2(c, DL_OP_div, reduce(c, DL_OP_sum, losses), weights);
    }
    dl_bad(c->E, c->arg[i].origin, DL_DIAG_bad_argument,
           "%s: the reduction is \"mean\", \"sum\" or \"none\", not \"%.60s\"", c->what->name, how);
    return dl_poison();
}

/* Converts prediction and target to floats of one type and the same axes, in mixed precision to
 * f32; the target may be a number. False: reported. */
static bool take_pair(dl_call *c, dl_val *y, dl_val *t) {
    *y = c->arg[0], *t = c->arg[1];
    if (!dl_call_float(c, y)) return false;
    *y = dl_tensor_pin(c->E, c->where, *y);
    if (t->kind != DL_V_TENSOR) {
        if (dl_val_is_number(*t)) return true;
        if (!dl_refuse_layer(c->E, c->where, *t))
            dl_bad(c->E, c->where, DL_DIAG_not_a_tensor,
                   "%s compares with a tensor or a number, not with %s", c->what->name,
                   dl_val_describe(c->E, *t));
        return false;
    }
    if (!dl_axes_agree(c->E, c->where, c->what->name, 2, (dl_val[]){*y, *t}, NULL)) return false;
    const dl_type *a = &y->t->type, *b = &t->t->type;
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < b->rank; i++)
        same = !*b->axis[i].name || dl_type_axis(a, b->axis[i].name) >= 0;
    if (!same) {
        dl_bad(c->E, c->where, DL_DIAG_axis_mismatch,
               "%s compares tensors of the same axes, but these are %s and %s", c->what->name,
               dl_type_text(a), dl_type_text(b));
        dl_note_tensor(c->E, *y), dl_note_tensor(c->E, *t);
        dl_help(c->E, "rename axes that are the same (t as [N, C, H, W]), or say what meets what: "
                      "expand(t, over=C)");
        return false;
    }
    *t = dl_tensor_pin(c->E, c->where, dl_tensor_cast(c->E, c->where, *t, a->dtype));
    return t->kind == DL_V_TENSOR;
}

static dl_val difference(dl_call *c) {
    dl_val y, t;
    return take_pair(c, &y, &t) ? sub(c, y, t) : dl_poison();
}

dl_val dl_fn_mse_loss(dl_call *c) {
    dl_val d = difference(c);
    return d.kind == DL_V_TENSOR ? finish(c, 2, mul(c, d, d), none()) : d;
}

dl_val dl_fn_l1_loss(dl_call *c) {
    dl_val d = difference(c);
    return d.kind == DL_V_TENSOR ? finish(c, 2, op1(c, DL_OP_abs, d), none()) : d;
}

/* m (|d| - m / 2) with m = min(|d|, delta): d^2 / 2 near 0, delta (|d| - delta / 2) beyond (Huber
 * 1964). */
static dl_val huber(dl_call *c, dl_val d, double delta) {
    dl_val z = op1(c, DL_OP_abs, d), m = op2(c, DL_OP_min, z, number(c, delta));
    return mul(c, m, sub(c, z, mul(c, m, number(c, 0.5))));
}

dl_val dl_fn_huber_loss(dl_call *c) {
    double delta = dl_val_number(c->arg[2]);
    if (!(delta > 0))
        return dl_bad(c->E, c->arg[2].origin, DL_DIAG_bad_argument,
                      "huber_loss: 'delta' is above 0, not %g", delta);
    dl_val d = difference(c);
    return d.kind == DL_V_TENSOR ? finish(c, 3, huber(c, d, delta), none()) : d;
}

dl_val dl_fn_smooth_l1_loss(dl_call *c) {
    double beta = dl_val_number(c->arg[2]);
    if (!(beta >= 0))
        return dl_bad(c->E, c->arg[2].origin, DL_DIAG_bad_argument,
                      "smooth_l1_loss: 'beta' is 0 or more, not %g", beta);
    dl_val d = difference(c);
    if (d.kind != DL_V_TENSOR) return d;
    dl_val losses =
        beta == 0 ? op1(c, DL_OP_abs, d) : mul(c, huber(c, d, beta), number(c, 1 / beta));
    return finish(c, 3, losses, none());
}

/* |y - t| / |t|, with norms over all axes but the first, or over `over`. */
dl_val dl_fn_relative_l2_loss(dl_call *c) {
    int n;
    const char *names[DL_MAX_RANK];
    dl_val y, t;
    if (!take_pair(c, &y, &t) || !dl_call_axes_of(c, 2, y, &n, names)) return dl_poison();
    if (t.kind != DL_V_TENSOR)
        return dl_bad(c->E, c->where, DL_DIAG_not_a_tensor,
                      "relative_l2_loss compares with a tensor, not with %s",
                      dl_val_describe(c->E, t));
    if (n < 0) {
        n = 0;
        for (int i = 1; i < y.t->type.rank; i++) names[n++] = y.t->type.axis[i].name;
    }
    dl_val off = dl_call_norm(c, sub(c, y, t), n, names), size = dl_call_norm(c, t, n, names);
    return finish(c, 3, op2(c, DL_OP_div, off, size), none());
}

/* Checks a weight: a number, or a tensor of some of y's axes. False: reported. */
static bool check_weight(dl_call *c, int i, dl_val y) {
    dl_val w = c->arg[i];
    const char *name = c->what->params[i].name;
    if (w.kind == DL_V_NONE || dl_val_is_number(w)) return true;
    if (w.kind != DL_V_TENSOR) {
        if (!dl_refuse_layer(c->E, c->where, w))
            dl_bad(c->E, c->where, DL_DIAG_bad_argument, "%s: '%s' is a tensor or a number, not %s",
                   c->what->name, name, dl_val_describe(c->E, w));
        return false;
    }
    const dl_type *t = &w.t->type;
    for (int k = 0; k < t->rank; k++)
        if (*t->axis[k].name && dl_type_axis(&y.t->type, t->axis[k].name) < 0) {
            dl_bad(c->E, c->where, DL_DIAG_axis_mismatch,
                   "%s: '%s' has the axis %s, which %s lacks", c->what->name, name, t->axis[k].name,
                   dl_type_text(&y.t->type));
            dl_note_tensor(c->E, w);
            return false;
        }
    return true;
}

/* (1 - t) x + (1 + (p - 1) t) (log(1 + exp(-|x|)) + max(-x, 0)), which never overflows. */
dl_val dl_fn_bce_with_logits(dl_call *c) {
    dl_val x, t, weight = c->arg[2], positive = c->arg[3], one = number(c, 1);
    if (!take_pair(c, &x, &t) || !check_weight(c, 2, x) || !check_weight(c, 3, x))
        return dl_poison();
    dl_doubt_scores(c->E, c->where, c->what->name, c->arg[0], DL_OP_sigmoid);
    weight = dl_tensor_pin(c->E, c->where, weight),
    positive = dl_tensor_pin(c->E, c->where, positive);
    dl_val size = op1(c, DL_OP_exp, op1(c, DL_OP_neg, op1(c, DL_OP_abs, x)));
    dl_val off = op2(c, DL_OP_max, op1(c, DL_OP_neg, x), number(c, 0));
    off = add(c, op1(c, DL_OP_log1p, size), off);
    if (positive.kind != DL_V_NONE)
        off = mul(c, off, add(c, mul(c, t, sub(c, positive, one)), one));
    dl_val losses = add(c, mul(c, x, sub(c, one, t)), off);
    if (weight.kind != DL_V_NONE) losses = mul(c, losses, weight);
    return finish(c, 4, losses, none());
}

/* Cross-entropy */

/* The axis of the scores that the class numbers lack; for class probabilities it is the second, as
 * in PyTorch. NULL: reported. */
static const char *class_axis(dl_call *c, dl_val y, dl_val t, bool shares) {
    int n;
    const char *names[DL_MAX_RANK], *found = NULL;
    const dl_type *type = &y.t->type;
    if (shares && t.t->type.rank != type->rank) {
        dl_bad(c->E, c->where, DL_DIAG_type_mismatch,
               "cross_entropy takes class numbers (i32 or i64), or shares of the classes with all "
               "axes of "
               "the scores, "
               "but these are %s and %s",
               dl_type_text(type), dl_type_text(&t.t->type));
        dl_note_tensor(c->E, y), dl_note_tensor(c->E, t);
        dl_help(c->E, "declare class numbers as i32, or cast them: %s as i32",
                t.name ? t.name : "(t)");
        return NULL;
    }
    if (c->given[6]) return dl_call_axes_of(c, 6, y, &n, names) ? names[0] : NULL;
    if (shares && type->rank) found = type->axis[type->rank > 1].name;
    for (int i = n = 0; !shares && i < type->rank; i++)
        if (dl_type_axis(&t.t->type, type->axis[i].name) < 0) found = type->axis[i].name, n++;
    if (found && *found && (shares || n == 1)) return found;
    dl_bad(c->E, c->where, DL_DIAG_axis_mismatch,
           "cross_entropy expects the classes to have all axes of the scores but one, but these "
           "are %s and %s",
           dl_type_text(type), dl_type_text(&t.t->type));
    dl_note_tensor(c->E, y), dl_note_tensor(c->E, t);
    dl_help(c->E, "scores [N, C, H, W] have classes [N, H, W]; shares of the classes are floats, "
                  "of the scores' axes");
    return NULL;
}

static dl_val entropy(dl_call *c, dl_val y, dl_val t, const char *axis) {
    dl_attr along = dl_attr_name(DL_ATTR_axis, axis);
    return dl_tensor_op(c->E, c->where, DL_OP_cross_entropy, 2, (dl_val[]){y, t}, 1, &along, NULL);
}

/* A vector along the classes: `weight`, or ones. Poison: reported. */
static dl_val class_weights(dl_call *c, dl_val y, const char *axis, dl_val weight) {
    dl_type vector = dl_scalar(y.t->type.dtype);
    dl_type_push(&vector, axis, y.t->type.axis[dl_type_axis(&y.t->type, axis)].size);
    if (weight.kind == DL_V_NONE) {
        dl_val one = dl_tensor_of(c->E, number(c, 1), vector.dtype);
        return dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &one, 0, NULL, &vector);
    }
    weight = dl_tensor_cast(c->E, c->where, weight, vector.dtype);
    if (weight.kind != DL_V_TENSOR || dl_type_same(&weight.t->type, &vector)) return weight;
    dl_bad(c->E, c->where, DL_DIAG_axis_mismatch,
           "cross_entropy expects a weight for each class, %s, but it is %s", dl_type_text(&vector),
           dl_type_text(&weight.t->type));
    dl_note_tensor(c->E, weight);
    return dl_poison();
}

/* The weight of each row's class; 1 for an invalid class number, whose loss stays infinite. */
static dl_val weight_of_class(dl_call *c, dl_val weight, dl_val t) {
    const dl_type *w = &weight.t->type;
    dl_attr axis = dl_attr_name(DL_ATTR_axis, w->axis[0].name);
    dl_type count = *w;
    count.dtype = t.t->type.dtype;
    dl_val number_of = dl_tensor_op(c->E, c->where, DL_OP_iota, 0, NULL, 1, &axis, &count);
    dl_val hit = dl_tensor_op(c->E, c->where, DL_OP_eq, 2, (dl_val[]){t, number_of}, 0, NULL, NULL);
    dl_val zero = dl_tensor_of(c->E, number(c, 0), w->dtype);
    dl_val only =
        dl_tensor_op(c->E, c->where, DL_OP_select, 3, (dl_val[]){hit, weight, zero}, 0, NULL, NULL);
    dl_val known = dl_tensor_cast(c->E, c->where, hit, w->dtype);
    const char *const *along = &w->axis[0].name;
    dl_val strange =
        sub(c, number(c, 1), dl_tensor_reduce(c->E, c->where, DL_OP_sum, known, 1, along));
    return add(c, dl_tensor_reduce(c->E, c->where, DL_OP_sum, only, 1, along), strange);
}

/* (1 - s) times the cross-entropy of the classes plus s times that of the uniform distribution,
 * weighted by the class. For class probabilities smoothing changes the probabilities themselves
 * (Szegedy et al. 2016). The mean divides by the sum of the weights. */
dl_val dl_fn_cross_entropy(dl_call *c) {
    dl_elab *E = c->E;
    dl_val y = c->arg[0], t = dl_tensor_pin(E, c->where, c->arg[1]), ignored = c->arg[4];
    dl_val weight = dl_tensor_pin(E, c->where, c->arg[2]);
    double s = dl_val_number(c->arg[3]);
    if (!dl_call_float(c, &y)) return dl_poison();
    y = dl_tensor_pin(E, c->where, y);
    bool shares = dl_dtype_is_float(t.t->type.dtype);
    if (!(s >= 0 && s <= 1))
        return dl_bad(E, c->arg[3].origin, DL_DIAG_bad_argument,
                      "cross_entropy: 'label_smoothing' is a share from 0 to 1, not %g", s);
    if (ignored.kind != DL_V_NONE && (shares || ignored.kind != DL_V_INT))
        return dl_bad(E, ignored.origin, DL_DIAG_bad_argument,
                      "cross_entropy: 'ignore_index' is a class number%s",
                      shares ? ", and these are shares of the classes" : "");
    const char *axis = class_axis(c, y, t, shares);
    if (!axis) return dl_poison();
    dl_doubt_one_class(E, c->where, c->what->name, &y.t->type, dl_type_axis(&y.t->type, axis));
    dl_doubt_scores(E, c->where, c->what->name, c->arg[0], DL_OP_softmax);
    double each = s / (double)y.t->type.axis[dl_type_axis(&y.t->type, axis)].size;
    dl_val of = weight.kind == DL_V_NONE && s == 0 ? none() : class_weights(c, y, axis, weight);
    if (of.kind == DL_V_POISON) return of;
    if (shares) {
        t = dl_tensor_cast(E, c->where, t, y.t->type.dtype);
        if (s > 0) t = add(c, mul(c, t, number(c, 1 - s)), number(c, each));
        if (weight.kind != DL_V_NONE) t = mul(c, t, of);
        return finish(c, 5, entropy(c, y, t, axis), none());
    }
    dl_val losses = entropy(c, y, t, axis), rows = none();
    if (losses.kind != DL_V_TENSOR) return losses;
    if (weight.kind != DL_V_NONE) losses = mul(c, losses, rows = weight_of_class(c, of, t));
    if (s > 0) {
        dl_val spread = mul(c, entropy(c, y, of, axis), number(c, each));
        losses = add(c, mul(c, losses, number(c, 1 - s)), spread);
    }
    if (ignored.kind != DL_V_NONE) {
        dl_val valid = op2(c, DL_OP_ne, t, ignored), zero = number(c, 0);
        /* in the axis order of the scores */
        valid = dl_tensor_ordered(E, c->where, valid, &losses.t->type);
        rows = rows.kind == DL_V_NONE ? dl_tensor_cast(E, c->where, valid, y.t->type.dtype)
                                      : dl_tensor_elem(E, c->where, DL_OP_select, 3,
                                                       (dl_val[]){valid, rows, zero}, 0, NULL);
        losses =
            dl_tensor_elem(E, c->where, DL_OP_select, 3, (dl_val[]){valid, losses, zero}, 0, NULL);
    }
    return finish(c, 5, losses, rows);
}
