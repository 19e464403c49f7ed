#include "compiler/related_samples.h"

#include "passes/optim/batch_weight.h"
#include "passes/parallel/samples.h"
#include "passes/pass.h"

/* "FILE:LINE:COLUMN" of a node. */
static const char *place_of(const dl_session *s, const dl_node *n) {
    return dl_format(s->arena, "%s:%d:%d", n->loc.file ? n->loc.file : s->model_path, n->loc.line,
                     n->loc.column);
}

static void warn_of_relation(const dl_session *s, const dl_node *n, int64_t batches) {
    const int ranks = s->parallel.dp;
    const char *who = ranks > 1 ? dl_format(s->arena, "%d ranks", ranks) : "",
               *what = batches < 2 ? ""
                                   : dl_format(s->arena, "%s%lld batches of a step",
                                               ranks > 1 ? " and of the " : "", (long long)batches);
    dl_config_warn(
        s->config,
        "%s: this relates the samples of a batch otherwise than by a sum or a mean: each "
        "of the %s%s takes its own %lld samples, so that the loss depends on %s",
        place_of(s, n), who, what, (long long)s->batch,
        batches < 2 ? "the number of ranks"
        : ranks > 1 ? "both numbers"
                    : "accumulate");
}

/* The node by which a loss' or a metric's mean over batches is not that of the step's samples. */
static const dl_node *mean_differs_by(const dl_graph *g, dl_arena *arena) {
    const dl_batch_weights *w = dl_batch_weights_of(g, arena);
    const dl_value *differs = NULL;
    for (int i = 0; i < g->results.n && !differs; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role == DL_RESULT_LOSS || r->role == DL_RESULT_METRIC)
            differs = dl_batch_mean_differs(w, r->value);
    }
    return differs ? differs->def : NULL;
}

void dl_warn_of_related(const dl_session *s, dl_module *m) {
    dl_error none = {0}; /* a model that cannot be lowered is refused where it is compiled */
    dl_pass_ctx ctx = {.arena = s->arena, .err = &none};
    if (!m || !dl_run_passes(m, "lower", &ctx, (dl_pass_options){0})) return;
    const dl_graph *g = dl_module_graph(m, "train");
    if (!g) return;
    const int64_t batches = dl_config_int(s->config, DL_KEY_accumulate);
    const dl_node *n = dl_samples_related_by(g);
    if (n) warn_of_relation(s, n, batches);
    n = batches > 1 ? mean_differs_by(g, s->arena) : NULL;
    if (n)
        dl_config_warn(
            s->config,
            "%s: this is neither a sum or mean over samples nor a quotient of such: with "
            "accumulate=%lld it is the mean of what the batches of %lld samples have, and "
            "not that of the whole step",
            place_of(s, n), (long long)batches, (long long)s->batch);
}
