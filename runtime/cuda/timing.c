/* Times of one run, by events of the device before and after each kernel and each copy. */
#include <math.h>

#include "ir/base/clock.h"
#include "runtime/cuda/cuda.h"

static dlr_cu_event event_at(dlr_cuda *c, int i) {
    while (c->timing.events.n <= i && dlr_cuda_alive(c)) {
        dlr_cu_event event = NULL;
        if (dlr_cuda_ok(c, c->driver->EventCreate(&event, 0), "an event"))
            dl_push(c->base.arena, &c->timing.events, event);
    }
    return dlr_cuda_alive(c) ? c->timing.events.at[i] : NULL;
}

static void mark(dlr_cuda *c, int i, dlr_cu_stream stream) {
    dlr_cu_event event = event_at(c, i);
    if (event) dlr_cuda_ok(c, c->driver->EventRecord(event, stream), "an event");
}

/* Indices of events. The others' times count from the first; those of copies follow it in pairs,
 * and then those between launches. */
enum { COPIES = 1, LAUNCHES = COPIES + 2 * DLR_TIMED_COPIES };

void dlr_cuda_time(dlr_device *d, dlr_timeline *timeline) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_cuda_wait(d);
    mark(c, 0, c->stream);
    dlr_cuda_wait(d);
    c->timing.began = dl_clock_ns();
    d->timeline = dlr_cuda_alive(c) ? timeline : NULL;
}

dlr_cu_result dlr_cuda_copy(dlr_cuda *c, bool to_host, void *host, int64_t offset, int64_t bytes,
                            dlr_cu_stream stream) {
    dlr_timeline *t = c->base.timeline;
    uint64_t device = c->memory + (uint64_t)offset;
    int number = t && t->ncopies < DLR_TIMED_COPIES ? t->ncopies++ : -1;
    if (number >= 0) {
        t->copies[number] = (dlr_timed_copy){.bytes = bytes, .to_host = to_host};
        mark(c, COPIES + 2 * number, stream);
    }
    dlr_cu_result r = to_host ? c->driver->MemcpyDtoHAsync(host, device, (size_t)bytes, stream)
                              : c->driver->MemcpyHtoDAsync(device, host, (size_t)bytes, stream);
    if (number >= 0) mark(c, COPIES + 2 * number + 1, stream);
    return r;
}

/* Events of collectives follow those between steps: two for each, in its stream. */
static int event_of(const dlr_cuda *c, int program, int number, bool after) {
    return LAUNCHES + dl_plan_nsteps(&c->base.plan->programs.at[program]) + 1 + 2 * number + after;
}

void dlr_cuda_mark_step(dlr_cuda *c, int step) { mark(c, LAUNCHES + step, c->stream); }

void dlr_cuda_mark_collective(dlr_cuda *c, int program, int number, bool after) {
    if (c->base.timeline) mark(c, event_of(c, program, number, after), c->sharer);
}

/* Nanoseconds from the first event. */
static int64_t since(dlr_cuda *c, int i) {
    float ms = 0;
    dlr_cuda_ok(c, c->driver->EventElapsedTime(&ms, c->timing.events.at[0], c->timing.events.at[i]),
                "an event's time");
    return llround((double)ms * 1e6);
}

/* Adds an offset to times. The host sees the first event a little late, so the offset is limited:
 * no time may lie after the moment when all work is known to be done. */
static void shift(dlr_time *times, int n, int64_t ns) {
    for (int i = 0; times && i < n; i++) times[i].began += ns, times[i].ended += ns;
}
static void shift_all(dlr_timeline *t, const dl_plan_program *p, int64_t ns) {
    for (int i = 0; i < t->ncopies; i++) shift(&t->copies[i].time, 1, ns);
    shift(t->launches, p->launches.n, ns);
    shift(t->collectives, p->collectives.n, ns), shift(t->waits, p->collectives.n, ns);
}

void dlr_cuda_end_timing(dlr_cuda *c, int program) {
    dlr_timeline *t = c->base.timeline;
    const dl_plan_program *p = &c->base.plan->programs.at[program];
    dlr_cuda_wait(&c->base);
    int64_t now = dl_clock_ns(), last = 0;
    c->base.timeline = NULL;
    if (!dlr_cuda_alive(c)) return;
    for (int i = 0; i < t->ncopies; i++) {
        t->copies[i].time = (dlr_time){since(c, COPIES + 2 * i), since(c, COPIES + 2 * i + 1)};
        if (t->copies[i].time.ended > last) last = t->copies[i].time.ended;
    }
    int64_t before = since(c, LAUNCHES);
    for (int i = 0; i < dl_plan_nsteps(p); i++) {
        dl_plan_step s = dl_plan_step_at(p, i);
        int64_t after = since(c, LAUNCHES + i + 1);
        if (s.kind == DL_STEP_LAUNCH)
            t->launches[s.number] = (dlr_time){before, after};
        else if (s.kind == DL_STEP_WAIT && t->collectives)
            t->waits[s.number] = (dlr_time){before, after};
        before = after;
    }
    for (int k = 0; t->collectives && k < p->collectives.n; k++)
        t->collectives[k] = (dlr_time){since(c, event_of(c, program, k, false)),
                                       since(c, event_of(c, program, k, true))};
    if (before > last) last = before;
    shift_all(t, p, c->timing.began + last > now ? now - last : c->timing.began);
}
