#include "runtime/formats/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/foreign.h"
#include "ir/base/output.h"
#include "runtime/formats/terminal.h"

static struct {
    /* guards the file; held over both writes, so that both outputs have the same order */
    pthread_mutex_t lock;
    int fd;
    int failed; /* errno of the first line that could not be written to the file */
    char *path;
    atomic_int level;
    atomic_bool quiet, unnamed;
    atomic_int rank;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .level = DLR_INFO, .rank = -1};

static const char *const level_names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

static void put_time(dl_buf *b) {
    struct timespec t;
    struct tm local;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &t);
    localtime_r(&t.tv_sec, &local);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    dl_putf(b, "%s,%03ld", text, t.tv_nsec / 1000000);
}

static void write_stderr(const dl_buf *line) {
    int rank = atomic_load(&sink.rank);
    dl_buf b = {0};
    if (rank >= 0) dl_putf(&b, "rank %d: %.*s", rank, (int)line->n, line->at);
    dlr_terminal_write(rank < 0 ? line->at : b.at, rank < 0 ? line->n : b.n);
    dl_buf_free(&b);
}

void dlr_log(dlr_log_level level, const char *format, ...) {
    if ((int)level < atomic_load(&sink.level)) return;
    dl_buf line = {0};
    char *message = NULL;
    va_list ap;
    va_start(ap, format);
    int n = vasprintf(&message, format, ap);
    va_end(ap);
    if (n < 0) dl_no_memory(0);
    /* the time is taken under the lock: lines are in the order of their times */
    pthread_mutex_lock(&sink.lock);
    put_time(&line);
    dl_putf(&line, atomic_load(&sink.unnamed) ? " %s " : " - root - %s - ", level_names[level]);
    dl_put_foreign(&line, DL_IN_LINE, message);
    dl_puts(&line, "\n");
    if (!atomic_load(&sink.quiet)) write_stderr(&line);
    if (sink.fd >= 0 && !dl_write_all(sink.fd, line.at, line.n) && !sink.failed)
        sink.failed = errno;
    pthread_mutex_unlock(&sink.lock);
    dl_buf_free(&line);
    free(message);
}

bool dlr_log_open(const char *path, dl_error *err) {
    int fd = dl_append_open(path, DL_APPEND, err);
    if (fd < 0) return false;
    char *copy = strcpy(dl_malloc(strlen(path) + 1), path);
    pthread_mutex_lock(&sink.lock);
    if (sink.fd >= 0) close(sink.fd);
    free(sink.path);
    sink.fd = fd, sink.path = copy, sink.failed = 0;
    pthread_mutex_unlock(&sink.lock);
    return true;
}

bool dlr_log_close(dl_error *err) {
    pthread_mutex_lock(&sink.lock);
    if (sink.fd >= 0 && close(sink.fd) != 0 && !sink.failed) sink.failed = errno;
    errno = sink.failed;
    bool ok = !sink.failed || dl_fail_errno(err, DL_IO, "lines are missing in %s", sink.path);
    free(sink.path);
    sink.fd = -1, sink.path = NULL, sink.failed = 0;
    pthread_mutex_unlock(&sink.lock);
    return ok;
}

void dlr_log_set_level(dlr_log_level level) { atomic_store(&sink.level, (int)level); }
void dlr_log_set_named(bool on) { atomic_store(&sink.unnamed, !on); }
void dlr_log_set_stderr(bool on) { atomic_store(&sink.quiet, !on); }
void dlr_log_set_rank(int rank) { atomic_store(&sink.rank, rank); }
