/* The device name for a plan's target. */
#include "runtime/device/device.h"

#include <string.h>

#include "runtime/base/debug.h"
#include "runtime/cuda/cuda.h"

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static dlr_device *new_device(dl_arena *arena, const dl_plan *plan, const char *name,
                              dl_error *err) {
    if (starts(plan->target, "cpu:")) {
        if (!name || strcmp(name, "cpu") == 0) return dlr_cpu_new(arena);
        dl_fail(err, DL_USAGE, "a plan for %s does not run on the device %s", plan->target, name);
        return NULL;
    }
    if (starts(plan->target, "cuda:")) {
        bool emulated = dl_target_is_emulated(plan->target);
        if (!name || (emulated ? strcmp(name, "cuda:emulated") == 0
                               : starts(name, "cuda") && strcmp(name, "cuda:emulated") != 0))
            return dlr_cuda_new(arena, name, emulated, err);
        dl_fail(err, DL_USAGE, "a plan for %s does not run on the device %s", plan->target, name);
        return NULL;
    }
    dl_fail(err, DL_INPUT, "the plan is for %s, and this program knows no such device",
            plan->target);
    return NULL;
}

static bool open_exchange(dlr_device *d, const dlr_ranks *ranks, dl_error *err) {
    int collectives = 0;
    for (int i = 0; i < d->plan->programs.n; i++)
        collectives += d->plan->programs.at[i].collectives.n;
    if (!collectives) return true;
    if (!ranks->comm)
        return dl_fail(err, DL_USAGE,
                       "the plan is one of several ranks', and this run has one: compile it anew");
    return d->table->share(d, ranks, err);
}

/* Loads the plan's code, and reports the device's memory before any of the plan's is allocated. */
static bool load(dlr_device *d, dlr_memory_fn *memory, void *context, dl_error *err) {
    dlr_device_memory m;
    if (!d->table->load(d, err)) return false;
    if (memory && d->table->memory && d->table->memory(d, &m)) memory(context, &m);
    return true;
}

dlr_device *dlr_device_open(const dl_plan *plan, const char *name, dlr_pool *pool,
                            const dlr_ranks *ranks, bool guards, dlr_memory_fn *memory,
                            void *context, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_device *d = new_device(arena, plan, name, err);
    if (!d) {
        dl_arena_free(arena);
        return NULL;
    }
    d->plan = plan, d->arena = arena, d->pool = pool;
    d->guards = guards || dlr_debugs("guard");
    if (load(d, memory, context, err) && d->table->map(d, err) && open_exchange(d, ranks, err))
        return d;
    d->table->close(d);
    return NULL;
}

bool dlr_device_predict(const dl_plan *plan, const char *name, dlr_device_memory *memory,
                        dl_error *err) {
    *memory = (dlr_device_memory){0};
    return starts(plan->target, "cuda:") &&
           dlr_cuda_predict_on(plan, name, dl_target_is_emulated(plan->target), memory, err);
}
