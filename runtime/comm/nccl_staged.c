/* Collectives of host memory: copied through pinned memory to the device, run there by NCCL, and
 * copied back. */
#include <stdio.h>
#include <string.h>

#include "runtime/comm/nccl.h"
#include "runtime/comm/rendezvous.h"

enum { ALIGN = 256 /* alignment that NCCL prefers for buffers */ };
static int64_t round_up(int64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* A free slot with buffers that are large enough; smaller buffers are reallocated. */
static dlr_nccl_staged *take(dlr_nccl_backend *b, int64_t room, dl_error *err) {
    dlr_nccl_staged *s = NULL;
    const dlr_driver *v = b->v;
    for (int i = 0; i < b->staged.n; i++) {
        dlr_nccl_staged *o = b->staged.at[i];
        if (!o->ticket &&
            (!s || (s->room < room && o->room > s->room) || (o->room >= room && o->room < s->room)))
            s = o;
    }
    if (!s) {
        s = DL_NEW(b->arena, dlr_nccl_staged);
        pthread_mutex_lock(&b->lock);
        dl_push(b->arena, &b->staged, s);
        pthread_mutex_unlock(&b->lock);
        if (!dlr_nccl_cu_ok(b, v->EventCreate(&s->event, DLR_CU_EVENT_DISABLE_TIMING), "an event",
                            err))
            return NULL;
    }
    if (s->room >= room) return s;
    if (s->pinned) v->MemFreeHost(s->pinned), v->MemFree(s->memory);
    void *pinned = NULL;
    s->pinned = NULL, s->memory = 0, s->room = 0;
    if (!dlr_nccl_cu_ok(b, v->MemAllocHost(&pinned, (size_t)room),
                        "memory of the host for a collective", err))
        return NULL;
    s->pinned = pinned;
    if (!dlr_nccl_cu_ok(b, v->MemAlloc(&s->memory, (size_t)room),
                        "memory of the device for a collective", err))
        return NULL;
    s->room = room;
    return s;
}

static bool send(dlr_nccl_backend *b, dlr_nccl_staged *s, dlr_members *g, dl_error *err) {
    const dlr_driver *v = b->v;
    bool in_place = s->c.from == s->c.to;
    int64_t to_offset = in_place ? 0 : round_up(s->from);
    dlr_collective c = s->c;
    c.from = (void *)(uintptr_t)s->memory,
    c.to = (void *)(uintptr_t)(s->memory + (uint64_t)to_offset);
    if (s->from) memcpy(s->pinned, s->c.from, (size_t)s->from);
    if (b->after &&
        !(dlr_nccl_cu_ok(b, v->EventRecord(b->before, b->after), "an event", err) &&
          dlr_nccl_cu_ok(b, v->StreamWaitEvent(b->stream, b->before, 0), "an event", err)))
        return false;
    bool ok =
        !s->from ||
        dlr_nccl_cu_ok(b, v->MemcpyHtoDAsync(s->memory, s->pinned, (size_t)s->from, b->stream),
                       "a copy to the device", err);
    ok = ok && dlr_nccl_reserve(b->comm, g, &c, err) &&
         dlr_nccl_enqueue(b->comm, g, &c, b->stream, err);
    if (ok && s->to)
        ok = dlr_nccl_cu_ok(b,
                            v->MemcpyDtoHAsync(s->pinned + round_up(s->from),
                                               s->memory + (uint64_t)to_offset, (size_t)s->to,
                                               b->stream),
                            "a copy from the device", err);
    ok = ok && dlr_nccl_cu_ok(b, v->EventRecord(s->event, b->stream), "an event", err);
    return ok && (!b->after ||
                  dlr_nccl_cu_ok(b, v->StreamWaitEvent(b->after, s->event, 0), "an event", err));
}

/* Rank 0's broadcast to all before NCCL has begun, such as a trial's values, by which the files are
 * known that are opened then: it goes the way of NCCL's id. */
static bool broadcast_early(dlr_nccl_backend *b, const dlr_collective *c, size_t bytes,
                            dl_error *err) {
    if (b->comm->world.rank == 0 && c->from != c->to) memcpy(c->to, c->from, bytes);
    return dlr_rendezvous(&b->comm->world, b->turns++, c->to, bytes, b->timeout, err);
}

static int64_t fail(dlr_nccl_backend *b, int64_t ticket, const dl_error *err) {
    pthread_mutex_lock(&b->lock);
    dlr_nccl_fail(b, "%s", err->message);
    pthread_mutex_unlock(&b->lock);
    return ticket;
}

int64_t dlr_nccl_start(dlr_comm *comm, dlr_members *g, const dlr_collective *c) {
    dlr_nccl_backend *b = comm->of;
    dl_error err = {0};
    int64_t from = dlr_bytes_from(c, g->n, g->me), to = dlr_bytes_to(c, g->n, g->me);
    if (!b->begun && c->kind == DLR_BROADCAST && c->group == 0 && c->root == 0) {
        b->early = ++b->tickets;
        bool ok = broadcast_early(b, c, (size_t)to, &err);
        return ok ? b->early : fail(b, b->early, &err);
    }
    dlr_nccl_staged *s =
        dlr_nccl_begin(b, &err) ? take(b, round_up(from) + round_up(to) + ALIGN, &err) : NULL;
    pthread_mutex_lock(&b->lock);
    int64_t ticket = ++b->tickets;
    if (s) {
        s->ticket = ticket, s->c = *c, s->from = from, s->to = to;
        snprintf(s->what, sizeof s->what, "%s", c->what ? c->what : dlr_collective_name(c->kind));
        s->c.what = s->what;
        memcpy(b->last, s->what, sizeof b->last);
    }
    pthread_mutex_unlock(&b->lock);
    return s && send(b, s, g, &err) ? ticket : fail(b, ticket, &err);
}

static dlr_nccl_staged *find(const dlr_nccl_backend *b, int64_t ticket) {
    for (int i = 0; i < b->staged.n; i++)
        if (b->staged.at[i]->ticket == ticket) return b->staged.at[i];
    return NULL;
}

bool dlr_nccl_wait(dlr_comm *comm, int64_t ticket, dl_error *err) {
    dlr_nccl_backend *b = comm->of;
    dlr_nccl_staged *s = find(b, ticket);
    if (!dlr_nccl_check(comm, err)) return false;
    if (ticket > 0 && ticket <= b->early) return true;
    if (!s || ticket <= 0)
        return dl_fail(err, DL_INTERNAL, "a ticket that is none, or was waited for");
    dlr_nccl_waits(comm, true, s->c.what);
    dlr_cu_result r = b->v->EventSynchronize(s->event);
    dlr_nccl_waits(comm, false, NULL);
    if (!dlr_nccl_check(comm, err) || !dlr_nccl_cu_ok(b, r, s->what, err)) return false;
    if (s->to) memcpy(s->c.to, s->pinned + round_up(s->from), (size_t)s->to);
    pthread_mutex_lock(&b->lock);
    s->ticket = 0;
    pthread_mutex_unlock(&b->lock);
    return true;
}

bool dlr_nccl_done(dlr_comm *comm, int64_t ticket) {
    dlr_nccl_backend *b = comm->of;
    const dlr_nccl_staged *s = find(b, ticket);
    dl_error err;
    return !s || !dlr_nccl_check(comm, &err) || b->v->EventQuery(s->event) != DLR_CU_NOT_READY;
}

void dlr_nccl_free_staged(dlr_nccl_backend *b) {
    for (int i = 0; i < b->staged.n; i++) {
        dlr_nccl_staged *s = b->staged.at[i];
        if (s->event) b->v->EventDestroy(s->event);
        if (s->pinned) b->v->MemFreeHost(s->pinned);
        if (s->memory) b->v->MemFree(s->memory);
    }
}
