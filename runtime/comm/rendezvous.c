#include "runtime/comm/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/arena.h"
#include "ir/base/clock.h"
#include "ir/base/str.h"

/* A rank's first message. Other programs that connect to the port do not send it, and get
 * nothing. */
typedef struct {
    char magic[8];
    int32_t rank, size, turn;
} greeting;
static const char magic[8] = "dlrmeet";

static int left_ms(int64_t end) {
    int64_t ms = (end - dl_clock_ns()) / 1000000;
    return ms < 0 ? 0 : ms > 1000000 ? 1000000 : (int)ms;
}

/* Sends or receives all bytes before the deadline. */
static bool move(int fd, void *data, size_t bytes, bool out, int64_t end) {
    for (char *at = data; bytes;) {
        struct pollfd p = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        if (poll(&p, 1, left_ms(end)) <= 0) return false;
        ssize_t n = out ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
        if (n <= 0) return false;
        at += n, bytes -= (size_t)n;
    }
    return true;
}

static struct addrinfo *find(const char *host, int port, bool passive, dl_error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0},
                    *found = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int failed = getaddrinfo(passive ? NULL : host, service, &hints, &found);
    if (!failed) return found;
    dl_fail(err, DL_USAGE, "MASTER_ADDR=%.200s: %s", host, gai_strerror(failed));
    return NULL;
}

static int listen_at(int port, dl_error *err) {
    struct addrinfo *list = find("", port, true, err);
    int fd = -1, yes = 1;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0) break;
        close(fd), fd = -1;
    }
    if (list && fd < 0)
        dl_fail_errno(err, DL_RESOURCE, "rank 0 cannot listen at port %d, by MASTER_PORT", port);
    if (list) freeaddrinfo(list);
    return fd;
}

static int connect_to(const char *host, int port, int64_t end, dl_error *err) {
    int fd = -1;
    for (bool first = true; fd < 0 && (first || left_ms(end)); first = false) {
        struct addrinfo *list = find(host, port, false, err);
        if (!list) return -1;
        for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
            fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
            if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) close(fd), fd = -1;
        }
        freeaddrinfo(list);
        if (fd < 0) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return fd;
}

static bool give(int port, const dlr_world *w, int turn, void *data, size_t bytes, double timeout,
                 dl_error *err) {
    int64_t end = dl_clock_ns() + (int64_t)(timeout * 1e9);
    int server = listen_at(port, err), missing = w->size - 1;
    if (server < 0) return false;
    char *come = dl_calloc((size_t)w->size, 1);
    while (missing && left_ms(end)) {
        struct pollfd p = {.fd = server, .events = POLLIN};
        int fd = poll(&p, 1, left_ms(end)) > 0 ? accept(server, NULL, NULL) : -1;
        greeting g;
        int64_t soon = dl_clock_ns() + 5000000000;
        bool ours = fd >= 0 && move(fd, &g, sizeof g, false, soon < end ? soon : end) &&
                    memcmp(g.magic, magic, sizeof magic) == 0 && g.size == w->size &&
                    g.turn == turn && g.rank > 0 && g.rank < w->size && !come[g.rank];
        if (ours && move(fd, data, bytes, true, end)) come[g.rank] = 1, missing--;
        if (fd >= 0) close(fd);
    }
    int rank = 1;
    while (missing && come[rank]) rank++;
    if (missing)
        dl_fail(err, DL_PEER,
                "rank %d has not come to MASTER_PORT (%d) within %g s (--comm_timeout); %d of %d "
                "ranks have",
                rank, port, timeout, w->size - missing, w->size);
    free(come);
    close(server);
    return !missing;
}

/* Rank 0 may still be in the turn before, in which it sends nothing more: then once more. */
static bool take(const char *host, int port, const dlr_world *w, int turn, void *data, size_t bytes,
                 double timeout, dl_error *err) {
    int64_t end = dl_clock_ns() + (int64_t)(timeout * 1e9);
    greeting g = {.rank = w->rank, .size = w->size, .turn = turn};
    memcpy(g.magic, magic, sizeof magic);
    bool ok = false;
    do {
        int fd = connect_to(host, port, end, err);
        if (fd < 0 && err->code) return false;
        ok = fd >= 0 && move(fd, &g, sizeof g, true, end) && move(fd, data, bytes, false, end);
        if (fd >= 0) close(fd);
        if (!ok) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    } while (!ok && left_ms(end));
    return ok ||
           dl_fail(
               err, DL_PEER,
               "rank %d hears nothing of rank 0 at %.200s, port %d, within %g s (--comm_timeout)",
               w->rank, host, port, timeout);
}

bool dlr_rendezvous(const dlr_world *w, int turn, void *data, size_t bytes, double timeout,
                    dl_error *err) {
    const char *host = getenv("MASTER_ADDR"), *text = getenv("MASTER_PORT"),
               *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    int64_t port = 0;
    bool read = text && dl_parse_int(text, &port);
    if (!host || !*host || !read || port < 1 || port > 65534)
        return dl_fail(
            err, DL_USAGE,
            "%s=%.60s in the environment: ranks without MPI meet at MASTER_ADDR and MASTER_PORT",
            host && *host ? "MASTER_PORT" : "MASTER_ADDR", host && *host && text ? text : "");
    if (store && strcmp(store, "True") == 0) port++;
    return w->rank == 0 ? give((int)port, w, turn, data, bytes, timeout, err)
                        : take(host, (int)port, w, turn, data, bytes, timeout, err);
}
