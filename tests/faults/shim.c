/* Loaded before a program's own libraries (LD_PRELOAD), makes its k-th request to the system fail:
 *
 *   FAULT_OF=NAME      the program meant; in others (the C compiler it starts) nothing fails
 *   FAULT_KIND         memory: malloc and its kin, mmap, fork; files: open, read, write, sync,
 * rename, pipes and their kin FAULT_AT=K         which request, from 1; 0: none FAULT_EVER not that
 * one alone but every one from it on FAULT_KILL         the process is killed in its place (a write
 * has written half of its bytes) FAULT_COUNT=FILE   where the number of requests is left at the
 * end, for the sweep to know how far to go
 *
 * One thread's requests come in a fixed order, several threads' nearly so: a sweep over k meets
 * every request. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, MEMORY, FILES };

static int kind, ever, kills;
static long fail_at;
static const char *count_path;
static atomic_long requests;

/* True when this request is one that must fail. */
static bool fails(int of) {
    if (kind != of) return false;
    long k = atomic_fetch_add(&requests, 1) + 1;
    if (kills && k == fail_at) kill(getpid(), SIGKILL);
    return fail_at && (ever ? k >= fail_at : k == fail_at);
}

/* True when the next request is one that kills. */
static bool is_last(int of) { return kills && kind == of && atomic_load(&requests) + 1 == fail_at; }

static void *next(const char *name) {
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) abort();
    return f;
}

__attribute__((constructor)) static void start(void) {
    const char *of = getenv("FAULT_OF"), *what = getenv("FAULT_KIND"), *at = getenv("FAULT_AT");
    if (!of || !what || strcmp(of, program_invocation_short_name) != 0) return;
    fail_at = at ? atol(at) : 0;
    ever = getenv("FAULT_EVER") != NULL, kills = getenv("FAULT_KILL") != NULL;
    count_path = getenv("FAULT_COUNT");
    kind = strcmp(what, "memory") == 0 ? MEMORY : FILES; /* last: nothing fails before */
}

__attribute__((destructor)) static void leave(void) {
    long n = atomic_load(&requests);
    bool mine = kind != NONE;
    kind = NONE;
    if (!mine || !count_path) return;
    char text[32];
    int length = snprintf(text, sizeof text, "%ld", n),
        fd = open(count_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0 && write(fd, text, (size_t)length) != length) abort();
    if (fd >= 0) close(fd);
}

/* One wrapper a function: NAME(type, name, (parameters), (arguments), kind, errno, value on
 * failure). */
#define WRAP(type, name, parameters, arguments, of, error, failed)                                 \
    type name parameters {                                                                         \
        static type(*real) parameters;                                                             \
        if (!real) *(void **)&real = next(#name);                                                  \
        if (fails(of)) {                                                                           \
            errno = error;                                                                         \
            return failed;                                                                         \
        }                                                                                          \
        return real arguments;                                                                     \
    }

/* glibc's own names: dlsym may allocate itself, so malloc cannot be looked up by it. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { return fails(MEMORY) ? (errno = ENOMEM, NULL) : __libc_malloc(n); }
void *calloc(size_t n, size_t size) {
    return fails(MEMORY) ? (errno = ENOMEM, NULL) : __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    return fails(MEMORY) ? (errno = ENOMEM, NULL) : __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    return fails(MEMORY) ? (errno = ENOMEM, NULL) : __libc_memalign(align, n);
}
int posix_memalign(void **p, size_t align, size_t n) {
    if (fails(MEMORY)) return ENOMEM;
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}
WRAP(pid_t, fork, (void), (), MEMORY, EAGAIN, -1)
WRAP(void *, mmap, (void *at, size_t n, int protect, int flags, int fd, off_t offset),
     (at, n, protect, flags, fd, offset), MEMORY, ENOMEM, MAP_FAILED)

#define MODE_OF(flags, mode)                                                                       \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                       \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode = va_arg(list, mode_t);                                                               \
        va_end(list);                                                                              \
    }
int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    if (!real) *(void **)&real = next("open");
    MODE_OF(flags, mode)
    return fails(FILES) ? (errno = EIO, -1) : real(path, flags, mode);
}
int openat(int dir, const char *path, int flags, ...) {
    static int (*real)(int, const char *, int, ...);
    if (!real) *(void **)&real = next("openat");
    MODE_OF(flags, mode)
    return fails(FILES) ? (errno = EIO, -1) : real(dir, path, flags, mode);
}
/* The fortified open's name where its mode cannot be needed. */
int __open64_2(const char *path, int flags);
WRAP(int, __open64_2, (const char *path, int flags), (path, flags), FILES, EIO, -1)
WRAP(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), FILES, EIO, -1)
WRAP(ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), FILES, EIO, -1)
WRAP(ssize_t, preadv, (int fd, const struct iovec *to, int n, off_t at), (fd, to, n, at), FILES,
     EIO, -1)
ssize_t write(int fd, const void *from, size_t n) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) *(void **)&real = next("write");
    if (is_last(FILES) && real(fd, from, n / 2) < 0) errno = EIO; /* it is over anyway */
    return fails(FILES) ? (errno = ENOSPC, -1) : real(fd, from, n);
}
WRAP(ssize_t, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at), FILES,
     ENOSPC, -1)
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), FILES, ENOSPC, -1)
WRAP(int, fsync, (int fd), (fd), FILES, EIO, -1)
WRAP(int, fdatasync, (int fd), (fd), FILES, EIO, -1)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), FILES, EIO, -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), FILES, EIO, -1)
WRAP(int, renameat, (int d, const char *from, int e, const char *to), (d, from, e, to), FILES, EIO,
     -1)
WRAP(int, link, (const char *from, const char *to), (from, to), FILES, EIO, -1)
WRAP(int, symlink, (const char *to, const char *at), (to, at), FILES, EIO, -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), FILES, EIO, -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), FILES, EMFILE, -1)
WRAP(int, pipe2, (int ends[2], int flags), (ends, flags), FILES, EMFILE, -1)
WRAP(int, socketpair, (int domain, int type, int protocol, int ends[2]),
     (domain, type, protocol, ends), FILES, EMFILE, -1)
typedef int pick(const struct dirent *);
typedef int order(const struct dirent **, const struct dirent **);
WRAP(int, scandir, (const char *path, struct dirent ***list, pick *p, order *o), (path, list, p, o),
     FILES, EMFILE, -1)
WRAP(DIR *, opendir, (const char *path), (path), FILES, EMFILE, NULL)
WRAP(int, mkstemp, (char *name), (name), FILES, EIO, -1)
WRAP(char *, mkdtemp, (char *name), (name), FILES, EIO, NULL)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), FILES, EIO, NULL)
WRAP(int, fflush, (FILE * f), (f), FILES, ENOSPC, EOF)
