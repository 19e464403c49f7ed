#include "runtime/formats/terminal.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ir/base/output.h"
#include "ir/base/str.h"

static struct {
    pthread_mutex_t lock;
    dl_buf bar; /* the bar on the last line; n is 0 when there is none */
} terminal = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char erase[] = "\r\033[K";

bool dlr_terminal_is_live(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

bool dlr_terminal_has_colour(void) {
    const char *no = getenv("NO_COLOR");
    return dlr_terminal_is_live() && !(no && *no);
}

int dlr_terminal_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Erases the bar, writes the text and draws `bar`, all in one write. Errors are ignored: when
 * standard error is gone, out.log still has the lines. */
static void redraw(const char *text, size_t n, const dl_buf *bar) {
    dl_buf out = {0};
    if (terminal.bar.n > 0) dl_puts(&out, erase);
    dl_putn(&out, text, n);
    if (bar->n > 0) dl_putn(&out, bar->at, bar->n);
    (void)dl_write_all(STDERR_FILENO, out.at, out.n);
    dl_buf_free(&out);
}

void dlr_terminal_write(const char *text, size_t n) {
    pthread_mutex_lock(&terminal.lock);
    redraw(text, n, &terminal.bar);
    pthread_mutex_unlock(&terminal.lock);
}

void dlr_terminal_set_bar(const char *bar) {
    dl_buf fresh = {0};
    if (bar) dl_puts(&fresh, bar);
    pthread_mutex_lock(&terminal.lock);
    redraw("", 0, &fresh);
    dl_buf_free(&terminal.bar);
    terminal.bar = fresh;
    pthread_mutex_unlock(&terminal.lock);
}
