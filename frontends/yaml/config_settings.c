/* Finds settings by name, and sets them from the map of a file, a preset or an argument. */
#include "frontends/yaml/config_private.h"
#include "frontends/yaml/rate_options.h"

/* Finds a key by its own name or an alias. */
static dl_setting *find(const dl_config *c, const char *name) {
    for (int i = 0; i < c->state->settings.n; i++)
        if (strcmp(c->state->settings.at[i].row->name, name) == 0) return &c->state->settings.at[i];
    for (const dl_key_alias *a = dl_key_aliases; a->name; a++)
        if (strcmp(a->name, name) == 0) return &c->state->settings.at[a->key];
    return NULL;
}

dl_setting *dl_find_setting_in(const dl_config *c, const char *section, const char *name) {
    bool itself = *section && strcmp(name, "name") == 0 && find(c, section);
    dl_setting *s = find(c, itself ? section : name);
    return s && dl_is_section(section) && strcmp(s->row->section, section) != 0 ? NULL : s;
}

dl_setting *dl_find_setting(const dl_config *c, const char *name) {
    const char *dot = strchr(name, '.');
    if (!dot) return find(c, name);
    const char *map = dl_strndup(c->state->arena, name, (size_t)(dot - name));
    if (!dl_is_within(map, dot + 1)) return dl_find_setting_in(c, map, dot + 1);
    for (const dl_key_within *w = dl_keys_within; w->name; w++)
        if (w->item < 0 && strcmp(w->map, map) == 0 && strcmp(w->name, dot + 1) == 0)
            return &c->state->settings.at[w->key];
    return NULL; /* a list of several keys */
}

bool dl_is_section(const char *name) {
    for (int k = 0; k < DL_N_KEYS; k++)
        if (*name && strcmp(dl_key_rows[k].section, name) == 0) return true;
    return false;
}

bool dl_setting_put(dl_arena *arena, dl_setting *s, const dl_yaml *value, dl_config_source source,
                    dl_error *err) {
    /* of two names of one key in a file, the configuration's own takes precedence over a merged
     * one */
    if (source < s->source || (source == s->source && source == DL_BY_FILE)) return true;
    value = dl_key_check(arena, s->row, value, err);
    if (!value) return false;
    s->value = value;
    s->source = source;
    if (source == DL_BY_ARGUMENT) s->said = value->place.file;
    return true;
}

bool dl_is_group(const dl_config *c, const char *name, const dl_yaml *map) {
    const dl_setting *s = find(c, name);
    if (s && dl_key_base_type(s->row) == DL_CONFIG_DATA && dl_is_array_dataset(map)) return false;
    return !s || dl_is_section(name) || s->row->limits.choices || dl_yaml_get(map, "name");
}

bool dl_is_within(const char *map, const char *name) {
    for (const dl_key_within *w = dl_keys_within; w->name; w++)
        if (strcmp(w->map, map) == 0 && strcmp(w->name, name) == 0) return true;
    return false;
}

/* Sets the keys that have this alias within that map: each gets an item of a list, or the value. */
static bool take_within(dl_config *c, const char *map, dl_yaml_entry e, dl_config_source source,
                        dl_error *err) {
    int items = 0;
    for (const dl_key_within *w = dl_keys_within; w->name; w++)
        items += w->item >= 0 && strcmp(w->map, map) == 0 && strcmp(w->name, e.key) == 0;
    if (items && (e.value->kind != DL_YAML_LIST || e.value->items.n != items))
        return dl_yaml_fail(err, e.value->place, "%s.%s must be a list of %d numbers, not %s", map,
                            e.key, items, dl_yaml_show(c->state->arena, e.value));
    for (const dl_key_within *w = dl_keys_within; w->name; w++) {
        if (strcmp(w->map, map) != 0 || strcmp(w->name, e.key) != 0) continue;
        const dl_yaml *v = w->item < 0 ? e.value : e.value->items.at[w->item];
        if (!dl_setting_put(c->state->arena, &c->state->settings.at[w->key], v, source, err))
            return false;
    }
    return true;
}

bool dl_config_take_map(dl_config *c, const char *section, const dl_yaml *map,
                        dl_config_source source, dl_error *err) {
    if (strcmp(section, "lr_schedule") == 0) map = dl_rate_fold_options(c->state->arena, map);
    for (int i = 0; i < map->entries.n; i++) {
        dl_yaml_entry e = map->entries.at[i];
        if (dl_is_within(section, e.key)) {
            if (!take_within(c, section, e, source, err)) return false;
            continue;
        }
        dl_setting *s = dl_find_setting_in(c, section, e.key);
        if (!*section && e.value->kind == DL_YAML_MAP && dl_is_group(c, e.key, e.value)) {
            if (!dl_config_take_map(c, e.key, e.value, source, err)) return false;
        } else if (s) {
            if (!dl_setting_put(c->state->arena, s, e.value, source, err)) return false;
        } else {
            dl_push(c->state->arena, &c->state->unknown_keys, (dl_unknown_key){e, section, source});
        }
    }
    return true;
}
