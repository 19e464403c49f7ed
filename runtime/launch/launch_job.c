/* mpirun's own exit status says little: Open MPI's is that of the first rank that failed, or 128
 * and a signal, MPICH's is all of them or-ed; and who was killed they tell by a process' number, if
 * at all. So each rank tells its process when it begins, and its status when it ends, by a line
 * each in a file that is made here; a process that is gone without the second was killed. */
#include "runtime/launch/launch_job.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <stdarg.h>

#include "ir/base/arena.h"
#include "ir/base/clock.h"
#include "ir/base/temporary.h"
#include "runtime/comm/process_info.h"
#include "runtime/launch/launch.h"

#define STATUS_FILE "DLRUN_STATUS_FILE"
#define STATUS_PLACE                                                                               \
    "DLRUN_STATUS_PLACE" /* where the numbers of processes in it mean something                    \
                          */
enum {
    GRACE_MS = 3000, /* of ranks that should end: 2 s of them until they leave a computation */
    TERM_MS = 1000,  /* and of mpirun */
    LOOK_MS = 100
};

typedef struct {
    pid_t pid;
    int fd;                 /* of the process; -1: it has not begun, or has ended */
    bool told, ended, lost; /* told its status; ended without */
} rank_process;

struct dl_mpirun {
    const dl_console *out;
    pid_t mpirun;
    char path[4200];           /* of the file */
    int file, signals, writes; /* the file's lock; signalfd, inotify of the file */
    int n, first;              /* ranks; the first status that is not 0 */
    bool whole;                /* all have met */
    rank_process *ranks;
    int stops;        /* signals passed on */
    int64_t deadline; /* ms: when the ranks are ended; 0: not yet */
    int64_t parted, together,
        looked; /* ms: when the first rank ended, how long the others may take, now */
    bool late;  /* one took longer */
    bool ended; /* mpirun */
    int status;
};

/* ---- a rank ---- */

static bool tell(const char *form, int rank, int number) {
    const char *path = getenv(STATUS_FILE);
    int fd = path && *path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0) return false;
    char line[64];
    int n = snprintf(line, sizeof line, form, rank, number);
    bool told = write(fd, line, (size_t)n) == n;
    close(fd);
    return told;
}

/* The machine, and which numbers its processes have: containers see their own. */
static void own_place(char text[24]) {
    snprintf(text, 24, "%llx", (unsigned long long)dlr_process_own().where);
}

void dl_launch_joined(int rank) { tell("rank %d in %d\n", rank, 0); }

void dl_launch_begin(int rank) {
    char place[24];
    const char *launcher = getenv(STATUS_PLACE);
    own_place(place);
    if (launcher && strcmp(launcher, place) == 0) tell("rank %d is %d\n", rank, (int)getpid());
}

int dl_launch_report(int rank, int status) {
    /* all ranks stop so, one before the other: mpirun should not take the first for a failure and
     * end the rest */
    return tell("rank %d ends %d\n", rank, status) && status == DL_REQUEUE ? 0 : status;
}

/* ---- who lives ---- */

static void report(const dl_mpirun *j, const char *format, ...) DL_PRINTF(2, 3);
static void report(const dl_mpirun *j, const char *format, ...) {
    dl_error err = {.code = DL_PEER};
    va_list ap;
    va_start(ap, format);
    vsnprintf(err.message, sizeof err.message, format, ap);
    va_end(ap);
    dl_console_error(j->out, &err);
}

static void say(const dl_mpirun *j, int rank, const char *what) {
    report(j, "rank %d (process %d) %s", rank, (int)j->ranks[rank].pid, what);
}

static int64_t now_ms(void) { return dl_clock_ns() / 1000000; }

static void read_ranks(dl_mpirun *j) {
    FILE *f = fopen(j->path, "re");
    char word[8];
    for (int rank, number; f && fscanf(f, "rank %d %7s %d\n", &rank, word, &number) == 3;) {
        if (rank < 0 || rank >= j->n) continue;
        rank_process *r = &j->ranks[rank];
        bool begins = strcmp(word, "is") == 0, joins = strcmp(word, "in") == 0;
        j->whole = j->whole || joins;
        if (begins && !r->pid) {
            r->pid = number, r->fd = (int)syscall(SYS_pidfd_open, number, 0);
            r->ended =
                r->fd < 0 && errno != ESRCH; /* cannot be watched: no kernel for it, or no room */
        } else if (!begins && !joins) {
            if (number && !j->first) j->first = number;
            if (!j->parted) j->parted = j->looked;
            r->told = true;
        }
    }
    if (f) fclose(f);
}

/* From /proc/PID/stat: the letter of its state, and its parent; false: it is gone. */
static bool look_at(pid_t pid, char *state, pid_t *parent) {
    char path[64], text[400];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *end = strrchr(text, ')'); /* after the name, which may hold anything */
    int number = 0;
    if (!end || sscanf(end + 1, " %c %d", state, &number) != 2) return false;
    *parent = number;
    return true;
}

/* Names the ranks that may be the reason, where a run fails before all have met. */
static void name_missing(const dl_mpirun *j) {
    for (int i = 0; i < j->n && !j->whole; i++)
        if (!j->ranks[i].pid && !j->ranks[i].told)
            report(j, "rank %d has not begun, or is on another machine", i);
}

/* Stopped ranks of a run that fails: they would end neither by themselves nor by mpirun's SIGTERM.
 */
static void kill_stopped(dl_mpirun *j) {
    for (int i = 0; i < j->n; i++) {
        rank_process *r = &j->ranks[i];
        char state;
        pid_t parent;
        if (r->fd < 0 || !look_at(r->pid, &state, &parent) || state != 'T') continue;
        say(j, i, "is stopped: it is killed");
        kill(r->pid, SIGKILL);
    }
}

/* Who has ended without a word: the first, since mpirun may kill the others for it; and none after
 * a failure that a rank has told. */
static void name_lost(dl_mpirun *j, int n_ready, const int *ready) {
    bool first = !j->deadline;
    for (int i = 0; i < j->n; i++) first = first && !j->ranks[i].lost;
    for (int i = 0; i < n_ready; i++) {
        rank_process *r = &j->ranks[ready[i]];
        if (r->fd >= 0) close(r->fd);
        r->fd = -1, r->ended = true;
        if (r->told) continue;
        r->lost = true;
        if (first) say(j, ready[i], "was killed, or has ended without a word");
    }
}

/* Where ranks end together, one that does not is waited for by no other rank: it may have been
 * stopped when MPI's end had let the others go, or hang in a library's own end when it has told its
 * status. Time in which this process was stopped itself, as by scontrol suspend, does not count. */
static void name_late(dl_mpirun *j, int64_t now) {
    int64_t gap = now - j->looked;
    j->looked = now;
    if (!j->parted || !j->together || j->deadline || j->late) return;
    if (gap > 10 * LOOK_MS) j->parted += gap;
    if (now - j->parted <= j->together) return;
    char what[100];
    int named = 0;
    snprintf(what, sizeof what, "has not ended, %.1f s after the first that has",
             1e-3 * (double)(now - j->parted));
    for (int i = 0; i < j->n; i++)
        if (j->ranks[i].fd >= 0) named++, j->ranks[i].lost = true, say(j, i, what);
    if (!named) report(j, "mpirun, or a rank of another machine, %s", what);
    j->late = true;
}

/* ---- the one that waits ---- */

static void take_children(dl_mpirun *j) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == j->mpirun) j->ended = true, j->status = status;
}

static void pass_on(dl_mpirun *j, int signal) {
    j->stops++;
    if (j->stops == 1) {
        kill(j->mpirun, SIGUSR1);
        if (signal == SIGINT)
            dl_console_diagnostics(j->out,
                                   "\nstopping after this step, with a checkpoint (Ctrl-C again: "
                                   "at once)\n");
    } else if (signal == SIGINT || signal == SIGTERM)
        kill(j->mpirun, SIGTERM), j->deadline = now_ms() + TERM_MS;
}

static void take_signals(dl_mpirun *j) {
    struct signalfd_siginfo info;
    while (read(j->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD) pass_on(j, (int)info.ssi_signo);
}

/* Waits for a signal, a line in the file, the end of a rank, or a tenth of a second. */
static void look(dl_mpirun *j, struct pollfd *polled, int *which) {
    int n = 0, n_ready = 0;
    char changes[512];
    polled[n++] = (struct pollfd){.fd = j->signals, .events = POLLIN};
    polled[n++] = (struct pollfd){.fd = j->writes, .events = POLLIN};
    for (int i = 0; i < j->n; i++)
        if (j->ranks[i].fd >= 0)
            which[n] = i, polled[n++] = (struct pollfd){.fd = j->ranks[i].fd, .events = POLLIN};
    poll(polled, (nfds_t)n, LOOK_MS);
    while (read(j->writes, changes, sizeof changes) > 0) {
    }
    read_ranks(j); /* what a rank has told before it ended */
    for (int i = 2; i < n; i++)
        if (polled[i].revents) which[n_ready++] = which[i];
    for (int i = 0; i < j->n; i++) /* gone before it could be watched */
        if (j->ranks[i].pid && j->ranks[i].fd < 0 && !j->ranks[i].ended) which[n_ready++] = i;
    name_lost(j, n_ready, which);
    take_signals(j);
    take_children(j);
}

/* A rank that has failed should end the job by mpirun; where it does not, we do. */
static void watch(dl_mpirun *j) {
    struct pollfd *polled = dl_calloc((size_t)j->n + 2, sizeof *polled);
    int *which = dl_calloc(2 * (size_t)j->n + 2, sizeof *which), ending = 0;
    while (!j->ended) {
        look(j, polled, which);
        int64_t now = now_ms();
        name_late(j, now);
        bool fails = j->late || (j->first && j->first != DL_REQUEUE);
        for (int i = 0; i < j->n; i++) fails = fails || j->ranks[i].lost;
        if (fails && !j->deadline) name_missing(j), kill_stopped(j), j->deadline = now + GRACE_MS;
        if (j->ended || !j->deadline || now < j->deadline) continue;
        kill(j->mpirun, ending++ ? SIGKILL : SIGTERM);
        j->deadline = now + TERM_MS;
    }
    free(polled), free(which);
}

/* Every process whose parent is this one: what mpirun left comes to us (PR_SET_CHILD_SUBREAPER),
 * stopped ones, too. */
static void kill_children(void) {
    pid_t self = getpid();
    for (int round = 0; round < 50; round++) {
        int found = 0;
        DIR *proc = opendir("/proc");
        for (struct dirent *d; proc && (d = readdir(proc));) {
            char state;
            pid_t parent = 0;
            if (!isdigit((unsigned char)d->d_name[0]) || !look_at(atoi(d->d_name), &state, &parent))
                continue;
            if (parent == self) found++, kill(atoi(d->d_name), SIGKILL);
        }
        if (proc) closedir(proc);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (!found) return;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* A status that no rank has reported is mpirun's own, or of a rank that was killed. */
static int status_of(const dl_mpirun *j) {
    int status = WIFEXITED(j->status) ? WEXITSTATUS(j->status) : 128;
    bool lost = j->late;
    for (int i = 0; i < j->n; i++) lost = lost || j->ranks[i].lost;
    if (j->first || (!status && !lost)) return j->first;
    if (lost) return DL_PEER; /* mpirun's status is then of a signal, whatever number it has */
    bool ours =
        (status >= DL_USAGE && status <= DL_PEER) || status == DL_INTERNAL || status == DL_REQUEUE;
    if (ours) return status;
    report(j, "mpirun has ended with status %d", status);
    return DL_PEER;
}

int dl_mpirun_wait(dl_mpirun *j, pid_t mpirun, double together) {
    j->mpirun = mpirun, j->together = (int64_t)(1e3 * together), j->looked = now_ms();
    watch(j);
    kill_children();
    read_ranks(j);
    return status_of(j);
}

/* A locked temporary: what a launcher that was killed has left is removed by the next. */
static bool make_file(dl_mpirun *j, dl_error *err) {
    const char *root = getenv("TMPDIR");
    char target[3000], *path;
    snprintf(target, sizeof target, "%s/dlrun", root && *root ? root : "/tmp");
    j->file = dl_temporary_open(target, 0600, "the file of the ranks' exit statuses", &path, err);
    if (j->file < 0) return false;
    snprintf(j->path, sizeof j->path, "%s", path);
    free(path);
    char place[24];
    own_place(place);
    setenv(STATUS_FILE, j->path, 1), setenv(STATUS_PLACE, place, 1);
    return true;
}

dl_mpirun *dl_mpirun_open(int n, const dl_console *out, dl_error *err) {
    static const int passed[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU, SIGCHLD};
    dl_mpirun *j = dl_calloc(1, sizeof *j);
    j->out = out, j->n = n, j->file = j->signals = j->writes = -1,
    j->ranks = dl_calloc((size_t)n, sizeof *j->ranks);
    for (int i = 0; i < n; i++) j->ranks[i].fd = -1;
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) sigaddset(&signals, passed[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    bool ok = make_file(j, err);
    j->signals = ok ? signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
    j->writes = ok ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
    if (ok &&
        (j->signals < 0 || j->writes < 0 || inotify_add_watch(j->writes, j->path, IN_MODIFY) < 0))
        ok = dl_fail_errno(err, DL_RESOURCE, "cannot wait for the ranks");
    if (ok) return j;
    dl_mpirun_close(j);
    return NULL;
}

void dl_mpirun_close(dl_mpirun *j) {
    for (int i = 0; i < j->n; i++)
        if (j->ranks[i].fd >= 0) close(j->ranks[i].fd);
    if (j->signals >= 0) close(j->signals);
    if (j->writes >= 0) close(j->writes);
    if (j->path[0]) unlink(j->path);
    if (j->file >= 0) close(j->file);
    free(j->ranks);
    free(j);
}
