/* The host's side of dynamic loss scaling, which happens in the plan (passes/optim/scaler.h): where it
 * begins, what it came to, and when it is given up. */
#ifndef DLR_SCALER_H
#define DLR_SCALER_H
#include "runtime/exec/exec.h"

/* Of the program that trains. All types NULL: its plan has no scaler. */
typedef struct {
    dlr_view used, skipped; /* of the step just run: its scale; 1 where it changed nothing */
    dlr_view next, all;     /* the next step's scale; steps skipped so far */
    double last;            /* `used` of the newest step; NaN before the first */
} dlr_scaler;
dlr_scaler dlr_scaler_of(const dlr_exec *exec, int program);

/* A run's first scale, and nothing counted. Without a scaler nothing happens. */
void dlr_scaler_start(dlr_exec *exec, double scale);

/* Behind a step: notes its scale; true where it was skipped. */
bool dlr_scaler_note(dlr_scaler *scaler, const dlr_exec *exec);

/* False where the step just run, the `step`-th, was skipped and the scale has come to its floor: such a run
 * learns nothing any more. Runs it once more, launch by launch, to find the first value that is not finite:
 * what the program stores between steps is not to be used then. Errors: DL_NUMERIC. */
bool dlr_scaler_check(const dlr_scaler *scaler, dlr_exec *exec, int program, int64_t step, dl_error *err);
#endif
