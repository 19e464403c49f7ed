/* simplify: repeats rounds over the graph until nothing changes. A round rebuilds the list of
 * nodes in order. The operands of each node are simplified already. A rule replaces the node, or
 * an equal earlier node does, or it stays. */
#include "passes/simplify/simplify.h"

#include "ir/base/hash.h"
#include "passes/core/rewrite.h"
#include "passes/pass.h"

/* ---- common subexpressions: an open-addressing table of the nodes of this round ---- */
typedef struct {
    dl_node **slot;
    size_t mask;
} node_table;

static bool same_attr(const dl_attr *a, const dl_attr *b) {
    if (a->id != b->id) return false;
    switch (dl_attrs[a->id].kind) {
    case DL_KIND_INT: return a->i == b->i;
    case DL_KIND_FLOAT:
        return memcmp(&a->f, &b->f, sizeof a->f) ==
               0; /* compares bits: -0 differs from 0, and a NaN equals itself */
    case DL_KIND_NAME: return a->s == b->s;
    case DL_KIND_STR: return strcmp(a->s, b->s) == 0;
    case DL_KIND_INTS:
        return a->n == b->n && memcmp(a->ints, b->ints, sizeof *a->ints * (size_t)a->n) == 0;
    case DL_KIND_NAMES:
        return a->n == b->n && memcmp(a->names, b->names, sizeof *a->names * (size_t)a->n) == 0;
    case DL_KIND_TEXTS:
        return a->n == b->n && memcmp(a->texts, b->texts, sizeof *a->texts * (size_t)a->n) == 0;
    }
    return false;
}

static bool same_node(const dl_node *a, const dl_node *b) {
    bool same = a->op == b->op && a->nin == b->nin && a->nattrs == b->nattrs &&
                dl_type_same(&a->out[0].type, &b->out[0].type) &&
                dl_layout_same(a->out[0].type.layout, b->out[0].type.layout);
    for (int i = 0; same && i < a->nin; i++) same = a->in[i] == b->in[i];
    for (int i = 0; same && i < a->nattrs; i++) same = same_attr(&a->attrs[i], &b->attrs[i]);
    return same;
}

/* Attributes are not hashed, except the value of constants, of which there are many. */
static uint64_t hash_node(const dl_node *n) {
    uint64_t h = dl_hash(&n->op, sizeof n->op, 0);
    for (int i = 0; i < n->nin; i++) h = dl_hash(&n->in[i]->id, sizeof n->in[i]->id, h);
    if (n->op == DL_OP_const) h = dl_hash(&n->attrs[0].f, sizeof n->attrs[0].f, h);
    return h;
}

/* The equal node already in the table, or NULL; then the node is added. Composites are never
 * equal: two dropouts of one value draw different numbers. */
static dl_node *find_equal(node_table *t, dl_node *n) {
    if (n->nout != 1 || dl_ops[n->op].class == DL_CLASS_HIGH || n->kernel || n->body) return NULL;
    size_t i = hash_node(n) & t->mask;
    for (; t->slot[i]; i = (i + 1) & t->mask)
        if (same_node(t->slot[i], n)) return t->slot[i];
    t->slot[i] = n;
    return NULL;
}

/* At most one node is kept for each old one, and rules add a few: twice the slots of the next
 * power of two. */
static node_table new_table(dl_arena *arena, int nodes) {
    size_t cap = 64;
    while (cap < 4 * (size_t)nodes) cap *= 2;
    return (node_table){DL_NEWS(arena, dl_node *, cap), cap - 1};
}

typedef struct {
    dl_simplifier s;
    node_table table;
} simplify_round;

static bool rewrite(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    simplify_round *r = user;
    r->s.b.loc = n->loc;
    made[0] = n->nout == 1 ? dl_simplify_node(&r->s, n) : NULL;
    const dl_node *equal = made[0] ? NULL : find_equal(&r->table, n);
    if (equal) made[0] = &equal->out[0];
    return made[0] != NULL;
}

static bool run_round(dl_graph *g, bool ranks, dl_arena *arena) {
    simplify_round r = {
        {.b = {.graph = g}, .uses = dl_graph_uses(g, arena), .known = g->next_id, .ranks = ranks},
        new_table(arena, g->nodes.n)};
    bool changed = dl_rewrite(g, arena, rewrite, &r);
    changed |= dl_graph_sweep(g);
    return dl_simplify_bodies(g, arena) || changed || r.s.changed;
}

bool dl_pass_simplify(dl_graph *g, dl_pass_ctx *ctx) {
    bool changed = false, ranks = ctx->parallel.tp > 1 || ctx->parallel.cp > 1;
    for (;;) {
        dl_arena *round = dl_arena_new(ctx->arena);
        bool again = run_round(g, ranks, round);
        dl_arena_free(round);
        if (!again) return changed;
        changed = true;
    }
}
