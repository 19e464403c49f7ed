/* Requests to stop: SIGINT (Ctrl-C), SIGTERM, SIGUSR1 and SIGUSR2 (Slurm's --signal, before the
 * time limit), SIGHUP (the terminal is gone), SIGXCPU (a limit on processor time is near), SIGQUIT.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H
#include "ir/base/console.h"

/* How signals are taken from now on; requests before are forgotten. DL_STOP_LATER: the first one
 * is noted, and a second Ctrl-C ends the process. DL_STOP_CLEANLY: each is noted.
 * DL_STOP_AT_ONCE: as before the first call; a request that was noted for a clean stop is raised
 * again, so that the process ends as its sender expects. A signal that is ignored (in a shell's
 * background job, by nohup) stays ignored. Start other threads with these signals blocked, so that
 * they reach the thread that waits. */
void cli_signals(dl_stop how);
/* The first signal since then, or 0. */
int cli_signal_pending(void);
/* Forgets it: the work was done before it came. */
void cli_forget_signal(void);
#endif
