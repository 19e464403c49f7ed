/* Tensors in several files as one, against the whole; and checkpoints dealt out to ranks. */
#include <stdlib.h>
#include <unistd.h>

#include "compiler/session.h"
#include "ir/base/dirs.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/base/rng.h"
#include "runtime/checkpoint/shards.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/formats/weights.h"
#include "tests/check.h"

static dl_arena *arena;
static char *dir;
static dlr_rng noise;

static const char *in_dir(const char *name) { return dl_format(arena, "%s/%s", dir, name); }
static int below(int n) { return (int)dlr_rng_below(&noise, (uint32_t)n); }

/* ---- boxes ---- */

enum { MOST = 4, FILES = 4 };

/* A tensor of numbers 0, 1, 2, ... cut along two random axes into boxes, dealt out to files. */
typedef struct {
    int rank;
    int64_t shape[MOST];
    int64_t count;
} cube;

static int64_t number_at(const cube *c, const int64_t *at) {
    int64_t n = 0;
    for (int i = 0; i < c->rank; i++) n = n * c->shape[i] + at[i];
    return n;
}

/* The box's numbers, row-major. */
static float *box_values(const cube *c, const int64_t *from, const int64_t *shape, int64_t *count) {
    *count = 1;
    for (int i = 0; i < c->rank; i++) *count *= shape[i];
    float *values = DL_NEWS(arena, float, *count + 1);
    for (int64_t k = 0; k < *count; k++) {
        int64_t at[MOST], left = k;
        for (int i = c->rank - 1; i >= 0; i--) at[i] = from[i] + left % shape[i], left /= shape[i];
        values[k] = (float)number_at(c, at);
    }
    return values;
}

typedef struct {
    dlr_st_tensor list[64];
    dl_buf boxes;
    int n;
} file;

static void put_box(file *f, const cube *c, const char *name, const int64_t *from,
                    const int64_t *shape) {
    int64_t count;
    dlr_st_tensor *t = &f->list[f->n++];
    *t = (dlr_st_tensor){.name = name, .dtype = DLR_ST_F32, .rank = c->rank};
    for (int i = 0; i < c->rank; i++) t->shape[i] = shape[i];
    t->data = box_values(c, from, shape, &count);
    dl_putf(&f->boxes, "%s\"%s\": {\"%s\": [", f->n > 1 ? ", " : "{", name, DLR_ST_OFFSETS);
    for (int i = 0; i < c->rank; i++)
        dl_putf(&f->boxes, "%s%lld", i ? "," : "", (long long)from[i]);
    dl_puts(&f->boxes, "]}");
}

static const char *write_file(file *f, int i) {
    dl_error err = {0};
    const char *path = in_dir(dl_format(arena, "m-%d.safetensors", i));
    dl_puts(&f->boxes, f->n ? "}" : "{}");
    dlr_st_meta meta = {DLR_ST_BOXES, f->boxes.at};
    CHECK(dlr_st_write(
              path,
              &(dlr_st_content){.tensors = f->list, .n = f->n, .metadata = &meta, .n_metadata = 1},
              NULL, &err),
          "%s", err.message);
    dl_buf_free(&f->boxes);
    return path;
}

/* Whatever part of a whole is asked for, in whatever slice, has the numbers of the place. */
static void check_reading(const cube *c, const dlr_st_file *f, const dlr_st_tensor *t) {
    dl_error err = {0};
    int64_t count, from[MOST] = {0}, shape[MOST];
    memcpy(shape, c->shape, sizeof shape);
    dlr_st_tensor now = *t;
    dlr_st_slice slices[2];
    for (int cut = 0; cut < 2 && c->rank > 0; cut++) { /* a slice, and a slice of that */
        int axis = below(c->rank);
        int64_t first = below((int)shape[axis]), n = 1 + below((int)(shape[axis] - first));
        const dlr_st_tensor whole = now;
        now = dlr_st_cut(f, cut ? &whole : t, axis, first, n, &slices[cut]);
        from[axis] += first, shape[axis] = n;
        float *want = box_values(c, from, shape, &count), *have = DL_NEWS(arena, float, count);
        CHECK(now.shape[axis] == n && now.bytes == (uint64_t)count * 4 &&
                  dlr_st_load(f, &now, have, &err) && memcmp(want, have, (size_t)count * 4) == 0,
              "%s", err.message);
        int64_t at = below((int)count), some = 1 + below((int)(count - at));
        dlr_st_tensor part = dlr_st_part(&now, at, some);
        CHECK(dlr_st_load_f32(f, &part, have, &err) &&
                  memcmp(want + at, have, (size_t)some * 4) == 0,
              "%s", err.message);
    }
}

static void test_boxes(void) {
    for (int round = 0; round < 300; round++) {
        dl_error err = {0};
        file files[FILES] = {0};
        const char *paths[FILES];
        cube c = {.rank = below(MOST + 1), .count = 1};
        for (int i = 0; i < c.rank; i++) c.shape[i] = 1 + below(6), c.count *= c.shape[i];
        int a = c.rank ? below(c.rank) : 0, b = c.rank ? below(c.rank) : 0, next = below(FILES);
        /* cut along two axes, so that no file gets two boxes of it */
        int64_t at = c.rank ? below((int)c.shape[a] + 1) : 0,
                by = c.rank && b != a ? below((int)c.shape[b] + 1) : 0;
        for (int half = 0; half < (c.rank ? 4 : 1); half++) {
            int64_t from[MOST] = {0}, shape[MOST];
            memcpy(shape, c.shape, sizeof shape);
            if (c.rank) from[a] = half & 1 ? at : 0, shape[a] = half & 1 ? c.shape[a] - at : at;
            if (c.rank && b != a)
                from[b] = half & 2 ? by : 0, shape[b] = half & 2 ? c.shape[b] - by : by;
            if (c.rank && b == a && half & 2) continue;
            int64_t count = 1;
            for (int i = 0; i < c.rank; i++) count *= shape[i];
            if (count) put_box(&files[next], &c, "w", from, shape), next = (next + 1) % FILES;
        }
        put_box(&files[next], &c, "whole", (int64_t[MOST]){0}, c.shape);
        for (int i = 0; i < FILES; i++) paths[i] = write_file(&files[i], i);
        dlr_st_file *f = dlr_st_open_joined(paths, FILES, "joined", DLR_ST_PLAIN, &err);
        CHECK(f && f->n == 2, "%s", err.message);
        for (int i = 0; f && i < f->n; i++) {
            const dlr_st_tensor *t = dlr_st_find(f, i ? "whole" : "w");
            int64_t count;
            float *want = box_values(&c, (int64_t[MOST]){0}, c.shape, &count),
                  *have = DL_NEWS(arena, float, count);
            CHECK(t && t->rank == c.rank && memcmp(t->shape, c.shape, (size_t)c.rank * 8) == 0);
            CHECK(t && dlr_st_load(f, t, have, &err) && memcmp(want, have, (size_t)count * 4) == 0,
                  "%s", err.message);
            if (t) check_reading(&c, f, t);
        }
        dlr_st_close(f);
        f = dlr_st_open(paths[next], DLR_ST_PLAIN,
                        &err); /* slices of what lies in one piece, too */
        if (f) check_reading(&c, f, dlr_st_find(f, "whole"));
        dlr_st_close(f);
    }
}

/* Files that do not make a whole: the first message's words. */
static void refuse(const char *what, file *files, int n) {
    dl_error err = {0};
    const char *paths[FILES];
    for (int i = 0; i < n; i++) paths[i] = write_file(&files[i], i);
    dlr_st_file *f = dlr_st_open_joined(paths, n, "joined", DLR_ST_PLAIN, &err);
    CHECK(!f && err.code == DL_INPUT && strstr(err.message, what), "%s: %s", what, err.message);
    dlr_st_close(f);
}

static void test_refused(void) {
    const cube c = {.rank = 2, .shape = {4, 6}, .count = 24};
    int64_t zero[MOST] = {0}, half[MOST] = {2, 6}, second[MOST] = {2, 0}, third[MOST] = {1, 0};
    file gap[2] = {0}, twice[2] = {0}, overlap[2] = {0}, type[2] = {0}, none[1] = {0}, bad[1] = {0};
    put_box(&gap[0], &c, "w", second, half);
    refuse("'w' is not whole", gap, 1);
    put_box(&twice[0], &c, "w", zero, half), put_box(&twice[1], &c, "w", zero, half);
    refuse("'w' is twice there", twice, 2);
    put_box(&overlap[0], &c, "w", zero, half), put_box(&overlap[1], &c, "w", third, half);
    refuse("'w' is twice there", overlap, 2);
    put_box(&type[0], &c, "w", zero, half), put_box(&type[1], &c, "w", second, half);
    type[1].list[0].dtype = DLR_ST_I32;
    refuse("of one type", type, 2);
    put_box(&none[0], &c, "w", zero, half), none[0].boxes.n = 0;
    dl_puts(&none[0].boxes, "{\"x\": {}");
    refuse("'w' has no such saved_offsets", none, 1);
    put_box(&bad[0], &c, "w", zero, half), bad[0].boxes.n = 0;
    dl_puts(&bad[0].boxes, "{\"w\": {\"saved_offsets\": [0, 9223372036854775807]}");
    refuse("'w' has no such saved_offsets", bad, 1);
}

/* An index of Hugging Face's: the files next to it. */
static void test_index(void) {
    dl_error err = {0};
    const cube c = {.rank = 1, .shape = {5}, .count = 5};
    file files[2] = {0};
    dlr_weights w;
    const char *index = in_dir("model.safetensors.index.json");
    put_box(&files[0], &c, "module.a", (int64_t[MOST]){0}, c.shape);
    put_box(&files[1], &c, "b", (int64_t[MOST]){0}, c.shape);
    for (int i = 0; i < 2; i++) write_file(&files[i], i);
    static const char *const texts[] = {
        "{\"weight_map\": {\"module.a\": \"m-0.safetensors\", \"b\": \"m-1.safetensors\"}}", "{}",
        "{\"weight_map\": {\"a\": \"../m-0.safetensors\"}}",
        "{\"weight_map\": {\"a\": \"m-7.safetensors\"}}"};
    static const char *const faults[] = {"", "'weight_map' is missing", "'a' has no file's name",
                                         "m-7"};
    for (int i = 0; i < 4; i++) {
        err = (dl_error){0};
        CHECK(dl_write_file(index, texts[i], strlen(texts[i]), &err));
        bool ok = dlr_weights_open(index, &w, &err);
        CHECK(ok == (i == 0) && (ok || strstr(err.message, faults[i])), "%s", err.message);
        if (ok) CHECK(w.file->n == 2 && dlr_st_find(w.file, "a") && dlr_st_find(w.file, "b"));
        dlr_weights_close(&w);
    }
}

/* ---- the deal ---- */

/* Takes elements [first, first + n) of a variable that are still there. */
static void take(bool *left, int64_t all, int64_t first, int64_t n, const char *name) {
    CHECK(first >= 0 && first + n <= all, "%s: %lld elements from %lld of %lld", name, (long long)n,
          (long long)first, (long long)all);
    for (int64_t i = first; i < first + n && i < all; i++) {
        CHECK(left[i], "element %lld of %s is written twice", (long long)i, name);
        left[i] = false;
    }
}

/* Each element of each variable is dealt out to n ranks once, about evenly, and all ranks know the
 * same of it. */
static void check_deal(const dl_plan *plan, int n) {
    dl_error err = {0};
    dlr_comm **comms = dlr_comm_local(n, false);
    bool **left = DL_NEWS(arena, bool *, plan->vars.n);
    int64_t total = 0, most = 0, largest = 0, of_model = 0;
    for (int v = 0; v < plan->vars.n; v++) {
        int64_t count = dl_type_count(&plan->vars.at[v].type);
        left[v] = DL_NEWS(arena, bool, count + 1);
        memset(left[v], dlr_tensors_keeps(&plan->vars.at[v]), (size_t)count);
    }
    dlr_shards *first = NULL;
    for (int r = 0; r < n; r++) {
        dlr_ranks ranks = {.comm = comms[r]};
        dlr_shards *s = dlr_shards_plan(arena, plan, &ranks, &err);
        CHECK(s && s->n_ranks == n, "%s", err.message);
        if (!s) return;
        if (!first) first = s;
        CHECK(s->n_files == first->n_files && s->counts[r] == s->n_own &&
              strcmp(s->index, first->index) == 0);
        int at = 0;
        for (int k = 0; k < r; k++) at += s->counts[k];
        int64_t bytes = 0;
        for (int i = 0; i < s->n_own; i++) {
            const dlr_shard *own = &s->own[i];
            CHECK(strcmp(own->name, first->names[at + i]) == 0, "%s", own->name);
            bool model = strncmp(own->name, "model-", 6) == 0;
            for (int k = 0; k < own->tensors.n; k++) {
                int64_t count = dlr_shard_count(&own->tensors, k);
                for (int j = 0; j < k; j++)
                    CHECK(strcmp(own->tensors.list[j].name, own->tensors.list[k].name) != 0,
                          "a file has %s twice", own->tensors.list[k].name);
                bytes += count * (int64_t)dlr_st_dtype_size(own->tensors.list[k].dtype);
                for (int v = 0; v < plan->vars.n; v++)
                    if (strcmp(plan->vars.at[v].name, own->tensors.list[k].name) == 0) {
                        const dl_plan_var *var = &plan->vars.at[v];
                        int64_t all = dl_type_count(&var->type);
                        take(left[v], all, own->tensors.first[k], count, var->name);
                        of_model += model ? all * dl_dtype_bytes(var->type.dtype) : 0;
                        CHECK(!model || count == dl_type_count(&var->type), "%s is cut", var->name);
                        bool buffer = dlr_tensors_owner(var) == DLR_OF_BUFFERS;
                        CHECK(!buffer || r == 0, "%s is written by rank %d", var->name, r);
                    }
            }
        }
        CHECK(dlr_snapshot_bytes(plan, s) >= bytes &&
              dlr_snapshot_bytes(plan, s) <= bytes + 64 * 400);
        total += bytes;
        if (bytes > most) most = bytes;
    }
    for (int v = 0; v < plan->vars.n; v++) {
        const dl_plan_var *var = &plan->vars.at[v];
        for (int64_t i = 0; i < dl_type_count(&var->type); i++)
            CHECK(!left[v][i], "element %lld of %s is not written", (long long)i, var->name);
    }
    const char *size = dl_format(arena, "\"total_size\": %lld}", (long long)of_model);
    CHECK(first && strstr(first->index, size), "%s is not in %s", size, first->index);
    /* weights are not cut: one that is more than a share is all that its rank has */
    for (int v = 0; v < plan->vars.n; v++) {
        const dl_plan_var *var = &plan->vars.at[v];
        int64_t bytes = dl_type_count(&var->type) * dl_dtype_bytes(var->type.dtype);
        if (var->role == DL_VAR_PARAM && bytes > largest) largest = bytes;
    }
    CHECK((double)most <= 1.05 * (double)total / n || (double)most <= 1.01 * (double)largest,
          "%d ranks: %lld bytes of %lld", n, (long long)most, (long long)total);
    for (int r = 0; r < n; r++) dlr_comm_close(comms[r], NULL);
    free(comms);
}

static void test_deal(void) {
    dl_error err = {0};
    char *argv[] = {"test", "--model=tests/data/small.dl", "--data_size=8", "--local_batch_size=1",
                    NULL};
    dl_config *c = dl_config_open(arena, 4, argv, NULL, &err);
    dl_session *s = c ? dl_session_open(arena, c, 1, NULL, &err) : NULL;
    dl_compile_options opt;
    const dl_plan *plan =
        s && dl_session_options(s, NULL, &opt, &err) ? dl_session_compile(s, &opt, &err) : NULL;
    CHECK(plan, "%s", err.message);
    for (int n = 1; plan && n <= 8; n++) check_deal(plan, n);
}

int main(void) {
    dl_error err = {0};
    arena = dl_arena_new(NULL);
    noise = dlr_rng_at((dlr_rng_place){.seed = 5, .stream = DLR_STREAM_NOISE});
    dir = dl_strdup(arena, "/tmp/dl_test_XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    test_boxes();
    test_refused();
    test_index();
    test_deal();
    CHECK(dl_remove_tree(dir, &err), "%s", err.message);
    dl_arena_free(arena);
    return dl_test_end();
}
