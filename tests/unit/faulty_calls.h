/* The system calls that change the file system, defined here in front of libc's, and those that
 * read it: each counts, and the k-th can kill the process (a write then leaves half its bytes) or
 * fail, once or from then on. fsync and fdatasync themselves are left out, because a killed process
 * loses nothing of the page cache: only their failures matter here. For one source file a program,
 * in front of all its other includes. */
#ifndef DL_FAULTY_CALLS_H
#define DL_FAULTY_CALLS_H
#undef _FORTIFY_SOURCE /* its wrappers would stand where those of this file do */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum { NO_FAULT, KILL, FAIL_ONCE, FAIL_ON } fault_kind;
static struct {
    fault_kind kind;
    int at;             /* the call that it hits */
    atomic_int calls;   /* so far, of all threads */
    bool reads;         /* calls that read count, and those that write do not */
    atomic_bool sleeps; /* calls that make durable wait until this is false */
} fault;

/* Whether this call fails; does not return where it kills. */
static bool hit_one(void) {
    int call = atomic_fetch_add(&fault.calls, 1) + 1;
    bool now = call == fault.at || (fault.kind == FAIL_ON && call > fault.at);
    if (!now || fault.kind == NO_FAULT) return false;
    if (fault.kind == KILL) kill(getpid(), SIGKILL);
    errno = EIO;
    return true;
}
static bool hit(void) { return !fault.reads && hit_one(); }
static bool hit_read(void) { return fault.reads && hit_one(); }
static bool is_next_kill(void) {
    return !fault.reads && fault.kind == KILL && fault.calls + 1 == fault.at;
}

ssize_t write(int fd, const void *data, size_t n) {
    if (is_next_kill()) syscall(SYS_write, fd, data, n / 2);
    return hit() ? -1 : syscall(SYS_write, fd, data, n);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    if (is_next_kill()) syscall(SYS_pwrite64, fd, data, n / 2, at);
    return hit() ? -1 : syscall(SYS_pwrite64, fd, data, n, at);
}
static int make_durable(int fd) {
    (void)fd;
    while (atomic_load(&fault.sleeps)) usleep(100);
    return hit() ? -1 : 0;
}
int fsync(int fd) { return make_durable(fd); }
int fdatasync(int fd) { return make_durable(fd); }
int rename(const char *from, const char *to) {
    return hit() ? -1 : (int)syscall(SYS_rename, from, to);
}
int mkdir(const char *path, mode_t mode) {
    return hit() ? -1 : (int)syscall(SYS_mkdir, path, mode);
}
int symlink(const char *to, const char *path) {
    return hit() ? -1 : (int)syscall(SYS_symlink, to, path);
}
int unlink(const char *path) { return hit() ? -1 : (int)syscall(SYS_unlink, path); }
int rmdir(const char *path) { return hit() ? -1 : (int)syscall(SYS_rmdir, path); }
int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    bool writes = flags & (O_CREAT | O_WRONLY | O_RDWR);
    return (writes ? hit() : hit_read()) ? -1
                                         : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
ssize_t read(int fd, void *data, size_t n) {
    return hit_read() ? -1 : syscall(SYS_read, fd, data, n);
}
ssize_t pread(int fd, void *data, size_t n, off_t at) {
    return hit_read() ? -1 : syscall(SYS_pread64, fd, data, n, at);
}
ssize_t readlink(const char *path, char *to, size_t n) {
    return hit_read() ? -1 : syscall(SYS_readlink, path, to, n);
}
#endif
