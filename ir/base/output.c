#include "ir/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/temporary.h"

/* ---- the file that a name leads to ---- */

typedef struct {
    const char *name;    /* as the user gave it */
    char path[PATH_MAX]; /* with all links resolved */
    bool exists;
    struct stat st; /* if it exists */
} target;

static bool is_file(const target *t) { return !t->exists || S_ISREG(t->st.st_mode); }

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool too_long(const char *name, dl_error *err) {
    return dl_fail(err, DL_IO, "path too long: %.100s...", name);
}

/* Replaces t->path by the target of its link, until it is no link. Only links of the last name must
 * be followed here: a temporary must be in the directory of the file that it replaces, and a link
 * may point to a missing file. */
static bool follow_links(target *t, dl_error *err) {
    enum { MOST_LINKS = 40 };
    for (int i = 0; i < MOST_LINKS; i++) {
        char link[PATH_MAX], joined[PATH_MAX];
        ssize_t n = readlink(t->path, link, sizeof link - 1);
        if (n < 0) return true;
        link[n] = 0;
        const char *slash = strrchr(t->path, '/');
        int dir = link[0] == '/' || !slash ? 0 : (int)(slash - t->path + 1);
        int k = snprintf(joined, sizeof joined, "%.*s%s", dir, t->path, link);
        if (k >= (int)sizeof joined) return too_long(t->name, err);
        memcpy(t->path, joined, (size_t)k + 1);
    }
    errno = ELOOP;
    return dl_fail_errno(err, DL_IO, "cannot write %s", t->name);
}

static bool refuse_input(const target *t, dl_error *err) {
    const char *input = dl_input_name(&t->st);
    return !input ||
           dl_fail(err, DL_USAGE,
                   "%s is what this command reads (%s) and would be overwritten: name another file",
                   t->name, input);
}

static bool find(const char *name, target *t, dl_error *err) {
    t->name = name;
    size_t n = strlen(name);
    if (n == 0)
        return dl_fail(err, DL_USAGE, "an empty name where an output file's name is needed");
    if (n >= sizeof t->path) return too_long(name, err);
    memcpy(t->path, name, n + 1);
    t->exists = stat(name, &t->st) == 0;
    if (!t->exists && errno != ENOENT) return dl_fail_errno(err, DL_IO, "cannot write %s", name);
    if (t->exists ? S_ISDIR(t->st.st_mode) : name[n - 1] == '/')
        return dl_fail(err, DL_IO, "%s is a directory: name a file in it", name);
    if (t->exists && !refuse_input(t, err)) return false;
    if (!is_file(t)) return true;
    struct stat st;
    if (!follow_links(t, err)) return false;
    /* A name in /proc may lead to a file that has no name of its own any more. */
    return !t->exists || (lstat(t->path, &st) == 0 && is_same(&st, &t->st)) ||
           dl_fail(err, DL_IO, "cannot write %s: the file has no name", name);
}

/* The standard stream that writes this file, or -1: to replace the file would lose the stream's
 * output. */
static int find_stream(const target *t) {
    struct stat st;
    for (int fd = STDOUT_FILENO; t->exists && fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &st) == 0 && is_same(&st, &t->st)) return fd;
    return -1;
}

static int copy_stream(int fd, const target *t, dl_error *err) {
    fflush(fd == STDOUT_FILENO ? stdout : stderr);
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) dl_fail_errno(err, DL_IO, "cannot write %s", t->name);
    return copy;
}

/* Opens the existing file without waiting for a reader or writer. */
static int open_there(const target *t, int flags, dl_error *err) {
    int fd = open(t->name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    struct stat st;
    if (fd < 0 && errno == ENXIO && S_ISFIFO(t->st.st_mode))
        return dl_fail(err, DL_IO,
                       "cannot write %s: nobody reads this FIFO; start its reader first", t->name),
               -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && !is_same(&st, &t->st)) close(fd), fd = -1, errno = EAGAIN;
    if (fd >= 0 && fcntl(fd, F_SETFL, flags) != 0) close(fd), fd = -1;
    if (fd < 0) dl_fail_errno(err, DL_IO, "cannot write %s", t->name);
    return fd;
}

/* ---- a file in pieces ---- */

struct dl_output {
    target to;
    char *temporary; /* NULL: written where it is */
    int fd;
    uint64_t end; /* after the last byte that was written in order */
    bool failed;
};

/* A file that we may not write is not replaced, though its directory would let us. */
static bool check_permission(const target *t, dl_error *err) {
    char dir[PATH_MAX];
    if (t->exists && access(t->path, W_OK) != 0)
        return dl_fail_errno(err, DL_IO, "cannot write %s", t->name);
    if (!is_file(t) || find_stream(t) >= 0) return true;
    if (!dl_parent_dir(t->path, dir, sizeof dir)) return too_long(t->name, err);
    return access(dir, W_OK | X_OK) == 0 ||
           dl_fail_errno(err, DL_IO, "cannot write %s: no file can be made in %s", t->name, dir);
}

bool dl_output_check(const char *path, dl_error *err) {
    target t;
    return find(path, &t, err) && check_permission(&t, err);
}

static bool open_beside(dl_output *o, dl_error *err) {
    const struct stat *old = o->to.exists ? &o->to.st : NULL;
    o->fd = dl_temporary_open(o->to.path, old ? old->st_mode & 0777 : 0644, o->to.name,
                              &o->temporary, err);
    if (o->fd < 0 || !old) return o->fd >= 0;
    if ((old->st_uid != geteuid() || old->st_gid != getegid()) &&
        fchown(o->fd, old->st_uid, old->st_gid) != 0) {
        /* it belongs to us then, like a new file */
    }
    return fchmod(o->fd, old->st_mode & 0777) == 0 ||
           dl_fail_errno(err, DL_IO, "cannot give %s its permissions", o->to.name);
}

dl_output *dl_output_open(const char *path, dl_error *err) {
    dl_output *o = calloc(1, sizeof *o);
    char *name = strdup(path);
    if (!o || !name) {
        dl_fail(err, DL_RESOURCE, "no memory to write %.500s", path);
        free(o), free(name);
        return NULL;
    }
    o->to.name = name, o->fd = -1;
    bool ok = find(name, &o->to, err) && check_permission(&o->to, err);
    int stream = ok ? find_stream(&o->to) : -1;
    if (stream >= 0)
        ok = (o->fd = copy_stream(stream, &o->to, err)) >= 0;
    else if (ok && !is_file(&o->to))
        ok = (o->fd = open_there(&o->to, 0, err)) >= 0;
    else
        ok = ok && open_beside(o, err);
    if (ok) return o;
    dl_output_discard(o);
    return NULL;
}

static bool fail_write(dl_output *o, dl_error *err) {
    o->failed = true;
    return dl_fail_errno(err, DL_IO, "cannot write %s", o->to.name);
}

bool dl_output_write(dl_output *o, const void *data, size_t n, dl_error *err) {
    return dl_output_write_at(o, o->end, data, n, err);
}

bool dl_output_write_at(dl_output *o, uint64_t offset, const void *data, size_t n, dl_error *err) {
    const char *p = data;
    static const char zeros[512];
    if (!o->temporary && offset < o->end) {
        o->failed = true;
        return dl_fail(err, DL_IO, "cannot write %s out of order: give a regular file", o->to.name);
    }
    for (size_t k; !o->temporary && o->end < offset; o->end += k) {
        k = offset - o->end < sizeof zeros ? (size_t)(offset - o->end) : sizeof zeros;
        if (!dl_write_all(o->fd, zeros, k)) return fail_write(o, err);
    }
    if (!o->temporary && !dl_write_all(o->fd, p, n)) return fail_write(o, err);
    for (size_t done = 0; o->temporary && done < n;) {
        ssize_t k = pwrite(o->fd, p + done, n - done, (off_t)(offset + done));
        if (k < 0 && errno == EINTR) continue;
        if (k == 0) errno = ENOSPC;
        if (k <= 0) return fail_write(o, err);
        done += (size_t)k;
    }
    if (offset + n > o->end) o->end = offset + n;
    return true;
}

bool dl_output_extend(dl_output *o, uint64_t bytes, dl_error *err) {
    return !o->temporary || bytes <= o->end || dl_output_write_at(o, bytes - 1, "", 1, err);
}

int dl_output_fd(const dl_output *o) { return o->fd; }

/* Another program's file under the name must be one that could have been replaced at the
 * beginning. */
static bool check_target(const dl_output *o, dl_error *err) {
    target now = {.name = o->to.name};
    if (lstat(o->to.path, &now.st) != 0) return true;
    if (!S_ISREG(now.st.st_mode))
        return dl_fail(err, DL_IO, "cannot write %s: another program has put something else there",
                       o->to.name);
    return refuse_input(&now, err);
}

/* Frees `o`, which may be incomplete; `keep`: the temporary has become the target. */
static void close_output(dl_output *o, bool keep) {
    if (o->temporary && !keep) unlink(o->temporary);
    if (o->fd >= 0) close(o->fd);
    free(o->temporary);
    free((char *)o->to.name);
    free(o);
}

bool dl_output_commit(dl_output *o, dl_error *err) {
    bool ok = !o->failed || dl_fail(err, DL_IO, "%s was not written whole", o->to.name);
    /* A device or FIFO has nothing to make durable, and reports EINVAL or EROFS. */
    if (ok && fsync(o->fd) != 0 && (o->temporary || (errno != EINVAL && errno != EROFS)))
        ok = fail_write(o, err);
    bool renamed =
        ok && o->temporary && check_target(o, err) && rename(o->temporary, o->to.path) == 0;
    if (ok && o->temporary && !renamed) ok = fail_write(o, err);
    if (ok) { /* some file systems report failed writes only here */
        int fd = o->fd;
        o->fd = -1;
        if (close(fd) != 0) ok = fail_write(o, err);
    }
    char dir[PATH_MAX];
    if (ok && renamed && dl_parent_dir(o->to.path, dir, sizeof dir)) ok = dl_sync_dir(dir, err);
    close_output(o, renamed);
    return ok;
}

void dl_output_discard(dl_output *o) {
    if (o) close_output(o, false);
}

bool dl_write_file(const char *path, const void *data, size_t n, dl_error *err) {
    dl_output *o = dl_output_open(path, err);
    if (!o) return false;
    if (dl_output_write(o, data, n, err)) return dl_output_commit(o, err);
    dl_output_discard(o);
    return false;
}

/* ---- a directory of files ---- */

struct dl_output_dir {
    char *name, *temporary;
    int fd; /* holds the lock */
};

dl_output_dir *dl_output_dir_open(const char *path, dl_error *err) {
    if (!*path)
        return dl_fail(err, DL_USAGE, "an empty name where a directory's name is needed"), NULL;
    dl_output_dir *d = calloc(1, sizeof *d);
    if (d && (d->name = strdup(path))) {
        d->fd = dl_temporary_open(path, S_IFDIR | 0755, path, &d->temporary, err);
        if (d->fd >= 0) return d;
        free(d->name);
    } else
        dl_fail(err, DL_RESOURCE, "no memory to write %.500s", path);
    free(d);
    return NULL;
}

const char *dl_output_dir_path(const dl_output_dir *d) { return d->temporary; }

static void close_dir(dl_output_dir *d) {
    close(d->fd);
    free(d->temporary);
    free(d->name);
    free(d);
}

bool dl_output_dir_commit(dl_output_dir *d, dl_error *err) {
    char parent[PATH_MAX];
    bool ok = fsync(d->fd) == 0 || errno == EINVAL ||
              dl_fail_errno(err, DL_IO, "cannot make %s durable", d->name);
    if (ok && rename(d->temporary, d->name) != 0)
        ok = dl_fail_errno(err, DL_IO, "cannot make directory %s", d->name);
    if (!ok) {
        dl_output_dir_discard(d);
        return false;
    }
    ok = dl_parent_dir(d->name, parent, sizeof parent) && dl_sync_dir(parent, err);
    close_dir(d);
    return ok;
}

void dl_output_dir_discard(dl_output_dir *d) {
    if (!d) return;
    dl_error ignored = {0}; /* the first fault is reported; the next run removes the rest */
    dl_remove_tree(d->temporary, &ignored);
    close_dir(d);
}

/* ---- a file that grows ---- */

int dl_append_open(const char *path, dl_append_how how, dl_error *err) {
    target t;
    if (!find(path, &t, err)) return -1;
    if (t.exists && how == DL_APPEND) return open_there(&t, O_APPEND, err);
    int fd = open(t.path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) return fd;
    if (errno == EEXIST && how == DL_APPEND && find(path, &t, err) && t.exists)
        return open_there(&t, O_APPEND, err); /* another process has made it in between */
    dl_fail_errno(err, DL_IO, "cannot write %s", path);
    return -1;
}

bool dl_append(int fd, const char *path, const void *data, size_t n, int64_t *end, dl_error *err) {
    if (!dl_write_all(fd, data, n)) {
        dl_fail_errno(err, DL_IO, "cannot write %s", path);
        /* Half a record would make the rest of the file unreadable. If even this fails, readers
         * skip the torn end. */
        if (ftruncate(fd, *end) == 0) lseek(fd, *end, SEEK_SET);
        return false;
    }
    *end += (int64_t)n;
    return true;
}

bool dl_write_all(int fd, const void *data, size_t n) {
    const char *p = data;
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k == 0) errno = ENOSPC;
        if (k <= 0) return false;
        p += k, n -= (size_t)k;
    }
    return true;
}
