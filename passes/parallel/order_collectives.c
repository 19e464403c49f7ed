/* order_collectives: numbers collectives in one order for all ranks.
 *
 * Ranks that share samples have shards of different sizes (uneven tokens), and so perhaps other
 * kernels and another schedule with the least memory. But collectives must start in the same order
 * on all ranks: otherwise one rank waits for a collective that another has not started, or takes
 * one message for another. So they are numbered while the graphs of all ranks still have the same
 * nodes, in the order in which their operands are computed. Fusion, buckets and schedule keep this
 * order (waits.h). Ranks that share only gradients have one plan, and need no numbers. */
#include "passes/parallel/order_collectives.h"

#include <stdlib.h>

#include "ir/builder.h"
#include "passes/pass.h"

typedef struct {
    dl_node *node;
    int made,
        at; /* the position of the node that computes its last operand, and its own position */
} member;
typedef DL_ARRAY(dl_node *) node_list;

static int by_making(const void *pa, const void *pb) {
    const member *a = pa, *b = pb;
    return a->made != b->made ? a->made - b->made : a->at - b->at;
}

static int by_number(const void *pa, const void *pb) {
    int64_t a = dl_node_int(*(dl_node *const *)pa, DL_ATTR_order),
            b = dl_node_int(*(dl_node *const *)pb, DL_ATTR_order);
    return (a > b) - (a < b);
}

dl_node **dl_in_sequence(const dl_graph *g, dl_arena *arena, int *n) {
    dl_node **line = DL_NEWS(arena, dl_node *, g->nodes.n + 1);
    *n = 0;
    for (int i = 0; i < g->nodes.n; i++)
        if (dl_op_is_collective(g->nodes.at[i]->op) && dl_node_attr(g->nodes.at[i], DL_ATTR_order))
            line[(*n)++] = g->nodes.at[i];
    if (*n) qsort(line, (size_t)*n, sizeof *line, by_number);
    return line;
}

/* Gives each all_reduce that a bucket may hold the number of the first collective that depends on
 * it, or the number of collectives: its bucket must start before that one. */
static void note_until(dl_graph *g, int count, const dl_pass_ctx *ctx) {
    const bool *joinable = dl_find_joinable(g, ctx->parallel.bucket_bytes, ctx->arena);
    int *first =
        DL_NEWS(ctx->arena, int, g->next_id + 1); /* by value id, minus the count; 0: none */
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        dl_node *n = g->nodes.at[i];
        int user = 0;
        for (int k = 0; k < n->nout; k++)
            if (first[n->out[k].id] < user) user = first[n->out[k].id];
        if (joinable[i]) dl_node_set(g, n, dl_attr_int(DL_ATTR_until, user + count));
        if (dl_op_is_collective(n->op)) user = (int)dl_node_int(n, DL_ATTR_order) - count;
        for (int k = 0; k < n->nin; k++)
            if (user < first[n->in[k]->id]) first[n->in[k]->id] = user;
    }
}

/* By node: the number of the last collective that a bucket with one of its operands may wait for;
 * -1: none. */
static int *find_held(const dl_graph *g, dl_arena *arena) {
    int *held = DL_NEWS(arena, int, g->nodes.n + 1), *of = DL_NEWS(arena, int, g->next_id + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        held[i] = -1;
        for (int k = 0; k < n->nin; k++)
            if (n->in[k]->def && of[n->in[k]->id] > held[i]) held[i] = of[n->in[k]->id];
        const dl_attr *until = dl_node_attr(n, DL_ATTR_until);
        for (int k = 0; k < n->nout; k++) of[n->out[k].id] = until ? (int)until->i - 1 : held[i];
    }
    return held;
}

/* Places each collective after the node that computes its last operand, so that collectives are in
 * the order of their numbers. Readers of a bucket's sums are placed after the last collective that
 * the bucket may wait for. */
static void place(dl_graph *g, const member *m, int n, dl_arena *arena) {
    const int *held = find_held(g, arena);
    int count = g->nodes.n, next = 0, placed = 0;
    dl_node **old = DL_NEWS(arena, dl_node *, count + 1);
    node_list *waiting =
        DL_NEWS(arena, node_list, n + 1); /* by the number of the collective that they wait for */
    if (count) memcpy(old, g->nodes.at, sizeof *old * (size_t)count);
    for (int i = -1; i < count; i++) {
        if (i >= 0 && !dl_op_is_collective(old[i]->op)) {
            if (held[i] < next)
                g->nodes.at[placed++] = old[i];
            else
                dl_push(arena, &waiting[held[i]], old[i]);
        }
        for (; next < n && m[next].made <= i; next++) {
            g->nodes.at[placed++] = m[next].node;
            for (int k = 0; k < waiting[next].n; k++) g->nodes.at[placed++] = waiting[next].at[k];
        }
    }
}

bool dl_pass_order_collectives(dl_graph *g, dl_pass_ctx *ctx) {
    if (ctx->parallel.tp <= 1 && ctx->parallel.cp <= 1) return false;
    int *made = DL_NEWS(ctx->arena, int, g->next_id + 1), n = 0;
    member *m = DL_NEWS(ctx->arena, member, g->nodes.n + 1);
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *node = g->nodes.at[i];
        int last = -1;
        for (int k = 0; k < node->nin; k++)
            if (node->in[k]->def && made[node->in[k]->id] > last) last = made[node->in[k]->id];
        for (int k = 0; k < node->nout; k++) made[node->out[k].id] = i;
        if (dl_op_is_collective(node->op)) m[n++] = (member){node, last, i};
    }
    if (!n) return false;
    qsort(m, (size_t)n, sizeof *m, by_making);
    for (int i = 0; i < n; i++) dl_node_set(g, m[i].node, dl_attr_int(DL_ATTR_order, i));
    note_until(g, n, ctx);
    place(g, m, n, ctx->arena);
    return true;
}
