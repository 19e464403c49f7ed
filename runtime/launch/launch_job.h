/* The ranks that `dlrun -n N` has started, from the side of who waits for them: signals go to them,
 * who is lost is named, and nobody is left. */
#ifndef LAUNCH_JOB_H
#define LAUNCH_JOB_H
#include <sys/types.h>

#include "ir/base/console.h"

typedef struct dl_mpirun dl_mpirun;

/* Before mpirun is started: makes the file in which ranks tell (dl_launch_begin, dl_launch_report),
 * names it in the environment, and blocks the signals that are passed on. Errors: DL_IO,
 * DL_RESOURCE. */
dl_mpirun *dl_mpirun_open(int n, const dl_console *out, dl_error *err);
/* Until mpirun, a child of this process, and all that it has left, have ended. Returns the
 * status of the rank that ended first with another than 0, DL_PEER where none told one though not
 * all ended well. `together` (seconds, 0: forever) is how long a rank may take after the first
 * that has ended. */
int dl_mpirun_wait(dl_mpirun *job, pid_t mpirun, double together);
void dl_mpirun_close(dl_mpirun *job);
#endif
