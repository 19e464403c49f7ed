/* Asked to stop: SIGINT (Ctrl-C), SIGTERM and SIGUSR1 (Slurm's --signal, before the time limit). A first one
 * only sets a flag, which the loop looks at between steps; a second Ctrl-C ends the process at once. */
#ifndef DLR_SIGNALS_H
#define DLR_SIGNALS_H
#include <stdbool.h>

/* Takes the signals over and forgets those of before. A SIGINT that is ignored (a shell's background job)
 * stays so. Start other threads with these signals blocked, so that they reach the one that waits. */
void dlr_signals_watch(void);
/* Gives them back to whom they belonged. */
void dlr_signals_release(void);
/* The signal that came first since then, or 0. */
int dlr_signal_pending(void);
/* "SIGTERM". */
const char *dlr_signal_name(int signal);
#endif
