#include "runtime/snapshot.h"

#include "runtime/state.h"

static int64_t bytes_of(const dl_type *t) {
    return dl_plan_round(dl_type_count(t) * dl_dtype_bytes(t->dtype));
}

/* The next place of a variable that is copied; false for one that is not: what is not kept, and what ranks
 * hold in pieces, whose whole is gathered into memory of its own. Places are multiples of a line of the
 * cache, in the plan's order. */
static bool next_place(const dl_plan_var *v, int64_t *end, int64_t *place) {
    if (!dlr_tensors_keeps(v) || dl_plan_piece(v)) return false;
    *place = *end;
    *end += bytes_of(&v->type);
    return true;
}

static int64_t copied(const dl_plan *plan) {
    int64_t end = 0, place;
    for (int i = 0; i < plan->vars.n; i++) next_place(&plan->vars.at[i], &end, &place);
    return end;
}

int64_t dlr_snapshot_bytes(const dl_plan *plan) {
    int64_t bytes = copied(plan);
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        dl_type whole = dl_piece_whole(v->type, &v->piece);
        if (dlr_tensors_keeps(v) && dl_plan_piece(v)) bytes += bytes_of(&whole);
    }
    return bytes;
}

bool dlr_snapshot_open(dlr_snapshot *s, dlr_exec *exec, dl_error *err) {
    *s = (dlr_snapshot){.exec = exec};
    return dlr_memory_map(&s->memory, (size_t)copied(dlr_exec_plan(exec)), dlr_exec_pool(exec), err);
}

void dlr_snapshot_close(dlr_snapshot *s) { dlr_memory_unmap(&s->memory); }

bool dlr_snapshot_take(dlr_snapshot *s, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(s->exec);
    int64_t end = 0, place;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (!next_place(v, &end, &place)) continue;
        dlr_state_read(s->exec, (dlr_view){.type = &v->type, .offset = v->offset}, v->type.dtype,
                       s->memory.base + place);
    }
    return dlr_exec_check(s->exec, err);
}

void dlr_snapshot_lend(const dlr_snapshot *s, dlr_tensors *t) {
    const dl_plan *p = dlr_exec_plan(s->exec);
    int64_t end = 0, place;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (!next_place(v, &end, &place)) continue;
        for (int k = 0; k < t->n; k++)
            if (!t->list[k].data && t->views[k].offset == v->offset) t->list[k].data = s->memory.base + place;
    }
}
