/* `dlrun -n N`: starts the ranks of a run by this machine's mpirun, and lets each rank report to
 * the process that started it. */
#ifndef LAUNCH_H
#define LAUNCH_H
#include <stdbool.h>

#include "ir/base/console.h"

/* Removes -n N from the command line and returns N: 0 where the option is absent, -1 with an error
 * (DL_USAGE). */
int dl_launch_take(int *argc, char **argv, dl_error *err);

/* Runs `n` ranks of this program with these arguments and returns when all have ended. *status: the
 * exit status of the first rank that ended with a status other than 0; otherwise 0. A lost rank is
 * named on `out`. SIGTERM, SIGINT, SIGUSR1 and similar signals are forwarded as SIGUSR1, which
 * mpirun passes to its ranks; a second signal kills them. Processes that outlive mpirun are killed.
 * together: after the first rank has ended, the others must end within so many seconds; those that
 * do not are named and killed. 0: no limit. Errors: DL_USAGE, DL_RESOURCE (no mpirun). */
bool dl_launch(int n, double together, int argc, char **argv, int *status, const dl_console *out,
               dl_error *err);

/* Called by each rank at its start: reports its process id to the process that started it, which
 * can then detect that the rank is gone. */
void dl_launch_begin(int rank);
/* Reports that this rank has passed the first barrier of all ranks. */
void dl_launch_joined(int rank);
/* Called by each rank at its end: reports its exit status. Returns the status that the rank should
 * exit with, for mpirun. */
int dl_launch_report(int rank, int status);
#endif
