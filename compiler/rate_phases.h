/* The phases of the learning rate that a configuration asks for. */
#ifndef DL_COMPILER_RATE_PHASES_H
#define DL_COMPILER_RATE_PHASES_H
#include "frontends/yaml/config.h"
#include "ir/base/rate_phases.h"

typedef struct {
    dl_rate_phase phase[DL_MOST_RATE_PHASES];
    int n;
    bool epochs; /* they count epochs, not steps */
} dl_rate_phases;

/* The phases of lr_schedule; n is 0 where it is no course of ir/base/rate_phases.def, or another
 * key overrides it. Errors: DL_INPUT where there are more than DL_MOST_RATE_PHASES. */
bool dl_rate_phases_of(const dl_config *c, dl_rate_phases *phases, dl_error *err);
/* The options of `lr_schedule: plateau`; false: it is another. */
typedef struct {
    double factor, threshold, min_lr, eps;
    int64_t patience, cooldown;
} dl_rate_plateau;
bool dl_rate_plateau_of(const dl_config *c, dl_rate_plateau *plateau);
#endif
