#include "programs/rates.h"

#include <math.h>

#include "compiler/recipe.h"

static const dlr_rate_range *ranges_of(dl_arena *arena, const dl_yaml *list) {
    dlr_rate_range *ranges = DL_NEWS(arena, dlr_rate_range, list->items.n);
    for (int i = 0; i < list->items.n; i++) {
        const dl_yaml *r = list->items.at[i], *end = dl_yaml_get(r, "end_epoch");
        ranges[i] = (dlr_rate_range){dl_yaml_get(r, "start_epoch")->number, end ? end->number : INFINITY,
                                     dl_yaml_get(r, "multiplier")->number};
    }
    return ranges;
}

dlr_schedule dl_rates_schedule(dl_arena *arena, const dl_config *c, int64_t global_batch, int ranks) {
    const dl_yaml *list = dl_recipe_ranges(c), *epochs = dl_config_value(c, DL_KEY_max_cosine_lr_epochs);
    dl_schedule which = dl_recipe_schedule(c);
    return (dlr_schedule){.start_lr = dl_config_float(c, DL_KEY_start_lr),
                          .end_lr = dl_config_float(c, DL_KEY_end_lr),
                          .scaling = dl_config_str(c, DL_KEY_scaling),
                          .warmup_steps = dl_config_int(c, DL_KEY_warmup_steps),
                          .warmup_where_scaled = which == DL_SCHEDULE_warmup_cosine,
                          .warmup_epochs = dl_config_int(c, DL_KEY_lr_warmup_epochs),
                          .cosine = which == DL_SCHEDULE_cosine,
                          .by_epochs = which == DL_SCHEDULE_cosine_epochs,
                          .cosine_epochs = epochs->kind == DL_YAML_INT ? epochs->integer : 0,
                          .range = list ? ranges_of(arena, list) : NULL,
                          .ranges = list ? list->items.n : 0,
                          .global_batch = global_batch,
                          .rank_scaling = dl_config_str(c, DL_KEY_lr_scaling),
                          .ranks = ranks,
                          .base_batch = dl_config_int(c, DL_KEY_base_batch_size)};
}

const dlr_plateau_options *dl_rates_plateau(dl_arena *arena, const dl_config *c) {
    if (!dl_recipe_has_plateau(c)) return NULL;
    dlr_plateau_options *o = DL_NEW(arena, dlr_plateau_options);
    *o = DLR_PLATEAU_DEFAULTS;
    o->factor = 0.2, o->least = 1e-8, o->patience = dl_config_int(c, DL_KEY_patience);
    return o;
}

const dlr_run_optimizer *dl_rates_optimizer(dl_arena *arena, const dl_config *c) {
    dlr_run_optimizer *o = DL_NEW(arena, dlr_run_optimizer);
    *o = (dlr_run_optimizer){.optimizer = dl_config_str(c, DL_KEY_optimizer),
                             .nesterov = dl_config_bool(c, DL_KEY_nesterov),
                             .decay_vectors = dl_config_bool(c, DL_KEY_decay_norm_and_bias)};
    return o;
}

const dlr_hyper *dl_rates_hypers(dl_arena *arena, const dl_config *c, int *n) {
    static const struct {
        const char *name;
        dl_key key;
    } rows[] = {{"optimizer.beta1", DL_KEY_adam_beta1},  {"optimizer.beta2", DL_KEY_adam_beta2},
                {"optimizer.eps", DL_KEY_adam_eps},      {"optimizer.weight_decay", DL_KEY_weight_decay},
                {"optimizer.momentum", DL_KEY_momentum}, {"optimizer.max_norm", DL_KEY_clip_grad_norm}};
    *n = (int)(sizeof rows / sizeof *rows);
    dlr_hyper *all = DL_NEWS(arena, dlr_hyper, *n);
    for (int i = 0; i < *n; i++) all[i] = (dlr_hyper){rows[i].name, dl_config_float(c, rows[i].key)};
    return all;
}
