#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/signals.h"
#include "ir/base/clock.h"

void progress_begin(progress *p, bool quiet) {
    *p = (progress){.quiet = quiet, .terminal = isatty(STDERR_FILENO), .start = dl_clock_seconds()};
    cli_signals(DL_STOP_CLEANLY);
}

bool progress_show(progress *p, long long step, long long steps, const char *note) {
    double now = dl_clock_seconds();
    double left = step > 0 ? (now - p->start) / (double)step * (double)(steps - step) : 0;
    if (cli_signal_pending()) return false;
    if (p->quiet || (!p->terminal && step > 0 && step < steps && now - p->printed < 10))
        return true;
    p->printed = now;
    if (p->terminal) {
        char bar[31] = "";
        memset(bar, '.', sizeof bar - 1);
        memset(bar, '#', (size_t)((long long)(sizeof bar - 1) * step / steps));
        fprintf(stderr, "\r[%s] step %lld/%lld  %s  %.0f s left   %s", bar, step, steps, note, left,
                step == steps ? "\n" : "");
    } else
        fprintf(stderr, "step %lld/%lld, %s, %.0f s left\n", step, steps, note, left);
    fflush(stderr);
    return true;
}

bool progress_end(progress *p, bool ok, dl_error *err) {
    bool stopped = !ok && cli_signal_pending() && err->code == DL_OK;
    if (stopped)
        fprintf(stderr, "%sdldata: stopped; nothing was written\n", p->terminal ? "\n" : "");
    if (!stopped) cli_forget_signal();
    cli_signals(DL_STOP_AT_ONCE); /* ends us as the sender expects */
    return ok || (stopped && dl_fail(err, DL_IO, "stopped by a signal"));
}

void progress_wrote(const progress *p, const char *shown, uint64_t bytes) {
    printf("wrote %s (%.0f MiB) in %.1f s\n", shown, (double)bytes / (1 << 20),
           dl_clock_seconds() - p->start);
}
