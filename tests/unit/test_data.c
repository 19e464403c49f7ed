/* Samples from files: every rotation and layout. Synthetic data: test_data_synthetic.c; damaged and
 * foreign files: test_data_faults.c. */
#include "tests/unit/data_sets.h"

#include "runtime/data/volume.h"
#include "tests/check.h"
#include "tests/unit/written.h"

static char dir[] = "/tmp/dl_data_XXXXXX";

const char *in_dir(const char *name) { return written_path(dir, name); }

/* ---- rotations ---- */

/* NumPy's results of system A's 24 expressions on the 27 voxels A..Z* of a 3^3 cube. */
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

test_crops options(bool in_memory, const char *path, int size) {
    return (test_crops){.crops = {.path = path, .samples = 100, .in_memory = in_memory},
                        .input_channels = 2,
                        .target_channels = 3,
                        .size = size,
                        .seed = 11};
}

size_t bytes_of(const dlr_dataset *d, int array) {
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
    const char *const left[] = {"channels.h5",  "rank.h5",     "flat.h5",    "integers.h5",
                                "unwritten.h5", "external.h5", "virtual.h5", "links.h5",
                                "sizes.h5",     "weather.h5",  "text.h5",    "cut.h5",
                                "empty.h5",     "pipe.h5",     "good.h5",    "damaged.h5"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) unlink(in_dir(left[i]));
    CHECK(rmdir(dir) == 0);
    return dl_test_end();
}
