/* A run's kernels in its directory (the key keep_kernels): kernels/cpu-avx512.dlp, a plan's file
 * that dlrun takes and that `dlrun predict RUN` uses where there is no compiler; and cpu-avx512.c
 * (.cu), the text they were compiled from, for people. */
#ifndef DL_PLAN_KEPT_H
#define DL_PLAN_KEPT_H
#include "ir/plan/plan.h"

/* The plan's file of a run's directory for this target; it need not be there. In the arena. */
const char *dl_plan_kept_path(dl_arena *arena, const char *run, const char *target);
/* Writes both files of the run in this directory. Errors: DL_IO; those of dl_plan_write. */
bool dl_plan_keep(const char *run, const dl_plan *p, dl_error *err);
#endif
