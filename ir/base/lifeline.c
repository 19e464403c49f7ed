#include "ir/base/lifeline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The child's standard streams are replaced: in a program that has none, the pipe would get their
 * numbers. */
bool dl_lifeline_open(dl_lifeline *l) {
    int ends[2];
    *l = (dl_lifeline){-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    l->watch = fcntl(ends[0], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    l->hold = fcntl(ends[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int why = errno;
    close(ends[0]), close(ends[1]);
    if (l->watch >= 0 && l->hold >= 0) return true;
    dl_lifeline_close(l);
    errno = why;
    return false;
}

static bool is_alone(int fd) {
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

/* PR_SET_PDEATHSIG would kill one process, and not the passes that a compiler's driver has started.
 * A pipe's owner can be a group, and its signal any. */
bool dl_lifeline_bind_group(const dl_lifeline *l) {
    close(l->hold); /* a copy; the parent's is the one that counts */
    bool bound = fcntl(l->watch, F_SETFD, 0) == 0 && fcntl(l->watch, F_SETOWN, -getpgrp()) == 0 &&
                 fcntl(l->watch, F_SETSIG, SIGKILL) == 0 &&
                 fcntl(l->watch, F_SETFL, O_RDONLY | O_ASYNC) == 0;
    if (bound && is_alone(l->watch)) kill(0, SIGKILL); /* gone before there was a signal to send */
    return bound;
}

static volatile sig_atomic_t bound_socket;

static void look(int number) {
    (void)number;
    int saved = errno;
    if (is_alone(bound_socket)) _exit(1);
    errno = saved;
}

void dl_lifeline_bind_socket(int socket) {
    struct sigaction action = {.sa_handler = look, .sa_flags = SA_RESTART};
    bound_socket = socket;
    sigfillset(&action.sa_mask);
    sigaction(SIGIO, &action, NULL);
    fcntl(socket, F_SETOWN, getpid());
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_ASYNC);
    look(SIGIO); /* gone before there was a signal to send */
}

void dl_lifeline_keep(dl_lifeline *l) {
    if (l->watch >= 0) close(l->watch);
    l->watch = -1;
}

void dl_lifeline_close(dl_lifeline *l) {
    dl_lifeline_keep(l);
    if (l->hold >= 0) close(l->hold);
    l->hold = -1;
}
