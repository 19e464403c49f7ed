/* Fusion: refuses joins that close a circle of kernels.
 *
 * Groups are in a line in which they could run, from the last to the first, because nodes are
 * visited from the end of the graph. Each edge leads from a position to a lower one. So a path
 * between two clusters runs between their positions only, and the search is limited to these:
 * Pearce and Kelly, A dynamic topological sort algorithm for directed acyclic graphs, ACM J.
 * Exp. Algorithmics 11, 2007. */
#include "passes/fuse/fuse.h"

/* A search for cluster `goal`. It marks the clusters that it can reach, and visits those nearest to
 * the goal first, because edges from a forward pass to its backward pass skip most of the line. */
typedef struct {
    dl_fusion *f;
    int goal, number;
} search;

static search new_search(dl_fusion *f, int goal) {
    f->next.n = 0;
    return (search){f, goal, ++f->searches};
}

/* True when the cluster is the goal. A cluster after the goal cannot lead to it. */
static bool look_at(search *s, int cluster) {
    dl_cluster *g = &s->f->clusters.at[cluster];
    if (cluster == s->goal) return true;
    if (g->seen == s->number || g->place < s->f->clusters.at[s->goal].place) return false;
    g->seen = s->number;
    dl_heap_put(s->f->ctx->arena, &s->f->next, g->place, cluster);
    return false;
}

static bool finish(search *s) {
    while (s->f->next.n) {
        int from = dl_heap_take(&s->f->next);
        const dl_cluster *g = &s->f->clusters.at[from];
        for (int i = 0; i < g->out.n; i++) {
            int to = s->f->cluster[g->out.at[i].node];
            if (to != from && look_at(s, to)) return true;
        }
    }
    return false;
}

/* Reorders the line between `low`, the present or former position of cluster `at`, and `high`:
 * clusters that the search has seen run after `at`, the others before it. */
static void reorder(dl_fusion *f, const search *s, int at, int low, int high) {
    int to = low;
    f->rest.n = 0;
    for (int i = low; i <= high; i++) {
        int g = f->line.at[i];
        if (g < 0 || g == at) continue;
        if (f->clusters.at[g].seen != s->number)
            dl_push(f->ctx->arena, &f->rest, g);
        else
            f->line.at[to] = g, f->clusters.at[g].place = to++;
    }
    f->line.at[to] = at, f->clusters.at[at].place = to++;
    for (int i = 0; i < f->rest.n; i++)
        f->line.at[to] = f->rest.at[i], f->clusters.at[f->rest.at[i]].place = to++;
    while (to <= high) f->line.at[to++] = -1;
}

int dl_fuse_new_cluster(dl_fusion *f, int node) {
    const dl_node *n = f->graph->nodes.at[node];
    dl_push(
        f->ctx->arena, &f->clusters,
        (dl_cluster){.alive = true,
                     .wide = dl_fuse_is_wide(n),
                     .space = (dl_op_move(n->op) == DL_MOVE_SCATTER ? n->in[0] : &n->out[0])->type,
                     .place = f->line.n});
    dl_push(f->ctx->arena, &f->line, f->clusters.n - 1);
    return f->clusters.n - 1;
}

bool dl_fuse_order_join(dl_fusion *f, int node, int at) {
    search s = new_search(f, at);
    int low = f->clusters.at[at].place, high = low;
    for (int i = 0; i < f->out[node].n; i++) {
        dl_edge e = f->out[node].at[i];
        int to = f->cluster[e.node];
        if (to < 0 || (to == at && e.kind != DL_EDGE_HARD)) continue;
        if (look_at(&s, to)) return false;
        if (f->clusters.at[to].place > high) high = f->clusters.at[to].place;
    }
    if (finish(&s)) return false;
    if (high > low) reorder(f, &s, at, low, high);
    return true;
}

bool dl_fuse_order_merge(dl_fusion *f, int a, int b) {
    bool a_first = f->clusters.at[a].place > f->clusters.at[b].place;
    int from = a_first ? a : b, to = a_first ? b : a;
    const dl_cluster *g = &f->clusters.at[from];
    search s = new_search(f, to);
    for (int i = 0; i < g->out.n; i++) {
        dl_edge e = g->out.at[i];
        int next = f->cluster[e.node];
        if (next == from || (next == to && e.kind != DL_EDGE_HARD)) continue;
        if (look_at(&s, next)) return false;
    }
    if (finish(&s)) return false;
    int low = f->clusters.at[to].place, high = g->place;
    f->line.at[f->clusters.at[b].place] = -1;
    reorder(f, &s, a, low, high);
    return true;
}

int dl_fuse_order_clusters(dl_fusion *f, int *order) {
    dl_arena *arena = f->ctx->arena;
    int *waits = DL_NEWS(arena, int, f->clusters.n + 1), n = 0;
    dl_heap ready = {0};
    for (int g = 0; g < f->clusters.n; g++)
        for (int i = 0; i < f->clusters.at[g].out.n; i++)
            waits[f->cluster[f->clusters.at[g].out.at[i].node]]++;
    for (int g = 0; g < f->clusters.n; g++) {
        const dl_cluster *x = &f->clusters.at[g];
        for (int i = 0; i < x->out.n; i++)
            if (f->cluster[x->out.at[i].node] == g) waits[g]--;
    }
    /* among the clusters that can run, takes the one whose last member is first in the program */
    int *last = DL_NEWS(arena, int, f->clusters.n + 1);
    for (int i = 0; i < f->n; i++)
        if (f->cluster[i] >= 0) last[f->cluster[i]] = i;
    for (int g = 0; g < f->clusters.n; g++)
        if (f->clusters.at[g].alive && !waits[g]) dl_heap_put(arena, &ready, last[g], g);
    while (ready.n) {
        int g = order[n++] = dl_heap_take(&ready);
        const dl_cluster *x = &f->clusters.at[g];
        for (int i = 0; i < x->out.n; i++) {
            int to = f->cluster[x->out.at[i].node];
            if (to != g && --waits[to] == 0) dl_heap_put(arena, &ready, last[to], to);
        }
    }
    return n;
}
