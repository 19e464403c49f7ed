/* Values that cost less to compute again than to keep: what is made of no tensor at all, but of where an
 * element stands and of what is drawn there (masks of dropout, of classes, of causality). Each of several
 * readers gets a copy of its own, which fusion takes into the reader's kernel; otherwise the forward half
 * would store the mask for the backward half. */
#include "ir/builder.h"
#include "passes/pass.h"

typedef DL_ARRAY(dl_node *) node_list;

/* By value id: is it made of places alone? */
static bool *find_free(const dl_graph *g, dl_arena *arena) {
    bool *is_free = DL_NEWS(arena, bool, g->next_id + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        bool of_free = dl_op_is_cheap(n->op);
        for (int k = 0; k < n->nin; k++) of_free = of_free && is_free[n->in[k]->id];
        is_free[n->out[0].id] = of_free || dl_ops[n->op].class == DL_CLASS_SOURCE;
    }
    return is_free;
}

/* Does it read the value at its own points, so that one kernel may hold both? */
static bool reads_in_place(const dl_node *reader, const dl_value *v) {
    return dl_ops[reader->op].class == DL_CLASS_ELEM &&
           dl_type_count(&reader->out[0].type) == dl_type_count(&v->type);
}

bool dl_pass_recompute(dl_graph *g, dl_pass_ctx *ctx) {
    bool *is_free = find_free(g, ctx->arena), changed = false;
    node_list *readers = DL_NEWS(ctx->arena, node_list, g->next_id + 1);
    node_list made = {0}; /* the new order, from its end */
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        dl_node *n = g->nodes.at[i];
        int first = made.n, copied = 0;
        const dl_node *last = NULL;
        const node_list *of = &readers[n->out[0].id];
        bool again =
            n->nin && is_free[n->out[0].id] && dl_ops[n->op].class == DL_CLASS_ELEM && n->out[0].type.rank;
        for (int k = 0; again && k < of->n; k++) {
            dl_node *reader = of->at[k]; /* a node that reads it twice stands there twice in a row */
            if (reader == last || !reads_in_place(reader, &n->out[0])) continue;
            last = reader;
            if (copied++ == 0) continue; /* the first keeps the original */
            dl_node *copy = dl_node_new(g, n->op, n->nin, n->in, 1, &n->out[0].type, n->loc);
            for (int a = 0; a < n->nattrs; a++) dl_node_set(g, copy, n->attrs[a]);
            dl_push(ctx->arena, &made, copy);
            for (int a = 0; a < reader->nin; a++)
                if (reader->in[a] == &n->out[0]) reader->in[a] = &copy->out[0];
            changed = true;
        }
        dl_push(ctx->arena, &made, n);
        for (int j = first; j < made.n; j++)
            for (int k = 0; k < made.at[j]->nin; k++)
                dl_push(ctx->arena, &readers[made.at[j]->in[k]->id], made.at[j]);
    }
    while (g->nodes.n < made.n) dl_push(g->module->arena, &g->nodes, NULL);
    for (int i = 0; i < made.n; i++) g->nodes.at[i] = made.at[made.n - 1 - i];
    return changed;
}
