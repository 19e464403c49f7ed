#include "compiler/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/clock.h"

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

static bool start(dl_command *c, char **env, dl_error *err) {
    posix_spawn_file_actions_t io;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&io);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawn_file_actions_addopen(&io, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&io, 1, c->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&io, 1, 2);
    int rc = posix_spawn(&c->pid, c->argv[0], &io, &how, c->argv, env);
    posix_spawn_file_actions_destroy(&io);
    posix_spawnattr_destroy(&how);
    if (rc) c->pid = 0;
    return rc == 0 || dl_fail(err, DL_RESOURCE, "cannot run %s: %s", c->argv[0], strerror(rc));
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

static void await(int n, dl_command *c, double patience, void (*warn)(const char *text)) {
    double begin = dl_clock_seconds();
    bool told = false;
    while (!stopped && collect(n, c, false) > 0) {
        char bytes[64], text[300];
        struct pollfd p = {.fd = wake[0], .events = POLLIN};
        if (poll(&p, 1, LOOK_MS) > 0 && read(wake[0], bytes, sizeof bytes) < 0) continue;
        if (told || !warn || dl_clock_seconds() - begin < patience) continue;
        snprintf(text, sizeof text, "the C compiler has run for %.0f s (%.200s); Ctrl-C stops it", patience,
                 c[0].argv[0]);
        warn(text);
        told = true;
    }
}

int dl_run_all(int n, dl_command *commands, const char *tmp, double patience, void (*warn)(const char *text),
               dl_error *err) {
    char **env = make_environment(tmp);
    if (!env) return dl_fail(err, DL_RESOURCE, "no memory to start %s", commands[0].argv[0]), -1;
    bool ok = watch(err), watching = ok;
    for (int i = 0; i < n; i++) commands[i].pid = 0;
    for (int i = 0; ok && i < n && !stopped; i++) ok = start(&commands[i], env, err);
    if (ok) await(n, commands, patience, warn);
    for (int i = 0; i < n; i++)
        if (commands[i].pid) kill(-commands[i].pid, SIGKILL);
    collect(n, commands, true);
    if (watching) release();
    free(env[0]), free(env);
    return stopped ? stopped : ok ? 0 : -1;
}
