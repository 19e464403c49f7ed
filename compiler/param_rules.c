#include "compiler/param_rules.h"

#include <fnmatch.h>

#include "compiler/step_options.h"
#include "ir/base/hash.h"

static int count(const dl_yaml *v) {
    return v->kind == DL_YAML_NULL ? 0 : v->kind == DL_YAML_LIST ? v->items.n : 1;
}

static const dl_yaml *item(const dl_yaml *v, int i) {
    return v->kind == DL_YAML_LIST ? v->items.at[i] : v;
}

static const dl_yaml *group_of(const dl_config *c, int i) {
    return item(dl_config_value(c, DL_KEY_groups), i);
}

int dl_param_groups(const dl_config *c) { return count(dl_config_value(c, DL_KEY_groups)); }

bool dl_param_group_rate(const dl_config *c, int group, double *factor) {
    const dl_yaml *g = group_of(c, group), *lr = dl_yaml_get(g, "lr"),
                  *scale = dl_yaml_get(g, "lr_scale");
    if (!lr && !scale) return false;
    *factor = scale ? scale->number : 1;
    if (lr) *factor *= lr->number / dl_config_float(c, DL_KEY_start_lr);
    return true;
}

bool dl_param_group_decay(const dl_config *c, int group, double *decay) {
    const dl_yaml *v = dl_yaml_get(group_of(c, group), "weight_decay");
    if (v) *decay = v->number;
    return v != NULL;
}

/* ---- patterns ---- */

typedef struct {
    const dl_config *c;
    dl_arena *arena;
    DL_ARRAY(dl_param_rule) rules;
} building;

static dl_param_rule *rule_of(building *b, const char *name) {
    for (int i = 0; i < b->rules.n; i++)
        if (b->rules.at[i].name == name) return &b->rules.at[i];
    dl_push(b->arena, &b->rules, (dl_param_rule){.name = name, .group = -1});
    return &b->rules.at[b->rules.n - 1];
}

static bool fail_unfit(const building *b, dl_key key, const dl_graph *g, const char *pattern,
                       dl_error *err) {
    DL_ARRAY(const char *) names = {0};
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->role == DL_VAR_PARAM) dl_push(b->arena, &names, g->vars.at[i]->name);
    const char *near = dl_nearest(pattern, names.at, names.n);
    return dl_config_fail(b->c, key, err, "no parameter is called '%.200s'%s%s%s", pattern,
                          near          ? ": did you mean '"
                          : names.n > 0 ? ": the first one is '"
                                        : "",
                          near          ? near
                          : names.n > 0 ? names.at[0]
                                        : "",
                          near || names.n > 0 ? "'?" : "");
}

/* group -1: the parameters that fit are frozen. */
static bool add(building *b, const dl_graph *g, dl_key key, const dl_yaml *patterns, int group,
                dl_error *err) {
    for (int k = 0; k < count(patterns); k++) {
        const char *pattern = item(patterns, k)->text;
        bool any = false;
        for (int i = 0; i < g->vars.n; i++) {
            const dl_var *v = g->vars.at[i];
            if (v->role != DL_VAR_PARAM || fnmatch(pattern, v->name, 0) != 0) continue;
            dl_param_rule *r = rule_of(b, v->name);
            any = true;
            if (group < 0) r->frozen = true;
            if (r->group < 0) r->group = group;
        }
        if (!any) return fail_unfit(b, key, g, pattern, err);
    }
    return true;
}

static bool trains_any(const building *b, const dl_graph *g) {
    bool any = false;
    const dl_param_rules rules = {.at = b->rules.at, .n = b->rules.n};
    for (int i = 0; i < g->vars.n; i++)
        any |=
            g->vars.at[i]->role == DL_VAR_PARAM && !dl_param_is_frozen(&rules, g->vars.at[i]->name);
    return any;
}

/* ---- groups ---- */

uint64_t dl_param_rules_hash(const dl_param_rules *rules, uint64_t h) {
    for (int i = 0; rules && i < rules->n; i++) {
        const dl_param_rule *r = &rules->at[i];
        const int numbers[] = {r->frozen, r->group};
        h = dl_hash(numbers, sizeof numbers, dl_hash_str(r->name, h));
    }
    for (int i = 0; rules && i < rules->groups; i++) {
        const dl_param_group *g = &rules->group[i];
        const int flags[] = {g->rate, g->decay, g->decays};
        h = dl_hash(flags, sizeof flags, h);
    }
    return h;
}

static bool read_group(const dl_config *c, int i, dl_param_group *group, dl_error *err) {
    double number = 0;
    bool takes = dl_optimizers[dl_step_optimizer(c)].takes >> DL_OPTION_weight_decay & 1;
    *group = (dl_param_group){.rate = dl_param_group_rate(c, i, &number)};
    if (dl_yaml_get(group_of(c, i), "lr") && !(dl_config_float(c, DL_KEY_start_lr) > 0))
        return dl_config_fail(c, DL_KEY_groups, err,
                              "a group's lr is a part of start_lr, which is 0 here: give start_lr, "
                              "or the group's lr_scale");
    group->decay = dl_param_group_decay(c, i, &number);
    group->decays = group->decay && number > 0;
    return !group->decays || takes ||
           dl_config_fail(c, DL_KEY_groups, err, "the optimizer %s has no weight decay",
                          dl_config_str(c, DL_KEY_optimizer));
}

bool dl_param_rules_of(dl_arena *arena, const dl_config *c, const dl_graph *g,
                       const dl_param_rules **rules, dl_error *err) {
    const dl_yaml *frozen = dl_config_value(c, DL_KEY_freeze);
    int n = dl_param_groups(c);
    building b = {.c = c, .arena = arena};
    dl_param_group *groups = DL_NEWS(arena, dl_param_group, n + 1);
    *rules = NULL;
    if (n == 0 && count(frozen) == 0) return true;
    if (!add(&b, g, DL_KEY_freeze, frozen, -1, err)) return false;
    if (!trains_any(&b, g))
        return dl_config_fail(c, DL_KEY_freeze, err, "all parameters are frozen: none is trained");
    for (int i = 0; i < n; i++)
        if (!read_group(c, i, &groups[i], err) ||
            !add(&b, g, DL_KEY_groups, dl_yaml_get(group_of(c, i), "params"), i, err))
            return false;
    dl_param_rules *all = DL_NEW(arena, dl_param_rules);
    *all = (dl_param_rules){b.rules.at, b.rules.n, groups, n};
    *rules = all;
    return true;
}
