#include "compiler/arguments.h"

#include "frontends/yaml/data_file.h"
#include "ir/plan/plan.h"
#include "ir/text/text.h"

bool dl_arguments_check(const dl_model *m, dl_diags *diags) {
    int n;
    bool ok = true;
    const dl_argument *all = dl_model_arguments(m, &n);
    for (int i = 0; i < n; i++) {
        const char *means = dl_config_reserved(all[i].name);
        if (!means) continue;
        dl_diag *g = dl_report(
            diags, dl_model_argument_place(m, i), DL_DIAG_argument_is_key,
            "the argument '%s' is named like a key that every run has: --%s=... would mean both",
            all[i].name, all[i].name);
        dl_diag_set_help(diags, g, "name it otherwise: model_%s; the run's %s is: %s", all[i].name,
                         all[i].name, means);
        ok = false;
    }
    return ok;
}

/* ---- a default as YAML ---- */

static void put_default(dl_buf *b, const dl_setting *s) {
    size_t from = b->n;
    switch (s->kind) {
    case DL_SET_BOOL: dl_puts(b, s->b ? "true" : "false"); break;
    case DL_SET_INT: dl_putf(b, "%lld", (long long)s->i); break;
    case DL_SET_FLOAT:
        dl_put_double(b, s->f);
        if (!strpbrk(b->at + from, ".en")) dl_puts(b, ".0");
        break;
    case DL_SET_STRING: dl_puts(b, s->s); break;
    case DL_SET_LIST:
        dl_puts(b, "[");
        for (int i = 0; i < s->list.n; i++) {
            const dl_setting *item = &s->list.items[i];
            if (i) dl_puts(b, ", ");
            if (item->kind == DL_SET_STRING)
                dl_yaml_put(b, &(dl_yaml){.kind = DL_YAML_STRING, .text = item->s});
            else
                put_default(b, item);
        }
        dl_puts(b, "]");
        break;
    default: dl_puts(b, "null"); break;
    }
}

static dl_config_type type_of(dl_setting_kind k) {
    static const dl_config_type types[] = {
        [DL_SET_NONE] = DL_CONFIG_ANY,      [DL_SET_BOOL] = DL_CONFIG_BOOL,
        [DL_SET_INT] = DL_CONFIG_INT,       [DL_SET_FLOAT] = DL_CONFIG_FLOAT,
        [DL_SET_STRING] = DL_CONFIG_STRING, [DL_SET_LIST] = DL_CONFIG_LIST};
    return types[k];
}

/* The argument that sizes several axes takes one size for all of them, too. */
static dl_config_type argument_type(const dl_argument *a) {
    bool edge = strcmp(a->name, DL_ARGUMENT_EDGE) == 0 &&
                (a->value.kind == DL_SET_INT || a->value.kind == DL_SET_LIST);
    return edge ? DL_CONFIG_SIZES : type_of(a->value.kind);
}

/* The common kind of a list's items: integers count as numbers; ANY where the kinds differ. */
static dl_setting_kind item_kind(const dl_setting *list) {
    dl_setting_kind kind = list->list.n ? list->list.items[0].kind : DL_SET_NONE;
    for (int i = 1; i < list->list.n; i++) {
        dl_setting_kind k = list->list.items[i].kind;
        bool numbers =
            (k == DL_SET_INT || k == DL_SET_FLOAT) && (kind == DL_SET_INT || kind == DL_SET_FLOAT);
        if (k != kind) kind = numbers ? DL_SET_FLOAT : DL_SET_NONE;
    }
    return kind;
}

bool dl_arguments_declare(dl_arena *arena, dl_config *c, const dl_model *m, const dl_source *source,
                          dl_error *err) {
    int n;
    const dl_argument *all = dl_model_arguments(m, &n);
    for (int i = 0; i < n; i++) {
        const dl_setting *v = &all[i].value;
        dl_loc at = dl_source_loc(source, dl_model_argument_place(m, i).begin);
        dl_config_argument a = {.name = all[i].name,
                                .type = argument_type(&all[i]),
                                .item =
                                    v->kind == DL_SET_LIST ? type_of(item_kind(v)) : DL_CONFIG_ANY,
                                .place = {source->name, at.line, at.column}};
        dl_buf text = {0};
        put_default(&text, v);
        if (v->kind != DL_SET_NONE) a.fallback = dl_strndup(arena, text.at ? text.at : "", text.n);
        dl_buf_free(&text);
        if (!dl_config_declare(c, &a, err)) return false;
    }
    return true;
}

/* ---- values ---- */

static dl_setting value_as(dl_arena *arena, const dl_yaml *v, dl_setting_kind as,
                           dl_setting_kind items) {
    switch (v->kind) {
    case DL_YAML_BOOL: return (dl_setting){.kind = DL_SET_BOOL, .b = v->truth};
    case DL_YAML_INT:
        if (as == DL_SET_FLOAT) return (dl_setting){.kind = DL_SET_FLOAT, .f = v->number};
        return (dl_setting){.kind = DL_SET_INT, .i = v->integer};
    case DL_YAML_FLOAT: return (dl_setting){.kind = DL_SET_FLOAT, .f = v->number};
    case DL_YAML_STRING: return (dl_setting){.kind = DL_SET_STRING, .s = v->text};
    case DL_YAML_LIST: {
        dl_setting *list = DL_NEWS(arena, dl_setting, v->items.n + 1);
        for (int i = 0; i < v->items.n; i++)
            list[i] = value_as(arena, v->items.at[i], items, DL_SET_NONE);
        return (dl_setting){.kind = DL_SET_LIST, .list = {list, v->items.n}};
    }
    default: return (dl_setting){.kind = DL_SET_NONE};
    }
}

const dl_argument *dl_arguments_values(dl_arena *arena, const dl_config *c, const dl_model *m,
                                       int *n) {
    int all;
    const dl_argument *known = dl_model_arguments(m, &all);
    dl_argument *values = DL_NEWS(arena, dl_argument, all + 1);
    *n = 0;
    for (int i = 0; i < all; i++) {
        const dl_yaml *v = dl_config_find(c, known[i].name);
        const dl_setting *otherwise = &known[i].value;
        dl_setting_kind items = otherwise->kind == DL_SET_LIST ? item_kind(otherwise) : DL_SET_NONE;
        if (v)
            values[(*n)++] =
                (dl_argument){known[i].name, value_as(arena, v, otherwise->kind, items)};
    }
    return values;
}

/* ---- help ---- */

/* The model's text: the one of a plan, or of the model's file. */
static dl_source *source_of(dl_arena *arena, dl_config *c, dl_error *err) {
    const char *file = dl_config_take_plan(c);
    if (!file) {
        const char *path = dl_config_take_model(c, err)
                               ? dl_find_data_file(arena, dl_config_str(c, DL_KEY_model), err)
                               : NULL;
        return path ? dl_source_read(arena, path, err) : NULL;
    }
    const dl_plan *p = dl_plan_read(arena, file, err);
    if (!p) return NULL;
    const dl_plan_origin *o = &p->origin;
    if (!o->text) return dl_fail(err, DL_INPUT, "%.200s is a plan without its model", file), NULL;
    if (!dl_config_set(c, DL_KEY_model, o->path, err)) return NULL;
    return dl_source_new(arena, o->path, o->text, strlen(o->text));
}

bool dl_arguments_of_model(dl_arena *arena, dl_config *c, dl_error *err) {
    dl_source *source = source_of(arena, c, err);
    if (!source) return false;
    dl_diags *diags = dl_diags_new(arena, source);
    const dl_model *m = dl_model_parse(arena, source, diags);
    if (!m || !dl_arguments_check(m, diags))
        return dl_fail(err, DL_INPUT, "%s has faults: `dlc check` tells them", source->name);
    return dl_arguments_declare(arena, c, m, source, err);
}
