#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

static const int watched[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGXCPU, SIGQUIT};
enum { N_WATCHED = sizeof watched / sizeof *watched };

static volatile sig_atomic_t pending, mode = DL_STOP_AT_ONCE;
static struct sigaction before[N_WATCHED];

/* A step may take a minute, so this acknowledges the signal at once. A handler may call
 * write(2). */
static void note(int number) {
    static const char text[] =
        "\nstopping after this step, with a checkpoint (Ctrl-C again: at once)\n";
    int saved = errno;
    if (!pending) pending = number;
    if (number == SIGINT && mode == DL_STOP_LATER) {
        signal(SIGINT, SIG_DFL);
        if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
            errno = saved; /* nothing to be done about it */
    }
    errno = saved;
}

static void take_over(void) {
    for (int i = 0; i < N_WATCHED; i++) {
        struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
        sigfillset(&action.sa_mask);
        sigaction(watched[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(watched[i], &action, NULL);
    }
}

static void give_back(void) {
    for (int i = 0; i < N_WATCHED; i++) sigaction(watched[i], &before[i], NULL);
}

void cli_signals(dl_stop how) {
    int unheard = mode == DL_STOP_CLEANLY ? pending : 0;
    if (mode != DL_STOP_AT_ONCE) give_back();
    pending = 0, mode = how;
    if (unheard) raise(unheard);
    if (how != DL_STOP_AT_ONCE) take_over();
}

int cli_signal_pending(void) { return pending; }
void cli_forget_signal(void) { pending = 0; }
