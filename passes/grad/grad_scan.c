/* The gradients of a linear scan (ir/scan.h): a scan in the other direction, and its product with
 * the states. */
#include "ir/scan.h"
#include "passes/grad/grad.h"

/* The neighbour of each element along the scan's axis; 0: there is none. */
static dl_value *neighbour(dl_grad *g, dl_value *v, const dl_scan *s, int64_t start) {
    dl_affine at = {.axis = dl_node_name(g->node, DL_ATTR_axis),
                    .size = s->steps,
                    .stride = 1,
                    .start = start,
                    .outside = DL_OUT_ZERO};
    return dl_build_affine(g->b, v, at);
}

void dl_grad_scan_linear(dl_grad *g) {
    const dl_node *n = g->node;
    const dl_scan s = dl_scan_of(n);
    dl_value *in[] = {g->dy, s.has_factors ? n->in[DL_SCAN_A] : NULL};
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, dl_node_name(n, DL_ATTR_axis)),
                    dl_attr_name(DL_ATTR_mode, s.before ? "own" : "before"),
                    dl_attr_int(DL_ATTR_reverse, !s.reverse)};
    dl_value *db = dl_build(g->b, DL_OP_scan_linear, n->nin, in, 3, at);
    dl_grad_give(g, DL_SCAN_B, db);
    if (!s.has_factors || !dl_grad_wanted(g, DL_SCAN_A)) return;
    dl_value *h = &g->node->out[0];
    if (s.before) /* a[t] multiplies the state of step t in the next one */
        db = neighbour(g, db, &s, s.reverse ? -1 : 1);
    else
        h = neighbour(g, h, &s, s.reverse ? 1 : -1);
    dl_grad_give(g, DL_SCAN_A, dl_build2(g->b, DL_OP_mul, db, h));
}
