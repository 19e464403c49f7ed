/* Collectives between the devices of ranks: a comm over NCCL. */
#ifndef DLR_COMM_DEVICE_H
#define DLR_COMM_DEVICE_H
#include "runtime/comm/comm.h"
#include "runtime/driver/driver.h"

/* A comm of the same ranks as `host`, each with its device. dlr_comm_start and the calls built on
 * it work on the host's memory, staged through the device's; dlr_comm_enqueue works on the
 * device's. NCCL is loaded by dlopen, and its id is exchanged over `host`. The watchdog of `host`
 * ends collectives in which a lost rank can no longer take part; errors of NCCL are reported to
 * `host`. `host` has one rank, or ranks in processes of their own. It must outlive this comm, which
 * has the same groups, by the same numbers, and the same timeout. The device's context is current
 * when this returns. Errors: DL_RESOURCE (no NCCL, no context, NCCL's own errors), DL_USAGE
 * (several ranks in one process), DL_PEER. */
dlr_comm *dlr_comm_nccl(dlr_comm *host, const dlr_driver *driver, int ordinal, dl_error *err);

/* The same without a comm of the hosts: NCCL's id is exchanged over TCP (comm/rendezvous.h), and
 * NCCL carries the hosts' own messages, too. It begins at the first collective other than rank 0's
 * broadcasts to all: until then the process may fork, and no context is made. There are no
 * heartbeats: NCCL's own errors and the timeout end a hanging collective. Errors also those of
 * dlr_rendezvous. */
dlr_comm *dlr_comm_nccl_alone(const dlr_world *world, const dlr_driver *driver, int ordinal,
                              double timeout, dl_error *err);
/* Whether it is a comm between devices. */
bool dlr_comm_is_nccl(const dlr_comm *comm);
/* Orders the host's collectives with this stream. From now on they run after all earlier work of
 * the stream, and later work of the stream runs after them, so that all ranks run both in one
 * order. NULL: ends this. */
void dlr_comm_follow(dlr_comm *comm, dlr_cu_stream stream);

/* Enqueues a collective of device memory in a stream of the device, to run there or to be captured:
 * `from` and `to` are device addresses. Does not wait. All ranks must enqueue the same collectives
 * of a group in the same order, and those of all groups in an order without cycles. Errors:
 * DL_PEER, DL_RESOURCE (NCCL's own errors), DL_INTERNAL as dlr_comm_wait. */
bool dlr_comm_enqueue(dlr_comm *comm, const dlr_collective *c, dlr_cu_stream stream, dl_error *err);
/* Allocates the device memory that dlr_comm_enqueue needs for such a collective, to gather pieces
 * along an inner axis. Must be called before anything is captured. Errors: DL_RESOURCE. */
bool dlr_comm_reserve(dlr_comm *comm, const dlr_collective *c, dl_error *err);
/* False when a rank was lost, or NCCL has failed: results of collectives on the device are then
 * invalid. Errors: DL_PEER. */
bool dlr_comm_check(dlr_comm *comm, dl_error *err);
/* Reports that the program begins, or ends, a wait for the device: a wait that exceeds the timeout
 * is a failure. */
void dlr_comm_waits(dlr_comm *comm, bool begins);

/* The progress of a device's collectives. */
typedef struct {
    char what[200]; /* the current collective, as dlr_collective's `what`; "": none */
    int64_t calls;  /* the number of collectives that the program has begun, or of runs that contain
                       some */
    int64_t waiting; /* ns of dl_clock_ns at which the program began to wait for one; 0: it does not
                        wait */
} dlr_comm_state;

/* Hooks by which a device takes part in the watchdog of the hosts' comm. They are called from other
 * threads than the program's. */
typedef struct {
    void *of;
    /* Called when a rank is lost. NULL: none. */
    void (*lost)(void *of, const dl_error *why);
    void (*state)(void *of, dlr_comm_state *state);
    /* Appends the device's last collectives, a line each, after "rank N: ". */
    void (*flight)(void *of, int rank, dl_buf *to);
} dlr_device_hooks;
/* Installs the hooks; NULL: removes them. */
void dlr_comm_set_hooks(dlr_comm *comm, const dlr_device_hooks *hooks);

/* The library for --version: "NCCL 2.30.7 (/usr/lib/libnccl.so.2)", or "no NCCL (libnccl.so.2)". */
const char *dlr_nccl_text(dl_arena *arena);
#endif
