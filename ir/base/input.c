#include "ir/base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/memory.h"
#include "ir/base/str.h"

/* ---- inputs that are remembered ---- */

typedef struct {
    dev_t device;
    ino_t inode;
    const char *name;
} remembered;

static struct {
    pthread_mutex_t lock;
    remembered *at;
    int n, cap;
} inputs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_same(const remembered *r, const struct stat *st) {
    return r->device == st->st_dev && r->inode == st->st_ino;
}

static void remember(const struct stat *st, const char *path) {
    if (!S_ISREG(st->st_mode)) return;
    const char *name = dl_intern(path);
    dl_lock_guarded(&inputs.lock);
    int i = 0;
    while (i < inputs.n && !(is_same(&inputs.at[i], st) && inputs.at[i].name == name)) i++;
    if (i == inputs.cap) {
        int cap = inputs.cap ? 2 * inputs.cap : 8;
        inputs.at = dl_realloc(inputs.at, (size_t)cap * sizeof *inputs.at);
        inputs.cap = cap;
    }
    if (i == inputs.n) inputs.at[inputs.n++] = (remembered){st->st_dev, st->st_ino, name};
    dl_unlock_guarded(&inputs.lock);
}

void dl_input_remember(const char *path) {
    struct stat st;
    if (stat(path, &st) == 0) remember(&st, path);
}

const char *dl_input_name(const struct stat *st) {
    const char *found = NULL;
    pthread_mutex_lock(&inputs.lock);
    for (int i = 0; i < inputs.n && !found; i++) {
        struct stat now; /* the number of a file that was removed since may belong to a new one */
        if (is_same(&inputs.at[i], st) && stat(inputs.at[i].name, &now) == 0 &&
            is_same(&inputs.at[i], &now))
            found = inputs.at[i].name;
    }
    pthread_mutex_unlock(&inputs.lock);
    return found;
}

void dl_input_forget(void) {
    pthread_mutex_lock(&inputs.lock);
    free(inputs.at);
    inputs.at = NULL, inputs.n = inputs.cap = 0;
    pthread_mutex_unlock(&inputs.lock);
}

/* ---- opening ---- */

static bool check_name(const char *path, dl_error *err) {
    return *path || dl_fail(err, DL_USAGE, "an empty name where a file's name is needed");
}

static bool refuse_kind(const char *path, mode_t mode, dl_error *err) {
    const char *what = S_ISDIR(mode)    ? "a directory"
                       : S_ISFIFO(mode) ? "a FIFO"
                       : S_ISSOCK(mode) ? "a socket"
                                        : "a device";
    return dl_fail(err, DL_INPUT, "%s is %s, not a file%s", path, what,
                   S_ISDIR(mode) ? "" : ": write what it gives into a file first");
}

int dl_file_open_stat(const char *path, struct stat *st, dl_error *err) {
    if (!check_name(path, err)) return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        /* A socket cannot be opened at all; its kind says more than the cause. */
        if (errno == ENXIO && stat(path, st) == 0)
            refuse_kind(path, st->st_mode, err);
        else
            dl_fail_errno(err, DL_IO, "cannot open %s", path);
        return -1;
    }
    dl_file_calls_add(&(dl_file_calls){.opens = 1});
    if (dl_fstat(fd, st) != 0)
        dl_fail_errno(err, DL_IO, "cannot read %s", path);
    else if (S_ISREG(st->st_mode))
        return fd;
    else
        refuse_kind(path, st->st_mode, err);
    close(fd);
    return -1;
}

int dl_file_open(const char *path, dl_error *err) {
    struct stat st;
    return dl_file_open_stat(path, &st, err);
}

int dl_input_open(const char *path, dl_error *err) {
    struct stat st;
    int fd = dl_file_open_stat(path, &st, err);
    if (fd >= 0) remember(&st, path);
    return fd;
}

bool dl_check_descriptors(int n, const char *path, dl_error *err) {
    enum { MOST = 16 };
    int fd[MOST], have = 0;
    while (have < n && have < MOST && (fd[have] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        have++;
    bool ok = have == n || have == MOST || dl_fail_errno(err, DL_IO, "cannot read %s", path);
    while (have > 0) close(fd[--have]);
    return ok;
}

/* ---- reading ---- */

static void count_read(ssize_t n) {
    dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = n > 0 ? n : 0});
}

/* The pipe that a name like /dev/fd/63 means, as a descriptor of its own; -1 for all other names.
 * Its writer is there or has been, so reading it ends; a FIFO's name promises nothing of that kind.
 */
static int open_inherited_pipe(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    const char *number = strcmp(path, "/dev/stdin") == 0 ? "0" : NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strncmp(path, folders[i], strlen(folders[i])) == 0) number = path + strlen(folders[i]);
    struct stat st;
    if (!number || !*number || strlen(number) > 6 || number[strspn(number, "0123456789")])
        return -1;
    int fd = atoi(number);
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static char *read_whole(dl_arena *arena, int fd, const char *path, size_t limit, size_t *size,
                        dl_error *err) {
    dl_buf b = {0};
    char chunk[65536], *text = NULL;
    bool ok = true;
    while (ok) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        count_read(n);
        if (n == 0) break;
        if (n < 0)
            ok = dl_fail_errno(err, DL_IO, "cannot read %s", path);
        else if ((size_t)n > limit - b.n)
            ok = dl_fail(err, DL_INPUT, "%s is larger than the %zu MiB such a file may have", path,
                         limit >> 20);
        else
            dl_putn(&b, chunk, (size_t)n);
    }
    if (ok) text = dl_strndup(arena, b.at ? b.at : "", b.n);
    if (ok && size) *size = b.n;
    dl_buf_free(&b);
    return text;
}

static char *read_named(dl_arena *arena, const char *path, size_t limit, size_t *size,
                        int open_file(const char *path, dl_error *err), dl_error *err) {
    int fd = open_inherited_pipe(path);
    if (fd < 0) fd = open_file(path, err);
    if (fd < 0) return NULL;
    char *text = read_whole(arena, fd, path, limit, size, err);
    close(fd);
    return text;
}

char *dl_read_file(dl_arena *arena, const char *path, size_t limit, size_t *size, dl_error *err) {
    return read_named(arena, path, limit, size, dl_file_open, err);
}

char *dl_read_input(dl_arena *arena, const char *path, size_t limit, size_t *size, dl_error *err) {
    return read_named(arena, path, limit, size, dl_input_open, err);
}

bool dl_read_at(int fd, const char *path, void *dst, size_t n, int64_t offset, dl_error *err) {
    char *p = dst;
    while (n > 0) {
        ssize_t k = pread(fd, p, n, offset);
        if (k < 0 && errno == EINTR) continue;
        count_read(k);
        if (k < 0)
            return dl_fail_errno(err, DL_IO, "cannot read %s at byte %lld", path,
                                 (long long)offset);
        if (k == 0)
            return dl_fail(err, DL_IO, "%s became shorter while it was read: it ends at byte %lld",
                           path, (long long)offset);
        p += k, offset += k, n -= (size_t)k;
    }
    return true;
}
