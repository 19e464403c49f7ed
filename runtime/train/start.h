/* The start of training: weights and hyperparameters of a plan. */
#ifndef DLR_START_H
#define DLR_START_H
#include "runtime/train/train.h"

/* Initial weights, or those of a file. */
bool dlr_run_start_weights(const dlr_train_options *o, dl_error *err);
/* Sets every hyperparameter that the plan names: from the schedule, from o->hypers, or to its
 * default. */
void dlr_run_set_hypers(const dlr_train_options *o, const dlr_rates *rates);
/* Sets one, where the plan has it. */
void dlr_run_set_hyper(dlr_exec *exec, const char *name, double value);
#endif
