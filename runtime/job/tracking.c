#include "runtime/job/tracking.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/job/run_dir.h"

/* A variable that is set to something. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* As wandb.init reads it; "dryrun" is its old word for offline. */
static bool read_mode(bool *disabled, dl_error *err) {
    static const char *const words[] = {"offline", "dryrun", "online", "run", "shared", "disabled"};
    const char *mode = variable("WANDB_MODE");
    *disabled = mode && strcmp(mode, "disabled") == 0;
    for (size_t i = 0; mode && i < sizeof words / sizeof *words; i++)
        if (strcmp(mode, words[i]) == 0) return true;
    return !mode || dl_fail(err, DL_USAGE,
                            "WANDB_MODE must be offline, disabled or online, not '%.80s'", mode);
}

static bool choose(dl_arena *arena, const dl_config *c, dl_key key, const char *name,
                   bool variable_first, int ranks, const char **chosen, dl_error *err) {
    const char *set = variable(name);
    *chosen = set;
    if (set && (variable_first || !dl_config_is_given(c, key))) return true;
    *chosen = NULL;
    return dl_config_is_null(c, key) || (*chosen = dl_run_fill(arena, c, key, ranks, err));
}

bool dl_tracking_options(dl_arena *arena, const dl_config *c, int ranks,
                         dlr_wandb_options **options, dl_error *err) {
    bool disabled;
    *options = NULL;
    if (!dl_config_bool(c, DL_KEY_log_to_wandb)) return true;
    if (!read_mode(&disabled, err)) return false;
    if (disabled) return true;
    dlr_wandb_options *o = DL_NEW(arena, dlr_wandb_options);
    o->sweep = variable("WANDB_SWEEP_ID");
    bool swept = o->sweep != NULL;
    if (!choose(arena, c, DL_KEY_entity, "WANDB_ENTITY", swept, ranks, &o->entity, err) ||
        !choose(arena, c, DL_KEY_project, "WANDB_PROJECT", swept, ranks, &o->project, err) ||
        !choose(arena, c, DL_KEY_wandb_group, "WANDB_RUN_GROUP", false, ranks, &o->group, err) ||
        !choose(arena, c, DL_KEY_wandb_name, "WANDB_NAME", false, ranks, &o->name, err))
        return false;
    o->id = variable("WANDB_RUN_ID");
    if (o->id && dl_config_option(c, "sweep_id"))
        return dl_fail(err, DL_USAGE,
                       "WANDB_RUN_ID names one run of Weights & Biases, and each trial of a sweep "
                       "(--sweep_id) is one "
                       "by itself: unset it");
    if (o->id && !dlr_wandb_check_id(o->id))
        return dl_fail(
            err, DL_USAGE,
            "WANDB_RUN_ID can be no run's name: '%.80s' (at most 128 bytes, none of / \\ # ? %% : "
            "and blanks)",
            o->id);
    const char *dir = variable("WANDB_DIR");
    if (dir) o->folder = dl_format(arena, "%s/wandb", dir);
    o->job_type = variable("WANDB_JOB_TYPE"), o->notes = variable("WANDB_NOTES"),
    o->tags = variable("WANDB_TAGS");
    *options = o;
    return true;
}

const char *dl_tracking_warning(const dlr_wandb_options *options) {
    const char *mode = variable("WANDB_MODE");
    return options && mode &&
                   (mode[0] == 'r' || strcmp(mode, "online") == 0 || strcmp(mode, "shared") == 0)
               ? "WANDB_MODE=online: nothing is sent while the run goes on; it is written offline, "
                 "and "
                 "`wandb sync` uploads it"
               : NULL;
}
