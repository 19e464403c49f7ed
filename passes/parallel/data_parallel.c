/* data_parallel: data parallelism. Each rank has its own samples of a step, as many as the others,
 * and the same weights. The gradient of the mean over all samples is the mean of the ranks'
 * gradients; so are the reported loss and every metric. Each becomes the sum over the ranks,
 * divided by their number, before clipping, the finiteness test and the optimiser, which are then
 * equal on all ranks. A context parallel rank has a partial gradient (shard.h): these are summed in
 * the same collective.
 *
 * With `zero` each rank keeps the optimiser's state of its shard of each parameter only (ZeRO-1:
 * Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models, SC
 * 2020). A gradient is then reduce-scattered, each rank computes the mean of its shard, and the
 * whole is all-gathered from these. The optimiser reads the shard (optimizer.c); the whole
 * gradient is removed if nobody reads it. Tensor parallel ranks have equal gradients of a
 * replicated parameter: each takes its shard of the gradient, or of its shard. */
#include "ir/builder.h"
#include "ir/collective.h"
#include "passes/pass.h"

/* The ranks over which a value is summed, and the divisor of the sum. */
typedef struct {
    const char *group;
    int ranks, rank, by;
    const char *of; /* the value's name, for messages */
} summing;

const char *dl_gradient_group(const dl_parallel *p) {
    return p->cp <= 1 ? "dp" : p->dp <= 1 ? "cp" : "dp-cp";
}

/* The sum over all ranks, or a shard of it, divided to a mean. */
static dl_value *mean_of(dl_builder *b, dl_value *sum, const summing *s) {
    dl_value *mean = s->by > 1 ? dl_build_k(b, DL_OP_mul, sum, 1.0 / s->by) : sum;
    return dl_build_broadcast(b, mean, sum->type);
}

/* The mean over the ranks. Integers are equal on all ranks, and stay. */
static dl_value *mean_over(dl_builder *b, dl_value *v, const summing *s) {
    if (!dl_dtype_is_float(v->type.dtype)) return v;
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_group, s->group), dl_attr_int(DL_ATTR_ranks, s->ranks),
                       dl_attr_of(b->graph, s->of)};
    return mean_of(b, dl_build(b, DL_OP_all_reduce, 1, &v, 3, attrs), s);
}

/* ---- shards ---- */

/* The axis along which a parameter is sharded, or -1: none has an element for each rank. It is the
 * axis whose largest shard is smallest; of equal ones the outermost, whose shards are contiguous.
 * Weights of windows are in panels of several rows of the first axis: shards must not end within a
 * panel. */
static int choose_axis(const dl_type *t, dl_layout weights, int ranks) {
    int best = -1;
    double least = 0;
    dl_type laid = *t;
    if (t->rank > 2) laid.layout = weights;
    for (int i = 0; i < t->rank; i++) {
        double size = (double)t->axis[i].size,
               most = (double)dl_share_of(t->axis[i].size, ranks, 0).n / size;
        if (!*t->axis[i].name || size < ranks || !dl_type_shares(&laid, i, ranks)) continue;
        if (best < 0 || most < least) best = i, least = most;
    }
    return best;
}

/* The axis along which a parameter's value of this type is sharded among this many ranks, or -1.
 * Small ones are not sharded: their gradients go into buckets. */
static int shared_along(const dl_pass_ctx *ctx, const dl_type *t, int ranks) {
    bool shares = ctx->parallel.zero && ranks > 1 && dl_type_bytes(t) >= ctx->parallel.least_shared;
    return shares ? choose_axis(t, ctx->weights, ranks) : -1;
}

/* The mean after a reduce_scatter: each rank has its shard along the axis. */
static dl_value *scattered_mean(dl_builder *b, dl_value *v, int axis, const summing *s) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, v->type.axis[axis].name),
                    dl_attr_name(DL_ATTR_group, s->group), dl_attr_int(DL_ATTR_ranks, s->ranks),
                    dl_attr_int(DL_ATTR_rank, s->rank), dl_attr_of(b->graph, s->of)};
    return mean_of(b, dl_build(b, DL_OP_reduce_scatter, 1, &v, 5, at), s);
}

/* A replicated parameter's gradient, which tensor parallel ranks have equally: all-gathered from
 * one shard of each rank. */
static dl_value *share_alike(const dl_pass_ctx *ctx, dl_builder *b, dl_value *v, const dl_var *var,
                             const char *of) {
    const dl_parallel *p = &ctx->parallel;
    int axis = var->piece.n ? -1 : shared_along(ctx, &v->type, p->tp);
    if (axis < 0) return v;
    const dl_var_cut cut = {"tp", axis, p->tp, p->tp_rank, 1, v->type.axis[axis].size};
    return dl_build_gathered(b, dl_build_share(b, v, &cut), &cut, of);
}

/* The mean of a parameter's gradients, in shards where the parameter is sharded. */
static dl_value *mean_gradient(const dl_pass_ctx *ctx, dl_builder *b, dl_value *v,
                               const dl_var *var, const summing *s) {
    int axis = shared_along(ctx, &v->type, s->ranks);
    if (axis < 0) return share_alike(ctx, b, s->ranks > 1 ? mean_over(b, v, s) : v, var, s->of);
    const dl_var_cut cut = {s->group, axis, s->ranks, s->rank, 1, v->type.axis[axis].size};
    dl_value *share = share_alike(ctx, b, scattered_mean(b, v, axis, s), var, s->of);
    return dl_build_gathered(b, share, &cut, s->of);
}

bool dl_pass_data_parallel(dl_graph *g, dl_pass_ctx *ctx) {
    const dl_parallel *p = &ctx->parallel;
    int dp = p->dp > 1 ? p->dp : 1, cp = p->cp > 1 ? p->cp : 1;
    if (dp * cp == 1 && !(p->zero && p->tp > 1)) return false;
    dl_builder b = {.graph = g};
    dl_value **mean =
        DL_NEWS(ctx->arena, dl_value *, g->next_id + 1); /* by id: one value may be two results */
    uint32_t known = g->next_id;
    bool changed = false;
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        bool grad = r->role == DL_RESULT_GRAD,
             told = r->role == DL_RESULT_LOSS || r->role == DL_RESULT_METRIC;
        if ((!grad && (!told || dp == 1)) || r->value->id >= known) continue;
        dl_value **own = &mean[r->value->id];
        b.loc = r->var ? r->var->loc : r->value->def ? r->value->def->loc : (dl_loc){0};
        summing s = {"dp", dp, p->dp_rank, dp, r->name};
        if (grad) s.group = dl_gradient_group(p), s.ranks = dp * cp, s.rank = p->sum_rank;
        if (!*own)
            *own =
                grad ? mean_gradient(ctx, &b, r->value, r->var, &s) : mean_over(&b, r->value, &s);
        r->value = *own, changed = true;
    }
    return changed;
}
