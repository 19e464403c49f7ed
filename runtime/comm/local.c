/* The ranks of a world in one process. A collective is kept until its last member starts it; that
 * member runs it for all. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/parts.h"

/* The calls of a group that not all members have made yet. Each member's calls are in order, so
 * that collectives also run in order: number `done` is the first that has not run. */
typedef struct {
    int number, n; /* the group's number and members */
    int *ranks;
    int64_t done;
    int64_t *started;      /* by member */
    dlr_collective *calls; /* [number % room][member] */
    int64_t *counts;       /* [number % room][member][n] */
    int64_t room;
} meeting;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool threads;
    int comms; /* comms that are not closed yet */
    DL_ARRAY(meeting *) meetings;
    dl_arena *arena;
    dl_error failed;
} hub;

static meeting *meet(hub *h, int number, const dlr_members *g) {
    for (int i = 0; i < h->meetings.n; i++) {
        meeting *m = h->meetings.at[i];
        if (m->number == number && m->n == g->n &&
            !memcmp(m->ranks, g->ranks, (size_t)g->n * sizeof *g->ranks))
            return m;
    }
    meeting *m = DL_NEW(h->arena, meeting);
    *m = (meeting){.number = number, .n = g->n, .ranks = DL_NEWS(h->arena, int, g->n)};
    memcpy(m->ranks, g->ranks, (size_t)g->n * sizeof *g->ranks);
    m->started = DL_NEWS(h->arena, int64_t, g->n);
    dl_push(h->arena, &h->meetings, m);
    return m;
}

static bool local_group(dlr_comm *comm, dlr_members *group, dl_error *err) {
    (void)err;
    hub *h = comm->of;
    pthread_mutex_lock(&h->lock);
    group->of = meet(h, comm->groups - 1, group);
    pthread_mutex_unlock(&h->lock);
    return true;
}

static dlr_collective *call_at(meeting *m, int64_t number, int member) {
    return &m->calls[number % m->room * m->n + member];
}

static int64_t *counts_at(meeting *m, int64_t number, int member) {
    return &m->counts[(number % m->room * m->n + member) * m->n];
}

static void widen(meeting *m) {
    meeting old = *m;
    size_t n = (size_t)m->n;
    m->room = old.room ? 2 * old.room : 16;
    m->calls = dl_calloc((size_t)m->room * n, sizeof *m->calls);
    m->counts = dl_calloc((size_t)m->room * n * n, sizeof *m->counts);
    for (int64_t k = old.done; k < old.done + old.room; k++)
        for (int i = 0; i < m->n; i++) {
            dlr_collective *c = call_at(m, k, i);
            *c = *call_at(&old, k, i);
            if (c->counts) {
                memcpy(counts_at(m, k, i), c->counts, n * sizeof *m->counts);
                c->counts = counts_at(m, k, i);
            }
        }
    free(old.calls);
    free(old.counts);
}

/* Runs the collective that all members have started now, or reports which member started another
 * one. */
static void carry_out(hub *h, meeting *m) {
    const dlr_collective **calls = dl_calloc((size_t)m->n, sizeof *calls);
    for (int i = 0; i < m->n; i++) {
        calls[i] = call_at(m, m->done, i);
        if (dlr_collective_hash(calls[i], m->n) != dlr_collective_hash(calls[0], m->n))
            dl_fail(&h->failed, DL_PEER, "rank %d calls %s where rank %d calls %s", m->ranks[i],
                    calls[i]->what ? calls[i]->what : "?", m->ranks[0],
                    calls[0]->what ? calls[0]->what : "?");
    }
    if (!h->failed.code) dlr_collective_here(m->n, calls);
    m->done++;
    free(calls);
}

/* A ticket consists of the group's number and the collective's number in it. */
static int64_t local_start(dlr_comm *comm, dlr_members *group, const dlr_collective *c) {
    hub *h = comm->of;
    meeting *m = group->of;
    int64_t number = group->started - 1;
    pthread_mutex_lock(&h->lock);
    while (number - m->done >= m->room) widen(m);
    dlr_collective *mine = call_at(m, number, group->me);
    *mine = *c;
    if (dlr_by_pieces(c)) {
        mine->counts = counts_at(m, number, group->me);
        memcpy(counts_at(m, number, group->me), c->counts, (size_t)m->n * sizeof *c->counts);
    } else
        mine->counts = NULL;
    m->started[group->me] = number + 1;
    bool all = true;
    for (int i = 0; i < m->n; i++) all = all && m->started[i] > m->done;
    if (all) {
        carry_out(h, m);
        pthread_cond_broadcast(&h->change);
    }
    pthread_mutex_unlock(&h->lock);
    return number << 8 | c->group;
}

static bool tell_missing(const dlr_comm *comm, meeting *m, int64_t number, dl_error *err) {
    char ranks[200];
    int at = 0, missing = 0, me = 0;
    for (int i = 0; i < m->n; i++) {
        if (m->ranks[i] == comm->world.rank) me = i;
        if (m->started[i] > number || missing++ >= 8) continue;
        at += snprintf(ranks + at, sizeof ranks - (size_t)at, "%s%d", at ? ", " : "", m->ranks[i]);
    }
    const char *what = call_at(m, number, me)->what;
    return dl_fail(err, DL_PEER, "rank %s%s %s not started %s, for which rank %d waits: a deadlock",
                   ranks, missing > 8 ? ", ..." : "", missing > 1 ? "have" : "has",
                   what ? what : "a collective", comm->world.rank);
}

static bool local_wait(dlr_comm *comm, int64_t ticket, dl_error *err) {
    hub *h = comm->of;
    meeting *m = comm->group[ticket & 255]->of;
    int64_t number = ticket >> 8;
    pthread_mutex_lock(&h->lock);
    while (h->threads && m->done <= number && !h->failed.code)
        pthread_cond_wait(&h->change, &h->lock);
    bool ok =
        m->done > number || (h->failed.code ? dl_fail(err, h->failed.code, "%s", h->failed.message)
                                            : tell_missing(comm, m, number, err));
    pthread_mutex_unlock(&h->lock);
    return ok;
}

static bool local_done(dlr_comm *comm, int64_t ticket) {
    hub *h = comm->of;
    const meeting *m = comm->group[ticket & 255]->of;
    pthread_mutex_lock(&h->lock);
    bool done = m->done > ticket >> 8 || h->failed.code;
    pthread_mutex_unlock(&h->lock);
    return done;
}

static bool local_close(dlr_comm *comm, dl_error *err) {
    (void)err;
    hub *h = comm->of;
    pthread_mutex_lock(&h->lock);
    bool last = --h->comms == 0;
    pthread_mutex_unlock(&h->lock);
    if (!last) return true;
    for (int i = 0; i < h->meetings.n; i++) {
        free(h->meetings.at[i]->calls);
        free(h->meetings.at[i]->counts);
    }
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->change);
    dl_arena_free(h->arena);
    return true;
}

static void local_leave(dlr_comm *comm, const char *why) {
    hub *h = comm->of;
    pthread_mutex_lock(&h->lock);
    dl_fail(&h->failed, DL_PEER, "rank %d has left: %s", comm->world.rank, why);
    pthread_cond_broadcast(&h->change);
    pthread_mutex_unlock(&h->lock);
}

static const dlr_comm_backend_table table = {.group = local_group,
                                             .start = local_start,
                                             .wait = local_wait,
                                             .done = local_done,
                                             .close = local_close,
                                             .leave = local_leave};

dlr_comm **dlr_comm_local(int n, bool threads) {
    dl_arena *arena = dl_arena_new(NULL);
    hub *h = DL_NEW(arena, hub);
    h->arena = arena, h->comms = n, h->threads = threads;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->change, NULL);
    dlr_comm **comms = dl_calloc((size_t)n, sizeof(dlr_comm *));
    for (int i = 0; i < n; i++) {
        comms[i] = dlr_comm_new(&table, "local", (dlr_world){i, n, i, n}, h);
        comms[i]->group[0]->of = meet(h, 0, comms[i]->group[0]);
    }
    return comms;
}
