/* Shared by the readers of a sweep's file: words to choose from, keys of a map, numbers. */
#include <math.h>
#include <string.h>

#include "frontends/yaml/config_private.h"
#include "frontends/yaml/sweep_private.h"

const char *dl_sweep_list(dl_arena *arena, int n, const char *const *names) {
    dl_buf b = {0};
    for (int i = 0; i < n; i++) dl_putf(&b, "%s%s", i ? ", " : "", names[i]);
    const char *text = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return text;
}

int dl_sweep_find(const char *name, int n, const char *const *names) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

const char *dl_sweep_nearest(dl_arena *arena, const char *name, int n, const char *const *names) {
    const char *near = dl_nearest(name, names, n);
    return near ? dl_format(arena, "; did you mean '%s'?", near) : "";
}

int dl_sweep_word(dl_arena *arena, const char *what, const dl_yaml *v, int n,
                  const char *const *names, dl_error *err) {
    int k = v->kind == DL_YAML_STRING ? dl_sweep_find(v->text, n, names) : -1;
    if (k < 0)
        dl_yaml_fail(err, v->place, "%s must be one of %s, not %s%s", what,
                     dl_sweep_list(arena, n, names), dl_yaml_show(arena, v),
                     v->kind == DL_YAML_STRING ? dl_sweep_nearest(arena, v->text, n, names) : "");
    return k;
}

bool dl_sweep_check_keys(dl_arena *arena, const char *what, const dl_yaml *map, int n,
                         const char *const *names, dl_error *err) {
    for (int i = 0; i < map->entries.n; i++) {
        dl_yaml_entry e = map->entries.at[i];
        if (dl_sweep_find(e.key, n, names) < 0)
            return dl_yaml_fail(
                err, e.place, "unknown key %s in %s%s; it can have %s", dl_yaml_quote(arena, e.key),
                what, dl_sweep_nearest(arena, e.key, n, names), dl_sweep_list(arena, n, names));
    }
    return true;
}

bool dl_sweep_is_number(const dl_yaml *v) {
    return (v->kind == DL_YAML_INT || v->kind == DL_YAML_FLOAT) && isfinite(v->number);
}

bool dl_sweep_whole(dl_arena *arena, const dl_yaml *map, const char *key, int64_t least,
                    int64_t otherwise, int64_t *value, dl_error *err) {
    const dl_yaml *v = dl_yaml_get(map, key);
    *value = v && v->kind == DL_YAML_INT ? v->integer : otherwise;
    return !v || (v->kind == DL_YAML_INT && v->integer >= least) ||
           dl_yaml_fail(err, v->place, "%s must be an integer of at least %lld, not %s", key,
                        (long long)least, dl_yaml_show(arena, v));
}
