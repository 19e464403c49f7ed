/* The update rules of one parameter: rows of ir/base/optimizers.def. The order of operations is
 * that of torch.optim, so that results can be compared bit by bit. */
#include "passes/optim/optimizer.h"

/* The next value that is stored: the old one where the step is skipped. Axes without a name take
 * no part in arithmetic, and are restored at the end. */
static dl_value *guard_by_scale(dl_optimization *o, dl_value *old, dl_value *next) {
    if (o->sound) next = dl_build3(o->b, DL_OP_select, o->sound, next, old);
    if (dl_type_same(&next->type, &old->type)) return next;
    return dl_build_as(o->b, DL_OP_broadcast, 1, &next, 0, NULL, old->type);
}

static void update(dl_optimization *o, dl_var *var, dl_value *next) {
    dl_graph_result(o->b->graph, DL_RESULT_UPDATE, var->name, guard_by_scale(o, &var->value, next),
                    var);
}

static void update_param(dl_optimization *o, dl_trained *t, dl_value *next) {
    t->next = guard_by_scale(o, t->own, next);
    dl_graph_result(o->b->graph, DL_RESULT_UPDATE, t->var->name, dl_o_whole(o, t, t->next), t->var);
}

/* A shared number, cast to the parameter's element type. */
static dl_value *as(dl_optimization *o, dl_value *scalar, const dl_trained *t) {
    return dl_build_cast(o->b, scalar, t->own->type.dtype);
}

static dl_value *decay(dl_optimization *o) { return dl_optimizer_hyper(o, "weight_decay", 0); }

/* An option whose default differs between optimisers. */
static dl_value *own(dl_optimization *o, const char *name, dl_optimizer_option option) {
    return dl_optimizer_hyper(o, name,
                              dl_optimizer_own(o->step_options->optimizer, option, DL_OF_TORCH));
}

static dl_value *beta1(dl_optimization *o) { return dl_optimizer_hyper(o, "beta1", 0.9); }
static dl_value *beta2(dl_optimization *o) { return dl_optimizer_hyper(o, "beta2", 0.999); }
static dl_value *eps(dl_optimization *o, const dl_trained *t) {
    return as(o, own(o, "eps", DL_OPTION_eps), t);
}

static dl_value *neg(dl_optimization *o, dl_value *x) { return dl_build1(o->b, DL_OP_neg, x); }
static dl_value *root(dl_optimization *o, dl_value *x) { return dl_build1(o->b, DL_OP_sqrt, x); }
static dl_value *square(dl_optimization *o, dl_value *x) { return dl_o_mul(o, x, x); }
static dl_value *rest(dl_optimization *o, dl_value *share) {
    return dl_o_sub(o, dl_o_k(o, 1), share);
}

/* The gradient; where the parameter decays, plus L2: grad + decay p, the gradient of decay / 2
 * |p|^2 that is added to the loss. */
static dl_value *gradient(dl_optimization *o, const dl_trained *t, bool decays) {
    return decays ? dl_o_add(o, t->grad, dl_o_mul(o, t->own, as(o, decay(o), t))) : t->grad;
}

/* keep old + (1 - keep) fresh */
static dl_value *average(dl_optimization *o, const dl_trained *t, dl_value *keep, dl_value *old,
                         dl_value *fresh) {
    dl_value *take = dl_o_mul(o, fresh, as(o, rest(o, keep), t));
    return dl_o_add(o, dl_o_mul(o, old, as(o, keep, t)), take);
}

/* The next value of an average that is kept under this name. */
static dl_value *kept_average(dl_optimization *o, const dl_trained *t, const char *what,
                              dl_value *keep, dl_value *fresh) {
    dl_var *old = dl_optimizer_state(o, what, t, 0);
    dl_value *next = average(o, t, keep, &old->value, fresh);
    update(o, old, next);
    return next;
}

/* from - pace along / by */
static dl_value *move(dl_optimization *o, const dl_trained *t, dl_value *from, dl_value *pace,
                      dl_value *along, dl_value *by) {
    along = dl_o_mul(o, along, as(o, neg(o, pace), t));
    return dl_o_add(o, from, dl_o_div(o, along, by));
}

/* sqrt(v) + eps */
static dl_value *above_eps(dl_optimization *o, const dl_trained *t, dl_value *v) {
    dl_value *spread = root(o, v);
    return dl_o_add(o, spread, eps(o, t));
}

/* ---- Adam and its kin: m is a mean of gradients g, v one of their squares ---- */

/* 1 - beta^taken: the bias of an average that started at 0 (bias correction). */
static dl_value *filled(dl_optimization *o, dl_value *beta) {
    return rest(o, dl_build2(o->b, DL_OP_pow, beta, o->taken));
}

/* m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g g, p <- p - (rate / c1) m / (sqrt(v) / sqrt(c2) +
 * eps), with c1 = 1 - b1^taken and c2 = 1 - b2^taken (Kingma and Ba 2015). `from`: the value that
 * the move is subtracted from. */
static void build_adam(dl_optimization *o, dl_trained *t, dl_value *grad, dl_value *from) {
    dl_value *b1 = beta1(o), *b2 = beta2(o);
    dl_value *c1 = filled(o, b1), *c2 = filled(o, b2);
    dl_value *pace = neg(o, dl_o_div(o, o->rate, c1));
    dl_value *shared = root(o, c2), *unbias = dl_o_div(o, dl_o_k(o, 1), shared);
    dl_var *m = dl_optimizer_state(o, "exp_avg", t, 0),
           *v = dl_optimizer_state(o, "exp_avg_sq", t, 0);
    dl_value *m1 = average(o, t, b1, &m->value, grad);
    dl_value *v1 = average(o, t, b2, &v->value, square(o, grad));
    dl_value *spread = as(o, unbias, t);
    spread = dl_o_mul(o, root(o, v1), spread);
    dl_value *floor = dl_o_add(o, spread, eps(o, t));
    update_param(o, t, dl_o_add(o, from, dl_o_div(o, dl_o_mul(o, m1, as(o, pace, t)), floor)));
    update(o, m, m1);
    update(o, v, v1);
}

void dl_optimize_adam(dl_optimization *o, dl_trained *t, bool decays) {
    build_adam(o, t, gradient(o, t, decays), t->own);
}

/* Decoupled decay: p <- p (1 - rate decay) first (Loshchilov and Hutter 2019). */
void dl_optimize_adamw(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *from = t->own;
    if (decays) {
        dl_value *shrink = rest(o, dl_o_mul(o, o->rate, decay(o)));
        from = dl_o_mul(o, from, as(o, shrink, t));
    }
    build_adam(o, t, t->grad, from);
}

/* u <- max(b2 u, |g| + eps),  p <- p - (rate / c1) m / u (Kingma and Ba 2015, section 7.1) */
void dl_optimize_adamax(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = gradient(o, t, decays), *b1 = beta1(o), *b2 = beta2(o);
    dl_value *pace = dl_o_div(o, o->rate, filled(o, b1));
    dl_value *m = kept_average(o, t, "exp_avg", b1, grad);
    dl_var *u = dl_optimizer_state(o, "exp_inf", t, 0);
    dl_value *size = dl_build1(o->b, DL_OP_abs, grad),
             *faded = dl_o_mul(o, &u->value, as(o, b2, t));
    dl_value *next = dl_build2(o->b, DL_OP_max, faded, dl_o_add(o, size, eps(o, t)));
    update(o, u, next);
    update_param(o, t, move(o, t, t->own, pace, m, next));
}

/* b1 (1 - 0.96^(step decay) / 2), which rises to b1 */
static dl_value *momentum_of(dl_optimization *o, dl_value *step) {
    dl_value *b1 = beta1(o), *decay = dl_optimizer_hyper(o, "momentum_decay", 0.004);
    dl_value *power = dl_o_mul(o, step, decay), *base = dl_o_k(o, 0.96);
    dl_value *lacks = dl_build_k(o->b, DL_OP_mul, dl_build2(o->b, DL_OP_pow, base, power), 0.5);
    return dl_o_mul(o, b1, rest(o, lacks));
}

/* sqrt(v / c2) + eps */
static dl_value *unbiased(dl_optimization *o, const dl_trained *t, dl_value *v, dl_value *b2) {
    dl_value *c2 = as(o, filled(o, b2), t);
    return above_eps(o, t, dl_o_div(o, v, c2));
}

/* p <- p - rate ((1 - u_i) g / (1 - u_1 ... u_i) + u_i+1 m / (1 - u_1 ... u_i+1)) / (sqrt(v / c2)
 * + eps) with the momentum u_i of step i (Dozat 2016). PyTorch 1.13 has u_i twice in the longer
 * product when foreach=None; later versions and foreach=True compute this formula. */
void dl_optimize_nadam(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = gradient(o, t, decays), *b1 = beta1(o), *b2 = beta2(o);
    dl_value *now = momentum_of(o, o->taken);
    dl_value *next = momentum_of(o, dl_build_k(o->b, DL_OP_add, o->taken, 1));
    dl_var *past = dl_graph_find_var(o->b->graph, "optimizer.mu_product");
    if (!past) { /* one variable for all parameters, created with the first */
        past = dl_optimizer_scalar(o, "mu_product", 1);
        update(o, past, dl_o_mul(o, &past->value, now));
    }
    dl_value *product = dl_o_mul(o, &past->value, now), *longer = dl_o_mul(o, product, next);
    dl_value *of_grad = dl_o_mul(o, o->rate, rest(o, now)), *of_mean = dl_o_mul(o, o->rate, next);
    of_grad = dl_o_div(o, of_grad, rest(o, product));
    of_mean = dl_o_div(o, of_mean, rest(o, longer));
    dl_value *m = kept_average(o, t, "exp_avg", b1, grad);
    dl_value *v = kept_average(o, t, "exp_avg_sq", b2, square(o, grad)),
             *spread = unbiased(o, t, v, b2);
    dl_value *half = move(o, t, t->own, of_grad, grad, spread);
    update_param(o, t, move(o, t, half, of_mean, m, spread));
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
    return root(o, dl_o_div(o, both[0], both[1]));
}

/* p <- p - (rate / c1) m where at most 5 squares are averaged, else p <- p - (rate / c1) r
 * sqrt(c2) m / (sqrt(v) + eps) (Liu et al. 2020) */
void dl_optimize_radam(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = gradient(o, t, decays), *b1 = beta1(o), *b2 = beta2(o);
    dl_value *two = dl_o_k(o, 2), *c1 = filled(o, b1), *c2 = filled(o, b2);
    dl_value *w = dl_build_k(o->b, DL_OP_sub, dl_o_div(o, two, rest(o, b2)), 1);
    dl_value *faded = dl_build2(o->b, DL_OP_pow, b2, o->taken), *twice = dl_o_mul(o, two, o->taken);
    dl_value *n = dl_o_sub(o, w, dl_o_div(o, dl_o_mul(o, twice, faded), c2));
    dl_value *enough = dl_build_k(o->b, DL_OP_gt, n, 5);
    dl_value *pace = neg(o, dl_o_div(o, o->rate, c1)),
             *scale = dl_o_mul(o, pace, rectified(o, n, w));
    scale = dl_o_mul(o, scale, root(o, c2));
    dl_value *m = kept_average(o, t, "exp_avg", b1, grad);
    dl_value *v = kept_average(o, t, "exp_avg_sq", b2, square(o, grad)),
             *spread = above_eps(o, t, v);
    dl_value *by = dl_o_div(o, as(o, scale, t), spread);
    by = dl_build3(o->b, DL_OP_select, enough, by, as(o, pace, t));
    update_param(o, t, dl_o_add(o, t->own, dl_o_mul(o, m, by)));
}

/* ---- descent along the gradient, or along a function of it ---- */

/* b <- momentum b + x, which replaces x as the direction; x where there is no momentum. */
static dl_value *with_momentum(dl_optimization *o, const dl_trained *t, dl_value *x, bool ahead) {
    if (!o->step_options->momentum) return x;
    dl_value *momentum = as(o, dl_optimizer_hyper(o, "momentum", 0.9), t);
    dl_var *buffer = dl_optimizer_state(o, "momentum_buffer", t, 0);
    dl_value *next = dl_o_add(o, dl_o_mul(o, &buffer->value, momentum), x);
    update(o, buffer, next);
    return ahead ? dl_o_add(o, x, dl_o_mul(o, next, momentum)) : next;
}

/* p <- p - rate x */
static void descend(dl_optimization *o, dl_trained *t, dl_value *rate, dl_value *x) {
    update_param(o, t, dl_o_sub(o, t->own, dl_o_mul(o, x, as(o, rate, t))));
}

/* b <- momentum b + g; p <- p - rate b, or with Nesterov momentum p - rate (g + momentum b). */
void dl_optimize_sgd(dl_optimization *o, dl_trained *t, bool decays) {
    descend(o, t, o->rate, with_momentum(o, t, gradient(o, t, decays), o->step_options->nesterov));
}

/* v <- alpha v + (1 - alpha) g g, b <- momentum b + g / (sqrt(v) + eps), p <- p - rate b (Tieleman
 * and Hinton 2012). Centered: v minus the squared mean gradient (Graves 2013), clamped at 0
 * because of rounding. */
void dl_optimize_rmsprop(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = gradient(o, t, decays), *alpha = own(o, "alpha", DL_OPTION_alpha);
    dl_value *v = kept_average(o, t, "square_avg", alpha, square(o, grad));
    if (o->step_options->centered) {
        dl_value *mean = kept_average(o, t, "grad_avg", alpha, grad);
        v = dl_build_k(o->b, DL_OP_max, dl_o_sub(o, v, square(o, mean)), 0);
    }
    dl_value *x = dl_o_div(o, grad, above_eps(o, t, v));
    descend(o, t, o->rate, with_momentum(o, t, x, false));
}

/* v <- v + g g,  p <- p - rate / (1 + (taken - 1) lr_decay) g / (sqrt(v) + eps) (Duchi et al. 2011)
 */
void dl_optimize_adagrad(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = gradient(o, t, decays), *before = dl_build_k(o->b, DL_OP_sub, o->taken, 1);
    dl_value *slower = dl_o_mul(o, before, dl_optimizer_hyper(o, "lr_decay", 0));
    dl_value *rate = dl_o_div(o, o->rate, dl_build_k(o->b, DL_OP_add, slower, 1));
    dl_var *sum = dl_optimizer_state(o, "sum", t, o->step_options->accumulator);
    dl_value *v = dl_o_add(o, &sum->value, square(o, grad));
    update(o, sum, v);
    descend(o, t, rate, dl_o_div(o, grad, above_eps(o, t, v)));
}

/* v <- rho v + (1 - rho) g g,  d = g sqrt(s + eps) / sqrt(v + eps),  s <- rho s + (1 - rho) d d,
 * p <- p - rate d (Zeiler 2012) */
void dl_optimize_adadelta(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *grad = gradient(o, t, decays), *rho = own(o, "rho", DL_OPTION_rho),
             *least = eps(o, t);
    dl_value *v = kept_average(o, t, "square_avg", rho, square(o, grad));
    dl_var *steps = dl_optimizer_state(o, "acc_delta", t, 0);
    dl_value *size = root(o, dl_o_add(o, &steps->value, least));
    dl_value *delta = dl_o_mul(o, dl_o_div(o, size, root(o, dl_o_add(o, v, least))), grad);
    update(o, steps, average(o, t, rho, &steps->value, square(o, delta)));
    descend(o, t, o->rate, delta);
}
