#include "compiler/related_samples.h"

#include "passes/parallel/samples.h"
#include "passes/pass.h"

void dl_warn_of_related(const dl_session *s, dl_module *m) {
    dl_error none = {0}; /* a model that cannot be lowered is refused where it is compiled */
    dl_pass_ctx ctx = {.arena = s->arena, .err = &none};
    if (!m || s->parallel.dp < 2 || !dl_run_passes(m, "lower", &ctx, (dl_pass_options){0})) return;
    const dl_graph *g = dl_module_graph(m, "train");
    const dl_node *n = g ? dl_samples_related_by(g) : NULL;
    if (!n) return;
    dl_config_warn(s->config,
                   "%s:%d:%d: this relates the samples of a batch otherwise than by a sum or a "
                   "mean: each of the %d ranks takes its own %lld samples, so that the loss "
                   "depends on the number of ranks",
                   n->loc.file ? n->loc.file : s->model_path, n->loc.line, n->loc.column,
                   s->parallel.dp, (long long)s->batch);
}
