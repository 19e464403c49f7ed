/* Samples from files: every rotation, layout and fault. */
#include "ir/base/sandbox.h"
#include "runtime/base/rng.h"
#include "runtime/data/array_format.h"
#include "runtime/data/noise.h"
#include "runtime/data/rotate.h"
#include "runtime/data/volume.h"
#include "tests/check.h"
#include "tests/unit/data_files.h"
#include "tests/unit/written.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static char dir[] = "/tmp/dl_data_XXXXXX";

static const char *in_dir(const char *name) { return written_path(dir, name); }

/* ---- rotations ---- */

/* What numpy gives for system A's 24 expressions on the 27 voxels A..Z* of a 3^3 cube. */
static const char *const turned[DLR_ROTATIONS] = {
    "YZ*VWXSTUPQRMNOJKLGHIDEFABC", "UTSXWV*ZYLKJONMRQPCBAFEDIHG", "IHGFEDCBARQPONMLKJ*ZYXWVUTS",
    "GHIPQRYZ*DEFMNOVWXABCJKLSTU", "IHGRQP*ZYFEDONMXWVCBALKJUTS", "STUJKLABCVWXMNODEFYZ*PQRGHI",
    "UTSLKJCBAXWVONMFED*ZYRQPIHG", "CLUFOXIR*BKTENWHQZAJSDMVGPY", "IR*FOXCLUHQZENWBKTGPYDMVAJS",
    "SJAVMDYPGTKBWNEZQHULCXOF*RI", "YPGVMDSJAZQHWNETKB*RIXOFULC", "CFIBEHADGLORKNQJMPUX*TWZSVY",
    "UX*TWZSVYLORKNQJMPCFIBEHADG", "GDAHEBIFCPMJQNKROLYVSZWT*XU", "YVSZWT*XUPMJQNKROLGDAHEBIFC",
    "IR*HQZGPYFOXENWDMVCLUBKTAJS", "ULCTKBSJAXOFWNEVMD*RIZQHYPG", "YPGZQH*RIVMDWNEXOFSJATKBULC",
    "*RIZQHYPGXOFWNEVMDULCTKBSJA", "UX*LORCFITWZKNQBEHSVYJMPADG", "IFCROL*XUHEBQNKZWTGDAPMJYVS",
    "YVSPMJGDAZWTQNKHEB*XUROLIFC", "*XUROLIFCZWTQNKHEBYVSPMJGDA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ*",
};

/* Where voxel i of a rotated crop comes from, by the definition of the table. */
static void source_of(int rotation, int size, const int i[3], int64_t j[3]) {
    const dlr_rotation *r = &dlr_rotations[rotation - 1];
    for (int a = 0; a < 3; a++) j[r->axis[a]] = r->flip[a] ? size - 1 - i[a] : i[a];
}

static void test_rotation_table(void) {
    const char *cube = "ABCDEFGHIJKLMNOPQRSTUVWXYZ*";
    for (int r = 1; r <= DLR_ROTATIONS; r++) {
        char got[28] = "";
        for (int n = 0; n < 27; n++) {
            int64_t j[3];
            source_of(r, 3, (int[]){n / 9, n / 3 % 3, n % 3}, j);
            got[n] = cube[j[0] * 9 + j[1] * 3 + j[2]];
        }
        CHECK_STR(got, turned[r - 1]);
        for (int other = 1; other < r; other++)
            CHECK(strcmp(turned[r - 1], turned[other - 1]) != 0, "%d", r);
    }
}

/* Moving planes in slabs, from rows with gaps, at sizes that fill no tile. */
static void test_placement(void) {
    enum { ROW = 40 };
    static const int sizes[] = {1, 2, 7, 16, 19, 33};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int r = 1; r <= DLR_ROTATIONS; r++) {
            int size = sizes[k], wrong = 0;
            size_t voxels = (size_t)size * (size_t)size * (size_t)size;
            float *in = malloc((size_t)(size * size * ROW) * sizeof *in),
                  *out = calloc(voxels, sizeof *out);
            for (int i = 0; i < size * size * ROW; i++) in[i] = (float)i;
            dlr_voxel_map to = dlr_voxel_map_of(r, size);
            for (int first = 0, planes; first < size; first += planes) {
                const float *plane[5];
                planes = size - first < 5 ? size - first : 5;
                for (int p = 0; p < planes; p++) plane[p] = in + (first + p) * size * ROW;
                dlr_voxel_map_copy(&to, size, first, planes, plane, ROW, out);
            }
            for (int n = 0; n < (int)voxels; n++) {
                int64_t j[3];
                source_of(r, size, (int[]){n / (size * size), n / size % size, n % size}, j);
                wrong += out[n] != (float)((j[0] * size + j[1]) * ROW + j[2]);
            }
            CHECK(wrong == 0, "size %d rotation %d: %d voxels", size, r, wrong);
            free(in), free(out);
        }
}

/* ---- samples ---- */

static test_crops options(bool in_memory, const char *path, int size) {
    return (test_crops){.crops = {.path = path, .samples = 100, .in_memory = in_memory},
                        .input_channels = 2,
                        .target_channels = 3,
                        .size = size,
                        .seed = 11};
}

static size_t bytes_of(const dlr_dataset *d, int array) {
    return dlr_array_bytes(&dlr_dataset_arrays(d)->at[array]);
}

/* Counts the voxels of some samples that are not where their draw says. */
static int wrong_voxels(const dlr_dataset *d, int size, int samples, dl_error *err) {
    float *x = malloc(bytes_of(d, 0)), *t = malloc(bytes_of(d, 1));
    void *scratch = malloc(dlr_dataset_scratch(d));
    int wrong = 0, cube = size * size * size;
    for (int s = 0; s < samples; s++) {
        dlr_draw draw = dlr_crops_draw(d, 1, s);
        if (!sample_pair(d, 1, s, x, t, scratch, err)) wrong += 1000000;
        for (int n = 0; n < 5 * cube; n++) {
            int c = n / cube, i = n % cube;
            int64_t j[3];
            source_of(draw.rotation, size, (int[]){i / (size * size), i / size % size, i % size},
                      j);
            for (int a = 0; a < 3; a++) j[a] += draw.corner[a];
            wrong += (c < 2 ? x[n] : t[n - 2 * cube]) != voxel(c < 2 ? c : c - 2, j[0], j[1], j[2]);
        }
    }
    free(x), free(t), free(scratch);
    return wrong;
}

static void test_layouts(void) {
    const struct {
        const char *name;
        test_layout layout;
        hid_t type;
        hsize_t edge, userblock;
    } rows[] = {
        {"plain.h5", PLAIN, H5T_IEEE_F32LE, 30, 0},
        {"shifted.h5", PLAIN, H5T_IEEE_F32LE, 30, 1024},
        {"packed.h5", CHUNKED, H5T_IEEE_F32LE, 30, 0},
        {"double.h5", PLAIN, H5T_IEEE_F64LE, 30, 0},
        {"big-endian.h5", PLAIN, H5T_IEEE_F32BE, 30, 0},
        {"compact.h5", COMPACT, H5T_IEEE_F32LE, 17, 0},
    };
    static const char *const places[] = {"in the file", "in memory", "mapped"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = in_dir(rows[i].name);
        write_volumes(path, rows[i].edge, rows[i].layout, rows[i].type, rows[i].userblock);
        for (int k = 0; k < 3; k++)
            for (int boxed = 0; boxed < 2; boxed++) {
                test_crops o = options(k == 1, path, 13);
                o.mapped = k == 2;
                if (boxed) o.crops.box_size = 15;
                dl_error err = {0};
                dlr_dataset *d = open_crops(&o, &err);
                CHECK(d != NULL, "%s %s: %s", rows[i].name, places[k], err.message);
                if (!d) continue;
                CHECK(dlr_crops_box(d) == (boxed ? 15 : (int64_t)rows[i].edge));
                int wrong = wrong_voxels(d, 13, 40, &err);
                CHECK(wrong == 0, "%s %s: %d %s", rows[i].name, places[k], wrong, err.message);
                dlr_dataset_close(d);
            }
        unlink(path);
    }
}

/* A mapped file that was cut meanwhile is an error, not a signal. */
static void test_cut(void) {
    const char *path = in_dir("cut.h5");
    for (int mapped = 0; mapped < 2; mapped++) {
        write_volumes(path, 30, PLAIN, H5T_IEEE_F32LE, 0);
        test_crops o = options(false, path, 13);
        o.mapped = mapped;
        dl_error err = {0};
        dlr_dataset *d = open_crops(&o, &err);
        CHECK(d && truncate(path, 4096) == 0, "%s", err.message);
        CHECK(d && wrong_voxels(d, 13, 1, &err) > 0 && err.code == DL_IO &&
                  strstr(err.message, "ends too early"),
              "mapped %d: %s", mapped, err.message);
        dlr_dataset_close(d);
    }
    unlink(path);
}

/* An .npy of f32 [edge, edge, edge, channels]. */
static void write_channels_last(const char *path, int edge, int channels) {
    char header[118];
    int n = snprintf(header, sizeof header,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, %d, %d), }", edge,
                     edge, edge, channels);
    memset(header + n, ' ', sizeof header - (size_t)n - 1);
    header[sizeof header - 1] = '\n';
    FILE *f = fopen(path, "w");
    fwrite("\x93NUMPY\1\0\x76\0", 1, 10, f);
    fwrite(header, 1, sizeof header, f);
    for (int i = 0; i < edge * edge * edge; i++)
        for (int c = 0; c < channels; c++) {
            float v = voxel(c, i / (edge * edge), i / edge % edge, i % edge);
            fwrite(&v, sizeof v, 1, f);
        }
    fclose(f);
}

static void test_channels_last(void) {
    const char *input = in_dir("data.npy"), *target = in_dir("label.npy");
    write_channels_last(input, 21, 2), write_channels_last(target, 21, 3);
    for (int k = 0; k < 2; k++) {
        test_crops o = options(k == 1, input, 19);
        o.crops.target_path = target;
        dl_error err = {0};
        dlr_dataset *d = open_crops(&o, &err);
        CHECK(d != NULL, "%s", err.message);
        if (!d) continue;
        CHECK(dlr_crops_box(d) == 21);
        int wrong = wrong_voxels(d, 19, 20, &err);
        CHECK(wrong == 0, "channels last, %d: %d %s", k, wrong, err.message);
        dlr_dataset_close(d);
    }
    test_crops o = options(false, target, 19);
    o.crops.target_path = target;
    dl_error err = {0};
    CHECK(!open_crops(&o, &err) &&
              strstr(err.message, "label.npy is [21, 21, 21, 3] f32, but the model's input"),
          "%s", err.message);
    unlink(input), unlink(target);
}

/* Rows far apart are read one by one: a box of 600^3 that is a hole in the file but for one corner.
 */
static void test_sparse_rows(void) {
    enum { EDGE = 600, KNOWN = 24 };
    const char *path = in_dir("sparse.h5");
    hid_t file = new_file(path, 0), plist = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(4, (hsize_t[]){1, EDGE, EDGE, EDGE}, NULL);
    H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY), H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);
    hid_t set = H5Dcreate2(file, "rho", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    hsize_t count[4] = {1, KNOWN, KNOWN, KNOWN};
    hid_t part = H5Screate_simple(4, count, NULL);
    float *data = malloc(KNOWN * KNOWN * KNOWN * sizeof *data), x[512], t[512];
    for (int i = 0; i < KNOWN * KNOWN * KNOWN; i++)
        data[i] = voxel(0, i / (KNOWN * KNOWN), i / KNOWN % KNOWN, i % KNOWN);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, (hsize_t[]){0, 0, 0, 0}, NULL, count, NULL);
    H5Dwrite(set, H5T_NATIVE_FLOAT, part, space, H5P_DEFAULT, data);
    free(data);
    H5Sclose(part), H5Dclose(set), H5Sclose(space), H5Pclose(plist), H5Fclose(file);

    test_crops o = options(false, path, 8);
    o.crops.input_name = o.crops.target_name = "rho", o.crops.box_size = KNOWN;
    o.input_channels = o.target_channels = 1;
    dl_error err = {0};
    dlr_dataset *d = open_crops(&o, &err);
    CHECK(d != NULL, "%s", err.message);
    void *scratch = d ? malloc(dlr_dataset_scratch(d)) : NULL;
    for (int s = 0; d && s < 30; s++) {
        dlr_draw draw = dlr_crops_draw(d, 0, s);
        int wrong = 0;
        CHECK(sample_pair(d, 0, s, x, t, scratch, &err), "%s", err.message);
        for (int i = 0; i < 512; i++) {
            int64_t j[3];
            source_of(draw.rotation, 8, (int[]){i / 64, i / 8 % 8, i % 8}, j);
            for (int a = 0; a < 3; a++) j[a] += draw.corner[a];
            wrong += x[i] != voxel(0, j[0], j[1], j[2]);
        }
        CHECK(wrong == 0, "sample %d: %d", s, wrong);
        CHECK(memcmp(x, t, sizeof x) == 0, "sample %d", s);
    }
    free(scratch);
    dlr_dataset_close(d);
    unlink(path);
}

/* Draws: every corner and rotation comes, none beyond; equal for equal (seed, split, epoch,
 * sample), else other. */
static void test_draws(void) {
    const char *path = in_dir("draws.h5");
    write_volumes(path, 12, PLAIN, H5T_IEEE_F32LE, 0);
    dl_error err = {0};
    test_crops o = options(false, path, 5), v = o, seeded = o, whole = o;
    v.split = DLR_VALID, seeded.seed++, whole.size = 12;
    dlr_dataset *train = open_crops(&o, &err), *valid = open_crops(&v, &err);
    dlr_dataset *other = open_crops(&seeded, &err), *full = open_crops(&whole, &err);
    CHECK(train && valid && other && full, "%s", err.message);
    if (!train || !valid || !other || !full) return;
    int corners[3][7] = {{0}}, rotations[25] = {0}, outside = 0, same_epoch = 0, same_split = 0,
        same_seed = 0, moved = 0;
    for (int s = 0; s < 2000; s++) {
        dlr_draw a = dlr_crops_draw(train, 3, s), again = dlr_crops_draw(train, 3, s);
        dlr_draw next = dlr_crops_draw(train, 4, s), val = dlr_crops_draw(valid, 3, s);
        dlr_draw val_next = dlr_crops_draw(valid, 4, s), foreign = dlr_crops_draw(other, 3, s);
        for (int k = 0; k < 3; k++) {
            bool in = a.corner[k] >= 0 && a.corner[k] < 7;
            outside += !in;
            if (in) corners[k][a.corner[k]]++;
        }
        outside += a.rotation < 1 || a.rotation > 24;
        rotations[a.rotation]++;
        moved += memcmp(&a, &again, sizeof a) != 0 || memcmp(&val, &val_next, sizeof val) != 0;
        same_epoch += memcmp(a.corner, next.corner, sizeof a.corner) == 0;
        same_split += memcmp(a.corner, val.corner, sizeof a.corner) == 0;
        same_seed += memcmp(a.corner, foreign.corner, sizeof a.corner) == 0;
        dlr_draw only = dlr_crops_draw(full, 3, s);
        moved += only.corner[0] || only.corner[1] || only.corner[2];
    }
    CHECK(outside == 0 && moved == 0, "%d %d", outside, moved);
    for (int k = 0; k < 3; k++)
        for (int c = 0; c < 7; c++) CHECK_NEAR(corners[k][c], 2000.0 / 7, 80);
    for (int r = 1; r <= 24; r++) CHECK_NEAR(rotations[r], 2000.0 / 24, 46);
    CHECK(same_epoch < 30 && same_split < 30 && same_seed < 30, "%d %d %d", same_epoch, same_split,
          same_seed);
    dlr_dataset_close(train), dlr_dataset_close(valid), dlr_dataset_close(other),
        dlr_dataset_close(full);
    unlink(path);
}

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

static void test_synthetic(void) {
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

/* Uniform floats lie in [0, 1), evenly; classes are what they are beside normal ones. */
static void test_uniform_noise(void) {
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

/* Drawn anew at each epoch of training; the first is as without that, and validation stays. */
static void test_redrawn_noise(void) {
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

/* Any number of arrays of any types, or no target; the first two draw the same whatever is behind
 * them. */
static void test_synthetic_arrays(void) {
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

/* The real file, against H5Dread. */
static void test_cosmology(void) {
    const char *path = "../shared/data/cosmology/nbody_train_80.h5";
    if (access(path, R_OK) != 0) {
        dl_test_skip("real data: no %s", path);
        return;
    }
    enum { S = 64, CUBE = S * S * S };
    test_crops o = options(false, path, S);
    o.input_channels = 4, o.target_channels = 5;
    dl_error err = {0};
    dlr_dataset *d = open_crops(&o, &err);
    CHECK(d != NULL, "%s", err.message);
    if (!d) return;
    CHECK(dlr_crops_box(d) == 80);
    float *x = malloc(4 * CUBE * sizeof *x), *t = malloc(5 * CUBE * sizeof *t),
          *want = malloc(5 * CUBE * sizeof *want);
    void *scratch = malloc(dlr_dataset_scratch(d));
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    for (int s = 0; s < 6; s++) {
        dlr_draw draw = dlr_crops_draw(d, 0, s);
        CHECK(sample_pair(d, 0, s, x, t, scratch, &err), "%s", err.message);
        for (int k = 0; k < 2; k++) {
            hsize_t count[4] = {k ? 5 : 4, S, S, S}, start[4] = {0};
            for (int a = 0; a < 3; a++) start[a + 1] = (hsize_t)draw.corner[a];
            hid_t set = H5Dopen2(file, k ? "Hydro" : "Nbody", H5P_DEFAULT),
                  space = H5Dget_space(set);
            hid_t to = H5Screate_simple(4, count, NULL);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
            H5Dread(set, H5T_NATIVE_FLOAT, to, space, H5P_DEFAULT, want);
            H5Sclose(to), H5Sclose(space), H5Dclose(set);
            int wrong = 0;
            for (int n = 0; n < (int)count[0] * CUBE; n++) {
                int64_t j[3];
                source_of(draw.rotation, S, (int[]){n % CUBE / (S * S), n / S % S, n % S}, j);
                float w = want[n / CUBE * CUBE + (j[0] * S + j[1]) * S + j[2]];
                wrong += memcmp((k ? t : x) + n, &w, sizeof w) != 0;
            }
            CHECK(wrong == 0, "sample %d: %d voxels", s, wrong);
        }
    }
    H5Fclose(file);
    free(x), free(t), free(want), free(scratch);
    dlr_dataset_close(d);
}

/* ---- faults ---- */

static void copy_part(const char *from, const char *to, off_t bytes) {
    int in = open(from, O_RDONLY), out = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    char block[4096];
    ssize_t n;
    while (bytes > 0 && (n = read(in, block, bytes < 4096 ? (size_t)bytes : sizeof block)) > 0) {
        if (write(out, block, (size_t)n) != n) break;
        bytes -= n;
    }
    close(in), close(out);
}

/* One file for each fault that lies in what a file holds. */
static void write_faulty_files(void) {
    const hsize_t cube[] = {2, 8, 8, 8}, more[] = {3, 8, 8, 8}, flat[] = {2, 8, 8, 7},
                  three[] = {8, 8, 8};
    const struct {
        const char *name;
        int rank;
        const hsize_t *dims;
        test_layout layout;
        hid_t type;
    } rows[] = {
        {"channels.h5", 4, more, PLAIN, H5T_IEEE_F32LE},
        {"rank.h5", 3, three, PLAIN, H5T_IEEE_F32LE},
        {"flat.h5", 4, flat, PLAIN, H5T_IEEE_F32LE},
        {"integers.h5", 4, cube, PLAIN, H5T_STD_I16LE},
        {"unwritten.h5", 4, cube, UNWRITTEN, H5T_IEEE_F32LE},
        {"filter.h5", 4, cube, SCALE_OFFSET, H5T_IEEE_F32LE},
        {"external.h5", 4, cube, EXTERNAL, H5T_IEEE_F32LE},
        {"virtual.h5", 4, cube, VIRTUAL, H5T_IEEE_F32LE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hid_t file = new_file(in_dir(rows[i].name), 0);
        add_set(file, "Nbody", rows[i].rank, rows[i].dims, rows[i].layout, rows[i].type);
        add_set(file, "Hydro", 4, more, PLAIN, H5T_IEEE_F32LE);
        H5Fclose(file);
    }
    write_volumes(in_dir("good.h5"), 8, PLAIN, H5T_IEEE_F32LE, 0);
    hid_t file = new_file(in_dir("links.h5"), 0);
    H5Lcreate_external(in_dir("good.h5"), "/Nbody", file, "Nbody", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/Nbody", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    file = new_file(in_dir("sizes.h5"), 0);
    add_set(file, "Nbody", 4, cube, PLAIN, H5T_IEEE_F32LE);
    add_set(file, "Hydro", 4, (hsize_t[]){3, 9, 9, 9}, PLAIN, H5T_IEEE_F32LE);
    H5Fclose(file);
    file = new_file(in_dir("weather.h5"), 0);
    add_set(file, "fields", 4, (hsize_t[]){6, 3, 4, 5}, PLAIN, H5T_IEEE_F64BE);
    hid_t group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    add_set(group, "inner", 1, (hsize_t[]){4}, PLAIN, H5T_STD_U8LE);
    H5Gclose(group), H5Fclose(file);
    FILE *f = fopen(in_dir("text.h5"), "w");
    fputs("not HDF5 at all\n", f);
    fclose(f);
    copy_part(in_dir("good.h5"), in_dir("cut.h5"), 5000);
    copy_part(in_dir("good.h5"), in_dir("empty.h5"), 0);
    mkfifo(in_dir("pipe.h5"), 0600);
}

static void test_faults(void) {
    write_faulty_files();
    const struct {
        const char *file, *says[3];
        dl_code code;
        const char *input_name;
        int size, box;
    } rows[] = {
        {"none.h5", {"none.h5", "dldata nbody -o ", "train_path"}, DL_IO, NULL, 4, 0},
        {"", {"is a directory, and no Zarr array"}, DL_INPUT, NULL, 4, 0},
        {"pipe.h5", {"pipe.h5 is a FIFO, not a file"}, DL_INPUT, NULL, 4, 0},
        {"text.h5", {"text.h5 is damaged or no HDF5 file", "signature"}, DL_INPUT, NULL, 4, 0},
        {"empty.h5", {"empty.h5 is damaged or no HDF5 file"}, DL_INPUT, NULL, 4, 0},
        {"cut.h5", {"cut.h5 is damaged or no HDF5 file", "truncated"}, DL_INPUT, NULL, 4, 0},
        {"weather.h5",
         {"no data set 'Nbody' (the model's input)", "fields [6, 3, 4, 5] f64 BE",
          "group/inner [4] u8"},
         DL_INPUT,
         NULL,
         4,
         0},
        {"channels.h5", {"[3, 8, 8, 8] f32", "input has 2 channels"}, DL_INPUT, NULL, 4, 0},
        {"rank.h5", {"[8, 8, 8] f32", "[channels, L, L, L]"}, DL_INPUT, NULL, 4, 0},
        {"flat.h5", {"[2, 8, 8, 7] f32", "[channels, L, L, L]"}, DL_INPUT, NULL, 4, 0},
        {"integers.h5", {"holds i16"}, DL_INPUT, NULL, 4, 0},
        {"filter.h5", {"filter 6", "h5repack"}, DL_INPUT, NULL, 4, 0},
        {"external.h5", {"external storage"}, DL_INPUT, NULL, 4, 0},
        {"virtual.h5", {"virtual data set"}, DL_INPUT, NULL, 4, 0},
        {"links.h5", {"is a link to somewhere else"}, DL_INPUT, NULL, 4, 0},
        {"links.h5", {"is a link to somewhere else"}, DL_INPUT, "soft", 4, 0},
        {"sizes.h5", {"8^3", "9^3"}, DL_INPUT, NULL, 4, 0},
        {"good.h5",
         {"data_size 128 does not fit the box of 8^3 in ", "good.h5"},
         DL_INPUT,
         NULL,
         128,
         0},
        {"good.h5",
         {"data_size 6 does not fit the box of 5^3 that box_size leaves"},
         DL_INPUT,
         NULL,
         6,
         5},
        {"good.h5", {"box_size 9 is larger than the box of 8^3"}, DL_INPUT, NULL, 4, 9},
        {"good.h5", {"data_size must be 1 to 1048576, not 0"}, DL_USAGE, NULL, 0, 0},
        {"good.h5", {"box_size must be"}, DL_USAGE, NULL, 4, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_crops o = options(false, in_dir(rows[i].file), rows[i].size);
        o.crops.box_size = rows[i].box, o.crops.input_name = rows[i].input_name;
        dl_error err = {0};
        dlr_dataset *d = open_crops(&o, &err);
        CHECK(d == NULL && err.code == rows[i].code, "%s: code %d, %s", rows[i].file, err.code,
              err.message);
        for (int k = 0; k < 3 && rows[i].says[k]; k++)
            CHECK(strstr(err.message, rows[i].says[k]) != NULL, "'%s' in '%s'", rows[i].says[k],
                  err.message);
        dlr_dataset_close(d);
    }
}

/* What crops are not: other shapes, types and numbers of arrays than a volume in and one out. */
static void test_model_types(void) {
    test_crops o = options(false, "none.h5", 4);
    const dlr_arrays good = volume_arrays(&o);
    for (int i = 0; i < 5; i++) {
        static const char *const says[] = {
            "'t' is f32[C=3, D=4, H=4, W=5]", "'x' is i32[", "'x' is f32[C=2, D=4, H=4]",
            "takes 1 input and 0 targets", "takes 2 inputs and 1 target"};
        dlr_arrays bad = good;
        if (i == 0) bad.at[1].type.axis[3].size = 5;
        if (i == 1) bad.at[0].type.dtype = DL_I32;
        if (i == 2) bad.at[0].type.rank = 3;
        if (i == 3) bad.n = 1;
        if (i == 4) bad.at[bad.n++] = good.at[1], bad.at[1].is_target = false;
        dl_error err = {0};
        dlr_dataset *d = dlr_dataset_open(
            &dlr_crops_loader, &o.crops,
            &(dlr_dataset_options){DLR_TRAIN, 0, &bad, false, DLR_OPEN_FOR_USE}, &err);
        CHECK(!d && err.code == DL_INPUT && strstr(err.message, says[i]), "'%s' in '%s'", says[i],
              err.message);
    }
}

/* Bytes of the metadata changed at random: an answer each time, and a sample of what was accepted.
 */
static void test_damage(void) {
    const char *from = in_dir("good.h5"), *path = in_dir("damaged.h5");
    dlr_rng rng = dlr_rng_at((dlr_rng_place){.seed = 5});
    int refused = 0;
    enum { TRIALS = 40, METADATA = 2048 };
    for (int i = 0; i < TRIALS; i++) {
        copy_part(from, path, 1 << 20);
        int fd = open(path, O_WRONLY);
        for (int k = 0; k < 3; k++) {
            unsigned char byte = (unsigned char)dlr_rng_u32(&rng);
            CHECK(pwrite(fd, &byte, 1, dlr_rng_below(&rng, METADATA)) == 1);
        }
        close(fd);
        test_crops o = options(false, path, 4);
        dl_error err = {0};
        dlr_dataset *d = open_crops(&o, &err);
        refused += d == NULL;
        CHECK((d != NULL) == (err.code == DL_OK));
        CHECK(d || err.code == DL_INPUT, "%s", err.message);
        dlr_dataset_close(d);
    }
    CHECK(refused > 0 && refused < TRIALS, "%d of %d refused", refused, TRIALS);
}

static bool misbehave(void *what, dl_sandbox_result *out, dl_error *err) {
    size_t n = *(const size_t *)what;
    if (n < 64) raise((int)n);
    void *volatile p = malloc(n);
    dl_puts(&out->text, p ? "some" : "none");
    free(p);
    return printf("not seen\n") > 0 || dl_fail(err, DL_IO, "no output");
}

static void test_sandbox(void) {
    static const struct {
        size_t what;
        const char *says;
    } ends[] = {
        {SIGSEGV, "crashed"}, {SIGXCPU, "too long"}, {SIGALRM, "too long"}, {SIGABRT, "crashed"}};
    dl_sandbox_result r;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        dl_error err = {0};
        size_t what = ends[i].what;
        CHECK(!dl_sandbox_run("x.h5", 5, misbehave, &what, &r, &err) && err.code == DL_INPUT, "%s",
              err.message);
        CHECK(strstr(err.message, "x.h5 is damaged") && strstr(err.message, ends[i].says), "%s",
              err.message);
    }
    dl_error err = {0};
    size_t some = 1 << 20,
           much = (size_t)1 << 36; /* NULL, or under a sanitizer the end of the child */
    CHECK(dl_sandbox_run("x.h5", 5, misbehave, &some, &r, &err) && !strcmp(r.text.at, "some"), "%s",
          err.message);
    dl_buf_free(&r.text), dl_buf_free(&r.bytes);
    CHECK(!dl_sandbox_run("x.h5", 5, misbehave, &much, &r, &err) || !strcmp(r.text.at, "none"));
    dl_buf_free(&r.text), dl_buf_free(&r.bytes);
}

/* A chunked set: read in a child that a signal to its group does not end, and whose loss is an
 * error with a name. */
static void test_child(void) {
    dl_error err = {0};
    const char *path = in_dir("good.h5");
    dlr_source r = {.label = "good.h5: 'Nbody'", .rank = 4, .type = DLR_EL_F32};
    CHECK(!dlr_hdf5_child_open(&r, path, "no such set", DLR_EL_F32, 0, &err) &&
              err.code == DL_INPUT && strstr(err.message, "good.h5"),
          "%s", err.message);
    r.close(&r);
    err = (dl_error){0};
    CHECK(dlr_hdf5_child_open(&r, path, "Nbody", DLR_EL_F32, 1 << 20, &err), "%s", err.message);
    float out[2 * 2 * 2] = {0};
    dlr_block s = {.count = {1, 2, 2, 2}, .stride = {1, 1, 1, 1}};
    CHECK(r.read(&r, &s, DLR_EL_F32, out, &err), "%s", err.message);
    pid_t child = 0;
    FILE *f = fopen("/proc/thread-self/children", "r");
    CHECK(f && fscanf(f, "%d", &child) == 1);
    if (f) fclose(f);
    for (int i = 0; child && i < 3; i++) kill(child, (int[]){SIGINT, SIGTERM, SIGHUP}[i]);
    CHECK(r.read(&r, &s, DLR_EL_F32, out, &err), "%s", err.message);
    s.start[0] = 99;
    CHECK(!r.read(&r, &s, DLR_EL_F32, out, &err) && err.code == DL_INPUT, "%s", err.message);
    s.start[0] = 0;
    err = (dl_error){0};
    CHECK(r.read(&r, &s, DLR_EL_F32, out, &err), "a fault is not the end: %s", err.message);
    if (child) kill(child, SIGXCPU);
    CHECK(!r.read(&r, &s, DLR_EL_F32, out, &err) && strstr(err.message, "good.h5: 'Nbody'"), "%s",
          err.message);
    err = (dl_error){0};
    CHECK(!r.read(&r, &s, DLR_EL_F32, out, &err) && strstr(err.message, "lost"), "%s", err.message);
    r.close(&r);
}

int main(void) {
    CHECK(mkdtemp(dir) != NULL);
    test_rotation_table();
    test_placement();
    test_layouts();
    test_cut();
    test_channels_last();
    test_sparse_rows();
    test_draws();
    test_synthetic();
    test_uniform_noise();
    test_redrawn_noise();
    test_synthetic_arrays();
    test_model_types();
    test_cosmology();
    test_sandbox();
    test_faults();
    test_damage();
    test_child();
    const char *const left[] = {
        "channels.h5", "rank.h5",    "flat.h5",  "integers.h5", "unwritten.h5", "filter.h5",
        "external.h5", "virtual.h5", "links.h5", "sizes.h5",    "weather.h5",   "text.h5",
        "cut.h5",      "empty.h5",   "pipe.h5",  "good.h5",     "damaged.h5"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) unlink(in_dir(left[i]));
    CHECK(rmdir(dir) == 0);
    return dl_test_end();
}
