#include "ir/base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/lifeline.h"

/* Precedes the bytes in the socket. */
typedef struct {
    dl_error err;
    uint64_t text, bytes;
    dl_file_calls calls; /* of the reader, which are this process's, too */
} header;

enum { MAX_TEXT = 4 << 20, MAX_BYTES = 256 << 20, WALL_SECONDS = 60 };
static const rlim_t more_memory = (rlim_t)2 << 30;

bool dl_send_bytes(int fd, const void *data, size_t n) {
    for (const char *p = data; n > 0;) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k, n -= (size_t)k;
    }
    return true;
}

bool dl_receive_bytes(int fd, void *data, size_t n) {
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
        if (!dl_receive_bytes(fd, chunk, k)) return false;
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

/* The limit on address space includes the memory that the child inherits (a run's arena, a
 * sanitizer's shadow). */
static rlim_t address_space(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    int n = fscanf(f, "%lu", &pages);
    fclose(f);
    return n == 1 ? (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) : 0;
}

void dl_sandbox_allow(int cpu_seconds) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    if (cpu_seconds)
        limit(RLIMIT_CPU, (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 + cpu_seconds));
    alarm(cpu_seconds ? (unsigned)(WALL_SECONDS + cpu_seconds) : 0);
}

int dl_sandbox_enter(int keep) {
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL, SIGABRT,
                                 SIGALRM, SIGXCPU, SIGCHLD, SIGPIPE};
    static const int of_others[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], SIG_DFL);
    for (size_t i = 0; i < sizeof of_others / sizeof *of_others; i++) signal(of_others[i], SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    if (keep != 3 && dup2(keep, 3) < 0) _exit(1);
    close_range(4, ~0U, 0); /* locks and other children's sockets among them */
    dl_lifeline_bind_socket(3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) dup2(null, STDIN_FILENO), dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
    rlim_t memory = address_space();
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    if (memory) limit(RLIMIT_AS, memory + more_memory);
    return 3;
}

static _Noreturn void be_child(int fd, int cpu_seconds, dl_sandbox_reader *read, void *ctx) {
    fd = dl_sandbox_enter(fd);
    dl_sandbox_allow(cpu_seconds);
    dl_sandbox_result r = {0};
    header h = {0};
    dl_file_calls before = dl_file_calls_so_far(), kernel = dl_file_calls_kernel();
    if (!read(ctx, &r, &h.err) && h.err.code == DL_OK)
        dl_fail(&h.err, DL_INTERNAL, "the reader gave no reason");
    dl_file_calls library = dl_file_calls_of_library(&kernel);
    h.calls = dl_file_calls_since(&before);
    h.calls.reads = library.reads, h.calls.bytes = library.bytes,
    h.calls.unknown += library.unknown;
    h.text = r.text.n, h.bytes = r.bytes.n;
    bool sent = dl_send_bytes(fd, &h, sizeof h) && dl_send_bytes(fd, r.text.at, r.text.n) &&
                dl_send_bytes(fd, r.bytes.at, r.bytes.n);
    _exit(sent ? 0 : 1);
}

void dl_sandbox_fate(int status, char *why, size_t n) {
    int sig = status != -1 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (sig == SIGXCPU || sig == SIGALRM || sig == SIGKILL)
        snprintf(why, n, "reading it took far too long");
    else if (sig)
        snprintf(why, n, "reading it crashed the reader (%s)", strsignal(sig));
    else
        snprintf(why, n, "the reader gave up without a word");
}

bool dl_sandbox_run(const char *path, int cpu_seconds, dl_sandbox_reader *read, void *ctx,
                    dl_sandbox_result *out, dl_error *err) {
    int ends[2], status = -1;
    header h = {0};
    char why[160];
    *out = (dl_sandbox_result){0};
    fflush(NULL); /* so that the child does not print the parent's buffered output */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return dl_fail_errno(err, DL_RESOURCE, "cannot start a process to read %s", path);
    pid_t child = fork();
    if (child < 0) {
        dl_fail_errno(err, DL_RESOURCE, "cannot start a process to read %s", path);
        close(ends[0]), close(ends[1]);
        return false;
    }
    if (child == 0) be_child(ends[1], cpu_seconds, read, ctx);
    close(ends[1]);
    bool whole = dl_receive_bytes(ends[0], &h, sizeof h) &&
                 receive_buffer(ends[0], h.text, MAX_TEXT, &out->text) &&
                 receive_buffer(ends[0], h.bytes, MAX_BYTES, &out->bytes);
    close(ends[0]);
    pid_t ended;
    while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
    }
    if (whole) dl_file_calls_add(&h.calls);
    if (ended < 0) status = -1; /* a parent of ours ignores SIGCHLD */
    h.err.message[sizeof h.err.message - 1] = 0;
    if (whole && h.err.code == DL_OK) return true;
    dl_buf_free(&out->text);
    dl_buf_free(&out->bytes);
    if (whole) return dl_fail(err, h.err.code, "%s", h.err.message);
    dl_sandbox_fate(status, why, sizeof why);
    return dl_fail(err, DL_INPUT, "%s is damaged: %s", path, why);
}
