#include "runtime/exec.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/object.h"
#include "runtime/memory.h"
#include "runtime/state.h"

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

/* A parameter, and where it is kept in another type, too. */
typedef struct {
    dlr_view from, to;
} copy;

struct dlr_exec {
    const dl_plan *plan;
    dl_arena *arena; /* of the tables below */
    dlr_pool *pool;
    dlr_memory memory; /* arena | workspace | scratch of thread 0 | of thread 1 | ... */
    char *workspace, *scratch;
    size_t scratch_stride;
    dl_object *objects;
    int nobjects; /* loaded */
    code *codes;  /* one a kernel */
    launch **programs;
    DL_ARRAY(copy) copies;
    bool stale; /* the host has written a parameter that has a copy */
};

static bool load_objects(dlr_exec *e, dl_error *err) {
    e->objects = DL_NEWS(e->arena, dl_object, e->plan->objects.n);
    for (; e->nobjects < e->plan->objects.n; e->nobjects++) {
        const dl_plan_object *o = &e->plan->objects.at[e->nobjects];
        if (!dl_object_load(&e->objects[e->nobjects], o->image, o->bytes, err)) return false;
    }
    return true;
}

static bool resolve_kernels(dlr_exec *e, dl_error *err) {
    e->codes = DL_NEWS(e->arena, code, e->plan->kernels.n);
    for (int i = 0; i < e->plan->kernels.n; i++) {
        const dl_plan_kernel *k = &e->plan->kernels.at[i];
        for (int p = 0; p < k->phases; p++) {
            const char *symbol = dl_format(e->arena, "%s_%d", k->symbol, p);
            void *address = dl_object_find(&e->objects[k->object], symbol);
            if (!address)
                return dl_fail(
                    err, DL_INPUT,
                    "the plan's object %d holds no function %s for kernel '%s': the plan was made by another "
                    "build; compile the model again",
                    k->object, symbol, k->name);
            memcpy(&e->codes[i].phase[p], &address,
                   sizeof address); /* C has no cast from object to function */
        }
    }
    return true;
}

static bool map_memory(dlr_exec *e, dl_error *err) {
    int threads = dlr_pool_threads(e->pool);
    if (!dlr_memory_map(&e->memory, (size_t)dl_plan_peak(e->plan, threads), e->pool, err)) return false;
    e->workspace = e->memory.base + dl_plan_round(e->plan->arena_bytes);
    e->scratch = e->workspace + dl_plan_round(e->plan->workspace_bytes);
    e->scratch_stride = (size_t)dl_plan_round(e->plan->scratch_bytes);
    return true;
}

static void bind_launches(dlr_exec *e) {
    e->programs = DL_NEWS(e->arena, launch *, e->plan->programs.n);
    for (int i = 0; i < e->plan->programs.n; i++) {
        const dl_plan_program *p = &e->plan->programs.at[i];
        e->programs[i] = DL_NEWS(e->arena, launch, p->launches.n);
        for (int j = 0; j < p->launches.n; j++) {
            const dl_plan_launch *from = &p->launches.at[j];
            char **arg = DL_NEWS(e->arena, char *, from->nargs);
            for (int a = 0; a < from->nargs; a++) arg[a] = e->memory.base + from->args[a];
            e->programs[i][j] = (launch){&e->codes[from->kernel], &e->plan->kernels.at[from->kernel], arg};
        }
    }
}

/* Nobody writes these later: they are there from the start. */
static void write_tables(dlr_exec *e) {
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (v->role == DL_VAR_TABLE)
            dlr_state_write(e, (dlr_view){&v->type, e->memory.base + v->offset}, DL_F64, v->numbers.at);
    }
}

static void find_copies(dlr_exec *e) {
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (v->role != DL_VAR_COPY) continue;
        copy c = {dlr_exec_variable(e, v->of), {&v->type, e->memory.base + v->offset}};
        dl_push(e->arena, &e->copies, c);
    }
}

/* Piece by piece, since the two may lie in different layouts. */
static void renew_copies(dlr_exec *e) {
    float piece[1 << 14];
    for (int i = 0; i < e->copies.n; i++) {
        const copy *c = &e->copies.at[i];
        int64_t all = dl_type_count(c->to.type), most = sizeof piece / sizeof *piece;
        for (dlr_range r = {0}; r.first < all; r.first += r.n) {
            r.n = all - r.first < most ? all - r.first : most;
            dlr_state_read_range(e, c->from, r, DL_F32, piece);
            dlr_state_write_range(e, c->to, r, DL_F32, piece);
        }
    }
    e->stale = false;
}

void dlr_exec_written(dlr_exec *e, const void *data) {
    for (int i = 0; i < e->copies.n && !e->stale; i++) e->stale = e->copies.at[i].from.data == data;
}

dlr_exec *dlr_exec_open(const dl_plan *plan, int threads, dl_error *err) {
    if (!dl_plan_check(plan, err)) return NULL;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_exec *e = DL_NEW(arena, dlr_exec);
    e->plan = plan, e->arena = arena;
    e->pool = dlr_pool_open(threads, err);
    if (e->pool && load_objects(e, err) && resolve_kernels(e, err) && map_memory(e, err)) {
        bind_launches(e);
        write_tables(e);
        find_copies(e);
        return e;
    }
    dlr_exec_close(e);
    return NULL;
}

void dlr_exec_close(dlr_exec *e) {
    if (!e) return;
    dlr_pool_close(e->pool);
    while (e->nobjects > 0) dl_object_unload(&e->objects[--e->nobjects]);
    dlr_memory_unmap(&e->memory);
    dl_arena_free(e->arena);
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

static void run_launch(dlr_exec *e, const launch *l) {
    phase p = {
        .scratch = e->scratch, .workspace = e->workspace, .scratch_stride = e->scratch_stride, .arg = l->arg};
    for (int j = 0; j < l->kernel->phases; j++) {
        p.run = l->code->phase[j];
        dlr_pool_run(e->pool, l->kernel->units[j], run_unit, &p);
    }
}

void dlr_exec_run_launch(dlr_exec *e, int program, int number) {
    run_launch(e, &e->programs[program][number]);
}

void dlr_exec_run(dlr_exec *e, int program, int64_t *launch_ns) {
    if (e->stale) renew_copies(e);
    const launch *launches = e->programs[program];
    int n = e->plan->programs.at[program].launches.n;
    int64_t before = launch_ns ? dl_clock_ns() : 0;
    for (int i = 0; i < n; i++) {
        run_launch(e, &launches[i]);
        if (launch_ns) {
            int64_t after = dl_clock_ns();
            launch_ns[i] = after - before;
            before = after;
        }
    }
}

int dlr_exec_program(const dlr_exec *e, const char *name) {
    const dl_plan_program *p = dl_plan_program_find(e->plan, name);
    return p ? (int)(p - e->plan->programs.at) : -1;
}

dlr_view dlr_exec_variable(const dlr_exec *e, const char *name) {
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (strcmp(v->name, name) == 0) return (dlr_view){&v->type, e->memory.base + v->offset};
    }
    return (dlr_view){0};
}

dlr_view dlr_exec_result(const dlr_exec *e, int program, dl_result_role role, const char *name) {
    const dl_plan_program *p = &e->plan->programs.at[program];
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role == role && (!name || strcmp(r->name, name) == 0))
            return (dlr_view){&r->type, e->memory.base + r->offset};
    }
    return (dlr_view){0};
}

const dl_plan *dlr_exec_plan(const dlr_exec *e) { return e->plan; }
dlr_pool *dlr_exec_pool(const dlr_exec *e) { return e->pool; }
char *dlr_exec_arena(const dlr_exec *e) { return e->memory.base; }
