/* The CUDA device's state, shared by the files of this folder. */
#ifndef DLR_CUDA_H
#define DLR_CUDA_H
#include <stdatomic.h>

#include "runtime/cuda/library.h"
#include "runtime/device/device.h"

enum {
    DLR_AHEAD = 2,            /* runs that may be started before the oldest is taken */
    DLR_RING = DLR_AHEAD + 1, /* runs whose results are kept: those, and the one taken last */
    DLR_MIRRORS = 2,
};

/* Pinned host memory, and the event that follows the last copy from or to it. */
typedef struct {
    char *at;
    int64_t bytes;
    dlr_cu_event event;
    int64_t run; /* the number of the run that precedes that copy */
    bool busy;   /* the event was recorded, and has not been waited for since */
} dlr_pinned;

/* The host's copy of a part of the arena, between two runs. */
typedef struct {
    int64_t offset, bytes;
    dlr_pinned memory;
    bool valid, written;
    int64_t used; /* when it was last used: the least recently used one is replaced */
} dlr_mirror;

/* Double buffers of an input: while one batch is being copied, the next is written. */
typedef struct {
    int64_t offset, bytes;
    int64_t place, room; /* offset and size in the staging buffer */
    int64_t batch;       /* most bytes of a batch that the input is made of */
    dlr_pinned memory[2];
    dlr_cu_event emptied;
    int at;       /* which buffer was written last */
    bool written; /* and has not been uploaded yet */
    int64_t raw;  /* bytes of the batch that the input is made of (ir/plan/feed.h); 0: the host
                     writes the input itself */
    char *there;  /* the batch's pinned memory; NULL: it is memory[at] */
} dlr_feed_buffer;

/* A phase's launch arguments: tensor maps, device addresses, the workspace's address last of these,
 * then numbers. */
typedef struct {
    void **at; /* pointers to the arguments, and a NULL at the end */
} dlr_cuda_args;

/* A prepared launch. */
typedef struct {
    const dl_plan_kernel *kernel;
    const dlr_cu_function *phase;
    dlr_cuda_args *args; /* by phase */
    void *const *calls;  /* library calls, as the libraries prepared them */
    uint64_t *places;    /* device addresses of parameters and workspace, for library calls */
} dlr_cuda_launch;

/* Part of the arena that holds small results. */
typedef struct {
    int64_t offset, bytes, place; /* offset in a slot of the ring */
} dlr_span;

/* A collective's events: the one that it waits for, and the one that it signals. */
typedef struct {
    dlr_cu_event ready, done;
    int place; /* its index among the program's, in the order of their starts */
} dlr_cuda_collective;

typedef struct {
    dlr_cuda_launch *launches;
    dlr_cuda_collective *collectives; /* by number */
    int *order, ncollectives;         /* their numbers, in the order of their starts */
    dlr_cu_graph_exec graph;          /* NULL: not captured yet */
    DL_ARRAY(dlr_span) results;
} dlr_cuda_program;

typedef struct {
    dlr_pinned memory;
    int program;
} dlr_slot;

/* Events of a timed run. */
typedef struct {
    DL_ARRAY(dlr_cu_event) events;
    int64_t began; /* the host's clock at the first of them */
} dlr_cuda_timing;

/* DLR_DEBUG=guard: device memory for the copies that a launch works on, and host memory to check
 * it. */
typedef struct {
    dlr_cu_memory memory;
    dlr_pinned canary, seen, kept;
} dlr_cuda_guard;

/* Counts of calls of the driver. */
typedef struct {
    int64_t graphs, launches; /* graphs, and kernels outside graphs */
    int64_t syncs;            /* waits for the newest work: the device is idle after them */
    int64_t waits;            /* waits for work that precedes a later run */
    int64_t allocations;      /* of memory and of graphs */
} dlr_driver_counts;

typedef struct {
    dlr_device base;
    const dlr_driver *driver;
    int ordinal;
    dlr_cu_device device;
    char name[128];
    dlr_cu_context context;       /* NULL: none */
    int64_t before;               /* bytes in use on the device when the context has been made */
    dlr_cu_stream stream, feeder; /* the stream of kernels; the stream of input copies */
    dlr_cu_module *modules;
    dlr_cu_function **functions;    /* functions of a kernel's phases */
    void *libraries[DL_NLIBRARIES]; /* opened libraries; NULL: the plan does not call it */
    void ***calls;                  /* prepared calls of a kernel */
    dlr_cu_memory memory;           /* arena | workspace | staging buffer; 0: none */
    /* from `memory`; batches are copied to the staging buffer */
    int64_t workspace_offset, stage_offset;
    dlr_cu_memory held; /* the device-resident data set; 0: none */
    int64_t held_bytes;
    dlr_pinned filler;      /* pinned memory of its upload */
    dlr_cu_function gather; /* dl_feed_0; NULL: the plan has none */
    dlr_cuda_program *programs;
    dlr_feed_buffer *feeds;
    int nfeeds;
    dlr_mirror mirrors[DLR_MIRRORS];
    int64_t uses;
    dlr_slot ring[DLR_RING];
    dlr_cuda_timing timing;
    _Atomic int64_t runs;       /* runs that were started */
    int64_t taken;              /* runs that were taken */
    dlr_comm *nccl;             /* the comm between the devices; NULL: there is one rank */
    bool borrowed;              /* that comm belongs to the run */
    dlr_cu_stream sharer;       /* the stream of collectives */
    int64_t sharer_bytes;       /* the device's memory that they take, NCCL's buffers too */
    dlr_cu_memory numbers;      /* the numbers 0, 1, 2, ... on the device */
    volatile int32_t *progress; /* the number of finished collectives of the newest run, which the
                                   device copies here */
    _Atomic int flying;         /* the program of a run whose end has not been observed, or -1 */
    char *ones;                 /* ones: the bytes that reads return when the device has failed */
    int64_t nones;
    bool says, slow; /* DLR_DEBUG=driver, =launches or =guard */
    dlr_cuda_guard guard;
    /* in total; when the newest run began; of successive steps */
    dlr_driver_counts all, begin, steps;
    int64_t nsteps;
    int stepping; /* the program whose runs are being started ahead, or -1 */
} dlr_cuda;

/* ---- context.c ---- */
/* Whether a call of the driver has failed; then the error names the device and what it was for. */
bool dlr_cuda_fails(dlr_cuda *c, dlr_cu_result result, const char *what, dl_error *err);
/* Checks a driver call. On an error it sets the device's fault and returns false. */
bool dlr_cuda_ok(dlr_cuda *c, dlr_cu_result result, const char *what);
bool dlr_cuda_alive(const dlr_cuda *c);
/* Returns false and sets the device's fault when a rank is lost. */
bool dlr_cuda_together(dlr_cuda *c);
/* Wait for the newest work, and for the last copy from or to pinned memory. */
void dlr_cuda_wait(dlr_device *d);
void dlr_cuda_wait_pinned(dlr_cuda *c, dlr_pinned *p);
/* makes it at least so large; its contents are lost */
bool dlr_cuda_pin(dlr_cuda *c, dlr_pinned *p, int64_t bytes);

/* ---- code.c ---- */
/* Loads the plan's objects that have an image, and finds their functions. Errors as in
 * dlr_device_table. */
bool dlr_cuda_load_code(dlr_cuda *c, dl_error *err);
/* Whether a program's functions are loaded: waits for late ones (dl_plan_late). An error becomes
 * the device's fault. */
bool dlr_cuda_has_code(dlr_cuda *c, int program);

/* ---- launch.c ---- */
/* Fills in a launch's arguments, which lie at `places` of a memory. Returns the driver's result for
 * its tensor maps. */
dlr_cu_result dlr_cuda_bind(dlr_cuda *c, dl_arena *arena, dlr_cuda_launch *l, uint64_t memory,
                            const int64_t *places, uint64_t workspace);
/* Makes a kernel's library calls and launches its phases, to run or to be captured. */
dlr_cu_result dlr_cuda_put_launch(dlr_cuda *c, const dlr_cuda_launch *l);

/* ---- work.c ---- */
void dlr_cuda_launch_one(dlr_device *d, int program, int number);
/* Runs one launch or one collective by itself. */
void dlr_cuda_step_one(dlr_cuda *c, int program, dl_plan_step step);
void dlr_cuda_capture(dlr_device *d, int program);
void dlr_cuda_replay(dlr_device *d, int program);
void dlr_cuda_wait_oldest(dlr_device *d);
const void *dlr_cuda_result(dlr_device *d, int64_t offset, int64_t bytes);
void dlr_cuda_say(const dlr_cuda *c); /* prints the counts for DLR_DEBUG=driver */

/* ---- calls.c ---- */
/* Opens the libraries that the plan calls, and prepares its calls. Errors: DL_RESOURCE (a library
 * is missing, or has another version than the plan's). */
bool dlr_cuda_begin_calls(dlr_cuda *c, dl_error *err);
void dlr_cuda_end_calls(dlr_cuda *c);
/* Makes a kernel's library calls. An error of a library becomes the device's fault. */
dlr_cu_result dlr_cuda_put_calls(dlr_cuda *c, const dlr_cuda_launch *l);

/* ---- collectives.c ---- */
bool dlr_cuda_share(dlr_device *d, const dlr_ranks *ranks, dl_error *err);
void dlr_cuda_exchange(dlr_device *d, int program, dl_plan_step step);
/* Begins a collective or waits for it, to run or to be captured. An error of the comm becomes the
 * device's fault. */
dlr_cu_result dlr_cuda_put_exchange(dlr_cuda *c, int program, dl_plan_step step);
void dlr_cuda_end_share(dlr_cuda *c);

/* ---- timing.c ---- */
/* In a timed run, records an event before or after a collective. */
void dlr_cuda_mark_collective(dlr_cuda *c, int program, int number, bool after);
void dlr_cuda_time(dlr_device *d, dlr_timeline *timeline);
/* A copy between pinned host memory and device memory at `offset` from c->memory; it is timed where
 * the next run is. */
dlr_cu_result dlr_cuda_copy(dlr_cuda *c, bool to_host, void *host, int64_t offset, int64_t bytes,
                            dlr_cu_stream stream);
/* In a timed run, records an event before a program's step, or after the last one. */
void dlr_cuda_mark_step(dlr_cuda *c, int step);
/* Waits for all work, and writes the times to the timeline. */
void dlr_cuda_end_timing(dlr_cuda *c, int program);

/* ---- host.c ---- */
void *dlr_cuda_host(dlr_device *d, int64_t offset, int64_t bytes, dlr_access access);
void *dlr_cuda_input_gather(dlr_device *d, int64_t offset, int64_t bytes, int64_t batch,
                            void *there);
/* Uploads the parts that the host has written; with `forget`, the host's copies are no longer
 * valid. */
void dlr_cuda_flush(dlr_cuda *c, bool forget);

/* ---- memory.c ---- */
int64_t dlr_cuda_plan_bytes(const dl_plan *plan); /* the size of the one allocation */
/* Bytes in use on the device, by all programs, and its size. */
dlr_cu_result dlr_cuda_in_use(const dlr_cuda *c, int64_t *used, int64_t *total);
bool dlr_cuda_memory(dlr_device *d, dlr_device_memory *memory);
/* Predicts the memory use on a device, which is opened and closed for this. Errors: DL_RESOURCE. */
bool dlr_cuda_predict(dlr_cuda *c, const dl_plan *plan, dlr_device_memory *memory, dl_error *err);
/* Appends "; most at once touches kernel ...". */
void dlr_cuda_put_busiest(const dl_plan *plan, dl_buf *to);

/* ---- guard.c ---- */
/* Runs one launch by itself, guarded (runtime/device/guard.h); it is done when this returns. A
 * write out of bounds becomes the device's fault. */
dlr_cu_result dlr_cuda_guarded(dlr_cuda *c, int program, int number);

/* ---- facts.c ---- */
/* The text of dlr_devices_text for a driver; NULL: there is no driver, with the reason. */
const char *dlr_cuda_text(dl_arena *arena, const dlr_driver *driver, const dl_error *why);

/* ---- feed.c ---- */
void dlr_cuda_make_feeds(dlr_cuda *c);
bool dlr_cuda_make_feed_events(dlr_cuda *c);
/* The input that is exactly this part of the arena, or NULL. */
dlr_feed_buffer *dlr_cuda_feed_of(dlr_cuda *c, int64_t offset, int64_t bytes);
/* Where the host writes the next batch, as the input itself or as the `raw` bytes that it is made
 * of: the buffer that is not being copied. The last batch was uploaded before. NULL: the device has
 * failed. */
void *dlr_cuda_feed(dlr_cuda *c, dlr_feed_buffer *f, int64_t raw, void *there);
/* Uploads the written batch: the input has it before the next work of c->stream runs. */
void dlr_cuda_send_feed(dlr_cuda *c, dlr_feed_buffer *f);
bool dlr_cuda_allocate_dataset(dlr_device *d, int64_t bytes, dl_error *err);
void dlr_cuda_upload(dlr_device *d, int64_t at, const void *from, int64_t bytes);
bool dlr_cuda_pin_there(dlr_device *d, void *memory, int64_t bytes, dl_error *err);
void dlr_cuda_unpin_there(dlr_device *d, void *memory);
void dlr_cuda_wait_staged(dlr_device *d);

/* ---- open.c ---- */
/* Create context, stream, modules and functions; allocate memory, zeroed. Errors as in
 * dlr_device_table. */
bool dlr_cuda_load(dlr_device *d, dl_error *err);
bool dlr_cuda_map(dlr_device *d, dl_error *err);
bool dlr_cuda_predict_on(const dl_plan *plan, const char *name, bool emulated,
                         dlr_device_memory *memory, dl_error *err);
dlr_device *dlr_cuda_new(dl_arena *arena, const char *name, bool emulated, dl_error *err);
#endif
