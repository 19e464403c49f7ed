#include "ir/base/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool dl_make_dirs(const char *path, unsigned mode, dl_error *err) {
    char p[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof p) return dl_fail(err, DL_IO, "bad directory name: '%.100s'", path);
    memcpy(p, path, n + 1);
    for (size_t i = 1; i <= n; i++)
        if (p[i] == '/' || i == n) {
            char c = p[i];
            p[i] = 0;
            if (mkdir(p, mode) != 0 && errno != EEXIST)
                return dl_fail_errno(err, DL_IO, "cannot make directory %s", p);
            p[i] = c;
        }
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return dl_fail(err, DL_IO, "%s is not a directory", path);
    return true;
}

bool dl_sync_dir(const char *path, dl_error *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES || dl_fail_errno(err, DL_IO, "cannot open directory %s", path);
    bool ok = fsync(fd) == 0 || errno == EINVAL; /* which some network file systems say */
    if (!ok) dl_fail_errno(err, DL_IO, "cannot make directory %s durable", path);
    close(fd);
    return ok;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st, (void)where;
    return kind == FTW_DP ? rmdir(path) : unlink(path);
}

bool dl_remove_tree(const char *path, dl_error *err) {
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return true;
    return dl_fail_errno(err, DL_IO, "cannot remove %s", path);
}

bool dl_replace_link(const char *link, const char *target, dl_error *err) {
    char fresh[PATH_MAX], dir[PATH_MAX];
    int n = snprintf(fresh, sizeof fresh, "%s.tmp", link);
    if (n < 0 || (size_t)n >= sizeof fresh || !dl_parent_dir(link, dir, sizeof dir))
        return dl_fail(err, DL_IO, "bad name of a link: '%.100s'", link);
    if (unlink(fresh) != 0 && errno != ENOENT)
        return dl_fail_errno(err, DL_IO, "cannot remove %s", fresh);
    if (symlink(target, fresh) != 0)
        return dl_fail_errno(err, DL_IO, "cannot make the link %s", fresh);
    if (rename(fresh, link) != 0) return dl_fail_errno(err, DL_IO, "cannot make the link %s", link);
    return dl_sync_dir(dir, err);
}

bool dl_parent_dir(const char *path, char *dir, size_t n) {
    size_t k = strlen(path);
    while (k > 1 && path[k - 1] == '/') k--; /* slashes after the last name */
    while (k > 0 && path[k - 1] != '/') k--;
    while (k > 1 && path[k - 1] == '/') k--; /* and those before it, except the root */
    int m = k ? snprintf(dir, n, "%.*s", (int)k, path) : snprintf(dir, n, ".");
    return m >= 0 && (size_t)m < n;
}
