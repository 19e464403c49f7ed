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
    dl_sample_flow flow; /* of a full batch of one rank */
    int64_t ranks;
    dl_value *own, *all; /* the samples that count, of this rank's batch and of all */
} batch;

/* A rearrangement is lowered to the parts that move the samples. */
static bool find(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    batch *s = user;
    const int from = s->b.graph->nodes.n;
    s->b.loc = n->loc;
    if (n->op == DL_OP_rearrange && dl_sample_flow_of(&s->flow, n->in[0])->axis)
        made[0] = dl_lower_rearrange(&s->b, n);
    if (!made[0]) return dl_sample_flow_add(&s->flow, n), false;
    for (int i = from; i < s->b.graph->nodes.n; i++)
        dl_sample_flow_add(&s->flow, s->b.graph->nodes.at[i]);
    return true;
}

/* ---- what counts ---- */

/* True for the elements of the samples that count, along the samples' axis of v. */
static dl_value *counting(batch *s, const dl_value *v, dl_samples samples) {
    const dl_axis joined = v->type.axis[dl_type_axis(&v->type, samples.axis)];
    dl_type one = {.dtype = DL_F32, .rank = 1};
    one.axis[0] = (dl_axis){.name = samples.axis, .size = s->flow.batch};
    dl_value *first = dl_build_cast(&s->b, s->own, DL_F32); /* whole numbers, far below 2^24 */
    dl_value *mask = dl_build2(&s->b, DL_OP_lt, dl_build_count(&s->b, &one, 0, DL_F32), first);
    if (joined.size == s->flow.batch) return mask;
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
    const dl_samples samples = *dl_sample_flow_of(&s->flow, v);
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
    dl_value *elements = dl_build_k(&s->b, DL_OP_mul, s->all, points / (double)s->flow.batch);
    dl_value *share = dl_build2(&s->b, DL_OP_div, dl_build_const(&s->b, DL_F64, 1), elements);
    share = dl_build_cast(&s->b, share, sum->type.dtype);
    return dl_build_broadcast(&s->b, dl_build2(&s->b, DL_OP_mul, sum, share), n->out[0].type);
}

/* A constant that depends on the batch's size, for the samples of all ranks. */
static dl_value *resized(batch *s, dl_batch_constant c, dl_dtype type) {
    dl_value *more = dl_build_k(&s->b, DL_OP_div, s->all, (double)s->flow.batch);
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
        if (!dl_sums_samples(n, k, dl_sample_flow_of(&s->flow, n->in[k])->axis)) continue;
        if (n->op == DL_OP_mean)
            made[0] = mean(s, n, n->in[k]),
            *dl_sample_flow_of(&s->flow, made[0]) = *dl_sample_flow_of(&s->flow, &n->out[0]);
        else
            n->in[k] = masked(s, n->in[k]);
        break; /* one factor of a product is enough */
    }
    return made[0] != NULL;
}

/* ---- a graph ---- */

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
    batch s = {.b = {.graph = g}, .ranks = ctx->parallel.dp > 1 ? ctx->parallel.dp : 1};
    if (!dl_sample_flow_begin(&s.flow, ctx->arena, g)) return false;
    bool changed = dl_rewrite(g, ctx->arena, find, &s);
    if (!s.flow.sums || s.flow.relates) return changed;
    s.own = number(&s, DL_BATCH_SAMPLES, s.flow.batch, ctx->err);
    s.all = s.own ? number(&s, DL_BATCH_SAMPLES_OF_ALL, s.flow.batch * s.ranks, ctx->err) : NULL;
    return s.all && dl_rewrite(g, ctx->arena, count, &s);
}
