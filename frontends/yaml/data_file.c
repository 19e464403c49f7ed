#include "frontends/yaml/data_file.h"

#include <limits.h>
#include <unistd.h>

#include "ir/base/install.h"
#include "ir/base/str.h"

enum { LEVELS_ABOVE = 4 };

static const char *if_there(dl_arena *arena, const char *dir, const char *path) {
    const char *candidate = dl_format(arena, "%s/%s", dir, path);
    return access(candidate, F_OK) == 0 ? candidate : NULL;
}

/* In the program's folder, or in one above it. */
static const char *find_above(dl_arena *arena, const char *own, const char *path) {
    char *dir = dl_strdup(arena, own);
    const char *found = NULL;
    for (int level = 0; !found && *dir && level <= LEVELS_ABOVE; level++) {
        found = if_there(arena, dir, path);
        *strrchr(dir, '/') = 0;
    }
    return found;
}

const char *dl_find_data_file(dl_arena *arena, const char *path, dl_error *err) {
    if (access(path, F_OK) == 0) return path;
    if (*path == '/') {
        dl_fail_errno(err, DL_IO, "cannot open %s", path);
        return NULL;
    }
    char dir[PATH_MAX], installed[PATH_MAX];
    bool own = dl_install_own_path(DL_DATADIR, installed, sizeof installed),
         known = dl_install_own_dir(dir, sizeof dir);
    const char *found = own ? if_there(arena, installed, path) : NULL;
    if (!found && known) found = find_above(arena, dir, path);
    if (!found && !own && dl_install_configured_path(DL_DATADIR, installed, sizeof installed))
        found = if_there(arena, installed, path);
    if (!found)
        dl_fail(err, DL_IO, "no file %s: not under the current directory, %s and above it, or %s",
                path, known ? dir : "(unknown)", installed);
    return found;
}
