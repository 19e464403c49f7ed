#include "runtime/setup/dataset_options.h"

#include <stdio.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "runtime/data/cifar.h"
#include "runtime/data/crops.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/noise.h"
#include "runtime/data/weather.h"
#include "runtime/formats/log.h"
#include "runtime/setup/array_options.h"
#include "runtime/setup/classes.h"

static const struct {
    dl_key path, npy[2], folder, samples, limit;
} keys[] = {[DLR_TRAIN] = {DL_KEY_train_path,
                           {DL_KEY_train_path_npy_data, DL_KEY_train_path_npy_label},
                           DL_KEY_train_data_path,
                           DL_KEY_Nsamples,
                           DL_KEY_limit_nsamples},
            [DLR_VALID] = {DL_KEY_val_path,
                           {DL_KEY_val_path_npy_data, DL_KEY_val_path_npy_label},
                           DL_KEY_valid_data_path,
                           DL_KEY_Nsamples_val,
                           DL_KEY_limit_nsamples_val}};

/* The arguments of functions that make options. */
typedef struct {
    dl_arena *arena;
    const dl_session *session;
    const dl_config *config;
    dlr_split split;
    const dlr_dataset_options *common;
} request;

typedef dlr_dataset *maker(const request *q, dl_error *err);

/* ---- what the model takes ---- */

static const dl_var *find(const dl_session *s, const dlr_array *a) {
    const dl_graph *g = s->module->graphs.at[0];
    for (int i = 0; i < g->vars.n; i++)
        if (strcmp(g->vars.at[i]->name, a->name) == 0) return g->vars.at[i];
    return NULL;
}

bool dl_samples_arrays(const dl_session *s, dlr_arrays *arrays, dl_error *err) {
    static const dl_var_role roles[] = {DL_VAR_INPUT, DL_VAR_TARGET};
    const dl_graph *g = s->module->graphs.at[0];
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < g->vars.n; i++) {
            const dl_var *v = g->vars.at[i];
            if (v->role == roles[r] &&
                !dlr_arrays_add(arrays, v->name, r == 1, &v->value.type, err))
                return false;
        }
    return true;
}

/* ---- how many ---- */

static int64_t limit_of(const request *q) {
    const dl_yaml *limit = dl_config_value(q->config, keys[q->split].limit);
    return limit->kind == DL_YAML_INT ? limit->integer : INT64_MAX;
}

/* The samples of data that could be drawn without end: Nsamples, or the limit. */
static int64_t samples_of(const request *q) {
    int64_t n = dl_config_int(q->config, keys[q->split].samples), limit = limit_of(q);
    return limit < n ? limit : n;
}

static bool check_enough(const request *q, const dlr_dataset *d, dl_key source, dl_error *err) {
    int64_t n = dlr_dataset_samples(d);
    if (q->split == DLR_VALID) return true; /* the evaluator knows which batches may be partial */
    if (n >= q->session->batch) return true;
    return dl_config_fail(
        q->config, n == limit_of(q) ? keys[q->split].limit : source, err,
        "training has %lld samples, which fill no batch of %lld: set local_batch_size",
        (long long)n, (long long)q->session->batch);
}

/* ---- synthetic ---- */

/* Floats that are made whole and read as numbers of classes are drawn as such, too. */
static bool classes_of(const dl_session *s, const dl_var *v, int64_t *classes, dl_error *err) {
    const dl_type *t = &v->value.type;
    *classes = t->dtype == DL_BOOL ? 2 : dl_classes_count(s->module, v);
    if (!*classes && dl_dtype_is_float(t->dtype)) return true;
    if (*classes >= 1 && *classes <= DLR_NOISE_MAX_CLASSES) return true;
    return dl_fail(
        err, DL_INPUT,
        "synthetic: '%s' is %s, and the model does not say how many classes it tells apart (a "
        "cross_entropy, in_top_k, embedding, gather or one_hot that reads it does): give batches "
        "by --replay",
        v->name, dl_type_text(t));
}

static dlr_dataset *open_noise(const request *q, dl_error *err) {
    const char *noise = dl_config_str(q->config, DL_KEY_synthetic_noise);
    dlr_noise_options o = {.samples = samples_of(q),
                           .uniform = strcmp(noise, "uniform") == 0,
                           .redraw = dl_config_bool(q->config, DL_KEY_synthetic_redraw)};
    const dlr_arrays *arrays = q->common->arrays;
    for (int i = 0; i < arrays->n; i++)
        if (!classes_of(q->session, find(q->session, &arrays->at[i]), &o.classes[i], err))
            return NULL;
    return dlr_dataset_open(&dlr_noise_loader, &o, q->common, err);
}

/* ---- files ---- */

/* --use_cache: the copy of a data file, or of a folder of them, that lies in another folder. */
static const char *cached(dl_arena *arena, const dl_config *config, dl_key key) {
    const char *path = dl_config_str(config, key),
               *folder = dl_config_str(config, DL_KEY_use_cache);
    if (!path || !folder) return path;
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    return dl_format(arena, "%s/%.*s", folder, (int)(end - begin), path + begin);
}

static const char *data_path(const request *q, dl_key key) {
    return cached(q->arena, q->config, key);
}

const char *dl_samples_npy(dl_arena *arena, const dl_config *config, const char *path[2][2]) {
    const char *missing = NULL;
    if (strcmp(dl_samples_loader(config), "dali-lowmem") != 0) return "";
    for (int split = DLR_TRAIN; split <= DLR_VALID; split++)
        for (int i = 0; i < 2; i++) {
            path[split][i] = cached(arena, config, keys[split].npy[i]);
            if (missing || (path[split][i] && dl_access(path[split][i], F_OK) == 0)) continue;
            missing = path[split][i] ? path[split][i] : dl_key_name(keys[split].npy[i]);
        }
    return missing;
}

static int64_t box_size(const request *q) {
    const dl_yaml *v = dl_config_value(q->config, DL_KEY_box_size);
    if (v->kind == DL_YAML_LIST) v = v->items.at[q->split == DLR_VALID];
    return v->kind == DL_YAML_INT ? v->integer : 0;
}

static dlr_dataset *open_crops(const request *q, bool in_memory, dl_error *err) {
    dlr_crops_options o = {.path = data_path(q, keys[q->split].path),
                           .box_size = box_size(q),
                           .samples = samples_of(q),
                           .in_memory = in_memory};
    const char *npy[2][2];
    if (!dl_samples_npy(q->arena, q->config, npy))
        o.path = npy[q->split][0], o.target_path = npy[q->split][1];
    return dlr_dataset_open(&dlr_crops_loader, &o, q->common, err);
}

static dlr_dataset *open_crops_in_file(const request *q, dl_error *err) {
    return open_crops(q, false, err);
}
static dlr_dataset *open_crops_in_memory(const request *q, dl_error *err) {
    return open_crops(q, true, err);
}

static dlr_dataset *open_weather(const request *q, dl_error *err) {
    int64_t limit = limit_of(q);
    dlr_weather_options o = {.folder = data_path(q, keys[q->split].folder),
                             .means = dl_config_str(q->config, DL_KEY_global_means_path),
                             .stds = dl_config_str(q->config, DL_KEY_global_stds_path),
                             .dt = dl_config_int(q->config, DL_KEY_dt),
                             .limit = limit == INT64_MAX ? 0 : limit};
    return dlr_dataset_open(&dlr_weather_loader, &o, q->common, err);
}

/* ---- pictures ---- */

dlr_scaling dl_samples_scaling(const dl_config *config) {
    const char *name = dl_config_str(config, DL_KEY_image_scaling);
    return strcmp(name, "caffe") == 0 ? DLR_SCALING_CAFFE : DLR_SCALING_UNIT;
}

static dlr_picture_options pictures(const request *q) {
    const dl_config *c = q->config;
    int64_t limit = limit_of(q);
    double crop = dl_config_float(c, DL_KEY_crop_scale);
    dlr_picture_options o = {
        .scaling = dl_samples_scaling(c),
        .moves = {dl_config_float(c, DL_KEY_shift_range), dl_config_float(c, DL_KEY_zoom_range),
                  dl_config_bool(c, DL_KEY_horizontal_flip), crop < 1 ? crop : 0},
        .limit = limit == INT64_MAX ? 0 : limit};
    const dlr_arrays *arrays = q->common->arrays;
    for (int i = 0; i < arrays->n; i++)
        if (arrays->at[i].is_target)
            o.classes = dl_classes_count(q->session->module, find(q->session, &arrays->at[i]));
    return o;
}

static dlr_dataset *open_cifar(const request *q, dl_error *err) {
    dlr_cifar_options o = {data_path(q, DL_KEY_data_dir), pictures(q)};
    return dlr_dataset_open(&dlr_cifar_loader, &o, q->common, err);
}

static void tell_skipped(const char *why) { dlr_log_warning("skipped: %s", why); }

static dlr_dataset *open_folders(const request *q, dl_error *err) {
    bool skips = dl_config_bool(q->config, DL_KEY_skip_unreadable);
    dlr_image_folder_options o = {data_path(q, DL_KEY_train_dir), data_path(q, DL_KEY_valid_dir),
                                  pictures(q), skips ? tell_skipped : NULL};
    return dlr_dataset_open(&dlr_image_folder_loader, &o, q->common, err);
}

/* ---- data of one's own ---- */

static dlr_dataset *open_own(const request *q, dl_error *err) {
    const dl_config *c = q->config;
    dl_key samples = keys[q->split].samples;
    int64_t limit = limit_of(q);
    dlr_array_dataset_options o;
    if (!dl_own_data_given(c)) {
        dl_config_fail(c, DL_KEY_data_loader_config, err,
                       "own: where are the data? data: {inputs: ..., targets: ..., split: ...} "
                       "(docs/guide/data.md)");
        return NULL;
    }
    if (!dl_config_is_null(c, DL_KEY_use_cache)) {
        dl_config_fail(c, DL_KEY_use_cache, err,
                       "not for data of one's own: name the copies in data");
        return NULL;
    }
    if (!dl_own_data_options(q->arena, dl_config_value(c, DL_KEY_data), q->common->arrays, &o, err))
        return NULL;
    o.samples = dl_config_is_given(c, samples) ? dl_config_int(c, samples) : 0;
    o.limit = limit == INT64_MAX ? 0 : limit;
    return dlr_dataset_open(&dlr_array_dataset_loader, &o, q->common, err);
}

bool dl_samples_count(dl_config *config, dlr_split split, const dlr_dataset *d, dl_error *err) {
    if (strcmp(dl_samples_loader(config), "own") != 0) return true;
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)dlr_dataset_samples(d));
    return dl_config_set(config, keys[split].samples, text, err);
}

/* ---- all ---- */

/* By dl_samples_loader. */
static const struct {
    const char *name;
    maker *open;
    /* The key that says how many samples there are, in training and validation: Nsamples, or a
     * folder of files. */
    dl_key samples[2];
} makers[] = {
    {"synthetic", open_noise, {DL_KEY_Nsamples, DL_KEY_Nsamples_val}},
    {"inmem", open_crops_in_memory, {DL_KEY_Nsamples, DL_KEY_Nsamples_val}},
    {"lowmem", open_crops_in_file, {DL_KEY_Nsamples, DL_KEY_Nsamples_val}},
    {"dali-lowmem", open_crops_in_file, {DL_KEY_Nsamples, DL_KEY_Nsamples_val}},
    {"pytorch", open_weather, {DL_KEY_train_data_path, DL_KEY_valid_data_path}},
    {"dali", open_weather, {DL_KEY_train_data_path, DL_KEY_valid_data_path}},
    {"cifar10", open_cifar, {DL_KEY_data_dir, DL_KEY_data_dir}},
    {"image_folder", open_folders, {DL_KEY_train_dir, DL_KEY_valid_dir}},
    {"own", open_own, {DL_KEY_data, DL_KEY_data}},
};

/* Does anybody say where the default loader's data are? */
static bool names_data(const dl_config *c, dlr_split split) {
    return dl_config_is_given(c, keys[split].path) || dl_config_is_given(c, keys[split].npy[0]) ||
           dl_config_is_given(c, keys[split].folder);
}

dlr_dataset *dl_samples_open(dl_arena *arena, const dl_session *s, dlr_split split,
                             dlr_opening opening, dl_error *err) {
    const dl_config *c = s->config;
    dlr_arrays arrays = {0};
    dlr_dataset_options common = {split, (uint64_t)dl_config_int(c, DL_KEY_seed), &arrays,
                                  dl_config_bool(c, DL_KEY_mmap), opening};
    request q = {arena, s, c, split, &common};
    const char *loader = dl_samples_loader(c);
    if (!dl_samples_arrays(s, &arrays, err)) return NULL;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strcmp(loader, makers[i].name) != 0) continue;
        dlr_dataset *d = makers[i].open(&q, err);
        if (!d && !dl_config_is_given(c, DL_KEY_data_loader_config) && !names_data(c, split)) {
            const dl_error why = *err;
            *err = (dl_error){0};
            dl_fail(err, why.code,
                    "no data are named: give a section `data: {inputs: ..., targets: ...}` "
                    "(docs/guide/data.md), or "
                    "--data_loader_config=synthetic to run on noise (the default loader, '%s', "
                    "says: %.600s)",
                    loader, why.message);
        }
        if (!d || check_enough(&q, d, makers[i].samples[split], err)) return d;
        dlr_dataset_close(d);
        return NULL;
    }
    dl_config_fail(c, DL_KEY_data_loader_config, err, "no loader '%s' in this version", loader);
    return NULL;
}
