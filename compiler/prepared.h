/* Prepared weights: workspaces that outlive a launch (ir/plan/plan.h: preparation). */
#ifndef DL_PREPARED_H
#define DL_PREPARED_H
#include "ir/plan/plan.h"

/* Notes in the kernels of such programs that their weights are constant (dl_kernel.keeps_weight),
 * for the cost model. */
void dl_mark_prepared(const dl_module *m);

/* Gives launches of programs that update no variable, predictions and evaluations, workspaces of
 * their own where these hold a prepared constant: a weight. Launches of the same kernel on the same
 * constant, as in the steps of a scan, have one together. They follow the program's memory, whose
 * end is ends[program], and so may lie in the memory of other programs, between whose runs they are
 * prepared again. The arena grows by them, except that of a plan that trains: its peak is that of a
 * training step, and launches that find no room there have no workspace of their own. */
void dl_plan_prepare(dl_plan *p, const int64_t *ends);
#endif
