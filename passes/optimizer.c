/* Adam as part of the graph (Kingma and Ba 2015, in the arrangement of torch.optim.Adam without weight
 * decay):
 *
 *   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g g
 *   p <- p - (lr / c1) m / (sqrt(v) / sqrt(c2) + eps)      c1 = 1 - b1^t, c2 = 1 - b2^t
 *
 * and the learning rate of step t, a half cosine behind an optional linear warm-up:
 *
 *   t < warmup:  lr = t / warmup init
 *   otherwise:   lr = end + (init - end) / 2 (1 + cos(pi (t - warmup) / total))
 *
 * The step count is device state and the four numbers of the schedule are hyperparameters that the host sets,
 * all scalars, worked out once a step in f64: changing the schedule recompiles nothing. */
#include <math.h>

#include "ir/base/tags.h"
#include "ir/builder.h"
#include "passes/pass.h"

const dl_adam dl_adam_usual = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

static dl_value *add(dl_builder *b, dl_value *x, dl_value *y) { return dl_build2(b, DL_OP_add, x, y); }
static dl_value *sub(dl_builder *b, dl_value *x, dl_value *y) { return dl_build2(b, DL_OP_sub, x, y); }
static dl_value *mul(dl_builder *b, dl_value *x, dl_value *y) { return dl_build2(b, DL_OP_mul, x, y); }
static dl_value *divide(dl_builder *b, dl_value *x, dl_value *y) { return dl_build2(b, DL_OP_div, x, y); }
static dl_value *k64(dl_builder *b, double k) { return dl_build_const(b, DL_F64, k); }

static dl_value *hyper(dl_builder *b, const char *name) {
    dl_type t = dl_scalar(DL_F64);
    return &dl_graph_var(b->graph, DL_VAR_HYPER, name, t, (dl_init){.kind = DL_INIT_ZERO}, b->loc)->value;
}

/* it: the number of this step, from 1, as f64. */
static dl_value *build_learning_rate(dl_builder *b, dl_value *it) {
    dl_value *init = hyper(b, "lr.init"), *end = hyper(b, "lr.end");
    dl_value *warmup = hyper(b, "lr.warmup"), *total = hyper(b, "lr.total");
    dl_value *rising = mul(b, divide(b, it, warmup), init);
    dl_value *angle = divide(b, mul(b, k64(b, M_PI), sub(b, it, warmup)), total);
    dl_value *wave = add(b, k64(b, 1), dl_build1(b, DL_OP_cos, angle));
    dl_value *falling = add(b, end, mul(b, mul(b, k64(b, 0.5), sub(b, init, end)), wave));
    return dl_build3(b, DL_OP_select, dl_build2(b, DL_OP_lt, it, warmup), rising, falling);
}

/* What all parameters of one element type share: -lr / c1 and 1 / sqrt(c2). */
typedef struct {
    dl_value *rate, *unbias;
} step_scalars;

static dl_var *moment(dl_builder *b, const char *what, const dl_var *param) {
    dl_type t = param->value.type;
    dl_var *v = dl_graph_var(b->graph, DL_VAR_STATE, dl_internf("%s.%s", what, param->name), t,
                             (dl_init){.kind = DL_INIT_ZERO}, param->loc);
    v->of = param->name;
    return v;
}

/* Axes without a name take no part in arithmetic: they come back at the end. */
static void update(dl_builder *b, dl_var *var, dl_value *next) {
    if (!dl_type_same(&next->type, &var->value.type))
        next = dl_build_as(b, DL_OP_broadcast, 1, &next, 0, NULL, var->value.type);
    dl_graph_result(b->graph, DL_RESULT_UPDATE, var->name, next, var);
}

/* decay old + (1 - decay) fresh */
static dl_value *build_average(dl_builder *b, double decay, dl_value *old, dl_value *fresh) {
    return add(b, dl_build_k(b, DL_OP_mul, old, decay), dl_build_k(b, DL_OP_mul, fresh, 1 - decay));
}

static void build_adam(dl_builder *b, dl_var *param, dl_value *grad, const step_scalars *s,
                       const dl_pass_ctx *ctx) {
    dl_dtype type = param->value.type.dtype;
    dl_var *m = moment(b, "exp_avg", param), *v = moment(b, "exp_avg_sq", param);
    dl_value *m1 = build_average(b, ctx->adam.beta1, &m->value, grad);
    dl_value *v1 = build_average(b, ctx->adam.beta2, &v->value, mul(b, grad, grad));
    dl_value *spread = mul(b, dl_build1(b, DL_OP_sqrt, v1), dl_build_cast(b, s->unbias, type));
    dl_value *move = divide(b, mul(b, m1, dl_build_cast(b, s->rate, type)),
                            dl_build_k(b, DL_OP_add, spread, ctx->adam.eps));
    update(b, param, add(b, &param->value, move));
    update(b, m, m1);
    update(b, v, v1);
}

/* Names and updates that the pass is about to give must be free: a model chooses names, too. */
static bool check_free(const dl_graph *g, dl_pass_ctx *ctx) {
    static const char *const shared[] = {"lr.init", "lr.end", "lr.warmup", "lr.total"};
    dl_var_set vars = dl_var_set_new(g, ctx->arena);
    bool *updated = DL_NEWS(ctx->arena, bool, g->next_id + 1);
    const dl_var *taken = NULL;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_UPDATE) updated[g->results.at[i].var->value.id] = true;
    for (size_t i = 0; i < sizeof shared / sizeof *shared && !taken; i++)
        taken = dl_var_set_find(&vars, dl_intern(shared[i]));
    for (int i = 0; i < g->results.n && !taken; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_GRAD) continue;
        if (updated[r->var->value.id])
            return dl_fail(ctx->err, DL_INPUT, "graph '%s' has an update of $%.200s already", g->name,
                           r->var->name);
        taken = dl_var_set_find(&vars, dl_internf("exp_avg.%s", r->var->name));
        if (!taken) taken = dl_var_set_find(&vars, dl_internf("exp_avg_sq.%s", r->var->name));
    }
    if (!taken) return true;
    dl_loc loc = taken->loc;
    return dl_fail(ctx->err, DL_INPUT,
                   "%s:%d:%d: error: a variable is called $%.200s, as the optimiser's own: rename it",
                   loc.file ? loc.file : g->name, loc.line, loc.column, taken->name);
}

static void drop_gradients(dl_graph *g) {
    int kept = 0;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role != DL_RESULT_GRAD) g->results.at[kept++] = g->results.at[i];
    g->results.n = kept;
}

bool dl_pass_optimizer(dl_graph *g, dl_pass_ctx *ctx) {
    bool done = dl_graph_find_var(g, "optimizer.step") != NULL;
    if (ctx->optimizer == DL_OPT_NONE || done || !dl_graph_find_result(g, DL_RESULT_GRAD, NULL)) return false;
    if (!check_free(g, ctx)) return false;
    dl_builder b = {.graph = g};
    dl_var *step = dl_graph_var(g, DL_VAR_STATE, "optimizer.step", dl_scalar(DL_I64),
                                (dl_init){.kind = DL_INIT_ZERO}, b.loc);
    dl_value *next = dl_build_k(&b, DL_OP_add, &step->value, 1), *it = dl_build_cast(&b, next, DL_F64);
    dl_value *lr = build_learning_rate(&b, it);
    dl_value *c1 = sub(&b, k64(&b, 1), dl_build2(&b, DL_OP_pow, k64(&b, ctx->adam.beta1), it));
    dl_value *c2 = sub(&b, k64(&b, 1), dl_build2(&b, DL_OP_pow, k64(&b, ctx->adam.beta2), it));
    step_scalars s = {.rate = dl_build1(&b, DL_OP_neg, divide(&b, lr, c1)),
                      .unbias = divide(&b, k64(&b, 1), dl_build1(&b, DL_OP_sqrt, c2))};
    update(&b, step, next);
    dl_graph_result(g, DL_RESULT_METRIC, DL_TAG_RATE, lr, NULL);

    int results = g->results.n; /* those before the updates */
    for (int i = 0; i < results; i++) {
        dl_result r = g->results.at[i];
        if (r.role != DL_RESULT_GRAD) continue;
        b.loc = r.var->loc;
        build_adam(&b, r.var, r.value, &s, ctx);
    }
    if (!ctx->keep_gradients) drop_gradients(g);
    return true;
}
