/* The keys `freeze` and `groups` of a configuration: patterns of parameters' names (fnmatch(3); a
 * star also fits dots), and what holds for the parameters that fit. */
#ifndef DL_COMPILER_PARAM_RULES_H
#define DL_COMPILER_PARAM_RULES_H
#include "frontends/yaml/config.h"
#include "ir/graph.h"
#include "ir/param_rules.h"

/* The rules of the parameters of a model's graph; NULL where neither key is given. A parameter is
 * in the first group with a pattern that fits it. Errors, located: DL_INPUT or DL_USAGE where a
 * pattern fits no parameter, all are frozen, or the optimiser has no weight decay. */
bool dl_param_rules_of(dl_arena *arena, const dl_config *c, const dl_graph *g,
                       const dl_param_rules **rules, dl_error *err);
/* The group's factor of the learning rate, and its weight decay; false: it has none. */
bool dl_param_group_rate(const dl_config *c, int group, double *factor);
bool dl_param_group_decay(const dl_config *c, int group, double *decay);
/* A hash of all that shapes a plan. */
uint64_t dl_param_rules_hash(const dl_param_rules *rules, uint64_t h);
int dl_param_groups(const dl_config *c);
#endif
