/* The progress bar of a simulating command, and how the command is stopped. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H
#include "ir/base/status.h"
#include <stdint.h>

typedef struct {
    bool quiet, terminal;
    double start, printed;
} progress;

/* Notes requests to stop from now on (cli/signals.h). */
void progress_begin(progress *p, bool quiet);
/* Step 0 to `steps`, with `note` after it: on a terminal a bar in one line; otherwise a line every
 * ten seconds, the first and the last. False when a signal asked to stop. */
bool progress_show(progress *p, long long step, long long steps, const char *note);
/* "wrote PATH (12 MiB) in 3.4 s" on standard output. `shown`: the path as it may be printed. */
void progress_wrote(const progress *p, const char *shown, uint64_t bytes);
/* Gives the signals back. When one came and `ok` is false without an error, says so and ends the
 * process by it. Returns ok, or false with DL_IO. */
bool progress_end(progress *p, bool ok, dl_error *err);
#endif
