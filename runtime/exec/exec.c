#include "runtime/exec/exec.h"

#include "runtime/exec/exec_internal.h"
#include "runtime/exec/state.h"

/* Constant tables: nothing writes them later, so they are set once here. */
static void write_tables(dlr_exec *e) {
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (v->role == DL_VAR_TABLE)
            dlr_state_write(e, (dlr_view){.type = &v->type, .offset = v->offset}, DL_F64,
                            v->numbers.at);
    }
}

static void find_variables(dlr_exec *e) {
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (dl_plan_is_fed(v)) dl_push(e->arena, &e->fed, v->offset);
        if (v->role != DL_VAR_COPY) continue;
        dlr_exec_copy c = {.from = dlr_exec_variable(e, v->of),
                           .to = {.type = &v->type, .offset = v->offset}};
        dl_push(e->arena, &e->copies, c);
    }
}

/* Converts piece by piece, since the two may have different layouts. */
static void refresh_copy(dlr_exec *e, const dlr_exec_copy *c) {
    float piece[1 << 14];
    int64_t all = dl_type_count(c->to.type), most = sizeof piece / sizeof *piece;
    for (dlr_range r = {0}; r.first < all; r.first += r.n) {
        r.n = all - r.first < most ? all - r.first : most;
        dlr_state_read_range(e, c->from, r, DL_F32, piece);
        dlr_state_write_range(e, c->to, r, DL_F32, piece);
    }
}

void dlr_exec_refresh_copies(dlr_exec *e) {
    for (int i = 0; i < e->copies.n; i++) {
        if (!e->copies.at[i].stale) continue;
        refresh_copy(e, &e->copies.at[i]);
        e->copies.at[i].stale = false;
    }
}

static int most_launches(const dl_plan *plan) {
    int most = 0;
    for (int i = 0; i < plan->programs.n; i++)
        if (plan->programs.at[i].launches.n > most) most = plan->programs.at[i].launches.n;
    return most;
}

dlr_exec *dlr_exec_open(const dl_plan *plan, dlr_exec_options options, dl_error *err) {
    if (!dl_plan_check(plan, err)) return NULL;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_exec *e = DL_NEW(arena, dlr_exec);
    e->plan = plan, e->arena = arena, e->options = options;
    e->times = DL_NEWS(arena, dlr_time, most_launches(plan) + 1);
    e->pool = dlr_pool_open(options.threads, err);
    e->device = e->pool
                    ? dlr_device_open(plan, options.device, e->pool, &options.ranks, options.guards,
                                      options.memory, options.memory_context, err)
                    : NULL;
    if (e->device) {
        find_variables(e);
        write_tables(e);
        if (dlr_exec_check(e, err)) return e;
    }
    dlr_exec_close(e);
    return NULL;
}

void dlr_exec_close(dlr_exec *e) {
    if (!e) return;
    if (e->device) e->device->table->close(e->device);
    dlr_pool_close(e->pool);
    dl_arena_free(e->arena);
}

void dlr_exec_run_launch(dlr_exec *e, int program, int number) {
    e->device->table->launch(e->device, program, number);
}

void dlr_exec_run_step(dlr_exec *e, int program, int step) {
    dl_plan_step s = dl_plan_step_at(&e->plan->programs.at[program], step);
    if (s.kind == DL_STEP_LAUNCH)
        e->device->table->launch(e->device, program, s.number);
    else
        e->device->table->exchange(e->device, program, s);
}

bool dlr_exec_can_step(const dlr_exec *e, int program, int step) {
    dl_plan_step s = dl_plan_step_at(&e->plan->programs.at[program], step);
    if (!e->device->base) return true; /* a GPU waits by itself, on its stream */
    return s.kind != DL_STEP_WAIT || dlr_exchange_done(e->device->exchange, program, s.number);
}

void dlr_exec_start(dlr_exec *e, int program) {
    dlr_exec_refresh_copies(e);
    e->device->table->capture(e->device, program);
    e->device->table->replay(e->device, program);
}

void dlr_exec_wait_oldest(dlr_exec *e) { e->device->table->wait_oldest(e->device); }
void dlr_exec_time(dlr_exec *e, dlr_timeline *timeline) {
    timeline->ncopies = 0;
    e->device->table->time(e->device, timeline);
}
void dlr_exec_observe(dlr_exec *e, dlr_seen_fn *seen, void *context) {
    e->device->seen = seen, e->device->seen_by = context;
}
int dlr_exec_ahead(const dlr_exec *e) { return e->device->ahead; }

void dlr_exec_run(dlr_exec *e, int program, int64_t *launch_ns) {
    if (launch_ns) {
        e->timeline.launches = e->times;
        dlr_exec_time(e, &e->timeline);
    }
    dlr_exec_start(e, program);
    dlr_exec_wait_oldest(e);
    for (int i = 0; launch_ns && i < e->plan->programs.at[program].launches.n; i++)
        launch_ns[i] = e->times[i].ended - e->times[i].began;
}

int64_t dlr_exec_zones(const dlr_exec *e) { return e->device->zones; }

bool dlr_exec_check(const dlr_exec *e, dl_error *err) {
    const dl_error *fault = &e->device->fault;
    return fault->code == DL_OK || dl_fail(err, fault->code, "%s", fault->message);
}

bool dlr_exec_memory(const dlr_exec *e, dlr_device_memory *memory) {
    return e->device->table->memory && e->device->table->memory(e->device, memory);
}

int dlr_exec_program(const dlr_exec *e, const char *name) {
    const dl_plan_program *p = dl_plan_program_find(e->plan, name);
    return p ? (int)(p - e->plan->programs.at) : -1;
}

const dlr_ranks *dlr_exec_ranks(const dlr_exec *e) { return &e->options.ranks; }
const dlr_exec_options *dlr_exec_opened(const dlr_exec *e) { return &e->options; }
