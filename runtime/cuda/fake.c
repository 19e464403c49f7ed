/* The CUDA driver's fake: the table of driver.h over this machine's CPU.
 *
 * It is stricter than a driver. Work on a stream is queued, and done in order when somebody waits for it, so
 * that what is read too early is not there yet, and a copy from memory that was changed too early copies the
 * change. Device memory begins as NaN, lies at addresses that the host cannot use, and every argument of a
 * launch must point into it. Copies are of pinned memory alone. While a stream captures, what allocates,
 * waits or copies is refused. The first fault stays, as on a device. Not for several threads. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/base/arena.h"
#include "ir/base/clock.h"
#include "ir/base/object.h"
#include "runtime/cuda/driver.h"

static const uint64_t bias = (uint64_t)1 << 62; /* of device addresses: none is the host's */

typedef struct {
    char *at; /* in this process */
    size_t bytes;
} block;

/* What every emulated object exports (ir/plan.h). */
typedef int emulated_launch(const char *kernel, int nargs, void *const *args, unsigned grid, unsigned block,
                            unsigned shared, unsigned seed, char *error, size_t size);

struct CUevent_st {
    int waiting; /* records of it in the queue, which is */
    struct CUstream_st *stream;
    bool times;
    int64_t at; /* when it was, in nanoseconds; 0: it never was */
};
struct CUmod_st {
    dl_object object;
    emulated_launch *launch;
    DL_ARRAY(struct CUfunc_st *) functions; /* which go with it */
};
struct CUfunc_st {
    emulated_launch *launch;
    int shared; /* most dynamic bytes */
    char name[];
};

enum { MOST_ARGS = 512 };
typedef enum { LAUNCH, TO_DEVICE, TO_HOST, FILL, RECORD, GRAPH } kind;
typedef struct {
    kind kind;
    dlr_cu_function function;
    unsigned grid, block, shared;
    int nargs;
    uint64_t *args; /* its own */
    char *to;
    const char *from;
    size_t bytes;
    int value;
    dlr_cu_event event;
    const struct CUgraph_st *graph;
} work;

struct CUgraph_st {
    DL_ARRAY(work) list;
    int users; /* itself, and what was made of it */
};
struct CUgraphExec_st {
    struct CUgraph_st *graph;
};
struct CUstream_st {
    DL_ARRAY(work) queue;
    int done; /* of the queue */
    struct CUgraph_st *capture;
    bool invalid; /* the capture */
};

static struct {
    dlr_fake_options options;
    bool running;
    DL_ARRAY(block) device, pinned;
    size_t used;
    int64_t copies;
    dlr_cu_result fault;
    char detail[512];
    DL_ARRAY(struct CUstream_st *) streams;
    DL_ARRAY(struct CUevent_st *) events; /* these are kept for a context's reset */
    DL_ARRAY(struct CUmod_st *) modules;
    DL_ARRAY(struct CUgraphExec_st *) execs;
} fake;

/* Lists of the fake's own live on the heap: nothing of it is a run's. */
#define PUSH(list, item)                                                                                     \
    do {                                                                                                     \
        if ((list)->n == (list)->cap) {                                                                      \
            (list)->cap = 2 * (list)->cap + 16;                                                              \
            (list)->at = realloc((list)->at, (size_t)(list)->cap * sizeof *(list)->at);                      \
            DL_CHECK((list)->at);                                                                            \
        }                                                                                                    \
        (list)->at[(list)->n++] = (item);                                                                    \
    } while (0)

#define REMOVE(list, item)                                                                                   \
    do {                                                                                                     \
        for (int i_ = 0; i_ < (list)->n; i_++)                                                               \
            if ((list)->at[i_] == (item)) (list)->at[i_--] = (list)->at[--(list)->n];                        \
    } while (0)

static dlr_cu_result break_down(dlr_cu_result result, const char *detail) {
    if (fake.fault) return fake.fault;
    snprintf(fake.detail, sizeof fake.detail, "%s", detail);
    return fake.fault = result;
}

/* The block that holds an address, or that it is the end of: blocks may lie side by side. */
static const block *find(const block *list, int n, const char *at) {
    const block *ended = NULL;
    for (int i = 0; i < n; i++) {
        if (at >= list[i].at && at < list[i].at + list[i].bytes) return &list[i];
        if (at == list[i].at + list[i].bytes) ended = &list[i];
    }
    return ended;
}
static const block *find_device(uint64_t address) {
    return find(fake.device.at, fake.device.n, (const char *)(uintptr_t)(address - bias));
}
static bool has(const block *b, const char *at, size_t bytes) {
    return b && bytes <= b->bytes && at <= b->at + (b->bytes - bytes);
}

/* What allocates or waits invalidates a capture. */
static bool captures(void) {
    bool any = false;
    for (int i = 0; i < fake.streams.n; i++) {
        struct CUstream_st *s = fake.streams.at[i];
        if (s->capture) any = s->invalid = true;
    }
    return any;
}

/* ---- the device ---- */

static dlr_cu_result init(unsigned flags) { return fake.running = true, flags ? DLR_CU_INVALID_VALUE : 0; }
static dlr_cu_result driver_version(int *version) { return *version = 12040, 0; }

static const struct {
    dlr_cu_result result;
    const char *name, *text;
} results[] = {{0, "CUDA_SUCCESS", "no error"},
               {DLR_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
               {DLR_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
               {DLR_CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
               {DLR_CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
               {DLR_CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
               {DLR_CU_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
               {DLR_CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
               {DLR_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
               {DLR_CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
               {DLR_CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
               {DLR_CU_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
                "not permitted when a stream is capturing"},
               {DLR_CU_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
                "the capture was invalidated by an error before"}};
enum { NRESULTS = sizeof results / sizeof *results };

static dlr_cu_result error_name(dlr_cu_result result, const char **name) {
    for (int i = 0; i < NRESULTS; i++)
        if (results[i].result == result) return *name = results[i].name, 0;
    return *name = NULL, DLR_CU_INVALID_VALUE;
}
static dlr_cu_result error_string(dlr_cu_result result, const char **text) {
    for (int i = 0; i < NRESULTS; i++)
        if (results[i].result == result) return *text = results[i].text, 0;
    return *text = NULL, DLR_CU_INVALID_VALUE;
}

static dlr_cu_result device_count(int *count) {
    return *count = 1, fake.running ? 0 : DLR_CU_NOT_INITIALIZED;
}
static dlr_cu_result device_get(dlr_cu_device *device, int ordinal) {
    if (!fake.running) return DLR_CU_NOT_INITIALIZED;
    return *device = 0, ordinal ? DLR_CU_INVALID_DEVICE : 0;
}
static dlr_cu_result device_name(char *name, int size, dlr_cu_device device) {
    snprintf(name, (size_t)size, "emulated device");
    return device ? DLR_CU_INVALID_DEVICE : 0;
}
static dlr_cu_result device_attribute(int *value, int attribute, dlr_cu_device device) {
    if (device) return DLR_CU_INVALID_DEVICE;
    switch (attribute) {
    case DLR_CU_COMPUTE_MAJOR: return *value = 9, 0;
    case DLR_CU_COMPUTE_MINOR: return *value = 0, 0;
    case DLR_CU_SHARED_OPTIN: return *value = 227 << 10, 0;
    default: return DLR_CU_INVALID_VALUE;
    }
}

static dlr_cu_result context_retain(dlr_cu_context *context, dlr_cu_device device) {
    *context = (dlr_cu_context)&fake;
    return device ? DLR_CU_INVALID_DEVICE : 0;
}
/* With its context a device's fault goes, too. */
static dlr_cu_result context_release(dlr_cu_device device) {
    fake.fault = 0, *fake.detail = 0;
    return device ? DLR_CU_INVALID_DEVICE : 0;
}
static dlr_cu_result context_set(dlr_cu_context context) {
    return context == (dlr_cu_context)&fake ? 0 : DLR_CU_INVALID_HANDLE;
}
static const char *detail(void) { return fake.detail; }

/* ---- memory ---- */

static char *take(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static size_t memory(void) { return fake.options.memory ? fake.options.memory : (size_t)1 << 36; }

static dlr_cu_result memory_info(size_t *free, size_t *total) {
    *total = memory(), *free = *total - fake.used;
    return 0;
}

static dlr_cu_result allocate(dlr_cu_memory *to, size_t bytes) {
    if (fake.fault) return fake.fault;
    if (captures()) return DLR_CU_STREAM_CAPTURE_UNSUPPORTED;
    if (bytes == 0) return DLR_CU_INVALID_VALUE;
    if (bytes > memory() - fake.used) return DLR_CU_OUT_OF_MEMORY;
    block b = {take(bytes), bytes};
    if (!b.at) return DLR_CU_OUT_OF_MEMORY;
    memset(b.at, 0xff, bytes);
    PUSH(&fake.device, b);
    fake.used += bytes;
    *to = (uint64_t)(uintptr_t)b.at + bias;
    return 0;
}

static dlr_cu_result allocate_host(void **to, size_t bytes) {
    if (fake.fault) return fake.fault;
    if (captures()) return DLR_CU_STREAM_CAPTURE_UNSUPPORTED;
    if (bytes == 0) return DLR_CU_INVALID_VALUE;
    block b = {take(bytes), bytes};
    if (!b.at) return DLR_CU_OUT_OF_MEMORY;
    PUSH(&fake.pinned, b);
    *to = b.at;
    return 0;
}

static dlr_cu_result drain(struct CUstream_st *s, dlr_cu_event until);
static void drain_all(void) {
    for (int i = 0; i < fake.streams.n; i++) drain(fake.streams.at[i], NULL);
}

static bool give(block *list, int *n, const char *at, size_t *bytes) {
    for (int i = 0; i < *n; i++) {
        if (list[i].at != at) continue;
        *bytes = list[i].bytes;
        munmap(list[i].at, list[i].bytes);
        list[i] = list[--*n];
        return true;
    }
    return false;
}

/* Freeing waits for all work, as a driver's does. */
static dlr_cu_result release(dlr_cu_memory at) {
    size_t bytes;
    if (captures()) return DLR_CU_STREAM_CAPTURE_UNSUPPORTED;
    drain_all();
    if (!give(fake.device.at, &fake.device.n, (char *)(uintptr_t)(at - bias), &bytes))
        return DLR_CU_INVALID_VALUE;
    fake.used -= bytes;
    return fake.fault;
}
static dlr_cu_result release_host(void *at) {
    size_t bytes;
    if (captures()) return DLR_CU_STREAM_CAPTURE_UNSUPPORTED;
    drain_all();
    return give(fake.pinned.at, &fake.pinned.n, at, &bytes) ? fake.fault : DLR_CU_INVALID_VALUE;
}

/* ---- a stream's work ---- */

static dlr_cu_result run_launch(const work *w) {
    void *values[MOST_ARGS];
    uint64_t real[MOST_ARGS];
    char error[400] = "";
    for (int i = 0; i < w->nargs; i++) {
        if (!find_device(w->args[i])) {
            snprintf(error, sizeof error, "%s: argument %d points to no memory of the device",
                     w->function->name, i);
            return break_down(DLR_CU_ILLEGAL_ADDRESS, error);
        }
        real[i] = w->args[i] - bias, values[i] = &real[i];
    }
    int failed = w->function->launch(w->function->name, w->nargs, values, w->grid, w->block, w->shared,
                                     fake.options.seed, error, sizeof error);
    return failed ? break_down(DLR_CU_LAUNCH_FAILED, error) : 0;
}

static dlr_cu_result run(const work *w) {
    dlr_cu_result r = 0;
    if (fake.fault) return fake.fault;
    switch (w->kind) {
    case LAUNCH: return run_launch(w);
    case TO_DEVICE:
    case TO_HOST:
        if (++fake.copies == fake.options.fail_copy) return break_down(DLR_CU_ECC_UNCORRECTABLE, "in a copy");
        return memcpy(w->to, w->from, w->bytes), 0;
    case FILL: return memset(w->to, w->value, w->bytes), 0;
    case RECORD: return w->event->at = dl_clock_ns(), 0;
    case GRAPH:
        for (int i = 0; r == 0 && i < w->graph->list.n; i++) r = run(&w->graph->list.at[i]);
        return r;
    }
    return DLR_CU_INVALID_VALUE;
}

static void unuse(struct CUgraph_st *g) {
    if (--g->users > 0) return;
    for (int i = 0; i < g->list.n; i++) free(g->list.at[i].args);
    free(g->list.at), free(g);
}

/* Does what is queued, up to the last record of an event, or all. */
static dlr_cu_result drain(struct CUstream_st *s, dlr_cu_event until) {
    while (s->done < s->queue.n && !(until && until->waiting == 0)) {
        work w = s->queue.at[s->done++];
        run(&w);
        if (w.kind == RECORD) w.event->waiting--;
        if (w.kind == GRAPH) unuse((struct CUgraph_st *)(uintptr_t)w.graph);
        free(w.args);
    }
    if (s->done == s->queue.n) s->done = s->queue.n = 0;
    return fake.fault;
}

static dlr_cu_result add(struct CUstream_st *s, work w) {
    if (fake.fault) {
        free(w.args);
        return fake.fault;
    }
    if (s->capture && w.kind != LAUNCH) return s->invalid = true, DLR_CU_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        PUSH(&s->capture->list, w);
    else
        PUSH(&s->queue, w);
    return 0;
}

static dlr_cu_result to_device(dlr_cu_memory to, const void *from, size_t bytes, dlr_cu_stream s) {
    char *at = (char *)(uintptr_t)(to - bias);
    bool ok = has(find_device(to), at, bytes) && has(find(fake.pinned.at, fake.pinned.n, from), from, bytes);
    return ok ? add(s, (work){.kind = TO_DEVICE, .to = at, .from = from, .bytes = bytes})
              : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result to_host(void *to, dlr_cu_memory from, size_t bytes, dlr_cu_stream s) {
    const char *at = (const char *)(uintptr_t)(from - bias);
    bool ok = has(find_device(from), at, bytes) && has(find(fake.pinned.at, fake.pinned.n, to), to, bytes);
    return ok ? add(s, (work){.kind = TO_HOST, .to = to, .from = at, .bytes = bytes}) : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result fill(dlr_cu_memory to, unsigned char value, size_t bytes, dlr_cu_stream s) {
    char *at = (char *)(uintptr_t)(to - bias);
    return has(find_device(to), at, bytes)
               ? add(s, (work){.kind = FILL, .to = at, .value = value, .bytes = bytes})
               : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result stream_create(dlr_cu_stream *stream, unsigned flags) {
    (void)flags;
    if (!(*stream = calloc(1, sizeof **stream))) return DLR_CU_OUT_OF_MEMORY;
    PUSH(&fake.streams, *stream);
    return 0;
}
static dlr_cu_result stream_destroy(dlr_cu_stream s) {
    drain(s, NULL);
    REMOVE(&fake.streams, s);
    free(s->queue.at), free(s);
    return fake.fault;
}
static dlr_cu_result stream_wait(dlr_cu_stream s) {
    return captures() ? DLR_CU_STREAM_CAPTURE_UNSUPPORTED : drain(s, NULL);
}

static dlr_cu_result event_create(dlr_cu_event *event, unsigned flags) {
    if (!(*event = calloc(1, sizeof **event))) return DLR_CU_OUT_OF_MEMORY;
    (*event)->times = !(flags & DLR_CU_EVENT_DISABLE_TIMING);
    PUSH(&fake.events, *event);
    return 0;
}
static dlr_cu_result event_destroy(dlr_cu_event event) {
    if (event->waiting) drain(event->stream, event);
    REMOVE(&fake.events, event);
    free(event);
    return 0;
}
static dlr_cu_result event_record(dlr_cu_event event, dlr_cu_stream s) {
    dlr_cu_result r = add(s, (work){.kind = RECORD, .event = event});
    if (r == 0) event->waiting++, event->stream = s;
    return r;
}
static dlr_cu_result event_wait(dlr_cu_event event) {
    if (captures()) return DLR_CU_STREAM_CAPTURE_UNSUPPORTED;
    return event->waiting ? drain(event->stream, event) : fake.fault;
}
static dlr_cu_result event_elapsed(float *ms, dlr_cu_event from, dlr_cu_event to) {
    if (fake.fault) return fake.fault;
    if (!from->times || !to->times) return DLR_CU_INVALID_HANDLE;
    if (from->waiting || to->waiting) return DLR_CU_NOT_READY;
    if (!from->at || !to->at) return DLR_CU_INVALID_HANDLE;
    return *ms = (float)((double)(to->at - from->at) * 1e-6), 0;
}

/* ---- modules and launches ---- */

/* A driver is told where an image is, not how long: an ELF file's tables say where it ends. */
static size_t elf_bytes(const void *image) {
    Elf64_Ehdr h;
    memcpy(&h, image, EI_NIDENT);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64) return 0;
    memcpy(&h, image, sizeof h);
    size_t end = h.e_shoff + (size_t)h.e_shnum * h.e_shentsize;
    for (int i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, (const char *)image + h.e_shoff + (size_t)i * h.e_shentsize, sizeof s);
        if (s.sh_type != SHT_NOBITS && s.sh_offset + s.sh_size > end) end = s.sh_offset + s.sh_size;
    }
    return end;
}

static dlr_cu_result module_load(dlr_cu_module *module, const void *image) {
    dl_error err = {0};
    if (fake.fault) return fake.fault;
    if (captures()) return DLR_CU_STREAM_CAPTURE_UNSUPPORTED;
    struct CUmod_st *m = calloc(1, sizeof *m);
    void *address = NULL;
    bool loaded = m && dl_object_load(&m->object, image, elf_bytes(image), &err);
    if (loaded) address = dl_object_find(&m->object, "dl_emulated_launch");
    if (!address) {
        snprintf(fake.detail, sizeof fake.detail, "%s",
                 loaded ? "the object has no function dl_emulated_launch" : err.message);
        if (loaded) dl_object_unload(&m->object);
        free(m);
        return DLR_CU_INVALID_IMAGE;
    }
    memcpy(&m->launch, &address, sizeof address);
    *module = m;
    PUSH(&fake.modules, m);
    return 0;
}
static void free_module(struct CUmod_st *m) {
    for (int i = 0; i < m->functions.n; i++) free(m->functions.at[i]);
    dl_object_unload(&m->object);
    free(m->functions.at), free(m);
}
static dlr_cu_result module_unload(dlr_cu_module m) {
    drain_all();
    REMOVE(&fake.modules, m);
    return free_module(m), 0;
}
static dlr_cu_result module_function(dlr_cu_function *function, dlr_cu_module m, const char *name) {
    char error[400];
    if (m->launch(name, 0, NULL, 0, 32, 0, 0, error, sizeof error) != 0) return DLR_CU_NOT_FOUND;
    struct CUfunc_st *f = malloc(sizeof *f + strlen(name) + 1);
    if (!f) return DLR_CU_OUT_OF_MEMORY;
    *f = (struct CUfunc_st){.launch = m->launch, .shared = 48 << 10};
    strcpy(f->name, name);
    PUSH(&m->functions, f);
    *function = f;
    return 0;
}
static dlr_cu_result function_set(dlr_cu_function f, int attribute, int value) {
    if (attribute != DLR_CU_SHARED_DYNAMIC_MOST || value < 0 || value > 227 << 10)
        return DLR_CU_INVALID_VALUE;
    return f->shared = value, 0;
}
static dlr_cu_result function_get(int *value, int attribute, dlr_cu_function f) {
    (void)f;
    *value = 0;
    return attribute == DLR_CU_SHARED_STATIC ? 0 : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result launch(dlr_cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                            dlr_cu_stream s, void **params, void **extra) {
    bool ok = grid_x > 0 && grid_x <= INT32_MAX && grid_y == 1 && grid_z == 1 && block_x > 0 &&
              block_x <= 1024 && block_y == 1 && block_z == 1 && shared <= (unsigned)f->shared && !params &&
              extra && extra[0] == DLR_CU_LAUNCH_BUFFER && extra[2] == DLR_CU_LAUNCH_SIZE &&
              extra[4] == DLR_CU_LAUNCH_END;
    size_t bytes = ok ? *(const size_t *)extra[3] : 0;
    if (!ok || bytes % sizeof(uint64_t) || bytes / sizeof(uint64_t) > MOST_ARGS) return DLR_CU_INVALID_VALUE;
    uint64_t *args = malloc(bytes + 1);
    if (!args) return DLR_CU_OUT_OF_MEMORY;
    memcpy(args, extra[1], bytes);
    return add(s, (work){.kind = LAUNCH,
                         .function = f,
                         .grid = grid_x,
                         .block = block_x,
                         .shared = shared,
                         .nargs = (int)(bytes / sizeof(uint64_t)),
                         .args = args});
}

/* ---- graphs ---- */

static dlr_cu_result capture_begin(dlr_cu_stream s, int mode) {
    if (fake.fault) return fake.fault;
    if (s->capture || mode != DLR_CU_CAPTURE_THREAD_LOCAL) return DLR_CU_INVALID_VALUE;
    s->invalid = false;
    s->capture = calloc(1, sizeof *s->capture);
    if (!s->capture) return DLR_CU_OUT_OF_MEMORY;
    return s->capture->users = 1, 0;
}
static dlr_cu_result capture_end(dlr_cu_stream s, dlr_cu_graph *graph) {
    if (!s->capture) return DLR_CU_INVALID_VALUE;
    *graph = s->capture, s->capture = NULL;
    if (!s->invalid) return 0;
    unuse(*graph), *graph = NULL;
    return DLR_CU_STREAM_CAPTURE_INVALIDATED;
}
static dlr_cu_result instantiate(dlr_cu_graph_exec *exec, dlr_cu_graph graph, uint64_t flags) {
    if (flags || captures()) return DLR_CU_INVALID_VALUE;
    if (!(*exec = malloc(sizeof **exec))) return DLR_CU_OUT_OF_MEMORY;
    graph->users++;
    PUSH(&fake.execs, *exec);
    return **exec = (struct CUgraphExec_st){graph}, 0;
}
static dlr_cu_result upload(dlr_cu_graph_exec exec, dlr_cu_stream s) {
    (void)exec, (void)s;
    return fake.fault;
}
static dlr_cu_result graph_launch(dlr_cu_graph_exec exec, dlr_cu_stream s) {
    exec->graph->users++;
    dlr_cu_result r = add(s, (work){.kind = GRAPH, .graph = exec->graph});
    if (r) exec->graph->users--;
    return r;
}
static void free_exec(struct CUgraphExec_st *exec) { unuse(exec->graph), free(exec); }
static dlr_cu_result exec_destroy(dlr_cu_graph_exec exec) {
    REMOVE(&fake.execs, exec);
    return free_exec(exec), 0;
}
static dlr_cu_result graph_destroy(dlr_cu_graph graph) { return unuse(graph), 0; }

/* A context goes, and all that it held with it. */
static dlr_cu_result context_reset(dlr_cu_device device) {
    for (int i = 0; i < fake.streams.n; i++) {
        struct CUstream_st *s = fake.streams.at[i];
        for (; s->done < s->queue.n; s->done++) {
            work *w = &s->queue.at[s->done];
            if (w->kind == GRAPH) unuse((struct CUgraph_st *)(uintptr_t)w->graph);
            free(w->args);
        }
        free(s->queue.at), free(s);
    }
    for (int i = 0; i < fake.execs.n; i++) free_exec(fake.execs.at[i]);
    for (int i = 0; i < fake.events.n; i++) free(fake.events.at[i]);
    for (int i = 0; i < fake.modules.n; i++) free_module(fake.modules.at[i]);
    for (int i = 0; i < fake.device.n; i++) munmap(fake.device.at[i].at, fake.device.at[i].bytes);
    for (int i = 0; i < fake.pinned.n; i++) munmap(fake.pinned.at[i].at, fake.pinned.at[i].bytes);
    fake.streams.n = fake.execs.n = fake.events.n = fake.modules.n = fake.device.n = fake.pinned.n = 0;
    fake.used = 0;
    return context_release(device);
}

void dlr_fake_set(dlr_fake_options options) { fake.options = options, fake.copies = 0; }

const dlr_driver *dlr_driver_fake(void) {
    static const dlr_driver table = {.Init = init,
                                     .DriverGetVersion = driver_version,
                                     .GetErrorName = error_name,
                                     .GetErrorString = error_string,
                                     .DeviceGetCount = device_count,
                                     .DeviceGet = device_get,
                                     .DeviceGetName = device_name,
                                     .DeviceGetAttribute = device_attribute,
                                     .DevicePrimaryCtxRetain = context_retain,
                                     .DevicePrimaryCtxRelease = context_release,
                                     .DevicePrimaryCtxReset = context_reset,
                                     .CtxSetCurrent = context_set,
                                     .MemGetInfo = memory_info,
                                     .MemAlloc = allocate,
                                     .MemFree = release,
                                     .MemAllocHost = allocate_host,
                                     .MemFreeHost = release_host,
                                     .MemsetD8Async = fill,
                                     .MemcpyHtoDAsync = to_device,
                                     .MemcpyDtoHAsync = to_host,
                                     .StreamCreate = stream_create,
                                     .StreamDestroy = stream_destroy,
                                     .StreamSynchronize = stream_wait,
                                     .StreamBeginCapture = capture_begin,
                                     .StreamEndCapture = capture_end,
                                     .EventCreate = event_create,
                                     .EventDestroy = event_destroy,
                                     .EventRecord = event_record,
                                     .EventSynchronize = event_wait,
                                     .EventElapsedTime = event_elapsed,
                                     .ModuleLoadData = module_load,
                                     .ModuleUnload = module_unload,
                                     .ModuleGetFunction = module_function,
                                     .FuncSetAttribute = function_set,
                                     .FuncGetAttribute = function_get,
                                     .LaunchKernel = launch,
                                     .GraphInstantiateWithFlags = instantiate,
                                     .GraphUpload = upload,
                                     .GraphLaunch = graph_launch,
                                     .GraphExecDestroy = exec_destroy,
                                     .GraphDestroy = graph_destroy,
                                     .Detail = detail};
    init(0);
    return &table;
}
