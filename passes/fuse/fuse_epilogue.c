/* Fusion: the contraction whose epilogue can take a reduction. */
#include "passes/fuse/fuse.h"

bool dl_fuse_takes_reduction(const dl_fusion *f, const dl_node *anchor, const dl_node *reduce) {
    const dl_type *t = &reduce->out[0].type, *all = &anchor->out[0].type;
    unsigned kept = 0;
    for (int i = 0; i < t->rank; i++) {
        int axis = all->rank - 1;
        while (axis >= 0 && all->axis[axis].name != t->axis[i].name) axis--;
        if (axis < 0) return false;
        kept |= 1u << axis;
    }
    return f->contractions->epilogue_takes(anchor->op, reduce->op, t->dtype, kept);
}

enum { MOST = 3 * DL_FUSE_EPILOGUE_NODES };

/* The nodes that a value is computed from, the latest of which is looked at next. */
typedef struct {
    int n, at[MOST];      /* positions */
    bool ends_here[MOST]; /* by index: past it are other points */
    bool full;            /* there are more */
} origins;

static void add_origin(const dl_fusion *f, origins *o, const dl_node *n, bool ends_here) {
    const int at = f->position[n->out[0].id];
    if (dl_ops[n->op].class == DL_CLASS_SOURCE) return; /* constants, random numbers */
    for (int i = 0; i < o->n; i++)
        if (o->at[i] == at) return;
    if (o->n == MOST) {
        o->full = true;
        return;
    }
    o->at[o->n] = at, o->ends_here[o->n++] = ends_here;
}

/* Operand k of a pointwise node: a value at these points, or a view of others, or a result of
 * reductions over these points. Other operands are finished before any kernel over these points. */
static void add_operand(const dl_fusion *f, origins *o, const dl_node *n, int k) {
    dl_value *v = n->in[k], *whole = dl_fuse_past_views(f, v);
    const bool same = dl_fuse_same_axes(&v->type, &n->out[0].type);
    if (!whole->def || (!same && !dl_fuse_from_reduction(f, v, &n->out[0].type))) return;
    add_origin(f, o, whole->def, !same || whole != v);
}

/* The last node that v depends on through pointwise ops on these points. What they read besides is
 * finished before that node, and in memory: so is what a gradient's mask is made of, the forward
 * pass's values. NULL: DL_FUSE_EPILOGUE_NODES or more nodes are between them, or many values, or
 * the last one is read at other points, or there is none. */
static const dl_node *find_origin(const dl_fusion *f, const dl_value *v) {
    origins o = {0};
    if (v->def) add_origin(f, &o, v->def, false);
    for (int steps = 0; o.n && !o.full && steps < DL_FUSE_EPILOGUE_NODES; steps++) {
        int last = 0;
        for (int i = 1; i < o.n; i++)
            if (o.at[i] > o.at[last]) last = i;
        const dl_node *n = f->graph->nodes.at[o.at[last]];
        if (o.ends_here[last]) return NULL;
        if (!dl_fuse_is_pointwise(n->op)) return n;
        o.n--, o.at[last] = o.at[o.n], o.ends_here[last] = o.ends_here[o.n];
        for (int k = 0; k < n->nin; k++) add_operand(f, &o, n, k);
    }
    return NULL;
}

const dl_node *dl_fuse_epilogue_producer(const dl_fusion *f, const dl_node *reduce) {
    const dl_node *n = find_origin(f, reduce->in[0]);
    return n && dl_ops[n->op].class == DL_CLASS_CONTRACT && dl_fuse_takes_reduction(f, n, reduce)
               ? n
               : NULL;
}
