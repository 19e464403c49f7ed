/* The entries of `data.inputs` and `data.targets`: the arrays that each is read from. */
#include "runtime/setup/array_reader.h"

#include <unistd.h>

/* ---- one source ---- */

/* "FILE:ARRAY", or a file alone, whose name may have a colon: wrfout_d01_2020-01-01_00:00:00. */
static void read_short(const array_reader *r, const char *text, dlr_array_dataset_variable *s) {
    const char *colon = strrchr(text, ':');
    bool has_array = colon && colon > text && colon[1] && !strchr(colon, '.') &&
                     !dl_yaml_get(r->map, "array") && access(text, F_OK) != 0;
    const char **file = DL_NEW(r->arena, const char *);
    *file = has_array ? dl_strndup(r->arena, text, (size_t)(colon - text)) : text;
    s->files = (dlr_array_dataset_names){file, 1};
    if (has_array) s->array = colon + 1;
}

static bool read_channels(const array_reader *r, dlr_array_dataset_variable *s) {
    const dl_yaml *v = dl_yaml_get(r->map, "channels");
    if (!v) return true;
    static const char allowed[] = "a list of indices of axis C, counted from 0";
    if (v->kind != DL_YAML_LIST || !v->items.n) return array_refuse(r, "channels", v, allowed);
    int64_t *at = DL_NEWS(r->arena, int64_t, v->items.n);
    for (int i = 0; i < v->items.n; i++) {
        const dl_yaml *x = v->items.at[i];
        if (x->kind != DL_YAML_INT || x->integer < 0)
            return array_refuse(r, "channels", x, allowed);
        at[i] = x->integer;
    }
    s->channels = at, s->n_channels = v->items.n;
    return true;
}

static bool read_scale(const array_reader *r, dlr_array_dataset_source *s) {
    static const char *const words[] = {"none", "standardize", "minmax"};
    static const dlr_array_dataset_scale scales[] = {DLR_SCALE_NONE, DLR_SCALE_STANDARDIZE,
                                                     DLR_SCALE_MINMAX};
    int k = 0;
    if (!array_read_word(r, "normalize", "standardize, minmax or none", words, 3, &k)) return false;
    if (!array_read_numbers(r, "mean", &s->mean) || !array_read_numbers(r, "std", &s->std))
        return false;
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

/* ---- the arrays of a source ---- */

typedef DL_ARRAY(dlr_array_dataset_variable) variable_list;

static const char axes_allowed[] =
    "a list of axes: the model's names, N for the samples, 1 for one to leave out";
static const char files_allowed[] = "a path, a pattern or a list of them";

/* The one key of a variable's map that names no option is its axis of levels. */
static bool read_levels(const array_reader *r, dlr_array_dataset_variable *s) {
    static const char *const options[] = {"file", "axes", "channels"};
    for (int i = 0; i < r->map->entries.n; i++) {
        const dl_yaml_entry *e = &r->map->entries.at[i];
        bool option = false;
        for (size_t k = 0; k < sizeof options / sizeof *options; k++)
            option |= strcmp(e->key, options[k]) == 0;
        if (option) continue;
        if (s->level_axis)
            return dl_yaml_fail(r->err, e->place,
                                "%s has two axes of levels, '%s' and '%s': one can be taken, its "
                                "own keys are file, axes and channels",
                                r->path, s->level_axis, e->key);
        s->level_axis = e->key;
        if (!array_read_numbers(r, e->key, &s->levels)) return false;
        if (s->levels.path)
            return array_refuse(r, e->key, e->value,
                                "the levels that are taken: a number or a list");
    }
    if (!s->level_axis || !s->channels) return true;
    return dl_yaml_fail(r->err, r->map->place, "%s: channels and %s say the same twice", r->path,
                        s->level_axis);
}

/* {z: {level: [500, 850]}}: variables with options of their own, which `all` has otherwise. */
static bool read_variable_map(const array_reader *r, const dl_yaml *map,
                              const dlr_array_dataset_variable *all, variable_list *out) {
    for (int i = 0; i < map->entries.n; i++) {
        const dl_yaml_entry *e = &map->entries.at[i];
        array_reader own = {r->arena, e->value, dl_format(r->arena, "%s.array.%s", r->path, e->key),
                            r->err};
        dlr_array_dataset_variable v = *all;
        v.array = e->key;
        if (e->value->kind != DL_YAML_MAP)
            return dl_yaml_fail(r->err, e->value->place,
                                "%s must be a map of its own, as {level: [500, 850]}, not %s",
                                own.path, dl_yaml_show(r->arena, e->value));
        if (!array_read_names(&own, "file", files_allowed, &v.files) ||
            !array_read_names(&own, "axes", axes_allowed, &v.axes) || !read_channels(&own, &v) ||
            !read_levels(&own, &v))
            return false;
        dl_push(r->arena, out, v);
    }
    return map->entries.n > 0 || array_refuse(r, "array", map, "the name of an array");
}

static bool read_variable(const array_reader *r, const dl_yaml *v,
                          const dlr_array_dataset_variable *all, variable_list *out) {
    if (v->kind == DL_YAML_MAP) return read_variable_map(r, v, all, out);
    if (!array_word(v) || !*v->text)
        return array_refuse(
            r, "array", v,
            "the name of an array, or a list of names and of {NAME: {AXIS: LEVELS}}");
    dlr_array_dataset_variable one = *all;
    one.array = v->text;
    dl_push(r->arena, out, one);
    return true;
}

/* The arrays that `array` names; without it the one of the file. */
static bool read_variables(const array_reader *r, const dlr_array_dataset_variable *all,
                           dlr_array_dataset_source *s) {
    const dl_yaml *array = dl_yaml_get(r->map, "array");
    variable_list found = {0};
    bool list = array && array->kind == DL_YAML_LIST;
    if (!array) dl_push(r->arena, &found, *all);
    for (int i = 0; array && i < (list ? array->items.n : 1); i++)
        if (!read_variable(r, list ? array->items.at[i] : array, all, &found)) return false;
    if (!found.n) return array_refuse(r, "array", array, "the name of an array");
    s->variables = found.at, s->n_variables = found.n;
    return all->channels == NULL || found.n == 1 ||
           dl_yaml_fail(r->err, dl_yaml_get(r->map, "channels")->place,
                        "%s.channels is of one array, and it has %d: {NAME: {channels: [...]}} in "
                        "the list",
                        r->path, found.n);
}

bool array_read_array(const array_reader *r, const char *key, dlr_array_dataset_variable *out) {
    static const char *const known[] = {"file", "array", NULL};
    const dl_yaml *v = dl_yaml_get(r->map, key);
    if (!v) return true;
    if (v->kind == DL_YAML_STRING && *v->text) {
        read_short(r, v->text, out);
        return true;
    }
    if (v->kind != DL_YAML_MAP) return array_refuse(r, key, v, "FILE:ARRAY or {file, array}");
    array_reader own = {r->arena, v, dl_format(r->arena, "%s.%s", r->path, key), r->err};
    const dl_yaml *array = dl_yaml_get(v, "array");
    if (!array_check_keys(&own, known) ||
        !array_read_names(&own, "file", files_allowed, &out->files))
        return false;
    if (array && (!array_word(array) || !*array->text))
        return array_refuse(&own, "array", array, "the name of an array");
    if (array) out->array = array->text;
    return out->files.n > 0 || dl_yaml_fail(r->err, v->place, "%s.file is missing", own.path);
}

static bool read_source(const array_reader *r, dlr_array_dataset_source *s) {
    static const char *const known[] = {"file",      "array", "axes", "channels", "offset",
                                        "normalize", "mean",  "std",  "nan",      NULL};
    s->key = r->path;
    const dl_yaml *v = r->map;
    dlr_array_dataset_variable all = {0};
    if (v->kind == DL_YAML_STRING && *v->text) {
        dlr_array_dataset_variable *one = DL_NEW(r->arena, dlr_array_dataset_variable);
        read_short(r, v->text, one);
        s->variables = one, s->n_variables = 1;
        return true;
    }
    if (v->kind != DL_YAML_MAP)
        return dl_yaml_fail(r->err, v->place,
                            "%s must be FILE:ARRAY or a map of file, array, ..., not %s", r->path,
                            dl_yaml_show(r->arena, v));
    if (!array_check_keys(r, known)) return false;
    const dl_yaml *file = dl_yaml_get(v, "file"), *nan = dl_yaml_get(v, "nan");
    if (file && file->kind == DL_YAML_STRING && *file->text)
        read_short(r, file->text, &all);
    else if (!array_read_names(r, "file", files_allowed, &all.files))
        return false;
    if (nan && !array_is_number(nan))
        return array_refuse(r, "nan", nan, "the number that takes the place of NaN");
    if (nan) s->replaces_nan = true, s->nan = nan->number;
    return array_read_names(r, "axes", axes_allowed, &all.axes) && read_channels(r, &all) &&
           read_variables(r, &all, s) && array_read_whole(r, "offset", -INT32_MAX, &s->offset) &&
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

bool array_read_sources(dl_arena *arena, const dl_yaml *section, const dlr_arrays *arrays,
                        dlr_array_dataset_options *o, dl_error *err) {
    for (int targets = 0; targets < 2; targets++)
        if (!check_group(arena, section, targets, arrays, err)) return false;
    for (int i = 0; i < arrays->n; i++) {
        const dlr_array *a = &arrays->at[i];
        const char *group = a->is_target ? "targets" : "inputs";
        array_reader r = {arena, source_of(section, group, a->name),
                          dl_format(arena, "data.%s.%s", group, a->name), err};
        if (!read_source(&r, &o->source[i])) return false;
    }
    return true;
}
