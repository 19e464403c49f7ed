/* The ranks that `dlrun -n N` has started, from the side of who waits for them: signals go to them,
 * who is lost is named, and nobody is left. */
#ifndef LAUNCH_JOB_H
#define LAUNCH_JOB_H
#include <sys/types.h>

#include "ir/base/status.h"

typedef struct dl_job dl_job;

/* Before mpirun is started: makes the file in which ranks tell (dl_launch_begin, dl_launch_report),
 * names it in the environment, and blocks the signals that are passed on. Errors: DL_IO,
 * DL_RESOURCE. */
dl_job *dl_job_open(int n, dl_error *err);
/* Until mpirun, a child of this process, and all that it has left behind, have ended. Returns the
 * status of the rank that ended first with another than 0, DL_PEER where none told one though not
 * all ended well. `together` (seconds, 0: forever) is how long a rank may take behind the first
 * that has ended. */
int dl_job_wait(dl_job *job, pid_t mpirun, double together);
void dl_job_close(dl_job *job);
#endif
