/* System D's data: pairs, normalisation, order, files of any layout, and every fault by name. */
#include "runtime/data/prefetch.h"
#include "runtime/data/shuffle.h"
#include "runtime/data/statistics.h"
#include "runtime/data/weather.h"
#include "tests/check.h"
#include "tests/unit/data_files.h"
#include "tests/unit/written.h"

#include <math.h>
#include <sys/stat.h>

enum { C = 3, H = 6, W = 5, PLANE = H * W, FIELD = C * PLANE };
static char dir[] = "/tmp/dl_weather_XXXXXX";
static const float mean[C] = {0.5f, -20, 3e4f}, deviation[C] = {0.25f, 7, 1234.5f};

static const char *in_dir(const char *name) { return written_path(dir, name); }

/* ---- files ---- */

static float value(int y, int64_t time, int64_t c, int64_t lat, int64_t lon) {
    return (float)(100000 * y + 1000 * time + 300 * c + 16 * lat) + (float)lon / 32;
}

typedef struct {
    hsize_t lat, lon;
    test_layout layout;
    hid_t type;
} file_form;

static void write_year(const char *path, int y, hsize_t times, file_form f) {
    hsize_t dims[4] = {times, C, f.lat, f.lon}, chunk[4] = {2, 1, f.lat, f.lon};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(4, dims, NULL), plist = H5Pcreate(H5P_DATASET_CREATE);
    if (f.layout == CHUNKED)
        H5Pset_chunk(plist, 4, chunk), H5Pset_shuffle(plist), H5Pset_deflate(plist, 4);
    hid_t set = H5Dcreate2(file, "fields", f.type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    float *data = malloc(times * C * f.lat * f.lon * sizeof *data), *at = data;
    for (hsize_t t = 0; t < times; t++)
        for (int c = 0; c < C; c++)
            for (hsize_t i = 0; i < f.lat; i++)
                for (hsize_t j = 0; j < f.lon; j++)
                    *at++ = value(y, (int64_t)t, c, (int64_t)i, (int64_t)j);
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    free(data);
    H5Dclose(set), H5Pclose(plist), H5Sclose(space), H5Fclose(file);
}

/* A .npy file of version 1. */
static void write_npy(const char *path, const char *code, const char *shape, const void *data,
                      size_t bytes) {
    char head[128];
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", code, shape);
    memcpy(head, "\x93NUMPY\1\0", 8);
    head[8] = (char)n, head[9] = 0;
    FILE *f = fopen(path, "wb");
    fwrite(head, 1, (size_t)n + 10, f), fwrite(data, 1, bytes, f);
    fclose(f);
}

/* Two years in a folder, by names that are no numbers; other files next to them. */
static const file_form plain = {H, W, PLAIN, 0};
static void write_folder(const char *name, hsize_t first, hsize_t second, file_form form) {
    char path[400];
    if (!form.type) form.type = H5T_IEEE_F32LE;
    mkdir(in_dir(name), 0700);
    snprintf(path, sizeof path, "%s/b.h5", in_dir(name)), write_year(path, 1, second, form);
    snprintf(path, sizeof path, "%s/a.h5", in_dir(name)), write_year(path, 0, first, form);
    snprintf(path, sizeof path, "%s/notes.txt", in_dir(name));
    FILE *f = fopen(path, "w");
    fclose(f);
}

static void remove_folder(const char *name) {
    char path[400];
    static const char *const files[] = {"a.h5", "b.h5", "notes.txt"};
    for (int i = 0; i < 3; i++)
        snprintf(path, sizeof path, "%s/%s", in_dir(name), files[i]), unlink(path);
    rmdir(in_dir(name));
}

typedef struct {
    dlr_weather_options weather;
    dlr_split split;
    int channels, out_channels, height, width;
    uint64_t seed;
} set_options;

static set_options options(const char *folder) {
    return (set_options){.weather = {.folder = folder,
                                     .means = in_dir("means.npy"),
                                     .stds = in_dir("stds.npy"),
                                     .dt = 1},
                         .channels = C,
                         .out_channels = C,
                         .height = H,
                         .width = W,
                         .seed = 7};
}

static dlr_dataset *open_set(const set_options *o, dl_error *err) {
    dlr_arrays arrays = {0};
    for (int i = 0; i < 2; i++) {
        dl_type t = dl_scalar(DL_F32);
        dl_type_push(&t, "N", 2), dl_type_push(&t, "C", i ? o->out_channels : o->channels);
        dl_type_push(&t, "H", o->height), dl_type_push(&t, "W", o->width);
        CHECK(dlr_arrays_add(&arrays, i ? "t" : "x", i, &t, err), "%s", err->message);
    }
    return dlr_dataset_open(
        &dlr_weather_loader, &o->weather,
        &(dlr_dataset_options){o->split, o->seed, &arrays, false, DLR_OPEN_FOR_USE}, err);
}

/* ---- pairs and order ---- */

/* The results of system D's three lines, written down for years of 9 and 10 times. */
static void test_pairs(void) {
    static const int rows[][12] = {
        /* n, dt, then the input's time of samples 0.. */
        {9, 1, 1, 1, 2, 3, 4, 5, 6, 7, 1},
        {10, 2, 2, 3, 2, 3, 4, 5, 6, 7, 2, 3},
        {10, 3, 3, 4, 5, 3, 4, 5, 6, 3, 4, 5},
        {9, 3, 3, 4, 5, 3, 4, 5, 3, 4, 5},
    };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < rows[i][0]; k++)
            CHECK(dlr_weather_pair(k, rows[i][0], rows[i][1]) == rows[i][2 + k],
                  "%d of %d by %d: %d", k, rows[i][0], rows[i][1],
                  (int)dlr_weather_pair(k, rows[i][0], rows[i][1]));
    for (int64_t dt = 1; dt < 30; dt++)
        for (int64_t n = 3 * dt; n < 3 * dt + 40; n++)
            for (int64_t k = 0; k < n; k++) {
                int64_t at = dlr_weather_pair(k, n, dt);
                if (at < dt || at + dt >= n)
                    CHECK(false, "%d of %d by %d", (int)k, (int)n, (int)dt);
            }
}

/* ---- samples ---- */

/* Values of a field that are not those of that year and time, cropped and normalised. */
static int wrong(const float *field, int y, int64_t time, int64_t height, int64_t width) {
    int n = 0;
    for (int c = 0; c < C; c++)
        for (int64_t i = 0; i < height; i++)
            for (int64_t j = 0; j < width; j++)
                n += *field++ != (value(y, time, c, i, j) - mean[c]) / deviation[c];
    return n;
}

/* Every layout and crop, years of 9 and 7 times, dt of 1 and 2; validation is in the files' order.
 */
static void test_fields(void) {
    const struct {
        file_form form;
        int64_t height, width;
        bool child;
    } rows[] = {
        {{H, W, PLAIN, H5T_IEEE_F32LE}, H, W, false},
        {{H, W, PLAIN, H5T_IEEE_F32LE}, H - 2, W, false},
        {{H, W, PLAIN, H5T_IEEE_F32LE}, H - 2, W - 1, false},
        {{9, 700, PLAIN, H5T_IEEE_F32LE}, 5, 3, false},
        {{600, 8, PLAIN, H5T_IEEE_F32LE}, 590, 7, false},
        {{H, W, CHUNKED, H5T_IEEE_F32LE}, H - 1, W - 2, true},
        {{H, W, PLAIN, H5T_IEEE_F64BE}, H, W - 1, false},
    };
    enum { N = 16 };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        write_folder("years", 9, 7, rows[r].form);
        for (int dt = 1; dt < 3; dt++) {
            set_options o = options(in_dir("years"));
            o.weather.dt = dt, o.split = DLR_VALID, o.height = (int)rows[r].height,
            o.width = (int)rows[r].width;
            dl_error err = {0};
            dlr_dataset *d = open_set(&o, &err);
            CHECK(d != NULL, "%d: %s", (int)r, err.message);
            if (!d) continue;
            CHECK(dlr_dataset_samples(d) == N && (dlr_dataset_held(d) > 0) == rows[r].child);
            size_t bytes = dlr_array_bytes(&dlr_dataset_arrays(d)->at[0]);
            float *x = malloc(bytes), *t = malloc(bytes);
            for (int i = 0; i < N; i++) {
                int y = i >= 9, local = y ? i - 9 : i;
                local %= (y ? 7 : 9) - dt;
                if (local < dt) local += dt;
                CHECK(sample_pair(d, i % 3, i, x, t, NULL, &err), "%s", err.message);
                int bad = wrong(x, y, local, rows[r].height, rows[r].width) +
                          wrong(t, y, local + dt, rows[r].height, rows[r].width);
                CHECK(bad == 0, "row %d dt %d sample %d: %d", (int)r, dt, i, bad);
            }
            free(x), free(t);
            dlr_dataset_close(d);
        }
        remove_folder("years");
    }
}

/* The year and time of a field of a plain file. */
static int identify(const float *field) {
    return (int)lround((field[0] * deviation[0] + mean[0]) / 1000);
}

/* An epoch has each sample of the limit once, in an order of its own; any number of workers deals
 * the same. */
static void test_order(void) {
    enum { N = 16, LIMIT = 12, BATCH = 5 };
    write_folder("years", 9, 7, plain);
    set_options o = options(in_dir("years"));
    o.weather.limit = LIMIT;
    dl_error err = {0};
    dlr_dataset *d = open_set(&o, &err);
    CHECK(d && dlr_dataset_samples(d) == LIMIT, "%s", err.message);
    if (!d) return;
    float x[FIELD], t[FIELD];
    int order[2][LIMIT], sum = 0, moved = 0;
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < LIMIT; i++) {
            CHECK(sample_pair(d, e, i, x, t, NULL, &err), "%s", err.message);
            order[e][i] = identify(x);
            sum += order[e][i];
        }
    /* times 1 1 2 .. 7 1 of the first year, and 1 1 2 of the second */
    CHECK(sum == 2 * (1 + 28 + 1 + 3 * 100 + 4), "%d", sum);
    for (int i = 0; i < LIMIT; i++) moved += order[0][i] != order[1][i];
    CHECK(moved > LIMIT / 2, "%d", moved);
    float *want = NULL;
    const size_t each = 2 * (size_t)BATCH * FIELD;
    for (int workers = 0; workers < 4; workers++) {
        dlr_prefetch *p = dlr_prefetch_start(
            d, &(dlr_prefetch_options){BATCH, 0, 1, workers, 0, NULL, false, false}, &err);
        CHECK(p && dlr_prefetch_batches(p) == 2 && dlr_dataset_samples(d) == 2 * BATCH + 2, "%s",
              err.message);
        float *got = malloc(6 * each * sizeof *got);
        for (int b = 0; b < 6; b++) {
            if (b == 3) dlr_prefetch_seek(p, 1, 1); /* a resumed run's way there */
            dlr_batch batch;
            CHECK(dlr_prefetch_next(p, &batch, &err), "%s", err.message);
            for (int k = 0; k < 2; k++)
                memcpy(got + (size_t)b * each + (size_t)k * each / 2, batch.data[k],
                       each / 2 * sizeof *got);
        }
        if (!want) want = got;
        CHECK(memcmp(got, want, 6 * each * sizeof *got) == 0, "%d workers", workers);
        if (got != want) free(got);
        dlr_prefetch_stop(p);
    }
    free(want);
    dlr_dataset_close(d);
    remove_folder("years");
}

/* ---- faults ---- */

static void write_value(const char *path, hsize_t time, hsize_t c, hsize_t i, hsize_t j, float v) {
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT),
          set = H5Dopen2(file, "fields", H5P_DEFAULT);
    hid_t space = H5Dget_space(set), one = H5Screate(H5S_SCALAR);
    hsize_t at[4] = {time, c, i, j};
    H5Sselect_elements(space, H5S_SELECT_SET, 1, at);
    H5Dwrite(set, H5T_NATIVE_FLOAT, one, space, H5P_DEFAULT, &v);
    H5Sclose(one), H5Sclose(space), H5Dclose(set), H5Fclose(file);
}

/* A value that is not finite, in a file of our own reads and in one of the child's, is an error at
 * its place. */
static void test_not_finite(void) {
    const file_form forms[] = {{H, W, PLAIN, H5T_IEEE_F32LE}, {H, W, CHUNKED, H5T_IEEE_F32LE}};
    for (int f = 0; f < 2; f++) {
        write_folder("years", 9, 7, forms[f]);
        char path[400];
        snprintf(path, sizeof path, "%s/b.h5", in_dir("years"));
        write_value(path, 4, 2, 3, 1, NAN), write_value(path, 5, 0, 0, 0, -INFINITY);
        write_value(path, 6, 0, H - 1, W - 1, NAN); /* outside the crop */
        set_options o = options(in_dir("years"));
        o.split = DLR_VALID, o.height = H - 1;
        dl_error err = {0};
        dlr_dataset *d = open_set(&o, &err);
        CHECK(d != NULL, "%s", err.message);
        float x[FIELD], t[FIELD];
        for (int i = 9; d && i < 15; i++) { /* inputs 1 1 2 3 4 5 of the second year */
            static const char *const says[] = {
                NULL,
                NULL,
                NULL,
                "[time 4, channel 2, lat 3, lon 1] is nan",
                "b.h5: 'fields' [time 4, channel 2, lat 3, lon 1] is nan",
                "[time 5, channel 0, lat 0, lon 0] is -inf"};
            dl_error fault = {0};
            bool ok = sample_pair(d, 0, i, x, t, NULL, &fault);
            CHECK(ok == !says[i - 9], "%d: %s", i, fault.message);
            if (says[i - 9])
                CHECK(fault.code == DL_INPUT && strstr(fault.message, says[i - 9]), "%s",
                      fault.message);
        }
        dlr_dataset_close(d);
        remove_folder("years");
    }
}

static void write_statistics(void) {
    static const float zero[C] = {1, 0, 1}, odd[C] = {1, NAN, 1};
    static const double wide[C] = {0.5, -20, 3e4};
    static const uint16_t half[C] = {0};
    write_npy(in_dir("means.npy"), "<f4", "1, 3, 1, 1", mean, sizeof mean);
    write_npy(in_dir("stds.npy"), "<f4", "1, 3, 1, 1", deviation, sizeof deviation);
    write_npy(in_dir("flat.npy"), "<f8", "3,", wide, sizeof wide);
    write_npy(in_dir("zero.npy"), "<f4", "1, 3, 1, 1", zero, sizeof zero);
    write_npy(in_dir("nan.npy"), "<f4", "1, 3, 1, 1", odd, sizeof odd);
    write_npy(in_dir("two.npy"), "<f4", "1, 2, 1, 1", mean, 8);
    write_npy(in_dir("grid.npy"), "<f4", "1, 3, 6, 5", mean, sizeof mean);
    write_npy(in_dir("short.npy"), "<f4", "1, 3, 1, 1", mean, 8);
    write_npy(in_dir("half.npy"), "<f2", "1, 3, 1, 1", half, sizeof half);
    FILE *f = fopen(in_dir("text.npy"), "w");
    fputs("1 2 3\n", f);
    fclose(f);
}

static void remove_statistics(void) {
    static const char *const names[] = {"means.npy", "stds.npy", "flat.npy", "zero.npy",
                                        "nan.npy",   "two.npy",  "grid.npy", "short.npy",
                                        "half.npy",  "text.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_dir(names[i]));
}

static void test_statistics(void) {
    const struct {
        const char *file, *says;
        dl_code code;
    } rows[] = {
        {"stds.npy", NULL, 0},
        {"flat.npy", "channel 1 of", DL_INPUT}, /* -20 */
        {"zero.npy", "global_stds_path: channel 1 of", DL_INPUT},
        {"nan.npy", "is nan, not a standard deviation", DL_INPUT},
        {"two.npy",
         "is [1, 2, 1, 1]; the model's fields have 3 channels, and so wants [1, 3, 1, 1]",
         DL_INPUT},
        {"grid.npy", "is truncated", DL_INPUT},
        {"short.npy", "is truncated: its header promises", DL_INPUT},
        {"half.npy", "holds '<f2', not numbers", DL_INPUT},
        {"text.npy", "is not a .npy file", DL_INPUT},
        {"none.npy", "global_stds_path: cannot open", DL_IO},
        {"", "is a directory", DL_INPUT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float out[C];
        dl_error err = {0};
        bool ok = dlr_statistics_read(in_dir(rows[i].file), "global_stds_path", C, true, out, &err);
        CHECK(ok == !rows[i].says && err.code == rows[i].code &&
                  (ok || strstr(err.message, rows[i].says)),
              "%s: %s", rows[i].file, err.message);
        if (ok) CHECK(memcmp(out, deviation, sizeof out) == 0);
    }
    float out[C];
    dl_error err = {0};
    CHECK(dlr_statistics_read(in_dir("flat.npy"), "global_means_path", C, false, out, &err), "%s",
          err.message);
    CHECK(memcmp(out, mean, sizeof out) == 0, "doubles along one axis are the same means");
    CHECK(!dlr_statistics_read(NULL, "global_means_path", C, false, out, &err) &&
          err.code == DL_USAGE && strstr(err.message, "global_means_path is not set"));
}

static void test_faults(void) {
    char other[400];
    write_folder("years", 9, 7, plain);
    write_folder("cut", 9, 7, plain);
    snprintf(other, sizeof other, "%s/b.h5", in_dir("cut"));
    CHECK(truncate(other, 3000) == 0);
    write_folder("named", 9, 7, plain);
    snprintf(other, sizeof other, "%s/a.h5", in_dir("named"));
    write_volumes(other, 8, PLAIN, H5T_IEEE_F32LE, 0);
    write_folder("narrow", 9, 7, plain);
    snprintf(other, sizeof other, "%s/b.h5", in_dir("narrow"));
    write_year(other, 1, 7, (file_form){H, W - 1, PLAIN, H5T_IEEE_F32LE});
    mkdir(in_dir("empty"), 0700);
    const struct {
        const char *folder, *says[2];
        dl_code code;
        int channels, out_channels, height, dt;
    } rows[] = {
        {"none", {"train_data_path: cannot read the folder", "none"}, DL_IO, C, C, H, 1},
        {"empty", {"empty has no file that ends in .h5"}, DL_IO, C, C, H, 1},
        {"means.npy", {"cannot read the folder", "means.npy"}, DL_IO, C, C, H, 1},
        {"cut", {"b.h5 is damaged"}, DL_INPUT, C, C, H, 1},
        {"named",
         {"a.h5 has no data set 'fields'", "it holds: Hydro [3, 8, 8, 8] f32"},
         DL_INPUT,
         C,
         C,
         H,
         1},
        {"narrow",
         {"b.h5: 'fields' is [7, 3, 6, 4] f32", "a crop of 6 x 5 (img_size)"},
         DL_INPUT,
         C,
         C,
         H,
         1},
        {"years",
         {"a.h5: 'fields' is [9, 3, 6, 5] f32", "has 4 (n_in_channels"},
         DL_INPUT,
         4,
         4,
         H,
         1},
        {"years", {"a crop of 8 x 5 (img_size) does not fit 6 x 5"}, DL_INPUT, C, C, 8, 1},
        {"years",
         {"b.h5", "dt of 3 pairs times that a year of 7 steps does not have"},
         DL_INPUT,
         C,
         C,
         H,
         3},
        {"years", {"the same channels"}, DL_INPUT, C, 2, H, 1},
        {"years", {"dt must be at least 1, not 0"}, DL_USAGE, C, C, H, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_options o = options(in_dir(rows[i].folder));
        o.channels = rows[i].channels, o.out_channels = rows[i].out_channels,
        o.height = rows[i].height;
        o.weather.dt = rows[i].dt;
        dl_error err = {0};
        dlr_dataset *d = open_set(&o, &err);
        CHECK(!d && err.code == rows[i].code, "%s: %d %s", rows[i].folder, err.code, err.message);
        for (int k = 0; k < 2 && rows[i].says[k]; k++)
            CHECK(strstr(err.message, rows[i].says[k]) != NULL, "'%s' in '%s'", rows[i].says[k],
                  err.message);
        dlr_dataset_close(d);
    }
    set_options o = options(NULL);
    dl_error err = {0};
    CHECK(!open_set(&o, &err) && err.code == DL_USAGE &&
              strstr(err.message, "train_data_path is not set"),
          "%s", err.message);
    static const char *const folders[] = {"years", "cut", "named", "narrow", "empty"};
    for (int i = 0; i < 5; i++) remove_folder(folders[i]);
}

int main(void) {
    CHECK(mkdtemp(dir) != NULL);
    write_statistics();
    test_pairs();
    test_fields();
    test_order();
    test_not_finite();
    test_statistics();
    test_faults();
    remove_statistics();
    CHECK(rmdir(dir) == 0);
    return dl_test_end();
}
