/* Where a plan runs: the memory that holds its arena, the code of its kernels, and their launches.
 *
 * The executor (exec.h) goes through this table and knows neither symbols nor pointers: a tensor is a type
 * and an offset into the arena. A device is open when its kernels are loaded and its memory is mapped; then
 * programs are prepared (captured) and replayed. What the host sees of the arena it sees by `host`: on the
 * CPU the arena itself, on others a copy.
 *
 * A device may fail after it is open (a kernel that faults, a device that is lost). Then `fault` says why,
 * and stays: later work does nothing, and what is read is filled with ones, which no float mistakes for a
 * number.
 */
#ifndef DLR_DEVICE_H
#define DLR_DEVICE_H
#include "ir/plan/plan.h"
#include "runtime/base/pool.h"
#include "runtime/comm/exchange.h"

typedef struct dlr_device dlr_device;

/* What the host does with a part of the arena. */
typedef enum {
    DLR_READ,   /* looks at it */
    DLR_WRITE,  /* writes all of it: what it held is not fetched */
    DLR_UPDATE, /* looks at it, and writes some of it */
} dlr_access;

/* When something ran on the device, in nanoseconds of dl_clock_ns. */
typedef struct {
    int64_t began, ended;
} dlr_time;

typedef struct {
    dlr_time time;
    int64_t bytes;
    bool to_host;
} dlr_timed_copy;

/* What a device did for one run of a program: its launches in order, and copies from and to the host. On the
 * CPU there are no copies. */
enum { DLR_TIMED_COPIES = 64 };
typedef struct {
    dlr_time *launches; /* as many as the program has: the caller's */
    /* Likewise of its collectives, or NULL: from where each was begun until its wait was over; and that wait.
     */
    dlr_time *collectives, *waits;
    dlr_timed_copy copies[DLR_TIMED_COPIES];
    int ncopies;
} dlr_timeline;

/* Of a device's memory, in bytes. A run takes plan + held + code + graphs beside what was in use before it.
 */
typedef struct {
    int64_t plan;         /* arena, workspace and stage, as the driver hands memory out */
    int64_t held;         /* a data set */
    int64_t code, graphs; /* the driver's own, about: machine code, captured programs */
    int64_t before;       /* in use before: the driver's context, and other programs */
    int64_t seen, total;  /* in use now, of all programs; what the device has */
} dlr_device_memory;
/* Bytes in use, with what was before, once a run has begun. */
static inline int64_t dlr_device_predicted(const dlr_device_memory *m) {
    return m->before + m->plan + m->held + m->code + m->graphs;
}
/* Bytes of a device that a data set may take: what the run will leave free, but for an eighth, which is the
 * driver's and whoever's. */
static inline int64_t dlr_device_left(const dlr_device_memory *m) {
    int64_t used = dlr_device_predicted(m) > m->seen ? dlr_device_predicted(m) : m->seen;
    return m->total > used ? (m->total - used) / 8 * 7 : 0;
}

/* Called behind each launch of a run, which is done then. */
typedef void dlr_seen_fn(void *context, int program, int number);

typedef struct {
    /* Loads the plan's objects and finds every kernel in them. Errors: DL_INPUT (a kernel that is not there,
     * or takes other arguments), DL_IO, DL_RESOURCE. */
    bool (*load)(dlr_device *d, dl_error *err);
    /* Takes arena, workspace and scratch, zeroed, and binds each launch's arguments. Errors: DL_RESOURCE. */
    bool (*map)(dlr_device *d, dl_error *err);
    /* One launch of a program, behind all that was launched before it. */
    void (*launch)(dlr_device *d, int program, int number);
    /* Makes a program ready to be replayed as a whole; what is ready stays so. */
    void (*capture)(dlr_device *d, int program);
    /* Opens the plan's collectives among the ranks. Errors: as dlr_device_open. */
    bool (*share)(dlr_device *d, const dlr_ranks *ranks, dl_error *err);
    /* Begins a collective, or waits for it: a step of a program that is no launch. A failure is the device's
     * fault. */
    void (*exchange)(dlr_device *d, int program, dl_plan_step step);
    /* Starts the whole program, which was captured. On a device this returns before it is done. */
    void (*replay)(dlr_device *d, int program);
    /* Waits for all that was started. */
    void (*wait)(dlr_device *d);
    /* The host's view of bytes [offset, offset + bytes) of the arena as they are behind all that was started,
     * until the next launch or replay. What is written there is on the device before that. At most two such
     * parts are kept at a time: a third call may end the first's. Never NULL. */
    void *(*host)(dlr_device *d, int64_t offset, int64_t bytes, dlr_access access);
    /* Where the host puts a batch as its files have it (ir/plan/feed.h: `batch` bytes, at most dl_feed_room),
     * of which the device makes that input, exactly this part of the arena, behind all that was started. NULL
     * where `gathers` is false. `there`, if not NULL: it lies there, in memory that `pin` was given, and is
     * read until `sent`. */
    void *(*gather)(dlr_device *d, int64_t offset, int64_t bytes, int64_t batch, void *there);
    /* Takes so many bytes beside the arena, for numbers that `gather`'s batches may be made of instead of
     * their own (ir/plan/feed.h: held); 0: gives back what it took. Errors: DL_RESOURCE. */
    bool (*hold)(dlr_device *d, int64_t bytes, dl_error *err);
    /* Copies numbers there, from byte `at` on; without any, waits for all copies. */
    void (*put)(dlr_device *d, int64_t at, const void *from, int64_t bytes);
    /* Lets the device read memory of the host's where it lies, until `unpin`. Errors: DL_RESOURCE. */
    bool (*pin)(dlr_device *d, void *memory, int64_t bytes, dl_error *err);
    void (*unpin)(dlr_device *d, void *memory);
    /* Waits until all that lies `there` has been read. */
    void (*sent)(dlr_device *d);
    /* The same, of a small result of the run that was last taken (dlr_exec_take): to be read. */
    const void *(*result)(dlr_device *d, int64_t offset, int64_t bytes);
    /* Waits for all that was started. What is copied from then on, and the next replay, are timed into
     * `timeline`: that one runs launch by launch, and is done when it returns. */
    void (*watch)(dlr_device *d, dlr_timeline *timeline);
    /* Takes the oldest run that was replayed and not taken: waits until its results are the host's. */
    void (*take)(dlr_device *d);
    /* What the device says of its memory; false where it has none of its own, or failed. NULL: none. */
    bool (*memory)(dlr_device *d, dlr_device_memory *memory);
    void (*close)(dlr_device *d); /* frees it; also one that is half open */
} dlr_device_table;

/* The head of every device's own struct. */
struct dlr_device {
    const dlr_device_table *table;
    const dl_plan *plan;
    dl_arena *arena;        /* of its tables; closing frees it, and the device with it */
    dlr_pool *pool;         /* the executor's */
    dlr_exchange *exchange; /* the plan's collectives */
    char *base;             /* the arena, where it is the host's memory; else NULL */
    bool gathers;           /* inputs can be made by `gather` */
    bool guards;            /* launches run one at a time, between canaries (runtime/device/guard.h) */
    int64_t zones;          /* canaries that were looked at and found as they were */
    int ahead; /* runs that may be started before the oldest is taken; 1: each is done when it returns */
    dlr_timeline *timeline; /* of the next replay; NULL: it is not timed */
    dlr_seen_fn *seen;      /* replays go launch by launch, and this looks at each; NULL: nobody does */
    void *seen_by;
    dl_error fault; /* code DL_OK: none */
};

/* A device for the plan, opened: that of its target. name: "cpu", "cuda", "cuda:1", "cuda:emulated"; NULL:
 * what the target asks for. ranks: who else takes part. guards: as DLR_DEBUG=guard. Errors: DL_USAGE (the
 * target is not of this device), DL_RESOURCE (no driver, device or memory), and those of `load`, of
 * dlr_exchange_open and, on GPUs, of dlr_comm_nccl. */
dlr_device *dlr_device_open(const dl_plan *plan, const char *name, dlr_pool *pool, const dlr_ranks *ranks,
                            bool guards, dl_error *err);

/* The compute capability of a device, "cuda" or "cuda:N". Errors: DL_RESOURCE (no driver, no such device). */
bool dlr_cuda_capability(const char *name, int *major, int *minor, dl_error *err);

/* How many devices the driver finds. Errors: as above, and 0. */
int dlr_cuda_count(dl_error *err);

/* What a run of the plan will take of the memory of the device that it would be opened on, without loading or
 * allocating anything. False without an error: that is the host's memory. Errors: DL_RESOURCE (no driver, no
 * such device). */
bool dlr_device_predict(const dl_plan *plan, const char *name, dlr_device_memory *memory, dl_error *err);

/* What there is of a driver and of devices, a line each, for --version: "driver of CUDA 13.0, 1 device",
 * "device cuda:0: NVIDIA H200, compute capability 9.0, 143771 MiB"; or "no driver (libcuda.so.1)". */
const char *dlr_devices_text(dl_arena *arena);

/* The CPU: objects are shared objects of this machine, launches are loops of the pool. */
dlr_device *dlr_cpu_new(dl_arena *arena);
#endif
