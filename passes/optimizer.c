/* The optimiser as part of the graph: the step count and all shared numbers are device values, the rules are
 * rows of two tables, and the rest of the step (clipping, who decays) is the same for all of them. */
#include "passes/optimizer.h"

static dl_optimizer_rule *const optimizers[] = {
#define OPTIMIZER(id, help) dl_optimize_##id,
#include "passes/optimizers.def"
#undef OPTIMIZER
};
static dl_schedule_rule *const schedules[] = {
#define SCHEDULE(id, help) dl_schedule_##id,
#include "passes/schedules.def"
#undef SCHEDULE
};

static const char *const optimizer_names[] = {
#define OPTIMIZER(id, help) #id,
#include "passes/optimizers.def"
#undef OPTIMIZER
    NULL};
static const char *const schedule_names[] = {
#define SCHEDULE(id, help) #id,
#include "passes/schedules.def"
#undef SCHEDULE
    NULL};

static int find_name(const char *const *names, const char *name) {
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

int dl_optimizer_find(const char *name) { return find_name(optimizer_names, name); }
int dl_schedule_find(const char *name) { return find_name(schedule_names, name); }

dl_value *dl_optimizer_hyper(const dl_optimization *o, const char *name, double fallback) {
    dl_var *known = dl_graph_find_var(o->b->graph, name);
    if (known) return &known->value;
    dl_init init = {.kind = fallback ? DL_INIT_CONST : DL_INIT_ZERO, .a = fallback};
    return &dl_graph_var(o->b->graph, DL_VAR_HYPER, name, dl_scalar(DL_F64), init, o->b->loc)->value;
}

/* The Euclidean norm of all gradients together, in f64. */
static dl_value *gradient_norm(const dl_optimization *o, int results) {
    dl_graph *g = o->b->graph;
    dl_value *all = NULL;
    for (int i = 0; i < results; i++) {
        if (g->results.at[i].role != DL_RESULT_GRAD) continue;
        dl_value *grad = g->results.at[i].value, *square = dl_build2(o->b, DL_OP_mul, grad, grad);
        dl_value *sum = dl_build_cast(o->b, dl_build_reduce(o->b, DL_OP_sum, square, 0, NULL), DL_F64);
        all = all ? dl_o_add(o, all, sum) : sum;
    }
    return dl_build1(o->b, DL_OP_sqrt, all);
}

/* min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ (Pascanu et al. 2013). */
static dl_value *clip_factor(const dl_optimization *o, int results) {
    dl_value *norm = gradient_norm(o, results), *most = dl_optimizer_hyper(o, "max_norm", 1);
    dl_graph_result(o->b->graph, DL_RESULT_METRIC, "grad_norm", norm, NULL);
    return dl_build2(o->b, DL_OP_min, dl_o_k(o, 1), dl_o_div(o, most, dl_o_add(o, norm, dl_o_k(o, 1e-6))));
}

static void drop_gradients(dl_graph *g) {
    int kept = 0;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role != DL_RESULT_GRAD) g->results.at[kept++] = g->results.at[i];
    g->results.n = kept;
}

bool dl_pass_optimizer(dl_graph *g, dl_pass_ctx *ctx) {
    const dl_recipe *recipe = &ctx->recipe;
    bool done = dl_graph_find_var(g, "optimizer.step") != NULL;
    if (recipe->optimizer == DL_OPT_NONE || done || !dl_graph_find_result(g, DL_RESULT_GRAD, NULL))
        return false;
    dl_builder b = {.graph = g};
    dl_var *step = dl_graph_var(g, DL_VAR_STATE, "optimizer.step", dl_scalar(DL_I64),
                                (dl_init){.kind = DL_INIT_ZERO}, b.loc);
    dl_value *next = dl_build_k(&b, DL_OP_add, &step->value, 1);
    dl_optimization o = {.b = &b, .recipe = recipe, .step = dl_build_cast(&b, next, DL_F64)};
    o.rate = schedules[recipe->schedule](&o);
    dl_graph_result(g, DL_RESULT_UPDATE, step->name, next, step);
    dl_graph_result(g, DL_RESULT_METRIC, "Learning Rate", o.rate, NULL);

    int results = g->results.n; /* those before the updates */
    dl_value *clip = recipe->clip ? clip_factor(&o, results) : NULL;
    for (int i = 0; i < results; i++) {
        dl_result r = g->results.at[i];
        if (r.role != DL_RESULT_GRAD) continue;
        b.loc = r.var->loc;
        dl_value *grad = r.value;
        if (clip) grad = dl_o_mul(&o, grad, dl_build_cast(&b, clip, grad->type.dtype));
        bool decays = recipe->decay && (recipe->decay_vectors || r.var->value.type.rank > 1);
        optimizers[recipe->optimizer](&o, r.var, grad, decays);
    }
    if (!ctx->keep_gradients) drop_gradients(g);
    return true;
}
