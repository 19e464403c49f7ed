/* The op `grad`: the gradient of one value of the model by another, as an ordinary value of the
 * graph. It is lowered where it stands, when all nodes before it are: so it can be read, and
 * differentiated, by later ones, and by autodiff. */
#include "ir/walk.h"
#include "passes/grad/backward.h"
#include "passes/lower/lower.h"

dl_value *dl_lower_grad(dl_builder *b, const dl_node *n) {
    dl_lowering *l = dl_lowering_of(b);
    return dl_build_gradient(b, n->in[0], n->in[1], l->arena, l->err);
}

const bool *dl_lower_find_twice(const dl_graph *g, dl_arena *arena) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) any |= g->nodes.at[i]->op == DL_OP_grad;
    if (!any) return NULL;
    bool *after = DL_NEWS(arena, bool, g->next_id), *before = DL_NEWS(arena, bool, g->next_id);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (n->op == DL_OP_grad) before[n->in[0]->id] = after[n->in[1]->id] = true;
    }
    /* A value may be an operand of a later node of `grad`, so that all are marked first. */
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        bool reached = false;
        for (int k = 0; k < n->nin; k++) reached |= after[n->in[k]->id];
        for (int k = 0; k < n->nout; k++) after[n->out[k].id] |= reached;
    }
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        bool reaches = false;
        for (int k = 0; k < n->nout; k++) reaches |= before[n->out[k].id];
        for (int k = 0; reaches && k < n->nin; k++) before[n->in[k]->id] = true;
    }
    for (uint32_t i = 0; i < g->next_id; i++) after[i] &= before[i];
    return after;
}
