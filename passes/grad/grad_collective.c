/* Gradients of collectives, as passes/parallel/shard.h uses them. A replicated value has its
 * whole gradient on every rank, or, after an `enter`, a partial one on each rank. A shard has
 * the gradient of its own elements. */
#include "ir/collective.h"
#include "passes/grad/grad.h"

/* The name of the value's node, for messages. */
static dl_attr of_node(const dl_grad *g) {
    const dl_attr *of = dl_node_attr(g->node, DL_ATTR_of);
    return of ? *of : dl_attr_of(g->b->graph, "a gradient");
}

static dl_value *scale_gradient(const dl_grad *g, dl_value *v, double by) {
    dl_attr value = dl_attr_float(DL_ATTR_value, by);
    return dl_build(g->b, DL_OP_scale_gradient, 1, &v, 1, &value);
}

/* Gradients that are differentiated themselves follow the rules that passes/parallel/global_batch.c
 * has for values: after a sum over the ranks its result is equal on all of them, and its own
 * gradient is the ranks' share of the total. */
void dl_grad_enter(dl_grad *g) {
    dl_attr at[] = {*dl_node_attr(g->node, DL_ATTR_group), *dl_node_attr(g->node, DL_ATTR_ranks),
                    of_node(g)};
    if (!dl_grad_wanted(g, 0)) return;
    dl_value *sum = dl_build(g->b, DL_OP_all_reduce, 1, &g->dy, 3, at);
    if (g->again) sum = scale_gradient(g, sum, (double)dl_node_int(g->node, DL_ATTR_ranks));
    dl_grad_give(g, 0, sum);
}

/* Every rank's term has the gradient of the sum. From here on it is a rank's own. */
void dl_grad_all_reduce(dl_grad *g) {
    dl_attr at[] = {*dl_node_attr(g->node, DL_ATTR_group), *dl_node_attr(g->node, DL_ATTR_ranks),
                    of_node(g)};
    dl_value *dy = g->dy;
    if (g->node->nin > 1) {
        dl_grad_none(g); /* a bucket: only its first result would have a gradient */
        return;
    }
    if (g->again)
        dy = scale_gradient(g, dl_build(g->b, DL_OP_enter, 1, &dy, 3, at),
                            1.0 / (double)dl_node_int(g->node, DL_ATTR_ranks));
    dl_grad_give(g, 0, dy);
}

void dl_grad_all_gather(dl_grad *g) {
    const dl_node *n = g->node;
    const dl_attr *alike = dl_node_attr(n, DL_ATTR_alike), *axis = dl_node_attr(n, DL_ATTR_axis);
    if (!dl_grad_wanted(g, 0)) return;
    if (alike && alike->i) {
        dl_share own = dl_share_of(dl_node_attr(n, DL_ATTR_size)->ints[0],
                                   dl_node_int(n, DL_ATTR_ranks), dl_node_int(n, DL_ATTR_rank));
        dl_attr at[] = {*axis, dl_attr_int(DL_ATTR_start, own.first),
                        dl_attr_int(DL_ATTR_stop, own.first + own.n)};
        dl_grad_give(g, 0, dl_build(g->b, DL_OP_slice, 1, &g->dy, 3, at));
        return;
    }
    dl_attr at[] = {*axis, *dl_node_attr(n, DL_ATTR_group), *dl_node_attr(n, DL_ATTR_ranks),
                    *dl_node_attr(n, DL_ATTR_rank)};
    dl_grad_give(g, 0, dl_build(g->b, DL_OP_reduce_scatter, 1, &g->dy, 4, at));
}

/* Every rank's term has the gradient of the whole sum, of which each rank has a shard: it is
 * gathered. */
void dl_grad_reduce_scatter(dl_grad *g) {
    const dl_node *n = g->node;
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    const dl_type *whole = &n->in[0]->type;
    dl_attr at[] = {*dl_node_attr(n, DL_ATTR_axis),
                    dl_attr_ints(DL_ATTR_size, 1, &whole->axis[dl_type_axis(whole, axis)].size),
                    *dl_node_attr(n, DL_ATTR_group), *dl_node_attr(n, DL_ATTR_ranks),
                    *dl_node_attr(n, DL_ATTR_rank)};
    if (dl_grad_wanted(g, 0))
        dl_grad_give(g, 0, dl_build(g->b, DL_OP_all_gather, 1, &g->dy, 5, at));
}
