/* Fusion: rounding legality of rematerialization: which values equal the original after
 * recomputation.
 *
 * A C compiler may contract a product and a sum into an FMA: one rounding instead of two. The
 * last bits of a recomputed value may then differ from the original. This matters only to
 * discontinuous readers (comparisons, reduce_max): the backward pass must take the same branch
 * as the forward pass, and must find an element that equals the maximum. Values that such a
 * reader depends on are pinned: all kernels compute them without contraction (no_contract) and
 * round 16-bit values where they are computed. */
#include "passes/fuse/fuse.h"

static bool is_discontinuous(const dl_node *n, const dl_value *v) {
    if (dl_ops[n->op].class != DL_CLASS_ELEM && dl_ops[n->op].class != DL_CLASS_REDUCE)
        return false;
    dl_curve curve = dl_op_curve(n->op);
    bool jumps = curve == DL_CURVE_STEP || curve == DL_CURVE_UNKNOWN ||
                 !dl_dtype_is_float(n->out[0].type.dtype);
    return curve == DL_CURVE_EXTREMUM || (jumps && dl_dtype_is_float(v->type.dtype));
}

static bool may_contract(const dl_fusion *f, dl_value *v) {
    v = dl_fuse_past_views(f, v);
    while (v->def && dl_op_forwards_product(v->def->op)) v = dl_fuse_past_views(f, v->def->in[0]);
    return v->def && dl_dtype_is_float(v->type.dtype) && dl_op_may_contract(v->def->op);
}

/* How a recomputed node rounds compared with the original, given its operands. */
enum {
    ALIKE,
    ALIKE_IF_PINNED, /* alike if dl_fuse_pin pins it: sums without contraction, 16-bit values
                     rounded as in memory */
    DIFFERENT
};

static const int *find_rounding(const dl_fusion *f) {
    int *of = DL_NEWS(f->ctx->arena, int, f->n + 1);
    for (int i = 0; i < f->n; i++) {
        const dl_node *n = f->graph->nodes.at[i];
        if (dl_dtype_is_half(n->out[0].type.dtype))
            of[i] = ALIKE_IF_PINNED; /* unless pinned, it is rounded where it is stored */
        if (dl_op_is_approximate(n->op)) of[i] = DIFFERENT;
        for (int k = 0; k < n->nin && dl_ops[n->op].class == DL_CLASS_ELEM; k++) {
            dl_value *v = dl_fuse_past_views(f, n->in[k]);
            int own = ALIKE, operand = v->def ? of[f->position[v->id]] : ALIKE;
            if (!dl_op_takes_rounded(n->op) && !is_discontinuous(n, v) && may_contract(f, v))
                own = dl_op_is_sum(n->op) ? ALIKE_IF_PINNED : DIFFERENT;
            if (own > of[i]) of[i] = own;
            if (operand > of[i]) of[i] = operand;
        }
    }
    return of;
}

/* Does a discontinuous reader depend on the rounding of node i? */
static bool has_discontinuous_reader(const dl_fusion *f, int i) {
    for (int k = 0; k < f->out[i].n; k++)
        if (is_discontinuous(f->graph->nodes.at[f->out[i].at[k].node],
                             &f->graph->nodes.at[i]->out[0]))
            return true;
    return false;
}

bool *dl_fuse_find_not_recomputable(dl_fusion *f) {
    const int *of = f->rounding = find_rounding(f);
    bool *not_recomputable = DL_NEWS(f->ctx->arena, bool, f->n + 1);
    for (int i = 0; i < f->n; i++)
        not_recomputable[i] = of[i] == DIFFERENT && has_discontinuous_reader(f, i);
    return not_recomputable;
}

/* Does the cluster compute the node, as its own or rematerialized? */
static bool is_in(const dl_fusion *f, int node, int cluster) {
    bool in = f->cluster[node] == cluster;
    for (int i = 0; i < f->recomputed_in[node].n; i++)
        in |= f->recomputed_in[node].at[i] == cluster;
    return in;
}

/* Is node i computed for memory only, where all readers load the same value? */
static bool is_stored_once(const dl_fusion *f, int i) {
    bool once = !f->recomputed_in[i].n;
    for (int k = 0; k < f->out[i].n; k++)
        once = once && !is_in(f, f->out[i].at[k].node, f->cluster[i]);
    return once;
}

void dl_fuse_pin(dl_fusion *f) {
    const int *of = f->rounding;
    f->pinned = DL_NEWS(f->ctx->arena, bool, f->n + 1);
    for (int i = f->n - 1; i >= 0; i--) {
        const dl_node *n = f->graph->nodes.at[i];
        f->pinned[i] |=
            of[i] == ALIKE_IF_PINNED && f->recomputed_in[i].n && has_discontinuous_reader(f, i);
        for (int k = 0; k < n->nin && f->pinned[i] && dl_ops[n->op].class == DL_CLASS_ELEM; k++) {
            const dl_value *v = dl_fuse_past_views(f, n->in[k]);
            int at = v->def ? f->position[v->id] : -1;
            if (at >= 0 && of[at] == ALIKE_IF_PINNED && !is_stored_once(f, at))
                f->pinned[at] = true;
        }
    }
}

bool dl_fuse_is_recomputed_source(const dl_fusion *f, const dl_value *v) {
    return v->def && dl_ops[v->def->op].class == DL_CLASS_SOURCE && dl_fuse_inlined(f, v->def);
}

/* The axis along which a tensor is contiguous in memory, or -1. */
static int find_inner(const dl_type *t) {
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++)
        if (t->axis[i].size != 1 && stride[i] == 1) return i;
    return -1;
}

/* Are the elements of a tensor read in memory order, when the points of `space` are visited in
 * memory order? A small tensor always counts as such. */
static bool is_in_order(const dl_type *space, const dl_type *t, const dl_index *index) {
    if (dl_type_count(t) * 2 <= dl_type_count(space)) return true;
    if (t->layout.kind == DL_PANEL || space->layout.kind == DL_PANEL)
        return dl_layout_same(t->layout, space->layout);
    int from = find_inner(t), to = find_inner(space);
    if (from < 0 || to < 0) return true;
    int follows = index[from].axis;
    for (int i = 0; i < index[from].nterms; i++)
        if (index[from].term[i].mul == 1) follows = index[from].term[i].axis;
    return follows == to;
}

bool dl_fuse_reads_in_order(const dl_fusion *f, const dl_node *n, int k) {
    const dl_type *space = &n->out[0].type;
    dl_index index[DL_MAX_RANK] = {0};
    dl_value *v = n->in[k];
    for (int i = 0; i < v->type.rank; i++)
        index[i].axis = *v->type.axis[i].name ? dl_type_axis(space, v->type.axis[i].name) : -1;
    for (; v->def && dl_fuse_inlined(f, v->def) && dl_ops[v->def->op].class == DL_CLASS_MOVE;
         v = v->def->in[0])
        DL_CHECK(dl_fuse_through_view(space->axis, v->def, index));
    for (int i = 0; i < v->type.rank; i++) {
        if (index[i].div > 1 || !dl_index_inside(space->axis, &index[i], v->type.axis[i].size))
            return false;
        for (int t = 0; t < index[i].nterms; t++)
            if (index[i].term[t].div > 1 || index[i].term[t].mod) return false;
    }
    return dl_fuse_is_recomputed_source(f, v) || is_in_order(space, &v->type, index);
}
