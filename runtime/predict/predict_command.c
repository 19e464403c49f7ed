/* `dlrun predict`: a checkpoint and arrays become predictions. It reads in the order of what
 * happens. */
#include "runtime/predict/predict_command.h"

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
#include "runtime/setup/plan_choice.h"

static const dl_option options[] = {
    {"output", 'o', "OUT.h5",
     "the file of predictions: HDF5, or OUT.npy for a model of one output; -: .npy to standard "
     "output"},
    {"metrics", 0, NULL,
     "compare with the truth: root mean square and mean absolute error of each channel, and the "
     "model's own loss and metrics"},
    {"target", 0, "FILE[:ARRAY]",
     "the truth, sample by sample; of several targets NAME=FILE,NAME=FILE (of weather: the data "
     "themselves, dt steps later)"},
    {"rollout", 0, "N", "N steps, each of what the last one predicted"},
    {"samples", 0, "FIRST:LAST", "of each file the samples FIRST to LAST - 1"},
    {"tiles", 0, "HOW", "samples larger than the model's input: auto, whole, exact, blend or crop"},
    {"weights", 0, "RUN",
     "of a plan's file: a run's directory, a checkpoint, or a file of weights"},
    {"checkpoint", 0, "WHICH", "of a run: best (the default where there is one) or last"},
    {"dry_run", 0, NULL, "say how it would be done, and how much memory it takes; write nothing"},
    {"json", 0, NULL, "print what was done as one JSON object"},
    DL_OPTION_HELP,
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
    "for each. Keys of the run can be given anew. A plan's file in the place of CHECKPOINT (`dlc "
    "compile -o`)\n"
    "has the programs, so that no compiler is needed; --weights names the network:\n\n"
    "  dlrun predict net.dlp data.h5:x -o y.h5 --weights=runs/net/1GPU/00\n\n"
    "Exit status: 0 done, 2 usage, 3 input, 4 files, 5 memory.\n\n";

/* ---- the network ---- */

static bool open_network(dl_predict_job *job, dl_error *err) {
    dl_saved_model *net = &job->net;
    if (!dl_saved_model_open(net, err)) return false;
    const char *device = dl_config_str(net->config, DL_KEY_device);
    if (!(job->given ? dl_plan_choice_device(job->arena, job->given, job->plan_file, device,
                                             &job->device, err)
                     : dl_device_choose(job->arena, device, NULL, &job->device, err)))
        return false;
    if (job->device.warning) dl_console_warning(job->console, job->device.warning);
    return dl_predict_open_batch(job, err) && dl_predict_pair(job, err) &&
           dl_predict_input(job, err) && dl_predict_scales(job, err);
}

/* ---- what is asked for ---- */

/* "FIRST:LAST" */
static bool read_samples(dl_predict_job *job, const char *text) {
    const char *colon = strchr(text, ':');
    return colon &&
           dl_parse_int(dl_strndup(job->arena, text, (size_t)(colon - text)), &job->first) &&
           dl_parse_int(colon + 1, &job->last) && job->first >= 0 && job->last > job->first;
}

static bool take_options(dl_predict_job *job, dl_error *err) {
    const dl_config *c = job->net.config;
    const char *tiles = dl_config_option(c, "tiles"), *rollout = dl_config_option(c, "rollout"),
               *samples = dl_config_option(c, "samples");
    job->steps = 1, job->last = INT64_MAX, job->rolls = rollout != NULL;
    job->measured = job->scored = dl_config_option(c, "metrics") != NULL;
    while (tiles && job->mode < DL_N_TILES && strcmp(tiles, dl_tiles_modes[job->mode]) != 0)
        job->mode++;
    if (job->mode == DL_N_TILES)
        return dl_fail(err, DL_USAGE, "--tiles=%.80s: auto, whole, exact, blend or crop", tiles);
    if (!dl_option_int(c, "rollout", 1, 1 << 20, &job->steps, err)) return false;
    if (samples && !read_samples(job, samples))
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

/* ---- the run ---- */

static bool load(dl_predict_job *job, dl_error *err) {
    if (!job->given) dl_arena_move(job->plan->arena, job->arena);
    dl_saved_model_close_session(&job->net);
    job->exec = dlr_exec_open(
        job->plan,
        (dlr_exec_options){.threads = (int)dl_config_int(job->net.config, DL_KEY_threads),
                           .device = job->device.device},
        err);
    return job->exec && dl_saved_model_load(&job->net, job->exec, err);
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

/* "loss": 0.1, "metrics": {"mae": 0.2} */
static void put_metrics(const dl_model_metrics *m, dl_buf *b) {
    for (int i = 0; i < m->metrics.n; i++) {
        if (i == 1) dl_puts(b, ", \"metrics\": {");
        dlr_json_put_key(b, m->metrics.at[i].name);
        dlr_json_put_double(b, m->metrics.at[i].sum / (double)m->samples);
    }
    if (m->metrics.n > 1) dl_puts(b, "}");
}

static void print_json(const dl_predict_job *job, const char *path, int threads) {
    dl_buf b = {0};
    dl_puts(&b, "{\"tiles\": ");
    dlr_json_put_string(&b, dl_tiles_modes[job->mode]);
    dlr_json_put_key(&b, "way"), dlr_json_put_string(&b, job->way);
    dl_putf(&b, ", \"batch\": %lld, \"pieces\": [%d, %d, %d]", (long long)job->engine.batch,
            job->engine.tiles[0].pieces.n, job->engine.tiles[1].pieces.n,
            job->engine.tiles[2].pieces.n);
    dl_putf(&b, ", \"peak_bytes\": %lld, \"threads\": %d",
            (long long)dl_plan_peak(job->plan, threads), threads);
    if (path) {
        dlr_json_put_key(&b, "output"), dlr_json_put_string(&b, path);
        dl_putf(&b, ", \"samples\": %lld, \"not_finite\": %lld, \"seconds\": ",
                (long long)job->predicted, (long long)job->not_finite);
        dlr_json_put_double(&b, job->seconds);
        if (job->scored)
            put_errors(job, &b, "rmse", dlr_score_rmse), put_errors(job, &b, "mae", dlr_score_mae);
        if (job->measured) put_metrics(&job->metrics, &b);
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
    if (dl_config_option(job->net.config, "json")) {
        print_json(job, path, threads);
        return;
    }
    dl_console_text(
        job->console,
        "%s, %s\n  weights     %s\n  samples     %s\n  memory      %.1f MiB with %d threads, "
        "exactly\n",
        dl_shown(job->arena, job->net.model_path), job->plan->target,
        dl_shown(job->arena, dl_saved_model_name(&job->net)), job->way,
        (double)dl_plan_peak(job->plan, threads) / 0x1p20, threads);
    if (!path) return;
    dl_console_text(job->console, "  written     %lld to %s in %.1f s\n", (long long)job->predicted,
                    dl_shown(job->arena, path), job->seconds);
    if (job->scored)
        print_errors(job, "RMSE", dlr_score_rmse), print_errors(job, "mean |error|", dlr_score_mae);
    const dl_model_metrics *m = &job->metrics;
    for (int i = 0; i < m->metrics.n; i++)
        dl_console_text(job->console, "  %s %.6g\n", m->metrics.at[i].name,
                        m->metrics.at[i].sum / (double)m->samples);
    if (m->why)
        dl_console_text(job->console, "  the model's own metrics are left out: %s\n", m->why);
}

/* The network is the first file, or the weights of --weights in the plan that the first file is. */
static bool take_network(dl_predict_job *job, const dl_config *given, dl_saved_model_options *net,
                         dl_error *err) {
    const char *first = given->positional.at[0], *weights = dl_config_option(given, "weights");
    net->path = first;
    if (!dl_config_is_plan(first))
        return !weights || dl_fail(err, DL_USAGE,
                                   "--weights goes with a plan's file (X.dlp); %.200s is the "
                                   "network itself",
                                   first);
    if (!weights)
        return dl_fail(err, DL_USAGE,
                       "which weights? %.200s is a plan, which has none: --weights=RUN, a run's "
                       "directory, a checkpoint or a file of weights",
                       first);
    job->plan_file = net->plan_path = first;
    net->plan = job->given = dl_plan_choice_read(job->arena, first, err);
    net->path = weights;
    return job->given != NULL;
}

static bool predict(dl_predict_job *job, const dl_invocation *call, dl_error *err) {
    const dl_config *given = call->config;
    const char *path = dl_config_option(given, "output");
    bool dry = dl_config_option(given, "dry_run") != NULL,
         streams = dl_predict_file_is_stdout(path);
    if (given->positional.n < 2)
        return dl_fail(err, DL_USAGE,
                       "dlrun predict CHECKPOINT DATA... -o OUT.h5 (--help tells more)");
    if (!path && !dry) return dl_fail(err, DL_USAGE, "where to? -o OUT.h5");
    if (streams && !dry && (dl_config_option(given, "json") || dl_config_option(given, "metrics")))
        return dl_fail(err, DL_USAGE,
                       "-o - writes the prediction to standard output, and so no report: name a "
                       "file for --json or --metrics");
    dl_saved_model_options net = {.arena = job->arena,
                                  .which = dl_config_option(given, "checkpoint"),
                                  .options = options,
                                  .n_words = call->argc - 1,
                                  .words = call->argv + 1,
                                  .as_trained = true,
                                  .open_data = dl_data_record_open,
                                  .console = job->console};
    if ((path && !dl_predict_file_check(path, err)) || !take_network(job, given, &net, err) ||
        !dl_saved_model_find(&job->net, &net, err) || !take_options(job, err) ||
        !open_network(job, err) || !dl_predict_open_data(job, err) ||
        (path && !streams && !dl_output_check(path, err)) ||
        !dl_predict_plan(job, &job->input[0].data[0].size, err) ||
        !dl_predict_open_target(job, err) || !dl_predict_coordinates(job, err) ||
        (job->measured && !dl_predict_open_metrics(job, err)) || !load(job, err) ||
        !dl_predict_outputs(job, err) || !dl_predict_undo(job, err))
        return false;
    if (!dry && !dl_predict_all(job, path, err)) return false;
    if (!dry && job->measured && !dl_predict_metrics(job, err)) return false;
    if (!streams || dry) print(job, dry ? NULL : path);
    if (job->not_finite)
        dl_console_warning(job->console,
                           dl_format(job->arena, "%lld predicted values are not finite",
                                     (long long)job->not_finite));
    return true;
}

static void close_job(dl_predict_job *job) {
    dlr_predict_close(&job->engine);
    dl_predict_close_metrics(job);
    dlr_exec_close(job->exec);
    for (int i = 0; i < job->n_inputs; i++)
        for (int k = 0; k < job->n && job->input[i].data; k++)
            dlr_field_close(&job->input[i].data[k]);
    dlr_field_close(&job->target);
    dl_saved_model_close(&job->net);
}

/* ---- dlrun test ---- */

static const dl_option test_options[] = {
    {"target", 0, "NAME=FILE", "data of targets that are not among DATA; NAME=FILE:ARRAY"},
    {"samples", 0, "FIRST:LAST", "of each file the samples FIRST to LAST - 1"},
    {"weights", 0, "RUN",
     "of a plan's file: a run's directory, a checkpoint, or a file of weights"},
    {"checkpoint", 0, "WHICH", "of a run: best (the default where there is one) or last"},
    {"json", 0, NULL, "print the numbers as one JSON object"},
    DL_OPTION_HELP,
    {0},
};

static const char test_usage[] =
    "usage: dlrun test CHECKPOINT DATA... [OPTION...] [--key=value...]\n\n"
    "Computes the model's own loss and metrics on data that the run has not seen: means over "
    "the\n"
    "samples, each by itself, with the run's normalisation.\n\n"
    "  dlrun test runs/smooth/1GPU/00 held_out.h5\n"
    "  dlrun test runs/smooth/1GPU/00 x=fields.h5:x t=truth.h5:t\n\n"
    "CHECKPOINT is as of `dlrun predict`. DATA is one file whose arrays have the names that the "
    "run's data\n"
    "had, or NAME=FILE[:ARRAY] for each input and target.\n"
    "Exit status: 0 done, 2 usage, 3 input, 4 files, 5 memory.\n\n";

static void print_test(const dl_predict_job *job) {
    const dl_model_metrics *m = &job->metrics;
    if (dl_config_option(job->net.config, "json")) {
        dl_buf b = {0};
        dl_putf(&b, "{\"samples\": %lld, ", (long long)m->samples);
        put_metrics(m, &b);
        dl_console_text(job->console, "%s}\n", b.at);
        dl_buf_free(&b);
        return;
    }
    dl_console_text(job->console, "%s, %s\n  weights     %s\n  samples     %lld\n",
                    dl_shown(job->arena, job->net.model_path), job->plan->target,
                    dl_shown(job->arena, dl_saved_model_name(&job->net)), (long long)m->samples);
    for (int i = 0; i < m->metrics.n; i++)
        dl_console_text(job->console, "  %-11s %.6g\n", m->metrics.at[i].name,
                        m->metrics.at[i].sum / (double)m->samples);
}

static bool test(dl_predict_job *job, const dl_invocation *call, dl_error *err) {
    const dl_config *given = call->config;
    if (given->positional.n < 2)
        return dl_fail(err, DL_USAGE, "dlrun test CHECKPOINT DATA... (--help tells more)");
    dl_saved_model_options net = {.arena = job->arena,
                                  .which = dl_config_option(given, "checkpoint"),
                                  .options = test_options,
                                  .n_words = call->argc - 1,
                                  .words = call->argv + 1,
                                  .as_trained = true,
                                  .open_data = dl_data_record_open,
                                  .console = job->console};
    if (!take_network(job, given, &net, err) || !dl_saved_model_find(&job->net, &net, err) ||
        !take_options(job, err))
        return false;
    job->tests = job->measured = true, job->scored = false;
    bool ok = open_network(job, err) && dl_predict_name_data(job, err) &&
              dl_predict_open_data(job, err) &&
              dl_predict_plan(job, &job->input[0].data[0].size, err) &&
              dl_predict_open_metrics(job, err) && load(job, err) && dl_predict_metrics(job, err);
    if (ok && !job->metrics.samples)
        return dl_fail(err, DL_INPUT, "no sample has all its inputs and targets");
    if (ok) print_test(job);
    return ok;
}

/* ---- the commands ---- */

static bool run_job(const dl_invocation *call,
                    bool (*work)(dl_predict_job *job, const dl_invocation *call, dl_error *err),
                    dl_error *err) {
    dl_predict_job job = {.arena = call->arena, .console = call->out};
    bool ok = work(&job, call, err);
    close_job(&job);
    return ok;
}

static bool run(dl_invocation *call, dl_error *err) { return run_job(call, predict, err); }
static bool run_test(dl_invocation *call, dl_error *err) { return run_job(call, test, err); }

const dl_subcommand dl_subcommand_predict = {.name = "predict",
                                             .help = "apply a trained model to files",
                                             .usage = usage,
                                             .options = options,
                                             .takes_keys = true,
                                             .run = run};

const dl_subcommand dl_subcommand_test = {.name = "test",
                                          .help = "the model's own metrics on held-out data",
                                          .usage = test_usage,
                                          .options = test_options,
                                          .takes_keys = true,
                                          .run = run_test};
