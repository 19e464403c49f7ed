/* Reads and checks the file of a sweep. */
#include "frontends/yaml/sweep_private.h"

static const char *const keys[] = {"method",  "metric", "parameters",
                                   "run_cap", "seed",   "early_terminate"};
/* Keys for W&B itself: its server, how its agent starts a program. */
static const char *const passed_over[] = {"name",    "description", "project",    "entity",
                                          "program", "command",     "controller", "program_type"};
enum { N_KEYS = sizeof keys / sizeof *keys, N_PASSED = sizeof passed_over / sizeof *passed_over };

static bool check_top(dl_arena *arena, dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    if (top->kind != DL_YAML_MAP)
        return dl_yaml_fail(err, top->place, "a sweep's file is a map with %s, not %s",
                            dl_sweep_list(arena, 3, keys), dl_yaml_show(arena, top));
    for (int i = 0; i < top->entries.n; i++) {
        dl_yaml_entry e = top->entries.at[i];
        if (dl_sweep_find(e.key, N_KEYS, keys) < 0 &&
            dl_sweep_find(e.key, N_PASSED, passed_over) < 0)
            return dl_yaml_fail(err, e.place, "unknown key %s in a sweep's file%s; it can have %s",
                                dl_yaml_quote(arena, e.key),
                                dl_sweep_nearest(arena, e.key, N_KEYS, keys),
                                dl_sweep_list(arena, N_KEYS, keys));
        if (strcmp(e.key, "command") == 0)
            dl_push(
                arena, &f->warnings,
                dl_format(arena,
                          "%.200s:%d: command is Weights & Biases' alone: runs here are started by "
                          "dlrun",
                          f->path, e.place.line));
    }
    return true;
}

static bool take_method(dl_arena *arena, dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    const char *names[DL_N_METHODS];
    for (int i = 0; i < DL_N_METHODS; i++) names[i] = dl_sweep_methods[i].name;
    const dl_yaml *v = dl_yaml_get(top, "method");
    if (!v)
        return dl_yaml_fail(err, top->place, "a sweep's file has a method: one of %s",
                            dl_sweep_list(arena, DL_N_METHODS, names));
    int k = dl_sweep_word(arena, "method", v, DL_N_METHODS, names, err);
    if (k >= 0) f->method = &dl_sweep_methods[k];
    return k >= 0;
}

static bool take_metric(dl_arena *arena, dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    static const char *const parts[] = {"name", "goal"}, *const goals[] = {"minimize", "maximize"};
    const dl_yaml *v = dl_yaml_get(top, "metric");
    if (!v) return true;
    if (v->kind != DL_YAML_MAP)
        return dl_yaml_fail(err, v->place,
                            "metric must be a map, {name: val_loss, goal: minimize}, not %s",
                            dl_yaml_show(arena, v));
    if (!dl_sweep_check_keys(arena, "metric", v, 2, parts, err)) return false;
    const dl_yaml *name = dl_yaml_get(v, "name"), *goal = dl_yaml_get(v, "goal");
    if (!name || name->kind != DL_YAML_STRING || !*name->text)
        return dl_yaml_fail(err, name ? name->place : v->place,
                            "metric needs the name of what runs record: {name: val_loss}");
    f->metric = name->text, f->metric_place = name->place;
    int k = goal ? dl_sweep_word(arena, "goal", goal, 2, goals, err) : 0;
    f->maximize = k == 1;
    return k >= 0;
}

typedef DL_ARRAY(dl_sweep_parameter) parameter_list;

/* Appends the parameters of a map; those of a group, {optimizer: {parameters: {lr: ...}}}, have its
 * name in front: optimizer.lr. */
static bool add_parameters(dl_arena *arena, const dl_sweep_method *method, const char *group,
                           const dl_yaml *map, parameter_list *list, dl_error *err) {
    static const char *const only[] = {"parameters"};
    for (int i = 0; i < map->entries.n; i++) {
        const dl_yaml_entry *e = &map->entries.at[i];
        const char *name = *group ? dl_format(arena, "%s.%s", group, e->key) : e->key;
        const dl_yaml *inner =
            e->value->kind == DL_YAML_MAP ? dl_yaml_get(e->value, "parameters") : NULL;
        dl_sweep_parameter p;
        if (inner && inner->kind == DL_YAML_MAP && inner->entries.n) {
            if (!dl_sweep_check_keys(arena, dl_yaml_quote(arena, name), e->value, 1, only, err) ||
                !add_parameters(arena, method, name, inner, list, err))
                return false;
        } else if (inner)
            return dl_yaml_fail(err, inner->place,
                                "parameters of %s must be a map of keys with their values, not %s",
                                dl_yaml_quote(arena, name), dl_yaml_show(arena, inner));
        else if (!dl_sweep_read_parameter(arena, method, name, e, &p, err))
            return false;
        else
            dl_push(arena, list, p);
    }
    return true;
}

static bool take_parameters(dl_arena *arena, dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    const dl_yaml *v = dl_yaml_get(top, "parameters");
    if (!v || v->kind != DL_YAML_MAP || v->entries.n == 0)
        return dl_yaml_fail(
            err, v ? v->place : top->place,
            "a sweep's file has parameters: a map of keys, {lr: {values: [1e-4, 1e-3]}}");
    parameter_list list = {0};
    if (!add_parameters(arena, f->method, "", v, &list, err)) return false;
    f->n = list.n, f->parameters = list.at;
    return true;
}

static bool count_trials(dl_sweep_file *f, int64_t cap, dl_error *err) {
    f->trials = cap;
    if (!f->method->is_grid) return true;
    int64_t all = 1;
    for (int i = 0; i < f->n; i++) {
        all *= f->parameters[i].n;
        if (all > DL_SWEEP_MOST)
            return dl_yaml_fail(err, f->parameters[i].place, "this grid has more than %d trials",
                                DL_SWEEP_MOST);
    }
    if (cap < 0 || cap > all) f->trials = all;
    return true;
}

/* Results decide about a method that learns, and about early ends: they need a metric. */
static bool check_metric(const dl_sweep_file *f, const dl_yaml *top, dl_error *err) {
    const char *needs = f->method->learns ? f->method->name
                        : f->stop.rule    ? "early_terminate"
                                          : NULL;
    return f->metric || !needs ||
           dl_yaml_fail(err, top->place, "%s needs a metric: {name: val_loss, goal: minimize}",
                        needs);
}

const dl_sweep_file *dl_sweep_parse(dl_arena *arena, const dl_yaml *top, const char *path,
                                    dl_error *err) {
    dl_sweep_file *f = DL_NEW(arena, dl_sweep_file);
    f->path = dl_strdup(arena, path);
    int64_t cap, seed;
    bool ok = check_top(arena, f, top, err) && take_method(arena, f, top, err) &&
              take_metric(arena, f, top, err) &&
              dl_sweep_whole(arena, top, "run_cap", 1, -1, &cap, err) &&
              dl_sweep_whole(arena, top, "seed", 0, 0, &seed, err) &&
              take_parameters(arena, f, top, err) && count_trials(f, cap, err) &&
              dl_sweep_read_stop(arena, f, dl_yaml_get(top, "early_terminate"), err) &&
              check_metric(f, top, err);
    if (ok) f->seed = (uint64_t)seed;
    return ok ? f : NULL;
}

const dl_sweep_file *dl_sweep_read(dl_arena *arena, const char *path, dl_error *err) {
    const dl_yaml *top = dl_yaml_read_file(arena, path, err);
    return top ? dl_sweep_parse(arena, top, path, err) : NULL;
}
