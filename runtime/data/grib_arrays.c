#include "runtime/data/grib_arrays.h"

#include <stdlib.h>

enum { MOST_LEADING = 4 };

typedef struct {
    dlr_array_file *f;
    const dlr_grib_found *found;
    DL_ARRAY(dlr_grib_coordinate *) coordinates;
    DL_ARRAY(dlr_array_facts) arrays;
    DL_ARRAY(dlr_grib_content) contents;
} making;

/* Fields from `first` on that make an array. */
typedef struct {
    dlr_grib_about *first;
    int64_t n;
} group;

/* ---- order ---- */

static int compare(double a, double b) { return a < b ? -1 : a > b; }

static int compare_groups(const dlr_grib_about *a, const dlr_grib_about *b) {
    int c = strcmp(a->name, b->name);
    if (!c) c = strcmp(a->level_type, b->level_type);
    if (!c) c = strcmp(a->step_type, b->step_type);
    if (!c) c = a->grid < b->grid ? -1 : a->grid > b->grid;
    return c;
}

static double member_of(const dlr_grib_about *a) { return (double)a->number; }
static double valid_of(const dlr_grib_about *a) { return (double)a->valid; }
static double base_of(const dlr_grib_about *a) { return (double)a->base; }
static double step_of(const dlr_grib_about *a) { return (double)(a->valid - a->base) / 3600; }
static double level_of(const dlr_grib_about *a) { return a->level; }

/* By array, and by member, time and level as the arrays have them. */
static int compare_fields(const void *x, const void *y) {
    const dlr_grib_about *a = x, *b = y;
    int c = compare_groups(a, b);
    if (!c) c = compare(member_of(a), member_of(b));
    if (!c) c = compare(valid_of(a), valid_of(b));
    if (!c) c = compare(level_of(a), level_of(b));
    if (!c) c = compare(base_of(a), base_of(b));
    return c ? c : a->field.at < b->field.at ? -1 : a->field.at > b->field.at;
}

/* The same by the time of the forecast and its steps. */
static int compare_forecasts(const void *x, const void *y) {
    const dlr_grib_about *a = x, *b = y;
    int c = compare(member_of(a), member_of(b));
    if (!c) c = compare(base_of(a), base_of(b));
    if (!c) c = compare(step_of(a), step_of(b));
    if (!c) c = compare(level_of(a), level_of(b));
    return c ? c : a->field.at < b->field.at ? -1 : a->field.at > b->field.at;
}

static int compare_numbers(const void *x, const void *y) {
    const double *a = x, *b = y;
    return compare(*a, *b);
}

/* ---- axes ---- */

typedef struct {
    const char *kind;
    double (*of)(const dlr_grib_about *a);
    double *at; /* its distinct values, rising */
    int64_t n;
} leading;

static void find_values(dl_arena *arena, const group *g, leading *x) {
    x->at = DL_NEWS(arena, double, g->n);
    for (int64_t i = 0; i < g->n; i++) x->at[i] = x->of(&g->first[i]);
    qsort(x->at, (size_t)g->n, sizeof *x->at, compare_numbers);
    x->n = 0;
    for (int64_t i = 0; i < g->n; i++)
        if (i == 0 || x->at[i] != x->at[i - 1]) x->at[x->n++] = x->at[i];
}

/* Whether the sorted fields are one of each combination of the values, in their order. */
static bool is_full(const group *g, const leading *x, int n) {
    int64_t all = 1;
    for (int k = 0; k < n; k++)
        if (__builtin_mul_overflow(all, x[k].n, &all) || all > g->n) return false;
    for (int64_t i = 0; all == g->n && i < g->n; i++)
        for (int64_t k = n - 1, rest = i; k >= 0; rest /= x[k--].n)
            if (x[k].of(&g->first[i]) != x[k].at[rest % x[k].n]) return false;
    return all == g->n;
}

/* Finds the leading axes and sorts the fields along them: times are those for which fields hold,
 * where each has one field; else when forecasts begin, and their steps. False: neither. */
static bool find_leading(dl_arena *arena, group *g, leading x[MOST_LEADING], int *n) {
    x[0] = (leading){.kind = "number", .of = member_of};
    x[1] = (leading){.kind = "time", .of = valid_of};
    x[2] = (leading){.kind = "level", .of = level_of};
    for (int k = 0; k < 3; k++) find_values(arena, g, &x[k]);
    *n = 3;
    if (is_full(g, x, 3)) return true;
    x[3] = x[2], *n = 4;
    x[1].of = base_of;
    x[2] = (leading){.kind = "step", .of = step_of};
    for (int k = 1; k < 3; k++) find_values(arena, g, &x[k]);
    qsort(g->first, (size_t)g->n, sizeof *g->first, compare_forecasts);
    return is_full(g, x, 4);
}

/* The name of a coordinate; the second of its kind with other numbers has a number after it. */
static const char *name_coordinate(making *m, const char *kind, const double *at, int64_t n) {
    int same = 1;
    for (int i = 0; i < m->coordinates.n; i++) {
        const dlr_grib_coordinate *c = m->coordinates.at[i];
        if (strcmp(c->kind, kind) != 0) continue;
        if (c->n == n && memcmp(c->at, at, (size_t)n * sizeof *at) == 0) return c->name;
        same++;
    }
    dlr_grib_coordinate *new = DL_NEW(m->f->arena, dlr_grib_coordinate);
    double *kept = DL_NEWS(m->f->arena, double, n);
    memcpy(kept, at, (size_t)n * sizeof *at);
    *new = (dlr_grib_coordinate){.kind = kind, .name = kind, .at = kept, .n = n};
    if (same > 1) new->name = dl_format(m->f->arena, "%s%d", kind, same);
    dl_push(m->f->arena, &m->coordinates, new);
    return new->name;
}

static void add_axis(dlr_array_facts *a, const char *name, int64_t size) {
    a->dims[a->rank] = size, a->chunk[a->rank] = 1;
    a->axis[a->rank++] = name;
}

/* The latitudes of a grid, which its longitudes follow; NULL: they are not known. */
static const double *find_grid(const making *m, const dlr_grib_about *about) {
    const char *at = m->found->grid;
    for (int64_t i = 0; i < m->found->grids; i++) {
        dlr_grib_grid g;
        memcpy(&g, at, sizeof g);
        const double *numbers = (const double *)(const void *)(at + sizeof g);
        if (g.grid == about->grid && g.rows == about->rows && g.columns == about->columns)
            return numbers;
        at = (const char *)(numbers + g.rows + g.columns);
    }
    return NULL;
}

static void add_points(making *m, const dlr_grib_about *about, dlr_array_facts *a) {
    const double *at = about->rows ? find_grid(m, about) : NULL;
    const int first = a->rank;
    if (about->rows)
        add_axis(a, at ? name_coordinate(m, "latitude", at, about->rows) : "y", about->rows);
    add_axis(a,
             at                ? name_coordinate(m, "longitude", at + about->rows, about->columns)
             : first < a->rank ? "x"
                               : "values",
             about->columns);
    for (int i = first; i < a->rank; i++) a->chunk[i] = a->dims[i];
}

/* ---- arrays ---- */

/* shortName; with its kind of level, and how its time is meant, where others have the name. */
static const char *name_array(making *m, const group *g, const group *all, int n) {
    const dlr_grib_about *a = g->first;
    bool alike = false, same_level = false;
    int number = 1;
    for (int i = 0; i < n; i++) {
        const dlr_grib_about *b = all[i].first;
        if (&all[i] == g || strcmp(a->name, b->name) != 0) continue;
        alike = true;
        if (strcmp(a->level_type, b->level_type) != 0) continue;
        same_level = true;
        number += strcmp(a->step_type, b->step_type) == 0 && &all[i] < g;
    }
    dl_buf name = {0};
    dl_puts(&name, a->name);
    if (alike && a->level_type[0]) dl_putf(&name, "/%s", a->level_type);
    if (same_level && a->step_type[0]) dl_putf(&name, "/%s", a->step_type);
    if (number > 1) dl_putf(&name, "/%d", number);
    const char *kept = dl_strdup(m->f->arena, name.at);
    dl_buf_free(&name);
    return kept;
}

static void add_texts(dl_arena *arena, dlr_array_facts *a, const dlr_grib_about *about) {
    const struct {
        const char *name, *text;
    } texts[] = {{"units", about->units},
                 {"long_name", about->long_name},
                 {"standard_name", about->standard_name}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text[0])
            dlr_array_add_text(arena, a, texts[i].name, dl_strdup(arena, texts[i].text));
}

static void add_array(making *m, group *g, const char *name) {
    dl_arena *arena = m->f->arena;
    dlr_grib_about *about = g->first;
    dlr_array_facts a = {.name = name, .stored = "f64", .type = DLR_EL_F64, .chunked = true};
    dlr_grib_content c = {.fields = g->n,
                          .points = (about->rows ? about->rows : 1) * about->columns};
    leading x[MOST_LEADING];
    int n = 0;
    for (int64_t i = 0; i < g->n && !a.refused; i++)
        if (g->first[i].why[0]) a.refused = dl_strdup(arena, g->first[i].why);
    if (!a.refused && !find_leading(arena, g, x, &n))
        a.refused = dl_format(
            arena,
            "has %lld fields, not one for each of %lld members, %lld times, %lld steps and %lld "
            "levels: keep a part, such as grib_copy -w level=%g IN OUT (package libeccodes-tools)",
            (long long)g->n, (long long)x[0].n, (long long)x[1].n, (long long)x[2].n,
            (long long)x[3].n, x[3].at[0]);
    for (int k = 0; !a.refused && k < n; k++)
        if (x[k].n > 1 || strcmp(x[k].kind, "time") == 0)
            add_axis(&a, name_coordinate(m, x[k].kind, x[k].at, x[k].n), x[k].n);
    if (a.refused) add_axis(&a, NULL, g->n);
    add_points(m, g->first, &a);
    a.packing = dl_strdup(arena, about->packing);
    add_texts(arena, &a, about);
    c.field = DL_NEWS(arena, dlr_grib_field, g->n);
    for (int64_t i = 0; i < g->n; i++) c.field[i] = g->first[i].field;
    dl_push(arena, &m->arrays, a);
    dl_push(arena, &m->contents, c);
}

static const char *units_of(const dlr_grib_coordinate *c) {
    static const char *const units[][2] = {{"time", "seconds since 1970-01-01 00:00:00"},
                                           {"step", "hours"},
                                           {"latitude", "degrees_north"},
                                           {"longitude", "degrees_east"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(c->kind, units[i][0]) == 0) return units[i][1];
    return NULL;
}

static void add_coordinate(making *m, const dlr_grib_coordinate *c) {
    dlr_array_facts a = {.name = c->name, .stored = "f64", .type = DLR_EL_F64, .packing = "none"};
    const char *units = units_of(c);
    add_axis(&a, c->name, c->n);
    if (units) dlr_array_add_text(m->f->arena, &a, "units", units);
    dl_push(m->f->arena, &m->arrays, a);
    dl_push(m->f->arena, &m->contents, (dlr_grib_content){.coordinate = c, .points = c->n});
}

void dlr_grib_make_arrays(dlr_array_file *f, const dlr_grib_found *found) {
    making m = {.f = f, .found = found};
    dlr_grib_about *field = found->field;
    DL_ARRAY(group) groups = {0};
    qsort(field, (size_t)found->fields, sizeof *field, compare_fields);
    for (int64_t i = 0; i < found->fields; i++) {
        if (i == 0 || compare_groups(&field[i - 1], &field[i]) != 0)
            dl_push(f->arena, &groups, (group){.first = &field[i]});
        groups.at[groups.n - 1].n++;
    }
    for (int i = 0; i < groups.n; i++)
        add_array(&m, &groups.at[i], name_array(&m, &groups.at[i], groups.at, groups.n));
    for (int i = 0; i < m.coordinates.n; i++) add_coordinate(&m, m.coordinates.at[i]);
    f->arrays = m.arrays.at, f->n = m.arrays.n, f->state = m.contents.at;
}
