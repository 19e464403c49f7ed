/* The ring of batches: the same samples for any number of workers and ranks, from any place, and
 * errors where due. */
#include "ir/base/file_calls.h"
#include "runtime/data/prefetch.h"
#include "tests/check.h"
#include "tests/unit/data_files.h"

enum { S = 6, INPUT = 2 * S * S * S, TARGET = 3 * S * S * S };
static char dir[] = "/tmp/dl_prefetch_XXXXXX", path[100];

enum { IN_FILE, IN_MEMORY };
static dlr_dataset *open_split(dlr_split split, bool in_memory, int64_t samples) {
    test_crops o = {.crops = {.path = path, .samples = samples, .in_memory = in_memory},
                    .split = split,
                    .input_channels = 2,
                    .target_channels = 3,
                    .size = S,
                    .seed = 3};
    dl_error err = {0};
    dlr_dataset *d = open_crops(&o, &err);
    CHECK(d != NULL, "%s", err.message);
    return d;
}

/* The next `n` batches, inputs and targets in one array; the places are checked against (epoch,
 * index) onwards. */
static float *take(dlr_prefetch *p, int batch, int n, int64_t epoch, int64_t index) {
    size_t each = (size_t)batch * (INPUT + TARGET);
    float *all = malloc((size_t)n * each * sizeof *all);
    for (int i = 0; i < n; i++) {
        dlr_batch b;
        dl_error err = {0};
        bool ok = dlr_prefetch_next(p, &b, &err);
        CHECK(ok, "%s", err.message);
        if (!ok) break;
        CHECK(b.epoch == epoch && b.index == index, "%d.%d, not %d.%d", (int)b.epoch, (int)b.index,
              (int)epoch, (int)index);
        CHECK(((uintptr_t)b.data[0] & 63) == 0 && ((uintptr_t)b.data[1] & 63) == 0 &&
              b.arrays->n == 2);
        memcpy(all + (size_t)i * each, b.data[0], (size_t)batch * INPUT * sizeof *all);
        memcpy(all + (size_t)i * each + (size_t)batch * INPUT, b.data[1],
               (size_t)batch * TARGET * sizeof *all);
        if (++index == dlr_prefetch_batches(p)) index = 0, epoch++;
    }
    return all;
}

static bool equal(const float *a, const float *b, int batch, int n) {
    return memcmp(a, b, (size_t)n * (size_t)batch * (INPUT + TARGET) * sizeof *a) == 0;
}

static dlr_prefetch *start(const dlr_dataset *d, dlr_prefetch_options o) {
    dl_error err = {0};
    dlr_prefetch *p = dlr_prefetch_start(d, &o, &err);
    CHECK(p != NULL, "%s", err.message);
    return p;
}

/* Two epochs and a bit, for 0, 1, 2 and 5 workers, rings of 1 to 4 batches, every loader of files.
 */
static void test_workers(void) {
    enum { BATCH = 4, N = 13 };
    static const int workers[] = {0, 1, 2, 5};
    static const char *const places[] = {"in the file", "in memory"};
    float *want = NULL;
    for (int l = 0; l < 2; l++) {
        dlr_dataset *d = open_split(DLR_TRAIN, l == IN_MEMORY, 23);
        for (int k = 0; k < 4; k++)
            for (int depth = 0; depth < 5; depth++) {
                dlr_prefetch *p = start(
                    d, (dlr_prefetch_options){BATCH, 0, 1, workers[k], depth, NULL, false, false});
                CHECK(dlr_prefetch_batches(p) == 5 && dlr_dataset_samples(d) == 5 * BATCH + 3);
                float *got = take(p, BATCH, N, 0, 0);
                if (want)
                    CHECK(equal(got, want, BATCH, N), "%s, %d workers, depth %d", places[l],
                          workers[k], depth);
                else
                    want = got;
                if (got != want) free(got);
                dlr_prefetch_stop(p);
            }
        dlr_dataset_close(d);
    }
    /* Another epoch, other crops. */
    CHECK(!equal(want, want + 5 * BATCH * (INPUT + TARGET), BATCH, 5));
    free(want);
}

/* Batch b, sample i of rank r is sample (b B + i) W + r of the epoch; together the ranks cover what
 * one rank would. A last batch that is not full ends with copies of the last sample, which the
 * batch does not count. */
static void test_ranks(bool partial) {
    enum { WORLD = 3, BATCH = 2, ALL = 3 * BATCH * WORLD + 2 };
    dlr_dataset *d = open_split(DLR_TRAIN, IN_FILE, 20);
    float x[INPUT], t[TARGET];
    void *scratch = malloc(dlr_dataset_scratch(d));
    for (int rank = 0; rank < WORLD; rank++) {
        dlr_prefetch *p =
            start(d, (dlr_prefetch_options){BATCH, rank, WORLD, 2, 0, NULL, false, partial});
        CHECK(dlr_prefetch_batches(p) == 3 + partial && dlr_dataset_samples(d) == ALL);
        for (int b = 0; b < 3 + partial; b++) {
            float *got = take(p, BATCH, 1, 0, b);
            for (int i = 0; i < BATCH; i++) {
                dl_error err = {0};
                int sample = (b * BATCH + i) * WORLD + rank;
                if (sample >= ALL) sample = ALL - 1;
                CHECK(sample_pair(d, 0, sample, x, t, scratch, &err));
                CHECK(memcmp(got + i * INPUT, x, sizeof x) == 0 &&
                          memcmp(got + BATCH * INPUT + i * TARGET, t, sizeof t) == 0,
                      "rank %d batch %d sample %d", rank, b, i);
            }
            free(got);
        }
        dlr_prefetch_seek(p, 0, 2);
        dlr_batch batch;
        dl_error err = {0};
        CHECK(dlr_prefetch_next(p, &batch, &err) && batch.samples == BATCH &&
              batch.of_all == BATCH * WORLD);
        if (partial) /* samples 18 and 19 are of ranks 0 and 1 */
            CHECK(dlr_prefetch_next(p, &batch, &err) && batch.samples == (rank < 2) &&
                      batch.of_all == 2,
                  "rank %d counts %lld of %lld", rank, (long long)batch.samples,
                  (long long)batch.of_all);
        dlr_prefetch_stop(p);
    }
    free(scratch);
    dlr_dataset_close(d);
}

static void test_seek(void) {
    enum { BATCH = 3, N = 14 };
    dlr_dataset *d = open_split(DLR_TRAIN, IN_FILE, 15);
    for (int workers = 0; workers < 4; workers++) {
        dlr_prefetch *p =
            start(d, (dlr_prefetch_options){BATCH, 0, 1, workers, 0, NULL, false, false});
        float *whole = take(p, BATCH, N, 0, 0);
        static const int places[] = {13, 0, 0, 7, 8, 1, 12};
        for (int k = 0; k < 7; k++) {
            int at = places[k], n = N - at < 3 ? N - at : 3;
            dlr_prefetch_seek(p, at / 5, at % 5);
            float *got = take(p, BATCH, n, at / 5, at % 5);
            CHECK(equal(got, whole + (size_t)at * BATCH * (INPUT + TARGET), BATCH, n),
                  "%d workers, from %d", workers, at);
            free(got);
        }
        dlr_prefetch_seek(p, 1000000, 4); /* far: nothing is replayed */
        free(take(p, BATCH, 2, 1000000, 4));
        free(whole);
        dlr_prefetch_stop(p);
    }
    dlr_dataset_close(d);
}

/* Every epoch is validated on the same crops. */
static void test_validation(void) {
    dlr_dataset *d = open_split(DLR_VALID, IN_FILE, 8);
    dlr_prefetch *p = start(d, (dlr_prefetch_options){2, 0, 1, 2, 0, NULL, false, false});
    float *first = take(p, 2, 4, 0, 0), *second = take(p, 2, 4, 1, 0);
    CHECK(equal(first, second, 2, 4));
    free(first), free(second);
    dlr_prefetch_stop(p);
    dlr_dataset_close(d);
}

/* One ring turned from training to validation and back, at any moment: what two rings give. */
static void test_turn(void) {
    enum { BATCH = 2, N = 5 };
    dl_error err = {0};
    dlr_dataset *train = open_split(DLR_TRAIN, IN_FILE, 11),
                *valid = open_split(DLR_VALID, IN_MEMORY, 7);
    dlr_dataset *few = open_split(DLR_VALID, IN_FILE, 1);
    for (int workers = 0; workers < 4; workers++) {
        dlr_prefetch *one =
            start(valid, (dlr_prefetch_options){BATCH, 0, 1, workers, 0, NULL, false, false});
        float *want_valid = take(one, BATCH, 3, 0, 0);
        dlr_prefetch_stop(one);
        dlr_prefetch *p =
            start(train, (dlr_prefetch_options){BATCH, 0, 1, workers, 0, NULL, false, false});
        float *want = take(p, BATCH, N, 0, 0);
        for (int round = 0; round < 4; round++) {
            CHECK(dlr_prefetch_switch(p, valid, false, 0, 0, &err) && dlr_prefetch_batches(p) == 3,
                  "%s", err.message);
            float *got = take(p, BATCH, 1 + round % 3, 0, 0);
            CHECK(equal(got, want_valid, BATCH, 1 + round % 3), "%d workers, validation %d",
                  workers, round);
            free(got);
            CHECK(dlr_prefetch_switch(p, train, false, 0, 0, &err) && dlr_prefetch_batches(p) == 5,
                  "%s", err.message);
            got = take(p, BATCH, N - round, 0, 0);
            CHECK(equal(got, want, BATCH, N - round), "%d workers, training %d", workers, round);
            free(got);
        }
        dl_error refused = {0};
        CHECK(!dlr_prefetch_switch(p, few, false, 0, 0, &refused) && refused.code == DL_USAGE);
        dlr_prefetch_seek(p, 0, 0);
        float *got = take(p, BATCH, N, 0, 0);
        CHECK(equal(got, want, BATCH, N), "%d workers, after a refusal", workers);
        free(got), free(want), free(want_valid);
        dlr_prefetch_stop(p);
    }
    dlr_dataset_close(train), dlr_dataset_close(valid), dlr_dataset_close(few);
}

/* A ring that is turned at the end of an epoch reads nothing ahead beyond it, and yet goes on where
 * it is not turned. */
static void test_switched_between(void) {
    enum { BATCH = 2, N = 5 };
    dlr_dataset *d = open_split(DLR_TRAIN, IN_FILE, BATCH * N);
    dl_file_calls before = dl_file_calls_so_far();
    dlr_prefetch *p = start(d, (dlr_prefetch_options){BATCH, 0, 1, 0, 0, NULL, false, false});
    float *want = take(p, BATCH, 2 * N, 0, 0);
    dl_file_calls two = dl_file_calls_since(&before);
    dlr_prefetch_stop(p);
    for (int workers = 1; workers < 4; workers++) {
        before = dl_file_calls_so_far();
        p = start(d, (dlr_prefetch_options){BATCH, 0, 1, workers, 0, NULL, true, false});
        float *got = take(p, BATCH, N, 0, 0);
        dlr_prefetch_fill(p);
        dl_file_calls one = dl_file_calls_since(&before);
        CHECK(two.bytes > 0 && 2 * one.bytes == two.bytes && 2 * one.reads == two.reads,
              "%d workers: %lld bytes of %lld", workers, (long long)one.bytes,
              (long long)two.bytes);
        float *more = take(p, BATCH, N, 1, 0);
        dlr_prefetch_fill(p);
        CHECK(dl_file_calls_since(&before).bytes == two.bytes,
              "%d workers: no more than two epochs", workers);
        CHECK(equal(got, want, BATCH, N) &&
                  equal(more, want + BATCH * N * (INPUT + TARGET), BATCH, N),
              "%d workers", workers);
        free(got), free(more);
        dlr_prefetch_stop(p);
    }
    free(want);
    dlr_dataset_close(d);
}

/* The file is cut while batches are read: the error comes at `next`, again and again, and goes when
 * the file is back. */
static void test_errors_surface(void) {
    char copy[120];
    snprintf(copy, sizeof copy, "%s/cut.h5", dir);
    for (int workers = 0; workers < 3; workers++) {
        write_volumes(copy, 16, PLAIN, H5T_IEEE_F32LE, 0);
        test_crops o = {.crops = {.path = copy, .samples = 64},
                        .input_channels = 2,
                        .target_channels = 3,
                        .size = S,
                        .seed = 3};
        dl_error err = {0};
        dlr_dataset *d = open_crops(&o, &err);
        CHECK(d != NULL, "%s", err.message);
        dlr_prefetch *p = start(d, (dlr_prefetch_options){4, 0, 1, workers, 2, NULL, false, false});
        free(take(p, 4, 2, 0, 0));
        CHECK(truncate(copy, 4096) == 0);
        dlr_batch b;
        int good = 0;
        while (good < 8 && dlr_prefetch_next(p, &b, &err)) good++;
        CHECK(good <= 2 && err.code == DL_IO && strstr(err.message, "ends too early"),
              "%d good, %s", good, err.message);
        dl_error again = {0};
        CHECK(!dlr_prefetch_next(p, &b, &again) && strcmp(again.message, err.message) == 0, "%s",
              again.message);
        write_volumes(copy, 16, PLAIN, H5T_IEEE_F32LE,
                      0); /* the same file, filled again in place */
        dlr_prefetch_seek(p, 5, 5);
        free(take(p, 4, 1, 5, 5));
        dlr_prefetch_stop(p);
        dlr_dataset_close(d);
    }
    unlink(copy);
}

static void test_stop_any_time(void) {
    dlr_dataset *d = open_split(DLR_TRAIN, IN_FILE, 64);
    for (int i = 0; i < 30; i++) {
        dlr_prefetch *p = start(d, (dlr_prefetch_options){4, 0, 1, i % 4, 0, NULL, false, false});
        free(take(p, 4, i % 5, 0, 0));
        if (i % 3 == 0) dlr_prefetch_seek(p, 2, 1);
        dlr_prefetch_stop(p);
    }
    dlr_prefetch_stop(NULL);
    dlr_dataset_close(d);
}

static void test_options(void) {
    dlr_dataset *d = open_split(DLR_TRAIN, IN_FILE, 1 << 20);
    const struct {
        dlr_prefetch_options o;
        const char *says;
    } rows[] = {
        {{0, 0, 1, 0, 0, NULL, false, false}, "local_batch_size must be 1 to 1048576, not 0"},
        {{1, 0, 1, -1, 0, NULL, false, false}, "num_data_workers must be 0 to 256, not -1"},
        {{1, 2, 2, 0, 0, NULL, false, false}, "rank 2 of 2"},
        {{1 << 20, 0, 2, 0, 0, NULL, false, false},
         "training has 1048576 samples, which fill no batch of 1048576 on each of 2 ranks"},
        {{1, 0, 1, 1, 2000, NULL, false, false}, "ring of 2000 batches"},
        {{1 << 20, 0, 1, 1, 1024, NULL, false, false},
         "use a smaller local_batch_size"}, /* 4.4 TiB */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dl_error err = {0};
        dlr_prefetch *p = dlr_prefetch_start(d, &rows[i].o, &err);
        CHECK(!p && (err.code == DL_USAGE || err.code == DL_RESOURCE) &&
                  strstr(err.message, rows[i].says),
              "%s", err.message);
        dlr_prefetch_stop(p);
    }
    dlr_dataset_close(d);
}

int main(void) {
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/volumes.h5", dir);
    write_volumes(path, 20, PLAIN, H5T_IEEE_F32LE, 0);
    test_workers();
    test_ranks(false), test_ranks(true);
    test_seek();
    test_validation();
    test_turn();
    test_switched_between();
    test_errors_surface();
    test_stop_any_time();
    test_options();
    unlink(path);
    CHECK(rmdir(dir) == 0);
    return dl_test_end();
}
