#include "runtime/data/dataset.h"

#include "runtime/data/volume.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct dlr_dataset {
    dlr_volume *input, *target; /* NULL: synthetic */
    dlr_noise noise[2];         /* synthetic: input and target */
    int64_t box, samples;
    int size;
    uint64_t seed;
    dlr_stream stream;
};

/* The two arrays of a sample, as messages and files name them. */
typedef struct {
    const char *name, *role;
    int channels;
} side;

enum { MAX_EDGE = 1 << 20 };

/* ---- loaders ---- */

static bool check_shape(const char *path, const dlr_hdf5_set *set, const side *s, dl_error *err) {
    bool cube = set->rank == 4 && set->dims[1] == set->dims[2] && set->dims[2] == set->dims[3];
    bool shaped = cube && set->dims[1] >= 1 && set->dims[1] <= MAX_EDGE;
    if (shaped && set->dims[0] == s->channels) return true;
    dl_buf holds = {0};
    dlr_hdf5_put_shape(&holds, set);
    if (!shaped)
        dl_fail(err, DL_INPUT, "%s: '%s' is %s; a volume is [channels, L, L, L]", path, s->name, holds.at);
    else
        dl_fail(err, DL_INPUT, "%s: '%s' is %s, but the model's %s has %d channels", path, s->name, holds.at,
                s->role, s->channels);
    dl_buf_free(&holds);
    return false;
}

static dlr_volume *open_side(const char *path, const dlr_hdf5_facts *facts, const side *s, dl_error *err) {
    const dlr_hdf5_set *set = dlr_hdf5_find(facts, s->name);
    if (!set) {
        dl_buf holds = {0};
        dlr_hdf5_put_sets(&holds, facts, 8);
        dl_fail(err, DL_INPUT, "%s has no data set '%s' (the model's %s); it holds: %.500s", path, s->name,
                s->role, holds.at);
        dl_buf_free(&holds);
        return NULL;
    }
    dlr_volume *v = dlr_volume_open(path, set, err);
    if (v && !check_shape(path, set, s, err)) dlr_volume_close(v), v = NULL;
    return v;
}

static void sides(const dlr_dataset_options *o, side *input, side *target) {
    *input = (side){o->input_name ? o->input_name : "Nbody", "input", o->input_channels};
    *target = (side){o->target_name ? o->target_name : "Hydro", "target", o->target_channels};
}

static bool check_crops(const dlr_dataset_options *o, dl_error *err) {
    if (o->data_size < 1 || o->data_size > MAX_EDGE)
        return dl_fail(err, DL_USAGE, "data_size must be at least 1, not %d", o->data_size);
    if (o->box_size < 0 || o->box_size > MAX_EDGE)
        return dl_fail(err, DL_USAGE, "box_size must be 1 to %d, or null for the file's, not %lld", MAX_EDGE,
                       (long long)o->box_size);
    if (o->input_channels < 1 || o->target_channels < 1)
        return dl_fail(err, DL_USAGE, "a model has at least one channel in and out, not %d and %d",
                       o->input_channels, o->target_channels);
    return true;
}

static bool open_files(dlr_dataset *d, const dlr_dataset_options *o, dl_error *err) {
    if (!check_crops(o, err)) return false;
    const char *key = o->split == DLR_TRAIN ? "train_path" : "val_path";
    if (!o->path || !o->path[0]) return dl_fail(err, DL_USAGE, "%s is not set", key);
    if (access(o->path, F_OK) != 0 && errno == ENOENT)
        return dl_fail(err, DL_IO,
                       "no file %s: make one with `dldata nbody -o %s`, or set %s to a file you have",
                       o->path, o->path, key);
    dlr_hdf5_facts *facts = dlr_hdf5_inspect(o->path, err);
    if (!facts) return false;
    side input, target;
    sides(o, &input, &target);
    d->input = open_side(o->path, facts, &input, err);
    if (d->input) d->target = open_side(o->path, facts, &target, err);
    free(facts);
    if (!d->target) return false;
    int64_t edge = d->input->edge;
    if (d->target->edge != edge)
        return dl_fail(err, DL_INPUT, "%s: '%s' is a box of %lld^3 but '%s' of %lld^3", o->path, input.name,
                       (long long)edge, target.name, (long long)d->target->edge);
    if (o->box_size > edge)
        return dl_fail(err, DL_INPUT,
                       "box_size %lld is larger than the box of %lld^3 in %s: set box_size to null",
                       (long long)o->box_size, (long long)edge, o->path);
    d->box = o->box_size ? o->box_size : edge;
    if (o->data_size > d->box)
        return dl_fail(err, DL_INPUT, "data_size %d does not fit the box of %lld^3 %s %s", o->data_size,
                       (long long)d->box, o->box_size ? "that box_size leaves of" : "in", o->path);
    return true;
}

static bool load_side(dlr_volume **v, int64_t box, dl_error *err) {
    dlr_volume *loaded = dlr_volume_load(*v, box, err);
    if (!loaded) return false;
    dlr_volume_close(*v);
    *v = loaded;
    return true;
}

static bool open_memory(dlr_dataset *d, const dlr_dataset_options *o, dl_error *err) {
    return open_files(d, o, err) && load_side(&d->input, d->box, err) && load_side(&d->target, d->box, err);
}

static bool open_noise(dlr_dataset *d, const dlr_dataset_options *o, dl_error *err) {
    d->noise[0] = o->input_noise, d->noise[1] = o->target_noise;
    for (int i = 0; i < 2; i++)
        if (d->noise[i].elements < 1 || d->noise[i].classes < 0 ||
            d->noise[i].classes > DLR_NOISE_MAX_CLASSES)
            return dl_fail(err, DL_USAGE, "no synthetic samples of %lld elements and %lld classes",
                           (long long)d->noise[i].elements, (long long)d->noise[i].classes);
    return true;
}

static const struct {
    const char *name;
    bool (*open)(dlr_dataset *d, const dlr_dataset_options *o, dl_error *err);
} loaders[] = {
    {"synthetic", open_noise},
    {"inmem", open_memory},
    {"lowmem", open_files},
    {"dali-lowmem", open_files},
};
enum { LOADERS = sizeof loaders / sizeof *loaders };

/* ---- the interface ---- */

static bool check_samples(const dlr_dataset_options *o, dl_error *err) {
    if (o->samples < 1 || o->samples > UINT32_MAX)
        return dl_fail(err, DL_USAGE, "%s must be at least 1, not %lld",
                       o->split == DLR_TRAIN ? "Nsamples" : "Nsamples_val", (long long)o->samples);
    return true;
}

dlr_dataset *dlr_dataset_open(const dlr_dataset_options *o, dl_error *err) {
    if (!check_samples(o, err)) return NULL;
    const char *names[LOADERS];
    int chosen = -1;
    for (int i = 0; i < LOADERS; i++) {
        names[i] = loaders[i].name;
        if (strcmp(names[i], o->loader) == 0) chosen = i;
    }
    if (chosen < 0) {
        const char *near = dl_nearest(o->loader, names, LOADERS);
        dl_fail(err, DL_USAGE,
                "data_loader_config '%s' is none of synthetic, inmem, lowmem, dali-lowmem%s%s%s", o->loader,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        return NULL;
    }
    dlr_dataset *d = calloc(1, sizeof *d);
    if (!d) return dl_fail(err, DL_RESOURCE, "no memory for a data set"), NULL;
    d->samples = o->samples, d->size = o->data_size, d->seed = o->seed;
    d->stream = o->split == DLR_TRAIN ? DLR_STREAM_TRAIN : DLR_STREAM_VALID;
    if (loaders[chosen].open(d, o, err)) return d;
    dlr_dataset_close(d);
    return NULL;
}

void dlr_dataset_close(dlr_dataset *d) {
    if (!d) return;
    dlr_volume_close(d->input);
    dlr_volume_close(d->target);
    free(d);
}

dlr_draw dlr_dataset_draw(const dlr_dataset *d, int64_t epoch, int64_t sample) {
    uint32_t step = d->stream == DLR_STREAM_TRAIN ? (uint32_t)epoch : 0;
    dlr_rng rng = dlr_rng_at((dlr_rng_place){d->seed, (uint32_t)d->stream, step, (uint32_t)sample});
    int64_t room = d->box - d->size;
    dlr_draw draw;
    for (int a = 0; a < 3; a++) draw.corner[a] = room ? dlr_rng_below(&rng, (uint32_t)room) : 0;
    draw.rotation = 1 + (int)dlr_rng_below(&rng, DLR_ROTATIONS);
    return draw;
}

bool dlr_dataset_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, float *input, float *target,
                        float *scratch, dl_error *err) {
    if (!d->input) {
        dlr_rng_place place = {d->seed, DLR_STREAM_NOISE, 2 * (d->stream == DLR_STREAM_VALID),
                               (uint32_t)sample};
        dlr_noise_fill(&d->noise[0], place, input);
        place.step++;
        dlr_noise_fill(&d->noise[1], place, target);
        return true;
    }
    dlr_draw draw = dlr_dataset_draw(d, epoch, sample);
    return dlr_volume_crop(d->input, draw.corner, d->size, draw.rotation, input, scratch, err) &&
           dlr_volume_crop(d->target, draw.corner, d->size, draw.rotation, target, scratch, err);
}

static size_t sample_floats(const dlr_dataset *d, const dlr_volume *v, const dlr_noise *noise) {
    size_t s = (size_t)d->size;
    return v ? (size_t)v->channels * s * s * s : (size_t)noise->elements;
}

int64_t dlr_dataset_samples(const dlr_dataset *d) { return d->samples; }
int64_t dlr_dataset_box(const dlr_dataset *d) { return d->box; }
size_t dlr_dataset_input_floats(const dlr_dataset *d) { return sample_floats(d, d->input, &d->noise[0]); }
size_t dlr_dataset_target_floats(const dlr_dataset *d) { return sample_floats(d, d->target, &d->noise[1]); }
size_t dlr_dataset_scratch(const dlr_dataset *d) {
    return d->input ? dlr_volume_scratch(d->input->edge, d->size) : 1;
}
int64_t dlr_dataset_held(const dlr_dataset *d) { return d->input ? d->input->held + d->target->held : 0; }
