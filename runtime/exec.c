#include "runtime/exec.h"

#include <string.h>

#include "runtime/state.h"

/* A parameter, and where it is kept in another type, too. */
typedef struct {
    dlr_view from, to;
} copy;

struct dlr_exec {
    const dl_plan *plan;
    dlr_exec_options options;
    dl_arena *arena; /* of the tables below */
    dlr_pool *pool;
    dlr_device *device;
    DL_ARRAY(copy) copies;
    dlr_time *times; /* room for a run's launches */
    dlr_timeline timeline;
    bool stale; /* the host has written a parameter that has a copy */
};

/* Nobody writes these later: they are there from the start. */
static void write_tables(dlr_exec *e) {
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (v->role == DL_VAR_TABLE)
            dlr_state_write(e, (dlr_view){.type = &v->type, .offset = v->offset}, DL_F64, v->numbers.at);
    }
}

static void find_copies(dlr_exec *e) {
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (v->role != DL_VAR_COPY) continue;
        copy c = {dlr_exec_variable(e, v->of), {.type = &v->type, .offset = v->offset}};
        dl_push(e->arena, &e->copies, c);
    }
}

/* Piece by piece, since the two may lie in different layouts. */
void dlr_exec_renew(dlr_exec *e) {
    if (!e->stale) return;
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

void dlr_exec_written(dlr_exec *e, dlr_view view) {
    for (int i = 0; i < e->copies.n && !e->stale; i++) e->stale = e->copies.at[i].from.offset == view.offset;
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
    e->device =
        e->pool ? dlr_device_open(plan, options.device, e->pool, &options.ranks, options.guards, err) : NULL;
    if (e->device) {
        write_tables(e);
        find_copies(e);
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
    if (!e->device->base) return true; /* a device waits by itself */
    return s.kind != DL_STEP_WAIT || dlr_exchange_done(e->device->exchange, program, s.number);
}

void dlr_exec_start(dlr_exec *e, int program) {
    dlr_exec_renew(e);
    e->device->table->capture(e->device, program);
    e->device->table->replay(e->device, program);
}

void dlr_exec_take(dlr_exec *e) { e->device->table->take(e->device); }
void dlr_exec_watch(dlr_exec *e, dlr_timeline *timeline) {
    timeline->ncopies = 0;
    e->device->table->watch(e->device, timeline);
}
void dlr_exec_observe(dlr_exec *e, dlr_seen_fn *seen, void *context) {
    e->device->seen = seen, e->device->seen_by = context;
}
int dlr_exec_ahead(const dlr_exec *e) { return e->device->ahead; }

void dlr_exec_run(dlr_exec *e, int program, int64_t *launch_ns) {
    if (launch_ns) {
        e->timeline.launches = e->times;
        dlr_exec_watch(e, &e->timeline);
    }
    dlr_exec_start(e, program);
    dlr_exec_take(e);
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

dlr_view dlr_exec_variable(const dlr_exec *e, const char *name) {
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (strcmp(v->name, name) == 0) return (dlr_view){&v->type, v->offset, dl_plan_piece(v)};
    }
    return (dlr_view){0};
}

dlr_view dlr_exec_state(const dlr_exec *e, const char *what, const char *param) {
    const size_t n = strlen(what);
    for (int i = 0; i < e->plan->vars.n; i++) {
        const dl_plan_var *v = &e->plan->vars.at[i];
        if (!v->of || strcmp(v->of, param) != 0 || strncmp(v->name, what, n) != 0) continue;
        const char *rest = v->name + n + strspn(v->name + n, ".");
        if (v->name[n] == '.' && strcmp(rest, param) == 0)
            return (dlr_view){&v->type, v->offset, dl_plan_piece(v)};
    }
    return (dlr_view){0};
}

dlr_view dlr_exec_result(const dlr_exec *e, int program, dl_result_role role, const char *name) {
    const dl_plan_program *p = &e->plan->programs.at[program];
    for (int i = 0; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role != role || (name && strcmp(r->name, name) != 0)) continue;
        const dl_var_piece *piece = role == DL_RESULT_GRAD ? dl_plan_piece(&e->plan->vars.at[r->var]) : NULL;
        return (dlr_view){&r->type, r->offset, piece};
    }
    return (dlr_view){0};
}

void *dlr_exec_host(const dlr_exec *e, dlr_view v, dlr_access access) {
    if (e->device->base) return e->device->base + v.offset;
    return e->device->table->host(e->device, v.offset, dl_type_bytes(v.type), access);
}

bool dlr_exec_gathers(const dlr_exec *e) { return e->device->gathers; }

void *dlr_exec_gather(const dlr_exec *e, dlr_view v, int64_t batch, void *there) {
    if (!e->device->gathers) return NULL;
    return e->device->table->gather(e->device, v.offset, dl_type_bytes(v.type), batch, there);
}

bool dlr_exec_hold(const dlr_exec *e, int64_t bytes, dl_error *err) {
    return e->device->table->hold(e->device, bytes, err);
}

void dlr_exec_put(const dlr_exec *e, int64_t at, const void *from, int64_t bytes) {
    e->device->table->put(e->device, at, from, bytes);
}

bool dlr_exec_pin(const dlr_exec *e, void *memory, int64_t bytes, dl_error *err) {
    return e->device->table->pin(e->device, memory, bytes, err);
}

void dlr_exec_unpin(const dlr_exec *e, void *memory) { e->device->table->unpin(e->device, memory); }
void dlr_exec_sent(const dlr_exec *e) { e->device->table->sent(e->device); }

const void *dlr_exec_scalar(const dlr_exec *e, dlr_view v) {
    return e->device->table->result(e->device, v.offset, dl_type_bytes(v.type));
}

const dlr_ranks *dlr_exec_ranks(const dlr_exec *e) { return &e->options.ranks; }
const dlr_exec_options *dlr_exec_opened(const dlr_exec *e) { return &e->options; }
const dl_plan *dlr_exec_plan(const dlr_exec *e) { return e->plan; }
dlr_pool *dlr_exec_pool(const dlr_exec *e) { return e->pool; }
char *dlr_exec_arena(const dlr_exec *e) { return e->device->base; }

void *dlr_exec_data(const dlr_exec *e, dlr_view v) {
    return v.type && e->device->base ? e->device->base + v.offset : NULL;
}
