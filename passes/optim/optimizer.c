/* optimizer: adds the optimiser to the graph. The step count and all shared numbers are device
 * values; the update rules are rows of two tables; the rest of the step (clipping, the choice of
 * parameters that decay) is the same for all optimisers. */
#include "passes/optim/optimizer.h"

#include <math.h>

#include "ir/base/tags.h"
#include "ir/collective.h"
#include "ir/walk.h"
#include "passes/optim/average.h"
#include "passes/optim/rules.h"
#include "passes/optim/scaler.h"

static dl_optimizer_rule *const optimizers[] = {
#define OPTIMIZER(id, ...) dl_optimize_##id,
#include "ir/base/optimizers.def"
};
static dl_schedule_rule *const schedules[] = {
#define SCHEDULE(id, help) dl_schedule_##id,
#include "ir/base/schedules.def"
#undef SCHEDULE
};

static const char *const schedule_names[] = {
#define SCHEDULE(id, help) #id,
#include "ir/base/schedules.def"
#undef SCHEDULE
    NULL};

int dl_schedule_find(const char *name) {
    for (int i = 0; schedule_names[i]; i++)
        if (strcmp(schedule_names[i], name) == 0) return i;
    return -1;
}

/* ---- shards of the optimiser's state ---- */

/* Does the node all-gather shards of this gradient (pass data_parallel)? Its operand is the rank's
 * shard.
 */
static bool gathers_shares(const dl_node *n, const dl_result *r) {
    const dl_attr *of = n && n->op == DL_OP_all_gather ? dl_node_attr(n, DL_ATTR_of) : NULL;
    return of && of->texts[0] == r->name;
}

/* The rank's shard of the old value, cut as n cuts the gradient. */
static void take_share(dl_optimization *o, dl_trained *t, const dl_node *n) {
    dl_var_cut *c = &t->share.cut[t->share.n++];
    int at = dl_type_axis(&t->own->type, dl_node_name(n, DL_ATTR_axis));
    *c = (dl_var_cut){dl_node_name(n, DL_ATTR_group),    at, (int)dl_node_int(n, DL_ATTR_ranks),
                      (int)dl_node_int(n, DL_ATTR_rank), 1,  t->own->type.axis[at].size};
    o->b->loc = t->var->loc;
    t->own = dl_build_share(o->b, t->own, c);
    t->grad = n->in[0];
}

/* The options of an objective's optimiser, where they differ from the step's; else NULL. */
static const dl_objective_options *options_of(const dl_pass_ctx *ctx, const char *objective) {
    for (int i = 0; objective && i < ctx->nobjectives; i++)
        if (ctx->objectives[i].name == objective) return &ctx->objectives[i];
    return NULL;
}

/* The graph's gradients; where one is all-gathered, this rank's shard of it. Pass autodiff lists
 * those of an objective one after the other. */
static void find_trained(dl_optimization *o, const dl_pass_ctx *ctx) {
    dl_graph *g = o->b->graph;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_GRAD) continue;
        dl_trained t = {.var = r->var, .own = &r->var->value, .grad = r->value};
        for (const dl_node *n = r->value->def; ctx->parallel.zero && gathers_shares(n, r);
             n = t.grad->def)
            take_share(o, &t, n);
        t.group = dl_param_group_of(ctx->params, r->var->name, &t.number);
        if (!o->sets.n || o->sets.at[o->sets.n - 1].name != r->var->by) {
            dl_trained_set set = {.name = r->var->by, .first = o->trained.n};
            set.own = options_of(ctx, set.name);
            set.step_options = set.own ? &set.own->own : o->step_options;
            dl_push(o->arena, &o->sets, set);
        }
        dl_push(o->arena, &o->trained, t);
        o->sets.at[o->sets.n - 1].n++;
    }
}

/* ---- the step ---- */

/* min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ (Pascanu et al. 2013). For
 * an infinite norm the factor is NaN, not 0: with 0 all finite gradients would become 0
 * unnoticed. */
static dl_value *clip_factor(dl_optimization *o, dl_value *norm) {
    dl_value *most = dl_optimizer_hyper(o, "max_norm", 1);
    dl_value *factor =
        dl_build_k(o->b, DL_OP_min, dl_o_div(o, most, dl_build_k(o->b, DL_OP_add, norm, 1e-6)), 1);
    dl_value *finite = dl_build_k(o->b, DL_OP_lt, norm, INFINITY);
    return dl_build3(o->b, DL_OP_select, finite, factor, dl_o_k(o, NAN));
}

/* Each element within [-most, most], as torch.nn.utils.clip_grad_value_. */
static dl_value *clip_elements(dl_optimization *o, dl_value *grad) {
    dl_value *most = dl_build_cast(o->b, dl_optimizer_hyper(o, "max_value", 1), grad->type.dtype);
    dl_value *least = dl_build1(o->b, DL_OP_neg, most);
    return dl_build2(o->b, DL_OP_max, dl_build2(o->b, DL_OP_min, grad, most), least);
}

/* The parameter's learning rate: `shared`, or its group's. */
static dl_value *rate_of(dl_optimization *o, const dl_trained *t, dl_value *shared) {
    if (!t->group || !t->group->rate) return shared;
    return dl_o_mul(o, shared, dl_rule_of_group(o, t, "lr", 1));
}

static bool decays(const dl_optimization *o, const dl_trained *t) {
    if (t->group && t->group->decay) return t->group->decays;
    return o->step_options->decay &&
           (o->step_options->decay_vectors || t->var->value.type.rank > 1);
}

/* Removes the gradients from the graph's results; keep: they stay, as they are before clipping. */
static void end_gradients(const dl_optimization *o, bool keep) {
    dl_graph *g = o->b->graph;
    int kept = 0, at = 0;
    for (int i = 0; i < g->results.n; i++) {
        dl_result r = g->results.at[i];
        if (r.role == DL_RESULT_GRAD) {
            const dl_trained *t = &o->trained.at[at++];
            if (!keep) continue;
            o->b->loc = r.var->loc;
            r.value = dl_o_whole(o, t, t->grad);
        }
        g->results.at[kept++] = r;
    }
    g->results.n = kept;
}

/* Sets whether the optimiser of an objective takes this step, and the number of its own steps: it
 * may miss steps by `every`, or by gradients that are not finite. */
static void count_steps(dl_optimization *o, dl_trained_set *set) {
    const bool every = set->own && set->own->every;
    if (every) {
        dl_value *by = dl_optimizer_number(o, dl_optimizer_own_name(o, "every"), 1);
        dl_value *times = dl_build1(o->b, DL_OP_floor, dl_o_div(o, o->step, by));
        dl_value *due = dl_build2(o->b, DL_OP_eq, dl_o_mul(o, times, by), o->step);
        set->sound = set->sound ? dl_build2(o->b, DL_OP_and, set->sound, due) : due;
    }
    set->taken = o->taken;
    if (!set->name || !set->sound) return;
    dl_var *steps = dl_optimizer_scalar(o, "steps", 0);
    set->taken = dl_build_k(o->b, DL_OP_add, &steps->value, 1);
    dl_value *next = dl_build3(o->b, DL_OP_select, set->sound, set->taken, &steps->value);
    dl_graph_result(o->b->graph, DL_RESULT_UPDATE, steps->name, next, steps);
}

/* The steps of a set's parameters. */
static void step_set(dl_optimization *o, dl_trained_set *set, dl_value *rate) {
    const dl_step_options *options = set->step_options;
    dl_builder *b = o->b;
    o->set = set, o->step_options = options;
    count_steps(o, set);
    o->taken = set->taken, o->sound = set->sound;
    dl_value *clip = options->clip ? clip_factor(o, set->norm) : NULL;
    if (set->own && set->own->rate)
        rate = dl_o_mul(o, rate, dl_optimizer_number(o, dl_optimizer_own_name(o, "lr"), 1));
    for (int i = set->first; i < set->first + set->n; i++) {
        dl_trained *t = &o->trained.at[i];
        b->loc = t->var->loc;
        if (clip) t->grad = dl_o_mul(o, t->grad, dl_build_cast(b, clip, t->grad->type.dtype));
        if (options->clip_value) t->grad = clip_elements(o, t->grad);
        if (options->maximize) t->grad = dl_build1(b, DL_OP_neg, t->grad);
        o->rate = rate_of(o, t, rate);
        optimizers[options->optimizer](o, t, decays(o, t));
        if (options->average) dl_average_update(o, t, t->whole);
    }
}

/* The value that stands for v: of an `updated` parameter the next one; where there is none, the
 * parameter itself. */
static dl_value *settled(dl_value *v, dl_value *const *next) {
    const dl_node *by;
    while ((by = dl_made_by(v, DL_OP_updated)))
        v = next[by->in[0]->id] ? next[by->in[0]->id] : by->in[0];
    return v;
}

/* Readers of `updated` parameters read their next values, those of `o`; NULL: there are none. True
 * where there were readers. Error: a parameter's step needs its own result. */
static bool read_updated(dl_graph *g, const dl_optimization *o, dl_pass_ctx *ctx) {
    dl_value **next = DL_NEWS(ctx->arena, dl_value *, g->next_id);
    int kept = 0, n = g->nodes.n;
    for (int i = 0; o && i < o->trained.n; i++)
        next[o->trained.at[i].var->value.id] = o->trained.at[i].whole;
    for (int i = 0; i < n; i++) {
        dl_node *node = g->nodes.at[i];
        for (int k = 0; k < node->nin; k++) node->in[k] = settled(node->in[k], next);
        if (node->op != DL_OP_updated) g->nodes.at[kept++] = node;
    }
    for (int i = 0; i < g->results.n; i++)
        g->results.at[i].value = settled(g->results.at[i].value, next);
    g->nodes.n = kept;
    if (kept < n && !dl_graph_sort(g))
        return dl_fail(ctx->err, DL_INPUT,
                       "graph '%s': a loss reads `updated` of a parameter that it trains itself",
                       g->name);
    return kept < n;
}

/* Reports a graph that already updates a parameter. */
static bool check_updates(const dl_graph *g, dl_pass_ctx *ctx) {
    bool *updated = DL_NEWS(ctx->arena, bool, g->next_id + 1);
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_UPDATE)
            updated[g->results.at[i].var->value.id] = true;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role == DL_RESULT_GRAD && updated[r->var->value.id])
            return dl_fail(ctx->err, DL_INPUT, "graph '%s' has an update of $%.200s already",
                           g->name, r->var->name);
    }
    return true;
}

bool dl_pass_optimizer(dl_graph *g, dl_pass_ctx *ctx) {
    const dl_step_options *step_options = &ctx->step_options;
    bool done = dl_graph_find_var(g, "optimizer.step") != NULL;
    if (dl_average_read(g, ctx)) return true;
    if (step_options->optimizer == DL_OPT_NONE || done ||
        !dl_graph_find_result(g, DL_RESULT_GRAD, NULL))
        return read_updated(g, NULL, ctx);
    if (!check_updates(g, ctx)) return false;
    /* nodes that belong to no parameter get the source line of the loss */
    const dl_result *loss = dl_graph_find_result(g, DL_RESULT_LOSS, NULL);
    const dl_loc whole = loss && loss->value->def ? loss->value->def->loc : (dl_loc){0};
    dl_builder b = {.graph = g, .loc = whole};
    dl_optimization o = {.b = &b,
                         .step_options = step_options,
                         .arena = ctx->arena,
                         .model = dl_var_set_new(g, ctx->arena),
                         .data_ranks = ctx->parallel.dp > 1 ? ctx->parallel.dp : 1,
                         .err = ctx->err};
    dl_var *step = dl_graph_var(g, DL_VAR_STATE, "optimizer.step", dl_scalar(DL_I64),
                                (dl_init){.kind = DL_INIT_ZERO}, b.loc);
    dl_value *next = dl_build_k(&b, DL_OP_add, &step->value, 1);
    o.step = o.taken = dl_build_cast(&b, next, DL_F64);
    o.at = dl_o_add(&o, o.step, dl_optimizer_hyper(&o, "lr.passed", 0));
    o.rate = schedules[step_options->schedule](&o);
    dl_graph_result(g, DL_RESULT_UPDATE, step->name, next, step);
    dl_graph_result(g, DL_RESULT_METRIC, DL_TAG_RATE, o.rate, NULL);

    find_trained(&o, ctx);
    b.loc = whole;
    if (dl_step_scales_loss(step_options)) dl_scaler_unscale(&o);
    for (int i = 0; i < o.sets.n; i++)
        if (step_options->clip || dl_norms_need_gradients(&o))
            o.sets.at[i].norm = dl_norm_of_set(&o, &o.sets.at[i], false);
    dl_layer_norms_begin(&o);
    end_gradients(&o, ctx->keep_gradients);
    dl_value *const rate = o.rate, *const taken = o.taken;
    for (int i = 0; i < o.sets.n; i++) {
        b.loc = whole, o.taken = taken;
        step_set(&o, &o.sets.at[i], rate);
    }
    b.loc = whole, o.set = NULL;
    dl_norms_report(&o);
    read_updated(g, &o, ctx);
    return ctx->err->code == DL_OK;
}
