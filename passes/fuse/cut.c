#include "passes/fuse/cut.h"

dl_cut dl_cut_new(dl_arena *arena, int n) {
    dl_cut c = {.arena = arena, .n = n};
    c.of = dl_alloc_array(arena, (size_t)n, sizeof *c.of);
    return c;
}

void dl_cut_join(dl_cut *c, int from, int to, int64_t capacity) {
    int at = c->edges.n;
    dl_push(c->arena, &c->edges, (dl_cut_edge){to, at + 1, capacity});
    dl_push(c->arena, &c->edges, (dl_cut_edge){from, at, 0});
    dl_push(c->arena, &c->of[from], at);
    dl_push(c->arena, &c->of[to], at + 1);
}

/* Sends flow along a shortest path from source to sink, as much as its edges can take. False:
 * there is no such path. by: the edge by which a node was reached, -1: not reached; queue: room
 * for the nodes. */
static bool send(dl_cut *c, int source, int sink, int *by, int *queue) {
    int head = 0, tail = 0;
    for (int i = 0; i < c->n; i++) by[i] = -1;
    queue[tail++] = source;
    while (head < tail && by[sink] < 0) {
        int at = queue[head++];
        for (int i = 0; i < c->of[at].n; i++) {
            const dl_cut_edge *e = &c->edges.at[c->of[at].at[i]];
            if (e->left == 0 || e->to == source || by[e->to] >= 0) continue;
            by[e->to] = c->of[at].at[i];
            queue[tail++] = e->to;
        }
    }
    if (by[sink] < 0) return false;
    int64_t least = INT64_MAX;
    for (int at = sink; at != source; at = c->edges.at[c->edges.at[by[at]].twin].to)
        if (c->edges.at[by[at]].left < least) least = c->edges.at[by[at]].left;
    for (int at = sink; at != source;) {
        dl_cut_edge *e = &c->edges.at[by[at]], *back = &c->edges.at[e->twin];
        e->left -= least, back->left += least;
        at = back->to;
    }
    return true;
}

bool *dl_cut_find(dl_cut *c, int source, int sink) {
    int *by = DL_NEWS(c->arena, int, c->n), *queue = DL_NEWS(c->arena, int, c->n), head = 0,
        tail = 0;
    bool *sink_side = DL_NEWS(c->arena, bool, c->n);
    while (send(c, source, sink, by, queue)) {
    }
    queue[tail++] = sink, sink_side[sink] = true;
    while (head < tail) { /* all nodes from which the sink is still reachable */
        int at = queue[head++];
        for (int i = 0; i < c->of[at].n; i++) {
            const dl_cut_edge *e = &c->edges.at[c->of[at].at[i]];
            if (sink_side[e->to] || c->edges.at[e->twin].left == 0) continue;
            sink_side[e->to] = true;
            queue[tail++] = e->to;
        }
    }
    return sink_side;
}
