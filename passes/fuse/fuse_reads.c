/* Fusion: kinds of nodes, comparison of their axes, and the values that they read: past inlined
 * views, parts of a concatenation, a weight past its slice. */
#include "passes/fuse/fuse.h"

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
bool dl_fuse_is_pointwise(dl_op op) {
    return dl_ops[op].class == DL_CLASS_ELEM || dl_op_move(op) == DL_MOVE_COPY;
}

bool dl_fuse_is_indexed(dl_op op) {
    return dl_op_move(op) == DL_MOVE_GATHER || dl_op_move(op) == DL_MOVE_SCATTER;
}

bool dl_fuse_is_view(dl_op op) { return dl_ops[op].class == DL_CLASS_SOURCE || dl_op_is_view(op); }

bool dl_fuse_inlined(const dl_fusion *f, const dl_node *n) {
    return dl_fuse_is_view(n->op) && !f->stored[n->out[0].id];
}

dl_value *dl_fuse_past_views(const dl_fusion *f, dl_value *v) {
    while (v->def && dl_fuse_inlined(f, v->def) && dl_ops[v->def->op].class == DL_CLASS_MOVE)
        v = v->def->in[0];
    return v;
}

/* Operand `k` of a contraction by windows, other than the weight, may be a concatenation of
 * several values that are read in place. Fills parts (at most 4), returns their number; 1 and
 * the operand itself where it is no usable concatenation. */
static int find_parts(const dl_node *n, int k, dl_value *parts[4]) {
    dl_value *v = n->in[k];
    parts[0] = v;
    if (!v->def || v->def->op != DL_OP_cat || v->def->nin > 4) return 1;
    if (dl_node_windows(n).groups > 1)
        return 1; /* groups of channels end at other places than the parts */
    if (v->type.axis[1].name != dl_node_name(v->def, DL_ATTR_axis)) return 1;
    int weight = dl_op_place(n->op, DL_TENSOR_W);
    bool lanes =
        dl_op_tensor(n->op, k) == DL_TENSOR_Y; /* its channels are along the lanes of the weight */
    dl_layout of = (weight == DL_RESULT_PLACE ? n->out[0] : *n->in[weight]).type.layout;
    int width = lanes ? dl_layout_lanes(of) : 1;
    for (int i = 0; i < v->def->nin; i++) {
        if (i + 1 < v->def->nin && v->def->in[i]->type.axis[1].size % width) return 1;
        if (!dl_layout_same(v->def->in[i]->type.layout, (dl_layout){.kind = DL_CL})) return 1;
    }
    for (int i = 0; i < v->def->nin; i++)
        parts[i] = v->def->in[i]; /* only when all are known to be usable */
    return v->def->nin;
}

/* A weight operand may be an aligned slice of a stored weight along O. Returns the stored weight
 * and its first row in *start, otherwise the operand itself. */
static dl_value *find_weight(const dl_node *n, int k, int64_t *start) {
    dl_value *w = n->in[k];
    if (dl_op_tensor(n->op, DL_RESULT_PLACE) != DL_TENSOR_Y || !w->def || w->def->op != DL_OP_slice)
        return w;
    dl_value *whole = w->def->in[0];
    int64_t first = dl_node_int(w->def, DL_ATTR_start), width = dl_layout_lanes(whole->type.layout);
    if (!dl_layout_same(whole->type.layout, w->type.layout) ||
        dl_node_name(w->def, DL_ATTR_axis) != whole->type.axis[0].name)
        return w;
    if (first % width || dl_node_windows(n).groups > 1) return w;
    *start = first;
    return whole;
}

int dl_fuse_reads(const dl_node *n, int k, dl_value *values[4], int64_t *start) {
    const char *names[DL_MAX_RANK];
    *start = 0;
    values[0] = n->in[k];
    if (dl_op_is_opaque(n->op)) return 1;
    bool weight = dl_op_tensor(n->op, k) == DL_TENSOR_W;
    if (dl_op_slides(n->op) && !weight) return find_parts(n, k, values);
    values[0] = weight ? find_weight(n, k, start) : dl_fuse_named(n, k, names);
    return 1;
}

/* A view that renames or permutes axes, and does nothing else. */
static bool is_renaming(const dl_node *n) {
    return n->op == DL_OP_rename ||
           (n->op == DL_OP_broadcast && dl_fuse_same_axes(&n->in[0]->type, &n->out[0].type));
}

dl_value *dl_fuse_named(const dl_node *n, int k, const char *names[DL_MAX_RANK]) {
    dl_value *v = n->in[k];
    for (int i = 0; i < v->type.rank; i++) names[i] = v->type.axis[i].name;
    while (v->def && is_renaming(v->def)) {
        dl_value *of = v->def->in[0];
        if (of->type.layout.kind == DL_PANEL) break; /* stored, and read as it is */
        const char *known[DL_MAX_RANK];
        memcpy(known, names, sizeof known);
        for (int i = 0; i < of->type.rank && v->def->op == DL_OP_broadcast; i++)
            names[i] = known[dl_type_axis(&v->type, of->type.axis[i].name)];
        v = of;
    }
    return v;
}
