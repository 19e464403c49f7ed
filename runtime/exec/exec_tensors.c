#include "runtime/exec/exec_tensors.h"

#include <string.h>

#include "runtime/exec/exec_internal.h"

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
        const dl_var_piece *piece =
            role == DL_RESULT_GRAD ? dl_plan_piece(&e->plan->vars.at[r->var]) : NULL;
        return (dlr_view){&r->type, r->offset, piece};
    }
    return (dlr_view){0};
}

/* Does the host write this tensor for each batch? */
static bool is_fed(const dlr_exec *e, int64_t offset) {
    bool any = false;
    for (int i = 0; i < e->fed.n; i++) any |= e->fed.at[i] == offset;
    return any;
}

/* The host is about to write the tensor: what was made of it is no longer valid. */
static void note_write(const dlr_exec *e, int64_t offset) {
    if (is_fed(e, offset)) return;
    e->device->written++;
    for (int i = 0; i < e->copies.n; i++)
        e->copies.at[i].stale |= e->copies.at[i].from.offset == offset;
}

void *dlr_exec_host(const dlr_exec *e, dlr_view v, dlr_access access) {
    if (access != DLR_READ) note_write(e, v.offset);
    if (e->device->base) return e->device->base + v.offset;
    return e->device->table->host(e->device, v.offset, dl_type_bytes(v.type), access);
}

bool dlr_exec_gathers(const dlr_exec *e) { return e->device->gathers; }

void *dlr_exec_input_gather(const dlr_exec *e, dlr_view v, int64_t batch, void *there) {
    if (!e->device->gathers) return NULL;
    return e->device->table->input_gather(e->device, v.offset, dl_type_bytes(v.type), batch, there);
}

bool dlr_exec_allocate_dataset(const dlr_exec *e, int64_t bytes, dl_error *err) {
    return e->device->table->allocate_dataset(e->device, bytes, err);
}

void dlr_exec_upload(const dlr_exec *e, int64_t at, const void *from, int64_t bytes) {
    e->device->table->upload(e->device, at, from, bytes);
}

bool dlr_exec_pin(const dlr_exec *e, void *memory, int64_t bytes, dl_error *err) {
    return e->device->table->pin(e->device, memory, bytes, err);
}

void dlr_exec_unpin(const dlr_exec *e, void *memory) { e->device->table->unpin(e->device, memory); }

void dlr_exec_wait_staged(const dlr_exec *e) { e->device->table->wait_staged(e->device); }

const void *dlr_exec_scalar(const dlr_exec *e, dlr_view v) {
    return e->device->table->result(e->device, v.offset, dl_type_bytes(v.type));
}

const dl_plan *dlr_exec_plan(const dlr_exec *e) { return e->plan; }

dlr_pool *dlr_exec_pool(const dlr_exec *e) { return e->pool; }

char *dlr_exec_arena(const dlr_exec *e) { return e->device->base; }

void *dlr_exec_data(const dlr_exec *e, dlr_view v) {
    return v.type && e->device->base ? e->device->base + v.offset : NULL;
}
