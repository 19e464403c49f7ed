/* Checks a sweep's parameters against the configuration of its trials. */
#include <math.h>
#include <string.h>

#include "frontends/yaml/sweep_file.h"

/* Keys that a sweep sets itself, or that apply to the whole sweep. */
static bool is_own(const char *key) {
    static const char *const own[] = {"model",  "expdir", "run_dir",   "run_num",
                                      "resume", "replay", "stop_after"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i], key) == 0) return true;
    return false;
}

/* Checks that no listed value occurs twice, in the key's spelling ("Adam" is "adam"). */
static bool check_listed(const dl_sweep_parameter *p, const dl_config *c, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    const dl_yaml **taken = DL_NEWS(arena, const dl_yaml *, p->n);
    bool ok = true;
    for (int i = 0; ok && i < p->n; i++) {
        taken[i] = dl_config_as_taken(c, p->name, p->values[i], err);
        ok = taken[i] != NULL;
    }
    int twice = ok ? dl_sweep_twice(arena, p->n, taken) : -1;
    if (twice >= 0)
        ok = dl_yaml_fail(err, taken[twice]->place, "values of '%s' have %s twice", p->name,
                          dl_yaml_show(arena, taken[twice]));
    dl_arena_free(arena);
    return ok;
}

static bool check_values(const dl_sweep_parameter *p, const dl_config *c, dl_error *err) {
    if (p->n) return check_listed(p, c, err);
    dl_arena *arena = dl_arena_new(NULL);
    bool ok = true, steps = p->draw == DL_DRAW_Q_UNIFORM || p->draw == DL_DRAW_Q_LOG_UNIFORM_VALUES,
         whole = p->whole || p->draw == DL_DRAW_INT_UNIFORM;
    for (int end = 0; ok && end < (p->draw == DL_DRAW_NORMAL ? 1 : 2); end++) {
        double x = end ? p->high : p->low;
        if (steps) x = nearbyint(x / p->step) * p->step;
        const dl_yaml *v = dl_sweep_number(arena, x, whole, end ? p->high_place : p->low_place);
        ok = dl_config_as_taken(c, p->name, v, err);
    }
    dl_arena_free(arena);
    return ok;
}

bool dl_sweep_check(const dl_sweep_file *f, const dl_config *c, dl_error *err) {
    for (int i = 0; i < f->n; i++) {
        const dl_sweep_parameter *p = &f->parameters[i];
        const char *key = dl_config_key_of(c, p->name, p->place, err),
                   *line = dl_config_said(c, p->name);
        if (!key) return false;
        if (is_own(key))
            return dl_yaml_fail(err, p->place,
                                "%s is no parameter of a sweep: it is the same for all trials, "
                                "or the sweep's to set",
                                key);
        for (int k = 0; k < i; k++)
            if (dl_config_key_of(c, f->parameters[k].name, p->place, err) == key)
                return dl_yaml_fail(err, p->place, "'%s' and '%s' are one key",
                                    f->parameters[k].name, p->name);
        if (line)
            return dl_fail(err, DL_USAGE,
                           "%.200s: %s:%d gives '%s' its values; leave one of them out", line,
                           f->path, p->place.line, p->name);
        if (!check_values(p, c, err)) return false;
    }
    return true;
}
