#include "passes/parallel/samples.h"

#include <math.h>

#include "ir/base/tags.h"
#include "ir/relation.h"

/* The axis of samples after a reshape. One sample's elements are `step` elements apart from the
 * next one's, and end after `end`. Samples may have an axis of their own, be joined with others in
 * one, or be split. Of a split axis, the outermost part is the one that grows with the number of
 * samples. */
static dl_samples find_reshaped(const dl_type *t, dl_samples from, int64_t step, int64_t end) {
    enum { SAME, ALONE, JOINED, SPLIT, NHOWS };
    for (int how = dl_type_count(t) ? SAME : NHOWS; how < NHOWS; how++)
        for (int i = 0; i < t->rank; i++) {
            const char *name = t->axis[i].name;
            const int64_t inner = dl_type_around(t, i).inner, all = inner * t->axis[i].size;
            const bool alone = inner == step && all == end;
            if (how == JOINED && step % inner == 0 && all % end == 0)
                return (dl_samples){name, step / inner, all / end};
            if (how == SAME    ? alone && name == from.axis
                : how == ALONE ? alone
                               : how == SPLIT && all == end)
                return dl_samples_along(name);
        }
    return (dl_samples){0};
}

dl_samples dl_samples_follow(const dl_node *n, int k, dl_samples from) {
    const dl_type *in = &n->in[k]->type, *out = &n->out[0].type;
    const int at = from.axis ? dl_type_axis(in, from.axis) : -1;
    if (at < 0) return (dl_samples){0};
    if (n->op == DL_OP_reshape) {
        const int64_t inner = dl_type_around(in, at).inner;
        return find_reshaped(out, from, inner * from.inner, inner * in->axis[at].size / from.outer);
    }
    if (n->op == DL_OP_rename) from.axis = out->axis[at].name;
    return dl_type_axis(out, from.axis) >= 0 ? from : (dl_samples){0};
}

bool dl_sums_samples(const dl_node *n, int k, const char *axis) {
    if (!axis || dl_type_axis(&n->in[k]->type, axis) < 0) return false;
    if (n->op == DL_OP_scatter_add) return dl_type_axis(&n->out[0].type, axis) < 0;
    const dl_op_class class = dl_ops[n->op].class;
    return (class == DL_CLASS_CONTRACT || (class == DL_CLASS_REDUCE && dl_op_is_linear(n->op))) &&
           dl_node_lists(n, DL_ATTR_over, axis);
}

bool dl_batch_constant_of(const dl_node *n, dl_batch_constant *c) {
    const dl_attr *doubled = n->op == DL_OP_const ? dl_node_attr(n, DL_ATTR_doubled) : NULL;
    if (!doubled) return false;
    const double k = dl_node_float(n, DL_ATTR_value), k2 = doubled->f;
    const bool grows = fabs(k2) >= fabs(k);
    *c = grows ? (dl_batch_constant){k, k2 - k, false}
               : (dl_batch_constant){1 / k, 1 / k2 - 1 / k, true};
    return grows || k2 != 0;
}

dl_value *dl_step_batches(dl_graph *g, dl_loc loc) {
    const dl_init one = {.kind = DL_INIT_CONST, .a = 1};
    dl_var *v = dl_graph_find_var(g, DL_ACCUMULATE_BATCHES);
    if (!v)
        v = dl_graph_var(g, DL_VAR_HYPER, dl_intern(DL_ACCUMULATE_BATCHES), dl_scalar(DL_F64), one,
                         loc);
    return &v->value;
}

/* ---- through a graph ---- */

dl_samples *dl_sample_flow_of(dl_sample_flow *f, const dl_value *v) {
    while (f->of.n <= (int)v->id) dl_push(f->arena, &f->of, (dl_samples){0});
    return &f->of.at[v->id];
}

bool dl_sample_flow_begin(dl_sample_flow *f, dl_arena *arena, const dl_graph *g) {
    *f = (dl_sample_flow){.arena = arena, .axis = dl_intern("N")};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        const bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
        const int at = fed ? dl_type_axis(&v->value.type, f->axis) : -1;
        if (at < 0) continue;
        f->batch = v->value.type.axis[at].size;
        *dl_sample_flow_of(f, &v->value) = dl_samples_along(f->axis);
    }
    return f->batch > 0;
}

static bool names_axis(const dl_node *n, const char *axis) {
    return (dl_node_attr(n, DL_ATTR_axis) && dl_node_name(n, DL_ATTR_axis) == axis) ||
           dl_node_lists(n, DL_ATTR_over, axis) || dl_node_lists(n, DL_ATTR_along, axis);
}

/* Samples along `to` in the result: are they those of the operand, one by one? */
static bool keeps(const dl_sample_flow *f, const dl_node *n, int k, dl_samples from,
                  dl_samples to) {
    const dl_type *in = &n->in[k]->type, *out = &n->out[0].type;
    if (!to.axis || names_axis(n, from.axis)) return false;
    if (dl_op_slides(n->op) &&
        (k == dl_op_place(n->op, DL_TENSOR_W) || dl_type_axis(in, from.axis) != 0))
        return false;
    if (dl_op_takes_sequences(n->op) && (in->rank < 3 || dl_type_axis(in, from.axis) != 0))
        return false;
    return out->axis[dl_type_axis(out, to.axis)].size == f->batch * to.inner * to.outer;
}

/* Does the type have the axis of samples? Models also name axes of another size N. */
static bool has_all(const dl_sample_flow *f, const dl_type *t) {
    const int i = dl_type_axis(t, f->axis);
    return i >= 0 && t->axis[i].size == f->batch;
}

/* Whether all samples of a result with that axis are alike, where no operand has samples. */
static bool is_alike(const dl_node *n) {
    return n->op == DL_OP_const || dl_op_move(n->op) == DL_MOVE_NAMES;
}

/* Follows the samples through a step of a scan, and then through a step on what that has left. A
 * sum over samples in a body stays as it is, so that it relates them. */
static void add_body(dl_sample_flow *f, const dl_node *n) {
    dl_sample_flow in = {.arena = f->arena, .axis = f->axis, .batch = f->batch};
    for (int k = 0; k < n->nin; k++) {
        const dl_samples from = *dl_sample_flow_of(f, n->in[k]);
        f->numbers |= !from.axis && has_all(f, &n->in[k]->type);
        f->relates |= from.axis && names_axis(n, from.axis);
        *dl_sample_flow_of(&in, &n->body->vars.at[k]->value) = from;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n->body->nodes.n; i++) dl_sample_flow_add(&in, n->body->nodes.at[i]);
        for (int k = 0; k < n->nout; k++) {
            const dl_result *r = &n->body->results.at[k];
            const dl_samples made = *dl_sample_flow_of(&in, r->value);
            *dl_sample_flow_of(f, &n->out[k]) = made;
            if (r->var && made.axis) *dl_sample_flow_of(&in, &r->var->value) = made;
        }
    }
    f->relates |= in.sums || in.relates;
    f->chooses |= in.chooses, f->numbers |= in.numbers;
}

void dl_sample_flow_add(dl_sample_flow *f, const dl_node *n) {
    if (n->body) {
        add_body(f, n);
        return;
    }
    dl_batch_constant constant;
    dl_samples made = {0};
    f->numbers |= dl_batch_constant_of(n, &constant);
    for (int k = 0; k < n->nin; k++) {
        const dl_samples from = *dl_sample_flow_of(f, n->in[k]);
        f->numbers |= !from.axis && has_all(f, &n->in[k]->type);
        if (!from.axis) continue;
        if (dl_sums_samples(n, k, from.axis)) {
            f->sums = true;
            continue;
        }
        if (dl_op_curve(n->op) == DL_CURVE_EXTREMUM && names_axis(n, from.axis)) {
            f->chooses = true;
            continue;
        }
        dl_samples to = dl_samples_follow(n, k, from);
        if (!keeps(f, n, k, from, to) || (made.axis && made.axis != to.axis)) f->relates = true;
        made = to;
    }
    for (int k = 0; k < n->nout; k++) {
        dl_samples all = has_all(f, &n->out[k].type) ? dl_samples_along(f->axis) : (dl_samples){0};
        f->numbers |= !k && !made.axis && all.axis && !is_alike(n);
        *dl_sample_flow_of(f, &n->out[k]) = !k && made.axis ? made : all;
    }
}

static bool is_apart(const dl_sample_flow *f) {
    return !f->sums && !f->chooses && !f->relates && !f->numbers;
}

bool dl_samples_are_apart(const dl_graph *g) {
    dl_arena *scratch = dl_arena_new(NULL);
    dl_sample_flow f;
    bool apart = dl_sample_flow_begin(&f, scratch, g);
    for (int i = 0; apart && i < g->nodes.n; i++) {
        dl_sample_flow_add(&f, g->nodes.at[i]);
        apart = is_apart(&f);
    }
    for (int i = 0; apart && i < g->results.n; i++) {
        const dl_value *v = g->results.at[i].value;
        const dl_samples *at = dl_sample_flow_of(&f, v);
        apart = at->axis && v->type.axis[0].name == at->axis && v->type.axis[0].size == f.batch;
    }
    dl_arena_free(scratch);
    return apart;
}

static bool is_needed(const bool *needed, const dl_node *n) {
    for (int k = 0; k < n->nout; k++)
        if (needed[n->out[k].id]) return true;
    return false;
}

/* By value id: whether a loss or a metric depends on the value. */
static bool *find_needed(const dl_graph *g, dl_arena *arena) {
    bool *needed = DL_NEWS(arena, bool, g->next_id + 1);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        needed[r->value->id] |= r->role == DL_RESULT_LOSS || r->role == DL_RESULT_OBJECTIVE ||
                                r->role == DL_RESULT_METRIC;
    }
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        const bool reads = is_needed(needed, n);
        for (int k = 0; reads && k < n->nin; k++) needed[n->in[k]->id] = true;
    }
    return needed;
}

const dl_node *dl_samples_related_by(const dl_graph *g) {
    dl_arena *scratch = dl_arena_new(NULL);
    const bool *needed = find_needed(g, scratch);
    const dl_node *found = NULL;
    dl_sample_flow f;
    const bool fed = dl_sample_flow_begin(&f, scratch, g);
    for (int i = 0; fed && !found && i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (!is_needed(needed, n)) continue;
        dl_sample_flow_add(&f, n);
        if (f.relates || f.chooses) found = n;
    }
    dl_arena_free(scratch);
    return found;
}
