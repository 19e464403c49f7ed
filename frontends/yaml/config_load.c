/* The YAML file: its path, the configuration that is selected, its preset, the model that it
 * names. */
#include <unistd.h>

#include "frontends/yaml/config_private.h"
#include "frontends/yaml/data_file.h"

/* The file in which `model: NAME` is looked up. */
#define NAMES "models/config/names.yaml"

/* ---- positional arguments ---- */

static bool is_yaml(const char *path) {
    return dl_ends_with(path, ".yaml") || dl_ends_with(path, ".yml");
}

bool dl_config_is_plan(const char *path) { return dl_ends_with(path, ".dlp"); }

static bool refuse_plan(const char *path, dl_error *err) {
    return dl_fail(err, DL_USAGE,
                   "%.200s is a plan: `dlrun %.200s` trains with it, and nothing else takes it in "
                   "the place of a model's file",
                   path, path);
}

const char *dl_config_take_plan(dl_config *c) {
    const char *plan = NULL;
    int n = 0;
    for (int i = 0; i < c->positional.n; i++) {
        const char *word = c->positional.at[i];
        if (!plan && dl_config_is_plan(word))
            plan = word;
        else
            c->positional.at[n++] = word;
    }
    c->positional.n = n;
    return plan;
}

bool dl_config_take_model(dl_config *c, dl_error *err) {
    const dl_setting *model = &c->state->settings.at[DL_KEY_model];
    const char *first[2] = {NULL, NULL}; /* model and YAML file */
    static const char *const one[2] = {"one model at a time", "one configuration file at a time"};
    for (int i = 0; i < c->positional.n; i++) {
        const char *word = c->positional.at[i];
        int k = is_yaml(word);
        if (first[k])
            return dl_fail(err, DL_USAGE, "%s: '%.200s' and '%.200s'", one[k], first[k], word);
        first[k] = word;
    }
    if (first[1] && c->state->yaml_config && strcmp(first[1], c->state->yaml_config) != 0)
        return dl_fail(err, DL_USAGE, "%s: '%.200s' and --yaml_config=%.200s", one[1], first[1],
                       c->state->yaml_config);
    if (first[1]) c->state->yaml_config = first[1];
    if (!first[0]) return true;
    if (dl_config_is_plan(first[0])) return refuse_plan(first[0], err);
    if (model->source == DL_BY_ARGUMENT)
        return dl_fail(err, DL_USAGE, "%s: '%.200s' and %.200s", one[0], first[0],
                       model->value->place.file);
    return dl_config_set(c, DL_KEY_model, first[0], err);
}

/* ---- the file ---- */

/* The stem of a path: "unet" of "models/unet.dl". */
static const char *stem_of(dl_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    return dl_strndup(arena, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

/* --yaml_config, or config/X.yaml next to the file X.dl. A configuration belongs to the model next
 * to it: another model of that name in another folder has keys of its own. The file is searched for
 * like all program files. NULL: there is none. */
static const char *find_file(const dl_config *c, dl_error *err) {
    dl_arena *arena = c->state->arena;
    if (c->state->yaml_config) return c->state->yaml_config;
    dl_error absent = {0};
    const char *named = dl_config_str(c, DL_KEY_model),
               *found = dl_find_data_file(arena, named, &absent);
    const char *model = found ? found : named, *slash = strrchr(model, '/');
    const char *file = dl_format(arena, "%.*sconfig/%s.yaml", slash ? (int)(slash + 1 - model) : 0,
                                 model, stem_of(arena, model));
    if (access(file, F_OK) == 0) return file;
    dl_fail(err, DL_IO, "there is no file %s, where the configurations of %s would be", file,
            model);
    return NULL;
}

/* The keys of a map whose values are maps, "a, b, c", cut where there are many. In the arena. */
static const char *list_maps(dl_arena *arena, const dl_yaml *map) {
    enum { LONGEST = 500 };
    dl_buf list = {0};
    for (int i = 0; map && i < map->entries.n; i++) {
        if (map->entries.at[i].value->kind != DL_YAML_MAP) continue;
        if (list.n < LONGEST)
            dl_putf(&list, "%s%.100s", list.n ? ", " : "", map->entries.at[i].key);
        else if (list.at[list.n - 1] != '.')
            dl_puts(&list, ", ...");
    }
    const char *text = list.n ? dl_strndup(arena, list.at, list.n) : "none";
    dl_buf_free(&list);
    return text;
}

static const char *nearest_map(dl_arena *arena, const dl_yaml *map, const char *name) {
    DL_ARRAY(const char *) names = {0};
    for (int i = 0; map && i < map->entries.n; i++)
        if (map->entries.at[i].value->kind == DL_YAML_MAP)
            dl_push(arena, &names, map->entries.at[i].key);
    const char *near = dl_nearest(name, names.at, names.n);
    return near ? dl_format(arena, " (did you mean '%.80s'?)", near) : "";
}

static bool fail_no_such_name(const dl_config *c, const dl_yaml *file, dl_error *err) {
    dl_arena *arena = c->state->arena;
    return dl_fail(err, c->state->is_named ? DL_USAGE : DL_INPUT,
                   "%.200s has no configuration %s%s; it has %s", c->file,
                   dl_yaml_quote(arena, c->name), nearest_map(arena, file, c->name),
                   list_maps(arena, file));
}

/* The configuration if none is selected: base, else default, else the first one. */
static const char *default_name(const dl_yaml *file) {
    static const char *const usual[] = {"base", "default"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (dl_yaml_get(file, usual[i])) return usual[i];
    for (int i = 0; i < file->entries.n; i++)
        if (file->entries.at[i].value->kind == DL_YAML_MAP) return file->entries.at[i].key;
    return usual[0];
}

/* Whether the file is one configuration instead of a map of several, as preset keras' are: keys
 * stand at its top, and no configuration has one of the names that are looked for. */
static bool is_single(const dl_config *c, const dl_yaml *file) {
    bool usual = dl_yaml_get(file, "base") || dl_yaml_get(file, "default"), keys = false;
    for (int i = 0; i < file->entries.n; i++)
        keys |= dl_find_setting(c, file->entries.at[i].key) != NULL;
    return keys && !(c->state->is_named ? dl_yaml_get(file, c->name) != NULL : usual);
}

/* The selected configuration; NULL with an error. */
static const dl_yaml *choose(dl_config *c, const dl_yaml *file, dl_error *err) {
    dl_arena *arena = c->state->arena;
    if (file->kind != DL_YAML_MAP) {
        dl_yaml_fail(err, file->place,
                     "a configuration file is a map of named configurations, not %s",
                     dl_yaml_show(arena, file));
        return NULL;
    }
    if (is_single(c, file)) {
        if (c->state->is_named)
            return dl_fail(err, DL_USAGE,
                           "--config %.80s: %.200s is one configuration, without names", c->name,
                           c->file),
                   NULL;
        c->name = stem_of(arena, c->file);
        if (!dl_is_file_name(c->name) || dl_find_setting(c, c->name)) c->name = "base";
        return file;
    }
    if (!c->state->is_named) c->name = default_name(file);
    const dl_yaml *chosen = dl_yaml_get(file, c->name);
    if (!chosen) return fail_no_such_name(c, file, err), NULL;
    if (chosen->kind == DL_YAML_MAP) return chosen;
    dl_yaml_fail(err, chosen->place, "the configuration %s must be a map of keys, not %s",
                 dl_yaml_quote(arena, c->name), dl_yaml_show(arena, chosen));
    return NULL;
}

/* ---- presets ---- */

static const struct {
    const char *name, *marks, *values, *of_optimizers, *named;
} presets[] = {
#define PRESET(name, marks, values, of_optimizers, named)                                          \
    {#name, marks, values, of_optimizers, named},
#include "compat/nersc/presets.def"
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

bool dl_config_preset(int i, const char **name, const char **marks) {
    if (i >= N_PRESETS) return false;
    *name = presets[i].name, *marks = presets[i].marks;
    return true;
}

static bool has_marks(dl_arena *arena, const dl_yaml *map, const char *marks) {
    while (*marks) {
        size_t n = strcspn(marks, " ");
        if (!map || !dl_yaml_get(map, dl_strndup(arena, marks, n))) return false;
        marks += n + (marks[n] == ' ');
    }
    return true;
}

/* Applies the preset of a configuration (NULL: none): that of the key, else the first whose marks
 * match. */
static bool take_preset(dl_config *c, const dl_yaml *chosen, dl_error *err) {
    dl_arena *arena = c->state->arena;
    dl_setting *s = &c->state->settings.at[DL_KEY_preset];
    const dl_yaml *said = chosen ? dl_yaml_get(chosen, "preset") : NULL;
    if (chosen && !said) said = dl_yaml_get(chosen, "recipe");
    if (said && !dl_setting_put(arena, s, said, DL_BY_FILE, err)) return false;
    int k = 0;
    if (s->value->kind == DL_YAML_NULL)
        while (!has_marks(arena, chosen, presets[k].marks)) k++; /* the last row has no marks */
    else
        while (strcmp(presets[k].name, s->value->text) != 0) k++; /* the key allows no others */
    dl_yaml_place nowhere = {0};
    const char *name = presets[k].name;
    bool named = s->value->kind != DL_YAML_NULL;
    const dl_yaml *values = dl_yaml_read_argument(arena, presets[k].values, name, err),
                  *more = dl_yaml_read_argument(arena, named ? presets[k].named : "{}", name, err);
    if (!values || !more) return false; /* no memory: tests/unit/test_presets.c reads them all */
    if (!named) s->value = dl_yaml_string(arena, name, nowhere);
    return dl_config_take_map(c, "", values, DL_BY_RECIPE, err) &&
           dl_config_take_map(c, "", more, DL_BY_RECIPE, err);
}

bool dl_config_take_of_optimizer(dl_config *c, dl_error *err) {
    const char *preset = dl_config_str(c, DL_KEY_preset);
    if (!preset) return true;
    int k = 0;
    while (strcmp(presets[k].name, preset) != 0) k++; /* the key allows no other names */
    const dl_yaml *all =
        dl_yaml_read_argument(c->state->arena, presets[k].of_optimizers, preset, err);
    if (!all) return false; /* as above */
    const dl_yaml *values = dl_yaml_get(all, dl_config_str(c, DL_KEY_optimizer));
    return !values || dl_config_take_map(c, "", values, DL_BY_RECIPE, err);
}

/* ---- the model's file ---- */

/* A relative model of a configuration's file, where it lies next to that file; of a file in a
 * folder `config`, next to the folder. NULL: not there. */
static const char *find_next_to(dl_arena *arena, const char *file, const char *model) {
    const char *slash = strrchr(file, '/');
    const char *dir = slash ? dl_strndup(arena, file, (size_t)(slash - file)) : ".";
    const char *path = slash ? dl_format(arena, "%s/%s", dir, model) : model;
    if (access(path, F_OK) == 0) return path;
    const char *above = strcmp(dir, "config") == 0 ? model : NULL;
    if (dl_ends_with(dir, "/config"))
        above = dl_format(arena, "%.*s/%s", (int)(strlen(dir) - strlen("/config")), dir, model);
    return above && access(above, F_OK) == 0 ? above : NULL;
}

/* The model that a configuration's file names: from the file's folder on, then from the current
 * directory, as all program files. */
static bool take_model_of_file(dl_config *c, dl_error *err) {
    dl_arena *arena = c->state->arena;
    dl_setting *s = &c->state->settings.at[DL_KEY_model];
    const char *name = s->value->text;
    dl_error absent = {0};
    if (s->source != DL_BY_FILE || *name == '/' || !dl_ends_with(name, ".dl")) return true;
    const char *found = find_next_to(arena, c->file, name);
    if (!found && !dl_find_data_file(arena, name, &absent))
        return dl_yaml_fail(err, s->value->place, "model: %s; nor in this file's folder",
                            absent.message);
    if (found) s->value = dl_yaml_string(arena, found, s->value->place);
    return true;
}

/* ---- the model's name ---- */

/* Replaces a `model` that is no file name by the entry of NAMES: a file, and arguments. */
static bool take_model_name(dl_config *c, dl_error *err) {
    dl_arena *arena = c->state->arena;
    dl_setting *s = &c->state->settings.at[DL_KEY_model];
    const char *name = s->value->text, *preset = dl_config_str(c, DL_KEY_preset);
    if (strchr(name, '/') || dl_ends_with(name, ".dl") || access(name, F_OK) == 0) return true;
    const char *path = dl_find_data_file(arena, NAMES, err);
    const dl_yaml *all = path ? dl_yaml_read_file(arena, path, err) : NULL;
    if (!all) return false;
    const dl_yaml *known = all->kind == DL_YAML_MAP ? dl_yaml_get(all, preset) : NULL;
    const dl_yaml *meant = known && known->kind == DL_YAML_MAP ? dl_yaml_get(known, name) : NULL;
    if (!meant)
        return dl_yaml_fail(
            err, s->value->place,
            "model: %s is no file X.dl, and no model of preset %s%s; %s has: %s",
            dl_yaml_quote(arena, name), preset,
            known && known->kind == DL_YAML_MAP ? nearest_map(arena, known, name) : "", path,
            known && known->kind == DL_YAML_MAP ? list_maps(arena, known) : "none");
    const dl_yaml *file = meant->kind == DL_YAML_MAP ? dl_yaml_get(meant, "model") : NULL;
    if (!file || file->kind != DL_YAML_STRING || !*file->text)
        return dl_yaml_fail(err, meant->place, "%s must say which file it is: {model: models/X.dl}",
                            dl_yaml_quote(arena, name));
    /* so that the map's own value is ignored */
    s->value = dl_yaml_string(arena, file->text, s->value->place);
    return dl_config_take_map(c, "", meant, DL_BY_RECIPE, err);
}

/* ---- interface ---- */

void dl_config_set_text(dl_config *c, const char *name, const char *text) {
    c->state->text = text, c->state->text_name = name;
}

bool dl_config_load(dl_config *c, dl_error *err) {
    dl_error missing = {0};
    const dl_yaml *chosen = NULL;
    const char *text = c->state->yaml_config ? NULL : c->state->text;
    c->file = text ? c->state->text_name : find_file(c, &missing);
    if (!c->file && c->state->is_named)
        return dl_fail(err, DL_USAGE, "--config %.80s: %.600s; give --yaml_config FILE", c->name,
                       missing.message);
    if (c->file) {
        dl_arena *arena = c->state->arena;
        const dl_yaml *file = text ? dl_yaml_read(arena, text, strlen(text), c->file, err)
                                   : dl_yaml_read_file(arena, c->file, err);
        chosen = file ? choose(c, file, err) : NULL;
        if (!chosen) return false;
    }
    if (!take_preset(c, chosen, err) ||
        (chosen && !dl_config_take_map(c, "", chosen, DL_BY_FILE, err)))
        return false;
    const char *model = dl_config_str(c, DL_KEY_model);
    if (dl_config_is_plan(model)) return refuse_plan(model, err);
    /* a text has the file already */
    return text || (take_model_of_file(c, err) && take_model_name(c, err));
}
