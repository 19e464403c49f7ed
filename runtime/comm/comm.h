/* Collectives between the ranks of a run, behind one interface: alone (one rank), ranks that one process
 * steps in turn (dlr_comm_local), MPI between processes, NCCL between their devices (comm_device.h).
 *
 * Every sum is made in the order of the group's members (0, 1, 2, ...), so that the same world gives the same
 * bits, run by run and on every member; NCCL's own order is as fixed for the same world on the same machines.
 * Calls come from one thread of the rank. A rank that is lost, stopped or does something else than the others
 * makes every other rank's waits fail with DL_PEER (comm/README.md).
 */
#ifndef DLR_COMM_H
#define DLR_COMM_H
#include <stdint.h>

#include "ir/type.h"
#include "runtime/base/world.h"

typedef struct dlr_comm dlr_comm;

typedef enum {
    DLR_ALL_REDUCE,     /* sum; f16 and bf16 are summed in f32 and rounded once */
    DLR_ALL_REDUCE_MAX, /* NaN where any member has one */
    DLR_ALL_GATHER,     /* pieces side by side, in order of the members */
    DLR_REDUCE_SCATTER, /* the sum of all, of which each member gets its piece */
    DLR_BROADCAST,
    DLR_SHIFT, /* round: each member's piece to the next, and the one before's in its place */
    DLR_NCOLLECTIVES
} dlr_collective_kind;

/* One collective, as each member of the group calls it: kind, group, type, outer, counts, count and root are
 * the same on all. */
typedef struct {
    dlr_collective_kind kind;
    int group;     /* of dlr_comm_group; 0: the world */
    dl_dtype type; /* all but bool */
    int64_t outer; /* all_gather, reduce_scatter: blocks, each gathered or scattered for itself (pieces
                      along an inner axis); 1 else */
    const int64_t *counts; /* all_gather, reduce_scatter: elements of a block by member, 0 is fine; shift:
                              elements that each gives */
    int64_t count;         /* the others: elements */
    int root;              /* broadcast: the member's number in the group */
    /* shift: from of counts[me] elements, to of as many as the member before gives; apart.
     * all_gather: from [outer][counts[me]] to [outer][sum of counts]; reduce_scatter: the other way round.
     * all_reduce and broadcast: both of count elements, and may be the same; broadcast reads from at the root
     * only. */
    const void *from;
    void *to;
    const char *what; /* for errors: "all_reduce of blocks.2.mlp.fc1.weight at models/vit.dl:14"; kept */
} dlr_collective;

/* A run's end by a lost rank, when the program does not come back to the comm to hear of it: called from
 * another thread, prints and leaves the process. */
typedef void dlr_comm_lost_fn(void *context, const dl_error *err);

typedef struct {
    double timeout;         /* seconds after which a rank that takes no part is given up; 0: 600 */
    dlr_comm_lost_fn *lost; /* NULL: only waits fail */
    void *context;
    /* This rank's device, where collectives may go by NCCL alone: the ranks are none of an MPI's. NULL: they
     * may not. */
    const struct dlr_driver *driver;
    int ordinal;
} dlr_world_options;

/* All ranks call it. The backend is found by the environment (world.h), the size that it says is checked
 * against the one that MPI says. Errors: DL_USAGE (a world that cannot be), DL_RESOURCE (no module for the
 * MPI that started us), DL_PEER. */
dlr_comm *dlr_comm_open(const dlr_world_options *options, dl_error *err);
dlr_world dlr_comm_world(const dlr_comm *comm);
/* Ranks, with this one, that may run on the same CPUs: those of this machine, unless the launcher gave each
 * its own. */
int dlr_comm_sharing(const dlr_comm *comm);
/* "self", "local", "Open MPI v4.1.4": for the log. */
const char *dlr_comm_backend(const dlr_comm *comm);

/* A group of n ranks, its members in this order; ranks is copied. All ranks of the world call it in the same
 * order with the same ranks of each group, or, where several groups exist side by side (each data-parallel
 * group), every rank with the group that it is in: members alone need agree. Returns its number, -1 with an
 * error: DL_USAGE (a rank twice or outside the world). */
int dlr_comm_group(dlr_comm *comm, int n, const int *ranks, dl_error *err);

/* Starts a collective and never blocks for others; allocates nothing once as many were in flight before.
 * Returns a ticket, also when it is refused: its wait says why. What from and to point to is the comm's until
 * the ticket was waited for; counts and *c need not outlive the call. Every ticket is waited for once, in any
 * order. */
int64_t dlr_comm_start(dlr_comm *comm, const dlr_collective *c);
/* Waits until it is done here; what is done stays so, whoever is lost since. Errors: DL_PEER, on one line
 * that names the rank and what it should have taken part in; DL_INTERNAL (what was started is no collective:
 * bounds, a group that this rank is not in). After an error, calls for what is not done fail likewise, and
 * buffers of collectives under way may still be written. */
bool dlr_comm_wait(dlr_comm *comm, int64_t ticket, dl_error *err);
/* Whether a wait would return at once. */
bool dlr_comm_done(dlr_comm *comm, int64_t ticket);
/* Start and wait. */
bool dlr_comm_all(dlr_comm *comm, const dlr_collective *c, dl_error *err);

/* The largest flag of all ranks: asked to stop, at a step's end. */
bool dlr_comm_agree(dlr_comm *comm, int flag, int *agreed, dl_error *err);
bool dlr_comm_barrier(dlr_comm *comm, dl_error *err);
/* Every rank of the group (0: the world) has the same number. Errors: DL_INPUT, naming the ranks that differ
 * from the first: "what of rank 3 is not that of rank 0". */
bool dlr_comm_same(dlr_comm *comm, int group, uint64_t number, const char *what, dl_error *err);

/* Ends it; all ranks call it, unless one was lost. False, with an error (DL_PEER), when a rank was lost, now
 * or before: the process should then leave by _exit, since MPI's own end would wait for the lost one. `comm`
 * and `err` may be NULL. */
bool dlr_comm_close(dlr_comm *comm, dl_error *err);

/* This rank ends alone, by a fault of its own: tells the others, whose waits fail with "rank 1 has left:
 * why". The process should then leave by _exit with its own code. */
void dlr_comm_leave(dlr_comm *comm, const char *why);
/* The file that the last collectives are written to when a rank is lost, in standard error's place; kept. All
 * ranks of a machine need a name of their own. */
void dlr_comm_set_flight(dlr_comm *comm, const char *path);

/* n comms, the ranks of a world in this one process, to be stepped in turn: a collective is carried out by
 * the last of its members that starts it, and a wait before that fails, naming who has not started
 * (DL_PEER): a deadlock. With `threads` each comm belongs to a thread of its own, and waits wait. Close each;
 * free the array. Never NULL. */
dlr_comm **dlr_comm_local(int n, bool threads);

/* Whether ranks can be started by that family of MPI, "openmpi" or "mpich": there is a module for it. */
bool dlr_comm_speaks(const char *family);

/* Bytes that went out from this rank, and seconds that waits took: for profiles and tests. */
typedef struct {
    int64_t collectives, bytes;
    double waited;
} dlr_comm_counts;
dlr_comm_counts dlr_comm_counted(const dlr_comm *comm);
#endif
