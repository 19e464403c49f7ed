/* Fusion: who reads whom, and how; which views their readers take in, and which must exist in memory. */
#include "passes/fuse.h"
#include "passes/sequence.h"

bool dl_fuse_same_axes(const dl_type *a, const dl_type *b) {
    int unnamed = 0;
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        int k = *a->axis[i].name ? dl_type_axis(b, a->axis[i].name) : -1;
        if (*a->axis[i].name && (k < 0 || b->axis[k].size != a->axis[i].size)) return false;
        unnamed += !*a->axis[i].name - !*b->axis[i].name;
    }
    return unnamed == 0;
}

/* Has b all named axes of a? */
bool dl_fuse_has_axes(const dl_type *b, const dl_type *a) {
    for (int i = 0; i < a->rank; i++) {
        int k = *a->axis[i].name ? dl_type_axis(b, a->axis[i].name) : -1;
        if (*a->axis[i].name && (k < 0 || b->axis[k].size != a->axis[i].size)) return false;
    }
    return true;
}

static bool is_wide_type(const dl_type *t) { return t->dtype == DL_F64 || t->dtype == DL_I64; }

bool dl_fuse_is_wide(const dl_node *n) {
    bool wide = is_wide_type(&n->out[0].type);
    for (int i = 0; i < n->nin; i++) wide |= is_wide_type(&n->in[i]->type);
    return wide;
}

/* Ops that compute one value a point from operands at the same point. */
bool dl_fuse_is_pointwise(dl_op op) { return dl_ops[op].class == DL_CLASS_ELEM || op == DL_OP_relayout; }

bool dl_fuse_numbered(dl_op op) { return op == DL_OP_gather || op == DL_OP_scatter_add; }

static bool is_view(dl_op op) {
    return !dl_fuse_numbered(op) &&
           (dl_ops[op].class == DL_CLASS_SOURCE ||
            (dl_ops[op].class == DL_CLASS_MOVE && op != DL_OP_cat && op != DL_OP_relayout));
}

bool dl_fuse_inlined(const dl_fusion *f, const dl_node *n) {
    return is_view(n->op) && !f->stored[n->out[0].id];
}

dl_value *dl_fuse_past_views(const dl_fusion *f, dl_value *v) {
    while (v->def && dl_fuse_inlined(f, v->def) && dl_ops[v->def->op].class == DL_CLASS_MOVE)
        v = v->def->in[0];
    return v;
}

/* Operand `k` of a contraction by windows, not the weight, may be several values side by side, read in place:
 * fills parts (at most 4), returns how many; 1 and the operand itself when it is not a usable cat. */
static int find_parts(const dl_node *n, int k, dl_value *parts[4]) {
    dl_value *v = n->in[k];
    parts[0] = v;
    if (!v->def || v->def->op != DL_OP_cat || v->def->nin > 4) return 1;
    if (dl_node_windows(n).groups > 1) return 1; /* whose channels end elsewhere than the parts */
    if (v->type.axis[1].name != dl_node_name(v->def, DL_ATTR_axis)) return 1;
    int weight = dl_op_place(n->op, DL_TENSOR_W);
    bool lanes = dl_op_tensor(n->op, k) == DL_TENSOR_Y; /* its channels lie along the weight's lanes */
    dl_layout of = (weight == DL_RESULT_PLACE ? n->out[0] : *n->in[weight]).type.layout;
    int width = lanes ? dl_layout_lanes(of) : 1;
    for (int i = 0; i < v->def->nin; i++) {
        if (i + 1 < v->def->nin && v->def->in[i]->type.axis[1].size % width) return 1;
        if (v->def->in[i]->type.layout.kind != DL_CL) return 1;
    }
    for (int i = 0; i < v->def->nin; i++) parts[i] = v->def->in[i]; /* once all are known to be usable */
    return v->def->nin;
}

/* Contractions, templates and collectives read operands from memory, as they lie. */
static bool reads_memory(dl_op op) { return dl_ops[op].class == DL_CLASS_CONTRACT || dl_op_stands_alone(op); }

/* A weight operand that is an aligned slice along O of a stored weight: that weight, and its first row in
 * *start; else itself. */
static dl_value *find_weight(const dl_node *n, int k, int64_t *start) {
    dl_value *w = n->in[k];
    if (dl_op_tensor(n->op, DL_RESULT_PLACE) != DL_TENSOR_Y || !w->def || w->def->op != DL_OP_slice) return w;
    dl_value *whole = w->def->in[0];
    int64_t first = dl_node_int(w->def, DL_ATTR_start), width = dl_layout_lanes(whole->type.layout);
    if (whole->type.layout.kind == DL_ROW || dl_node_name(w->def, DL_ATTR_axis) != whole->type.axis[0].name)
        return w;
    if (first % width || dl_node_windows(n).groups > 1) return w;
    *start = first;
    return whole;
}

int dl_fuse_reads(const dl_node *n, int k, dl_value *values[4], int64_t *start) {
    const char *names[DL_MAX_RANK];
    *start = 0;
    values[0] = n->in[k];
    if (dl_op_stands_alone(n->op)) return 1;
    bool weight = dl_op_tensor(n->op, k) == DL_TENSOR_W;
    if (dl_op_slides(n->op) && !weight) return find_parts(n, k, values);
    values[0] = weight ? find_weight(n, k, start) : dl_fuse_named(n, k, names);
    return 1;
}

/* A view that gives axes other names or another order, and nothing else. */
static bool is_renaming(const dl_node *n) {
    return n->op == DL_OP_rename ||
           (n->op == DL_OP_broadcast && dl_fuse_same_axes(&n->in[0]->type, &n->out[0].type));
}

dl_value *dl_fuse_named(const dl_node *n, int k, const char *names[DL_MAX_RANK]) {
    dl_value *v = n->in[k];
    for (int i = 0; i < v->type.rank; i++) names[i] = v->type.axis[i].name;
    while (v->def && is_renaming(v->def)) {
        dl_value *of = v->def->in[0];
        if (of->type.layout.kind == DL_PANEL) break; /* read as it is, and stored */
        const char *known[DL_MAX_RANK];
        memcpy(known, names, sizeof known);
        for (int i = 0; i < of->type.rank && v->def->op == DL_OP_broadcast; i++)
            names[i] = known[dl_type_axis(&v->type, of->type.axis[i].name)];
        v = of;
    }
    return v;
}

/* ---- edges ---- */

static void mark_stored(dl_fusion *f, dl_value *v) {
    if (v->def && is_view(v->def->op)) f->stored[v->id] = true;
}

/* A source is made anew at its reader's coordinates, if those are plain ones; a random number also where it
 * is not used, so only where there is one. */
static bool makes_source(const dl_type *space, const dl_value *v, const dl_index *index) {
    for (int i = 0; i < v->type.rank; i++)
        if (index[i].nterms || index[i].div > 1 ||
            ((index[i].outside != DL_OUT_ANY || v->def->op == DL_OP_random) &&
             !dl_index_inside(space->axis, &index[i], v->type.axis[i].size)))
            return false;
    return true;
}

/* A view that a reader over `space` cannot read through, at `index` of v, must exist in memory. */
static void store_unreadable(dl_fusion *f, const dl_type *space, dl_value *v, dl_index *index) {
    while (v->def && dl_fuse_inlined(f, v->def)) {
        bool source = dl_ops[v->def->op].class == DL_CLASS_SOURCE;
        if (!(source ? makes_source(space, v, index) : dl_fuse_through_view(space->axis, v->def, index))) {
            mark_stored(f, v);
            return;
        }
        if (source) return;
        v = v->def->in[0];
    }
}

/* What node n reads through views it must be able to read. */
static void store_unreadables(dl_fusion *f, const dl_node *n) {
    const dl_type *space = dl_ops[n->op].class == DL_CLASS_REDUCE ? &n->in[0]->type : &n->out[0].type;
    bool view = is_view(n->op);
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

/* Views that contractions, results and other views cannot take in must exist in memory. */
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
        for (int k = 0; k < 2 && dl_fuse_numbered(n->op); k++)
            mark_stored(f, n->in[k]); /* read as they are */
        if (reads_memory(n->op) || dl_fuse_inlined(f, n)) continue;
        store_unreadables(f, n);
    }
}

/* Views that are read at the reader's coordinates, by name. */
static bool is_by_name(dl_op op) {
    return op == DL_OP_broadcast || op == DL_OP_squeeze || op == DL_OP_unsqueeze;
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
        by_name = by_name && is_by_name(v->def->op);
        v = v->def->in[0], kind = DL_EDGE_HARD;
    }
    if (!v->def) return;
    if (kind == DL_EDGE_HARD && by_name && dl_fuse_has_axes(t, &v->type) && !dl_fuse_same_axes(t, &v->type) &&
        dl_fuse_from_reduction(f, v, t))
        kind = DL_EDGE_SPREAD;
    dl_push(f->ctx->arena, &f->out[f->position[v->id]], (dl_edge){reader, kind});
}

/* Collectives begin in the order of their numbers. A bucket with an all_reduce may wait for any collective
 * before `until`, so what reads the all_reduce comes after these. No collective before `until` depends on
 * such a reader, hence these edges close no circle by themselves; a kernel must not close one either. */
static void add_sequence(dl_fusion *f) {
    int n;
    dl_node **line = dl_in_sequence(f->graph, f->ctx->arena, &n);
    for (int i = n - 1; i >= 0; i--) { /* edges are added to later ones alone: out[from] has readers only */
        const dl_attr *until = dl_node_attr(line[i], DL_ATTR_until);
        int from = f->position[line[i]->out[0].id], last = i;
        while (until && last + 1 < n && dl_node_int(line[last + 1], DL_ATTR_order) < until->i) last++;
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
                bool soft = dl_fuse_is_pointwise(n->op) ? dl_fuse_same_axes(&n->in[k]->type, &n->out[0].type)
                                                        : dl_ops[n->op].class == DL_CLASS_REDUCE;
                add_edges(f, n->in[k], i, soft ? DL_EDGE_SOFT : DL_EDGE_HARD);
            }
        }
    }
    add_sequence(f);
}
