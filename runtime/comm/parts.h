/* Private to this folder: the comm's struct, for its backends. */
#ifndef DLR_COMM_PARTS_H
#define DLR_COMM_PARTS_H
#include <pthread.h>

#include "runtime/comm/comm_device.h"

enum { MOST_GROUPS = 256 /* the most that a message's tag can distinguish */ };

typedef struct {
    int n, me; /* members; this rank's index among them, -1: not a member */
    int *ranks;
    int64_t started; /* collectives that this rank has started in this group */
    void *of;        /* owned by the backend */
} dlr_members;

typedef struct {
    /* Makes a group, whose number is comm->groups - 1. */
    bool (*group)(dlr_comm *comm, dlr_members *group, dl_error *err);
    /* Starts a collective, which is valid; its number in the group is group->started - 1. */
    int64_t (*start)(dlr_comm *comm, dlr_members *group, const dlr_collective *c);
    bool (*wait)(dlr_comm *comm, int64_t ticket, dl_error *err);
    bool (*done)(dlr_comm *comm, int64_t ticket);
    /* Frees the backend's memory. False with an error: a rank is lost, and nothing is freed. */
    bool (*close)(dlr_comm *comm, dl_error *err);
    void (*leave)(dlr_comm *comm, const char *why);
    bool apart; /* ranks are processes of their own */
    /* For comms between devices, otherwise NULL; the collective is valid. */
    bool (*enqueue)(dlr_comm *comm, dlr_members *group, const dlr_collective *c,
                    dlr_cu_stream stream, dl_error *err);
    bool (*reserve)(dlr_comm *comm, dlr_members *group, const dlr_collective *c, dl_error *err);
    bool (*check)(dlr_comm *comm, dl_error *err);
    void (*waits)(dlr_comm *comm, bool begins, const char *what);
} dlr_comm_backend_table;

struct dlr_comm {
    const dlr_comm_backend_table *backend;
    const char *name;
    dlr_world world;
    int sharing;
    dlr_sums sums;
    double timeout; /* seconds after which a silent rank is lost */
    dlr_members *group[MOST_GROUPS];
    int groups;
    const char *_Atomic flight; /* the flight recorder's file */
    dl_error refused;           /* the error of an invalid collective */
    dlr_comm_counts counts;
    int32_t flag, agreed; /* buffers of dlr_comm_agree: MPI may still write them after a failed wait
                             has returned */
    pthread_mutex_t device_lock;
    dlr_device_hooks hooks; /* guarded by the lock */
    void *of;               /* owned by the backend */
};

extern const dlr_comm_backend_table dlr_comm_self;

/* A comm with its world's group; never NULL. `of` belongs to the backend. */
dlr_comm *dlr_comm_new(const dlr_comm_backend_table *backend, const char *name, dlr_world world,
                       void *of);

/* Whether the collective has `counts`. */
static inline bool dlr_by_pieces(const dlr_collective *c) {
    return c->kind == DLR_ALL_GATHER || c->kind == DLR_REDUCE_SCATTER || c->kind == DLR_SHIFT;
}
/* The member that sends to `me` in a shift. */
static inline int dlr_giver(int n, int me) { return (me + n - 1) % n; }
/* Elements of a block of all members together, and those that precede member m's piece. */
int64_t dlr_block_before(const dlr_collective *c, int m);
/* Bytes of `from` and of `to` at member `me` of n. */
int64_t dlr_bytes_from(const dlr_collective *c, int n, int me);
int64_t dlr_bytes_to(const dlr_collective *c, int n, int me);
/* The name for errors: "all_reduce". */
const char *dlr_collective_name(dlr_collective_kind kind);
/* A hash of the values that must be the same on all members. */
uint64_t dlr_collective_hash(const dlr_collective *c, int n);

/* Call the device-side hooks; without hooks, the result is zero. */
void dlr_hooks_lost(dlr_comm *comm, const dl_error *why);
dlr_comm_state dlr_hooks_state(dlr_comm *comm);
void dlr_hooks_flight(dlr_comm *comm, int rank, dl_buf *to);

/* Runs a collective whose n members are all in this process. */
void dlr_collective_here(int n, const dlr_collective *const *calls);
/* to = from[0] + from[1] + ... (or the largest), element by element in this order; f16 and bf16 are
 * summed in f32 and rounded once. `to` may be one of `from`. */
void dlr_sum(dl_dtype type, bool largest, int64_t count, int n, const void *const *from, void *to);
#endif
