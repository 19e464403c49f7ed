#include "runtime/train/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/str.h"

void dlr_rundir_name(dl_arena *arena, const char *path, dlr_rundir *dir) {
    if (!strchr(path, '/')) path = dl_format(arena, "./%s", path);
    *dir = (dlr_rundir){.path = path,
                        .log = dl_format(arena, "%s/out.log", path),
                        .hyperparams = dl_format(arena, "%s/hyperparams.yaml", path),
                        .metrics = dl_format(arena, "%s/metrics.jsonl", path),
                        .profile = dl_format(arena, "%s/profile.json", path),
                        .profile_table = dl_format(arena, "%s/profile.txt", path),
                        .kernels = dl_format(arena, "%s/kernels", path),
                        .picture = dl_format(arena, "%s/prediction.png", path),
                        .board = dl_format(arena, "%s/logs", path),
                        .wandb = dl_format(arena, "%s/wandb", path),
                        .checkpoints = dl_format(arena, "%s/checkpoints", path),
                        .lock = -1};
}

bool dlr_rundir_open(dl_arena *arena, const char *path, dlr_rundir *dir, dl_error *err) {
    dlr_rundir_name(arena, path, dir);
    path = dir->path;
    if (!dl_make_dirs(path, 0777, err)) return false;
    dir->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->lock < 0) return dl_fail_errno(err, DL_IO, "cannot open %s", path);
    if (flock(dir->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return true; /* no locks here: no harm */
    dlr_rundir_close(dir);
    return dl_fail(err, DL_USAGE,
                   "another run is writing %s: give this one its own --run_num or --expdir", path);
}

void dlr_rundir_close(dlr_rundir *dir) {
    if (dir->lock >= 0) close(dir->lock);
    dir->lock = -1;
}

/* N of a name NAME.N, or 0. */
static int64_t number_of(const char *entry, const char *name) {
    size_t n = strlen(name);
    if (strncmp(entry, name, n) != 0 || entry[n] != '.') return 0;
    const char *digits = entry + n + 1;
    size_t length = strspn(digits, "0123456789");
    return length > 0 && length < 18 && digits[length] == 0 ? strtoll(digits, NULL, 10) : 0;
}

/* Makes PATH.N with N above all present ones. NULL with an error. */
static const char *make_next(dl_arena *arena, const char *path, dl_error *err) {
    const char *name = strrchr(path, '/') + 1,
               *parent = dl_strndup(arena, path, (size_t)(name - 1 - path));
    DIR *d = opendir(parent);
    if (!d) return dl_fail_errno(err, DL_IO, "cannot read directory %s", parent), NULL;
    int64_t next = 1;
    for (const struct dirent *e; (e = readdir(d));) {
        int64_t n = number_of(e->d_name, name);
        if (n >= next) next = n + 1;
    }
    closedir(d);
    const char *made = dl_format(arena, "%s.%lld", path, (long long)next);
    if (mkdir(made, 0777) != 0)
        return dl_fail_errno(err, DL_IO, "cannot make directory %s", made), NULL;
    return dl_sync_dir(parent, err) ? made : NULL;
}

bool dlr_rundir_set_aside(dl_arena *arena, const dlr_rundir *dir, const char **kept,
                          dl_error *err) {
    /* Checkpoints first: if this is stopped half-way, a resume finds none and starts anew, as
     * intended. */
    const char *const files[] = {dir->checkpoints, dir->metrics,       dir->board,
                                 dir->wandb,       dir->picture,       dir->hyperparams,
                                 dir->profile,     dir->profile_table, dir->kernels};
    enum { FILES = sizeof files / sizeof *files };
    bool any = false;
    struct stat st;
    for (int i = 0; i < FILES; i++) any |= lstat(files[i], &st) == 0;
    *kept = NULL;
    if (!any) return true;
    const char *to = make_next(arena, dir->path, err);
    if (!to) return false;
    for (int i = 0; i < FILES; i++) {
        const char *path = dl_format(arena, "%s%s", to, strrchr(files[i], '/'));
        if (rename(files[i], path) != 0 && errno != ENOENT)
            return dl_fail_errno(err, DL_IO, "cannot move %s to %s", files[i], to);
    }
    *kept = strrchr(to, '/') + 1;
    return dl_sync_dir(to, err) && dl_sync_dir(dir->path, err);
}
