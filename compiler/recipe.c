#include "compiler/recipe.h"

/* A schedule that has no warm-up of its own takes one that stands beside it, or is given over it: not what a
 * file has for the schedule that the command line replaces. */
static bool settle_warmup(dl_config *c, dl_key schedule, dl_error *err) {
    static const dl_key warmups[] = {DL_KEY_warmup_steps, DL_KEY_lr_warmup_epochs};
    const dl_yaml *v = dl_config_value(c, DL_KEY_lr_schedule);
    bool own = schedule == DL_KEY_lr_schedule && (v->kind == DL_YAML_LIST || strcmp(v->text, "none") != 0);
    for (size_t i = 0; i < sizeof warmups / sizeof *warmups; i++)
        if (!own && dl_config_int(c, warmups[i]) > 0 && dl_config_outranks(c, schedule, warmups[i]) &&
            !dl_config_set(c, warmups[i], "0", err))
            return false;
    return true;
}

bool dl_recipe_settle(dl_config *c, dl_error *err) {
    static const struct {
        dl_key key, beaten_by;
    } pairs[] = {{DL_KEY_scheduler, DL_KEY_lr_schedule},
                 {DL_KEY_local_batch_size, DL_KEY_global_batch_size},
                 {DL_KEY_num_iters, DL_KEY_num_epochs}};
    bool epochs = dl_config_is_null(c, DL_KEY_scheduler) &&
                  !dl_config_is_null(c, DL_KEY_max_cosine_lr_epochs) &&
                  dl_config_outranks(c, DL_KEY_max_cosine_lr_epochs, DL_KEY_lr_schedule);
    bool named = !dl_config_is_null(c, DL_KEY_scheduler) &&
                 !dl_config_outranks(c, DL_KEY_lr_schedule, DL_KEY_scheduler);
    dl_key schedule = named ? DL_KEY_scheduler : epochs ? DL_KEY_max_cosine_lr_epochs : DL_KEY_lr_schedule;
    if (!settle_warmup(c, schedule, err)) return false;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (dl_config_outranks(c, pairs[i].beaten_by, pairs[i].key) &&
            !dl_config_set(c, pairs[i].key, "null", err))
            return false;
    return !epochs || dl_config_set(c, DL_KEY_scheduler, "cosine", err);
}

const dl_yaml *dl_recipe_ranges(const dl_config *c) {
    const dl_yaml *v = dl_config_value(c, DL_KEY_lr_schedule);
    return v->kind == DL_YAML_LIST && dl_config_is_null(c, DL_KEY_scheduler) ? v : NULL;
}

bool dl_recipe_has_plateau(const dl_config *c) {
    const char *name = dl_config_str(c, DL_KEY_scheduler);
    return name && strcmp(name, "reducelr") == 0;
}

dl_schedule dl_recipe_schedule(const dl_config *c) {
    const char *name = dl_config_str(c, DL_KEY_scheduler);
    if (name) return strcmp(name, "cosine") == 0 ? DL_SCHEDULE_cosine_epochs : DL_SCHEDULE_constant;
    if (dl_recipe_ranges(c)) return DL_SCHEDULE_piecewise;
    name = dl_config_value(c, DL_KEY_lr_schedule)->text;
    if (strcmp(name, "none") != 0) return (dl_schedule)dl_schedule_find(name); /* the key allows no others */
    return dl_config_int(c, DL_KEY_lr_warmup_epochs) > 0 ? DL_SCHEDULE_piecewise : DL_SCHEDULE_constant;
}

/* system A's flag is amp_mode: fp16. */
static dl_dtype low_type(const dl_config *c) {
    const char *mode = dl_config_str(c, DL_KEY_amp_mode);
    if (strcmp(mode, "bf16") == 0) return DL_BF16;
    return strcmp(mode, "fp16") == 0 || dl_config_bool(c, DL_KEY_enable_amp) ? DL_F16 : DL_F32;
}

bool dl_recipe_of(const dl_config *c, dl_recipe *recipe, dl_error *err) {
    if (dl_config_bool(c, DL_KEY_nesterov) && !(dl_config_float(c, DL_KEY_momentum) > 0))
        return dl_config_fail(c, DL_KEY_nesterov, err, "Nesterov's momentum needs a momentum above 0");
    const dl_yaml *ranges = dl_recipe_ranges(c);
    *recipe = (dl_recipe){.optimizer = (dl_optimizer)dl_optimizer_find(
                              dl_config_str(c, DL_KEY_optimizer)), /* the key allows no others */
                          .schedule = dl_recipe_schedule(c),
                          .low = low_type(c),
                          .ranges = ranges ? ranges->items.n : 0,
                          .momentum = dl_config_float(c, DL_KEY_momentum) > 0,
                          .nesterov = dl_config_bool(c, DL_KEY_nesterov),
                          .decay = dl_config_float(c, DL_KEY_weight_decay) > 0,
                          .decay_vectors = dl_config_bool(c, DL_KEY_decay_norm_and_bias),
                          .clip = dl_config_float(c, DL_KEY_clip_grad_norm) > 0,
                          .norms = dl_config_bool(c, DL_KEY_log_norms)};
    return true;
}
