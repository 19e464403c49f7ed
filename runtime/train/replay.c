#include "runtime/train/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/tensors.h"
#include "runtime/data/loader.h"
#include "runtime/formats/log.h"
#include "runtime/train/feed.h"

typedef struct {
    const char *path;
    int64_t batch; /* samples of one rank */
    int ranks;
} replay_options;

typedef struct {
    dlr_st_file *file;
    int64_t batch, batches;
    int ranks;
} replay;

static const dlr_st_tensor *find(const replay *r, const dlr_array *a, int64_t index,
                                 char name[512]) {
    snprintf(name, 512, "%.480s.%lld", a->name, (long long)index);
    return dlr_st_find(r->file, name);
}

/* ---- checks ---- */

/* As it stands in the file: the samples of all ranks. */
static dl_type whole(const replay *r, const dlr_array *a) {
    if (a->per_batch) return a->type;
    dl_type all = dl_scalar(a->type.dtype);
    dl_type_push(&all, "N", r->batch * r->ranks);
    for (int i = 0; i < a->type.rank; i++)
        dl_type_push(&all, a->type.axis[i].name, a->type.axis[i].size);
    return all;
}

static bool fits(const dlr_st_tensor *have, const dl_type *want) {
    bool same = dlr_tensors_loads(have->dtype, want->dtype) && have->rank == want->rank;
    for (int i = 0; same && i < want->rank; i++) same = have->shape[i] == want->axis[i].size;
    return same;
}

static bool check_batch(const dlr_dataset *d, int64_t index, dl_error *err) {
    const replay *r = d->state;
    char name[512];
    for (int i = 0; i < d->arrays.n; i++) {
        const dl_type want = whole(r, &d->arrays.at[i]);
        const dlr_st_tensor *have = find(r, &d->arrays.at[i], index, name);
        if (!have)
            return dl_fail(err, DL_INPUT, "%s has no tensor '%s', which the model wants as %s",
                           r->file->path, name, dl_type_text(&want));
        if (fits(have, &want)) continue;
        dl_buf shape = {0};
        for (int k = 0; k < have->rank; k++)
            dl_putf(&shape, "%s%lld", k ? ", " : "", (long long)have->shape[k]);
        dl_fail(err, DL_INPUT,
                "%s: '%s' is %s[%s], but the model wants %s (set local_batch_size and the model's "
                "sizes to match)",
                r->file->path, name, dlr_st_dtype_name(have->dtype), shape.at ? shape.at : "",
                dl_type_text(&want));
        dl_buf_free(&shape);
        return false;
    }
    return true;
}

static bool check(const dlr_dataset *d, dl_error *err) {
    replay *r = d->state;
    char name[512];
    while (find(r, &d->arrays.at[0], r->batches, name)) r->batches++;
    for (int64_t i = 0; i < r->batches || i == 0; i++)
        if (!check_batch(d, i, err)) return false;
    int64_t all = r->batches * d->arrays.n;
    return (int64_t)r->file->n == all ||
           dl_fail(err, DL_INPUT,
                   "%s holds %d tensors, but %lld batches of %d have %lld: is one missing, or "
                   "misnamed?",
                   r->file->path, r->file->n, (long long)r->batches, d->arrays.n, (long long)all);
}

/* ---- samples ---- */

enum { CHUNK = 512 };

/* f64 of another float, exactly as f32 has it. */
static bool widen(const replay *r, const dlr_st_tensor *from, int64_t n, double *out,
                  dl_error *err) {
    float chunk[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t here = n - at < CHUNK ? n - at : CHUNK;
        dlr_st_tensor part = dlr_st_part(from, at, here);
        if (!dlr_st_load_f32(r->file, &part, chunk, err)) return false;
        for (int64_t i = 0; i < here; i++) out[at + i] = (double)chunk[i];
    }
    return true;
}

static bool widen_whole(const replay *r, const dlr_st_tensor *from, int64_t n, int64_t *out,
                        dl_error *err) {
    int32_t chunk[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t here = n - at < CHUNK ? n - at : CHUNK;
        dlr_st_tensor part = dlr_st_part(from, at, here);
        if (!dlr_st_load(r->file, &part, chunk, err)) return false;
        for (int64_t i = 0; i < here; i++) out[at + i] = chunk[i];
    }
    return true;
}

static bool narrow_whole(const replay *r, const dlr_st_tensor *from, int64_t n, int32_t *out,
                         dl_error *err) {
    int64_t chunk[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t here = n - at < CHUNK ? n - at : CHUNK;
        dlr_st_tensor part = dlr_st_part(from, at, here);
        if (!dlr_st_load(r->file, &part, chunk, err)) return false;
        for (int64_t i = 0; i < here; i++) {
            if (chunk[i] < INT32_MIN || chunk[i] > INT32_MAX)
                return dl_fail(err, DL_INPUT, "%s: '%.200s' holds %lld, which is no i32",
                               r->file->path, from->name, (long long)chunk[i]);
            out[at + i] = (int32_t)chunk[i];
        }
    }
    return true;
}

static bool load(const replay *r, const dlr_st_tensor *from, dl_dtype dtype, int64_t n, void *out,
                 dl_error *err) {
    if (from->dtype == dlr_tensors_dtype(dtype)) return dlr_st_load(r->file, from, out, err);
    switch (dtype) {
    case DL_F64: return widen(r, from, n, out, err);
    case DL_I64: return widen_whole(r, from, n, out, err);
    case DL_I32: return narrow_whole(r, from, n, out, err);
    default: return dlr_st_load_f32(r->file, from, out, err);
    }
}

/* Sample number `sample` of all ranks is the ring's i-th of rank `rank` in batch `index`
 * (dlr_prefetch_options). In the file a rank's samples are contiguous. */
static bool read_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                        void *scratch, dl_error *err) {
    (void)epoch, (void)scratch;
    const replay *r = d->state;
    int64_t rank = sample % r->ranks, i = sample / r->ranks % r->batch,
            index = sample / r->ranks / r->batch;
    char name[512];
    for (int k = 0; k < d->arrays.n; k++) {
        const dlr_array *a = &d->arrays.at[k];
        int64_t n = dl_type_count(&a->type), row = a->per_batch ? 0 : rank * r->batch + i;
        dlr_st_tensor part = dlr_st_part(find(r, a, index, name), row * n, n);
        if (!load(r, &part, a->type.dtype, n, out[k], err)) return false;
    }
    return true;
}

/* ---- the data set ---- */

static bool open_replay(dlr_dataset *d, const void *options, dl_error *err) {
    const replay_options *o = options;
    replay *r = malloc(sizeof *r);
    if (!r) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    *r = (replay){
        .file = dlr_st_open(o->path, DLR_ST_INPUT, err), .batch = o->batch, .ranks = o->ranks};
    d->state = r;
    if (!r->file || !check(d, err)) return false;
    d->samples = r->batches * r->batch * r->ranks;
    return true;
}

static void close_replay(dlr_dataset *d) {
    replay *r = d->state;
    if (r) dlr_st_close(r->file);
    free(r);
}

static const dlr_loader replay_loader = {
    .name = "replay", .open = open_replay, .sample = read_sample, .close = close_replay};

dlr_dataset *dlr_replay_open(const char *path, const dlr_exec *exec, const dlr_run_ranks *ranks,
                             dl_error *err) {
    const dl_plan *plan = dlr_exec_plan(exec);
    dlr_arrays arrays = {0};
    replay_options o = {path, plan->batch, ranks->data_ranks ? ranks->data_ranks : 1};
    if (!dlr_feed_arrays_exactly(exec, &arrays, err)) return NULL;
    if (!arrays.n) return dl_fail(err, DL_INPUT, "the model has no input to replay into"), NULL;
    dlr_dataset_options common = {.split = DLR_TRAIN, .arrays = &arrays};
    dlr_dataset *d = dlr_dataset_open(&replay_loader, &o, &common, err);
    if (d)
        dlr_log_info("replaying %lld batches of %s",
                     (long long)(dlr_dataset_samples(d) / (o.batch * o.ranks)), path);
    return d;
}
