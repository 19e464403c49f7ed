/* Scans (ir/body.h) without what nobody reads: outputs, states that nothing depends on, and
 * variables of the body. */
#include "ir/body.h"
#include "ir/walk.h"
#include "passes/simplify/simplify.h"

static bool is_read(const dl_uses *uses, const dl_value *v) {
    return uses[v->id].n || uses[v->id].results;
}

/* Drops the results that the graph around does not read: of a state, its variable must be unread,
 * too, but for its own next value. Sets kept[] to their former numbers. */
static int drop_results(const dl_node *n, const dl_uses *around, dl_arena *arena, int *kept) {
    dl_graph *body = n->body;
    const dl_uses *own = dl_graph_uses(body, arena);
    int left = 0;
    for (int k = 0; k < body->results.n; k++) {
        const dl_result r = body->results.at[k];
        bool read = is_read(around, &n->out[k]);
        if (r.role == DL_RESULT_UPDATE && !read) {
            const dl_uses *u = &own[r.var->value.id];
            read = u->n || u->results > (r.value == &r.var->value);
        }
        if (!read) continue;
        kept[left] = k, body->results.at[left++] = r;
    }
    body->results.n = left;
    return left;
}

/* Drops the variables that the body does not read, other than states with a result. */
static int drop_vars(dl_graph *body, dl_value **in, dl_arena *arena) {
    const dl_uses *own = dl_graph_uses(body, arena);
    int left = 0;
    for (int k = 0; k < body->vars.n; k++) {
        dl_var *v = body->vars.at[k];
        bool read = is_read(own, &v->value);
        for (int i = 0; i < body->results.n; i++) read |= body->results.at[i].var == v;
        if (!read) continue;
        in[left] = in[k], body->vars.at[left++] = v;
    }
    body->vars.n = left;
    return left;
}

static bool shrink(dl_graph *g, int at, const dl_uses *around, dl_arena *arena) {
    dl_node *n = g->nodes.at[at];
    bool any = false;
    for (int k = 0; k < n->nout; k++) any |= is_read(around, &n->out[k]);
    if (!any) return false; /* dead code as a whole */
    int *kept = DL_NEWS(arena, int, n->nout);
    const int results = drop_results(n, around, arena, kept);
    if (results < n->nout) dl_graph_sweep(n->body);
    const int vars = drop_vars(n->body, n->in, arena);
    if (results == n->nout && vars == n->nin) return false;
    dl_type *types = DL_NEWS(arena, dl_type, results);
    for (int k = 0; k < results; k++) types[k] = n->out[kept[k]].type;
    dl_node *made = dl_node_new(g, n->op, vars, n->in, results, types, n->loc);
    for (int k = 0; k < n->nattrs; k++) dl_node_set(g, made, n->attrs[k]);
    made->body = n->body;
    for (int k = 0; k < results; k++) dl_replace_value(g, &n->out[kept[k]], &made->out[k]);
    g->nodes.at[at] = made;
    return true;
}

bool dl_simplify_bodies(dl_graph *g, dl_arena *arena) {
    bool changed = false, any = false;
    for (int i = 0; i < g->nodes.n; i++) any |= g->nodes.at[i]->body != NULL;
    if (!any) return false;
    const dl_uses *around = dl_graph_uses(g, arena);
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->body) changed |= shrink(g, i, around, arena);
    return changed;
}
