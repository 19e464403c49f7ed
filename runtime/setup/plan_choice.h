/* Opens a plan's file that a command line names, and chooses the device for it. */
#ifndef DLC_PLAN_CHOICE_H
#define DLC_PLAN_CHOICE_H
#include "ir/plan/plan.h"
#include "runtime/setup/device_choice.h"

/* Reads the plan, and protects its file from being replaced by outputs of this process. Errors:
 * those of dl_plan_read; DL_INPUT: it has no model; DL_RESOURCE: this machine cannot run it, with a
 * command that compiles a plan for this machine. */
dl_plan *dl_plan_choice_read(dl_arena *arena, const char *path, dl_error *err);
/* Reads in the same way the plan that the run's directory `run` has kept for this target
 * (keep_kernels). Sets *path to its file, in the arena. NULL without an error: the run has none. */
dl_plan *dl_plan_choice_kept(dl_arena *arena, const char *run, const char *target,
                             const char **path, dl_error *err);
/* Chooses the device from the key `device` (`word`) and the target of plan p, which was read from
 * `path`. Errors: those of dl_device_choose; DL_INPUT where the two contradict each other. */
bool dl_plan_choice_device(dl_arena *arena, const dl_plan *p, const char *path, const char *word,
                           dl_device_choice *choice, dl_error *err);
#endif
