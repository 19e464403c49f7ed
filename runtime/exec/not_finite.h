/* Finds the first value that is not finite, for an error message. */
#ifndef DLR_NOT_FINITE_H
#define DLR_NOT_FINITE_H
#include "runtime/exec/exec.h"

/* The first value that is not finite in a variable of this role: "'x', at [N=0, C=2]", in `arena`.
 * NULL: all are finite. */
const char *dlr_not_finite_variable(dl_arena *arena, const dlr_exec *exec, dl_var_role role);

/* As dlr_exec_start, but launch by launch. It checks the batch, the weights, and all tensors that
 * the launches store; no other run may be under way. Shared scalars of the optimizer, which have no
 * source line, may be infinite and are skipped.
 *
 * Returns the first value that is not finite, in words, in `arena`: "not finite is the input 'x',
 * at [N=0]", or "the first value that is not finite is made by 'mul' (unet.dl:17), at [N=0, C=2],
 * ...". "out of range is 'k', at [N=2]: 7, where the model takes 0 to 4; " precedes it where the
 * batch has such a number (dlr_exec_options.classes). NULL: all values are finite.
 *
 * All ranks must call it, and all get the same text: the first such value in the program's order,
 * before sums over ranks carry it to the others, with its rank, ", on rank 1". */
const char *dlr_start_checked(dl_arena *arena, dlr_exec *exec, int program);

/* The end of a message about a loss that is not finite. Runs `program`, which must update nothing,
 * once more, and returns the finding as a sentence to follow a full stop; "" without a finding. For
 * a step that has changed its weights: find_nonfinite.h. */
const char *dlr_not_finite_text(dl_arena *arena, dlr_exec *exec, int program);
#endif
