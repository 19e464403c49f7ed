/* Checks that a gradient of the loss reaches a parameter. */
#include "frontends/dl/elab.h"

bool dl_want_scalar(dl_elab *E, dl_span where, const char *what, dl_val v) {
    if (v.t->type.rank == 0) return true;
    dl_bad(E, where, DL_DIAG_not_scalar, "%s must be one number, but it is %s", what,
           dl_type_text(&v.t->type));
    dl_help(E, "reduce it: mean(...)");
    return false;
}

/* (An op without any rule is refused by name when compiling.) */
static bool lets_through(dl_op op) { return !dl_op_is_flat(op); }

/* depends on a parameter; depends on one by a path of gradients */
enum { DEPENDS = 1, ACTIVE = 2 };

/* by: of the parameters of this objective alone; NULL: of all. */
static unsigned char *find_paths(dl_elab *E, const dl_graph *g, const char *by) {
    unsigned char *path = DL_NEWS(E->arena, unsigned char, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role == DL_VAR_PARAM && (!by || v->by == by))
            path[v->value.id] = DEPENDS | (dl_dtype_is_float(v->value.type.dtype) ? ACTIVE : 0);
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        unsigned char all = 0;
        for (int k = 0; k < n->nin; k++) all |= path[n->in[k]->id];
        for (int k = 0; k < n->nout; k++) {
            bool flows = lets_through(n->op) && dl_dtype_is_float(n->out[k].type.dtype);
            path[n->out[k].id] = flows ? all : all & DEPENDS;
        }
    }
    return path;
}

/* The last op between a parameter and the loss that stops the gradient. */
static const dl_node *find_block(const unsigned char *path, const dl_value *loss) {
    const dl_value *v = loss;
    while (v->def) {
        const dl_value *from = NULL;
        for (int k = 0; k < v->def->nin; k++) {
            if (path[v->def->in[k]->id] & ACTIVE) return v->def;
            if (path[v->def->in[k]->id]) from = v->def->in[k];
        }
        if (!from) break;
        v = from;
    }
    return NULL;
}

/* Arguments that a configuration would set: nodes that depend on them are not in the graph. */
bool dl_is_partial(const dl_elab *E) {
    bool unknown = false;
    for (int i = 0; i < E->model->items.list.n; i++) unknown |= !E->model->items.list.at[i]->a;
    return E->exhausted || (E->assumed && unknown);
}

/* Marks all that the marked values are computed from. */
static void mark_sources(const dl_graph *g, bool *marked) {
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        bool any = false;
        for (int k = 0; k < n->nout; k++) any |= marked[n->out[k].id];
        for (int k = 0; k < n->nin && any; k++) marked[n->in[k]->id] = true;
    }
}

/* By value id: does a result of the graph read it? */
static bool *find_read(dl_elab *E, const dl_graph *g) {
    bool *read = DL_NEWS(E->arena, bool, g->next_id + 1);
    for (int i = 0; i < g->results.n; i++) read[g->results.at[i].value->id] = true;
    mark_sources(g, read);
    return read;
}

void dl_check_replaced_loss(dl_elab *E, const dl_val *before, const dl_val *now) {
    if (!E->train || !before || before->kind != DL_V_TENSOR || now->kind != DL_V_TENSOR) return;
    bool *read = DL_NEWS(E->arena, bool, E->b.graph->next_id + 1);
    read[now->t->id] = true;
    mark_sources(E->b.graph, read);
    if (read[before->t->id]) return;
    dl_bad(E, now->origin, DL_DIAG_loss_twice,
           "the loss is replaced: the one before trains nothing");
    dl_note(E, before->origin, "it is here");
    dl_help(E, "add them: loss = loss + ...");
}

/* By value id: does a gradient of the loss reach it, or a stop_gradient hold it back? */
static bool *find_reached(dl_elab *E, const dl_graph *g, const dl_value *loss) {
    bool *reached = DL_NEWS(E->arena, bool, g->next_id + 1);
    reached[loss->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        bool any = false;
        for (int k = 0; k < n->nout; k++) any |= reached[n->out[k].id];
        bool flows = lets_through(n->op) || n->op == DL_OP_stop_gradient;
        for (int k = 0; k < n->nin && any && flows; k++) reached[n->in[k]->id] = true;
    }
    return reached;
}

static void warn_unreached(dl_elab *E, const dl_graph *g, const dl_value *loss, dl_span where,
                           const char *what, const char *by) {
    const bool *reached = find_reached(E, g, loss);
    const bool *read = find_read(E, g); /* W0701 warns of a parameter that no result reads */
    const dl_var *first = NULL;
    int n = 0;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        bool left = v->role == DL_VAR_PARAM && dl_dtype_is_float(v->value.type.dtype) &&
                    !reached[v->value.id] && read[v->value.id] && (!by || v->by == by);
        if (left && !first) first = v;
        n += left;
    }
    if (!n) return;
    const char *others = n > 1 ? dl_format(E->arena, " and %d more", n - 1) : "";
    dl_bad(E, where, DL_DIAG_unreached_parameter, "no gradient of %s reaches the parameter '%s'%s",
           what, first->name, others);
    dl_help(E, "add a term to the loss, or leave the layer out");
}

/* Checks a loss of the parameters of an objective; `by` NULL: of all. */
static void check_loss(dl_elab *E, const dl_value *loss, dl_span where, const char *what,
                       const char *by) {
    const dl_graph *g = E->b.graph;
    const char *own = by ? "its parameters" : "the model's parameters";
    const unsigned char *path = find_paths(E, g, by);
    if (path[loss->id] & ACTIVE) {
        warn_unreached(E, g, loss, where, what, by);
        return;
    }
    if (!path[loss->id]) {
        dl_bad(E, where, DL_DIAG_loss_without_parameters, "%s depends on none of %s", what, own);
        dl_help(E, "compute it from %s", by ? "what they make" : "the model's output");
        return;
    }
    const dl_node *block = find_block(path, loss);
    dl_bad(E, where, DL_DIAG_loss_without_gradient, "no gradient of %s reaches one of %s%s%s%s",
           what, own, block ? ": that of '" : "", block ? dl_ops[block->op].name : "",
           block ? "' is zero everywhere" : "");
    dl_help(E, "use a smooth measure for the loss, and keep counts for metrics");
}

void dl_check_loss(dl_elab *E) {
    const dl_graph *g = E->b.graph;
    const dl_result *loss = dl_graph_find_result(g, DL_RESULT_LOSS, NULL);
    const dl_val *named = dl_scope_find(E->scope, dl_intern("loss"));
    if (!loss || dl_is_partial(E)) return;
    bool any = false;
    for (int i = 0; i < g->vars.n; i++) any |= g->vars.at[i]->role == DL_VAR_PARAM;
    if (!any) {
        dl_bad(E, E->model->at, DL_DIAG_nothing_to_train,
               "the model '%s' has no parameters: nothing can be trained", E->model->name);
        return;
    }
    for (int i = 0; i < E->objectives.n; i++) {
        const dl_objective *o = &E->objectives.at[i];
        if (o->value)
            check_loss(E, o->value, o->loss.origin,
                       dl_format(E->arena, "the loss of '%s'", o->name), o->name);
    }
    if (!E->objectives.n && named) check_loss(E, loss->value, named->origin, "the loss", NULL);
}
