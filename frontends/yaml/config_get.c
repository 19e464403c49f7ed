/* Typed lookup: values of keys when all sources have been read, and errors and warnings about
 * them. */
#include "frontends/yaml/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontends/yaml/config_private.h"

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

const dl_yaml *dl_config_value(const dl_config *c, dl_key key) {
    return c->state->settings.at[key].value;
}
bool dl_config_is_null(const dl_config *c, dl_key key) {
    return dl_config_value(c, key)->kind == DL_YAML_NULL;
}
const char *dl_key_name(dl_key key) { return dl_key_rows[key].name; }
const char *dl_key_default(dl_key key) { return dl_key_rows[key].fallback; }

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
