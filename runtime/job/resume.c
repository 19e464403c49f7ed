#include "runtime/job/resume.h"

#include <unistd.h>

#include "ir/base/str.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/job/run_dir.h"

/* Ours, or, where they are written and read, one of a program of PyTorch's. */
static bool has_checkpoint(dl_arena *arena, const dl_config *c, const char *run) {
    const char *dir = dl_format(arena, "%s/checkpoints", run);
    return dlr_checkpoint_any(dir) || (dl_config_bool(c, DL_KEY_torch_checkpoints) &&
                                       access(dl_format(arena, "%s/ckpt.tar", dir), F_OK) == 0);
}

bool dl_resume_check(dl_arena *arena, const dl_config *c, int ranks, dl_error *err) {
    const char *named = dl_config_str(c, DL_KEY_resume), *own = dl_run_dir(arena, c, ranks, err);
    dlr_checkpoint_place place;
    if (!own) return false;
    if (!dl_config_bool(c, DL_KEY_resume)) return true;
    if (named) return dlr_checkpoint_find(arena, named, &place, err);
    if (has_checkpoint(arena, c, own)) return true;
    dl_run_dirs others = dl_other_run_dirs(arena, c, ranks);
    for (int i = 0; i < others.n; i++)
        if (has_checkpoint(arena, c, others.at[i]))
            return dl_fail(
                err, DL_USAGE,
                "--resume: %.250s has no checkpoint, but %.250s next to it has, of another number "
                "of "
                "ranks: --resume=%.250s goes on from that one, --resume=false begins anew",
                own, others.at[i], others.at[i]);
    return true;
}
