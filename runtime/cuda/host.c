/* The host's access to a device's arena: pinned copies of the parts that the host works on between
 * two runs. */
#include <string.h>

#include "runtime/cuda/cuda.h"

static void mark(dlr_cuda *c, dlr_pinned *p) {
    p->busy = dlr_cuda_ok(c, c->driver->EventRecord(p->event, c->stream), "an event");
    p->run = c->runs;
}

static void send(dlr_cuda *c, dlr_pinned *from, int64_t offset, int64_t bytes) {
    if (!dlr_cuda_alive(c)) return;
    if (dlr_cuda_ok(c, dlr_cuda_copy(c, false, from->at, offset, bytes, c->stream),
                    "a copy to the device"))
        mark(c, from);
}

void dlr_cuda_flush(dlr_cuda *c, bool forget) {
    for (int i = 0; i < c->nfeeds; i++) dlr_cuda_send_feed(c, &c->feeds[i]);
    for (int i = 0; i < DLR_MIRRORS; i++) {
        dlr_mirror *m = &c->mirrors[i];
        if (m->written) send(c, &m->memory, m->offset, m->bytes);
        m->written = false;
        if (forget) m->valid = false;
    }
}

/* All ones, which every float type reads as NaN. */
static void *nothing(dlr_cuda *c, int64_t bytes) {
    if (c->nones < bytes) c->ones = dl_alloc(c->base.arena, (size_t)bytes), c->nones = bytes;
    return memset(c->ones, 0xff, (size_t)c->nones);
}

static bool overlap(const dlr_mirror *m, int64_t offset, int64_t bytes) {
    return m->valid && m->offset < offset + bytes && offset < m->offset + m->bytes;
}

/* The mirror of exactly this part, or the least recently used one. */
static dlr_mirror *choose(dlr_cuda *c, int64_t offset, int64_t bytes) {
    dlr_mirror *oldest = &c->mirrors[0];
    for (int i = 0; i < DLR_MIRRORS; i++) {
        dlr_mirror *m = &c->mirrors[i];
        if (m->valid && m->offset == offset && m->bytes == bytes) return m;
        if (m->used < oldest->used) oldest = m;
    }
    return oldest;
}

static bool fetch(dlr_cuda *c, dlr_mirror *m) {
    bool ok = dlr_cuda_ok(c, dlr_cuda_copy(c, true, m->memory.at, m->offset, m->bytes, c->stream),
                          "a copy from the device");
    if (ok) mark(c, &m->memory), dlr_cuda_wait_pinned(c, &m->memory);
    return ok && dlr_cuda_alive(c);
}

static void *mirror(dlr_cuda *c, int64_t offset, int64_t bytes, dlr_access access) {
    dlr_mirror *m = choose(c, offset, bytes);
    bool there = m->valid && m->offset == offset && m->bytes == bytes;
    if (!there) {
        dlr_cuda_flush(c, false); /* the arena gets what the host has written */
        m->valid = false;
        if (!dlr_cuda_pin(c, &m->memory, bytes)) return NULL;
        dlr_cuda_wait_pinned(c, &m->memory);
        m->offset = offset, m->bytes = bytes;
        if (access != DLR_WRITE && !fetch(c, m)) return NULL;
        m->valid = true;
    }
    if (access != DLR_READ) {
        dlr_cuda_wait_pinned(c, &m->memory); /* its upload may still be under way */
        for (int i = 0; i < DLR_MIRRORS; i++)
            if (&c->mirrors[i] != m && overlap(&c->mirrors[i], offset, bytes))
                c->mirrors[i].valid = false;
        m->written = true;
    }
    m->used = ++c->uses;
    return dlr_cuda_alive(c) ? m->memory.at : NULL;
}

/* A new batch: the host's copies of the old one are no longer valid. */
static void *feed(dlr_cuda *c, dlr_feed_buffer *f, int64_t raw, void *there) {
    dlr_cuda_flush(c, false);
    for (int i = 0; i < DLR_MIRRORS; i++)
        if (overlap(&c->mirrors[i], f->offset, f->bytes)) c->mirrors[i].valid = false;
    return dlr_cuda_feed(c, f, raw, there);
}

void *dlr_cuda_host(dlr_device *d, int64_t offset, int64_t bytes, dlr_access access) {
    dlr_cuda *c = (dlr_cuda *)d;
    if (bytes <= 0) return nothing(c, 1);
    dlr_feed_buffer *f = access == DLR_WRITE ? dlr_cuda_feed_of(c, offset, bytes) : NULL;
    void *at = !dlr_cuda_alive(c) ? NULL
               : f                ? feed(c, f, 0, NULL)
                                  : mirror(c, offset, bytes, access);
    return at ? at : nothing(c, bytes);
}

void *dlr_cuda_input_gather(dlr_device *d, int64_t offset, int64_t bytes, int64_t batch,
                            void *there) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_feed_buffer *f = d->gathers ? dlr_cuda_feed_of(c, offset, bytes) : NULL;
    if (!f) return NULL;
    void *at = dlr_cuda_alive(c) ? feed(c, f, batch, there) : NULL;
    return at ? at : there ? there : nothing(c, f->room);
}
