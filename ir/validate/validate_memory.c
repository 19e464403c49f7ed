/* Checks of the stages of memory: the order of updates, and offsets that do not overlap. */
#include "ir/kernel/kernel.h"
#include "ir/validate/validate_parts.h"
#include "ir/walk.h"

enum { ALIGNMENT = 64 };

/* The operand whose memory result j may share, or -1. */
static int alias_of(const dl_node *n, int j) {
    if (n->kernel) return n->kernel->params.at[n->nin + j].alias;
    return n->op == DL_OP_all_reduce ? j : -1;
}

/* ---- order ---- */

/* Does the node at position `at`, which computes the next value x of `old`, read each point of the
 * old value before it overwrites it? */
static bool reads_in_place(const dl_node *n, const dl_value *x, const dl_value *old) {
    int reads = 0, alias = alias_of(n, x->index);
    for (int i = 0; i < n->nin; i++) reads += n->in[i] == old;
    return reads == 0 || (reads == 1 && alias >= 0 && n->in[alias] == old);
}

bool dl_check_order(dl_checker *c) {
    const dl_graph *g = c->g;
    int *made = DL_NEWS(c->scratch, int, g->next_id + 1),
        *read = DL_NEWS(c->scratch, int, g->next_id + 1);
    const dl_var **next_of = DL_NEWS(c->scratch, const dl_var *, g->next_id + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) read[n->in[k]->id] = i;
        for (int k = 0; k < n->nout; k++) made[n->out[k].id] = i;
    }
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role != DL_RESULT_UPDATE)
            read[g->results.at[i].value->id] = g->nodes.n;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        const dl_value *x = r->value;
        if (r->role != DL_RESULT_UPDATE || x == &r->var->value) continue;
        if (x->var || next_of[x->id])
            return dl_check_fail(c, NULL, "the next value of $%s is another variable's, too",
                                 r->var->name);
        next_of[x->id] = r->var;
        if (read[r->var->value.id] > made[x->id] || !reads_in_place(x->def, x, &r->var->value))
            return dl_check_fail(c, x->def, "overwrites $%s, whose old value is still needed",
                                 r->var->name);
    }
    return true;
}

/* ---- places ---- */

/* The values whose memory is in use, by ascending offset; no two of them overlap. Values without
 * bytes are left out. */
typedef struct {
    const dl_value **at;
    int n;
} live_set;

static int64_t end_of(const dl_value *v) { return v->offset + dl_type_bytes(&v->type); }

/* The index of the first value that starts at or after `offset`. */
static int place_of(const live_set *live, int64_t offset) {
    int lo = 0, hi = live->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (live->at[mid]->offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void leave(live_set *live, const dl_value *v) {
    int at = place_of(live, v->offset);
    if (at == live->n || live->at[at] != v) return;
    memmove(&live->at[at], &live->at[at + 1], sizeof *live->at * (size_t)(--live->n - at));
}

static bool enter(dl_checker *c, live_set *live, const dl_node *n, const dl_value *v) {
    if (end_of(v) == v->offset) return true;
    int at = place_of(live, v->offset);
    const dl_value *before =
        at > 0 && end_of(live->at[at - 1]) > v->offset ? live->at[at - 1] : NULL;
    const dl_value *after = at < live->n && live->at[at]->offset < end_of(v) ? live->at[at] : NULL;
    const dl_value *other = before ? before : after;
    if (other)
        return dl_check_fail(
            c, n, "%%%u lies at bytes %lld to %lld, where %%%u (%lld to %lld) is still needed",
            v->id, (long long)v->offset, (long long)end_of(v), other->id, (long long)other->offset,
            (long long)end_of(other));
    memmove(&live->at[at + 1], &live->at[at], sizeof *live->at * (size_t)(live->n++ - at));
    live->at[at] = v;
    return true;
}

/* A body's variables and results are tensors of the graph around it. The others are its own. */
static bool *find_foreign(const dl_checker *c) {
    bool *foreign = DL_NEWS(c->scratch, bool, c->g->next_id + 1);
    for (int i = 0; i < c->g->vars.n; i++) foreign[c->g->vars.at[i]->value.id] = c->g->is_body;
    for (int i = 0; i < c->g->results.n; i++)
        foreign[c->g->results.at[i].value->id] |= c->g->is_body;
    return foreign;
}

static bool check_offset(dl_checker *c, const dl_node *n, const dl_value *v, int64_t *peak) {
    int64_t bytes = dl_type_bytes(&v->type);
    if (v->offset < 0) return dl_check_fail(c, n, "%%%u has no place in memory", v->id);
    if (v->offset % ALIGNMENT)
        return dl_check_fail(c, n, "%%%u lies at byte %lld, which is not a multiple of %d", v->id,
                             (long long)v->offset, ALIGNMENT);
    if (v->offset < c->g->arena_at || v->offset > c->g->arena_at + c->g->arena_bytes - bytes)
        return dl_check_fail(
            c, n, "%%%u lies at byte %lld and has %lld bytes, but the arena has %lld", v->id,
            (long long)v->offset, (long long)bytes, (long long)c->g->arena_bytes);
    if (end_of(v) > *peak) *peak = end_of(v);
    return true;
}

/* The value whose memory result j of node `at` takes over, or NULL. It is the old value of the
 * variable whose next value the result is (dl_check_order has checked its readers). Or it is an
 * operand that the kernel lets it share and that nobody reads later, nor the node itself through
 * another operand. */
static const dl_value *taken_over(const dl_checker *c, int at, int j, const int *last_read,
                                  const dl_value *const *next_of) {
    const dl_node *n = c->g->nodes.at[at];
    int alias = alias_of(n, j);
    const dl_value *out = &n->out[j], *old = next_of[out->id],
                   *in = alias >= 0 ? n->in[alias] : NULL;
    if (old) return old->offset == out->offset ? old : NULL;
    if (!in || in->var || in->offset != out->offset || end_of(in) != end_of(out) ||
        last_read[in->id] > at)
        return NULL;
    for (int i = 0; i < n->nin; i++)
        if (i != alias && n->in[i] == in) return NULL;
    return in;
}

/* The memory of a body's own values, which is the scan's while it runs. */
static bool check_own(dl_checker *c, const dl_node *n, live_set *live, int64_t *peak) {
    dl_value own = {.offset = n->body->arena_at};
    own.type = dl_scalar(DL_BOOL);
    dl_type_push(&own.type, "", n->body->arena_bytes);
    if (!check_offset(c, n, &own, peak) || !enter(c, live, n, &own)) return false;
    leave(live, &own);
    return true;
}

bool dl_check_memory(dl_checker *c) {
    const dl_graph *g = c->g;
    int64_t peak = 0;
    int values = g->vars.n;
    /* By value id: the last node that reads it. Results are read after the last node, and unread
     * variables keep their memory. */
    int *last_read = DL_NEWS(c->scratch, int, g->next_id + 1);
    for (uint32_t id = 0; id < g->next_id; id++) last_read[id] = -1;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int j = 0; j < n->nin; j++) last_read[n->in[j]->id] = i;
        values += n->nout;
    }
    for (int i = 0; i < g->results.n; i++) last_read[g->results.at[i].value->id] = g->nodes.n;
    const int *waits = dl_graph_waits(
        g, c->scratch); /* a collective reads and writes until it has been waited for */
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int j = 0; j < n->nin && waits[i] >= 0; j++) {
            bool in_place = alias_of(n, j) == j && n->in[j]->offset == n->out[j].offset;
            if (!in_place && last_read[n->in[j]->id] < waits[i] - 1)
                last_read[n->in[j]->id] = waits[i] - 1;
        }
        for (int j = 0; j < n->nout && waits[i] - 1 > i; j++)
            if (last_read[n->out[j].id] < 0) last_read[n->out[j].id] = waits[i] - 1;
    }

    /* A value that is reduced in place keeps the whole operand's memory until the result's last
     * read. */
    const dl_uses *uses = dl_graph_uses(g, c->scratch);
    bool *inside = DL_NEWS(c->scratch, bool, g->next_id + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (n->op != DL_OP_reduce_scatter || !dl_reduces_in_place(n, 0, uses)) continue;
        if (n->out[0].offset != n->in[0]->offset + dl_reduced_at(n)) continue;
        inside[n->out[0].id] = true;
        if (last_read[n->in[0]->id] < last_read[n->out[0].id])
            last_read[n->in[0]->id] = last_read[n->out[0].id];
    }

    /* By node, chained by value id: values that end there though the node does not read them. */
    const dl_value **late = DL_NEWS(c->scratch, const dl_value *, g->nodes.n + 1),
                   **next = DL_NEWS(c->scratch, const dl_value *, g->next_id + 1);
    bool *chained = DL_NEWS(c->scratch, bool,
                            g->next_id + 1); /* each once, though several collectives may read it */
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = 0; j < g->nodes.at[i]->nin && waits[i] >= 0; j++) {
            const dl_value *v = g->nodes.at[i]->in[j];
            int end = last_read[v->id];
            if (v->var || end <= i || end >= g->nodes.n || chained[v->id]) continue;
            next[v->id] = late[end], late[end] = v, chained[v->id] = true;
        }
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = 0; j < g->nodes.at[i]->nout && waits[i] >= 0; j++) { /* unread results */
            const dl_value *v = &g->nodes.at[i]->out[j];
            int end = last_read[v->id];
            if (end <= i || end != waits[i] - 1 || end >= g->nodes.n || chained[v->id]) continue;
            next[v->id] = late[end], late[end] = v, chained[v->id] = true;
        }

    const dl_value **next_of = DL_NEWS(c->scratch, const dl_value *,
                                       g->next_id + 1); /* by id: the value that it overwrites */
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role == DL_RESULT_UPDATE) next_of[r->value->id] = &r->var->value;
    }
    const bool *foreign = find_foreign(c);
    live_set live = {DL_NEWS(c->scratch, const dl_value *, values + 2), 0};
    for (int i = 0; i < g->vars.n && !g->is_body; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        if (!check_offset(c, NULL, v, &peak) || !enter(c, &live, NULL, v)) return false;
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int j = 0; j < n->nout; j++) {
            if (foreign[n->out[j].id]) continue;
            if (!check_offset(c, n, &n->out[j], &peak)) return false;
            const dl_value *old = taken_over(c, i, j, last_read, next_of);
            if (old) leave(&live, old);
            if (!inside[n->out[j].id] && !enter(c, &live, n, &n->out[j])) return false;
        }
        if (n->body && !check_own(c, n, &live, &peak)) return false;
        for (int j = 0; j < n->nin; j++)
            if (!n->in[j]->var && last_read[n->in[j]->id] <= i) leave(&live, n->in[j]);
        for (const dl_value *v = late[i]; v; v = next[v->id]) leave(&live, v);
        for (int j = 0; j < n->nout; j++)
            if (last_read[n->out[j].id] < 0) leave(&live, &n->out[j]);
    }
    if (peak < g->arena_at) peak = g->arena_at;
    return peak == g->arena_at + g->arena_bytes ||
           dl_check_fail(c, NULL, "the arena has %lld bytes, but the values end at %lld",
                         (long long)g->arena_bytes, (long long)(peak - g->arena_at));
}
