#include "runtime/io/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

bool dlr_write_all(int fd, const void *data, size_t n) {
    const char *p = data;
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return false;
        p += k, n -= (size_t)k;
    }
    return true;
}

bool dlr_append(int fd, const char *path, const void *data, size_t n, int64_t *end, dl_error *err) {
    if (!dlr_write_all(fd, data, n)) {
        dl_fail_errno(err, DL_IO, "cannot write %s", path);
        /* Half a record would make the rest of the file unreadable. If even this fails, readers skip the torn
         * end. */
        if (ftruncate(fd, *end) == 0) lseek(fd, *end, SEEK_SET);
        return false;
    }
    *end += (int64_t)n;
    return true;
}

bool dlr_read_at(int fd, const char *path, void *dst, size_t n, int64_t offset, dl_error *err) {
    char *p = dst;
    while (n > 0) {
        ssize_t k = pread(fd, p, n, offset);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return dl_fail_errno(err, DL_IO, "cannot read %s at byte %lld", path, (long long)offset);
        if (k == 0)
            return dl_fail(err, DL_IO, "%s became shorter while it was read: it ends at byte %lld", path,
                           (long long)offset);
        p += k, offset += k, n -= (size_t)k;
    }
    return true;
}

bool dlr_sync_dir(const char *path, dl_error *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return dl_fail_errno(err, DL_IO, "cannot open directory %s", path);
    /* Some network file systems have nothing to do for a directory and say EINVAL: that is not a failure. */
    bool ok = fsync(fd) == 0 || errno == EINVAL;
    if (!ok) dl_fail_errno(err, DL_IO, "cannot make directory %s durable", path);
    close(fd);
    return ok;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st, (void)where;
    return kind == FTW_DP ? rmdir(path) : unlink(path);
}

bool dlr_remove_tree(const char *path, dl_error *err) {
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return true;
    return dl_fail_errno(err, DL_IO, "cannot remove %s", path);
}
