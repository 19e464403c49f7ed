/* The CUDA device: its state, shared by the files of this folder. */
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

/* Pinned memory of the host, and the event behind the last copy from or to it. */
typedef struct {
    char *at;
    int64_t bytes;
    dlr_cu_event event;
    int64_t run; /* number of the run before that copy */
    bool busy;   /* the event was recorded, and not waited for since */
} dlr_pinned;

/* The host's copy of a part of the arena, between two runs. */
typedef struct {
    int64_t offset, bytes;
    dlr_pinned memory;
    bool valid, written;
    int64_t used; /* when: the older one makes room */
} dlr_mirror;

/* An input's way to the device: while one batch is being copied, the next is written. */
typedef struct {
    int64_t offset, bytes;
    int64_t place, room; /* in the stage */
    int64_t batch;       /* bytes of what it is made of, at most */
    dlr_pinned memory[2];
    dlr_cu_event emptied;
    int at;       /* which one was written last */
    bool written; /* and has not been sent */
    int64_t raw;  /* bytes of the batch that the input is made of (ir/plan/feed.h); 0: that is the
                     input itself */
    char *there;  /* which lies here, and not in memory[at]; NULL: it does */
} dlr_feed_buffer;

/* What a phase is launched with: tensor maps, addresses on the device, the workspace's behind them,
 * then numbers. */
typedef struct {
    void **at; /* where each stands; NULL behind them */
} dlr_cuda_args;

/* A launch, ready. */
typedef struct {
    const dl_plan_kernel *kernel;
    const dlr_cu_function *phase;
    dlr_cuda_args *args; /* by phase */
    void *const *calls;  /* as libraries have prepared them */
    uint64_t *places;    /* on the device, of parameters and workspace; for calls */
} dlr_cuda_launch;

/* Part of the arena that holds small results. */
typedef struct {
    int64_t offset, bytes, place; /* in a ring's slot */
} dlr_span;

/* A collective's events: what it waits for, and what waits for it. */
typedef struct {
    dlr_cu_event ready, done;
    int place; /* among the program's, as they are begun */
} dlr_cuda_collective;

typedef struct {
    dlr_cuda_launch *launches;
    dlr_cuda_collective *collectives; /* by number */
    int *order, ncollectives;         /* their numbers, as they are begun */
    dlr_cu_graph_exec graph;          /* NULL: not captured yet */
    DL_ARRAY(dlr_span) results;
} dlr_cuda_program;

typedef struct {
    dlr_pinned memory;
    int program;
} dlr_slot;

/* Of a run that is timed. */
typedef struct {
    DL_ARRAY(dlr_cu_event) events;
    int64_t began; /* when the first of them was, by the host's clock */
} dlr_cuda_watched;

/* DLR_DEBUG=guard: memory for what a launch touches, and the host's to look at it. */
typedef struct {
    dlr_cu_memory memory;
    dlr_pinned canary, seen, kept;
} dlr_cuda_guard;

/* What was asked of the driver. */
typedef struct {
    int64_t graphs, launches; /* graphs, and kernels outside them */
    int64_t syncs;            /* waits for the newest work: the device has nothing to do then */
    int64_t waits;            /* waits for work before a later run's */
    int64_t allocations;      /* of memory and of graphs */
} dlr_driver_counts;

typedef struct {
    dlr_device base;
    const dlr_driver *driver;
    int ordinal;
    dlr_cu_device device;
    char name[128];
    dlr_cu_context context;       /* NULL: none */
    int64_t before;               /* bytes in use on the device behind its making */
    dlr_cu_stream stream, feeder; /* what runs; batches on their way to the device */
    dlr_cu_module *modules;
    dlr_cu_function **functions;            /* a kernel's phases */
    void *libraries[DL_NLIBRARIES];         /* opened; NULL: the plan calls it not */
    void ***calls;                          /* a kernel's, prepared */
    dlr_cu_memory memory;                   /* arena | workspace | stage; 0: none */
    int64_t workspace_offset, stage_offset; /* from `memory`; stage: where batches arrive */
    dlr_cu_memory held;                     /* a data set; 0: none */
    int64_t held_bytes;
    dlr_pinned filler;      /* on its way there */
    dlr_cu_function gather; /* dl_feed_0; NULL: the plan has none */
    dlr_cuda_program *programs;
    dlr_feed_buffer *feeds;
    int nfeeds;
    dlr_mirror mirrors[DLR_MIRRORS];
    int64_t uses;
    dlr_slot ring[DLR_RING];
    dlr_cuda_watched watch;
    _Atomic int64_t runs;  /* started */
    int64_t taken;         /* of them taken */
    dlr_comm *nccl;        /* between the devices; NULL: there is one rank */
    bool borrowed;         /* it is the run's own */
    dlr_cu_stream sharer;  /* of collectives */
    dlr_cu_memory numbers; /* 0, 1, 2, ... on the device */
    volatile int32_t
        *progress; /* collectives that the newest run has behind it, as the device copies them */
    _Atomic int flying; /* the program of a run that nobody has seen the end of, or -1 */
    char *ones;         /* what is read when the device has failed */
    int64_t nones;
    bool says, slow; /* DLR_DEBUG=driver, =launches or =guard */
    dlr_cuda_guard guard;
    dlr_driver_counts all, begin, steps; /* in all; when the newest run began; of steps in a row */
    int64_t nsteps;
    int stepping; /* the program whose runs are being started ahead, or -1 */
} dlr_cuda;

/* ---- context.c ---- */
/* False, and the device's fault is set, when the driver says that something did not work. */
bool dlr_cuda_ok(dlr_cuda *c, dlr_cu_result result, const char *what);
bool dlr_cuda_alive(const dlr_cuda *c);
/* False, and the device's fault is set, when a rank is lost. */
bool dlr_cuda_together(dlr_cuda *c);
/* Waits for the newest work; for the last copy from or to pinned memory. */
void dlr_cuda_wait(dlr_device *d);
void dlr_cuda_wait_pinned(dlr_cuda *c, dlr_pinned *p);
bool dlr_cuda_pin(dlr_cuda *c, dlr_pinned *p, int64_t bytes); /* at least; what was there is lost */

/* ---- launch.c ---- */
/* Fills in what a launch's kernel is launched with, where its arguments lie at `places` of a
 * memory. Returns what the driver says of its tensor maps. */
dlr_cu_result dlr_cuda_bind(dlr_cuda *c, dl_arena *arena, dlr_cuda_launch *l, uint64_t memory,
                            const int64_t *places, uint64_t workspace);
/* Makes a kernel's calls and launches its phases, to run or to be captured. */
dlr_cu_result dlr_cuda_put_launch(dlr_cuda *c, const dlr_cuda_launch *l);

/* ---- work.c ---- */
void dlr_cuda_launch_one(dlr_device *d, int program, int number);
/* A launch or a collective by itself. */
void dlr_cuda_step_one(dlr_cuda *c, int program, dl_plan_step step);
void dlr_cuda_capture(dlr_device *d, int program);
void dlr_cuda_replay(dlr_device *d, int program);
void dlr_cuda_take(dlr_device *d);
const void *dlr_cuda_result(dlr_device *d, int64_t offset, int64_t bytes);
void dlr_cuda_say(const dlr_cuda *c); /* DLR_DEBUG=driver */

/* ---- calls.c ---- */
/* Opens the libraries that the plan calls, and prepares its calls. Errors: DL_RESOURCE (a library
 * that is not there, or of another version than the plan's). */
bool dlr_cuda_begin_calls(dlr_cuda *c, dl_error *err);
void dlr_cuda_end_calls(dlr_cuda *c);
/* A kernel's calls. What a library says went wrong is the device's fault. */
dlr_cu_result dlr_cuda_put_calls(dlr_cuda *c, const dlr_cuda_launch *l);

/* ---- collectives.c ---- */
bool dlr_cuda_share(dlr_device *d, const dlr_ranks *ranks, dl_error *err);
void dlr_cuda_exchange(dlr_device *d, int program, dl_plan_step step);
/* Begins a collective or waits for it, to run or to be captured. What the comm says of it is the
 * device's fault. */
dlr_cu_result dlr_cuda_put_exchange(dlr_cuda *c, int program, dl_plan_step step);
void dlr_cuda_end_share(dlr_cuda *c);

/* ---- watch.c ---- */
/* In a run that is timed, an event in front of a collective or behind it. */
void dlr_cuda_mark_collective(dlr_cuda *c, int program, int number, bool behind);
void dlr_cuda_watch(dlr_device *d, dlr_timeline *timeline);
/* A copy between the host's pinned memory and the device's, at `offset` from c->memory, timed where
 * the next run is. */
dlr_cu_result dlr_cuda_copy(dlr_cuda *c, bool to_host, void *host, int64_t offset, int64_t bytes,
                            dlr_cu_stream stream);
/* In a run that is timed, an event in front of a program's step, or behind the last one. */
void dlr_cuda_mark_step(dlr_cuda *c, int step);
/* Waits for all, and writes the times down. */
void dlr_cuda_end_watch(dlr_cuda *c, int program);

/* ---- host.c ---- */
void *dlr_cuda_host(dlr_device *d, int64_t offset, int64_t bytes, dlr_access access);
void *dlr_cuda_gather(dlr_device *d, int64_t offset, int64_t bytes, int64_t batch, void *there);
/* Sends what the host has written; with `forget`, its copies are no longer those of the arena. */
void dlr_cuda_flush(dlr_cuda *c, bool forget);

/* ---- memory.c ---- */
int64_t dlr_cuda_plan_bytes(const dl_plan *plan); /* of the one allocation */
dlr_cu_result dlr_cuda_begin_memory(dlr_cuda *c);
bool dlr_cuda_memory(dlr_device *d, dlr_device_memory *memory);
/* Of a device that was found, for as long as it takes. Errors: DL_RESOURCE. */
bool dlr_cuda_predict(dlr_cuda *c, const dl_plan *plan, dlr_device_memory *memory, dl_error *err);
/* "; most at once touches kernel ..." */
void dlr_cuda_put_busiest(const dl_plan *plan, dl_buf *to);

/* ---- guard.c ---- */
/* One launch by itself, guarded (runtime/device/guard.h); it is done when this returns. What it did
 * wrong becomes the device's fault. */
dlr_cu_result dlr_cuda_guarded(dlr_cuda *c, int program, int number);

/* ---- facts.c ---- */
/* dlr_devices_text of a driver; NULL: there is none, and why. */
const char *dlr_cuda_text(dl_arena *arena, const dlr_driver *driver, const dl_error *why);

/* ---- feed.c ---- */
void dlr_cuda_make_feeds(dlr_cuda *c);
bool dlr_cuda_make_feed_events(dlr_cuda *c);
/* The input that is exactly this part of the arena, or NULL. */
dlr_feed_buffer *dlr_cuda_feed_of(dlr_cuda *c, int64_t offset, int64_t bytes);
/* Where the host writes the next batch's, the input itself or the `raw` bytes that it is made of:
 * the buffer that is not on its way. The last has been sent. NULL: the device has failed. */
void *dlr_cuda_feed(dlr_cuda *c, dlr_feed_buffer *f, int64_t raw, void *there);
/* Sends what was written: it is in the input before whatever is given to c->stream next. */
void dlr_cuda_send_feed(dlr_cuda *c, dlr_feed_buffer *f);
bool dlr_cuda_hold(dlr_device *d, int64_t bytes, dl_error *err);
void dlr_cuda_put(dlr_device *d, int64_t at, const void *from, int64_t bytes);
bool dlr_cuda_pin_there(dlr_device *d, void *memory, int64_t bytes, dl_error *err);
void dlr_cuda_unpin_there(dlr_device *d, void *memory);
void dlr_cuda_sent(dlr_device *d);

/* ---- open.c ---- */
/* Context, stream, modules and functions; memory, zeroed. Errors as in dlr_device_table. */
bool dlr_cuda_load(dlr_device *d, dl_error *err);
bool dlr_cuda_map(dlr_device *d, dl_error *err);
bool dlr_cuda_predict_on(const dl_plan *plan, const char *name, bool emulated,
                         dlr_device_memory *memory, dl_error *err);
dlr_device *dlr_cuda_new(dl_arena *arena, const char *name, bool emulated, dl_error *err);
#endif
