/* Results of bodies (ir/body.h) before fusion. */
#include "passes/fuse/fuse.h"

static dl_value *copy_of(dl_graph *g, dl_value *v) {
    dl_loc loc = v->def ? v->def->loc : v->var->loc;
    dl_node *n = dl_node_append(g, DL_OP_relayout, 1, &v, 1, &v->type, loc);
    return &n->out[0];
}

void dl_fuse_own_results(dl_graph *g) {
    dl_arena *scratch = dl_arena_new(NULL);
    const uint32_t known = g->next_id;
    bool *taken = DL_NEWS(scratch, bool, known + 1);
    for (int i = 0; i < g->results.n && g->is_body; i++) {
        dl_result *r = &g->results.at[i];
        bool own = r->value->def && !r->value->def->body && !taken[r->value->id];
        taken[r->value->id] = true;
        if (!own) r->value = copy_of(g, r->value);
    }
    dl_arena_free(scratch);
}
