/* The CPU as a device: every call is synchronous, and the arena is the host's own memory. */
#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/object.h"
#include "runtime/base/memory.h"
#include "runtime/device/device.h"
#include "runtime/device/guard.h"

typedef void dlr_kernel_fn(char *const *arg, int64_t item, char *scratch, char *workspace);

typedef struct {
    dlr_kernel_fn *phase[DL_MAX_PHASES];
} code;

/* A launch, ready to run: a step looks nothing up. */
typedef struct {
    const code *code;
    const dl_plan_kernel *kernel;
    char **arg, *workspace;
    bool small; /* runs on the caller's thread, since waking the others would take longer */
} launch;

typedef struct {
    dlr_device base;
    dlr_memory memory; /* arena | workspace | scratch of thread 0 | of thread 1 | ... */
    char *workspace, *scratch;
    size_t scratch_stride;
    dl_object *objects;
    int nobjects; /* number of loaded objects */
    code *codes;  /* one per kernel */
    launch **programs;
    int prepared;       /* the program whose own workspaces are prepared, or -1, */
    uint64_t of;        /* and the value of base.written that they are of */
    dlr_memory guarded; /* with guards: copies of the memory that a launch touches, followed by each
                           thread's scratch */
    size_t guarded_scratch, guarded_stride;
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
                return dl_fail(err, DL_INPUT,
                               "the plan's object %d holds no function %s for kernel '%s': the "
                               "plan was made by another "
                               "build; compile the model again",
                               k->object, symbol, k->name);
            /* memcpy, because C has no cast from an object pointer to a function pointer */
            memcpy(&c->codes[i].phase[phase], &address, sizeof address);
        }
    }
    return true;
}

static bool load(dlr_device *d, dl_error *err) {
    cpu *c = (cpu *)d;
    return load_objects(c, err) && resolve_kernels(c, err);
}

/* The microseconds that a launch saves on all threads. */
static double saved_by(const dlr_pool *pool, const dl_plan_kernel *k) {
    int runs = 0;
    for (int j = 0; j < k->phases; j++) runs += k->items[j] > 1;
    return dlr_pool_saves(pool, runs, k->serial_us);
}

/* Marks the launches of a program that stay on the caller's thread: each that saves nothing on all
 * threads, and the whole program where its launches together save less than a wake-up takes. */
static void find_small(const cpu *c, launch *launches, int n) {
    double all = 0;
    for (int i = 0; i < n; i++) {
        double saved = saved_by(c->base.pool, launches[i].kernel);
        launches[i].small = saved <= 0;
        if (saved > 0) all += saved;
    }
    for (int i = 0; i < n && all <= dlr_pool_wake_us; i++) launches[i].small = true;
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
            c->programs[i][j] =
                (launch){.code = &c->codes[from->kernel],
                         .kernel = &plan->kernels.at[from->kernel],
                         .arg = arg,
                         .workspace = from->own ? c->memory.base + from->own : c->workspace};
        }
        find_small(c, c->programs[i], p->launches.n);
    }
}

static bool map(dlr_device *d, dl_error *err) {
    cpu *c = (cpu *)d;
    int threads = dlr_pool_threads(d->pool);
    if (!dlr_memory_map(&c->memory, (size_t)dl_plan_peak(d->plan, threads), d->pool, err))
        return false;
    d->base = c->memory.base;
    c->workspace = c->memory.base + dl_plan_round(d->plan->arena_bytes);
    c->scratch = c->workspace + dl_plan_round(d->plan->workspace_bytes);
    c->scratch_stride = (size_t)dl_plan_round(d->plan->scratch_bytes);
    bind_launches(c);
    if (!d->guards) return true;
    c->guarded_scratch = (size_t)dlr_guard_most(d->plan),
    c->guarded_stride = c->scratch_stride + DLR_GUARD_BAND;
    size_t all = c->guarded_scratch + (size_t)threads * c->guarded_stride + 2 * DLR_GUARD_BAND;
    return dlr_memory_map(&c->guarded, all, d->pool, err);
}

typedef struct {
    dlr_kernel_fn *run;
    char *const *arg;
    char *scratch, *workspace;
    size_t scratch_stride;
} phase;

static void run_item(void *context, int64_t item, int thread) {
    const phase *p = context;
    p->run(p->arg, item, p->scratch + (size_t)thread * p->scratch_stride, p->workspace);
}

/* Runs the phases from number `first` on. */
static void run_phases(const cpu *c, const launch *l, int first, char *const *arg, char *workspace,
                       char *scratch, size_t stride) {
    phase p = {.scratch = scratch, .workspace = workspace, .scratch_stride = stride, .arg = arg};
    for (int j = first; j < l->kernel->phases; j++) {
        p.run = l->code->phase[j];
        if (!l->small) dlr_pool_run(c->base.pool, l->kernel->items[j], run_item, &p);
        for (int64_t i = 0; l->small && i < l->kernel->items[j]; i++)
            p.run(arg, i, scratch, workspace);
    }
}

/* A canary precedes each thread's scratch, and another follows the last. */
static char *guard_scratch(const cpu *c) {
    char *base = c->guarded.base + c->guarded_scratch;
    size_t threads = (size_t)dlr_pool_threads(c->base.pool);
    dlr_guard_fill(base, (int64_t)(threads * c->guarded_stride + DLR_GUARD_BAND));
    return base + DLR_GUARD_BAND;
}

static void look_at_scratch(cpu *c, const dlr_guard *g, char *found, size_t size) {
    int threads = dlr_pool_threads(c->base.pool);
    int64_t bytes = g->kernel->scratch;
    for (int t = 0; t < threads && !*found; t++) {
        const char *own =
            c->guarded.base + c->guarded_scratch + DLR_GUARD_BAND + (size_t)t * c->guarded_stride;
        int64_t at = dlr_guard_differs(own - DLR_GUARD_BAND, t ? 0 : DLR_GUARD_BAND);
        if (at >= 0) at -= DLR_GUARD_BAND;
        int64_t after = dlr_guard_differs(own + bytes + bytes % 2,
                                          (int64_t)c->guarded_stride - bytes - bytes % 2);
        if (at < 0 && after >= 0) at = bytes + bytes % 2 + after;
        if (at != -1) dlr_guard_say_scratch(g, at, found, size);
    }
    c->base.zones += threads + 1;
}

/* Runs a launch on copies of the memory that it may touch (runtime/device/guard.h). */
static void run_guarded(cpu *c, int program, int number) {
    const dl_plan_launch *from = &c->base.plan->programs.at[program].launches.at[number];
    dl_arena *arena = dl_arena_new(NULL);
    dlr_guard g = dlr_guard_of(arena, c->base.plan, from);
    char *base = c->guarded.base, **arg = DL_NEWS(arena, char *, from->nargs + 1), found[700] = "";
    for (int a = 0; a <= from->nargs; a++) arg[a] = base + g.places[a];
    dlr_guard_fill(base, g.bytes); /* the workspace is filled, too */
    for (int i = 0; i <= g.n; i++) {
        int64_t begin, end;
        dlr_guard_canary(&g, i, &begin, &end);
        dlr_guard_fill(base + begin, end - begin);
    }
    for (int i = 0; i < g.n - 1; i++)
        memcpy(base + g.parts[i].place, c->base.base + g.parts[i].offset, (size_t)g.parts[i].bytes);
    run_phases(c, &c->programs[program][number], 0, arg, arg[from->nargs], guard_scratch(c),
               c->guarded_stride);
    for (int i = 0; i <= g.n && !*found; i++) {
        int64_t begin, end;
        dlr_guard_canary(&g, i, &begin, &end);
        int64_t at = dlr_guard_differs(base + begin, end - begin);
        if (at >= 0) dlr_guard_say_canary(&g, i, at, found, sizeof found);
    }
    if (!*found) look_at_scratch(c, &g, found, sizeof found);
    c->base.zones += g.n + 1;
    for (int i = 0; i < g.n - 1; i++) {
        const dlr_guard_part *p = &g.parts[i];
        char *now = base + p->place, *kept = c->base.base + p->offset;
        int64_t at = 0;
        if (p->written) memcpy(kept, now, (size_t)p->bytes);
        while (at < p->bytes && now[at] == kept[at]) at++;
        if (at < p->bytes && !*found) dlr_guard_say_input(&g, i, at, found, sizeof found);
    }
    if (*found) dl_fail(&c->base.fault, DL_INTERNAL, "DLR_DEBUG=guard: %s", found);
    dl_arena_free(arena);
}

/* `prepared`: own workspaces are. A guarded launch is alone, and prepares its copy. */
static void run_launch(cpu *c, int program, int number, bool prepared) {
    const launch *l = &c->programs[program][number];
    const int first = prepared && l->workspace != c->workspace ? l->kernel->prepares : 0;
    if (!c->base.guards)
        run_phases(c, l, first, l->arg, l->workspace, c->scratch, c->scratch_stride);
    else if (c->base.fault.code == DL_OK)
        run_guarded(c, program, number);
}

static void launch_one(dlr_device *d, int program, int number) {
    cpu *c = (cpu *)d;
    if (program != c->prepared) c->prepared = -1;
    run_launch(c, program, number, false);
}

static bool share(dlr_device *d, const dlr_ranks *ranks, dl_error *err) {
    d->exchange = dlr_exchange_open(d->arena, d->plan, ranks, d->base, err);
    return d->exchange != NULL;
}

static void exchange(dlr_device *d, int program, dl_plan_step s) {
    dl_error err = {0};
    if (s.kind == DL_STEP_START)
        dlr_exchange_start(d->exchange, program, s.number);
    else if (!dlr_exchange_wait(d->exchange, program, s.number, &err) && !d->fault.code)
        d->fault = err;
}

static void note_collective(dlr_timeline *t, dl_plan_step s, int64_t began) {
    if (!t || !t->collectives) return;
    if (s.kind == DL_STEP_START)
        t->collectives[s.number].began = began;
    else
        t->waits[s.number] = (dlr_time){began, t->collectives[s.number].ended = dl_clock_ns()};
}

static void replay(dlr_device *d, int program) {
    cpu *c = (cpu *)d;
    const dl_plan_program *p = &d->plan->programs.at[program];
    dlr_timeline *t = d->timeline;
    const bool prepared = c->prepared == program && c->of == d->written;
    c->prepared = -1;
    for (int i = 0, n = dl_plan_nsteps(p); i < n && !d->fault.code; i++) {
        dl_plan_step s = dl_plan_step_at(p, i);
        int64_t began = t ? dl_clock_ns() : 0;
        if (s.kind == DL_STEP_LAUNCH)
            run_launch(c, program, s.number, prepared);
        else
            exchange(d, program, s);
        if (s.kind != DL_STEP_LAUNCH) {
            note_collective(t, s, began);
            continue;
        }
        if (t) t->launches[s.number] = (dlr_time){began, dl_clock_ns()};
        if (d->seen) d->seen(d->seen_by, program, s.number);
    }
    if (!d->fault.code) c->prepared = program, c->of = d->written;
    d->timeline = NULL;
}

static void time_run(dlr_device *d, dlr_timeline *timeline) { d->timeline = timeline; }

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
    dlr_memory_unmap(&c->memory), dlr_memory_unmap(&c->guarded);
    dl_arena_free(d->arena);
}

static const dlr_device_table table = {.load = load,
                                       .map = map,
                                       .launch = launch_one,
                                       .capture = capture,
                                       .share = share,
                                       .exchange = exchange,
                                       .replay = replay,
                                       .wait = nothing,
                                       .host = host,
                                       .result = result,
                                       .time = time_run,
                                       .wait_oldest = nothing,
                                       .close = close_cpu};

dlr_device *dlr_cpu_new(dl_arena *arena) {
    cpu *c = DL_NEW(arena, cpu);
    c->prepared = -1;
    c->base = (dlr_device){.table = &table, .ahead = 1};
    return &c->base;
}
