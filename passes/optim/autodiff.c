/* autodiff: reverse-mode differentiation of the train graph. It walks the nodes from the last to
 * the first, and asks each op's rule (column `grad` of ops.def) for the gradients of its
 * operands, given that of its result.
 *
 * A graph with objectives is differentiated once for each, by the objective's own parameters
 * alone: other parameters are constants there. Where optimisers take turns, an objective reads
 * those parameters as their own objectives, earlier in the list, have left them. What it computes
 * with them is then a copy, which reads `updated` parameters; all else is shared. */
#include "ir/base/tags.h"
#include "ir/body.h"
#include "passes/grad/grad.h"
#include "passes/optim/scaler.h"

/* Marks every value that depends on a parameter of this objective (NULL: on any) which is not
 * frozen, along a path on which gradients flow. */
static bool *find_active(const dl_graph *g, const dl_pass_ctx *ctx, const char *by) {
    bool *active = DL_NEWS(ctx->arena, bool, g->next_id);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        active[v->value.id] = v->role == DL_VAR_PARAM && dl_dtype_is_float(v->value.type.dtype) &&
                              (!by || v->by == by) && !dl_param_is_frozen(ctx->params, v->name);
    }
    dl_grad_find_active(g, active);
    return active;
}

/* ---- objectives ---- */

typedef struct {
    dl_builder b;
    const dl_pass_ctx *ctx;
    DL_ARRAY(dl_result) all;
} objectives;

/* Takes the objectives out of the graph's results. */
static void take_objectives(objectives *o) {
    dl_graph *g = o->b.graph;
    int kept = 0;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result r = g->results.at[i];
        if (r.role == DL_RESULT_OBJECTIVE)
            dl_push(o->ctx->arena, &o->all, r);
        else
            g->results.at[kept++] = r;
    }
    g->results.n = kept;
}

/* Is the variable trained by one of the objectives before the one of this index? */
static bool is_stepped(const objectives *o, const dl_var *v, int index) {
    bool stepped = false;
    for (int i = 0; i < index; i++) stepped |= v && v->by && v->by == o->all.at[i].name;
    return stepped && !dl_param_is_frozen(o->ctx->params, v->name);
}

/* By value id, of all that an objective is computed from: a copy that reads the parameters as
 * earlier objectives left them; NULL: it does not depend on them. */
typedef struct {
    dl_value **copy;
    bool *read;
    uint32_t known;
} copies;

static dl_value *copy_of(const copies *c, dl_value *v) {
    return v->id < c->known && c->copy[v->id] ? c->copy[v->id] : v;
}

static void copy_node(objectives *o, copies *c, const dl_node *n) {
    dl_arena *arena = o->ctx->arena;
    dl_value **in = DL_NEWS(arena, dl_value *, n->nin + 1);
    dl_type *types = DL_NEWS(arena, dl_type, n->nout);
    bool differs = false;
    for (int k = 0; k < n->nin; k++) {
        in[k] = copy_of(c, n->in[k]);
        differs = differs || in[k] != n->in[k];
    }
    if (!differs) return;
    for (int k = 0; k < n->nout; k++) types[k] = n->out[k].type;
    dl_node *made = dl_node_append(o->b.graph, n->op, n->nin, in, n->nout, types, n->loc);
    if (n->body) made->body = dl_body_copy(o->b.graph, n->body);
    for (int k = 0; k < n->nattrs; k++) dl_node_set(o->b.graph, made, n->attrs[k]);
    for (int k = 0; k < n->nout; k++) c->copy[n->out[k].id] = &made->out[k];
}

static void mark_read(const dl_graph *g, copies *c, const dl_value *root) {
    c->read[root->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        bool any = false;
        for (int k = 0; k < n->nout; k++) any = any || c->read[n->out[k].id];
        for (int k = 0; any && k < n->nin; k++) c->read[n->in[k]->id] = true;
    }
}

/* The objective after the steps of those before it. Its metric shows that value. */
static void take_turn(objectives *o, int index) {
    dl_graph *g = o->b.graph;
    dl_result *r = &o->all.at[index];
    copies c = {DL_NEWS(o->ctx->arena, dl_value *, g->next_id),
                DL_NEWS(o->ctx->arena, bool, g->next_id), g->next_id};
    mark_read(g, &c, r->value);
    for (int i = 0; i < g->vars.n; i++) {
        dl_var *v = g->vars.at[i];
        if (!c.read[v->value.id] || !is_stepped(o, v, index)) continue;
        o->b.loc = v->loc;
        c.copy[v->value.id] = dl_build1(&o->b, DL_OP_updated, &v->value);
    }
    for (int i = 0, n = g->nodes.n; i < n; i++) {
        const dl_node *node = g->nodes.at[i];
        bool read = false;
        for (int k = 0; k < node->nout; k++)
            read = read || (node->out[k].id < c.known && c.read[node->out[k].id]);
        if (read) copy_node(o, &c, node);
    }
    dl_value *now = copy_of(&c, r->value);
    const char *metric = dl_internf(DL_OBJECTIVE_METRIC "%s", r->name);
    for (int i = 0; i < g->results.n; i++) {
        dl_result *m = &g->results.at[i];
        if (m->role == DL_RESULT_METRIC && m->name == metric) m->value = now;
    }
    r->value = now;
}

/* Ops that only the backward pass needs. */
static bool pass_stop(dl_value **v) {
    const dl_value *before = *v;
    while ((*v)->def && dl_op_is_identity((*v)->def->op)) *v = (*v)->def->in[0];
    return *v != before;
}

/* Removes ops that stopped a gradient, or changed it between ranks: their readers read the
 * operand. */
static bool forget_stops(dl_graph *g) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin; k++) any |= pass_stop(&g->nodes.at[i]->in[k]);
    for (int i = 0; i < g->results.n; i++) any |= pass_stop(&g->results.at[i].value);
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->body) any |= forget_stops(g->nodes.at[i]->body);
    return any;
}

/* The gradients of a loss, times `scale` unless that is NULL. The graph's nodes up to `forward` are
 * those that it is computed by, and its variables up to `vars` the model's. */
static bool add_gradients(objectives *o, dl_value *root, dl_value *scale, bool *active, int forward,
                          int vars) {
    dl_graph *g = o->b.graph;
    dl_dtype type = root->type.dtype;
    dl_grad grad = dl_grad_new(&o->b, active, false, o->ctx->arena, o->ctx->err);
    grad.grads[root->id] =
        scale ? dl_build_cast(&o->b, scale, type) : dl_build_const(&o->b, type, 1);
    if (!dl_grad_walk(&grad, forward, NULL)) return false;
    for (int i = 0; i < vars; i++) {
        dl_var *v = g->vars.at[i];
        dl_value *dv = active[v->value.id] ? dl_grad_of(&grad, &v->value) : NULL;
        if (dv) dl_graph_result(g, DL_RESULT_GRAD, v->name, dv, v);
    }
    return true;
}

static bool differentiate(dl_graph *g, dl_pass_ctx *ctx) {
    bool trains = strcmp(g->name, "train") == 0 || strcmp(g->name, DL_GRAPH_ACCUMULATE) == 0;
    if (!trains || !dl_graph_find_result(g, DL_RESULT_LOSS, NULL) ||
        dl_graph_find_result(g, DL_RESULT_GRAD, NULL))
        return false;
    objectives o = {.b = {.graph = g}, .ctx = ctx};
    take_objectives(&o);
    const bool own = o.all.n > 0, turns = !ctx->step_options.together;
    if (!own) dl_push(ctx->arena, &o.all, *dl_graph_find_result(g, DL_RESULT_LOSS, NULL));
    for (int i = 1; own && turns && i < o.all.n; i++) take_turn(&o, i);
    const int forward = g->nodes.n, vars = g->vars.n; /* what is made here comes after these */
    dl_value *scale = NULL;
    bool any = own;
    for (int i = 0; ctx->err->code == DL_OK && i < o.all.n; i++) {
        const dl_result *r = &o.all.at[i];
        const char *by = own ? r->name : NULL;
        bool *active = find_active(g, ctx, by);
        if (!active[r->value->id]) continue; /* it depends on no parameter: nothing to train */
        o.b.loc = r->value->def ? r->value->def->loc : (dl_loc){0};
        if (!scale && dl_step_scales_loss(&ctx->step_options))
            scale = dl_scaler_scale(&o.b, ctx->err);
        any |= ctx->err->code == DL_OK && add_gradients(&o, r->value, scale, active, forward, vars);
    }
    return any;
}

bool dl_pass_autodiff(dl_graph *g, dl_pass_ctx *ctx) {
    bool changed = differentiate(g, ctx);
    return ctx->err->code == DL_OK && (forget_stops(g) || changed);
}
