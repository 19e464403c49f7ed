#include "runtime/comm/engine.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "ir/base/clock.h"

enum {
    POLLED = 256,      /* messages taken at a time */
    SPIN_NS = 20000,   /* of the engine while the program waits; then it sleeps between looks */
    WAITED_NS = 10000, /* so long at first while the program waits, */
    SLEEP_NS = 50000,  /* and so long while it computes; then longer with the wait */
    MOST_SLEEP_NS = 1000000,
    BROKEN_NS = 500000000, /* how long a message that does not fit waits for its signature's explanation */
    SPREAD_NS = 300000000, /* how long a failure is told to others */
};
static const int64_t second = 1000000000;

void dlr_engine_fail(dlr_engine *e, const char *format, ...) {
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&e->lock);
    dl_fail(&e->failed, DL_PEER, "%s", text);
    e->lost = true;
    pthread_cond_broadcast(&e->change);
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
}

static struct timespec moment(int64_t ns) {
    return (struct timespec){.tv_sec = ns / second, .tv_nsec = ns % second};
}

/* ---- the program's thread ---- */

/* The room for started collectives is doubled when it is full. */
static void widen(dlr_engine *e) {
    int64_t more = 2 * e->room;
    dlr_op **ops = dl_calloc((size_t)more, sizeof(dlr_op *));
    for (int64_t t = e->first_kept; t < e->next_ticket; t++) ops[t % more] = e->ops[t % e->room];
    free(e->ops);
    e->ops = ops, e->room = more;
}

static dlr_op *take_op(dlr_engine *e, int n) {
    dlr_op *op = e->n_spare ? e->spare[--e->n_spare] : dl_calloc(1, sizeof *op);
    if (op->counts_room < n) {
        op->counts = dl_realloc(op->counts, (size_t)n * sizeof *op->counts);
        op->counts_room = n;
    }
    return op;
}

static void give_op(dlr_engine *e, dlr_op *op) {
    if (e->n_spare == e->spare_room) {
        e->spare_room = e->spare_room ? 2 * e->spare_room : 64;
        e->spare = dl_realloc(e->spare, (size_t)e->spare_room * sizeof *e->spare);
    }
    e->spare[e->n_spare++] = op;
}

static int64_t engine_start(dlr_comm *comm, dlr_members *group, const dlr_collective *c) {
    dlr_engine *e = comm->of;
    pthread_mutex_lock(&e->lock);
    if (e->next_ticket - e->first_kept == e->room) widen(e);
    dlr_op *op = take_op(e, group->n);
    int64_t *counts = op->counts;
    *op = (dlr_op){.c = *c, .group = group, .counts = counts, .counts_room = op->counts_room};
    if (c->kind == DLR_ALL_GATHER || c->kind == DLR_REDUCE_SCATTER)
        memcpy(counts, c->counts, (size_t)group->n * sizeof *counts);
    op->c.counts = counts;
    op->ticket = e->next_ticket++, op->number = group->started - 1;
    op->hash = dlr_collective_hash(c, group->n);
    op->asked = dl_clock_ns();
    snprintf(op->what, sizeof op->what, "%s", c->what ? c->what : dlr_collective_name(c->kind));
    e->ops[op->ticket % e->room] = op;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
    return op->ticket;
}

static bool engine_wait(dlr_comm *comm, int64_t ticket, dl_error *err) {
    dlr_engine *e = comm->of;
    pthread_mutex_lock(&e->lock);
    dlr_op *op = ticket >= e->first_kept && ticket < e->next_ticket ? e->ops[ticket % e->room] : NULL;
    bool ok = op || dl_fail(err, DL_INTERNAL, "a ticket that is none, or was waited for");
    if (ok && !op->done && !e->failed.code) {
        e->waiting = true;
        pthread_cond_signal(&e->work);
        while (!op->done && !e->failed.code) pthread_cond_wait(&e->change, &e->lock);
        e->waiting = false;
    }
    if (e->failed.code) {
        e->told = true;
        pthread_cond_signal(&e->work);
        ok = dl_fail(err, e->failed.code, "%s", e->failed.message);
    } else if (ok) {
        e->ops[ticket % e->room] = NULL;
        while (e->first_kept < e->next_ticket && !e->ops[e->first_kept % e->room]) e->first_kept++;
        give_op(e, op);
    }
    pthread_mutex_unlock(&e->lock);
    return ok;
}

static bool engine_done(dlr_comm *comm, int64_t ticket) {
    dlr_engine *e = comm->of;
    pthread_mutex_lock(&e->lock);
    const dlr_op *op = ticket >= e->first_kept && ticket < e->next_ticket ? e->ops[ticket % e->room] : NULL;
    bool done = !op || op->done || e->failed.code;
    pthread_mutex_unlock(&e->lock);
    return done;
}

static bool engine_group(dlr_comm *comm, dlr_members *group, dl_error *err) {
    (void)comm, (void)group, (void)err;
    return true;
}

/* ---- the engine's thread: a lane ---- */

static void complete(dlr_engine *e, dlr_lane *l) {
    dlr_op *op = l->op;
    op->ended = dl_clock_ns();
    dlr_flight_note(e, op);
    l->op = NULL;
    pthread_mutex_lock(&e->lock);
    op->done = true;
    pthread_cond_broadcast(&e->change);
    pthread_mutex_unlock(&e->lock);
}

/* Moves a chunk on for as long as nothing is under way; false once it is done. */
static bool go_on(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    while (!k->pending) {
        k->phase++;
        if (e->lost) return true;
        if (!dlr_lane_phase(e, l, k)) return false;
    }
    return true;
}

static void advance(dlr_engine *e, dlr_lane *l) {
    for (int i = 0; i < CHUNKS; i++) {
        dlr_chunk *k = &l->chunk[i];
        if (k->busy && !k->pending && !go_on(e, l, k)) k->busy = false, l->finished++;
    }
    /* chunk b is always in place b % CHUNKS, which is what its messages' tags say */
    while (l->begun < l->chunks && !l->chunk[l->begun % CHUNKS].busy && !e->lost) {
        dlr_chunk *k = &l->chunk[l->begun % CHUNKS];
        *k = (dlr_chunk){.busy = true, .number = l->begun++, .phase = -1, .room = k->room};
        if (!go_on(e, l, k)) k->busy = false, l->finished++;
    }
    if (l->finished == l->chunks && !l->signatures && !l->broken && !e->lost) complete(e, l);
}

static void post_signatures(dlr_engine *e, dlr_lane *l) {
    const dlr_op *op = l->op;
    int n = op->group->n, me = op->group->me, lane = (int)(l - e->lane);
    int next = (me + 1) % n, before = (me + n - 1) % n,
        tag = op->c.group * SEQUENCE + (int)(op->number % SEQUENCE);
    l->signatures = 0;
    if (n == 1) return;
    l->out = (dlr_signature){.hash = op->hash, .number = op->number};
    memcpy(l->out.what, op->what, sizeof l->out.what);
    int failed = e->mpi->receive(&l->in, sizeof l->in, op->group->ranks[before], tag, 1,
                                 dlr_id(DLR_SIGNATURE, true, lane, 0, before));
    if (!failed) {
        l->missing[before]++;
        failed = e->mpi->send(&l->out, sizeof l->out, op->group->ranks[next], tag, 1,
                              dlr_id(DLR_SIGNATURE, false, lane, 0, next));
    }
    l->signatures = 2;
    if (failed)
        dlr_engine_fail(e, "ranks %d and %d cannot be reached for %s", op->group->ranks[before],
                        op->group->ranks[next], op->what);
}

static void begin(dlr_engine *e, dlr_lane *l, dlr_op *op) {
    l->op = op, l->begun = l->finished = 0, l->broken = 0;
    op->begun = l->moved = dl_clock_ns();
    memset(l->missing, 0, (size_t)op->group->n * sizeof *l->missing);
    for (int i = 0; i < CHUNKS; i++) l->chunk[i].busy = false, l->chunk[i].pending = 0;
    dlr_flight_note(e, op);
    dlr_lane_plan(e, l);
    post_signatures(e, l);
    advance(e, l);
}

/* Takes what the program has started into free lanes, in its order. */
static bool take_work(dlr_engine *e) {
    bool any = false;
    for (int i = 0; i < LANES; i++) {
        int64_t oldest = INT64_MAX;
        for (int k = 0; k < LANES; k++)
            if (e->lane[k].op && e->lane[k].op->ticket < oldest) oldest = e->lane[k].op->ticket;
        if (e->lane[i].op) continue;
        pthread_mutex_lock(&e->lock);
        bool there =
            e->next_begun < e->next_ticket && (oldest == INT64_MAX || e->next_begun - oldest < SEQUENCE);
        dlr_op *op = there ? e->ops[e->next_begun++ % e->room] : NULL;
        pthread_mutex_unlock(&e->lock);
        if (!op) break;
        begin(e, &e->lane[i], op);
        any = true;
    }
    return any;
}

/* ---- the engine's thread: messages ---- */

static void check_signature(dlr_engine *e, const dlr_lane *l) {
    const dlr_op *op = l->op;
    int before = op->group->ranks[(op->group->me + op->group->n - 1) % op->group->n];
    if (l->in.hash != l->out.hash || l->in.number != l->out.number)
        dlr_engine_fail(
            e,
            "rank %d and rank %d do not call the same: collective %lld of group %d is %.*s on rank %d, and "
            "%s on rank %d%s",
            before, e->rank, (long long)op->number, op->c.group, WHAT - 1, l->in.what, before, op->what,
            e->rank, strcmp(l->in.what, op->what) == 0 ? " (of another type, count or root)" : "");
}

/* A message that failed, or did not fit: its sender calls something else, or is gone. */
static void note_fault(dlr_engine *e, dlr_lane *l, int member, int error) {
    if (l->broken) return;
    l->broken = dl_clock_ns();
    l->broken_member = member;
    e->mpi->error_text(error, l->broken_text, sizeof l->broken_text);
}

static void take_message(dlr_engine *e, uint64_t id, int error) {
    dlr_message_kind kind = (dlr_message_kind)(id >> 56);
    bool receives = id >> 55 & 1;
    int member = (int)(uint32_t)id;
    if (kind == DLR_GOSSIP) {
        if (!error) dlr_watch_message(e, receives, member);
        return;
    }
    dlr_lane *l = &e->lane[id >> 48 & 127];
    l->moved = dl_clock_ns();
    if (receives) l->missing[member]--;
    if (error) note_fault(e, l, member, error);
    if (kind == DLR_SIGNATURE) {
        l->signatures--;
        if (receives && !error) check_signature(e, l);
    } else
        l->chunk[id >> 40 & 255].pending--;
    advance(e, l);
}

static bool poll_messages(dlr_engine *e) {
    uint64_t ids[POLLED];
    int errors[POLLED], n = e->mpi->poll(ids, errors, POLLED);
    for (int i = 0; i < n; i++) take_message(e, ids[i], errors[i]);
    return n > 0;
}

static bool busy(const dlr_engine *e) {
    for (int i = 0; i < LANES; i++)
        if (e->lane[i].op) return true;
    return false;
}

static void check_broken(dlr_engine *e) {
    for (int i = 0; i < LANES; i++) {
        const dlr_lane *l = &e->lane[i];
        if (l->op && l->broken && dl_clock_ns() - l->broken > BROKEN_NS)
            dlr_engine_fail(e, "rank %d does not take its part in %s: %s",
                            l->op->group->ranks[l->broken_member], l->op->what, l->broken_text);
    }
}

/* ---- the engine's thread: its life ---- */

/* Sleeps until there may be something to do. While messages are under way the pause grows with the wait, so
 * that a look costs little beside it: a thread that spins would take a core from who computes. */
static void rest(dlr_engine *e, int64_t idle) {
    bool in_work = busy(e);
    int64_t until = dlr_watch_next(e), pause = idle / 8, least = e->waiting ? WAITED_NS : SLEEP_NS;
    if (pause < least) pause = least;
    if (pause > MOST_SLEEP_NS) pause = MOST_SLEEP_NS;
    if (in_work && e->waiting && idle < SPIN_NS) {
        sched_yield();
        return;
    }
    int64_t now = dl_clock_ns();
    if (in_work && now + pause < until) until = now + pause;
    struct timespec t = moment(until);
    pthread_mutex_lock(&e->lock);
    bool more = e->next_begun < e->next_ticket && !in_work;
    if (!more && e->state == READY && !e->lost) pthread_cond_timedwait(&e->work, &e->lock, &t);
    if (e->state == CLOSING) {
        struct timespec soon = moment(now + SLEEP_NS);
        pthread_cond_timedwait(&e->work, &e->lock, &soon);
    }
    pthread_mutex_unlock(&e->lock);
}

static void set_state(dlr_engine *e, int state) {
    pthread_mutex_lock(&e->lock);
    e->state = state;
    pthread_cond_broadcast(&e->change);
    pthread_mutex_unlock(&e->lock);
}

/* The others hear of it, and the program, which may be far from a wait. */
static void give_up(dlr_engine *e) {
    pthread_mutex_lock(&e->lock);
    dl_error why = e->failed;
    pthread_mutex_unlock(&e->lock);
    dlr_flight_dump(e);
    if (e->comm) dlr_beside_lost(e->comm, &why);
    dlr_watch_spread(e);
    for (int64_t end = dl_clock_ns() + SPREAD_NS; dl_clock_ns() < end;) {
        uint64_t ids[POLLED];
        int errors[POLLED];
        e->mpi->poll(ids, errors, POLLED);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    set_state(e, ENDED);
    struct timespec t = moment(dl_clock_ns() + 2 * second);
    pthread_mutex_lock(&e->lock);
    int late = 0;
    while (!e->told && late != ETIMEDOUT) late = pthread_cond_timedwait(&e->work, &e->lock, &t);
    bool told = e->told;
    pthread_mutex_unlock(&e->lock);
    if (!told && e->options.lost) e->options.lost(e->options.context, &e->failed);
}

static void *run(void *of) {
    dlr_engine *e = of;
    char fault[400];
    int rank = 0, size = 0;
    prctl(PR_SET_TIMERSLACK, 1000UL);
    prctl(PR_SET_NAME, "dlr-comm");
    if (!e->mpi->open(&rank, &size, fault, sizeof fault)) {
        dlr_engine_fail(e, "MPI does not start: %s", fault);
        return NULL;
    }
    e->rank = rank, e->size = size;
    set_state(e, READY);
    pthread_mutex_lock(&e->lock); /* the program looks at the world, and makes what needs its size */
    while (!e->watch && !e->failed.code && e->state == READY) pthread_cond_wait(&e->work, &e->lock);
    bool begins = e->watch != NULL;
    pthread_mutex_unlock(&e->lock);
    if (!begins) {
        e->mpi->close();
        set_state(e, ENDED);
        return NULL;
    }
    int64_t moved = dl_clock_ns();
    bool parting = false;
    while (!e->lost) {
        bool any = take_work(e);
        any |= poll_messages(e);
        int64_t now = dl_clock_ns();
        if (now >= dlr_watch_next(e)) dlr_watch_tick(e), check_broken(e);
        if (e->state == CLOSING && !parting) parting = true, dlr_watch_part(e);
        if (parting && dlr_watch_parted(e)) break;
        if (any)
            moved = now;
        else
            rest(e, now - moved);
    }
    if (e->lost)
        give_up(e);
    else {
        e->mpi->close();
        set_state(e, ENDED);
    }
    return NULL;
}

/* Waits for another state than this one; false after so many seconds, or a failure. */
static bool await(dlr_engine *e, int state, double seconds) {
    struct timespec t = moment(dl_clock_ns() + (int64_t)(seconds * 1e9));
    pthread_mutex_lock(&e->lock);
    int late = 0;
    while ((int)e->state == state && !e->failed.code && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&e->change, &e->lock, &t);
    bool ok = (int)e->state != state && !e->failed.code;
    pthread_mutex_unlock(&e->lock);
    return ok;
}

static void free_engine(dlr_engine *e) {
    for (int i = 0; i < LANES; i++) free(e->lane[i].missing), free(e->lane[i].before);
    for (int i = 0; i < e->n_spare; i++) free(e->spare[i]->counts), free(e->spare[i]);
    for (int64_t t = e->first_kept; t < e->next_ticket; t++)
        if (e->ops[t % e->room]) free(e->ops[t % e->room]->counts), free(e->ops[t % e->room]);
    dlr_watch_close(e->watch);
    free(e->spare), free(e->ops), free(e->rooms);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->change);
    free(e);
}

static bool engine_close(dlr_comm *comm) {
    dlr_engine *e = comm->of;
    dl_error err = {0};
    bool well = dlr_comm_barrier(comm, &err);
    if (well) {
        set_state(e, CLOSING);
        pthread_mutex_lock(&e->lock);
        pthread_cond_signal(&e->work);
        pthread_mutex_unlock(&e->lock);
        well = await(e, CLOSING, e->options.timeout);
    }
    if (!well) {
        pthread_mutex_lock(&e->lock);
        e->told = true;
        pthread_cond_signal(&e->work);
        struct timespec t = moment(dl_clock_ns() + second);
        while (e->failed.code && e->state != ENDED &&
               pthread_cond_timedwait(&e->change, &e->lock, &t) != ETIMEDOUT) {
        }
        pthread_mutex_unlock(&e->lock);
        pthread_detach(e->thread);
        return false;
    }
    pthread_join(e->thread, NULL);
    free_engine(e);
    return true;
}

static void engine_leave(dlr_comm *comm, const char *why) {
    dlr_engine *e = comm->of;
    dlr_engine_fail(e, "rank %d has left: %s", e->rank, why);
    pthread_mutex_lock(&e->lock);
    e->told = true;
    pthread_cond_signal(&e->work);
    struct timespec t = moment(dl_clock_ns() + second);
    while (e->state != ENDED && pthread_cond_timedwait(&e->change, &e->lock, &t) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&e->lock);
}

static const dlr_comm_backend_table table = {.group = engine_group,
                                             .start = engine_start,
                                             .wait = engine_wait,
                                             .done = engine_done,
                                             .close = engine_close,
                                             .leave = engine_leave,
                                             .apart = true};

/* ---- opening ---- */

static void init_locks(dlr_engine *e) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, &monotonic);
    pthread_cond_init(&e->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Signals are for the program's own thread. */
static bool start_thread(dlr_engine *e, dl_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&e->thread, NULL, run, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failed;
    return !failed || dl_fail_errno(err, DL_RESOURCE, "cannot start a thread for MPI");
}

static bool check_world(const dlr_engine *e, const dlr_world_said *said, dl_error *err) {
    if (e->size != said->world.size)
        return dl_fail(
            err, DL_USAGE,
            "%s=%d, but %s has started %d rank%s: unset the one that is wrong, or start with dlrun -n %d, "
            "mpirun -n %d or srun --mpi=pmix",
            said->size_name, said->world.size, e->mpi->name, e->size, e->size == 1 ? "" : "s",
            said->world.size, said->world.size);
    if (e->rank != said->world.rank)
        return dl_fail(err, DL_USAGE, "the environment says that this is rank %d, and %s that it is rank %d",
                       said->world.rank, e->mpi->name, e->rank);
    return true;
}

static void make_rooms(dlr_engine *e) {
    e->room_bytes = dlr_chunk_bytes(e->size);
    size_t one = ((size_t)e->room_bytes + (size_t)e->size * 16 * sizeof(double) + 63) / 64 * 64;
    e->rooms = dl_malloc(one * LANES * CHUNKS);
    for (int i = 0; i < LANES; i++) {
        dlr_lane *l = &e->lane[i];
        for (int k = 0; k < CHUNKS; k++) l->chunk[k].room = e->rooms + one * (size_t)(i * CHUNKS + k);
        l->missing = dl_calloc((size_t)e->size, sizeof *l->missing);
        l->before = dl_calloc((size_t)e->size + 1, sizeof *l->before);
    }
    e->room = 64;
    e->ops = dl_calloc((size_t)e->room, sizeof(dlr_op *));
}

dlr_comm *dlr_engine_open(const dlr_mpi *mpi, const dlr_world_said *said, const dlr_world_options *options,
                          dl_error *err) {
    dlr_engine *e = dl_calloc(1, sizeof *e);
    e->mpi = mpi, e->options = *options;
    if (!(e->options.timeout > 0)) e->options.timeout = 600;
    init_locks(e);
    if (!start_thread(e, err)) {
        free_engine(e);
        return NULL;
    }
    if (!await(e, STARTING, e->options.timeout)) { /* the thread may hang in MPI: nothing is freed */
        if (e->lost)
            dl_fail(err, DL_PEER, "%s", e->failed.message);
        else
            dl_fail(err, DL_PEER,
                    "rank %d has waited for the others to start MPI for %g s (--comm_timeout): of the %d "
                    "that %s says, "
                    "one has not come",
                    said->world.rank, e->options.timeout, said->world.size, said->size_name);
        return NULL;
    }
    if (!check_world(e, said, err)) {
        set_state(e, CLOSING);
        pthread_cond_signal(&e->work);
        await(e, CLOSING, 2);
        return NULL;
    }
    make_rooms(e);
    dlr_world world = said->world;
    dlr_comm *comm = dlr_comm_new(&table, mpi->name, world, e);
    e->comm = comm, comm->timeout = e->options.timeout;
    dlr_watch *w = dlr_watch_open(e);
    pthread_mutex_lock(&e->lock);
    e->watch = w;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
    if (dlr_watch_places(comm, e, err)) return comm;
    return NULL;
}
