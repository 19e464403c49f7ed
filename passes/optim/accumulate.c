/* accumulate: one step of the optimiser for several batches, whose mean gradient it takes. The
 * graph "accumulate" is the graph "train" of a batch that is not the step's last one: it adds the
 * batch's gradients, loss and metrics to sums, and updates what follows every batch (running
 * statistics, the number of random draws) and nothing else. The graph "train" adds those of the
 * last batch, divides by the number of batches, and leaves the sums 0 for the next step. Ranks
 * therefore exchange gradients once a step (pass data_parallel comes next).
 *
 * The sums are variables of role STATE, "accumulated..NAME", which no checkpoint holds: they are 0
 * between steps. The number of batches is the hyperparameter "accumulate.batches". */
#include "ir/base/tags.h"
#include "ir/builder.h"
#include "ir/walk.h"
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

/* The sum with this batch's value. A gradient gets back axes that have no name. */
static dl_value *add_batch(dl_builder *b, const dl_var *sum, dl_value *v) {
    v = dl_build_cast(b, v, sum->value.type.dtype);
    dl_value *all[] = {(dl_value *)&sum->value, dl_build_broadcast(b, v, sum->value.type)};
    return dl_build_as(b, DL_OP_add, 2, all, 0, NULL, sum->value.type);
}

static void locate(dl_builder *b, const dl_result *r) {
    b->loc = r->var ? r->var->loc : r->value->def ? r->value->def->loc : (dl_loc){0};
}

/* A batch before the step's last one: sums and updates stay, the other results go. */
static void sum_batch(dl_graph *g) {
    dl_builder b = {.graph = g};
    int kept = 0, n = g->results.n;
    for (int i = 0; i < n; i++) {
        const dl_result r = g->results.at[i];
        if (!is_summed(&r) && r.role != DL_RESULT_UPDATE) continue;
        dl_result next = r;
        if (is_summed(&r)) {
            locate(&b, &r);
            dl_var *sum = sum_of(&b, &r);
            next = (dl_result){.role = DL_RESULT_UPDATE,
                               .name = sum->name,
                               .value = add_batch(&b, sum, r.value),
                               .var = sum};
        }
        g->results.at[kept++] = next;
    }
    g->results.n = kept;
    dl_graph_sweep(g);
}

/* The step's last batch: its results become means over all batches. */
static void take_mean(dl_graph *g) {
    dl_builder b = {.graph = g};
    dl_var *batches =
        dl_graph_var(g, DL_VAR_HYPER, dl_intern(DL_ACCUMULATE_BATCHES), dl_scalar(DL_F64),
                     (dl_init){.kind = DL_INIT_CONST, .a = 1}, b.loc);
    for (int i = 0, n = g->results.n; i < n; i++) {
        const dl_result r = g->results.at[i];
        if (!is_summed(&r)) continue;
        locate(&b, &r);
        dl_var *sum = sum_of(&b, &r);
        dl_type type = sum->value.type;
        dl_value *by = dl_build_cast(&b, &batches->value, type.dtype);
        dl_value *of[] = {add_batch(&b, sum, r.value), by};
        dl_value *mean = dl_build_as(&b, DL_OP_div, 2, of, 0, NULL, type);
        dl_value *none = dl_build_const(&b, type.dtype, 0);
        if (type.rank) none = dl_build_as(&b, DL_OP_broadcast, 1, &none, 0, NULL, type);
        if (r.role != DL_RESULT_GRAD) mean = dl_build_cast(&b, mean, r.value->type.dtype);
        g->results.at[i].value = mean;
        dl_graph_result(g, DL_RESULT_UPDATE, sum->name, none, sum);
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
    bool done = dl_graph_find_var(g, DL_ACCUMULATE_BATCHES) ||
                dl_graph_find_result(g, DL_RESULT_METRIC, DL_TAG_PART_SQUARE);
    if (done || !(first || last) || !dl_graph_find_result(g, DL_RESULT_GRAD, NULL)) return false;
    if (ctx->step_options.noise) add_square(g);
    if (!ctx->step_options.accumulate) return ctx->step_options.noise;
    if (first) sum_batch(g);
    if (last) take_mean(g);
    return first || last;
}
