/* A run's use of device memory: predicted before it runs, and measured. */
#include "runtime/cuda/cuda.h"
#include "runtime/device/guard.h"

enum {
    GRAIN = 2 << 20,   /* the granularity of the driver's allocations, for data and code */
    A_LAUNCH = 4 << 10 /* bytes that a graph keeps per launch */
};

static int64_t grains(int64_t bytes) { return (bytes + GRAIN - 1) & -(int64_t)GRAIN; }

int64_t dlr_cuda_plan_bytes(const dl_plan *p) {
    int64_t bytes =
        dl_plan_round(p->arena_bytes) + dl_plan_round(p->workspace_bytes) + dl_plan_staged(p);
    return bytes ? bytes : DL_PLAN_ALIGN;
}

static dlr_device_memory predict(const dl_plan *p) {
    int64_t code = 0, graphs = 0;
    for (int i = 0; i < p->objects.n; i++) code += (int64_t)p->objects.at[i].bytes;
    for (int i = 0; i < p->programs.n; i++) {
        const dl_plan_program *g = &p->programs.at[i];
        for (int j = 0; j < g->launches.n; j++)
            graphs += A_LAUNCH * (p->kernels.at[g->launches.at[j].kernel].phases +
                                  p->kernels.at[g->launches.at[j].kernel].calls.n);
    }
    return (dlr_device_memory){
        .plan = grains(dlr_cuda_plan_bytes(p)), .code = grains(code), .graphs = grains(graphs)};
}

dlr_cu_result dlr_cuda_in_use(const dlr_cuda *c, int64_t *used, int64_t *total) {
    size_t free = 0, all = 0;
    dlr_cu_result r = c->driver->MemGetInfo(&free, &all);
    *used = (int64_t)(all - free), *total = (int64_t)all;
    return r;
}

bool dlr_cuda_memory(dlr_device *d, dlr_device_memory *m) {
    dlr_cuda *c = (dlr_cuda *)d;
    *m = predict(d->plan);
    m->before = c->before, m->held = grains(c->held_bytes), m->collectives = c->sharer_bytes;
    return dlr_cuda_alive(c) && dlr_cuda_in_use(c, &m->seen, &m->total) == 0;
}

bool dlr_cuda_predict(dlr_cuda *c, const dl_plan *plan, dlr_device_memory *m, dl_error *err) {
    char said[700];
    *m = predict(plan);
    dlr_cu_result r = c->driver->DevicePrimaryCtxRetain(&c->context, c->device);
    bool there = r == 0;
    if (r == 0) r = c->driver->CtxSetCurrent(c->context);
    if (r == 0) r = dlr_cuda_in_use(c, &m->before, &m->total);
    if (there) c->driver->DevicePrimaryCtxRelease(c->device);
    m->seen = m->before;
    if (r == 0) return true;
    dlr_driver_say(c->driver, r, said, sizeof said);
    return dl_fail(err, DL_RESOURCE, "%s: no context: %s", c->name, said);
}

/* Bytes that a launch touches: its arguments at different addresses. */
static int64_t touched(dl_arena *arena, const dl_plan *p, const dl_plan_launch *l) {
    dlr_guard g = dlr_guard_of(arena, p, l);
    int64_t bytes = 0;
    for (int i = 0; i < g.n; i++) bytes += g.parts[i].bytes;
    return bytes;
}

void dlr_cuda_put_busiest(const dl_plan *p, dl_buf *b) {
    dl_arena *arena = dl_arena_new(NULL);
    const dl_plan_kernel *busiest = NULL;
    int64_t most = 0;
    for (int i = 0; i < p->programs.n; i++)
        for (int j = 0; j < p->programs.at[i].launches.n; j++) {
            const dl_plan_launch *l = &p->programs.at[i].launches.at[j];
            int64_t bytes = touched(arena, p, l);
            if (bytes > most) most = bytes, busiest = &p->kernels.at[l->kernel];
        }
    if (busiest)
        dl_putf(b, "; most at once touches kernel '%.100s' (%.200s), %.1f MiB", busiest->name,
                busiest->where, (double)most / 0x1p20);
    dl_arena_free(arena);
}
