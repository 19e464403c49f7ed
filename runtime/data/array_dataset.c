/* The loader of array datasets: draws a sample's index, crop and augmentation. */
#include "runtime/data/array_dataset.h"

#include <stdlib.h>

#include "runtime/base/rng.h"
#include "runtime/data/array_dataset_private.h"
#include "runtime/data/shuffle.h"

/* ---- opening ---- */

static bool check_types(const array_dataset *w, dl_error *err) {
    for (int k = 0; k < w->n; k++) {
        const dataset_array *a = &w->at[k];
        const dataset_variable *v = a->variables.at;
        bool is_float = a->to.type.dtype == DL_F32;
        if (!is_float && a->from.scale != DLR_SCALE_NONE)
            return dataset_fail(v, NULL, err,
                                "the model's '%s' is %s, whole numbers: they are not normalised",
                                a->to.name, dl_type_text(&a->to.type));
        for (int j = 0; j < a->variables.n && !is_float; j++)
            for (int i = 0; i < v[j].files.n; i++)
                if (v[j].files.at[i].packing->scaled && !v[j].files.at[i].packing->shifted)
                    return dataset_fail(
                        &v[j], NULL, err,
                        "its attributes scale_factor and add_offset make fractions of it, and "
                        "the model's '%s' is %s",
                        a->to.name, dl_type_text(&a->to.type));
        dlr_number fitting;
        if (!is_float && a->from.replaces_nan &&
            !dlr_number_fit(&(dlr_number){.kind = 'f', .f = a->from.nan},
                            dataset_element_of(a->to.type.dtype), &fitting))
            return dataset_fail(v, NULL, err,
                                "the model's '%s' is %s, and nan: %g is no such number", a->to.name,
                                dl_type_text(&a->to.type), a->from.nan);
    }
    return true;
}

/* Sets the number of samples of an epoch. More than the files hold mean that each is cropped
 * several times. */
static bool resolve_samples(dlr_dataset *d, const array_dataset *w,
                            const dlr_array_dataset_options *o, dl_error *err) {
    const char *key = d->split == DLR_TRAIN ? "Nsamples" : "Nsamples_val";
    bool draws = false, all_static = true;
    for (int i = 0; i < w->axes.n; i++) draws |= w->axes.at[i].crop == DLR_CROP_RANDOM;
    for (int k = 0; k < w->n; k++) all_static &= w->at[k].is_static;
    if (draws && all_static && !o->samples)
        return dl_fail(
            err, DL_USAGE,
            "%s is not set: how many random crops an epoch has (the files have no axis N)", key);
    if (!draws && o->samples > w->available)
        return dl_fail(
            err, DL_INPUT,
            "%s is %lld, and the files hold %lld samples (only random crops can be drawn again)",
            key, (long long)o->samples, (long long)w->available);
    d->samples = o->samples ? o->samples : w->available;
    if (o->limit && o->limit < d->samples) d->samples = o->limit;
    return d->samples <= UINT32_MAX ||
           dl_fail(err, DL_INPUT, "%lld samples are more than can be numbered",
                   (long long)d->samples);
}

static dlr_array_dataset_names keep_names(array_dataset *w, dlr_array_dataset_names names) {
    const char **at = DL_NEWS(w->arena, const char *, names.n + 1);
    for (int i = 0; i < names.n; i++) at[i] = dl_strdup(w->arena, names.at[i]);
    return (dlr_array_dataset_names){at, names.n};
}

/* The names by which `axes` would give a variable's axes. */
static dlr_array_dataset_names name_axes(array_dataset *w, const dataset_variable *v) {
    const char **at = DL_NEWS(w->arena, const char *, v->rank + 1);
    for (int j = 0; j < v->rank; j++) {
        int m = v->axis[j];
        at[j] = m >= 0                     ? v->of->to.type.axis[m].name
                : m == DATASET_SIMULATIONS ? "sim"
                : m == DATASET_SAMPLES     ? "time"
                                           : "1";
    }
    return (dlr_array_dataset_names){at, v->rank};
}

/* Copies the options that are used after `open`, when the caller's are no longer valid. Levels have
 * become channels. */
static dlr_array_dataset_variable keep_variable(array_dataset *w, const dataset_variable *v) {
    const dlr_array_dataset_variable *s = &v->from;
    int64_t *channels = s->channels ? DL_NEWS(w->arena, int64_t, s->n_channels) : NULL;
    if (channels) memcpy(channels, s->channels, (size_t)s->n_channels * sizeof *channels);
    double *levels = DL_NEWS(w->arena, double, s->levels.n + 1);
    for (int i = 0; i < s->levels.n; i++) levels[i] = s->levels.at[i];
    dlr_array_dataset_names axes = s->axes;
    if (w->o->trajectory.given) axes = name_axes(w, v); /* prediction has no other place to look */
    return (dlr_array_dataset_variable){
        .files = keep_names(w, s->files),
        .array = s->array ? dl_strdup(w->arena, s->array) : NULL,
        .axes = keep_names(w, axes),
        .channels = channels,
        .n_channels = s->n_channels,
        .level_axis = s->level_axis ? dl_strdup(w->arena, s->level_axis) : NULL,
        .levels = {levels, s->levels.n, NULL}};
}

static void keep_source(array_dataset *w, dataset_array *a) {
    dlr_array_dataset_variable *all = DL_NEWS(w->arena, dlr_array_dataset_variable, a->variables.n);
    for (int i = 0; i < a->variables.n; i++)
        all[i] = a->variables.at[i].from = keep_variable(w, &a->variables.at[i]);
    a->from.key = dl_strdup(w->arena, a->from.key);
    a->from.variables = all;
    a->from.mean = a->from.std = (dlr_array_dataset_numbers){0};
}

static bool open_own(dlr_dataset *d, const void *options, dl_error *err) {
    const dlr_array_dataset_options *o = options;
    array_dataset *w = d->state = calloc(1, sizeof *w);
    if (!w) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    if (!dataset_open_part(w, d, o, d->split, err) || !check_types(w, err) ||
        !resolve_samples(d, w, o, err))
        return false;
    for (int k = 0; k < w->n; k++) {
        dataset_array *a = &w->at[k];
        if (!dataset_open_scale(w, k, d, o, err)) return false;
        a->numbers = dataset_numbers_of(a);
        if (d->probe && a->from.scale != DLR_SCALE_NONE && a->from.scale != DLR_SCALE_GIVEN)
            d->left_out = true;
        size_t bytes = dlr_array_bytes(&a->to);
        if (bytes > d->scratch) d->scratch = bytes;
        for (int j = 0; j < a->variables.n; j++) {
            const dataset_variable *v = &a->variables.at[j];
            for (int i = 0; v->like < 0 && i < v->files.n; i++) {
                /* a file that is one sample is read once an epoch */
                if (!v->has_samples && !v->has_simulations && !v->is_static)
                    dlr_source_keep_nothing(v->files.at[i].source);
                d->held += dlr_source_held(v->files.at[i].source);
            }
        }
        keep_source(w, a);
    }
    dataset_lay_out(w);
    w->o = NULL;
    return true;
}

/* ---- random draws of a sample ---- */

static void draw(const array_dataset *w, dlr_split part, dlr_rng *rng, dataset_drawn *out) {
    for (int i = 0; i < w->axes.n; i++) {
        const dataset_axis *x = &w->axes.at[i];
        int64_t room = x->high - x->low - ((x->size - 1) * x->step + 1);
        out->flip[i] = false;
        out->corner[i] = x->low;
        if (x->shifts && part == DLR_TRAIN)
            out->corner[i] = dlr_rng_below(rng, (uint32_t)x->extent);
        else if (x->crop == DLR_CROP_RANDOM)
            out->corner[i] += dlr_rng_below(rng, (uint32_t)room + 1);
        else if (x->crop == DLR_CROP_CENTER)
            out->corner[i] += room / 2;
        if (x->flips && part == DLR_TRAIN) out->flip[i] = dlr_rng_below(rng, 2);
    }
    out->rotation = (dataset_rotation){{0, 1, 2}, {0}};
    if (w->rotations.n && part == DLR_TRAIN)
        out->rotation = w->rotations.at[dlr_rng_below(rng, (uint32_t)w->rotations.n)];
}

/* Draws sample `sample` of an epoch: its number among those that the files hold. */
static int64_t draw_sample(const dlr_dataset *d, int64_t epoch, int64_t sample,
                           dataset_drawn *how) {
    const array_dataset *w = d->state;
    bool train = d->split == DLR_TRAIN;
    if (train)
        sample = dlr_shuffle((dlr_rng_place){d->seed, DLR_STREAM_SHUFFLE, (uint32_t)epoch, 0},
                             d->samples, sample);
    dlr_rng rng = dlr_rng_at((dlr_rng_place){d->seed, train ? DLR_STREAM_TRAIN : DLR_STREAM_VALID,
                                             train ? (uint32_t)epoch : 0, (uint32_t)sample});
    draw(w, d->split, &rng, how);
    return dataset_index(w, sample % w->available);
}

static bool sample_own(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                       void *scratch, dl_error *err) {
    const array_dataset *w = d->state;
    dataset_drawn how;
    int64_t index = draw_sample(d, epoch, sample, &how);
    for (int k = 0; k < w->n; k++)
        if (!dataset_make_sample(w, &w->at[k], index, &how, out[k], scratch, err)) return false;
    return true;
}

/* ---- raw samples for a device ---- */

static bool raw_own(const dlr_dataset *d, dlr_raw *raw) {
    const array_dataset *w = d->state;
    for (int k = 0; k < w->n; k++) {
        const dataset_array *a = &w->at[k];
        bool each = a->n_scales > 1 && a->channels >= 0;
        raw[k] = (dlr_raw){.type = a->numbers,
                           .at = w->at[a->store.of].store.at,
                           .mean = a->mean,
                           .deviation = a->deviation,
                           .axis = each ? a->channels : -1,
                           .replaces = a->from.replaces_nan && a->to.type.dtype == DL_F32,
                           .other = (float)a->from.nan};
    }
    return true;
}

static bool numbers_own(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                        void *scratch, dlr_layout_map *place, dl_error *err) {
    const array_dataset *w = d->state;
    dataset_drawn how;
    int64_t index = draw_sample(d, epoch, sample, &how);
    for (int k = 0; k < w->n; k++)
        if (!dataset_take_numbers(w, &w->at[k], index, &how, out[k], scratch, &place[k], err))
            return false;
    return true;
}

static void store_own(const dlr_dataset *d, dlr_store *store) {
    *store = ((const array_dataset *)d->state)->store;
}

static bool piece_own(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                      int64_t *bytes, dl_error *err) {
    return dataset_read_piece(d->state, i, out, scratch, at, bytes, err);
}

static void locate_own(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_layout_map *place) {
    const array_dataset *w = d->state;
    dataset_drawn how;
    int64_t index = draw_sample(d, epoch, sample, &how);
    for (int k = 0; k < w->n; k++) dataset_locate(w, &w->at[k], index, &how, &place[k]);
}

dlr_array_dataset_facts dlr_array_dataset_facts_of(const dlr_dataset *d, int k) {
    const dataset_array *a = &((const array_dataset *)d->state)->at[k];
    return (dlr_array_dataset_facts){&a->from, a->mean, a->deviation, a->mean ? a->n_scales : 0,
                                     a->variables.n / a->from.n_variables};
}

static void close_own(dlr_dataset *d) {
    array_dataset *w = d->state;
    if (!w) return;
    dataset_close(w);
    free(w);
}

const dlr_loader dlr_array_dataset_loader = {.name = "own",
                                             .open = open_own,
                                             .sample = sample_own,
                                             .raw = raw_own,
                                             .numbers = numbers_own,
                                             .store = store_own,
                                             .piece = piece_own,
                                             .locate = locate_own,
                                             .close = close_own};
