#include "runtime/checkpoint/snapshot.h"

static int64_t bytes_of(const dl_type *t, int64_t n) {
    return dl_plan_round(n * dl_dtype_bytes(t->dtype));
}

/* Offsets are multiples of a cache line. */
static void add(dlr_snapshot *s, int64_t *end, dlr_view view, dlr_range range) {
    dl_push(s->arena, &s->extents, (dlr_extent){view, range, *end});
    *end += bytes_of(view.type, range.n);
}

/* Lists the ranges to copy; returns their bytes. Sharded tensors are not copied where the whole is
 * gathered into memory of its own. */
static int64_t list_extents(dlr_snapshot *s, const dl_plan *plan, const dlr_shards *shards) {
    int64_t end = 0;
    for (int i = 0; !shards && i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        if (!dlr_tensors_keeps(v) || dl_plan_piece(v)) continue;
        add(s, &end, (dlr_view){.type = &v->type, .offset = v->offset},
            (dlr_range){0, dl_type_count(&v->type)});
    }
    for (int i = 0; shards && i < shards->n_own; i++) {
        const dlr_tensors *t = &shards->own[i].tensors;
        for (int k = 0; k < t->n; k++)
            add(s, &end, t->views[k], (dlr_range){t->first[k], dlr_shard_count(t, k)});
    }
    return end;
}

int64_t dlr_snapshot_bytes(const dl_plan *plan, const dlr_shards *shards) {
    dlr_snapshot s = {.arena = dl_arena_new(NULL)};
    int64_t bytes = list_extents(&s, plan, shards);
    for (int i = 0; !shards && i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        dl_type whole = dl_piece_whole(v->type, &v->piece);
        if (dlr_tensors_keeps(v) && dl_plan_piece(v))
            bytes += bytes_of(&whole, dl_type_count(&whole));
    }
    dl_arena_free(s.arena);
    return bytes;
}

bool dlr_snapshot_open(dlr_snapshot *s, dlr_exec *exec, const dlr_shards *shards, dl_error *err) {
    *s = (dlr_snapshot){.exec = exec, .arena = dl_arena_new(NULL)};
    int64_t bytes = list_extents(s, dlr_exec_plan(exec), shards);
    return dlr_memory_map(&s->memory, (size_t)bytes, dlr_exec_pool(exec), err);
}

void dlr_snapshot_close(dlr_snapshot *s) {
    dlr_memory_unmap(&s->memory);
    dl_arena_free(s->arena);
    *s = (dlr_snapshot){0};
}

bool dlr_snapshot_take(dlr_snapshot *s, dl_error *err) {
    for (int i = 0; i < s->extents.n; i++) {
        const dlr_extent *e = &s->extents.at[i];
        dlr_state_read_range(s->exec, e->view, e->range, e->view.type->dtype,
                             s->memory.base + e->place);
    }
    return dlr_exec_check(s->exec, err);
}

void dlr_tensors_borrow_snapshot(const dlr_snapshot *s, dlr_tensors *t) {
    for (int i = 0; i < s->extents.n; i++) {
        const dlr_extent *e = &s->extents.at[i];
        for (int k = 0; k < t->n; k++)
            if (!t->list[k].data && t->views[k].offset == e->view.offset &&
                (t->first ? t->first[k] : 0) == e->range.first)
                t->list[k].data = s->memory.base + e->place;
    }
}
