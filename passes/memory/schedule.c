/* schedule: list scheduling (Graham 1969) by two rules of choice, of which the order with the lower
 * peak stands.
 *
 * Beside the operands, a node that writes the next value of a variable in place waits for all other
 * readers of the old one. Under both rules such a node runs as soon as it can: it takes no memory
 * and usually frees a gradient. So does a collective, and what reads its result only when two more
 * of its kind have begun, or nothing else is left to do: until then it is under way. */
#include "ir/base/heap.h"
#include "ir/walk.h"
#include "passes/memory/memory.h"
#include "passes/parallel/waits.h"

typedef struct {
    const dl_waits *waits;
    dl_arena *arena;
    const bool *updates; /* makes the next value of a variable */
    int *open;           /* reasons for which a node still waits; -1: placed */
    int *left; /* by value id: readers still to come, and one that never comes when the host reads
                  it */
    int *readers; /* by value id: nodes still to come */
    int *reads;   /* by value id, 0 between two uses: how often one node reads it */
    int *begun;   /* by position: of a collective that is placed the how manieth it was, from 1 */
    int *of_kind; /* the same among those of its kind */
    int collectives;              /* that are placed */
    DL_ARRAY(int) kinds[DL_NOPS]; /* those of each kind, in order */
    DL_ARRAY(int) again;          /* to be offered anew */
} scheduler;

/* Which of two ready nodes goes first: less is earlier; ties go to the earlier in the order given.
 */
typedef int64_t rank_fn(const scheduler *s, int i);

static int64_t rank_as_given(const scheduler *s, int i) {
    (void)s, (void)i;
    return 0;
}

/* Bytes that the node takes, less those that it is the last to need. */
static int64_t rank_by_bytes(const scheduler *s, int i) {
    const dl_node *n = s->waits->node[i];
    int64_t bytes = 0;
    for (int k = 0; k < n->nout; k++) bytes += dl_type_bytes(&n->out[k].type);
    for (int k = 0; k < n->nin; k++) s->reads[n->in[k]->id]++;
    for (int k = 0; k < n->nin; k++) {
        const dl_value *v = n->in[k];
        int reads = s->reads[v->id];
        s->reads[v->id] = 0; /* once a value */
        if (v->def && reads && s->left[v->id] == reads) bytes -= dl_type_bytes(&v->type);
    }
    return bytes;
}

static rank_fn *const ranks[] = {rank_as_given, rank_by_bytes};

/* Of the collectives that node i waits for and that may still be under way, the last that was
 * begun; 0: none. */
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

static void offer(scheduler *s, dl_heap *ready, rank_fn *rank, int i) {
    int under_way = find_under_way(s, i);
    bool first = s->updates[i] || dl_op_is_collective(s->waits->node[i]->op);
    int64_t late = INT64_MAX / 2 + under_way;
    dl_heap_put(s->arena, ready, under_way ? late : first ? INT64_MIN : rank(s, i), i);
}

/* One more is under way: what reads an earlier one is offered anew. */
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

/* The one node that is still to read a value. */
static int find_last_reader(const scheduler *s, const dl_uses *u) {
    for (int r = 0; r < u->n; r++) {
        int at = s->waits->position[u->readers[r]->out[0].id];
        if (s->open[at] >= 0) return at;
    }
    return -1;
}

/* Node `i` is placed: values lose a reader. Where one node alone is left to read a value, its rank
 * falls: it is offered anew, and the offer before finds it placed. */
static void take_reads(scheduler *s, dl_heap *ready, rank_fn *rank, int i) {
    const dl_node *n = s->waits->node[i];
    for (int k = 0; k < n->nin; k++) {
        const dl_value *v = n->in[k];
        s->left[v->id]--;
        if (s->reads[v->id]++) continue; /* once a value */
        if (--s->readers[v->id] != 1 || !v->def) continue;
        int last = find_last_reader(s, &s->waits->uses[v->id]);
        if (last >= 0 && s->open[last] == 0) dl_push(s->arena, &s->again, last);
    }
    for (int k = 0; k < n->nin; k++) s->reads[n->in[k]->id] = 0;
    for (int k = 0; k < s->again.n; k++) offer(s, ready, rank, s->again.at[k]);
    s->again.n = 0;
}

/* How many nodes read each value. */
static int *count_readers(const dl_waits *w, const dl_graph *g, dl_arena *arena) {
    int *readers = DL_NEWS(arena, int, g->next_id);
    for (uint32_t id = 0; id < g->next_id; id++)
        for (int r = 0; r < w->uses[id].n; r++)
            readers[id] += r == 0 || w->uses[id].readers[r] != w->uses[id].readers[r - 1];
    return readers;
}

/* One order by `rank` into `order`. False: an update waits for itself. */
static bool run_list(const dl_waits *w, const dl_graph *g, const bool *updates, rank_fn *rank,
                     dl_arena *arena, dl_node **order) {
    scheduler s = {.waits = w, .arena = arena, .updates = updates};
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
    bool *updates = DL_NEWS(scratch, bool, w.n), fine = true;
    for (int r = 0; r < g->results.n; r++) {
        const dl_result *res = &g->results.at[r];
        if (res->role == DL_RESULT_UPDATE && res->value->def)
            updates[w.position[res->value->id]] = true;
    }
    dl_node **best = NULL;
    int64_t best_peak = 0;
    for (size_t i = 0; fine && i < sizeof ranks / sizeof *ranks; i++) {
        dl_node **order = DL_NEWS(scratch, dl_node *, w.n);
        dl_liveness live;
        fine = run_list(&w, g, updates, ranks[i], scratch, order) ||
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
