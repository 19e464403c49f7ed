/* What a CUDA device does in a step: programs captured once and launched as one graph; their small results on
 * the way to the host behind each. */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

bool dlr_cuda_alive(const dlr_cuda *c) { return c->base.fault.code == DL_OK; }

/* What a kernel does wrong, and no call of ours. */
static bool is_of_kernels(dlr_cu_result r) {
    return (r >= DLR_CU_ILLEGAL_ADDRESS && r <= DLR_CU_LAUNCH_TIMEOUT) || r == DLR_CU_ASSERT ||
           (r >= DLR_CU_HARDWARE_STACK && r <= DLR_CU_LAUNCH_FAILED);
}

bool dlr_cuda_ok(dlr_cuda *c, dlr_cu_result result, const char *what) {
    if (result == 0) return true;
    if (!dlr_cuda_alive(c) || !dlr_cuda_together(c)) return false;
    char said[700], where[700] = "";
    dlr_driver_say(c->driver, result, said, sizeof said);
    dl_fail(&c->base.fault, DL_RESOURCE, "%s failed: %s", c->name, said);
    if (is_of_kernels(result) && c->runs > 0) {
        int program = c->ring[(c->runs - 1) % DLR_RING].program;
        if (!c->slow) /* nothing can be tried again: the driver lets a process have no other context */
            snprintf(where, sizeof where,
                     "in the program '%s'; run again with DLR_DEBUG=launches to learn in which kernel",
                     c->base.plan->programs.at[program].name);
    }
    c->base.fault = (dl_error){0};
    return dl_fail(&c->base.fault, DL_RESOURCE, "the device (%s) failed in %s: %s%s%s", c->name, what, said,
                   *where ? "; " : "", where);
}

/* ---- launches ---- */

/* Where the driver has the function: dlr_cuda_load has asked. */
static dlr_cu_result make_map(const dlr_cuda *c, const dl_tensor_map *m, uint64_t param, void *to) {
    static const int types[DL_NDTYPES] = {
        [DL_F32] = DLR_CU_MAP_F32, [DL_F16] = DLR_CU_MAP_F16, [DL_BF16] = DLR_CU_MAP_BF16};
    _Alignas(DL_MAP_ALIGN) char map[DL_MAP_BYTES] = {0};
    void *address = (char *)(uintptr_t)(param + (uint64_t)m->offset);
    unsigned axes = (unsigned)dl_tensor_map_axes(m->windows);
    int swizzle = m->swizzle == 64 ? DLR_CU_MAP_SWIZZLE_64 : DLR_CU_MAP_SWIZZLE_128;
    uint64_t size[DL_MAP_AXES], step[DL_MAP_AXES - 1];
    uint32_t box[DL_MAP_BOX], each[DL_MAP_AXES];
    for (int i = 0; i < DL_MAP_AXES; i++) size[i] = (uint64_t)m->size[i], each[i] = 1;
    for (int i = 0; i < m->windows && i < DL_MAP_SPATIAL; i++) each[1 + i] = (uint32_t)m->hop[i];
    for (int i = 0; i < DL_MAP_BOX; i++) box[i] = (uint32_t)m->box[i];
    for (int i = 0; i < DL_MAP_AXES - 1; i++) step[i] = (uint64_t)m->step[i];
    dlr_cu_result r =
        m->windows
            ? c->driver->TensorMapEncodeIm2col(map, types[m->dtype], axes, address, size, step, m->low,
                                               m->high, box[0], box[1], each, DLR_CU_MAP_INTERLEAVE_NONE,
                                               swizzle, DLR_CU_MAP_PROMOTION_128, DLR_CU_MAP_OUTSIDE_ZERO)
            : c->driver->TensorMapEncodeTiled(map, types[m->dtype], axes, address, size, step, box, each,
                                              DLR_CU_MAP_INTERLEAVE_NONE, swizzle, DLR_CU_MAP_PROMOTION_128,
                                              DLR_CU_MAP_OUTSIDE_ZERO);
    memcpy(to, map, sizeof map);
    return r;
}

dlr_cu_result dlr_cuda_bind(dlr_cuda *c, dl_arena *arena, dlr_cuda_launch *l, uint64_t memory,
                            const int64_t *places, uint64_t workspace) {
    dlr_cu_result r = 0;
    const dl_plan_kernel *k = l->kernel;
    dlr_cuda_args *all = l->args = DL_NEWS(arena, dlr_cuda_args, k->phases + 1);
    l->places = DL_NEWS(arena, uint64_t, k->nargs + 1);
    for (int i = 0; i < k->nargs; i++) l->places[i] = memory + (uint64_t)places[i];
    l->places[k->nargs] = workspace;
    for (int p = 0; p < k->phases; p++) {
        const dl_plan_entry e = dl_plan_entry_of(arena, k, p);
        char *maps = DL_NEWS(arena, char, e.maps.n *DL_MAP_BYTES + 1);
        int most = e.args.n + 1 + e.numbers.n, room = e.table.numbers + e.table.pointers;
        uint64_t *words = DL_NEWS(arena, uint64_t, most > room ? most : room), *to = words;
        void **at = all[p].at = DL_NEWS(arena, void *, e.maps.n + most + 1);
        for (int i = 0; i < e.maps.n && r == 0; i++, maps += DL_MAP_BYTES) {
            r = make_map(c, &e.maps.at[i], l->places[e.maps.at[i].param], maps);
            *at++ = maps;
        }
        if (e.table.numbers) {
            for (int i = 0; i < e.numbers.n; i++) words[i] = (uint64_t)e.numbers.at[i];
            for (int i = 0; i < e.args.n; i++) words[e.table.numbers + i] = l->places[e.args.at[i]];
            *at = words;
            continue;
        }
        for (int i = 0; i < e.args.n; i++) *to++ = l->places[e.args.at[i]];
        *to++ = workspace;
        for (int i = 0; i < e.numbers.n; i++) *to++ = (uint64_t)e.numbers.at[i];
        while (words < to) *at++ = words++;
    }
    return r;
}

dlr_cu_result dlr_cuda_put_launch(dlr_cuda *c, const dlr_cuda_launch *l) {
    dlr_cu_result r = dlr_cuda_put_calls(c, l);
    for (int p = 0; r == 0 && p < l->kernel->phases; p++) {
        if (l->kernel->units[p] > 0)
            r = c->driver->LaunchKernel(l->phase[p], (unsigned)l->kernel->units[p], 1, 1,
                                        (unsigned)l->kernel->threads[p], 1, 1, (unsigned)l->kernel->shared[p],
                                        c->stream, l->args[p].at, NULL);
    }
    return r;
}

static const char *name_launch(const dlr_cuda_launch *l, char *text, size_t size) {
    snprintf(text, size, "kernel '%.100s'%s%.300s%s", l->kernel->name, *l->kernel->where ? " (" : "",
             l->kernel->where, *l->kernel->where ? ")" : "");
    return text;
}

void dlr_cuda_launch_one(dlr_device *d, int program, int number) {
    dlr_cuda *c = (dlr_cuda *)d;
    const dlr_cuda_launch *l = &c->programs[program].launches[number];
    char text[500];
    dlr_cuda_flush(c, true);
    if (!dlr_cuda_alive(c)) return;
    c->all.launches += l->kernel->calls.n + l->kernel->phases;
    dlr_cu_result r = c->base.guards ? dlr_cuda_guarded(c, program, number) : dlr_cuda_put_launch(c, l);
    if (r == 0 && c->slow) r = c->driver->StreamSynchronize(c->stream);
    dlr_cuda_ok(c, r, name_launch(l, text, sizeof text));
}

/* ---- waiting ---- */

/* The program's thread waits in the driver: for other ranks, too, where there are. */
static void wait_for(dlr_cuda *c, dlr_cu_event event) {
    if (c->nccl) dlr_comm_waits(c->nccl, true);
    dlr_cu_result r = event ? c->driver->EventSynchronize(event) : c->driver->StreamSynchronize(c->stream);
    if (c->nccl) dlr_comm_waits(c->nccl, false);
    dlr_cuda_ok(c, r, "a wait");
    if (r == 0) dlr_cuda_together(c);
}

void dlr_cuda_wait(dlr_device *d) {
    dlr_cuda *c = (dlr_cuda *)d;
    if (!dlr_cuda_alive(c)) return;
    c->all.syncs++;
    wait_for(c, NULL);
    c->flying = -1;
}

void dlr_cuda_wait_pinned(dlr_cuda *c, dlr_pinned *p) {
    if (!p->busy || !dlr_cuda_alive(c)) return;
    p->busy = false;
    *(p->run < c->runs ? &c->all.waits : &c->all.syncs) += 1;
    wait_for(c, p->event);
    if (p->run >= c->runs) c->flying = -1;
}

/* ---- programs ---- */

/* A step, to run or to be captured. */
static dlr_cu_result put_step(dlr_cuda *c, int program, dl_plan_step s) {
    return s.kind == DL_STEP_LAUNCH ? dlr_cuda_put_launch(c, &c->programs[program].launches[s.number])
                                    : dlr_cuda_put_exchange(c, program, s);
}

void dlr_cuda_capture(dlr_device *d, int program) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_cuda_program *p = &c->programs[program];
    if (p->graph || c->slow || !dlr_cuda_alive(c)) return;
    const dlr_driver *v = c->driver;
    dlr_cu_graph graph = NULL;
    const dl_plan_program *plan = &d->plan->programs.at[program];
    dlr_cu_result r = v->StreamBeginCapture(c->stream, DLR_CU_CAPTURE_THREAD_LOCAL);
    bool began = r == 0;
    for (int i = 0; r == 0 && i < dl_plan_nsteps(plan); i++)
        r = put_step(c, program, dl_plan_step_at(plan, i));
    dlr_cu_result ended = began ? v->StreamEndCapture(c->stream, &graph) : 0;
    if (r == 0) r = ended;
    c->all.allocations++;
    if (r == 0) r = v->GraphInstantiateWithFlags(&p->graph, graph, 0);
    if (r == 0) r = v->GraphUpload(p->graph, c->stream);
    if (graph) v->GraphDestroy(graph);
    dlr_cuda_ok(c, r, "the capture of a program");
}

/* A run of the program that ran before, while the host had not caught up: a step in a row. */
static void count_step(dlr_cuda *c, int program) {
    if (c->stepping == program) {
        dlr_driver_counts *s = &c->steps, *a = &c->all, *b = &c->begin;
        s->graphs += a->graphs - b->graphs, s->launches += a->launches - b->launches;
        s->syncs += a->syncs - b->syncs, s->waits += a->waits - b->waits;
        s->allocations += a->allocations - b->allocations;
        c->nsteps++;
    }
    c->stepping = program, c->begin = c->all;
}

/* Small results follow the run into the ring. */
static void send_results(dlr_cuda *c, int program) {
    dlr_slot *slot = &c->ring[c->runs % DLR_RING];
    const dlr_cuda_program *p = &c->programs[program];
    dlr_cu_result r = 0;
    slot->program = program;
    for (int i = 0; r == 0 && i < p->results.n; i++) {
        const dlr_span *s = &p->results.at[i];
        r = dlr_cuda_copy(c, true, slot->memory.at + s->place, s->offset, s->bytes, c->stream);
    }
    c->runs++; /* so that waiting for it is a wait for the newest */
    if (r == 0 && slot->memory.event) r = c->driver->EventRecord(slot->memory.event, c->stream);
    slot->memory.run = c->runs, slot->memory.busy = r == 0 && slot->memory.event;
    dlr_cuda_ok(c, r, "a copy of results");
}

void dlr_cuda_step_one(dlr_cuda *c, int program, dl_plan_step s) {
    if (s.kind == DL_STEP_LAUNCH)
        dlr_cuda_launch_one(&c->base, program, s.number);
    else
        dlr_cuda_exchange(&c->base, program, s);
}

void dlr_cuda_replay(dlr_device *d, int program) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_cuda_flush(c, true);
    if (!dlr_cuda_alive(c)) return;
    count_step(c, program);
    c->ring[c->runs % DLR_RING].program = program;
    c->flying = program;
    if (d->timeline) {
        dlr_cuda_run_watched(c, program);
    } else if (c->slow || d->seen) {
        const dl_plan_program *plan = &d->plan->programs.at[program];
        for (int i = 0; i < dl_plan_nsteps(plan) && dlr_cuda_alive(c); i++) {
            dl_plan_step s = dl_plan_step_at(plan, i);
            dlr_cuda_step_one(c, program, s);
            if (d->seen && s.kind == DL_STEP_LAUNCH) d->seen(d->seen_by, program, s.number);
        }
    } else {
        c->all.graphs++;
        dlr_cuda_ok(c, c->driver->GraphLaunch(c->programs[program].graph, c->stream), "a program's launch");
    }
    if (dlr_cuda_alive(c)) send_results(c, program);
    if (d->timeline) dlr_cuda_end_watch(c, program);
}

void dlr_cuda_take(dlr_device *d) {
    dlr_cuda *c = (dlr_cuda *)d;
    if (c->taken < c->runs) c->taken++;
    if (c->taken == c->runs) c->stepping = -1; /* the host has caught up */
}

const void *dlr_cuda_result(dlr_device *d, int64_t offset, int64_t bytes) {
    dlr_cuda *c = (dlr_cuda *)d;
    if (c->taken == 0) return dlr_cuda_host(d, offset, bytes, DLR_READ);
    dlr_slot *slot = &c->ring[(c->taken - 1) % DLR_RING];
    const dlr_cuda_program *p = &c->programs[slot->program];
    for (int i = 0; i < p->results.n; i++) {
        const dlr_span *s = &p->results.at[i];
        if (offset < s->offset || offset + bytes > s->offset + s->bytes) continue;
        dlr_cuda_wait_pinned(c, &slot->memory);
        if (!dlr_cuda_alive(c)) break;
        return slot->memory.at + s->place + (offset - s->offset);
    }
    return dlr_cuda_host(d, offset, bytes, DLR_READ);
}

void dlr_cuda_say(const dlr_cuda *c) {
    double n = c->nsteps ? (double)c->nsteps : 1;
    const dlr_driver_counts *s = &c->steps, *a = &c->all;
    if (c->nsteps)
        fprintf(stderr,
                "driver: graph launches a step %g, synchronisations a step %g, allocations a step %g (%lld "
                "steps in a row; a step launches %g kernels outside of graphs and waits for earlier ones %g "
                "times)\n",
                (double)s->graphs / n, (double)s->syncs / n, (double)s->allocations / n, (long long)c->nsteps,
                (double)s->launches / n, (double)s->waits / n);
    fprintf(stderr,
            "driver: in all %lld runs, %lld graph launches, %lld kernels launched outside of graphs, %lld "
            "synchronisations, %lld waits for earlier runs, %lld allocations\n",
            (long long)c->runs, (long long)a->graphs, (long long)a->launches, (long long)a->syncs,
            (long long)a->waits, (long long)a->allocations);
}
