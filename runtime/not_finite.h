/* Where numbers first stop being finite: for a fault's message. */
#ifndef DLR_NOT_FINITE_H
#define DLR_NOT_FINITE_H
#include "runtime/exec.h"

/* The first of the variables of this role that holds a value that is not finite: "'x', at [N=0, C=2]", in
 * `arena`. NULL: all are finite. */
const char *dlr_not_finite_variable(dl_arena *arena, const dlr_exec *exec, dl_var_role role);

/* Looks at all that the launches of the runs between `begin` and `end` store; shared numbers of the
 * optimiser, which have no source line, may be infinite and are passed over. `found` is the first that is not
 * finite, in `arena`: "'mul' (unet.dl:17), at [N=0, C=2]". NULL: all are. At most one run may be under way,
 * and the watch stays where it is meanwhile. */
typedef struct {
    dl_arena *arena;
    dlr_exec *exec;
    const char *found;
} dlr_finite_watch;
void dlr_finite_begin(dlr_finite_watch *watch, dl_arena *arena, dlr_exec *exec);
void dlr_finite_end(dlr_finite_watch *watch);

/* Runs a program and looks at it so. */
const char *dlr_not_finite_made(dl_arena *arena, dlr_exec *exec, int program);
#endif
