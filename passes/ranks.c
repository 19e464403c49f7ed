/* ranks: what several ranks must agree on. Each has its own samples of a step, as many as the
 * others, and the same weights. The gradient of the mean over all samples is the mean of the ranks', and so
 * is the loss that is told, and every metric: each becomes the sum over the ranks, divided by their number,
 * here, where all that follows (clipping, finiteness, the optimiser) is the same on all of them. Of context
 * parallel ranks each has a part of a gradient (shard.h): theirs are added up at once with the others'. */
#include "ir/builder.h"
#include "passes/pass.h"

/* The sum of v over the ranks of a group, divided by `by`; `of`: whose, for a message. Integers are the same
 * everywhere. */
static dl_value *mean_over(dl_builder *b, dl_value *v, const char *group, int ranks, int by, const char *of) {
    if (!dl_dtype_is_float(v->type.dtype)) return v;
    dl_attr attrs[] = {
        dl_attr_name(DL_ATTR_group, group), dl_attr_int(DL_ATTR_ranks, ranks), {.id = DL_ATTR_of, .s = of}};
    dl_value *sum = dl_build(b, DL_OP_all_reduce, 1, &v, 3, attrs);
    dl_value *mean = by > 1 ? dl_build_k(b, DL_OP_mul, sum, 1.0 / by) : sum;
    if (dl_type_same(&mean->type, &v->type)) return mean;
    return dl_build_as(b, DL_OP_broadcast, 1, &mean, 0, NULL, v->type); /* axes without a name come back */
}

bool dl_pass_ranks(dl_graph *g, dl_pass_ctx *ctx) {
    int dp = ctx->parallel.dp > 1 ? ctx->parallel.dp : 1, cp = ctx->parallel.cp > 1 ? ctx->parallel.cp : 1;
    if (dp * cp == 1) return false;
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
        const char *group = !grad || cp == 1 ? "dp" : dp == 1 ? "cp" : "dp-cp";
        if (!*own) *own = mean_over(&b, r->value, group, grad ? dp * cp : dp, dp, r->name);
        r->value = *own, changed = true;
    }
    return changed;
}
