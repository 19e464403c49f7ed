/* Asked to stop: SIGINT (Ctrl-C), SIGTERM, SIGUSR1 and SIGUSR2 (Slurm's --signal, before the time
 * limit), SIGHUP (the terminal is gone), SIGXCPU (a limit on processor time is near). The first one
 * only sets a flag, which the loop reads between steps; a second Ctrl-C ends the process at
 * once. */
#ifndef DLR_SIGNALS_H
#define DLR_SIGNALS_H
#include <stdbool.h>

/* Takes the signals over for the rest of the process, and forgets earlier ones. A signal that is
 * ignored (in a shell's background job, by nohup) stays ignored. Start other threads with these
 * signals blocked, so that they reach the one that waits. */
void dlr_signals_watch(void);
/* The first signal since then, or 0. */
int dlr_signal_pending(void);
/* "SIGTERM". */
const char *dlr_signal_name(int signal);
#endif
