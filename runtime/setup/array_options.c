#include "runtime/setup/array_options.h"

#include <math.h>

/* A map of the section that is being read. */
typedef struct {
    dl_arena *arena;
    const dl_yaml *map;
    const char *path; /* "data.inputs.x" */
    dl_error *err;
} reader;

/* ---- values ---- */

static bool refuse(const reader *r, const char *key, const dl_yaml *v, const char *allowed) {
    return dl_yaml_fail(r->err, v->place, "%s.%s must be %s, not %s", r->path, key, allowed,
                        dl_yaml_show(r->arena, v));
}

static bool is_number(const dl_yaml *v) {
    return (v->kind == DL_YAML_INT || v->kind == DL_YAML_FLOAT) && isfinite(v->number);
}

static const char *word_of(const dl_yaml *v) { return v->kind == DL_YAML_STRING ? v->text : NULL; }

/* One word, or a list of them; `1` counts as a word. */
static bool read_names(const reader *r, const char *key, const char *what,
                       dlr_array_dataset_names *out) {
    const dl_yaml *v = dl_yaml_get(r->map, key);
    if (!v) return true;
    const dl_yaml *const one[] = {v};
    bool list = v->kind == DL_YAML_LIST;
    int n = list ? v->items.n : 1;
    const dl_yaml *const *at = list ? v->items.at : one;
    const char **names = DL_NEWS(r->arena, const char *, n);
    for (int i = 0; i < n; i++) {
        bool unit = at[i]->kind == DL_YAML_INT && at[i]->integer == 1;
        names[i] = unit ? "1" : word_of(at[i]);
        if (!names[i] || !*names[i]) return refuse(r, key, at[i], what);
    }
    *out = (dlr_array_dataset_names){names, n};
    return n > 0 || refuse(r, key, v, what);
}

static bool read_word(const reader *r, const char *key, const char *allowed,
                      const char *const *words, int n_words, int *out) {
    const dl_yaml *v = dl_yaml_get(r->map, key);
    if (!v) return true;
    const char *word = v->kind == DL_YAML_NULL ? "none" : word_of(v);
    for (*out = 0; word && *out < n_words; ++*out)
        if (strcmp(words[*out], word) == 0) return true;
    return refuse(r, key, v, allowed);
}

/* A number, a list of them, or a .npy file. */
static bool read_numbers(const reader *r, const char *key, dlr_array_dataset_numbers *out) {
    static const char allowed[] = "a number, a list of numbers (one a channel) or a .npy file";
    const dl_yaml *v = dl_yaml_get(r->map, key);
    if (!v) return true;
    if (word_of(v) && *v->text) {
        out->path = v->text;
        return true;
    }
    const dl_yaml *const one[] = {v};
    bool list = v->kind == DL_YAML_LIST;
    int n = list ? v->items.n : 1;
    double *numbers = DL_NEWS(r->arena, double, n);
    for (int i = 0; i < n; i++) {
        const dl_yaml *x = list ? v->items.at[i] : one[0];
        if (!is_number(x)) return refuse(r, key, x, allowed);
        numbers[i] = x->number;
    }
    out->at = numbers, out->n = n;
    return n > 0 || refuse(r, key, v, allowed);
}

static bool read_whole(const reader *r, const char *key, int64_t least, int64_t *out) {
    const dl_yaml *v = dl_yaml_get(r->map, key);
    if (!v) return true;
    if (v->kind != DL_YAML_INT || v->integer < least || v->integer > INT32_MAX ||
        v->integer < -INT32_MAX)
        return refuse(r, key, v, least > 0 ? "an integer of at least 1" : "an integer");
    *out = v->integer;
    return true;
}

/* Every key is one of `known` (which ends with NULL). */
static bool check_keys(const reader *r, const char *const *known) {
    if (r->map->kind != DL_YAML_MAP)
        return dl_yaml_fail(r->err, r->map->place, "%s must be a map, not %s", r->path,
                            dl_yaml_show(r->arena, r->map));
    int n = 0;
    while (known[n]) n++;
    for (int i = 0; i < r->map->entries.n; i++) {
        const dl_yaml_entry *e = &r->map->entries.at[i];
        int k = 0;
        while (k < n && strcmp(known[k], e->key) != 0) k++;
        if (k < n) continue;
        const char *near = dl_nearest(e->key, known, n);
        dl_buf all = {0};
        for (k = 0; k < n; k++) dl_putf(&all, "%s%s", k ? ", " : "", known[k]);
        dl_yaml_fail(r->err, e->place, "%s has no key %s%s%s%s; it may have: %s", r->path,
                     dl_yaml_quote(r->arena, e->key), near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "", all.at);
        dl_buf_free(&all);
        return false;
    }
    return true;
}

/* ---- one source ---- */

/* "FILE:ARRAY", or a file alone. */
static void read_short(const reader *r, const char *text, dlr_array_dataset_source *s) {
    const char *colon = strrchr(text, ':');
    bool has_array = colon && colon > text && colon[1] && !strchr(colon, '.');
    const char **file = DL_NEW(r->arena, const char *);
    *file = has_array ? dl_strndup(r->arena, text, (size_t)(colon - text)) : text;
    s->files = (dlr_array_dataset_names){file, 1};
    if (has_array) s->array = colon + 1;
}

static bool read_channels(const reader *r, dlr_array_dataset_source *s) {
    const dl_yaml *v = dl_yaml_get(r->map, "channels");
    if (!v) return true;
    static const char allowed[] = "a list of indices of axis C, counted from 0";
    if (v->kind != DL_YAML_LIST || !v->items.n) return refuse(r, "channels", v, allowed);
    int64_t *at = DL_NEWS(r->arena, int64_t, v->items.n);
    for (int i = 0; i < v->items.n; i++) {
        const dl_yaml *x = v->items.at[i];
        if (x->kind != DL_YAML_INT || x->integer < 0) return refuse(r, "channels", x, allowed);
        at[i] = x->integer;
    }
    s->channels = at, s->n_channels = v->items.n;
    return true;
}

static bool read_scale(const reader *r, dlr_array_dataset_source *s) {
    static const char *const words[] = {"none", "standardize", "minmax"};
    static const dlr_array_dataset_scale scales[] = {DLR_SCALE_NONE, DLR_SCALE_STANDARDIZE,
                                                     DLR_SCALE_MINMAX};
    int k = 0;
    if (!read_word(r, "normalize", "standardize, minmax or none", words, 3, &k)) return false;
    if (!read_numbers(r, "mean", &s->mean) || !read_numbers(r, "std", &s->std)) return false;
    s->scale = scales[k];
    bool mean = s->mean.n || s->mean.path, std = s->std.n || s->std.path;
    if (mean != std)
        return dl_yaml_fail(r->err, r->map->place, "%s: mean and std go together: %s is missing",
                            r->path, mean ? "std" : "mean");
    if (mean && s->scale != DLR_SCALE_NONE)
        return dl_yaml_fail(r->err, r->map->place,
                            "%s: normalize: %s computes what mean and std give: leave one out",
                            r->path, words[k]);
    if (mean) s->scale = DLR_SCALE_GIVEN;
    for (int i = 0; i < s->std.n; i++)
        if (!(s->std.at[i] > 0))
            return dl_yaml_fail(r->err, dl_yaml_get(r->map, "std")->place,
                                "%s.std must be above 0, not %g", r->path, s->std.at[i]);
    return true;
}

static bool read_source(const reader *r, dlr_array_dataset_source *s) {
    static const char *const known[] = {"file",      "array", "axes", "channels", "offset",
                                        "normalize", "mean",  "std",  "nan",      NULL};
    s->key = r->path;
    const dl_yaml *v = r->map;
    if (v->kind == DL_YAML_STRING && *v->text) {
        read_short(r, v->text, s);
        return true;
    }
    if (v->kind != DL_YAML_MAP)
        return dl_yaml_fail(r->err, v->place,
                            "%s must be FILE:ARRAY or a map of file, array, ..., not %s", r->path,
                            dl_yaml_show(r->arena, v));
    if (!check_keys(r, known)) return false;
    const dl_yaml *file = dl_yaml_get(v, "file"), *array = dl_yaml_get(v, "array"),
                  *nan = dl_yaml_get(v, "nan");
    if (file && file->kind == DL_YAML_STRING && *file->text)
        read_short(r, file->text, s);
    else if (!read_names(r, "file", "a path, a pattern or a list of them", &s->files))
        return false;
    if (array && (!word_of(array) || !*array->text))
        return refuse(r, "array", array, "the name of an array");
    if (array) s->array = array->text;
    if (nan && !is_number(nan))
        return refuse(r, "nan", nan, "the number that takes the place of NaN");
    if (nan) s->replaces_nan = true, s->nan = nan->number;
    return read_names(
               r, "axes",
               "a list of axes: the model's names, N for the samples, 1 for one to leave out",
               &s->axes) &&
           read_channels(r, s) && read_whole(r, "offset", -INT32_MAX, &s->offset) &&
           read_scale(r, s);
}

/* ---- all sources ---- */

static const dl_yaml *source_of(const dl_yaml *section, const char *group, const char *name) {
    const dl_yaml *map = dl_yaml_get(section, group);
    return map && map->kind == DL_YAML_MAP ? dl_yaml_get(map, name) : NULL;
}

static const char *list_arrays(dl_arena *arena, const dlr_arrays *arrays, bool targets) {
    dl_buf b = {0};
    for (int i = 0; i < arrays->n; i++)
        if (arrays->at[i].is_target == targets)
            dl_putf(&b, "%s%s", b.n ? ", " : "", arrays->at[i].name);
    const char *text = b.n ? dl_strndup(arena, b.at, b.n) : "none";
    dl_buf_free(&b);
    return text;
}

/* `inputs` and `targets` name the model's inputs and targets, all of them and nothing else. */
static bool check_group(dl_arena *arena, const dl_yaml *section, bool targets,
                        const dlr_arrays *arrays, dl_error *err) {
    const char *group = targets ? "targets" : "inputs";
    const dl_yaml *map = dl_yaml_get(section, group);
    int n = map && map->kind == DL_YAML_MAP ? map->entries.n : 0;
    if (map && map->kind != DL_YAML_MAP && map->kind != DL_YAML_NULL)
        return dl_yaml_fail(err, map->place, "data.%s must be a map of the model's %s (%s), not %s",
                            group, group, list_arrays(arena, arrays, targets),
                            dl_yaml_show(arena, map));
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < arrays->n && (arrays->at[k].is_target != targets ||
                                 strcmp(arrays->at[k].name, map->entries.at[i].key)))
            k++;
        if (k == arrays->n)
            return dl_yaml_fail(
                err, map->entries.at[i].place, "data.%s: the model has no %.*s %s; it has: %s",
                group, (int)strlen(group) - 1, group, dl_yaml_quote(arena, map->entries.at[i].key),
                list_arrays(arena, arrays, targets));
    }
    for (int k = 0; k < arrays->n; k++)
        if (arrays->at[k].is_target == targets && !source_of(section, group, arrays->at[k].name))
            return dl_yaml_fail(err, map ? map->place : section->place,
                                "data.%s: the model's '%s' %s is missing: %s: FILE:ARRAY", group,
                                arrays->at[k].name, dl_type_text(&arrays->at[k].type),
                                arrays->at[k].name);
    return true;
}

static bool read_sources(dl_arena *arena, const dl_yaml *section, const dlr_arrays *arrays,
                         dlr_array_dataset_options *o, dl_error *err) {
    for (int targets = 0; targets < 2; targets++)
        if (!check_group(arena, section, targets, arrays, err)) return false;
    for (int i = 0; i < arrays->n; i++) {
        const dlr_array *a = &arrays->at[i];
        const char *group = a->is_target ? "targets" : "inputs";
        reader r = {arena, source_of(section, group, a->name),
                    dl_format(arena, "data.%s.%s", group, a->name), err};
        if (!read_source(&r, &o->source[i])) return false;
    }
    return true;
}

/* ---- what holds for all arrays ---- */

static bool read_steps(const reader *section, dlr_array_dataset_options *o) {
    const dl_yaml *map = dl_yaml_get(section->map, "step");
    if (!map) return true;
    if (map->kind != DL_YAML_MAP)
        return refuse(section, "step", map, "a map of axes, as {H: 2, W: 2}");
    reader r = {section->arena, map, "data.step", section->err};
    const char **names = DL_NEWS(r.arena, const char *, map->entries.n);
    int64_t *steps = DL_NEWS(r.arena, int64_t, map->entries.n);
    for (int i = 0; i < map->entries.n; i++) {
        names[i] = map->entries.at[i].key;
        if (!read_whole(&r, names[i], 1, &steps[i])) return false;
    }
    o->step_axes = (dlr_array_dataset_names){names, map->entries.n}, o->steps = steps;
    return true;
}

static bool read_augmentation(const reader *section, dlr_array_dataset_options *o) {
    static const char *const known[] = {"flip", "rotate", "shift", NULL};
    static const char axes[] = "a list of axes of the model";
    const dl_yaml *map = dl_yaml_get(section->map, "augment");
    if (!map || map->kind == DL_YAML_NULL) return true;
    reader r = {section->arena, map, "data.augment", section->err};
    if (!check_keys(&r, known) || !read_names(&r, "flip", axes, &o->flip) ||
        !read_names(&r, "rotate", "a list of two or three axes of the model", &o->rotate) ||
        !read_names(&r, "shift", axes, &o->shift))
        return false;
    if (o->rotate.n && (o->rotate.n < 2 || o->rotate.n > 3))
        return refuse(&r, "rotate", dl_yaml_get(map, "rotate"),
                      "a list of two or three axes of the model");
    return true;
}

/* ---- the split ---- */

static const char *const parts[] = {[DLR_TRAIN] = "train", [DLR_VALID] = "valid"};

static bool is_range(const dl_yaml *v) {
    if (v->kind != DL_YAML_LIST || v->items.n != 2) return false;
    const dl_yaml *a = v->items.at[0], *b = v->items.at[1];
    return a->kind == DL_YAML_INT && b->kind == DL_YAML_INT && a->integer >= 0 &&
           b->integer > a->integer;
}

static bool read_part(const reader *r, dlr_split k, const dl_yaml *v, dlr_array_dataset_split *s) {
    static const char allowed[] = "a fraction between 0 and 1, a range [first, end), "
                                  "or files (paths or patterns)";
    if (is_number(v) && v->number > 0 && v->number < 1) {
        s->kind = DLR_SPLIT_FRACTION, s->fraction[k] = v->number;
        return true;
    }
    if (is_range(v)) {
        s->kind = DLR_SPLIT_RANGE;
        s->range[k][0] = v->items.at[0]->integer, s->range[k][1] = v->items.at[1]->integer;
        return true;
    }
    s->kind = DLR_SPLIT_FILES;
    return (word_of(v) || v->kind == DL_YAML_LIST) ? read_names(r, parts[k], allowed, &s->files[k])
                                                   : refuse(r, parts[k], v, allowed);
}

static bool read_split(const reader *section, dlr_array_dataset_split *s) {
    static const char *const known[] = {"train", "valid", "axis", NULL};
    const dl_yaml *map = dl_yaml_get(section->map, "split");
    if (!map)
        return dl_yaml_fail(
            section->err, section->map->place,
            "data.split is missing: {valid: 0.1} keeps the last tenth for validation; ranges and "
            "files: docs/guide/data.md");
    reader r = {section->arena, map, "data.split", section->err};
    if (!check_keys(&r, known)) return false;
    const dl_yaml *given[2] = {dl_yaml_get(map, "train"), dl_yaml_get(map, "valid")},
                  *axis = dl_yaml_get(map, "axis");
    if (!given[DLR_VALID]) return dl_yaml_fail(r.err, map->place, "data.split.valid is missing");
    dlr_array_dataset_split_kind kind[2];
    for (int k = 1; k >= 0; k--) {
        if (given[k] && !read_part(&r, (dlr_split)k, given[k], s)) return false;
        kind[k] = given[k] ? s->kind : kind[1];
    }
    if (kind[0] != kind[1])
        return dl_yaml_fail(
            r.err, map->place,
            "data.split: train and valid are of two kinds (fraction, range, files)");
    if (s->kind == DLR_SPLIT_RANGE && !given[0])
        return dl_yaml_fail(r.err, map->place, "data.split.train is missing: a range [first, end)");
    if (!given[0] && s->kind == DLR_SPLIT_FRACTION)
        s->fraction[DLR_TRAIN] = 1 - s->fraction[DLR_VALID];
    if (s->kind == DLR_SPLIT_FRACTION && s->fraction[0] + s->fraction[1] > 1 + 1e-9)
        return dl_yaml_fail(r.err, map->place,
                            "data.split: train %g and valid %g are more than all", s->fraction[0],
                            s->fraction[1]);
    const int64_t *t = s->range[DLR_TRAIN], *v = s->range[DLR_VALID];
    if (s->kind == DLR_SPLIT_RANGE && t[0] < v[1] && v[0] < t[1])
        return dl_yaml_fail(r.err, map->place,
                            "data.split: the ranges of train and valid have samples in common");
    if (axis && (!word_of(axis) || !*axis->text))
        return refuse(&r, "axis", axis, "the name of an axis");
    if (axis) s->axis = axis->text;
    return true;
}

bool dl_own_data_options(dl_arena *arena, const dl_yaml *section, const dlr_arrays *arrays,
                         dlr_array_dataset_options *out, dl_error *err) {
    static const char *const known[] = {"inputs", "targets", "split", "crop",
                                        "step",   "augment", NULL};
    static const char *const crops[] = {"none", "origin", "center", "random"};
    reader r = {arena, section, "data", err};
    int crop = 0;
    *out = (dlr_array_dataset_options){0};
    if (!check_keys(&r, known) || !read_sources(arena, r.map, arrays, out, err)) return false;
    if (!read_word(&r, "crop", "none, origin, center or random", crops, 4, &crop)) return false;
    out->crop = (dlr_array_dataset_crop)crop;
    if (!read_steps(&r, out) || !read_augmentation(&r, out) || !read_split(&r, &out->split))
        return false;
    for (int i = 0; i < arrays->n; i++)
        if (!out->source[i].files.n && out->split.kind != DLR_SPLIT_FILES)
            return dl_yaml_fail(err, r.map->place,
                                "%s.file is missing (only a split by files stands for it)",
                                out->source[i].key);
    return true;
}
