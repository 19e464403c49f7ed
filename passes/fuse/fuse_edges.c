/* Fusion: the edges between nodes and their kinds, and the views that must exist in memory. */
#include "passes/fuse/fuse.h"
#include "passes/parallel/order_collectives.h"

/* Contractions, templates and collectives read operands from memory, in their layout. */
static bool reads_memory(dl_op op) {
    return dl_ops[op].class == DL_CLASS_CONTRACT || dl_op_is_opaque(op);
}

/* ---- edges ---- */

static void mark_stored(dl_fusion *f, dl_value *v) {
    if (v->def && dl_fuse_is_view(v->def->op)) f->stored[v->id] = true;
}

/* Does the reader recompute this source at its own coordinates? Only where the index is a plain
 * coordinate. A random number is computed even at points that do not use it, so it is recomputed
 * only where the index is always inside. */
static bool makes_source(const dl_type *space, const dl_value *v, const dl_index *index) {
    for (int i = 0; i < v->type.rank; i++)
        if (index[i].nterms || index[i].div > 1 ||
            ((index[i].outside != DL_OUT_ANY || v->def->op == DL_OP_random) &&
             !dl_index_inside(space->axis, &index[i], v->type.axis[i].size)))
            return false;
    return true;
}

/* Stores a view that a reader over `space` cannot read through, at `index` of v. */
static void store_unreadable(dl_fusion *f, const dl_type *space, dl_value *v, dl_index *index) {
    while (v->def && dl_fuse_inlined(f, v->def)) {
        bool source = dl_ops[v->def->op].class == DL_CLASS_SOURCE;
        if (!(source ? makes_source(space, v, index)
                     : dl_fuse_through_view(space->axis, v->def, index))) {
            mark_stored(f, v);
            return;
        }
        if (source) return;
        v = v->def->in[0];
    }
}

/* Stores the views that node n cannot read through. */
static void store_unreadables(dl_fusion *f, const dl_node *n) {
    const dl_type *space =
        dl_ops[n->op].class == DL_CLASS_REDUCE ? &n->in[0]->type : &n->out[0].type;
    bool view = dl_fuse_is_view(n->op);
    int64_t start = 0;
    for (int k = 0; k < n->nin; k++) {
        const dl_type *t = view ? &n->out[0].type : &n->in[k]->type;
        dl_index index[DL_MAX_RANK] = {0};
        for (int i = 0; i < t->rank; i++)
            index[i].axis = *t->axis[i].name ? dl_type_axis(space, t->axis[i].name) : -1;
        if (n->op == DL_OP_cat) start += dl_fuse_part_index(n, k, start, index);
        if (view) DL_CHECK(dl_fuse_through_view(space->axis, n, index));
        store_unreadable(f, space, n->in[k], index);
    }
}

/* Stores the views that contractions, results and other views cannot inline. */
void dl_fuse_find_stored(dl_fusion *f) {
    dl_graph *g = f->graph;
    for (int i = 0; i < g->results.n; i++) mark_stored(f, g->results.at[i].value);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        dl_node *n = g->nodes.at[i];
        if (reads_memory(n->op)) {
            for (int k = 0; k < n->nin; k++) {
                int64_t start;
                dl_value *values[4];
                int count = dl_fuse_reads(n, k, values, &start);
                for (int v = 0; v < count; v++) mark_stored(f, values[v]);
            }
        }
        for (int k = 0; k < 2 && dl_fuse_is_indexed(n->op); k++)
            mark_stored(f, n->in[k]); /* these read memory as it is */
        if (reads_memory(n->op) || dl_fuse_inlined(f, n)) continue;
        store_unreadables(f, n);
    }
}

static void add_edges(dl_fusion *f, dl_value *v, int reader, dl_edge_kind kind) {
    const dl_node *n = f->graph->nodes.at[reader];
    const dl_type *t = &n->out[0].type;
    bool by_name = dl_fuse_is_pointwise(n->op);
    while (v->def && dl_fuse_inlined(f, v->def)) {
        if (dl_ops[v->def->op].class == DL_CLASS_SOURCE) {
            for (int i = 0; i < v->def->nin; i++) add_edges(f, v->def->in[i], reader, DL_EDGE_HARD);
            return;
        }
        by_name = by_name && dl_op_move(v->def->op) == DL_MOVE_NAMES;
        v = v->def->in[0], kind = DL_EDGE_HARD;
    }
    if (!v->def) return;
    if (kind == DL_EDGE_HARD && by_name && dl_fuse_has_axes(t, &v->type) &&
        !dl_fuse_same_axes(t, &v->type) && dl_fuse_from_reduction(f, v, t))
        kind = DL_EDGE_BROADCAST_BACK;
    dl_push(f->ctx->arena, &f->out[f->position[v->id]], (dl_edge){reader, kind});
}

/* Collectives start in the order of their numbers. A bucket with an all_reduce may wait for any
 * collective before `until`, so each reader of the all_reduce must run after these. No
 * collective before `until` depends on such a reader. So these edges close no circle by
 * themselves, and no kernel may close one either. */
static void add_sequence(dl_fusion *f) {
    int n;
    dl_node **line = dl_in_sequence(f->graph, f->ctx->arena, &n);
    /* From the last node on: edges lead to later collectives only, so out[from] has readers. */
    for (int i = n - 1; i >= 0; i--) {
        const dl_attr *until = dl_node_attr(line[i], DL_ATTR_until);
        int from = f->position[line[i]->out[0].id], last = i;
        while (until && last + 1 < n && dl_node_int(line[last + 1], DL_ATTR_order) < until->i)
            last++;
        dl_edges *before = &f->out[f->position[line[last]->out[0].id]];
        for (int k = 0; last > i && k < f->out[from].n; k++)
            dl_push(f->ctx->arena, before, ((dl_edge){f->out[from].at[k].node, DL_EDGE_HARD}));
    }
    for (int i = 1; i < n; i++)
        dl_push(f->ctx->arena, &f->out[f->position[line[i - 1]->out[0].id]],
                ((dl_edge){f->position[line[i]->out[0].id], DL_EDGE_HARD}));
}

void dl_fuse_find_edges(dl_fusion *f) {
    f->out = DL_NEWS(f->ctx->arena, dl_edges, f->n ? f->n : 1);
    for (int i = 0; i < f->n; i++) {
        dl_node *n = f->graph->nodes.at[i];
        if (dl_fuse_inlined(f, n)) continue;
        for (int k = 0; k < n->nin; k++) {
            if (reads_memory(n->op)) {
                int64_t start;
                dl_value *values[4];
                int count = dl_fuse_reads(n, k, values, &start);
                for (int v = 0; v < count; v++) add_edges(f, values[v], i, DL_EDGE_HARD);
            } else {
                bool soft = dl_fuse_is_pointwise(n->op)
                                ? dl_fuse_same_axes(&n->in[k]->type, &n->out[0].type)
                                : dl_ops[n->op].class == DL_CLASS_REDUCE;
                add_edges(f, n->in[k], i, soft ? DL_EDGE_SOFT : DL_EDGE_HARD);
            }
        }
    }
    add_sequence(f);
}
