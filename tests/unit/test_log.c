/* Log lines and the progress bar, on a pseudo-terminal and on a pipe. */
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <regex.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/str.h"
#include "runtime/formats/log.h"
#include "runtime/formats/progress.h"
#include "runtime/formats/terminal.h"
#include "tests/check.h"

static const char line_form[] =
    "^[0-9]{4}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9],[0-9]{3} - root - "
    "(INFO|WARNING|ERROR) - (.*)$";

static bool matches(const char *s, const char *pattern) {
    regex_t re;
    if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0) return false;
    bool yes = regexec(&re, s, 0, NULL, 0) == 0;
    regfree(&re);
    return yes;
}

/* Standard error led into `fd`, then back. */
static int redirect(int fd) {
    int saved = dup(STDERR_FILENO);
    CHECK(saved >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    return saved;
}

static void restore(int saved) {
    dup2(saved, STDERR_FILENO);
    close(saved);
}

/* All that is there to read now. */
static char *drain(dl_arena *a, int fd) {
    dl_buf b = {0};
    char piece[4096];
    ssize_t n;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while ((n = read(fd, piece, sizeof piece)) > 0) dl_putn(&b, piece, (size_t)n);
    char *text = dl_strdup(a, b.at ? b.at : "");
    dl_buf_free(&b);
    return text;
}

enum { THREADS = 4, LINES = 200 };

static void *talk(void *who) {
    for (int i = 0; i < LINES; i++)
        dlr_log_info("thread %s line %d of %d", (const char *)who, i, LINES);
    return NULL;
}

static void test_lines(dl_arena *a) {
    char path[] = "/tmp/dl_test_XXXXXX";
    int file = mkstemp(path), ends[2];
    dl_error err = {0};
    CHECK(file >= 0 && pipe(ends) == 0);
    close(file);
    int saved = redirect(ends[1]);
    CHECK(dlr_log_open(path, &err), "%s", err.message);
    dlr_log_info("Time taken for epoch %d is %f sec", 1, 61.425346);
    dlr_log_debug("not this");
    dlr_log_set_level(DLR_WARNING);
    dlr_log_info("nor this");
    dlr_log_warning("fault at 100%%");
    dlr_log_set_level(DLR_INFO);
    dlr_log_set_stderr(false);
    dlr_log_error("in the file only");
    pthread_t threads[THREADS];
    const char *names[THREADS] = {"a", "b", "c", "d"};
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, talk, (void *)names[i]) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    dlr_log_set_stderr(true);
    CHECK(dlr_log_close(&err), "%s", err.message);
    restore(saved);

    char *seen = drain(a, ends[0]), *written = dl_read_file(a, path, 1 << 20, NULL, &err);
    CHECK(written && strncmp(written, seen, strlen(seen)) == 0);
    int lines = 0;
    char before[32] = "", *rest = written;
    for (char *line; (line = strsep(&rest, "\n")) && rest; lines++) {
        CHECK(matches(line, line_form), "%s", line);
        CHECK(strncmp(line, before, 23) >= 0, "%s after %s", line, before);
        memcpy(before, line, 23);
    }
    CHECK(lines == 3 + THREADS * LINES, "%d lines", lines);
    CHECK(strstr(seen, " - root - INFO - Time taken for epoch 1 is 61.425346 sec\n") &&
          strstr(seen, " - WARNING - fault at 100%\n"));
    CHECK(!strstr(seen, "this") && !strstr(seen, "only"));
    CHECK(!dlr_log_open("/nonexistent/out.log", &err) && err.code == DL_IO);
    if (access("/dev/full", W_OK) == 0) { /* a full disk: told at the end, never a crash */
        err = (dl_error){0};
        saved = redirect(ends[1]);
        CHECK(dlr_log_open("/dev/full", &err));
        dlr_log_info("lost");
        CHECK(!dlr_log_close(&err) && strstr(err.message, "No space"), "%s", err.message);
        restore(saved);
    }
    close(ends[0]), close(ends[1]);
    unlink(path);
}

/* A terminal's screen: lines, and the last one as it stands after \r and erasing. */
static char *screen(dl_arena *a, const char *s) {
    dl_buf out = {0};
    size_t start = 0;
    dl_puts(&out, "");
    for (; *s; s++) {
        if (strncmp(s, "\r\033[K", 4) == 0) {
            out.at[out.n = start] = 0;
            s += 3;
        } else if (*s == '\033') {
            s += strcspn(s, "m"); /* a colour */
        } else if (*s != '\r') {
            dl_putn(&out, s, 1);
            if (*s == '\n') start = out.n;
        }
    }
    char *text = dl_strdup(a, out.at);
    dl_buf_free(&out);
    return text;
}

static void test_bar(dl_arena *a, bool colour, int columns) {
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int master, slave;
    if (openpty(&master, &slave, NULL, NULL, &size) != 0) {
        dl_test_skip("the bar at %d columns: this machine gives no terminals (/dev/pts)", columns);
        return;
    }
    setenv("TERM", "xterm", 1);
    colour ? unsetenv("NO_COLOR") : setenv("NO_COLOR", "1", 1);
    int saved = redirect(slave);
    dlr_progress p;
    dlr_progress_start(&p, "epoch 1/2", 4);
    dlr_progress_step(&p, 8, 0.0521);
    char *first = drain(a, master);
    for (int i = 0; i < 1000; i++)
        dlr_progress_step(&p, 0, 0.05); /* far too fast to be drawn each time */
    char *fast = drain(a, master);
    p.done = 2, p.drawn = -INFINITY;
    dlr_progress_step(&p, 8, NAN);
    dlr_log_info("a line above");
    char *later = drain(a, master);
    dlr_progress_finish(&p);
    dlr_log_info("the end");
    char *last = drain(a, master),
         *all = screen(a, dl_format(a, "%s%s%s%s", first, fast, later, last));
    restore(saved);
    close(master), close(slave);

    const char *shown = screen(a, first);
    CHECK((strstr(first, "\033[32m") != NULL) == (colour && columns == 80), "%s", first);
    if (columns == 80)
        CHECK(matches(
                  shown,
                  "^epoch 1/2   25% \\[=+> +\\] 1/4  [0-9.e+]+ samples/s  loss 0.0521  0:00 left$"),
              "'%s'", shown);
    CHECK((int)strlen(shown) == columns - 1, "%zu columns of %d: '%s'", strlen(shown), columns,
          shown);
    int redraws = 0;
    for (const char *s = fast; (s = strstr(s, "\033[K")); s++) redraws++;
    CHECK(redraws <= 2, "%d redraws", redraws);
    const char *mid = screen(a, later), *newline = strchr(mid, '\n');
    CHECK(newline && matches(newline + 1, "^epoch 1/2   75%"), "'%s'",
          mid); /* the bar again below the line */
    if (columns == 80) CHECK(newline && !strstr(newline, "loss"), "%s", mid);
    CHECK(matches(all, "^[^\n]* - root - INFO - a line above\n[^\n]* - root - INFO - the end\n$"),
          "'%s'", all);
}

static void test_plain(dl_arena *a) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    int saved = redirect(ends[1]);
    dlr_progress p;
    dlr_progress_start(&p, "epoch 2/2", 100);
    for (int i = 0; i < 9; i++) dlr_progress_step(&p, 4, 0.25);
    p.started -= 60, p.drawn -= 60; /* as if a minute had passed */
    dlr_progress_step(&p, 4, 0.25);
    dlr_progress_step(&p, 4, 0.25);
    p.drawn -= 60; /* long enough, but no tenth of the epoch */
    dlr_progress_step(&p, 4, 0.25);
    dlr_progress_finish(&p);
    char *seen = drain(a, ends[0]);
    CHECK_STR(seen, "epoch 2/2: 10/100 batches, 0.667 samples/s, loss 0.25, 9:00 left\n");
    dlr_progress_start(&p, "reading", 0);
    p.started -= 20, p.drawn -= 20;
    dlr_progress_step(&p, 10, NAN);
    CHECK_STR(drain(a, ends[0]), "reading: 1 batch, 0.5 samples/s\n");
    restore(saved);
    close(ends[0]), close(ends[1]);
}

int main(void) {
    dl_arena *a = dl_arena_new(NULL);
    test_lines(a);
    test_bar(a, true, 80);
    test_bar(a, false, 80);
    test_bar(a, true, 30);
    test_plain(a);
    dl_arena_free(a);
    return dl_test_end();
}
