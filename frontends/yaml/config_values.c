/* Values that a program sets by keys' names, such as those of a sweep's trial. */
#include "frontends/yaml/config_private.h"

/* The command line's text for a key, or for a name that is not known yet; NULL: none. */
static const char *said_of(const dl_config *c, const dl_setting *s, const char *name) {
    if (s) return s->said;
    for (int i = 0; i < c->state->unknown_arguments.n; i++)
        if (strcmp(c->state->unknown_arguments.at[i].name, name) == 0)
            return c->state->unknown_arguments.at[i].whole;
    return NULL;
}

bool dl_config_take_values(dl_config *c, const dl_yaml *map, dl_error *err) {
    for (int i = 0; i < map->entries.n; i++) {
        dl_yaml_entry e = map->entries.at[i];
        const char *said = said_of(c, dl_find_setting(c, e.key), e.key);
        if (said)
            return dl_fail(err, DL_USAGE,
                           "%.200s: %s gives '%.80s' its value; leave one of them out", said,
                           e.place.file, e.key);
    }
    for (int i = 0; i < map->entries.n; i++) {
        dl_yaml_entry e = map->entries.at[i];
        dl_setting *s = dl_find_setting(c, e.key);
        if (!s)
            dl_push(c->state->arena, &c->state->unknown_keys,
                    (dl_unknown_key){e, "", DL_BY_ARGUMENT});
        else if (!dl_setting_put(c->state->arena, s, e.value, DL_BY_ARGUMENT, err))
            return false;
    }
    return true;
}

/* For `optimizer.betas`: "adam_beta1, adam_beta2", the keys that are items of a list of that name;
 * NULL: none. */
static const char *items_of(const dl_config *c, const char *name) {
    const char *dot = strchr(name, '.'), *all = NULL;
    for (const dl_key_within *w = dl_keys_within; dot && w->name; w++)
        if (strncmp(w->map, name, (size_t)(dot - name)) == 0 && !w->map[dot - name] &&
            strcmp(w->name, dot + 1) == 0)
            all = dl_format(c->state->arena, "%s%s%s", all ? all : "", all ? ", " : "",
                            dl_key_name(w->key));
    return all;
}

const char *dl_config_key_of(const dl_config *c, const char *name, dl_yaml_place place,
                             dl_error *err) {
    const dl_setting *s = dl_find_setting(c, name);
    if (s) return s->row->name;
    const char *several = items_of(c, name);
    if (several) {
        dl_yaml_fail(err, place, "%s is several keys: name each by its own, %s",
                     dl_yaml_quote(c->state->arena, name), several);
        return NULL;
    }
    dl_yaml_fail(err, place,
                 "no key of this configuration, nor argument of its model, is called %s%s",
                 dl_yaml_quote(c->state->arena, name), dl_config_suggest(c, "", name, false));
    return NULL;
}

const dl_yaml *dl_config_as_taken(const dl_config *c, const char *name, const dl_yaml *value,
                                  dl_error *err) {
    const dl_setting *s = dl_find_setting(c, name);
    DL_CHECK(s);
    return dl_key_check(c->state->arena, s->row, value, err);
}

const char *dl_config_said(const dl_config *c, const char *name) {
    return said_of(c, dl_find_setting(c, name), name);
}
