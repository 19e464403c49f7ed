/* Crops and resizes pictures: a triangle filter, along columns first (a row of bytes is a long
 * vector), then along rows. */
#include "runtime/data/jpeg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A pixel's three values, and one value of the next pixel. */
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* The pixels of `from` that an output pixel is a weighted mean of, with `taps` weights each. */
typedef struct {
    int64_t taps;
    int64_t *first;
    float *weight;
} filter;

static bool make_filter(int64_t from, int64_t to, filter *f, dl_error *err) {
    double scale = (double)from / (double)to, radius = scale > 1 ? scale : 1;
    f->taps = (int64_t)ceil(2 * radius);
    if (f->taps > from) f->taps = from;
    f->first = calloc((size_t)to, sizeof *f->first);
    f->weight = calloc((size_t)(to * f->taps), sizeof *f->weight);
    if (!f->first || !f->weight)
        return dl_fail(err, DL_RESOURCE, "no memory for pictures %lld points wide", (long long)to);
    for (int64_t i = 0; i < to; i++) {
        double centre = ((double)i + 0.5) * scale - 0.5, sum = 0;
        int64_t first = centre < radius ? 0 : (int64_t)(centre - radius) + 1;
        if (first + f->taps > from) first = from - f->taps;
        f->first[i] = first;
        float *w = f->weight + i * f->taps;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = 0; k < f->taps; k++) {
                double away = (double)(first + k) - centre,
                       part = 1 - (away < 0 ? -away : away) / radius;
                if (part < 0) part = 0;
                if (pass == 0)
                    sum += part;
                else
                    w[k] = (float)(part / sum);
            }
    }
    return true;
}

/* Computes row y of the new height, at the old width: row[from->width][3]. */
static void mix_rows(const dlr_jpeg *from, const filter *f, int64_t y, float *restrict row) {
    int64_t n = from->width * 3;
    memset(row, 0, (size_t)n * sizeof *row);
    for (int64_t k = 0; k < f->taps; k++) {
        const unsigned char *at = from->rgb + (f->first[y] + k) * n;
        float w = f->weight[y * f->taps + k];
        for (int64_t x = 0; x < n; x++) row[x] += w * (float)at[x];
    }
}

/* Resizes a row to `width` pixels in three planes, `plane` values apart. */
static void mix_columns(const float *row, const filter *f, int64_t width, int64_t plane,
                        float *out) {
    for (int64_t x = 0; x < width; x++) {
        const float *at = row + f->first[x] * 3, *w = f->weight + x * f->taps;
        quad sum = {0};
        for (int64_t k = 0; k < f->taps; k++) sum += w[k] * *(const quad *)(at + k * 3);
        for (int c = 0; c < 3; c++) out[c * plane + x] = sum[c];
    }
}

bool dlr_jpeg_resize(const dlr_jpeg *from, int64_t height, int64_t width, float *planes,
                     dl_error *err) {
    filter across = {0}, down = {0};
    /* one more, since a quad's last value may lie after the row */
    float *row = calloc((size_t)from->width * 3 + 1, sizeof *row);
    bool ok = (row || dl_fail(err, DL_RESOURCE, "no memory for a row of %lld points",
                              (long long)from->width)) &&
              make_filter(from->width, width, &across, err) &&
              make_filter(from->height, height, &down, err);
    for (int64_t y = 0; ok && y < height; y++) {
        mix_rows(from, &down, y, row);
        mix_columns(row, &across, width, height * width, planes + y * width);
    }
    free(across.first), free(across.weight), free(down.first), free(down.weight), free(row);
    return ok;
}

void dlr_jpeg_crop(dlr_jpeg *p, int64_t top, int64_t left, int64_t height, int64_t width) {
    for (int64_t y = 0; y < height; y++) /* `from` never advances past data that are read later */
        memmove(p->rgb + y * width * 3, p->rgb + ((top + y) * p->width + left) * 3,
                (size_t)width * 3);
    p->height = height, p->width = width;
}
