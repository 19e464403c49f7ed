#include "dldata/sandbox.h"

#include "dldata/array.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What precedes the bytes in the pipe. */
typedef struct {
    dl_error err;
    uint64_t text, picture;
} header;

enum { MAX_TEXT = 4 << 20, MAX_PICTURE = 256 << 20 };
#define MAX_MEMORY ((rlim_t)4 << 30)

static bool send_bytes(int fd, const void *data, size_t n) {
    for (const char *p = data; n > 0;) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k, n -= (size_t)k;
    }
    return true;
}

static bool receive_bytes(int fd, void *data, size_t n) {
    for (char *p = data; n > 0;) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k, n -= (size_t)k;
    }
    return true;
}

static bool receive_buffer(int fd, uint64_t n, uint64_t most, dl_buf *out) {
    char chunk[65536];
    if (n > most) return false;
    dl_putn(out, "", 0); /* terminated, even when empty */
    for (size_t k; n > 0; n -= k) {
        k = n < sizeof chunk ? (size_t)n : sizeof chunk;
        if (!receive_bytes(fd, chunk, k)) return false;
        dl_putn(out, chunk, k);
    }
    return true;
}

static void limit(int what, rlim_t value) {
    struct rlimit l;
    if (getrlimit(what, &l) != 0) return;
    l.rlim_cur = l.rlim_max != RLIM_INFINITY && l.rlim_max < value ? l.rlim_max : value;
    setrlimit(what, &l);
}

void sandbox_extend(int cpu_seconds) {
    struct rlimit l;
    if (getrlimit(RLIMIT_CPU, &l) == 0 && l.rlim_cur != RLIM_INFINITY)
        limit(RLIMIT_CPU, l.rlim_cur + (rlim_t)cpu_seconds);
}

static _Noreturn void be_child(int fd, int cpu_seconds, sandbox_reader *read, void *ctx) {
    limit(RLIMIT_CPU, (rlim_t)cpu_seconds);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);  /* it writes no file */
#ifndef __SANITIZE_ADDRESS__ /* whose shadow memory needs more addresses than that */
    limit(RLIMIT_AS, MAX_MEMORY);
#endif
    /* A crash is reported by the parent, in its own words. */
    if (!freopen("/dev/null", "w", stderr)) _exit(1);
    sandbox_result r = {0};
    header h = {0};
    if (!read(ctx, &r, &h.err) && h.err.code == DL_OK)
        dl_fail(&h.err, DL_INTERNAL, "the reader gave no reason");
    h.text = r.text.n, h.picture = r.picture.n;
    bool sent = send_bytes(fd, &h, sizeof h) && send_bytes(fd, r.text.at, r.text.n) &&
                send_bytes(fd, r.picture.at, r.picture.n);
    _exit(sent ? 0 : 1);
}

bool sandbox_run(const char *path, int cpu_seconds, sandbox_reader *read, void *ctx, sandbox_result *out,
                 dl_error *err) {
    int pipes[2], status = 0;
    header h = {0};
    *out = (sandbox_result){0};
    fflush(NULL); /* so that the child does not print what the parent has buffered */
    if (pipe(pipes) != 0) return dl_fail_errno(err, DL_RESOURCE, "cannot make a pipe");
    pid_t child = fork();
    if (child < 0) {
        dl_fail_errno(err, DL_RESOURCE, "cannot start a process to read %s", path);
        close(pipes[0]), close(pipes[1]);
        return false;
    }
    if (child == 0) {
        close(pipes[0]);
        be_child(pipes[1], cpu_seconds, read, ctx);
    }
    close(pipes[1]);
    bool whole = receive_bytes(pipes[0], &h, sizeof h) &&
                 receive_buffer(pipes[0], h.text, MAX_TEXT, &out->text) &&
                 receive_buffer(pipes[0], h.picture, MAX_PICTURE, &out->picture);
    close(pipes[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    h.err.message[sizeof h.err.message - 1] = 0;
    if (whole && h.err.code == DL_OK) return true;
    dl_buf_free(&out->text);
    dl_buf_free(&out->picture);
    if (whole) return dl_fail(err, h.err.code, "%s", h.err.message);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return dl_fail(err, DL_INPUT, "%s is damaged: reading it took far too long", path);
    if (WIFSIGNALED(status))
        return dl_fail(err, DL_INPUT, "%s is damaged: reading it crashed the reader (%s)", path,
                       strsignal(WTERMSIG(status)));
    return dl_fail(err, DL_INPUT, "%s is damaged: the reader gave up without a word", path);
}

static bool read_generator(void *ctx, sandbox_result *out, dl_error *err) {
    return hdf5_read_generator(ctx, &out->text, err);
}

bool sandbox_generator(const char *path, char *generator, size_t n) {
    dl_error err = {0};
    sandbox_result r;
    char *name = (char *)(uintptr_t)path;
    if (!sandbox_run(path, 10, read_generator, name, &r, &err)) return false;
    snprintf(generator, n, "%s", r.text.at);
    dl_buf_free(&r.text);
    dl_buf_free(&r.picture);
    return true;
}
