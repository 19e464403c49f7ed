/* The option `dlrun --profile`, and the environment variables ENABLE_PROFILING and PROFILE_OUTPUT,
 * which users of preset weather set instead. */
#ifndef DL_PROFILE_OPTIONS_H
#define DL_PROFILE_OPTIONS_H
#include "runtime/report/profile.h"
#include "runtime/report/ranges.h"
#include "runtime/train/rundir.h"

/* The profilers of an executor's run, which is on that device (dlr_exec_options), for
 * dlr_train_options.ranges; log lines say what was found.
 *
 * asked (--profile): the first epoch's steps are recorded, into the run's profile.json and
 * profile.txt. ENABLE_PROFILING=1: those of the epoch of index 3, and PROFILE_OUTPUT names the
 * files instead. Beneath a profiler of NVIDIA's, which records by itself, there are its ranges and
 * its switch, and no files but for `asked`. Errors: DL_USAGE for a PROFILE_OUTPUT that can name no
 * file. */
bool dl_profile_open(dl_arena *arena, bool asked, const dlr_rundir *dir, dlr_exec *exec,
                     const char *device, dlr_ranges *ranges, dl_error *err);
#endif
