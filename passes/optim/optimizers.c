/* The update rules of one parameter: rows of ir/base/optimizers.def. The order of operations is
 * that of torch.optim, so that results can be compared bit by bit. */
#include "passes/optim/rules.h"

/* The next value that is stored: the old one where the step is skipped. Axes without a name take
 * no part in arithmetic, and are restored at the end. */
static dl_value *guard_by_scale(dl_optimization *o, dl_value *old, dl_value *next) {
    if (o->sound) next = dl_build3(o->b, DL_OP_select, o->sound, next, old);
    return dl_build_broadcast(o->b, next, old->type);
}

void dl_rule_update(dl_optimization *o, dl_var *var, dl_value *next) {
    dl_graph_result(o->b->graph, DL_RESULT_UPDATE, var->name, guard_by_scale(o, &var->value, next),
                    var);
}

void dl_rule_update_param(dl_optimization *o, dl_trained *t, dl_value *next) {
    t->next = guard_by_scale(o, t->own, next);
    t->whole = dl_o_whole(o, t, t->next);
    dl_graph_result(o->b->graph, DL_RESULT_UPDATE, t->var->name, t->whole, t->var);
}

/* A shared number, cast to the parameter's element type. */
dl_value *dl_rule_as(dl_optimization *o, dl_value *scalar, const dl_trained *t) {
    return dl_build_cast(o->b, scalar, t->own->type.dtype);
}

dl_value *dl_rule_of_group(dl_optimization *o, const dl_trained *t, const char *what,
                           double fallback) {
    return dl_optimizer_hyper(o, dl_internf("group.%d.%s", t->number, what), fallback);
}

dl_value *dl_rule_decay(dl_optimization *o, const dl_trained *t) {
    if (t->group && t->group->decay) return dl_rule_of_group(o, t, "weight_decay", 0);
    return dl_optimizer_hyper(o, "weight_decay", 0);
}

/* An option whose default differs between optimisers. */
dl_value *dl_rule_own(dl_optimization *o, const char *name, dl_optimizer_option option) {
    return dl_optimizer_hyper(o, name,
                              dl_optimizer_own(o->step_options->optimizer, option, DL_OF_TORCH));
}

dl_value *dl_rule_beta1(dl_optimization *o) { return dl_optimizer_hyper(o, "beta1", 0.9); }
dl_value *dl_rule_beta2(dl_optimization *o) {
    bool lion = o->step_options->optimizer == DL_OPT_lion;
    return dl_optimizer_hyper(o, "beta2", lion ? 0.99 : 0.999);
}
static dl_value *eps(dl_optimization *o, const dl_trained *t) {
    return dl_rule_as(o, dl_rule_own(o, "eps", DL_OPTION_eps), t);
}

static dl_value *neg(dl_optimization *o, dl_value *x) { return dl_build1(o->b, DL_OP_neg, x); }
dl_value *dl_rule_root(dl_optimization *o, dl_value *x) { return dl_build1(o->b, DL_OP_sqrt, x); }
dl_value *dl_rule_square(dl_optimization *o, dl_value *x) { return dl_o_mul(o, x, x); }
dl_value *dl_rule_rest(dl_optimization *o, dl_value *share) {
    return dl_o_sub(o, dl_o_k(o, 1), share);
}

/* The gradient; where the parameter decays, plus L2: grad + decay p, the gradient of decay / 2
 * |p|^2 that is added to the loss. */
dl_value *dl_rule_gradient(dl_optimization *o, const dl_trained *t, bool decays) {
    return decays ? dl_o_add(o, t->grad, dl_o_mul(o, t->own, dl_rule_as(o, dl_rule_decay(o, t), t)))
                  : t->grad;
}

/* keep old + (1 - keep) fresh */
dl_value *dl_rule_average(dl_optimization *o, const dl_trained *t, dl_value *keep, dl_value *old,
                          dl_value *fresh) {
    dl_value *take = dl_o_mul(o, fresh, dl_rule_as(o, dl_rule_rest(o, keep), t));
    return dl_o_add(o, dl_o_mul(o, old, dl_rule_as(o, keep, t)), take);
}

/* The next value of an average that is kept under this name. */
dl_value *dl_rule_kept_average(dl_optimization *o, const dl_trained *t, const char *what,
                               dl_value *keep, dl_value *fresh) {
    dl_var *old = dl_optimizer_state(o, what, t, 0);
    dl_value *next = dl_rule_average(o, t, keep, &old->value, fresh);
    dl_rule_update(o, old, next);
    return next;
}

/* from - pace along / by */
static dl_value *move(dl_optimization *o, const dl_trained *t, dl_value *from, dl_value *pace,
                      dl_value *along, dl_value *by) {
    along = dl_o_mul(o, along, dl_rule_as(o, neg(o, pace), t));
    return dl_o_add(o, from, dl_o_div(o, along, by));
}

/* sqrt(v) + eps */
static dl_value *above_eps(dl_optimization *o, const dl_trained *t, dl_value *v) {
    dl_value *spread = dl_rule_root(o, v);
    return dl_o_add(o, spread, eps(o, t));
}

/* ---- Adam and its kin: m is a mean of gradients g, v one of their squares ---- */

/* 1 - beta^taken: the bias of an average that started at 0 (bias correction). */
dl_value *dl_rule_filled(dl_optimization *o, dl_value *beta) {
    return dl_rule_rest(o, dl_build2(o->b, DL_OP_pow, beta, o->taken));
}

/* With amsgrad the largest v so far (Reddi et al. 2018), else v. */
static dl_value *largest(dl_optimization *o, const dl_trained *t, dl_value *v) {
    if (!o->step_options->amsgrad || o->step_options->optimizer == DL_OPT_muon) return v;
    dl_var *most = dl_optimizer_state(o, "max_exp_avg_sq", t, 0);
    dl_value *next = dl_build2(o->b, DL_OP_max, &most->value, v);
    dl_rule_update(o, most, next);
    return next;
}

/* m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g g, p <- p - (rate / c1) m / (sqrt(v) / sqrt(c2) +
 * eps), with c1 = 1 - b1^taken and c2 = 1 - b2^taken (Kingma and Ba 2015). `from`: the value that
 * the move is subtracted from. */
static void build_adam(dl_optimization *o, dl_trained *t, dl_value *grad, dl_value *from) {
    dl_value *b1 = dl_rule_beta1(o), *b2 = dl_rule_beta2(o);
    dl_value *c1 = dl_rule_filled(o, b1), *c2 = dl_rule_filled(o, b2);
    dl_value *pace = neg(o, dl_o_div(o, o->rate, c1));
    dl_value *shared = dl_rule_root(o, c2), *unbias = dl_o_div(o, dl_o_k(o, 1), shared);
    dl_var *m = dl_optimizer_state(o, "exp_avg", t, 0),
           *v = dl_optimizer_state(o, "exp_avg_sq", t, 0);
    dl_value *m1 = dl_rule_average(o, t, b1, &m->value, grad);
    dl_value *v1 = dl_rule_average(o, t, b2, &v->value, dl_rule_square(o, grad));
    dl_value *spread = dl_rule_as(o, unbias, t);
    spread = dl_o_mul(o, dl_rule_root(o, largest(o, t, v1)), spread);
    dl_value *floor = dl_o_add(o, spread, eps(o, t));
    dl_rule_update_param(
        o, t, dl_o_add(o, from, dl_o_div(o, dl_o_mul(o, m1, dl_rule_as(o, pace, t)), floor)));
    dl_rule_update(o, m, m1);
    dl_rule_update(o, v, v1);
}

void dl_optimize_adam(dl_optimization *o, dl_trained *t, bool decays) {
    build_adam(o, t, dl_rule_gradient(o, t, decays), t->own);
}

/* Decoupled decay: p (1 - rate decay) where the parameter decays (Loshchilov and Hutter 2019). */
dl_value *dl_rule_shrunk(dl_optimization *o, const dl_trained *t, bool decays) {
    if (!decays) return t->own;
    dl_value *shrink = dl_rule_rest(o, dl_o_mul(o, o->rate, dl_rule_decay(o, t)));
    return dl_o_mul(o, t->own, dl_rule_as(o, shrink, t));
}

void dl_optimize_adamw(dl_optimization *o, dl_trained *t, bool decays) {
    build_adam(o, t, t->grad, dl_rule_shrunk(o, t, decays));
}

/* p <- p (1 - rate decay) - rate sign(b1 m + (1 - b1) g), m <- b2 m + (1 - b2) g (Chen et al.
 * 2023) */
void dl_optimize_lion(dl_optimization *o, dl_trained *t, bool decays) {
    dl_var *m = dl_optimizer_state(o, "exp_avg", t, 0);
    dl_value *along = dl_rule_average(o, t, dl_rule_beta1(o), &m->value, t->grad);
    along = dl_build1(o->b, DL_OP_sign, along);
    dl_value *from = dl_rule_shrunk(o, t, decays);
    dl_rule_update(o, m, dl_rule_average(o, t, dl_rule_beta2(o), &m->value, t->grad));
    dl_rule_update_param(o, t, dl_o_sub(o, from, dl_o_mul(o, along, dl_rule_as(o, o->rate, t))));
}

/* u <- max(b2 u, |g| + eps),  p <- p - (rate / c1) m / u (Kingma and Ba 2015, section 7.1) */
void dl_optimize_adamax(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = dl_rule_gradient(o, t, decays), *b1 = dl_rule_beta1(o), *b2 = dl_rule_beta2(o);
    dl_value *pace = dl_o_div(o, o->rate, dl_rule_filled(o, b1));
    dl_value *m = dl_rule_kept_average(o, t, "exp_avg", b1, grad);
    dl_var *u = dl_optimizer_state(o, "exp_inf", t, 0);
    dl_value *size = dl_build1(o->b, DL_OP_abs, grad),
             *faded = dl_o_mul(o, &u->value, dl_rule_as(o, b2, t));
    dl_value *next = dl_build2(o->b, DL_OP_max, faded, dl_o_add(o, size, eps(o, t)));
    dl_rule_update(o, u, next);
    dl_rule_update_param(o, t, move(o, t, t->own, pace, m, next));
}

/* b1 (1 - 0.96^(step decay) / 2), which rises to b1 */
static dl_value *momentum_of(dl_optimization *o, dl_value *step) {
    dl_value *b1 = dl_rule_beta1(o), *decay = dl_optimizer_hyper(o, "momentum_decay", 0.004);
    dl_value *power = dl_o_mul(o, step, decay), *base = dl_o_k(o, 0.96);
    dl_value *lacks = dl_build_k(o->b, DL_OP_mul, dl_build2(o->b, DL_OP_pow, base, power), 0.5);
    return dl_o_mul(o, b1, dl_rule_rest(o, lacks));
}

/* sqrt(v / c2) + eps */
dl_value *dl_rule_unbiased(dl_optimization *o, const dl_trained *t, dl_value *v, dl_value *b2) {
    dl_value *c2 = dl_rule_as(o, dl_rule_filled(o, b2), t);
    return above_eps(o, t, dl_o_div(o, v, c2));
}

/* p <- p - rate ((1 - u_i) g / (1 - u_1 ... u_i) + u_i+1 m / (1 - u_1 ... u_i+1)) / (sqrt(v / c2)
 * + eps) with the momentum u_i of step i (Dozat 2016). PyTorch 1.13 has u_i twice in the longer
 * product when foreach=None; later versions and foreach=True compute this formula. */
void dl_optimize_nadam(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = dl_rule_gradient(o, t, decays), *b1 = dl_rule_beta1(o), *b2 = dl_rule_beta2(o);
    dl_value *now = momentum_of(o, o->taken);
    dl_value *next = momentum_of(o, dl_build_k(o->b, DL_OP_add, o->taken, 1));
    dl_var *past = dl_graph_find_var(o->b->graph, dl_optimizer_own_name(o, "mu_product"));
    if (!past) { /* one variable for all parameters, created with the first */
        past = dl_optimizer_scalar(o, "mu_product", 1);
        dl_rule_update(o, past, dl_o_mul(o, &past->value, now));
    }
    dl_value *product = dl_o_mul(o, &past->value, now), *longer = dl_o_mul(o, product, next);
    dl_value *of_grad = dl_o_mul(o, o->rate, dl_rule_rest(o, now)),
             *of_mean = dl_o_mul(o, o->rate, next);
    of_grad = dl_o_div(o, of_grad, dl_rule_rest(o, product));
    of_mean = dl_o_div(o, of_mean, dl_rule_rest(o, longer));
    dl_value *m = dl_rule_kept_average(o, t, "exp_avg", b1, grad);
    dl_value *v = dl_rule_kept_average(o, t, "exp_avg_sq", b2, dl_rule_square(o, grad)),
             *spread = dl_rule_unbiased(o, t, v, b2);
    dl_value *half = move(o, t, t->own, of_grad, grad, spread);
    dl_rule_update_param(o, t, move(o, t, half, of_mean, m, spread));
}

/* The rectification for n of at most w averaged squares: r^2 = (n - 4) (n - 2) w / ((w - 4) (w -
 * 2) n). Both are clamped to 5 from below: under 5, r is not used and may be no number. */
static dl_value *rectified(dl_optimization *o, dl_value *n, dl_value *w) {
    dl_value *both[] = {n, w};
    for (int i = 0; i < 2; i++) {
        dl_value *x = dl_build_k(o->b, DL_OP_max, both[i], 5),
                 *less = dl_build_k(o->b, DL_OP_sub, x, 4);
        dl_value *above = dl_o_mul(o, less, dl_build_k(o->b, DL_OP_sub, x, 2));
        both[i] = dl_o_div(o, above, x);
    }
    return dl_rule_root(o, dl_o_div(o, both[0], both[1]));
}

/* p <- p - (rate / c1) m where at most 5 squares are averaged, else p <- p - (rate / c1) r
 * sqrt(c2) m / (sqrt(v) + eps) (Liu et al. 2020) */
void dl_optimize_radam(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = dl_rule_gradient(o, t, decays), *b1 = dl_rule_beta1(o), *b2 = dl_rule_beta2(o);
    dl_value *two = dl_o_k(o, 2), *c1 = dl_rule_filled(o, b1), *c2 = dl_rule_filled(o, b2);
    dl_value *w = dl_build_k(o->b, DL_OP_sub, dl_o_div(o, two, dl_rule_rest(o, b2)), 1);
    dl_value *faded = dl_build2(o->b, DL_OP_pow, b2, o->taken), *twice = dl_o_mul(o, two, o->taken);
    dl_value *n = dl_o_sub(o, w, dl_o_div(o, dl_o_mul(o, twice, faded), c2));
    dl_value *enough = dl_build_k(o->b, DL_OP_gt, n, 5);
    dl_value *pace = neg(o, dl_o_div(o, o->rate, c1)),
             *scale = dl_o_mul(o, pace, rectified(o, n, w));
    scale = dl_o_mul(o, scale, dl_rule_root(o, c2));
    dl_value *m = dl_rule_kept_average(o, t, "exp_avg", b1, grad);
    dl_value *v = dl_rule_kept_average(o, t, "exp_avg_sq", b2, dl_rule_square(o, grad)),
             *spread = above_eps(o, t, v);
    dl_value *by = dl_o_div(o, dl_rule_as(o, scale, t), spread);
    by = dl_build3(o->b, DL_OP_select, enough, by, dl_rule_as(o, pace, t));
    dl_rule_update_param(o, t, dl_o_add(o, t->own, dl_o_mul(o, m, by)));
}

/* ---- descent along the gradient, or along a function of it ---- */

/* b <- momentum b + (1 - dampening) x, at first x, which replaces x as the direction; x where there
 * is no momentum. */
dl_value *dl_rule_with_momentum(dl_optimization *o, const dl_trained *t, dl_value *x, bool ahead) {
    if (!o->step_options->momentum) return x;
    dl_value *momentum = dl_rule_as(o, dl_optimizer_hyper(o, "momentum", 0.9), t);
    dl_var *buffer = dl_optimizer_state(o, "momentum_buffer", t, 0);
    dl_value *next = dl_o_mul(o, &buffer->value, momentum);
    if (o->step_options->dampens && o->step_options->optimizer == DL_OPT_sgd) {
        dl_value *share = dl_rule_as(o, dl_rule_rest(o, dl_optimizer_hyper(o, "dampening", 0)), t);
        dl_value *first = dl_build_k(o->b, DL_OP_le, o->taken, 1);
        next = dl_build3(o->b, DL_OP_select, first, x, dl_o_add(o, next, dl_o_mul(o, x, share)));
    } else {
        next = dl_o_add(o, next, x);
    }
    dl_rule_update(o, buffer, next);
    return ahead ? dl_o_add(o, x, dl_o_mul(o, next, momentum)) : next;
}

/* p <- p - rate x */
void dl_rule_descend(dl_optimization *o, dl_trained *t, dl_value *rate, dl_value *x) {
    dl_rule_update_param(o, t, dl_o_sub(o, t->own, dl_o_mul(o, x, dl_rule_as(o, rate, t))));
}

/* b <- momentum b + g; p <- p - rate b, or with Nesterov momentum p - rate (g + momentum b). */
void dl_optimize_sgd(dl_optimization *o, dl_trained *t, bool decays) {
    dl_rule_descend(
        o, t, o->rate,
        dl_rule_with_momentum(o, t, dl_rule_gradient(o, t, decays), o->step_options->nesterov));
}

/* v <- alpha v + (1 - alpha) g g, b <- momentum b + g / (sqrt(v) + eps), p <- p - rate b (Tieleman
 * and Hinton 2012). Centered: v minus the squared mean gradient (Graves 2013), clamped at 0
 * because of rounding. */
void dl_optimize_rmsprop(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = dl_rule_gradient(o, t, decays),
             *alpha = dl_rule_own(o, "alpha", DL_OPTION_alpha);
    dl_value *v = dl_rule_kept_average(o, t, "square_avg", alpha, dl_rule_square(o, grad));
    if (o->step_options->centered) {
        dl_value *mean = dl_rule_kept_average(o, t, "grad_avg", alpha, grad);
        v = dl_build_k(o->b, DL_OP_max, dl_o_sub(o, v, dl_rule_square(o, mean)), 0);
    }
    dl_value *x = dl_o_div(o, grad, above_eps(o, t, v));
    dl_rule_descend(o, t, o->rate, dl_rule_with_momentum(o, t, x, false));
}

/* v <- v + g g,  p <- p - rate / (1 + (taken - 1) lr_decay) g / (sqrt(v) + eps) (Duchi et al. 2011)
 */
void dl_optimize_adagrad(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = dl_rule_gradient(o, t, decays),
             *before = dl_build_k(o->b, DL_OP_sub, o->taken, 1);
    dl_value *slower = dl_o_mul(o, before, dl_optimizer_hyper(o, "lr_decay", 0));
    dl_value *rate = dl_o_div(o, o->rate, dl_build_k(o->b, DL_OP_add, slower, 1));
    dl_var *sum = dl_optimizer_state(o, "sum", t, o->step_options->accumulator);
    dl_value *v = dl_o_add(o, &sum->value, dl_rule_square(o, grad));
    dl_rule_update(o, sum, v);
    dl_rule_descend(o, t, rate, dl_o_div(o, grad, above_eps(o, t, v)));
}

/* v <- rho v + (1 - rho) g g,  d = g sqrt(s + eps) / sqrt(v + eps),  s <- rho s + (1 - rho) d d,
 * p <- p - rate d (Zeiler 2012) */
void dl_optimize_adadelta(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = dl_rule_gradient(o, t, decays), *rho = dl_rule_own(o, "rho", DL_OPTION_rho),
             *least = eps(o, t);
    dl_value *v = dl_rule_kept_average(o, t, "square_avg", rho, dl_rule_square(o, grad));
    dl_var *steps = dl_optimizer_state(o, "acc_delta", t, 0);
    dl_value *size = dl_rule_root(o, dl_o_add(o, &steps->value, least));
    dl_value *delta = dl_o_mul(o, dl_o_div(o, size, dl_rule_root(o, dl_o_add(o, v, least))), grad);
    dl_rule_update(o, steps, dl_rule_average(o, t, rho, &steps->value, dl_rule_square(o, delta)));
    dl_rule_descend(o, t, o->rate, delta);
}

/* Steps of each element: a step grows by etaplus while the gradient keeps its sign, and shrinks by
 * etaminus where the sign changes, in which case the element stays (Riedmiller and Braun 1993). */
void dl_optimize_rprop(dl_optimization *o, dl_trained *t, bool decays) {
    (void)decays; /* torch.optim's has no weight decay */
    dl_var *prev = dl_optimizer_state(o, "prev", t, 0),
           *size = dl_optimizer_state(o, "step_size", t, 0);
    dl_value *less = dl_rule_as(o, dl_optimizer_hyper(o, "etaminus", 0.5), t),
             *more = dl_rule_as(o, dl_optimizer_hyper(o, "etaplus", 1.2), t);
    dl_value *sign = dl_build1(o->b, DL_OP_sign, dl_o_mul(o, t->grad, &prev->value));
    dl_value *same = dl_build_k(o->b, DL_OP_gt, sign, 0),
             *turned = dl_build_k(o->b, DL_OP_lt, sign, 0);
    dl_value *one = dl_build_const(o->b, t->own->type.dtype, 1);
    dl_value *by =
        dl_build3(o->b, DL_OP_select, turned, less, dl_build3(o->b, DL_OP_select, same, more, one));
    dl_value *first = dl_build_k(o->b, DL_OP_le, o->taken, 1);
    dl_value *step = dl_build3(o->b, DL_OP_select, first, dl_rule_as(o, o->rate, t), &size->value);
    step = dl_build2(o->b, DL_OP_max, dl_o_mul(o, step, by),
                     dl_rule_as(o, dl_optimizer_hyper(o, "step_min", 1e-6), t));
    step =
        dl_build2(o->b, DL_OP_min, step, dl_rule_as(o, dl_optimizer_hyper(o, "step_max", 50), t));
    dl_value *zero = dl_build_const(o->b, t->own->type.dtype, 0);
    dl_value *grad = dl_build3(o->b, DL_OP_select, turned, zero, t->grad);
    dl_rule_update(o, size, step);
    dl_rule_update(o, prev, grad);
    dl_rule_update_param(o, t,
                         dl_o_sub(o, t->own, dl_o_mul(o, dl_build1(o->b, DL_OP_sign, grad), step)));
}

/* eta = rate / (1 + lambd rate (taken - 1))^alpha, p <- p (1 - lambd eta) - eta g, ax <- ax + mu (p
 * - ax) with mu = 1 / max(1, taken - 1 - t0) (Polyak and Juditsky 1992) */
void dl_optimize_asgd(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = dl_rule_gradient(o, t, decays),
             *before = dl_build_k(o->b, DL_OP_sub, o->taken, 1);
    dl_value *lambd = dl_optimizer_hyper(o, "lambd", 1e-4);
    dl_value *slower = dl_o_mul(o, dl_o_mul(o, lambd, o->rate), before);
    slower = dl_build2(o->b, DL_OP_pow, dl_build_k(o->b, DL_OP_add, slower, 1),
                       dl_rule_own(o, "alpha", DL_OPTION_alpha));
    dl_value *eta = dl_o_div(o, o->rate, slower);
    dl_value *since = dl_o_sub(o, before, dl_optimizer_hyper(o, "t0", 1e6));
    dl_value *mu = dl_o_div(o, dl_o_k(o, 1), dl_build_k(o->b, DL_OP_max, since, 1));
    dl_value *from =
        dl_o_mul(o, t->own, dl_rule_as(o, dl_rule_rest(o, dl_o_mul(o, lambd, eta)), t));
    dl_value *next = dl_o_sub(o, from, dl_o_mul(o, grad, dl_rule_as(o, eta, t)));
    dl_var *mean = dl_optimizer_state(o, "ax", t, 0);
    dl_value *way = dl_o_mul(o, dl_o_sub(o, next, &mean->value), dl_rule_as(o, mu, t));
    dl_rule_update(o, mean, dl_o_add(o, &mean->value, way));
    dl_rule_update_param(o, t, next);
}
