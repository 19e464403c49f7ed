/* NCCL as a table of functions: libnccl.so.2, found at run time.
 *
 * The declarations are our own, of what is used here, as NCCL's interface (docs.nvidia.com, "NCCL
 * API"; nccl.h of 2.18 to 2.30) has it: no header of CUDA or NCCL is needed to build. Names are
 * NCCL's without `nccl`. tests/ranks/nccl_header.c compares them with a header where one is
 * found. */
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
    DLR_NCCL_LEAST = 21800 /* 2.18, the first that splits communicators */
};

/* ncclConfig_t as 2.18 has it. Later ones are longer, and take `size` and `version` for what they
 * are. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
    int undefined; /* padding there, another setting since 2.24: left at its default */
} dlr_nccl_config;
#define DLR_NCCL_UNDEFINED INT_MIN
#define DLR_NCCL_CONFIG                                                                            \
    {                                                                                              \
        .size = sizeof(dlr_nccl_config), .magic = 0xcafebeef, .version = DLR_NCCL_LEAST,           \
        .blocking = DLR_NCCL_UNDEFINED, .cga_cluster_size = DLR_NCCL_UNDEFINED,                    \
        .min_ctas = DLR_NCCL_UNDEFINED, .max_ctas = DLR_NCCL_UNDEFINED,                            \
        .split_share = DLR_NCCL_UNDEFINED, .undefined = DLR_NCCL_UNDEFINED                         \
    }

/* X(name, result, arguments): the functions. Data types, operations and results are C enums
 * there. */
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
    int version; /* 23007: 2.30.7 */
    const char *path;
} dlr_nccl;

/* The library, loaded once and never unloaded. Errors (DL_RESOURCE): none found, or older than
 * 2.18. */
const dlr_nccl *dlr_nccl_load(dl_error *err);

/* ---- the backend ---- */

/* A collective of the host's memory, staged through the device's. */
typedef struct {
    int64_t ticket; /* 0: free */
    dlr_collective c;
    char what[112];       /* c.what */
    int64_t from, to;     /* bytes */
    char *pinned;         /* from, then to */
    dlr_cu_memory memory; /* likewise */
    int64_t room;         /* bytes of each */
    dlr_cu_event event;
} dlr_nccl_staged;

typedef struct {
    const dlr_nccl *n;
    const dlr_driver *v;
    dlr_comm *comm, *host;
    double timeout;
    dlr_cu_device device;
    dlr_cu_context context;
    dlr_cu_stream stream; /* of the host's collectives */
    dlr_cu_stream after;  /* dlr_comm_follow's; NULL: none */
    dlr_cu_event before;  /* its earlier work */
    DL_ARRAY(dlr_nccl_comm) all;
    dl_arena *arena;
    DL_ARRAY(dlr_cu_memory) rooms; /* the last is in use; captured graphs may read the others */
    int64_t room;                  /* bytes of the last */
    DL_ARRAY(dlr_nccl_staged *) staged;
    /* between the program's thread and the watcher */
    pthread_t watcher;
    pthread_mutex_t lock; /* of the members below, and of calls of NCCL */
    pthread_cond_t change;
    bool watches, closing;
    dl_error failed;
    bool told;                /* the host's comm has reported it */
    int64_t tickets;          /* staged collectives so far */
    int64_t waiting;          /* ns at which the program began to wait; 0: it does not */
    char last[112];           /* the last staged collective */
    const char *waiting_what; /* for what, unless it is the device's own work */
} dlr_nccl_backend;

/* nccl_call.c: whether a call of NCCL for that communicator has succeeded; waits for it while it is
 * in progress. The lock is held, and released meanwhile. */
bool dlr_nccl_ok(dlr_nccl_backend *b, dlr_nccl_comm c, int result, const char *what, dl_error *err);
bool dlr_nccl_cu_ok(dlr_nccl_backend *b, dlr_cu_result result, const char *what, dl_error *err);
/* nccl_enqueue.c: for the table of the backend; the lock is not held. */
bool dlr_nccl_enqueue(dlr_comm *comm, dlr_members *group, const dlr_collective *c,
                      dlr_cu_stream stream, dl_error *err);
bool dlr_nccl_reserve(dlr_comm *comm, dlr_members *group, const dlr_collective *c, dl_error *err);
/* nccl_staged.c: likewise. */
int64_t dlr_nccl_start(dlr_comm *comm, dlr_members *group, const dlr_collective *c);
bool dlr_nccl_wait(dlr_comm *comm, int64_t ticket, dl_error *err);
bool dlr_nccl_done(dlr_comm *comm, int64_t ticket);
void dlr_nccl_free_staged(dlr_nccl_backend *b);
/* nccl_watch.c: the watcher, a thread that looks for failures and aborts hanging collectives. */
bool dlr_nccl_watch(dlr_nccl_backend *b, dl_error *err);
void dlr_nccl_end_watch(dlr_nccl_backend *b);
/* The first failure is kept. The lock is held. */
void dlr_nccl_fail(dlr_nccl_backend *b, const char *format, ...) DL_PRINTF(2, 3);
bool dlr_nccl_check(dlr_comm *comm, dl_error *err);
dlr_comm_state dlr_nccl_state(dlr_nccl_backend *b);
void dlr_nccl_waits(dlr_comm *comm, bool begins, const char *what);
void dlr_nccl_leave(dlr_comm *comm, const char *why);
#endif
