/* sequence: one order of collectives for all ranks.
 *
 * Ranks that share samples have pieces of different sizes (uneven tokens), and so perhaps other kernels, and
 * another schedule that needs least memory. Collectives, though, must begin in the same order on all of them,
 * or one waits for what another has not begun, or takes one message for the other. So they get numbers here,
 * while the graphs of all ranks have the same nodes: in the order in which what they carry is made. Fusion,
 * buckets and schedule keep it (waits.h). Ranks that share nothing but gradients have one plan, and need no
 * numbers. */
#include "passes/sequence.h"

#include <stdlib.h>

#include "ir/builder.h"
#include "passes/pass.h"

typedef struct {
    dl_node *node;
    int made, at; /* where the last of its operands is made, and where it stands */
} member;

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

/* An all_reduce knows the first number that is made of it: a bucket that it is in begins before. */
static void find_users(dl_graph *g, dl_arena *arena) {
    int *first = DL_NEWS(arena, int, g->next_id + 1); /* by value id: less the number of nodes; 0: none */
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        dl_node *n = g->nodes.at[i];
        int user = 0;
        for (int k = 0; k < n->nout; k++)
            if (first[n->out[k].id] < user) user = first[n->out[k].id];
        if (user && n->op == DL_OP_all_reduce)
            dl_node_set(g, n, dl_attr_int(DL_ATTR_until, user + g->nodes.n));
        if (dl_op_is_collective(n->op)) user = (int)dl_node_int(n, DL_ATTR_order) - g->nodes.n;
        for (int k = 0; k < n->nin; k++)
            if (user < first[n->in[k]->id]) first[n->in[k]->id] = user;
    }
}

/* Each stands behind what it carries, so that they also stand in the order of their numbers. */
bool dl_pass_sequence(dl_graph *g, dl_pass_ctx *ctx) {
    if (ctx->parallel.tp <= 1 && ctx->parallel.cp <= 1) return false;
    int *made = DL_NEWS(ctx->arena, int, g->next_id + 1), count = g->nodes.n, n = 0, placed = 0;
    dl_node **old = DL_NEWS(ctx->arena, dl_node *, count + 1);
    member *m = DL_NEWS(ctx->arena, member, count + 1);
    for (int i = 0; i < count; i++) {
        dl_node *node = old[i] = g->nodes.at[i];
        int last = -1;
        for (int k = 0; k < node->nin; k++)
            if (node->in[k]->def && made[node->in[k]->id] > last) last = made[node->in[k]->id];
        for (int k = 0; k < node->nout; k++) made[node->out[k].id] = i;
        if (dl_op_is_collective(node->op)) m[n++] = (member){node, last, i};
    }
    if (!n) return false;
    qsort(m, (size_t)n, sizeof *m, by_making);
    for (int i = 0; i < n; i++) dl_node_set(g, m[i].node, dl_attr_int(DL_ATTR_order, i));
    int next = 0;
    for (int i = -1; i < count; i++) {
        if (i >= 0 && !dl_op_is_collective(old[i]->op)) g->nodes.at[placed++] = old[i];
        for (; next < n && m[next].made <= i; next++) g->nodes.at[placed++] = m[next].node;
    }
    find_users(g, ctx->arena);
    return true;
}
