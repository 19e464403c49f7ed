/* Collectives between devices: a stream of their own, which the graph of a program forks into and
 * joins.
 *
 * An event in the computing stream marks all work before a START. The collective's stream waits for
 * that event, and the computing stream waits for the collective's own event at the WAIT alone. A
 * number is copied to the host's memory after each collective. The watchdog thus knows which
 * collective the device runs when a rank is lost, although a step is one launch. The computing
 * stream does not wait for that copy.
 *
 * The collective's stream has the greatest priority, in the graph too. Otherwise NCCL's few blocks
 * would wait until all blocks of the kernels that were launched before them have started. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

/* ---- progress of the device ---- */

/* Called from the watchdog's thread. */
static void tell_state(void *of, dlr_comm_state *state) {
    const dlr_cuda *c = of;
    int program = c->flying;
    state->calls = c->runs;
    if (program < 0 || !c->programs[program].ncollectives) return;
    const dlr_cuda_program *p = &c->programs[program];
    int next = p->order[*c->progress % p->ncollectives];
    snprintf(state->what, sizeof state->what, "%s",
             dlr_exchange_what(c->base.exchange, program, next));
}

static void flight(void *of, int rank, dl_buf *to) {
    const dlr_cuda *c = of;
    int program = c->flying, most = 32;
    if (program < 0) return;
    const dlr_cuda_program *p = &c->programs[program];
    const dl_plan_program *plan = &c->base.plan->programs.at[program];
    int done = *c->progress, first = done > most / 2 ? done - most / 2 : 0;
    dl_putf(to,
            "rank %d: on the device: run %lld of '%s', or one before, %d of %d collectives done\n",
            rank, (long long)c->runs, plan->name, done, p->ncollectives);
    for (int i = first; i < p->ncollectives && i < first + most; i++) {
        const dl_plan_collective *k = &plan->collectives.at[p->order[i]];
        dl_putf(to, "rank %d: %d: group %s, %lld %s %s\n", rank, i, k->group,
                (long long)(dl_plan_elements_from(k) * dl_dtype_bytes(k->dtype)),
                i < done ? "done" : "not done",
                dlr_exchange_what(c->base.exchange, program, p->order[i]));
    }
}

/* ---- opening ---- */

static bool made(dlr_cuda *c, dlr_cu_result r, dl_error *err) {
    char said[700];
    if (r == 0) return true;
    dlr_driver_say(c->driver, r, said, sizeof said);
    return dl_fail(err, DL_RESOURCE, "%s: for collectives: %s", c->name, said);
}

static int most_collectives(const dl_plan *p) {
    int most = 0;
    for (int i = 0; i < p->programs.n; i++)
        if (p->programs.at[i].collectives.n > most) most = p->programs.at[i].collectives.n;
    return most;
}

static bool make_events(dlr_cuda *c, int program, dl_error *err) {
    const dl_plan_program *from = &c->base.plan->programs.at[program];
    dlr_cuda_program *p = &c->programs[program];
    p->collectives = DL_NEWS(c->base.arena, dlr_cuda_collective, from->collectives.n + 1);
    p->order = DL_NEWS(c->base.arena, int, from->collectives.n + 1);
    bool ok = true;
    for (int i = 0; ok && i < dl_plan_nsteps(from); i++) {
        dl_plan_step s = dl_plan_step_at(from, i);
        if (s.kind != DL_STEP_START) continue;
        dlr_cuda_collective *k = &p->collectives[s.number];
        k->place = p->ncollectives;
        p->order[p->ncollectives++] = s.number;
        ok = made(c, c->driver->EventCreate(&k->ready, DLR_CU_EVENT_DISABLE_TIMING), err) &&
             made(c, c->driver->EventCreate(&k->done, DLR_CU_EVENT_DISABLE_TIMING), err);
    }
    return ok;
}

/* Allocates the numbers that are copied, 0, 1, 2, ... on the device, and the host's word that they
 * are copied to. */
static bool make_progress(dlr_cuda *c, dl_error *err) {
    const dlr_driver *v = c->driver;
    int n = most_collectives(c->base.plan);
    size_t bytes = sizeof(int32_t) * (size_t)(n + 1);
    void *at = NULL;
    if (!made(c, v->MemAlloc(&c->numbers, bytes), err) ||
        !made(c, v->MemAllocHost(&at, bytes), err))
        return false;
    int32_t *numbers = at;
    c->progress = numbers; /* when the device has them all, the first serves as the word */
    for (int i = 0; i < n; i++) numbers[i + 1] = i + 1;
    numbers[0] = 0;
    return made(c, v->MemcpyHtoDAsync(c->numbers, numbers, bytes, c->stream), err) &&
           made(c, v->StreamSynchronize(c->stream), err);
}

/* NCCL finds no emulated device, and its error would describe a real one. */
static dlr_comm *open_nccl(const dlr_cuda *c, dlr_comm *host, dl_error *err) {
    const char *named = getenv("DLR_NCCL");
    if (!dl_target_is_emulated(c->base.plan->target) || (named && *named))
        return dlr_comm_nccl(host, c->driver, c->ordinal, err);
    dl_fail(
        err, DL_USAGE,
        "several ranks on emulated devices exchange by the stand-in for NCCL that a build has: set "
        "DLR_NCCL=BUILD/tests/ranks/libnccl_standin.so (docs/guide/gpu.md), or use --device=cpu");
    return NULL;
}

/* Runs each collective once. NCCL connects a group's ranks at the first collective of a kind, and
 * allocates what that takes: not while a program is captured, and before the memory that is left is
 * given to a data set. The arena is zero, and stays so. */
static bool warm_up(dlr_cuda *c, dl_error *err) {
    for (int i = 0; i < c->base.plan->programs.n; i++)
        for (int k = 0; k < c->programs[i].ncollectives; k++)
            if (!dlr_exchange_enqueue(c->base.exchange, i, c->programs[i].order[k], c->sharer, err))
                return false;
    dlr_comm_waits(c->nccl, true);
    dlr_cu_result r = c->driver->StreamSynchronize(c->sharer);
    dlr_comm_waits(c->nccl, false);
    return dlr_comm_check(c->nccl, err) && made(c, r, err);
}

static bool open_share(dlr_cuda *c, const dlr_ranks *ranks, dl_error *err) {
    dlr_device *d = &c->base;
    c->borrowed = dlr_comm_is_nccl(ranks->comm);
    c->nccl = c->borrowed ? ranks->comm : open_nccl(c, ranks->comm, err);
    if (!c->nccl) return false;
    if (c->borrowed) dlr_comm_follow(c->nccl, c->stream);
    dlr_ranks over = *ranks;
    over.comm = c->nccl;
    d->exchange = dlr_exchange_open(d->arena, d->plan, &over, (char *)(uintptr_t)c->memory, err);
    bool ok = d->exchange && dlr_exchange_reserve(d->exchange, d->plan, err) &&
              made(c, dlr_driver_urgent_stream(c->driver, &c->sharer), err) &&
              make_progress(c, err);
    for (int i = 0; ok && i < d->plan->programs.n; i++) ok = make_events(c, i, err);
    if (ok) dlr_comm_set_hooks(c->nccl, &(dlr_device_hooks){c, NULL, tell_state, flight});
    return ok && warm_up(c, err);
}

bool dlr_cuda_share(dlr_device *d, const dlr_ranks *ranks, dl_error *err) {
    dlr_cuda *c = (dlr_cuda *)d;
    int64_t before = 0, after = 0, total;
    bool ok = made(c, dlr_cuda_in_use(c, &before, &total), err) && open_share(c, ranks, err) &&
              made(c, dlr_cuda_in_use(c, &after, &total), err);
    if (ok) c->sharer_bytes = after > before ? after - before : 0;
    return ok;
}

/* ---- a step's collectives ---- */

static dlr_cu_result put_progress(dlr_cuda *c, int done, dlr_cu_stream stream) {
    return c->driver->MemcpyDtoHAsync((void *)(uintptr_t)c->progress,
                                      c->numbers + sizeof(int32_t) * (uint64_t)done,
                                      sizeof(int32_t), stream);
}

static dlr_cu_result put_start(dlr_cuda *c, int program, int number) {
    const dlr_driver *v = c->driver;
    const dlr_cuda_collective *k = &c->programs[program].collectives[number];
    dl_error err = {0};
    dlr_cu_result r = v->EventRecord(k->ready, c->stream);
    if (r == 0) r = v->StreamWaitEvent(c->sharer, k->ready, 0);
    if (r == 0 && !k->place) r = put_progress(c, 0, c->sharer);
    if (r == 0) dlr_cuda_mark_collective(c, program, number, false);
    if (r == 0 && !dlr_exchange_enqueue(c->base.exchange, program, number, c->sharer, &err)) {
        if (dlr_cuda_alive(c)) c->base.fault = err;
        return DLR_CU_STREAM_CAPTURE_INVALIDATED;
    }
    if (r == 0) dlr_cuda_mark_collective(c, program, number, true);
    /* the computing stream joins the whole of this one by the last event, as a capture requires */
    bool last = k->place + 1 == c->programs[program].ncollectives;
    if (r == 0 && !last) r = v->EventRecord(k->done, c->sharer);
    if (r == 0) r = put_progress(c, k->place + 1, c->sharer);
    return r == 0 && last ? v->EventRecord(k->done, c->sharer) : r;
}

dlr_cu_result dlr_cuda_put_exchange(dlr_cuda *c, int program, dl_plan_step s) {
    if (s.kind == DL_STEP_START) return put_start(c, program, s.number);
    return c->driver->StreamWaitEvent(c->stream, c->programs[program].collectives[s.number].done,
                                      0);
}

void dlr_cuda_exchange(dlr_device *d, int program, dl_plan_step s) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_cuda_flush(c, true);
    if (dlr_cuda_alive(c)) dlr_cuda_ok(c, dlr_cuda_put_exchange(c, program, s), "a collective");
}

void dlr_cuda_end_share(dlr_cuda *c) {
    const dlr_driver *v = c->driver;
    for (int i = 0; c->programs && i < c->base.plan->programs.n; i++) {
        dlr_cuda_program *p = &c->programs[i];
        for (int k = 0; p->collectives && k < c->base.plan->programs.at[i].collectives.n; k++) {
            if (p->collectives[k].ready) v->EventDestroy(p->collectives[k].ready);
            if (p->collectives[k].done) v->EventDestroy(p->collectives[k].done);
        }
    }
    if (c->nccl) dlr_comm_set_hooks(c->nccl, NULL);
    if (c->nccl && c->borrowed)
        dlr_comm_follow(c->nccl, NULL);
    else
        dlr_comm_close(c->nccl, NULL);
    if (c->sharer) v->StreamDestroy(c->sharer);
    if (c->progress) v->MemFreeHost((void *)(uintptr_t)c->progress);
    if (c->numbers) v->MemFree(c->numbers);
}
