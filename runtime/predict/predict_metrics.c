/* The model's own loss and metrics over held-out samples: the program "eval" gives those of each
 * sample of a batch. */
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/state.h"
#include "runtime/predict/predict_job.h"
#include "runtime/tune/tune.h"

enum { MOST_MEASURES = 64 };

/* An input or target of "eval", and where its numbers are from. */
typedef struct {
    dl_type type;  /* of a sample, [N=1, ...] */
    bool in_batch; /* it has N: each sample of a batch has its own */
    int space;
    dlr_view view;
    const dlr_field *field; /* one of the job's inputs, by file; or: */
    int input;              /* -1: */
    bool classes;           /* of the first input's pictures, or: */
    dlr_field own;
    int64_t later; /* samples: its sample of the data is so much later */
    dl_dtype numbers;
    int64_t each; /* elements of a sample */
    char *room;   /* for a batch of these, or of classes */
} source;

typedef struct dl_evaluation {
    dl_predict_job *job;
    source sources[2 * DLR_MAX_ARRAYS];
    int n;
    int program;
    dlr_view measures[MOST_MEASURES]; /* of metrics.at[i], [N] */
    double *values;                   /* room for one of these */
    int64_t batch;
    int64_t *samples, filled; /* those that are to be measured next */
} evaluation;

/* ---- the arrays ---- */

static const char *given_input(const evaluation *e, const char *name) {
    for (int i = 0; i < e->job->others.n; i++)
        if (strcmp(e->job->others.at[i].name, name) == 0) return e->job->others.at[i].spec;
    return NULL;
}

static bool open_own(evaluation *e, source *s, const char *name, const char *spec, dl_error *err) {
    const dl_predict_job *job = e->job;
    const dl_array_record *r = dl_data_record_find(&job->net.data, name);
    const char *what = dl_format(job->arena, "the model's '%s'", name);
    dlr_scale scale;
    s->field = &s->own;
    return dlr_scale_of(job->arena, r, &s->type, s->space, what, &scale, err) &&
           dl_predict_open_array(job, &s->own, spec, what, &s->type, s->space, r, &scale, err);
}

/* The state dt steps later is the target, where no other is named. */
static bool open_later(evaluation *e, source *s, const char *name, dl_error *err) {
    dl_predict_job *job = e->job;
    if (!job->dt || job->fed < 0 || job->n > 1) return false;
    const dlr_field *state = &job->input[job->fed].data[0];
    if (!open_own(e, s, name, state->spec, err)) return false;
    s->own.first = state->first, s->later = job->dt;
    return true;
}

/* The classes of pictures are with them, where no other data are named. */
static bool has_classes(const evaluation *e, const dl_plan_var *v) {
    const dl_predict_job *job = e->job;
    const bool folders = strcmp(job->net.data.loader, "image_folder") == 0;
    return job->pictures && !dl_dtype_is_float(v->type.dtype) && v->type.rank == 1 &&
           (!folders || job->net.data.classes.n);
}

/* False without an error: there is no data for it, and *why says so. */
static bool open_source(evaluation *e, const dl_plan_var *v, int n_targets, const char **why,
                        dl_error *err) {
    dl_predict_job *job = e->job;
    source *s = &e->sources[e->n++];
    *s = (source){.type = v->type, .input = -1};
    s->type.layout = (dl_layout){0};
    s->in_batch = dl_type_axis(&s->type, dl_intern("N")) == 0;
    if (s->in_batch) s->type.axis[0].size = 1;
    s->space = job->flat || v->type.rank < 2 ? 0 : v->type.rank - 2;
    if (s->space > DLR_SPACE) s->space = 0;
    const char *spec = NULL;
    if (v->role == DL_VAR_INPUT) {
        for (int i = 0; i < job->n_inputs; i++)
            if (strcmp(job->input[i].name, v->name) == 0) s->input = i;
        if (s->input >= 0) {
            s->space = job->input[s->input].whole ? 0 : job->space;
            return true;
        }
        spec = given_input(e, v->name);
    } else {
        spec = dl_predict_target_spec(job, v->name, n_targets);
        if (!spec && open_later(e, s, v->name, err)) return true;
        if (!spec && has_classes(e, v)) return s->classes = true;
    }
    if (err->code) return false;
    if (spec) return open_own(e, s, v->name, spec, err);
    *why = v->role == DL_VAR_INPUT
               ? dl_format(job->arena, "no data is named for the input '%s': %s=FILE", v->name,
                           v->name)
               : dl_format(job->arena, "no data is named for the target '%s': --target=%s=FILE",
                           v->name, v->name);
    return false;
}

static bool open_sources(evaluation *e, const char **why, dl_error *err) {
    const dl_plan *p = e->job->plan;
    int n_targets = 0;
    for (int i = 0; i < p->vars.n; i++) n_targets += p->vars.at[i].role == DL_VAR_TARGET;
    for (int i = 0; i < p->vars.n; i++)
        if (dl_plan_is_fed(&p->vars.at[i]) && !open_source(e, &p->vars.at[i], n_targets, why, err))
            return false;
    return true;
}

/* ---- the samples ---- */

static const dlr_field *field_of(const evaluation *e, const source *s, int file) {
    return s->input >= 0 ? &e->job->input[s->input].data[file] : s->field;
}

static void place_measures(evaluation *e, dl_model_metrics *out) {
    const dl_plan_program *g = &e->job->plan->programs.at[e->program];
    for (int i = 0; i < g->results.n && out->metrics.n < MOST_MEASURES; i++) {
        const dl_plan_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_MEASURE) continue;
        e->measures[out->metrics.n] = dlr_exec_result(e->job->exec, e->program, r->role, r->name);
        dl_push(e->job->arena, &out->metrics,
                (dl_model_metric){.name = dl_strdup(e->job->arena, r->name)});
    }
}

static bool place(evaluation *e, dl_error *err) {
    const dl_plan *p = e->job->plan;
    e->program = dlr_exec_program(e->job->exec, "eval");
    e->batch = p->batch;
    e->values = DL_NEWS(e->job->arena, double, e->batch);
    e->samples = DL_NEWS(e->job->arena, int64_t, e->batch);
    place_measures(e, &e->job->metrics);
    int at = 0;
    for (int i = 0; i < p->vars.n; i++) {
        if (!dl_plan_is_fed(&p->vars.at[i])) continue;
        source *s = &e->sources[at++];
        s->view = dlr_exec_variable(e->job->exec, p->vars.at[i].name);
        s->numbers = dlr_field_numbers(&s->type);
        s->each = dl_type_count(&s->type);
        s->room = calloc((size_t)(s->each * e->batch) + 1, sizeof(double));
        if (!s->room) return dl_fail(err, DL_RESOURCE, "no memory for a batch of samples");
    }
    return true;
}

/* Whether sample `sample` of a file has all its numbers: a state may have no next one. */
static bool is_there(const evaluation *e, int file, int64_t sample) {
    for (int i = 0; i < e->n; i++) {
        const source *s = &e->sources[i];
        if (s->classes) continue;
        const dlr_field *f = field_of(e, s, file);
        int64_t at = sample + s->later + (s->input >= 0 ? 0 : f->first);
        if (f->in_order && (at < 0 || at >= f->samples)) return false;
        if (f->times && sample / f->times != at / f->times)
            return false; /* of another simulation */
    }
    return true;
}

/* The classes of a batch of pictures. */
static bool feed_classes(evaluation *e, const source *s, int file, dl_error *err) {
    const dlr_field *f = &e->job->input[0].data[file];
    int64_t *class = (int64_t *)s->room;
    for (int64_t k = 0; k < e->filled; k++)
        if (!dlr_picture_files_class(f->pictures, f->first + e->samples[k],
                                     &e->job->net.data.classes, &class[k], err))
            return false;
    dlr_state_write(e->job->exec, s->view, DL_I64, class);
    return true;
}

/* The samples of a batch; the rest of it is what it was. */
static bool feed(evaluation *e, int file, dl_error *err) {
    static const int64_t start[DLR_SPACE] = {0};
    for (int i = 0; i < e->n; i++) {
        source *s = &e->sources[i];
        if (s->classes) {
            if (!feed_classes(e, s, file, err)) return false;
            continue;
        }
        const dlr_field *f = field_of(e, s, file);
        const int64_t rows = s->in_batch ? e->filled : 1;
        const size_t bytes = (size_t)s->each * dl_dtype_bytes(s->numbers);
        int64_t count[DLR_SPACE] = {1, 1, 1};
        for (int k = 0; k < s->space; k++)
            count[DLR_SPACE - s->space + k] = s->type.axis[s->type.rank - s->space + k].size;
        for (int64_t k = 0; k < rows; k++)
            if (!dlr_field_read(f, f->in_order ? e->samples[k] + s->later : 0, start, count,
                                s->numbers, s->room + (size_t)k * bytes, err))
                return false;
        dlr_state_write(e->job->exec, s->view, s->numbers, s->room);
    }
    return true;
}

static bool measure(evaluation *e, int file, dl_model_metrics *out, dl_error *err) {
    dlr_exec *exec = e->job->exec;
    if (!e->filled) return true;
    if (!feed(e, file, err)) return false;
    dlr_exec_run(exec, e->program, NULL);
    for (int i = 0; i < out->metrics.n; i++) {
        dlr_state_read_range(exec, e->measures[i], (dlr_range){0, e->filled}, DL_F64, e->values);
        for (int64_t k = 0; k < e->filled; k++) out->metrics.at[i].sum += e->values[k];
    }
    out->samples += e->filled, e->filled = 0;
    return dlr_exec_check(exec, err);
}

static bool run(evaluation *e, dl_model_metrics *out, dl_error *err) {
    const dl_predict_job *job = e->job;
    for (int file = 0; file < job->n; file++) {
        bool ordered;
        int64_t n = dl_predict_samples(job, file, &ordered), last = job->last < n ? job->last : n;
        for (int64_t k = job->first; k < last; k++) {
            if (!is_there(e, file, k)) continue;
            e->samples[e->filled++] = k;
            if (e->filled == e->batch && !measure(e, file, out, err)) return false;
        }
        if (!measure(e, file, out, err)) return false;
    }
    return true;
}

bool dl_predict_open_metrics(dl_predict_job *job, dl_error *err) {
    evaluation *e = DL_NEW(job->arena, evaluation);
    e->job = job;
    if (job->evaluates) {
        job->evaluation = e;
        if (!open_sources(e, &job->metrics.why, err) && err->code) return false;
    } else
        job->metrics.why = job->rolls         ? "a rollout has none"
                           : job->batch_fixed ? "the model fixes its batch, and its loss or a "
                                                "metric relates the samples of one"
                                              : "samples have another size than the model's";
    if (job->tests && job->metrics.why) return dl_fail(err, DL_USAGE, "%s", job->metrics.why);
    return job->scored || !job->metrics.why ||
           dl_fail(err, job->not_scored.code, "%s", job->not_scored.message);
}

bool dl_predict_metrics(dl_predict_job *job, dl_error *err) {
    evaluation *e = job->evaluation;
    return job->metrics.why || (place(e, err) && run(e, &job->metrics, err));
}

void dl_predict_close_metrics(dl_predict_job *job) {
    evaluation *e = job->evaluation;
    if (!e) return;
    for (int i = 0; i < e->n; i++) free(e->sources[i].room), dlr_field_close(&e->sources[i].own);
}
