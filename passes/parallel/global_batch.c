/* global_batch: where ranks share the samples of a step, or the step has several batches (pass
 * accumulate), a model's sum or mean over the samples becomes that over all of them.
 *
 * If the loss is linear in these, its gradient is the mean of the ranks' gradients (pass
 * data_parallel), and nothing is built here. If it is not (a mean over targets that are not
 * ignored, the root of a mean), each rank's sum goes through an all_reduce first: a quotient of
 * sums is not the mean of the ranks' quotients. The pass runs before `lower`, while batch norms are
 * still one op: their statistics are a rank's own (or all ranks', sync_batch_norm).
 *
 * Every value has a kind:
 *
 *   ALIKE   independent of samples: weights, numbers
 *   SHARED  computed from all ranks' samples, and equal on all ranks
 *   OWN     computed from this rank's samples; `at`: the axis of samples, if there still is one
 *   SUM     a sum over this rank's samples: the ranks' sums add up to that of the global batch
 *   MEAN    the mean of the ranks' values is that of the global batch
 *
 * Gradients. A rank differentiates its own loss, and the mean of gradients over the ranks is
 * taken. A SHARED value gets equal gradients on every rank; their total, R times one of them,
 * flows into each rank's sum (`scale_gradient`). Where a rank computes an OWN value from a SHARED
 * one, the gradients differ, and their mean over the ranks is the gradient (`enter`, whose
 * gradient is an all_reduce). */
#include "ir/builder.h"
#include "passes/core/rewrite.h"
#include "passes/lower/lower.h"
#include "passes/parallel/samples.h"
#include "passes/pass.h"

typedef enum { ALIKE, SHARED, OWN, SUM, MEAN } kind;
typedef struct {
    kind kind;
    dl_samples at;           /* OWN */
    dl_value *shared, *read; /* the value over all ranks, once it is built; for a SHARED value, the
                                value after `enter` */
} state;

typedef struct {
    dl_builder b;
    dl_arena *arena;
    int64_t ranks;
    dl_value *batches;  /* the number of batches of a step; NULL: one */
    const char *axis;   /* "N" */
    DL_ARRAY(state) of; /* by value id */
} batch;

static state *state_of(batch *s, const dl_value *v) {
    while (s->of.n <= (int)v->id) dl_push(s->arena, &s->of, (state){0});
    return &s->of.at[v->id];
}

static bool is_partial(kind k) { return k == SUM || k == MEAN; }
static bool has_axis(const dl_value *v, const char *axis) {
    return axis && dl_type_axis(&v->type, axis) >= 0;
}

/* ---- conversions between kinds ---- */

static dl_value *mark(batch *s, dl_value *v, kind k) {
    state_of(s, v)->kind = k;
    return v;
}

/* `enter` and `scale_gradient` only affect gradients: integers need none. */
static dl_value *scale_gradient(batch *s, dl_value *v, double by) {
    dl_attr value = dl_attr_float(DL_ATTR_value, by);
    return dl_build(&s->b, DL_OP_scale_gradient, 1, &v, 1, &value);
}

/* A SUM or a MEAN over all ranks' samples of this batch. Integers are summed in f64. */
static dl_value *share(batch *s, dl_value *v) {
    const dl_dtype type = v->type.dtype;
    const kind k = state_of(s, v)->kind;
    if (state_of(s, v)->shared) return state_of(s, v)->shared;
    if (s->ranks == 1) return v;
    dl_attr at[] = {dl_attr_name(DL_ATTR_group, "dp"), dl_attr_int(DL_ATTR_ranks, s->ranks),
                    dl_attr_of(s->b.graph, "a sum over the batch")};
    dl_value *x = dl_dtype_is_float(type) ? v : dl_build_cast(&s->b, v, DL_F64);
    x = dl_build(&s->b, DL_OP_all_reduce, 1, &x, 3, at);
    if (k == MEAN) x = dl_build_k(&s->b, DL_OP_mul, x, 1.0 / (double)s->ranks);
    x = dl_dtype_is_float(type) ? scale_gradient(s, x, (double)s->ranks)
                                : dl_build_cast(&s->b, x, type);
    x = dl_build_broadcast(&s->b, x, v->type);
    state_of(s, v)->shared = x;
    return mark(s, x, SHARED);
}

/* A SHARED value after `enter`, for nodes that compute OWN values from it. */
static dl_value *read_shared(batch *s, dl_value *v) {
    dl_attr at[] = {dl_attr_name(DL_ATTR_group, "dp"), dl_attr_int(DL_ATTR_ranks, s->ranks),
                    dl_attr_of(s->b.graph, "a sum over the batch")};
    if (!dl_dtype_is_float(v->type.dtype)) return v;
    if (state_of(s, v)->read) return state_of(s, v)->read;
    dl_value *x = dl_build(&s->b, DL_OP_enter, 1, &v, 3, at);
    x = scale_gradient(s, x, 1.0 / (double)s->ranks);
    state_of(s, v)->read = x;
    return mark(s, x, OWN);
}

/* v multiplied or divided by the number of batches of a step. Integers are a batch's own. */
static dl_value *by_batches(batch *s, dl_op op, dl_value *v) {
    if (!s->batches || !dl_dtype_is_float(v->type.dtype)) return v;
    return dl_build2(&s->b, op, v, dl_build_cast(&s->b, s->batches, v->type.dtype));
}

/* A SUM as a MEAN: multiplied by the number of ranks and by that of batches. */
static dl_value *sum_as_mean(batch *s, dl_value *v) {
    if (state_of(s, v)->kind != SUM) return v;
    dl_value *x = s->ranks > 1 ? dl_build_k(&s->b, DL_OP_mul, v, (double)s->ranks) : v;
    x = dl_build_broadcast(&s->b, by_batches(s, DL_OP_mul, x), v->type);
    return x == v ? v : mark(s, x, MEAN);
}

/* ---- the kind of a node's results ---- */

/* Is it a constant that depends on the number of batches, which compiled plans do not know? */
static bool grows_with_step(const batch *s, const dl_node *n) {
    dl_batch_constant c;
    return s->batches && dl_dtype_is_float(n->out[0].type.dtype) && dl_batch_constant_of(n, &c);
}

/* Such a constant, of all ranks' and batches' samples of a step. */
static dl_value *constant_of_step(batch *s, const dl_node *n) {
    const dl_type type = n->out[0].type;
    dl_batch_constant c;
    dl_batch_constant_of(n, &c);
    dl_value *k = dl_build_k(&s->b, DL_OP_mul, s->batches, c.step * (double)s->ranks);
    k = dl_build_k(&s->b, DL_OP_add, k, c.base - c.step);
    if (c.inverse) k = dl_build2(&s->b, DL_OP_div, dl_build_const(&s->b, DL_F64, 1), k);
    return dl_build_broadcast(&s->b, dl_build_cast(&s->b, k, type.dtype), type);
}

/* Makes a constant that depends on a rank's batch one of the global batch. */
static void enlarge(batch *s, dl_node *n) {
    dl_batch_constant c;
    if (dl_batch_constant_of(n, &c)) {
        const double k = c.base + c.step * (double)(s->ranks - 1);
        n->attrs[0].f = c.inverse ? 1 / k : k;
    }
    n->nattrs = 1; /* it no longer depends on it */
}

/* For a node that reads SUMs or MEANs and no OWN values: is it linear in them, so that its result
 * is one, too? Converts the operands to one kind, which is the result's. */
static bool is_linear(batch *s, dl_node *n, kind *made) {
    const kind a = state_of(s, n->in[0])->kind,
               b = n->nin > 1 ? state_of(s, n->in[1])->kind : ALIKE;
    *made = is_partial(a) ? a : b;
    if (dl_op_is_linear(n->op)) return true;
    switch (n->op) {
    case DL_OP_broadcast: return !has_axis(&n->out[0], s->axis);
    case DL_OP_cast: return dl_dtype_is_float(n->out[0].type.dtype);
    case DL_OP_add:
    case DL_OP_sub:
        if (a == SUM && b == SUM) return true;
        for (int i = 0; i < 2; i++) n->in[i] = sum_as_mean(s, n->in[i]);
        return *made = MEAN, true;
    case DL_OP_mul: return a == ALIKE || b == ALIKE;
    case DL_OP_div: return b == ALIKE;
    default: return false;
    }
}

static void mark_own(batch *s, const dl_node *n) {
    dl_samples at = {0};
    for (int k = 0; k < n->nin && !at.axis; k++)
        at = dl_samples_follow(n, k, state_of(s, n->in[k])->at);
    if (!at.axis && has_axis(&n->out[0], s->axis))
        at = dl_samples_along(s->axis); /* a broadcast to the axis */
    for (int r = 0; r < n->nout; r++) *state_of(s, &n->out[r]) = (state){.kind = OWN};
    if (at.axis && *at.axis) state_of(s, &n->out[0])->at = at;
    for (int r = 0; r < n->nout && n->body; r++)
        state_of(s, &n->out[r])->at =
            has_axis(&n->out[r], s->axis) ? dl_samples_along(s->axis) : (dl_samples){0};
}

static bool sums_samples(batch *s, const dl_node *n) {
    for (int k = 0; k < n->nin; k++) {
        const state *own = state_of(s, n->in[k]);
        const char *axis = own->kind == OWN ? own->at.axis : s->axis;
        if (dl_sums_samples(n, k, axis)) return true;
    }
    return false;
}

/* The gradient of y by x. A rank differentiates its own y, and `enter` adds what other ranks' y
 * have by a SHARED value: that is the gradient of the sum of all ranks' y. So y is made a SUM,
 * whose gradient by a rank's own values is complete, and that by weights a SUM again. A SHARED
 * value gets a part for each rank (see above), and a MEAN is the ranks' values by their number.
 * x stays the value that y is computed from. */
static void visit_grad(batch *s, dl_node *n) {
    const kind of = state_of(s, n->in[0])->kind, by = state_of(s, n->in[1])->kind;
    double factor = of == MEAN || of == SHARED ? 1.0 / (double)s->ranks : 1;
    if (by == MEAN || by == SHARED) factor *= (double)s->ranks;
    if (factor != 1) n->in[0] = dl_build_k(&s->b, DL_OP_mul, n->in[0], factor);
    if (of == MEAN) n->in[0] = by_batches(s, DL_OP_div, n->in[0]);
    if (by == OWN)
        mark_own(s, n);
    else if (by == ALIKE)
        mark(s, &n->out[0], of == ALIKE ? ALIKE : SUM);
    else
        mark(s, &n->out[0], SHARED);
}

static void visit_node(batch *s, dl_node *n) {
    if (n->op == DL_OP_grad) {
        visit_grad(s, n);
        return;
    }
    int count[MEAN + 1] = {0};
    kind all = ALIKE;
    for (int k = 0; k < n->nin; k++) count[state_of(s, n->in[k])->kind]++;
    bool own = count[OWN] || has_axis(&n->out[0], s->axis) || sums_samples(s, n);
    if (!own && count[SUM] + count[MEAN] && is_linear(s, n, &all)) {
        mark(s, &n->out[0], all);
        return;
    }
    for (int k = 0; k < n->nin; k++) {
        if (is_partial(state_of(s, n->in[k])->kind)) n->in[k] = share(s, n->in[k]);
        if (own && state_of(s, n->in[k])->kind == SHARED) n->in[k] = read_shared(s, n->in[k]);
    }
    if (sums_samples(s, n))
        mark(s, &n->out[0], n->op == DL_OP_mean ? MEAN : SUM);
    else if (own)
        mark_own(s, n);
    else
        for (int r = 0; r < n->nout; r++)
            mark(s, &n->out[r], count[SHARED] + count[SUM] + count[MEAN] ? SHARED : ALIKE);
}

/* A rearrangement is lowered here to the parts that move the axis of samples: "n t -> (n t)". */
static bool visit(void *user, dl_node *n, dl_value *made[DL_MAX_RESULTS]) {
    batch *s = user;
    const int from = s->b.graph->nodes.n;
    s->b.loc = n->loc;
    if (n->op == DL_OP_rearrange && state_of(s, n->in[0])->kind == OWN)
        made[0] = dl_lower_rearrange(&s->b, n);
    if (n->op == DL_OP_const && grows_with_step(s, n)) made[0] = constant_of_step(s, n);
    if (!made[0]) return visit_node(s, n), false;
    for (int i = from; i < s->b.graph->nodes.n; i++) visit_node(s, s->b.graph->nodes.at[i]);
    return true;
}

/* ---- a graph ---- */

/* An input without samples counts as OWN: nothing guarantees that all ranks get the same one. */
static void begin_vars(batch *s) {
    const dl_graph *g = s->b.graph;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET,
             has_samples = has_axis(&v->value, s->axis);
        if (!fed && !has_samples) continue;
        state_of(s, &v->value)->kind = OWN;
        if (has_samples) state_of(s, &v->value)->at = dl_samples_along(s->axis);
    }
}

/* A loss or metric is reported as the mean over the ranks (pass data_parallel), but integers are
 * not. State that is kept from step to step is equal on all ranks. */
static void end_results(batch *s) {
    dl_graph *g = s->b.graph;
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        bool told = r->role == DL_RESULT_LOSS || r->role == DL_RESULT_OBJECTIVE ||
                    r->role == DL_RESULT_METRIC;
        if (!is_partial(state_of(s, r->value)->kind) || (!told && r->role != DL_RESULT_UPDATE))
            continue;
        s->b.loc = r->value->def->loc;
        bool mean = told && dl_dtype_is_float(r->value->type.dtype);
        r->value = mean ? sum_as_mean(s, r->value) : share(s, r->value);
    }
}

/* Refuses scans whose steps sum over samples: a rank has its own ones alone. */
static bool check_bodies(const dl_graph *g, const char *axis, dl_error *err) {
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        bool sums = false;
        for (int k = 0; g->is_body && k < n->nin; k++) sums |= dl_sums_samples(n, k, axis);
        if (sums)
            return dl_fail(err, DL_INPUT,
                           "%s:%d:%d: error: a step of a scan sums over %s, and each rank has a "
                           "part of the samples alone: move the sum out of the scan, or run one "
                           "rank",
                           n->loc.file ? n->loc.file : g->name, n->loc.line, n->loc.column, axis);
        if (n->body && !check_bodies(n->body, axis, err)) return false;
    }
    return true;
}

bool dl_pass_global_batch(dl_graph *g, dl_pass_ctx *ctx) {
    batch s = {.b = {.graph = g},
               .arena = ctx->arena,
               .ranks = ctx->parallel.dp > 1 ? ctx->parallel.dp : 1,
               .axis = dl_intern("N")};
    const bool trains = strcmp(g->name, "train") == 0 || strcmp(g->name, DL_GRAPH_ACCUMULATE) == 0;
    int before = g->nodes.n;
    if (ctx->step_options.accumulate && trains) s.batches = dl_step_batches(g, (dl_loc){0});
    for (int i = 0; i < before; i++)
        if (g->nodes.at[i]->op == DL_OP_const && !grows_with_step(&s, g->nodes.at[i]))
            enlarge(&s, g->nodes.at[i]);
    if (!s.batches && s.ranks == 1) return false;
    if (s.ranks > 1 && !check_bodies(g, s.axis, ctx->err)) return false;
    begin_vars(&s);
    dl_rewrite(g, ctx->arena, visit, &s);
    end_results(&s);
    return g->nodes.n != before;
}
