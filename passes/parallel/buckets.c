/* buckets: what is summed over the same ranks is summed several at once: a network takes as long to
 * begin as to carry a hundred kilobytes. Buckets are filled in the order in which the way back
 * makes the gradients, so that each begins while the rest of them is made; the first is small, so
 * that it begins soon (Li et al., PyTorch Distributed: experiences on accelerating data parallel
 * training, VLDB 2020). A bucket is one node with many operands, which plan_memory puts side by
 * side: the gradients themselves, and no copies. */
#include <stdlib.h>

#include "ir/walk.h"
#include "passes/parallel/sequence.h"
#include "passes/pass.h"

typedef struct {
    dl_node *node; /* an all_reduce of one operand */
    int64_t made;  /* where its operand is made; of those in a sequence: its number there */
    int level; /* how many such its operand waits for, one behind the other; not in a sequence */
    int64_t until; /* in a sequence: the number of the first collective that depends on it */
    bool told;     /* its result is for the host alone, at the end */
    int64_t bytes;
} member;

static int by_time(const void *pa, const void *pb) {
    const member *a = pa, *b = pb;
    if (a->told != b->told) return a->told - b->told;
    return a->made != b->made                          ? (a->made > b->made) - (a->made < b->made)
           : (a->node->out[0].id > b->node->out[0].id) ? 1
                                                       : -1;
}

/* No bucket waits for itself: a norm of what a norm has clipped is of another level. In a sequence
 * a bucket has the number of its last member, and `until` is the least of its members'. */
static bool go_together(const member *a, const member *b, int64_t until) {
    return a->told == b->told && a->level == b->level && b->made < until &&
           a->node->in[0]->type.dtype == b->node->in[0]->type.dtype &&
           dl_node_name(a->node, DL_ATTR_group) == dl_node_name(b->node, DL_ATTR_group);
}

/* Whose the members are, one by one: ranks whose members stand in another order would sum different
 * values. */
static dl_attr names_of(const dl_graph *g, const member *m, int n) {
    const char **texts = DL_NEWS(g->module->arena, const char *, n);
    for (int i = 0; i < n; i++) {
        const dl_attr *of = dl_node_attr(m[i].node, DL_ATTR_of);
        texts[i] = of ? of->texts[0] : dl_intern("");
    }
    return (dl_attr){.id = DL_ATTR_of, .n = n, .texts = texts};
}

/* The node of members [first, end) in one. */
static dl_node *join(dl_graph *g, const member *m, int first, int end, dl_arena *arena) {
    int n = end - first;
    dl_value **in = DL_NEWS(arena, dl_value *, n);
    dl_type *types = DL_NEWS(arena, dl_type, n);
    for (int i = 0; i < n; i++) in[i] = m[first + i].node->in[0], types[i] = in[i]->type;
    const dl_node *one = m[first].node;
    uint32_t next = g->next_id;
    dl_node *all = dl_node_new(g, DL_OP_all_reduce, n, in, n, types, one->loc);
    g->next_id = next;
    for (int i = 0; i < n; i++) all->out[i].id = m[first + i].node->out[0].id; /* numbers survive */
    for (int i = 0; i < one->nattrs; i++) {
        dl_attr a = one->attrs[i];
        if (a.id == DL_ATTR_order) a.i = m[end - 1].made;
        if (a.id == DL_ATTR_of) a = names_of(g, m + first, n);
        dl_node_set(g, all, a);
    }
    for (int i = 0; i < n; i++) {
        dl_replace_value(g, &m[first + i].node->out[0], &all->out[i]);
        m[first + i].node->nin = 0; /* gone: marks it */
    }
    return all;
}

/* Is it of a group that gradients are summed over? */
static bool sums_gradients(const dl_node *n) {
    return n->op == DL_OP_all_reduce && strcmp(dl_node_name(n, DL_ATTR_group), "tp") != 0;
}

/* By value id: does another such sum depend on it, of more than one number, as norms are? A sum
 * that others depend on (a statistic of the batch, in the forward or the backward pass) is needed
 * at once. */
static bool *find_inner(const dl_graph *g, dl_arena *arena) {
    bool *inner = DL_NEWS(arena, bool, g->next_id + 1);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        bool leads = sums_gradients(n) && n->out[0].type.rank > 0;
        for (int k = 0; k < n->nout; k++) leads |= inner[n->out[k].id];
        for (int k = 0; k < n->nin; k++) inner[n->in[k]->id] |= leads;
    }
    return inner;
}

bool *dl_find_joinable(const dl_graph *g, int64_t most, dl_arena *arena) {
    bool *joinable = DL_NEWS(arena, bool, g->nodes.n + 1);
    const bool *inner = find_inner(g, arena);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        joinable[i] = sums_gradients(n) && n->nin == 1 && !inner[n->out[0].id] &&
                      dl_type_bytes(&n->in[0]->type) <= most;
    }
    return joinable;
}

/* The nodes of the graph that a bucket may hold, in order. A sum that fills a bucket by itself is
 * left alone, and does not end the bucket of the small ones around it. In a sequence pass
 * `sequence` has decided: by now ranks with other pieces may have other kernels, and would decide
 * otherwise. */
static member *find_members(const dl_graph *g, int64_t most, dl_arena *arena, int *n) {
    const dl_uses *uses = dl_graph_uses(g, arena);
    member *m = DL_NEWS(arena, member, g->nodes.n + 1);
    int *made = DL_NEWS(arena, int, g->next_id + 1), *level = DL_NEWS(arena, int, g->next_id + 1);
    const bool *joinable = dl_find_joinable(g, most, arena);
    *n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *node = g->nodes.at[i];
        int waits = 0;
        for (int k = 0; k < node->nin; k++)
            if (level[node->in[k]->id] > waits) waits = level[node->in[k]->id];
        for (int k = 0; k < node->nout; k++)
            made[node->out[k].id] = i, level[node->out[k].id] = waits;
        const dl_attr *order = dl_node_attr(node, DL_ATTR_order),
                      *until = dl_node_attr(node, DL_ATTR_until);
        if (!(order ? until != NULL : joinable[i]) || !dl_reduces_in_place(node, 0, uses)) continue;
        level[node->out[0].id] = waits + 1;
        m[(*n)++] = (member){.node = node,
                             .made = order ? order->i : made[node->in[0]->id],
                             .level = order ? 0 : waits,
                             .until = order ? until->i : INT64_MAX,
                             .told = uses[node->out[0].id].n == 0,
                             .bytes = dl_type_bytes(&node->in[0]->type)};
    }
    if (*n) qsort(m, (size_t)*n, sizeof *m, by_time);
    return m;
}

bool dl_pass_buckets(dl_graph *g, dl_pass_ctx *ctx) {
    const dl_parallel *p = &ctx->parallel;
    int n, made = 0;
    if (p->bucket_bytes <= 0) return false;
    member *m = find_members(g, p->bucket_bytes, ctx->arena, &n);
    dl_node **joined = DL_NEWS(ctx->arena, dl_node *, n + 1);
    for (int first = 0, end; first < n; first = end) {
        int64_t bytes = m[first].bytes, most = first == 0 ? p->first_bucket_bytes : p->bucket_bytes;
        int64_t until = m[first].until;
        for (end = first + 1;
             end < n && go_together(&m[first], &m[end], until) && bytes + m[end].bytes <= most;
             end++) {
            bytes += m[end].bytes;
            if (m[end].until < until) until = m[end].until;
        }
        if (end - first > 1) joined[made++] = join(g, m, first, end, ctx->arena);
    }
    if (!made) return false;
    int kept = 0;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op != DL_OP_all_reduce || g->nodes.at[i]->nin)
            g->nodes.at[kept++] = g->nodes.at[i];
    g->nodes.n = kept;
    for (int i = 0; i < made; i++) dl_push(g->module->arena, &g->nodes, joined[i]);
    dl_graph_sort(g);
    return true;
}
