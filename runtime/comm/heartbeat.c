/* Heartbeats. MPI reports neither a stopped rank nor one that is cut off. Each engine's thread
 * therefore counts its own beats, and sends its known counts of all ranks to one other rank per
 * tick: in turn to the ranks 1, 2, 4, ... after it (the dissemination of Hensgen, Finkel and
 * Manber's barrier, 1988). Every rank has a beat after log2 N ticks, and sends one message of a few
 * bytes per rank each tick, for any number of ranks.
 *
 * A rank whose count has not risen for the timeout is lost. A living rank is lost, too, if others
 * have waited for it that long: the one that has started the fewest collectives. On one machine a
 * process that is gone is seen at the next tick. The first rank that notices announces it to all
 * others in the same way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "runtime/comm/engine.h"
#include "runtime/comm/process_info.h"

enum { MOST_PEERS = 20, TEXT = 480, FIRST_TAG = DLR_MPI_TAG - MOST_PEERS };
enum { BEATS, GOOD_BYE, LOST };
static const int64_t most_tick = 250000000, least_tick = 10000000;

typedef struct {
    uint32_t beat, calls; /* collectives that its program has started */
} sign;

typedef struct {
    uint32_t word; /* BEATS, GOOD_BYE or LOST */
    char text[TEXT];
    sign ranks[];
} message;

typedef struct {
    message *in, *out, *lost;
    bool sending, parted_from, parting; /* good-bye received, good-bye to be sent */
    bool said;
} peer;

struct dlr_heartbeat {
    int n, peers, next_peer;
    int64_t tick, next, last, timeout; /* ns */
    sign *ranks;
    int64_t *heard; /* ns, when its count last rose */
    peer peer[MOST_PEERS];
    size_t bytes; /* of a message */
    dlr_process_info *places;
    _Atomic bool placed;
    dlr_comm_state device; /* at the last tick; the program has waited since `waiting`, of which
                              `excused` ns do not count */
    int64_t waiting, excused;
    int neighbour;         /* the previous rank on the same machine, or -1 */
    int64_t parting, gone; /* since when good-byes are sent; since when a rank that has sent none
                              has been gone */
    /* how long this rank was stopped itself, the last time, and when it woke */
    int64_t away, woken;
};

static int rank_behind(const dlr_engine *e, int i) { return (e->rank + (1 << i)) % e->size; }
static int rank_before(const dlr_engine *e, int i) {
    return (e->rank - (1 << i) % e->size + e->size) % e->size;
}

static void receive(dlr_engine *e, int i) {
    dlr_heartbeat *w = e->watch;
    e->mpi->receive(w->peer[i].in, (int64_t)w->bytes, rank_before(e, i), FIRST_TAG + i, 1,
                    dlr_id(DLR_GOSSIP, true, 0, 0, i));
}

/* False: the message cannot be sent; its receiver will report that this rank is silent. */
static bool send_message(dlr_engine *e, int i, message *m) {
    dlr_heartbeat *w = e->watch;
    memcpy(m->ranks, w->ranks, (size_t)w->n * sizeof *w->ranks);
    return !e->mpi->send(m, (int64_t)w->bytes, rank_behind(e, i), FIRST_TAG + i, 1,
                         dlr_id(DLR_GOSSIP, false, 0, 0, i));
}

dlr_heartbeat *dlr_heartbeat_open(dlr_engine *e) {
    dlr_heartbeat *w = dl_calloc(1, sizeof *w);
    int64_t now = dl_clock_ns();
    w->n = e->size, w->timeout = (int64_t)(e->options.timeout * 1e9);
    w->tick = w->timeout / 32 < least_tick  ? least_tick
              : w->timeout / 32 > most_tick ? most_tick
                                            : w->timeout / 32;
    w->ranks = dl_calloc((size_t)w->n, sizeof *w->ranks);
    w->heard = dl_calloc((size_t)w->n, sizeof *w->heard);
    w->places = dl_calloc((size_t)w->n, sizeof *w->places);
    for (int r = 0; r < w->n; r++) w->heard[r] = now;
    w->bytes = sizeof(message) + (size_t)w->n * sizeof(sign);
    while (1 << w->peers < w->n && w->peers < MOST_PEERS) w->peers++;
    for (int i = 0; i < w->peers; i++) {
        peer *y = &w->peer[i];
        y->in = dl_calloc(1, w->bytes), y->out = dl_calloc(1, w->bytes),
        y->lost = dl_calloc(1, w->bytes);
    }
    w->neighbour = -1;
    w->last = now; /* next is 0: the first tick, which starts to receive, is due at once */
    return w;
}

void dlr_heartbeat_close(dlr_heartbeat *w) {
    if (!w) return;
    for (int i = 0; i < w->peers; i++)
        free(w->peer[i].in), free(w->peer[i].out), free(w->peer[i].lost);
    free(w->ranks), free(w->heard), free(w->places);
    free(w);
}

int64_t dlr_heartbeat_next(const dlr_engine *e) { return e->watch->next; }

/* ---- process info ---- */

bool dlr_exchange_process_infos(dlr_comm *comm, dlr_engine *e, dl_error *err) {
    dlr_heartbeat *w = e->watch;
    int64_t words = sizeof(dlr_process_info) / 8, *counts = dl_calloc((size_t)w->n, sizeof *counts);
    dlr_process_info *own = dl_malloc(sizeof *own);
    *own = dlr_process_own();
    for (int r = 0; r < w->n; r++) counts[r] = words;
    dlr_collective c = {.kind = DLR_ALL_GATHER,
                        .type = DL_I64,
                        .outer = 1,
                        .counts = counts,
                        .from = own,
                        .to = w->places,
                        .what = "all_gather of where the ranks are"};
    bool ok = dlr_comm_all(comm, &c, err);
    free(counts);
    if (!ok) return false; /* messages into the rest may still arrive */
    comm->world.local_rank = comm->world.local_size = comm->sharing = 0;
    for (int r = 0; r < w->n; r++)
        if (w->places[r].where == own->where) {
            comm->world.local_rank += r < e->rank;
            comm->world.local_size++;
            comm->sharing += w->places[r].cpus == own->cpus;
        }
    for (int i = 1; i < w->n && w->neighbour < 0; i++) {
        int r = (e->rank - i + w->n) % w->n;
        if (w->places[r].where == own->where) w->neighbour = r;
    }
    free(own);
    w->placed = true;
    return true;
}

/* " (process 123 on host, which is stopped)". */
static const char *place_text(const dlr_engine *e, int rank, char *to, size_t room) {
    const dlr_heartbeat *w = e->watch;
    const dlr_process_info *p = &w->places[rank];
    to[0] = 0;
    if (!w->placed) return to;
    char state = dlr_process_state(p, &w->places[e->rank]);
    snprintf(to, room, " (process %lld on %.*s%s)", (long long)p->pid, DLR_HOST, p->host,
             state == 'T' || state == 't' ? ", which is stopped"
             : dlr_process_ended(state)   ? ", which is gone"
                                          : "");
    return to;
}

/* ---- finding the rank to blame ---- */

static const dlr_lane *oldest_lane(const dlr_engine *e) {
    const dlr_lane *oldest = NULL;
    for (int i = 0; i < LANES; i++) {
        const dlr_lane *l = &e->lane[i];
        if (l->op && (!oldest || l->op->ticket < oldest->op->ticket)) oldest = l;
    }
    return oldest;
}

/* The collective that tells a reader most: the one that the device runs, or the oldest active one
 * that belongs to a line of the model. */
static const char *what_of(const dlr_engine *e) {
    const dlr_lane *best = oldest_lane(e);
    if (*e->watch->device.what) return e->watch->device.what;
    for (int i = 0; i < LANES; i++) {
        const dlr_lane *l = &e->lane[i];
        if (!l->op || !strstr(l->op->what, " at ")) continue;
        if (!strstr(best->op->what, " at ") || l->op->ticket < best->op->ticket) best = l;
    }
    return best ? best->op->what : NULL;
}

/* The collective that the program waits in, or the last one that it has finished. */
static const char *where_text(const dlr_engine *e, char *to, size_t room) {
    const char *what = what_of(e);
    int64_t last = e->next_begun - 1;
    if (what)
        snprintf(to, room, "%s", what);
    else if (last >= 0)
        snprintf(to, room, "what follows %s", e->recorder[last % REMEMBERED].what);
    else
        snprintf(to, room, "any collective");
    return to;
}

enum {
    WOKEN_NS = 2000000000 /* messages mention a stop for so long: others may have lost this rank
                             meanwhile */
};

static void blame(dlr_engine *e, int rank, const char *why, const char *what) {
    char place_is[128], away[64] = "";
    if (e->watch->away && dl_clock_ns() - e->watch->woken < WOKEN_NS)
        snprintf(away, sizeof away, "; rank %d was itself stopped, for %.1f s", e->rank,
                 (double)e->watch->away * 1e-9);
    dlr_engine_fail(e, "rank %d takes no part in %s: %s%s%s", rank, what, why,
                    place_text(e, rank, place_is, sizeof place_is), away);
}

/* Whether that rank's process was on this machine, and has ended. */
static bool has_ended(const dlr_engine *e, int rank) {
    const dlr_heartbeat *w = e->watch;
    return w->placed && dlr_process_ended(dlr_process_state(&w->places[rank], &w->places[e->rank]));
}

/* The rank that has been silent longest, and for how long (ns). */
static int most_silent(const dlr_engine *e, int64_t now, int64_t *silent) {
    const dlr_heartbeat *w = e->watch;
    int worst = -1;
    for (int r = 0; r < w->n; r++)
        if (r != e->rank && (worst < 0 || w->heard[r] < w->heard[worst])) worst = r;
    *silent = worst < 0 ? 0 : now - w->heard[worst];
    return worst;
}

/* No other rank is heard: this rank is the one that is cut off, unless there is only one other. */
static bool hears_nobody(const dlr_engine *e, int64_t now, int64_t bound) {
    const dlr_heartbeat *w = e->watch;
    for (int r = 0; r < w->n; r++)
        if (r != e->rank && now - w->heard[r] < bound) return false;
    return w->n > 2;
}

static void blame_silent(dlr_engine *e, int64_t now, int rank, int64_t silent, int64_t bound,
                         const char *what) {
    char why[128];
    snprintf(why, sizeof why, "no sign of life for %.1f s", (double)silent * 1e-9);
    if (hears_nobody(e, now, bound))
        dlr_engine_fail(e, "rank %d hears none of the other %d ranks any more, in %s", e->rank,
                        e->size - 1, what);
    else
        blame(e, rank, why, what);
}

/* A collective has not progressed for the timeout; l NULL: one on the device, which the program
 * waits for. */
static void blame_late(dlr_engine *e, const dlr_lane *l, int64_t now) {
    const dlr_heartbeat *w = e->watch;
    const dlr_members *g = l ? l->op->group : e->comm->group[0];
    double late = (double)(now - (l ? l->moved : w->device.waiting)) * 1e-9;
    int64_t silent, bound = 2 * (w->peers + 3) * w->tick;
    int rank = most_silent(e, now, &silent), slowest = -1, missing = -1;
    if (bound < w->timeout / 4) bound = w->timeout / 4;
    if (rank >= 0 && silent > bound) {
        blame_silent(e, now, rank, silent, bound, what_of(e));
        return;
    }
    for (int m = 0; m < g->n; m++) {
        int r = g->ranks[m];
        if (r == e->rank) continue;
        if (slowest < 0 || w->ranks[r].calls < w->ranks[slowest].calls) slowest = r;
        if (missing < 0 && l && l->missing[m] > 0) missing = r;
    }
    char why[160], in[sizeof w->device.what + 40];
    bool lags = slowest >= 0 && w->ranks[slowest].calls < w->ranks[e->rank].calls;
    if (!lags && missing >= 0) slowest = missing;
    if (lags)
        snprintf(why, sizeof why,
                 "it lives, but has started %u collectives and rank %d %u, for %.1f s",
                 w->ranks[slowest].calls, e->rank, w->ranks[e->rank].calls, late);
    else
        snprintf(why, sizeof why, "it lives, but nothing of it has come for %.1f s", late);
    /* MPI does not say whose part of its own sum is missing */
    if (lags || (l && (missing >= 0 || !l->op->by_mpi)))
        blame(e, slowest < 0 ? e->rank : slowest, why, what_of(e));
    else /* all ranks wait, as far as they report */
        dlr_engine_fail(e,
                        "rank %d: %s%s has not ended for %.1f s (--comm_timeout), and no rank is "
                        "known to be lost",
                        e->rank, where_text(e, in, sizeof in), l ? " by MPI" : " on the device",
                        late);
}

/* A rank that was stopped itself (a debugger, Slurm's suspension) does not hold that time against
 * the others. */
static void forgive(dlr_engine *e, int64_t gap) {
    dlr_heartbeat *w = e->watch;
    for (int r = 0; r < w->n; r++) w->heard[r] += gap;
    for (int i = 0; i < LANES; i++) e->lane[i].moved += gap;
    if (w->parting) w->parting += gap;
    w->excused += gap;
    w->away = gap, w->woken = dl_clock_ns();
}

enum { GONE_NS = 1000000000 /* a good-bye may still be under way when its sender has ended */ };
static const char end_of_run[] = "the end of the run";

/* Runs while good-byes are exchanged. */
static void look_at_parting(dlr_engine *e, int64_t now) {
    dlr_heartbeat *w = e->watch;
    int ended = -1;
    for (int i = 0; i < w->peers; i++) {
        int rank = rank_before(e, i);
        if (w->peer[i].parted_from) continue;
        if (now - w->parting > w->timeout) {
            blame(e, rank, "it does not end its run", end_of_run);
            return;
        }
        if (ended < 0 && has_ended(e, rank)) ended = rank;
    }
    if (ended < 0)
        w->gone = 0;
    else if (!w->gone)
        w->gone = now;
    else if (now - w->gone > GONE_NS)
        blame(e, ended, "it has ended", end_of_run);
}

/* The process infos do not change once known; nothing else is read that the engine's thread may
 * still change. */
void dlr_heartbeat_blame_end(dlr_engine *e) {
    const dlr_heartbeat *w = e->watch;
    char why[64];
    snprintf(why, sizeof why, "MPI's own end has not come back for %.1f s", e->options.timeout);
    int far = -1, n_far = 0;
    for (int r = 0; r < w->n; r++) {
        bool here = w->places[r].where == w->places[e->rank].where;
        char state = r == e->rank ? '?' : dlr_process_state(&w->places[r], &w->places[e->rank]);
        if (dlr_process_ended(state) || state == 'T' || state == 't') {
            blame(e, r, why, end_of_run);
            return;
        }
        if (!here) far = r, n_far++;
    }
    if (n_far == 1) {
        blame(e, far, why, end_of_run);
        return;
    }
    dlr_engine_fail(
        e,
        "rank %d has ended its part of the run, but %s: one of the %d ranks %s hangs or is cut off",
        e->rank, why, n_far ? n_far : w->n - 1, n_far ? "of other machines" : "of this machine");
}

static void look(dlr_engine *e, int64_t now) {
    dlr_heartbeat *w = e->watch;
    char what[sizeof w->device.what + 40];
    const dlr_lane *l = oldest_lane(e);
    if (w->parting) {
        look_at_parting(e, now);
        return;
    }
    if (w->placed && w->neighbour >= 0 && e->state == READY && has_ended(e, w->neighbour)) {
        blame(e, w->neighbour, "it has ended", where_text(e, what, sizeof what));
        return;
    }
    int64_t silent;
    int rank = most_silent(e, now, &silent);
    if (!l && w->device.waiting && now - w->device.waiting > w->timeout)
        blame_late(e, NULL, now);
    else if (l && now - l->moved > w->timeout)
        blame_late(e, l, now);
    else if (!l && rank >= 0 && silent > w->timeout)
        blame_silent(e, now, rank, silent, w->timeout, where_text(e, what, sizeof what));
}

/* ---- messages ---- */

void dlr_heartbeat_tick(dlr_engine *e) {
    dlr_heartbeat *w = e->watch;
    int64_t now = dl_clock_ns(), gap = now - w->last - w->tick;
    bool first = !w->next;
    w->last = now, w->next = now + w->tick;
    if (first)
        for (int i = 0; i < w->peers; i++) receive(e, i);
    else if (gap > 4 * w->tick && gap > 1000000000)
        forgive(e, gap);
    w->ranks[e->rank].beat++;
    w->device = dlr_hooks_state(e->comm);
    if (w->device.waiting != w->waiting) w->waiting = w->device.waiting, w->excused = 0;
    if (w->waiting) w->device.waiting += w->excused;
    pthread_mutex_lock(&e->lock);
    w->ranks[e->rank].calls = (uint32_t)(e->next_ticket + w->device.calls);
    pthread_mutex_unlock(&e->lock);
    peer *y = &w->peer[w->next_peer];
    if (!y->sending && !y->parting && !y->said) {
        y->out->word = BEATS;
        y->sending = send_message(e, w->next_peer, y->out);
    }
    w->next_peer = (w->next_peer + 1) % w->peers;
    look(e, now);
}

static void say_good_bye(dlr_engine *e, int i) {
    peer *y = &e->watch->peer[i];
    y->parting = false, y->said = y->sending = true;
    y->out->word = GOOD_BYE;
    send_message(e, i, y->out);
}

static void take_beats(dlr_heartbeat *w, const message *m) {
    int64_t now = dl_clock_ns();
    for (int r = 0; r < w->n; r++)
        if ((int32_t)(m->ranks[r].beat - w->ranks[r].beat) > 0)
            w->ranks[r] = m->ranks[r], w->heard[r] = now;
}

void dlr_heartbeat_message(dlr_engine *e, bool receives, int i) {
    peer *y = &e->watch->peer[i];
    if (!receives) {
        y->sending = false;
        if (y->parting) say_good_bye(e, i);
        return;
    }
    take_beats(e->watch, y->in);
    if (y->in->word == LOST) {
        y->in->text[TEXT - 1] = 0;
        dlr_engine_fail(e, "%s", y->in->text);
    } else if (y->in->word == GOOD_BYE)
        y->parted_from = true;
    else
        receive(e, i);
}

void dlr_heartbeat_part(dlr_engine *e) {
    dlr_heartbeat *w = e->watch;
    w->parting = dl_clock_ns();
    for (int i = 0; i < w->peers; i++) {
        w->peer[i].parting = true;
        if (!w->peer[i].sending) say_good_bye(e, i);
    }
}

bool dlr_heartbeat_parted(const dlr_engine *e) {
    for (int i = 0; i < e->watch->peers; i++) {
        const peer *y = &e->watch->peer[i];
        if (!y->said || y->sending || !y->parted_from) return false;
    }
    return true;
}

void dlr_heartbeat_spread(dlr_engine *e) {
    dlr_heartbeat *w = e->watch;
    for (int i = 0; i < w->peers; i++) {
        if (w->peer[i].said) continue;
        message *m = w->peer[i].lost;
        m->word = LOST;
        snprintf(m->text, sizeof m->text, "%s", e->failed.message);
        send_message(e, i, m);
    }
}
