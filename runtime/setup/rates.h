/* The hyperparameters of learning rate schedule and optimiser, from a configuration. */
#ifndef DLC_RATES_H
#define DLC_RATES_H
#include "frontends/yaml/config.h"
#include "ir/plan/plan.h"
#include "runtime/train/train.h"

/* The schedule that compiler/step_options.h chose, without its number of steps, which depends on
 * the data. In the arena. */
dlr_schedule dl_rates_schedule(dl_arena *arena, const dl_config *c, int64_t global_batch,
                               int ranks);
/* Options of `lr_schedule: plateau`, and of preset tracked's `scheduler: reducelr` (factor 0.2, no
 * rate below 1e-8); NULL for other schedules. In the arena. */
const dlr_plateau_options *dl_rates_plateau(dl_arena *arena, const dl_config *c);
/* The optimiser and its options. In the arena. */
const dlr_torch_optimizer *dl_rates_optimizer(dl_arena *arena, const dl_config *c);
/* The hyperparameters of the optimiser, and of optimisers of single losses that the plan has, *n of
 * them. In the arena. */
const dlr_hyper *dl_rates_hypers(dl_arena *arena, const dl_config *c, const dl_plan *plan, int *n);
#endif
