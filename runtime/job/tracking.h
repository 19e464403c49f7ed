/* Weights & Biases from a configuration and its own environment variables: log_to_wandb. */
#ifndef DL_TRACKING_H
#define DL_TRACKING_H
#include "frontends/yaml/config.h"
#include "runtime/formats/wandb.h"

/* *options: NULL where nothing is to be written: without log_to_wandb, or with WANDB_MODE=disabled.
 * Of the names a key that is given beats the variable, which beats the key's default; in a sweep of
 * W&B's (WANDB_SWEEP_ID) the variables WANDB_ENTITY and WANDB_PROJECT beat the keys, as with
 * wandb.init. `config` and the command line are not set here. Errors: DL_USAGE for a WANDB_MODE or
 * WANDB_RUN_ID that can be none; those of dl_run_fill. */
bool dl_tracking_options(dl_arena *arena, const dl_config *c, int ranks,
                         dlr_wandb_options **options, dl_error *err);
/* A warning that WANDB_MODE=online sends nothing. NULL: nothing. */
const char *dl_tracking_warning(const dlr_wandb_options *options);
#endif
