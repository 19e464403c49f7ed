/* Defaults, file and command line come together; the typed look-up. Reads in the order of config.h. */
#include "frontends/yaml/config.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontends/yaml/config_private.h"

/* ---- settings ---- */

/* By its own name or by another. */
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
    return NULL; /* a list of several */
}

bool dl_is_section(const char *name) {
    for (int k = 0; k < DL_N_KEYS; k++)
        if (*name && strcmp(dl_key_rows[k].section, name) == 0) return true;
    return false;
}

bool dl_setting_put(dl_arena *arena, dl_setting *s, const dl_yaml *value, dl_config_source source,
                    dl_error *err) {
    /* of two names of one key in a file, that of the configuration itself comes before a merged one */
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
    if (s && dl_key_base_type(s->row) == DL_CONFIG_DATA && dl_is_own_data(map)) return false;
    return !s || dl_is_section(name) || s->row->limits.choices || dl_yaml_get(map, "name");
}

bool dl_is_within(const char *map, const char *name) {
    for (const dl_key_within *w = dl_keys_within; w->name; w++)
        if (strcmp(w->map, map) == 0 && strcmp(w->name, name) == 0) return true;
    return false;
}

/* Gives the keys that have this name within that map what it holds: each an item of a list, or the value. */
static bool take_within(dl_config *c, const char *map, dl_yaml_entry e, dl_config_source source,
                        dl_error *err) {
    int items = 0;
    for (const dl_key_within *w = dl_keys_within; w->name; w++)
        items += w->item >= 0 && strcmp(w->map, map) == 0 && strcmp(w->name, e.key) == 0;
    if (items && (e.value->kind != DL_YAML_LIST || e.value->items.n != items))
        return dl_yaml_fail(err, e.value->place, "%s.%s must be a list of %d numbers, not %s", map, e.key,
                            items, dl_yaml_show(c->state->arena, e.value));
    for (const dl_key_within *w = dl_keys_within; w->name; w++) {
        if (strcmp(w->map, map) != 0 || strcmp(w->name, e.key) != 0) continue;
        const dl_yaml *v = w->item < 0 ? e.value : e.value->items.at[w->item];
        if (!dl_setting_put(c->state->arena, &c->state->settings.at[w->key], v, source, err)) return false;
    }
    return true;
}

bool dl_config_take_map(dl_config *c, const char *section, const dl_yaml *map, dl_config_source source,
                        dl_error *err) {
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

/* ---- the model's arguments ---- */

static dl_setting *add_setting(dl_config *c, const dl_config_argument *a) {
    dl_key_row *row = DL_NEW(c->state->arena, dl_key_row);
    *row = (dl_key_row){.name = dl_strdup(c->state->arena, a->name),
                        .section = "",
                        .type = a->type,
                        .item = a->item,
                        .limits = {-DBL_MAX, DBL_MAX, NULL},
                        .help = "argument of the model"};
    dl_push(c->state->arena, &c->state->settings, (dl_setting){.row = row, .source = DL_BY_DEFAULT});
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

/* Moves what file and command line said of a key, before anyone knew it, to its setting. */
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
    dl_setting *s = find(c, a->name);
    if (!s) s = add_setting(c, a);
    if (a->fallback) {
        const dl_yaml *v = dl_key_parse(arena, s->row, a->fallback, a->place, err);
        if (!v || !dl_setting_put(arena, s, v, DL_BY_MODEL, err)) return false;
        s->fallback = v;
    }
    return claim(c, s, err);
}

/* ---- the end of reading ---- */

/* Keys by the names that they have elsewhere, and that no letters bring near to ours. */
static const char *known_elsewhere(const char *name) {
    static const char *const known[][2] = {{"learning_rate", "lr"},
                                           {"epochs", "num_epochs"},
                                           {"train_batch_size", "global_batch_size"},
                                           {"batch", "global_batch_size"},
                                           {"gradient_clip_val", "clip_grad_norm"},
                                           {"grad_clip", "clip_grad_norm"},
                                           {"max_grad_norm", "clip_grad_norm"},
                                           {"max_steps", "num_iters"},
                                           {"steps", "num_iters"},
                                           {"iterations", "num_iters"},
                                           {"num_workers", "num_data_workers"},
                                           {"precision", "amp_mode"},
                                           {"mixed_precision", "amp_mode"},
                                           {"fp16", "amp_mode"},
                                           {"bf16", "amp_mode"},
                                           {"use_amp", "enable_amp"},
                                           {"random_seed", "seed"},
                                           {"checkpoint", "resume"},
                                           {"wd", "weight_decay"},
                                           {"opt", "optimizer"},
                                           {"out_dir", "expdir"},
                                           {"pretrained", "init_weights"},
                                           {"load_weights", "init_weights"},
                                           {"betas", "adam_beta1"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i][0], name) == 0) return known[i][1];
    return NULL;
}

/* What others have a key for, and nothing here has. */
static const char *not_here(const char *name) {
    static const char sweep[] = "; `dlrun sweep FILE.yaml` takes a sweep's file",
                      sum[] = "; gradients are not added up over several batches in this version: more ranks "
                              "(dlrun -n) share a larger one",
                      early[] = "; no run ends early in this version: checkpoints/best is of its lowest "
                                "validation loss",
                      ranks[] = "; dlrun -n says how many ranks there are, of which each takes a GPU";
    static const char *const known[][2] = {{"sweep_config", sweep},
                                           {"accumulate_grad_batches", sum},
                                           {"gradient_accumulation_steps", sum},
                                           {"accumulation_steps", sum},
                                           {"grad_accum_steps", sum},
                                           {"grad_accum", sum},
                                           {"early_stopping", early},
                                           {"early_stopping_patience", early},
                                           {"early_stop_patience", early},
                                           {"early_stop", early},
                                           {"gpus", ranks},
                                           {"num_gpus", ranks},
                                           {"devices", ranks},
                                           {"nproc_per_node", ranks}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i][0], name) == 0) return known[i][1];
    return NULL;
}

/* The shortest name that goes on after the word ("amp": amp_mode), or NULL. */
static const char *longer_name(const char *word, int n, const char *const *names) {
    size_t length = strlen(word);
    const char *best = NULL;
    for (int i = 0; length > 1 && i < n; i++)
        if (strncmp(names[i], word, length) == 0 && names[i][length] == '_' &&
            (!best || strlen(names[i]) < strlen(best)))
            best = names[i];
    return best;
}

const char *dl_config_suggest(const dl_config *c, const char *section, const char *name, bool with_options) {
    const struct dl_config_state *st = c->state;
    DL_ARRAY(const char *) names = {0};
    const char *dot = strrchr(name, '.'), *absent = not_here(dot ? dot + 1 : name);
    if (absent) return absent;
    for (int i = 0; i < st->settings.n; i++) dl_push(st->arena, &names, st->settings.at[i].row->name);
    for (const dl_key_alias *a = dl_key_aliases; a->name; a++) dl_push(st->arena, &names, a->name);
    for (const dl_key_within *w = dl_keys_within; w->name; w++)
        if (strcmp(w->map, section) == 0) dl_push(st->arena, &names, w->name);
    for (const dl_option *o = st->options; with_options && o->name; o++) dl_push(st->arena, &names, o->name);
    if (with_options) dl_push(st->arena, &names, "config");
    if (with_options) dl_push(st->arena, &names, "yaml_config");
    const char *near = known_elsewhere(dot ? dot + 1 : name);
    if (!near) near = dl_nearest(dot ? dot + 1 : name, names.at, names.n);
    if (!near) near = longer_name(dot ? dot + 1 : name, names.n, names.at);
    if (!near) return "";
    const dl_setting *s = dl_find_setting(c, near);
    bool own = s && strcmp(s->row->name, near) == 0;
    return dl_format(st->arena, "; did you mean '%s%s'?", with_options ? "--" : "",
                     own ? dl_key_full_name(st->arena, s->row) : near);
}

/* "description, loss and metrics mean nothing here", once for all; and those of recipes that this model has
 * not are passed over. What is left is nobody's. */
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
        dl_push(
            st->arena, &c->warnings,
            dl_format(st->arena, "%.200s: without a meaning here, and passed over: %s", c->file, names.at));
    dl_buf_free(&names);
}

static void warn_of_variables(dl_config *c) {
    struct dl_config_state *st = c->state;
    for (int i = 0; i < st->settings.n; i++) {
        const dl_setting *s = &st->settings.at[i];
        if (s->value && s->value->unset)
            dl_push(st->arena, &c->warnings,
                    dl_format(st->arena,
                              "%s: the environment variable %s is not set, and stands as it is: %.200s",
                              dl_key_full_name(st->arena, s->row), s->value->unset, s->value->text));
    }
}

bool dl_config_check_written(const dl_config *c, dl_key key, dl_error *err) {
    const dl_yaml *v = dl_config_value(c, key);
    return !v->unset ||
           dl_config_fail(c, key, err, "the run writes to %.200s, and the environment variable %s is not set",
                          v->text, v->unset);
}

static bool fail_unknown_key(const dl_config *c, dl_error *err) {
    const struct dl_config_state *st = c->state;
    dl_unknown_key k = st->unknown_keys.at[0];
    const char *in = *k.section ? dl_format(st->arena, " in %s", k.section) : "";
    const char *more =
        st->unknown_keys.n > 1 ? dl_format(st->arena, " (and %d more)", st->unknown_keys.n - 1) : "";
    return dl_yaml_fail(err, k.entry.place, "unknown key %s%s%s%s", dl_yaml_quote(st->arena, k.entry.key), in,
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

/* ---- look-up ---- */

static const dl_yaml *value_of(const dl_config *c, dl_key key, dl_config_type type) {
    DL_CHECK(key >= 0 && key < DL_N_KEYS);
    DL_CHECK(dl_key_base_type(&dl_key_rows[key]) == type);
    return c->state->settings.at[key].value;
}

static const dl_yaml *value_not_null(const dl_config *c, dl_key key, dl_config_type type) {
    const dl_yaml *v = value_of(c, key, type);
    DL_CHECK(v->kind != DL_YAML_NULL);
    return v;
}

bool dl_config_bool(const dl_config *c, dl_key key) {
    if (dl_key_base_type(&dl_key_rows[key]) != DL_CONFIG_SWITCH)
        return value_not_null(c, key, DL_CONFIG_BOOL)->truth;
    const dl_yaml *v = dl_config_value(c, key);
    return v->kind != DL_YAML_BOOL || v->truth;
}
int64_t dl_config_int(const dl_config *c, dl_key key) {
    return value_not_null(c, key, DL_CONFIG_INT)->integer;
}
double dl_config_float(const dl_config *c, dl_key key) {
    return value_not_null(c, key, DL_CONFIG_FLOAT)->number;
}

const char *dl_config_str(const dl_config *c, dl_key key) {
    bool is_switch = dl_key_base_type(&dl_key_rows[key]) == DL_CONFIG_SWITCH;
    DL_CHECK(is_switch || dl_key_is_text(&dl_key_rows[key]));
    const dl_yaml *v = dl_config_value(c, key);
    return v->kind == (is_switch ? DL_YAML_BOOL : DL_YAML_NULL) ? NULL : v->text;
}

const dl_yaml *dl_config_value(const dl_config *c, dl_key key) { return c->state->settings.at[key].value; }
bool dl_config_is_null(const dl_config *c, dl_key key) {
    return dl_config_value(c, key)->kind == DL_YAML_NULL;
}
const char *dl_key_name(dl_key key) { return dl_key_rows[key].name; }

bool dl_config_is_given(const dl_config *c, dl_key key) {
    return c->state->settings.at[key].source >= DL_BY_FILE;
}

bool dl_config_is_default(const dl_config *c, dl_key key) {
    const dl_yaml *v = dl_config_value(c, key);
    const char *fallback = dl_key_rows[key].fallback;
    return fallback && (v->kind == DL_YAML_INT || v->kind == DL_YAML_FLOAT) &&
           v->number == strtod(fallback, NULL);
}

bool dl_config_outranks(const dl_config *c, dl_key a, dl_key b) {
    return c->state->settings.at[a].source > c->state->settings.at[b].source;
}

const dl_yaml *dl_config_find(const dl_config *c, const char *name) {
    const dl_setting *s = dl_find_setting(c, name);
    return s ? s->value : NULL;
}

void dl_config_warn(dl_config *c, const char *format, ...) {
    char message[sizeof((dl_error *)0)->message];
    va_list ap;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    dl_push(c->state->arena, &c->warnings, dl_strdup(c->state->arena, message));
}

bool dl_config_fail(const dl_config *c, dl_key key, dl_error *err, const char *format, ...) {
    char message[sizeof err->message];
    va_list ap;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    return dl_yaml_fail(err, dl_config_value(c, key)->place, "%s: %s",
                        dl_key_full_name(c->state->arena, &dl_key_rows[key]), message);
}
