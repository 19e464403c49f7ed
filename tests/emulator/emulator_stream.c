/* The emulated driver's streams: queued work runs when somebody waits for it. */
#include <stdio.h>
#include <string.h>

#include "ir/base/clock.h"
#include "ir/plan/plan.h"
#include "tests/emulator/emulator.h"

/* ---- work of a stream ---- */

static int64_t now(void) { return gpu.options.launch_ns ? gpu.clock + 1 : dl_clock_ns(); }

/* Converts a tensor map to the kernel's form; false: its memory is not in one block. */
static bool take_map(const uint64_t *from, dl_emulated_map *to) {
    memcpy(to, from, sizeof *to);
    if (to->mark != DL_EMULATED_MAP) return false;
    int64_t reach = to->size[0] * to->word;
    for (int i = 0; i < dl_tensor_map_axes(to->windows) - 1; i++)
        reach += (to->size[i + 1] - 1) * to->step[i];
    to->address -= bias;
    return emulator_memory(to->address + bias, (size_t)reach) != NULL;
}

static dlr_cu_result run_launch(const work *w) {
    enum { MAP_WORDS = DL_MAP_BYTES / sizeof(uint64_t) };
    void *values[MOST_ARGS];
    uint64_t real[MOST_ARGS];
    union {
        _Alignas(DL_MAP_ALIGN) char bytes[DL_MAP_BYTES];
        dl_emulated_map map;
    } maps[DL_MAP_MOST];
    char error[400] = "";
    const dlr_cu_function f = w->function;
    const uint64_t *args = w->args + f->maps * MAP_WORDS;
    int nargs = (int)(w->bytes_of_args / sizeof(uint64_t)) - f->maps * MAP_WORDS;
    for (int i = 0; i < f->maps; i++) {
        values[i] = &maps[i];
        if (i < DL_MAP_MOST && take_map(w->args + i * MAP_WORDS, &maps[i].map)) continue;
        snprintf(error, sizeof error, "%s: tensor map %d is none, or of no memory of the device",
                 f->name, i);
        return emulator_break(DLR_CU_ILLEGAL_ADDRESS, error);
    }
    for (int i = 0; i < nargs; i++) {
        bool points = f->table[0] ? i >= f->table[0] && args[i] : i < f->pointers;
        real[i] = args[i], values[f->maps + i] = &real[i];
        if (!points) continue;
        if (!emulator_find_device(args[i])) {
            snprintf(error, sizeof error, "%s: argument %d points to no memory of the device",
                     f->name, i);
            return emulator_break(DLR_CU_ILLEGAL_ADDRESS, error);
        }
        real[i] -= bias;
    }
    int failed = f->launch(f->name, f->table[0] ? 1 : f->maps + nargs, values, w->grid, w->block,
                           w->shared, gpu.options.seed, error, sizeof error);
    if (gpu.options.launch_ns) gpu.clock += gpu.options.launch_ns(w->function->name, w->grid);
    return failed ? emulator_break(DLR_CU_LAUNCH_FAILED, error) : 0;
}

static dlr_cu_result run(const work *w);

/* The lane's next node, or the graph's end. */
static int next_of(struct CUgraph_st *g, int lane) {
    while (g->at[lane] < g->list.n && g->list.at[g->at[lane]].lane != lane) g->at[lane]++;
    return g->at[lane];
}

static dlr_cu_result run_node(struct CUgraph_st *g, int i) {
    const work *w = &g->list.at[i];
    g->ran[i] = true, g->at[w->lane] = i + 1;
    return w->kind == RECORD ? 0 : run(w); /* within a graph an event is only an edge */
}

/* Runs other lanes as far as their waits allow. */
static dlr_cu_result run_lanes_ahead(struct CUgraph_st *g, int but) {
    dlr_cu_result r = 0;
    for (int lane = 0, i; lane < g->lanes; lane++)
        while (lane != but && r == 0 && (i = next_of(g, lane)) < g->list.n &&
               (g->list.at[i].kind != WAIT || g->ran[g->list.at[i].target]))
            r = run_node(g, i);
    return r;
}

/* Runs a lane up to a node, and the work of other lanes that it waits for. */
static dlr_cu_result run_lane(struct CUgraph_st *g, int lane, int until) {
    dlr_cu_result r = 0;
    for (int i; r == 0 && (i = next_of(g, lane)) < g->list.n && i <= until;) {
        const work *w = &g->list.at[i];
        if (gpu.options.hasty) r = run_lanes_ahead(g, lane);
        if (r == 0 && w->kind == WAIT && !g->ran[w->target])
            r = run_lane(g, g->list.at[w->target].lane, w->target);
        if (r == 0 && !g->ran[i]) r = run_node(g, i);
    }
    return r;
}

/* Lanes are streams: their order is the worst that the events between them allow. */
static dlr_cu_result run_graph(struct CUgraph_st *g) {
    memset(g->ran, 0, sizeof *g->ran * (size_t)g->list.n);
    memset(g->at, 0, sizeof *g->at * (size_t)g->lanes);
    dlr_cu_result r = run_lane(g, 0, g->list.n);
    for (int lane = 1; r == 0 && lane < g->lanes; lane++) r = run_lane(g, lane, g->list.n);
    return r;
}

static dlr_cu_result run(const work *w) {
    if (gpu.fault) return gpu.fault;
    switch (w->kind) {
    case LAUNCH: return run_launch(w);
    case TO_DEVICE:
    case TO_HOST:
    case WITHIN:
        if (++gpu.copies == gpu.options.fail_copy)
            return emulator_break(DLR_CU_ECC_UNCORRECTABLE, "in a copy");
        for (size_t i = 0; i < w->rows; i++)
            memcpy(w->to + i * w->to_pitch, w->from + i * w->from_pitch, w->bytes);
        return 0;
    case FILL: return memset(w->to, w->value, w->bytes), 0;
    case RECORD: return w->event->at = now(), 0;
    case WAIT: return 0;
    case GRAPH: return run_graph(w->graph);
    case HOST: return w->call(w->data), gpu.fault;
    }
    return DLR_CU_INVALID_VALUE;
}

static bool has_happened(const struct CUevent_st *e, int64_t record) { return e->done >= record; }

static void tell(const work *w) {
    static const char letters[] = {
        [LAUNCH] = 'l', [TO_DEVICE] = 'i', [TO_HOST] = 'o', [WITHIN] = 'w', [GRAPH] = 'g'};
    if ((size_t)w->kind >= sizeof letters || !letters[w->kind] ||
        gpu.told + 1 >= sizeof gpu.journal)
        return;
    gpu.journal[gpu.told++] = letters[w->kind], gpu.journal[gpu.told] = 0;
}

static void run_next(struct CUstream_st *s) {
    work w = s->queue.at[s->done++];
    tell(&w);
    run(&w);
    if (w.kind == RECORD) w.event->done++;
    if (w.kind == GRAPH) emulator_unuse(w.graph);
    free(w.args);
    if (s->done == s->queue.n) s->done = s->queue.n = 0;
}

/* Runs a stream up to a wait for an event that has not happened. */
static void run_ahead(struct CUstream_st *s) {
    while (s->done < s->queue.n) {
        const work *w = &s->queue.at[s->done];
        if (w->kind == WAIT && !has_happened(w->event, w->record)) return;
        run_next(s);
    }
}

/* A wait refers only to records that were queued before it, so the recursion ends. */
dlr_cu_result emulator_drain(struct CUstream_st *s, dlr_cu_event until, int64_t record) {
    while (s->done < s->queue.n && !(until && has_happened(until, record))) {
        for (int i = 0; gpu.options.hasty && i < gpu.streams.n; i++)
            if (gpu.streams.at[i] != s) run_ahead(gpu.streams.at[i]);
        const work *w = &s->queue.at[s->done];
        if (w->kind == WAIT && !has_happened(w->event, w->record))
            emulator_drain(w->event->stream, w->event, w->record);
        run_next(s);
    }
    return gpu.fault;
}

dlr_cu_result emulator_add(struct CUstream_st *s, work w) {
    dlr_cu_result r = emulator_ready();
    if (r) return free(w.args), r;
    bool captured = w.kind == LAUNCH || w.kind == HOST || w.kind == WITHIN || w.kind == TO_HOST ||
                    w.kind == RECORD || w.kind == WAIT;
    if (s->capture && !captured)
        return s->capture->invalid = true, DLR_CU_STREAM_CAPTURE_UNSUPPORTED;
    w.lane = s->lane;
    if (s->capture)
        PUSH(&s->capture->list, w);
    else
        PUSH(&s->queue, w);
    return 0;
}

static dlr_cu_result to_device(dlr_cu_memory to, const void *from, size_t bytes, dlr_cu_stream s) {
    char *at = (char *)(uintptr_t)(to - bias);
    bool ok = emulator_has(emulator_find_device(to), at, bytes) &&
              emulator_has(emulator_find(gpu.pinned.at, gpu.pinned.n, from), from, bytes);
    return ok ? emulator_add(
                    s, (work){.kind = TO_DEVICE, .to = at, .from = from, .bytes = bytes, .rows = 1})
              : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result to_host(void *to, dlr_cu_memory from, size_t bytes, dlr_cu_stream s) {
    const char *at = (const char *)(uintptr_t)(from - bias);
    bool ok = emulator_has(emulator_find_device(from), at, bytes) &&
              emulator_has(emulator_find(gpu.pinned.at, gpu.pinned.n, to), to, bytes);
    return ok ? emulator_add(
                    s, (work){.kind = TO_HOST, .to = to, .from = at, .bytes = bytes, .rows = 1})
              : DLR_CU_INVALID_VALUE;
}

static dlr_cu_result within(dlr_cu_memory to, dlr_cu_memory from, size_t bytes, dlr_cu_stream s) {
    char *at = (char *)(uintptr_t)(to - bias);
    const char *source = (const char *)(uintptr_t)(from - bias);
    bool apart = to + bytes <= from || from + bytes <= to;
    bool ok = apart && emulator_has(emulator_find_device(to), at, bytes) &&
              emulator_has(emulator_find_device(from), source, bytes);
    return ok ? emulator_add(
                    s, (work){.kind = WITHIN, .to = at, .from = source, .bytes = bytes, .rows = 1})
              : DLR_CU_INVALID_VALUE;
}

/* Bytes from the begin of the first row to the end of the last one. */
static size_t span(const dlr_cu_side *s, const dlr_cu_rows *r) {
    return (r->height - 1) * s->pitch + r->width;
}

static dlr_cu_result within_rows(const dlr_cu_rows *r, dlr_cu_stream s) {
    const dlr_cu_side *sides[] = {&r->from, &r->to};
    for (int i = 0; i < 2; i++) {
        const dlr_cu_side *side = sides[i];
        if (side->x || side->y || side->type != DLR_CU_MEMORY_DEVICE || side->pitch < r->width ||
            side->pitch > INT32_MAX || !r->width || !r->height ||
            !emulator_memory(side->device, span(side, r)))
            return DLR_CU_INVALID_VALUE;
    }
    return emulator_add(s, (work){.kind = WITHIN,
                                  .to = emulator_memory(r->to.device, 0),
                                  .from = emulator_memory(r->from.device, 0),
                                  .bytes = r->width,
                                  .rows = r->height,
                                  .to_pitch = r->to.pitch,
                                  .from_pitch = r->from.pitch});
}

static dlr_cu_result fill(dlr_cu_memory to, unsigned char value, size_t bytes, dlr_cu_stream s) {
    char *at = (char *)(uintptr_t)(to - bias);
    return emulator_has(emulator_find_device(to), at, bytes)
               ? emulator_add(s, (work){.kind = FILL, .to = at, .value = value, .bytes = bytes})
               : DLR_CU_INVALID_VALUE;
}

enum { GREATEST = -5 /* priority, as of an H200 */ };
static dlr_cu_result priorities(int *least, int *greatest) {
    return *least = 0, *greatest = GREATEST, emulator_ready();
}
static dlr_cu_result stream_of_priority(dlr_cu_stream *stream, unsigned flags, int priority) {
    if (flags & ~(unsigned)DLR_CU_STREAM_NON_BLOCKING) return DLR_CU_INVALID_VALUE;
    if (emulator_ready() == DLR_CU_INVALID_CONTEXT) return DLR_CU_INVALID_CONTEXT;
    if (!(*stream = calloc(1, sizeof **stream))) return DLR_CU_OUT_OF_MEMORY;
    (*stream)->priority = priority > 0 ? 0 : priority < GREATEST ? GREATEST : priority;
    PUSH(&gpu.streams, *stream);
    return 0;
}
static dlr_cu_result stream_create(dlr_cu_stream *stream, unsigned flags) {
    return stream_of_priority(stream, flags, 0);
}
static dlr_cu_result stream_destroy(dlr_cu_stream s) {
    emulator_drain_all(); /* other streams may wait for events in this queue */
    REMOVE(&gpu.streams, s);
    free(s->queue.at), free(s);
    return gpu.fault;
}
static dlr_cu_result stream_wait(dlr_cu_stream s) {
    dlr_cu_result r = emulator_outside(false);
    return r ? r : emulator_drain(s, NULL, 0);
}

static dlr_cu_result event_create(dlr_cu_event *event, unsigned flags) {
    if (emulator_ready() == DLR_CU_INVALID_CONTEXT) return DLR_CU_INVALID_CONTEXT;
    if (!(*event = calloc(1, sizeof **event))) return DLR_CU_OUT_OF_MEMORY;
    (*event)->times = !(flags & DLR_CU_EVENT_DISABLE_TIMING);
    PUSH(&gpu.events, *event);
    return 0;
}
static dlr_cu_result event_elapsed(float *ms, dlr_cu_event from, dlr_cu_event to) {
    dlr_cu_result r = emulator_ready();
    if (r) return r;
    if (from->graph || to->graph) return DLR_CU_CAPTURED_EVENT;
    if (!from->times || !to->times) return DLR_CU_INVALID_HANDLE;
    if (from->done < from->records || to->done < to->records) return DLR_CU_NOT_READY;
    if (!from->at || !to->at) return DLR_CU_INVALID_HANDLE;
    return *ms = (float)((double)(to->at - from->at) * 1e-6), 0;
}
static dlr_cu_result event_destroy(dlr_cu_event event) {
    emulator_drain_all(); /* other streams may wait for it */
    REMOVE(&gpu.events, event);
    free(event);
    return 0;
}
static dlr_cu_result event_record(dlr_cu_event event, dlr_cu_stream s) {
    if (event->done < event->records && event->stream != s) return DLR_CU_INVALID_VALUE;
    dlr_cu_result r = emulator_add(s, (work){.kind = RECORD, .event = event});
    if (r == 0 && s->capture)
        return event->graph = s->capture, event->node = s->capture->list.n - 1,
               event->stream_priority = s->priority, 0;
    event->graph = NULL;
    if (r == 0) event->records++, event->stream = s;
    return r;
}
static dlr_cu_result event_wait(dlr_cu_event event) {
    dlr_cu_result r = emulator_outside(false);
    if (r) return r;
    if (event->graph) return DLR_CU_CAPTURED_EVENT;
    return event->done < event->records ? emulator_drain(event->stream, event, event->records)
                                        : gpu.fault;
}
static bool captures(const struct CUgraph_st *g) {
    bool any = false;
    for (int i = 0; g && i < gpu.streams.n; i++) any |= gpu.streams.at[i]->capture == g;
    return any;
}
/* A stream that waits for an event of a capture is captured, too, from there on. */
static dlr_cu_result wait_captured(struct CUstream_st *s, dlr_cu_event event) {
    bool ours = captures(event->graph) && (!s->capture || s->capture == event->graph);
    if (!ours && s->capture) return s->capture->invalid = true, DLR_CU_STREAM_CAPTURE_ISOLATION;
    if (!ours) return DLR_CU_CAPTURED_EVENT;
    if (!s->capture) {
        s->capture = event->graph, s->lane = s->capture->lanes++;
        s->capture->ranked |= s->priority != event->stream_priority;
    }
    return emulator_add(s, (work){.kind = WAIT, .event = event, .target = event->node});
}
static dlr_cu_result host_function(dlr_cu_stream s, dlr_cu_host_fn *function, void *data) {
    return emulator_add(s, (work){.kind = HOST, .call = function, .data = data});
}
static dlr_cu_result event_query(dlr_cu_event event) {
    dlr_cu_result r = emulator_outside(false);
    if (r) return r;
    if (event->graph) return DLR_CU_CAPTURED_EVENT;
    return event->done < event->records ? DLR_CU_NOT_READY : gpu.fault;
}
static dlr_cu_result stream_wait_event(dlr_cu_stream s, dlr_cu_event event, unsigned flags) {
    if (flags) return DLR_CU_INVALID_VALUE;
    if (s->capture || event->graph) return wait_captured(s, event);
    return emulator_add(s, (work){.kind = WAIT, .event = event, .record = event->records});
}
int emulator_priority(const struct CUstream_st *s) { return s->priority; }

void emulator_drain_all(void) {
    for (int i = 0; i < gpu.streams.n; i++) emulator_drain(gpu.streams.at[i], NULL, 0);
}

void emulator_drop_streams(void) {
    for (int i = 0; i < gpu.streams.n; i++) {
        struct CUstream_st *s = gpu.streams.at[i];
        for (; s->done < s->queue.n; s->done++) {
            work *w = &s->queue.at[s->done];
            if (w->kind == GRAPH) emulator_unuse(w->graph);
            free(w->args);
        }
        free(s->queue.at), free(s);
    }
    for (int i = 0; i < gpu.events.n; i++) free(gpu.events.at[i]);
    gpu.streams.n = gpu.events.n = 0;
}

void emulator_streams(dlr_driver *t) {
    t->MemsetD8Async = fill;
    t->MemcpyHtoDAsync = to_device;
    t->MemcpyDtoHAsync = to_host;
    t->MemcpyDtoDAsync = within;
    t->Memcpy2DAsync = within_rows;
    t->LaunchHostFunc = host_function;
    t->StreamCreate = stream_create;
    t->StreamCreateWithPriority = stream_of_priority;
    t->CtxGetStreamPriorityRange = priorities;
    t->StreamDestroy = stream_destroy;
    t->StreamSynchronize = stream_wait;
    t->StreamWaitEvent = stream_wait_event;
    t->EventCreate = event_create;
    t->EventDestroy = event_destroy;
    t->EventRecord = event_record;
    t->EventSynchronize = event_wait;
    t->EventQuery = event_query;
    t->EventElapsedTime = event_elapsed;
}
