#include "runtime/launch/launch.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/comm.h"
#include "runtime/launch/launch_job.h"

enum { MOST_N = 4096 };

typedef struct {
    const char *family, *mark; /* in the first line of mpirun --version */
    const char *args[4];
} mpi_family;
/* More ranks than CPUs are fine, and threads go where they like, see pool.h; who is left names the
 * one that was killed, if mpirun leaves them the time. */
static const mpi_family families[] = {{"openmpi", "Open", {"--oversubscribe", "--bind-to", "none"}},
                                      {"mpich", "HYDRA", {"-disable-auto-cleanup"}},
                                      {"mpich", "Intel", {NULL}}};

/* The text that follows -n, -nN, --ranks or --ranks=N at argv[*i]; NULL: it is none of them. */
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
        int64_t value;
        if (!dl_parse_int(text, &value) || value < 1 || value > MOST_N) {
            dl_fail(err, DL_USAGE, "-n needs a whole number from 1 to %d, not '%.100s'", MOST_N,
                    text);
            return -1;
        }
        n = (int)value;
    }
    *argc = kept, argv[kept] = NULL;
    return n;
}

/* ---- which mpirun ---- */

/* The first line that `program --version` prints; empty: it does not start. */
static void version_of(const char *program, char *line, size_t room) {
    int ends[2];
    line[0] = 0;
    if (pipe2(ends, O_CLOEXEC)) return;
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(127);
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

/* The mpirun to use and its family: $DLR_MPIRUN, or the first of this machine that dlrun has a
 * module for. */
static const char *find_mpirun(const mpi_family **family, dl_error *err) {
    const char *own = getenv("DLR_MPIRUN");
    const char *const names[] = {own && *own ? own : "mpirun", "mpiexec", "mpirun.openmpi",
                                 "mpirun.mpich"};
    char line[400], found[400] = "";
    for (size_t i = 0; i < sizeof names / sizeof *names && !(i && own && *own); i++) {
        version_of(names[i], line, sizeof line);
        for (size_t k = 0; line[0] && k < sizeof families / sizeof *families; k++) {
            if (!strstr(line, families[k].mark)) continue;
            *family = &families[k];
            if (dlr_comm_speaks((*family)->family)) return names[i];
            snprintf(found, sizeof found, "; %s is of %s, for which this dlrun has no module",
                     names[i], (*family)->family);
        }
    }
    if (own && *own)
        dl_fail(err, DL_RESOURCE,
                "DLR_MPIRUN=%s in the environment cannot be used%s: set it to the mpirun of Open "
                "MPI or MPICH, "
                "or unset it (docs/guide/many-gpus.md)",
                own,
                *found    ? found
                : line[0] ? "; it is neither Open MPI's nor MPICH's"
                          : "; it does not start, or fails with --version");
    else
        dl_fail(err, DL_RESOURCE,
                "ranks are started by mpirun, and there is none that can be used%s: install Open "
                "MPI or MPICH, "
                "or name it by DLR_MPIRUN (docs/guide/many-gpus.md)",
                found);
    return NULL;
}

/* Open MPI would print a page. */
static bool may_be_root(const mpi_family *family, dl_error *err) {
    const char *a = getenv("OMPI_ALLOW_RUN_AS_ROOT"), *b = getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
    if (geteuid() || strcmp(family->family, "openmpi") != 0 || (a && b && atoi(a) && atoi(b)))
        return true;
    return dl_fail(err, DL_USAGE,
                   "Open MPI starts nothing for root unless OMPI_ALLOW_RUN_AS_ROOT=1 and "
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                   "are set: as in a container, where root is nobody else");
}

/* ---- mpirun ---- */

static void child(const char *mpirun, const mpi_family *family, int n, int argc, char **argv,
                  pid_t parent) {
    const char *more = getenv("DLR_MPIRUN_ARGS");
    char program[4096], number[16], *words[(size_t)argc + (more ? strlen(more) : 0) + 16];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    snprintf(number, sizeof number, "%d", n);
    int at = 0;
    words[at++] = (char *)mpirun;
    words[at++] = "-n", words[at++] = number;
    for (int i = 0; family->args[i]; i++) words[at++] = (char *)family->args[i];
    char *rest = more ? strdup(more) : NULL;
    for (char *word = rest ? strtok(rest, " ") : NULL; word; word = strtok(NULL, " "))
        words[at++] = word;
    words[at++] = program;
    for (int i = 1; i < argc; i++) words[at++] = argv[i];
    words[at] = NULL;
    setenv("DLR_MPI", family->family, 1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0); /* a terminal's Ctrl-C is ours to pass on */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, 0);
    execvp(mpirun, words);
    fprintf(stderr, "%s: error: %s: %s\n", program_invocation_short_name, mpirun, strerror(errno));
    _exit(DL_RESOURCE);
}

/* ---- all of it ---- */

bool dl_launch(int n, double together, int argc, char **argv, int *status, const dl_console *out,
               dl_error *err) {
    dlr_world_said said;
    const mpi_family *family = NULL;
    if (!dlr_world_read(&said, err)) return false;
    if (said.size_name && said.world.size > 1)
        return dl_fail(
            err, DL_USAGE,
            "-n %d starts ranks, and by %s=%d this already is one: leave -n out, or unset %s", n,
            said.size_name, said.world.size, said.size_name);
    const char *mpirun = find_mpirun(&family, err);
    if (!mpirun || !may_be_root(family, err)) return false;
    dl_mpirun *job = dl_mpirun_open(n, out, err);
    if (!job) return false;
    pid_t self = getpid(), pid = fork();
    if (pid == 0) child(mpirun, family, n, argc, argv, self);
    bool ok = pid > 0 || dl_fail_errno(err, DL_RESOURCE, "cannot start %s", mpirun);
    if (ok) *status = dl_mpirun_wait(job, pid, together);
    dl_mpirun_close(job);
    return ok;
}
