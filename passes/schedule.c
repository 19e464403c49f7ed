/* schedule: list scheduling (Graham 1969) by two rules of choice, of which the order with the lower peak
 * stands.
 *
 * Beside the operands, a node that writes the next value of a variable in place waits for all other readers
 * of the old one. Under both rules such a node runs as soon as it can: it takes no memory and usually frees a
 * gradient. */
#include "ir/walk.h"
#include "passes/memory.h"

typedef struct {
    const dl_graph *g;
    const dl_uses *uses;
    int n;
    dl_node **node;       /* in the order given */
    int *nafter, **after; /* nodes that wait for this one, once a reason */
    int *waits;           /* reasons for which a node still waits */
    bool *updates;        /* makes the next value of a variable */
    int *left;            /* by value id: reads still to come; a read by the host never comes */
} scheduler;

/* Which of two ready nodes goes first: less is earlier; ties go to the earlier in the order given. */
typedef int64_t rank_fn(const scheduler *s, int i);

static int64_t rank_as_given(const scheduler *s, int i) {
    (void)s, (void)i;
    return 0;
}

/* Bytes that the node takes, less those that it is the last to need. */
static int64_t rank_by_bytes(const scheduler *s, int i) {
    const dl_node *n = s->node[i];
    int64_t bytes = 0;
    for (int k = 0; k < n->nout; k++) bytes += dl_type_bytes(&n->out[k].type);
    for (int k = 0; k < n->nin; k++) {
        const dl_value *v = n->in[k];
        int reads = 0, first = k;
        for (int j = 0; j < n->nin; j++)
            if (n->in[j] == v) reads++, first = j < first ? j : first;
        if (v->def && first == k && s->left[v->id] == reads) bytes -= dl_type_bytes(&v->type);
    }
    return bytes;
}

static rank_fn *const ranks[] = {rank_as_given, rank_by_bytes};

/* Calls `add` for every reason that one node waits for another. */
static void each_reason(scheduler *s, const int *position, void (*add)(scheduler *s, int before, int then)) {
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->node[i]->nin; k++) {
            const dl_value *v = s->node[i]->in[k];
            if (v->def) add(s, position[v->id], i);
        }
    for (int r = 0; r < s->g->results.n; r++) {
        const dl_result *res = &s->g->results.at[r];
        if (res->role != DL_RESULT_UPDATE || !res->value->def) continue;
        int writer = position[res->value->id];
        const dl_uses *u = &s->uses[res->var->value.id];
        for (int k = 0; k < u->n; k++)
            if (u->readers[k] != s->node[writer]) add(s, position[u->readers[k]->out[0].id], writer);
    }
}

static void count_reason(scheduler *s, int before, int then) {
    (void)then;
    s->nafter[before]++;
}

static void note_reason(scheduler *s, int before, int then) {
    s->after[before][s->nafter[before]++] = then;
    s->waits[then]++;
}

static scheduler new_scheduler(const dl_graph *g, dl_arena *arena) {
    int n = g->nodes.n;
    scheduler s = {.g = g, .n = n, .uses = dl_graph_uses(g, arena)};
    s.node = DL_NEWS(arena, dl_node *, n), s.nafter = DL_NEWS(arena, int, n),
    s.after = DL_NEWS(arena, int *, n);
    s.waits = DL_NEWS(arena, int, n), s.updates = DL_NEWS(arena, bool, n);
    s.left = DL_NEWS(arena, int, g->next_id);
    memcpy(s.node, g->nodes.at, sizeof *s.node * (size_t)n);
    int *position = DL_NEWS(arena, int, g->next_id); /* by value id, of its maker */
    for (int i = 0; i < n; i++)
        for (int k = 0; k < s.node[i]->nout; k++) position[s.node[i]->out[k].id] = i;
    for (int r = 0; r < g->results.n; r++) {
        const dl_result *res = &g->results.at[r];
        if (res->role == DL_RESULT_UPDATE && res->value->def) s.updates[position[res->value->id]] = true;
    }
    each_reason(&s, position, count_reason);
    for (int i = 0; i < n; i++) s.after[i] = DL_NEWS(arena, int, s.nafter[i]), s.nafter[i] = 0;
    each_reason(&s, position, note_reason);
    for (uint32_t id = 0; id < g->next_id; id++) s.left[id] = s.uses[id].n + s.uses[id].results;
    return s;
}

/* One order by `rank` into `order`. False: an update waits for itself. */
static bool run_list(const scheduler *start, rank_fn *rank, dl_arena *arena, dl_node **order, dl_error *err) {
    scheduler s = *start;
    int *waits = DL_NEWS(arena, int, s.n), *left = DL_NEWS(arena, int, s.g->next_id);
    memcpy(waits, s.waits, sizeof *waits * (size_t)s.n);
    memcpy(left, s.left, sizeof *left * s.g->next_id);
    s.waits = waits, s.left = left;
    for (int placed = 0; placed < s.n; placed++) {
        int best = -1;
        int64_t best_rank = 0;
        for (int i = 0; i < s.n; i++) {
            if (s.waits[i]) continue;
            int64_t r = s.updates[i] ? INT64_MIN : rank(&s, i);
            if (best < 0 || r < best_rank) best = i, best_rank = r;
        }
        if (best < 0)
            return dl_fail(err, DL_INTERNAL,
                           "graph '%s': no order of its nodes lets every variable be updated in place",
                           s.g->name);
        order[placed] = s.node[best];
        s.waits[best] = -1; /* placed */
        for (int k = 0; k < s.nafter[best]; k++) s.waits[s.after[best][k]]--;
        for (int k = 0; k < s.node[best]->nin; k++) s.left[s.node[best]->in[k]->id]--;
    }
    return true;
}

bool dl_pass_schedule(dl_graph *g, dl_pass_ctx *ctx) {
    if (g->nodes.n == 0) return false;
    dl_arena *scratch = dl_arena_new(ctx->arena);
    scheduler s = new_scheduler(g, scratch);
    dl_node **best = NULL;
    int64_t best_peak = 0;
    bool fine = true;
    for (size_t i = 0; fine && i < sizeof ranks / sizeof *ranks; i++) {
        dl_node **order = DL_NEWS(scratch, dl_node *, s.n);
        dl_liveness live;
        fine = run_list(&s, ranks[i], scratch, order, ctx->err);
        if (!fine) break;
        memcpy(g->nodes.at, order, sizeof *order * (size_t)s.n);
        fine = dl_find_liveness(g, scratch, &live, ctx->err);
        if (fine && (!best || live.peak < best_peak)) best = order, best_peak = live.peak;
    }
    if (!fine) best = s.node;
    bool changed = memcmp(best, s.node, sizeof *best * (size_t)s.n) != 0;
    memcpy(g->nodes.at, best, sizeof *best * (size_t)s.n);
    dl_arena_free(scratch);
    return changed;
}
