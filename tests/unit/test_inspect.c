/* Descriptions of good files, and of files that lie: no input may do more than give an error. */
#include "dldata/array.h"
#include "dldata/describe.h"
#include "dldata/volume_file.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/base/rng.h"
#include "tests/check.h"

#include <hdf5.h>
#include <stdlib.h>
#include <unistd.h>

static dl_error err;
static char dir[] = "/tmp/test_inspect.XXXXXX", path[256];

static bool describe(const char *file, long long slice, dl_sandbox_result *r) {
    describe_request request = {file, slice};
    err = (dl_error){0};
    return dl_sandbox_run(file, 10, describe_file, &request, r, &err);
}

static bool says(const dl_sandbox_result *r, const char *what) {
    return r->text.at && strstr(r->text.at, what);
}

static void drop(dl_sandbox_result *r) {
    dl_buf_free(&r->text);
    dl_buf_free(&r->bytes);
}

static const char *file_in_dir(const char *name) {
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void make_volumes(const char *file) {
    enum { L = 16 };
    static float nbody[4 * L * L * L], hydro[5 * L * L * L];
    for (int i = 0; i < 4 * L * L * L; i++)
        nbody[i] = (float)(i / (L * L * L)) + (i % 2 ? 0.5f : -0.5f);
    nbody[77] = NAN;
    nbody_setup s = {
        .size = L, .box = 32, .seed = 3, .steps = 5, .z_start = 49, .cosmos = cosmology_planck()};
    CHECK(volume_file_write(file, &s, nbody, hydro, NULL, &err), "%s", err.message);
}

static void test_volumes(void) {
    dl_sandbox_result r;
    const char *file = file_in_dir("v.h5");
    make_volumes(file);
    CHECK(describe(file, -1, &r), "%s", err.message);
    CHECK(says(&r, "Nbody  f32 [4, 16, 16, 16]  contiguous") &&
          says(&r, "Hydro  f32 [5, 16, 16, 16]"));
    CHECK(says(&r, "seed = 3\n") && says(&r, "lowmem, inmem") && says(&r, "1 NaN!"));
    CHECK(says(&r, "      2         1.5         2.5           2         0.5  velocity y"), "%s",
          r.text.at);
    CHECK(r.bytes.n > 100 && !memcmp(r.bytes.at, "\x89PNG", 4));
    drop(&r);
    CHECK(describe(file, 15, &r));
    drop(&r);
    CHECK(!describe(file, 16, &r) && err.code == DL_USAGE, "%s", err.message);
    dl_buf generator = {0};
    err = (dl_error){0};
    CHECK(hdf5_read_generator(file, &generator, &err) && !strcmp(generator.at, VOLUME_GENERATOR),
          "%s", err.message);
    CHECK(!hdf5_read_generator("/dev/null", &generator, &err) && strstr(err.message, "/dev/null"));
    dl_buf_free(&generator);
}

/* Data sets of other kinds: compressed, empty, elsewhere, inside groups that contain themselves. */
static void test_hdf5_kinds(void) {
    const char *file = file_in_dir("kinds.h5");
    hid_t h = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t group = H5Gcreate2(h, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(h, "g", group, "self", H5P_DEFAULT, H5P_DEFAULT);
    hsize_t dims[2] = {20, 30}, chunk[2] = {7, 7}, none[1] = {0};
    hid_t space = H5Screate_simple(2, dims, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(how, 2, chunk), H5Pset_deflate(how, 4);
    short v[600];
    for (int i = 0; i < 600; i++) v[i] = (short)(i - 300);
    hid_t set = H5Dcreate2(group, "packed", H5T_STD_I16BE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_SHORT, H5S_ALL, H5S_ALL, H5P_DEFAULT, v);
    H5Dclose(set), H5Pclose(how), H5Sclose(space);
    space = H5Screate_simple(1, none, NULL);
    H5Dclose(
        H5Dcreate2(h, "empty", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    how = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL);
    H5Pset_external(how, "/etc/passwd", 0, 600);
    H5Dclose(H5Dcreate2(h, "outside", H5T_NATIVE_UCHAR, space, H5P_DEFAULT, how, H5P_DEFAULT));
    H5Pclose(how), H5Sclose(space);
    H5Lcreate_external("other.h5", "x", h, "link", H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group), H5Fclose(h);
    dl_sandbox_result r;
    CHECK(describe(file, -1, &r), "%s", err.message);
    CHECK(says(&r, "g/packed  i16 BE [20, 30]  chunks of [7, 7], deflate") && !says(&r, "self/"),
          "%s", r.text.at);
    CHECK(says(&r, "       -300         299        -0.5"), "%s", r.text.at);
    CHECK(says(&r, "empty  f32 [0]") && says(&r, "keeps its data in other files") &&
          !says(&r, "root:"));
    CHECK(says(&r, "'other.h5', which is not there") && says(&r, "loaders: own"));
    drop(&r);
}

static void write_npy(const char *file, const char *header, const void *data, size_t n) {
    dl_buf b = {0};
    size_t length = strlen(header);
    dl_putn(&b, "\x93NUMPY\x01\x00", 8);
    dl_putn(&b, (const char[]){(char)(length & 255), (char)(length >> 8)}, 2);
    dl_putn(&b, header, length);
    if (n) dl_putn(&b, data, n);
    CHECK(dl_write_file(file, b.at, b.n, &err));
    dl_buf_free(&b);
}

static void test_npy(void) {
    dl_sandbox_result r;
    const char *file = file_in_dir("a.npy");
    float v[2 * 3 * 5 * 4];
    for (int i = 0; i < 120; i++) v[i] = (float)(i % 4 * 10 + i / 4 % 5);
    write_npy(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 5, 4), }\n", v,
              sizeof v);
    CHECK(describe(file, 1, &r), "%s", err.message); /* too few slices for "channels last": 2 < 4 */
    drop(&r);
    write_npy(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 5, 4), }\n", v,
              sizeof v);
    CHECK(describe(file, -1, &r) && says(&r, "array  f32 [6, 5, 4]") &&
              says(&r, "0          34          17"),
          "%s", r.text.at);
    drop(&r);
    static const char *const bad[] = {
        "",
        "{",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 5, 40)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': [('a', '<f4'",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_npy(file, bad[i], v, sizeof v);
        CHECK(!describe(file, -1, &r) && err.code == DL_INPUT, "%s: %s", bad[i], err.message);
    }
}

static void test_damage(void) {
    dl_arena *arena = dl_arena_new(NULL);
    size_t n;
    dl_sandbox_result r;
    make_volumes(file_in_dir("v.h5"));
    char *whole = dl_read_file(arena, file_in_dir("v.h5"), 1 << 24, &n, &err);
    const char *file = file_in_dir("bad.h5");
    CHECK(!describe(file, -1, &r) && err.code == DL_IO);
    CHECK(!describe(dir, -1, &r) && err.code == DL_INPUT);
    for (size_t cut = 0; cut < n; cut += cut < 2048 ? 256 : n / 8) {
        err = (dl_error){0};
        CHECK(dl_write_file(file, whole, cut, &err));
        bool ok = describe(file, -1, &r);
        CHECK(!ok && err.code == DL_INPUT && err.message[0], "cut at %zu", cut);
        if (ok) drop(&r);
    }
    /* Bytes changed in the metadata: any answer, but an answer. */
    int errors = 0;
    dlr_rng random = dlr_rng_at((dlr_rng_place){.seed = 1, .stream = DLR_STREAM_NOISE});
    for (int i = 0; i < 40; i++) {
        uint32_t bits[3] = {dlr_rng_u32(&random), dlr_rng_u32(&random), dlr_rng_u32(&random)};
        char *at = whole + bits[0] % 2048, was = *at;
        *at = (char)(bits[1] % 3 ? bits[2] : bits[1] % 2 ? 0xff : 0);
        err = (dl_error){0};
        CHECK(dl_write_file(file, whole, n, &err));
        *at = was;
        if (describe(file, -1, &r))
            drop(&r);
        else {
            errors++;
            CHECK(err.code != DL_OK && err.message[0]);
        }
    }
    CHECK(errors > 0);
    dl_arena_free(arena);
}

static bool crash(void *ctx, dl_sandbox_result *out, dl_error *e) {
    (void)out, (void)e;
    if (ctx) abort();
    for (volatile unsigned i = 0;; i++) {
    }
}

static void test_sandbox(void) {
    dl_sandbox_result r;
    err = (dl_error){0};
    CHECK(!dl_sandbox_run("x.h5", 20, crash, dir, &r, &err) && err.code == DL_INPUT &&
          strstr(err.message, "damaged"));
    err = (dl_error){0};
    CHECK(!dl_sandbox_run("x.h5", 1, crash, NULL, &r, &err) && err.code == DL_INPUT &&
          strstr(err.message, "too long"));
}

int main(void) {
    char command[64];
    if (!mkdtemp(dir)) return 1;
    test_volumes();
    test_hdf5_kinds();
    test_npy();
    test_damage();
    test_sandbox();
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return dl_test_end();
}
