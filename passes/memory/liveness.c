#include "ir/kernel/kernel.h"
#include "ir/walk.h"
#include "passes/memory/memory.h"

enum { CACHE_LINE = 64, PAGE = 4096, LARGE = 16 * PAGE };

int64_t dl_memory_align(int64_t offset, int64_t bytes) {
    int64_t unit = bytes >= LARGE ? PAGE : CACHE_LINE;
    return (offset + unit - 1) / unit * unit;
}

static bool read_by_host(dl_result_role role) { return role != DL_RESULT_UPDATE; }

/* By value id: the position of the last node that reads it; of its own node when nobody does;
 * nodes.n for values that the host reads. */
static int *find_last_reads(const dl_graph *g, dl_arena *arena) {
    int *last = DL_NEWS(arena, int, g->next_id ? g->next_id : 1);
    for (uint32_t id = 0; id < g->next_id; id++) last[id] = -1;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) last[n->in[k]->id] = i;
        for (int k = 0; k < n->nout; k++) last[n->out[k].id] = i;
    }
    for (int i = 0; i < g->results.n; i++)
        if (read_by_host(g->results.at[i].role)) last[g->results.at[i].value->id] = g->nodes.n;
    /* Operands and results of a collective, even unread ones, live until the collective has been
     * waited for. */
    const int *waits = dl_graph_waits(g, arena);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin && waits[i] >= 0; k++) {
            int *of = &last[g->nodes.at[i]->in[k]->id];
            if (*of < waits[i] - 1) *of = waits[i] - 1;
        }
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nout; k++) {
            int *of = &last[g->nodes.at[i]->out[k].id];
            if (*of < waits[i] - 1) *of = waits[i] - 1;
        }
    return last;
}

/* By value id: the collective whose bucket holds the value, plus 1; 0: none. A bucket has all
 * operands of a collective in one storage, and the results in place of the operands. */
static int *find_buckets(const dl_graph *g, dl_arena *arena) {
    const dl_uses *uses = dl_graph_uses(g, arena);
    int *bucket = DL_NEWS(arena, int, g->next_id + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++)
            if (dl_reduces_in_place(n, k, uses))
                bucket[n->in[k]->id] = bucket[n->out[k].id] = i + 1;
    }
    return bucket;
}

/* Places x, a result of node i, in its bucket's storage: at its operand, or after the values
 * that are there. */
static void place_in_bucket(const dl_graph *g, const dl_value *x, int bucket, int i,
                            const int *last, dl_liveness *live) {
    const dl_node *n = g->nodes.at[bucket - 1];
    int s = -1;
    int64_t offset = 0;
    for (int k = 0; k < n->nin; k++) {
        const dl_value *in = n->in[k];
        if (&n->out[k] == x) offset = live->inner[in->id] + dl_reduced_at(n), s = live->of[in->id];
        if (in == x) s = -1;
    }
    if (s < 0) { /* an operand: after those that precede it in the list */
        for (int k = 0; k < n->nin && n->in[k] != x; k++)
            offset += dl_memory_align(dl_type_bytes(&n->in[k]->type), 0);
        for (int k = 0; k < n->nin && s < 0; k++) s = live->of[n->in[k]->id];
    }
    if (s < 0) {
        s = live->n++;
        live->at[s] = (dl_storage){.value = x, .first = i, .offset = -1, .bucket = true};
        for (int k = 0; k < n->nin; k++)
            live->at[s].bytes += dl_memory_align(dl_type_bytes(&n->in[k]->type), 0);
    }
    live->of[x->id] = s, live->inner[x->id] = offset;
    if (last[x->id] > live->at[s].last) live->at[s].last = last[x->id];
}

static int count_reads(const dl_node *n, const dl_value *v) {
    int reads = 0;
    for (int k = 0; k < n->nin; k++) reads += n->in[k] == v;
    return reads;
}

bool dl_memory_overwrites(const dl_node *n, const dl_value *x, const dl_value *v) {
    if (!count_reads(n, v)) return true;
    if (n->op == DL_OP_fused) {
        int alias = n->kernel->params.at[n->kernel->nin + x->index].alias;
        return alias >= 0 && n->in[alias] == v && count_reads(n, v) == 1;
    }
    return dl_ops[n->op].class == DL_CLASS_ELEM && dl_type_same(&x->type, &v->type) &&
           dl_layout_same(x->type.layout, v->type.layout);
}

static bool fail_update(const dl_graph *g, const dl_var *v, dl_error *err, const char *why) {
    return dl_fail(err, DL_INTERNAL,
                   "graph '%s': the update of '%s' cannot be written in place: %s", g->name,
                   v->name, why);
}

/* Places the value of an UPDATE result in its variable's memory. */
static bool place_update(const dl_graph *g, const dl_result *r, const int *last, dl_liveness *live,
                         dl_error *err) {
    const dl_value *x = r->value, *old = &r->var->value;
    if (x == old) return true;
    if (x->var || live->var_of[x->id])
        return fail_update(g, r->var, err,
                           "its value is another variable's too, which needs a copy");
    if (!dl_type_same(&x->type, &old->type) || !dl_layout_same(x->type.layout, old->type.layout))
        return fail_update(g, r->var, err,
                           "its value has another type or layout than the variable");
    int made = 0;
    while (g->nodes.at[made] != x->def) made++;
    if (last[old->id] == g->nodes.n)
        return fail_update(g, r->var, err, "a result shows the old value");
    if (last[old->id] > made)
        return fail_update(g, r->var, err, "a later node reads the old value");
    if (last[old->id] == made && !dl_memory_overwrites(x->def, x, old))
        return fail_update(g, r->var, err,
                           "the node that makes it reads the old value in another order");
    live->var_of[x->id] = r->var;
    return true;
}

/* The storage of a dying operand that result x of node n, at position i, may reuse, or -1. */
static int find_reusable(const dl_node *n, int i, const dl_value *x, const dl_liveness *live) {
    if (n->op != DL_OP_fused) return -1;
    int alias = n->kernel->params.at[n->kernel->nin + x->index].alias;
    if (alias < 0 || !dl_memory_overwrites(n, x, n->in[alias])) return -1;
    int s = live->of[n->in[alias]->id];
    if (s < 0 || live->at[s].bucket || live->at[s].last != i ||
        dl_type_bytes(&x->type) != live->at[s].bytes)
        return -1;
    for (int k = 0; k < n->nout; k++)
        if (&n->out[k] != x && live->of[n->out[k].id] == s)
            return -1; /* another result has taken it */
    return s;
}

/* The peak: sums the sizes of storages that begin and end at each position. */
static void find_peak(dl_liveness *live, int positions, dl_arena *arena) {
    int64_t *change = DL_NEWS(arena, int64_t, positions + 2), now = 0;
    for (int s = 0; s < live->n; s++) {
        change[live->at[s].first] += live->at[s].bytes;
        change[live->at[s].last + 1] -= live->at[s].bytes;
    }
    for (int i = 0; i <= positions; i++) {
        now += change[i];
        if (now > live->peak) live->peak = now, live->peak_at = i;
    }
}

bool dl_find_liveness(const dl_graph *g, dl_arena *arena, dl_liveness *live, dl_error *err) {
    const int *last = find_last_reads(g, arena);
    int values = 0;
    for (int i = 0; i < g->nodes.n; i++)
        values += g->nodes.at[i]->nout + (g->nodes.at[i]->body != NULL);
    *live = (dl_liveness){.at = DL_NEWS(arena, dl_storage, values ? values : 1)};
    live->of = DL_NEWS(arena, int, g->next_id ? g->next_id : 1);
    live->var_of = DL_NEWS(arena, dl_var *, g->next_id ? g->next_id : 1);
    live->inner = DL_NEWS(arena, int64_t, g->next_id ? g->next_id : 1);
    live->outside = DL_NEWS(arena, bool, g->next_id + 1);
    for (int i = 0; i < g->results.n; i++)
        live->outside[g->results.at[i].value->id] =
            g->is_body && g->results.at[i].role == DL_RESULT_OUTPUT;
    const int *bucket = find_buckets(g, arena);
    for (uint32_t id = 0; id < g->next_id; id++) live->of[id] = -1;
    for (int i = 0; i < g->vars.n; i++) live->var_of[g->vars.at[i]->value.id] = g->vars.at[i];
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role == DL_RESULT_UPDATE && !place_update(g, r, last, live, err)) return false;
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nout; k++) {
            const dl_value *x = &n->out[k];
            if (live->var_of[x->id] || live->outside[x->id]) continue;
            if (bucket[x->id]) {
                place_in_bucket(g, x, bucket[x->id], i, last, live);
                continue;
            }
            int s = find_reusable(n, i, x, live);
            if (s < 0) {
                s = live->n++;
                live->at[s] = (dl_storage){
                    .value = x, .first = i, .bytes = dl_type_bytes(&x->type), .offset = -1};
            }
            live->of[x->id] = s;
            live->at[s].last = last[x->id];
        }
        if (n->body)
            live->at[live->n++] = (dl_storage){.value = &n->out[0],
                                               .body = n->body,
                                               .first = i,
                                               .last = i,
                                               .bytes = n->body->arena_bytes,
                                               .offset = -1};
    }
    find_peak(live, g->nodes.n, arena);
    return true;
}
