#include "runtime/data/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WHY = 160, CPU_SECONDS = 5, WALL_SECONDS = 60 };
static const rlim_t MORE_MEMORY = (rlim_t)1 << 30;

/* The limit on address space counts what the child inherits (a run's arena, a sanitizer's shadow). */
static rlim_t address_space(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    int n = fscanf(f, "%lu", &pages);
    fclose(f);
    return n == 1 ? (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) : 0;
}

static void limit(int what, rlim_t most) {
    struct rlimit now;
    if (getrlimit(what, &now) != 0) return;
    if (now.rlim_max != RLIM_INFINITY && now.rlim_max < most) most = now.rlim_max;
    now.rlim_cur = now.rlim_max = most;
    setrlimit(what, &now);
}

_Noreturn static void be_child(dlr_sandbox_job *job, const void *question, void *answer, size_t bytes,
                               int out, rlim_t memory) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGTERM, SIGINT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CPU, CPU_SECONDS);
    if (memory) limit(RLIMIT_AS, memory + MORE_MEMORY);
    alarm(WALL_SECONDS);
    memset(answer, 0, bytes);
    job(question, answer);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(out, (char *)answer + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(1);
        done += (size_t)n;
    }
    _exit(0);
}

bool dlr_sandbox(dlr_sandbox_job *job, const void *question, void *answer, size_t bytes, char *why) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return snprintf(why, WHY, "no pipe: %s", strerror(errno)), false;
    rlim_t memory = address_space();
    pid_t child = fork();
    if (child < 0) {
        snprintf(why, WHY, "no process to read it in: %s", strerror(errno));
        close(ends[0]), close(ends[1]);
        return false;
    }
    if (child == 0) be_child(job, question, answer, bytes, ends[1], memory);
    close(ends[1]);
    size_t have = 0;
    while (have < bytes) {
        ssize_t n = read(ends[0], (char *)answer + have, bytes - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        have += (size_t)n;
    }
    close(ends[0]);
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
    }
    if (have == bytes) return true;
    int sig = ended == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (sig == SIGKILL || sig == SIGXCPU)
        snprintf(why, WHY, "reading it did not end within %d s of processor time", CPU_SECONDS);
    else if (sig == SIGALRM)
        snprintf(why, WHY, "reading it did not end within %d s", WALL_SECONDS);
    else if (sig)
        snprintf(why, WHY, "reading it ended in a fault (%s)", strsignal(sig));
    else
        snprintf(why, WHY, "reading it ended in a fault");
    return false;
}
