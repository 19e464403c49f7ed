#include "runtime/data/picture.h"

#include "runtime/data/loader.h"
#include "runtime/data/shuffle.h"

#include <math.h>

/* ---- what the model takes ---- */

bool dlr_picture_check(const dlr_dataset *d, const dlr_picture_options *o, int64_t *height, int64_t *width,
                       dl_error *err) {
    enum { MOST = 1 << 14 }; /* points of a side: what is multiplied below stays far from overflow */
    if (!dlr_loader_pair(d, err)) return false;
    const dlr_array *x = &d->arrays.at[0], *t = &d->arrays.at[1];
    const dl_axis *axis = x->type.axis;
    if (x->type.dtype != DL_F32 || x->type.rank != 3 || axis[0].size != 3)
        return dl_fail(err, DL_INPUT, "a sample of the model's '%s' is %s; a picture is f32[3, H, W]",
                       x->name, dl_type_text(&x->type));
    if (axis[1].size < 1 || axis[2].size < 1 || axis[1].size > MOST || axis[2].size > MOST)
        return dl_fail(err, DL_INPUT,
                       "a sample of the model's '%s' is %s; pictures have 1 to %d points a side", x->name,
                       dl_type_text(&x->type), MOST);
    if ((t->type.dtype != DL_I32 && t->type.dtype != DL_I64) || t->type.rank != 0)
        return dl_fail(err, DL_INPUT, "a sample of the model's '%s' is %s; a class is i32 or i64, one number",
                       t->name, dl_type_text(&t->type));
    if (!(o->moves.shift >= 0 && o->moves.shift <= 1) || !(o->moves.zoom >= 0 && o->moves.zoom < 1))
        return dl_fail(err, DL_USAGE,
                       "pictures are shifted by 0 to 1, not %g, and zoomed by 0 to below 1, not %g",
                       o->moves.shift, o->moves.zoom);
    if (!(o->moves.crop >= 0 && o->moves.crop < 1))
        return dl_fail(err, DL_USAGE, "a part of a picture is 0 to below 1 of its area, not %g",
                       o->moves.crop);
    *height = axis[1].size, *width = axis[2].size;
    return true;
}

void dlr_label_write(const dl_type *type, int64_t label, void *out) {
    if (type->dtype == DL_I64)
        *(int64_t *)out = label;
    else
        *(int32_t *)out = (int32_t)label;
}

/* ---- which one, and how it is moved ---- */

int64_t dlr_picture_of(const dlr_dataset *d, int64_t epoch, int64_t sample) {
    if (d->split != DLR_TRAIN) return sample;
    return dlr_shuffle((dlr_rng_place){d->seed, DLR_STREAM_SHUFFLE, (uint32_t)epoch, 0}, d->samples, sample);
}

static double between(dlr_rng *rng, double low, double high) {
    return low + (high - low) * (double)dlr_rng_float(rng);
}

dlr_move dlr_move_draw(const dlr_moves *moves, dlr_rng_place place) {
    dlr_rng rng = dlr_rng_at(place);
    dlr_move m;
    for (int i = 0; i < 2; i++) m.shift[i] = between(&rng, -moves->shift, moves->shift);
    for (int i = 0; i < 2; i++) m.zoom[i] = between(&rng, 1 - moves->zoom, 1 + moves->zoom);
    m.flip = moves->flip && dlr_rng_float(&rng) < 0.5f;
    return m;
}

dlr_move dlr_move_of(const dlr_dataset *d, const dlr_moves *moves, int64_t epoch, int64_t sample) {
    if (d->split != DLR_TRAIN) return (dlr_move){.zoom = {1, 1}};
    return dlr_move_draw(moves,
                         (dlr_rng_place){d->seed, DLR_STREAM_TRAIN, (uint32_t)epoch, (uint32_t)sample});
}

/* ---- a part of it ---- */

/* What a move draws from a place lies before these. */
enum { MOVE_NUMBERS = 8 };

/* The largest part of the middle whose sides are in a ratio that may be drawn. */
static dlr_box middle(int64_t height, int64_t width) {
    dlr_box b = {0, 0, height, width};
    if (3 * width > 4 * height) b.width = (4 * height + 1) / 3;
    if (4 * width < 3 * height) b.height = (4 * width + 1) / 3;
    if (b.width > width) b.width = width;
    if (b.height > height) b.height = height;
    b.top = (height - b.height) / 2, b.left = (width - b.width) / 2;
    return b;
}

dlr_box dlr_box_draw(const dlr_moves *moves, dlr_rng_place place, int64_t height, int64_t width) {
    enum { TRIES = 10 };
    if (moves->crop == 0) return (dlr_box){0, 0, height, width};
    dlr_rng rng = dlr_rng_at(place);
    for (int i = 0; i < MOVE_NUMBERS; i++) dlr_rng_u32(&rng);
    for (int i = 0; i < TRIES; i++) {
        double area = (double)height * (double)width * between(&rng, moves->crop, 1);
        double ratio = exp(between(&rng, -log(4.0 / 3), log(4.0 / 3)));
        int64_t w = llround(sqrt(area * ratio)), h = llround(sqrt(area / ratio));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        int64_t top = dlr_rng_below(&rng, (uint32_t)(height - h + 1));
        int64_t left = dlr_rng_below(&rng, (uint32_t)(width - w + 1));
        return (dlr_box){top, left, h, w};
    }
    return middle(height, width);
}

dlr_box dlr_box_of(const dlr_dataset *d, const dlr_moves *moves, int64_t epoch, int64_t sample,
                   int64_t height, int64_t width) {
    dlr_rng_place place = {d->seed, DLR_STREAM_TRAIN, (uint32_t)epoch, (uint32_t)sample};
    return d->split == DLR_TRAIN ? dlr_box_draw(moves, place, height, width) : (dlr_box){0, 0, height, width};
}

/* ---- moving and scaling ---- */

/* A point between two others of an axis. */
typedef struct {
    int32_t low, high;
    float part; /* of `high` */
} place;

static void find_places(int64_t n, double shift, double zoom, bool flip, place *at) {
    double centre = (double)(n - 1) / 2;
    for (int64_t i = 0; i < n; i++) {
        double p = zoom * ((double)i - centre) + centre + shift * (double)n;
        p = p < 0 ? 0 : p > (double)(n - 1) ? (double)(n - 1) : p;
        int32_t low = (int32_t)p, high = low + 1 < n ? low + 1 : low;
        at[flip ? n - 1 - i : i] = (place){low, high, (float)(p - low)};
    }
}

size_t dlr_picture_scratch(int64_t height, int64_t width) {
    return (size_t)(height + width) * sizeof(place) + (size_t)width * sizeof(float);
}

/* A row between two others, in `row`, and of it the points at `columns`. */
static void move_row(const float *low, const float *high, float part, const place *columns, int64_t width,
                     float *restrict row, float *restrict out) {
    for (int64_t x = 0; x < width; x++) row[x] = low[x] + (high[x] - low[x]) * part;
    for (int64_t x = 0; x < width; x++) {
        const place *p = &columns[x];
        out[x] = row[p->low] + (row[p->high] - row[p->low]) * p->part;
    }
}

void dlr_picture_write(const float *planes, int64_t height, int64_t width, const dlr_move *move,
                       dlr_scaling scaling, float *out, void *scratch) {
    static const float means[3] = {103.939f, 116.779f, 123.68f};
    place *rows = scratch, *columns = rows + height;
    float *row = (float *)(columns + width);
    find_places(height, move->shift[0], move->zoom[0], false, rows);
    find_places(width, move->shift[1], move->zoom[1], move->flip, columns);
    for (int c = 0; c < 3; c++) {
        const float *from = planes + (scaling == DLR_SCALING_CAFFE ? 2 - c : c) * height * width;
        for (int64_t y = 0; y < height; y++, out += width) {
            move_row(from + rows[y].low * width, from + rows[y].high * width, rows[y].part, columns, width,
                     row, out);
            if (scaling == DLR_SCALING_CAFFE)
                for (int64_t x = 0; x < width; x++) out[x] -= means[c];
            else
                for (int64_t x = 0; x < width; x++) out[x] /= 255;
        }
    }
}
