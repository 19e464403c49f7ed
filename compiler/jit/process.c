#include "compiler/jit/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/lifeline.h"

extern char **environ;

/* The first wakes the wait; the others would end us, or ask us to stop. */
static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2};
enum { NWATCHED = sizeof watched / sizeof *watched, LOOK_MS = 200 };

static volatile sig_atomic_t stopped;
static int wake[2];
static struct sigaction before[NWATCHED];

static void note(int number) {
    int saved = errno;
    if (number != SIGCHLD && !stopped) stopped = number;
    if (write(wake[1], "", 1) < 0) errno = saved; /* full: it wakes anyway */
    errno = saved;
}

static bool watch(dl_error *err) {
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return dl_fail_errno(err, DL_RESOURCE, "cannot make a pipe");
    stopped = 0;
    for (int i = 0; i < NWATCHED; i++) {
        struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
        sigfillset(&action.sa_mask);
        sigaction(watched[i], NULL, &before[i]);
        if (watched[i] != SIGCHLD && before[i].sa_handler == SIG_IGN) continue; /* nohup */
        sigaction(watched[i], &action, NULL);
    }
    return true;
}

static void release(void) {
    for (int i = 0; i < NWATCHED; i++) sigaction(watched[i], &before[i], NULL);
    close(wake[0]), close(wake[1]);
}

/* Our environment with TMPDIR set, so that what a killed compiler leaves is found. */
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

/* What a child reports to its parent, whose memory it has until it executes. */
typedef struct {
    int why; /* errno */
    bool unbound;
} failure;

/* Between vfork and exec: system calls, and nothing else. All signals are blocked; the parent's
 * handlers must not run here, so signals are let in after their removal. */
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

/* vfork: a fork would copy the page tables of a process that may hold gigabytes, pinned ones among
 * them. */
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
    if (!failed.why) return true;
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return dl_fail(err, DL_RESOURCE, "cannot run %s: %s%s", c->argv[0],
                   failed.unbound ? "the system does not end it with this process: " : "",
                   strerror(failed.why));
}

/* Collects those that have ended; how many still run. `wait`: all of them, to the end. */
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

static void await(int n, dl_command *c, double patience, const dl_out *out) {
    double begin = dl_clock_seconds();
    bool told = false;
    while (!stopped && collect(n, c, false) > 0) {
        char bytes[64], text[300];
        struct pollfd p = {.fd = wake[0], .events = POLLIN};
        if (poll(&p, 1, LOOK_MS) > 0 && read(wake[0], bytes, sizeof bytes) < 0) continue;
        if (told || !out || dl_clock_seconds() - begin < patience) continue;
        snprintf(text, sizeof text, "the C compiler has run for %.0f s (%.200s); Ctrl-C stops it",
                 patience, c[0].argv[0]);
        dl_out_warning(out, text);
        told = true;
    }
}

int dl_run_all(int n, dl_command *commands, const char *tmp, double patience, const dl_out *out,
               dl_error *err) {
    char **env = make_environment(tmp);
    if (!env) return dl_fail(err, DL_RESOURCE, "no memory to start %s", commands[0].argv[0]), -1;
    bool ok = watch(err), watching = ok;
    for (int i = 0; i < n; i++) commands[i].pid = 0, commands[i].life = (dl_lifeline){-1, -1};
    for (int i = 0; ok && i < n && !stopped; i++) ok = start(&commands[i], env, err);
    if (ok) await(n, commands, patience, out);
    for (int i = 0; i < n; i++)
        if (commands[i].pid) kill(-commands[i].pid, SIGKILL);
    collect(n, commands, true);
    for (int i = 0; i < n; i++) dl_lifeline_close(&commands[i].life);
    if (watching) release();
    free(env[0]), free(env);
    return stopped ? stopped : ok ? 0 : -1;
}
