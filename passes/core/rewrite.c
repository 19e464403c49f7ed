#include "passes/core/rewrite.h"

bool dl_rewrite(dl_graph *g, dl_arena *arena, dl_rewrite_rule *rule, void *user) {
    int n = g->nodes.n;
    uint32_t known = g->next_id;
    bool changed = false;
    dl_value **now = DL_NEWS(arena, dl_value *, known + 1); /* by value id: its replacement */
    dl_node **old = DL_NEWS(arena, dl_node *, n + 1);
    if (n) memcpy(old, g->nodes.at, sizeof *old * (size_t)n);
    g->nodes.n = 0;
    for (int i = 0; i < n; i++) {
        dl_value *made[DL_MAX_RESULTS] = {NULL};
        for (int k = 0; k < old[i]->nin; k++) {
            dl_value **in = &old[i]->in[k];
            if ((*in)->id < known && now[(*in)->id]) *in = now[(*in)->id];
        }
        if (rule(user, old[i], made)) {
            for (int k = 0; k < old[i]->nout; k++) now[old[i]->out[k].id] = made[k];
            changed = true;
        } else
            dl_push(g->module->arena, &g->nodes, old[i]);
    }
    for (int i = 0; i < g->results.n; i++) {
        dl_value **v = &g->results.at[i].value;
        if ((*v)->id < known && now[(*v)->id]) *v = now[(*v)->id];
    }
    return changed;
}
