/* Opens a CUDA device for a plan: selects it, makes its context, loads the plan's modules,
 * allocates one arena. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/debug.h"
#include "runtime/cuda/cuda.h"
#include "runtime/device/guard.h"

enum {
    SMALL = 64 /* most bytes of a result that is copied through the ring */,
    GAP = 1024 /* gap up to which two such results are copied together */
};

/* ---- selecting the device ---- */

static bool parse_ordinal(const char *name, int *ordinal, dl_error *err) {
    char *end = NULL;
    long n = name && name[4] == ':' ? strtol(name + 5, &end, 10) : 0;
    if (name && strncmp(name, "cuda", 4) == 0 &&
        (!name[4] || (end && end > name + 5 && !*end && n >= 0)) && n < INT_MAX)
        return *ordinal = (int)n, true;
    return !name
               ? (*ordinal = 0, true)
               : dl_fail(err, DL_USAGE,
                         "'%.60s' is no device: cpu, cpu:NAME, cuda, cuda:N, cuda:emulated", name);
}

static bool find_device(dlr_cuda *c, dl_error *err) {
    int count = 0;
    snprintf(c->name, sizeof c->name, "CUDA device %d", c->ordinal);
    if (dlr_cuda_fails(c, c->driver->DeviceGetCount(&count), "no devices are found", err))
        return false;
    if (c->ordinal >= count)
        return dl_fail(
            err, DL_RESOURCE,
            "there is no CUDA device %d: the driver finds %d, counted from 0 (CUDA_VISIBLE_DEVICES "
            "may hide some); or run on the CPU with --device=cpu",
            c->ordinal, count);
    char name[80];
    if (dlr_cuda_fails(c, c->driver->DeviceGet(&c->device, c->ordinal), "it is not found", err) ||
        dlr_cuda_fails(c, c->driver->DeviceGetName(name, sizeof name, c->device), "it has no name",
                       err))
        return false;
    snprintf(c->name, sizeof c->name, "CUDA device %d, %s", c->ordinal, name);
    return true;
}

static bool capability(dlr_cuda *c, int *major, int *minor, dl_error *err) {
    return !dlr_cuda_fails(c, c->driver->DeviceGetAttribute(major, DLR_CU_COMPUTE_MAJOR, c->device),
                           "its kind", err) &&
           !dlr_cuda_fails(c, c->driver->DeviceGetAttribute(minor, DLR_CU_COMPUTE_MINOR, c->device),
                           "its kind", err);
}

bool dlr_cuda_capability(const char *name, int *major, int *minor, dl_error *err) {
    dlr_cuda c = {0};
    if (!parse_ordinal(name, &c.ordinal, err)) return false;
    c.driver = dlr_driver_open(err);
    return c.driver && find_device(&c, err) && capability(&c, major, minor, err);
}

bool dlr_cuda_multiprocessors(const char *name, int *n, dl_error *err) {
    dlr_cuda c = {0};
    if (!parse_ordinal(name, &c.ordinal, err)) return false;
    c.driver = dlr_driver_open(err);
    return c.driver && find_device(&c, err) &&
           !dlr_cuda_fails(&c, c.driver->DeviceGetAttribute(n, DLR_CU_MULTIPROCESSORS, c.device),
                           "its kind", err);
}

bool dlr_cuda_predict_on(const dl_plan *plan, const char *name, bool emulated,
                         dlr_device_memory *memory, dl_error *err) {
    dlr_cuda c = {0};
    if (!emulated && !parse_ordinal(name, &c.ordinal, err)) return false;
    c.driver = emulated ? dlr_driver_emulated(err) : dlr_driver_open(err);
    return c.driver && find_device(&c, err) && dlr_cuda_predict(&c, plan, memory, err);
}

/* Code of sm_MN runs on devices M.N and later of the same M; code of sm_MNa on M.N alone. */
static bool check_target(dlr_cuda *c, dl_error *err) {
    const char *target = c->base.plan->target;
    int major, minor, arch = 0, used = 0;
    if (!capability(c, &major, &minor, err)) return false;
    if (sscanf(target, "cuda:sm_%d%n", &arch, &used) != 1)
        return dl_fail(err, DL_INPUT, "the plan is for %s, which is no target of CUDA", target);
    bool exact = target[used] == 'a',
         fits = major == arch / 10 && (exact ? minor == arch % 10 : minor >= arch % 10);
    bool every = major == 0; /* the emulated driver, unless a test has set a capability */
    return every || fits ||
           dl_fail(err, DL_RESOURCE,
                   "the plan is for %s, and %s is of compute capability %d.%d: compile the model "
                   "for it",
                   target, c->name, major, minor);
}

static bool check_entry(const dlr_cuda *c, const dl_plan_kernel *k, const dl_plan_entry *e,
                        dl_error *err) {
    for (int i = 0; i < e->maps.n; i++) {
        bool images = e->maps.at[i].windows;
        if (images ? !!c->driver->TensorMapEncodeIm2col : !!c->driver->TensorMapEncodeTiled)
            continue;
        return dl_fail(
            err, DL_RESOURCE,
            "kernel '%s' (%s) is launched with tensor maps, and the CUDA driver of %s has no "
            "cuTensorMapEncode%s, which makes them: install a newer one, or compile the model "
            "again",
            k->name, k->variant, c->name, images ? "Im2col" : "Tiled");
    }
    return true;
}

/* Kernels with tensor maps need a driver that can encode them. */
static bool check_maps(const dlr_cuda *c, dl_error *err) {
    const dl_plan *p = c->base.plan;
    for (int i = 0; i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].entries.n; j++)
            if (!check_entry(c, &p->kernels.at[i], &p->kernels.at[i].entries.at[j], err))
                return false;
    return true;
}

static bool start(dlr_cuda *c, dl_error *err) {
    if (dlr_cuda_fails(c, c->driver->DevicePrimaryCtxRetain(&c->context, c->device), "no context",
                       err)) {
        c->context = NULL;
        return false;
    }
    int64_t total;
    return !dlr_cuda_fails(c, c->driver->CtxSetCurrent(c->context), "no context", err) &&
           !dlr_cuda_fails(c, dlr_cuda_in_use(c, &c->before, &total), "no context", err) &&
           !dlr_cuda_fails(c, c->driver->StreamCreate(&c->stream, DLR_CU_STREAM_NON_BLOCKING),
                           "no stream", err) &&
           !dlr_cuda_fails(c, c->driver->StreamCreate(&c->feeder, DLR_CU_STREAM_NON_BLOCKING),
                           "no stream", err) &&
           dlr_cuda_load_code(c, err) && dlr_cuda_begin_calls(c, err);
}

bool dlr_cuda_load(dlr_device *d, dl_error *err) {
    dlr_cuda *c = (dlr_cuda *)d;
    c->slow = c->slow || d->guards;
    const dl_plan *p = d->plan;
    c->modules = DL_NEWS(d->arena, dlr_cu_module, p->objects.n + 1);
    c->functions = DL_NEWS(d->arena, dlr_cu_function *, p->kernels.n + 1);
    c->calls = DL_NEWS(d->arena, void **, p->kernels.n + 1);
    for (int i = 0; i < p->kernels.n; i++) {
        c->functions[i] = DL_NEWS(d->arena, dlr_cu_function, p->kernels.at[i].phases + 1);
        c->calls[i] = DL_NEWS(d->arena, void *, p->kernels.at[i].calls.n + 1);
    }
    return find_device(c, err) && check_target(c, err) && check_maps(c, err) &&
           dl_plan_check_code(p, err) && start(c, err);
}

/* ---- memory ---- */

static double mib(size_t bytes) { return (double)bytes / 0x1p20; }

static size_t variables(const dl_plan *p) {
    size_t bytes = 0;
    for (int i = 0; i < p->vars.n; i++) bytes += (size_t)dl_type_bytes(&p->vars.at[i].type);
    return bytes;
}

/* The error of a plan that does not fit next to what the device already holds. */
static bool refuse_memory(const dlr_cuda *c, size_t bytes, dl_error *err) {
    const dl_plan *p = c->base.plan;
    size_t arena = (size_t)dl_plan_round(p->arena_bytes), free = 0, total = 0;
    dl_buf busiest = {0};
    dlr_cuda_put_busiest(p, &busiest);
    c->driver->MemGetInfo(&free, &total);
    dl_fail(err, DL_RESOURCE,
            "this run needs %.1f MiB of memory on %s, and %.1f of its %.1f MiB are free, since "
            "other programs and the driver's context hold %.1f: %.1f for weights and what else "
            "stays from step to step, %.1f for what is made in between, %.1f of workspace, %.1f "
            "for the batch that comes next%s (dlc compile --dump=memory tells what is alive when); "
            "take a smaller batch or crop, another precision, or a device with fewer users",
            mib(bytes), c->name, mib(free), mib(total), mib((size_t)c->before), mib(variables(p)),
            mib(arena - variables(p)), mib((size_t)dl_plan_round(p->workspace_bytes)),
            mib((size_t)dl_plan_staged(p)), busiest.at ? busiest.at : "");
    dl_buf_free(&busiest);
    return false;
}

static bool take_memory(dlr_cuda *c, dl_error *err) {
    const dl_plan *p = c->base.plan;
    size_t arena = (size_t)dl_plan_round(p->arena_bytes),
           work = (size_t)dl_plan_round(p->workspace_bytes), bytes = (size_t)dlr_cuda_plan_bytes(p);
    c->all.allocations++, c->workspace_offset = (int64_t)arena;
    c->stage_offset = (int64_t)(arena + work);
    dlr_cu_result r = c->driver->MemAlloc(&c->memory, bytes);
    if (r == DLR_CU_OUT_OF_MEMORY) return refuse_memory(c, bytes, err);
    /* Batches may be copied to the staging buffer before the memset is done. */
    return !dlr_cuda_fails(c, r, "no memory", err) &&
           (arena + work == 0 ||
            !dlr_cuda_fails(c, c->driver->MemsetD8Async(c->memory, 0, arena + work, c->stream),
                            "memory", err));
}

static bool bind_launches(dlr_cuda *c, dl_error *err) {
    const dl_plan *plan = c->base.plan;
    dlr_cu_result r = 0;
    uint64_t workspace = c->memory + (uint64_t)dl_plan_round(plan->arena_bytes);
    for (int i = 0; i < plan->programs.n; i++)
        for (int j = 0; r == 0 && j < plan->programs.at[i].launches.n; j++) {
            const dl_plan_launch *from = &plan->programs.at[i].launches.at[j];
            r = dlr_cuda_bind(c, c->base.arena, &c->programs[i].launches[j], c->memory, from->args,
                              workspace);
        }
    return !dlr_cuda_fails(c, r, "a tensor map", err);
}

static void make_launches(dlr_cuda *c) {
    const dl_plan *plan = c->base.plan;
    dl_arena *arena = c->base.arena;
    c->programs = DL_NEWS(arena, dlr_cuda_program, plan->programs.n + 1);
    for (int i = 0; i < plan->programs.n; i++) {
        const dl_plan_program *p = &plan->programs.at[i];
        c->programs[i].launches = DL_NEWS(arena, dlr_cuda_launch, p->launches.n + 1);
        for (int j = 0; j < p->launches.n; j++) {
            int kernel = p->launches.at[j].kernel;
            c->programs[i].launches[j] = (dlr_cuda_launch){.kernel = &plan->kernels.at[kernel],
                                                           .phase = c->functions[kernel],
                                                           .calls = c->calls[kernel]};
        }
    }
}

static int by_offset(const void *a, const void *b) {
    const dlr_span *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Results that lie close to each other are copied together. */
static int64_t find_results(dlr_cuda *c, int program) {
    const dl_plan_program *p = &c->base.plan->programs.at[program];
    dlr_cuda_program *to = &c->programs[program];
    dlr_span *all = DL_NEWS(c->base.arena, dlr_span, p->results.n + 1);
    int n = 0;
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        int64_t bytes = dl_type_bytes(&r->type);
        bool told = r->role == DL_RESULT_LOSS || r->role == DL_RESULT_METRIC;
        if (told && bytes > 0 && bytes <= SMALL)
            all[n++] = (dlr_span){.offset = r->offset, .bytes = bytes};
    }
    qsort(all, (size_t)n, sizeof *all, by_offset);
    int64_t place = 0;
    for (int i = 0; i < n; i++) {
        dlr_span *last = to->results.n ? &to->results.at[to->results.n - 1] : NULL;
        int64_t end = all[i].offset + all[i].bytes;
        if (last && all[i].offset <= last->offset + last->bytes + GAP) {
            if (end > last->offset + last->bytes) last->bytes = end - last->offset;
        } else {
            dl_push(c->base.arena, &to->results, all[i]);
        }
    }
    for (int i = 0; i < to->results.n; i++) {
        to->results.at[i].place = place;
        place += dl_plan_round(to->results.at[i].bytes);
    }
    return place;
}

static bool make_ring(dlr_cuda *c) {
    int64_t bytes = 0;
    for (int i = 0; i < c->base.plan->programs.n; i++) {
        int64_t n = find_results(c, i);
        if (n > bytes) bytes = n;
    }
    for (int i = 0; i < DLR_RING; i++)
        if (bytes && !dlr_cuda_pin(c, &c->ring[i].memory, bytes)) return false;
    return true;
}

bool dlr_cuda_map(dlr_device *d, dl_error *err) {
    dlr_cuda *c = (dlr_cuda *)d;
    make_launches(c);
    if (!take_memory(c, err) || !bind_launches(c, err)) return false;
    dlr_cuda_make_feeds(c);
    return (make_ring(c) && dlr_cuda_make_feed_events(c)) ||
           dl_fail(err, d->fault.code, "%s", d->fault.message);
}

/* ---- closing ---- */

static void unpin(dlr_cuda *c, dlr_pinned *p) {
    if (p->event) c->driver->EventDestroy(p->event);
    if (p->at) c->driver->MemFreeHost(p->at);
    *p = (dlr_pinned){0};
}

static void release(dlr_cuda *c) {
    const dlr_driver *v = c->driver;
    if (!c->context) return;
    /* which waits for the work of the feeder stream */
    if (c->stream) v->StreamSynchronize(c->stream);
    for (int i = 0; c->programs && i < c->base.plan->programs.n; i++)
        if (c->programs[i].graph) v->GraphExecDestroy(c->programs[i].graph);
    dlr_cuda_end_calls(c);
    dlr_cuda_end_share(c);
    for (int i = 0; i < c->nfeeds; i++) {
        unpin(c, &c->feeds[i].memory[0]), unpin(c, &c->feeds[i].memory[1]);
        if (c->feeds[i].emptied) v->EventDestroy(c->feeds[i].emptied);
    }
    for (int i = 0; i < DLR_MIRRORS; i++) unpin(c, &c->mirrors[i].memory);
    for (int i = 0; i < DLR_RING; i++) unpin(c, &c->ring[i].memory);
    for (int i = 0; i < c->timing.events.n; i++) v->EventDestroy(c->timing.events.at[i]);
    unpin(c, &c->guard.canary), unpin(c, &c->guard.seen), unpin(c, &c->guard.kept);
    if (c->guard.memory) v->MemFree(c->guard.memory);
    unpin(c, &c->filler);
    if (c->held) v->MemFree(c->held);
    if (c->memory) v->MemFree(c->memory);
    for (int i = 0; c->modules && i < c->base.plan->objects.n; i++)
        if (c->modules[i]) v->ModuleUnload(c->modules[i]);
    if (c->feeder) v->StreamDestroy(c->feeder);
    if (c->stream) v->StreamDestroy(c->stream);
    v->DevicePrimaryCtxRelease(c->device);
    c->context = NULL;
}

static void close_cuda(dlr_device *d) {
    dlr_cuda *c = (dlr_cuda *)d;
    if (c->says) dlr_cuda_say(c);
    release(c);
    dl_arena_free(d->arena);
}

static const dlr_device_table table = {.load = dlr_cuda_load,
                                       .map = dlr_cuda_map,
                                       .launch = dlr_cuda_launch_one,
                                       .capture = dlr_cuda_capture,
                                       .share = dlr_cuda_share,
                                       .exchange = dlr_cuda_exchange,
                                       .replay = dlr_cuda_replay,
                                       .wait = dlr_cuda_wait,
                                       .host = dlr_cuda_host,
                                       .input_gather = dlr_cuda_input_gather,
                                       .allocate_dataset = dlr_cuda_allocate_dataset,
                                       .upload = dlr_cuda_upload,
                                       .pin = dlr_cuda_pin_there,
                                       .unpin = dlr_cuda_unpin_there,
                                       .wait_staged = dlr_cuda_wait_staged,
                                       .result = dlr_cuda_result,
                                       .time = dlr_cuda_time,
                                       .wait_oldest = dlr_cuda_wait_oldest,
                                       .memory = dlr_cuda_memory,
                                       .close = close_cuda};

dlr_device *dlr_cuda_new(dl_arena *arena, const char *name, bool emulated, dl_error *err) {
    dlr_cuda *c = DL_NEW(arena, dlr_cuda);
    c->base = (dlr_device){.table = &table, .ahead = DLR_AHEAD};
    c->stepping = -1;
    c->flying = -1;
    c->says = dlr_debugs("driver");
    c->slow = dlr_debugs("launches");
    if (!emulated && !parse_ordinal(name, &c->ordinal, err)) return NULL;
    c->driver = emulated ? dlr_driver_emulated(err) : dlr_driver_open(err);
    return c->driver ? &c->base : NULL;
}
