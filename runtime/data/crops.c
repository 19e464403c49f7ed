#include "runtime/data/crops.h"

#include "ir/base/file_calls.h"
#include "runtime/data/loader.h"
#include "runtime/data/volume.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    dlr_volume *volume[2]; /* the volumes of input and target */
    int64_t box;
    int size;
} crops;

enum { MAX_EDGE = 1 << 20 };

/* ---- the model's tensors ---- */

/* Checks that both are f32[C, S, S, S] with one S. */
static bool check_model(const dlr_dataset *d, int *size, dl_error *err) {
    if (!dlr_loader_pair(d, err)) return false;
    int64_t edge = d->arrays.at[0].type.rank > 1 ? d->arrays.at[0].type.axis[1].size : 0;
    for (int i = 0; i < 2; i++) {
        const dl_type *t = &d->arrays.at[i].type;
        bool fits = t->dtype == DL_F32 && t->rank == 4 && t->axis[0].size >= 1 &&
                    t->axis[0].size <= INT32_MAX;
        for (int k = 1; fits && k < 4; k++) fits = t->axis[k].size == edge;
        if (!fits)
            return dl_fail(err, DL_INPUT,
                           "a sample of the model's '%s' is %s; crops of a volume are f32[C, %lld, "
                           "%lld, %lld]",
                           d->arrays.at[i].name, dl_type_text(t), (long long)edge, (long long)edge,
                           (long long)edge);
    }
    if (edge < 1 || edge > MAX_EDGE)
        return dl_fail(err, DL_USAGE, "data_size must be 1 to %d, not %lld", MAX_EDGE,
                       (long long)edge);
    *size = (int)edge;
    return true;
}

static int64_t channels_of(const dlr_dataset *d, int side) {
    return d->arrays.at[side].type.axis[0].size;
}

/* ---- files ---- */

static const char *const roles[] = {"input", "target"};

/* The file's path, with the array's name where it has one. */
static const char *label_of(dl_buf *label, const dlr_array_file *file, const dlr_array_facts *a) {
    dl_putf(label, "%s", file->path);
    if (a->name[0]) dl_putf(label, ": '%s'", a->name);
    return label->at;
}

static bool check_shape(const dlr_dataset *d, const dlr_array_file *file, const dlr_array_facts *a,
                        int side, bool last, dl_error *err) {
    dl_buf holds = {0}, label = {0};
    const int64_t *size = a->dims + !last, channels = a->dims[last ? 3 : 0];
    bool cube = a->rank == 4 && size[0] == size[1] && size[1] == size[2];
    bool shaped = cube && size[0] >= 1 && size[0] <= MAX_EDGE, fits = false;
    dlr_array_put_shape(&holds, a);
    label_of(&label, file, a);
    if (!dlr_element_is_float(a->type))
        dl_fail(err, DL_INPUT, "%s holds %s, not floating-point numbers", label.at, a->stored);
    else if (!shaped)
        dl_fail(err, DL_INPUT, "%s is %s; a volume is %s", label.at, holds.at,
                last ? "[L, L, L, channels]" : "[channels, L, L, L]");
    else if (channels != channels_of(d, side))
        dl_fail(err, DL_INPUT, "%s is %s, but the model's %s has %lld channels", label.at, holds.at,
                roles[side], (long long)channels_of(d, side));
    else
        fits = true;
    dl_buf_free(&holds);
    dl_buf_free(&label);
    return fits;
}

static dlr_volume *open_side(const dlr_dataset *d, const dlr_array_file *file, const char *name,
                             int side, bool last, dl_error *err) {
    const dlr_array_facts *a = dlr_array_file_find(file, name);
    if (!a) {
        dl_buf holds = {0};
        dlr_array_file_put(&holds, file, 8);
        dl_fail(err, DL_INPUT, "%s has no data set '%s' (the model's %s); it holds: %.500s",
                file->path, name ? name : "", roles[side], holds.at);
        dl_buf_free(&holds);
        return NULL;
    }
    /* opening it reports the reason */
    bool fits = a->refused || check_shape(d, file, a, side, last, err);
    return fits ? dlr_volume_open(file, a, last, err) : NULL;
}

static bool check_options(const dlr_dataset *d, const dlr_crops_options *o, dl_error *err) {
    bool train = d->split == DLR_TRAIN;
    const char *key = train ? "train_path" : "val_path";
    if (o->samples < 1 || o->samples > UINT32_MAX)
        return dl_fail(err, DL_USAGE, "%s must be at least 1, not %lld",
                       train ? "Nsamples" : "Nsamples_val", (long long)o->samples);
    if (o->box_size < 0 || o->box_size > MAX_EDGE)
        return dl_fail(err, DL_USAGE, "box_size must be 1 to %d, or null for the file's, not %lld",
                       MAX_EDGE, (long long)o->box_size);
    if (!o->path || !o->path[0]) return dl_fail(err, DL_USAGE, "%s is not set", key);
    if (dl_access(o->path, F_OK) != 0 && errno == ENOENT)
        return dl_fail(
            err, DL_IO,
            "no file %s: make one with `dldata nbody -o %s`, or set %s to a file you have", o->path,
            o->path, key);
    return true;
}

static bool open_sides(const dlr_dataset *d, crops *c, const dlr_crops_options *o, dl_error *err) {
    const bool last = o->target_path != NULL;
    const char *const names[] = {o->input_name ? o->input_name : "Nbody",
                                 o->target_name ? o->target_name : "Hydro"};
    dlr_array_file *file = NULL;
    for (int i = 0; i < 2; i++) {
        if (i == 0 || last) {
            dlr_array_file_close(file);
            file = dlr_array_file_open(i ? o->target_path : o->path, err);
        }
        if (file) file->mapped = d->mapped;
        if (file) c->volume[i] = open_side(d, file, last ? NULL : names[i], i, last, err);
        if (!c->volume[i]) break;
    }
    dlr_array_file_close(file);
    return c->volume[0] && c->volume[1];
}

static bool open_volumes(const dlr_dataset *d, crops *c, const dlr_crops_options *o,
                         dl_error *err) {
    if (!open_sides(d, c, o, err)) return false;
    int64_t edge = c->volume[0]->edge;
    if (c->volume[1]->edge != edge)
        return dl_fail(err, DL_INPUT, "%s is a box of %lld^3 but %s of %lld^3",
                       dlr_source_label(c->volume[0]->source), (long long)edge,
                       dlr_source_label(c->volume[1]->source), (long long)c->volume[1]->edge);
    if (o->box_size > edge)
        return dl_fail(err, DL_INPUT,
                       "box_size %lld is larger than the box of %lld^3 in %s: set box_size to null",
                       (long long)o->box_size, (long long)edge, o->path);
    c->box = o->box_size ? o->box_size : edge;
    if (c->size > c->box)
        return dl_fail(err, DL_INPUT, "data_size %d does not fit the box of %lld^3 %s %s", c->size,
                       (long long)c->box, o->box_size ? "that box_size leaves of" : "in", o->path);
    return true;
}

static bool load(crops *c, dl_error *err) {
    for (int i = 0; i < 2; i++) {
        dlr_volume *loaded = dlr_volume_load(c->volume[i], c->box, err);
        if (!loaded) return false;
        dlr_volume_close(c->volume[i]);
        c->volume[i] = loaded;
    }
    return true;
}

static bool load_on_paper(crops *c, dl_error *err) {
    for (int i = 0; i < 2; i++)
        if (!dlr_volume_load_on_paper(c->volume[i], c->box, err)) return false;
    return true;
}

/* ---- the loader ---- */

static bool open_crops(dlr_dataset *d, const void *options, dl_error *err) {
    const dlr_crops_options *o = options;
    crops *c = d->state = calloc(1, sizeof *c);
    if (!c) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    if (!check_model(d, &c->size, err) || !check_options(d, o, err) || !open_volumes(d, c, o, err))
        return false;
    if (o->in_memory && !d->probe && !load(c, err)) return false;
    if (o->in_memory && d->on_paper && !load_on_paper(c, err)) return false;
    d->samples = o->samples, d->in_memory = o->in_memory, d->left_out = o->in_memory && d->probe;
    for (int i = 0; i < 2; i++) {
        size_t scratch = dlr_volume_scratch(c->volume[i], c->size) * sizeof(float);
        if (scratch > d->scratch) d->scratch = scratch;
    }
    d->held = c->volume[0]->held + c->volume[1]->held;
    return true;
}

dlr_draw dlr_crops_draw(const dlr_dataset *d, int64_t epoch, int64_t sample) {
    const crops *c = d->state;
    bool train = d->split == DLR_TRAIN;
    dlr_rng rng = dlr_rng_at((dlr_rng_place){d->seed, train ? DLR_STREAM_TRAIN : DLR_STREAM_VALID,
                                             train ? (uint32_t)epoch : 0, (uint32_t)sample});
    int64_t room = c->box - c->size;
    dlr_draw draw;
    for (int a = 0; a < 3; a++) draw.corner[a] = room ? dlr_rng_below(&rng, (uint32_t)room) : 0;
    draw.rotation = 1 + (int)dlr_rng_below(&rng, DLR_ROTATIONS);
    return draw;
}

int64_t dlr_crops_box(const dlr_dataset *d) { return ((const crops *)d->state)->box; }

static bool cut_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                       void *scratch, dl_error *err) {
    const crops *c = d->state;
    dlr_draw draw = dlr_crops_draw(d, epoch, sample);
    for (int i = 0; i < 2; i++)
        if (!dlr_volume_crop(c->volume[i], draw.corner, c->size, draw.rotation, out[i], scratch,
                             err))
            return false;
    return true;
}

static void close_crops(dlr_dataset *d) {
    crops *c = d->state;
    if (!c) return;
    dlr_volume_close(c->volume[0]), dlr_volume_close(c->volume[1]);
    free(c);
}

static bool raw_crops(const dlr_dataset *d, dlr_raw *raw) {
    const crops *c = d->state;
    (void)raw; /* the numbers are unscaled */
    return c->volume[0]->numbers && c->volume[1]->numbers;
}

static bool cut_numbers(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                        void *scratch, dlr_layout_map *how, dl_error *err) {
    (void)scratch;
    const crops *c = d->state;
    dlr_draw draw = dlr_crops_draw(d, epoch, sample);
    const dlr_rotation *r = &dlr_rotations[draw.rotation - 1];
    for (int i = 0; i < 2; i++) {
        const dlr_volume *v = c->volume[i];
        const int64_t size = c->size, channel = v->channels_last ? 1 : size * size * size,
                      voxel = v->channels_last ? v->channels : 1,
                      stored[3] = {size * size * voxel, size * voxel, voxel};
        how[i].axis[0] = dlr_along(v->channels, channel, false);
        for (int a = 0; a < 3; a++)
            how[i].axis[1 + a] = dlr_along(size, stored[r->axis[a]], r->flip[a]);
        if (!v->numbers(v, draw.corner, c->size, out[i], err)) return false;
    }
    return true;
}

const dlr_loader dlr_crops_loader = {.name = "crops",
                                     .open = open_crops,
                                     .sample = cut_sample,
                                     .raw = raw_crops,
                                     .numbers = cut_numbers,
                                     .close = close_crops};
