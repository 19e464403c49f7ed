#include "passes/parallel/waits.h"
#include "passes/parallel/order_collectives.h"

typedef void add_fn(dl_waits *w, int before, int then, dl_var *read, bool begins);

static void each_wait(dl_waits *w, const dl_graph *g, add_fn *add) {
    for (int i = 0; i < w->n; i++)
        for (int k = 0; k < w->node[i]->nin; k++) {
            const dl_value *v = w->node[i]->in[k];
            if (v->def) add(w, w->position[v->id], i, NULL, false);
        }
    for (int r = 0; r < g->results.n; r++) {
        const dl_result *res = &g->results.at[r];
        if (res->role != DL_RESULT_UPDATE || !res->value->def) continue;
        int writer = w->position[res->value->id];
        const dl_uses *u = &w->uses[res->var->value.id];
        for (int k = 0; k < u->n; k++)
            if (u->readers[k] != w->node[writer])
                add(w, w->position[u->readers[k]->out[0].id], writer, res->var, false);
    }
    int n;
    dl_node **line = dl_in_sequence(g, w->arena, &n);
    for (int i = 1; i < n; i++)
        add(w, w->position[line[i - 1]->out[0].id], w->position[line[i]->out[0].id], NULL, true);
}

static void count_wait(dl_waits *w, int before, int then, dl_var *read, bool begins) {
    (void)read, (void)begins;
    w->nafter[before]++, w->nbefore[then]++;
}

static void note_wait(dl_waits *w, int before, int then, dl_var *read, bool begins) {
    w->after[before][w->nafter[before]++] = (dl_wait){then, read, begins};
    w->before[then][w->nbefore[then]++] = (dl_wait){before, read, begins};
}

dl_waits dl_find_waits(const dl_graph *g, dl_arena *arena) {
    int n = g->nodes.n;
    dl_waits w = {.n = n, .arena = arena, .uses = dl_graph_uses(g, arena)};
    w.node = DL_NEWS(arena, dl_node *, n), w.position = DL_NEWS(arena, int, g->next_id);
    w.nafter = DL_NEWS(arena, int, n), w.nbefore = DL_NEWS(arena, int, n);
    w.after = DL_NEWS(arena, dl_wait *, n), w.before = DL_NEWS(arena, dl_wait *, n);
    if (n) memcpy(w.node, g->nodes.at, sizeof *w.node * (size_t)n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < w.node[i]->nout; k++) w.position[w.node[i]->out[k].id] = i;
    each_wait(&w, g, count_wait);
    for (int i = 0; i < n; i++) {
        w.after[i] = DL_NEWS(arena, dl_wait, w.nafter[i]),
        w.before[i] = DL_NEWS(arena, dl_wait, w.nbefore[i]);
        w.nafter[i] = w.nbefore[i] = 0;
    }
    each_wait(&w, g, note_wait);
    return w;
}
