/* Pictures: how they are moved, scaled and resized, next to PyTorch's numbers; CIFAR-10's layout,
 * JPEG files and their folders. */
#include "tests/unit/picture_sets.h"

#include "dldata/jpeg_file.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/jpeg.h"
#include "tests/check.h"
#include "tests/unit/written.h"

#include <jpeglib.h>

char test_dir[] = "/tmp/dl_pictures_XXXXXX";

const char *in_dir(const char *name) { return written_path(test_dir, name); }

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

int main(void) {
    if (!mkdtemp(test_dir)) return 1;
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
    snprintf(command, sizeof command, "rm -r %s", test_dir);
    CHECK(system(command) == 0);
    return dl_test_end();
}
