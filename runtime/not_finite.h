/* Where numbers first stop being finite: for a fault's message. */
#ifndef DLR_NOT_FINITE_H
#define DLR_NOT_FINITE_H
#include "runtime/exec.h"

/* The first of the variables of this role that holds a value that is not finite: "'x', at [N=0, C=2]", in
 * `arena`. NULL: all are finite. */
const char *dlr_not_finite_variable(dl_arena *arena, const dlr_exec *exec, dl_var_role role);

/* Runs a program, launch by launch, and looks at all that each stores; shared numbers of the optimiser, which
 * have no source line, may be infinite and are passed over. The first that is not finite: "'mul'
 * (unet.dl:17), at [N=0, C=2]". NULL: all are. */
const char *dlr_not_finite_made(dl_arena *arena, dlr_exec *exec, int program);
#endif
