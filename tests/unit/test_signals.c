/* cli/signals.h: which signals are noted, and what ends the process. */
#include "cli/signals.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"

/* The status of a child that does this. */
static int child(void (*act)(void)) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        fclose(stderr), close(2);
        act();
        _exit(2);
    }
    waitpid(pid, &status, 0);
    return status;
}

static void press_twice(void) {
    cli_signals(DL_STOP_LATER);
    raise(SIGINT);
    if (cli_signal_pending() != SIGINT) _exit(1);
    raise(SIGINT);
}

static void give_up(void) {
    cli_signals(DL_STOP_CLEANLY);
    raise(SIGTERM), raise(SIGTERM);
    if (cli_signal_pending() != SIGTERM) _exit(1);
    cli_signals(DL_STOP_AT_ONCE);
}

static void come_too_late(void) {
    cli_signals(DL_STOP_LATER);
    raise(SIGTERM);
    cli_signals(DL_STOP_AT_ONCE);
    _exit(cli_signal_pending() == 0 ? 0 : 1);
}

static void ignored(void) {
    cli_signals(DL_STOP_AT_ONCE);
    signal(SIGHUP, SIG_IGN);
    cli_signals(DL_STOP_LATER);
    raise(SIGHUP);
    _exit(cli_signal_pending() == 0 ? 0 : 1);
}

int main(void) {
    cli_signals(DL_STOP_LATER);
    CHECK(cli_signal_pending() == 0);
    raise(SIGUSR1), raise(SIGTERM), raise(SIGTERM);
    CHECK(cli_signal_pending() == SIGUSR1, "the first one counts");
    CHECK_STR(dl_signal_name(SIGUSR1), "SIGUSR1");
    cli_signals(DL_STOP_LATER);
    CHECK(cli_signal_pending() == 0);
    int status = child(press_twice);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %x", (unsigned)status);
    status = child(give_up);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status %x", (unsigned)status);
    CHECK(child(come_too_late) == 0);
    CHECK(child(ignored) == 0);
    return dl_test_end();
}
