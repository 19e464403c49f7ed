/* The distributions of initial values by name, for `~` and `init`. */
#ifndef DL_DIST_H
#define DL_DIST_H
#include "frontends/dl/elab.h"

typedef enum { DL_BY_ARGUMENTS, DL_BY_FAN_IN, DL_BY_FANS } dl_dist_scaling;

typedef struct {
    const char *name;
    int arguments;
    dl_dist_scaling scale;
    dl_init_kind kind;
    double factor; /* variance = factor / fan */
} dl_dist;

/* The distribution of that name, or NULL. */
const dl_dist *dl_dist_find(const char *name);
/* Returns false after a report that `e` is no distribution; `name`: its text, or NULL. */
bool dl_bad_dist(dl_elab *E, const dl_ast *e, const char *name);
/* The initial values of the rule, for a parameter with these fans. */
bool dl_dist_init(dl_elab *E, const dl_init_rule *rule, double fan_in, double fan_out,
                  dl_init *out);
#endif
