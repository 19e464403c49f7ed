/* The objects of a plan that its program "train" does not need are compiled after the others, in a
 * thread of their own: a run's first step does not wait for evaluation's kernels. */
#ifndef DL_LATE_H
#define DL_LATE_H
#include "compiler/compile.h"

/* Compiles a plan's objects: with opt->late only those that "train" needs; then dl_late_begin must
 * follow for the rest, if plan->late is not NULL. *compiled: how many were not in the cache.
 * Errors: as dl_backend's build. */
bool dl_build_plan(dl_plan *p, const dl_compile_options *opt, int *compiled, dl_error *err);

/* Takes a plan that is whole. It is called from the thread that compiles. */
typedef void dl_late_whole_fn(void *context, const dl_plan *whole);
/* Begins to compile plan->late; `whole` is called when that is done, before plan->late->finish
 * returns, if it is done without an error. `context` outlives the plan. The plan must outlive the
 * thread: plan->late->end. */
void dl_late_begin(dl_plan *p, dl_late_whole_fn *whole, void *context);
#endif
