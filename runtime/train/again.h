/* Training steps made again, launch by launch, to say where numbers stopped being finite: a step has changed
 * its weights when its loss is known, so that the run goes back to where it can begin again. */
#ifndef DLR_AGAIN_H
#define DLR_AGAIN_H
#include "runtime/comm/comm.h"
#include "runtime/exec/exec.h"

/* A loop whose steps can be made again, to the same bits. */
typedef struct {
    dlr_exec *exec;
    int program;
    dlr_comm *comm; /* ranks that make each step together, and all search; NULL: this one is alone */
    void *loop;
    /* Back to a state that it had between two steps: *done steps are behind it. False, with `err`: there is
     * no such, or the way back is closed. */
    bool (*back)(void *loop, int64_t *done, dl_error *err);
    /* Feeds the next step's batch. False, with `err`, ends the search. */
    bool (*feed)(void *loop, dl_error *err);
} dlr_again;

/* The end of a message about the `step`-th step (from 1), whose loss is not finite: ". Step 12 made again:
 * the first value that is not finite is made by 'mul' (unet.dl:17), at [N=0, C=2], ..." in `arena`, or why
 * that is not known. Where weights were not finite before that step, it is the earlier step that made them
 * so. The loop's state is not to be used then. */
const char *dlr_again_find(dl_arena *arena, const dlr_again *again, int64_t step);
#endif
