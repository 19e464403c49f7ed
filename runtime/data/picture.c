#include "runtime/data/picture.h"

#include "runtime/data/loader.h"
#include "runtime/data/shuffle.h"

#include <math.h>
#include <string.h>

/* ---- the model's tensors ---- */

bool dlr_picture_check(dlr_dataset *d, dlr_pictures *s, dl_error *err) {
    const dlr_picture_options *o = &s->o;
    enum { MOST = 1 << 14 }; /* most pixels of a side: the products below do not overflow */
    if (!dlr_loader_pair(d, err)) return false;
    const dlr_array *x = &d->arrays.at[0], *t = &d->arrays.at[1];
    const dl_axis *axis = x->type.axis;
    if (x->type.dtype != DL_F32 || x->type.rank != 3 || axis[0].size != 3)
        return dl_fail(err, DL_INPUT,
                       "a sample of the model's '%s' is %s; a picture is f32[3, H, W]", x->name,
                       dl_type_text(&x->type));
    if (axis[1].size < 1 || axis[2].size < 1 || axis[1].size > MOST || axis[2].size > MOST)
        return dl_fail(err, DL_INPUT,
                       "a sample of the model's '%s' is %s; pictures have 1 to %d points a side",
                       x->name, dl_type_text(&x->type), MOST);
    if ((t->type.dtype != DL_I32 && t->type.dtype != DL_I64) || t->type.rank != 0)
        return dl_fail(err, DL_INPUT,
                       "a sample of the model's '%s' is %s; a class is i32 or i64, one number",
                       t->name, dl_type_text(&t->type));
    if (!(o->moves.shift >= 0 && o->moves.shift <= 1) || !(o->moves.zoom >= 0 && o->moves.zoom < 1))
        return dl_fail(err, DL_USAGE,
                       "pictures are shifted by 0 to 1, not %g, and zoomed by 0 to below 1, not %g",
                       o->moves.shift, o->moves.zoom);
    if (!(o->moves.crop >= 0 && o->moves.crop < 1))
        return dl_fail(err, DL_USAGE, "a part of a picture is 0 to below 1 of its area, not %g",
                       o->moves.crop);
    s->height = axis[1].size, s->width = axis[2].size;
    /* a picture in f32, one as it is read, and a buffer for augmentation */
    d->scratch = 2 * dlr_array_bytes(x) + dlr_picture_scratch(s->height, s->width);
    return true;
}

void dlr_label_write(const dl_type *type, int64_t label, void *out) {
    if (type->dtype == DL_I64)
        *(int64_t *)out = label;
    else
        *(int32_t *)out = (int32_t)label;
}

/* ---- choosing a picture and its augmentation ---- */

int64_t dlr_picture_of(const dlr_dataset *d, int64_t epoch, int64_t sample) {
    if (d->split != DLR_TRAIN) return sample;
    return dlr_shuffle((dlr_rng_place){d->seed, DLR_STREAM_SHUFFLE, (uint32_t)epoch, 0}, d->samples,
                       sample);
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
    return dlr_move_draw(
        moves, (dlr_rng_place){d->seed, DLR_STREAM_TRAIN, (uint32_t)epoch, (uint32_t)sample});
}

/* ---- random crops ---- */

/* The numbers of a place before these are used by the other augmentations. */
enum { MOVE_NUMBERS = 8 };

/* The largest centered crop whose aspect ratio may be drawn. */
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
    return d->split == DLR_TRAIN ? dlr_box_draw(moves, place, height, width)
                                 : (dlr_box){0, 0, height, width};
}

/* ---- augmenting and scaling ---- */

static const float caffe_means[3] = {103.939f, 116.779f, 123.68f}, caffe_deviations[3] = {1, 1, 1},
                   no_mean = 0, unit_deviation = 255;

/* A position between two neighbouring pixels of an axis. */
typedef struct {
    int32_t low, high;
    float part; /* weight of `high` */
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

/* Interpolates between two rows into `row`, and then the pixels at `columns` of it. */
static void move_row(const float *low, const float *high, float part, const place *columns,
                     int64_t width, float *restrict row, float *restrict out) {
    for (int64_t x = 0; x < width; x++) row[x] = low[x] + (high[x] - low[x]) * part;
    for (int64_t x = 0; x < width; x++) {
        const place *p = &columns[x];
        out[x] = row[p->low] + (row[p->high] - row[p->low]) * p->part;
    }
}

void dlr_picture_write(const float *planes, int64_t height, int64_t width, const dlr_move *move,
                       dlr_scaling scaling, float *out, void *scratch) {
    place *rows = scratch, *columns = rows + height;
    float *row = (float *)(columns + width);
    find_places(height, move->shift[0], move->zoom[0], false, rows);
    find_places(width, move->shift[1], move->zoom[1], move->flip, columns);
    for (int c = 0; c < 3; c++) {
        const float *from = planes + (scaling == DLR_SCALING_CAFFE ? 2 - c : c) * height * width;
        for (int64_t y = 0; y < height; y++, out += width) {
            move_row(from + rows[y].low * width, from + rows[y].high * width, rows[y].part, columns,
                     width, row, out);
            if (scaling == DLR_SCALING_CAFFE)
                for (int64_t x = 0; x < width; x++) out[x] -= caffe_means[c];
            else
                for (int64_t x = 0; x < width; x++) out[x] /= 255;
        }
    }
}

/* ---- samples ---- */

bool dlr_pictures_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                         void *scratch, dl_error *err) {
    const dlr_pictures *s = d->state;
    int64_t n = 3 * s->height * s->width, label;
    float *planes = scratch, *rest = planes + n;
    const unsigned char *bytes = (const unsigned char *)rest;
    bool narrow = s->points == DLR_EL_U8;
    if (!s->read(d, dlr_picture_of(d, epoch, sample), epoch, sample, narrow ? rest : planes, &label,
                 err))
        return false;
    for (int64_t i = 0; narrow && i < n; i++) planes[i] = bytes[i];
    dlr_move move = dlr_move_of(d, &s->o.moves, epoch, sample);
    dlr_picture_write(planes, s->height, s->width, &move, s->o.scaling, out[0], rest + n);
    dlr_label_write(&d->arrays.at[1].type, label, out[1]);
    return true;
}

/* ---- raw samples for a device ---- */

static bool takes_all(const dlr_dataset *d, const dlr_pictures *s) {
    return d->split != DLR_TRAIN || s->o.moves.crop == 0;
}

/* The layout of a picture in a device-resident data set: its planes, its class, the next picture,
 * each aligned to 8 bytes. */
typedef struct {
    int64_t label, bytes; /* offset of the class; size of both */
} record;

static record record_of(const dlr_dataset *d, const dlr_pictures *s) {
    int64_t planes = 3 * s->height * s->width * (int64_t)dlr_element_bytes(s->points),
            label = (planes + 7) & ~7LL;
    return (record){label, (label + (int64_t)dlr_array_bytes(&d->arrays.at[1]) + 7) & ~7LL};
}

bool dlr_pictures_raw(const dlr_dataset *d, dlr_raw *raw) {
    const dlr_pictures *s = d->state;
    bool caffe = s->o.scaling == DLR_SCALING_CAFFE;
    raw[0] = (dlr_raw){.type = s->points,
                       .mean = caffe ? caffe_means : &no_mean,
                       .deviation = caffe ? caffe_deviations : &unit_deviation,
                       .axis = caffe ? 0 : -1};
    raw[1] = (dlr_raw){.type = d->arrays.at[1].type.dtype == DL_I64 ? DLR_EL_I64 : DLR_EL_I32,
                       .at = record_of(d, s).label};
    return true;
}

/* The sampling positions of an axis: without interpolation, where every position is a pixel. */
static dlr_layout_axis place_axis(int64_t n, int64_t step, double shift, double zoom, bool flip) {
    dlr_layout_axis a = dlr_along(n, step, flip && shift == 0 && zoom == 1);
    if (shift == 0 && zoom == 1) return a;
    a.points = n, a.zoom = flip ? -zoom : zoom, a.shift = shift * (double)n;
    return a;
}

static void place_picture(const dlr_dataset *d, int64_t epoch, int64_t sample,
                          dlr_layout_map *how) {
    const dlr_pictures *s = d->state;
    dlr_move m = dlr_move_of(d, &s->o.moves, epoch, sample);
    how->axis[0] = dlr_along(3, s->height * s->width, s->o.scaling == DLR_SCALING_CAFFE);
    how->axis[1] = place_axis(s->height, s->width, m.shift[0], m.zoom[0], false);
    how->axis[2] = place_axis(s->width, 1, m.shift[1], m.zoom[1], m.flip);
}

bool dlr_pictures_numbers(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                          void *scratch, dlr_layout_map *how, dl_error *err) {
    (void)scratch;
    const dlr_pictures *s = d->state;
    int64_t label;
    if (!s->read(d, dlr_picture_of(d, epoch, sample), epoch, sample, out[0], &label, err))
        return false;
    dlr_label_write(&d->arrays.at[1].type, label, out[1]);
    place_picture(d, epoch, sample, how);
    return true;
}

/* A piece consists of whole pictures, in the files' order. */
static int64_t piece_of(const record *r) {
    enum { PIECE = 1 << 20 };
    return r->bytes < PIECE ? PIECE / r->bytes : 1;
}

void dlr_pictures_store(const dlr_dataset *d, dlr_store *store) {
    const dlr_pictures *s = d->state;
    record r = record_of(d, s);
    int64_t each = piece_of(&r);
    if (!takes_all(d, s)) return;
    *store = (dlr_store){d->samples * r.bytes, (d->samples + each - 1) / each, each * r.bytes};
}

bool dlr_pictures_piece(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                        int64_t *bytes, dl_error *err) {
    (void)scratch;
    const dlr_pictures *s = d->state;
    record r = record_of(d, s);
    int64_t each = piece_of(&r), first = i * each,
            n = d->samples - first < each ? d->samples - first : each;
    *at = first * r.bytes, *bytes = n * r.bytes;
    memset(out, 0, (size_t)*bytes); /* clear the gaps between the parts */
    for (int64_t k = 0; k < n; k++) {
        char *to = (char *)out + k * r.bytes;
        int64_t label;
        if (!s->read(d, first + k, 0, 0, to, &label, err)) return false;
        dlr_label_write(&d->arrays.at[1].type, label, to + r.label);
    }
    return true;
}

void dlr_pictures_locate(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_layout_map *how) {
    const dlr_pictures *s = d->state;
    record r = record_of(d, s);
    int64_t picture = dlr_picture_of(d, epoch, sample);
    place_picture(d, epoch, sample, how);
    how[0].base = picture * (r.bytes / (int64_t)dlr_element_bytes(s->points));
    how[1].base = picture * (r.bytes / (int64_t)dlr_array_bytes(&d->arrays.at[1]));
}
