/* Pictures: how they are moved, scaled and resized, beside PyTorch's numbers; CIFAR-10's layout,
 * JPEG files and their folders. */
#include "dldata/jpeg_file.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/data/cifar.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/jpeg.h"
#include "runtime/data/prefetch.h"
#include "tests/check.h"
#include "tests/unit/written.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE };
static char dir[] = "/tmp/dl_pictures_XXXXXX";

static const char *in_dir(const char *name) { return written_path(dir, name); }

static unsigned char point(int y, int x, int c) {
    return (unsigned char)(y * 37 + x * 91 + c * 53 + y * x % 7 * 11);
}

/* ---- moving, scaling, resizing: the numbers are PyTorch 1.13's ---- */

static void test_resize(void) {
    static const float smaller[] = {65.993f,  143.263f, 113.114f, 102.891f, 123.709f, 129.031f,
                                    128.844f, 114.106f, 123.408f, 124.64f,  87.263f,  158.136f};
    static const float least[] = {121.488f, 128.621f, 121.059f, 126.887f, 125.06f,
                                  130.991f, 139.977f, 145.502f, 124.316f};
    static const float larger[] = {0,       13,      52,      91,  130,      169,      182,
                                   18.5f,   32.286f, 73.643f, 115, 156.357f, 197.714f, 211.5f,
                                   43.167f, 58,      102.5f,  147, 173.214f, 199.429f, 208.167f};
    /* interpolate(mode="bilinear", antialias=True): first values of [3, to...] */
    const struct {
        int from[2], to[2], n;
        const float *want;
    } rows[] = {
        {{5, 7}, {3, 4}, 12, smaller}, {{9, 13}, {2, 3}, 9, least}, {{4, 3}, {6, 7}, 21, larger}};
    for (int r = 0; r < 3; r++) {
        unsigned char rgb[9 * 13 * 3], *at = rgb;
        float planes[3 * 6 * 7];
        dl_error err = {0};
        for (int y = 0; y < rows[r].from[0]; y++)
            for (int x = 0; x < rows[r].from[1]; x++)
                for (int c = 0; c < 3; c++) *at++ = point(y, x, c);
        dlr_jpeg from = {rows[r].from[0], rows[r].from[1], rgb};
        CHECK(dlr_jpeg_resize(&from, rows[r].to[0], rows[r].to[1], planes, &err), "%s",
              err.message);
        for (int i = 0; i < rows[r].n; i++) CHECK_NEAR(planes[i], rows[r].want[i], 2e-3);
    }
}

static void test_moves(void) {
    /* grid_sample(padding_mode="border", align_corners=True), its first rows */
    static const float shifted[] = {18.5f, 18.5f, 66.75f,  163.25f, 131.75f, 100.25f,
                                    55.5f, 55.5f, 109.25f, 152.75f, 132.25f, 156.5f};
    static const float zoomed[] = {199,    199,    144.4f,  17,    145.6f,  18.2f,
                                   199,    199,    144.4f,  17,    145.6f,  18.2f,
                                   141.6f, 141.6f, 138.45f, 41.5f, 164.71f, 31.92f,
                                   43.2f,  43.2f,  128.25f, 83.5f, 197.47f, 55.44f};
    enum { H = 5, W = 6 };
    float planes[3 * H * W], out[3 * H * W], scratch[256];
    CHECK(dlr_picture_scratch(H, W) <= sizeof scratch);
    for (int i = 0; i < 3 * H * W; i++) planes[i] = point(i / W % H, i % W, i / (H * W));
    dlr_move plain = {.zoom = {1, 1}}, shift = {{0.1, -0.25}, {1, 1}, false},
             zoom = {{-0.33, 0.2}, {0.6, 1.4}, true};
    dlr_picture_write(planes, H, W, &plain, DLR_SCALING_UNIT, out, scratch);
    for (int i = 0; i < 3 * H * W; i++) CHECK(out[i] == planes[i] / 255);
    static const float mean[3] = {103.939f, 116.779f, 123.68f};
    dlr_picture_write(planes, H, W, &plain, DLR_SCALING_CAFFE, out, scratch);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < H * W; i++)
            CHECK(out[c * H * W + i] == planes[(2 - c) * H * W + i] - mean[c]);
    dlr_picture_write(planes, H, W, &shift, DLR_SCALING_UNIT, out, scratch);
    for (int i = 0; i < 12; i++) CHECK_NEAR(out[i] * 255, shifted[i], 2e-3);
    dlr_picture_write(planes, H, W, &zoom, DLR_SCALING_UNIT, out, scratch);
    for (int i = 0; i < 24; i++) CHECK_NEAR(out[i] * 255, zoomed[i], 1e-2);
}

/* Every quantity is uniform over its range, and by itself. */
static void test_draws(void) {
    enum { N = 20000 };
    const dlr_moves moves = {.shift = 0.33, .zoom = 0.5, .flip = true};
    double sum[5] = {0}, square[5] = {0}, least[5], most[5], product = 0;
    for (int k = 0; k < 5; k++) least[k] = 9, most[k] = -9;
    for (int i = 0; i < N; i++) {
        dlr_move m = dlr_move_draw(&moves, (dlr_rng_place){3, DLR_STREAM_TRAIN, 1, (uint32_t)i});
        double v[5] = {m.shift[0] / 0.33, m.shift[1] / 0.33, (m.zoom[0] - 1) / 0.5,
                       (m.zoom[1] - 1) / 0.5, m.flip};
        for (int k = 0; k < 5; k++) {
            sum[k] += v[k], square[k] += v[k] * v[k];
            least[k] = v[k] < least[k] ? v[k] : least[k], most[k] = v[k] > most[k] ? v[k] : most[k];
        }
        product += v[0] * v[1] + v[2] * v[3] + v[0] * (v[4] - 0.5);
    }
    for (int k = 0; k < 4; k++) {
        CHECK(least[k] >= -1 && most[k] <= 1 && least[k] < -0.999 && most[k] > 0.999, "%g %g",
              least[k], most[k]);
        CHECK_NEAR(sum[k] / N, 0, 0.02);
        CHECK_NEAR(square[k] / N, 1 / 3.0, 0.01);
    }
    CHECK_NEAR(sum[4] / N, 0.5, 0.02);
    CHECK_NEAR(product / N, 0, 0.03);
    dlr_move none = dlr_move_draw(&(dlr_moves){0}, (dlr_rng_place){3, DLR_STREAM_TRAIN, 1, 2});
    CHECK(none.shift[0] == 0 && none.shift[1] == 0 && none.zoom[0] == 1 && none.zoom[1] == 1 &&
          !none.flip);
}

/* Parts of a picture lie within it; their areas and ratios are spread as torchvision's
 * RandomResizedCrop's. */
static void test_boxes(void) {
    enum { N = 20000, HEIGHT = 400, WIDTH = 500 };
    const dlr_moves moves = {.crop = 0.08};
    double area = 0, squares = 0, ratio = 0, least = 9, most = 0, place[2] = {0};
    int outside = 0, edges[2] = {0};
    for (int i = 0; i < N; i++) {
        dlr_box b = dlr_box_draw(&moves, (dlr_rng_place){3, DLR_STREAM_TRAIN, 1, (uint32_t)i},
                                 HEIGHT, WIDTH);
        outside += b.top < 0 || b.left < 0 || b.height < 1 || b.width < 1 ||
                   b.top + b.height > HEIGHT || b.left + b.width > WIDTH;
        double a = (double)(b.height * b.width) / (HEIGHT * WIDTH),
               r = log((double)b.width / (double)b.height);
        area += a, squares += a * a, ratio += r;
        least = r < least ? r : least, most = r > most ? r : most;
        place[0] += HEIGHT > b.height ? (double)b.top / (double)(HEIGHT - b.height) : 0.5;
        place[1] += WIDTH > b.width ? (double)b.left / (double)(WIDTH - b.width) : 0.5;
        edges[0] += b.top == 0, edges[1] += b.top + b.height == HEIGHT;
    }
    CHECK(outside == 0 && edges[0] > 20 && edges[1] > 20, "%d %d %d", outside, edges[0], edges[1]);
    CHECK(least > -log(4.0 / 3) - 0.02 && most < log(4.0 / 3) + 0.02 && least < -0.27 &&
              most > 0.27,
          "%g %g", least, most);
    CHECK_NEAR(place[0] / N, 0.5, 0.01);
    CHECK_NEAR(place[1] / N, 0.5, 0.01);
    /* torchvision.transforms.RandomResizedCrop.get_params of 0.29, scale (0.08, 1), its usual
     * ratio, 100,000 times */
    CHECK_NEAR(area / N, 0.4543, 0.008);
    CHECK_NEAR(squares / N, 0.2576, 0.008);
    CHECK_NEAR(ratio / N, 0.0287, 0.006);
    dlr_box all = dlr_box_draw(&(dlr_moves){0}, (dlr_rng_place){3, DLR_STREAM_TRAIN, 1, 2}, 7, 9);
    CHECK(all.top == 0 && all.left == 0 && all.height == 7 && all.width == 9);
    dlr_box wide = dlr_box_draw(&(dlr_moves){.crop = 0.99},
                                (dlr_rng_place){3, DLR_STREAM_TRAIN, 1, 2}, 10, 100);
    CHECK(wide.height == 10 && wide.width == 13 && wide.top == 0 && wide.left == 43, "%d at %d",
          (int)wide.width, (int)wide.left); /* none fits: the middle of the nearest ratio */
    unsigned char rgb[4 * 5 * 3];
    for (int i = 0; i < 4 * 5 * 3; i++) rgb[i] = (unsigned char)i;
    dlr_jpeg p = {4, 5, rgb};
    dlr_jpeg_crop(&p, 1, 2, 3, 2);
    CHECK(p.height == 3 && p.width == 2);
    for (int i = 0; i < 3 * 2 * 3; i++) CHECK(rgb[i] == (1 + i / 6) * 15 + 6 + i % 6, "%d", i);
}

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
            d, &(dlr_prefetch_options){BATCH, 0, 1, workers, 0, NULL, false}, &err);
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

static void test_cifar(void) {
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
    dlr_cifar_options o = {dir, {.moves = {.shift = 0.1, .flip = true}, .classes = 10}};
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

static void test_cifar_faults(void) {
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

/* ---- JPEG ---- */

enum { TALL = 48, WIDE = 80 };

/* Smooth, so that JPEG changes little. */
static int shade(int y, int x, int c) { return 40 + (c == 0 ? 2 * y : c == 1 ? 2 * x : y + x); }

static void make_jpeg(dl_buf *out) {
    unsigned char rgb[TALL * WIDE * 3], *at = rgb;
    dl_error err = {0};
    for (int y = 0; y < TALL; y++)
        for (int x = 0; x < WIDE; x++)
            for (int c = 0; c < 3; c++) *at++ = (unsigned char)shade(y, x, c);
    CHECK(jpeg_encode(rgb, WIDE, TALL, 95, out, &err), "%s", err.message);
}

static bool decode(const dl_buf *b, size_t n, int h, int w, dlr_jpeg *out, dl_error *err) {
    *err = (dl_error){0}, *out = (dlr_jpeg){0};
    return dlr_jpeg_decode((const unsigned char *)b->at, n, "a.jpg", h, w, out, err);
}

static void test_decoding(void) {
    static const int sizes[][4] = {{48, 80, 48, 80}, {25, 30, 48, 80}, {24, 40, 24, 40},
                                   {12, 11, 12, 20}, {2, 2, 6, 10},    {90, 99, 48, 80}};
    dl_buf b = {0};
    dl_error err;
    dlr_jpeg p;
    make_jpeg(&b);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK(decode(&b, b.n, sizes[i][0], sizes[i][1], &p, &err), "%s", err.message);
        CHECK(p.height == sizes[i][2] && p.width == sizes[i][3], "%d: %d x %d", (int)i,
              (int)p.height, (int)p.width);
        double scale = (double)TALL / (double)p.height, worst = 0;
        for (int y = 0; y < p.height; y++)
            for (int x = 0; x < p.width; x++)
                for (int c = 0; c < 3; c++) {
                    double at_y = (y + 0.5) * scale - 0.5, at_x = (x + 0.5) * scale - 0.5;
                    double want = 40 + (c == 0 ? 2 * at_y : c == 1 ? 2 * at_x : at_y + at_x);
                    double off = fabs(p.rgb[(y * p.width + x) * 3 + c] - want);
                    if (off > worst) worst = off;
                }
        CHECK(worst < 8, "%d: %g", (int)i, worst);
        free(p.rgb);
    }
    int refused = 0;
    for (size_t n = 0; n + 2 < b.n; n++) { /* cut short anywhere in front of the end's mark */
        bool ok = decode(&b, n, 48, 80, &p, &err);
        refused += !ok && err.code == DL_INPUT && strstr(err.message, "a.jpg");
        if (ok) free(p.rgb);
    }
    CHECK(refused == (int)b.n - 2, "%d of %d", refused, (int)b.n);
    CHECK(!dlr_jpeg_decode((const unsigned char *)"not a picture", 13, "a.jpg", 8, 8, &p, &err));
    dl_buf_free(&b);
}

/* A file of `parts` colours, each point `v`. */
static void encode_flat(J_COLOR_SPACE space, int parts, const unsigned char *v,
                        unsigned char **bytes, unsigned long *n) {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char row[16 * 4];
    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, bytes, n);
    c.image_width = c.image_height = 16, c.input_components = parts, c.in_color_space = space;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 100, TRUE);
    jpeg_start_compress(&c, TRUE);
    for (int i = 0; i < 16 * parts; i++) row[i] = v[i % parts];
    for (int y = 0; y < 16; y++) jpeg_write_scanlines(&c, (JSAMPROW[]){row}, 1);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
}

/* Gray, and inks as Adobe's programs write them (255: none). */
static void test_colours(void) {
    static const struct {
        J_COLOR_SPACE space;
        int parts;
        unsigned char v[4], want[3];
    } rows[] = {{JCS_GRAYSCALE, 1, {99}, {99, 99, 99}},
                {JCS_RGB, 3, {200, 100, 30}, {200, 100, 30}},
                {JCS_CMYK, 4, {255, 128, 64, 200}, {200, 100, 50}}};
    for (int r = 0; r < 3; r++) {
        unsigned char *bytes = NULL;
        unsigned long n = 0;
        dl_error err = {0};
        dlr_jpeg p;
        encode_flat(rows[r].space, rows[r].parts, rows[r].v, &bytes, &n);
        CHECK(dlr_jpeg_decode(bytes, n, "a.jpg", 16, 16, &p, &err), "%s", err.message);
        for (int i = 0; err.code == DL_OK && i < 16 * 16 * 3; i++)
            CHECK_NEAR(p.rgb[i], rows[r].want[i % 3], 3);
        if (err.code == DL_OK) free(p.rgb);
        free(bytes);
    }
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

static void test_folder(void) {
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

int main(void) {
    if (!mkdtemp(dir)) return 1;
    test_resize();
    test_moves();
    test_draws();
    test_boxes();
    test_cifar();
    test_cifar_faults();
    test_decoding();
    test_colours();
    test_folder();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return dl_test_end();
}
