/* A device that runs a plan: the memory of its arena, the code of its kernels, and their launches.
 *
 * The executor (exec.h) works through this table and knows neither symbols nor pointers: a tensor
 * is a type and an offset into the arena. A device is open when its kernels are loaded and its
 * memory is mapped; then programs are captured and replayed. The host reaches the arena by `host`:
 * on the CPU that is the arena itself, on other devices a copy.
 *
 * A device may fail after it was opened (a kernel faults, a device is lost). `fault` then holds the
 * reason, and stays set: later work does nothing, and reads give bits that are all ones, which any
 * float type reads as NaN. */
#ifndef DLR_DEVICE_H
#define DLR_DEVICE_H
#include "ir/plan/plan.h"
#include "runtime/base/pool.h"
#include "runtime/comm/exchange.h"

typedef struct dlr_device dlr_device;

/* How the host uses a part of the arena. */
typedef enum {
    DLR_READ,   /* reads it */
    DLR_WRITE,  /* writes all of it: the old contents are not copied to the host */
    DLR_UPDATE, /* reads it, and writes some of it */
} dlr_access;

/* Start and end on the device, in nanoseconds of dl_clock_ns. */
typedef struct {
    int64_t began, ended;
} dlr_time;

typedef struct {
    dlr_time time;
    int64_t bytes;
    bool to_host;
} dlr_timed_copy;

/* The timeline of one run of a program: its launches in order, and the copies from and to the host.
 * On the CPU there are no copies. */
enum { DLR_TIMED_COPIES = 64 };
typedef struct {
    dlr_time *launches; /* one per launch of the program; allocated by the caller */
    /* The same for its collectives, or NULL: `collectives` from each one's begin to the end of its
     * wait, `waits` the wait alone. */
    dlr_time *collectives, *waits;
    dlr_timed_copy copies[DLR_TIMED_COPIES];
    int ncopies;
} dlr_timeline;

/* A device's memory use, in bytes. A run takes plan + held + collectives + code + graphs in
 * addition to `before`. */
typedef struct {
    int64_t plan;        /* arena, workspace and staging buffers, rounded as the driver allocates */
    int64_t held;        /* a device-resident data set */
    int64_t collectives; /* buffers of collectives between devices, NCCL's too, as measured when the
                            ranks have met; 0 before */
    int64_t code, graphs; /* the driver's own memory, estimated: machine code, captured programs */
    int64_t before;       /* in use before the run: the driver's context, and other programs */
    int64_t seen, total;  /* in use now, by all programs; the device's size */
} dlr_device_memory;
/* Bytes in use, `before` included, after a run has begun. */
static inline int64_t dlr_device_predicted(const dlr_device_memory *m) {
    return m->before + m->plan + m->held + m->collectives + m->code + m->graphs;
}
/* Bytes that a device-resident data set may take: those that the run leaves free, less an eighth
 * for the driver and other programs. */
static inline int64_t dlr_device_left(const dlr_device_memory *m) {
    int64_t used = dlr_device_predicted(m) > m->seen ? dlr_device_predicted(m) : m->seen;
    return m->total > used ? (m->total - used) / 8 * 7 : 0;
}

/* Called before a plan's memory is allocated on a device with memory of its own. */
typedef void dlr_memory_fn(void *context, const dlr_device_memory *memory);

/* Called after each launch of a run, when the launch is done. */
typedef void dlr_seen_fn(void *context, int program, int number);

typedef struct {
    /* Loads the plan's objects and finds every kernel in them. Errors: DL_INPUT (a kernel is
     * missing, or takes other arguments), DL_IO, DL_RESOURCE. */
    bool (*load)(dlr_device *d, dl_error *err);
    /* Allocates arena, workspace and scratch, zeroed, and binds each launch's arguments. Errors:
     * DL_RESOURCE. */
    bool (*map)(dlr_device *d, dl_error *err);
    /* Launches one kernel of a program, after all earlier launches. */
    void (*launch)(dlr_device *d, int program, int number);
    /* Captures a program, so that it can be replayed as a whole; does nothing for a captured
     * one. */
    void (*capture)(dlr_device *d, int program);
    /* Opens the plan's collectives among the ranks. Errors: as dlr_device_open. */
    bool (*share)(dlr_device *d, const dlr_ranks *ranks, dl_error *err);
    /* Runs a program's step other than a launch: begins a collective, or waits for it. A failure
     * becomes the device's fault. */
    void (*exchange)(dlr_device *d, int program, dl_plan_step step);
    /* Starts the whole captured program. On a GPU this returns before the program is done. */
    void (*replay)(dlr_device *d, int program);
    /* Waits for all started work. */
    void (*wait)(dlr_device *d);
    /* The host's view of bytes [offset, offset + bytes) of the arena after all started work. It is
     * valid until the next launch or replay, before which the host's writes reach the device. At
     * most two such views are kept: a third call may end the first. Never NULL. */
    void *(*host)(dlr_device *d, int64_t offset, int64_t bytes, dlr_access access);
    /* The input gather: returns where the host puts a batch in its file format (ir/plan/feed.h:
     * `batch` bytes, at most dl_feed_room). The device computes the input, exactly this part of the
     * arena, from it after all started work. NULL where `gathers` is false. `there`, if not NULL:
     * the batch already lies in memory that was passed to `pin`, and is read until `wait_staged`
     * returns. */
    void *(*input_gather)(dlr_device *d, int64_t offset, int64_t bytes, int64_t batch, void *there);
    /* Allocates a device-resident data set of `bytes` bytes. Batches of `input_gather` may refer to
     * its numbers instead of bringing their own (ir/plan/feed.h: held). 0: frees it. Errors:
     * DL_RESOURCE. */
    bool (*allocate_dataset)(dlr_device *d, int64_t bytes, dl_error *err);
    /* Uploads numbers to the data set, from byte `at` on; with 0 bytes, waits for all such
     * copies. */
    void (*upload)(dlr_device *d, int64_t at, const void *from, int64_t bytes);
    /* Pins host memory, so that the device reads it in place, until `unpin`. Errors:
     * DL_RESOURCE. */
    bool (*pin)(dlr_device *d, void *memory, int64_t bytes, dl_error *err);
    void (*unpin)(dlr_device *d, void *memory);
    /* Waits until the device has read all batches that were passed as `there`. */
    void (*wait_staged)(dlr_device *d);
    /* The host's read-only view of a small result of the last run that the host
     * waited for (dlr_exec_wait_oldest). */
    const void *(*result)(dlr_device *d, int64_t offset, int64_t bytes);
    /* Waits for all started work. Later copies, and the next replay, are timed into `timeline`:
     * that replay runs launch by launch, and is done when it returns. */
    void (*time)(dlr_device *d, dlr_timeline *timeline);
    /* Waits for the oldest run that was not waited for yet, until the host has its
     * results. */
    void (*wait_oldest)(dlr_device *d);
    /* Reads the device's memory use; false where the device has no memory of its own, or failed.
     * NULL: it has none. */
    bool (*memory)(dlr_device *d, dlr_device_memory *memory);
    void (*close)(dlr_device *d); /* frees it; also allowed for a device that is half open */
} dlr_device_table;

/* The first member of every device's own struct. */
struct dlr_device {
    const dlr_device_table *table;
    const dl_plan *plan;
    dl_arena *arena; /* holds the device's tables; closing frees it, and the device with it */
    dlr_pool *pool;  /* the executor's */
    dlr_exchange *exchange; /* runs the plan's collectives */
    char *base;             /* the arena, where it is the host's memory; else NULL */
    bool gathers;           /* `input_gather` can make inputs on this device */
    bool guards;   /* launches run one at a time, between canaries (runtime/device/guard.h) */
    int64_t zones; /* canaries that were checked and found intact */
    /* How often the host has written variables other than inputs and targets: prepared weights
     * (ir/plan/plan.h) are of one such state. */
    uint64_t written;
    int ahead; /* the number of runs that may be started before the oldest is taken; 1: each is done
                  when it returns */
    dlr_timeline *timeline; /* the timeline of the next replay; NULL: it is not timed */
    dlr_seen_fn *seen;      /* replays go launch by launch, and this is called after each; NULL:
                               they do not */
    void *seen_by;
    dl_error fault; /* code DL_OK: none */
};

/* Opens a device for the plan. name: "cpu", "cuda", "cuda:1", "cuda:emulated"; NULL: the device of
 * the plan's target. ranks: the ranks of the plan's collectives. guards: as DLR_DEBUG=guard.
 * memory: called with `context` before the plan's memory is allocated there; NULL: it is not.
 * Errors: DL_USAGE (the target does not match this device), DL_RESOURCE (no driver, device or
 * memory), and those of `load`, of dlr_exchange_open and, on GPUs, of dlr_comm_nccl. */
dlr_device *dlr_device_open(const dl_plan *plan, const char *name, dlr_pool *pool,
                            const dlr_ranks *ranks, bool guards, dlr_memory_fn *memory,
                            void *context, dl_error *err);

/* The compute capability of a device, "cuda" or "cuda:N". Errors: DL_RESOURCE (no driver, no such
 * device). */
bool dlr_cuda_capability(const char *name, int *major, int *minor, dl_error *err);

/* The number of its multiprocessors, by which the cost model shares work out: of a MIG instance its
 * own. Errors: as above. */
bool dlr_cuda_multiprocessors(const char *name, int *n, dl_error *err);

/* The number of devices that the driver finds. Errors: as above, and 0. */
int dlr_cuda_count(dl_error *err);

/* Predicts a run's memory use on the device that the plan would be opened on, without loading or
 * allocating anything. False without an error: the plan runs in the host's memory. Errors:
 * DL_RESOURCE (no driver, no such device). */
bool dlr_device_predict(const dl_plan *plan, const char *name, dlr_device_memory *memory,
                        dl_error *err);

/* The driver and the devices, a line each, for --version: "driver of CUDA 13.0, 1 device", "device
 * cuda:0: NVIDIA H200, compute capability 9.0, 143771 MiB"; or "no driver (libcuda.so.1)". */
const char *dlr_devices_text(dl_arena *arena);

/* The CPU: objects are shared objects of this machine, launches are loops of the pool. */
dlr_device *dlr_cpu_new(dl_arena *arena);
#endif
