/* NCCL as a table of functions: libnccl.so.2, loaded at run time.
 *
 * The header declares the functions that are used here with the prototypes of NCCL's documentation
 * (docs.nvidia.com, "NCCL API"; nccl.h of 2.18 to 2.30). The build needs no header of CUDA or NCCL.
 * Names are NCCL's without `nccl`. tests/ranks/nccl_header.c compares them with a header where one
 * is found. */
#ifndef DLR_NCCL_H
#define DLR_NCCL_H
#include <limits.h>

#include "runtime/comm/parts.h"
#include "runtime/driver/driver.h"

typedef struct ncclComm *dlr_nccl_comm;
typedef struct {
    char bytes[128];
} dlr_nccl_id;

enum {
    DLR_NCCL_SUCCESS = 0,
    DLR_NCCL_CUDA_ERROR = 1,
    DLR_NCCL_INVALID_ARGUMENT = 4,
    DLR_NCCL_INVALID_USAGE = 5,
    DLR_NCCL_REMOTE_ERROR = 6,
    DLR_NCCL_IN_PROGRESS = 7,

    DLR_NCCL_SUM = 0,
    DLR_NCCL_MAX = 2,

    DLR_NCCL_INT32 = 2,
    DLR_NCCL_INT64 = 4,
    DLR_NCCL_FLOAT16 = 6,
    DLR_NCCL_FLOAT32 = 7,
    DLR_NCCL_FLOAT64 = 8,
    DLR_NCCL_BFLOAT16 = 9,

    DLR_NCCL_NO_COLOR = -1,
    DLR_NCCL_LEAST = 21800 /* 2.18, the first version with ncclCommSplit */
};

/* ncclConfig_t of 2.18. Later versions are longer, and read `size` and `version`. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
    int undefined; /* padding in 2.18, a setting since 2.24: left at its default */
} dlr_nccl_config;
#define DLR_NCCL_UNDEFINED INT_MIN
#define DLR_NCCL_CONFIG                                                                            \
    {                                                                                              \
        .size = sizeof(dlr_nccl_config), .magic = 0xcafebeef, .version = DLR_NCCL_LEAST,           \
        .blocking = DLR_NCCL_UNDEFINED, .cga_cluster_size = DLR_NCCL_UNDEFINED,                    \
        .min_ctas = DLR_NCCL_UNDEFINED, .max_ctas = DLR_NCCL_UNDEFINED,                            \
        .split_share = DLR_NCCL_UNDEFINED, .undefined = DLR_NCCL_UNDEFINED                         \
    }

/* X(name, result, arguments): the functions. Data types, operations and results are enums in
 * nccl.h. */
#define DLR_NCCL_FUNCTIONS(X)                                                                      \
    X(GetVersion, int, (int *version))                                                             \
    X(GetUniqueId, int, (dlr_nccl_id * id))                                                        \
    X(CommInitRankConfig, int,                                                                     \
      (dlr_nccl_comm * comm, int ranks, dlr_nccl_id id, int rank, dlr_nccl_config *config))        \
    X(CommSplit, int,                                                                              \
      (dlr_nccl_comm comm, int color, int key, dlr_nccl_comm *to, dlr_nccl_config *config))        \
    X(CommDestroy, int, (dlr_nccl_comm comm))                                                      \
    X(CommFinalize, int, (dlr_nccl_comm comm))                                                     \
    X(CommAbort, int, (dlr_nccl_comm comm))                                                        \
    X(CommGetAsyncError, int, (dlr_nccl_comm comm, int *error))                                    \
    X(GetErrorString, const char *, (int result))                                                  \
    X(GetLastError, const char *, (dlr_nccl_comm comm))                                            \
    X(AllReduce, int,                                                                              \
      (const void *from, void *to, size_t count, int type, int op, dlr_nccl_comm comm,             \
       dlr_cu_stream s))                                                                           \
    X(Broadcast, int,                                                                              \
      (const void *from, void *to, size_t count, int type, int root, dlr_nccl_comm comm,           \
       dlr_cu_stream s))                                                                           \
    X(Reduce, int,                                                                                 \
      (const void *from, void *to, size_t count, int type, int op, int root, dlr_nccl_comm comm,   \
       dlr_cu_stream s))                                                                           \
    X(AllGather, int,                                                                              \
      (const void *from, void *to, size_t own, int type, dlr_nccl_comm comm, dlr_cu_stream s))     \
    X(ReduceScatter, int,                                                                          \
      (const void *from, void *to, size_t own, int type, int op, dlr_nccl_comm comm,               \
       dlr_cu_stream s))                                                                           \
    X(Send, int,                                                                                   \
      (const void *from, size_t count, int type, int peer, dlr_nccl_comm comm, dlr_cu_stream s))   \
    X(Recv, int,                                                                                   \
      (void *to, size_t count, int type, int peer, dlr_nccl_comm comm, dlr_cu_stream s))           \
    X(GroupStart, int, (void))                                                                     \
    X(GroupEnd, int, (void))

typedef struct {
#define FIELD(name, result, arguments) result(*name) arguments;
    DLR_NCCL_FUNCTIONS(FIELD)
#undef FIELD
    int version; /* NCCL's version number; 23007: 2.30.7 */
    const char *path;
} dlr_nccl;

/* Loads the library once; it is never unloaded. Errors (DL_RESOURCE): none found, or older than
 * 2.18. */
const dlr_nccl *dlr_nccl_load(dl_error *err);

/* ---- the backend ---- */

/* A collective of host memory, staged through device memory. */
typedef struct {
    int64_t ticket; /* 0: the slot is free */
    dlr_collective c;
    char what[112];       /* c.what */
    int64_t from, to;     /* sizes in bytes */
    char *pinned;         /* pinned host memory: from, then to */
    dlr_cu_memory memory; /* the same on the device */
    int64_t room;         /* bytes of each buffer */
    dlr_cu_event event;
} dlr_nccl_staged;

typedef struct {
    const dlr_nccl *n;
    const dlr_driver *v;
    dlr_comm *comm, *host;
    double timeout;
    dlr_nccl_id id;
    bool begun;    /* NCCL has: before, there is no context, and groups are numbers alone */
    int turns;     /* of dlr_rendezvous */
    int64_t early; /* tickets of broadcasts that were made before it has begun: they are done */
    int ordinal;
    dlr_cu_device device;
    dlr_cu_context context;
    dlr_cu_stream stream; /* the stream of collectives of host memory */
    dlr_cu_stream after;  /* the stream of dlr_comm_follow; NULL: none */
    dlr_cu_event before;  /* after the earlier work of that stream */
    DL_ARRAY(dlr_nccl_comm) all;
    dl_arena *arena;
    DL_ARRAY(dlr_cu_memory)
    rooms;        /* staging buffers: the last is in use; captured graphs may read the others */
    int64_t room; /* bytes of the last staging buffer */
    DL_ARRAY(dlr_nccl_staged *) staged;
    /* shared by the program's thread and the watchdog */
    pthread_t watcher;
    pthread_mutex_t lock; /* guards the members below, and NCCL's calls */
    pthread_cond_t change;
    bool watches, closing;
    dl_error failed;
    bool told;                /* the host's comm has reported the failure */
    int64_t tickets;          /* the number of staged collectives so far */
    int64_t waiting;          /* ns at which the program began to wait; 0: it does not wait */
    char last[112];           /* the last staged collective */
    const char *waiting_what; /* the wait's collective, unless it waits for the device's own work */
} dlr_nccl_backend;

/* nccl_begin.c: a function of the backend's table. */
bool dlr_nccl_group(dlr_comm *comm, dlr_members *group, dl_error *err);
/* Makes the device's context, the communicators and the watchdog, unless they are there.
 * Called before all other calls of NCCL. Errors: as dlr_comm_nccl; the backend has then failed. */
bool dlr_nccl_begin(dlr_nccl_backend *b, dl_error *err);
/* nccl_call.c: false with the reason when the backend has failed: the communicators may be aborted.
 * Asked with the lock held before each call of NCCL, or sequence of calls. */
bool dlr_nccl_well(const dlr_nccl_backend *b, dl_error *err);
/* Returns whether a call of NCCL for that communicator has succeeded; waits while the
 * call is in progress. The lock must be held; it is released during the wait. */
bool dlr_nccl_ok(dlr_nccl_backend *b, dlr_nccl_comm c, int result, const char *what, dl_error *err);
bool dlr_nccl_cu_ok(dlr_nccl_backend *b, dlr_cu_result result, const char *what, dl_error *err);
/* nccl_enqueue.c: a function of the backend's table; the lock must not be held. */
bool dlr_nccl_enqueue(dlr_comm *comm, dlr_members *group, const dlr_collective *c,
                      dlr_cu_stream stream, dl_error *err);
bool dlr_nccl_reserve(dlr_comm *comm, dlr_members *group, const dlr_collective *c, dl_error *err);
/* nccl_staged.c: functions of the backend's table; the lock must not be held. */
int64_t dlr_nccl_start(dlr_comm *comm, dlr_members *group, const dlr_collective *c);
bool dlr_nccl_wait(dlr_comm *comm, int64_t ticket, dl_error *err);
bool dlr_nccl_done(dlr_comm *comm, int64_t ticket);
void dlr_nccl_free_staged(dlr_nccl_backend *b);
/* nccl_watch.c: the watchdog, a thread that detects failures and aborts hanging collectives. */
bool dlr_nccl_watchdog(dlr_nccl_backend *b, dl_error *err);
void dlr_nccl_end_watch(dlr_nccl_backend *b);
/* Fails the backend; only the first failure is kept. The lock must be held. */
void dlr_nccl_fail(dlr_nccl_backend *b, const char *format, ...) DL_PRINTF(2, 3);
bool dlr_nccl_check(dlr_comm *comm, dl_error *err);
dlr_comm_state dlr_nccl_state(dlr_nccl_backend *b);
void dlr_nccl_waits(dlr_comm *comm, bool begins, const char *what);
void dlr_nccl_leave(dlr_comm *comm, const char *why);
#endif
