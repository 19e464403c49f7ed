#include "compiler/objectives.h"

#include <math.h>

#include "compiler/step_options.h"
#include "ir/base/hash.h"

static const char every_key[] = "every";

/* The map of an objective in the key `optimizers`; NULL: it has none. */
static const dl_yaml *map_of(const dl_config *c, const char *name) {
    const dl_yaml *all = dl_config_value(c, DL_KEY_optimizers);
    return all->kind == DL_YAML_MAP ? dl_yaml_get(all, name) : NULL;
}

/* The objective's own value of a key, under any of the key's names; NULL: it has none. */
static const dl_yaml *own_value(const dl_config *c, const dl_yaml *map, const char *key) {
    dl_error unknown = {0}; /* reported by check_map */
    for (int i = 0; map && i < map->entries.n; i++) {
        const dl_yaml_entry *e = &map->entries.at[i];
        if (strcmp(e->key, every_key) == 0) continue;
        const char *named = dl_config_key_of(c, e->key, e->place, &unknown);
        if (named && strcmp(named, key) == 0) return dl_config_as_taken(c, key, e->value, &unknown);
    }
    return NULL;
}

static dl_optimizer optimizer_of(const dl_config *c, const dl_yaml *map) {
    const dl_yaml *v = own_value(c, map, dl_key_name(DL_KEY_optimizer));
    return v ? (dl_optimizer)dl_optimizer_find(v->text) : dl_step_optimizer(c);
}

/* An option of the objective's optimiser: its own, else what the key is given for all, else the
 * optimiser's default. 0: the optimiser lacks it. */
static double option_of(const dl_config *c, const dl_yaml *map, dl_optimizer_option option) {
    const dl_optimizer which = optimizer_of(c, map);
    if (!(dl_optimizers[which].takes >> option & 1)) return 0;
    const dl_yaml *v = own_value(c, map, dl_optimizer_options[option].key);
    if (v && v->kind != DL_YAML_NULL) return v->kind == DL_YAML_BOOL ? v->truth : v->number;
    bool keras = strcmp(dl_config_str(c, DL_KEY_optimizer_defaults), "keras") == 0;
    double own = dl_optimizer_own(which, option, keras ? DL_OF_KERAS : DL_OF_TORCH);
    bool given = dl_step_option_is_given(c, option) && !v;
    return given || isnan(own) ? dl_step_option(c, option) : own;
}

static double rate_of(const dl_config *c, const dl_yaml *map) {
    const dl_yaml *v = own_value(c, map, dl_key_name(DL_KEY_start_lr));
    return v ? v->number / dl_config_float(c, DL_KEY_start_lr) : 1;
}

static double every_of(const dl_yaml *map) {
    const dl_yaml *v = map ? dl_yaml_get(map, every_key) : NULL;
    return v ? v->number : 1;
}

bool dl_objective_hyper(const dl_config *c, const char *name, double *value) {
    static const char before[] = "optimizer.";
    const size_t n = sizeof before - 1;
    const char *dot = strncmp(name, before, n) == 0 ? strchr(name + n, '.') : NULL;
    if (!dot) return false;
    const char *objective = dl_internf("%.*s", (int)(dot - name - (int)n), name + n);
    const char *number = dot + 1;
    const dl_yaml *map = map_of(c, objective);
    for (int i = 0; i < DL_N_OPTIONS; i++)
        if (strcmp(dl_optimizer_options[i].name, number) == 0)
            return *value = option_of(c, map, (dl_optimizer_option)i), true;
    if (strcmp(number, "lr") == 0) return *value = rate_of(c, map), true;
    if (strcmp(number, every_key) == 0) return *value = every_of(map), true;
    return false;
}

/* ---- what the plan is made of ---- */

static bool is_option_key(const char *key) {
    bool any = strcmp(key, dl_key_name(DL_KEY_optimizer)) == 0 ||
               strcmp(key, dl_key_name(DL_KEY_start_lr)) == 0;
    for (int i = 0; i < DL_N_OPTIONS; i++) any |= strcmp(key, dl_optimizer_options[i].key) == 0;
    return any;
}

/* Checks names and values of an objective's map. */
static bool check_map(const dl_config *c, const dl_yaml *map, dl_error *err) {
    for (int i = 0; i < map->entries.n; i++) {
        const dl_yaml_entry *e = &map->entries.at[i];
        if (strcmp(e->key, every_key) == 0) {
            bool counts = e->value->kind == DL_YAML_INT && e->value->integer >= 1 &&
                          e->value->integer <= 1000000;
            if (counts) continue;
            return dl_yaml_fail(err, e->value->place,
                                "every must be an integer from 1 to 1000000: one step in so many");
        }
        const char *key = dl_config_key_of(c, e->key, e->place, err);
        if (!key) return false;
        if (!is_option_key(key))
            return dl_yaml_fail(err, e->place,
                                "%s holds for all optimizers: give it outside of optimizers", key);
        if (!dl_config_as_taken(c, key, e->value, err)) return false;
    }
    bool rate = own_value(c, map, dl_key_name(DL_KEY_start_lr)) != NULL;
    return !rate || dl_config_float(c, DL_KEY_start_lr) > 0 ||
           dl_config_fail(
               c, DL_KEY_start_lr, err,
               "an optimizer's lr is a part of start_lr, which is 0 here: give start_lr");
}

/* Refuses maps of objectives that the model lacks. */
static bool check_names(dl_arena *arena, const dl_config *c, const dl_graph *g, dl_error *err) {
    const dl_yaml *all = dl_config_value(c, DL_KEY_optimizers);
    const char **names = DL_NEWS(arena, const char *, g->results.n + 1);
    int n = 0;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_OBJECTIVE) names[n++] = g->results.at[i].name;
    for (int i = 0; all->kind == DL_YAML_MAP && i < all->entries.n; i++) {
        const dl_yaml_entry *e = &all->entries.at[i];
        bool known = false;
        for (int k = 0; k < n; k++) known |= strcmp(names[k], e->key) == 0;
        if (known) continue;
        const char *near = dl_nearest(e->key, names, n);
        return dl_yaml_fail(err, e->place, "the model has no `optimize %s: ...`%s%s%s", e->key,
                            near ? "; did you mean '"
                            : n  ? "; its first is '"
                                 : ": it has one loss, whose optimizer is the key optimizer",
                            near ? near
                            : n  ? names[0]
                                 : "",
                            near || n ? "'?" : "");
    }
    return true;
}

/* Refuses keys that do not go with several optimisers. */
static bool check_keys(const dl_config *c, int objectives, dl_error *err) {
    bool turns = strcmp(dl_config_str(c, DL_KEY_optimize_order), "in_turn") == 0;
    if (dl_config_bool(c, DL_KEY_torch_checkpoints))
        return dl_config_fail(c, DL_KEY_torch_checkpoints, err,
                              "PyTorch's files are written of one optimizer, and the model has an "
                              "optimizer for each `optimize`: --torch_checkpoints=false");
    if (!dl_config_is_null(c, DL_KEY_groups))
        return dl_config_fail(
            c, DL_KEY_groups, err,
            "groups are of one optimizer, and the model has an optimizer for each "
            "`optimize`: give rates by the key optimizers");
    if (objectives > 1 && turns && dl_config_int(c, DL_KEY_accumulate) > 1)
        return dl_config_fail(c, DL_KEY_accumulate, err,
                              "a step of several batches cannot take optimizers in turn: "
                              "--optimize_order=together, or --accumulate=1");
    return true;
}

static dl_objective_options options_of(const dl_config *c, const char *name,
                                       const dl_step_options *step) {
    const dl_yaml *map = map_of(c, name);
    dl_objective_options o = {.name = name, .own = *step, .every = every_of(map) > 1};
    double numbers[DL_N_OPTIONS];
    o.rate = own_value(c, map, dl_key_name(DL_KEY_start_lr)) != NULL;
    for (int i = 0; i < DL_N_OPTIONS; i++) numbers[i] = option_of(c, map, (dl_optimizer_option)i);
    dl_step_set_optimizer(&o.own, optimizer_of(c, map), numbers);
    return o;
}

static bool check_options(const dl_config *c, const dl_objective_options *o, dl_error *err) {
    const dl_key key =
        dl_config_is_null(c, DL_KEY_optimizers) ? DL_KEY_nesterov : DL_KEY_optimizers;
    const char *fault = dl_step_nesterov_fault(&o->own);
    return !fault || dl_config_fail(c, key, err, "%s: %s", o->name, fault);
}

bool dl_objectives_of(dl_arena *arena, const dl_config *c, const dl_graph *train,
                      const dl_step_options *step, const dl_objective_options **all, int *n,
                      dl_error *err) {
    dl_objective_options *made = DL_NEWS(arena, dl_objective_options, train->results.n + 1);
    *n = 0, *all = made;
    if (!check_names(arena, c, train, err)) return false;
    for (int i = 0; i < train->results.n; i++) {
        const dl_result *r = &train->results.at[i];
        const dl_yaml *map = map_of(c, r->name);
        if (r->role != DL_RESULT_OBJECTIVE) continue;
        if (map && !check_map(c, map, err)) return false;
        made[*n] = options_of(c, r->name, step);
        if (!check_options(c, &made[(*n)++], err)) return false;
    }
    return !*n || check_keys(c, *n, err);
}

uint64_t dl_objectives_hash(const dl_objective_options *all, int n, uint64_t h) {
    for (int i = 0; i < n; i++) {
        const int flags[] = {all[i].rate, all[i].every};
        h = dl_hash(flags, sizeof flags, dl_hash_str(all[i].name, h));
        h = dl_hash(&all[i].own, sizeof all[i].own, h);
    }
    return h;
}
