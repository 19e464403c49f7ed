/* Update rules by norms of a whole parameter, and by products: rows of ir/base/optimizers.def. */
#include <math.h>

#include "passes/optim/rules.h"

/* The Euclidean norm of a tensor of the parameter's type, in f64, over all its shards. */
static dl_value *norm_of(dl_optimization *o, const dl_trained *t, dl_value *x) {
    dl_value *wide = dl_build_cast(o->b, x, DL_F64);
    dl_o_total total = {0};
    dl_o_total_add(o, &total, t,
                   dl_build_reduce(o->b, DL_OP_sum, dl_rule_square(o, wide), 0, NULL));
    return dl_rule_root(o, dl_o_total_sum(o, &total, "a norm"));
}

/* x / y, or 1 where either is 0. */
static dl_value *ratio_or_1(dl_optimization *o, dl_value *x, dl_value *y) {
    dl_value *both = dl_build2(o->b, DL_OP_and, dl_build_k(o->b, DL_OP_gt, x, 0),
                               dl_build_k(o->b, DL_OP_gt, y, 0));
    return dl_build3(o->b, DL_OP_select, both, dl_o_div(o, x, y), dl_o_k(o, 1));
}

/* r = (m / c1) / (sqrt(v / c2) + eps) + decay p, p <- p - rate |p| / |r| r (You et al. 2020) */
void dl_optimize_lamb(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *b1 = dl_rule_beta1(o), *b2 = dl_rule_beta2(o);
    dl_value *m = dl_rule_kept_average(o, t, "exp_avg", b1, t->grad);
    dl_value *v = dl_rule_kept_average(o, t, "exp_avg_sq", b2, dl_rule_square(o, t->grad));
    dl_value *step = dl_o_div(o, dl_o_div(o, m, dl_rule_as(o, dl_rule_filled(o, b1), t)),
                              dl_rule_unbiased(o, t, v, b2));
    if (decays)
        step = dl_o_add(o, step, dl_o_mul(o, t->own, dl_rule_as(o, dl_rule_decay(o, t), t)));
    dl_value *trust = ratio_or_1(o, norm_of(o, t, t->own), norm_of(o, t, step));
    dl_rule_descend(o, t, dl_o_mul(o, o->rate, trust), step);
}

/* x = (g + decay p) trust |p| / (|g| + decay |p| + eps), b <- momentum b + x, p <- p - rate b (You
 * et al. 2017). Parameters of one axis take sgd's step. */
void dl_optimize_lars(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *x = dl_rule_gradient(o, t, decays);
    if (t->var->value.type.rank > 1) {
        dl_value *size = norm_of(o, t, t->own), *slope = norm_of(o, t, t->grad);
        dl_value *by = decays ? dl_o_add(o, slope, dl_o_mul(o, dl_rule_decay(o, t), size)) : slope;
        by = dl_o_add(o, by, dl_rule_own(o, "eps", DL_OPTION_eps));
        dl_value *trust = dl_o_mul(o, dl_optimizer_hyper(o, "trust", 0.001), size);
        dl_value *both = dl_build2(o->b, DL_OP_and, dl_build_k(o->b, DL_OP_gt, size, 0),
                                   dl_build_k(o->b, DL_OP_gt, slope, 0));
        trust = dl_build3(o->b, DL_OP_select, both, dl_o_div(o, trust, by), dl_o_k(o, 1));
        x = dl_o_mul(o, x, dl_rule_as(o, trust, t));
    }
    dl_rule_descend(o, t, o->rate, dl_rule_with_momentum(o, t, x, o->step_options->nesterov));
}

/* False, with an error, where the parameter is in shards. */
static bool is_whole(const dl_optimization *o, const dl_trained *t) {
    if (!t->share.n && !t->var->piece.n) return true;
    return dl_fail(
        o->err, DL_USAGE,
        "%s needs '%.200s' as a whole, of which ranks hold shards: train it without zero "
        "and tensor_parallel",
        dl_optimizers[o->step_options->optimizer].name, t->var->name);
}

/* old + share (mean of squares over an axis - old), which is kept. */
static dl_value *mean_square(dl_optimization *o, const dl_trained *t, const char *what, int over,
                             dl_value *share) {
    const char *axis = t->grad->type.axis[over].name;
    dl_value *fresh = dl_build_reduce(o->b, DL_OP_mean, dl_rule_square(o, t->grad), 1, &axis);
    dl_var *old = dl_optimizer_summary(o, what, t, fresh->type);
    dl_value *way = dl_o_mul(o, dl_o_sub(o, fresh, &old->value), dl_rule_as(o, share, t));
    dl_value *next = dl_o_add(o, &old->value, way);
    dl_rule_update(o, old, next);
    return next;
}

/* The mean square of each element: of an outer product of its rows' and columns' means, or, of one
 * axis, as it is kept. */
static dl_value *mean_squares(dl_optimization *o, const dl_trained *t, dl_value *share,
                              dl_value *least) {
    int rank = t->grad->type.rank;
    if (rank < 2 || !is_whole(o, t))
        return dl_rule_kept_average(o, t, "variance", dl_rule_rest(o, share),
                                    dl_rule_square(o, t->grad));
    dl_value *rows = mean_square(o, t, "row_var", rank - 1, share),
             *columns = mean_square(o, t, "col_var", rank - 2, share);
    const char *axis = t->grad->type.axis[rank - 2].name;
    dl_value *all = dl_build_reduce(o->b, DL_OP_mean, rows, 1, &axis);
    all = dl_build2(o->b, DL_OP_max, all, dl_rule_as(o, least, t));
    return dl_o_mul(o, dl_o_div(o, rows, all), columns);
}

/* u = g / sqrt(v), p <- p (1 - rate decay) - max(eps2, rms(p)) min(rate, taken^-1/2) u / max(1,
 * rms(u) / d), where the means v take the share taken^beta2_decay of new squares (Shazeer and Stern
 * 2018) */
void dl_optimize_adafactor(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *least = dl_rule_own(o, "eps", DL_OPTION_eps);
    dl_value *count = dl_o_k(o, sqrt((double)dl_type_count(&t->var->value.type)));
    dl_value *share =
        dl_build2(o->b, DL_OP_pow, o->taken, dl_optimizer_hyper(o, "beta2_decay", -0.8));
    dl_value *v = mean_squares(o, t, share, least);
    v = dl_build2(o->b, DL_OP_max, v, dl_rule_as(o, dl_rule_square(o, least), t));
    dl_value *step = dl_o_div(o, t->grad, dl_rule_root(o, v));
    dl_value *size = dl_o_div(o, norm_of(o, t, t->own), count),
             *length = dl_o_div(o, norm_of(o, t, step), count);
    size = dl_build2(o->b, DL_OP_max, size, dl_optimizer_hyper(o, "eps_step", 1e-3));
    length = dl_o_div(o, length, dl_optimizer_hyper(o, "d", 1));
    dl_value *pace = dl_o_div(o, dl_o_k(o, 1), dl_rule_root(o, o->taken));
    pace = dl_o_mul(o, size, dl_build2(o->b, DL_OP_min, o->rate, pace));
    pace = dl_o_div(o, pace, dl_build_k(o->b, DL_OP_max, length, 1));
    dl_value *from = dl_rule_shrunk(o, t, decays);
    dl_rule_update_param(o, t, dl_o_sub(o, from, dl_o_mul(o, step, dl_rule_as(o, pace, t))));
}

/* x with another name for one of its axes. */
static dl_value *renamed(dl_optimization *o, dl_value *x, int axis, const char *name) {
    dl_type type = x->type;
    type.axis[axis].name = name;
    return dl_build_as(o->b, DL_OP_rename, 1, &x, 0, NULL, type);
}

static dl_value *product(dl_optimization *o, dl_value *x, dl_value *y, const char *over) {
    dl_value *in[] = {x, y};
    dl_attr attr = dl_attr_names(DL_ATTR_over, 1, &over);
    return dl_build(o->b, DL_OP_contract, 2, in, 1, &attr);
}

/* The nearest matrix with orthogonal rows or columns, approximately: five times x <- a x + (b y + c
 * y y) x with y = x x^T over the shorter axis (Jordan et al. 2024, coefficients of Muon). */
static dl_value *orthogonal(dl_optimization *o, const dl_trained *t, dl_value *x) {
    enum { TIMES = 5 };
    int shorter = x->type.axis[0].size > x->type.axis[1].size;
    const char *axis = x->type.axis[shorter].name, *longer = x->type.axis[!shorter].name;
    const char *other = dl_type_fresh(&x->type, "other");
    dl_value *size = dl_build_k(o->b, DL_OP_max, norm_of(o, t, x), 1e-7);
    x = dl_o_div(o, x, dl_rule_as(o, size, t));
    for (int i = 0; i < TIMES; i++) {
        dl_value *turned = renamed(o, x, shorter, other); /* x by another name, for products */
        dl_value *gram = product(o, x, turned, longer);   /* [axis, other] */
        dl_value *next = renamed(o, gram, 0, dl_intern("third"));
        next = renamed(o, next, 1, axis);                 /* [third, axis], which is symmetric */
        dl_value *squared = product(o, next, gram, axis); /* [third, other] */
        squared = renamed(o, squared, 0, axis);
        dl_value *both = dl_o_add(o, dl_build_k(o->b, DL_OP_mul, gram, -4.775),
                                  dl_build_k(o->b, DL_OP_mul, squared, 2.0315));
        dl_value *moved = product(o, both, turned, other); /* [axis, longer] */
        x = dl_o_add(o, dl_build_k(o->b, DL_OP_mul, x, 3.4445), moved);
    }
    return x;
}

/* b <- b + (1 - momentum) (g - b), u = b, or Nesterov's g + momentum (b - g), made orthogonal, p <-
 * p (1 - rate decay) - 0.2 sqrt(longer axis) rate u: as long as adamw's step, which parameters of
 * one axis or more than two take (Jordan et al. 2024; Liu et al. 2025). */
void dl_optimize_muon(dl_optimization *o, dl_trained *t, bool decays) {
    const dl_type *type = &t->grad->type;
    if (t->var->value.type.rank != 2 || type->rank != 2 || !is_whole(o, t)) {
        dl_optimize_adamw(o, t, decays);
        return;
    }
    dl_value *momentum = dl_optimizer_hyper(o, "momentum", 0.95);
    dl_value *u = dl_rule_kept_average(o, t, "momentum_buffer", momentum, t->grad);
    if (o->step_options->nesterov) u = dl_rule_average(o, t, momentum, u, t->grad);
    int64_t rows = type->axis[0].size, columns = type->axis[1].size;
    double by = 0.2 * sqrt((double)(rows > columns ? rows : columns));
    dl_value *pace = dl_build_k(o->b, DL_OP_mul, o->rate, by), *from = dl_rule_shrunk(o, t, decays);
    u = orthogonal(o, t, u);
    dl_rule_update_param(o, t, dl_o_sub(o, from, dl_o_mul(o, u, dl_rule_as(o, pace, t))));
}
