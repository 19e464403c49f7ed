/* Parts of pictures, and pictures of another size: a triangle filter, rows first, then columns. */
#include "runtime/data/jpeg.h"

#include <stdlib.h>
#include <string.h>

/* Which points of `from` an output point is a mean of, and their weights, `taps` for each. */
typedef struct {
    int64_t taps;
    int64_t *first;
    float *weight;
} filter;

static bool make_filter(int64_t from, int64_t to, filter *f, dl_error *err) {
    double scale = (double)from / (double)to, radius = scale > 1 ? scale : 1;
    f->taps = 2 * (int64_t)radius + 3;
    if (f->taps > from) f->taps = from;
    f->first = calloc((size_t)to, sizeof *f->first);
    f->weight = calloc((size_t)(to * f->taps), sizeof *f->weight);
    if (!f->first || !f->weight)
        return dl_fail(err, DL_RESOURCE, "no memory for pictures %lld points wide", (long long)to);
    for (int64_t i = 0; i < to; i++) {
        double centre = ((double)i + 0.5) * scale - 0.5, sum = 0;
        int64_t first = centre - radius < 0 ? 0 : (int64_t)(centre - radius);
        if (first + f->taps > from) first = from - f->taps;
        f->first[i] = first;
        float *w = f->weight + i * f->taps;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = 0; k < f->taps; k++) {
                double away = (double)(first + k) - centre, part = 1 - (away < 0 ? -away : away) / radius;
                if (part < 0) part = 0;
                if (pass == 0)
                    sum += part;
                else
                    w[k] = (float)(part / sum);
            }
    }
    return true;
}

/* A row of points, each three values, to `width` points. */
static void resize_row(const unsigned char *row, const filter *f, int64_t width, float *out) {
    for (int64_t x = 0; x < width; x++) {
        const unsigned char *at = row + f->first[x] * 3;
        const float *w = f->weight + x * f->taps;
        float sum[3] = {0};
        for (int64_t k = 0; k < f->taps; k++)
            for (int c = 0; c < 3; c++) sum[c] += w[k] * (float)at[k * 3 + c];
        for (int c = 0; c < 3; c++) out[c * width + x] = sum[c];
    }
}

static void resize_columns(const float *rows, const filter *f, int64_t height, int64_t width, float *planes) {
    for (int64_t y = 0; y < height; y++)
        for (int c = 0; c < 3; c++) {
            float *out = planes + (c * height + y) * width;
            for (int64_t x = 0; x < width; x++) out[x] = 0;
            for (int64_t k = 0; k < f->taps; k++) {
                const float *from = rows + ((f->first[y] + k) * 3 + c) * width,
                            w = f->weight[y * f->taps + k];
                if (w == 0) continue;
                for (int64_t x = 0; x < width; x++) out[x] += w * from[x];
            }
        }
}

bool dlr_jpeg_resize(const dlr_jpeg *from, int64_t height, int64_t width, float *planes, dl_error *err) {
    filter across = {0}, down = {0};
    float *rows = malloc((size_t)from->height * (size_t)width * 3 * sizeof *rows);
    bool ok = (rows || dl_fail(err, DL_RESOURCE, "no memory for a picture of %lld x %lld points",
                               (long long)from->height, (long long)width)) &&
              make_filter(from->width, width, &across, err) && make_filter(from->height, height, &down, err);
    if (ok) {
        for (int64_t y = 0; y < from->height; y++)
            resize_row(from->rgb + y * from->width * 3, &across, width, rows + y * width * 3);
        resize_columns(rows, &down, height, width, planes);
    }
    free(across.first), free(across.weight), free(down.first), free(down.weight), free(rows);
    return ok;
}

void dlr_jpeg_crop(dlr_jpeg *p, int64_t top, int64_t left, int64_t height, int64_t width) {
    for (int64_t y = 0; y < height; y++) /* never behind what is read next */
        memmove(p->rgb + y * width * 3, p->rgb + ((top + y) * p->width + left) * 3, (size_t)width * 3);
    p->height = height, p->width = width;
}
