/* accumulate: one step of the optimiser for several batches, whose mean gradient it takes. The
 * graph "accumulate" is the graph "train" of a batch that is not the step's last one: it adds the
 * batch's gradients, loss and metrics to sums, and updates what follows every batch (running
 * statistics, the number of random draws) and nothing else. The graph "train" adds those of the
 * last batch, divides by the number of batches, and leaves the sums 0 for the next step. Ranks
 * therefore exchange gradients once a step (pass data_parallel comes next).
 *
 * A mean over targets that count, a sum over samples by another, is that of the whole step: each
 * batch is multiplied by its divisor (batch_weight.h), and the sum is divided by the divisors' sum.
 *
 * The sums are variables of role STATE, "accumulated..NAME", which no checkpoint holds: they are 0
 * between steps. The number of batches is the hyperparameter "accumulate.batches". */
#include "ir/base/tags.h"
#include "ir/builder.h"
#include "ir/walk.h"
#include "passes/optim/batch_weight.h"
#include "passes/parallel/samples.h"
#include "passes/pass.h"

static const dl_init zero = {.kind = DL_INIT_ZERO};

/* Is the result one of those that a step has once: a mean over its batches? */
static bool is_summed(const dl_result *r) {
    bool told = r->role == DL_RESULT_LOSS || r->role == DL_RESULT_METRIC;
    return (r->role == DL_RESULT_GRAD || told) && dl_dtype_is_float(r->value->type.dtype);
}

/* The sum's variable. Numbers for people are summed in f64. */
static dl_var *sum_of(dl_builder *b, const dl_result *r) {
    bool grad = r->role == DL_RESULT_GRAD;
    const char *name = dl_internf(DL_ACCUMULATED "%s.%s", dl_result_roles[r->role], r->name);
    dl_type type = grad ? r->var->value.type : dl_scalar(DL_F64);
    dl_var *v = dl_graph_var(b->graph, DL_VAR_STATE, name, type, zero, b->loc);
    if (grad) v->piece = r->var->piece;
    return v;
}

/* A number as a whole tensor of the type. */
static dl_value *spread(dl_builder *b, dl_value *v, dl_type type) {
    v = dl_build_cast(b, v, type.dtype);
    return type.rank ? dl_build_as(b, DL_OP_broadcast, 1, &v, 0, NULL, type) : v;
}

/* The sum with this batch's value, times its weight (NULL: 1). A gradient gets back axes that have
 * no name. A batch in which nothing counts adds nothing, whatever its value is. */
static dl_value *add_batch(dl_builder *b, const dl_var *sum, dl_value *v, dl_value *weight) {
    const dl_type type = sum->value.type;
    v = dl_build_broadcast(b, dl_build_cast(b, v, type.dtype), type);
    if (weight) {
        dl_value *of[] = {v, spread(b, weight, type)};
        dl_value *none = spread(b, dl_build_const(b, type.dtype, 0), type);
        dl_value *counts = dl_build_k(b, DL_OP_ne, weight, 0);
        if (type.rank) {
            dl_type mask = type;
            mask.dtype = DL_BOOL;
            counts = dl_build_as(b, DL_OP_broadcast, 1, &counts, 0, NULL, mask);
        }
        dl_value *either[] = {counts, dl_build_as(b, DL_OP_mul, 2, of, 0, NULL, type), none};
        v = dl_build_as(b, DL_OP_select, 3, either, 0, NULL, type);
    }
    dl_value *all[] = {(dl_value *)&sum->value, v};
    return dl_build_as(b, DL_OP_add, 2, all, 0, NULL, type);
}

/* ---- weights ---- */

typedef struct {
    dl_graph *g;
    const dl_batch_weights *of;
    const dl_result *loss; /* NULL: there are several */
} weighing;

static weighing weighing_of(dl_graph *g, dl_arena *arena) {
    weighing w = {.g = g, .of = dl_batch_weights_of(g, arena)};
    int n = 0;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_LOSS) w.loss = &g->results.at[i], n++;
    if (n > 1) w.loss = NULL;
    return w;
}

/* The result whose weight a result has: a gradient that of the loss. NULL: batches weigh the
 * same. */
static const dl_result *weighed_as(const weighing *w, const dl_result *r) {
    if (r->role != DL_RESULT_GRAD) return r;
    return r->var->by ? NULL : w->loss;
}

/* The weight of this batch in a result's mean; NULL: each batch has the same. */
static dl_value *weight_of(const weighing *w, const dl_result *r) {
    const dl_result *as = weighed_as(w, r);
    return as ? dl_batch_weight(w->of, as->value) : NULL;
}

/* The variable that sums the weights of a result over the batches. */
static dl_var *sum_of_weights(dl_builder *b, const weighing *w, const dl_result *r) {
    const dl_result *as = weighed_as(w, r);
    const char *name =
        dl_internf(DL_ACCUMULATED "weight.%s.%s", dl_result_roles[as->role], as->name);
    dl_var *v = dl_graph_find_var(b->graph, name);
    return v ? v : dl_graph_var(b->graph, DL_VAR_STATE, name, dl_scalar(DL_F64), zero, b->loc);
}

/* The sum of the weights with this batch's. */
static dl_value *add_weight(dl_builder *b, dl_var *sum, dl_value *weight) {
    return dl_build2(b, DL_OP_add, &sum->value, dl_build_cast(b, weight, DL_F64));
}

/* ---- the two graphs ---- */

static void locate(dl_builder *b, const dl_result *r) {
    b->loc = r->var ? r->var->loc : r->value->def ? r->value->def->loc : (dl_loc){0};
}

/* A batch before the step's last one: sums and updates stay, the other results go. */
static void sum_batch(dl_graph *g, dl_arena *arena) {
    dl_builder b = {.graph = g};
    weighing w = weighing_of(g, arena);
    int n = g->results.n, kept = 0;
    dl_result *all = DL_NEWS(arena, dl_result, 2 * n + 1);
    for (int i = 0; i < n; i++) {
        const dl_result r = g->results.at[i];
        if (r.role == DL_RESULT_UPDATE) all[kept++] = r;
        if (!is_summed(&r)) continue;
        locate(&b, &r);
        dl_var *sum = sum_of(&b, &r), *weights;
        dl_value *weight = weight_of(&w, &r);
        all[kept++] = (dl_result){.role = DL_RESULT_UPDATE,
                                  .name = sum->name,
                                  .value = add_batch(&b, sum, r.value, weight),
                                  .var = sum};
        if (!weight || r.role == DL_RESULT_GRAD) continue;
        weights = sum_of_weights(&b, &w, &r);
        all[kept++] = (dl_result){.role = DL_RESULT_UPDATE,
                                  .name = weights->name,
                                  .value = add_weight(&b, weights, weight),
                                  .var = weights};
    }
    g->results.n = 0;
    for (int i = 0; i < kept; i++)
        dl_graph_result(g, all[i].role, all[i].name, all[i].value, all[i].var);
    dl_graph_sweep(g);
}

/* The step's last batch: its results become means over all batches. */
static void take_mean(dl_graph *g, dl_arena *arena) {
    dl_builder b = {.graph = g};
    dl_value *batches = dl_step_batches(g, b.loc);
    const int n = g->results.n;
    weighing w = weighing_of(g, arena);
    const dl_result loss = w.loss ? *w.loss : (dl_result){0}; /* results move when some are added */
    if (w.loss) w.loss = &loss;
    for (int i = 0; i < n; i++) {
        const dl_result r = g->results.at[i];
        if (!is_summed(&r)) continue;
        locate(&b, &r);
        dl_var *sum = sum_of(&b, &r);
        dl_value *weight = weight_of(&w, &r);
        dl_type type = sum->value.type;
        dl_var *weights = weight ? sum_of_weights(&b, &w, &r) : NULL;
        dl_value *by = weight ? add_weight(&b, weights, weight) : batches;
        dl_value *of[] = {add_batch(&b, sum, r.value, weight), dl_build_cast(&b, by, type.dtype)};
        dl_value *mean = dl_build_as(&b, DL_OP_div, 2, of, 0, NULL, type);
        if (r.role != DL_RESULT_GRAD) mean = dl_build_cast(&b, mean, r.value->type.dtype);
        g->results.at[i].value = mean;
        dl_graph_result(g, DL_RESULT_UPDATE, sum->name,
                        spread(&b, dl_build_const(&b, type.dtype, 0), type), sum);
        if (weight && r.role != DL_RESULT_GRAD)
            dl_graph_result(g, DL_RESULT_UPDATE, weights->name, dl_build_const(&b, DL_F64, 0),
                            weights);
    }
}

/* The square of the norm of this batch's gradients, as a metric: its mean over batches and ranks is
 * what the noise scale needs (norms.c). */
static void add_square(dl_graph *g) {
    dl_builder b = {.graph = g};
    dl_value *sum = NULL;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result r = g->results.at[i];
        if (r.role != DL_RESULT_GRAD) continue;
        locate(&b, &r);
        dl_value *v = dl_build_cast(&b, r.value, DL_F64);
        dl_value *square = dl_build_reduce(&b, DL_OP_sum, dl_build2(&b, DL_OP_mul, v, v), 0, NULL);
        sum = sum ? dl_build2(&b, DL_OP_add, sum, square) : square;
    }
    dl_graph_result(g, DL_RESULT_METRIC, DL_TAG_PART_SQUARE, sum, NULL);
}

bool dl_pass_accumulate(dl_graph *g, dl_pass_ctx *ctx) {
    bool first = strcmp(g->name, DL_GRAPH_ACCUMULATE) == 0, last = strcmp(g->name, "train") == 0;
    bool done = dl_graph_find_result(g, DL_RESULT_METRIC, DL_TAG_PART_SQUARE);
    for (int i = 0; i < g->vars.n && !done; i++)
        done = strncmp(g->vars.at[i]->name, DL_ACCUMULATED, strlen(DL_ACCUMULATED)) == 0;
    if (done || !(first || last) || !dl_graph_find_result(g, DL_RESULT_GRAD, NULL)) return false;
    if (ctx->step_options.noise) add_square(g);
    if (!ctx->step_options.accumulate) return ctx->step_options.noise;
    if (first) sum_batch(g, ctx->arena);
    if (last) take_mean(g, ctx->arena);
    return first || last;
}
