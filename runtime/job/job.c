/* One run of dlrun, in the order of what happens: ranks, model, data, log, plan, training. */
#include "runtime/job/job.h"

#include <string.h>

#include "compiler/origin.h"
#include "ir/base/output.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/log.h"
#include "runtime/formats/weights.h"
#include "runtime/job/plan_file.h"
#include "runtime/job/resume.h"
#include "runtime/job/run_dir.h"
#include "runtime/launch/launch.h"
#include "runtime/setup/data_notes.h"
#include "runtime/setup/data_record.h"
#include "runtime/setup/dataset_options.h"
#include "runtime/setup/identity.h"
#include "runtime/setup/plan_choice.h"
#include "runtime/setup/rank_groups.h"
#include "runtime/train/feed.h"

/* ---- the ranks ---- */

static bool choose_device(dl_run_job *p, dl_error *err) {
    const char **device = &p->device.device;
    const char *word = dl_config_str(p->config, DL_KEY_device);
    if (!(p->given ? dl_plan_choice_device(p->arena, p->given, p->plan_file, word, &p->device, err)
                   : dl_device_choose(p->arena, word, NULL, &p->device, err)))
        return false;
    if (*device && !(*device = dl_device_of_rank(p->arena, *device, &p->world, err))) return false;
    if (p->device.warning) dl_push(p->arena, &p->warnings, p->device.warning);
    return true;
}

/* Ranks that no MPI has started may do with NCCL, each on its device. */
static bool name_device(dl_run_job *p, const dlr_world_said *said, dlr_world_options *o,
                        dl_error *err) {
    if (said->world.size == 1 || !said->torchrun) return true;
    p->world = said->world;
    if (!choose_device(p, err)) return false;
    const char *device = p->device.device ? p->device.device : "cpu";
    if (dl_target_is_gpu(device) && !(o->driver = dl_device_driver(device, &o->ordinal, err)))
        return false;
    p->warnings.n = 0; /* it is chosen once more, when all know each other */
    return true;
}

static bool sums_by_mpi(const dl_config *c) {
    return strcmp(dl_config_str(c, DL_KEY_comm_order), "mpi") == 0;
}

bool dl_job_join(dl_run_job *p, dlr_comm_lost_fn *lost, void *context, dl_error *err) {
    p->world = (dlr_world){.size = 1, .local_size = 1};
    dlr_world_options o = {.timeout = dl_config_float(p->config, DL_KEY_comm_timeout),
                           .lost = lost,
                           .context = context};
    dlr_world_said said;
    if (!dl_job_take_plan_file(p, err) || !dlr_world_read(&said, err)) return false;
    if (said.world.size > 1) dl_launch_begin(said.world.rank);
    dlr_comm *comm = name_device(p, &said, &o, err) ? dlr_comm_open(&o, err) : NULL;
    if (!comm) return false;
    p->world = dlr_comm_world(comm);
    if (p->world.size == 1) return dlr_comm_close(comm, err);
    p->comm = comm;
    if (sums_by_mpi(p->config)) dlr_comm_set_sums(comm, DLR_SUMS_MPI);
    dl_launch_joined(p->world.rank);
    bool all = dl_config_bool(p->config, DL_KEY_log_all_ranks);
    if (all) dlr_log_set_rank(p->world.rank);
    dlr_log_set_stderr(all || p->world.rank == 0);
    return true;
}

/* ---- the model ---- */

/* The key by which ranks share a network or its optimiser's state; NULL: each has the whole. */
static const char *cut_by(const dl_config *c) {
    static const dl_key own[] = {DL_KEY_tensor_parallel, DL_KEY_context_parallel, DL_KEY_zero};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (dl_config_int(c, own[i]) > (own[i] != DL_KEY_zero)) return dl_key_name(own[i]);
    return NULL;
}

/* Refuses combinations that are not implemented. */
static bool refuse_unbuilt(const dl_config *c, dl_error *err) {
    if (!dl_config_bool(c, DL_KEY_save_checkpoint))
        return dl_config_fail(
            c, DL_KEY_save_checkpoint, err,
            "a run without checkpoints is not in this version; --keep_checkpoints=1 keeps one");
    if (dl_job_replays(c) && !dl_config_is_null(c, DL_KEY_stop_after))
        return dl_config_fail(c, DL_KEY_stop_after, err,
                              "a replay keeps no checkpoint to go on from");
    const char *cut = cut_by(c);
    if (cut && dl_config_bool(c, DL_KEY_keep_kernels))
        return dl_config_fail(c, DL_KEY_keep_kernels, err,
                              "with %s each rank has kernels of its own, and a run keeps those "
                              "of one",
                              cut);
    if (cut && sums_by_mpi(c))
        return dl_config_fail(c, DL_KEY_comm_order, err,
                              "with %s some sums are of some ranks alone, and MPI's own are those "
                              "of all; comm_order=fixed takes both",
                              cut);
    if (dl_config_bool(c, DL_KEY_sharded_checkpoints) &&
        dl_config_bool(c, DL_KEY_torch_checkpoints))
        return dl_config_fail(
            c, DL_KEY_sharded_checkpoints, err,
            "with torch_checkpoints rank 0 writes the whole state in one file, for which it "
            "needs the room that this is to save; --torch_checkpoints=false leaves it out");
    return true;
}

static bool open_session(dl_run_job *p, dl_error *err) {
    dl_config *c = p->config;
    dl_buf faults = {0};
    dl_model_text given = {0};
    if (p->given)
        given = dl_origin_model(p->given);
    else if (!dl_config_take_model(c, err))
        return false;
    p->compiler = dl_arena_new(p->arena);
    p->session =
        dl_session_open_text(p->compiler, c, p->given ? &given : NULL, p->world.size, &faults, err);
    const dl_buf *text = p->session ? &p->session->diagnostics : &faults;
    if (dl_job_is_rank0(p)) dl_console_diagnostics(p->out, text->at);
    dl_buf_free(&faults);
    if (!p->session || (p->given && !dl_config_set(c, DL_KEY_model, given.name, err))) return false;
    p->model_path = p->session->model_path, p->batch = p->session->batch;
    p->global_batch = p->session->global_batch;
    dl_session_take_rank(p->session, p->world.rank);
    dl_ranks_place(&p->session->ranks, p->world.rank, p->place);
    p->data_ranks = p->session->ranks.size[DL_RANKS_DP];
    if (p->comm &&
        !dl_groups_make(p->arena, p->comm, &p->session->ranks, p->world.rank, p->groups, err))
        return false;
    p->model = dl_identify(p->arena, p->session);
    for (int i = 0; i < c->warnings.n; i++) dl_push(p->arena, &p->warnings, c->warnings.at[i]);
    return dl_samples_resolve(c, err);
}

/* The global batch size that the run's keys come to, for log and record. */
static bool resolve_batch(const dl_run_job *p, dl_error *err) {
    return dl_config_set(p->config, DL_KEY_global_batch_size,
                         dl_format(p->arena, "%lld", (long long)p->global_batch), err) &&
           dl_config_set(p->config, DL_KEY_batch_size_of, "job", err);
}

/* Whether weights are the model's, by names and shapes; `g` is as the front end built it. */
static bool check_weights(dl_arena *arena, const dl_graph *g, const dlr_st_file *file,
                          dl_error *err) {
    dlr_st_tensor *want = DL_NEWS(arena, dlr_st_tensor, g->vars.n + 1);
    int n = 0;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        const dl_type *t = &v->value.type;
        if (v->role != DL_VAR_PARAM && v->role != DL_VAR_STATE) continue;
        if (dlr_tensors_may_lack(v->name) && !dlr_st_find(file, v->name)) continue;
        want[n] =
            (dlr_st_tensor){.name = v->name, .dtype = dlr_tensors_dtype(t->dtype), .rank = t->rank};
        for (int k = 0; k < t->rank; k++) want[n].shape[k] = t->axis[k].size;
        n++;
    }
    return dlr_st_check(file, want, n, err);
}

/* The metric that tells which checkpoints are best is one of the model's. */
static bool check_best_metric(const dl_run_job *p, dl_error *err) {
    const char *wanted = dl_config_str(p->config, DL_KEY_best_metric);
    const dl_graph *g = dl_module_graph(p->session->module, "eval");
    dl_buf names = {0};
    if (!wanted || !g || dl_graph_find_result(g, DL_RESULT_METRIC, wanted)) return true;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_METRIC)
            dl_putf(&names, "%s%s", names.n ? ", " : "", g->results.at[i].name);
    dl_config_fail(p->config, DL_KEY_best_metric, err, "the model has no metric '%.80s'; it has %s",
                   wanted, names.n ? names.at : "none");
    dl_buf_free(&names);
    return false;
}

/* Files that are used late are looked at early: a mistyped name shall not cost a compilation. */
static bool check_files(dl_run_job *p, dl_error *err) {
    const dl_config *c = p->config;
    dlr_weights weights = {0};
    bool ok = dl_config_is_null(c, DL_KEY_init_weights) ||
              (dlr_weights_open(dl_config_str(c, DL_KEY_init_weights), &weights, err) &&
               (dl_config_bool(c, DL_KEY_init_partial) ||
                check_weights(p->arena, p->session->module->graphs.at[0], weights.file, err)));
    dlr_weights_close(&weights);
    if (!ok || dl_config_is_null(c, DL_KEY_replay)) return ok;
    dlr_st_file *f = dlr_st_open(dl_config_str(c, DL_KEY_replay), DLR_ST_STRIP | DLR_ST_INPUT, err);
    dlr_st_close(f);
    return f != NULL;
}

/* ---- data ---- */

/* Both data sets; with `check`, only looks whether they could be opened. What is whole then stays
 * open: many ranks that open everything twice ask a file system twice as much. */
static bool open_both(dl_run_job *p, bool check, dl_error *err) {
    dlr_opening opening = check ? DLR_OPEN_PROBE : DLR_OPEN_FOR_USE;
    dlr_dataset **const data[] = {[DLR_TRAIN] = &p->train, [DLR_VALID] = &p->valid};
    for (dlr_split split = DLR_TRAIN; split <= DLR_VALID; split++) {
        if (*data[split]) continue;
        dlr_dataset *d = dl_samples_open(p->arena, p->session, split, opening, err);
        if (!d) return false;
        bool counted = dl_samples_count(p->config, split, d, err);
        if (!counted || (check && !dlr_dataset_whole(d)))
            dlr_dataset_close(d);
        else
            *data[split] = d;
        if (!counted) return false;
    }
    return true;
}

/* Bytes of a device that the data would take, where they are there, which a dry run does not ask
 * for. */
static int64_t store_of(const dl_run_job *p) {
    dlr_dataset *data[2] = {NULL, NULL};
    dl_error none = {0};
    bool there = dl_samples_held(p->config) && !dl_job_replays(p->config);
    for (dlr_split split = DLR_TRAIN; there && split <= DLR_VALID; split++)
        there = (data[split] = dl_samples_open(p->arena, p->session, split, DLR_OPEN_PROBE, &none));
    int64_t bytes = there ? dlr_feed_store((const dlr_dataset *const[2]){data[0], data[1]}) : 0;
    for (int i = 0; i < 2; i++) dlr_dataset_close(data[i]);
    return bytes;
}

/* ---- the run's directory and its log ---- */

static void log_line(void *to, const char *text) { (void)to, dlr_log_info("%s", text); }

/* Next to the log, where users look for the reason. */
static void keep_flight(const dl_run_job *p, const char *run) {
    if (p->comm)
        dlr_comm_set_flight(p->comm, dl_format(p->arena, "%s/flight-%d.txt", run, p->world.rank));
}

static bool open_log(dl_run_job *p, dl_error *err) {
    const dl_config *c = p->config;
    const char *path = dl_run_dir(p->arena, c, p->world.size, err);
    dlr_log_set_named(!dlr_record_find(dl_config_str(c, DL_KEY_log_format))->plain_log);
    if (path) keep_flight(p, path);
    if (path && !dl_job_is_rank0(p)) {
        dlr_rundir_name(p->arena, path, &p->dir);
        p->warnings.n = 0;
        return true;
    }
    bool ok = path && (p->dir.lock >= 0 ||
                       dlr_rundir_open(p->arena, path, &p->dir, err)); /* a trial's is */
    if (!ok || !dlr_log_open(p->dir.log, err)) return false;
    p->logs = true;
    if (p->trial_note) dlr_log_info("%s", p->trial_note);
    if (dl_config_option(c, "show-config"))
        dlr_log_info("Command line config: %s", p->command_line);
    dl_config_log(c, log_line, NULL);
    dl_job_tell_warnings(p);
    return true;
}

static bool load_data(dl_run_job *p, dl_error *err) {
    dlr_log_info("rank %d, begin data loader init", p->world.rank);
    if (!open_both(p, false, err)) return false;
    dl_data_record data;
    if (dl_job_is_rank0(p) && !dl_data_notes(p->session, p->train, p->valid, err)) return false;
    dl_data_record_of(p->arena, p->session, p->train, &data);
    p->model.data = dl_data_record_text(p->arena, &data);
    dlr_log_info("rank %d, data loader initialized with config %s", p->world.rank,
                 dl_config_str(p->config, DL_KEY_data_loader_config));
    return true;
}

bool dl_job_check_options(const dl_run_job *p, dl_error *err) {
    bool dry = dl_config_option(p->config, "dry_run") != NULL;
    if (dl_config_option(p->config, "profile") && dry)
        return dl_fail(err, DL_USAGE, "--profile records steps, and --dry_run makes none");
    if (dl_config_option(p->config, "json") && !dry)
        return dl_fail(err, DL_USAGE, "--json goes with --dry_run");
    if (dl_config_option(p->config, "verbose")) dlr_log_set_level(DLR_DEBUG);
    return true;
}

bool dl_job_run(dl_run_job *p, dl_error *err) {
    const dl_config *c = p->config;
    bool dry = dl_config_option(c, "dry_run") != NULL;
    if (!open_session(p, err) || !refuse_unbuilt(c, err) || !choose_device(p, err)) return false;
    if (p->given && !dl_job_check_plan_file(p, err)) return false;
    bool records = !dry && !dl_job_replays(c);
    if (records && !dl_tracking_options(p->arena, c, p->world.size, &p->wandb, err)) return false;
    dl_job_add_warnings(p);
    if (dry) {
        dl_job_tell_warnings(p);
        p->store = store_of(p);
        return dl_job_compile(p, err) && (!dl_job_is_rank0(p) || dl_job_print_plan(p, err));
    }
    if (!resolve_batch(p, err)) return false;
    if (!check_best_metric(p, err) || !check_files(p, err)) return false;
    if (!dl_job_replays(c) &&
        (!dl_resume_check(p->arena, c, p->world.size, err) || !open_both(p, true, err)))
        return false;
    static const dl_key outputs[] = {DL_KEY_save_grads, DL_KEY_save_weights};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const char *path = dl_config_str(c, outputs[i]);
        if (path && !dl_output_check(path, err)) return false;
    }
    if (!open_log(p, err)) return false;
    if (!dl_job_replays(c) && !load_data(p, err)) return false;
    return dl_job_compile(p, err) && dl_job_load_plan(p, err) && dl_job_train(p, err);
}

/* ---- the end ---- */

void dl_job_log_error(dl_run_job *p, const dl_error *err) {
    dl_job_tell_warnings(p); /* the cause of a fault may be among them */
    if (!p->logs) return;
    dlr_log_set_stderr(false); /* for readers of out.log, in addition to standard error */
    dlr_log(err->code == DL_REQUEUE ? DLR_WARNING : DLR_ERROR, "%s", err->message);
}

void dl_job_close_device(dl_run_job *p) {
    dlr_exec_close(p->exec);
    p->exec = NULL;
}

void dl_job_close_log(dl_run_job *p) {
    dl_error err = {0};
    if (p->logs && !dlr_log_close(&err)) dl_console_warning(p->out, err.message);
    p->logs = false;
}

void dl_job_close(dl_run_job *p) {
    dl_job_close_device(p);
    if (p->plan && p->plan->late) p->plan->late->end(p->plan->late);
    dlr_dataset_close(p->train);
    dlr_dataset_close(p->valid);
    dl_job_close_log(p);
    dlr_rundir_close(&p->dir);
    dl_session_close(p->session);
    dl_arena_free(p->arena); /* and the compiler's */
}
