/* A graph as the front end built it, run with the ops' references. */
#include <stdlib.h>

#include "verify/parts.h"

/* Numbers random ops after those that have numbers already, in the order of nodes, as the compiler
 * does. */
static void number_draws(dl_written *w) {
    int next = 0;
    for (int i = 0; i < w->g->nodes.n; i++) {
        const dl_attr *number = dl_node_attr(w->g->nodes.at[i], DL_ATTR_number);
        if (number && number->i >= next) next = (int)number->i + 1;
    }
    for (int i = 0; i < w->g->nodes.n; i++)
        if (dl_reference_draws(w->g->nodes.at[i]))
            w->numbers[w->g->nodes.at[i]->out[0].id] = next++;
}

/* The nodes of a scan's body draw nothing, and are neither fixed nor looked at. */
static bool own(void *user, const dl_node *n, double *const *data) {
    dl_written *w = user;
    const uint32_t id = n->out[0].id;
    if (id >= w->g->next_id || w->nodes[id] != n) {
        if (!dl_reference_has(n->op)) return false;
        dl_reference_node(n, (const double *const *)data, data[n->nin], &w->draw);
        return true;
    }
    bool made = w->holds && dl_written_hold(w, n, data);
    if (!made && dl_reference_has(n->op)) dl_written_meaning(w, n, data), made = true;
    if (w->look) w->look(w->user, n, data);
    return made;
}

dl_written *dl_written_new(dl_arena *arena, const dl_graph *g, const dl_reference_draw *draw) {
    dl_written *w = DL_NEW(arena, dl_written);
    *w = (dl_written){.g = g, .in = dl_interp_new(g, false), .draw = *draw};
    w->numbers = DL_NEWS(arena, int, g->next_id + 1);
    w->nodes = DL_NEWS(arena, const dl_node *, g->next_id + 1);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nout; k++)
            w->nodes[g->nodes.at[i]->out[k].id] = g->nodes.at[i];
    w->held = DL_NEWS(arena, float *, g->next_id + 1),
    w->kept = DL_NEWS(arena, double *, g->next_id + 1);
    dl_interp_release(w->in);
    dl_interp_means(w->in, own, w);
    number_draws(w);
    return w;
}

bool dl_written_run(dl_written *w, dl_error *err) { return dl_interp_run(w->in, err); }

void dl_written_free(dl_written *w) {
    if (!w) return;
    for (uint32_t i = 0; i < w->g->next_id; i++) free(w->held[i]), free(w->kept[i]);
    dl_interp_free(w->in);
}
