/* The numbers of schedule and optimiser as a configuration gives them. */
#ifndef DLC_RATES_H
#define DLC_RATES_H
#include "frontends/yaml/config.h"
#include "runtime/train/train.h"

/* The schedule of compiler/step_options.h, without the steps, which the data decide. In the arena.
 */
dlr_schedule dl_rates_schedule(dl_arena *arena, const dl_config *c, int64_t global_batch,
                               int ranks);
/* For `lr_schedule: plateau`, and for `scheduler: reducelr` (preset tracked's: a factor of 0.2, no
 * rate below 1e-8); NULL: the rate
 * is not lowered. */
const dlr_plateau_options *dl_rates_plateau(dl_arena *arena, const dl_config *c);
/* Which optimiser it is, and what it takes. In the arena. */
const dlr_torch_optimizer *dl_rates_optimizer(dl_arena *arena, const dl_config *c);
/* Numbers of the optimiser. */
const dlr_hyper *dl_rates_hypers(dl_arena *arena, const dl_config *c, int *n);
#endif
