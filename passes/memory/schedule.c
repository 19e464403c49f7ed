/* schedule: list scheduling (Graham 1969) with two priority rules; the order with the lower peak
 * of memory is kept.
 *
 * A node waits for its operands. A node that overwrites a variable with its next value also
 * waits for all other readers of the old value. Both rules run a node that makes nothing else as
 * soon as possible: it takes no memory and usually frees a gradient. Collectives run as soon as
 * possible, too. A reader of a collective's result runs only when two more collectives of its kind
 * have started, or when no other node is ready: until then the transfer may overlap with
 * computation. */
#include "ir/base/heap.h"
#include "ir/walk.h"
#include "passes/memory/memory.h"
#include "passes/parallel/waits.h"

typedef struct {
    const dl_waits *waits;
    dl_arena *arena;
    const bool *in_place; /* by value id: the next value of a variable */
    int *open;            /* dependences that are still open; -1: placed */
    int *left; /* by value id: the number of remaining readers, plus one that never comes when the
                  host reads it */
    int *readers;    /* by value id: the number of remaining reader nodes */
    int *reads;      /* by value id, 0 between two uses: how often one node reads it */
    int *begun;      /* by position: the collective's index in the order of starts, from 1 */
    int *of_kind;    /* the same among collectives of its kind */
    int collectives; /* how many collectives are placed */
    DL_ARRAY(int) kinds[DL_NOPS]; /* those of each kind, in order of their starts */
    DL_ARRAY(int) again;          /* nodes to push to the heap again */
} scheduler;

/* The priority of a ready node: the least comes first; ties go to the node that is first in the
 * given order. */
typedef int64_t rank_fn(const scheduler *s, int i);

static int64_t rank_as_given(const scheduler *s, int i) {
    (void)s, (void)i;
    return 0;
}

/* Bytes that the node allocates, minus those of values that it is the last to read. */
static int64_t rank_by_bytes(const scheduler *s, int i) {
    const dl_node *n = s->waits->node[i];
    int64_t bytes = 0;
    for (int k = 0; k < n->nout; k++)
        if (!s->in_place[n->out[k].id]) bytes += dl_type_bytes(&n->out[k].type);
    for (int k = 0; k < n->nin; k++) s->reads[n->in[k]->id]++;
    for (int k = 0; k < n->nin; k++) {
        const dl_value *v = n->in[k];
        int reads = s->reads[v->id];
        s->reads[v->id] = 0; /* each value once */
        if (v->def && reads && s->left[v->id] == reads) bytes -= dl_type_bytes(&v->type);
    }
    return bytes;
}

static rank_fn *const ranks[] = {rank_as_given, rank_by_bytes};

/* Among the collectives that node i waits for and that may still be in progress, the index of
 * the last that was started; 0: none. */
static int find_under_way(const scheduler *s, int i) {
    const dl_waits *w = s->waits;
    int last = 0;
    for (int k = 0; k < w->nbefore[i]; k++) {
        int at = w->before[i][k].node;
        if (w->before[i][k].begins) continue;
        bool under_way =
            s->begun[at] && s->of_kind[at] + DL_UNDER_WAY > s->kinds[w->node[at]->op].n;
        if (under_way && s->begun[at] > last) last = s->begun[at];
    }
    return last;
}

/* Does the node make the next values of variables alone? */
static bool updates(const scheduler *s, const dl_node *n) {
    for (int k = 0; k < n->nout; k++)
        if (!s->in_place[n->out[k].id]) return false;
    return true;
}

static void offer(scheduler *s, dl_heap *ready, rank_fn *rank, int i) {
    int under_way = find_under_way(s, i);
    bool first = updates(s, s->waits->node[i]) || dl_op_is_collective(s->waits->node[i]->op);
    int64_t late = INT64_MAX / 2 + under_way;
    dl_heap_put(s->arena, ready, under_way ? late : first ? INT64_MIN : rank(s, i), i);
}

/* One more collective is in progress: pushes the readers of an earlier one again, with their new
 * priorities. */
static void begin_collective(scheduler *s, dl_heap *ready, rank_fn *rank, int i) {
    const dl_waits *w = s->waits;
    dl_op kind = w->node[i]->op;
    dl_push(s->arena, &s->kinds[kind], i);
    s->begun[i] = ++s->collectives, s->of_kind[i] = s->kinds[kind].n;
    if (s->of_kind[i] <= DL_UNDER_WAY) return;
    int done = s->kinds[kind].at[s->of_kind[i] - DL_UNDER_WAY - 1];
    for (int k = 0; k < w->nafter[done]; k++) {
        int reader = w->after[done][k].node;
        if (s->open[reader] == 0) offer(s, ready, rank, reader);
    }
}

/* The only node that has not read the value yet. */
static int find_last_reader(const scheduler *s, const dl_uses *u) {
    for (int r = 0; r < u->n; r++) {
        int at = s->waits->position[u->readers[r]->out[0].id];
        if (s->open[at] >= 0) return at;
    }
    return -1;
}

/* Node `i` is placed: its operands have a reader less. If a value has one remaining reader, that
 * reader's priority changes: it is pushed again, and the old entry of the heap is ignored when
 * it is popped. */
static void take_reads(scheduler *s, dl_heap *ready, rank_fn *rank, int i) {
    const dl_node *n = s->waits->node[i];
    for (int k = 0; k < n->nin; k++) {
        const dl_value *v = n->in[k];
        s->left[v->id]--;
        if (s->reads[v->id]++) continue; /* each value once */
        if (--s->readers[v->id] != 1 || !v->def) continue;
        int last = find_last_reader(s, &s->waits->uses[v->id]);
        if (last >= 0 && s->open[last] == 0) dl_push(s->arena, &s->again, last);
    }
    for (int k = 0; k < n->nin; k++) s->reads[n->in[k]->id] = 0;
    for (int k = 0; k < s->again.n; k++) offer(s, ready, rank, s->again.at[k]);
    s->again.n = 0;
}

/* By value id: how many nodes read it. */
static int *count_readers(const dl_waits *w, const dl_graph *g, dl_arena *arena) {
    int *readers = DL_NEWS(arena, int, g->next_id);
    for (uint32_t id = 0; id < g->next_id; id++)
        for (int r = 0; r < w->uses[id].n; r++)
            readers[id] += r == 0 || w->uses[id].readers[r] != w->uses[id].readers[r - 1];
    return readers;
}

/* Fills `order` by the priority `rank`. False: an update waits for itself. */
static bool run_list(const dl_waits *w, const dl_graph *g, const bool *in_place, rank_fn *rank,
                     dl_arena *arena, dl_node **order) {
    scheduler s = {.waits = w, .arena = arena, .in_place = in_place};
    dl_heap ready = {0};
    int placed = 0;
    s.open = DL_NEWS(arena, int, w->n), s.left = DL_NEWS(arena, int, g->next_id);
    s.begun = DL_NEWS(arena, int, w->n), s.of_kind = DL_NEWS(arena, int, w->n);
    s.reads = DL_NEWS(arena, int, g->next_id), s.readers = count_readers(w, g, arena);
    memcpy(s.open, w->nbefore, sizeof *s.open * (size_t)w->n);
    for (uint32_t id = 0; id < g->next_id; id++) s.left[id] = w->uses[id].n + w->uses[id].results;
    for (int i = 0; i < w->n; i++)
        if (!s.open[i]) offer(&s, &ready, rank, i);
    while (ready.n) {
        int i = dl_heap_take(&ready);
        if (s.open[i] < 0) continue;
        order[placed++] = w->node[i];
        s.open[i] = -1;
        take_reads(&s, &ready, rank, i);
        if (dl_op_is_collective(w->node[i]->op)) begin_collective(&s, &ready, rank, i);
        for (int k = 0; k < w->nafter[i]; k++)
            if (--s.open[w->after[i][k].node] == 0) offer(&s, &ready, rank, w->after[i][k].node);
    }
    return placed == w->n;
}
bool dl_pass_schedule(dl_graph *g, dl_pass_ctx *ctx) {
    if (g->nodes.n == 0) return false;
    dl_arena *scratch = dl_arena_new(ctx->arena);
    dl_waits w = dl_find_waits(g, scratch);
    bool *in_place = DL_NEWS(scratch, bool, g->next_id + 1), fine = true;
    for (int r = 0; r < g->results.n; r++) {
        const dl_result *res = &g->results.at[r];
        if (res->role == DL_RESULT_UPDATE && res->value->def) in_place[res->value->id] = true;
    }
    dl_node **best = NULL;
    int64_t best_peak = 0;
    for (size_t i = 0; fine && i < sizeof ranks / sizeof *ranks; i++) {
        dl_node **order = DL_NEWS(scratch, dl_node *, w.n);
        dl_liveness live;
        fine = run_list(&w, g, in_place, ranks[i], scratch, order) ||
               dl_fail(ctx->err, DL_INTERNAL,
                       "graph '%s': no order of its nodes lets every variable be updated in place",
                       g->name);
        if (!fine) break;
        memcpy(g->nodes.at, order, sizeof *order * (size_t)w.n);
        fine = dl_find_liveness(g, scratch, &live, ctx->err);
        if (fine && (!best || live.peak < best_peak)) best = order, best_peak = live.peak;
    }
    if (!fine) best = w.node;
    bool changed = memcmp(best, w.node, sizeof *best * (size_t)w.n) != 0;
    memcpy(g->nodes.at, best, sizeof *best * (size_t)w.n);
    dl_arena_free(scratch);
    return changed;
}
