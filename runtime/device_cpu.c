/* The CPU as a device: everything is done when a call returns, and the arena is the host's own memory. */
#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/object.h"
#include "runtime/device.h"
#include "runtime/memory.h"

typedef void dlr_kernel_fn(char *const *arg, int64_t unit, char *scratch, char *workspace);

typedef struct {
    dlr_kernel_fn *phase[DL_MAX_PHASES];
} code;

/* A launch, ready to run: nothing is looked up in a step. */
typedef struct {
    const code *code;
    const dl_plan_kernel *kernel;
    char **arg;
} launch;

typedef struct {
    dlr_device base;
    dlr_memory memory; /* arena | workspace | scratch of thread 0 | of thread 1 | ... */
    char *workspace, *scratch;
    size_t scratch_stride;
    dl_object *objects;
    int nobjects; /* loaded */
    code *codes;  /* one a kernel */
    launch **programs;
} cpu;

static bool load_objects(cpu *c, dl_error *err) {
    const dl_plan *p = c->base.plan;
    c->objects = DL_NEWS(c->base.arena, dl_object, p->objects.n);
    for (; c->nobjects < p->objects.n; c->nobjects++) {
        const dl_plan_object *o = &p->objects.at[c->nobjects];
        if (!dl_object_load(&c->objects[c->nobjects], o->image, o->bytes, err)) return false;
    }
    return true;
}

static bool resolve_kernels(cpu *c, dl_error *err) {
    const dl_plan *p = c->base.plan;
    c->codes = DL_NEWS(c->base.arena, code, p->kernels.n);
    for (int i = 0; i < p->kernels.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[i];
        for (int phase = 0; phase < k->phases; phase++) {
            const char *symbol = dl_format(c->base.arena, "%s_%d", k->symbol, phase);
            void *address = dl_object_find(&c->objects[k->object], symbol);
            if (!address)
                return dl_fail(
                    err, DL_INPUT,
                    "the plan's object %d holds no function %s for kernel '%s': the plan was made by another "
                    "build; compile the model again",
                    k->object, symbol, k->name);
            memcpy(&c->codes[i].phase[phase], &address,
                   sizeof address); /* C has no cast from object to function */
        }
    }
    return true;
}

static bool load(dlr_device *d, dl_error *err) {
    cpu *c = (cpu *)d;
    return load_objects(c, err) && resolve_kernels(c, err);
}

static void bind_launches(cpu *c) {
    const dl_plan *plan = c->base.plan;
    dl_arena *arena = c->base.arena;
    c->programs = DL_NEWS(arena, launch *, plan->programs.n);
    for (int i = 0; i < plan->programs.n; i++) {
        const dl_plan_program *p = &plan->programs.at[i];
        c->programs[i] = DL_NEWS(arena, launch, p->launches.n);
        for (int j = 0; j < p->launches.n; j++) {
            const dl_plan_launch *from = &p->launches.at[j];
            char **arg = DL_NEWS(arena, char *, from->nargs);
            for (int a = 0; a < from->nargs; a++) arg[a] = c->memory.base + from->args[a];
            c->programs[i][j] = (launch){&c->codes[from->kernel], &plan->kernels.at[from->kernel], arg};
        }
    }
}

static bool map(dlr_device *d, dl_error *err) {
    cpu *c = (cpu *)d;
    int threads = dlr_pool_threads(d->pool);
    if (!dlr_memory_map(&c->memory, (size_t)dl_plan_peak(d->plan, threads), d->pool, err)) return false;
    d->base = c->memory.base;
    c->workspace = c->memory.base + dl_plan_round(d->plan->arena_bytes);
    c->scratch = c->workspace + dl_plan_round(d->plan->workspace_bytes);
    c->scratch_stride = (size_t)dl_plan_round(d->plan->scratch_bytes);
    bind_launches(c);
    return true;
}

typedef struct {
    dlr_kernel_fn *run;
    char *const *arg;
    char *scratch, *workspace;
    size_t scratch_stride;
} phase;

static void run_unit(void *context, int64_t unit, int thread) {
    const phase *p = context;
    p->run(p->arg, unit, p->scratch + (size_t)thread * p->scratch_stride, p->workspace);
}

static void run_launch(const cpu *c, const launch *l) {
    phase p = {
        .scratch = c->scratch, .workspace = c->workspace, .scratch_stride = c->scratch_stride, .arg = l->arg};
    for (int j = 0; j < l->kernel->phases; j++) {
        p.run = l->code->phase[j];
        dlr_pool_run(c->base.pool, l->kernel->units[j], run_unit, &p);
    }
}

static void launch_one(dlr_device *d, int program, int number) {
    const cpu *c = (const cpu *)d;
    run_launch(c, &c->programs[program][number]);
}

static void replay(dlr_device *d, int program) {
    const cpu *c = (const cpu *)d;
    int n = d->plan->programs.at[program].launches.n;
    dlr_timeline *t = d->timeline;
    int64_t now = t ? dl_clock_ns() : 0;
    for (int i = 0; i < n; i++) {
        run_launch(c, &c->programs[program][i]);
        if (t) t->launches[i].began = now, t->launches[i].ended = now = dl_clock_ns();
        if (d->seen) d->seen(d->seen_by, program, i);
    }
    d->timeline = NULL;
}

static void watch(dlr_device *d, dlr_timeline *timeline) { d->timeline = timeline; }

static void nothing(dlr_device *d) { (void)d; }
static void capture(dlr_device *d, int program) { (void)d, (void)program; }

static void *host(dlr_device *d, int64_t offset, int64_t bytes, dlr_access access) {
    (void)bytes, (void)access;
    return d->base + offset;
}

static const void *result(dlr_device *d, int64_t offset, int64_t bytes) {
    (void)bytes;
    return d->base + offset;
}

static void close_cpu(dlr_device *d) {
    cpu *c = (cpu *)d;
    while (c->nobjects > 0) dl_object_unload(&c->objects[--c->nobjects]);
    dlr_memory_unmap(&c->memory);
    dl_arena_free(d->arena);
}

static const dlr_device_table table = {.load = load,
                                       .map = map,
                                       .launch = launch_one,
                                       .capture = capture,
                                       .replay = replay,
                                       .wait = nothing,
                                       .host = host,
                                       .result = result,
                                       .watch = watch,
                                       .take = nothing,
                                       .close = close_cpu};

dlr_device *dlr_cpu_new(dl_arena *arena) {
    cpu *c = DL_NEW(arena, cpu);
    c->base = (dlr_device){.table = &table, .ahead = 1};
    return &c->base;
}
