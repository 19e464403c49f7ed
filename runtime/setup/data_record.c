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

static void put_variable(dl_buf *b, const dl_variable_record *v) {
    dl_puts(b, "{");
    dlr_json_put_key(b, "name"), dlr_json_put_string(b, v->name ? v->name : "");
    if (v->level_axis) {
        dlr_json_put_key(b, "level"), dlr_json_put_string(b, v->level_axis);
        dlr_json_put_key(b, "levels");
        for (int i = 0; i < v->n_channels; i++)
            dl_puts(b, i ? ", " : "["), dlr_json_put_exact(b, v->levels[i]);
        dl_puts(b, "]");
    }
    if (v->n_axes) dlr_json_put_key(b, "axes");
    for (int i = 0; i < v->n_axes; i++) {
        dl_puts(b, i ? ", " : "[");
        dlr_json_put_string(b, v->axes[i]);
    }
    if (v->n_axes) dl_puts(b, "]");
    if (v->n_channels) dlr_json_put_key(b, "channels");
    for (int i = 0; i < v->n_channels; i++)
        dl_putf(b, "%s%lld", i ? ", " : "[", (long long)v->channels[i]);
    dl_puts(b, v->n_channels ? "]}" : "}");
}

static void put_array(dl_buf *b, const dl_array_record *a) {
    dl_puts(b, "{");
    dlr_json_put_key(b, "name"), dlr_json_put_string(b, a->name);
    dl_putf(b, ", \"target\": %s, \"float\": %s, \"offset\": %lld, \"shape\": [",
            a->is_target ? "true" : "false", a->is_float ? "true" : "false", (long long)a->offset);
    for (int i = 0; i < a->rank; i++) dl_putf(b, "%s%lld", i ? ", " : "", (long long)a->size[i]);
    dl_puts(b, "]");
    if (a->n_variables) dlr_json_put_key(b, "variables");
    for (int i = 0; i < a->n_variables; i++) {
        dl_puts(b, i ? ", " : "[");
        put_variable(b, &a->variables[i]);
    }
    if (a->n_variables) dl_puts(b, "]");
    if (a->times > 1) dlr_json_put_key(b, "times"), dl_putf(b, "%d", a->times);
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
    dl_puts(&b, "]");
    if (r->classes.n) dlr_json_put_key(&b, "classes");
    for (int i = 0; i < r->classes.n; i++)
        dl_puts(&b, i ? ", " : "["), dlr_json_put_string(&b, r->classes.at[i]);
    dl_puts(&b, r->classes.n ? "]}" : "}");
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

static bool get_variable(dl_arena *arena, const dlr_json *from, dl_variable_record *v) {
    const dlr_json *items;
    const char *name = get_text(from, "name");
    *v = (dl_variable_record){.name = name && *name ? name : NULL,
                              .level_axis = get_text(from, "level")};
    v->n_axes = items_of(from, "axes", &items);
    const char **axes = DL_NEWS(arena, const char *, v->n_axes + 1);
    for (int i = 0; i < v->n_axes; i++) {
        if (items[i].kind != DLR_JSON_STRING) return false;
        axes[i] = items[i].string;
    }
    v->n_channels = items_of(from, "channels", &items);
    int64_t *channels = DL_NEWS(arena, int64_t, v->n_channels + 1);
    for (int i = 0; i < v->n_channels; i++) {
        if (items[i].kind != DLR_JSON_INT || items[i].integer < 0) return false;
        channels[i] = items[i].integer;
    }
    v->axes = axes, v->channels = channels;
    int n_levels = items_of(from, "levels", &items);
    double *levels = DL_NEWS(arena, double, n_levels + 1);
    for (int i = 0; i < n_levels; i++)
        if (!dlr_json_number(&items[i], &levels[i])) return false;
    v->levels = levels;
    return !v->level_axis || n_levels == v->n_channels;
}

/* A record of before there were several variables has the members of its one. */
static bool get_variables(dl_arena *arena, const dlr_json *from, dl_array_record *a) {
    const dlr_json *items;
    int n = items_of(from, "variables", &items);
    dl_variable_record *all = DL_NEWS(arena, dl_variable_record, n + 1);
    if (n == 0 && !get_variable(arena, from, &all[0])) return false;
    for (int i = 0; i < n; i++)
        if (!get_variable(arena, &items[i], &all[i])) return false;
    if (n == 0) all[0].name = NULL; /* `name` is the model's there */
    a->variables = all;
    a->n_variables = n ? n : all[0].n_axes || all[0].n_channels;
    return true;
}

static bool get_bool(const dlr_json *object, const char *key) {
    const dlr_json *v = dlr_json_get(object, key);
    return v && v->kind == DLR_JSON_BOOL && v->boolean;
}

static bool get_shape(const dlr_json *from, dl_array_record *a) {
    const dlr_json *items;
    a->rank = items_of(from, "shape", &items);
    if (a->rank > DL_MAX_RANK) return false;
    for (int i = 0; i < a->rank; i++) {
        if (items[i].kind != DLR_JSON_INT) return false;
        a->size[i] = items[i].integer;
    }
    return true;
}

static bool get_array(dl_arena *arena, const dlr_json *from, dl_array_record *a) {
    const dlr_json *nan = dlr_json_get(from, "nan");
    int deviations;
    *a = (dl_array_record){.name = get_text(from, "name"),
                           .is_target = get_bool(from, "target"),
                           .is_float = get_bool(from, "float"),
                           .times = (int)get_integer(from, "times"),
                           .offset = get_integer(from, "offset"),
                           .replaces_nan = nan != NULL};
    a->mean = get_reals(arena, from, "mean", &a->n_scales);
    a->deviation = get_reals(arena, from, "deviation", &deviations);
    return a->name && a->mean && a->deviation && deviations == a->n_scales &&
           (!nan || dlr_json_number(nan, &a->nan)) && get_shape(from, a) &&
           get_variables(arena, from, a);
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
    for (int i = 0, n = items_of(all, "classes", &items); ok && i < n; i++) {
        ok = items[i].kind == DLR_JSON_STRING;
        if (ok) dl_push(arena, &out->classes, items[i].string);
    }
    return ok || dl_fail(err, DL_INPUT, "%s: its record of the data is damaged", name);
}

/* ---- questions ---- */

const dl_array_record *dl_data_record_find(const dl_data_record *r, const char *name) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->at[i].name, name) == 0) return &r->at[i];
    return NULL;
}

bool dl_record_fits(const dl_array_record *r, const dl_type *t, const char *what, dl_error *err) {
    int axis = dl_type_channel_axis(t);
    return r->n_scales <= 1 || r->n_scales == (axis < 0 ? 1 : t->axis[axis].size) ||
           dl_fail(err, DL_INPUT, "the statistics of '%s' are of %d channels, %s is %s", r->name,
                   r->n_scales, what, dl_type_text(t));
}

bool dl_data_record_scales_targets(const dl_data_record *r) {
    bool scaled = false;
    for (int i = 0; i < r->n; i++) scaled |= r->at[i].is_target && r->at[i].n_scales > 0;
    return scaled;
}

/* The shape of a sample. */
static bool has_shape(const dl_array_record *a, const dl_type *t) {
    int first = dl_type_has_samples(t);
    bool same = a->is_target && a->is_float && a->rank == t->rank - first;
    for (int k = 0; same && k < a->rank; k++) same = a->size[k] == t->axis[k + first].size;
    return same;
}

dl_record_output dl_record_output_of(const dl_result *r) {
    return (dl_record_output){r->name, &r->value->type, r->undo};
}

/* The target that an output says, or has the name of. */
static const char *named_target(const dl_data_record *r, const dl_record_output *o) {
    if (o->undo) return o->undo;
    const dl_array_record *a = dl_data_record_find(r, o->name);
    return a && a->is_target ? a->name : NULL;
}

static bool is_named(const dl_data_record *r, const dl_array_record *a, int n,
                     const dl_record_output *outputs) {
    for (int i = 0; i < n; i++) {
        const char *named = named_target(r, &outputs[i]);
        if (named && strcmp(named, a->name) == 0) return true;
    }
    return false;
}

static bool same_shape(const dl_type *a, const dl_type *b) {
    int of_a = dl_type_has_samples(a), of_b = dl_type_has_samples(b), rank = a->rank - of_a;
    bool same = rank == b->rank - of_b;
    for (int k = 0; same && k < rank; k++) same = a->axis[k + of_a].size == b->axis[k + of_b].size;
    return same;
}

/* The targets of output k's shape that no output names, and how many there are. */
static int find_unnamed(const dl_data_record *r, int n, const dl_record_output *outputs, int k,
                        const dl_array_record *found[DLR_MAX_ARRAYS]) {
    int n_found = 0;
    for (int i = 0; i < r->n; i++)
        if (has_shape(&r->at[i], outputs[k].type) && !is_named(r, &r->at[i], n, outputs))
            found[n_found++] = &r->at[i];
    return n_found;
}

/* The target of output k, which names none, by its shape and its place. */
static bool pair_by_shape(const dl_data_record *r, int n, const dl_record_output *outputs, int k,
                          const dl_array_record **target, dl_error *err) {
    const dl_array_record *found[DLR_MAX_ARRAYS];
    int n_found = find_unnamed(r, n, outputs, k, found), alike = 0, place = 0;
    *target = NULL;
    for (int i = 0; i < n; i++) {
        if (named_target(r, &outputs[i]) || !dl_dtype_is_float(outputs[i].type->dtype) ||
            !same_shape(outputs[i].type, outputs[k].type))
            continue;
        alike++, place += i < k;
    }
    if (n_found == 1 || n_found == alike)
        *target = found[n_found == 1 ? 0 : place];
    else if (n_found && dl_data_record_scales_targets(r))
        return dl_fail(err, DL_INPUT,
                       "%d outputs and %d targets have the shape of the output '%s', and "
                       "nothing says by whose statistics it is undone: the model can say "
                       "`output %s undo %s`",
                       alike, n_found, outputs[k].name, outputs[k].name, found[0]->name);
    return true;
}

bool dl_data_record_pair(const dl_data_record *r, int n, const dl_record_output *outputs,
                         const dl_array_record **targets, dl_error *err) {
    for (int k = 0; k < n; k++) {
        const char *named = named_target(r, &outputs[k]);
        targets[k] = NULL;
        if (named && *named) {
            targets[k] = dl_data_record_find(r, named);
            if (!targets[k] || !targets[k]->is_target)
                return dl_fail(err, DL_INPUT,
                               "the output '%s' undoes the target '%s', of which the run's data "
                               "have no record",
                               outputs[k].name, named);
        } else if (!named && dl_dtype_is_float(outputs[k].type->dtype) &&
                   !pair_by_shape(r, n, outputs, k, &targets[k], err))
            return false;
    }
    return true;
}
