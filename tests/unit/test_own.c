/* Data of one's own by options alone: blocks of any shape and order put together, threads,
 * statistics, faults. What numpy says of samples is tests/e2e/check_own_data.py's; here every
 * access is under the sanitizers. */
#include "runtime/data/array_dataset.h"
#include "runtime/data/array_dataset_statistics.h"
#include "tests/check.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/dl_own_XXXXXX";

static const char *in_dir(const char *name) {
    static char path[8][300];
    static int turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

/* A .npy file of f4 whose numbers count up from `first`. */
static void write_counting(const char *path, const char *shape, int n, float first) {
    char head[128];
    int length = snprintf(head + 10, sizeof head - 10,
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
    memcpy(head, "\x93NUMPY\1\0", 8);
    head[8] = (char)length, head[9] = 0;
    FILE *f = fopen(path, "wb");
    fwrite(head, 1, (size_t)length + 10, f);
    for (int i = 0; i < n; i++) fwrite(&(float){first + (float)i}, 4, 1, f);
    fclose(f);
}

/* The model's inputs: x [N, C=2, D=3, H=3, W=4] of a file [9, 4, 6, 2, 5]: N, H, W, C, D; or of
 * another size along W, of which every step-th element is taken. */
static int files_w = 6;
static int64_t step_w = 1;
enum { C = 2, D = 3, H = 3, W = 4, NUMBERS = C * D * H * W, FILES_D = 5, FILES_H = 4, SAMPLES = 9 };

static dlr_arrays arrays_of_model(void) {
    static const char *const names[] = {"N", "C", "D", "H", "W"};
    static const int sizes[] = {2, C, D, H, W};
    dl_error err = {0};
    dlr_arrays arrays = {0};
    dl_type t = dl_scalar(DL_F32);
    for (int i = 0; i < 5; i++) dl_type_push(&t, names[i], sizes[i]);
    CHECK(dlr_arrays_add(&arrays, "x", false, &t, &err), "%s", err.message);
    return arrays;
}

static const char *const axes[] = {"N", "H", "W", "C", "D"}, *const moved[] = {"W"},
                         *const turned[] = {"D", "H"}, *const flipped[] = {"D", "H", "W"};

static dlr_array_dataset_variable variable; /* the one that `options` names */

static dlr_array_dataset_options options(const char *const *file) {
    variable = (dlr_array_dataset_variable){.files = {file, 1}, .axes = {axes, 5}};
    return (dlr_array_dataset_options){
        .source[0] = {.key = "data.inputs.x", .variables = &variable, .n_variables = 1},
        .crop = DLR_CROP_RANDOM,
        .flip = {flipped, 3},
        .rotate = {turned, 2},
        .shift = {moved, step_w == 1}, /* an axis is taken in steps or moved round */
        .step_axes = {moved, 1},
        .steps = &step_w,
        .split = {.kind = DLR_SPLIT_RANGE, .range = {{0, 7}, {7, 9}}},
        .samples = 60};
}

static dlr_dataset *open_set(const dlr_array_dataset_options *o, dlr_split split, dl_error *err) {
    dlr_arrays arrays = arrays_of_model();
    return dlr_dataset_open(&dlr_array_dataset_loader, o,
                            &(dlr_dataset_options){split, 5, &arrays, false, DLR_OPEN_FOR_USE},
                            err);
}

typedef struct {
    const dlr_dataset *d;
    float (*out)[NUMBERS];
    int first, step;
    bool ok;
} reader;

static void *read_some(void *ctx) {
    reader *r = ctx;
    dl_error err = {0};
    void *scratch =
        aligned_alloc(64, dlr_dataset_scratch(r->d) + 64 - dlr_dataset_scratch(r->d) % 64);
    r->ok = true;
    for (int64_t i = r->first; i < dlr_dataset_samples(r->d); i += r->step)
        r->ok = r->ok && dlr_dataset_sample(r->d, 3, i, (void *[]){r->out[i]}, scratch, &err);
    free(scratch);
    return NULL;
}

/* Where a number of the file is from. */
static void locate(float v, int at[5]) {
    const int dims[] = {SAMPLES, FILES_H, files_w, C, FILES_D};
    int rest = (int)v;
    for (int j = 4; j >= 0; j--) at[j] = rest % dims[j], rest /= dims[j];
}

/* Neighbours along W differ by one step in the file, round its end; along D and H by one place of
 * one of these axes; channels by one channel and nothing else. */
static void check_sample(const float *x, int first, int after) {
    int a[5], b[5];
    locate(x[0], a);
    CHECK(a[0] >= first && a[0] < after, "%d", a[0]);
    for (int c = 0; c < C; c++)
        for (int d = 0; d < D; d++)
            for (int h = 0; h < H; h++)
                for (int w = 0; w < W; w++) {
                    const float *v = &x[((c * D + d) * H + h) * W + w];
                    locate(*v, a);
                    CHECK(a[3] == c, "channel %d at %d", a[3], c);
                    if (w + 1 < W) {
                        locate(v[1], b);
                        int step = (b[2] - a[2] + files_w) % files_w;
                        CHECK(a[0] == b[0] && a[1] == b[1] && a[4] == b[4] &&
                                  (step == step_w || step == files_w - step_w),
                              "W: from %d to %d of %d by %d", a[2], b[2], files_w, (int)step_w);
                    }
                    if (h + 1 < H) {
                        locate(v[W], b);
                        CHECK(a[2] == b[2] && abs(a[1] - b[1]) + abs(a[4] - b[4]) == 1, "H");
                    }
                    if (d + 1 < D) {
                        locate(v[H * W], b);
                        CHECK(a[2] == b[2] && abs(a[1] - b[1]) + abs(a[4] - b[4]) == 1, "D");
                    }
                }
}

static void test_samples(int width, int step) {
    dl_error err = {0};
    const char *file = in_dir("x.npy");
    char shape[40];
    files_w = width, step_w = step;
    snprintf(shape, sizeof shape, "9, 4, %d, 2, 5", files_w);
    write_counting(file, shape, SAMPLES * FILES_H * files_w * C * FILES_D, 0);
    dlr_array_dataset_options o = options(&file);
    for (dlr_split split = DLR_TRAIN; split <= DLR_VALID; split++) {
        dlr_dataset *d = open_set(&o, split, &err);
        CHECK(d, "%s", err.message);
        if (!d) return;
        enum { N = 60, THREADS = 3 };
        float(*one)[NUMBERS] = calloc(N, sizeof *one), (*many)[NUMBERS] = calloc(N, sizeof *many);
        CHECK(dlr_dataset_samples(d) == N, " ");
        reader alone = {d, one, 0, 1, false}, some[THREADS];
        read_some(&alone);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            some[i] = (reader){d, many, i, THREADS, false};
            pthread_create(&threads[i], NULL, read_some, &some[i]);
        }
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < THREADS; i++) CHECK(some[i].ok, "thread %d", i);
        CHECK(alone.ok && memcmp(one, many, N * sizeof *one) == 0,
              "the same for any number of threads");
        for (int i = 0; i < N; i++)
            check_sample(one[i], split == DLR_TRAIN ? 0 : 7, split == DLR_TRAIN ? 7 : 9);
        free(one), free(many);
        dlr_dataset_close(d);
    }
}

static void check_fault(const dlr_array_dataset_options *o, const char *want) {
    dl_error err = {0};
    dlr_dataset *d = open_set(o, DLR_TRAIN, &err);
    CHECK(!d && strstr(err.message, want), "'%s', not '%s'", err.message, want);
    dlr_dataset_close(d);
}

static void test_faults(void) {
    const char *file = in_dir("x.npy");
    static const char *const twice[] = {"N", "H", "H", "C", "D"}, *const nowhere[] = {"Z"},
                             *const unequal[] = {"D", "W"};
    dlr_array_dataset_options o = options(&file);
    variable.axes.at = twice;
    check_fault(&o, "axes names 'H' twice");
    o = options(&file), variable.axes.n = 4;
    check_fault(&o, "axes names 4 axes and it has 5");
    o = options(&file), o.flip.at = nowhere, o.flip.n = 1;
    check_fault(&o, "data.augment.flip: no array has an axis 'Z'");
    o = options(&file), o.split.axis = "W";
    check_fault(&o, "exceeds the 6 elements of axis W");
    o = options(&file), o.split.axis = "W", o.split.range[1][0] = 3, o.split.range[1][1] = 6,
    o.split.range[0][1] = 3;
    check_fault(&o, "along which data.augment.shift moves round");
    o = options(&file), o.crop = DLR_CROP_NONE;
    check_fault(&o, "crop: random, center or origin");
    o = options(&file), o.rotate.at = unequal; /* turns by 180 degrees alone keep the shape */
    dl_error err = {0};
    dlr_dataset *d = open_set(&o, DLR_TRAIN, &err);
    CHECK(d, "%s", err.message);
    dlr_dataset_close(d);
}

/* A file of statistics next to the data reads back as it was, and not as another's. */
static void test_statistics(void) {
    dlr_array_dataset_channel in[2] = {{0.1, 2, -1e30, 7}, {1.0 / 3, 1e-9, 0, 1}}, out[2];
    dl_buf text = {0};
    dlr_array_dataset_statistics_put(&text, 77, in, 2);
    CHECK(dlr_array_dataset_statistics_parse(text.at, 77, out, 2) &&
              memcmp(in, out, sizeof in) == 0,
          "%s", text.at);
    CHECK(!dlr_array_dataset_statistics_parse(text.at, 78, out, 2) &&
              !dlr_array_dataset_statistics_parse(text.at, 77, out, 1),
          " ");
    for (size_t n = text.n - 1; n-- > 0;) {
        text.at[n] = 0;
        if (n < text.n - 6)
            CHECK(!dlr_array_dataset_statistics_parse(text.at, 77, out, 2), "cut at %zu", n);
    }
    dl_buf_free(&text);
}

int main(void) {
    CHECK(mkdtemp(dir), " ");
    test_samples(4, 1), test_samples(8, 2), test_samples(7, 2), test_samples(12, 3);
    test_samples(15, 2);
    test_samples(6, 1);
    test_faults();
    test_statistics();
    unlink(in_dir("x.npy"));
    rmdir(dir);
    return dl_test_end();
}
