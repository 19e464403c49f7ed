/* The host's side of dynamic loss scaling, which the plan does (passes/optim/scaler.h): its first
 * scale, its state, and when a run is stopped because of it. */
#ifndef DLR_SCALER_H
#define DLR_SCALER_H
#include "runtime/exec/exec.h"

/* The scaler of the program "train". All types NULL: its plan has no scaler. */
typedef struct {
    dlr_view used, skipped; /* of the step just run: its scale; 1 where it changed nothing */
    dlr_view next, all;     /* the next step's scale; steps skipped so far */
    double last;            /* `used` of the newest step; NaN before the first */
} dlr_scaler;
dlr_scaler dlr_scaler_of(const dlr_exec *exec, int program);

/* Sets a run's first scale and clears the counts. Does nothing without a scaler. */
void dlr_scaler_start(dlr_exec *exec, double scale);

/* Called after a step: notes its scale; true where the step was skipped. */
bool dlr_scaler_note(dlr_scaler *scaler, const dlr_exec *exec);

/* False where the step just run, the `step`-th, was skipped and the scale is at its floor: such a
 * run no longer learns. Repeats the step, launch by launch, to find the first value that is not
 * finite; afterwards the program's state is invalid. Errors: DL_NUMERIC. */
bool dlr_scaler_check(const dlr_scaler *scaler, dlr_exec *exec, int program, int64_t step,
                      dl_error *err);
#endif
