/* The values of a sweep's trials, and their names. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "frontends/yaml/sweep_file.h"
#include "ir/base/hash.h"
#include "ir/base/philox.h"

/* ---- draws ---- */

/* Two numbers in [0, 1), multiples of 2^-53, that depend on the trial and the parameter's name
 * alone, not on other parameters.
 *
 *   key     = seed, low word then high word
 *   counter = {trial, low then high word; hash of the name, low then high word} */
static void draw_units(const dl_sweep_file *f, const char *name, int64_t number, double unit[2]) {
    uint64_t n = (uint64_t)number, of = dl_hash_str(name, 0);
    uint32_t c[4] = {(uint32_t)n, (uint32_t)(n >> 32), (uint32_t)of, (uint32_t)(of >> 32)};
    dl_philox(c, (uint32_t)f->seed, (uint32_t)(f->seed >> 32));
    for (int i = 0; i < 2; i++)
        unit[i] = (double)(((uint64_t)c[2 * i + 1] << 32 | c[2 * i]) >> 11) * 0x1p-53;
}

const dl_yaml *dl_sweep_number(dl_arena *arena, double x, bool whole, dl_yaml_place place) {
    dl_buf b = {0};
    if (whole)
        dl_putf(&b, "%.0f", x);
    else
        dl_put_double(&b, x);
    const dl_yaml *v = dl_yaml_plain(arena, dl_strndup(arena, b.at, b.n), place);
    dl_buf_free(&b);
    return v;
}

static const dl_yaml *choose(const dl_sweep_parameter *p, double unit) {
    int i = 0;
    if (!p->shares) return p->values[(int)(unit * p->n)];
    for (double sum = p->shares[0]; i + 1 < p->n && unit >= sum; sum += p->shares[i]) i++;
    while (i > 0 && p->shares[i] == 0) i--; /* the sum of probabilities, rounded, may be below 1 */
    return p->values[i];
}

static const dl_yaml *draw(dl_arena *arena, const dl_sweep_file *f, const dl_sweep_parameter *p,
                           int64_t number) {
    double u[2], x;
    draw_units(f, p->name, number, u);
    if (p->n) return choose(p, u[0]);
    bool logarithm =
             p->draw == DL_DRAW_LOG_UNIFORM_VALUES || p->draw == DL_DRAW_Q_LOG_UNIFORM_VALUES,
         of_int = p->draw == DL_DRAW_INT_UNIFORM;
    if (p->draw == DL_DRAW_NORMAL) /* Box and Muller, 1958 */
        x = p->low + p->high * sqrt(-2 * log1p(-u[0])) * cos(2 * acos(-1) * u[1]);
    else if (of_int)
        x = p->low + floor(u[0] * (p->high - p->low + 1));
    else if (logarithm)
        x = exp(log(p->low) + u[0] * (log(p->high) - log(p->low)));
    else
        x = p->low + u[0] * (p->high - p->low);
    if (logarithm) x = fmin(fmax(x, p->low), p->high); /* rounding may have moved it outside */
    if (p->step > 0) x = nearbyint(x / p->step) * p->step;
    return dl_sweep_number(arena, x, of_int || p->whole, p->place);
}

const dl_yaml *dl_sweep_values(dl_arena *arena, const dl_sweep_file *f, int64_t number) {
    dl_yaml *map = DL_NEW(arena, dl_yaml);
    *map = (dl_yaml){.kind = DL_YAML_MAP, .place = {.file = f->path}, .text = "", .size = 1};
    int64_t inner = 1; /* trials that differ only in later parameters */
    for (int i = 0; i < f->n; i++) inner *= f->method == DL_METHOD_GRID ? f->parameters[i].n : 1;
    for (int i = 0; i < f->n; i++) {
        const dl_sweep_parameter *p = &f->parameters[i];
        if (f->method == DL_METHOD_GRID) inner /= p->n;
        const dl_yaml *v = f->method == DL_METHOD_GRID ? p->values[number / inner % p->n]
                                                       : draw(arena, f, p, number);
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
