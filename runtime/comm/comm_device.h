/* Collectives between the devices of ranks: a comm over NCCL. */
#ifndef DLR_COMM_DEVICE_H
#define DLR_COMM_DEVICE_H
#include "runtime/comm/comm.h"
#include "runtime/driver/driver.h"

/* A comm of the same ranks as `host`, each with its device. dlr_comm_start and all that is made of it work on
 * the host's memory, by way of the device's; dlr_comm_enqueue on the device's. NCCL is loaded by dlopen, its
 * id goes over `host`, whose watchdog ends collectives that a lost rank will never take part in; where NCCL
 * itself says that something is wrong, `host` is told. `host` has one rank, or ranks in processes of their
 * own, and outlives it; its groups are this one's, by the same numbers, and its timeout. The device's context
 * is current when this returns. Errors: DL_RESOURCE (no NCCL, no context, what NCCL says), DL_USAGE (ranks in
 * one process), DL_PEER. */
dlr_comm *dlr_comm_nccl(dlr_comm *host, const dlr_driver *driver, int ordinal, dl_error *err);

/* The same without a comm of the hosts: NCCL's id goes over TCP (comm/meet.h), and what the hosts tell each
 * other over NCCL, too. Nobody watches who lives: NCCL's own errors and the timeout end it. Errors also those
 * of dlr_meet. */
dlr_comm *dlr_comm_nccl_alone(const dlr_world *world, const dlr_driver *driver, int ordinal, double timeout,
                              dl_error *err);
/* Whether it is one between devices. */
bool dlr_comm_is_nccl(const dlr_comm *comm);
/* From now on what comes from the host runs behind all that was given to this stream, and what is given to it
 * later behind that: all ranks then do both in one order. NULL: no longer. */
void dlr_comm_follow(dlr_comm *comm, dlr_cu_stream stream);

/* Puts a collective of device memory into a stream of the device, to run there or to be captured: `from` and
 * `to` are the device's addresses. Nobody waits. All ranks enqueue the same ones of a group in the same
 * order, and in all groups in an order without cycles. Errors: DL_PEER, DL_RESOURCE (what NCCL says),
 * DL_INTERNAL as dlr_comm_wait. */
bool dlr_comm_enqueue(dlr_comm *comm, const dlr_collective *c, dlr_cu_stream stream, dl_error *err);
/* Takes the memory on the device that enqueuing such a collective needs, before anything is captured: pieces
 * along an inner axis are brought together there. Errors: DL_RESOURCE. */
bool dlr_comm_reserve(dlr_comm *comm, const dlr_collective *c, dl_error *err);
/* False when a rank was lost, or NCCL has failed: what collectives left on the device is worth nothing.
 * Errors: DL_PEER. */
bool dlr_comm_check(dlr_comm *comm, dl_error *err);
/* The program begins to wait for the device, and ends: a wait that takes longer than the timeout is a
 * failure. */
void dlr_comm_waits(dlr_comm *comm, bool begins);

/* Where a device is with its collectives. */
typedef struct {
    char what[200];  /* the one that it is in, as dlr_collective's `what`; "": none */
    int64_t calls;   /* how many the program has begun, or runs with such in them */
    int64_t waiting; /* ns of dl_clock_ns since when the program waits for one; 0: it does not */
} dlr_comm_state;

/* What a device does beside the hosts' comm. All are called from other threads than the program's. */
typedef struct {
    void *of;
    /* A rank is lost. NULL: nobody need know. */
    void (*lost)(void *of, const dl_error *why);
    void (*state)(void *of, dlr_comm_state *state);
    /* Its last collectives, a line each behind "rank N: ". */
    void (*flight)(void *of, int rank, dl_buf *to);
} dlr_comm_beside;
/* Who is asked, and told, from now on; NULL: nobody. */
void dlr_comm_set_beside(dlr_comm *comm, const dlr_comm_beside *beside);

/* "NCCL 2.30.7 (/usr/lib/libnccl.so.2)", or "no NCCL (libnccl.so.2)": for --version. */
const char *dlr_nccl_text(dl_arena *arena);
#endif
