/* Dynamic loss scaling (Micikevicius et al. 2018), as torch.amp.GradScaler. 16-bit gradients would
 * vanish below 2^-24. So the loss is multiplied by a scale before the backward pass, and each
 * gradient by its reciprocal after it. A step with a gradient that is not finite is skipped: it
 * changes nothing, and halves the scale. A given number of steps in a row without one doubles the
 * scale.
 *
 * State of the train graph (ir/base/tags.h): scaler.scale (f32), the scale of the next step, which
 * the host sets at the start; scaler.good (i32), the steps since the scale changed or a step was
 * skipped; scaler.skipped (i64), the number of skipped steps. Hyperparameter:
 * scaler.growth_interval. Results: metrics loss_scale and skipped. Private to the passes. */
#ifndef DL_SCALER_H
#define DL_SCALER_H
#include "passes/optim/optimizer.h"

/* The scale, an f32 by which each loss is multiplied: so its gradient begins with it. Adds the
 * variable scaler.scale. Errors: the model has a variable of that name. */
dl_value *dl_scaler_scale(dl_builder *b, dl_error *err);

/* To be called after all gradients and o->step exist: divides the results of role GRAD by the
 * scale, sets `sound` and `taken` of each set, and builds the scaler's next state: the scale is
 * one for all sets, and a set whose own gradients are finite takes its step, as a GradScaler of
 * several optimisers does. */
void dl_scaler_unscale(dl_optimization *o);
#endif
