/* buckets: sums several values over the same ranks by one collective, because starting one takes
 * as long as sending a hundred kilobytes.
 *
 * Buckets are filled in the order in which the backward pass computes the gradients, so that each
 * transfer starts while later gradients are computed. The first bucket is small, so that it starts
 * early (Li et al., PyTorch Distributed: experiences on accelerating data parallel training, VLDB
 * 2020). A bucket is one node with many operands. plan_memory places these contiguously: the
 * bucket holds the gradients themselves, not copies. */
#include <stdlib.h>

#include "ir/walk.h"
#include "passes/parallel/order_collectives.h"
#include "passes/pass.h"

typedef struct {
    dl_node *node; /* an all_reduce of one operand */
    int64_t made;  /* the position of its operand's node; for ordered collectives: its number */
    int level; /* the longest chain of such sums that its operand depends on; not for ordered ones
                */
    int64_t until; /* ordered: the number of the first collective that depends on it */
    bool told;     /* its result is for the host only, at the end */
    int64_t bytes;
} member;

static int by_time(const void *pa, const void *pb) {
    const member *a = pa, *b = pb;
    if (a->told != b->told) return a->told - b->told;
    return a->made != b->made                          ? (a->made > b->made) - (a->made < b->made)
           : (a->node->out[0].id > b->node->out[0].id) ? 1
                                                       : -1;
}

/* May both be in one bucket? A bucket must not depend on itself: the norm of gradients that
 * another norm has clipped is of another level. Ordered buckets have the number of their last
 * member, and the minimum of the members' `until`. */
static bool go_together(const member *a, const member *b, int64_t until) {
    return a->told == b->told && a->level == b->level && b->made < until &&
           a->node->in[0]->type.dtype == b->node->in[0]->type.dtype &&
           dl_node_name(a->node, DL_ATTR_group) == dl_node_name(b->node, DL_ATTR_group);
}

/* The names of the members in order: ranks with another order of members would sum wrong values. */
static dl_attr names_of(const dl_graph *g, const member *m, int n) {
    const char **texts = DL_NEWS(g->module->arena, const char *, n);
    for (int i = 0; i < n; i++) {
        const dl_attr *of = dl_node_attr(m[i].node, DL_ATTR_of);
        texts[i] = of ? of->texts[0] : dl_intern("");
    }
    return (dl_attr){.id = DL_ATTR_of, .n = n, .texts = texts};
}

/* One node in place of the members [first, end). */
static dl_node *join(dl_graph *g, const member *m, int first, int end, dl_arena *arena) {
    int n = end - first;
    dl_value **in = DL_NEWS(arena, dl_value *, n);
    dl_type *types = DL_NEWS(arena, dl_type, n);
    for (int i = 0; i < n; i++) in[i] = m[first + i].node->in[0], types[i] = in[i]->type;
    const dl_node *one = m[first].node;
    uint32_t next = g->next_id;
    dl_node *all = dl_node_new(g, DL_OP_all_reduce, n, in, n, types, one->loc);
    g->next_id = next;
    for (int i = 0; i < n; i++)
        all->out[i].id = m[first + i].node->out[0].id; /* values keep their ids */
    for (int i = 0; i < one->nattrs; i++) {
        dl_attr a = one->attrs[i];
        if (a.id == DL_ATTR_order) a.i = m[end - 1].made;
        if (a.id == DL_ATTR_of) a = names_of(g, m + first, n);
        dl_node_set(g, all, a);
    }
    for (int i = 0; i < n; i++) {
        dl_replace_value(g, &m[first + i].node->out[0], &all->out[i]);
        m[first + i].node->nin = 0; /* marks a node to be removed */
    }
    return all;
}

/* Does it sum over a group of ranks that gradients are summed over? */
static bool sums_gradients(const dl_node *n) {
    return n->op == DL_OP_all_reduce && strcmp(dl_node_name(n, DL_ATTR_group), "tp") != 0;
}

/* By value id: does another such sum of more than one number (as norms are) depend on it? Such a
 * sum is needed at once: a batch statistic in the forward or backward pass. */
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

/* The nodes of the graph that a bucket may hold, in order. A sum that fills a bucket by itself
 * stays alone, and does not end the bucket of small sums around it. For ordered collectives the
 * pass `order_collectives` has chosen: by now ranks with other shards may have other kernels, and
 * would choose differently. */
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
    DL_CHECK(dl_graph_sort(g));
    return true;
}
