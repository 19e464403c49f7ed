/* `dlrun`: trains a model. The configuration and the model become a plan (compiler), the plan and the data a
 * run (runtime); this file is where the two meet, and main reads in the order of what happens. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/arguments.h"
#include "compiler/session.h"
#include "ir/base/cpus.h"
#include "ir/base/foreign.h"
#include "ir/base/output.h"
#include "ir/base/streams.h"
#include "programs/device.h"
#include "programs/environment.h"
#include "programs/groups.h"
#include "programs/identity.h"
#include "programs/launch.h"
#include "programs/predict.h"
#include "programs/profile.h"
#include "programs/rates.h"
#include "programs/resume.h"
#include "programs/run_dir.h"
#include "programs/samples.h"
#include "programs/version.h"
#include "runtime/io/log.h"
#include "runtime/io/stored.h"
#include "runtime/snapshot.h"
#include "runtime/train.h"

static const dl_option options[] = {
    {"dry_run", 0, NULL, "compile, print parameters, memory and kernels, and stop there"},
    {"json", 0, NULL, "with --dry_run: print them, and every key's value, as one JSON object"},
    {"profile", 0, NULL,
     "record some steps of the first epoch: profile.json and profile.txt in the run's directory"},
    {"ranks", 'n', "N", "start N ranks of this run by mpirun (docs/distributed.md)"},
    {"distributed", 'd', NULL, "taken for compatibility: ranks are those of the environment"},
    {"verbose", 'v', NULL, "log more"},
    {"show-config", 0, NULL, "log the command line, too"},
    {"help", 'h', NULL, "this text"},
    {"version", 0, NULL, "print the version"},
    {0},
};

static const char usage[] =
    "usage: dlrun [MODEL.dl] [FILE.yaml] [--config NAME] [--key=value...]\n\n"
    "Trains a model; docs/training.md tells the whole story.\n\n"
    "  dlrun --config tiny                         about a minute on two cores\n"
    "  dlrun --config short --local_batch_size 4   a real one; runs/short/1GPU/00/ is what it leaves\n"
    "  dlrun --config short --resume               go on where a run stopped (Ctrl-C leaves a checkpoint)\n"
    "  dlrun --config short --resume=DIR           go on from the run, or the checkpoint, in DIR\n"
    "  dlrun -n 4 --config short                   four ranks of this machine, by mpirun\n"
    "  dlrun --data_loader_config synthetic        on noise, without any data file\n"
    "  dlrun --config base --dry_run               parameters and exact memory, nothing else\n"
    "  dlrun predict runs/short/1GPU/00 FILE -o OUT   what the trained model makes of a file (predict "
    "--help)\n"
    "  dlrun models/config/hello.yaml              a file that is one configuration, and names its model\n"
    "  dlrun models/vit.dl --help                  all options and keys, the model's among them\n\n"
    "Exit status: 0 done, 2 usage, 3 input, 4 files, 5 memory, 7 a loss that is not finite, 8 another rank, "
    "75 stopped by a "
    "signal, or --stop_after\n"
    "(a checkpoint is written: run again with --resume).\n\n";

typedef struct {
    dl_arena *arena;
    dl_config *config;
    const char *command_line; /* words with blanks between them */
    dl_arena *compiler;       /* of the session, which is gone once there is a plan */
    dl_session *session;      /* NULL then */
    const char *model_path;
    int64_t batch, global_batch;
    dl_compile_times times;
    dlr_run_model model;
    dl_plan *plan;
    bool plan_cached; /* it was found, not compiled */
    dl_device_choice device;
    dlr_comm *comm; /* NULL: one rank */
    dlr_world world;
    dlr_group groups[DL_NRANK_GROUPS];
    int place[DL_NRANK_PARTS], data_ranks; /* this rank's coordinates; ranks with other samples */
    dlr_rundir dir;
    bool logs; /* out.log is open */
    DL_ARRAY(const char *) warnings;
    dlr_dataset *train, *valid;
    dlr_exec *exec;
} program;

/* ---- what is asked for ---- */

static bool is_replay(const dl_config *c) { return !dl_config_is_null(c, DL_KEY_replay); }

/* What is not built yet is refused, never quietly left out. */
static bool refuse_unbuilt(const dl_config *c, dl_error *err) {
    if (!dl_config_bool(c, DL_KEY_save_checkpoint))
        return dl_config_fail(
            c, DL_KEY_save_checkpoint, err,
            "a run without checkpoints is not in this version; --keep_checkpoints=1 keeps one");
    if (is_replay(c) && !dl_config_is_null(c, DL_KEY_stop_after))
        return dl_config_fail(c, DL_KEY_stop_after, err, "a replay keeps no checkpoint to go on from");
    return true;
}

/* A rank is lost while this one is far from the comm: it ends here. */
static void end_lost(void *of, const dl_error *err) {
    const program *p = of;
    fprintf(stderr, "rank %d: dlrun: error: %s\n", p->world.rank, err->message);
    _exit(dl_launch_report(p->world.rank, err->code));
}

/* Rank 0 speaks for all; the others' standard output is nobody's. */
static void share_streams(const program *p) {
    bool all = dl_config_bool(p->config, DL_KEY_log_all_ranks);
    if (all) dlr_log_set_rank(p->world.rank);
    dlr_log_set_stderr(all || p->world.rank == 0);
    int null = p->world.rank ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (null >= 0) dup2(null, STDOUT_FILENO), close(null);
}

static bool choose_device(program *p, dl_error *err) {
    const char **device = &p->device.device;
    if (!dl_device_choose(p->arena, dl_config_str(p->config, DL_KEY_device), NULL, &p->device, err))
        return false;
    if (*device && !(*device = dl_device_of_rank(p->arena, *device, &p->world, err))) return false;
    if (p->device.warning) dl_push(p->arena, &p->warnings, p->device.warning);
    return true;
}

/* Ranks that no MPI has started may do with NCCL, each on its device. */
static bool name_device(program *p, dlr_world_options *o, dl_error *err) {
    dlr_world_said said;
    if (!dlr_world_read(&said, err)) return false;
    if (said.world.size == 1 || !said.torchrun) return true;
    p->world = said.world;
    if (!choose_device(p, err)) return false;
    const char *device = p->device.device ? p->device.device : "cpu";
    if (strncmp(device, "cuda", 4) == 0 && !(o->driver = dl_device_driver(device, &o->ordinal, err)))
        return false;
    p->warnings.n = 0; /* it is chosen once more, when all know each other */
    return true;
}

/* Who trains together: everybody's first act, so that whoever is missing is missed here. */
static bool open_world(program *p, dl_error *err) {
    p->world = (dlr_world){.size = 1, .local_size = 1};
    dlr_world_options o = {
        .timeout = dl_config_float(p->config, DL_KEY_comm_timeout), .lost = end_lost, .context = p};
    dlr_comm *comm = name_device(p, &o, err) ? dlr_comm_open(&o, err) : NULL;
    if (!comm) return false;
    p->world = dlr_comm_world(comm);
    if (p->world.size > 1) {
        p->comm = comm;
        share_streams(p);
        return true;
    }
    return dlr_comm_close(comm);
}

static bool is_leader(const program *p) { return p->world.rank == 0; }

static bool open_session(program *p, dl_error *err) {
    dl_config *c = p->config;
    dl_buf faults = {0};
    if (!dl_config_take_model(c, err)) return false;
    p->compiler = dl_arena_new(p->arena);
    p->session = dl_session_open(p->compiler, c, p->world.size, &faults, err);
    const dl_buf *text = p->session ? &p->session->diagnostics : &faults;
    if (text->n && is_leader(p)) fputs(text->at, stderr);
    dl_buf_free(&faults);
    if (!p->session) return false;
    p->model_path = p->session->model_path, p->batch = p->session->batch;
    p->global_batch = p->session->global_batch;
    dl_session_take_rank(p->session, p->world.rank);
    dl_ranks_place(&p->session->ranks, p->world.rank, p->place);
    p->data_ranks = p->session->ranks.size[DL_RANKS_DP];
    if (p->comm && !dl_groups_make(p->arena, p->comm, &p->session->ranks, p->world.rank, p->groups, err))
        return false;
    p->model = dl_identify(p->arena, p->session);
    for (int i = 0; i < c->warnings.n; i++) dl_push(p->arena, &p->warnings, c->warnings.at[i]);
    return dl_samples_settle(c, err);
}

/* What local_batch_size, and a batch size of each rank, made of it, for log and record. */
static bool settle_batch(const program *p, dl_error *err) {
    return dl_config_set(p->config, DL_KEY_global_batch_size,
                         dl_format(p->arena, "%lld", (long long)p->global_batch), err) &&
           dl_config_set(p->config, DL_KEY_batch_size_of, "job", err);
}

/* Model, graphs and what the compiler needed beside them: not a byte of it stays while the plan runs. */
static void close_session(program *p) {
    dl_session_close(p->session);
    dl_arena_free(p->compiler);
    p->session = NULL, p->compiler = NULL;
    malloc_trim(0);
}

/* What is taken, but will hardly do what was meant. */
static void add_warnings(program *p) {
    static const dl_key rates[] = {DL_KEY_start_lr, DL_KEY_end_lr};
    const dl_config *c = p->config;
    if (dl_config_bool(c, DL_KEY_log_to_wandb))
        dl_push(p->arena, &p->warnings,
                "log_to_wandb: not in this version; metrics.jsonl and TensorBoard's files are written");
    const dl_yaml *valid = dl_config_value(c, DL_KEY_valid_batch_size);
    if (valid->kind == DL_YAML_INT && valid->integer != p->global_batch && !is_replay(c))
        dl_push(p->arena, &p->warnings,
                dl_format(p->arena,
                          "valid_batch_size: validation runs on batches of %lld, the training's size",
                          (long long)p->global_batch));
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (dl_config_float(c, rates[i]) > 1)
            dl_push(p->arena, &p->warnings,
                    dl_format(p->arena,
                              "%s is %g: Adam moves a weight by about the learning rate in each step, and "
                              "rates are well below 1",
                              dl_key_name(rates[i]), dl_config_float(c, rates[i])));
    bool means = !dl_config_is_null(c, DL_KEY_time_means_path),
         test = !dl_config_is_null(c, DL_KEY_inf_data_path);
    if (means || test)
        dl_push(p->arena, &p->warnings,
                dl_format(p->arena, "%s%s%s: training reads nothing of it, here as in system D's code",
                          test ? "inf_data_path" : "", test && means ? ", " : "",
                          means ? "time_means_path" : ""));
    const char *npy[2][2], *missing = dl_samples_npy(p->arena, c, npy);
    if (missing && missing[0] && !is_replay(c))
        dl_push(
            p->arena, &p->warnings,
            dl_format(p->arena,
                      "dali-lowmem: of its four .npy files %s is not there; the data are those of train_path "
                      "and val_path",
                      missing));
}

/* Tells all warnings, once: in the log if there is one, and else on standard error. */
static void tell_warnings(program *p) {
    for (int i = 0; i < p->warnings.n; i++) {
        if (p->logs)
            dlr_log_warning("%s", p->warnings.at[i]);
        else if (is_leader(p))
            fprintf(stderr, "dlrun: warning: %s\n", p->warnings.at[i]);
    }
    p->warnings.n = 0;
}

/* Files that are used late are looked at early: a mistyped name shall not cost a compilation. */
static bool check_file(const dl_config *c, dl_key key, dl_error *err) {
    if (dl_config_is_null(c, key)) return true;
    dlr_st_file *f = dlr_st_open(dl_config_str(c, key), DLR_ST_STRIP | DLR_ST_INPUT, err);
    dlr_st_close(f);
    return f != NULL;
}

/* ---- data ---- */

/* Both data sets; with `check`, only looks whether they could be opened. */
static bool open_both(program *p, bool check, dl_error *err) {
    dlr_dataset **const data[] = {[DLR_TRAIN] = &p->train, [DLR_VALID] = &p->valid};
    for (dlr_split split = DLR_TRAIN; split <= DLR_VALID; split++) {
        dlr_dataset *d = dl_samples_open(p->arena, p->session, split, check, err);
        if (!d) return false;
        bool counted = dl_samples_count(p->config, split, d, err);
        if (check || !counted)
            dlr_dataset_close(d);
        else
            *data[split] = d;
        if (!counted) return false;
    }
    return true;
}

/* ---- the run's directory and its log ---- */

static void log_line(void *to, const char *text) { (void)to, dlr_log_info("%s", text); }

/* Beside the log, where who looks for the reason will look. */
static void keep_flight(const program *p, const char *run) {
    if (p->comm) dlr_comm_set_flight(p->comm, dl_format(p->arena, "%s/flight-%d.txt", run, p->world.rank));
}

static bool open_log(program *p, dl_error *err) {
    const dl_config *c = p->config;
    const char *path = dl_run_dir(p->arena, c, p->world.size, err);
    if (path) keep_flight(p, path);
    if (path && !is_leader(p)) {
        dlr_rundir_name(p->arena, path, &p->dir);
        p->warnings.n = 0;
        return true;
    }
    if (!path || !dlr_rundir_open(p->arena, path, &p->dir, err) || !dlr_log_open(p->dir.log, err))
        return false;
    p->logs = true;
    dlr_log_set_named(!dlr_record_find(dl_config_str(c, DL_KEY_record))->plain_log);
    if (dl_config_option(c, "show-config")) dlr_log_info("Command line config: %s", p->command_line);
    dl_config_log(c, log_line, NULL);
    tell_warnings(p);
    return true;
}

/* ---- the plan ---- */

static void warn(const char *text) { dlr_log_warning("%s", text); }

/* On each machine one rank compiles, and the others find the plan in the cache. */
static bool wait_for_plan(const program *p, bool first, dl_error *err) {
    return !p->comm || (p->world.local_rank == 0) == first || dlr_comm_barrier(p->comm, err);
}

static bool compile(program *p, dl_error *err) {
    dl_compile_options opt;
    if (!wait_for_plan(p, true, err)) return false;
    if (!dl_session_options(p->session, p->device.target, &opt, err)) return false;
    opt.warn = warn;
    opt.keep_gradients = !dl_config_is_null(p->config, DL_KEY_save_grads);
    p->plan = dl_session_plan(p->session, &opt, &p->plan_cached, err);
    if (!p->plan || !wait_for_plan(p, false, err)) return false;
    dl_arena_move(p->plan->arena, p->arena);
    p->times = p->session->times;
    close_session(p);
    return true;
}

/* What a checkpoint's copy takes, from which it is written while training goes on. */
static int64_t copy_bytes(const program *p) {
    bool copies = dl_config_bool(p->config, DL_KEY_async_checkpoints) && !is_replay(p->config);
    return copies ? dlr_snapshot_bytes(p->plan) : 0;
}

/* "2 batches of 9.0 MiB, data sets of 8.2 MiB, a checkpoint's copy of 2.1 MiB": what a run holds beside the
 * plan's memory. */
static const char *data_text(const program *p) {
    dlr_train_ring ring = dlr_train_ring_of(p->plan, (int)dl_config_int(p->config, DL_KEY_num_data_workers));
    int64_t held = 0;
    if (is_replay(p->config)) return "no batches";
    if (p->train && p->valid) held = dlr_dataset_held(p->train) + dlr_dataset_held(p->valid);
    return dl_format(p->arena, "%d batch%s of %.1f MiB%s%s", ring.batches, ring.batches == 1 ? "" : "es",
                     (double)ring.bytes / 0x1p20,
                     held ? dl_format(p->arena, ", data sets of %.1f MiB", (double)held / 0x1p20) : "",
                     copy_bytes(p) ? dl_format(p->arena, ", a checkpoint's copy of %.1f MiB",
                                               (double)copy_bytes(p) / 0x1p20)
                                   : "");
}

/* What the run will take of the device, with what is in use there now; nothing where that is the host. */
static void print_device(const dlr_device_memory *m) {
    if (!m->total) return;
    printf("  device      %.1f MiB of %.1f in use then: %.1f of the plan, about %.1f of code and %.1f of "
           "graphs, "
           "%.1f now (the driver's context, and other programs)%s\n",
           (double)dlr_device_predicted(m) / 0x1p20, (double)m->total / 0x1p20, (double)m->plan / 0x1p20,
           (double)m->code / 0x1p20, (double)m->graphs / 0x1p20, (double)m->before / 0x1p20,
           dlr_device_predicted(m) > m->total ? ": it does not fit" : "");
}

static const char *device_json(const program *p, const dlr_device_memory *m) {
    return !m->total
               ? ""
               : dl_format(p->arena,
                           ", \"device_bytes_predicted\": %lld, \"device_bytes_before\": %lld, "
                           "\"device_bytes_total\": %lld",
                           (long long)dlr_device_predicted(m), (long long)m->before, (long long)m->total);
}

/* The same for programs. `configuration` is what was asked for; `batch` and `global_batch` what it comes to.
 */
static void print_json(const program *p, int threads, const dlr_device_memory *m) {
    dl_buf b = {0};
    dl_config_put_json(p->config, &b);
    printf("{\"configuration\": %s, \"batch\": %lld, \"global_batch\": %lld, \"parameters\": %lld, "
           "\"peak_bytes\": %lld, \"checkpoint_copy_bytes\": %lld, \"threads\": %d, \"kernels\": %d%s}\n",
           b.at, (long long)p->batch, (long long)p->global_batch, (long long)dl_plan_parameters(p->plan),
           (long long)dl_plan_peak(p->plan, threads), (long long)copy_bytes(p), threads,
           dl_plan_program_find(p->plan, "train")->launches.n, device_json(p, m));
    dl_buf_free(&b);
}

/* Threads of this rank, of `threads` as given: 0 shares the machine's CPUs out to its ranks. */
static int threads_of(const program *p) {
    int threads = (int)dl_config_int(p->config, DL_KEY_threads),
        here = p->comm ? dlr_comm_sharing(p->comm) : 1;
    if (threads || here <= 1) return threads;
    return dl_cpus_allowed() > here ? dl_cpus_allowed() / here : 1;
}

static bool print_plan(const program *p, dl_error *err) {
    int threads = threads_of(p);
    dlr_pool *pool = dlr_pool_open(threads, err); /* how many 0 means */
    if (!pool) return false;
    threads = dlr_pool_threads(pool);
    dlr_pool_close(pool);
    dlr_device_memory m;
    if (!dlr_device_predict(p->plan, p->device.device, &m, err) && err->code) return false;
    if (dl_config_option(p->config, "json")) {
        print_json(p, threads, &m);
        return true;
    }
    printf("%s, batch %lld, %s\n  parameters  %lld\n  memory      %.1f MiB with %d threads, exactly; beside "
           "it %s\n  kernels     %d in a training step\n",
           dl_shown(p->arena, p->model_path), (long long)p->batch, p->plan->target,
           (long long)dl_plan_parameters(p->plan), (double)dl_plan_peak(p->plan, threads) / 0x1p20, threads,
           data_text(p), dl_plan_program_find(p->plan, "train")->launches.n);
    print_device(&m);
    return true;
}

static bool load_plan(program *p, dl_error *err) {
    p->exec = dlr_exec_open(p->plan,
                            (dlr_exec_options){.threads = threads_of(p),
                                               .device = p->device.device,
                                               .ranks = {p->comm, p->comm ? DL_NRANK_GROUPS : 0, p->groups}},
                            err);
    if (!p->exec) return false;
    int threads = dlr_pool_threads(dlr_exec_pool(p->exec));
    const dl_compile_times *t = &p->times;
    const char *from = p->plan_cached
                           ? "plan from the cache"
                           : dl_format(p->arena, "compiled in %.0f ms", t->passes_ms + t->emit_ms + t->cc_ms);
    dlr_log_info(
        "%s: %lld parameters, %d kernels a step, %.1f MiB and %s, %d threads, %s; %s", p->plan->model,
        (long long)dl_plan_parameters(p->plan), dl_plan_program_find(p->plan, "train")->launches.n,
        (double)dl_plan_peak(p->plan, threads) / 0x1p20, data_text(p), threads, p->plan->target, from);
    return true;
}

/* ---- training ---- */

static dlr_train_options train_options(const program *p, const dl_buf *yaml) {
    const dl_config *c = p->config;
    int n_hypers;
    const dlr_hyper *hypers = dl_rates_hypers(p->arena, c, &n_hypers);
    const dl_yaml *steps = dl_config_value(c, DL_KEY_num_iters),
                  *stop = dl_config_value(c, DL_KEY_stop_after);
    return (dlr_train_options){
        .exec = p->exec,
        .dir = &p->dir,
        .style = dlr_record_find(dl_config_str(c, DL_KEY_record)),
        .schedule = dl_rates_schedule(p->arena, c, p->global_batch, p->data_ranks),
        .plateau = dl_rates_plateau(p->arena, c),
        .loss_scale = dl_config_float(c, DL_KEY_loss_scale_init),
        .hypers = hypers,
        .n_hypers = n_hypers,
        .seed = (uint64_t)dl_config_int(c, DL_KEY_seed),
        .init_weights = dl_config_str(c, DL_KEY_init_weights),
        .save_grads = dl_config_str(c, DL_KEY_save_grads),
        .save_weights = dl_config_str(c, DL_KEY_save_weights),
        .train = p->train,
        .valid = p->valid,
        .workers = (int)dl_config_int(c, DL_KEY_num_data_workers),
        .device_samples = dl_samples_by_device(c),
        .epochs = dl_config_int(c, DL_KEY_num_epochs),
        .steps = steps->kind == DL_YAML_INT ? steps->integer : 0,
        .measure = dl_config_bool(c, DL_KEY_enable_benchy),
        .resume = dl_config_bool(c, DL_KEY_resume),
        .resume_from = dl_config_str(c, DL_KEY_resume),
        .stop_after = stop->kind == DL_YAML_INT ? stop->integer : 0,
        .async = dl_config_bool(c, DL_KEY_async_checkpoints),
        .keep = (int)dl_config_int(c, DL_KEY_keep_checkpoints),
        .torch = dl_config_bool(c, DL_KEY_torch_checkpoints) ? dl_rates_optimizer(p->arena, c) : NULL,
        .hyperparams = yaml->at,
        .model = p->model,
        .ranks = {.comm = p->comm,
                  .rank = p->world.rank,
                  .data_rank = p->place[DL_RANKS_DP],
                  .data_ranks = p->data_ranks,
                  .check_every = dl_config_int(c, DL_KEY_check_replicas),
                  .own_buffers = dl_config_bool(c, DL_KEY_disable_broadcast_buffers)},
    };
}

static bool train(const program *p, dl_error *err) {
    dl_buf yaml = {0};
    dl_config_put_yaml(p->config, &yaml);
    dlr_train_options o = train_options(p, &yaml);
    bool asked = dl_config_option(p->config, "profile") != NULL,
         ok = dl_profile_open(p->arena, asked, &p->dir, p->exec, p->device.device, &o.ranges, err);
    if (ok)
        ok = is_replay(p->config) ? dlr_train_replay(&o, dl_config_str(p->config, DL_KEY_replay), err)
                                  : dlr_train(&o, err);
    dl_buf_free(&yaml);
    return ok;
}

static bool load_data(program *p, dl_error *err) {
    dlr_log_info("rank 0, begin data loader init");
    if (!open_both(p, false, err)) return false;
    dlr_log_info("rank 0, data loader initialized with config %s",
                 dl_config_str(p->config, DL_KEY_data_loader_config));
    return true;
}

static bool run(program *p, dl_error *err) {
    const dl_config *c = p->config;
    bool dry = dl_config_option(c, "dry_run") != NULL;
    if (dl_config_option(c, "profile") && dry)
        return dl_fail(err, DL_USAGE, "--profile records steps, and --dry_run makes none");
    if (dl_config_option(c, "json") && !dry) return dl_fail(err, DL_USAGE, "--json goes with --dry_run");
    if (dl_config_option(c, "verbose")) dlr_log_set_level(DLR_DEBUG);
    if (!open_world(p, err) || !open_session(p, err) || !refuse_unbuilt(c, err) || !choose_device(p, err))
        return false;
    add_warnings(p);
    if (dry) {
        tell_warnings(p);
        return compile(p, err) && (!is_leader(p) || print_plan(p, err));
    }
    if (!settle_batch(p, err)) return false;
    if (!check_file(c, DL_KEY_init_weights, err) || !check_file(c, DL_KEY_replay, err)) return false;
    if (!is_replay(c) && (!dl_resume_check(p->arena, c, p->world.size, err) || !open_both(p, true, err)))
        return false;
    static const dl_key outputs[] = {DL_KEY_save_grads, DL_KEY_save_weights};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const char *path = dl_config_str(c, outputs[i]);
        if (path && !dl_output_check(path, err)) return false;
    }
    if (!open_log(p, err)) return false;
    if (!is_replay(c) && !load_data(p, err)) return false;
    return compile(p, err) && load_plan(p, err) && train(p, err);
}

/* ---- the end ---- */

static void report(program *p, const dl_error *err) {
    tell_warnings(p); /* the cause of a fault may be among them */
    if (p->logs) {    /* in out.log as well, for who looks there in the morning */
        dlr_log_set_stderr(false);
        dlr_log(err->code == DL_REQUEUE ? DLR_WARNING : DLR_ERROR, "%s", err->message);
    }
    bool common = err->code == DL_REQUEUE || err->code == DL_NUMERIC; /* all ranks end so, and one says it */
    if (common && !is_leader(p)) return;
    if (p->comm) fprintf(stderr, "rank %d: ", p->world.rank);
    bool located = strstr(err->message, ": error: ") != NULL; /* file:line:column: error: ... */
    fprintf(stderr, "%s%s\n",
            located                   ? ""
            : err->code == DL_REQUEUE ? "dlrun: "
                                      : "dlrun: error: ",
            err->message);
}

static void close_program(program *p) {
    dl_error err = {0};
    dlr_exec_close(p->exec);
    dlr_dataset_close(p->train);
    dlr_dataset_close(p->valid);
    if (p->logs && !dlr_log_close(&err)) fprintf(stderr, "dlrun: warning: %s\n", err.message);
    dlr_rundir_close(&p->dir);
    dl_session_close(p->session);
    dl_arena_free(p->arena); /* and the compiler's */
}

/* With a model, its keys, too. */
static bool help(const program *p, dl_error *err) {
    dl_buf b = {0};
    if (p->config->positional.n && !dl_arguments_of_model(p->arena, p->config, err)) return false;
    dl_puts(&b, usage);
    dl_config_put_help(&b, options, p->config);
    dl_puts(&b, ENVIRONMENT_HELP);
    fputs(b.at, stdout);
    dl_buf_free(&b);
    return true;
}

static const char *join(dl_arena *arena, int n, char *const *words) {
    dl_buf b = {0};
    for (int i = 0; i < n; i++) dl_putf(&b, "%s%s", i ? " " : "", words[i]);
    const char *text = b.at ? dl_strndup(arena, b.at, b.n) : "";
    dl_buf_free(&b);
    return text;
}

/* The end of a rank. One that ends alone tells the others, who would wait for it; and where MPI may hang, or
 * may still write to what would be freed, nothing is ended but the process. */
static void end_rank(program *p, int code, const dl_error *err) {
    bool common = code == DL_OK || code == DL_REQUEUE || code == DL_NUMERIC;
    dl_error lost = {0};
    if (common && dlr_comm_barrier(p->comm, &lost)) {
        dlr_exec_close(p->exec); /* devices, too, end together, while somebody watches */
        p->exec = NULL;
        if (dlr_comm_close(p->comm)) {
            p->comm = NULL;
            return;
        }
    }
    if (common) {
        dl_fail(&lost, DL_PEER, "another rank does not end its run"); /* unless the barrier said which */
        report(p, &lost);
        code = lost.code;
    }
    if (code == DL_PEER)
        dlr_comm_close(p->comm);
    else
        dlr_comm_leave(p->comm, err->message);
    dl_error closing = {0};
    if (p->logs) dlr_log_close(&closing);
    _exit(dl_launch_report(p->world.rank, dl_streams_end("dlrun", code)));
}

static int end(program *p, bool ok, const dl_error *err) {
    int code = ok ? DL_OK : err->code ? (int)err->code : DL_INTERNAL, rank = p->world.rank;
    if (!ok) report(p, err);
    if (p->comm) {
        signal(SIGTERM, SIG_IGN); /* by mpirun, when another rank was faster */
        end_rank(p, code, err);
    }
    close_program(p);
    return dl_launch_report(rank, dl_streams_end("dlrun", code));
}

int main(int argc, char **argv) {
    dl_exit_without_memory("dlrun");
    dl_streams_start();
    if (argc > 1 && strcmp(argv[1], "predict") == 0)
        return dl_streams_end("dlrun", dl_predict_main(argc - 1, argv + 1));
    dl_error err = {0};
    program p = {.arena = dl_arena_new(NULL), .dir.lock = -1};
    p.command_line = join(p.arena, argc, argv);
    int status = 0, ranks = dl_launch_take(&argc, argv, &err);
    p.config = ranks < 0 ? NULL : dl_config_open(p.arena, argc, argv, options, &err);
    bool ok = p.config;
    if (ok && dl_config_option(p.config, "help"))
        ok = help(&p, &err);
    else if (ok && dl_config_option(p.config, "version"))
        dl_version_print(p.arena, "dlrun");
    else if (ok && ranks > 1) {
        ok = dl_launch(ranks, argc, argv, &status, &err);
    } else
        ok = ok && run(&p, &err);
    if (ok && ranks > 1) { /* they have said why */
        close_program(&p);
        return dl_streams_end("dlrun", status);
    }
    return end(&p, ok, &err);
}
