#include "dldata/output_tree.h"

#include "dldata/hdf5_file.h"
#include "ir/base/dirs.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_empty_dir(const char *path) {
    DIR *d = opendir(path);
    int found = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        found += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d) closedir(d);
    return d && !found;
}

bool output_tree_prepare(const char *path, uint64_t need, dl_error *err) {
    char dir[PATH_MAX];
    struct stat st;
    if (!*path) return dl_fail(err, DL_USAGE, "the output directory has no name");
    if (lstat(path, &st) == 0 && !is_empty_dir(path))
        return dl_fail(err, DL_USAGE,
                       "%s exists and is not an empty directory; choose another name, or remove it",
                       path);
    if (!dl_parent_dir(path, dir, sizeof dir))
        return dl_fail(err, DL_IO, "path too long: %.100s...", path);
    if (!dl_make_dirs(dir, 0777, err)) return false;
    return hdf5_disk_check(path, dir, need, err);
}

bool output_tree_path(const dl_output_dir *d, char *to, size_t n, dl_error *err, const char *format,
                      ...) {
    int at = snprintf(to, n, "%s/", dl_output_dir_path(d));
    va_list args;
    va_start(args, format);
    int more = at < (int)n ? vsnprintf(to + at, n - (size_t)at, format, args) : 0;
    va_end(args);
    char dir[PATH_MAX];
    if (at + more >= (int)n || !dl_parent_dir(to, dir, sizeof dir))
        return dl_fail(err, DL_IO, "path too long: %.100s...", to);
    return dl_make_dirs(dir, 0777, err);
}
