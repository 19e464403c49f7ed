/* A CUDA device's work in a step: programs are captured once and launched as one graph; small
 * results are copied to the host after each. */
#include <stdio.h>

#include "runtime/cuda/cuda.h"

/* ---- launches ---- */

static const char *name_launch(const dlr_cuda_launch *l, char *text, size_t size) {
    snprintf(text, size, "kernel '%.100s'%s%.300s%s", l->kernel->name,
             *l->kernel->where ? " (" : "", l->kernel->where, *l->kernel->where ? ")" : "");
    return text;
}

void dlr_cuda_launch_one(dlr_device *d, int program, int number) {
    dlr_cuda *c = (dlr_cuda *)d;
    const dlr_cuda_launch *l = &c->programs[program].launches[number];
    char text[500];
    dlr_cuda_flush(c, true);
    if (!dlr_cuda_alive(c) || !dlr_cuda_has_code(c, program)) return;
    c->all.launches += l->kernel->calls.n + l->kernel->phases;
    dlr_cu_result r =
        c->base.guards ? dlr_cuda_guarded(c, program, number) : dlr_cuda_put_launch(c, l);
    if (r == 0 && c->slow) r = c->driver->StreamSynchronize(c->stream);
    dlr_cuda_ok(c, r, name_launch(l, text, sizeof text));
}

/* ---- programs ---- */

/* Adds a step of the program, to run or to be captured. */
static dlr_cu_result put_step(dlr_cuda *c, int program, dl_plan_step s) {
    return s.kind == DL_STEP_LAUNCH
               ? dlr_cuda_put_launch(c, &c->programs[program].launches[s.number])
               : dlr_cuda_put_exchange(c, program, s);
}

void dlr_cuda_capture(dlr_device *d, int program) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_cuda_program *p = &c->programs[program];
    if (p->graph || c->slow || !dlr_cuda_alive(c) || !dlr_cuda_has_code(c, program)) return;
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
    if (r == 0) r = v->GraphInstantiateWithFlags(&p->graph, graph, DLR_CU_GRAPH_NODE_PRIORITY);
    if (r == 0) r = v->GraphUpload(p->graph, c->stream);
    if (graph) v->GraphDestroy(graph);
    dlr_cuda_ok(c, r, "the capture of a program");
}

/* Counts a run of the same program as the previous run that was started before the host had taken
 * that one: a successive step. */
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

/* Copies small results into the ring after the run. */
static void send_results(dlr_cuda *c, int program) {
    dlr_slot *slot = &c->ring[c->runs % DLR_RING];
    const dlr_cuda_program *p = &c->programs[program];
    dlr_cu_result r = 0;
    slot->program = program;
    for (int i = 0; r == 0 && i < p->results.n; i++) {
        const dlr_span *s = &p->results.at[i];
        r = dlr_cuda_copy(c, true, slot->memory.at + s->place, s->offset, s->bytes, c->stream);
    }
    c->runs++; /* so that waiting for it counts as a wait for the newest work */
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

/* Runs the program's steps one by one, with events between them. */
static void run_watched(dlr_cuda *c, int program) {
    const dl_plan_program *p = &c->base.plan->programs.at[program];
    dlr_cuda_mark_step(c, 0);
    for (int i = 0; i < dl_plan_nsteps(p) && dlr_cuda_alive(c); i++) {
        dlr_cuda_step_one(c, program, dl_plan_step_at(p, i));
        dlr_cuda_mark_step(c, i + 1);
    }
}

void dlr_cuda_replay(dlr_device *d, int program) {
    dlr_cuda *c = (dlr_cuda *)d;
    dlr_cuda_flush(c, true);
    if (!dlr_cuda_alive(c)) return;
    count_step(c, program);
    c->ring[c->runs % DLR_RING].program = program;
    c->flying = program;
    if (d->timeline) {
        run_watched(c, program);
    } else if (c->slow || d->seen) {
        const dl_plan_program *plan = &d->plan->programs.at[program];
        for (int i = 0; i < dl_plan_nsteps(plan) && dlr_cuda_alive(c); i++) {
            dl_plan_step s = dl_plan_step_at(plan, i);
            dlr_cuda_step_one(c, program, s);
            if (d->seen && s.kind == DL_STEP_LAUNCH) d->seen(d->seen_by, program, s.number);
        }
    } else {
        c->all.graphs++;
        dlr_cuda_ok(c, c->driver->GraphLaunch(c->programs[program].graph, c->stream),
                    "a program's launch");
    }
    if (dlr_cuda_alive(c)) send_results(c, program);
    if (d->timeline) dlr_cuda_end_timing(c, program);
}

void dlr_cuda_wait_oldest(dlr_device *d) {
    dlr_cuda *c = (dlr_cuda *)d;
    if (c->taken < c->runs) c->taken++;
    if (c->taken == c->runs) c->stepping = -1; /* the host has taken all runs */
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
                "driver: graph launches a step %g, synchronisations a step %g, allocations a step "
                "%g (%lld "
                "steps in a row; a step launches %g kernels outside of graphs and waits for "
                "earlier ones %g "
                "times)\n",
                (double)s->graphs / n, (double)s->syncs / n, (double)s->allocations / n,
                (long long)c->nsteps, (double)s->launches / n, (double)s->waits / n);
    fprintf(stderr,
            "driver: in all %lld runs, %lld graph launches, %lld kernels launched outside of "
            "graphs, %lld "
            "synchronisations, %lld waits for earlier runs, %lld allocations\n",
            (long long)c->runs, (long long)a->graphs, (long long)a->launches, (long long)a->syncs,
            (long long)a->waits, (long long)a->allocations);
}
