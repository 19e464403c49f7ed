#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/signals.h"
#include "ir/base/clock.h"

void progress_begin(progress *p, bool quiet) {
    *p = (progress){.quiet = quiet, .terminal = isatty(STDERR_FILENO), .start = dl_clock_seconds()};
    for (int i = 0; i < 2; i++) /* signals that the parent ignores stay ignored */
        if (sigaction(signals[i], NULL, &p->old[i]) == 0 && p->old[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &act, NULL);
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
    for (int i = 0; i < 2; i++) sigaction(signals[i], &p->old[i], NULL);
    if (ok || !progress_stop || err->code != DL_OK) return ok;
    fprintf(stderr, "%sdldata: stopped; nothing was written\n", p->terminal ? "\n" : "");
    raise(progress_stop); /* ends the process as the sender expects; if the signal is blocked, the
                             error below does */
    return dl_fail(err, DL_IO, "stopped by a signal");
}

void progress_wrote(const progress *p, const char *shown, uint64_t bytes) {
    printf("wrote %s (%.0f MiB) in %.1f s\n", shown, (double)bytes / (1 << 20),
           dl_clock_seconds() - p->start);
}
