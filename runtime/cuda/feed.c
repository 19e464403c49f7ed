/* Batches on their way to the device.
 *
 * The host writes an input, or what it is to be made of, into one of two pinned buffers, while the other may
 * still be on its way. A stream of its own copies it into the stage, device memory beside the arena, while
 * the run before is at work; behind that run the stage is copied into the inputs, or a kernel makes them of
 * it (ir/feed.h), within the device: a fraction of a millisecond for what took tens from the host. Two events
 * of each input hold that together, and streams alone wait for them: that of its pinned buffer says that what
 * was sent has arrived, and `emptied` that its part of the stage has been read, so that the next may arrive
 * there.
 */
#include "ir/feed.h"
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
                                                  .room = dl_feed_room(&v->type)};
        place += dl_feed_room(&v->type);
    }
}

dlr_feed_buffer *dlr_cuda_feed_of(dlr_cuda *c, int64_t offset, int64_t bytes) {
    for (int i = 0; i < c->nfeeds; i++)
        if (c->feeds[i].offset == offset && c->feeds[i].bytes == bytes) return &c->feeds[i];
    return NULL;
}

bool dlr_cuda_pin_feeds(dlr_cuda *c) {
    for (int i = 0; i < c->nfeeds; i++) {
        dlr_feed_buffer *f = &c->feeds[i];
        if (f->bytes == 0) continue;
        if (!dlr_cuda_ok(c, c->driver->EventCreate(&f->emptied, DLR_CU_EVENT_DISABLE_TIMING), "an event"))
            return false;
        for (int k = 0; k < 2; k++)
            if (!dlr_cuda_pin(c, &f->memory[k], c->gather ? f->room : f->bytes)) return false;
    }
    return true;
}

void *dlr_cuda_feed(dlr_cuda *c, dlr_feed_buffer *f, bool raw) {
    f->at = 1 - f->at;
    dlr_cuda_wait_pinned(c, &f->memory[f->at]);
    f->written = true, f->raw = raw;
    return dlr_cuda_alive(c) ? f->memory[f->at].at : NULL;
}

/* The input of what lies in the stage: as it is, or made by the plan's kernel. */
static dlr_cu_result take_in(dlr_cuda *c, const dlr_feed_buffer *f) {
    enum { EACH = 4, MOST = 4096 }; /* elements of a thread; blocks */
    uint64_t stage = c->memory + (uint64_t)(c->stage_offset + f->place),
             args[] = {stage, c->memory + (uint64_t)f->offset, c->memory + (uint64_t)c->workspace_offset};
    if (!f->raw) return c->driver->MemcpyDtoDAsync(args[1], stage, (size_t)f->bytes, c->stream);
    size_t bytes = sizeof args;
    void *extra[] = {DLR_CU_LAUNCH_BUFFER, args, DLR_CU_LAUNCH_SIZE, &bytes, DLR_CU_LAUNCH_END};
    int64_t blocks = f->bytes / (DL_FEED_THREADS * EACH) + 1;
    c->all.launches++;
    return c->driver->LaunchKernel(c->gather, (unsigned)(blocks < MOST ? blocks : MOST), 1, 1,
                                   DL_FEED_THREADS, 1, 1, 0, c->stream, NULL, extra);
}

void dlr_cuda_send_feed(dlr_cuda *c, dlr_feed_buffer *f) {
    const dlr_driver *v = c->driver;
    dlr_pinned *from = &f->memory[f->at];
    int64_t stage = c->stage_offset + f->place;
    if (!f->written || !dlr_cuda_alive(c)) return;
    f->written = false;
    dlr_cu_result r = v->StreamWaitEvent(c->feeder, f->emptied, 0);
    if (r == 0) r = dlr_cuda_copy(c, false, from->at, stage, f->raw ? f->room : f->bytes, c->feeder);
    if (r == 0) r = v->EventRecord(from->event, c->feeder);
    from->busy = r == 0, from->run = c->runs;
    if (r == 0) r = v->StreamWaitEvent(c->stream, from->event, 0);
    if (r == 0) r = take_in(c, f);
    if (r == 0) r = v->EventRecord(f->emptied, c->stream);
    dlr_cuda_ok(c, r, "a batch's copy to the device");
}
