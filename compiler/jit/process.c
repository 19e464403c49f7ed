#include "compiler/jit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/lifeline.h"

extern char **environ;

enum { LOOK_MS = 200, MOST_POLLED = 64 };

/* A child's status is lost while SIGCHLD is ignored, as some programs leave it to those that they
 * start. `before` is set again afterwards. */
static void heed_children(struct sigaction *before) {
    sigaction(SIGCHLD, NULL, before);
    if (before->sa_handler == SIG_IGN)
        sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static void restore(const struct sigaction *before) {
    if (before->sa_handler == SIG_IGN) sigaction(SIGCHLD, before, NULL);
}

/* This process's environment with TMPDIR set, so that a killed compiler's files are found. */
static char **make_environment(const char *tmp) {
    int n = 0, at = 0;
    while (environ[n]) n++;
    char **env = malloc(sizeof *env * (size_t)(n + 2));
    size_t bytes = strlen(tmp) + sizeof "TMPDIR=";
    char *own = env ? malloc(bytes) : NULL;
    if (!own) return free(env), NULL;
    snprintf(own, bytes, "TMPDIR=%s", tmp);
    env[at++] = own; /* first: the caller frees it */
    for (int i = 0; i < n; i++)
        if (strncmp(environ[i], "TMPDIR=", 7)) env[at++] = environ[i];
    env[at] = NULL;
    return env;
}

/* A child's report to its parent; they share memory until the child calls exec. */
typedef struct {
    int why; /* errno */
    bool unbound;
} failure;

/* Runs between vfork and exec: makes system calls and nothing else. All signals are blocked. The
 * parent's handlers must not run here, so they are removed before signals are unblocked. */
static _Noreturn void execute(const dl_command *c, char **env, const dl_lifeline *life,
                              volatile failure *failed) {
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < NSIG; i++) {
        struct sigaction now;
        if (sigaction(i, NULL, &now) != 0 || now.sa_handler == SIG_IGN || now.sa_handler == SIG_DFL)
            continue;
        sigaction(i, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
    setpgid(0, 0);
    if (dl_lifeline_bind_group(life)) {
        int in = open("/dev/null", O_RDONLY),
            out = open(c->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (in >= 0 && out >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2) {
            if (in > 2) close(in);
            if (out > 2) close(out);
            sigprocmask(SIG_SETMASK, &none, NULL);
            execve(c->argv[0], c->argv, env);
        }
    } else
        failed->unbound = true;
    failed->why = errno;
    _exit(127);
}

/* Uses vfork: fork would copy the page tables of a process that may hold gigabytes, some of them
 * pinned. */
static __attribute__((noinline)) pid_t spawn(const dl_command *c, char **env,
                                             const dl_lifeline *life, volatile failure *failed) {
    sigset_t all, before_it;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_it);
    pid_t pid = vfork();
    if (pid == 0) execute(c, env, life, failed);
    if (pid < 0) failed->why = errno;
    pthread_sigmask(SIG_SETMASK, &before_it, NULL);
    return pid;
}

static bool start(dl_command *c, char **env, dl_error *err) {
    volatile failure failed = {0};
    if (!dl_lifeline_open(&c->life)) return dl_fail_errno(err, DL_RESOURCE, "cannot make a pipe");
    pid_t pid = spawn(c, env, &c->life, &failed);
    dl_lifeline_keep(&c->life);
    c->pid = failed.why ? 0 : pid;
    if (!failed.why) {
        c->fd = (int)syscall(SYS_pidfd_open, pid, 0); /* -1 on old systems: looked at by time */
        return true;
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return dl_fail(err, DL_RESOURCE, "cannot run %s: %s%s", c->argv[0],
                   failed.unbound ? "the system does not end it with this process: " : "",
                   strerror(failed.why));
}

/* Collects children that have ended; returns how many still run. `wait`: waits until all have
 * ended. */
static int collect(int n, dl_command *c, bool wait) {
    int running = 0;
    for (int i = 0; i < n; i++) {
        if (!c[i].pid) continue;
        pid_t got;
        while ((got = waitpid(c[i].pid, &c[i].status, wait ? 0 : WNOHANG)) < 0 && errno == EINTR) {
        }
        if (got < 0) c[i].status = -1;
        if (got) c[i].pid = 0;
        running += got == 0;
    }
    return running;
}

/* Until a child ends, a signal comes, or some time has passed. */
static void wait_a_while(int n, const dl_command *c) {
    struct pollfd fds[MOST_POLLED];
    int polled = 0;
    for (int i = 0; i < n && polled < MOST_POLLED; i++)
        if (c[i].pid && c[i].fd >= 0)
            fds[polled++] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
    poll(fds, (nfds_t)polled, LOOK_MS);
}

/* The signal by which the user asked to stop, or 0 when all have ended. */
static int await(int n, dl_command *c, double patience, const dl_console *console) {
    double begin = dl_clock_seconds();
    bool told = false;
    for (int stop; collect(n, c, false) > 0; wait_a_while(n, c)) {
        if ((stop = dl_console_stop_requested(console))) return stop;
        if (told || dl_clock_seconds() - begin < patience) continue;
        char text[300];
        snprintf(text, sizeof text, "the C compiler has run for %.0f s (%.200s); Ctrl-C stops it",
                 patience, c[0].argv[0]);
        dl_console_warning(console, text);
        told = true;
    }
    return dl_console_stop_requested(console);
}

int dl_run_all(int n, dl_command *commands, const char *tmp, double patience,
               const dl_console *console, dl_error *err) {
    char **env = make_environment(tmp);
    if (!env) return dl_fail(err, DL_RESOURCE, "no memory to start %s", commands[0].argv[0]), -1;
    struct sigaction before;
    heed_children(&before);
    for (int i = 0; i < n; i++)
        commands[i].pid = 0, commands[i].fd = -1, commands[i].life = (dl_lifeline){-1, -1};
    bool ok = true;
    for (int i = 0; ok && i < n; i++) ok = start(&commands[i], env, err);
    int stop = ok ? await(n, commands, patience, console) : 0;
    for (int i = 0; i < n; i++)
        if (commands[i].pid) kill(-commands[i].pid, SIGKILL);
    collect(n, commands, true);
    for (int i = 0; i < n; i++) {
        if (commands[i].fd >= 0) close(commands[i].fd);
        dl_lifeline_close(&commands[i].life);
    }
    restore(&before);
    free(env[0]), free(env);
    return stop ? stop : ok ? 0 : -1;
}
