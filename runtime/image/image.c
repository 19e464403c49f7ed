#include "runtime/image/image.h"

#include "runtime/image/font.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SIDE = 1 << 14, GAP = 6, LABEL_HEIGHT = DLR_TEXT_HEIGHT + 4 };

static const uint8_t paper[3] = {255, 255, 255}, ink[3] = {30, 30, 40};

/* A colour map is a path through Oklab (Ottosson 2020), where L is perceived lightness: L rises
 * linearly, and the hue (a, b) moves between a few points. */
typedef struct {
    float t, L, a, b;
} map_point;
static const map_point sequential[] = {{0, 0.10f, 0.01f, -0.04f},
                                       {0.3f, 0.37f, 0.07f, -0.12f},
                                       {0.55f, 0.59f, 0.17f, -0.01f},
                                       {0.8f, 0.80f, 0.08f, 0.12f},
                                       {1, 0.98f, -0.03f, 0.09f}};
static const map_point diverging[] = {{0, 0.33f, -0.01f, -0.13f},
                                      {0.25f, 0.65f, -0.04f, -0.10f},
                                      {0.5f, 0.97f, 0, 0},
                                      {0.75f, 0.65f, 0.13f, 0.06f},
                                      {1, 0.33f, 0.12f, 0.05f}};
static const map_point grey[] = {{0, 0.05f, 0, 0}, {1, 1, 0, 0}};
static const struct {
    const map_point *at;
    int n;
} maps[] = {
    [DLR_MAP_SEQUENTIAL] = {sequential, sizeof sequential / sizeof sequential[0]},
    [DLR_MAP_DIVERGING] = {diverging, sizeof diverging / sizeof diverging[0]},
    [DLR_MAP_GREY] = {grey, sizeof grey / sizeof grey[0]},
};

static uint8_t encode_light(float v) {
    if (v <= 0) return 0;
    if (v >= 1) return 255;
    return (uint8_t)(255 * (v <= 0.0031308f ? 12.92f * v : 1.055f * powf(v, 1 / 2.4f) - 0.055f) +
                     0.5f);
}

static void oklab_to_rgb(float L, float a, float b, uint8_t rgb[3]) {
    float l = L + 0.3963377774f * a + 0.2158037573f * b,
          m = L - 0.1055613458f * a - 0.0638541728f * b,
          s = L - 0.0894841775f * a - 1.2914855480f * b;
    l = l * l * l, m = m * m * m, s = s * s * s;
    rgb[0] = encode_light(4.0767416621f * l - 3.3077115913f * m + 0.2309699292f * s);
    rgb[1] = encode_light(-1.2684380046f * l + 2.6097574011f * m - 0.3413193965f * s);
    rgb[2] = encode_light(-0.0041960863f * l - 0.7034186147f * m + 1.7076147010f * s);
}

void dlr_map_colour(dlr_map map, float t, uint8_t rgb[3]) {
    if (isnan(t)) {
        rgb[0] = rgb[1] = rgb[2] = 128;
        return;
    }
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    const map_point *p = maps[map].at;
    while (p + 2 < maps[map].at + maps[map].n && t > p[1].t) p++;
    float u = (t - p[0].t) / (p[1].t - p[0].t), v = 1 - u;
    oklab_to_rgb(v * p[0].L + u * p[1].L, v * p[0].a + u * p[1].a, v * p[0].b + u * p[1].b, rgb);
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

enum { RANGE_SAMPLES = 65536 };

void dlr_field_range(dlr_field *f) {
    size_t total = (size_t)f->height * (size_t)f->width, step = total / RANGE_SAMPLES + 1, n = 0;
    float *v = dl_malloc((total / step + 1) * sizeof *v);
    for (size_t i = 0; i < total; i += step) {
        float x = f->at[(ptrdiff_t)(i / (size_t)f->width) * f->row +
                        (ptrdiff_t)(i % (size_t)f->width) * f->column];
        if (isfinite(x)) v[n++] = x;
    }
    qsort(v, n, sizeof *v, compare_floats);
    f->low = n ? v[(size_t)(0.005 * (double)(n - 1))] : 0;
    f->high = n ? v[(size_t)ceil(0.995 * (double)(n - 1))] : 1;
    free(v);
    if (f->map == DLR_MAP_DIVERGING) {
        f->high = fmaxf(fabsf(f->low), fabsf(f->high));
        f->low = -f->high;
    }
    if (!(f->low < f->high)) {
        float pad = fmaxf(fabsf(f->low) * 0.01f, 1e-6f);
        f->low -= pad, f->high += pad;
    }
}

dlr_image *dlr_image_new(dl_arena *arena, int width, int height, const uint8_t rgb[3],
                         dl_error *err) {
    if (width < 1 || height < 1 || width > MAX_SIDE || height > MAX_SIDE) {
        dl_fail(err, DL_INPUT, "a picture of %d x %d pixels; 1 to %d a side are possible", width,
                height, MAX_SIDE);
        return NULL;
    }
    dlr_image *image = DL_NEW(arena, dlr_image);
    *image =
        (dlr_image){width, height, DL_NEWS(arena, uint8_t, 3 * (size_t)width * (size_t)height)};
    dlr_image_fill(image, 0, 0, width, height, rgb);
    return image;
}

void dlr_image_fill(dlr_image *image, int x, int y, int width, int height, const uint8_t rgb[3]) {
    int x1 = x + width < image->width ? x + width : image->width;
    int y1 = y + height < image->height ? y + height : image->height;
    for (int j = y < 0 ? 0 : y; j < y1; j++)
        for (int i = x < 0 ? 0 : x; i < x1; i++)
            memcpy(image->rgb + 3 * ((size_t)j * (size_t)image->width + (size_t)i), rgb, 3);
}

void dlr_image_text(dlr_image *image, int x, int y, const char *text, const uint8_t rgb[3]) {
    for (; *text; text++, x += DLR_TEXT_WIDTH)
        for (int j = 0; j < DLR_GLYPH_HEIGHT; j++)
            for (int i = 0; i < DLR_GLYPH_WIDTH; i++)
                if (dlr_glyph_dot(*text, i, j)) dlr_image_fill(image, x + i, y + j, 1, 1, rgb);
}

/* How a field becomes a panel: each pixel shows one element (zoom > 1: zoom pixels a side), or the
 * mean of shrink^2 elements. */
typedef struct {
    int zoom, shrink, width, height;
} fit;

static fit fit_of(const dlr_field *f, int pixels) {
    int longer = f->height > f->width ? f->height : f->width;
    fit r = {longer < pixels ? pixels / longer : 1,
             longer > pixels ? (longer + pixels - 1) / pixels : 1, 0, 0};
    r.width = (f->width + r.shrink - 1) / r.shrink * r.zoom;
    r.height = (f->height + r.shrink - 1) / r.shrink * r.zoom;
    return r;
}

static float mean_at(const dlr_field *f, int y, int x, int shrink) {
    double sum = 0;
    int n = 0;
    for (int j = y * shrink; j < f->height && j < (y + 1) * shrink; j++)
        for (int i = x * shrink; i < f->width && i < (x + 1) * shrink; i++, n++)
            sum += (double)f->at[j * f->row + i * f->column];
    return (float)(sum / n);
}

static void draw_panel(dlr_image *image, dlr_field f, fit how, int x0, int y0) {
    if (!(f.low < f.high)) dlr_field_range(&f);
    if (f.label) {
        char text[128];
        snprintf(text, sizeof text, "%.*s", how.width / DLR_TEXT_WIDTH, f.label);
        dlr_image_text(image, x0, y0 + 2, text, ink);
    }
    y0 += LABEL_HEIGHT;
    uint8_t rgb[3];
    for (int y = 0; y < how.height; y += how.zoom)
        for (int x = 0; x < how.width; x += how.zoom) {
            float v = mean_at(&f, y / how.zoom, x / how.zoom, how.shrink);
            dlr_map_colour(f.map, (v - f.low) / (f.high - f.low), rgb);
            dlr_image_fill(image, x0 + x, y0 + y, how.zoom, how.zoom, rgb);
        }
}

dlr_image *dlr_image_panels(dl_arena *arena, const dlr_field *fields, int n, int columns,
                            int pixels, dl_error *err) {
    int width = 0, height = 0;
    bool ok = n > 0 && n <= 1024 && columns > 0 && pixels > 0 && pixels <= MAX_SIDE;
    for (int i = 0; ok && i < n; i++) {
        fit r = {0};
        if (!fields[i].at) continue;
        ok = fields[i].width > 0 && fields[i].height > 0;
        if (ok) r = fit_of(&fields[i], pixels);
        if (r.width > width) width = r.width;
        if (r.height > height) height = r.height;
    }
    if (columns > n) columns = n;
    if (!ok || width == 0 || width > MAX_SIDE || (long)columns * (width + GAP) + GAP > MAX_SIDE) {
        dl_fail(err, DL_INPUT, "cannot draw %d fields in %d columns of %d pixels", n, columns,
                pixels);
        return NULL;
    }
    int rows = (n + columns - 1) / columns, pitch_x = width + GAP,
        pitch_y = height + LABEL_HEIGHT + GAP;
    dlr_image *image =
        dlr_image_new(arena, columns * pitch_x + GAP, rows * pitch_y + GAP, paper, err);
    for (int i = 0; image && i < n; i++)
        if (fields[i].at)
            draw_panel(image, fields[i], fit_of(&fields[i], pixels), GAP + i % columns * pitch_x,
                       GAP / 2 + i / columns * pitch_y);
    return image;
}
