/* One parameter's step: rows of ir/base/optimizers.def, in the arrangement of torch.optim, so that its bits
 * can be compared. */
#include "passes/optimizer.h"

/* What is kept of a next value. Axes without a name take no part in arithmetic: they come back at the end. */
static dl_value *settle(dl_optimization *o, dl_value *old, dl_value *next) {
    if (o->sound) next = dl_build3(o->b, DL_OP_select, o->sound, next, old);
    if (dl_type_same(&next->type, &old->type)) return next;
    return dl_build_as(o->b, DL_OP_broadcast, 1, &next, 0, NULL, old->type);
}

static void update(dl_optimization *o, dl_var *var, dl_value *next) {
    dl_graph_result(o->b->graph, DL_RESULT_UPDATE, var->name, settle(o, &var->value, next), var);
}

static void update_param(dl_optimization *o, dl_trained *t, dl_value *next) {
    t->next = settle(o, t->own, next);
    dl_graph_result(o->b->graph, DL_RESULT_UPDATE, t->var->name, dl_o_whole(o, t, t->next), t->var);
}

/* A shared number as the parameter's element type. */
static dl_value *as(dl_optimization *o, dl_value *scalar, const dl_trained *t) {
    return dl_build_cast(o->b, scalar, t->own->type.dtype);
}

static dl_value *decay(dl_optimization *o) { return dl_optimizer_hyper(o, "weight_decay", 0); }

static dl_value *rest(dl_optimization *o, dl_value *share) { return dl_o_sub(o, dl_o_k(o, 1), share); }

/* L2: grad + decay p, the gradient of decay / 2 |p|^2. */
static dl_value *with_decay(dl_optimization *o, const dl_trained *t) {
    return dl_o_add(o, t->grad, dl_o_mul(o, t->own, as(o, decay(o), t)));
}

/* keep old + (1 - keep) fresh */
static dl_value *average(dl_optimization *o, const dl_trained *t, dl_value *keep, dl_value *old,
                         dl_value *fresh) {
    dl_value *take = dl_o_mul(o, fresh, as(o, rest(o, keep), t));
    return dl_o_add(o, dl_o_mul(o, old, as(o, keep, t)), take);
}

/* m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g g,  p <- p - (rate / c1) m / (sqrt(v) / sqrt(c2) + eps),
 * with c1 = 1 - b1^taken and c2 = 1 - b2^taken (Kingma and Ba 2015). `from`: what the move starts at. */
static void build_adam(dl_optimization *o, dl_trained *t, dl_value *grad, dl_value *from) {
    dl_value *b1 = dl_optimizer_hyper(o, "beta1", 0.9), *b2 = dl_optimizer_hyper(o, "beta2", 0.999);
    dl_value *c1 = rest(o, dl_build2(o->b, DL_OP_pow, b1, o->taken));
    dl_value *c2 = rest(o, dl_build2(o->b, DL_OP_pow, b2, o->taken));
    dl_value *pace = dl_build1(o->b, DL_OP_neg, dl_o_div(o, o->rate, c1));
    dl_value *root = dl_build1(o->b, DL_OP_sqrt, c2), *unbias = dl_o_div(o, dl_o_k(o, 1), root);
    dl_var *m = dl_optimizer_state(o, "exp_avg", t), *v = dl_optimizer_state(o, "exp_avg_sq", t);
    dl_value *m1 = average(o, t, b1, &m->value, grad);
    dl_value *v1 = average(o, t, b2, &v->value, dl_o_mul(o, grad, grad));
    dl_value *spread = as(o, unbias, t);
    spread = dl_o_mul(o, dl_build1(o->b, DL_OP_sqrt, v1), spread);
    dl_value *floor = dl_o_add(o, spread, as(o, dl_optimizer_hyper(o, "eps", 1e-8), t));
    update_param(o, t, dl_o_add(o, from, dl_o_div(o, dl_o_mul(o, m1, as(o, pace, t)), floor)));
    update(o, m, m1);
    update(o, v, v1);
}

void dl_optimize_adam(dl_optimization *o, dl_trained *t, bool decays) {
    build_adam(o, t, decays ? with_decay(o, t) : t->grad, t->own);
}

/* The decay apart from the gradient: p <- p (1 - rate decay) first (Loshchilov and Hutter 2019). */
void dl_optimize_adamw(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *from = t->own;
    if (decays) {
        dl_value *shrink = rest(o, dl_o_mul(o, o->rate, decay(o)));
        from = dl_o_mul(o, from, as(o, shrink, t));
    }
    build_adam(o, t, t->grad, from);
}

/* b <- momentum b + g; p <- p - rate b, or with Nesterov's look ahead p - rate (g + momentum b). */
void dl_optimize_sgd(dl_optimization *o, dl_trained *t, bool decays) {
    dl_value *g = decays ? with_decay(o, t) : t->grad;
    if (o->recipe->momentum) {
        dl_value *momentum = as(o, dl_optimizer_hyper(o, "momentum", 0.9), t);
        dl_var *buffer = dl_optimizer_state(o, "momentum_buffer", t);
        dl_value *next = dl_o_add(o, dl_o_mul(o, &buffer->value, momentum), g);
        update(o, buffer, next);
        g = o->recipe->nesterov ? dl_o_add(o, g, dl_o_mul(o, next, momentum)) : next;
    }
    update_param(o, t, dl_o_sub(o, t->own, dl_o_mul(o, g, as(o, o->rate, t))));
}
