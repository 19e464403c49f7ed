#include "frontends/yaml/rate_options.h"

#include <string.h>
#include <strings.h>

#include "ir/base/rate_phases.h"

static const struct {
    const char *name, *of, *unit;
} courses[] = {
#define RATE_COURSE(id, of, unit, help) {#id, of, unit},
#include "ir/base/rate_phases.def"
};

typedef struct {
    int course;
    const char *name, *fallback;
    double least, most;
    const char *choices;
} option;
static const option options[] = {
#define RATE_OPTION(course, id, fallback, least, most, choices)                                    \
    {DL_COURSE_##course, #id, fallback, least, most, choices},
#include "ir/base/rate_phases.def"
};
enum { N_OPTIONS = (int)(sizeof options / sizeof *options) };

/* Options that every phase has. */
static const option common[] = {{-1, "length", "null", 1, 1e12, NULL},
                                {-1, "unit", "null", 0, 0, "step|epoch"}};
enum { N_COMMON = (int)(sizeof common / sizeof *common) };

int dl_rate_course_find(const char *name) {
    for (int i = 0; i < DL_N_COURSES; i++)
        if (strcasecmp(courses[i].name, name) == 0) return i;
    return -1;
}

const char *dl_rate_course_name(int course) { return courses[course].name; }
const char *dl_rate_course_unit(int course) { return courses[course].unit; }

static const option *find_option(int course, const char *name) {
    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].course == course && strcmp(options[i].name, name) == 0) return &options[i];
    for (int i = 0; i < N_COMMON; i++)
        if (strcmp(common[i].name, name) == 0) return &common[i];
    return NULL;
}

static bool is_any_option(const char *name) {
    for (int i = 0; i < DL_N_COURSES; i++)
        if (find_option(i, name)) return true;
    return false;
}

/* ---- checks ---- */

static bool is_choice(const char *choices, const char *word) {
    size_t n = strlen(word);
    for (const char *s = choices; s; s = strchr(s, '|')) {
        s += *s == '|';
        if (strcspn(s, "|") == n && strncmp(s, word, n) == 0) return true;
    }
    return false;
}

static bool is_rising_list(const option *o, const dl_yaml *v) {
    if (v->kind != DL_YAML_LIST || v->items.n < 1 || v->items.n >= DL_MOST_RATE_PHASES)
        return false;
    for (int i = 0; i < v->items.n; i++) {
        const dl_yaml *at = v->items.at[i];
        if (at->kind != DL_YAML_INT || at->number < o->least || at->number > o->most ||
            (i && at->integer <= v->items.at[i - 1]->integer))
            return false;
    }
    return true;
}

static bool fits(const option *o, const dl_yaml *v) {
    if (v->kind == DL_YAML_NULL) return strcmp(o->fallback, "null") == 0;
    if (o->choices && strcmp(o->choices, "list") == 0) return is_rising_list(o, v);
    if (o->choices)
        return (v->kind == DL_YAML_STRING || v->kind == DL_YAML_BOOL) &&
               is_choice(o->choices, v->text);
    return (v->kind == DL_YAML_INT || v->kind == DL_YAML_FLOAT) && v->number >= o->least &&
           v->number <= o->most;
}

static const char *allowed(dl_arena *arena, const option *o) {
    if (o->choices && strcmp(o->choices, "list") == 0)
        return dl_format(arena, "a rising list of at most %d whole numbers",
                         DL_MOST_RATE_PHASES - 1);
    if (o->choices) return dl_format(arena, "one of %s", o->choices);
    return dl_format(arena, "a number from %.15g to %.15g", o->least, o->most);
}

static bool fail_option(dl_arena *arena, int course, const dl_yaml_entry *e, dl_error *err) {
    dl_buf names = {0};
    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].course == course)
            dl_putf(&names, "%s%s", names.n ? ", " : "", options[i].name);
    dl_yaml_fail(err, e->place, "lr_schedule %s has no option %s: its options are %s",
                 courses[course].name, dl_yaml_quote(arena, e->key), names.at);
    dl_buf_free(&names);
    return false;
}

static bool check_phase(dl_arena *arena, const dl_yaml *v, bool last, dl_error *err) {
    const dl_yaml *name = v->kind == DL_YAML_MAP ? dl_yaml_get(v, "name") : NULL;
    int course = name && name->kind == DL_YAML_STRING ? dl_rate_course_find(name->text) : -1;
    if (course < 0)
        return dl_yaml_fail(err, v->place,
                            "a phase of lr_schedule needs a name (docs/reference/schedules.md)");
    for (int i = 0; i < v->entries.n; i++) {
        const dl_yaml_entry *e = &v->entries.at[i];
        if (e->value == name) continue;
        const option *o = find_option(course, e->key);
        if (!o) return fail_option(arena, course, e, err);
        if (!fits(o, e->value))
            return dl_yaml_fail(err, e->value->place, "%s of lr_schedule %s must be %s, not %s",
                                e->key, courses[course].name, allowed(arena, o),
                                dl_yaml_show(arena, e->value));
    }
    const dl_yaml *length = dl_yaml_get(v, "length");
    return last || (length && length->kind != DL_YAML_NULL) ||
           dl_yaml_fail(err, v->place,
                        "each phase of lr_schedule but the last needs a length, in steps or, with "
                        "unit: epoch, in epochs");
}

static const char *unit_of(const dl_yaml *phase) {
    const dl_yaml *unit = dl_yaml_get(phase, "unit");
    return unit && unit->kind == DL_YAML_STRING ? unit->text : NULL;
}

bool dl_is_rate_phases(const dl_yaml *v) {
    return v->kind == DL_YAML_LIST && v->items.n > 0 && v->items.at[0]->kind == DL_YAML_MAP &&
           dl_yaml_get(v->items.at[0], "name");
}

bool dl_rate_phases_check(dl_arena *arena, const dl_yaml *list, dl_error *err) {
    int n = list->items.n;
    for (int i = 0; i < n; i++) {
        const dl_yaml *phase = list->items.at[i];
        if (!check_phase(arena, phase, i + 1 == n, err)) return false;
        const char *first = unit_of(list->items.at[0]), *unit = unit_of(phase);
        if (unit && (!first || strcmp(first, unit) != 0))
            return dl_yaml_fail(err, phase->place,
                                "all phases of lr_schedule count in one unit, which the first one "
                                "gives");
        if (n > 1 && dl_rate_course_find(dl_yaml_get(phase, "name")->text) == DL_COURSE_plateau)
            return dl_yaml_fail(
                err, phase->place,
                "plateau is no phase of a list: it has no length, so give it alone");
    }
    return true;
}

/* ---- values ---- */

const dl_yaml *dl_rate_fold_options(dl_arena *arena, const dl_yaml *map) {
    const dl_yaml *name = dl_yaml_get(map, "name");
    if (!name || name->kind != DL_YAML_STRING || dl_rate_course_find(name->text) < 0) return map;
    dl_yaml *phase = DL_NEW(arena, dl_yaml), *rest = DL_NEW(arena, dl_yaml);
    dl_yaml *list = DL_NEW(arena, dl_yaml);
    *phase = *rest = (dl_yaml){.kind = DL_YAML_MAP, .place = map->place};
    *list = (dl_yaml){.kind = DL_YAML_LIST, .place = name->place};
    for (int i = 0; i < map->entries.n; i++) {
        dl_yaml_entry e = map->entries.at[i];
        bool is_name = e.value == name;
        if (is_name || is_any_option(e.key)) dl_push(arena, &phase->entries, e);
        if (!is_name && !is_any_option(e.key)) dl_push(arena, &rest->entries, e);
    }
    if (phase->entries.n < 2) return map;
    dl_push(arena, &list->items, phase);
    dl_push(arena, &rest->entries, (dl_yaml_entry){dl_intern("name"), name->place, list});
    return rest;
}

const dl_yaml *dl_rate_option(dl_arena *arena, const dl_yaml *map, int course, const char *name) {
    const dl_yaml *given = map ? dl_yaml_get(map, name) : NULL;
    if (given) return given;
    const option *o = find_option(course, name);
    DL_CHECK(o);
    dl_error none = {0};
    return *o->fallback == '[' ? dl_yaml_read_argument(arena, o->fallback, name, &none)
                               : dl_yaml_plain(arena, o->fallback, (dl_yaml_place){0});
}
