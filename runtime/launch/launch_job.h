/* The launcher's side of `dlrun -n N`: forwards signals to the ranks, names lost ranks, and ends
 * all processes that it started. */
#ifndef LAUNCH_JOB_H
#define LAUNCH_JOB_H
#include <sys/types.h>

#include "ir/base/console.h"

typedef struct dl_mpirun dl_mpirun;

/* Call it before mpirun is started. Creates the file to which ranks report (dl_launch_begin,
 * dl_launch_report), names it in the environment, and blocks the signals that are forwarded.
 * Errors: DL_IO, DL_RESOURCE. */
dl_mpirun *dl_mpirun_open(int n, const dl_console *out, dl_error *err);
/* Waits until mpirun, a child of this process, and all its descendants have ended. Returns the exit
 * status of the first rank that ended with a status other than 0; DL_PEER where no rank reported
 * one although not all succeeded. together: seconds that a rank may take after the first one has
 * ended; 0: no limit. */
int dl_mpirun_wait(dl_mpirun *job, pid_t mpirun, double together);
void dl_mpirun_close(dl_mpirun *job);
#endif
