/* mpirun's own exit status says little: Open MPI's is that of the first rank that failed, or 128 and a
 * signal, MPICH's is all of them or-ed. So each rank writes its status to a file that the launcher made. */
#include "programs/launch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "runtime/comm.h"

#define STATUS_FILE "DLRUN_STATUS_FILE"
enum { MOST_N = 4096, GRACE_MS = 5000, TERM_MS = 1500, LOOK_MS = 100 };

typedef struct {
    const char *family, *mark; /* in the first line of mpirun --version */
} mpi_family;
static const mpi_family families[] = {{"openmpi", "Open"}, {"mpich", "HYDRA"}, {"mpich", "Intel"}};

/* What follows -n, -nN, --ranks or --ranks=N at argv[*i]; NULL: it is none of them. */
static const char *count_at(int argc, char **argv, int *i) {
    static const char long_name[] = "--ranks";
    const char *arg = argv[*i];
    size_t n = sizeof long_name - 1;
    if (strncmp(arg, "-n", 2) == 0 && isdigit((unsigned char)arg[2])) return arg + 2;
    if (strncmp(arg, long_name, n) == 0 && arg[n] == '=') return arg + n + 1;
    if (strcmp(arg, "-n") != 0 && strcmp(arg, long_name) != 0) return NULL;
    return *i + 1 < argc ? argv[++*i] : "";
}

int dl_launch_take(int *argc, char **argv, dl_error *err) {
    int n = 0, kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (i < *argc) argv[kept++] = argv[i++];
            break;
        }
        int first = i;
        const char *text = count_at(*argc, argv, &i);
        if (!text) {
            argv[kept++] = argv[first];
            continue;
        }
        char *end;
        long value = strtol(text, &end, 10);
        if (!isdigit((unsigned char)*text) || *end || value < 1 || value > MOST_N) {
            dl_fail(err, DL_USAGE, "-n takes the number of ranks, 1 to %d, not '%s'", MOST_N, text);
            return -1;
        }
        n = (int)value;
    }
    *argc = kept, argv[kept] = NULL;
    return n;
}

/* ---- a rank ---- */

int dl_launch_report(int rank, int status) {
    const char *path = getenv(STATUS_FILE);
    int fd = path && *path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0) return status;
    char line[64];
    int n = snprintf(line, sizeof line, "%d %d\n", rank, status);
    bool told = write(fd, line, (size_t)n) == n;
    close(fd);
    /* all ranks stop so, one before the other: mpirun should not take the first for a failure and end the
     * rest */
    return told && status == DL_REQUEUE ? 0 : status;
}

/* ---- which mpirun ---- */

/* The first line that `program --version` prints; empty: it does not start. */
static void version_of(const char *program, char *line, size_t room) {
    int ends[2];
    line[0] = 0;
    if (pipe2(ends, O_CLOEXEC)) return;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0), dup2(ends[1], 1), dup2(ends[1], 2);
        execlp(program, program, "--version", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while (n + 1 < room && (got = read(ends[0], line + n, room - 1 - n)) > 0) n += (size_t)got;
    char rest[512];
    while (read(ends[0], rest, sizeof rest) > 0) {
    }
    close(ends[0]);
    line[n] = 0;
    int status = 0;
    if (pid > 0) waitpid(pid, &status, 0);
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) line[0] = 0;
}

/* The mpirun to use and its family: $DLR_MPIRUN, or the first of this machine that dlrun has a module for. */
static const char *find_mpirun(const char **family, dl_error *err) {
    const char *own = getenv("DLR_MPIRUN");
    const char *const names[] = {own && *own ? own : "mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich"};
    char line[400], found[400] = "";
    for (size_t i = 0; i < sizeof names / sizeof *names && !(i && own && *own); i++) {
        version_of(names[i], line, sizeof line);
        for (size_t k = 0; line[0] && k < sizeof families / sizeof *families; k++) {
            if (!strstr(line, families[k].mark)) continue;
            *family = families[k].family;
            if (dlr_comm_speaks(*family)) return names[i];
            snprintf(found, sizeof found, "; %s is of %s, for which this dlrun has no module", names[i],
                     *family);
        }
    }
    dl_fail(err, DL_RESOURCE,
            "-n starts ranks by mpirun, and there is none that can be used%s: install Open MPI or MPICH, or "
            "name it by "
            "DLR_MPIRUN (docs/distributed.md)",
            found);
    return NULL;
}

/* Open MPI would print a page. */
static bool may_be_root(const char *family, dl_error *err) {
    const char *a = getenv("OMPI_ALLOW_RUN_AS_ROOT"), *b = getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
    if (geteuid() || strcmp(family, "openmpi") != 0 || (a && b && atoi(a) && atoi(b))) return true;
    return dl_fail(err, DL_USAGE,
                   "Open MPI starts nothing for root unless OMPI_ALLOW_RUN_AS_ROOT=1 and "
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                   "are set: as in a container, where root is nobody else");
}

/* ---- the one that waits ---- */

typedef struct {
    pid_t mpirun;
    char path[3000]; /* the ranks' statuses */
    int stops;       /* signals passed on */
    int64_t deadline;
    bool ended;
    int status;
} job;

/* The status of the first rank that did not end well; 0: none. */
static int worst_status(const job *j) {
    FILE *f = fopen(j->path, "re");
    int rank, status, first = 0;
    while (f && !first && fscanf(f, "%d %d", &rank, &status) == 2) first = status;
    if (f) fclose(f);
    return first;
}

static void child(const char *mpirun, const char *family, int n, int argc, char **argv, pid_t parent) {
    char program[4096], number[16], *words[argc + 64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    snprintf(number, sizeof number, "%d", n);
    int at = 0;
    words[at++] = (char *)mpirun;
    words[at++] = "-n", words[at++] = number;
    if (strcmp(family, "openmpi") ==
        0) /* more ranks than CPUs are fine; threads go where they like, see pool.h */
        words[at++] = "--oversubscribe", words[at++] = "--bind-to", words[at++] = "none";
    const char *more = getenv("DLR_MPIRUN_ARGS");
    char *rest = more ? strdup(more) : NULL;
    for (char *word = rest ? strtok(rest, " ") : NULL; word && at < 48; word = strtok(NULL, " "))
        words[at++] = word;
    words[at++] = program;
    for (int i = 1; i < argc; i++) words[at++] = argv[i];
    words[at] = NULL;
    setenv("DLR_MPI", family, 1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0); /* a terminal's Ctrl-C is ours to pass on */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, 0);
    execvp(mpirun, words);
    fprintf(stderr, "dlrun: error: %s: %s\n", mpirun, strerror(errno));
    _exit(DL_RESOURCE);
}

/* Every process whose parent is this one: what mpirun left comes to us (PR_SET_CHILD_SUBREAPER), stopped
 * ones, too. */
static void kill_children(void) {
    pid_t self = getpid();
    for (int round = 0; round < 50; round++) {
        int found = 0;
        DIR *proc = opendir("/proc");
        for (struct dirent *d; proc && (d = readdir(proc));) {
            char path[300], text[400];
            if (!isdigit((unsigned char)d->d_name[0])) continue;
            snprintf(path, sizeof path, "/proc/%s/stat", d->d_name);
            FILE *f = fopen(path, "re");
            if (!f) continue;
            size_t n = fread(text, 1, sizeof text - 1, f);
            fclose(f);
            text[n] = 0;
            const char *end = strrchr(text, ')');
            int parent = 0;
            if (end && sscanf(end + 1, " %*c %d", &parent) == 1 && parent == self)
                found++, kill(atoi(d->d_name), SIGKILL);
        }
        if (proc) closedir(proc);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (!found) return;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static void take_children(job *j) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == j->mpirun) j->ended = true, j->status = status;
}

static void pass_on(job *j, int signal) {
    j->stops++;
    if (j->stops == 1) {
        kill(j->mpirun, SIGUSR1);
        if (signal == SIGINT)
            fputs("\nstopping after this step, with a checkpoint (Ctrl-C again: at once)\n", stderr);
    } else if (signal == SIGINT || signal == SIGTERM)
        kill(j->mpirun, SIGTERM), j->deadline = dl_clock_ns() / 1000000 + TERM_MS;
}

/* A rank that has failed should end the job by mpirun; where it does not, we do. */
static void watch(job *j, const sigset_t *signals) {
    bool ending = false;
    while (!j->ended) {
        int signal = sigtimedwait(signals, NULL, &(struct timespec){.tv_nsec = LOOK_MS * 1000000});
        take_children(j);
        if (j->ended) break;
        if (signal > 0 && signal != SIGCHLD) pass_on(j, signal);
        int64_t now = dl_clock_ns() / 1000000;
        int status = j->deadline ? 0 : worst_status(j);
        if (status && status != DL_REQUEUE) j->deadline = now + GRACE_MS;
        if (!j->deadline || now < j->deadline) continue;
        kill(j->mpirun, ending ? SIGKILL : SIGTERM);
        ending = true, j->deadline = now + TERM_MS;
    }
}

/* What no rank has told is mpirun's own, or of a rank that was killed. */
static int status_of(const job *j) {
    int told = worst_status(j), status = WIFEXITED(j->status) ? WEXITSTATUS(j->status) : 128;
    if (told || !status) return told;
    bool ours = (status >= DL_USAGE && status <= DL_PEER) || status == DL_INTERNAL || status == DL_REQUEUE;
    if (ours) return status;
    fprintf(stderr, "dlrun: error: a rank, or mpirun, was killed: mpirun has ended with status %d\n", status);
    return DL_PEER;
}

static bool make_status_file(job *j, dl_error *err) {
    const char *root = getenv("TMPDIR");
    snprintf(j->path, sizeof j->path, "%s/dlrun-XXXXXX", root && *root ? root : "/tmp");
    int fd = mkostemp(j->path, O_CLOEXEC);
    if (fd < 0) return dl_fail_errno(err, DL_IO, "cannot make %s for the ranks' exit statuses", j->path);
    close(fd);
    setenv(STATUS_FILE, j->path, 1);
    return true;
}

bool dl_launch(int n, int argc, char **argv, int *status, dl_error *err) {
    dlr_world_said said;
    const char *family = NULL;
    job j = {0};
    if (!dlr_world_read(&said, err)) return false;
    if (said.size_name && said.world.size > 1)
        return dl_fail(err, DL_USAGE,
                       "-n %d starts ranks, and by %s=%d this already is one: leave -n out, or unset %s", n,
                       said.size_name, said.world.size, said.size_name);
    const char *mpirun = find_mpirun(&family, err);
    if (!mpirun || !may_be_root(family, err) || !make_status_file(&j, err)) return false;
    static const int passed[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU, SIGCHLD};
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) sigaddset(&signals, passed[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t self = getpid();
    j.mpirun = fork();
    if (j.mpirun == 0) child(mpirun, family, n, argc, argv, self);
    bool ok = j.mpirun > 0 || dl_fail_errno(err, DL_RESOURCE, "cannot start %s", mpirun);
    if (ok) {
        watch(&j, &signals);
        kill_children();
        *status = status_of(&j);
    }
    unlink(j.path);
    return ok;
}
