/* Runs other programs in parallel, each in a process group of its own. None outlives this
 * process, even if it is killed by SIGKILL. */
#ifndef DL_PROCESS_H
#define DL_PROCESS_H
#include <sys/types.h>

#include "ir/base/console.h"
#include "ir/base/lifeline.h"
#include "ir/base/status.h"

typedef struct {
    char *const *argv; /* argv[0] is the program's path; NULL-terminated */
    const char *log;   /* a file for its output; its input is empty */
    pid_t pid;
    int fd;           /* of the process; -1: none */
    dl_lifeline life; /* these three are dl_run_all's own */
    int status;       /* as waitpid has it, once it has ended; -1 where the system lost it */
} dl_command;

/* Runs all commands at once with temporary files in `tmp`, and waits for them. After `patience`
 * seconds `console` (or NULL) is warned, once, with their name. When the user asks to stop
 * (dl_console_stop_requested) all groups are killed. Returns 0 (all ended), that signal, or -1 with
 * an error (DL_RESOURCE: one cannot be started; the rest is killed). An ignored SIGCHLD is set to
 * its default meanwhile. */
int dl_run_all(int n, dl_command *commands, const char *tmp, double patience,
               const dl_console *console, dl_error *err);
#endif
