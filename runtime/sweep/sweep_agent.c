/* `dlrun agent`: trains trials of a sweep, a run of dlrun each, until none is left to take. A run
 * of its own for each trial, so that one whose values cannot be trained with is not the end of the
 * others, and the agent outlives one that is killed. After a run that failed for another reason
 * than its values (files, memory, a lost rank, a signal) it ends: the next would meet the same. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/launch/launch.h"
#include "runtime/sweep/sweep.h"

static const dl_option own_options[] = {
    {"count", 0, "N", "end after N trials"},
    {"ranks", 'n', "N", "N ranks for each run (as many as the sweep was made for)"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlrun agent ID [--count N] [-n N] [what its runs are given in addition to what the "
    "sweep "
    "was...]\n\n"
    "Trains trials of a sweep that `dlrun sweep` has made, one after the other, until none is "
    "left.\n"
    "Start as many agents as you like, wherever the sweep's directory is. A trial that a job was\n"
    "stopped in, or killed in, is gone on with by the next (docs/guide/sweep.md).\n\n"
    "ID is a name, for EXPDIR/sweeps/ID, or that directory.\n\n"
    "Exit status: 0 none is left, or N are trained; 75 stopped by a signal, the trial handed "
    "back;\n"
    "else that of a run that failed for another reason than its values (8: it was killed).\n\n";

typedef struct {
    dl_arena *arena;
    const char *dir;
    const dl_sweep_file *file;
    dlr_trial_maker maker;
    const dl_option *options;
    const dl_console *out;
    char **argv; /* of a run */
    sigset_t watched, before;
    bool stopped; /* a signal asked for it */
} agent;

/* ---- a run ---- */

static void start(const agent *a, pid_t parent) {
    sigprocmask(SIG_SETMASK, &a->before, NULL);
    setpgid(0, 0); /* a terminal's Ctrl-C is the agent's to pass on */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(DL_REQUEUE);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    execv("/proc/self/exe", a->argv);
    fprintf(stderr, "dlrun agent: error: cannot start dlrun: %s\n", strerror(errno));
    _exit(DL_RESOURCE);
}

/* Whether a signal has asked to stop while no run was under way. */
static bool is_stopped(agent *a) {
    static const struct timespec now = {0};
    for (int number; (number = sigtimedwait(&a->watched, NULL, &now)) > 0;)
        a->stopped |= number != SIGCHLD;
    return a->stopped;
}

/* Waits for it, and passes on signals. Returns its exit status, or of one that was killed minus the
 * signal. */
static int wait_for(agent *a, pid_t child) {
    for (int status;;) {
        int number = sigwaitinfo(&a->watched, NULL);
        if (number > 0 && number != SIGCHLD) {
            if (kill(child, number) == 0) a->stopped = true;
            continue;
        }
        if (waitpid(child, &status, WNOHANG) != child) continue;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
}

/* The trial that this process had when it was killed. In the arena; NULL: none, or the rank that
 * had it was another process. */
static const dlr_trial *trial_of(dl_arena *arena, const agent *a, pid_t child) {
    dlr_trials all;
    dl_error ignored = {0}; /* what has been lost is told with or without its name */
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    if (!dlr_trials_read(arena, a->dir, NULL, false, &all, &ignored)) return NULL;
    for (int i = 0; i < all.list.n; i++) {
        const dlr_trial *t = &all.list.at[i];
        if (t->state == DLR_TRIAL_TAKEN && t->pid == child && t->host && strcmp(t->host, host) == 0)
            return t;
    }
    return NULL;
}

static bool fail_killed(const agent *a, pid_t child, int number, dl_error *err) {
    dl_arena *arena = dl_arena_new(a->arena);
    const dlr_trial *t = trial_of(arena, a, child);
    const char *which =
        t ? dl_format(arena, "the run of trial %lld (%.200s)", (long long)t->number, t->name)
          : dl_format(arena, "the run of process %lld", (long long)child);
    dl_fail(err, DL_PEER,
            "%s was killed by signal %d (%s)%s; what it had taken stays open, and `dlrun agent "
            "%.300s` goes "
            "on with it",
            which, number, strsignal(number),
            number == SIGKILL ? ", as the system does where memory runs out" : "", a->dir);
    dl_arena_free(arena);
    return false;
}

static bool run_one(agent *a, int *status, dl_error *err) {
    fflush(stdout);
    pid_t self = getpid(), child = fork();
    if (child == 0) start(a, self);
    if (child < 0) return dl_fail_errno(err, DL_RESOURCE, "cannot start a run");
    *status = wait_for(a, child);
    if (*status < 0 && !a->stopped) return fail_killed(a, child, -*status, err);
    if (*status < 0) *status = DL_REQUEUE; /* by a signal passed on, before it could take it */
    return true;
}

/* ---- all of them ---- */

/* How many trials have ended for good. */
static bool count_ended(const agent *a, int64_t *n, dl_error *err) {
    dl_arena *arena = dl_arena_new(a->arena);
    dlr_trials all;
    bool ok = dlr_trials_read(arena, a->dir, NULL, false, &all, err);
    *n = ok ? dlr_trials_ended(&all) : 0;
    dl_arena_free(arena);
    return ok;
}

static bool is_any_left(const agent *a, bool *any, dl_error *err) {
    dl_arena *arena = dl_arena_new(a->arena);
    dlr_trial trial;
    bool ok = dlr_trials_take(arena, a->dir, &a->maker, true, &trial, NULL, err);
    *any = ok && trial.number >= 0;
    dl_arena_free(arena);
    return ok;
}

/* Runs until `count` (0: all) have ended. *status: what the agent ends with. */
static bool run_all(agent *a, int64_t count, int *status, dl_error *err) {
    *status = DL_OK;
    for (int64_t done = 0; count == 0 || done < count; done++) {
        bool any;
        int64_t before, after;
        if (!is_any_left(a, &any, err)) return false;
        if (!any) return true;
        if (is_stopped(a)) {
            *status = DL_REQUEUE;
            return true;
        }
        if (!count_ended(a, &before, err) || !run_one(a, status, err) ||
            !count_ended(a, &after, err))
            return false;
        bool of_values = *status == DL_USAGE || *status == DL_INPUT || *status == DL_NUMERIC;
        if (*status != DL_OK && !(of_values && after > before)) return true;
        *status = DL_OK; /* what the values are to blame for stands in the sweep */
    }
    return true;
}

/* dlrun -n N ARGUMENTS... MORE... --sweep_id=DIR */
static bool put_together(agent *a, int ranks, int more, char **words, dl_error *err) {
    int made_for, argc, at = 0;
    char **stored;
    if (!dl_sweep_arguments(a->arena, a->dir, &made_for, &argc, &stored, err)) return false;
    if (ranks < 1) ranks = made_for;
    a->argv = DL_NEWS(a->arena, char *, argc + more + 4);
    a->argv[at++] = stored[0];
    if (ranks > 1) a->argv[at++] = dl_format(a->arena, "-n%d", ranks);
    for (int i = 1; i < argc; i++) a->argv[at++] = stored[i];
    for (int i = 0; i < more; i++) a->argv[at++] = words[i];
    int first = ranks > 1; /* without -n */
    if (!dl_sweep_fits(a->arena, a->file, ranks, at - first, a->argv + first, a->options, NULL,
                       a->out, err))
        return false;
    a->argv[at++] = dl_format(a->arena, "--sweep_id=%s", a->dir);
    return true;
}

/* The number of --count, taken out of the words; 0: it is not there, -1 with an error. */
static int64_t take_count(const dl_config *c, int *argc, char **argv, dl_error *err) {
    int64_t n = 0;
    dl_sweep_drop(argc, argv, "count", true);
    return dl_option_int(c, "count", 1, INT32_MAX, &n, err) ? n : -1;
}

static bool open_agent(agent *a, const char *id, int ranks, int argc, char **argv, dl_error *err) {
    dlr_world_said said;
    if (!dlr_world_read(&said, err)) return false;
    if (said.size_name && said.world.size > 1)
        return dl_fail(
            err, DL_USAGE,
            "an agent starts the ranks of its runs, and by %s=%d this is one of several: give "
            "--sweep_id to dlrun itself, which then trains one trial, or start one agent",
            said.size_name, said.world.size);
    a->dir = dl_sweep_dir(a->arena, id, argc, argv, a->options, err);
    a->file = a->dir ? dl_sweep_open(a->arena, a->dir, err) : NULL;
    if (!a->file) return false;
    a->maker = dl_sweep_maker(a->file, "");
    sigemptyset(&a->watched);
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU, SIGCHLD};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&a->watched, signals[i]);
    sigprocmask(SIG_BLOCK, &a->watched, &a->before);
    return put_together(a, ranks, argc - 1, argv + 1, err);
}

static bool run(dl_invocation *call, dl_error *err) {
    dl_arena *arena = call->arena;
    int argc = call->argc;
    char **argv = call->argv;
    agent a = {.arena = arena,
               .options = dl_sweep_options(arena, own_options, call->run_options),
               .out = call->out};
    int ranks = dl_launch_take(&argc, argv, err);
    if (ranks < 0) return false;
    const char *id = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    if (id) argv[1] = argv[0], argc--, argv++;
    dl_config *c = dl_config_open(arena, argc, argv, a.options, err);
    if (!c) return false;
    if (dl_config_option(c, "help"))
        return dl_sweep_print_help(call->out, usage, own_options, c, err);
    if (!id)
        return dl_fail(err, DL_USAGE,
                       "which sweep comes first: dlrun agent ID (--help tells more)");
    int64_t count = take_count(c, &argc, argv, err);
    if (count < 0 || !open_agent(&a, id, ranks, argc, argv, err)) return false;
    if (a.file->trials < 0 && count == 0)
        return dl_fail(err, DL_USAGE, "%.300s has no end: say --count N, or run_cap in its file",
                       a.file->path);
    return run_all(&a, count, &call->status, err);
}

const dl_subcommand dl_subcommand_agent = {.name = "agent",
                                           .help = "train trials of a sweep, one after the other",
                                           .usage = usage,
                                           .options = own_options,
                                           .parses_itself = true,
                                           .run = run};
