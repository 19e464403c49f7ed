#include "runtime/job/resume.h"

#include <string.h>
#include <unistd.h>

#include "frontends/yaml/yaml_tree.h"
#include "ir/base/str.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/job/run_dir.h"

/* Ours, or, where they are written and read, one of a program of PyTorch's. */
static bool has_checkpoint(dl_arena *arena, const dl_config *c, const char *run) {
    const char *dir = dl_format(arena, "%s/checkpoints", run);
    return dlr_checkpoint_any(dir) || (dl_config_bool(c, DL_KEY_torch_checkpoints) &&
                                       access(dl_format(arena, "%s/ckpt.tar", dir), F_OK) == 0);
}

/* Whether a run's record of its configuration names the model, or there is none. */
static bool is_of_model(dl_arena *arena, const dl_config *c, const char *run) {
    dl_error none = {0};
    const char *path = dl_format(arena, "%s/hyperparams.yaml", run);
    const dl_yaml *map = dl_yaml_read_file(arena, path, &none),
                  *own = map ? dl_yaml_get(map, c->name) : NULL,
                  *model = own ? dl_yaml_get(own, "model") : NULL;
    return !model || model->kind != DL_YAML_STRING ||
           strcmp(model->text, dl_config_str(c, DL_KEY_model)) == 0;
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
    const char *former = dl_run_dir_former(arena, c, ranks);
    return !former || !has_checkpoint(arena, c, former) || !is_of_model(arena, c, former) ||
           dl_fail(err, DL_USAGE,
                   "--resume: %.250s has no checkpoint, but %.250s has, where an earlier version "
                   "kept this run: --resume=%.250s goes on from that one, --resume=false begins "
                   "anew",
                   own, former, former);
}
