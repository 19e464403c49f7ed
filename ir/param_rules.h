/* Rules of a step for single parameters: some stay as they are, and some have a rate
 * or a weight decay of their own. Made from a configuration's patterns (compiler/param_rules.h);
 * the passes autodiff and optimizer read it. */
#ifndef DL_PARAM_RULES_H
#define DL_PARAM_RULES_H
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name; /* of the parameter, interned */
    bool frozen;
    int group; /* -1: none */
} dl_param_rule;

/* The numbers of a group are hyperparameters: optimizer.group.I.lr, a factor of the rate, and
 * optimizer.group.I.weight_decay. */
typedef struct {
    bool rate;   /* it has a factor */
    bool decay;  /* it has a weight decay, */
    bool decays; /* which is not 0 */
} dl_param_group;

typedef struct {
    const dl_param_rule *at; /* of the parameters that have one */
    int n;
    const dl_param_group *group;
    int groups;
} dl_param_rules;

/* The parameter's rule, by its interned name; NULL: none. `rules` may be NULL. */
static inline const dl_param_rule *dl_param_rule_of(const dl_param_rules *rules, const char *name) {
    for (int i = 0; rules && i < rules->n; i++)
        if (rules->at[i].name == name) return &rules->at[i];
    return NULL;
}

static inline bool dl_param_is_frozen(const dl_param_rules *rules, const char *name) {
    const dl_param_rule *r = dl_param_rule_of(rules, name);
    return r && r->frozen;
}

/* The parameter's group; NULL: none. *number: which. */
static inline const dl_param_group *dl_param_group_of(const dl_param_rules *rules, const char *name,
                                                      int *number) {
    const dl_param_rule *r = dl_param_rule_of(rules, name);
    *number = r ? r->group : -1;
    return *number >= 0 ? &rules->group[*number] : NULL;
}
#endif
