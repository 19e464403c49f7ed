/* The watchdog of NCCL's communicators. A collective in which a rank does not take part runs for
 * ever, and the program's thread waits for the device in the driver. This thread learns of lost
 * ranks from the hosts' comm, polls NCCL for errors, and checks how long the program has been
 * waiting. On any failure it aborts the communicators. This ends their kernels, so that the
 * program's wait ends with the reason. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ir/base/clock.h"
#include "runtime/comm/nccl.h"

enum { LOOK_NS = 50000000 };

void dlr_nccl_fail(dlr_nccl_backend *b, const char *format, ...) {
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!b->failed.code) dl_fail(&b->failed, DL_PEER, "%s", text);
    pthread_cond_broadcast(&b->change);
}

bool dlr_nccl_check(dlr_comm *comm, dl_error *err) {
    dlr_nccl_backend *b = comm->of;
    pthread_mutex_lock(&b->lock);
    bool ok = dlr_nccl_well(b, err);
    pthread_mutex_unlock(&b->lock);
    return ok;
}

void dlr_nccl_waits(dlr_comm *comm, bool begins, const char *what) {
    dlr_nccl_backend *b = comm->of;
    pthread_mutex_lock(&b->lock);
    b->waiting = begins ? dl_clock_ns() : 0, b->waiting_what = what;
    pthread_mutex_unlock(&b->lock);
}

void dlr_nccl_leave(dlr_comm *comm, const char *why) {
    dlr_nccl_backend *b = comm->of;
    pthread_mutex_lock(&b->lock);
    dlr_nccl_fail(b, "rank %d has left: %s", comm->world.rank, why);
    pthread_mutex_unlock(&b->lock);
}

/* The lock must be held. */
static dlr_comm_state state_of(dlr_nccl_backend *b) {
    dlr_comm_state s = dlr_hooks_state(b->comm);
    s.calls += b->tickets, s.waiting = b->waiting;
    const char *what = b->waiting_what;
    int64_t oldest = INT64_MAX; /* or the first one begun, which the device's work may wait for */
    for (int i = 0; !b->waiting_what && i < b->staged.n; i++) {
        const dlr_nccl_staged *o = b->staged.at[i];
        if (o->ticket && o->ticket < oldest) oldest = o->ticket, what = o->c.what;
    }
    if (!*s.what && what) snprintf(s.what, sizeof s.what, "%s", what);
    return s;
}

dlr_comm_state dlr_nccl_state(dlr_nccl_backend *b) {
    pthread_mutex_lock(&b->lock);
    dlr_comm_state s = state_of(b);
    pthread_mutex_unlock(&b->lock);
    return s;
}

static void look(dlr_nccl_backend *b) {
    dlr_comm_state s = state_of(b);
    char what[sizeof s.what + 16] = "a collective";
    if (*s.what)
        snprintf(what, sizeof what, "%s", s.what);
    else if (*b->last)
        snprintf(what, sizeof what, "what follows %s", b->last);
    for (int i = 0; i < b->all.n && !b->failed.code; i++) {
        int error = DLR_NCCL_SUCCESS, called = b->n->CommGetAsyncError(b->all.at[i], &error);
        if (called) error = called;
        if (error == DLR_NCCL_SUCCESS || error == DLR_NCCL_IN_PROGRESS) continue;
        const char *more = b->n->GetLastError(b->all.at[i]);
        dlr_nccl_fail(b, "NCCL fails in %s: %s%s%s%s", what, b->n->GetErrorString(error),
                      more && *more ? " (" : "", more && *more ? more : "",
                      more && *more ? ")" : "");
    }
    /* otherwise the hosts' watchdog reports which rank is late */
    if (!b->failed.code && (!b->host || b->comm->world.size == 1) && s.waiting &&
        (double)(dl_clock_ns() - s.waiting) > b->timeout * 1e9)
        dlr_nccl_fail(b, "%s has not ended for %g s (--comm_timeout)", what, b->timeout);
}

/* An abort frees the communicators, and may hang. It runs without the lock, so that the hosts'
 * watchdog and the end of the process need not wait for it. No other thread is in a communicator
 * then, nor comes into one later: `failed` was seen with the lock held, which every call of NCCL
 * holds, and after which dlr_nccl_well lets none begin. */
static void abort_all(dlr_nccl_backend *b) {
    for (int i = b->all.n; i-- > 0;) b->n->CommAbort(b->all.at[i]);
}

static void *watch(void *of) {
    dlr_nccl_backend *b = of;
    b->v->CtxSetCurrent(b->context);
    pthread_mutex_lock(&b->lock);
    while (!b->closing && !b->failed.code) {
        int64_t next = dl_clock_ns() + LOOK_NS;
        pthread_cond_timedwait(
            &b->change, &b->lock,
            &(struct timespec){.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000});
        if (!b->closing && !b->failed.code) look(b);
    }
    bool failed = b->failed.code != DL_OK, tell = failed && !b->told;
    char why[sizeof b->failed.message];
    snprintf(why, sizeof why, "%s", b->failed.message);
    pthread_mutex_unlock(&b->lock);
    if (failed) abort_all(b);
    /* otherwise the other ranks would wait for this one */
    if (tell && b->host) dlr_comm_leave(b->host, why);
    return NULL;
}

bool dlr_nccl_watchdog(dlr_nccl_backend *b, dl_error *err) {
    sigset_t all, before; /* signals are for the program's main thread */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    b->watches = pthread_create(&b->watcher, NULL, watch, b) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return b->watches || dl_fail(err, DL_RESOURCE, "cannot start a thread to watch NCCL");
}

void dlr_nccl_end_watch(dlr_nccl_backend *b) {
    if (!b->watches) return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    bool failed = b->failed.code;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
    if (failed) /* the thread may hang in an abort */
        pthread_detach(b->watcher);
    else
        pthread_join(b->watcher, NULL);
    b->watches = false;
}
