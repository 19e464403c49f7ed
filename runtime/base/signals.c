#include "runtime/base/signals.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
} watched[] = {{SIGINT, "SIGINT"},   {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"},
               {SIGUSR2, "SIGUSR2"}, {SIGHUP, "SIGHUP"},   {SIGXCPU, "SIGXCPU"}};
enum { N_WATCHED = sizeof watched / sizeof *watched };

static volatile sig_atomic_t pending;

/* A step may take a minute, so this acknowledges the signal at once. A handler may call
 * write(2). */
static void note(int number) {
    static const char text[] =
        "\nstopping after this step, with a checkpoint (Ctrl-C again: at once)\n";
    int saved = errno;
    if (!pending) pending = number;
    if (number == SIGINT) {
        signal(SIGINT, SIG_DFL);
        if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
            errno = saved; /* nothing to be done about it */
    }
    errno = saved;
}

void dlr_signals_watch(void) {
    pending = 0;
    for (int i = 0; i < N_WATCHED; i++) {
        struct sigaction before, action = {.sa_handler = note, .sa_flags = SA_RESTART};
        sigfillset(&action.sa_mask);
        sigaction(watched[i].number, NULL, &before);
        if (before.sa_handler != SIG_IGN) sigaction(watched[i].number, &action, NULL);
    }
}

int dlr_signal_pending(void) { return pending; }

const char *dlr_signal_name(int number) {
    for (int i = 0; i < N_WATCHED; i++)
        if (watched[i].number == number) return watched[i].name;
    return "a signal";
}
