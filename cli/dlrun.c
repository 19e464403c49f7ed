/* `dlrun`: trains a model; the commands predict, sweep and agent. A rank among several ends with
 * care: the others wait for it, and MPI may hang. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/environment.h"
#include "compiler/arguments.h"
#include "runtime/job/job.h"
#include "runtime/launch/launch.h"
#include "runtime/predict/predict_command.h"
#include "runtime/runs/runs.h"
#include "runtime/sweep/sweep.h"

static const dl_option options[] = {
    {"dry_run", 0, NULL, "compile, print parameters, memory and kernels, and stop there"},
    {"json", 0, NULL, "with --dry_run: print them, and every key's value, as one JSON object"},
    {"profile", 0, NULL,
     "record some steps of the first epoch: profile.json and profile.txt in the run's directory"},
    {"ranks", 'n', "N", "start N ranks of this run by mpirun (docs/guide/many-gpus.md)"},
    {"sweep_id", 0, "ID", "train one trial of that sweep, of `dlrun sweep` (docs/guide/sweep.md)"},
    {"distributed", 'd', NULL, "taken for compatibility: ranks are those of the environment"},
    {"verbose", 'v', NULL, "log more"},
    {"show-config", 0, NULL, "log the command line, too"},
    DL_OPTION_HELP,
    {"version", 0, NULL, "print the version; with --verbose also commit, libraries, CPU and MPI"},
    {0},
};

static const dl_subcommand *const commands[] = {
    &dl_subcommand_predict, &dl_subcommand_test, &dl_subcommand_sweep,   &dl_subcommand_agent,
    &dl_subcommand_list,    &dl_subcommand_show, &dl_subcommand_compare, &dl_subcommand_report};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const char start_of_usage[] =
    "dlrun: trains models for scientific deep learning\n\n"
    "usage: dlrun [MODEL.dl | PLAN.dlp] [FILE.yaml] [--config NAME] [--key=value...]\n"
    "       dlrun COMMAND [ARGUMENT...]\n\n"
    "Trains a model; docs/guide/train.md tells the whole story.\n\ncommands:\n";
static const char after[] =
    "examples:\n"
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
    "  dlrun net.dlp                               a plan of `dlc compile -o`, where there is no "
    "compiler\n"
    "  dlrun models/vit.dl --help                  all options and keys, the model's among them\n\n"
    "Exit status: 0 done, 2 usage, 3 input, 4 files, 5 memory, 7 a loss that is not finite, 8 "
    "another rank,\n75 stopped by a signal, or --stop_after (a checkpoint is written: run again "
    "with "
    "--resume).\n";

/* ---- a run ---- */

/* A rank is lost while this one is far from the comm: it ends here. */
static void end_lost(void *of, const dl_error *err) {
    const dl_run_job *p = of;
    fprintf(stderr, "rank %d: dlrun: error: %s\n", p->world.rank, err->message);
    _exit(dl_launch_report(p->world.rank, err->code));
}

/* Rank 0 speaks for all; the others' standard output is nobody's. */
static void silence(const dl_run_job *p) {
    int null = p->world.rank ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (null >= 0) dup2(null, STDOUT_FILENO), close(null);
}

static bool train(dl_run_job *p, dl_sweep_run *trial, dl_error *err) {
    const char *sweep = dl_config_option(p->config, "sweep_id");
    if (!dl_job_check_options(p, err) || !dl_job_join(p, end_lost, p, err)) return false;
    silence(p);
    if (sweep && !dl_sweep_take(trial, p, sweep, options, err)) return false;
    return (sweep && trial->trial.number < 0) /* none is left */ || dl_job_run(p, err);
}

/* ---- the end ---- */

/* The outcome of a trial stands in its sweep before the run ends. */
static bool end_trial(const dl_sweep_run *trial, dl_run_job *p, bool ok, dl_error *err) {
    dl_error why = {0};
    if (dl_sweep_end(trial, p, ok, err, &why)) return ok;
    if (ok) return dl_fail(err, why.code, "%s", why.message);
    dl_console_warning(p->out, why.message);
    return false;
}

static void report(dl_run_job *p, const dl_error *err) {
    dl_job_log_error(p, err);
    bool common =
        err->code == DL_REQUEUE || err->code == DL_NUMERIC; /* all ranks end so, and one says it */
    if (common && !dl_job_is_rank0(p)) return;
    char who[32] = "";
    if (p->comm) snprintf(who, sizeof who, "rank %d: ", p->world.rank);
    fprintf(stderr, "%s%s%s\n", who, /* at once: several ranks may speak */
            cli_is_located(err)       ? ""
            : err->code == DL_REQUEUE ? "dlrun: "
                                      : "dlrun: error: ",
            err->message);
}

enum { GRACE_US = 200000 };

/* The end of a rank. One that ends alone tells the others, who would wait for it; and where MPI may
 * hang, or may still write to what would be freed, nothing is ended but the process. */
static void end_rank(dl_run_job *p, int code, const dl_error *err) {
    bool common = code == DL_OK || code == DL_REQUEUE || code == DL_NUMERIC;
    dl_error lost = {0};
    if (common && dlr_comm_barrier(p->comm, &lost)) {
        dl_job_close_device(p); /* devices, too, end together, while somebody watches */
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
    dl_job_close_log(p);
    _exit(dl_launch_report(p->world.rank, cli_end("dlrun", code)));
}

static int end(dl_run_job *p, bool ok, const dl_error *err) {
    int code = ok ? DL_OK : err->code ? (int)err->code : DL_INTERNAL, rank = p->world.rank;
    if (!ok) report(p, err);
    if (p->comm) {
        signal(SIGTERM, SIG_IGN); /* by mpirun, when another rank was faster */
        end_rank(p, code, err);
    }
    dl_job_close(p);
    return dl_launch_report(rank, cli_end("dlrun", code));
}

/* ---- the program ---- */

static const char *join(dl_arena *arena, int n, char *const *words) {
    dl_buf b = {0};
    for (int i = 0; i < n; i++) dl_putf(&b, "%s%s", i ? " " : "", words[i]);
    const char *text = b.at ? dl_strndup(arena, b.at, b.n) : "";
    dl_buf_free(&b);
    return text;
}

static void put_usage(dl_buf *to) {
    dl_puts(to, start_of_usage);
    for (int i = 0; i < N_COMMANDS; i++)
        dl_putf(to, "  %-8s %s\n", commands[i]->name, commands[i]->help);
    dl_puts(to, "\n");
}

static const dl_subcommand train_help = {
    .put_usage = put_usage, .options = options, .takes_keys = true, .after = after};

static void print_version(const dl_config *c) {
    cli_print_version("dlrun");
    if (dl_config_option(c, "verbose")) cli_print_verbose_version();
}

/* Seconds: a rank that waits for MPI's own end says so itself a second after the timeout. */
enum { END_S = 2 };

static int run(int argc, char **argv) {
    dl_error err = {0};
    const dl_console out = cli_console("dlrun");
    dl_sweep_run trial = {.trial.number = -1};
    dl_run_job p = {.arena = dl_arena_new(NULL), .out = &out, .dir.lock = -1};
    p.command_line = join(p.arena, argc, argv);
    int status = 0, ranks = dl_launch_take(&argc, argv, &err);
    p.argc = argc, p.argv = argv;
    p.config = ranks < 0 ? NULL : dl_config_open(p.arena, argc, argv, options, &err);
    bool ok = p.config;
    if (ok && dl_config_option(p.config, "help"))
        ok = cli_help(&train_help, p.config, &err);
    else if (ok && dl_config_option(p.config, "version"))
        print_version(p.config);
    else if (ok && ranks > 1) {
        double timeout = dl_config_float(p.config, DL_KEY_comm_timeout);
        ok = dl_launch(ranks, timeout + END_S, argc, argv, &status, &out, &err);
    } else
        ok = end_trial(&trial, &p, ok && train(&p, &trial, &err), &err);
    if (ok && ranks > 1) { /* they have said why */
        dl_job_close(&p);
        return cli_end("dlrun", status);
    }
    return end(&p, ok, &err);
}

int main(int argc, char **argv) {
    static const char *const who[N_COMMANDS] = {"dlrun", "dlrun", "dlrun sweep", "dlrun agent",
                                                "dlrun", "dlrun", "dlrun",       "dlrun"};
    cli_start("dlrun");
    for (int i = 0; argc > 1 && i < N_COMMANDS; i++)
        if (!strcmp(argv[1], commands[i]->name))
            return cli_end("dlrun", cli_run(who[i], commands[i], argc - 1, argv + 1, options));
    return run(argc, argv);
}
