/* From arrays to arrays: samples read, predicted, compared with the truth and written. */
#include <math.h>
#include <stdlib.h>

#include "ir/base/clock.h"
#include "runtime/predict/predict_file.h"
#include "runtime/predict/predict_job.h"

/* A batch of samples on its way, or one step of it. */
typedef struct {
    dl_predict_job *job;
    int at;                  /* which of the files */
    int64_t sample, n, step; /* of the data, the first of n; of the rollout, from 0 */
    int64_t row;             /* of the output file: samples before these */
    float *now, *next;       /* of a rollout: what this step reads, and leaves for the next */
    float *rows, *true_rows; /* room for rows of all channels of an output, and of its truth */
    int64_t room;
    dl_predict_file *file;
} passage;

/* Samples of the data that a step of a rollout goes on by. */
static int64_t stride(const dl_predict_job *job) { return job->dt ? job->dt : 1; }

/* An array without samples is the same for all of them. */
static bool from_file(void *ctx, int input, int64_t which, const int64_t start[DLR_SPACE],
                      const int64_t count[DLR_SPACE], void *out, dl_error *err) {
    const passage *p = ctx;
    const dlr_field *f = &p->job->input[input].data[p->at];
    int64_t first = p->sample + which, sample = first + p->step * stride(p->job);
    if (f->in_order && sample >= f->samples)
        return dl_fail(err, DL_INPUT,
                       "step %lld of the rollout from sample %lld takes sample %lld of the input "
                       "'%s', and %s has %lld: --samples=0:%lld begins no later than it reaches",
                       (long long)p->step + 1, (long long)first, (long long)sample,
                       p->job->input[input].name, dlr_field_label(f), (long long)f->samples,
                       (long long)(f->samples - (p->job->steps - 1) * stride(p->job)));
    return dlr_field_read(f, f->in_order ? sample : 0, start, count,
                          p->job->engine.input[input].numbers, out, err);
}

static bool from_memory(void *ctx, int input, int64_t which, const int64_t start[DLR_SPACE],
                        const int64_t count[DLR_SPACE], void *block, dl_error *err) {
    const passage *p = ctx;
    float *out = block;
    if (input != p->job->fed) return from_file(ctx, input, which, start, count, block, err);
    dlr_extent e = dl_predict_whole_input(p->job, input);
    const float *now = p->now + which * dlr_extent_count(&e);
    for (int64_t c = 0; c < e.channels; c++)
        for (int64_t i = start[0]; i < start[0] + count[0]; i++)
            for (int64_t j = start[1]; j < start[1] + count[1]; j++, out += count[2])
                memcpy(out, now + ((c * e.size[0] + i) * e.size[1] + j) * e.size[2] + start[2],
                       (size_t)count[2] * sizeof *out);
    return true;
}

static bool grow(passage *p, int64_t n, dl_error *err) {
    if (n <= p->room) return true;
    free(p->rows), free(p->true_rows);
    p->rows = malloc((size_t)n * sizeof *p->rows);
    p->true_rows = malloc((size_t)n * sizeof *p->true_rows);
    p->room = p->rows && p->true_rows ? n : 0;
    return p->room || dl_fail(err, DL_RESOURCE, "no memory for %.1f MiB of a prediction",
                              (double)n * 4 / 0x1p20);
}

/* An output as the next step's input. */
static float as_input(const dl_predict_job *job, int64_t c, float v) {
    const dlr_scale *in = &job->input[job->fed].scale;
    if (job->feeds_back) return v;
    v = dlr_scale_undo(&job->out[0], c, v);
    return in->mean ? (v - in->mean[c]) / in->deviation[c] : v;
}

static bool is_whole(const dl_predict_job *job, int output) {
    return job->engine.output[output].numbers == DL_F64;
}

/* n whole numbers into the file from element `at` on. */
static bool write_whole(const passage *p, int output, int64_t at, int64_t n, const double *from,
                        dl_error *err) {
    enum { PIECE = 1024 };
    int64_t piece[PIECE];
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(from[i]) < 0x1p53))
            return dl_fail(err, DL_INPUT,
                           "the output '%s' has %.0f: predict writes whole numbers below 2^53",
                           p->job->engine.output[output].name, from[i]);
        int64_t in = i % PIECE;
        piece[in] = (int64_t)from[i];
        if ((in == PIECE - 1 || i == n - 1) &&
            !dl_predict_file_write(p->file, output, at + i - in, in + 1, piece, err))
            return false;
    }
    return true;
}

/* The input whose data are the truth dt steps later, where no other is given. */
static int truth_input(const dl_predict_job *job) { return job->fed > 0 ? job->fed : 0; }

/* The truth for this step's prediction of a sample: the target's same one, or of weather the field
 * so many steps of time later. False: there is none. */
static bool find_truth(const passage *p, int64_t sample, dlr_field *truth, int64_t *at) {
    const dl_predict_job *job = p->job;
    if (!job->scored) return false;
    *truth = job->has_target ? job->target : job->input[truth_input(job)].data[p->at];
    truth->scale = (dlr_scale){0};
    *at = job->has_target ? sample : sample + (p->step + 1) * job->dt;
    int64_t there = job->has_target ? *at + truth->first : *at, times = truth->times;
    if (there < 0 || there >= truth->samples) return false;
    /* the end of a simulation has no truth: its next sample is of another */
    return !times || sample / times == there / times;
}

static bool add_score(passage *p, int64_t which, int64_t first, int64_t rows, dl_error *err) {
    dl_predict_job *job = p->job;
    const dlr_extent *e = &job->engine.output[0].whole;
    int64_t n = rows * e->size[1] * e->size[2], at;
    dlr_field truth;
    if (!find_truth(p, p->sample + which, &truth, &at)) return true;
    if (!dlr_field_read(&truth, at, (const int64_t[]){first, 0, 0},
                        (const int64_t[]){rows, e->size[1], e->size[2]}, DL_F32, p->true_rows, err))
        return false;
    for (int64_t c = 0; c < e->channels; c++)
        dlr_score_add(&job->score, p->step, c, p->rows + c * n, p->true_rows + c * n, n);
    return true;
}

/* Rows as they are in the file, in p->rows, and as a rollout's next step has them. */
static void undo_rows(passage *p, int output, int64_t which, int64_t first, int64_t n,
                      const float *data) {
    dl_predict_job *job = p->job;
    const dlr_extent *e = &job->engine.output[output].whole;
    int64_t plane = e->size[1] * e->size[2], all = e->size[0] * plane;
    float *next = p->next && output == 0 ? p->next + which * e->channels * all : NULL;
    for (int64_t c = 0; c < e->channels; c++)
        for (int64_t i = 0; i < n; i++) {
            float v = data[c * n + i];
            job->not_finite += !isfinite(v);
            p->rows[c * n + i] = dlr_scale_undo(&job->out[output], c, v);
            if (next) next[c * all + first * plane + i] = as_input(job, c, v);
        }
}

/* Rows of an output: into the rollout's next step, and into the file. */
static bool take_rows(void *ctx, int output, int64_t which, int64_t first, int64_t rows,
                      const void *data, dl_error *err) {
    passage *p = ctx;
    const dl_predict_job *job = p->job;
    const dlr_extent *e = &job->engine.output[output].whole;
    const int64_t plane = e->size[1] * e->size[2], n = rows * plane, all = e->size[0] * plane;
    const int64_t begin = ((p->row + which) * job->steps + p->step) * e->channels * all;
    const bool whole = is_whole(job, output);
    /* all rows of all channels are one piece of the file */
    const int64_t pieces = n == all ? 1 : e->channels, each = e->channels * n / pieces;
    if (!grow(p, e->channels * n, err)) return false;
    if (!whole) undo_rows(p, output, which, first, n, data);
    for (int64_t i = 0; whole && i < e->channels * n; i++)
        p->rows[i] = (float)((const double *)data)[i];
    for (int64_t c = 0; c < pieces; c++) {
        int64_t at = begin + c * all + first * plane;
        if (!(whole ? write_whole(p, output, at, each, (const double *)data + c * each, err)
                    : dl_predict_file_write(p->file, output, at, each, p->rows + c * each, err)))
            return false;
    }
    return output > 0 || add_score(p, which, first, rows, err);
}

static bool predict_batch(passage *p, dl_error *err) {
    dl_predict_job *job = p->job;
    for (p->step = 0; p->step < job->steps; p->step++) {
        float *swap = p->now;
        if (p->step) p->now = p->next, p->next = swap;
        if (!dlr_predict_run(&job->engine, p->n, p->step ? from_memory : from_file, take_rows, p,
                             err))
            return false;
    }
    job->predicted += p->n;
    return true;
}

/* ---- the file ---- */

/* Axes of an output's set: samples, where the data have some or are several; steps of a rollout;
 * the model's. */
static bool shape_set(const dl_predict_job *job, int output, dlr_h5_set *s, dl_error *err) {
    const dlr_predict_output *o = &job->engine.output[output];
    const dl_type *t = &o->type;
    int64_t samples = 0;
    bool in_order = job->n > 1;
    for (int i = 0; i < job->n; i++) {
        bool ordered;
        dl_predict_samples(job, i, &ordered);
        in_order |= ordered, samples += dl_predict_count(job, i);
    }
    *s = (dlr_h5_set){.name = o->name, .type = is_whole(job, output) ? DLR_H5_I64 : DLR_H5_F32};
    if (t->rank - 1 + in_order + job->rolls > DLR_H5_RANK)
        return dl_fail(err, DL_INPUT, "the output '%s' has too many axes for a file", o->name);
    if (in_order) s->dims[s->rank++] = samples;
    if (job->rolls) s->dims[s->rank++] = job->steps;
    bool tiled = dlr_predict_is_tiled(&job->engine);
    for (int k = 1; k < t->rank; k++) {
        int space = k - (t->rank - job->space);
        s->dims[s->rank++] =
            tiled && space >= 0 ? o->whole.size[DLR_SPACE - job->space + space] : t->axis[k].size;
    }
    return true;
}

static dlr_h5_attribute text(const char *name, const char *value) {
    return (dlr_h5_attribute){name, DLR_H5_TEXT, (int64_t)strlen(value), value};
}

typedef DL_ARRAY(dlr_h5_attribute) attribute_list;
typedef DL_ARRAY(dlr_h5_set) set_list;

static dl_predict_file *create(const dl_predict_job *job, const char *path, dl_error *err) {
    attribute_list root = {0};
    set_list sets = {0};
    dl_push(job->arena, &root, text("generator", "dlrun predict " DL_VERSION));
    dl_push(job->arena, &root, text("model", job->plan->model));
    dl_push(job->arena, &root, text("weights", dl_saved_model_name(&job->net)));
    for (int i = 0; i < job->n_inputs; i++)
        dl_push(job->arena, &root,
                text(i ? dl_format(job->arena, "input %s", job->input[i].name) : "input",
                     dlr_field_label(&job->input[i].data[0])));
    dl_push(job->arena, &root, text("way", job->way));
    for (int i = 0; i < job->engine.n_outputs; i++) {
        dlr_h5_set s;
        if (!shape_set(job, i, &s, err)) return NULL;
        if (i == 0) dl_predict_describe_state(job, &s);
        dl_push(job->arena, &sets, s);
    }
    for (int i = 0; i < job->coordinates.n; i++)
        dl_push(job->arena, &sets, dl_predict_coordinate_set(job, &job->coordinates.at[i]));
    dl_predict_file *f =
        dl_predict_file_open(path, job->engine.n_outputs, sets.n, sets.at, root.n, root.at, err);
    for (int i = 0; f && i < job->coordinates.n; i++) {
        const dl_coordinate *c = &job->coordinates.at[i];
        if (dl_predict_file_write(f, job->engine.n_outputs + i, 0, c->n, c->at, err)) continue;
        dl_predict_file_discard(f);
        return NULL;
    }
    return f;
}

/* ---- all samples ---- */

static bool check_rollout(const dl_predict_job *job, dl_error *err) {
    const dlr_predict *e = &job->engine;
    return !job->rolls || job->fed >= 0 ||
           dl_fail(err, DL_INPUT,
                   "--rollout: the first output feeds an input, and so one must be of floats and "
                   "of its shape: the output '%s' is %s, the input '%s' %s",
                   e->output[0].name, dl_type_text(e->output[0].view.type), job->input[0].name,
                   dl_type_text(&job->input[0].type));
}

static bool check_target(const dl_predict_job *job, dl_error *err) {
    const dlr_extent *e = &job->engine.output[0].whole;
    const dlr_field *t = job->has_target ? &job->target : &job->input[truth_input(job)].data[0];
    if (!job->scored) return true;
    bool fits = t->size.channels == e->channels;
    /* weather files reach beyond the crop */
    for (int k = 0; k < DLR_SPACE; k++)
        fits = fits && (t->size.size[k] == e->size[k] ||
                        (job->mode == DL_TILES_CROP && t->size.size[k] > e->size[k]));
    return fits ||
           dl_fail(err, DL_INPUT,
                   "%s is no truth for the output '%s': %lld x [%lld, %lld, %lld] for %lld x "
                   "[%lld, %lld, %lld]",
                   dlr_field_label(t), job->engine.output[0].name, (long long)t->size.channels,
                   (long long)t->size.size[0], (long long)t->size.size[1],
                   (long long)t->size.size[2], (long long)e->channels, (long long)e->size[0],
                   (long long)e->size[1], (long long)e->size[2]);
}

static bool predict_files(passage *p, dl_error *err) {
    dl_predict_job *job = p->job;
    for (int i = 0; i < job->n; i++) {
        const int64_t all = dl_predict_count(job, i), most = dlr_predict_most(&job->engine);
        p->at = i;
        for (int64_t k = 0; k < all; k += p->n, p->row += p->n) {
            p->sample = job->first + k, p->n = all - k < most ? all - k : most;
            if (!predict_batch(p, err)) return false;
        }
    }
    return true;
}

bool dl_predict_all(dl_predict_job *job, const char *path, dl_error *err) {
    double start = dl_clock_seconds();
    passage p = {.job = job};
    if (!check_rollout(job, err) || !check_target(job, err)) return false;
    job->feeds_back = job->fed >= 0 && dlr_scale_same(&job->input[job->fed].scale, &job->out[0]);
    job->score = dlr_score_new(job->arena, job->engine.output[0].whole.channels, job->steps);
    bool ok = dlr_predict_open(&job->engine, err);
    if (ok && job->rolls) {
        size_t n = (size_t)(dlr_predict_most(&job->engine) *
                            dlr_extent_count(&job->engine.output[0].whole));
        p.now = calloc(n + 1, sizeof *p.now), p.next = calloc(n + 1, sizeof *p.next);
        ok =
            (p.now && p.next) || dl_fail(err, DL_RESOURCE, "no memory for the fields of a rollout");
    }
    ok = ok && (p.file = create(job, path, err)) != NULL && predict_files(&p, err);
    free(p.now), free(p.next), free(p.rows), free(p.true_rows);
    if (ok)
        ok = dl_predict_file_commit(p.file, err);
    else
        dl_predict_file_discard(p.file);
    job->seconds = dl_clock_seconds() - start;
    return ok;
}
