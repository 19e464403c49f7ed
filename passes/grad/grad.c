/* Functions that all gradient rules share: they ask whether a gradient is wanted, add
 * contributions, and report that there is no gradient. */
#include "passes/grad/grad.h"

bool dl_grad_wanted(const dl_grad *g, int operand) { return g->active[g->node->in[operand]->id]; }

/* Reduces `v` to `type`: sums over the axes that implicit broadcasting added, then permutes the
 * remaining axes. `type` has no axis that v lacks, except axes of size 1 without a name. */
static dl_value *reduce_to(dl_builder *b, dl_value *v, const dl_type *type) {
    const char *over[DL_MAX_RANK];
    int n = 0;
    for (int i = 0; i < v->type.rank; i++) {
        const char *name = v->type.axis[i].name;
        if (*name && dl_type_axis(type, name) < 0) over[n++] = name;
    }
    if (n) v = dl_grad_factored_sum(b, v, n, over);
    return dl_build_broadcast(b, v, *type);
}

void dl_grad_give(dl_grad *g, int operand, dl_value *contribution) {
    dl_grad_give_to(g, g->node->in[operand], contribution);
}

void dl_grad_give_to(dl_grad *g, const dl_value *v, dl_value *contribution) {
    if (!g->active[v->id]) return;
    dl_value **sum = &g->grads[v->id];
    contribution = reduce_to(g->b, contribution, &v->type);
    /* An axis without a name takes no part in the addition, and is restored after it. */
    if (*sum)
        contribution = reduce_to(g->b, dl_build2(g->b, DL_OP_add, *sum, contribution), &v->type);
    *sum = contribution;
}

/* A parameter needs a gradient that the op cannot provide: a fault of the model, or an op that
 * is not differentiated yet. */
void dl_grad_none(dl_grad *g) { dl_fail_op(g->b->graph, g->node, g->err); }
