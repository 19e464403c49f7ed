/* Values of the section `data`, with errors at their place. */
#include "runtime/setup/array_reader.h"

#include <math.h>

bool array_refuse(const array_reader *r, const char *key, const dl_yaml *v, const char *allowed) {
    return dl_yaml_fail(r->err, v->place, "%s.%s must be %s, not %s", r->path, key, allowed,
                        dl_yaml_show(r->arena, v));
}

bool array_is_number(const dl_yaml *v) {
    return (v->kind == DL_YAML_INT || v->kind == DL_YAML_FLOAT) && isfinite(v->number);
}

const char *array_word(const dl_yaml *v) { return v->kind == DL_YAML_STRING ? v->text : NULL; }

/* One word, or a list of them; `1` counts as a word. */
bool array_read_names(const array_reader *r, const char *key, const char *what,
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
        names[i] = unit ? "1" : array_word(at[i]);
        if (!names[i] || !*names[i]) return array_refuse(r, key, at[i], what);
    }
    *out = (dlr_array_dataset_names){names, n};
    return n > 0 || array_refuse(r, key, v, what);
}

bool array_read_word(const array_reader *r, const char *key, const char *allowed,
                     const char *const *words, int n_words, int *out) {
    const dl_yaml *v = dl_yaml_get(r->map, key);
    if (!v) return true;
    const char *word = v->kind == DL_YAML_NULL ? "none" : array_word(v);
    for (*out = 0; word && *out < n_words; ++*out)
        if (strcmp(words[*out], word) == 0) return true;
    return array_refuse(r, key, v, allowed);
}

/* A number, a list of them, or a .npy file. */
bool array_read_numbers(const array_reader *r, const char *key, dlr_array_dataset_numbers *out) {
    static const char allowed[] = "a number, a list of numbers (one a channel) or a .npy file";
    const dl_yaml *v = dl_yaml_get(r->map, key);
    if (!v) return true;
    if (array_word(v) && *v->text) {
        out->path = v->text;
        return true;
    }
    const dl_yaml *const one[] = {v};
    bool list = v->kind == DL_YAML_LIST;
    int n = list ? v->items.n : 1;
    double *numbers = DL_NEWS(r->arena, double, n);
    for (int i = 0; i < n; i++) {
        const dl_yaml *x = list ? v->items.at[i] : one[0];
        if (!array_is_number(x)) return array_refuse(r, key, x, allowed);
        numbers[i] = x->number;
    }
    out->at = numbers, out->n = n;
    return n > 0 || array_refuse(r, key, v, allowed);
}

bool array_read_whole(const array_reader *r, const char *key, int64_t least, int64_t *out) {
    const dl_yaml *v = dl_yaml_get(r->map, key);
    if (!v) return true;
    if (v->kind != DL_YAML_INT || v->integer < least || v->integer > INT32_MAX ||
        v->integer < -INT32_MAX)
        return array_refuse(r, key, v, least > 0 ? "an integer of at least 1" : "an integer");
    *out = v->integer;
    return true;
}

/* Every key is one of `known` (which ends with NULL). */
bool array_check_keys(const array_reader *r, const char *const *known) {
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
