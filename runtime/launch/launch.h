/* `dlrun -n N`: the ranks of a run, started here by the mpirun that this machine has; and what a
 * rank tells the one that started it. */
#ifndef LAUNCH_H
#define LAUNCH_H
#include <stdbool.h>

#include "ir/base/console.h"

/* Takes -n N out of the command line: how many ranks it asks for, 0 when it is not there, -1 with
 * an error (DL_USAGE). */
int dl_launch_take(int *argc, char **argv, dl_error *err);

/* Runs `n` ranks of this program with these arguments until all have ended, and returns what they
 * ended with (a lost rank is named on `out`): the status of the rank that ended first with another
 * than 0. SIGTERM, SIGINT, SIGUSR1 and their like are passed on as SIGUSR1, which mpirun hands to
 * its ranks; a second one ends them. Processes that are left when mpirun has ended are killed.
 * Ranks that end together do so within `together` seconds of the first that ends, or are named and
 * ended; 0: each ends when it likes. Errors: DL_USAGE, DL_RESOURCE (no mpirun). */
bool dl_launch(int n, double together, int argc, char **argv, int *status, const dl_console *out,
               dl_error *err);

/* A rank's first act: tells its process to who started it, who then can say that it is gone. */
void dl_launch_begin(int rank);
/* All ranks have met. */
void dl_launch_joined(int rank);
/* A rank's last act: tells its exit status to who started it. Returns the status that mpirun should
 * see. */
int dl_launch_report(int rank, int status);
#endif
