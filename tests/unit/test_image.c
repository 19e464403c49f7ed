/* PNG files against zlib and the standard; colour maps, panels and charts pixel by pixel. */
#include "runtime/image/chart.h"
#include "runtime/image/font.h"
#include "tests/check.h"

#include <stdlib.h>
#include <zlib.h>

static dl_error err;

static uint32_t u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* A decoder of what the encoder may write: checks chunks and CRCs, undoes all but the Paeth filter.
 */
static bool decode(const dl_buf *png, int *width, int *height, uint8_t *rgb, size_t cap) {
    const uint8_t *p = (const uint8_t *)png->at, *end = p + png->n;
    if (png->n < 8 || memcmp(p, "\x89PNG\r\n\x1a\n", 8) != 0) return false;
    uint8_t raw[1 << 16];
    uLongf raw_bytes = 0;
    bool ended = false;
    for (p += 8; p + 12 <= end && !ended; p += 12 + u32(p)) {
        uint32_t n = u32(p);
        if (n > (size_t)(end - p) - 12 || crc32(0, p + 4, n + 4) != u32(p + 8 + n)) return false;
        if (!memcmp(p + 4, "IHDR", 4)) {
            *width = (int)u32(p + 8), *height = (int)u32(p + 12);
            if (memcmp(p + 16, "\x08\x02\0\0\0", 5) != 0) return false;
        }
        if (!memcmp(p + 4, "IDAT", 4)) {
            raw_bytes = sizeof raw;
            if (uncompress(raw, &raw_bytes, p + 8, n) != Z_OK) return false;
        }
        ended = !memcmp(p + 4, "IEND", 4);
    }
    size_t row = 3 * (size_t)*width;
    if (!ended || p != end || raw_bytes != (row + 1) * (size_t)*height ||
        row * (size_t)*height > cap)
        return false;
    for (size_t y = 0; y < (size_t)*height; y++)
        for (size_t i = 0; i < row; i++) {
            const uint8_t *in = raw + y * (row + 1);
            uint8_t left = i >= 3 ? rgb[y * row + i - 3] : 0, up = y ? rgb[(y - 1) * row + i] : 0;
            uint8_t guess[4] = {0, left, up, (uint8_t)((left + up) / 2)};
            if (in[0] > 3) return false;
            rgb[y * row + i] = (uint8_t)(in[1 + i] + guess[in[0]]);
        }
    return true;
}

static void test_png(dl_arena *arena) {
    const uint8_t black[3] = {0};
    dlr_image *image = dlr_image_new(arena, 37, 23, black, &err);
    for (int i = 0; i < 37 * 23 * 3; i++) image->rgb[i] = (uint8_t)(i * i / 7 + (i % 5) * 50);
    dl_buf png = {0}, again = {0};
    CHECK(dlr_png_encode(image, &png, &err) && dlr_png_encode(image, &again, &err));
    CHECK(png.n == again.n && memcmp(png.at, again.at, png.n) == 0);
    uint8_t back[37 * 23 * 3];
    int width = 0, height = 0;
    CHECK(decode(&png, &width, &height, back, sizeof back) && width == 37 && height == 23);
    CHECK(memcmp(back, image->rgb, sizeof back) == 0);
    png.at[45] ^= 1; /* and the decoder would notice */
    CHECK(!decode(&png, &width, &height, back, sizeof back));
    dl_buf_free(&png);
    dl_buf_free(&again);
    dlr_image bad = {0, 5, NULL};
    CHECK(!dlr_png_encode(&bad, &png, &err) && err.code == DL_INPUT && png.n == 0);
    err = (dl_error){0};
    CHECK(!dlr_image_new(arena, 1 << 20, 1, black, &err) && err.code == DL_INPUT);
    err = (dl_error){0};
}

/* Luminance by the sRGB standard. */
static double luminance(const uint8_t rgb[3]) {
    double sum = 0;
    const double weight[3] = {0.2126, 0.7152, 0.0722};
    for (int i = 0; i < 3; i++) {
        double v = rgb[i] / 255.0;
        sum += weight[i] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static void test_maps(void) {
    uint8_t rgb[3], other[3];
    for (int map = DLR_MAP_SEQUENTIAL; map <= DLR_MAP_GREY; map++) {
        double before = -1;
        bool rises = true;
        for (int i = 0; i <= 100; i++) {
            double t = map == DLR_MAP_DIVERGING
                           ? i / 200.0
                           : i / 100.0; /* a diverging map rises up to its middle */
            dlr_map_colour((dlr_map)map, (float)t, rgb);
            rises = rises && luminance(rgb) >= before - 1e-3;
            before = luminance(rgb);
        }
        CHECK(rises && before > 0.85, "map %d ends at %g", map, before);
    }
    dlr_map_colour(DLR_MAP_DIVERGING, 0, rgb);
    dlr_map_colour(DLR_MAP_DIVERGING, 1, other);
    CHECK(rgb[2] > rgb[0] && other[0] > other[2] && fabs(luminance(rgb) - luminance(other)) < 0.05);
    dlr_map_colour(DLR_MAP_GREY, NAN, rgb);
    CHECK(rgb[0] == 128 && rgb[1] == 128 && rgb[2] == 128);
    dlr_map_colour(DLR_MAP_GREY, 7, rgb);
    dlr_map_colour(DLR_MAP_GREY, 1, other);
    CHECK(memcmp(rgb, other, 3) == 0);
}

static const uint8_t *pixel(const dlr_image *i, int x, int y) {
    return i->rgb + 3 * (y * i->width + x);
}

static void test_panels(dl_arena *arena) {
    float a[2 * 4] = {0, 1, 2, 3, 4, 5, 6, 7}, b[64 * 64];
    for (int i = 0; i < 64 * 64; i++) b[i] = (float)(i % 64 < 32 ? -1 : 3);
    /* `a` read transposed: 4 rows of 2, enlarged by 4 pixels; `b` shrunk by 4. */
    dlr_field f[3] = {{a, 4, 2, 1, 4, 0, 7, DLR_MAP_GREY, "a"},
                      {b, 64, 64, 64, 1, 0, 0, DLR_MAP_DIVERGING, NULL},
                      {b, 64, 64, 64, 1, -1, 3, DLR_MAP_GREY, "a label that is too long"}};
    dlr_image *image = dlr_image_panels(arena, f, 3, 2, 16, &err);
    CHECK(image && image->width == 2 * (16 + 6) + 6 && image->height == 2 * (16 + 12 + 6) + 6, "%s",
          err.message);
    if (!image) return;
    uint8_t want[3];
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 2; x++) {
            dlr_map_colour(DLR_MAP_GREY, (float)(x * 4 + y) / 7, want);
            CHECK(!memcmp(pixel(image, 6 + 4 * x, 15 + 4 * y), want, 3) &&
                  !memcmp(pixel(image, 9 + 4 * x, 18 + 4 * y), want, 3));
        }
    /* The range of a diverging map is symmetric: -3 to 3. */
    dlr_map_colour(DLR_MAP_DIVERGING, 1.0f / 3, want);
    CHECK(!memcmp(pixel(image, 28, 15), want, 3));
    dlr_map_colour(DLR_MAP_DIVERGING, 1, want);
    CHECK(!memcmp(pixel(image, 43, 30), want, 3));
    dlr_map_colour(DLR_MAP_GREY, 0, want);
    CHECK(!memcmp(pixel(image, 6, 34 + 15), want, 3));

    float bad[4] = {NAN, INFINITY, 5, 5};
    dlr_field g = {bad, 2, 2, 2, 1, 0, 0, DLR_MAP_SEQUENTIAL, NULL};
    dlr_field_range(&g);
    CHECK(g.low < 5 && g.high > 5);
    CHECK(dlr_image_panels(arena, &g, 1, 1, 8, &err));
    g.width = 0;
    CHECK(!dlr_image_panels(arena, &g, 1, 1, 8, &err) && err.code == DL_INPUT);
    err = (dl_error){0};
    CHECK(!dlr_image_panels(arena, f, 0, 1, 8, &err) && err.code == DL_INPUT);
    err = (dl_error){0};
}

static void test_text(dl_arena *arena) {
    const uint8_t white[3] = {255, 255, 255}, red[3] = {255, 0, 0};
    for (int a = 33; a < 127; a++) /* every glyph has ink, and no two are alike */
        for (int b = a; b < 127; b++) {
            int ink = 0, same = 1;
            for (int i = 0; i < 35; i++) {
                ink += dlr_glyph_dot((char)a, i % 5, i / 5);
                same = same &&
                       dlr_glyph_dot((char)a, i % 5, i / 5) == dlr_glyph_dot((char)b, i % 5, i / 5);
            }
            if (!ink || (same && a != b)) CHECK(false, "glyphs %c and %c", a, b);
        }
    dlr_image *image = dlr_image_new(arena, 10, 8, white, &err);
    dlr_image_text(image, -3, -2, "T\xff", red); /* clipped on two sides */
    int ink = 0;
    for (int i = 0; i < 80; i++) ink += image->rgb[3 * i + 1] == 0;
    CHECK(ink > 5 && ink < 30, "%d", ink);
    CHECK(image->rgb[0] == 255 && image->rgb[1] == 255);
}

static void test_chart(dl_arena *arena) {
    double x[50], y[50], z[50];
    for (int i = 0; i < 50; i++)
        x[i] = i, y[i] = exp(-i / 10.0), z[i] = i == 20 ? NAN : 0.5 * exp(-i / 20.0);
    dlr_series s[2] = {{x, y, 50, "train", {200, 30, 30}}, {x, z, 50, "valid", {30, 60, 200}}};
    dlr_chart_style style = {480, 300, "Loss", "iteration", "L1", false};
    dlr_image *image = dlr_chart(arena, &style, s, 2, &err);
    CHECK(image && image->width == 480 && image->height == 300, "%s", err.message);
    if (!image) return;
    /* The first curve begins in the upper left corner of the frame and is in the lower half at its
     * end. */
    int red_left = 0, red_right_low = 0;
    for (int v = 0; v < 300; v++)
        for (int u = 0; u < 480; u++) {
            const uint8_t *p = pixel(image, u, v);
            bool red = p[0] > 180 && p[1] < 80 && p[2] < 80;
            red_left += red && u < 80 && v < 100;
            red_right_low += red && u > 440 && v > 200;
        }
    CHECK(red_left > 5 && red_right_low > 5, "%d %d", red_left, red_right_low);
    style.log_y = true;
    CHECK(dlr_chart(arena, &style, s, 2, &err));
    s[0].n = 1;
    CHECK(dlr_chart(arena, &style, s, 1, &err)); /* a single point */
    s[0].n = 0;
    CHECK(!dlr_chart(arena, &style, s, 1, &err) && err.code == DL_INPUT);
    err = (dl_error){0};
}

int main(void) {
    dl_arena *arena = dl_arena_new(NULL);
    test_png(arena);
    test_maps();
    test_panels(arena);
    test_text(arena);
    test_chart(arena);
    dl_arena_free(arena);
    return dl_test_end();
}
