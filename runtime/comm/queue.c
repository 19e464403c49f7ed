/* The program's side of the engine: starts and waits for collectives, opens and closes the
 * engine. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "runtime/comm/engine.h"

static const int64_t second = 1000000000;

/* ---- collectives ---- */

/* Doubles the ring of started collectives when it is full. */
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
    if (dlr_by_pieces(c)) memcpy(counts, c->counts, (size_t)group->n * sizeof *counts);
    op->c.counts = counts;
    op->ticket = e->next_ticket++, op->number = group->started - 1;
    op->by_mpi = dlr_sum_by_mpi(comm, group, c);
    comm->counts.by_mpi += op->by_mpi;
    op->hash = dlr_collective_hash(c, group->n) + op->by_mpi;
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
    dlr_op *op =
        ticket >= e->first_kept && ticket < e->next_ticket ? e->ops[ticket % e->room] : NULL;
    bool ok = op || dl_fail(err, DL_INTERNAL, "a ticket that is none, or was waited for");
    if (ok && !op->done && !e->failed.code) {
        e->waiting = true;
        pthread_cond_signal(&e->work);
        while (!op->done && !e->failed.code) pthread_cond_wait(&e->change, &e->lock);
        e->waiting = false;
    }
    if (ok && !op->done) {
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
    const dlr_op *op =
        ticket >= e->first_kept && ticket < e->next_ticket ? e->ops[ticket % e->room] : NULL;
    bool done = !op || op->done || e->failed.code;
    pthread_mutex_unlock(&e->lock);
    return done;
}

static bool engine_group(dlr_comm *comm, dlr_members *group, dl_error *err) {
    (void)comm, (void)group, (void)err;
    return true;
}

/* ---- closing ---- */

/* Waits until the state differs from this one; false after so many seconds, or on a failure. */
static bool await(dlr_engine *e, int state, double seconds) {
    struct timespec t = dlr_moment(dl_clock_ns() + (int64_t)(seconds * 1e9));
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
    dlr_heartbeat_close(e->watch);
    free(e->spare), free(e->ops), free(e->rooms);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->change);
    free(e);
}

/* Waits until the engine's thread has announced a failure to the others. */
static void await_spread(dlr_engine *e) {
    pthread_mutex_lock(&e->lock);
    e->told = true;
    pthread_cond_signal(&e->work);
    struct timespec t = dlr_moment(dl_clock_ns() + second);
    while (e->state != ENDED && pthread_cond_timedwait(&e->change, &e->lock, &t) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&e->lock);
}

static bool engine_close(dlr_comm *comm, dl_error *err) {
    dlr_engine *e = comm->of;
    bool ended = dlr_comm_barrier(comm, err);
    if (ended) {
        dlr_engine_state(e, CLOSING);
        /* the heartbeats announce the end first, and give the others as long to do so; after that
         * the thread is within MPI's finalize, and receives nothing */
        ended = await(e, CLOSING, e->options.timeout + 1);
        if (!ended && !e->lost)
            dlr_heartbeat_blame_end(e);
        else if (!ended)
            await_spread(e);
    } else
        await_spread(e);
    if (ended) {
        pthread_join(e->thread, NULL);
        free_engine(e);
        return true;
    }
    return dl_fail(err, DL_PEER, "%s", e->failed.message);
}

static void engine_leave(dlr_comm *comm, const char *why) {
    dlr_engine *e = comm->of;
    dlr_engine_fail(e, "rank %d has left: %s", e->rank, why);
    await_spread(e);
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

/* Signals are for the program's main thread. */
static bool start_thread(dlr_engine *e, dl_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&e->thread, NULL, dlr_engine_run, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failed;
    return !failed || dl_fail_errno(err, DL_RESOURCE, "cannot start a thread for MPI");
}

static bool check_world(const dlr_engine *e, const dlr_world_said *said, dl_error *err) {
    if (e->size != said->world.size)
        return dl_fail(err, DL_USAGE,
                       "%s=%d, but %s has started %d rank%s: unset the one that is wrong, or start "
                       "with dlrun -n %d, "
                       "mpirun -n %d or srun --mpi=pmix",
                       said->size_name, said->world.size, e->mpi->name, e->size,
                       e->size == 1 ? "" : "s", said->world.size, said->world.size);
    if (e->rank != said->world.rank)
        return dl_fail(err, DL_USAGE,
                       "the environment says that this is rank %d, and %s that it is rank %d",
                       said->world.rank, e->mpi->name, e->rank);
    return true;
}

static void make_rooms(dlr_engine *e) {
    e->room_bytes = dlr_chunk_bytes(e->size);
    size_t one = ((size_t)e->room_bytes + (size_t)e->size * 16 * sizeof(double) + 63) / 64 * 64;
    e->rooms = dl_malloc(one * LANES * CHUNKS);
    for (int i = 0; i < LANES; i++) {
        dlr_lane *l = &e->lane[i];
        for (int k = 0; k < CHUNKS; k++)
            l->chunk[k].room = e->rooms + one * (size_t)(i * CHUNKS + k);
        l->missing = dl_calloc((size_t)e->size, sizeof *l->missing);
        l->before = dl_calloc((size_t)e->size + 1, sizeof *l->before);
    }
    e->room = 64;
    e->ops = dl_calloc((size_t)e->room, sizeof(dlr_op *));
}

dlr_comm *dlr_engine_open(const dlr_mpi *mpi, const dlr_world_said *said,
                          const dlr_world_options *options, dl_error *err) {
    dlr_engine *e = dl_calloc(1, sizeof *e);
    e->mpi = mpi, e->options = *options;
    if (!(e->options.timeout > 0)) e->options.timeout = 600;
    init_locks(e);
    if (!start_thread(e, err)) {
        free_engine(e);
        return NULL;
    }
    /* the thread may hang in MPI: nothing is freed */
    if (!await(e, STARTING, e->options.timeout)) {
        if (e->lost)
            dl_fail(err, DL_PEER, "%s", e->failed.message);
        else
            dl_fail(err, DL_PEER,
                    "rank %d has waited for the others to start MPI for %g s (--comm_timeout): of "
                    "the %d "
                    "that %s says, "
                    "one has not come",
                    said->world.rank, e->options.timeout, said->world.size, said->size_name);
        return NULL;
    }
    if (!check_world(e, said, err)) {
        dlr_engine_state(e, CLOSING);
        await(e, CLOSING, 2);
        return NULL;
    }
    make_rooms(e);
    dlr_world world = said->world;
    dlr_comm *comm = dlr_comm_new(&table, mpi->name, world, e);
    e->comm = comm, comm->timeout = e->options.timeout;
    dlr_heartbeat *w = dlr_heartbeat_open(e);
    pthread_mutex_lock(&e->lock);
    e->watch = w;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
    if (dlr_exchange_process_infos(comm, e, err)) return comm;
    return NULL;
}
