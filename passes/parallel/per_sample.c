/* A reduction over the samples keeps their axis, since a batch of one sample has nothing to reduce
 * there. A value that was the same for the whole batch is then one of each sample, with that axis
 * (`lifted`), and so is what is computed from it: scalar ops and reductions, whose operands meet by
 * the names of axes. Other ops on such a value are not known how to lift. A constant that depends
 * on the batch's size has its value at one sample. */
#include "passes/parallel/per_sample.h"

#include "ir/builder.h"
#include "ir/walk.h"
#include "passes/core/rewrite.h"
#include "passes/lower/lower.h"
#include "passes/parallel/samples.h"

typedef struct {
    dl_builder b;
    dl_sample_flow flow;
    DL_ARRAY(bool) lifted; /* by value id */
    bool fails;
} measures;

static bool *lifted(measures *m, const dl_value *v) {
    while (m->lifted.n <= (int)v->id) dl_push(m->flow.arena, &m->lifted, false);
    return &m->lifted.at[v->id];
}

static bool any_lifted(measures *m, const dl_node *n) {
    for (int k = 0; k < n->nin; k++)
        if (*lifted(m, n->in[k])) return true;
    return false;
}

/* `v` is one of each sample: of a result that had their axis already, in its order of axes. */
static dl_value *lift(measures *m, dl_value *v, const dl_type *was) {
    if (dl_type_axis(was, m->flow.axis) >= 0) return dl_build_broadcast(&m->b, v, *was);
    *lifted(m, v) = true;
    return v;
}

/* A constant that depends on the batch's size, at one sample. */
static dl_value *of_one(measures *m, dl_batch_constant c, dl_dtype type) {
    const double at = c.base + c.step * (1.0 / (double)m->flow.batch - 1);
    return dl_build_const(&m->b, type, c.inverse ? 1 / at : at);
}

/* Where samples are joined with others in one axis: v with that axis in its parts, whose names are
 * in parts[]; the samples' is m->flow.axis. */
static dl_value *split(measures *m, dl_value *v, dl_samples samples, const char *parts[3]) {
    const int at = dl_type_axis(&v->type, samples.axis);
    dl_type t = v->type;
    parts[0] = dl_internf("%s.outer", samples.axis), parts[1] = m->flow.axis;
    parts[2] = dl_internf("%s.inner", samples.axis);
    t.rank += 2;
    for (int i = t.rank - 1; i > at + 2; i--) t.axis[i] = t.axis[i - 2];
    t.axis[at] = (dl_axis){.name = parts[0], .size = samples.outer};
    t.axis[at + 1] = (dl_axis){.name = parts[1], .size = m->flow.batch};
    t.axis[at + 2] = (dl_axis){.name = parts[2], .size = samples.inner};
    return dl_build_as(&m->b, DL_OP_reshape, 1, &v, 0, NULL, t);
}

/* Over the other axes of `over`. */
static dl_value *reduced(measures *m, const dl_node *n, dl_samples samples, bool sums) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    const char *parts[3], *names[DL_MAX_RANK + 2];
    dl_value *v = n->in[0];
    int count = 0;
    const bool joined = sums && (samples.inner > 1 || samples.outer > 1);
    if (joined && v->type.rank + 2 > DL_MAX_RANK) return NULL;
    if (joined) {
        v = split(m, v, samples, parts);
        names[count++] = parts[0], names[count++] = parts[2];
    }
    for (int i = 0; i < over->n; i++)
        if (!sums || over->names[i] != samples.axis) names[count++] = over->names[i];
    v = count ? dl_build_reduce(&m->b, n->op, v, count, names)
              : dl_build_cast(&m->b, v, n->out[0].type.dtype);
    return lift(m, v, &n->out[0].type);
}

static bool is_scalar_op(const dl_node *n) {
    const dl_op_class class = dl_ops[n->op].class;
    return class == DL_CLASS_ELEM ||
           (class == DL_CLASS_HIGH && n->nin == 1 && dl_op_curve(n->op) != DL_CURVE_UNKNOWN);
}

/* The same op on lifted operands; NULL: that is not known. */
static dl_value *rebuilt(measures *m, const dl_node *n) {
    dl_type t = n->out[0].type;
    if (n->op == DL_OP_cast) {
        t = n->in[0]->type, t.dtype = n->out[0].type.dtype;
        return lift(m, dl_build_cast(&m->b, n->in[0], t.dtype), &n->out[0].type);
    }
    if (n->op == DL_OP_broadcast) {
        if (dl_type_axis(&t, m->flow.axis) < 0) {
            if (t.rank == DL_MAX_RANK) return NULL;
            for (int i = t.rank++; i > 0; i--) t.axis[i] = t.axis[i - 1];
            t.axis[0] = (dl_axis){.name = m->flow.axis, .size = m->flow.batch};
        }
        return lift(m, dl_build_broadcast(&m->b, n->in[0], t), &n->out[0].type);
    }
    dl_shape_fault fault;
    dl_value *v = !is_scalar_op(n) ? NULL
                                   : dl_build_try(&m->b, n->op, n->nin, n->in, n->nattrs, n->attrs,
                                                  NULL, &fault);
    return v ? lift(m, v, &n->out[0].type) : NULL;
}

static dl_value *replacement(measures *m, dl_node *n) {
    dl_batch_constant constant;
    const dl_samples samples = n->nin ? *dl_sample_flow_of(&m->flow, n->in[0]) : (dl_samples){0};
    const bool is_lifted = any_lifted(m, n), reduces = dl_ops[n->op].class == DL_CLASS_REDUCE,
               sums = reduces && samples.axis && dl_node_lists(n, DL_ATTR_over, samples.axis);
    if (dl_batch_constant_of(n, &constant)) return of_one(m, constant, n->out[0].type.dtype);
    if (n->op == DL_OP_rearrange && samples.axis && !is_lifted) return dl_lower_rearrange(&m->b, n);
    if (!is_lifted && !sums) return NULL;
    dl_value *made = reduces ? reduced(m, n, samples, sums) : rebuilt(m, n);
    m->fails |= !made;
    return made;
}

static bool rule(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    measures *m = user;
    const dl_sample_flow *f = &m->flow;
    const int from = m->b.graph->nodes.n;
    m->b.loc = n->loc;
    if (m->fails) return false;
    made[0] = replacement(m, n);
    if (!made[0]) dl_sample_flow_add(&m->flow, n);
    for (int i = from; i < m->b.graph->nodes.n && made[0]; i++)
        dl_sample_flow_add(&m->flow, m->b.graph->nodes.at[i]);
    m->fails |= f->sums || f->chooses || f->relates || f->numbers || n->op == DL_OP_rand;
    return made[0] != NULL;
}

/* Losses, then metrics. */
static void keep_measures(dl_graph *g) {
    DL_ARRAY(dl_result) kept = {0};
    static const dl_result_role roles[] = {DL_RESULT_LOSS, DL_RESULT_METRIC};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < g->results.n; i++)
            if (g->results.at[i].role == roles[k])
                dl_push(g->module->arena, &kept, g->results.at[i]);
    g->results.at = kept.at, g->results.n = kept.n, g->results.cap = kept.cap;
    dl_graph_sweep(g);
}

/* A scalar, such as a penalty of the weights, is the same for all samples. */
static bool complete(measures *m, dl_result *r) {
    dl_type t = {.dtype = r->value->type.dtype, .rank = 1};
    t.axis[0] = (dl_axis){.name = m->flow.axis, .size = m->flow.batch};
    if (r->value->type.rank && !dl_type_same(&r->value->type, &t)) return false;
    r->value = dl_build_broadcast(&m->b, r->value, t);
    r->role = DL_RESULT_MEASURE;
    return true;
}

bool dl_measure_per_sample(dl_graph *g) {
    dl_arena *scratch = dl_arena_new(NULL);
    measures m = {.b = {.graph = g}};
    keep_measures(g);
    const bool alone = !dl_sample_flow_begin(&m.flow, scratch, g) || m.flow.batch == 1;
    if (alone) /* the batch's measures are the sample's */
        m.flow.batch = 1;
    else
        dl_rewrite(g, scratch, rule, &m);
    for (int i = 0; i < g->results.n && !m.fails; i++) m.fails = !complete(&m, &g->results.at[i]);
    dl_arena_free(scratch);
    return !m.fails;
}
