#include "runtime/data/weather.h"

#include "ir/base/file_calls.h"
#include "runtime/data/array_file.h"
#include "runtime/data/loader.h"
#include "runtime/data/shuffle.h"
#include "runtime/data/statistics.h"

#include <dirent.h>
#include <stdlib.h>

#include "runtime/data/packing.h"

static const char set_name[] = "fields";

typedef struct {
    dlr_source *source;
    dlr_packing packing;
    int64_t first; /* samples of the previous years */
} year;

typedef struct {
    year *years;
    int n;
    int64_t dt, channels, height, width;
    float *mean, *deviation; /* one per channel */
} weather;

/* ---- the model's tensors ---- */

/* Checks for two equal types f32[C, H, W]. */
static bool check_model(const dlr_dataset *d, weather *w, dl_error *err) {
    if (!dlr_loader_pair(d, err)) return false;
    const dlr_array *x = &d->arrays.at[0], *t = &d->arrays.at[1];
    for (int i = 0; i < 2; i++) {
        const dl_type *type = &d->arrays.at[i].type;
        if (type->dtype != DL_F32 || type->rank != 3 || dl_type_count(type) < 1)
            return dl_fail(err, DL_INPUT,
                           "a sample of the model's '%s' is %s; a field of weather is f32[C, H, W]",
                           d->arrays.at[i].name, dl_type_text(type));
    }
    bool same = true;
    for (int i = 0; i < 3; i++) same = same && x->type.axis[i].size == t->type.axis[i].size;
    if (!same)
        return dl_fail(err, DL_INPUT,
                       "the model's '%s' is %s and its '%s' %s; of weather files both are the same "
                       "channels (the "
                       "target dt steps later)",
                       x->name, dl_type_text(&x->type), t->name, dl_type_text(&t->type));
    w->channels = x->type.axis[0].size, w->height = x->type.axis[1].size,
    w->width = x->type.axis[2].size;
    return true;
}

/* ---- the files ---- */

static int is_data(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 3 && e->d_name[0] != '.' && strcmp(e->d_name + n - 3, ".h5") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool check_set(const weather *w, const char *path, const dlr_array_facts *set,
                      dl_error *err) {
    dl_buf holds = {0};
    dlr_array_put_shape(&holds, set);
    const int64_t *d = set->dims;
    bool fits = false;
    if (set->refused)
        fits = true; /* dlr_source_open reports the reason */
    else if (!dlr_element_is_float(set->type))
        dl_fail(err, DL_INPUT, "%s: '%s' holds %s, not floating-point numbers", path, set_name,
                set->stored);
    else if (set->rank != 4)
        dl_fail(err, DL_INPUT, "%s: '%s' is %s; a year of weather is [time, channel, lat, lon]",
                path, set_name, holds.at);
    else if (d[1] != w->channels)
        dl_fail(
            err, DL_INPUT,
            "%s: '%s' is %s, that is %lld channels, but the model's input has %lld (n_in_channels, "
            "n_out_channels)",
            path, set_name, holds.at, (long long)d[1], (long long)w->channels);
    else if (d[2] < w->height || d[3] < w->width)
        dl_fail(err, DL_INPUT,
                "%s: '%s' is %s: a crop of %lld x %lld (img_size) does not fit %lld x %lld", path,
                set_name, holds.at, (long long)w->height, (long long)w->width, (long long)d[2],
                (long long)d[3]);
    else if (d[0] < 3 * w->dt)
        dl_fail(err, DL_INPUT,
                "%s: '%s' is %s: dt of %lld pairs times that a year of %lld steps does not have "
                "(it needs 3 dt)",
                path, set_name, holds.at, (long long)w->dt, (long long)d[0]);
    else if (d[0] > UINT32_MAX)
        dl_fail(err, DL_INPUT, "%s: '%s' is %s: more times than can be numbered", path, set_name,
                holds.at);
    else
        fits = true;
    dl_buf_free(&holds);
    return fits;
}

static bool open_year(const weather *w, const char *path, bool mapped, year *y, dl_error *err) {
    /* times come in any order: only the chunks of one field are worth caching */
    enum { CHUNKS = 16 << 20 };
    dlr_array_file *file = dlr_array_file_open(path, err);
    if (!file) return false;
    file->mapped = mapped;
    const dlr_array_facts *set = dlr_array_file_find(file, set_name);
    if (set && check_set(w, path, set, err) && dlr_packing_open(path, set, &y->packing, err))
        y->source = dlr_source_open(file, set, CHUNKS, err);
    if (!set) {
        dl_buf holds = {0};
        dlr_array_file_put(&holds, file, 8);
        dl_fail(err, DL_INPUT, "%s has no data set '%s'; it holds: %.500s", path, set_name,
                holds.at);
        dl_buf_free(&holds);
    }
    dlr_array_file_close(file);
    return y->source != NULL;
}

static bool open_years(dlr_dataset *d, weather *w, const char *folder, dl_error *err) {
    const char *key = d->split == DLR_TRAIN ? "train_data_path" : "valid_data_path";
    struct dirent **found = NULL;
    if (!folder || !folder[0])
        return dl_fail(err, DL_USAGE, "%s is not set: a folder of one HDF5 file a year", key);
    int n = dl_scandir(folder, &found, is_data, by_name);
    if (n < 0) return dl_fail_errno(err, DL_IO, "%s: cannot read the folder %s", key, folder);
    w->years = calloc((size_t)n + 1, sizeof *w->years);
    bool ok = w->years || dl_fail(err, DL_RESOURCE, "no memory for %d files", n);
    if (ok && n == 0)
        ok = dl_fail(err, DL_IO, "%s: the folder %s has no file that ends in .h5", key, folder);
    for (int i = 0; i < n; i++) {
        dl_buf path = {0};
        dl_putf(&path, "%s/%s", folder, found[i]->d_name);
        year *y = ok ? &w->years[i] : NULL;
        ok = ok && open_year(w, path.at, d->mapped, y, err);
        if (ok) {
            w->n = i + 1;
            y->first = d->samples;
            d->samples += dlr_source_dims(y->source)[0], d->held += dlr_source_held(y->source);
        }
        dl_buf_free(&path);
        free(found[i]);
    }
    free(found);
    if (ok && d->samples > UINT32_MAX)
        return dl_fail(err, DL_INPUT, "%s: %lld times are more than can be numbered", folder,
                       (long long)d->samples);
    return ok;
}

/* ---- the loader ---- */

static bool open_weather(dlr_dataset *d, const void *options, dl_error *err) {
    const dlr_weather_options *o = options;
    weather *w = d->state = calloc(1, sizeof *w);
    if (!w) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    w->dt = o->dt;
    if (o->dt < 1 || o->dt > 1 << 20)
        return dl_fail(err, DL_USAGE, "dt must be at least 1, not %lld", (long long)o->dt);
    if (!check_model(d, w, err) || !open_years(d, w, o->folder, err)) return false;
    if (o->limit > 0 && o->limit < d->samples) d->samples = o->limit;
    w->mean = calloc((size_t)w->channels, sizeof *w->mean);
    w->deviation = calloc((size_t)w->channels, sizeof *w->deviation);
    if (!w->mean || !w->deviation)
        return dl_fail(err, DL_RESOURCE, "no memory for %lld channels", (long long)w->channels);
    return dlr_statistics_read(o->means, "global_means_path", w->channels, false, w->mean, err) &&
           dlr_statistics_read(o->stds, "global_stds_path", w->channels, true, w->deviation, err);
}

int64_t dlr_weather_pair(int64_t local, int64_t n, int64_t dt) {
    local %= n - dt;
    return local < dt ? local + dt : local;
}

static const year *find_year(const weather *w, int64_t sample) {
    int i = w->n - 1;
    while (w->years[i].first > sample) i--;
    return &w->years[i];
}

static bool refuse_value(const weather *w, const dlr_source *s, const dlr_block *b, int64_t at,
                         float value, dl_error *err) {
    int64_t plane = w->height * w->width;
    return dl_fail(err, DL_INPUT,
                   "%s [time %lld, channel %lld, lat %lld, lon %lld] is %g: data must be finite",
                   dlr_source_label(s), (long long)b->start[0],
                   (long long)(b->start[1] + at / plane), (long long)(at % plane / w->width),
                   (long long)(at % w->width), (double)value);
}

/* Reads the field of one time. Our own reader reads one channel after another, and each is
 * normalized while it is in the cache; a child process reads all in one request. */
static bool read_field(const weather *w, const year *y, int64_t time, float *out, dl_error *err) {
    const dlr_source *s = y->source;
    const int64_t together = dlr_source_chunked(s) ? w->channels : 1, plane = w->height * w->width;
    for (int64_t c = 0; c < w->channels; c += together, out += together * plane) {
        dlr_block b = {.start = {time, c}, .count = {1, together, w->height, w->width}};
        if (!dlr_packing_read(&y->packing, s, &b, DLR_EL_F32, out, err)) return false;
        for (int64_t k = 0; k < together; k++) {
            int64_t bad =
                dlr_normalise(out + k * plane, (size_t)plane, w->mean[c + k], w->deviation[c + k]);
            if (bad >= 0) return refuse_value(w, s, &b, k * plane + bad, out[k * plane + bad], err);
        }
    }
    return true;
}

/* The year of a sample, and the time of its input in that year. */
static const year *find_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, int64_t *time) {
    const weather *w = d->state;
    if (d->split == DLR_TRAIN)
        sample = dlr_shuffle((dlr_rng_place){d->seed, DLR_STREAM_SHUFFLE, (uint32_t)epoch, 0},
                             d->samples, sample);
    const year *y = find_year(w, sample);
    *time = dlr_weather_pair(sample - y->first, dlr_source_dims(y->source)[0], w->dt);
    return y;
}

static bool read_pair(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                      void *scratch, dl_error *err) {
    (void)scratch;
    const weather *w = d->state;
    int64_t time;
    const year *y = find_sample(d, epoch, sample, &time);
    return read_field(w, y, time, out[0], err) && read_field(w, y, time + w->dt, out[1], err);
}

/* ---- raw samples, which a device scales ---- */

static bool raw_fields(const dlr_dataset *d, dlr_raw *raw) {
    const weather *w = d->state;
    for (int i = 0; i < 2; i++)
        raw[i].mean = w->mean, raw[i].deviation = w->deviation, raw[i].axis = 0;
    return true;
}

/* As read_field without scaling; whether the numbers are finite is checked while they are in the
 * cache. */
static bool read_numbers(const weather *w, const year *y, int64_t time, float *out, dl_error *err) {
    const dlr_source *s = y->source;
    const int64_t together = dlr_source_chunked(s) ? w->channels : 1, plane = w->height * w->width;
    for (int64_t c = 0; c < w->channels; c += together, out += together * plane) {
        dlr_block b = {.start = {time, c}, .count = {1, together, w->height, w->width}};
        if (!dlr_packing_read(&y->packing, s, &b, DLR_EL_F32, out, err)) return false;
        int64_t bad = dlr_not_finite_at(out, (size_t)(together * plane));
        if (bad >= 0) return refuse_value(w, s, &b, bad, out[bad], err);
    }
    return true;
}

static void lie(const dlr_dataset *d, int i, dlr_layout_map *how) {
    const dl_type *t = &d->arrays.at[i].type;
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(t, stride);
    for (int a = 0; a < 3; a++) how->axis[a] = dlr_along(t->axis[a].size, stride[a], false);
}

static bool read_pair_numbers(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                              void *scratch, dlr_layout_map *how, dl_error *err) {
    (void)scratch;
    const weather *w = d->state;
    int64_t time;
    const year *y = find_sample(d, epoch, sample, &time);
    for (int i = 0; i < 2; i++) {
        lie(d, i, &how[i]);
        if (!read_numbers(w, y, time + i * w->dt, out[i], err)) return false;
    }
    return true;
}

/* ---- device-resident data set: all times of the years with samples, one after the other ---- */

static int64_t field_bytes(const weather *w) {
    return w->channels * w->height * w->width * (int64_t)sizeof(float);
}

static void store_years(const dlr_dataset *d, dlr_store *store) {
    const weather *w = d->state;
    const year *last = find_year(w, d->samples - 1);
    store->pieces = last->first + dlr_source_dims(last->source)[0];
    store->most = field_bytes(w), store->bytes = store->pieces * store->most;
}

static bool read_piece(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                       int64_t *bytes, dl_error *err) {
    (void)scratch;
    const weather *w = d->state;
    const year *y = find_year(w, i);
    *bytes = field_bytes(w), *at = i * *bytes;
    return read_numbers(w, y, i - y->first, out, err);
}

static void locate_pair(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_layout_map *how) {
    const weather *w = d->state;
    int64_t time;
    const year *y = find_sample(d, epoch, sample, &time);
    for (int i = 0; i < 2; i++) {
        lie(d, i, &how[i]);
        how[i].base = (y->first + time + i * w->dt) * (field_bytes(w) / (int64_t)sizeof(float));
    }
}

static void close_weather(dlr_dataset *d) {
    weather *w = d->state;
    if (!w) return;
    for (int i = 0; i < w->n; i++) dlr_source_close(w->years[i].source);
    free(w->years), free(w->mean), free(w->deviation), free(w);
}

const dlr_loader dlr_weather_loader = {.name = "weather",
                                       .open = open_weather,
                                       .sample = read_pair,
                                       .raw = raw_fields,
                                       .numbers = read_pair_numbers,
                                       .store = store_years,
                                       .piece = read_piece,
                                       .locate = locate_pair,
                                       .close = close_weather};
