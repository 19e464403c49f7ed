/* Other programs, run side by side: each in a process group of its own, and none outlives us,
 * killed by SIGKILL or not. */
#ifndef DL_PROCESS_H
#define DL_PROCESS_H
#include <sys/types.h>

#include "ir/base/lifeline.h"
#include "ir/base/out.h"
#include "ir/base/status.h"

typedef struct {
    char *const *argv; /* argv[0] is the program's path; NULL-terminated */
    const char *log;   /* a file that takes what it prints; its input is empty */
    pid_t pid;
    dl_lifeline life; /* both are dl_run_all's own */
    int status;       /* as waitpid has it, once it has ended; -1 where the system lost it */
} dl_command;

/* Runs all commands at once with temporary files in `tmp`, and waits for them. After `patience`
 * seconds `out` (or NULL) is told so, once, with their name. A signal that would end us (SIGINT,
 * SIGTERM, SIGHUP,
 * ...) kills all groups; it is not lost, but returned for the caller to raise when it has cleaned
 * up: dl_run_all gives 0 (all ended), the signal, or -1 with an error (DL_RESOURCE: one cannot be
 * started; the rest is killed). A SIGCHLD that our parent ignored is taken back meanwhile. Not for
 * two threads at once. */
int dl_run_all(int n, dl_command *commands, const char *tmp, double patience, const dl_out *out,
               dl_error *err);
#endif
