/* `dlrun predict`: a checkpoint and arrays become predictions. It reads in the order of what
 * happens. */
#include "runtime/predict/predict_command.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/arguments.h"
#include "ir/base/foreign.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/json.h"
#include "runtime/predict/predict_file.h"
#include "runtime/predict/predict_job.h"
#include "runtime/setup/dataset_options.h"

static const dl_option options[] = {
    {"output", 'o', "OUT.h5",
     "the file of predictions: HDF5, or OUT.npy for a model of one output"},
    {"metrics", 0, NULL,
     "compare with the truth: root mean square and mean absolute error of each channel"},
    {"target", 0, "FILE[:ARRAY]",
     "the truth, sample by sample (of weather: the data themselves, dt steps later)"},
    {"rollout", 0, "N", "N steps, each of what the last one predicted"},
    {"samples", 0, "FIRST:LAST", "of each file the samples FIRST to LAST - 1"},
    {"tiles", 0, "HOW", "samples larger than the model's input: auto, whole, exact, blend or crop"},
    {"checkpoint", 0, "WHICH", "of a run: best (the default where there is one) or last"},
    {"dry_run", 0, NULL, "say how it would be done, and how much memory it takes; write nothing"},
    {"json", 0, NULL, "print what was done as one JSON object"},
    {"help", 'h', NULL, "this text"},
    {0},
};

static const char usage[] =
    "usage: dlrun predict CHECKPOINT DATA... -o OUT.h5 [OPTION...] [--key=value...]\n\n"
    "Applies a trained model to arrays of any size; docs/guide/predict.md tells more.\n\n"
    "  dlrun predict runs/tiny/1GPU/00 data/nbody_valid.h5 -o gas.h5 --metrics "
    "--target=data/nbody_valid.h5:Hydro\n"
    "  dlrun predict runs/short/1GPU/00 data/weather/test/2007.h5 -o forecast.h5 --rollout=10 "
    "--metrics\n\n"
    "CHECKPOINT is a run's directory, one of its checkpoints, or a file of weights (then with "
    "--model and\n"
    "--config, or --yaml_config). DATA is FILE or FILE:ARRAY; of a model of several inputs "
    "NAME=FILE\n"
    "for each. Keys of the run can be given anew.\n\n"
    "Exit status: 0 done, 2 usage, 3 input, 4 files, 5 memory.\n\n";

/* ---- the checkpoint ---- */

static bool is_there(const char *path, mode_t kind) {
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* "a/b" of "a/b/c"; "." of "c" */
static const char *parent_of(dl_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? dl_strndup(arena, path, slash > path ? (size_t)(slash - path) : 1) : ".";
}

typedef struct {
    const char *dir, *which; /* of checkpoints */
    const char *yaml;        /* the run's configuration, where it is kept */
    const char *weights;     /* or a file */
} origin;

static bool find_origin(dl_predict_job *job, const char *given, const char *which, origin *o,
                        dl_error *err) {
    dl_arena *arena = job->arena;
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/') n--;
    const char *path = dl_strndup(arena, given, n);
    *o = (origin){.which = which};
    if (which && strcmp(which, "best") != 0 && strcmp(which, "last") != 0)
        return dl_fail(err, DL_USAGE, "--checkpoint=%.80s: best or last", which);
    if (is_there(dl_format(arena, "%s/state.json", path), S_IFREG)) {
        if (which)
            return dl_fail(err, DL_USAGE,
                           "--checkpoint goes with a run's directory; %.200s is a checkpoint",
                           path);
        o->dir = parent_of(arena, path),
        o->which = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    } else if (is_there(path, S_IFDIR)) {
        o->dir = dl_format(arena, "%s/checkpoints", path);
        bool best = access(dl_format(arena, "%s/best", o->dir), F_OK) == 0;
        if (!which) o->which = best ? "best" : "last";
        if (!is_there(o->dir, S_IFDIR))
            return dl_fail(err, DL_INPUT, "%.300s is no directory of a run: it has no checkpoints/",
                           path);
    } else {
        o->weights = path;
        int fd = dl_input_open(path, err);
        if (fd < 0) return false;
        close(fd);
        return !which ||
               dl_fail(err, DL_USAGE, "--checkpoint goes with a run's directory; %.200s is a file",
                       path);
    }
    const char *yaml = dl_format(arena, "%s/hyperparams.yaml", parent_of(arena, o->dir));
    if (is_there(yaml, S_IFREG)) o->yaml = yaml;
    return true;
}

static bool open_checkpoint(dl_predict_job *job, const origin *o, dl_error *err) {
    job->weights = o->weights;
    if (o->weights) return true;
    switch (dlr_checkpoint_open(o->dir, o->which, NULL, &job->checkpoint, err)) {
    case DLR_CHECKPOINT_LOADED: break;
    case DLR_CHECKPOINT_NONE:
        return dl_fail(err, DL_INPUT, "there is no checkpoint in %.300s", o->dir);
    case DLR_CHECKPOINT_FAILED: return false;
    }
    /* Another one than was asked for is no answer. */
    return job->checkpoint->n_warnings == 0 ||
           dl_fail(err, DL_INPUT, "%s; name another checkpoint to predict with it",
                   job->checkpoint->warnings[0]);
}

/* ---- the configuration and the model ---- */

/* The command line again, after the run's own settings. */
static bool open_config(dl_predict_job *job, const origin *o, int argc, char **argv,
                        dl_error *err) {
    char **all = DL_NEWS(job->arena, char *, argc + 3);
    int n = 0;
    all[n++] = argv[0];
    if (o->yaml) all[n++] = dl_format(job->arena, "--yaml_config=%s", o->yaml);
    all[n++] = dl_format(job->arena, "--local_batch_size=1");
    for (int i = 1; i < argc; i++) all[n++] = argv[i];
    job->config = dl_config_open(job->arena, n, all, options, err);
    return job->config != NULL;
}

static bool open_session(dl_predict_job *job, const origin *o, dl_error *err) {
    dl_config *c = job->config;
    if (!o->yaml && !dl_config_is_given(c, DL_KEY_model))
        return dl_fail(
            err, DL_USAGE,
            "%s says nothing of its model: --model=FILE.dl, and --config=NAME where it has "
            "configurations",
            o->weights ? o->weights : o->dir);
    dl_buf faults = {0};
    job->compiler = dl_arena_new(job->arena);
    job->session = dl_session_open(job->compiler, c, 1, &faults, err);
    if (!job->session) dl_console_diagnostics(job->console, faults.at);
    dl_buf_free(&faults);
    if (!job->session) return false;
    job->model_path = job->session->model_path;
    if (job->session->batch != 1)
        return dl_fail(err, DL_USAGE,
                       "local_batch_size: predictions are made one sample at a time");
    if (!dl_device_choose(job->arena, dl_config_str(c, DL_KEY_device), NULL, &job->device, err))
        return false;
    if (job->device.warning) dl_console_warning(job->console, job->device.warning);
    for (int i = 0; i < c->warnings.n; i++) dl_console_warning(job->console, c->warnings.at[i]);
    const dlr_state_value *source =
        job->checkpoint ? dlr_checkpoint_value(job->checkpoint, "source") : NULL;
    if (source && source->kind == DLR_STATE_TEXT &&
        (strlen(source->text) != job->session->source->n ||
         memcmp(source->text, job->session->source->text, job->session->source->n) != 0))
        dl_console_warning(job->console,
                           dl_format(job->arena, "%s is not what the checkpoint was trained with",
                                     job->model_path));
    return dl_samples_settle(c, err) && dl_predict_scales(job, err) &&
           dl_session_predict(job->session, 0, NULL, err) && dl_predict_input(job, err);
}

/* ---- what is asked for ---- */

static bool whole_number(const char *s, int64_t least, int64_t *n) {
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    *n = v;
    return *s && !*end && !errno && v >= least;
}

static bool take_options(dl_predict_job *job, dl_error *err) {
    const dl_config *c = job->config;
    const char *tiles = dl_config_option(c, "tiles"), *rollout = dl_config_option(c, "rollout"),
               *samples = dl_config_option(c, "samples");
    job->steps = 1, job->last = INT64_MAX, job->rolls = rollout != NULL;
    job->scored = dl_config_option(c, "metrics") != NULL;
    while (tiles && job->mode < DL_N_TILES && strcmp(tiles, dl_tiles_modes[job->mode]) != 0)
        job->mode++;
    if (job->mode == DL_N_TILES)
        return dl_fail(err, DL_USAGE, "--tiles=%.80s: auto, whole, exact, blend or crop", tiles);
    if (rollout && (!whole_number(rollout, 1, &job->steps) || job->steps > 1 << 20))
        return dl_fail(err, DL_USAGE, "--rollout=%.80s: a number of steps, at least 1", rollout);
    const char *colon = samples ? strchr(samples, ':') : NULL;
    if (samples && (!colon ||
                    !whole_number(dl_strndup(job->arena, samples, (size_t)(colon - samples)), 0,
                                  &job->first) ||
                    !whole_number(colon + 1, job->first + 1, &job->last)))
        return dl_fail(err, DL_USAGE, "--samples=%.80s: FIRST:LAST, as 0:10 for the first ten",
                       samples);
    if (dl_config_option(c, "target") && !job->scored)
        return dl_fail(err, DL_USAGE, "--target goes with --metrics");
    if (dl_config_option(c, "target") && job->rolls)
        return dl_fail(
            err, DL_USAGE,
            "--target and --rollout: the truth of a rollout is its own data, dt steps later");
    return true;
}

/* ---- the data ---- */

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
    dlr_field_want want = {dl_format(job->arena, "the model's input '%s'", in->name), &in->type,
                           in->whole ? 0 : job->space, job->unpacks, usual};
    if (!dlr_field_open(f, job->arena, spec, &want, err)) return false;
    f->mean = in->scale.mean, f->deviation = in->scale.deviation;
    return true;
}

/* The arrays for the same samples: those that are cut alike of one size; as many samples, or one
 * for all. */
static bool check_file(const dl_predict_job *job, int file, dl_error *err) {
    bool in_order;
    int64_t n = dl_predict_samples(job, file, &in_order);
    const dlr_field *lead = &job->input[0].data[file];
    for (int i = 0; i < job->n_inputs; i++) {
        const dlr_field *f = &job->input[i].data[file];
        const char *label = dlr_source_label(f->source);
        if (!job->input[i].whole && memcmp(f->size.size, lead->size.size, sizeof f->size.size) != 0)
            return dl_fail(err, DL_INPUT,
                           "%s and %s hold samples of different sizes, for one sample of the model",
                           dlr_source_label(lead->source), label);
        if (f->in_order && f->samples != n)
            return dl_fail(
                err, DL_INPUT,
                "%s has %lld samples, and another input's array %lld: as many, or an array of one "
                "for all",
                label, (long long)f->samples, (long long)n);
    }
    return job->first < n ||
           dl_fail(err, DL_USAGE, "--samples begins at %lld, and %s has %lld",
                   (long long)job->first, dlr_source_label(lead->source), (long long)n);
}

static bool open_data(dl_predict_job *job, dl_error *err) {
    const dl_config *c = job->config;
    int n[DLR_MAX_INPUTS] = {0};
    for (int i = 0; i < job->n_inputs; i++)
        job->input[i].data = DL_NEWS(job->arena, dlr_field, c->positional.n);
    for (int i = 1; i < c->positional.n; i++) {
        const char *spec = c->positional.at[i];
        int input = find_input(job, &spec, err);
        if (input < 0) return false;
        dl_predict_input_data *in = &job->input[input];
        dlr_field *f = &in->data[n[input]++];
        job->n = n[input] > job->n ? n[input] : job->n;
        if (!open_field(job, in, f, spec, err)) return false;
        if (!in->whole && memcmp(&f->size, &in->data[0].size, sizeof f->size) != 0)
            return dl_fail(err, DL_INPUT,
                           "%s and %s hold samples of different sizes: predict them one by one",
                           dlr_source_label(in->data[0].source), dlr_source_label(f->source));
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

/* ---- the truth ---- */

static bool open_target(dl_predict_job *job, dl_error *err) {
    static const char *const usual[] = {"Hydro", "fields", NULL};
    const char *given = dl_config_option(job->config, "target");
    if (!job->scored || (!given && job->dt && job->n_inputs == 1)) return true;
    if (!given)
        return dl_fail(
            err, DL_USAGE,
            "--metrics: say where the truth is: --target=FILE or FILE:ARRAY; or --dt=N, in the "
            "data, N samples later");
    if (job->n > 1) return dl_fail(err, DL_USAGE, "--target goes with one file of data");
    const dl_plan_result *y = &dl_plan_program_find(job->plan, "predict")->results.at[0];
    const dl_type *t = &y->type;
    dlr_field_want want = {dl_format(job->arena, "the model's output '%s'", y->name), t,
                           t->rank > 2 ? t->rank - 2 : 0, job->unpacks, usual};
    job->has_target = true;
    if (want.space > DLR_SPACE)
        return dl_fail(err, DL_INPUT, "--metrics: %s is too many axes", dl_type_text(t));
    if (!dlr_field_open(&job->target, job->arena, given, &want, err)) return false;
    bool in_order;
    int64_t n = dl_predict_samples(job, 0, &in_order);
    return job->target.samples >= n || dl_fail(err, DL_INPUT, "%s has %lld samples, the data %lld",
                                               dlr_source_label(job->target.source),
                                               (long long)job->target.samples, (long long)n);
}

/* ---- the run ---- */

/* Not a byte of the compiler's stays while the plan runs. */
static void close_session(dl_predict_job *job) {
    dl_session_close(job->session);
    dl_arena_free(job->compiler);
    job->session = NULL, job->compiler = NULL;
    malloc_trim(0);
}

static bool load(dl_predict_job *job, dl_error *err) {
    dl_arena_move(job->plan->arena, job->arena);
    close_session(job);
    job->exec =
        dlr_exec_open(job->plan,
                      (dlr_exec_options){.threads = (int)dl_config_int(job->config, DL_KEY_threads),
                                         .device = job->device.device},
                      err);
    if (!job->exec) return false;
    dlr_tensors model = dlr_tensors_of_model(job->arena, job->exec);
    if (job->weights) return dlr_tensors_load_file(&model, job->weights, err);
    const dlr_st_file *file = dlr_checkpoint_part_file(job->checkpoint, "model", err);
    return file && dlr_tensors_load(&model, file, err);
}

static void put_errors(const dl_predict_job *job, dl_buf *b, const char *key,
                       double (*error)(const dlr_score *, int64_t, int64_t)) {
    dlr_json_put_key(b, key);
    for (int64_t s = 0; s < job->steps; s++) {
        dl_puts(b, s ? ", [" : job->rolls ? "[[" : "[");
        for (int64_t c = 0; c < job->score.channels; c++) {
            if (c) dl_puts(b, ", ");
            dlr_json_put_double(b, error(&job->score, s, c));
        }
        dl_puts(b, "]");
    }
    if (job->rolls) dl_puts(b, "]");
}

static void print_json(const dl_predict_job *job, const char *path, int threads) {
    dl_buf b = {0};
    dl_puts(&b, "{\"tiles\": ");
    dlr_json_put_string(&b, dl_tiles_modes[job->mode]);
    dlr_json_put_key(&b, "way"), dlr_json_put_string(&b, job->way);
    dl_putf(&b, ", \"pieces\": [%d, %d, %d]", job->engine.tiles[0].pieces.n,
            job->engine.tiles[1].pieces.n, job->engine.tiles[2].pieces.n);
    dl_putf(&b, ", \"peak_bytes\": %lld, \"threads\": %d",
            (long long)dl_plan_peak(job->plan, threads), threads);
    if (path) {
        dlr_json_put_key(&b, "output"), dlr_json_put_string(&b, path);
        dl_putf(&b, ", \"samples\": %lld, \"not_finite\": %lld, \"seconds\": ",
                (long long)job->predicted, (long long)job->not_finite);
        dlr_json_put_double(&b, job->seconds);
        if (job->scored)
            put_errors(job, &b, "rmse", dlr_score_rmse), put_errors(job, &b, "mae", dlr_score_mae);
    }
    dl_console_text(job->console, "%s}\n", b.at);
    dl_buf_free(&b);
}

/* By channel, since units may differ. */
static void print_errors(const dl_predict_job *job, const char *what,
                         double (*error)(const dlr_score *, int64_t, int64_t)) {
    for (int64_t s = 0; s < job->steps; s++) {
        if (job->rolls) dl_console_text(job->console, "  step %-6lld", (long long)s + 1);
        dl_console_text(job->console, "  %s", what);
        for (int64_t c = 0; c < job->score.channels; c++)
            dl_console_text(job->console, " %.6g", error(&job->score, s, c));
        dl_console_text(job->console, "\n");
    }
}

static void print(const dl_predict_job *job, const char *path) {
    int threads = dlr_pool_threads(dlr_exec_pool(job->exec));
    if (dl_config_option(job->config, "json")) {
        print_json(job, path, threads);
        return;
    }
    dl_console_text(
        job->console,
        "%s, %s\n  weights     %s\n  samples     %s\n  memory      %.1f MiB with %d threads, "
        "exactly\n",
        dl_shown(job->arena, job->model_path), job->plan->target,
        dl_shown(job->arena, job->weights ? job->weights : job->checkpoint->path), job->way,
        (double)dl_plan_peak(job->plan, threads) / 0x1p20, threads);
    if (!path) return;
    dl_console_text(job->console, "  written     %lld to %s in %.1f s\n", (long long)job->predicted,
                    dl_shown(job->arena, path), job->seconds);
    if (job->scored)
        print_errors(job, "RMSE", dlr_score_rmse), print_errors(job, "mean |error|", dlr_score_mae);
}

static bool predict(dl_predict_job *job, int argc, char **argv, dl_error *err) {
    origin from;
    const char *path = dl_config_option(job->config, "output");
    bool dry = dl_config_option(job->config, "dry_run") != NULL;
    if (job->config->positional.n < 2)
        return dl_fail(err, DL_USAGE,
                       "dlrun predict CHECKPOINT DATA... -o OUT.h5 (--help tells more)");
    if (!path && !dry) return dl_fail(err, DL_USAGE, "where to? -o OUT.h5");
    if ((path && !dl_predict_file_check(path, err)) ||
        !find_origin(job, job->config->positional.at[0],
                     dl_config_option(job->config, "checkpoint"), &from, err) ||
        !open_config(job, &from, argc, argv, err) || !take_options(job, err) ||
        !open_checkpoint(job, &from, err) || !open_session(job, &from, err) ||
        !open_data(job, err) || (path && !dl_output_check(path, err)) ||
        !dl_predict_plan(job, &job->input[0].data[0].size, err) || !open_target(job, err) ||
        !dl_predict_coordinates(job, err) || !load(job, err) || !dl_predict_outputs(job, err))
        return false;
    if (!dry && !dl_predict_all(job, path, err)) return false;
    print(job, dry ? NULL : path);
    if (job->not_finite)
        dl_console_warning(job->console,
                           dl_format(job->arena, "%lld predicted values are not finite",
                                     (long long)job->not_finite));
    return true;
}

static void close_job(dl_predict_job *job) {
    dlr_predict_close(&job->engine);
    dlr_exec_close(job->exec);
    for (int i = 0; i < job->n_inputs; i++)
        for (int k = 0; k < job->n && job->input[i].data; k++)
            dlr_field_close(&job->input[i].data[k]);
    dlr_field_close(&job->target);
    dlr_checkpoint_close(job->checkpoint);
    dl_session_close(job->session);
}

static bool run(dl_invocation *call, dl_error *err) {
    dl_predict_job job = {.arena = call->arena, .config = call->config, .console = call->out};
    bool ok = predict(&job, call->argc, call->argv, err);
    close_job(&job);
    return ok;
}

const dl_subcommand dl_subcommand_predict = {
    .name = "predict", .usage = usage, .options = options, .takes_keys = true, .run = run};
