/* Data sets of pictures: CIFAR-10's layout and folders of classes, and their faults. */
#include "tests/unit/picture_sets.h"

#include "dldata/jpeg_file.h"
#include "ir/base/output.h"
#include "runtime/data/cifar.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/prefetch.h"
#include "tests/check.h"
#include "tests/unit/written.h"

#include <stdatomic.h>
#include <unistd.h>

/* ---- data sets ---- */

typedef struct {
    const dlr_loader *loader;
    const void *options;
    dlr_split split;
    int channels, height, width;
    dl_dtype label;
    int label_axis;
} set_options;

static dlr_dataset *open_set(const set_options *o, dl_error *err) {
    dlr_arrays arrays = {0};
    dl_type x = dl_scalar(DL_F32), t = dl_scalar(o->label);
    dl_type_push(&x, "N", 2), dl_type_push(&x, "C", o->channels);
    dl_type_push(&x, "H", o->height), dl_type_push(&x, "W", o->width);
    dl_type_push(&t, "N", 2);
    if (o->label_axis) dl_type_push(&t, "C", o->label_axis);
    CHECK(dlr_arrays_add(&arrays, "x", false, &x, err) &&
          dlr_arrays_add(&arrays, "t", true, &t, err));
    return dlr_dataset_open(o->loader, o->options,
                            &(dlr_dataset_options){o->split, 7, &arrays, false, DLR_OPEN_FOR_USE},
                            err);
}

static void refuse(const set_options *o, dl_code code, const char *first, const char *second) {
    dl_error err = {0};
    dlr_dataset *d = open_set(o, &err);
    CHECK(!d && err.code == code && strstr(err.message, first) && strstr(err.message, second),
          "%s | %s %s", err.message, first, second);
    dlr_dataset_close(d);
    dl_input_forget(); /* which the next file may replace */
}

/* Two epochs, and the way of a resumed run: the same bits by any number of workers. */
static void check_workers(const dlr_dataset *d, size_t floats) {
    enum { BATCH = 4 };
    float *want = NULL;
    for (int workers = 0; workers < 4; workers++) {
        dl_error err = {0};
        dlr_prefetch *p = dlr_prefetch_start(
            d, &(dlr_prefetch_options){BATCH, 0, 1, workers, 0, NULL, false, false}, &err);
        CHECK(p != NULL, "%s", err.message);
        if (!p) return;
        size_t each = BATCH * floats;
        float *got = calloc(5 * each, sizeof *got);
        for (int b = 0; b < 5; b++) {
            if (b == 4) dlr_prefetch_seek(p, 1, 1);
            dlr_batch batch;
            CHECK(dlr_prefetch_next(p, &batch, &err), "%s", err.message);
            memcpy(got + (size_t)b * each, batch.data[0], each * sizeof *got);
        }
        if (!want) want = got;
        CHECK(memcmp(got, want, 5 * each * sizeof *got) == 0, "%d workers", workers);
        if (got != want) free(got);
        dlr_prefetch_stop(p);
    }
    free(want);
}

/* ---- CIFAR-10 ---- */

static unsigned char record_byte(int n, int i) {
    return i ? (unsigned char)(n * 29 + i * 7 + i / 251) : (unsigned char)(n % 10);
}

static void write_records(const char *path, int first, int n, size_t extra) {
    unsigned char *all = malloc((size_t)n * RECORD + extra + 1);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < RECORD; i++) all[k * RECORD + i] = record_byte(first + k, i);
    for (size_t i = 0; i < extra; i++) all[(size_t)n * RECORD + i] = 1;
    dl_error err = {0};
    CHECK(dl_write_file(path, all, (size_t)n * RECORD + extra, &err), "%s", err.message);
    free(all);
}

/* Which record a picture is, by its label and its first points. */
static int identify(const float *x, int n) {
    for (int k = 0; k < n; k++) {
        int same = 0;
        for (int i = 0; i < 40; i++) same += x[i] == (float)record_byte(k, 1 + i) / 255;
        if (same == 40) return k;
    }
    return -1;
}

static set_options cifar_set(const dlr_cifar_options *o, dlr_split split) {
    return (set_options){&dlr_cifar_loader, o, split, 3, SIDE, SIDE, DL_I32, 0};
}

void test_cifar(void) {
    enum { N = 9 };
    static float x[3 * PLANE], y[3 * PLANE];
    static _Alignas(64) char scratch[1 << 15];
    int32_t t = -1;
    dl_error err = {0};
    mkdir(in_dir("cifar"), 0700);
    write_records(in_dir("cifar/data_batch_2.bin"), 5, 4, 0);
    write_records(in_dir("cifar/data_batch_1.bin"), 0, 5, 0);
    write_records(in_dir("cifar/test_batch.bin"), 20, 3, 0);
    write_records(in_dir("cifar/other.bin"), 0, 1, 5);
    dlr_cifar_options o = {test_dir, {.moves = {.shift = 0.1, .flip = true}, .classes = 10}};
    o.folder = strdup(in_dir("cifar"));
    set_options s = cifar_set(&o, DLR_VALID);
    dlr_dataset *d = open_set(&s, &err);
    CHECK(d && dlr_dataset_samples(d) == 3 && dlr_dataset_scratch(d) <= sizeof scratch, "%s",
          err.message);
    for (int k = 0; d && k < 3; k++) { /* as they are, whatever training does */
        CHECK(dlr_dataset_sample(d, k, k, (void *[]){x, &t}, scratch, &err) && t == (20 + k) % 10,
              "%d", t);
        int bad = 0;
        for (int i = 0; i < 3 * PLANE; i++) bad += x[i] != (float)record_byte(20 + k, 1 + i) / 255;
        CHECK(bad == 0, "%d", bad);
    }
    dlr_dataset_close(d);
    s = cifar_set(&o, DLR_TRAIN);
    d = open_set(&s, &err);
    CHECK(d && dlr_dataset_samples(d) == N && dlr_dataset_held(d) == N * RECORD, "%s", err.message);
    if (!d) return;
    bool other = false;
    for (int k = 0; k < N; k++) { /* moved anew in each epoch, and the same when asked again */
        CHECK(dlr_dataset_sample(d, 1, k, (void *[]){x, &t}, scratch, &err));
        CHECK(dlr_dataset_sample(d, 1, k, (void *[]){y, &t}, scratch, &err));
        CHECK(memcmp(x, y, sizeof x) == 0);
        CHECK(dlr_dataset_sample(d, 2, k, (void *[]){y, &t}, scratch, &err));
        other |= memcmp(x, y, sizeof x) != 0;
    }
    CHECK(other);
    check_workers(d, 3 * PLANE);
    dlr_dataset_close(d);
    o.pictures.moves = (dlr_moves){0};
    for (int limit = 0; limit < 8;
         limit += 7) { /* an epoch has each picture once, in an order of its own */
        o.pictures.limit = limit;
        int n = limit ? limit : N, moved = 0;
        d = open_set(&s, &err);
        CHECK(d && dlr_dataset_samples(d) == n, "%s", err.message);
        int order[2][N];
        for (int e = 0; d && e < 2; e++) {
            bool seen[N] = {0};
            for (int k = 0; k < n; k++) {
                CHECK(dlr_dataset_sample(d, e, k, (void *[]){x, &t}, scratch, &err));
                int which = order[e][k] = identify(x, n);
                CHECK(which >= 0 && !seen[which] && t == which % 10, "%d", which);
                if (which >= 0) seen[which] = true;
            }
        }
        for (int k = 0; d && k < n; k++) moved += order[0][k] != order[1][k];
        CHECK(moved > 2, "%d", moved);
        dlr_dataset_close(d);
    }
    free((char *)(intptr_t)o.folder);
}

void test_cifar_faults(void) {
    dlr_cifar_options o = {.pictures = {.classes = 10}};
    set_options s = cifar_set(&o, DLR_TRAIN);
    refuse(&s, DL_USAGE, "data_dir is not set", "synthetic");
    o.folder = "/tmp/dl_nowhere_at_all";
    refuse(&s, DL_IO, "data_dir: cannot read the folder", "nowhere");
    mkdir(in_dir("short"), 0700);
    o.folder = strdup(in_dir("short"));
    refuse(&s, DL_IO, "has no file data_batch_*.bin", "short");
    write_records(in_dir("short/data_batch_1.bin"), 0, 2, 100);
    refuse(&s, DL_INPUT, "data_batch_1.bin is 6246 bytes", "3073");
    write_records(in_dir("short/data_batch_1.bin"), 0, 0, 0);
    refuse(&s, DL_INPUT, "data_batch_1.bin is 0 bytes", "3073");
    unsigned char bad[2 * RECORD] = {0};
    dl_error err = {0};
    bad[RECORD] = 10;
    CHECK(dl_write_file(in_dir("short/data_batch_1.bin"), bad, sizeof bad, &err));
    refuse(&s, DL_INPUT, "data_batch_1.bin: record 1 (at byte 3073) has the label 10", "0 to 9");
    s.split = DLR_VALID;
    refuse(&s, DL_IO, "test_batch.bin", "");
    s.height = 64;
    refuse(&s, DL_INPUT, "f32[3, 32, 32]", "input_shape");
    s.height = SIDE, s.channels = 1;
    refuse(&s, DL_INPUT, "a picture is f32[3, H, W]", "'x'");
    s.channels = 3, s.label = DL_F32;
    refuse(&s, DL_INPUT, "a class is i32 or i64", "'t'");
    s.label = DL_I32, s.label_axis = 2;
    refuse(&s, DL_INPUT, "a class is i32 or i64", "'t'");
    s.label_axis = 0, o.pictures.classes = 9;
    refuse(&s, DL_INPUT, "the model tells 9 classes apart", "n_classes");
    o.pictures.classes = 10, o.pictures.moves.zoom = 1;
    refuse(&s, DL_USAGE, "zoomed by 0 to below 1, not 1", "");
    free((char *)(intptr_t)o.folder);
}

/* ---- folders of classes ---- */

static void write_jpeg(const char *path, int red) {
    unsigned char rgb[24 * 20 * 3];
    dl_buf b = {0};
    dl_error err = {0};
    for (int i = 0; i < 24 * 20 * 3; i++) rgb[i] = (unsigned char)(i % 3 ? 100 : red);
    CHECK(jpeg_encode(rgb, 24, 20, 95, &b, &err) && dl_write_file(path, b.at, b.n, &err), "%s",
          err.message);
    dl_buf_free(&b);
}

static atomic_int skipped;
static void count_skipped(const char *why) {
    skipped++;
    CHECK(strstr(why, "t/cat/3.jpg") || strstr(why, "t/bee/1.JPG"), "%s", why);
}

/* With `skipped`, a file that cannot be read gives way to the next one, and is told once, however
 * often met. */
static void check_skipping(const set_options *s) {
    static float x[3 * 16 * 12];
    static _Alignas(64) char scratch[1 << 14];
    dlr_image_folder_options o = *(const dlr_image_folder_options *)s->options;
    set_options with = *s;
    dl_error err = {0};
    o.skipped = count_skipped, o.pictures.moves.crop = 0, with.options = &o, skipped = 0;
    dlr_dataset *d = open_set(&with, &err);
    CHECK(d && dlr_dataset_samples(d) == 6, "%s", err.message);
    for (int epoch = 0; d && epoch < 3; epoch++) {
        int64_t t, of[3] = {0};
        for (int k = 0; k < 6; k++) {
            CHECK(dlr_dataset_sample(d, epoch, k, (void *[]){x, &t}, scratch, &err), "%s",
                  err.message);
            of[t]++;
        }
        CHECK(of[1] == 0 && of[0] + of[2] == 6,
              "the damaged class' only picture: others in its place");
    }
    CHECK(skipped == 2, "%d told", (int)skipped);
    dlr_dataset_close(d);
}

void test_folder(void) {
    static const char *const folders[] = {"t", "t/ape", "t/bee", "t/cat", "v", "v/bee", "v/cat"};
    static const struct {
        const char *path;
        int class, red;
    } files[] = {{"t/ape/1.jpg", 0, 10},  {"t/bee/1.JPG", 1, 30},  {"t/cat/1.jpg", 2, 60},
                 {"t/ape/2.jpeg", 0, 90}, {"t/cat/2.jpg", 2, 120}, {"t/cat/3.jpg", 2, 150}};
    static float x[3 * 16 * 12];
    static _Alignas(64) char scratch[1 << 14];
    int64_t t;
    dl_error err = {0};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) mkdir(in_dir(folders[i]), 0700);
    for (int i = 0; i < 6; i++) write_jpeg(in_dir(files[i].path), files[i].red);
    write_jpeg(in_dir("v/cat/a.jpg"), 200), write_jpeg(in_dir("v/bee/a.jpg"), 220);
    CHECK(dl_write_file(in_dir("t/cat/notes.txt"), "x", 1, &err));
    dlr_image_folder_options o = {
        .train = strdup(in_dir("t")), .valid = strdup(in_dir("v")), .pictures = {.classes = 3}};
    set_options s = {&dlr_image_folder_loader, &o, DLR_VALID, 3, 16, 12, DL_I64, 0};
    dlr_dataset *d = open_set(&s, &err); /* a class without a folder shifts no label */
    CHECK(d && dlr_dataset_samples(d) == 2 && dlr_dataset_scratch(d) <= sizeof scratch, "%s",
          err.message);
    for (int k = 0; d && k < 2; k++) {
        CHECK(dlr_dataset_sample(d, 0, k, (void *[]){x, &t}, scratch, &err) && t == k + 1, "%s",
              err.message);
        CHECK_NEAR(x[0] * 255, k ? 200 : 220, 6);
        CHECK_NEAR(x[2 * 16 * 12] * 255, 100, 6);
    }
    dlr_dataset_close(d);
    s.split = DLR_TRAIN;
    for (int limit = 0; limit < 4; limit += 3) { /* the first three are one of each class */
        o.pictures.limit = limit;
        d = open_set(&s, &err);
        int n = limit ? limit : 6, seen = 0;
        CHECK(d && dlr_dataset_samples(d) == n, "%s", err.message);
        for (int k = 0; d && k < n; k++) {
            CHECK(dlr_dataset_sample(d, 3, k, (void *[]){x, &t}, scratch, &err), "%s", err.message);
            for (int i = 0; i < n; i++)
                if (fabs((double)x[0] * 255 - files[i].red) < 8) seen |= (t == files[i].class) << i;
        }
        CHECK(seen == (1 << n) - 1, "%x", (unsigned)seen);
        dlr_dataset_close(d);
    }
    o.pictures.limit = 0, o.pictures.moves = (dlr_moves){0.33, 0.5, true, 0.1},
    o.pictures.scaling = DLR_SCALING_CAFFE;
    d = open_set(&s, &err);
    CHECK(d != NULL, "%s", err.message);
    if (d) check_workers(d, 3 * 16 * 12);
    dlr_dataset_close(d);
    /* A damaged file: at once where it is the first of its class, else when its turn comes. */
    CHECK(dl_write_file(in_dir("t/cat/3.jpg"), "\xff\xd8\xff\xe0 cut", 8, &err));
    d = open_set(&s, &err);
    bool named = false;
    for (int k = 0; d && k < 6; k++) {
        dl_error fault = {0};
        if (!dlr_dataset_sample(d, 0, k, (void *[]){x, &t}, scratch, &fault))
            named = fault.code == DL_INPUT && strstr(fault.message, "t/cat/3.jpg");
    }
    CHECK(named);
    dlr_dataset_close(d);
    CHECK(dl_write_file(in_dir("t/bee/1.JPG"), "", 0, &err));
    refuse(&s, DL_INPUT, "t/bee/1.JPG is empty", "");
    check_skipping(&s);
    o.pictures.classes = 5;
    refuse(&s, DL_INPUT, "holds 3 class folders (ape to cat)", "5 classes apart (n_classes)");
    o.pictures.classes = 0;
    CHECK(dl_write_file(in_dir("t/ape/odd.png"), "x", 1, &err));
    refuse(&s, DL_INPUT, "t/ape/odd.png: only JPEG", "train_dir");
    mkdir(in_dir("t/empty"), 0700), unlink(in_dir("t/ape/odd.png"));
    refuse(&s, DL_INPUT, "t/empty has no file .jpg", "train_dir");
    mkdir(in_dir("v/dog"), 0700);
    s.split = DLR_VALID;
    refuse(&s, DL_INPUT, "v/dog is no class of train_dir", "valid_dir");
    free((char *)(intptr_t)o.train), free((char *)(intptr_t)o.valid);
    o.train = NULL;
    refuse(&s, DL_USAGE, "train_dir is not set", "");
}
