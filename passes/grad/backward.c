/* The walk of reverse mode, which the pass autodiff takes for the parameters, and the op `grad` of
 * the language for any value. */
#include "passes/grad/backward.h"

#include "passes/grad/grad.h"

static dl_grad_rule *const rules[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) dl_grad_##grad,
#include "ir/ops.def"
#undef OP
};

void dl_grad_find_active(const dl_graph *g, bool *active) {
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (rules[n->op] == dl_grad_zero) continue;
        bool any = false;
        for (int k = 0; k < n->nin; k++) any = any || active[n->in[k]->id];
        for (int k = 0; any && k < n->nout; k++)
            active[n->out[k].id] |= dl_dtype_is_float(n->out[k].type.dtype);
    }
}

static const dl_grad_walker walker = {dl_grad_find_active, dl_grad_new, dl_grad_walk};

dl_grad dl_grad_new(dl_builder *b, bool *active, bool again, dl_arena *arena, dl_error *err) {
    uint32_t ids = b->graph->next_id;
    return (dl_grad){.b = b,
                     .active = active,
                     .again = again,
                     .grads = DL_NEWS(arena, dl_value *, ids),
                     .uses = dl_graph_uses(b->graph, arena),
                     .pieces = DL_NEWS(arena, dl_grad_pieces, ids),
                     .arena = arena,
                     .err = err,
                     .walker = &walker};
}

/* Takes the gradient of the node's result, of several the first: only a scan's others have one,
 * which its rule asks for. False: there is none. */
static bool take_gradient(dl_grad *g, const dl_node *n) {
    const dl_value *y = &n->out[0];
    g->dy = g->active[y->id] ? dl_grad_of(g, y) : NULL;
    bool any = g->dy != NULL;
    for (int k = 1; n->body && k < n->nout; k++)
        any |= g->active[n->out[k].id] && dl_grad_of(g, &n->out[k]);
    return any;
}

bool dl_grad_walk(dl_grad *g, int nodes, const dl_value *until) {
    for (int i = nodes - 1; i >= 0; i--) {
        const dl_node *n = g->b->graph->nodes.at[i];
        if (until && n == until->def) break;
        if (!take_gradient(g, n)) continue;
        g->node = n, g->at = i, g->b->loc = n->loc;
        rules[n->op](g);
        if (g->err->code != DL_OK) return false;
    }
    return true;
}

dl_value *dl_build_gradient(dl_builder *b, dl_value *y, dl_value *x, dl_arena *arena,
                            dl_error *err) {
    const dl_loc loc = b->loc;
    const int nodes = b->graph->nodes.n;
    bool *active = DL_NEWS(arena, bool, b->graph->next_id);
    active[x->id] = true;
    dl_grad_find_active(b->graph, active);
    dl_value *dx = NULL;
    if (active[y->id]) {
        dl_grad g = dl_grad_new(b, active, true, arena, err);
        g.grads[y->id] = dl_build_const(b, y->type.dtype, 1);
        if (!dl_grad_walk(&g, nodes, x)) return NULL;
        dx = dl_grad_of(&g, x);
    }
    b->loc = loc;
    if (!dx) dx = dl_build_const(b, x->type.dtype, 0);
    return dl_build_broadcast(b, dx, x->type);
}
