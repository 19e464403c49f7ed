/* Finds the op that produced a non-finite loss: repeats training steps kernel by kernel. The
 * weights have already changed when a step's loss is known, so the run first returns to a state
 * from which it can repeat the steps. */
#ifndef DLR_FIND_NONFINITE_H
#define DLR_FIND_NONFINITE_H
#include "runtime/comm/comm.h"
#include "runtime/exec/exec.h"

/* A loop whose steps can be repeated, to the same bits. */
typedef struct {
    dlr_exec *exec;
    int program;
    dlr_comm *comm; /* the ranks that run each step together, all of which search; NULL: one rank */
    void *loop;
    /* Restores a state between two steps: *done steps are done. False, with `err`: there is no such
     * state, or it cannot be restored. */
    bool (*back)(void *loop, int64_t *done, dl_error *err);
    /* Feeds the next step's batch. False, with `err`, ends the search. */
    bool (*feed)(void *loop, dl_error *err);
} dlr_nonfinite_search;

/* The end of a message about the `step`-th step (from 1), whose loss is not finite: ". Step 12
 * repeated: the first value that is not finite is made by 'mul' (unet.dl:17), at [N=0, C=2], ..."
 * in `arena`, or why that is unknown. Where weights were not finite before that step, the message
 * names the earlier step that made them so. Afterwards the loop's state is invalid. */
const char *dlr_nonfinite_find(dl_arena *arena, const dlr_nonfinite_search *search, int64_t step);
#endif
