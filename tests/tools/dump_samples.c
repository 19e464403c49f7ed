/* Writes the samples of a configuration's data set to standard output, each array as its numbers
 * lie in memory.
 *
 * dump_samples train|valid EPOCH MODEL.dl [FILE.yaml] [--key=value...]: first a line "SAMPLES name
 * type;
 * ...", then sample after sample. With DUMP_DEVICE in the environment, a target
 * (cuda:sm_90a:emulated), that device makes them of the files' numbers, all in one batch; with
 * DUMP_HELD, too, of numbers that it holds. */
#include <stdio.h>
#include <stdlib.h>

#include "compiler/target/backend.h"
#include "runtime/formats/log.h"
#include "runtime/setup/dataset_options.h"
#include "runtime/train/feed.h"

static int fail(const dl_error *err) {
    fprintf(stderr, "%s\n", err->message);
    return err->code;
}

static void put_head(const dlr_dataset *d) {
    const dlr_arrays *arrays = dlr_dataset_arrays(d);
    printf("%lld", (long long)dlr_dataset_samples(d));
    for (int k = 0; k < arrays->n; k++)
        printf("%s%s %s", k ? ";" : " ", arrays->at[k].name, dl_type_text(&arrays->at[k].type));
    printf("\n");
}

/* ---- by the host ---- */

static bool write_samples(const dlr_dataset *d, int64_t epoch, dl_error *err) {
    const dlr_arrays *arrays = dlr_dataset_arrays(d);
    void *out[DLR_MAX_ARRAYS] = {NULL},
         *scratch = aligned_alloc(64, (dlr_dataset_scratch(d) + 63) / 64 * 64 + 64);
    put_head(d);
    for (int k = 0; k < arrays->n; k++) out[k] = malloc(dlr_array_bytes(&arrays->at[k]) + 1);
    bool ok = true;
    for (int64_t i = 0; ok && i < dlr_dataset_samples(d); i++) {
        ok = dlr_dataset_sample(d, epoch, i, out, scratch, err);
        for (int k = 0; ok && k < arrays->n; k++)
            fwrite(out[k], 1, dlr_array_bytes(&arrays->at[k]), stdout);
    }
    for (int k = 0; k < arrays->n; k++) free(out[k]);
    free(scratch);
    return ok;
}

/* ---- by a device ---- */

/* A plan that is nothing but these inputs, for all samples. */
static dl_plan *plan_of(dl_arena *arena, const dlr_dataset *d, const char *target, dl_error *err) {
    const dlr_arrays *arrays = dlr_dataset_arrays(d);
    const dl_target *t = dl_target_find(arena, target, err);
    if (!t || !t->backend->feed) return NULL;
    dl_plan *p = DL_NEW(arena, dl_plan);
    *p = (dl_plan){
        .arena = arena, .model = "samples", .target = t->name, .batch = dlr_dataset_samples(d)};
    for (int k = 0; k < arrays->n; k++) {
        const dlr_array *a = &arrays->at[k];
        dl_type type = dl_scalar(a->type.dtype);
        dl_type_push(&type, "N", p->batch);
        for (int i = 0; i < a->type.rank; i++)
            dl_type_push(&type, a->type.axis[i].name, a->type.axis[i].size);
        dl_push(arena, &p->vars,
                ((dl_plan_var){.name = a->name,
                               .role = a->is_target ? DL_VAR_TARGET : DL_VAR_INPUT,
                               .type = type,
                               .offset = p->arena_bytes}));
        p->arena_bytes += dl_plan_round(dl_type_bytes(&type));
    }
    dl_buf source = {0};
    int compiled;
    t->backend->feed(&source, t);
    dl_push(arena, &p->objects, ((dl_plan_object){.source = dl_strdup(arena, source.at)}));
    dl_buf_free(&source);
    return t->backend->build(arena, 1, p->objects.at, t, NULL, &compiled, err) ? p : NULL;
}

static void put_made(const dlr_feed *f, const dlr_dataset *d) {
    const char *made[DLR_MAX_ARRAYS];
    for (int k = 0; k < f->n; k++) {
        size_t n = (size_t)dl_type_bytes(f->view[k].type);
        made[k] = memcpy(malloc(n + 1), dlr_exec_host(f->exec, f->view[k], DLR_READ), n);
    }
    put_head(d);
    for (int64_t i = 0; i < dlr_dataset_samples(d); i++)
        for (int k = 0; k < f->n; k++) {
            size_t n = dlr_array_bytes(&dlr_dataset_arrays(d)->at[k]);
            fwrite(made[k] + (size_t)i * n, 1, n, stdout);
        }
    for (int k = 0; k < f->n; k++) free((char *)made[k]);
}

static bool make_samples(dl_arena *arena, const dlr_dataset *d, int64_t epoch, const char *target,
                         dl_error *err) {
    dlr_feed feed;
    dlr_prefetch_raw raw;
    dlr_batch batch;
    dl_plan *p = plan_of(arena, d, target, err);
    dlr_exec *e = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 1}, err) : NULL;
    bool ok =
        e && dlr_feed_open(&feed, e, dlr_dataset_arrays(d), err) && dlr_feed_gathers(&feed, d, err);
    if (ok) dlr_feed_raw_options(&feed, &raw);
    raw.held = getenv("DUMP_HELD") != NULL;
    dlr_log_set_level(DLR_WARNING);
    if (ok && raw.held) ok = dlr_feed_hold(&feed, (const dlr_dataset *const[2]){d}, err);
    dlr_prefetch_options o = {.batch = (int)dlr_dataset_samples(d), .world = 1, .raw = &raw};
    dlr_prefetch *ring = ok ? dlr_prefetch_start(d, &o, err) : NULL;
    if (ring) dlr_prefetch_seek(ring, epoch, 0);
    ok = ring && dlr_prefetch_next(ring, &batch, err);
    if (ok) dlr_feed_batch(&feed, &batch), put_made(&feed, d);
    dlr_prefetch_stop(ring);
    if (ok) ok = dlr_exec_check(e, err);
    dlr_exec_close(e);
    return ok;
}

int main(int argc, char **argv) {
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    if (argc < 4) return DL_USAGE;
    dlr_split split = strcmp(argv[1], "train") == 0 ? DLR_TRAIN : DLR_VALID;
    dl_config *c = dl_config_open(arena, argc - 2, argv + 2, NULL, &err);
    if (!c || !dl_config_take_model(c, &err)) return fail(&err);
    dl_session *s = dl_session_open(arena, c, 1, NULL, &err);
    if (!s || !dl_samples_resolve(c, &err)) return fail(&err);
    dlr_dataset *d = dl_samples_open(arena, s, split, DLR_OPEN_FOR_USE, &err);
    const char *device = getenv("DUMP_DEVICE");
    if (!d || !(device ? make_samples(arena, d, atoll(argv[2]), device, &err)
                       : write_samples(d, atoll(argv[2]), &err)))
        return fail(&err);
    dlr_dataset_close(d);
    dl_session_close(s);
    dl_arena_free(arena);
    return 0;
}
