/* Receptive fields along one axis of an input: propagates them from the input through every node
 * to the outputs. */
#include <math.h>

#include "ir/affine.h"
#include "ir/relation.h"
#include "passes/core/prediction.h"

/* The dependence of a value on the axis. */
typedef struct {
    bool all; /* may depend on every position; `why` and `where` name the first such op */
    int axis; /* its axis along which the field moves; -1: none */
    int64_t num,
        den; /* element i reads input positions from i num / den + lo to i num / den + hi */
    double lo, hi;
    unsigned varies; /* bits of the axes along which it differs for other reasons than the input */
    const char *why;
    dl_loc where;
} extent;

typedef struct {
    extent *of;   /* by value id */
    int64_t size; /* of the axis */
    int64_t step;
} reach;

static int64_t divisor(int64_t a, int64_t b) { return b ? divisor(b, a % b) : a; }

static extent nothing(void) { return (extent){.axis = -1, .num = 1, .den = 1}; }

static extent everything(const dl_node *n, const char *why) {
    extent e = nothing();
    e.all = true, e.why = why, e.where = n->loc;
    return e;
}

/* Every axis of more than one element. */
static unsigned all_axes(const dl_type *t) {
    unsigned bits = 0;
    for (int i = 0; i < t->rank; i++) bits |= (unsigned)(t->axis[i].size > 1) << i;
    return bits;
}

/* Composes: the node reads e at positions (i a + b_lo) / c to (i a + b_hi) / c. */
static bool scale(extent *e, int64_t a, double b_lo, double b_hi, int64_t c) {
    double s = (double)e->num / (double)e->den;
    e->lo += b_lo / (double)c * s, e->hi += b_hi / (double)c * s;
    if (a < 1 || c < 1 || __builtin_mul_overflow(e->num, a, &e->num) ||
        __builtin_mul_overflow(e->den, c, &e->den))
        return false;
    int64_t d = divisor(e->num, e->den);
    e->num /= d, e->den /= d;
    return true;
}

/* Adds the field of another operand; `to[k]` is the result's axis for the operand's axis k, or
 * -1. */
static void join(extent *sum, const extent *e, const dl_type *t, const int *to, const dl_node *n) {
    if (sum->all) return;
    if (e->all) {
        *sum = *e;
        return;
    }
    for (int k = 0; k < t->rank; k++)
        if (e->varies >> k & 1 && to[k] >= 0) sum->varies |= 1u << to[k];
    if (e->axis < 0) return;
    int axis = to[e->axis];
    if (axis < 0)
        *sum = everything(n, "reduces it");
    else if (sum->axis < 0)
        sum->axis = axis, sum->num = e->num, sum->den = e->den, sum->lo = e->lo, sum->hi = e->hi;
    else if (sum->axis != axis || sum->num != e->num || sum->den != e->den)
        *sum = everything(n, "brings different positions together");
    else
        sum->lo = fmin(sum->lo, e->lo), sum->hi = fmax(sum->hi, e->hi);
}

static void by_name(const dl_type *from, const dl_type *result, int to[DL_MAX_RANK]) {
    for (int k = 0; k < from->rank; k++)
        to[k] = *from->axis[k].name ? dl_type_axis(result, from->axis[k].name) : -1;
}

/* Operands whose axes match by name. An axis that the result lacks is reduced. */
static extent join_all(const reach *r, const dl_node *n) {
    extent sum = nothing();
    for (int i = 0; i < n->nin; i++) {
        int to[DL_MAX_RANK];
        by_name(&n->in[i]->type, &n->out[0].type, to);
        join(&sum, &r->of[n->in[i]->id], &n->in[i]->type, to, n);
    }
    return sum;
}

/* One operand, whose axes the result keeps in order. */
static extent in_order(const reach *r, const dl_node *n) {
    extent sum = nothing();
    int to[DL_MAX_RANK];
    for (int k = 0; k < n->in[0]->type.rank; k++) to[k] = k;
    join(&sum, &r->of[n->in[0]->id], &n->in[0]->type, to, n);
    return sum;
}

/* Sliding windows: in = out stride + tap dilation - pad; applied forward, or solved for out. */
static extent reach_of_windows(const reach *r, const dl_node *n) {
    bool forwards = dl_op_tensor(n->op, DL_RESULT_PLACE) == DL_TENSOR_Y;
    int data = dl_op_place(n->op, forwards ? DL_TENSOR_X : DL_TENSOR_Y),
        weight = dl_op_place(n->op, DL_TENSOR_W);
    if (weight == DL_RESULT_PLACE) return everything(n, "sums over it");
    extent e = r->of[n->in[data]->id];
    const extent *w = &r->of[n->in[weight]->id];
    if (w->all) return *w;
    if (w->axis >= 0) return everything(n, "has weights that are made of it");
    if (e.all) return e;
    dl_windows v = dl_node_windows(n);
    if (e.axis == 1) return everything(n, "sums over it");
    for (int i = 0; i < v.n; i++) /* padding has other values than the tensor */
        if (e.axis != 2 + i) e.varies |= e.axis < 0 ? 1u << (2 + i) : 0;
    if (e.axis < 2) return e;
    int i = e.axis - 2;
    double taps = (double)((n->in[weight]->type.axis[2 + i].size - 1) * v.dilation[i]);
    double pad = (double)v.pad_lo[i];
    bool fits = forwards ? scale(&e, v.stride[i], -pad, taps - pad, 1)
                         : scale(&e, 1, pad - taps, pad, v.stride[i]);
    return fits ? e : everything(n, "has strides beyond counting");
}

static extent view(const reach *r, const dl_node *n) {
    const dl_type *from = &n->in[0]->type, *t = &n->out[0].type;
    const dl_attr *along = dl_node_attr(n, DL_ATTR_along),
                  *stride = dl_node_attr(n, DL_ATTR_stride);
    int64_t div = dl_node_int(n, DL_ATTR_div), start = dl_node_int(n, DL_ATTR_start);
    extent e = join_all(r, n);
    int axis = dl_type_axis(from, along->names[0]), to = dl_type_axis(t, along->names[0]);
    if (e.all) return e;
    if (e.axis < 0) {
        e.varies |= 1u << to; /* elements outside have other values than the tensor */
        return e;
    }
    if (r->of[n->in[0]->id].axis != axis) return e;
    if (dl_outside_find(dl_node_name(n, DL_ATTR_outside)) == DL_OUT_WRAP)
        return everything(n, "goes round it");
    if (div < 1) div = 1;
    double taps =
        along->n < 2
            ? 0
            : (double)((t->axis[dl_type_axis(t, along->names[1])].size - 1) * stride->ints[1]);
    double lo = (double)start + fmin(0, taps), hi = (double)start + fmax(0, taps);
    return scale(&e, stride->ints[0], lo - (double)(div - 1), hi, div)
               ? e
               : everything(n, "reverses it");
}

/* A reshape: of a split axis its outermost part has the field; a joined axis has the field of
 * its outermost part. */
static extent reshape(const reach *r, const dl_node *n) {
    const dl_type *from = &n->in[0]->type, *t = &n->out[0].type;
    const extent *in = &r->of[n->in[0]->id];
    extent e = *in;
    if (e.all) return e;
    e.varies = 0;
    for (int u = 0, v = 0; u < from->rank || v < t->rank;) {
        int u0 = u, v0 = v;
        int64_t a = u < from->rank ? from->axis[u++].size : 1,
                c = v < t->rank ? t->axis[v++].size : 1;
        while (a != c) {
            if (a < c)
                a *= from->axis[u++].size;
            else
                c *= t->axis[v++].size;
        }
        while (u0 < u - 1 && from->axis[u0].size == 1) u0++;
        while (v0 < v - 1 && t->axis[v0].size == 1) v0++;
        bool here = in->axis >= u0 && in->axis < u;
        if (here && in->axis != u0) return everything(n, "joins it after another axis");
        unsigned inner = 0;
        for (int k = u0; k < u; k++) inner |= in->varies >> k & 1;
        if (here ? in->varies >> u0 & 1
                 : inner) /* differences within a position move along with it */
            for (int k = v0; k < v; k++) e.varies |= 1u << k;
        if (!here) continue;
        if (v0 >= v) return everything(n, "removes it");
        int64_t parts = t->axis[v0].size, whole = from->axis[u0].size;
        e.axis = v0;
        bool splits = parts > 0 && whole % parts == 0, joins = whole > 0 && parts % whole == 0;
        double rest = splits ? (double)(whole / parts - 1) : 0,
               part = joins ? (double)(parts / whole) : 1;
        if (!splits && !joins) return everything(n, "splits and joins it");
        if (splits ? !scale(&e, whole / parts, 0, rest, 1)
                   : !scale(&e, 1, 1 - part, 0, parts / whole))
            return everything(n, "has strides beyond counting");
    }
    return e;
}

static bool is_along(const reach *r, const dl_node *n, const char *axis) {
    const extent *e = &r->of[n->in[0]->id];
    return !e->all && e->axis >= 0 && n->in[0]->type.axis[e->axis].name == axis;
}

static extent move(const reach *r, const dl_node *n) {
    const dl_type *t = &n->out[0].type;
    extent e;
    switch (dl_op_move(n->op)) {
    case DL_MOVE_SLICE:
    case DL_MOVE_JOIN: {
        const char *axis = dl_node_name(n, DL_ATTR_axis);
        e = join_all(r, n);
        bool same = n->nin == 1 && dl_type_count(t) == dl_type_count(&n->in[0]->type);
        return !e.all && e.axis >= 0 && t->axis[e.axis].name == axis && !same
                   ? everything(n, "takes or joins parts of it")
                   : e;
    }
    case DL_MOVE_PAD:
        e = join_all(r, n);
        if (is_along(r, n, dl_node_name(n, DL_ATTR_axis)))
            scale(&e, 1, -(double)dl_node_int(n, DL_ATTR_pad_lo),
                  -(double)dl_node_int(n, DL_ATTR_pad_lo), 1);
        else if (!e.all && e.axis < 0)
            e.varies |= all_axes(t);
        return e;
    case DL_MOVE_RENAME:
    case DL_MOVE_COPY: return in_order(r, n);
    case DL_MOVE_RESHAPE: return reshape(r, n);
    case DL_MOVE_AFFINE: return view(r, n);
    case DL_MOVE_GATHER: /* the axis that is indexed is not in the result */
    case DL_MOVE_NAMES: return join_all(r, n);
    case DL_MOVE_NONE:
    case DL_MOVE_SCATTER: break;
    }
    e = join_all(r, n);
    return e.all || e.axis >= 0 ? everything(n, "reads every position") : e;
}

static extent extent_of(const reach *r, const dl_node *n) {
    extent e = nothing();
    switch (dl_ops[n->op].class) {
    case DL_CLASS_ELEM:
    case DL_CLASS_REDUCE: return join_all(r, n);
    case DL_CLASS_CONTRACT: return dl_op_slides(n->op) ? reach_of_windows(r, n) : join_all(r, n);
    case DL_CLASS_MOVE: return move(r, n);
    case DL_CLASS_SOURCE: e.varies = n->op == DL_OP_const ? 0 : all_axes(&n->out[0].type); return e;
    default: break;
    }
    for (int i = 0; i < n->nin; i++) {
        const extent *in = &r->of[n->in[i]->id];
        if (in->all) return *in;
        if (in->axis >= 0) return everything(n, "mixes all positions");
    }
    e.varies = all_axes(&n->out[0].type);
    return e;
}

/* Widens the field at a tensor's ends, until elements outside the tensor are outside the input:
 * the element before the first one reads before position 0, the one after the last reads after
 * the end. */
static void widen(reach *r, const dl_node *n, const dl_type *t, extent *e) {
    if (e->all || e->axis < 0) return;
    if (e->varies >> e->axis & 1) {
        *e = everything(n, "differs from place to place");
        return;
    }
    double s = (double)e->num / (double)e->den;
    e->lo = fmin(e->lo, s - 1);
    e->hi = fmax(e->hi, (double)r->size - (double)t->axis[e->axis].size * s);
    int64_t step = e->num / divisor(e->num, r->step);
    if (__builtin_mul_overflow(r->step, step, &r->step))
        *e = everything(n, "has strides beyond counting");
}

dl_reach dl_find_reach(const dl_graph *g, const char *axis, const dl_value *output) {
    dl_arena *scratch = dl_arena_new(NULL);
    reach r = {.of = DL_NEWS(scratch, extent, g->next_id + 1), .step = 1};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        extent *e = &r.of[v->value.id];
        int at = v->role == DL_VAR_INPUT ? dl_type_axis(&v->value.type, axis) : -1;
        *e = nothing();
        if (at >= 0)
            e->axis = at, r.size = v->value.type.axis[at].size;
        else
            e->varies = all_axes(&v->value.type);
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        extent e = extent_of(&r, n);
        for (int k = 0; k < n->nout; k++) {
            r.of[n->out[k].id] = e;
            widen(&r, n, &n->out[k].type, &r.of[n->out[k].id]);
        }
    }
    extent e = r.of[output->id];
    dl_reach found = {.bounded = !e.all && e.axis >= 0,
                      .axis = e.axis,
                      .num = e.num,
                      .den = e.den,
                      .step = r.step,
                      .lo = e.lo,
                      .hi = e.hi,
                      .why = e.all ? e.why : NULL,
                      .where = e.where};
    if (found.bounded && output->type.axis[e.axis].size * e.num != r.size * e.den)
        found.bounded = false, found.why = "does not cover it";
    dl_arena_free(scratch);
    return found;
}
