/* Progress output of the simulating commands, and stopping them. */
#ifndef DLDATA_PROGRESS_H
#define DLDATA_PROGRESS_H
#include "ir/base/status.h"
#include <stdint.h>

typedef struct {
    bool quiet, terminal;
    double start, printed;
} progress;

/* Handles Ctrl-C and SIGTERM (unless the parent ignores them): they set progress_stop. */
void progress_begin(progress *p, bool quiet);
/* Shows step 0 to `steps`, followed by `note`: on a terminal a bar in one line; otherwise a line
 * every ten seconds, and the first and the last step. False when a signal has requested a stop. */
bool progress_show(progress *p, long long step, long long steps, const char *note);
/* Prints "wrote PATH (12 MiB) in 3.4 s" on standard output. `shown`: the path in printable form. */
void progress_wrote(const progress *p, const char *shown, uint64_t bytes);
/* Restores the signal handlers. When a signal came and `ok` is false without an error, prints it
 * and ends the process by it. Returns ok, or false with DL_IO. */
bool progress_end(progress *p, bool ok, dl_error *err);
#endif
