#include "ir/walk.h"

#include "ir/align.h"
#include "ir/base/heap.h"
#include "ir/collective.h"

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

int *dl_graph_waits(const dl_graph *g, dl_arena *arena) {
    int n = g->nodes.n, *waits = DL_NEWS(arena, int, n + 1),
        *maker = DL_NEWS(arena, int, g->next_id + 1);
    for (int i = 0; i < n; i++) {
        const dl_node *node = g->nodes.at[i];
        bool collective = dl_op_is_collective(node->op);
        waits[i] = collective ? n : -1;
        for (int k = 0; k < node->nout && collective; k++) maker[node->out[k].id] = i + 1;
        for (int k = 0; k < node->nin; k++) {
            int by = maker[node->in[k]->id] - 1;
            if (by >= 0 && waits[by] > i) waits[by] = i;
        }
    }
    int(*later)[DL_UNDER_WAY] = (int(*)[DL_UNDER_WAY])DL_NEWS(arena, int, DL_NOPS *DL_UNDER_WAY);
    for (int i = n - 1; i >= 0;
         i--) { /* the next collectives of each kind, by position plus 1; 0: there is none */
        int *own = later[g->nodes.at[i]->op], end = own[DL_UNDER_WAY - 1];
        if (waits[i] < 0) continue;
        if (waits[i] == n && end) waits[i] = end - 1;
        memmove(own + 1, own, sizeof *own * (DL_UNDER_WAY - 1));
        own[0] = i + 1;
    }
    return waits;
}

int64_t dl_reduced_at(const dl_node *n) {
    if (n->op == DL_OP_all_reduce) return 0;
    const dl_type *t = &n->in[0]->type;
    int axis = dl_type_axis(t, dl_node_name(n, DL_ATTR_axis));
    int64_t ranks = dl_node_int(n, DL_ATTR_ranks);
    dl_share own = dl_share_of(t->axis[axis].size, ranks, dl_node_int(n, DL_ATTR_rank));
    return own.first * dl_type_laid_around(t, axis).inner * dl_dtype_bytes(t->dtype);
}

/* Does the result start at an aligned place in the operand's memory? */
static bool keeps_place(const dl_node *n) {
    const dl_type *t = &n->in[0]->type;
    int axis = dl_type_axis(t, dl_node_name(n, DL_ATTR_axis));
    return dl_type_laid_around(t, axis).outer == 1 && dl_reduced_at(n) % DL_PLAN_ALIGN == 0;
}

bool dl_reduces_in_place(const dl_node *n, int k, const dl_uses *uses) {
    const dl_uses *u = &uses[n->in[k]->id];
    if (!n->in[k]->def || u->n != 1 || u->results) return false;
    return n->op == DL_OP_all_reduce || (n->op == DL_OP_reduce_scatter && keeps_place(n));
}

void dl_replace_value(dl_graph *g, dl_value *from, dl_value *to) {
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = 0; j < g->nodes.at[i]->nin; j++)
            if (g->nodes.at[i]->in[j] == from) g->nodes.at[i]->in[j] = to;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].value == from) g->results.at[i].value = to;
}

/* From the last node to the first: all readers of a node are visited before it. */
bool dl_graph_sweep(dl_graph *g) {
    dl_arena *scratch = dl_arena_new(NULL);
    bool *read = DL_NEWS(scratch, bool, g->next_id ? g->next_id : 1);
    bool *keep = DL_NEWS(scratch, bool, g->nodes.n ? g->nodes.n : 1);
    for (int i = 0; i < g->results.n; i++) read[g->results.at[i].value->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        keep[i] = dl_op_forwards(n->op);
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

/* Kahn's algorithm with a heap of earlier positions (Commun. ACM 5(11), 1962): O(edges + nodes log
 * nodes). */
bool dl_graph_sort(dl_graph *g) {
    int count = g->nodes.n;
    if (count == 0) return true;
    dl_arena *scratch = dl_arena_new(NULL);
    int *position = DL_NEWS(
        scratch, int, g->next_id); /* by value id: its node's index, plus 1; 0: not in this graph */
    int *waits = DL_NEWS(scratch, int, count); /* operands that are not placed yet */
    int *nreaders = DL_NEWS(scratch, int, count), **readers = DL_NEWS(scratch, int *, count);
    dl_node **old = DL_NEWS(scratch, dl_node *, count);
    memcpy(old, g->nodes.at, sizeof *old * (size_t)count);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < old[i]->nout; j++) position[old[i]->out[j].id] = i + 1;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < old[i]->nin; j++)
            if (position[old[i]->in[j]->id]) nreaders[position[old[i]->in[j]->id] - 1]++;
    for (int i = 0; i < count; i++)
        readers[i] = DL_NEWS(scratch, int, nreaders[i] + 1), nreaders[i] = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < old[i]->nin; j++) {
            int maker = position[old[i]->in[j]->id] - 1;
            if (maker >= 0) readers[maker][nreaders[maker]++] = i, waits[i]++;
        }
    dl_heap ready = {0};
    for (int i = 0; i < count; i++)
        if (!waits[i]) dl_heap_put(scratch, &ready, i, i);
    int placed = 0;
    while (ready.n) {
        int i = dl_heap_take(&ready);
        g->nodes.at[placed++] = old[i];
        for (int j = 0; j < nreaders[i]; j++)
            if (--waits[readers[i][j]] == 0)
                dl_heap_put(scratch, &ready, readers[i][j], readers[i][j]);
    }
    if (placed < count) memcpy(g->nodes.at, old, sizeof *old * (size_t)count);
    dl_arena_free(scratch);
    return placed == count;
}
