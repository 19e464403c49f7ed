/* Batches from a file of tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/tensors.h"
#include "runtime/train/feed.h"

struct dlr_replay {
    dl_arena *arena;
    dlr_exec *exec;
    dlr_st_file *file;
    DL_ARRAY(const dl_plan_var *) vars;
    DL_ARRAY(dlr_view) views;
    int64_t batches;
    int rank, ranks;
    void *buffer;
};

static const dlr_st_tensor *find(const dlr_replay *r, int var, int64_t index, char name[512]) {
    snprintf(name, 512, "%.480s.%lld", r->vars.at[var]->name, (long long)index);
    return dlr_st_find(r->file, name);
}

/* As it stands in the file: the samples of all ranks. */
static dl_type whole(const dlr_replay *r, const dl_type *t) {
    dl_type all = *t;
    if (all.rank && strcmp(all.axis[0].name, "N") == 0) all.axis[0].size *= r->ranks;
    return all;
}

static bool fits(const dlr_st_tensor *have, const dl_type *want) {
    bool same = dlr_tensors_loads(have->dtype, want->dtype) && have->rank == want->rank;
    for (int i = 0; same && i < want->rank; i++) same = have->shape[i] == want->axis[i].size;
    return same;
}

static bool check_batch(const dlr_replay *r, int64_t index, dl_error *err) {
    char name[512];
    for (int i = 0; i < r->vars.n; i++) {
        const dl_type all = whole(r, r->views.at[i].type), *want = &all;
        const dlr_st_tensor *have = find(r, i, index, name);
        if (!have)
            return dl_fail(err, DL_INPUT, "%s has no tensor '%s', which the model wants as %s",
                           r->file->path, name, dl_type_text(want));
        if (fits(have, want)) continue;
        dl_buf shape = {0};
        for (int k = 0; k < have->rank; k++)
            dl_putf(&shape, "%s%lld", k ? ", " : "", (long long)have->shape[k]);
        dl_fail(err, DL_INPUT,
                "%s: '%s' is %s[%s], but the model wants %s (set local_batch_size and the model's "
                "sizes to "
                "match)",
                r->file->path, name, dlr_st_dtype_name(have->dtype), shape.at ? shape.at : "",
                dl_type_text(want));
        dl_buf_free(&shape);
        return false;
    }
    return true;
}

static bool check(dlr_replay *r, dl_error *err) {
    char name[512];
    while (find(r, 0, r->batches, name)) r->batches++;
    for (int64_t i = 0; i < r->batches || i == 0; i++)
        if (!check_batch(r, i, err)) return false;
    if ((int64_t)r->file->n != r->batches * r->vars.n)
        return dl_fail(
            err, DL_INPUT,
            "%s holds %d tensors, but %lld batches of %d have %lld: is one missing, or misnamed?",
            r->file->path, r->file->n, (long long)r->batches, r->vars.n,
            (long long)(r->batches * r->vars.n));
    return true;
}

dlr_replay *dlr_replay_open(const char *path, dlr_exec *exec, int rank, int ranks, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    dl_arena *arena = dl_arena_new(NULL);
    dlr_replay *r = DL_NEW(arena, dlr_replay);
    *r = (dlr_replay){.arena = arena,
                      .exec = exec,
                      .rank = rank,
                      .ranks = ranks,
                      .file = dlr_st_open(path, DLR_ST_INPUT, err)};
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (!dl_plan_is_fed(v)) continue;
        dl_push(arena, &r->vars, v);
        dl_push(arena, &r->views, dlr_exec_variable(exec, v->name));
    }
    bool ok = r->file &&
              (r->vars.n > 0 || dl_fail(err, DL_INPUT, "the model has no input to replay into"));
    if (ok && check(r, err)) {
        r->buffer = malloc(DLR_ST_PIECE);
        if (r->buffer || dl_fail(err, DL_RESOURCE, "no memory for a batch of %s", path)) return r;
    }
    dlr_replay_close(r);
    return NULL;
}

int64_t dlr_replay_batches(const dlr_replay *r) { return r->batches; }

bool dlr_replay_feed(dlr_replay *r, int64_t index, dl_error *err) {
    char name[512];
    for (int i = 0; i < r->vars.n; i++) {
        const dl_type *own = r->views.at[i].type, all = whole(r, own);
        int64_t n = dl_type_count(own), first = dl_type_count(&all) > n ? n * r->rank : 0;
        dlr_st_tensor part = dlr_st_part(find(r, i, index, name), first, n);
        if (!dlr_tensor_load(r->exec, r->views.at[i], r->file, &part, r->buffer, err)) return false;
    }
    return true;
}

void dlr_replay_close(dlr_replay *r) {
    if (!r) return;
    free(r->buffer);
    dlr_st_close(r->file);
    dl_arena_free(r->arena);
}
