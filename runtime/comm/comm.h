/* One interface to collectives between the ranks of a run. Backends: a single rank, ranks of one
 * process that are stepped in turn (dlr_comm_local), MPI between processes, a communicator of the
 * caller's (dlr_comm_of_caller), NCCL between their devices (comm_device.h).
 *
 * Every sum is made in the order of the group's members (0, 1, 2, ...), so that the same world
 * gives the same bits, run by run and on every member. NCCL's order is its own, and fixed for the
 * same world on the same machines; MPI's, where dlr_comm_set_sums asks for it, is its library's.
 * All calls must come from one thread of the rank. If a rank is lost or stopped, or calls other
 * collectives than the others, every other rank's waits fail with DL_PEER (comm/README.md). */
#ifndef DLR_COMM_H
#define DLR_COMM_H
#include <stdint.h>

#include "ir/type.h"
#include "runtime/base/world.h"

typedef struct dlr_comm dlr_comm;

typedef enum {
    DLR_ALL_REDUCE,     /* sum; f16 and bf16 are summed in f32 and rounded once */
    DLR_ALL_REDUCE_MAX, /* the largest; NaN where any member has one */
    DLR_ALL_GATHER,     /* the members' pieces, concatenated in their order */
    DLR_REDUCE_SCATTER, /* the sum; each member gets its piece of it */
    DLR_BROADCAST,
    DLR_SHIFT, /* a ring shift: each member's piece goes to the next */
    DLR_NCOLLECTIVES
} dlr_collective_kind;

/* One collective. Each member of the group calls it with the same kind, group, type, outer, counts,
 * count and root. */
typedef struct {
    dlr_collective_kind kind;
    int group;     /* a number that dlr_comm_group returned; 0: the world */
    dl_dtype type; /* every type but bool */
    int64_t outer; /* all_gather, reduce_scatter: blocks, each gathered or scattered separately
                      (pieces along an inner axis); otherwise 1 */
    const int64_t *counts; /* all_gather, reduce_scatter: elements of a block by member, may be 0;
                              shift: elements that each member sends */
    int64_t count;         /* the other kinds: elements */
    int root;              /* broadcast: the member's number in the group */
    /* shift: `from` has counts[me] elements, `to` as many as the previous member sends; they must
     * not overlap. all_gather: from [outer][counts[me]] to [outer][sum of counts]; reduce_scatter:
     * the reverse. all_reduce and broadcast: both have `count` elements, and may be the same;
     * broadcast reads `from` at the root only. */
    const void *from;
    void *to;
    const char *what; /* for errors: "all_reduce of blocks.2.mlp.fc1.weight at models/vit.dl:14";
                         the string must outlive the comm */
} dlr_collective;

/* Ends a run whose rank was lost while the program does not call the comm. It is called from
 * another thread, prints the reason and exits the process. */
typedef void dlr_comm_lost_fn(void *context, const dl_error *err);

typedef struct {
    double timeout; /* seconds after which a rank that does not take part counts as lost; 0: 600 */
    dlr_comm_lost_fn *lost; /* NULL: only waits fail */
    void *context;
    /* This rank's device, for ranks that MPI has not started: NCCL alone carries their collectives.
     * NULL: NCCL alone is not allowed. */
    const struct dlr_driver *driver;
    int ordinal;
} dlr_world_options;

/* Opens the world; all ranks must call it. The environment (world.h) selects the backend; its size
 * must equal MPI's. Errors: DL_USAGE (an impossible world), DL_RESOURCE (no module for the MPI that
 * started this process), DL_PEER. */
dlr_comm *dlr_comm_open(const dlr_world_options *options, dl_error *err);
/* The world of a communicator that an MPI_Comm * or an MPI_Fint *, Fortran's handle, points to (the
 * other is NULL), in a program that has initialised MPI.
 * Every sum is blocking and in the calling thread; there are all_reduce, broadcast, and all_gather
 * of even pieces, in the world's group alone. Collective, and so is its close, before MPI_Finalize.
 * Errors: DL_USAGE (no such communicator, MPI not initialised), DL_RESOURCE (no module for this
 * MPI). */
dlr_comm *dlr_comm_of_caller(const void *mpi_comm, const int *mpi_fint, dl_error *err);
dlr_world dlr_comm_world(const dlr_comm *comm);
/* The number of ranks, this one included, that may run on the same CPUs: all ranks of this machine,
 * unless the launcher gave each its own CPUs. */
int dlr_comm_sharing(const dlr_comm *comm);
/* The backend's name for the log: "self", "local", "Open MPI v4.1.4". */
const char *dlr_comm_backend(const dlr_comm *comm);

/* Who adds up an all_reduce between processes. */
typedef enum {
    DLR_SUMS_FIXED, /* this library, in the order of the members */
    DLR_SUMS_MPI    /* MPI, in the order that its library chooses: sums of f32 and f64 over all
                       ranks of the world; all else as with DLR_SUMS_FIXED */
} dlr_sums;
/* Sets it for later collectives; DLR_SUMS_FIXED before. All ranks must call it at the same place
 * with the same value: a sum that they make in different ways fails with DL_PEER. Without effect
 * where MPI carries no collectives by dlr_comm_open. */
void dlr_comm_set_sums(dlr_comm *comm, dlr_sums sums);

/* Makes a group of n ranks, its members in this order; ranks is copied. All ranks of the world must
 * call it in the same order with the same ranks of each group. Where several disjoint groups exist
 * (each data-parallel group), every rank calls it with its own group: only members need to agree.
 * Returns the group's number, -1 with an error: DL_USAGE (a rank twice or outside the world). */
int dlr_comm_group(dlr_comm *comm, int n, const int *ranks, dl_error *err);

/* Starts a collective and returns without waiting for other ranks. It allocates only when more
 * collectives are in flight than ever before. Returns a ticket, also when the collective is
 * refused: its wait reports the reason. The comm owns the memory of `from` and `to` until the wait;
 * `counts` and *c need not outlive the call. Every ticket must be waited for once, in any order. */
int64_t dlr_comm_start(dlr_comm *comm, const dlr_collective *c);
/* Waits until the collective is done on this rank; a finished collective stays done, even if a rank
 * is lost later. Errors: DL_PEER, on one line that names the rank and the collective that it did
 * not take part in; DL_INTERNAL (an invalid collective: bounds, a group that this rank is not in).
 * After an error, calls for unfinished collectives fail in the same way, and their buffers may
 * still be written. */
bool dlr_comm_wait(dlr_comm *comm, int64_t ticket, dl_error *err);
/* Whether dlr_comm_wait would return at once. */
bool dlr_comm_done(dlr_comm *comm, int64_t ticket);
/* Start and wait. */
bool dlr_comm_all(dlr_comm *comm, const dlr_collective *c, dl_error *err);

/* The largest flag of all ranks, for a request to stop at a step's end. */
bool dlr_comm_agree(dlr_comm *comm, int flag, int *agreed, dl_error *err);
bool dlr_comm_barrier(dlr_comm *comm, dl_error *err);
/* Checks that every rank of the group (0: the world) passes the same number. Errors: DL_INPUT,
 * naming the ranks that differ from the first: "`what` of rank 3 is not that of rank 0". */
bool dlr_comm_same(dlr_comm *comm, int group, uint64_t number, const char *what, dl_error *err);

/* Closes the comm; all ranks must call it, unless one was lost. Returns false with an error
 * (DL_PEER) when a rank was lost, now or before. The process should then exit by _exit, since MPI's
 * finalize would wait for the lost rank. `comm` and `err` may be NULL. */
bool dlr_comm_close(dlr_comm *comm, dl_error *err);

/* Ends this rank alone, after a fault of its own: the waits of the others fail with "rank 1 has
 * left: why". The process should then exit by _exit with its own code. */
void dlr_comm_leave(dlr_comm *comm, const char *why);
/* Sets the file that the flight recorder (the last collectives) is written to when a rank is lost,
 * instead of standard error; the string must outlive the comm. Each rank of a machine needs its own
 * name. */
void dlr_comm_set_flight(dlr_comm *comm, const char *path);

/* n comms, the ranks of a world in this one process, to be stepped in turn: the last member that
 * starts a collective runs it. Waiting earlier would be a deadlock and fails, naming the members
 * that have not started it (DL_PEER). With `threads` each comm belongs to a thread of its own, and
 * waits block. The caller closes each and frees the array. Never NULL. */
dlr_comm **dlr_comm_local(int n, bool threads);

/* Whether there is a module for that family of MPI, "openmpi" or "mpich", so that it can start
 * ranks. */
bool dlr_comm_speaks(const char *family);
/* The modules for --version: "Open MPI v4.1.4 (FILE)", a line each, or a line that there is none.
 */
const char *dlr_mpi_text(dl_arena *arena);

/* Bytes that this rank sent, and seconds of its waits, for profiles and tests. */
typedef struct {
    int64_t collectives, bytes;
    int64_t by_mpi; /* of the collectives: sums that MPI makes (DLR_SUMS_MPI) */
    double waited;
} dlr_comm_counts;
dlr_comm_counts dlr_comm_counted(const dlr_comm *comm);
#endif
