/* Where numbers first stop being finite: for a fault's message. */
#ifndef DLR_NOT_FINITE_H
#define DLR_NOT_FINITE_H
#include "runtime/exec/exec.h"

/* The first of the variables of this role that holds a value that is not finite: "'x', at [N=0, C=2]", in
 * `arena`. NULL: all are finite. */
const char *dlr_not_finite_variable(dl_arena *arena, const dlr_exec *exec, dl_var_role role);

/* As dlr_exec_start, launch by launch, looking at the batch that was fed, at the weights, and at all that the
 * launches store; nothing else is under way. Shared numbers of the optimiser, which have no source line, may
 * be infinite and are passed over. What is not finite first, in words, in `arena`: "not finite is the input
 * 'x', at [N=0]", "the first value that is not finite is made by 'mul' (unet.dl:17), at [N=0, C=2], ...",
 * with "out of range is 'k', at [N=2]: 7, where the model takes 0 to 4; " in front where the batch has such a
 * number (dlr_exec_options.classes); NULL: all is finite.
 *
 * Ranks all call it, and all get the same: what comes first in the program, before sums over ranks carry it
 * to the others, with whose it is, ", on rank 1". */
const char *dlr_start_watched(dl_arena *arena, dlr_exec *exec, int program);

/* The end of a message about a loss that is not finite: what is found when `program`, which updates nothing,
 * runs again, as a sentence behind a full stop; "" where nothing is. Of a step that has changed its weights:
 * again.h. */
const char *dlr_not_finite_text(dl_arena *arena, dlr_exec *exec, int program);
#endif
