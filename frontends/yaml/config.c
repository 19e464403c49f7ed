/* Combines defaults, file and command line: keys that the model declares, and the end of
 * reading. */
#include "frontends/yaml/config.h"

#include <float.h>

#include "frontends/yaml/config_private.h"

/* ---- the model's arguments ---- */

static dl_setting *add_setting(dl_config *c, const dl_config_argument *a) {
    dl_key_row *row = DL_NEW(c->state->arena, dl_key_row);
    *row = (dl_key_row){.name = dl_strdup(c->state->arena, a->name),
                        .section = "",
                        .type = a->type,
                        .item = a->item,
                        .limits = {-DBL_MAX, DBL_MAX, NULL},
                        .help = "argument of the model"};
    dl_push(c->state->arena, &c->state->settings,
            (dl_setting){.row = row, .source = DL_BY_DEFAULT});
    return &c->state->settings.at[c->state->settings.n - 1];
}

const char *dl_config_reserved(const char *name) {
    for (int k = 0; k < DL_N_KEYS; k++)
        if (strcmp(dl_key_rows[k].name, name) == 0) return dl_key_rows[k].help;
    for (const dl_key_alias *a = dl_key_aliases; a->name; a++)
        if (strcmp(a->name, name) == 0) return dl_key_rows[a->key].help;
    for (const dl_option *o = dl_standard_options; o->name; o++)
        if (strcmp(o->name, name) == 0) return o->help;
    return dl_is_section(name) ? "a section of keys" : NULL;
}

/* Moves the values of file and command line for a key that was unknown then to its setting. */
static bool claim(dl_config *c, dl_setting *s, dl_error *err) {
    struct dl_config_state *st = c->state;
    int n = 0;
    for (int i = 0; i < st->unknown_keys.n; i++) {
        dl_unknown_key k = st->unknown_keys.at[i];
        if (dl_is_section(k.section) || strcmp(k.entry.key, s->row->name) != 0)
            st->unknown_keys.at[n++] = k;
        else if (!dl_setting_put(st->arena, s, k.entry.value, k.source, err))
            return false;
    }
    st->unknown_keys.n = n;
    n = 0;
    for (int i = 0; i < st->unknown_arguments.n; i++) {
        dl_argument a = st->unknown_arguments.at[i];
        if (dl_find_setting(c, a.name) != s)
            st->unknown_arguments.at[n++] = a;
        else if (dl_config_take_argument(c, a, err) != DL_TAKEN)
            return false;
    }
    st->unknown_arguments.n = n;
    return true;
}

bool dl_config_declare(dl_config *c, const dl_config_argument *a, dl_error *err) {
    dl_arena *arena = c->state->arena;
    DL_CHECK(!dl_config_reserved(a->name));
    dl_setting *s = dl_find_setting(c, a->name);
    if (!s) s = add_setting(c, a);
    if (a->fallback) {
        const dl_yaml *v = dl_key_parse(arena, s->row, a->fallback, a->place, err);
        if (!v || !dl_setting_put(arena, s, v, DL_BY_MODEL, err)) return false;
        s->fallback = v;
    }
    return claim(c, s, err);
}

/* ---- the end of reading ---- */

/* Warns of "description, loss and metrics", which have no effect here, once for all, and drops keys
 * of presets that this model lacks. The remaining keys are unknown. */
static void drop_ignored(dl_config *c) {
    struct dl_config_state *st = c->state;
    dl_buf names = {0};
    int n = 0;
    for (int i = 0; i < st->unknown_keys.n; i++) {
        dl_unknown_key k = st->unknown_keys.at[i];
        const char *const *ignored = dl_key_ignored;
        while (*ignored && strcmp(*ignored, k.entry.key) != 0) ignored++;
        if (*ignored && k.source == DL_BY_FILE)
            dl_putf(&names, "%s%s", names.n ? ", " : "", k.entry.key);
        else if (k.source != DL_BY_RECIPE)
            st->unknown_keys.at[n++] = k;
    }
    st->unknown_keys.n = n;
    if (names.n)
        dl_push(st->arena, &c->warnings,
                dl_format(st->arena, "%.200s: without a meaning here, and passed over: %s", c->file,
                          names.at));
    dl_buf_free(&names);
}

static void warn_of_variables(dl_config *c) {
    struct dl_config_state *st = c->state;
    for (int i = 0; i < st->settings.n; i++) {
        const dl_setting *s = &st->settings.at[i];
        if (s->value && s->value->unset)
            dl_push(
                st->arena, &c->warnings,
                dl_format(st->arena,
                          "%s: the environment variable %s is not set, and stands as it is: %.200s",
                          dl_key_full_name(st->arena, s->row), s->value->unset, s->value->text));
    }
}

bool dl_config_check_written(const dl_config *c, dl_key key, dl_error *err) {
    const dl_yaml *v = dl_config_value(c, key);
    return !v->unset ||
           dl_config_fail(c, key, err,
                          "the run writes to %.200s, and the environment variable %s is not set",
                          v->text, v->unset);
}

static bool fail_unknown_key(const dl_config *c, dl_error *err) {
    const struct dl_config_state *st = c->state;
    dl_unknown_key k = st->unknown_keys.at[0];
    const char *in = *k.section ? dl_format(st->arena, " in %s", k.section) : "";
    const char *more = st->unknown_keys.n > 1
                           ? dl_format(st->arena, " (and %d more)", st->unknown_keys.n - 1)
                           : "";
    return dl_yaml_fail(err, k.entry.place, "unknown key %s%s%s%s",
                        dl_yaml_quote(st->arena, k.entry.key), in,
                        dl_config_suggest(c, k.section, k.entry.key, false), more);
}

bool dl_config_finish(dl_config *c, dl_error *err) {
    struct dl_config_state *st = c->state;
    if (st->unknown_arguments.n) {
        const char *name = st->unknown_arguments.at[0].name;
        return dl_fail(err, DL_USAGE, "unknown option '--%.100s'%s (--help lists them)", name,
                       dl_config_suggest(c, "", name, true));
    }
    if (!dl_config_take_of_optimizer(c, err)) return false;
    drop_ignored(c);
    if (st->unknown_keys.n) return fail_unknown_key(c, err);
    warn_of_variables(c);
    return true;
}
