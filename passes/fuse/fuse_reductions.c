/* Before fusion: reductions as kernels have them. */
#include "passes/fuse/fuse.h"

void dl_fuse_lower_reductions(dl_graph *g, dl_arena *arena) {
    dl_node **old = g->nodes.at;
    int n = g->nodes.n;
    dl_value **now =
        DL_NEWS(arena, dl_value *, g->next_id + 1); /* by id: the value that replaces it, or NULL */
    uint32_t known = g->next_id;
    g->nodes.at = NULL, g->nodes.n = g->nodes.cap = 0;
    for (int i = 0; i < n; i++) {
        dl_node *r = old[i];
        for (int k = 0; k < r->nin; k++)
            if (r->in[k]->id < known && now[r->in[k]->id]) r->in[k] = now[r->in[k]->id];
        if (dl_ops[r->op].class == DL_CLASS_REDUCE && dl_node_attr(r, DL_ATTR_over)->n == 0) {
            now[r->out[0].id] = r->in[0];
            continue;
        }
        if (r->op == DL_OP_first_max) r->op = DL_OP_reduce_max;
        if (r->op != DL_OP_mean) {
            dl_push(g->module->arena, &g->nodes, r);
            continue;
        }
        dl_type scalar = dl_scalar(r->out[0].type.dtype);
        dl_node *sum = dl_node_append(g, DL_OP_sum, 1, r->in, 1, &r->out[0].type, r->loc);
        dl_node_set(g, sum, *dl_node_attr(r, DL_ATTR_over));
        dl_node *share = dl_node_append(g, DL_OP_const, 0, NULL, 1, &scalar, r->loc);
        double count =
            (double)dl_type_count(&r->in[0]->type) / (double)dl_type_count(&r->out[0].type);
        dl_node_set(g, share, (dl_attr){.id = DL_ATTR_value, .f = 1 / count});
        dl_value *in[] = {&sum->out[0], &share->out[0]};
        r->op = DL_OP_mul, r->nattrs = 0, r->nin = 2;
        r->in = DL_NEWS(g->module->arena, dl_value *, 2);
        r->in[0] = in[0], r->in[1] = in[1];
        dl_push(g->module->arena, &g->nodes, r);
    }
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (r->value->id < known && now[r->value->id]) r->value = now[r->value->id];
    }
}
