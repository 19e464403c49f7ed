/* Random inputs for a plan that runs without data, in `dlc bench` and `dlc verify`. */
#ifndef DL_SYNTHETIC_INPUTS_H
#define DL_SYNTHETIC_INPUTS_H
#include "runtime/exec/exec.h"
#include "runtime/setup/classes.h"

/* Parameters by their init rules, inputs, targets and moments noise, those that `classes` names
 * whole numbers below their count, hypers as a short run's: all from `seed`. Errors: DL_RESOURCE.
 */
bool dl_fill_synthetic(dlr_exec *exec, const dl_classes *classes, uint64_t seed, dl_error *err);
#endif
