#include "runtime/setup/data_record.h"

#include "runtime/formats/json.h"

/* ---- as text ---- */

static void put_reals(dl_buf *b, const char *key, const float *at, int n) {
    dlr_json_put_key(b, key);
    for (int i = 0; i < n; i++) {
        dl_puts(b, i ? ", " : "[");
        dlr_json_put_double(b, (double)at[i]);
    }
    dl_puts(b, "]");
}

static void put_array(dl_buf *b, const dl_array_record *a) {
    dl_puts(b, "{");
    dlr_json_put_key(b, "name"), dlr_json_put_string(b, a->name);
    dl_putf(b, ", \"target\": %s, \"offset\": %lld", a->is_target ? "true" : "false",
            (long long)a->offset);
    if (a->n_axes) dlr_json_put_key(b, "axes");
    for (int i = 0; i < a->n_axes; i++) {
        dl_puts(b, i ? ", " : "[");
        dlr_json_put_string(b, a->axes[i]);
    }
    if (a->n_axes) dl_puts(b, "]");
    if (a->n_channels) dlr_json_put_key(b, "channels");
    for (int i = 0; i < a->n_channels; i++)
        dl_putf(b, "%s%lld", i ? ", " : "[", (long long)a->channels[i]);
    if (a->n_channels) dl_puts(b, "]");
    if (a->n_scales) put_reals(b, "mean", a->mean, a->n_scales);
    if (a->n_scales) put_reals(b, "deviation", a->deviation, a->n_scales);
    if (a->replaces_nan) dlr_json_put_key(b, "nan"), dlr_json_put_exact(b, a->nan);
    dl_puts(b, "}");
}

const char *dl_data_record_text(dl_arena *arena, const dl_data_record *r) {
    dl_buf b = {0};
    dl_puts(&b, "{");
    dlr_json_put_key(&b, "loader"), dlr_json_put_string(&b, r->loader);
    dl_putf(&b, ", \"dt\": %lld, \"arrays\": [", (long long)r->dt);
    for (int i = 0; i < r->n; i++) {
        if (i) dl_puts(&b, ", ");
        put_array(&b, &r->at[i]);
    }
    dl_puts(&b, "]}");
    const char *text = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return text;
}

static const char *get_text(const dlr_json *object, const char *key) {
    const dlr_json *v = dlr_json_get(object, key);
    return v && v->kind == DLR_JSON_STRING ? v->string : NULL;
}

static int64_t get_integer(const dlr_json *object, const char *key) {
    const dlr_json *v = dlr_json_get(object, key);
    return v && v->kind == DLR_JSON_INT ? v->integer : 0;
}

/* The items of a list; 0 without one. */
static int items_of(const dlr_json *object, const char *key, const dlr_json **items) {
    const dlr_json *v = dlr_json_get(object, key);
    *items = v && v->kind == DLR_JSON_ARRAY ? v->items : NULL;
    return *items ? v->n : 0;
}

static const float *get_reals(dl_arena *arena, const dlr_json *object, const char *key, int *n) {
    const dlr_json *items;
    *n = items_of(object, key, &items);
    float *all = DL_NEWS(arena, float, *n + 1);
    for (int i = 0; i < *n; i++) {
        double v;
        if (!dlr_json_number(&items[i], &v)) return NULL;
        all[i] = (float)v;
    }
    return all;
}

static bool get_lists(dl_arena *arena, const dlr_json *from, dl_array_record *a) {
    const dlr_json *items;
    a->n_axes = items_of(from, "axes", &items);
    const char **axes = DL_NEWS(arena, const char *, a->n_axes + 1);
    for (int i = 0; i < a->n_axes; i++) {
        if (items[i].kind != DLR_JSON_STRING) return false;
        axes[i] = items[i].string;
    }
    a->n_channels = items_of(from, "channels", &items);
    int64_t *channels = DL_NEWS(arena, int64_t, a->n_channels + 1);
    for (int i = 0; i < a->n_channels; i++) {
        if (items[i].kind != DLR_JSON_INT || items[i].integer < 0) return false;
        channels[i] = items[i].integer;
    }
    a->axes = axes, a->channels = channels;
    return true;
}

static bool get_array(dl_arena *arena, const dlr_json *from, dl_array_record *a) {
    const dlr_json *target = dlr_json_get(from, "target"), *nan = dlr_json_get(from, "nan");
    int deviations;
    *a = (dl_array_record){.name = get_text(from, "name"),
                           .is_target = target && target->kind == DLR_JSON_BOOL && target->boolean,
                           .offset = get_integer(from, "offset"),
                           .replaces_nan = nan != NULL};
    a->mean = get_reals(arena, from, "mean", &a->n_scales);
    a->deviation = get_reals(arena, from, "deviation", &deviations);
    return a->name && a->mean && a->deviation && deviations == a->n_scales &&
           (!nan || dlr_json_number(nan, &a->nan)) && get_lists(arena, from, a);
}

bool dl_data_record_parse(dl_arena *arena, const char *text, const char *name, dl_data_record *out,
                          dl_error *err) {
    static const dlr_json_limits limits = {.depth = 8, .values = 1 << 20};
    const dlr_json *all = dlr_json_parse(arena, text, strlen(text), limits, name, err), *items;
    if (!all) return false;
    *out = (dl_data_record){.loader = get_text(all, "loader"), .dt = get_integer(all, "dt")};
    out->n = items_of(all, "arrays", &items);
    bool ok = out->loader && out->n <= DLR_MAX_ARRAYS;
    for (int i = 0; ok && i < out->n; i++) ok = get_array(arena, &items[i], &out->at[i]);
    return ok || dl_fail(err, DL_INPUT, "%s: its record of the data is damaged", name);
}

/* ---- questions ---- */

const dl_array_record *dl_data_record_find(const dl_data_record *r, const char *name) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->at[i].name, name) == 0) return &r->at[i];
    return NULL;
}

bool dl_data_record_undo(const dl_data_record *r, int n, int k, const char *name,
                         const dl_array_record **target, dl_error *err) {
    const dl_array_record *targets[DLR_MAX_ARRAYS];
    int n_targets = 0;
    bool scaled = false;
    *target = NULL;
    for (int i = 0; i < r->n; i++) {
        if (!r->at[i].is_target) continue;
        if (strcmp(r->at[i].name, name) == 0) *target = &r->at[i];
        targets[n_targets++] = &r->at[i], scaled |= r->at[i].n_scales > 0;
    }
    if (!*target && n_targets == n) *target = targets[k];
    if (!*target && n_targets == 1) *target = targets[0];
    return *target || !scaled ||
           dl_fail(err, DL_INPUT,
                   "the model has %d outputs and %d targets, of which some are normalised, and "
                   "nothing says by whose statistics the output '%s' is undone: give it the name "
                   "of its target, or train without `normalize` in data.targets",
                   n, n_targets, name);
}
