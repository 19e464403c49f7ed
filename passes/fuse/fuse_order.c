/* Fusion: refuses joins that close a circle of kernels.
 *
 * Groups are in a line in which they could run, from the last to the first, because nodes are
 * visited from the end of the graph. Each edge leads from a position to a lower one. So a path
 * between two groups runs between their positions only, and the search is limited to these:
 * Pearce and Kelly, A dynamic topological sort algorithm for directed acyclic graphs, ACM J.
 * Exp. Algorithmics 11, 2007. */
#include "passes/fuse/fuse.h"

/* A search for group `goal`. It marks the groups that it can reach, and visits those nearest to
 * the goal first, because edges from a forward pass to its backward pass skip most of the line. */
typedef struct {
    dl_fusion *f;
    int goal, number;
} search;

static search new_search(dl_fusion *f, int goal) {
    f->next.n = 0;
    return (search){f, goal, ++f->searches};
}

/* True when the group is the goal. A group after the goal cannot lead to it. */
static bool look_at(search *s, int group) {
    dl_group *g = &s->f->groups.at[group];
    if (group == s->goal) return true;
    if (g->seen == s->number || g->place < s->f->groups.at[s->goal].place) return false;
    g->seen = s->number;
    dl_heap_put(s->f->ctx->arena, &s->f->next, g->place, group);
    return false;
}

static bool finish(search *s) {
    while (s->f->next.n) {
        int from = dl_heap_take(&s->f->next);
        const dl_group *g = &s->f->groups.at[from];
        for (int i = 0; i < g->out.n; i++) {
            int to = s->f->group[g->out.at[i].node];
            if (to != from && look_at(s, to)) return true;
        }
    }
    return false;
}

/* Reorders the line between `low`, the present or former position of group `at`, and `high`:
 * groups that the search has seen run after `at`, the others before it. */
static void reorder(dl_fusion *f, const search *s, int at, int low, int high) {
    int to = low;
    f->rest.n = 0;
    for (int i = low; i <= high; i++) {
        int g = f->line.at[i];
        if (g < 0 || g == at) continue;
        if (f->groups.at[g].seen != s->number)
            dl_push(f->ctx->arena, &f->rest, g);
        else
            f->line.at[to] = g, f->groups.at[g].place = to++;
    }
    f->line.at[to] = at, f->groups.at[at].place = to++;
    for (int i = 0; i < f->rest.n; i++)
        f->line.at[to] = f->rest.at[i], f->groups.at[f->rest.at[i]].place = to++;
    while (to <= high) f->line.at[to++] = -1;
}

int dl_fuse_new_group(dl_fusion *f, int node) {
    const dl_node *n = f->graph->nodes.at[node];
    dl_push(f->ctx->arena, &f->groups,
            (dl_group){.alive = true,
                       .wide = dl_fuse_is_wide(n),
                       .space = (n->op == DL_OP_scatter_add ? n->in[0] : &n->out[0])->type,
                       .place = f->line.n});
    dl_push(f->ctx->arena, &f->line, f->groups.n - 1);
    return f->groups.n - 1;
}

bool dl_fuse_order_join(dl_fusion *f, int node, int at) {
    search s = new_search(f, at);
    int low = f->groups.at[at].place, high = low;
    for (int i = 0; i < f->out[node].n; i++) {
        dl_edge e = f->out[node].at[i];
        int to = f->group[e.node];
        if (to < 0 || (to == at && e.kind != DL_EDGE_HARD)) continue;
        if (look_at(&s, to)) return false;
        if (f->groups.at[to].place > high) high = f->groups.at[to].place;
    }
    if (finish(&s)) return false;
    if (high > low) reorder(f, &s, at, low, high);
    return true;
}

bool dl_fuse_order_merge(dl_fusion *f, int a, int b) {
    bool a_first = f->groups.at[a].place > f->groups.at[b].place;
    int from = a_first ? a : b, to = a_first ? b : a;
    const dl_group *g = &f->groups.at[from];
    search s = new_search(f, to);
    for (int i = 0; i < g->out.n; i++) {
        dl_edge e = g->out.at[i];
        int next = f->group[e.node];
        if (next == from || (next == to && e.kind != DL_EDGE_HARD)) continue;
        if (look_at(&s, next)) return false;
    }
    if (finish(&s)) return false;
    int low = f->groups.at[to].place, high = g->place;
    f->line.at[f->groups.at[b].place] = -1;
    reorder(f, &s, a, low, high);
    return true;
}

int dl_fuse_order_groups(dl_fusion *f, int *order) {
    dl_arena *arena = f->ctx->arena;
    int *waits = DL_NEWS(arena, int, f->groups.n + 1), n = 0;
    dl_heap ready = {0};
    for (int g = 0; g < f->groups.n; g++)
        for (int i = 0; i < f->groups.at[g].out.n; i++)
            waits[f->group[f->groups.at[g].out.at[i].node]]++;
    for (int g = 0; g < f->groups.n; g++) {
        const dl_group *x = &f->groups.at[g];
        for (int i = 0; i < x->out.n; i++)
            if (f->group[x->out.at[i].node] == g) waits[g]--;
    }
    /* among the groups that can run, takes the one whose last member is first in the program */
    int *last = DL_NEWS(arena, int, f->groups.n + 1);
    for (int i = 0; i < f->n; i++)
        if (f->group[i] >= 0) last[f->group[i]] = i;
    for (int g = 0; g < f->groups.n; g++)
        if (f->groups.at[g].alive && !waits[g]) dl_heap_put(arena, &ready, last[g], g);
    while (ready.n) {
        int g = order[n++] = dl_heap_take(&ready);
        const dl_group *x = &f->groups.at[g];
        for (int i = 0; i < x->out.n; i++) {
            int to = f->group[x->out.at[i].node];
            if (to != g && --waits[to] == 0) dl_heap_put(arena, &ready, last[to], to);
        }
    }
    return n;
}
