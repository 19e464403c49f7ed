/* A plan's file that a command line names: read, and the device that it runs on. */
#ifndef DLC_PLAN_CHOICE_H
#define DLC_PLAN_CHOICE_H
#include "ir/plan/plan.h"
#include "runtime/setup/device_choice.h"

/* Reads the plan; no output of this process replaces its file. Errors: those of dl_plan_read;
 * DL_INPUT: it has no model; DL_RESOURCE: this machine cannot run it, with the command that
 * compiles one which it can. */
dl_plan *dl_plan_choice_read(dl_arena *arena, const char *path, dl_error *err);
/* The device of the plan from the file `path`, as the key `device` (`word`) and the plan's target
 * say together. Errors: those of dl_device_choose; DL_INPUT where they do not go together. */
bool dl_plan_choice_device(dl_arena *arena, const dl_plan *p, const char *path, const char *word,
                           dl_device_choice *choice, dl_error *err);
#endif
