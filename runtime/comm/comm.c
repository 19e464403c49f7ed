/* The interface of comm.h: the checks and calls that all backends share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/hash.h"
#include "runtime/comm/parts.h"

static const char *const names[DLR_NCOLLECTIVES] = {
    [DLR_ALL_REDUCE] = "all_reduce", [DLR_ALL_REDUCE_MAX] = "all_reduce_max",
    [DLR_ALL_GATHER] = "all_gather", [DLR_REDUCE_SCATTER] = "reduce_scatter",
    [DLR_BROADCAST] = "broadcast",   [DLR_SHIFT] = "shift",
};

const char *dlr_collective_name(dlr_collective_kind kind) {
    return kind < DLR_NCOLLECTIVES ? names[kind] : "no collective";
}

int64_t dlr_block_before(const dlr_collective *c, int m) {
    int64_t sum = 0;
    for (int i = 0; i < m; i++) sum += c->counts[i];
    return sum;
}

int64_t dlr_bytes_from(const dlr_collective *c, int n, int me) {
    int64_t e = dl_dtype_bytes(c->type);
    if (!dlr_by_pieces(c)) return c->kind == DLR_BROADCAST && me != c->root ? 0 : c->count * e;
    return c->outer * e * (c->kind == DLR_REDUCE_SCATTER ? dlr_block_before(c, n) : c->counts[me]);
}

int64_t dlr_bytes_to(const dlr_collective *c, int n, int me) {
    int64_t e = dl_dtype_bytes(c->type);
    if (!dlr_by_pieces(c)) return c->count * e;
    int64_t come = c->counts[c->kind == DLR_SHIFT ? dlr_giver(n, me) : me];
    return c->outer * e * (c->kind == DLR_ALL_GATHER ? dlr_block_before(c, n) : come);
}

uint64_t dlr_collective_hash(const dlr_collective *c, int n) {
    int64_t words[] = {c->kind, c->type, dlr_by_pieces(c) ? c->outer : c->count,
                       c->kind == DLR_BROADCAST ? c->root : 0, n};
    uint64_t hash = dl_hash(words, sizeof words, 0);
    /* hash so that members that call shifts of different names are found, although all pieces look
     * alike */
    if (c->kind == DLR_SHIFT && c->what) hash = dl_hash_str(c->what, hash);
    return dlr_by_pieces(c) ? dl_hash(c->counts, (size_t)n * sizeof *c->counts, hash) : hash;
}

/* ---- groups and memory ---- */

static dlr_members *new_group(int n, const int *ranks, int rank) {
    dlr_members *g = dl_calloc(1, sizeof *g);
    g->ranks = dl_calloc((size_t)n, sizeof *ranks);
    g->n = n, g->me = -1;
    for (int i = 0; i < n; i++) {
        g->ranks[i] = ranks ? ranks[i] : i;
        if (g->ranks[i] == rank) g->me = i;
    }
    return g;
}

dlr_comm *dlr_comm_new(const dlr_comm_backend_table *backend, const char *name, dlr_world world,
                       void *of) {
    dlr_comm *comm = dl_calloc(1, sizeof *comm);
    *comm = (dlr_comm){
        .backend = backend, .name = name, .world = world, .sharing = 1, .timeout = 600, .of = of};
    pthread_mutex_init(&comm->device_lock, NULL);
    comm->group[comm->groups++] = new_group(world.size, NULL, world.rank);
    return comm;
}

dlr_world dlr_comm_world(const dlr_comm *comm) { return comm->world; }
int dlr_comm_sharing(const dlr_comm *comm) { return comm->sharing; }
void dlr_comm_set_sums(dlr_comm *comm, dlr_sums sums) { comm->sums = sums; }
const char *dlr_comm_backend(const dlr_comm *comm) { return comm->name; }
dlr_comm_counts dlr_comm_counted(const dlr_comm *comm) { return comm->counts; }

bool dlr_comm_close(dlr_comm *comm, dl_error *err) {
    dl_error unheard = {0};
    if (!comm) return true;
    /* a thread that hangs in MPI may still read this memory */
    if (!comm->backend->close(comm, err ? err : &unheard)) return false;
    for (int i = 0; i < comm->groups; i++) {
        free(comm->group[i]->ranks);
        free(comm->group[i]);
    }
    pthread_mutex_destroy(&comm->device_lock);
    free(comm);
    return true;
}

int dlr_comm_group(dlr_comm *comm, int n, const int *ranks, dl_error *err) {
    int size = comm->world.size;
    if (comm->groups == MOST_GROUPS) {
        dl_fail(err, DL_USAGE, "more than %d groups of ranks", MOST_GROUPS);
        return -1;
    }
    if (n < 1 || n > size) {
        dl_fail(err, DL_USAGE, "a group of %d ranks in a world of %d", n, size);
        return -1;
    }
    bool *seen = dl_calloc((size_t)size, sizeof *seen);
    for (int i = 0; i < n; i++) {
        bool outside = ranks[i] < 0 || ranks[i] >= size;
        if (outside || seen[ranks[i]]) {
            dl_fail(err, DL_USAGE,
                    outside ? "a group holds rank %d, and the world has %d"
                            : "a group holds rank %d twice",
                    ranks[i], size);
            free(seen);
            return -1;
        }
        seen[ranks[i]] = true;
    }
    free(seen);
    dlr_members *g = new_group(n, ranks, comm->world.rank);
    comm->group[comm->groups++] = g;
    if (comm->backend->group(comm, g, err)) return comm->groups - 1;
    comm->groups--;
    free(g->ranks);
    free(g);
    return -1;
}

/* ---- collectives ---- */

static bool check(const dlr_comm *comm, const dlr_collective *c, dl_error *err) {
    const char *what = c->what ? c->what : "a collective without a name";
    const char *fault = NULL;
    const dlr_members *g = c->group >= 0 && c->group < comm->groups ? comm->group[c->group] : NULL;
    if (c->kind >= DLR_NCOLLECTIVES)
        fault = "no such kind";
    else if (!g || g->me < 0)
        fault = "this rank is not in its group";
    else if (c->type >= DL_BOOL)
        fault = "no sum of its type";
    else if (dlr_by_pieces(c) && !c->counts)
        fault = "no counts";
    else if (dlr_by_pieces(c)) {
        int64_t all = 0;
        if (c->outer < 0) fault = "a negative number of blocks";
        if (c->kind == DLR_SHIFT && c->outer != 1) fault = "blocks that go round";
        for (int i = 0; !fault && i < g->n; i++)
            if (c->counts[i] < 0 || __builtin_add_overflow(all, c->counts[i], &all))
                fault = "a negative count";
        int64_t bytes;
        if (!fault && (__builtin_mul_overflow(all, c->outer, &bytes) ||
                       __builtin_mul_overflow(bytes, 8, &bytes)))
            fault = "more than 2^63 bytes";
    } else if (c->count < 0 || c->count > INT64_MAX / 8)
        fault = "a count out of bounds";
    else if (c->kind == DLR_BROADCAST && (c->root < 0 || c->root >= g->n))
        fault = "its root is not in its group";
    return !fault || dl_fail(err, DL_INTERNAL, "rank %d: %s: %s", comm->world.rank, what, fault);
}

int64_t dlr_comm_start(dlr_comm *comm, const dlr_collective *c) {
    if (comm->refused.code || !check(comm, c, &comm->refused)) return -1;
    dlr_members *g = comm->group[c->group];
    g->started++;
    comm->counts.collectives++;
    comm->counts.bytes += dlr_bytes_from(c, g->n, g->me);
    return comm->backend->start(comm, g, c);
}

bool dlr_comm_wait(dlr_comm *comm, int64_t ticket, dl_error *err) {
    if (comm->refused.code) return dl_fail(err, comm->refused.code, "%s", comm->refused.message);
    int64_t from = dl_clock_ns();
    bool ok = comm->backend->wait(comm, ticket, err);
    comm->counts.waited += 1e-9 * (double)(dl_clock_ns() - from);
    return ok;
}

bool dlr_comm_done(dlr_comm *comm, int64_t ticket) {
    return comm->refused.code || comm->backend->done(comm, ticket);
}

bool dlr_comm_all(dlr_comm *comm, const dlr_collective *c, dl_error *err) {
    return dlr_comm_wait(comm, dlr_comm_start(comm, c), err);
}

/* ---- collectives on a device ---- */

bool dlr_comm_enqueue(dlr_comm *comm, const dlr_collective *c, dlr_cu_stream stream,
                      dl_error *err) {
    if (!check(comm, c, err)) return false;
    dlr_members *g = comm->group[c->group];
    g->started++;
    comm->counts.collectives++;
    comm->counts.bytes += dlr_bytes_from(c, g->n, g->me);
    return comm->backend->enqueue(comm, g, c, stream, err);
}

bool dlr_comm_reserve(dlr_comm *comm, const dlr_collective *c, dl_error *err) {
    return check(comm, c, err) && comm->backend->reserve(comm, comm->group[c->group], c, err);
}

bool dlr_comm_check(dlr_comm *comm, dl_error *err) { return comm->backend->check(comm, err); }
void dlr_comm_waits(dlr_comm *comm, bool begins) { comm->backend->waits(comm, begins, NULL); }

void dlr_comm_set_hooks(dlr_comm *comm, const dlr_device_hooks *hooks) {
    pthread_mutex_lock(&comm->device_lock);
    comm->hooks = hooks ? *hooks : (dlr_device_hooks){0};
    pthread_mutex_unlock(&comm->device_lock);
}

void dlr_hooks_lost(dlr_comm *comm, const dl_error *why) {
    pthread_mutex_lock(&comm->device_lock);
    if (comm->hooks.lost) comm->hooks.lost(comm->hooks.of, why);
    pthread_mutex_unlock(&comm->device_lock);
}

dlr_comm_state dlr_hooks_state(dlr_comm *comm) {
    dlr_comm_state state = {0};
    pthread_mutex_lock(&comm->device_lock);
    if (comm->hooks.state) comm->hooks.state(comm->hooks.of, &state);
    pthread_mutex_unlock(&comm->device_lock);
    return state;
}

void dlr_hooks_flight(dlr_comm *comm, int rank, dl_buf *to) {
    pthread_mutex_lock(&comm->device_lock);
    if (comm->hooks.flight) comm->hooks.flight(comm->hooks.of, rank, to);
    pthread_mutex_unlock(&comm->device_lock);
}

/* ---- composed operations ---- */

static bool largest_flag(dlr_comm *comm, int flag, const char *what, dl_error *err) {
    comm->flag = flag;
    dlr_collective c = {.kind = DLR_ALL_REDUCE_MAX,
                        .type = DL_I32,
                        .count = 1,
                        .from = &comm->flag,
                        .to = &comm->agreed,
                        .what = what};
    return dlr_comm_all(comm, &c, err);
}

bool dlr_comm_agree(dlr_comm *comm, int flag, int *agreed, dl_error *err) {
    bool ok = largest_flag(comm, flag, "all_reduce_max of whether to stop", err);
    if (ok) *agreed = comm->agreed;
    return ok;
}

bool dlr_comm_barrier(dlr_comm *comm, dl_error *err) {
    return largest_flag(comm, 0, "a barrier", err);
}

/* Lists some of the members whose number differs from the first member's. */
static bool tell_different(const uint64_t *all, const dlr_members *g, const char *what,
                           dl_error *err) {
    char ranks[200];
    int at = 0, others = 0, n = g->n;
    for (int r = 1; r < n; r++)
        if (all[r] != all[0] && others++ < 8)
            at += snprintf(ranks + at, sizeof ranks - (size_t)at, "%s%d", at ? ", " : "",
                           g->ranks[r]);
    if (!others) return true;
    return dl_fail(err, DL_INPUT,
                   "%s of rank%s %s%s %s not that of rank %d (%d of %d ranks differ)", what,
                   others > 1 ? "s" : "", ranks, others > 8 ? ", ..." : "",
                   others > 1 ? "are" : "is", g->ranks[0], others, n);
}

bool dlr_comm_same(dlr_comm *comm, int group, uint64_t number, const char *what, dl_error *err) {
    const dlr_members *g = comm->group[group];
    int n = g->n;
    uint64_t *all = dl_calloc((size_t)n + 1, sizeof *all); /* one per member, and this rank's */
    int64_t *counts = dl_calloc((size_t)n, sizeof *counts);
    for (int i = 0; i < n; i++) counts[i] = 1;
    all[n] = number;
    dl_buf text = {0};
    dl_putf(&text, "all_gather to compare %s", what);
    bool ok = dlr_comm_all(comm,
                           &(dlr_collective){.kind = DLR_ALL_GATHER,
                                             .group = group,
                                             .type = DL_I64,
                                             .outer = 1,
                                             .counts = counts,
                                             .from = &all[n],
                                             .to = all,
                                             .what = text.at},
                           err) &&
              tell_different(all, g, what, err);
    dl_buf_free(&text);
    free(counts);
    /* otherwise messages may still be received into it */
    if (ok || err->code == DL_INPUT) free(all);
    return ok;
}

void dlr_comm_leave(dlr_comm *comm, const char *why) { comm->backend->leave(comm, why); }
void dlr_comm_set_flight(dlr_comm *comm, const char *path) { comm->flight = path; }
