/* grad(y, x): the gradient of one number by a tensor that it is computed from. The node says which;
 * the pass `lower` differentiates. */
#include "frontends/dl/builtin.h"

/* Marks all values that y is computed from, by value id. */
static bool *find_origins(dl_elab *E, const dl_value *y) {
    const dl_graph *g = E->b.graph;
    bool *needed = DL_NEWS(E->arena, bool, g->next_id);
    needed[y->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        bool any = false;
        for (int k = 0; k < n->nout; k++) any |= needed[n->out[k].id];
        for (int k = 0; any && k < n->nin; k++) needed[n->in[k]->id] = true;
    }
    return needed;
}

/* Reports a tensor that y is not computed from. It may be a part of one, or a renamed one. */
static dl_val fail_independent(dl_call *c, const bool *needed) {
    const dl_value *of = c->arg[1].t;
    while (of->def && of->def->nin && !needed[of->id]) of = of->def->in[0];
    dl_bad(c->E, c->ast[1] ? c->ast[1]->at : c->where, DL_DIAG_bad_argument,
           "grad: %s does not depend on %s, so that there is no gradient",
           dl_val_words(c->E, c->arg[0], "the first argument"),
           dl_val_words(c->E, c->arg[1], "the second one"));
    if (needed[of->id])
        dl_help(c->E, "this is computed from a tensor that it depends on: take the gradient by "
                      "that one, and then its part: grad(sum(u), x)[D=0]");
    else
        dl_help(c->E, "compute the first argument from the second one, before this line");
    return dl_poison();
}

dl_val dl_fn_grad(dl_call *c) {
    const dl_val y = c->arg[0], x = c->arg[1];
    if (y.kind != DL_V_TENSOR || x.kind != DL_V_TENSOR) return dl_poison();
    if (!dl_spend(c->E, c->where, c->E->b.graph->nodes.n / 8)) return dl_poison();
    if (dl_dtype_is_float(y.t->type.dtype) && !y.t->type.rank) {
        const bool *needed = find_origins(c->E, y.t);
        if (!needed[x.t->id]) return fail_independent(c, needed);
    }
    return dl_tensor_op(c->E, c->where, DL_OP_grad, 2, c->arg, 0, NULL, NULL);
}
