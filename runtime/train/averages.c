#include "runtime/train/averages.h"

#include <math.h>
#include <string.h>

#include "ir/base/tags.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/state.h"

/* The loop's metric of a layer: "grad_norm.body". No name of a model's metric has a dot. */
static bool is_of_layer(const char *name) { return strchr(name, '.') != NULL; }

/* The tag of one of the loop's own metrics. */
static const char *own_tag(dl_arena *arena, const char *name, const dlr_log_format *style) {
    if (!style) return NULL;
    if (strcmp(name, DL_TAG_GRAD_NORM) == 0) return style->tags[DLR_VALUE_GRAD_NORM];
    if (strcmp(name, DL_TAG_WEIGHT_NORM) == 0) return style->tags[DLR_VALUE_WEIGHT_NORM];
    char *tag = dl_strdup(arena, name);
    if (is_of_layer(name)) tag[strcspn(tag, ".")] = '/'; /* a group of TensorBoard */
    return tag;
}

/* Is it a value of single steps, or of no use without others, which has no mean? */
static bool is_of_step(const char *name) {
    return strcmp(name, DL_TAG_RATE) == 0 || strcmp(name, DL_TAG_LOSS_SCALE) == 0 ||
           strcmp(name, DL_TAG_SKIPPED) == 0 || strcmp(name, DL_TAG_PART_SQUARE) == 0;
}

dlr_averages dlr_averages_of(dl_arena *arena, dlr_exec *exec, int program, const char *split,
                             const dlr_log_format *style) {
    const dl_plan_program *p = &dlr_exec_plan(exec)->programs.at[program];
    dlr_averages a = {.terms = DL_NEWS(arena, dlr_average, p->results.n + 1)};
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role != DL_RESULT_METRIC || is_of_step(r->name)) continue;
        bool layer = is_of_layer(r->name),
             own = layer || dl_tag_find(r->name) != NULL; /* norms: of training alone */
        a.terms[a.n++] = (dlr_average){
            .name = r->name,
            .own = own,
            .layer = layer,
            .tag = own ? own_tag(arena, r->name, style) : dl_format(arena, "%s/%s", r->name, split),
            .now = dlr_exec_result(exec, program, DL_RESULT_METRIC, r->name)};
    }
    return a;
}

void dlr_averages_clear(dlr_averages *a) {
    a->batches = 0;
    for (int i = 0; i < a->n; i++) a->terms[i].sum = a->terms[i].last = 0, a->terms[i].skipped = 0;
}

void dlr_averages_add(dlr_averages *a, const dlr_exec *exec, bool skipped, double weight) {
    a->batches += weight;
    for (int i = 0; i < a->n; i++) {
        dlr_average *term = &a->terms[i];
        double value = dlr_scalar(exec, term->now);
        if (skipped && !isfinite(value))
            term->skipped++;
        else
            term->last = value, term->sum += weight * value;
    }
}

double dlr_averages_mean(const dlr_averages *a, int i) {
    return a->terms[i].sum / (a->batches - (double)a->terms[i].skipped);
}

const char *dlr_averages_line(const dlr_averages *a, const dlr_log_format *style,
                              const char *before, dl_buf *line) {
    for (int i = 0; i < a->n; i++)
        if (!a->terms[i].own)
            dl_putf(line, " - %s%s: %f", before, dlr_record_metric(style, a->terms[i].name),
                    dlr_averages_mean(a, i));
    return line->at;
}

double dlr_averages_value(const dlr_averages *a, int i, const dlr_log_format *style) {
    bool last = style->weights_at_end && a->terms[i].own &&
                strcmp(a->terms[i].name, DL_TAG_WEIGHT_NORM) == 0;
    return last ? a->terms[i].last : dlr_averages_mean(a, i);
}

/* ---- in a checkpoint ---- */

/* The count of batches, then the sums; and likewise the newest step's values. */
void dlr_averages_put_state(const dlr_averages *a, dl_arena *arena, dlr_state_list *list) {
    double *sums = dlr_state_put_reals(arena, list, "metric_sums", a->n + 1);
    double *last = dlr_state_put_reals(arena, list, "metric_last", a->n + 1);
    sums[0] = last[0] = a->batches;
    for (int i = 0; i < a->n; i++) sums[i + 1] = a->terms[i].sum, last[i + 1] = a->terms[i].last;
}

void dlr_averages_restore(dlr_averages *a, const dlr_checkpoint *c) {
    const double *sums = dlr_state_reals(c, "metric_sums", a->n + 1),
                 *last = dlr_state_reals(c, "metric_last", a->n + 1);
    if (!sums) return;
    a->batches = sums[0];
    for (int i = 0; i < a->n; i++) a->terms[i].sum = sums[i + 1];
    for (int i = 0; last && i < a->n; i++) a->terms[i].last = last[i + 1];
}

void dlr_averages_weigh(dlr_averages *a, int64_t batches) {
    for (int i = 0; i < a->n; i++) {
        bool any = a->batches > (double)a->terms[i].skipped && batches > 0;
        a->terms[i].sum = any ? dlr_averages_mean(a, i) * (double)batches : 0;
    }
    for (int i = 0; i < a->n; i++) a->terms[i].skipped = 0;
    a->batches = (double)batches;
}
