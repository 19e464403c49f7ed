/* Dynamic loss scaling (Micikevicius et al. 2018), as torch.amp.GradScaler: 16-bit gradients would
 * vanish below 2^-24, so that the loss is multiplied by a scale before the way back, and each
 * gradient by its reciprocal behind it. A step of which some gradient is not finite is skipped: it
 * changes nothing, and halves the scale; so many steps without one double it.
 *
 * State of the train graph (ir/base/tags.h): scaler.scale (f32), that of the next step, which the
 * host sets at the start; scaler.good (i32), the steps since it changed or since one was skipped;
 * scaler.skipped (i64), all steps that were. Hyperparameter: scaler.growth_interval. Results:
 * metrics loss_scale and skipped. Private to the passes. */
#ifndef DL_SCALER_H
#define DL_SCALER_H
#include "passes/optim/optimizer.h"

/* The gradient of the scaled loss, a scalar of this type, for the loss: its scale. Adds
 * scaler.scale. Errors: the model has a variable of that name. */
dl_value *dl_scaler_seed(dl_builder *b, dl_dtype dtype, dl_error *err);

/* Behind the gradients of all parameters and o->step: divides the results of role GRAD by the
 * scale, sets o->sound and o->taken, and builds the scaler's own next state. */
void dl_scaler_unscale(dl_optimization *o);
#endif
