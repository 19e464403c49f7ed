/* Ranks of an MPI program of the caller's. A collective is done when it has been started, in the
 * caller's thread: there is no engine, and who is lost, MPI itself notices. */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/engine.h"
#include "runtime/comm/parts.h"

enum { PIECE = 64 << 10 /* bytes that a rank sends to another at a time */, GIB = 1 << 30 };

typedef struct {
    const dlr_mpi *mpi;
    dlr_mpi_world *world;
    int size;
    char *sent, *come; /* [size][PIECE] */
    const void **parts;
    dl_error failed;
} hub;

static bool check(hub *h, int failed, const char *what) {
    char why[300];
    if (!failed) return true;
    h->mpi->error_text(failed, why, sizeof why);
    return dl_fail(&h->failed, DL_PEER, "%s: MPI: %s", what ? what : "a collective", why);
}

/* The sum of a chunk: each rank adds up one piece of it, in the order of the ranks, so that all
 * have the same bits. */
static bool reduce_chunk(hub *h, const dlr_collective *c, int64_t first, int64_t count) {
    int64_t e = dl_dtype_bytes(c->type), piece = (count + h->size - 1) / h->size;
    int bytes = (int)(piece * e);
    memcpy(h->sent, (const char *)c->from + first * e, (size_t)(count * e));
    memset(h->sent + count * e, 0, (size_t)((piece * h->size - count) * e));
    if (!check(h, h->mpi->caller->all_to_all(h->world, h->sent, h->come, bytes), c->what))
        return false;
    for (int i = 0; i < h->size; i++) h->parts[i] = h->come + (int64_t)i * bytes;
    dlr_sum(c->type, c->kind == DLR_ALL_REDUCE_MAX, piece, h->size, h->parts, h->sent);
    if (!check(h, h->mpi->caller->all_gather(h->world, h->sent, h->come, bytes), c->what))
        return false;
    memcpy((char *)c->to + first * e, h->come, (size_t)(count * e));
    return true;
}

static void reduce(hub *h, const dlr_collective *c) {
    int64_t most = PIECE / dl_dtype_bytes(c->type) * h->size;
    for (int64_t at = 0; at < c->count; at += most)
        if (!reduce_chunk(h, c, at, c->count - at < most ? c->count - at : most)) return;
}

static void broadcast(hub *h, const dlr_collective *c, int me) {
    int64_t bytes = c->count * dl_dtype_bytes(c->type);
    if (me == c->root && c->to != c->from) memcpy(c->to, c->from, (size_t)bytes);
    for (int64_t at = 0; at < bytes; at += GIB)
        if (!check(h,
                   h->mpi->caller->broadcast(h->world, (char *)c->to + at,
                                             (int)(bytes - at < GIB ? bytes - at : GIB), c->root),
                   c->what))
            return;
}

/* Pieces must have one size, as those that compare a number have. */
static void gather(hub *h, const dlr_collective *c) {
    int64_t bytes = c->counts[0] * dl_dtype_bytes(c->type);
    bool even = c->outer == 1 && bytes <= GIB;
    for (int i = 1; i < h->size; i++) even = even && c->counts[i] == c->counts[0];
    if (even)
        check(h, h->mpi->caller->all_gather(h->world, c->from, c->to, (int)bytes), c->what);
    else
        dl_fail(&h->failed, DL_USAGE, "%s: pieces of several sizes are dlrun's",
                c->what ? c->what : "all_gather");
}

static bool caller_group(dlr_comm *comm, dlr_members *group, dl_error *err) {
    bool all = group->n == comm->world.size;
    for (int i = 0; i < group->n; i++) all = all && group->ranks[i] == i;
    return all || group->n == 1 ||
           dl_fail(err, DL_USAGE,
                   "ranks of a caller's communicator have a share of the samples "
                   "each, and of nothing else");
}

static int64_t caller_start(dlr_comm *comm, dlr_members *group, const dlr_collective *c) {
    hub *h = comm->of;
    if (h->failed.code) return comm->counts.collectives;
    if (group->n == 1)
        dlr_collective_here(1, &c);
    else if (c->kind == DLR_ALL_REDUCE || c->kind == DLR_ALL_REDUCE_MAX)
        reduce(h, c);
    else if (c->kind == DLR_BROADCAST)
        broadcast(h, c, group->me);
    else if (c->kind == DLR_ALL_GATHER)
        gather(h, c);
    else
        dl_fail(&h->failed, DL_USAGE, "%s: %s is dlrun's", c->what ? c->what : "a collective",
                dlr_collective_name(c->kind));
    return comm->counts.collectives;
}

static bool caller_wait(dlr_comm *comm, int64_t ticket, dl_error *err) {
    const hub *h = comm->of;
    (void)ticket;
    return !h->failed.code || dl_fail(err, h->failed.code, "%s", h->failed.message);
}

static bool caller_done(dlr_comm *comm, int64_t ticket) {
    (void)comm, (void)ticket;
    return true;
}

static bool caller_close(dlr_comm *comm, dl_error *err) {
    hub *h = comm->of;
    (void)err;
    h->mpi->caller->close(h->world);
    free(h->sent);
    free(h->parts);
    free(h);
    return true;
}

static void caller_leave(dlr_comm *comm, const char *why) { (void)comm, (void)why; }

static const dlr_comm_backend_table table = {.group = caller_group,
                                             .start = caller_start,
                                             .wait = caller_wait,
                                             .done = caller_done,
                                             .close = caller_close,
                                             .leave = caller_leave,
                                             .apart = true};

dlr_comm *dlr_comm_of_caller(const void *mpi_comm, const int *mpi_fint, dl_error *err) {
    char why[300] = "";
    dlr_mpi_place p;
    const dlr_mpi *mpi = dlr_mpi_of_process(err);
    if (!mpi) return NULL;
    dlr_mpi_world *w = mpi->caller->open(mpi_comm, mpi_fint, &p, why, sizeof why);
    if (!w) {
        dl_fail(err, DL_USAGE, "the MPI communicator (%s): %s", mpi->name, why);
        return NULL;
    }
    hub *h = dl_calloc(1, sizeof *h);
    *h = (hub){.mpi = mpi, .world = w, .size = p.size};
    h->sent = dl_calloc(2 * (size_t)p.size, PIECE);
    h->come = h->sent + (size_t)p.size * PIECE;
    h->parts = dl_calloc((size_t)p.size, sizeof *h->parts);
    dlr_world world = {p.rank, p.size, p.local_rank, p.local_size};
    dlr_comm *comm = dlr_comm_new(&table, mpi->name, world, h);
    comm->sharing = p.local_size;
    return comm;
}
