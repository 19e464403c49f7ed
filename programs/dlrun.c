/* `dlrun`: trains a model. The configuration and the model become a plan (compiler), the plan and
 * the data a run (runtime); this file is where the two meet, and main reads in the order of what
 * happens. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/arguments.h"
#include "ir/base/output.h"
#include "ir/base/streams.h"
#include "programs/data_notes.h"
#include "programs/dlrun_job.h"
#include "programs/environment.h"
#include "programs/groups.h"
#include "programs/identity.h"
#include "programs/launch.h"
#include "programs/predict.h"
#include "programs/resume.h"
#include "programs/run_dir.h"
#include "programs/samples.h"
#include "programs/sweep.h"
#include "programs/version.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/log.h"
#include "runtime/formats/weights.h"
#include "runtime/train/feed.h"

static const dl_option options[] = {
    {"dry_run", 0, NULL, "compile, print parameters, memory and kernels, and stop there"},
    {"json", 0, NULL, "with --dry_run: print them, and every key's value, as one JSON object"},
    {"profile", 0, NULL,
     "record some steps of the first epoch: profile.json and profile.txt in the run's directory"},
    {"ranks", 'n', "N", "start N ranks of this run by mpirun (docs/distributed.md)"},
    {"sweep_id", 0, "ID", "train one trial of that sweep, of `dlrun sweep` (docs/sweeps.md)"},
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
    "  dlrun --config short --local_batch_size 4   a real one; runs/short/1GPU/00/ is what it "
    "leaves\n"
    "  dlrun --config short --resume               go on where a run stopped (Ctrl-C leaves a "
    "checkpoint)\n"
    "  dlrun --config short --resume=DIR           go on from the run, or the checkpoint, in DIR\n"
    "  dlrun -n 4 --config short                   four ranks of this machine, by mpirun\n"
    "  dlrun --data_loader_config synthetic        on noise, without any data file\n"
    "  dlrun --config base --dry_run               parameters and exact memory, nothing else\n"
    "  dlrun predict runs/short/1GPU/00 FILE -o OUT   what the trained model makes of a file "
    "(predict "
    "--help)\n"
    "  dlrun sweep FILE.yaml --config short        trials of many values; dlrun agent ID trains "
    "them "
    "(--help)\n"
    "  dlrun models/config/hello.yaml              a file that is one configuration, and names its "
    "model\n"
    "  dlrun models/vit.dl --help                  all options and keys, the model's among them\n\n"
    "Exit status: 0 done, 2 usage, 3 input, 4 files, 5 memory, 7 a loss that is not finite, 8 "
    "another rank, "
    "75 stopped by a "
    "signal, or --stop_after\n"
    "(a checkpoint is written: run again with --resume).\n\n";

/* ---- what is asked for ---- */

/* What is not built yet is refused, never quietly left out. */
static bool refuse_unbuilt(const dl_config *c, dl_error *err) {
    if (!dl_config_bool(c, DL_KEY_save_checkpoint))
        return dl_config_fail(
            c, DL_KEY_save_checkpoint, err,
            "a run without checkpoints is not in this version; --keep_checkpoints=1 keeps one");
    if (dl_job_replays(c) && !dl_config_is_null(c, DL_KEY_stop_after))
        return dl_config_fail(c, DL_KEY_stop_after, err,
                              "a replay keeps no checkpoint to go on from");
    if (dl_config_bool(c, DL_KEY_sharded_checkpoints) &&
        dl_config_bool(c, DL_KEY_torch_checkpoints))
        return dl_config_fail(
            c, DL_KEY_sharded_checkpoints, err,
            "with torch_checkpoints rank 0 writes the whole state in one file, for which it "
            "needs the room that this is to save; --torch_checkpoints=false leaves it out");
    return true;
}

/* A rank is lost while this one is far from the comm: it ends here. */
static void end_lost(void *of, const dl_error *err) {
    const dl_run_job *p = of;
    fprintf(stderr, "rank %d: dlrun: error: %s\n", p->world.rank, err->message);
    _exit(dl_launch_report(p->world.rank, err->code));
}

/* Rank 0 speaks for all; the others' standard output is nobody's. */
static void share_streams(const dl_run_job *p) {
    bool all = dl_config_bool(p->config, DL_KEY_log_all_ranks);
    if (all) dlr_log_set_rank(p->world.rank);
    dlr_log_set_stderr(all || p->world.rank == 0);
    int null = p->world.rank ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (null >= 0) dup2(null, STDOUT_FILENO), close(null);
}

static bool choose_device(dl_run_job *p, dl_error *err) {
    const char **device = &p->device.device;
    if (!dl_device_choose(p->arena, dl_config_str(p->config, DL_KEY_device), NULL, &p->device, err))
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
    if (strncmp(device, "cuda", 4) == 0 &&
        !(o->driver = dl_device_driver(device, &o->ordinal, err)))
        return false;
    p->warnings.n = 0; /* it is chosen once more, when all know each other */
    return true;
}

/* Who trains together: everybody's first act, so that whoever is missing is missed here. */
static bool open_world(dl_run_job *p, dl_error *err) {
    p->world = (dlr_world){.size = 1, .local_size = 1};
    dlr_world_options o = {
        .timeout = dl_config_float(p->config, DL_KEY_comm_timeout), .lost = end_lost, .context = p};
    dlr_world_said said;
    if (!dlr_world_read(&said, err)) return false;
    if (said.world.size > 1) dl_launch_begin(said.world.rank);
    dlr_comm *comm = name_device(p, &said, &o, err) ? dlr_comm_open(&o, err) : NULL;
    if (!comm) return false;
    p->world = dlr_comm_world(comm);
    if (p->world.size > 1) {
        p->comm = comm;
        dl_launch_joined(p->world.rank);
        share_streams(p);
        return true;
    }
    return dlr_comm_close(comm, err);
}

static bool open_session(dl_run_job *p, dl_error *err) {
    dl_config *c = p->config;
    dl_buf faults = {0};
    if (!dl_config_take_model(c, err)) return false;
    p->compiler = dl_arena_new(p->arena);
    p->session = dl_session_open(p->compiler, c, p->world.size, &faults, err);
    const dl_buf *text = p->session ? &p->session->diagnostics : &faults;
    if (text->n && dl_job_leads(p)) fputs(text->at, stderr);
    dl_buf_free(&faults);
    if (!p->session) return false;
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
    return dl_samples_settle(c, err);
}

/* What local_batch_size, and a batch size of each rank, made of it, for log and record. */
static bool settle_batch(const dl_run_job *p, dl_error *err) {
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

/* Files that are used late are looked at early: a mistyped name shall not cost a compilation. */
static bool check_files(dl_run_job *p, dl_error *err) {
    const dl_config *c = p->config;
    dlr_weights weights = {0};
    bool ok = dl_config_is_null(c, DL_KEY_init_weights) ||
              (dlr_weights_open(dl_config_str(c, DL_KEY_init_weights), &weights, err) &&
               check_weights(p->arena, p->session->module->graphs.at[0], weights.file, err));
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

/* Beside the log, where who looks for the reason will look. */
static void keep_flight(const dl_run_job *p, const char *run) {
    if (p->comm)
        dlr_comm_set_flight(p->comm, dl_format(p->arena, "%s/flight-%d.txt", run, p->world.rank));
}

static bool open_log(dl_run_job *p, dl_error *err) {
    const dl_config *c = p->config;
    const char *path = dl_run_dir(p->arena, c, p->world.size, err);
    dlr_log_set_named(!dlr_record_find(dl_config_str(c, DL_KEY_record))->plain_log);
    if (path) keep_flight(p, path);
    if (path && !dl_job_leads(p)) {
        dlr_rundir_name(p->arena, path, &p->dir);
        p->warnings.n = 0;
        return true;
    }
    bool ok = path && (p->dir.lock >= 0 ||
                       dlr_rundir_open(p->arena, path, &p->dir, err)); /* a trial's is */
    if (!ok || !dlr_log_open(p->dir.log, err)) return false;
    p->logs = true;
    if (p->sweep) dlr_log_info("HPO sweep %s, trial cfg %s", p->sweep->dir, p->sweep->trial.run);
    if (dl_config_option(c, "show-config"))
        dlr_log_info("Command line config: %s", p->command_line);
    dl_config_log(c, log_line, NULL);
    dl_job_tell_warnings(p);
    return true;
}

static bool load_data(dl_run_job *p, dl_error *err) {
    dlr_log_info("rank %d, begin data loader init", p->world.rank);
    if (!open_both(p, false, err)) return false;
    if (dl_job_leads(p) && !dl_data_notes(p->session, p->train, p->valid, p->global_batch, err))
        return false;
    dlr_log_info("rank %d, data loader initialized with config %s", p->world.rank,
                 dl_config_str(p->config, DL_KEY_data_loader_config));
    return true;
}

static bool take_trial(dl_run_job *p, dl_error *err) {
    const char *id = dl_config_option(p->config, "sweep_id");
    return !id || dl_sweep_take(p, id, options, err);
}

static bool run(dl_run_job *p, dl_error *err) {
    const dl_config *c = p->config;
    bool dry = dl_config_option(c, "dry_run") != NULL;
    if (dl_config_option(c, "profile") && dry)
        return dl_fail(err, DL_USAGE, "--profile records steps, and --dry_run makes none");
    if (dl_config_option(c, "json") && !dry)
        return dl_fail(err, DL_USAGE, "--json goes with --dry_run");
    if (dl_config_option(c, "verbose")) dlr_log_set_level(DLR_DEBUG);
    if (!open_world(p, err) || !take_trial(p, err)) return false;
    if (p->sweep && p->sweep->trial.number < 0) return true; /* none is left */
    if (!open_session(p, err) || !refuse_unbuilt(c, err) || !choose_device(p, err)) return false;
    bool records = !dry && !dl_job_replays(c);
    if (records && !dl_tracking_options(p->arena, c, p->world.size, &p->wandb, err)) return false;
    dl_job_add_warnings(p);
    if (dry) {
        dl_job_tell_warnings(p);
        p->store = store_of(p);
        return dl_job_compile(p, err) && (!dl_job_leads(p) || dl_job_print_plan(p, err));
    }
    if (!settle_batch(p, err)) return false;
    if (!check_files(p, err)) return false;
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

/* What has become of a trial stands in its sweep before the run ends. */
static bool end_trial(dl_run_job *p, bool ok, dl_error *err) {
    dl_error why = {0};
    if (dl_sweep_end(p, ok, err, &why)) return ok;
    if (ok) return dl_fail(err, why.code, "%s", why.message);
    fprintf(stderr, "dlrun: warning: %s\n", why.message);
    return false;
}

static void report(dl_run_job *p, const dl_error *err) {
    dl_job_tell_warnings(p); /* the cause of a fault may be among them */
    if (p->logs) {           /* in out.log as well, for who looks there in the morning */
        dlr_log_set_stderr(false);
        dlr_log(err->code == DL_REQUEUE ? DLR_WARNING : DLR_ERROR, "%s", err->message);
    }
    bool common =
        err->code == DL_REQUEUE || err->code == DL_NUMERIC; /* all ranks end so, and one says it */
    if (common && !dl_job_leads(p)) return;
    bool located = strstr(err->message, ": error: ") != NULL; /* file:line:column: error: ... */
    char who[32] = "";
    if (p->comm) snprintf(who, sizeof who, "rank %d: ", p->world.rank);
    fprintf(stderr, "%s%s%s\n", who, /* at once: several ranks may speak */
            located                   ? ""
            : err->code == DL_REQUEUE ? "dlrun: "
                                      : "dlrun: error: ",
            err->message);
}

static void close_program(dl_run_job *p) {
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
static bool help(const dl_run_job *p, dl_error *err) {
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

enum { GRACE_US = 200000 };

/* The end of a rank. One that ends alone tells the others, who would wait for it; and where MPI may
 * hang, or may still write to what would be freed, nothing is ended but the process. */
static void end_rank(dl_run_job *p, int code, const dl_error *err) {
    bool common = code == DL_OK || code == DL_REQUEUE || code == DL_NUMERIC;
    dl_error lost = {0};
    if (common && dlr_comm_barrier(p->comm, &lost)) {
        dlr_exec_close(p->exec); /* devices, too, end together, while somebody watches */
        p->exec = NULL;
        if (dlr_comm_close(p->comm, &lost)) {
            p->comm = NULL;
            return;
        }
    }
    if (common)
        report(p, &lost), code = lost.code;
    else if (code == DL_PEER) {
        dlr_comm_close(p->comm, &lost); /* the others hear of it, too */
        usleep(GRACE_US); /* whose fault it is ends first: mpirun tells the first one's status */
    } else
        dlr_comm_leave(p->comm, err->message);
    dl_error closing = {0};
    if (p->logs) dlr_log_close(&closing);
    _exit(dl_launch_report(p->world.rank, dl_streams_end("dlrun", code)));
}

static int end(dl_run_job *p, bool ok, const dl_error *err) {
    int code = ok ? DL_OK : err->code ? (int)err->code : DL_INTERNAL, rank = p->world.rank;
    if (!ok) report(p, err);
    if (p->comm) {
        signal(SIGTERM, SIG_IGN); /* by mpirun, when another rank was faster */
        end_rank(p, code, err);
    }
    close_program(p);
    return dl_launch_report(rank, dl_streams_end("dlrun", code));
}

enum {
    END_S = 2 /* a rank that waits for MPI's own end says so itself a second behind the timeout */
};

int main(int argc, char **argv) {
    dl_exit_without_memory("dlrun");
    dl_streams_start();
    if (argc > 1 && strcmp(argv[1], "predict") == 0)
        return dl_streams_end("dlrun", dl_predict_main(argc - 1, argv + 1));
    if (argc > 1 && strcmp(argv[1], "sweep") == 0)
        return dl_streams_end("dlrun", dl_sweep_main(argc - 1, argv + 1, options));
    if (argc > 1 && strcmp(argv[1], "agent") == 0)
        return dl_streams_end("dlrun", dl_agent_main(argc - 1, argv + 1, options));
    dl_error err = {0};
    dl_run_job p = {.arena = dl_arena_new(NULL), .dir.lock = -1};
    p.command_line = join(p.arena, argc, argv);
    int status = 0, ranks = dl_launch_take(&argc, argv, &err);
    p.argc = argc, p.argv = argv;
    p.config = ranks < 0 ? NULL : dl_config_open(p.arena, argc, argv, options, &err);
    bool ok = p.config;
    if (ok && dl_config_option(p.config, "help"))
        ok = help(&p, &err);
    else if (ok && dl_config_option(p.config, "version"))
        dl_version_print(p.arena, "dlrun");
    else if (ok && ranks > 1) {
        double timeout = dl_config_float(p.config, DL_KEY_comm_timeout);
        ok = dl_launch(ranks, timeout + END_S, argc, argv, &status, &err);
    } else
        ok = end_trial(&p, ok && run(&p, &err), &err);
    if (ok && ranks > 1) { /* they have said why */
        close_program(&p);
        return dl_streams_end("dlrun", status);
    }
    return end(&p, ok, &err);
}
