#include "frontends/yaml/data_file.h"

#include <limits.h>
#include <unistd.h>

#include "ir/base/str.h"

enum { LEVELS_ABOVE = 4 };

/* The directory of this program's file; NULL where /proc does not provide it. */
static char *executable_dir(dl_arena *arena) {
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0 || (size_t)n >= sizeof path) return NULL;
    char *dir = dl_strndup(arena, path, (size_t)n), *slash = strrchr(dir, '/');
    if (!slash) return NULL;
    *slash = 0;
    return dir;
}

const char *dl_find_data_file(dl_arena *arena, const char *path, dl_error *err) {
    if (access(path, F_OK) == 0) return path;
    if (*path == '/') {
        dl_fail_errno(err, DL_IO, "cannot open %s", path);
        return NULL;
    }
    char *dir = executable_dir(arena);
    const char *lowest = dir ? dl_strdup(arena, dir) : "(unknown)";
    for (int level = 0; dir && *dir && level <= LEVELS_ABOVE; level++) {
        const char *candidate = dl_format(arena, "%s/%s", dir, path);
        if (access(candidate, F_OK) == 0) return candidate;
        *strrchr(dir, '/') = 0;
    }
    const char *installed = dl_format(arena, "%s/%s", DL_DATADIR, path);
    if (access(installed, F_OK) == 0) return installed;
    dl_fail(err, DL_IO, "no file %s: not under the current directory, %s and above it, or %s", path,
            lowest, DL_DATADIR);
    return NULL;
}
