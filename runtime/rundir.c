#include "runtime/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/str.h"

bool dlr_rundir_open(dl_arena *arena, const dlr_rundir_name *name, dlr_rundir *dir, dl_error *err) {
    const char *path =
        dl_format(arena, "%s/%s/%dGPU/%s", name->expdir, name->config, name->ranks, name->run_num);
    *dir = (dlr_rundir){.path = path,
                        .log = dl_format(arena, "%s/out.log", path),
                        .hyperparams = dl_format(arena, "%s/hyperparams.yaml", path),
                        .metrics = dl_format(arena, "%s/metrics.jsonl", path),
                        .picture = dl_format(arena, "%s/prediction.png", path),
                        .board = dl_format(arena, "%s/logs", path),
                        .checkpoints = dl_format(arena, "%s/checkpoints", path),
                        .lock = -1};
    if (!dl_make_dirs(path, 0777, err)) return false;
    dir->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->lock < 0) return dl_fail_errno(err, DL_IO, "cannot open %s", path);
    if (flock(dir->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return true; /* no locks here: no harm */
    dlr_rundir_close(dir);
    return dl_fail(err, DL_USAGE, "another run is writing %s: give this one its own --run_num or --expdir",
                   path);
}

void dlr_rundir_close(dlr_rundir *dir) {
    if (dir->lock >= 0) close(dir->lock);
    dir->lock = -1;
}

bool dlr_rundir_renew(const dlr_rundir *dir, bool *moved, dl_error *err) {
    char old[4096];
    snprintf(old, sizeof old, "%s.old", dir->checkpoints);
    *moved = access(dir->checkpoints, F_OK) == 0;
    if (!*moved) return true;
    if (!dl_remove_tree(old, err)) return false;
    return rename(dir->checkpoints, old) == 0 ||
           dl_fail_errno(err, DL_IO, "cannot move %s aside", dir->checkpoints);
}
