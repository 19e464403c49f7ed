#include "ir/walk.h"

dl_uses *dl_graph_uses(const dl_graph *g, dl_arena *arena) {
    dl_uses *uses = DL_NEWS(arena, dl_uses, g->next_id ? g->next_id : 1);
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = 0; j < g->nodes.at[i]->nin; j++) uses[g->nodes.at[i]->in[j]->id].n++;
    for (uint32_t id = 0; id < g->next_id; id++)
        if (uses[id].n) uses[id].readers = DL_NEWS(arena, dl_node *, uses[id].n), uses[id].n = 0;
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = 0; j < g->nodes.at[i]->nin; j++) {
            dl_uses *u = &uses[g->nodes.at[i]->in[j]->id];
            u->readers[u->n++] = g->nodes.at[i];
        }
    for (int i = 0; i < g->results.n; i++) uses[g->results.at[i].value->id].results++;
    return uses;
}

void dl_replace_value(dl_graph *g, dl_value *from, dl_value *to) {
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = 0; j < g->nodes.at[i]->nin; j++)
            if (g->nodes.at[i]->in[j] == from) g->nodes.at[i]->in[j] = to;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].value == from) g->results.at[i].value = to;
}

/* Backwards: by the time a node is met, all who might read it have been. */
bool dl_graph_sweep(dl_graph *g) {
    dl_arena *scratch = dl_arena_new(NULL);
    bool *read = DL_NEWS(scratch, bool, g->next_id ? g->next_id : 1);
    bool *keep = DL_NEWS(scratch, bool, g->nodes.n ? g->nodes.n : 1);
    for (int i = 0; i < g->results.n; i++) read[g->results.at[i].value->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        for (int j = 0; j < n->nout; j++) keep[i] |= read[n->out[j].id];
        for (int j = 0; keep[i] && j < n->nin; j++) read[n->in[j]->id] = true;
    }
    int kept = 0, before = g->nodes.n;
    for (int i = 0; i < before; i++)
        if (keep[i]) g->nodes.at[kept++] = g->nodes.at[i];
    g->nodes.n = kept;
    dl_arena_free(scratch);
    return kept < before;
}

/* Positions of ready nodes, the smallest at the root. */
typedef struct {
    int *at, n;
} heap;

static void heap_put(heap *h, int position) {
    int i = h->n++;
    for (int up; i > 0 && h->at[up = (i - 1) / 2] > position; i = up) h->at[i] = h->at[up];
    h->at[i] = position;
}

static int heap_take(heap *h) {
    int least = h->at[0], last = h->at[--h->n], i = 0;
    for (int child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && h->at[child + 1] < h->at[child]) child++;
        if (h->at[child] >= last) break;
        h->at[i] = h->at[child];
    }
    h->at[i] = last;
    return least;
}

/* Kahn's algorithm with a heap of earlier positions (Commun. ACM 5(11), 1962): O(edges + nodes log nodes). */
void dl_graph_sort(dl_graph *g) {
    int count = g->nodes.n;
    if (count == 0) return;
    dl_arena *scratch = dl_arena_new(NULL);
    int *position =
        DL_NEWS(scratch, int, g->next_id);     /* of the node that makes a value, plus 1; 0: none here */
    int *waits = DL_NEWS(scratch, int, count); /* operands not placed yet */
    int *nreaders = DL_NEWS(scratch, int, count), **readers = DL_NEWS(scratch, int *, count);
    dl_node **old = DL_NEWS(scratch, dl_node *, count);
    memcpy(old, g->nodes.at, sizeof *old * (size_t)count);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < old[i]->nout; j++) position[old[i]->out[j].id] = i + 1;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < old[i]->nin; j++)
            if (position[old[i]->in[j]->id]) nreaders[position[old[i]->in[j]->id] - 1]++;
    for (int i = 0; i < count; i++) readers[i] = DL_NEWS(scratch, int, nreaders[i] + 1), nreaders[i] = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < old[i]->nin; j++) {
            int maker = position[old[i]->in[j]->id] - 1;
            if (maker >= 0) readers[maker][nreaders[maker]++] = i, waits[i]++;
        }
    heap ready = {DL_NEWS(scratch, int, count), 0};
    for (int i = 0; i < count; i++)
        if (!waits[i]) heap_put(&ready, i);
    int placed = 0;
    while (ready.n) {
        int i = heap_take(&ready);
        g->nodes.at[placed++] = old[i];
        for (int j = 0; j < nreaders[i]; j++)
            if (--waits[readers[i][j]] == 0) heap_put(&ready, readers[i][j]);
    }
    DL_CHECK(placed == count); /* else the nodes form a cycle */
    dl_arena_free(scratch);
}
