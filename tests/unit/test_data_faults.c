/* Files of samples that are damaged, cut or of another model, and readers that misbehave. */
#include "tests/unit/data_sets.h"

#include "ir/base/sandbox.h"
#include "runtime/data/array_format.h"
#include "runtime/data/volume.h"
#include "tests/check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

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

void test_faults(void) {
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
        {"external.h5", {"external storage"}, DL_INPUT, NULL, 4, 0},
        {"virtual.h5", {"virtual data set"}, DL_INPUT, NULL, 4, 0},
        {"links.h5", {"lies out of the folder of the file"}, DL_INPUT, NULL, 4, 0},
        {"links.h5", {"lies out of the folder of the file"}, DL_INPUT, "soft", 4, 0},
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

void test_model_types(void) {
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

void test_damage(void) {
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

void test_sandbox(void) {
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

void test_child(void) {
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
