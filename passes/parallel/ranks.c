/* ranks: what several ranks must agree on. Each has its own samples of a step, as many as the
 * others, and the same weights. The gradient of the mean over all samples is the mean of the
 * ranks', and so is the loss that is told, and every metric: each becomes the sum over the ranks,
 * divided by their number, here, where all that follows (clipping, finiteness, the optimiser) is
 * the same on all of them. Of context parallel ranks each has a part of a gradient (shard.h):
 * theirs are added up at once with the others'.
 *
 * With `zero` each rank keeps the optimiser's state of a share of each parameter alone (ZeRO-1:
 * Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models, SC
 * 2020). A gradient is then scattered, each rank's share of the mean made, and the whole gathered
 * of these. The optimiser takes what is gathered (optimizer.c); where nobody reads the whole, it is
 * never made. Tensor parallel ranks have the same gradient of a parameter that is whole: each takes
 * its share of that, or of its share. */
#include "ir/builder.h"
#include "ir/collective.h"
#include "passes/pass.h"

/* Whom a value is summed over, and by what the sum is divided. */
typedef struct {
    const char *group;
    int ranks, rank, by;
    const char *of; /* whose value, for a message */
} summing;

const char *dl_gradient_group(const dl_parallel *p) {
    return p->cp <= 1 ? "dp" : p->dp <= 1 ? "cp" : "dp-cp";
}

/* A sum of all ranks' v, or a share of it, as a mean. */
static dl_value *mean_of(dl_builder *b, dl_value *sum, const summing *s) {
    dl_value *mean = s->by > 1 ? dl_build_k(b, DL_OP_mul, sum, 1.0 / s->by) : sum;
    if (dl_type_same(&mean->type, &sum->type)) return mean;
    return dl_build_as(b, DL_OP_broadcast, 1, &mean, 0, NULL,
                       sum->type); /* axes without a name come back */
}

/* The mean over the ranks. Integers are the same everywhere. */
static dl_value *mean_over(dl_builder *b, dl_value *v, const summing *s) {
    if (!dl_dtype_is_float(v->type.dtype)) return v;
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_group, s->group), dl_attr_int(DL_ATTR_ranks, s->ranks),
                       dl_attr_of(b->graph, s->of)};
    return mean_of(b, dl_build(b, DL_OP_all_reduce, 1, &v, 3, attrs), s);
}

/* ---- shares ---- */

/* The axis along which a parameter is dealt out, or -1: none has an element for each rank. That
 * whose largest share is least, of equals the outermost, whose shares lie in one. Weights of
 * windows lie in panels, which hold some of the first axis: shares do not end within one. */
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

/* The axis along which a value of this type, of a parameter, is dealt out to so many, or -1. What
 * is small is not: its gradient goes into a bucket. */
static int shared_along(const dl_pass_ctx *ctx, const dl_type *t, int ranks) {
    bool shares = ctx->parallel.zero && ranks > 1 && dl_type_bytes(t) >= ctx->parallel.least_shared;
    return shares ? choose_axis(t, ctx->weights, ranks) : -1;
}

/* The mean, of which each rank makes its share along the axis. */
static dl_value *scattered_mean(dl_builder *b, dl_value *v, int axis, const summing *s) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, v->type.axis[axis].name),
                    dl_attr_name(DL_ATTR_group, s->group), dl_attr_int(DL_ATTR_ranks, s->ranks),
                    dl_attr_int(DL_ATTR_rank, s->rank), dl_attr_of(b->graph, s->of)};
    return mean_of(b, dl_build(b, DL_OP_reduce_scatter, 1, &v, 5, at), s);
}

/* What tensor parallel ranks have alike, of a parameter that is no piece, gathered of a share of
 * each. */
static dl_value *share_alike(const dl_pass_ctx *ctx, dl_builder *b, dl_value *v, const dl_var *var,
                             const char *of) {
    const dl_parallel *p = &ctx->parallel;
    int axis = var->piece.n ? -1 : shared_along(ctx, &v->type, p->tp);
    if (axis < 0) return v;
    const dl_var_cut cut = {"tp", axis, p->tp, p->tp_rank, 1, v->type.axis[axis].size};
    return dl_build_gathered(b, dl_build_share(b, v, &cut), &cut, of);
}

/* The mean of a parameter's gradients, in shares where it is dealt out. */
static dl_value *mean_gradient(const dl_pass_ctx *ctx, dl_builder *b, dl_value *v,
                               const dl_var *var, const summing *s) {
    int axis = shared_along(ctx, &v->type, s->ranks);
    if (axis < 0) return share_alike(ctx, b, s->ranks > 1 ? mean_over(b, v, s) : v, var, s->of);
    const dl_var_cut cut = {s->group, axis, s->ranks, s->rank, 1, v->type.axis[axis].size};
    dl_value *share = share_alike(ctx, b, scattered_mean(b, v, axis, s), var, s->of);
    return dl_build_gathered(b, share, &cut, s->of);
}

bool dl_pass_ranks(dl_graph *g, dl_pass_ctx *ctx) {
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
