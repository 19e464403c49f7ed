/* The optimiser as part of the graph: the step count and all shared numbers are device values, the rules are
 * rows of two tables, and the rest of the step (clipping, who decays) is the same for all of them. */
#include "passes/optimizer.h"

#include "ir/base/tags.h"
#include "passes/scaler.h"

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

/* A model's own variable of a name that the optimiser needs. */
static void check_free(const dl_optimization *o, const char *name) {
    const dl_var *v = dl_var_set_find(&o->model, name);
    if (v) dl_fail_taken(o->b->graph, v, "the optimiser's own", o->err);
}

dl_var *dl_optimizer_state(const dl_optimization *o, const char *what, const dl_var *param) {
    const char *name = dl_internf("%s.%s", what, param->name);
    check_free(o, name);
    dl_var *v = dl_graph_var(o->b->graph, DL_VAR_STATE, name, param->value.type,
                             (dl_init){.kind = DL_INIT_ZERO}, param->loc);
    v->of = param->name, v->piece = param->piece;
    return v;
}

dl_value *dl_optimizer_hyper(dl_optimization *o, const char *text, double fallback) {
    const char *name = dl_intern(text);
    for (int i = 0; i < o->hypers.n; i++)
        if (o->hypers.at[i]->name == name) return &o->hypers.at[i]->value;
    check_free(o, name);
    dl_init init = {.kind = fallback ? DL_INIT_CONST : DL_INIT_ZERO, .a = fallback};
    dl_var *v = dl_graph_var(o->b->graph, DL_VAR_HYPER, name, dl_scalar(DL_F64), init, o->b->loc);
    dl_push(o->arena, &o->hypers, v);
    return &v->value;
}

dl_value *dl_o_add_pieces(dl_optimization *o, dl_value *own, dl_value *others, const dl_var_piece *piece,
                          const char *of) {
    if (!own) return others;
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_group, piece->group),
                       dl_attr_int(DL_ATTR_ranks, piece->ranks),
                       {.id = DL_ATTR_of, .s = of}};
    own = dl_build(o->b, DL_OP_all_reduce, 1, &own, 3, attrs);
    return others ? dl_o_add(o, others, own) : own;
}

/* The Euclidean norm, in f64, of the parameters' results of this role from number `from` on: of all gradients
 * together, or of the weights behind the step; of what is in pieces those of all ranks. */
static dl_value *common_norm(dl_optimization *o, dl_result_role role, int from) {
    dl_graph *g = o->b->graph;
    dl_value *all[2] = {NULL}; /* of what every rank has, of its pieces */
    const dl_var_piece *piece = NULL;
    for (int i = from; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role != role || r->var->role != DL_VAR_PARAM) continue;
        dl_value *square = dl_build2(o->b, DL_OP_mul, r->value, r->value);
        dl_value *sum = dl_build_cast(o->b, dl_build_reduce(o->b, DL_OP_sum, square, 0, NULL), DL_F64);
        bool own = r->var->piece.group != NULL;
        if (own) piece = &r->var->piece;
        all[own] = all[own] ? dl_o_add(o, all[own], sum) : sum;
    }
    return dl_build1(o->b, DL_OP_sqrt, dl_o_add_pieces(o, all[1], all[0], piece, "a norm"));
}

/* min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ (Pascanu et al. 2013). */
static dl_value *clip_factor(dl_optimization *o, dl_value *norm) {
    dl_value *most = dl_optimizer_hyper(o, "max_norm", 1);
    return dl_build_k(o->b, DL_OP_min, dl_o_div(o, most, dl_build_k(o->b, DL_OP_add, norm, 1e-6)), 1);
}

static void drop_gradients(dl_graph *g) {
    int kept = 0;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role != DL_RESULT_GRAD) g->results.at[kept++] = g->results.at[i];
    g->results.n = kept;
}

/* Does the graph write a parameter by itself? */
static bool check_updates(const dl_graph *g, dl_pass_ctx *ctx) {
    bool *updated = DL_NEWS(ctx->arena, bool, g->next_id + 1);
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_UPDATE) updated[g->results.at[i].var->value.id] = true;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role == DL_RESULT_GRAD && updated[r->var->value.id])
            return dl_fail(ctx->err, DL_INPUT, "graph '%s' has an update of $%.200s already", g->name,
                           r->var->name);
    }
    return true;
}

bool dl_pass_optimizer(dl_graph *g, dl_pass_ctx *ctx) {
    const dl_recipe *recipe = &ctx->recipe;
    bool done = dl_graph_find_var(g, "optimizer.step") != NULL;
    if (recipe->optimizer == DL_OPT_NONE || done || !dl_graph_find_result(g, DL_RESULT_GRAD, NULL))
        return false;
    if (!check_updates(g, ctx)) return false;
    /* what belongs to no parameter comes from the line that the model's loss does */
    const dl_result *loss = dl_graph_find_result(g, DL_RESULT_LOSS, NULL);
    const dl_loc whole = loss && loss->value->def ? loss->value->def->loc : (dl_loc){0};
    dl_builder b = {.graph = g, .loc = whole};
    dl_optimization o = {.b = &b,
                         .recipe = recipe,
                         .arena = ctx->arena,
                         .model = dl_var_set_new(g, ctx->arena),
                         .err = ctx->err};
    dl_var *step = dl_graph_var(g, DL_VAR_STATE, "optimizer.step", dl_scalar(DL_I64),
                                (dl_init){.kind = DL_INIT_ZERO}, b.loc);
    dl_value *next = dl_build_k(&b, DL_OP_add, &step->value, 1);
    o.step = o.taken = dl_build_cast(&b, next, DL_F64);
    o.rate = schedules[recipe->schedule](&o);
    dl_graph_result(g, DL_RESULT_UPDATE, step->name, next, step);
    dl_graph_result(g, DL_RESULT_METRIC, DL_TAG_RATE, o.rate, NULL);

    if (dl_recipe_scales(recipe)) dl_scaler_unscale(&o);
    int results = g->results.n; /* those before the updates */
    dl_value *norm = recipe->clip || recipe->norms ? common_norm(&o, DL_RESULT_GRAD, 0) : NULL;
    dl_value *clip = recipe->clip ? clip_factor(&o, norm) : NULL;
    for (int i = 0; i < results; i++) {
        dl_result r = g->results.at[i];
        if (r.role != DL_RESULT_GRAD) continue;
        b.loc = r.var->loc;
        dl_value *grad = r.value;
        if (clip) grad = dl_o_mul(&o, grad, dl_build_cast(&b, clip, grad->type.dtype));
        bool decays = recipe->decay && (recipe->decay_vectors || r.var->value.type.rank > 1);
        optimizers[recipe->optimizer](&o, r.var, grad, decays);
    }
    if (recipe->norms) {
        b.loc = whole;
        dl_graph_result(g, DL_RESULT_METRIC, DL_TAG_GRAD_NORM, norm, NULL);
        dl_graph_result(g, DL_RESULT_METRIC, DL_TAG_WEIGHT_NORM, common_norm(&o, DL_RESULT_UPDATE, results),
                        NULL);
    }
    if (!ctx->keep_gradients) drop_gradients(g);
    return true;
}
