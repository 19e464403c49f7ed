/* The model's own metrics, and the norms of log_norms: one number each a batch, averaged over
 * batches as the loss is. */
#include <math.h>
#include <string.h>

#include "ir/base/tags.h"
#include "runtime/exec/state.h"
#include "runtime/train/train_parts.h"

/* The tag of one of the loop's own metrics. */
static const char *own_tag(const char *name, const dlr_record_style *style) {
    return !style ? NULL
                  : style->tags[strcmp(name, DL_TAG_GRAD_NORM) == 0 ? DLR_VALUE_GRAD_NORM
                                                                    : DLR_VALUE_WEIGHT_NORM];
}

/* Is it a value of single steps, which has no mean? */
static bool is_of_step(const char *name) {
    return strcmp(name, DL_TAG_RATE) == 0 || strcmp(name, DL_TAG_LOSS_SCALE) == 0 ||
           strcmp(name, DL_TAG_SKIPPED) == 0;
}

dlr_averages dlr_averages_of(dl_arena *arena, dlr_exec *exec, int program, const char *split,
                             const dlr_record_style *style) {
    const dl_plan_program *p = &dlr_exec_plan(exec)->programs.at[program];
    dlr_averages a = {.terms = DL_NEWS(arena, dlr_average, p->results.n + 1)};
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role != DL_RESULT_METRIC || is_of_step(r->name)) continue;
        bool own = dl_tag_find(r->name) != NULL; /* norms: of training alone */
        a.terms[a.n++] = (dlr_average){
            .name = r->name,
            .own = own,
            .tag = own ? own_tag(r->name, style) : dl_format(arena, "%s/%s", r->name, split),
            .now = dlr_exec_result(exec, program, DL_RESULT_METRIC, r->name)};
    }
    return a;
}

void dlr_averages_clear(dlr_averages *a) {
    a->batches = 0;
    for (int i = 0; i < a->n; i++) a->terms[i].sum = a->terms[i].last = 0, a->terms[i].lost = 0;
}

void dlr_averages_add(dlr_averages *a, const dlr_exec *exec, bool skipped) {
    a->batches++;
    for (int i = 0; i < a->n; i++) {
        dlr_average *term = &a->terms[i];
        double value = dlr_scalar(exec, term->now);
        if (skipped && !isfinite(value))
            term->lost++;
        else
            term->last = value, term->sum += value;
    }
}

double dlr_averages_mean(const dlr_averages *a, int i) {
    return a->terms[i].sum / (double)(a->batches - a->terms[i].lost);
}

const char *dlr_averages_line(const dlr_averages *a, const dlr_record_style *style,
                              const char *before, dl_buf *line) {
    for (int i = 0; i < a->n; i++)
        if (!a->terms[i].own)
            dl_putf(line, " - %s%s: %f", before, dlr_record_metric(style, a->terms[i].name),
                    dlr_averages_mean(a, i));
    return line->at;
}

double dlr_averages_value(const dlr_averages *a, int i, const dlr_record_style *style) {
    bool last = style->weights_at_end && a->terms[i].own &&
                strcmp(a->terms[i].name, DL_TAG_WEIGHT_NORM) == 0;
    return last ? a->terms[i].last : dlr_averages_mean(a, i);
}
