/* The training options of a configuration: the optimiser and schedule that the graphs get. */
#ifndef DL_COMPILER_STEP_OPTIONS_H
#define DL_COMPILER_STEP_OPTIONS_H
#include "frontends/yaml/config.h"
#include "passes/pass.h"

/* Resolves keys that exclude each other, so that the configuration says what happens:
 * `scheduler` (presets minimal and tracked) unless a stronger source sets lr_schedule, and a cosine
 * of epochs where max_cosine_lr_epochs alone is given; local_batch_size unless a stronger source
 * sets global_batch_size; num_iters and num_epochs alike. The optimiser's options that nobody gives
 * get its own numbers; a warning tells of those given in addition that it lacks. Called once all
 * sources are read. */
bool dl_step_resolve(dl_config *c, dl_error *err);
/* The training options of a resolved configuration. Errors: DL_INPUT, DL_USAGE: keys contradict
 * each other. */
bool dl_step_options_of(const dl_config *c, dl_step_options *step_options, dl_error *err);
/* The optimiser, and an option of it as a number: a flag is 0 or 1, an option that the optimiser
 * does not have is 0. */
dl_optimizer dl_step_optimizer(const dl_config *c);
double dl_step_option(const dl_config *c, dl_optimizer_option option);
/* Sets what the graph of a step has of its optimiser and the numbers of the optimiser's options. */
void dl_step_set_optimizer(dl_step_options *o, dl_optimizer which,
                           const double numbers[DL_N_OPTIONS]);
/* Why these options have Nesterov's momentum in vain; NULL: they do not. */
const char *dl_step_nesterov_fault(const dl_step_options *o);
/* Whether a file or the command line gives the option, in addition to defaults. */
bool dl_step_option_is_given(const dl_config *c, dl_optimizer_option option);
dl_schedule dl_step_schedule(const dl_config *c);
/* The 16-bit type of mixed precision, f32 for none. enable_amp is amp_mode: fp16. */
dl_dtype dl_step_lower_precision(const dl_config *c);
/* Whether the schedule lowers the rate when the validation loss stops falling (scheduler:
 * reducelr). */
bool dl_step_has_plateau(const dl_config *c);
/* The ranges of epochs of lr_schedule. NULL: it has none, or is overridden. */
const dl_yaml *dl_step_ranges(const dl_config *c);
#endif
