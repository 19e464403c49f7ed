/* Synthetic data: its distribution, and equal draws for equal seeds. */
#include "tests/unit/data_sets.h"

#include "runtime/data/noise.h"
#include "tests/check.h"

/* Noise by the model's types: normal numbers, or classes each as likely; the same at each epoch,
 * others for each sample, split and seed. */
static void add_array(dlr_arrays *arrays, const char *name, bool is_target, dl_dtype dtype,
                      int64_t n) {
    dl_error err = {0};
    dl_type t = dl_scalar(dtype);
    dl_type_push(&t, "N", 1), dl_type_push(&t, "T", n);
    CHECK(dlr_arrays_add(arrays, name, is_target, &t, &err), "%s", err.message);
}

static dlr_dataset *open_noise(const dlr_noise_options *o, const dlr_arrays *arrays,
                               dlr_split split, uint64_t seed, dl_error *err) {
    return dlr_dataset_open(&dlr_noise_loader, o,
                            &(dlr_dataset_options){split, seed, arrays, false, DLR_OPEN_FOR_USE},
                            err);
}

void test_synthetic(void) {
    enum { X = 3 * 17 * 5, T = 7, CLASSES = 11, SAMPLES = 400 };
    dl_error err = {0};
    dlr_arrays arrays = {0};
    add_array(&arrays, "x", false, DL_F32, X), add_array(&arrays, "t", true, DL_I32, T);
    dlr_noise_options o = {.samples = SAMPLES, .classes = {0, CLASSES}};
    dlr_dataset *d = open_noise(&o, &arrays, DLR_TRAIN, 11, &err);
    dlr_dataset *valid = open_noise(&o, &arrays, DLR_VALID, 11, &err);
    dlr_dataset *other = open_noise(&o, &arrays, DLR_TRAIN, 12, &err);
    CHECK(d && valid && other, "%s", err.message);
    if (!d || !valid || !other) return;
    CHECK(bytes_of(d, 0) == X * 4 && bytes_of(d, 1) == T * 4 && !dlr_dataset_held(d));
    float x[X], first[X];
    int32_t t[T];
    double sum = 0, squares = 0;
    int counts[CLASSES] = {0}, wrong = 0;
    for (int s = 0; s < SAMPLES; s++) {
        CHECK(sample_pair(d, s % 3, s, x, t, NULL, &err), "%s", err.message);
        for (int i = 0; i < X; i++) sum += x[i], squares += (double)x[i] * x[i];
        for (int i = 0; i < T; i++) {
            int k = t[i];
            if (k < 0 || k >= CLASSES)
                wrong++;
            else
                counts[k]++;
        }
        if (s == 0) memcpy(first, x, sizeof x);
        CHECK(s == 0 || memcmp(first, x, sizeof x) != 0);
    }
    CHECK(wrong == 0, "%d", wrong);
    CHECK_NEAR(sum / (SAMPLES * X), 0, 0.01);
    CHECK_NEAR(squares / (SAMPLES * X), 1, 0.02);
    for (int k = 0; k < CLASSES; k++)
        CHECK_NEAR(counts[k], SAMPLES * T / (double)CLASSES, 64); /* 4 deviations */
    sample_pair(d, 5, 0, x, t, NULL, &err);
    CHECK(memcmp(first, x, sizeof x) == 0, "another epoch, the same sample");
    sample_pair(valid, 0, 0, x, t, NULL, &err);
    CHECK(memcmp(first, x, sizeof x) != 0, "validation is other data");
    sample_pair(other, 0, 0, x, t, NULL, &err);
    CHECK(memcmp(first, x, sizeof x) != 0, "another seed is, too");
    dlr_dataset_close(d), dlr_dataset_close(valid), dlr_dataset_close(other);
}

void test_uniform_noise(void) {
    enum { X = 101, T = 9, SAMPLES = 400, BINS = 8 };
    dl_error err = {0};
    dlr_arrays arrays = {0};
    add_array(&arrays, "x", false, DL_F32, X), add_array(&arrays, "t", true, DL_I32, T);
    dlr_noise_options o = {.samples = SAMPLES, .uniform = true, .classes = {0, 5}};
    dlr_dataset *d = open_noise(&o, &arrays, DLR_TRAIN, 11, &err);
    o.uniform = false;
    dlr_dataset *normal = open_noise(&o, &arrays, DLR_TRAIN, 11, &err);
    CHECK(d && normal, "%s", err.message);
    if (!d || !normal) return;
    float x[X], y[X];
    int32_t t[T], u[T];
    int counts[BINS] = {0}, outside = 0;
    double sum = 0, squares = 0;
    for (int s = 0; s < SAMPLES; s++) {
        CHECK(sample_pair(d, 0, s, x, t, NULL, &err) && sample_pair(normal, 0, s, y, u, NULL, &err),
              "%s", err.message);
        CHECK(memcmp(t, u, sizeof t) == 0);
        for (int i = 0; i < X; i++) {
            bool inside = x[i] >= 0 && x[i] < 1;
            outside += !inside, sum += x[i], squares += (double)x[i] * x[i];
            if (inside) counts[(int)(x[i] * BINS)]++;
        }
    }
    CHECK(outside == 0, "%d", outside);
    CHECK_NEAR(sum / (SAMPLES * X), 0.5, 0.006); /* 4 deviations */
    CHECK_NEAR(squares / (SAMPLES * X), 1 / 3.0, 0.006);
    for (int k = 0; k < BINS; k++) CHECK_NEAR(counts[k], SAMPLES * X / (double)BINS, 266);
    dlr_dataset_close(d), dlr_dataset_close(normal);
}

void test_redrawn_noise(void) {
    enum { X = 31, T = 9 };
    dl_error err = {0};
    dlr_arrays arrays = {0};
    add_array(&arrays, "x", false, DL_F32, X), add_array(&arrays, "t", true, DL_F32, T);
    dlr_noise_options o = {.samples = 4};
    dlr_dataset *still = open_noise(&o, &arrays, DLR_TRAIN, 11, &err);
    o.redraw = true;
    dlr_dataset *d = open_noise(&o, &arrays, DLR_TRAIN, 11, &err);
    dlr_dataset *valid = open_noise(&o, &arrays, DLR_VALID, 11, &err);
    CHECK(still && d && valid, "%s", err.message);
    if (!still || !d || !valid) return;
    float x[3][X], t[3][T], other[X], unused[T];
    for (int epoch = 0; epoch < 3; epoch++)
        CHECK(sample_pair(d, epoch, 1, x[epoch], t[epoch], NULL, &err), "%s", err.message);
    CHECK(memcmp(x[0], x[1], sizeof *x) && memcmp(x[1], x[2], sizeof *x) &&
          memcmp(x[0], x[2], sizeof *x));
    CHECK(memcmp(t[0], t[1], sizeof *t) && memcmp(t[1], t[2], sizeof *t) &&
          memcmp(t[0], t[2], sizeof *t));
    sample_pair(still, 2, 1, other, unused, NULL, &err);
    CHECK(memcmp(x[0], other, sizeof other) == 0, "the first epoch is what it was");
    sample_pair(d, 2, 1, other, unused, NULL, &err);
    CHECK(memcmp(x[2], other, sizeof other) == 0, "asked for again");
    sample_pair(valid, 0, 1, x[0], t[0], NULL, &err),
        sample_pair(valid, 2, 1, x[1], t[1], NULL, &err);
    CHECK(memcmp(x[0], x[1], sizeof *x) == 0, "validation compares epochs on the same data");
    dlr_dataset_close(still), dlr_dataset_close(d), dlr_dataset_close(valid);
}

void test_synthetic_arrays(void) {
    enum { T = 50 };
    static const dl_dtype dtypes[] = {DL_F32, DL_BF16, DL_I32, DL_I64, DL_BOOL};
    static const int64_t classes[] = {0, 0, 7, 7, 2};
    dl_error err = {0};
    dlr_arrays few = {0}, many = {0};
    dlr_noise_options o = {.samples = 4};
    add_array(&few, "a", false, DL_F32, T);
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = {"a", "b", "c", "d", "e"};
        add_array(&many, names[i], false, dtypes[i], T);
        o.classes[i] = classes[i];
    }
    CHECK(many.at[1].type.dtype == DL_F32 && many.at[3].type.dtype == DL_I64,
          "a sample's floats are f32");
    dlr_dataset *one = open_noise(&o, &few, DLR_TRAIN, 5, &err),
                *all = open_noise(&o, &many, DLR_TRAIN, 5, &err);
    dlr_dataset *valid = open_noise(&o, &many, DLR_VALID, 5, &err);
    CHECK(one && all && valid, "%s", err.message);
    if (!one || !all || !valid) return;
    float a[T], alone[T], b[T], v[T];
    int32_t c[T], vc[T];
    int64_t d[T], vd[T];
    uint8_t e[T], ve[T];
    CHECK(dlr_dataset_sample(one, 0, 2, (void *[]){alone}, NULL, &err));
    CHECK(dlr_dataset_sample(all, 0, 2, (void *[]){a, b, c, d, e}, NULL, &err));
    CHECK(dlr_dataset_sample(valid, 0, 2, (void *[]){v, v, vc, vd, ve}, NULL, &err));
    CHECK(memcmp(a, alone, sizeof a) == 0 && memcmp(a, b, sizeof a) != 0 &&
          memcmp(c, vc, sizeof c) != 0);
    int wrong = 0, same = 0, ones = 0;
    for (int i = 0; i < T; i++) {
        wrong += c[i] < 0 || c[i] >= 7 || d[i] < 0 || d[i] >= 7 || e[i] > 1;
        same += c[i] == d[i], ones += e[i];
    }
    CHECK(wrong == 0 && same < T / 2 && ones > 0 && ones < T, "%d %d %d", wrong, same, ones);
    dlr_dataset_close(one), dlr_dataset_close(all), dlr_dataset_close(valid);
    CHECK(!open_noise(&(dlr_noise_options){.samples = 0}, &few, DLR_TRAIN, 5, &err) &&
          err.code == DL_USAGE);
    err = (dl_error){0}, o.classes[2] = 0;
    CHECK(!open_noise(&o, &many, DLR_TRAIN, 5, &err) &&
              strstr(err.message, "i32[T=50] and 0 classes"),
          "%s", err.message);
    err = (dl_error){0};
    dl_type bare = dl_scalar(DL_F32);
    CHECK(!dlr_arrays_add(&few, "s", false, &bare, &err) && err.code == DL_INPUT, "%s",
          err.message);
    err = (dl_error){0};
    dl_type_push(&bare, "N", 1);
    while (few.n < DLR_MAX_ARRAYS)
        CHECK(dlr_arrays_add(&few, "s", false, &bare, &err), "%s", err.message);
    CHECK(!dlr_arrays_add(&few, "s", false, &bare, &err) && err.code == DL_INPUT, "%s",
          err.message);
}
