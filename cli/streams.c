#include "cli/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/status.h"

/* Unlike SIG_IGN a handler is not handed on to programs that we start. */
static void pass_over(int number) { (void)number; }

void cli_streams_start(void) {
    static const int signals[] = {SIGPIPE, SIGXFSZ};
    struct stat st;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        /* The lowest free number is the one that is wanted. Without it nothing can be opened
         * safely. */
        if (fstat(fd, &st) != 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd) _exit(DL_IO);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now, quiet = {.sa_handler = pass_over, .sa_flags = SA_RESTART};
        sigemptyset(&quiet.sa_mask);
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(signals[i], &quiet, NULL);
    }
}

int cli_streams_end(const char *program, int code) {
    bool lost = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0 || fclose(stdout) != 0) lost = true;
    if (!lost || code != DL_OK) return code;
    fprintf(stderr, "%s: error: cannot write to standard output%s%s\n", program, errno ? ": " : "",
            errno ? strerror(errno) : "");
    return DL_IO;
}
