/* The record of a data set. */
#include "runtime/data/array_dataset.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/statistics.h"
#include "runtime/setup/data_record.h"
#include "runtime/setup/dataset_options.h"

static bool is_loader(const dl_data_record *r, const char *name) {
    return strcmp(r->loader, name) == 0;
}

static const void *copy(dl_arena *arena, const void *from, size_t bytes) {
    return bytes ? memcpy(dl_alloc(arena, bytes), from, bytes) : NULL;
}

/* Weather files: inputs and targets are the same channels, dt steps of time apart, and have the
 * same statistics. */
static void of_weather(const dl_config *c, const float *mean, const float *deviation,
                       int64_t channels, dl_data_record *out) {
    out->dt = dl_config_int(c, DL_KEY_dt);
    for (int i = 0; i < out->n; i++) {
        out->at[i].mean = mean, out->at[i].deviation = deviation;
        out->at[i].n_scales = (int)channels;
    }
}

/* The statistics that the data set has read. */
static void of_weather_set(dl_arena *arena, const dl_config *c, const dlr_dataset *d,
                           dl_data_record *out) {
    dlr_raw raw[DLR_MAX_ARRAYS];
    int64_t channels = dlr_dataset_arrays(d)->at[0].type.axis[0].size;
    size_t bytes = (size_t)channels * sizeof *raw[0].mean;
    DL_CHECK(dlr_dataset_raw(d, raw));
    of_weather(c, copy(arena, raw[0].mean, bytes), copy(arena, raw[0].deviation, bytes), channels,
               out);
}

/* The statistics of the files that the configuration names. */
static bool of_weather_files(dl_arena *arena, const dl_config *c, const dlr_arrays *arrays,
                             dl_data_record *out, dl_error *err) {
    const dl_type *t = &arrays->at[0].type;
    int64_t channels = t->rank ? t->axis[0].size : 1;
    float *mean = DL_NEWS(arena, float, channels), *deviation = DL_NEWS(arena, float, channels);
    of_weather(c, mean, deviation, channels, out);
    return dlr_statistics_read(dl_config_str(c, DL_KEY_global_means_path), "global_means_path",
                               channels, false, mean, err) &&
           dlr_statistics_read(dl_config_str(c, DL_KEY_global_stds_path), "global_stds_path",
                               channels, true, deviation, err);
}

static dl_variable_record of_variable(dl_arena *arena, const dlr_array_dataset_variable *from) {
    const char **axes = DL_NEWS(arena, const char *, from->axes.n + 1);
    for (int i = 0; i < from->axes.n; i++) axes[i] = dl_strdup(arena, from->axes.at[i]);
    return (dl_variable_record){
        .name = from->array ? dl_strdup(arena, from->array) : NULL,
        .level_axis = from->level_axis ? dl_strdup(arena, from->level_axis) : NULL,
        .levels = copy(arena, from->levels.at, sizeof *from->levels.at * (size_t)from->levels.n),
        .axes = axes,
        .n_axes = from->axes.n,
        .channels = copy(arena, from->channels, sizeof *from->channels * (size_t)from->n_channels),
        .n_channels = from->channels ? from->n_channels : 0};
}

static void of_array(dl_arena *arena, const dlr_array_dataset_facts *f, dl_array_record *out) {
    const dlr_array_dataset_source *from = f->from;
    dl_variable_record *all = DL_NEWS(arena, dl_variable_record, from->n_variables);
    for (int i = 0; i < from->n_variables; i++) all[i] = of_variable(arena, &from->variables[i]);
    out->variables = all, out->n_variables = from->n_variables;
    out->offset = from->offset, out->times = f->times;
    out->mean = copy(arena, f->mean, sizeof *f->mean * (size_t)f->n);
    out->deviation = copy(arena, f->deviation, sizeof *f->deviation * (size_t)f->n);
    out->n_scales = f->n;
    out->replaces_nan = from->replaces_nan, out->nan = from->nan;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool same_variable(const dlr_array_dataset_variable *a,
                          const dlr_array_dataset_variable *b) {
    bool same = a->files.n == b->files.n && same_text(a->array, b->array);
    for (int i = 0; same && i < a->files.n; i++) same = same_text(a->files.at[i], b->files.at[i]);
    return same;
}

static bool same_source(const dlr_array_dataset_source *a, const dlr_array_dataset_source *b) {
    bool same = a->n_variables == b->n_variables;
    for (int i = 0; same && i < a->n_variables; i++)
        same = same_variable(&a->variables[i], &b->variables[i]);
    return same;
}

/* A target some steps after an input in the same array is its next state. */
static void of_own(dl_arena *arena, const dlr_dataset *d, dl_data_record *out) {
    for (int i = 0; i < out->n; i++) {
        dlr_array_dataset_facts f = dlr_array_dataset_facts_of(d, i);
        of_array(arena, &f, &out->at[i]);
        for (int k = 0; k < i && out->at[i].is_target && !out->dt; k++) {
            dlr_array_dataset_facts input = dlr_array_dataset_facts_of(d, k);
            int64_t later = f.from->offset - input.from->offset;
            if (!out->at[k].is_target && later > 0 && same_source(f.from, input.from))
                out->dt = later;
        }
    }
}

static void begin(dl_arena *arena, const dl_session *s, const dlr_arrays *arrays,
                  dl_data_record *out) {
    *out =
        (dl_data_record){.loader = dl_strdup(arena, dl_samples_loader(s->config)), .n = arrays->n};
    for (int i = 0; i < arrays->n; i++) {
        const dlr_array *a = &arrays->at[i];
        out->at[i] = (dl_array_record){.name = dl_strdup(arena, a->name),
                                       .is_target = a->is_target,
                                       .is_float = dl_dtype_is_float(a->type.dtype),
                                       .rank = a->type.rank};
        for (int k = 0; k < a->type.rank; k++) out->at[i].size[k] = a->type.axis[k].size;
    }
}

static bool is_weather(const dl_data_record *r) {
    return is_loader(r, "pytorch") || is_loader(r, "dali");
}

void dl_data_record_of(dl_arena *arena, const dl_session *s, const dlr_dataset *train,
                       dl_data_record *out) {
    begin(arena, s, dlr_dataset_arrays(train), out);
    if (is_loader(out, "own")) of_own(arena, train, out);
    if (is_weather(out)) of_weather_set(arena, s->config, train, out);
    if (!is_loader(out, "image_folder")) return;
    const dlr_names *classes = dlr_image_folder_classes(train);
    for (int i = 0; i < classes->n; i++)
        dl_push(arena, &out->classes, dl_strdup(arena, classes->at[i]));
}

bool dl_data_record_open(dl_arena *arena, const dl_session *s, dl_data_record *out, dl_error *err) {
    dlr_arrays arrays = {0};
    if (!dl_samples_arrays(s, &arrays, err)) return false;
    begin(arena, s, &arrays, out);
    if (!is_loader(out, "own"))
        return !is_weather(out) || of_weather_files(arena, s->config, &arrays, out, err);
    /* No sample is asked for, so that no more than one need be there, nor a batch of them. */
    dl_session one = *s;
    one.batch = 1;
    if (!dl_config_set(s->config, DL_KEY_Nsamples, "1", err)) return false;
    dlr_dataset *d = dl_samples_open(arena, &one, DLR_TRAIN, DLR_OPEN_FOR_USE, err);
    if (!d) return false;
    of_own(arena, d, out);
    dlr_dataset_close(d);
    return true;
}
