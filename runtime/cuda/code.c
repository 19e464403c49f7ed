/* The code of a plan: its modules and their functions. Those of objects that are compiled while the
 * run has begun are loaded when a program needs them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

static const dl_plan_kernel *kernel_at(const dlr_cuda *c, int i) {
    return &c->base.plan->kernels.at[i];
}

/* A driver refuses code of a compiler that is newer by a major version. */
static bool say_not_loaded(dlr_cuda *c, int object, dlr_cu_result r, dl_error *err) {
    char said[700];
    int version = 0;
    dlr_driver_say(c->driver, r, said, sizeof said);
    if (r == DLR_CU_OUT_OF_MEMORY)
        return dl_fail(err, DL_RESOURCE, "%s has no memory for the plan's object %d: %s", c->name,
                       object, said);
    c->driver->DriverGetVersion(&version);
    return dl_fail(err, DL_INPUT,
                   "%s does not load the plan's object %d for %s: %s; its driver is of CUDA %d.%d, "
                   "and takes code of "
                   "NVRTC %d or older (scripts/install-nvrtc fetches one): compile the model "
                   "again, or install a newer "
                   "driver",
                   c->name, object, c->base.plan->target, said, version / 1000, version % 1000 / 10,
                   version / 1000);
}

static bool load_modules(dlr_cuda *c, dl_error *err) {
    const dl_plan *p = c->base.plan;
    for (int i = 0; i < p->objects.n; i++) {
        const dl_plan_object *o = &p->objects.at[i];
        if (c->modules[i] || !o->image) continue;
        size_t room = (o->bytes + 63) & ~(size_t)63;
        /* within a plan's file it is not aligned */
        void *image = aligned_alloc(64, room ? room : 64);
        if (!image) return dl_fail(err, DL_RESOURCE, "no memory for %zu bytes of code", o->bytes);
        memcpy(image, o->image, o->bytes);
        dlr_cu_result r = c->driver->ModuleLoadData(&c->modules[i], image);
        free(image);
        if (r != 0) return say_not_loaded(c, i, r, err);
    }
    return true;
}

/* A block with more dynamic shared memory than the default limit needs an attribute. Of the phases
 * that share a function, the largest counts. */
static bool ask_shared(dlr_cuda *c, const dl_plan_kernel *k, int phase, dl_error *err) {
    enum { UNASKED = 48 << 10 };
    int most = 0, fixed = 0, granted = 0;
    dlr_cu_function f = c->functions[k - c->base.plan->kernels.at][phase];
    if (dlr_cuda_fails(c, c->driver->DeviceGetAttribute(&most, DLR_CU_SHARED_OPTIN, c->device),
                       "shared memory", err) ||
        dlr_cuda_fails(c, c->driver->FuncGetAttribute(&fixed, DLR_CU_SHARED_STATIC, f),
                       "shared memory", err) ||
        dlr_cuda_fails(c, c->driver->FuncGetAttribute(&granted, DLR_CU_SHARED_DYNAMIC_MOST, f),
                       "shared memory", err))
        return false;
    if (k->shared[phase] + fixed > most)
        return dl_fail(err, DL_RESOURCE,
                       "kernel '%s' (%s) takes %d bytes of shared memory, and %s has %d a block",
                       k->name, k->where, k->shared[phase] + fixed, c->name, most);
    return k->shared[phase] + fixed <= UNASKED || k->shared[phase] <= granted ||
           !dlr_cuda_fails(
               c, c->driver->FuncSetAttribute(f, DLR_CU_SHARED_DYNAMIC_MOST, k->shared[phase]),
               "shared memory", err);
}

static bool find_functions(dlr_cuda *c, dl_error *err) {
    for (int i = 0; i < c->base.plan->kernels.n; i++) {
        const dl_plan_kernel *k = kernel_at(c, i);
        for (int p = 0; p < k->phases; p++) {
            const dl_plan_entry e = dl_plan_entry_of(c->base.arena, k, p);
            if (c->functions[i][p] || !c->modules[e.object]) continue;
            dlr_cu_result r =
                c->driver->ModuleGetFunction(&c->functions[i][p], c->modules[e.object], e.symbol);
            if (r == DLR_CU_NOT_FOUND)
                return dl_fail(
                    err, DL_INPUT,
                    "the plan's object %d holds no function %s for kernel '%s': the plan was made "
                    "by another build; compile the model again",
                    e.object, e.symbol, k->name);
            if (dlr_cuda_fails(c, r, e.symbol, err) || !ask_shared(c, k, p, err)) return false;
        }
    }
    return true;
}

/* The kernel that computes inputs from batches, where an object has it. */
static bool find_gather(dlr_cuda *c, dl_error *err) {
    dlr_cu_result r = DLR_CU_NOT_FOUND;
    for (int i = 0; i < c->base.plan->objects.n && r == DLR_CU_NOT_FOUND; i++)
        if (c->modules[i]) r = c->driver->ModuleGetFunction(&c->gather, c->modules[i], "dl_feed_0");
    c->base.gathers = r == 0;
    if (r != 0) c->gather = NULL;
    return r == DLR_CU_NOT_FOUND || !dlr_cuda_fails(c, r, "dl_feed_0", err);
}

bool dlr_cuda_load_code(dlr_cuda *c, dl_error *err) {
    return load_modules(c, err) && find_functions(c, err) && find_gather(c, err);
}

static bool has_code(const dlr_cuda *c, int program) {
    const dl_plan_program *p = &c->base.plan->programs.at[program];
    bool all = true;
    for (int i = 0; i < p->launches.n; i++) {
        int kernel = p->launches.at[i].kernel;
        for (int k = 0; k < kernel_at(c, kernel)->phases; k++)
            all &= c->functions[kernel][k] != NULL;
    }
    return all;
}

bool dlr_cuda_has_code(dlr_cuda *c, int program) {
    dl_plan_late *late = c->base.plan->late;
    dl_error err = {0};
    if (!late || has_code(c, program)) return true;
    bool ok = late->finish(late, &err) && load_modules(c, &err) && find_functions(c, &err);
    if (!ok && dlr_cuda_alive(c)) c->base.fault = err;
    return ok;
}
