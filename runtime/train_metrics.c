/* The model's own metrics, and the norms of log_norms: one number each a batch, averaged over batches as the
 * loss is. */
#include "ir/base/tags.h"
#include "runtime/state.h"
#include "runtime/train_parts.h"

dlr_averages dlr_averages_of(dl_arena *arena, dlr_exec *exec, int program, const char *split) {
    const dl_plan_program *p = &dlr_exec_plan(exec)->programs.at[program];
    dlr_averages a = {.terms = DL_NEWS(arena, dlr_average, p->results.n + 1)};
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role != DL_RESULT_METRIC || strcmp(r->name, DL_TAG_RATE) == 0) continue;
        bool own = dl_tag_find(r->name) != NULL; /* norms: of training alone */
        a.terms[a.n++] = (dlr_average){.name = r->name,
                                       .own = own,
                                       .tag = own ? r->name : dl_format(arena, "%s/%s", r->name, split),
                                       .now = dlr_exec_result(exec, program, DL_RESULT_METRIC, r->name)};
    }
    return a;
}

void dlr_averages_clear(dlr_averages *a) {
    a->batches = 0;
    for (int i = 0; i < a->n; i++) a->terms[i].sum = 0;
}

void dlr_averages_add(dlr_averages *a, const dlr_exec *exec) {
    a->batches++;
    for (int i = 0; i < a->n; i++) a->terms[i].sum += dlr_scalar(exec, a->terms[i].now);
}

double dlr_averages_mean(const dlr_averages *a, int i) { return a->terms[i].sum / (double)a->batches; }
