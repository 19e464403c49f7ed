#include "runtime/comm/engine.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

#include "ir/base/clock.h"

enum {
    POLLED = 256, /* messages per poll */
    /* the engine spins so long while the program waits; then it sleeps between polls */
    SPIN_NS = 20000,
    WAITED_NS = 10000, /* first sleep while the program waits, */
    SLEEP_NS = 50000,  /* and while the program computes; later sleeps grow with the wait */
    MOST_SLEEP_NS = 1000000,
    BROKEN_NS = 500000000, /* how long a message that does not fit waits for the signature that
                              explains it */
    SPREAD_NS = 300000000, /* how long a failure is announced to the others */
};
/* how long the program has to learn of a failure by a wait */
static const int64_t told_ns = 2000000000;

/* ---- lanes ---- */

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

/* Advances a chunk through its phases while no message is under way; false when the chunk is
 * done. */
static bool go_on(dlr_engine *e, dlr_lane *l, dlr_chunk *k) {
    while (!k->pending) {
        k->phase++;
        if (e->lost) return true;
        if (!dlr_lane_phase(e, l, k)) return false;
    }
    return true;
}

/* Whether the lane's next chunk may begin. MPI matches its own sums by their order, and sums that
 * differ are undefined: one begins when the previous member is known to call the same, and after
 * those that the program has started before it. */
static bool may_begin(const dlr_engine *e, const dlr_lane *l) {
    if (!l->op->by_mpi) return true;
    for (int i = 0; i < LANES; i++) {
        const dlr_lane *o = &e->lane[i];
        if (o->op && o->op->by_mpi && o->op->ticket < l->op->ticket && o->begun < o->chunks)
            return false;
    }
    return l->agreed;
}

static void advance(dlr_engine *e, dlr_lane *l) {
    for (int i = 0; i < CHUNKS; i++) {
        dlr_chunk *k = &l->chunk[i];
        if (k->busy && !k->pending && !go_on(e, l, k)) k->busy = false, l->finished++;
    }
    /* chunk b always uses slot b % CHUNKS, which its messages' tags contain */
    while (l->begun < l->chunks && !l->chunk[l->begun % CHUNKS].busy && !e->lost &&
           may_begin(e, l)) {
        dlr_chunk *k = &l->chunk[l->begun % CHUNKS];
        *k = (dlr_chunk){.busy = true, .number = l->begun++, .phase = -1, .room = k->room};
        if (!go_on(e, l, k)) k->busy = false, l->finished++;
    }
    if (l->finished == l->chunks && !l->signatures && !l->broken && !e->lost) complete(e, l);
}

/* Begins MPI's sums that waited for the one before. */
static void begin_sums(dlr_engine *e) {
    bool any = true;
    while (any) {
        any = false;
        for (int i = 0; i < LANES; i++) {
            dlr_lane *l = &e->lane[i];
            if (!l->op || !l->op->by_mpi || l->begun == l->chunks || !may_begin(e, l)) continue;
            advance(e, l);
            any = !e->lost;
        }
    }
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
    l->op = op, l->begun = l->finished = 0, l->broken = 0, l->agreed = false;
    op->begun = l->moved = dl_clock_ns();
    memset(l->missing, 0, (size_t)op->group->n * sizeof *l->missing);
    for (int i = 0; i < CHUNKS; i++) l->chunk[i].busy = false, l->chunk[i].pending = 0;
    dlr_flight_note(e, op);
    dlr_lane_plan(e, l);
    post_signatures(e, l);
    advance(e, l);
}

/* Assigns the collectives that the program has started to free lanes, in their order. */
static bool take_work(dlr_engine *e) {
    bool any = false;
    for (int i = 0; i < LANES; i++) {
        int64_t oldest = INT64_MAX;
        for (int k = 0; k < LANES; k++)
            if (e->lane[k].op && e->lane[k].op->ticket < oldest) oldest = e->lane[k].op->ticket;
        if (e->lane[i].op) continue;
        pthread_mutex_lock(&e->lock);
        bool there = e->next_begun < e->next_ticket &&
                     (oldest == INT64_MAX || e->next_begun - oldest < SEQUENCE);
        dlr_op *op = there ? e->ops[e->next_begun++ % e->room] : NULL;
        pthread_mutex_unlock(&e->lock);
        if (!op) break;
        begin(e, &e->lane[i], op);
        any = true;
    }
    return any;
}

/* ---- messages ---- */

static void check_signature(dlr_engine *e, const dlr_lane *l) {
    const dlr_op *op = l->op;
    int before = op->group->ranks[(op->group->me + op->group->n - 1) % op->group->n];
    if (l->in.hash != l->out.hash || l->in.number != l->out.number)
        dlr_engine_fail(e,
                        "rank %d and rank %d do not call the same: collective %lld of group %d is "
                        "%.*s on rank %d, and "
                        "%s on rank %d%s",
                        before, e->rank, (long long)op->number, op->c.group, WHAT - 1, l->in.what,
                        before, op->what, e->rank,
                        strcmp(l->in.what, op->what) == 0
                            ? " (of another type, count, root or comm_order)"
                            : "");
}

/* Records a message that failed, or did not fit: its sender calls another collective, or has
 * ended. */
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
        if (!error) dlr_heartbeat_message(e, receives, member);
        return;
    }
    dlr_lane *l = &e->lane[id >> 48 & 127];
    l->moved = dl_clock_ns();
    if (receives) l->missing[member]--;
    if (error) note_fault(e, l, member, error);
    if (kind == DLR_SIGNATURE) {
        l->signatures--;
        if (receives && !error) check_signature(e, l), l->agreed = true;
    } else
        l->chunk[id >> 40 & 255].pending--;
    advance(e, l);
    if (kind == DLR_SIGNATURE && receives) begin_sums(e);
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
        if (!l->op || !l->broken || dl_clock_ns() - l->broken <= BROKEN_NS) continue;
        if (l->broken_member == MPI_ITSELF)
            dlr_engine_fail(e, "MPI's own sum fails in %s: %s", l->op->what, l->broken_text);
        else
            dlr_engine_fail(e, "rank %d does not take its part in %s: %s",
                            l->op->group->ranks[l->broken_member], l->op->what, l->broken_text);
    }
}

/* ---- the thread ---- */

/* Sleeps until there may be work. While messages are under way the pause grows with the wait, so
 * that polls cost little compared with it. A spinning thread would take a core from the
 * computation. */
static void rest(dlr_engine *e, int64_t idle) {
    bool in_work = busy(e);
    int64_t until = dlr_heartbeat_next(e), pause = idle / 8,
            least = e->waiting ? WAITED_NS : SLEEP_NS;
    if (pause < least) pause = least;
    if (pause > MOST_SLEEP_NS) pause = MOST_SLEEP_NS;
    if (in_work && e->waiting && idle < SPIN_NS) {
        sched_yield();
        return;
    }
    int64_t now = dl_clock_ns();
    if (in_work && now + pause < until) until = now + pause;
    struct timespec t = dlr_moment(until);
    pthread_mutex_lock(&e->lock);
    bool more = e->next_begun < e->next_ticket && !in_work;
    if (!more && e->state == READY && !e->lost) pthread_cond_timedwait(&e->work, &e->lock, &t);
    if (e->state == CLOSING) {
        struct timespec soon = dlr_moment(now + SLEEP_NS);
        pthread_cond_timedwait(&e->work, &e->lock, &soon);
    }
    pthread_mutex_unlock(&e->lock);
}

/* Lets MPI progress the messages under way for so long. */
static void carry(const dlr_engine *e, int64_t ns) {
    for (int64_t end = dl_clock_ns() + ns; dl_clock_ns() < end;) {
        uint64_t ids[POLLED];
        int errors[POLLED];
        e->mpi->poll(ids, errors, POLLED);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* Announces a failure in this order. First to the other ranks, since writing the file may take
 * time. Then to the flight recorder's file, since another rank's end makes mpirun end this one; it
 * is written before the device is ended, so that the device's collective is still seen. Last to the
 * program, which may be far from a wait. */
static void give_up(dlr_engine *e) {
    pthread_mutex_lock(&e->lock);
    dl_error why = e->failed;
    pthread_mutex_unlock(&e->lock);
    dlr_heartbeat_spread(e);
    carry(e, SPREAD_NS / 6);
    dlr_flight_dump(e);
    if (e->comm) dlr_hooks_lost(e->comm, &why);
    carry(e, SPREAD_NS - SPREAD_NS / 6);
    dlr_engine_state(e, ENDED);
    struct timespec t = dlr_moment(dl_clock_ns() + told_ns);
    pthread_mutex_lock(&e->lock);
    int late = 0;
    while (!e->told && late != ETIMEDOUT) late = pthread_cond_timedwait(&e->work, &e->lock, &t);
    bool told = e->told;
    pthread_mutex_unlock(&e->lock);
    if (!told && e->options.lost) e->options.lost(e->options.context, &e->failed);
}

void *dlr_engine_run(void *of) {
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
    dlr_engine_state(e, READY);
    pthread_mutex_lock(&e->lock); /* the program reads the world's size, and allocates the state
                                     that depends on it */
    while (!e->watch && !e->failed.code && e->state == READY) pthread_cond_wait(&e->work, &e->lock);
    bool begins = e->watch != NULL;
    pthread_mutex_unlock(&e->lock);
    if (!begins) {
        e->mpi->close();
        dlr_engine_state(e, ENDED);
        return NULL;
    }
    int64_t moved = dl_clock_ns();
    bool parting = false;
    while (!e->lost) {
        bool any = take_work(e);
        any |= poll_messages(e);
        int64_t now = dl_clock_ns();
        if (now >= dlr_heartbeat_next(e)) dlr_heartbeat_tick(e), check_broken(e);
        if (e->state == CLOSING && !parting) parting = true, dlr_heartbeat_part(e);
        if (parting && dlr_heartbeat_parted(e)) break;
        if (any)
            moved = now;
        else
            rest(e, now - moved);
    }
    if (e->lost)
        give_up(e);
    else {
        e->mpi->close();
        dlr_engine_state(e, ENDED);
    }
    return NULL;
}
