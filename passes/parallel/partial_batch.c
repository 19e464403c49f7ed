/* partial_batch: makes the graph "eval" of a module that trains right for batches that are not
 * full, such as a validation's last one. A plan's batch size is fixed: the host fills such a batch
 * up with copies of a sample, and sets two hyperparameters, how many samples count in this rank's
 * batch and in all ranks' batches together.
 *
 * A sum over the samples then leaves out the copies, a mean divides by the samples of all ranks,
 * and a constant that depends on the batch's size follows it. A maximum or minimum is the same
 * with copies. Everything else must treat samples one by one: a graph that relates them to each
 * other in another way (a softmax over the batch, a table of all pairs) stays as it is, without the
 * hyperparameters, and the host leaves incomplete batches out.
 *
 * The pass runs before global_batch, for which the results are sums of each rank's samples. */
#include "ir/base/tags.h"
#include "ir/builder.h"
#include "passes/core/rewrite.h"
#include "passes/lower/lower.h"
#include "passes/parallel/samples.h"
#include "passes/pass.h"

typedef struct {
    dl_builder b;
    dl_arena *arena;
    const char *axis;        /* "N" */
    int64_t batch, ranks;    /* samples of a full batch of one rank, and ranks */
    DL_ARRAY(dl_samples) of; /* by value id */
    bool sums, relates;      /* a node sums over samples; one relates them otherwise */
    dl_value *own, *all;     /* the samples that count, of this rank's batch and of all */
} batch;

static dl_samples *at(batch *s, const dl_value *v) {
    while (s->of.n <= (int)v->id) dl_push(s->arena, &s->of, (dl_samples){0});
    return &s->of.at[v->id];
}

/* ---- which ops treat samples one by one ---- */

static bool names_axis(const dl_node *n, const char *axis) {
    return (dl_node_attr(n, DL_ATTR_axis) && dl_node_name(n, DL_ATTR_axis) == axis) ||
           dl_node_lists(n, DL_ATTR_over, axis) || dl_node_lists(n, DL_ATTR_along, axis);
}

/* Samples along `to` in the result: are they those of the operand, one by one? */
static bool keeps(const batch *s, const dl_node *n, int k, dl_samples from, dl_samples to) {
    const dl_type *in = &n->in[k]->type, *out = &n->out[0].type;
    if (!to.axis || names_axis(n, from.axis)) return false;
    if (dl_op_takes_sequences(n->op) && (in->rank < 3 || dl_type_axis(in, from.axis) != 0))
        return false;
    return out->axis[dl_type_axis(out, to.axis)].size == s->batch * to.inner * to.outer;
}

/* Does the type have the axis of samples? Models also name axes of another size N. */
static bool has_all(const batch *s, const dl_type *t) {
    const int i = dl_type_axis(t, s->axis);
    return i >= 0 && t->axis[i].size == s->batch;
}

static void follow(batch *s, const dl_node *n) {
    dl_samples made = {0};
    for (int k = 0; k < n->nin; k++) {
        const dl_samples from = *at(s, n->in[k]);
        if (!from.axis) continue;
        if (dl_sums_samples(n, k, from.axis)) {
            s->sums = true;
            continue;
        }
        if (dl_op_curve(n->op) == DL_CURVE_EXTREMUM && names_axis(n, from.axis)) continue;
        dl_samples to = dl_samples_follow(n, k, from);
        if (!keeps(s, n, k, from, to) || (made.axis && made.axis != to.axis)) s->relates = true;
        made = to;
    }
    if (!made.axis && has_all(s, &n->out[0].type))
        made = dl_samples_along(s->axis); /* a broadcast to the axis */
    *at(s, &n->out[0]) = made;
}

/* A rearrangement is lowered to the parts that move the samples. */
static bool find(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    batch *s = user;
    const int from = s->b.graph->nodes.n;
    s->b.loc = n->loc;
    if (n->op == DL_OP_rearrange && at(s, n->in[0])->axis) made[0] = dl_lower_rearrange(&s->b, n);
    if (!made[0]) return follow(s, n), false;
    for (int i = from; i < s->b.graph->nodes.n; i++) follow(s, s->b.graph->nodes.at[i]);
    return true;
}

/* ---- what counts ---- */

/* True for the elements of the samples that count, along the samples' axis of v. */
static dl_value *counting(batch *s, const dl_value *v, dl_samples samples) {
    const dl_axis joined = v->type.axis[dl_type_axis(&v->type, samples.axis)];
    dl_type one = {.dtype = DL_F32, .rank = 1};
    one.axis[0] = (dl_axis){.name = samples.axis, .size = s->batch};
    dl_value *first = dl_build_cast(&s->b, s->own, DL_F32); /* whole numbers, far below 2^24 */
    dl_value *mask = dl_build2(&s->b, DL_OP_lt, dl_build_count(&s->b, &one, 0, DL_F32), first);
    if (joined.size == s->batch) return mask;
    dl_type apart = {.dtype = DL_BOOL, .rank = 3};
    apart.axis[0] = (dl_axis){.name = dl_internf("%s.outer", joined.name), .size = samples.outer};
    apart.axis[1] = one.axis[0];
    apart.axis[2] = (dl_axis){.name = dl_internf("%s.inner", joined.name), .size = samples.inner};
    dl_type type = {.dtype = DL_BOOL, .rank = 1};
    type.axis[0] = joined;
    mask = dl_build_broadcast(&s->b, mask, apart);
    return dl_build_as(&s->b, DL_OP_reshape, 1, &mask, 0, NULL, type);
}

/* v, with 0 for the samples that do not count. */
static dl_value *masked(batch *s, dl_value *v) {
    const dl_samples samples = *at(s, v);
    dl_value *zero = dl_build_const(&s->b, v->type.dtype, 0);
    return dl_build_broadcast(
        &s->b, dl_build3(&s->b, DL_OP_select, counting(s, v, samples), v, zero), v->type);
}

/* The mean as a sum of this rank's samples, divided by the elements of all ranks' samples. */
static dl_value *mean(batch *s, const dl_node *n, dl_value *of) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    double points = 1;
    for (int i = 0; i < over->n; i++)
        points *= (double)of->type.axis[dl_type_axis(&of->type, over->names[i])].size;
    dl_value *sum = dl_build_reduce(&s->b, DL_OP_sum, masked(s, of), over->n, over->names);
    dl_value *elements = dl_build_k(&s->b, DL_OP_mul, s->all, points / (double)s->batch);
    dl_value *share = dl_build2(&s->b, DL_OP_div, dl_build_const(&s->b, DL_F64, 1), elements);
    share = dl_build_cast(&s->b, share, sum->type.dtype);
    return dl_build_broadcast(&s->b, dl_build2(&s->b, DL_OP_mul, sum, share), n->out[0].type);
}

/* A constant that depends on the batch's size, for the samples of all ranks. */
static dl_value *resized(batch *s, dl_batch_constant c, dl_dtype type) {
    dl_value *more = dl_build_k(&s->b, DL_OP_div, s->all, (double)s->batch);
    more = dl_build_k(&s->b, DL_OP_mul, dl_build_k(&s->b, DL_OP_sub, more, 1), c.step);
    dl_value *now = dl_build_k(&s->b, DL_OP_add, more, c.base);
    if (c.inverse) now = dl_build2(&s->b, DL_OP_div, dl_build_const(&s->b, DL_F64, 1), now);
    return dl_build_cast(&s->b, now, type);
}

static bool count(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    batch *s = user;
    s->b.loc = n->loc;
    dl_batch_constant constant;
    if (dl_batch_constant_of(n, &constant)) {
        made[0] = resized(s, constant, n->out[0].type.dtype);
        return true;
    }
    for (int k = 0; k < n->nin; k++) {
        if (!dl_sums_samples(n, k, at(s, n->in[k])->axis)) continue;
        if (n->op == DL_OP_mean)
            made[0] = mean(s, n, n->in[k]), *at(s, made[0]) = *at(s, &n->out[0]);
        else
            n->in[k] = masked(s, n->in[k]);
        break; /* one factor of a product is enough */
    }
    return made[0] != NULL;
}

/* ---- a graph ---- */

static bool has_samples(const dl_var *v, const char *axis) {
    bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
    return fed && dl_type_axis(&v->value.type, axis) >= 0;
}

/* Finds the samples of the inputs, which must be along an axis N of one size. */
static bool begin(batch *s) {
    const dl_graph *g = s->b.graph;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        if (!has_samples(g->vars.at[i], s->axis)) continue;
        s->batch = v->type.axis[dl_type_axis(&v->type, s->axis)].size;
        *at(s, v) = dl_samples_along(s->axis);
    }
    return s->batch > 0;
}

/* A hyperparameter of that many samples, until the host sets another number. */
static dl_value *number(batch *s, const char *name, int64_t full, dl_error *err) {
    dl_var *taken = dl_graph_find_var(s->b.graph, dl_intern(name));
    if (taken) return dl_fail_taken(s->b.graph, taken, "as validation's own", err), NULL;
    dl_init init = {.kind = DL_INIT_CONST, .a = (double)full};
    return &dl_graph_var(s->b.graph, DL_VAR_HYPER, dl_intern(name), dl_scalar(DL_F64), init,
                         (dl_loc){0})
                ->value;
}

bool dl_pass_partial_batch(dl_graph *g, dl_pass_ctx *ctx) {
    if (strcmp(g->name, "eval") != 0 || !dl_module_graph(g->module, "train")) return false;
    batch s = {.b = {.graph = g},
               .arena = ctx->arena,
               .ranks = ctx->parallel.dp > 1 ? ctx->parallel.dp : 1,
               .axis = dl_intern("N")};
    if (!begin(&s)) return false;
    bool changed = dl_rewrite(g, ctx->arena, find, &s);
    if (!s.sums || s.relates) return changed;
    s.own = number(&s, DL_BATCH_SAMPLES, s.batch, ctx->err);
    s.all = s.own ? number(&s, DL_BATCH_SAMPLES_OF_ALL, s.batch * s.ranks, ctx->err) : NULL;
    return s.all && dl_rewrite(g, ctx->arena, count, &s);
}
