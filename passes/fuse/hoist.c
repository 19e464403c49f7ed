/* Moves what is the same at each step of a scan (ir/body.h) out of its body: a weight's panels, its
 * copy in 16 bits, products of weights. They are then computed once, and are one more operand. Only
 * what a kernel computes moves: a view or a constant costs a step nothing, and a broadcast would
 * have to be stored. */
#include "ir/body.h"
#include "ir/walk.h"
#include "passes/fuse/fuse.h"

typedef struct {
    dl_graph *around, *body;
    dl_node *n;
    dl_arena *arena;
    bool *same;     /* by value id of the body: depends on parameters alone */
    bool *costs;    /* and a kernel computes it, or what it is a view of */
    dl_value **now; /* the value in the graph around, once it is there */
    DL_ARRAY(dl_node *) moved;
} hoist;

static void find_same(hoist *h) {
    for (int i = 0; i < h->body->vars.n; i++) {
        const dl_var *v = h->body->vars.at[i];
        h->same[v->value.id] = v->role == DL_VAR_PARAM;
        h->now[v->value.id] = v->role == DL_VAR_PARAM ? h->n->in[i] : NULL;
    }
    for (int i = 0; i < h->body->nodes.n; i++) {
        const dl_node *n = h->body->nodes.at[i];
        int64_t most = 0;
        bool same = n->nout == 1 && !n->body && !dl_op_is_opaque(n->op), costs = false;
        for (int k = 0; k < n->nin; k++) {
            same = same && h->same[n->in[k]->id];
            costs |= h->costs[n->in[k]->id];
            if (dl_type_count(&n->in[k]->type) > most) most = dl_type_count(&n->in[k]->type);
        }
        bool lays = n->op == DL_OP_relayout &&
                    !dl_layout_same(n->in[0]->type.layout, n->out[0].type.layout);
        costs |= lays || !(dl_op_is_view(n->op) || dl_op_move(n->op) == DL_MOVE_COPY ||
                           dl_ops[n->op].class == DL_CLASS_SOURCE);
        h->same[n->out[0].id] = same && dl_type_count(&n->out[0].type) <= (n->nin ? most : 1);
        h->costs[n->out[0].id] = costs && n->nin;
    }
}

/* The value in the graph around, with the nodes that make it. */
static dl_value *move(hoist *h, dl_value *v) {
    if (h->now[v->id]) return h->now[v->id];
    const dl_node *n = v->def;
    dl_value **in = DL_NEWS(h->arena, dl_value *, n->nin + 1);
    for (int k = 0; k < n->nin; k++) in[k] = move(h, n->in[k]);
    dl_node *made = dl_node_new(h->around, n->op, n->nin, in, 1, &v->type, n->loc);
    for (int k = 0; k < n->nattrs; k++) dl_node_set(h->around, made, n->attrs[k]);
    dl_push(h->arena, &h->moved, made);
    return h->now[v->id] = &made->out[0];
}

/* The body reads an operand in place of v. */
static void add_operand(hoist *h, dl_value *v) {
    const char *name = dl_internf("same%u", v->id);
    while (dl_graph_find_var(h->body, name)) name = dl_internf("%s'", name);
    dl_var *var = dl_graph_var(h->body, DL_VAR_PARAM, name, v->type, (dl_init){0}, v->def->loc);
    dl_node *n = h->n;
    dl_value **in = DL_NEWS(h->around->module->arena, dl_value *, n->nin + 1);
    memcpy(in, n->in, sizeof *in * (size_t)n->nin);
    in[n->nin++] = h->now[v->id], n->in = in;
    dl_replace_value(h->body, v, &var->value);
}

/* Is it read by a node that stays, or a result? */
static bool stays_read(const hoist *h, const dl_uses *u) {
    bool read = u->results > 0;
    for (int i = 0; i < u->n; i++) read |= !h->same[u->readers[i]->out[0].id];
    return read;
}

static bool hoist_from(dl_graph *g, int at, dl_arena *arena) {
    dl_node *n = g->nodes.at[at];
    hoist h = {.around = g, .body = n->body, .n = n, .arena = arena};
    const uint32_t known = n->body->next_id;
    h.same = DL_NEWS(arena, bool, known + 1), h.costs = DL_NEWS(arena, bool, known + 1);
    h.now = DL_NEWS(arena, dl_value *, known + 1);
    find_same(&h);
    const dl_uses *uses = dl_graph_uses(n->body, arena);
    DL_ARRAY(dl_value *) wanted = {0};
    for (int i = 0; i < n->body->nodes.n; i++) {
        dl_value *v = &n->body->nodes.at[i]->out[0];
        if (h.same[v->id] && h.costs[v->id] && stays_read(&h, &uses[v->id]))
            dl_push(arena, &wanted, v);
    }
    for (int i = 0; i < wanted.n; i++) move(&h, wanted.at[i]);
    for (int i = 0; i < wanted.n; i++) add_operand(&h, wanted.at[i]);
    const int moved = h.moved.n, after = g->nodes.n - at;
    for (int i = 0; i < moved; i++) dl_push(g->module->arena, &g->nodes, NULL);
    memmove(g->nodes.at + at + moved, g->nodes.at + at, sizeof *g->nodes.at * (size_t)after);
    for (int i = 0; i < moved; i++) g->nodes.at[at + i] = h.moved.at[i];
    if (moved) dl_graph_sweep(n->body);
    return moved > 0;
}

bool dl_fuse_hoist(dl_graph *g, dl_arena *arena) {
    bool any = false;
    for (int i = g->nodes.n - 1; i >= 0; i--)
        if (g->nodes.at[i]->body) any |= hoist_from(g, i, arena);
    return any;
}
