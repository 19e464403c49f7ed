/* Uploads batches to the device.
 *
 * The host writes an input into one of two pinned buffers, while the other may still be copied.
 * Alternatively the numbers that the input is made of (ir/plan/feed.h) lie pinned where they were
 * read. A separate stream copies the batch into the staging buffer, device memory next to the
 * arena, during the previous run. After that run the staging buffer is copied into the inputs, or a
 * kernel computes the inputs from it, within the device.
 *
 * Two events per input order this, and only streams wait for them. The event of the pinned buffer
 * says that the batch has arrived; `emptied` says that the input's part of the staging buffer has
 * been read, so that the next batch may be copied there. */
#include "ir/plan/feed.h"
#include "runtime/cuda/cuda.h"

void dlr_cuda_make_feeds(dlr_cuda *c) {
    const dl_plan *p = c->base.plan;
    int64_t place = 0;
    c->feeds = DL_NEWS(c->base.arena, dlr_feed_buffer, p->vars.n + 1);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (!dl_plan_is_fed(v)) continue;
        c->feeds[c->nfeeds++] = (dlr_feed_buffer){.offset = v->offset,
                                                  .bytes = dl_type_bytes(&v->type),
                                                  .place = place,
                                                  .room = dl_feed_room(&v->type),
                                                  .batch = dl_feed_place(&v->type).end};
        place += dl_feed_room(&v->type);
    }
}

dlr_feed_buffer *dlr_cuda_feed_of(dlr_cuda *c, int64_t offset, int64_t bytes) {
    for (int i = 0; i < c->nfeeds; i++)
        if (c->feeds[i].offset == offset && c->feeds[i].bytes == bytes) return &c->feeds[i];
    return NULL;
}

static bool make_event(dlr_cuda *c, dlr_cu_event *event) {
    return dlr_cuda_ok(c, c->driver->EventCreate(event, DLR_CU_EVENT_DISABLE_TIMING), "an event");
}

bool dlr_cuda_make_feed_events(dlr_cuda *c) {
    bool ok = true;
    for (int i = 0; ok && i < c->nfeeds; i++) {
        dlr_feed_buffer *f = &c->feeds[i];
        ok = make_event(c, &f->emptied) && make_event(c, &f->memory[0].event) &&
             make_event(c, &f->memory[1].event);
    }
    return ok;
}

/* Allocates both before the first step, so that no step allocates. */
static bool pin_both(dlr_cuda *c, dlr_feed_buffer *f, int64_t bytes) {
    return dlr_cuda_pin(c, &f->memory[0], bytes) && dlr_cuda_pin(c, &f->memory[1], bytes);
}

void *dlr_cuda_feed(dlr_cuda *c, dlr_feed_buffer *f, int64_t raw, void *there) {
    if (!there && !pin_both(c, f, raw ? f->batch : f->bytes)) return NULL;
    f->at = 1 - f->at;
    dlr_cuda_wait_pinned(c, &f->memory[f->at]);
    f->written = true, f->raw = raw, f->there = there;
    return !dlr_cuda_alive(c) ? NULL : there ? there : f->memory[f->at].at;
}

bool dlr_cuda_pin_there(dlr_device *d, void *memory, int64_t bytes, dl_error *err) {
    dlr_cuda *c = (dlr_cuda *)d;
    char said[700];
    c->all.allocations++;
    dlr_cu_result r = c->driver->MemHostRegister(memory, (size_t)bytes, 0);
    if (r == 0) return true;
    dlr_driver_say(c->driver, r, said, sizeof said);
    return dl_fail(err, DL_RESOURCE, "%.1f MiB of the host's memory cannot be pinned: %s",
                   (double)bytes / 0x1p20, said);
}

/* A failed device no longer reads it. */
void dlr_cuda_unpin_there(dlr_device *d, void *memory) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_cuda_wait_staged(d);
    if (dlr_cuda_alive(c))
        dlr_cuda_ok(c, c->driver->MemHostUnregister(memory), "memory of the host");
}

void dlr_cuda_wait_staged(dlr_device *d) {
    dlr_cuda *c = (dlr_cuda *)d;
    for (int i = 0; i < c->nfeeds; i++) {
        dlr_feed_buffer *f = &c->feeds[i];
        if (!f->there) continue;
        dlr_cuda_send_feed(c, f);
        dlr_cuda_wait_pinned(c, &f->memory[f->at]);
        f->there = NULL;
    }
}

/* The copy is in the stream whose kernels read it. */
void dlr_cuda_upload(dlr_device *d, int64_t at, const void *from, int64_t bytes) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_pinned *p = &c->filler;
    if (!dlr_cuda_alive(c)) return;
    if (!bytes) {
        dlr_cuda_wait_pinned(c, p);
        if (p->at) c->driver->MemFreeHost(p->at);
        p->at = NULL, p->bytes = 0;
        return;
    }
    if (!dlr_cuda_pin(c, p, bytes)) return;
    dlr_cuda_wait_pinned(c, p);
    memcpy(p->at, from, (size_t)bytes);
    int64_t there = (int64_t)(c->held - c->memory) + at;
    dlr_cu_result r = dlr_cuda_copy(c, false, p->at, there, bytes, c->stream);
    if (r == 0) r = c->driver->EventRecord(p->event, c->stream);
    p->busy = dlr_cuda_ok(c, r, "the data set's copy to the device"), p->run = c->runs;
}

bool dlr_cuda_allocate_dataset(dlr_device *d, int64_t bytes, dl_error *err) {
    dlr_cuda *c = (dlr_cuda *)d;
    char said[700];
    if (c->held) dlr_cuda_upload(d, 0, NULL, 0), c->driver->MemFree(c->held);
    c->held = 0, c->held_bytes = bytes;
    if (!bytes) return true;
    c->all.allocations++;
    dlr_cu_result r = c->driver->MemAlloc(&c->held, (size_t)bytes);
    if (r != 0) c->held_bytes = 0;
    if (r == 0) return true;
    dlr_driver_say(c->driver, r, said, sizeof said);
    return dl_fail(err, DL_RESOURCE, "%.1f MiB of the device's memory: %s", (double)bytes / 0x1p20,
                   said);
}

/* Makes an input from the staging buffer: by a copy, or by the plan's kernel. */
static dlr_cu_result take_in(dlr_cuda *c, const dlr_feed_buffer *f) {
    enum { EACH = 4, MOST = 4096 }; /* elements per thread; most blocks */
    uint64_t stage = c->memory + (uint64_t)(c->stage_offset + f->place),
             args[] = {stage, c->memory + (uint64_t)f->offset, c->held ? c->held : stage};
    if (!f->raw) return c->driver->MemcpyDtoDAsync(args[1], stage, (size_t)f->bytes, c->stream);
    void *params[] = {&args[0], &args[1], &args[2], NULL};
    int64_t blocks = f->bytes / (DL_FEED_THREADS * EACH) + 1;
    c->all.launches++;
    return c->driver->LaunchKernel(c->gather, (unsigned)(blocks < MOST ? blocks : MOST), 1, 1,
                                   DL_FEED_THREADS, 1, 1, 0, c->stream, params, NULL);
}

void dlr_cuda_send_feed(dlr_cuda *c, dlr_feed_buffer *f) {
    const dlr_driver *v = c->driver;
    dlr_pinned *from = &f->memory[f->at];
    int64_t stage = c->stage_offset + f->place;
    if (!f->written || !dlr_cuda_alive(c)) return;
    f->written = false;
    dlr_cu_result r = v->StreamWaitEvent(c->feeder, f->emptied, 0);
    if (r == 0)
        r = dlr_cuda_copy(c, false, f->there ? f->there : from->at, stage,
                          f->raw ? f->raw : f->bytes, c->feeder);
    if (r == 0) r = v->EventRecord(from->event, c->feeder);
    from->busy = r == 0, from->run = c->runs;
    if (r == 0) r = v->StreamWaitEvent(c->stream, from->event, 0);
    if (r == 0) r = take_in(c, f);
    if (r == 0) r = v->EventRecord(f->emptied, c->stream);
    dlr_cuda_ok(c, r, "a batch's copy to the device");
}
