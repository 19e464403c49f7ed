/* The arrays of a prediction: its inputs, and the truth. */
#include <string.h>

#include "runtime/predict/predict_job.h"

/* An argument NAME=FILE for an input that the outputs do not depend on: the loss may. */
static bool is_other(dl_predict_job *job, const char *spec) {
    const char *equals = strchr(spec, '=');
    const char *name = equals ? dl_strndup(job->arena, spec, (size_t)(equals - spec)) : "";
    const dl_array_record *r = dl_data_record_find(&job->net.data, name);
    bool other = r && !r->is_target;
    for (int i = 0; i < job->n_inputs; i++) other = other && strcmp(job->input[i].name, name) != 0;
    if (other)
        dl_push(job->arena, &job->others, (dl_named_file){name, dl_strdup(job->arena, equals + 1)});
    return other;
}

/* Which input an argument is for, NAME=FILE, of one input FILE, too; or -1, with an error. */
static int find_input(const dl_predict_job *job, const char **spec, dl_error *err) {
    const char *equals = strchr(*spec, '=');
    for (int i = 0; equals && i < job->n_inputs; i++)
        if (strlen(job->input[i].name) == (size_t)(equals - *spec) &&
            !strncmp(job->input[i].name, *spec, (size_t)(equals - *spec))) {
            *spec = equals + 1;
            return i;
        }
    if (job->n_inputs == 1) return 0;
    dl_buf b = {0};
    for (int i = 0; i < job->n_inputs; i++)
        dl_putf(&b, "%s%s=FILE", i ? " " : "", job->input[i].name);
    dl_fail(err, DL_USAGE, "%.200s: the model has %d inputs, and each is named: %s", *spec,
            job->n_inputs, b.at);
    dl_buf_free(&b);
    return -1;
}

static bool open_field(dl_predict_job *job, const dl_predict_input_data *in, dlr_field *f,
                       const char *spec, dl_error *err) {
    static const char *const usual[] = {"Nbody", "fields", NULL}; /* what the loaders read */
    dlr_field_want want = {dl_format(job->arena, "the model's input '%s'", in->name),
                           &in->type,
                           in->whole ? 0 : job->space,
                           in->record,
                           in->scale,
                           job->unpacks,
                           job->pictures ? &job->scaling : NULL,
                           usual};
    if (!dlr_field_open(f, job->arena, spec, &want, err)) return false;
    /* A sample has the arrays' indices that it had in training, from the earliest on. */
    if (f->in_order && in->record) f->first = in->record->offset - job->earliest;
    f->samples -= f->first;
    return f->samples > 0 ||
           dl_fail(err, DL_INPUT, "%s has %lld samples, and the run takes it %lld samples later",
                   dlr_field_label(f), (long long)(f->samples + f->first), (long long)f->first);
}

/* The arrays for the same samples: those that are cut alike of one size; as many samples, or one
 * for all. */
static bool check_file(const dl_predict_job *job, int file, dl_error *err) {
    bool in_order;
    int64_t n = dl_predict_samples(job, file, &in_order);
    const dlr_field *lead = &job->input[0].data[file];
    int64_t there = 0; /* samples in the arrays */
    for (int i = 0; i < job->n_inputs; i++) {
        const dlr_field *f = &job->input[i].data[file];
        const char *label = dlr_field_label(f);
        if (!job->input[i].whole && memcmp(f->size.size, lead->size.size, sizeof f->size.size) != 0)
            return dl_fail(err, DL_INPUT,
                           "%s and %s hold samples of different sizes, for one sample of the model",
                           dlr_field_label(lead), label);
        if (!f->in_order) continue;
        if (there && f->first + f->samples != there)
            return dl_fail(
                err, DL_INPUT,
                "%s has %lld samples, and another input's array %lld: as many, or an array of one "
                "for all",
                label, (long long)(f->first + f->samples), (long long)there);
        there = f->first + f->samples;
    }
    return job->first < n || dl_fail(err, DL_USAGE, "--samples begins at %lld, and %s has %lld",
                                     (long long)job->first, dlr_field_label(lead), (long long)n);
}

bool dl_predict_open_data(dl_predict_job *job, dl_error *err) {
    const dl_config *c = job->net.config;
    int n[DLR_MAX_INPUTS] = {0};
    for (int i = 0; i < job->n_inputs; i++)
        job->input[i].data = DL_NEWS(job->arena, dlr_field, c->positional.n);
    for (int i = 1; i < c->positional.n; i++) {
        const char *spec = c->positional.at[i];
        if (is_other(job, spec)) continue;
        int input = find_input(job, &spec, err);
        if (input < 0) return false;
        dl_predict_input_data *in = &job->input[input];
        dlr_field *f = &in->data[n[input]++];
        job->n = n[input] > job->n ? n[input] : job->n;
        if (!open_field(job, in, f, spec, err)) return false;
        if (!in->whole && memcmp(&f->size, &in->data[0].size, sizeof f->size) != 0)
            return dl_fail(err, DL_INPUT,
                           "%s and %s hold samples of different sizes: predict them one by one",
                           dlr_field_label(&in->data[0]), dlr_field_label(f));
    }
    for (int i = 0; i < job->n_inputs; i++) {
        if (n[i] != job->n)
            return dl_fail(err, DL_USAGE,
                           "the input '%s' has %d files, another %d: as many for each",
                           job->input[i].name, n[i], job->n);
    }
    for (int k = 0; k < job->n; k++)
        if (!check_file(job, k, err)) return false;
    return true;
}

/* ---- the names of a test's data ---- */

/* NAME=FILE:ARRAY, by the run's record. */
static const char *recorded_word(dl_predict_job *job, const dl_array_record *r, const char *file,
                                 dl_error *err) {
    const char *array = r->n_variables == 1 ? r->variables[0].name : NULL;
    if (array) return dl_format(job->arena, "%s=%s:%s", r->name, file, array);
    dl_fail(err, DL_USAGE, "which array is '%s'? %s=FILE:ARRAY for each input and target", r->name,
            r->name);
    return NULL;
}

/* The target that a word NAME=... is of, or NULL. */
static const dl_array_record *target_of(const dl_data_record *r, const char *word) {
    const char *equals = strchr(word, '=');
    for (int i = 0; equals && i < r->n; i++) {
        size_t n = strlen(r->at[i].name);
        if (r->at[i].is_target && n == (size_t)(equals - word) &&
            strncmp(word, r->at[i].name, n) == 0)
            return &r->at[i];
    }
    return NULL;
}

bool dl_predict_name_data(dl_predict_job *job, dl_error *err) {
    dl_config *c = job->net.config;
    const dl_data_record *r = &job->net.data;
    const char *only = c->positional.n == 2 ? c->positional.at[1] : "=";
    DL_ARRAY(const char *) words = {0}, inputs = {0};
    if (job->pictures || strchr(only, '=') || strchr(only, ':') || !r->n)
        for (int i = 1; i < c->positional.n; i++) dl_push(job->arena, &words, c->positional.at[i]);
    else
        for (int i = 0; i < r->n; i++) {
            const char *word = recorded_word(job, &r->at[i], only, err);
            if (!word) return false;
            dl_push(job->arena, &words, word);
        }
    dl_push(job->arena, &inputs, c->positional.at[0]);
    for (int i = 0; i < words.n; i++)
        if (target_of(r, words.at[i]))
            job->truths = job->truths ? dl_format(job->arena, "%s,%s", job->truths, words.at[i])
                                      : words.at[i];
        else
            dl_push(job->arena, &inputs, words.at[i]);
    c->positional.at = inputs.at, c->positional.n = inputs.n, c->positional.cap = inputs.cap;
    return true;
}

/* ---- the truth ---- */

/* How the run read the target of the first output, whose missing numbers are no truth. */
static const dl_array_record *truth_record(dl_predict_job *job) {
    if (!job->paired[0]) return NULL;
    job->truth = *job->paired[0], job->truth.replaces_nan = false;
    return &job->truth;
}

const char *dl_predict_target_spec(const dl_predict_job *job, const char *name, int n_targets) {
    const char *all = job->truths ? job->truths : dl_config_option(job->net.config, "target");
    size_t n = strlen(name);
    for (const char *at = all; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (n && strncmp(at, name, n) == 0 && at[n] == '=')
            return dl_strndup(job->arena, at + n + 1, strcspn(at + n + 1, ","));
    return all && n_targets == 1 ? all : NULL;
}

static int count_targets(const dl_data_record *r) {
    int n = 0;
    for (int i = 0; i < r->n; i++) n += r->at[i].is_target;
    return n;
}

bool dl_predict_open_array(const dl_predict_job *job, dlr_field *f, const char *spec,
                           const char *what, const dl_type *type, int space,
                           const dl_array_record *record, const dlr_scale *scale, dl_error *err) {
    static const char *const usual[] = {"Hydro", "fields", NULL};
    dlr_field_want want = {.what = what,
                           .type = type,
                           .space = space,
                           .record = record,
                           .scale = scale ? *scale : (dlr_scale){0},
                           .unpacks = job->unpacks,
                           .usual = usual};
    if (!dlr_field_open(f, job->arena, spec, &want, err)) return false;
    if (f->in_order && record) f->first = record->offset - job->earliest;
    return true;
}

/* The array of the first output's target. Errors: it is none of the output's shape, ... */
static bool open_truth(dl_predict_job *job, const char *given, const dl_array_record *record,
                       dl_error *err) {
    const dl_plan_result *y = &dl_plan_program_find(job->plan, "predict")->results.at[0];
    dl_type *t = DL_NEW(job->arena, dl_type);
    *t = dl_type_of_samples(&y->type);
    const char *what = dl_format(job->arena, "the model's output '%s'", y->name);
    int space = t->rank > 2 && !job->flat ? t->rank - 2 : 0;
    if (space > DLR_SPACE)
        return dl_fail(err, DL_INPUT, "--metrics: %s is too many axes", dl_type_text(t));
    if (!dl_predict_open_array(job, &job->target, given, what, t, space, record, NULL, err))
        return false;
    job->has_target = true;
    bool in_order;
    int64_t n = dl_predict_samples(job, 0, &in_order);
    return job->target.first || job->target.samples >= n ||
           dl_fail(err, DL_INPUT, "%s has %lld samples, the data %lld",
                   dlr_field_label(&job->target), (long long)job->target.samples, (long long)n);
}

bool dl_predict_open_target(dl_predict_job *job, dl_error *err) {
    if (job->tests) return true;
    const char *said = dl_config_option(job->net.config, "target");
    const char *output = dl_plan_program_find(job->plan, "predict")->results.at[0].name;
    if (!job->measured || (!said && job->dt && (job->fed >= 0 || job->n_inputs == 1))) return true;
    if (!said && job->pictures) { /* classes are with them, and have no errors by channel */
        job->scored = false;
        return dl_fail(&job->not_scored, DL_USAGE,
                       "--metrics: say where the truth is: --target=FILE or FILE:ARRAY"),
               true;
    }
    if (!said)
        return dl_fail(
            err, DL_USAGE,
            "--metrics: say where the truth is: --target=FILE or FILE:ARRAY (of several targets "
            "NAME=FILE,NAME=FILE); or --dt=N, in the data, N samples later");
    if (job->n > 1) return dl_fail(err, DL_USAGE, "--target goes with one file of data");
    const dl_array_record *record = truth_record(job);
    int n_targets = count_targets(&job->net.data);
    const char *given = dl_predict_target_spec(job, record ? record->name : "",
                                               record      ? n_targets
                                               : n_targets ? n_targets
                                                           : 1);
    if (given && open_truth(job, given, record, &job->not_scored)) return true;
    if (!given)
        dl_fail(&job->not_scored, DL_USAGE, "--target names no data of the output '%s': NAME=FILE",
                output);
    job->scored = false;
    /* of another shape than the output: the model's own metrics may still have it */
    return job->not_scored.code == DL_INPUT || job->not_scored.code == DL_USAGE ||
           dl_fail(err, job->not_scored.code, "%s", job->not_scored.message);
}
