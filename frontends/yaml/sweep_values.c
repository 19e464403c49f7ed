/* The values of a sweep's trials, by its method, and their names. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "frontends/yaml/sweep_private.h"

/* ---- methods ---- */

typedef const dl_yaml *choose_fn(dl_arena *arena, const dl_sweep_file *f,
                                 const dl_sweep_parameter *p, int64_t number,
                                 const dl_sweep_history *past);

static const dl_yaml *choose_grid(dl_arena *arena, const dl_sweep_file *f,
                                  const dl_sweep_parameter *p, int64_t number,
                                  const dl_sweep_history *past) {
    (void)arena, (void)past;
    int64_t inner = 1; /* trials that differ only in later parameters */
    for (const dl_sweep_parameter *q = p + 1; q < f->parameters + f->n; q++) inner *= q->n;
    return p->values[number / inner % p->n];
}

static const dl_yaml *choose_random(dl_arena *arena, const dl_sweep_file *f,
                                    const dl_sweep_parameter *p, int64_t number,
                                    const dl_sweep_history *past) {
    (void)past;
    double u[2];
    dl_sweep_units(f, p->name, number, 0, u);
    return dl_sweep_at(arena, p, u[0]);
}

const dl_sweep_method dl_sweep_methods[DL_N_METHODS] = {
    {.name = "grid", .is_grid = true}, {.name = "random"}, {.name = "bayes", .learns = true}};
static choose_fn *const choosers[DL_N_METHODS] = {choose_grid, choose_random, dl_sweep_tpe};

const dl_yaml *dl_sweep_values(dl_arena *arena, const dl_sweep_file *f, int64_t number,
                               const dl_sweep_history *past) {
    dl_yaml *map = DL_NEW(arena, dl_yaml);
    *map = (dl_yaml){.kind = DL_YAML_MAP, .place = {.file = f->path}, .text = "", .size = 1};
    choose_fn *choose = choosers[f->method - dl_sweep_methods];
    for (int i = 0; i < f->n; i++) {
        const dl_sweep_parameter *p = &f->parameters[i];
        const dl_yaml *v = choose(arena, f, p, number, past);
        dl_push(arena, &map->entries, (dl_yaml_entry){p->name, p->place, v});
        map->size += v->size;
        if (map->height < v->height + 1) map->height = v->height + 1;
    }
    return map;
}

/* ---- names ---- */

/* Appends "1em4" for 0.0001, "1.5" for 1.5, "2e10". */
static void put_number(dl_buf *b, double x) {
    enum { ROOM = 40 };
    char text[ROOM];
    bool small = x != 0 && fabs(x) < 1;
    snprintf(text, sizeof text, small ? "%.3e" : "%.4g", x);
    char *e = strchr(text, 'e'), *last = e ? e : text + strlen(text);
    if (small)
        while (last[-1] == '0') last--;
    if (small && last[-1] == '.') last--;
    dl_putn(b, text, (size_t)(last - text));
    if (!e) return;
    const char *digits = e + 2;
    while (*digits == '0' && digits[1]) digits++;
    dl_putf(b, "%s%s", e[1] == '-' ? "em" : "e", digits);
}

static void put_text(dl_buf *b, const char *text) {
    for (; *text; text++)
        dl_putn(b, isalnum((unsigned char)*text) || strchr("._+-", *text) ? text : "-", 1);
}

static void put_value(dl_buf *b, const dl_yaml *v) {
    switch (v->kind) {
    case DL_YAML_NULL: dl_puts(b, "none"); break;
    case DL_YAML_BOOL: dl_puts(b, v->truth ? "true" : "false"); break;
    case DL_YAML_INT: dl_putf(b, "%lld", (long long)v->integer); break;
    case DL_YAML_FLOAT: put_number(b, v->number); break;
    case DL_YAML_STRING: put_text(b, v->text); break;
    case DL_YAML_LIST:
        for (int i = 0; i < v->items.n; i++) dl_puts(b, i ? "x" : ""), put_value(b, v->items.at[i]);
        break;
    case DL_YAML_MAP:
        for (int i = 0; i < v->entries.n; i++)
            dl_puts(b, i ? "x" : ""), put_value(b, v->entries.at[i].value);
    }
}

const char *dl_sweep_name(dl_arena *arena, const dl_sweep_file *f, const dl_yaml *values) {
    enum { LONGEST = 200 };
    dl_buf b = {0};
    for (int i = 0; i < f->n; i++) {
        const dl_sweep_parameter *p = &f->parameters[i];
        if (p->n == 1) continue;
        const char *dot = strrchr(p->name, '.');
        if (b.n) dl_puts(&b, "_");
        for (const char *s = dot ? dot + 1 : p->name; *s; s++)
            if (*s != '_') dl_putn(&b, isalnum((unsigned char)*s) ? s : "-", 1);
        put_value(&b, values->entries.at[i].value);
    }
    const char *name = b.n ? dl_strndup(arena, b.at, b.n < LONGEST ? b.n : LONGEST) : "trial";
    dl_buf_free(&b);
    return name;
}
