/* Drawn pictures: labels, layouts, the same bytes on any number of threads, JPEG files read back.
 */
#include "dldata/image_files.h"
#include "dldata/jpeg_file.h"
#include "dldata/scene.h"
#include "ir/base/input.h"
#include "tests/check.h"
#include "tests/unit/written.h"

#include <stdlib.h>
#include <unistd.h>

#include <jpeglib.h>

static dl_error err;

static void test_labels(void) {
    int moved = 0;
    for (uint32_t ten = 0; ten < 50; ten++) {
        int seen = 0;
        for (uint32_t i = 0; i < 10; i++) {
            int label = scene_label(5, 1, 10 * ten + i);
            seen |= 1 << label;
            moved += label != (int)i;
        }
        CHECK(seen == 1023, "ten pictures have the labels %x", (unsigned)seen);
    }
    CHECK(moved > 400, "%d of 500 labels are not in order", moved);
}

/* Mean square difference of two pictures' bytes. */
static double apart(const unsigned char *a, const unsigned char *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum / (double)n;
}

static void test_scene(void) {
    enum { N = 48 * 36 * 3 };
    unsigned char a[N], b[N];
    scene_draw(1, 0, 7, 48, 36, a);
    scene_draw(1, 0, 7, 48, 36, b);
    CHECK(!memcmp(a, b, N), "a picture differs from itself");
    double mean = 0, square = 0;
    for (int i = 0; i < N; i++) mean += a[i] / (double)N, square += a[i] * (double)a[i] / N;
    CHECK(square - mean * mean > 100, "a flat picture");
    scene_draw(1, 1, 7, 48, 36, b);
    CHECK(apart(a, b, N) > 200, "training and validation have the same pictures");
    scene_draw(2, 0, 7, 48, 36, b);
    CHECK(apart(a, b, N) > 200, "two seeds have the same pictures");
}

/* By libjpeg's reader; NULL where it has another size. */
static unsigned char *decode(const char *bytes, size_t n, int width, int height) {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr e;
    d.err = jpeg_std_error(&e);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, (const unsigned char *)bytes, n);
    jpeg_read_header(&d, TRUE);
    unsigned char *rgb = NULL;
    if ((int)d.image_width == width && (int)d.image_height == height && d.num_components == 3) {
        rgb = malloc((size_t)width * (size_t)height * 3);
        jpeg_start_decompress(&d);
        while (d.output_scanline < d.output_height) {
            JSAMPROW row = rgb + (size_t)d.output_scanline * (size_t)width * 3;
            jpeg_read_scanlines(&d, &row, 1);
        }
        jpeg_finish_decompress(&d);
    }
    jpeg_destroy_decompress(&d);
    return rgb;
}

static void test_jpeg(void) {
    enum { W = 61, H = 40 };
    unsigned char rgb[W * H * 3];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++)
                rgb[(y * W + x) * 3 + c] = (unsigned char)(3 * x + (c == 1 ? y : 0));
    dl_buf good = {0}, poor = {0};
    CHECK(jpeg_encode(rgb, W, H, 95, &good, &err) && jpeg_encode(rgb, W, H, 20, &poor, &err));
    CHECK(poor.n < good.n, "%zu and %zu bytes", poor.n, good.n);
    unsigned char *back = decode(good.at, good.n, W, H);
    CHECK(back && apart(back, rgb, sizeof rgb) < 9, "off by %g",
          back ? apart(back, rgb, sizeof rgb) : -1);
    free(back);
    dl_buf_free(&good);
    dl_buf_free(&poor);
}

static bool stop_soon(void *ctx, long long done, long long of) {
    (void)ctx, (void)of;
    return done == 0;
}

static void test_files(const char *dir) {
    enum { RECORD = 3073 };
    dl_arena *arena = dl_arena_new(NULL);
    image_setup s = {.train = 100, .valid = 30, .side = 40, .threads = 1, .seed = 9};
    char path[4][300];
    for (int i = 0; i < 4; i++) snprintf(path[i], sizeof path[i], "%s/%d", dir, i);
    CHECK(image_write(path[0], &s, NULL, NULL, &err), "%s", err.message);
    s.threads = 3;
    CHECK(image_write(path[1], &s, NULL, NULL, &err), "%s", err.message);
    size_t n[2];
    char *one = written_bytes(arena, path[0], "data_batch_3.bin", &n[0]),
         *three = written_bytes(arena, path[1], "data_batch_3.bin", &n[1]);
    CHECK(n[0] == 20 * RECORD && n[0] == n[1] && !memcmp(one, three, n[0]));
    /* Record 4 of the third file is picture 44 of the training's, in planes. */
    unsigned char rgb[3072];
    scene_draw(9, 0, 44, 32, 32, rgb);
    CHECK(one[4 * RECORD] == scene_label(9, 0, 44));
    bool same = true;
    for (int i = 0; i < 1024; i++)
        for (int c = 0; c < 3; c++)
            same = same && (unsigned char)one[4 * RECORD + 1 + c * 1024 + i] == rgb[3 * i + c];
    CHECK(same, "a record is not its picture");
    CHECK(written_bytes(arena, path[0], "test_batch.bin", &n[0]) && n[0] == 30 * RECORD);

    s.jpeg = true;
    CHECK(image_write(path[2], &s, NULL, NULL, &err), "%s", err.message);
    int width, height;
    char name[64];
    image_size(&s, 1, 17, &width, &height);
    CHECK(width >= 28 && height >= 28 && width <= 70 && height <= 70, "%dx%d", width, height);
    snprintf(name, sizeof name, "val/%s/000017.jpg", scene_class_names[scene_label(9, 1, 17)]);
    char *jpeg = written_bytes(arena, path[2], name, &n[0]);
    unsigned char *back = decode(jpeg, n[0], width, height),
                  *drawn = malloc((size_t)(width * height * 3));
    scene_draw(9, 1, 17, width, height, drawn);
    CHECK(back && apart(back, drawn, (size_t)(width * height * 3)) < 400,
          "not the picture that was drawn");
    free(back);
    free(drawn);
    CHECK(!image_write(path[3], &s, stop_soon, NULL, &err) && err.code == DL_OK, "%s", err.message);
    CHECK(access(path[3], F_OK) != 0, "something is left of a run that was stopped");
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/test_drawn.XXXXXX", command[64];
    if (!mkdtemp(dir)) return 1;
    test_labels();
    test_scene();
    test_jpeg();
    test_files(dir);
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return dl_test_end();
}
