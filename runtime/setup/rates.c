#include "runtime/setup/rates.h"

#include <math.h>

#include "compiler/objectives.h"
#include "compiler/param_rules.h"
#include "compiler/rate_phases.h"
#include "compiler/step_options.h"
#include "ir/base/tags.h"

static const dlr_rate_range *ranges_of(dl_arena *arena, const dl_yaml *list) {
    dlr_rate_range *ranges = DL_NEWS(arena, dlr_rate_range, list->items.n);
    for (int i = 0; i < list->items.n; i++) {
        const dl_yaml *r = list->items.at[i], *end = dl_yaml_get(r, "end_epoch");
        ranges[i] =
            (dlr_rate_range){dl_yaml_get(r, "start_epoch")->number, end ? end->number : INFINITY,
                             dl_yaml_get(r, "multiplier")->number};
    }
    return ranges;
}

dlr_schedule dl_rates_schedule(dl_arena *arena, const dl_config *c, int64_t global_batch,
                               int ranks) {
    const dl_yaml *list = dl_step_ranges(c),
                  *epochs = dl_config_value(c, DL_KEY_max_cosine_lr_epochs);
    dl_schedule which = dl_step_schedule(c);
    dl_rate_phases *phases = DL_NEW(arena, dl_rate_phases);
    dl_error none = {0}; /* too many are refused where the plan is compiled */
    if (which == DL_SCHEDULE_phases) dl_rate_phases_of(c, phases, &none);
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
                          .phase = phases->phase,
                          .phases = phases->n,
                          .phases_in_epochs = phases->epochs,
                          .global_batch = global_batch,
                          .rank_scaling = dl_config_str(c, DL_KEY_lr_scaling),
                          .ranks = ranks,
                          .base_batch = dl_config_int(c, DL_KEY_base_batch_size)};
}

const dlr_plateau_options *dl_rates_plateau(dl_arena *arena, const dl_config *c) {
    if (!dl_step_has_plateau(c)) return NULL;
    dlr_plateau_options *o = DL_NEW(arena, dlr_plateau_options);
    *o = DLR_PLATEAU_DEFAULTS;
    dl_rate_plateau given;
    if (dl_rate_plateau_of(c, &given))
        *o = (dlr_plateau_options){.factor = given.factor,
                                   .patience = given.patience,
                                   .cooldown = given.cooldown,
                                   .threshold = given.threshold,
                                   .least = given.min_lr,
                                   .smallest = given.eps};
    else
        o->factor = 0.2, o->least = 1e-8, o->patience = dl_config_int(c, DL_KEY_patience);
    return o;
}

const dlr_torch_optimizer *dl_rates_optimizer(dl_arena *arena, const dl_config *c) {
    dlr_torch_optimizer *o = DL_NEW(arena, dlr_torch_optimizer);
    o->which = dl_step_optimizer(c);
    o->decay_vectors = dl_config_bool(c, DL_KEY_decay_norm_and_bias);
    for (int i = 0; i < DL_N_OPTIONS; i++) o->option[i] = dl_step_option(c, (dl_optimizer_option)i);
    return o;
}

const dlr_hyper *dl_rates_hypers(dl_arena *arena, const dl_config *c, const dl_plan *plan, int *n) {
    const int groups = dl_param_groups(c);
    dlr_hyper *all = DL_NEWS(arena, dlr_hyper, DL_N_OPTIONS + 5 + 2 * groups + plan->vars.n);
    *n = 0;
    for (int i = 0; i < DL_N_OPTIONS; i++) {
        const char *name = dl_format(arena, "optimizer.%s", dl_optimizer_options[i].name);
        if (dl_optimizer_options[i].kind == DL_OPTION_NUMBER)
            all[(*n)++] = (dlr_hyper){name, dl_step_option(c, (dl_optimizer_option)i)};
    }
    all[(*n)++] = (dlr_hyper){"optimizer.max_norm", dl_config_float(c, DL_KEY_clip_grad_norm)};
    all[(*n)++] = (dlr_hyper){"optimizer.max_value", dl_config_float(c, DL_KEY_clip_grad_value)};
    const dl_yaml *swa = dl_config_value(c, DL_KEY_swa);
    all[(*n)++] = (dlr_hyper){"optimizer.average.decay", dl_config_float(c, DL_KEY_ema)};
    all[(*n)++] =
        (dlr_hyper){"optimizer.average.from", swa->kind == DL_YAML_INT ? (double)swa->integer : 0};
    for (int i = 0; i < groups; i++) {
        double x;
        if (dl_param_group_rate(c, i, &x))
            all[(*n)++] = (dlr_hyper){dl_format(arena, "optimizer.group.%d.lr", i), x};
        if (dl_param_group_decay(c, i, &x))
            all[(*n)++] = (dlr_hyper){dl_format(arena, "optimizer.group.%d.weight_decay", i), x};
    }
    all[(*n)++] = (dlr_hyper){DL_ACCUMULATE_BATCHES, (double)dl_config_int(c, DL_KEY_accumulate)};
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        double x;
        if (v->role == DL_VAR_HYPER && dl_objective_hyper(c, v->name, &x))
            all[(*n)++] = (dlr_hyper){v->name, x};
    }
    return all;
}
