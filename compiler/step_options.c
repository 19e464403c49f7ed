#include "compiler/step_options.h"

#include <math.h>

#include "compiler/rate_phases.h"
#include "frontends/yaml/rate_options.h"

/* ---- the optimiser ---- */

/* The configuration keys of the optimiser's options. */
static const dl_key option_keys[DL_N_OPTIONS] = {
#define OPTION(id, key, ...) [DL_OPTION_##id] = DL_KEY_##key,
#include "ir/base/optimizers.def"
};

dl_optimizer dl_step_optimizer(const dl_config *c) {
    /* the key allows no others */
    return (dl_optimizer)dl_optimizer_find(dl_config_str(c, DL_KEY_optimizer));
}

double dl_step_option(const dl_config *c, dl_optimizer_option option) {
    const dl_yaml *v = dl_config_value(c, option_keys[option]);
    if (v->kind == DL_YAML_NULL) return 0; /* null: the option belongs to another optimiser */
    return v->kind == DL_YAML_BOOL ? v->truth : v->number;
}

bool dl_step_option_is_given(const dl_config *c, dl_optimizer_option option) {
    return dl_config_is_given(c, option_keys[option]) && !dl_config_is_null(c, option_keys[option]);
}

static bool takes(const dl_config *c, int option) {
    return dl_optimizers[dl_step_optimizer(c)].takes >> option & 1;
}

/* The option of this optimiser that a key sets, else the first of any optimiser; several
 * optimisers have their own names for one key. */
static int option_of_key(const dl_config *c, dl_key key) {
    int found = -1;
    for (int i = 0; i < DL_N_OPTIONS; i++)
        if (option_keys[i] == key && (found < 0 || takes(c, i))) found = i;
    return found;
}

/* Warns of options of other optimisers that are given next to this optimiser, or by a stronger
 * source. "off" and default values do not count, nor do options that a file sets for an
 * optimiser which the command line replaces. */
static void warn_of_others(dl_config *c) {
    for (int i = 0; i < DL_N_OPTIONS; i++) {
        dl_key key = option_keys[i];
        if (takes(c, i) || option_of_key(c, key) != i || !dl_config_is_given(c, key) ||
            dl_config_is_default(c, key) || dl_config_outranks(c, DL_KEY_optimizer, key) ||
            dl_step_option(c, (dl_optimizer_option)i) == 0)
            continue;
        dl_config_warn(c, "%s means nothing to the optimizer %s, and is passed over",
                       dl_key_name(key), dl_config_str(c, DL_KEY_optimizer));
    }
}

/* Resolves options for which each optimiser has a default of its own. */
static bool resolve_options(dl_config *c, dl_error *err) {
    bool keras = strcmp(dl_config_str(c, DL_KEY_optimizer_defaults), "keras") == 0;
    for (int i = 0; i < DL_N_OPTIONS; i++) {
        dl_optimizer_option option = (dl_optimizer_option)i;
        double own =
            dl_optimizer_own(dl_step_optimizer(c), option, keras ? DL_OF_KERAS : DL_OF_TORCH);
        bool open = dl_config_is_null(c, option_keys[i]) || !dl_config_is_given(c, option_keys[i]);
        if (!takes(c, i) || isnan(own) || !open) continue;
        bool flag = dl_optimizer_options[i].kind == DL_OPTION_FLAG;
        const char *text = flag ? own != 0 ? "true" : "false" : dl_internf("%.15g", own);
        if (!dl_config_set_default(c, option_keys[i], text, err)) return false;
    }
    return true;
}

/* ---- keys that override each other ---- */

/* A schedule without a warm-up of its own takes one given next to it, or by a stronger source.
 * It does not take one that a file sets for a schedule which the command line replaces. */
static bool resolve_warmup(dl_config *c, dl_key schedule, dl_error *err) {
    static const dl_key warmups[] = {DL_KEY_warmup_steps, DL_KEY_lr_warmup_epochs};
    const dl_yaml *v = dl_config_value(c, DL_KEY_lr_schedule);
    bool own =
        schedule == DL_KEY_lr_schedule && (v->kind == DL_YAML_LIST || strcmp(v->text, "none") != 0);
    for (size_t i = 0; i < sizeof warmups / sizeof *warmups; i++)
        if (!own && dl_config_int(c, warmups[i]) > 0 &&
            dl_config_outranks(c, schedule, warmups[i]) && !dl_config_set(c, warmups[i], "0", err))
            return false;
    return true;
}

bool dl_step_resolve(dl_config *c, dl_error *err) {
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
    dl_key schedule = named    ? DL_KEY_scheduler
                      : epochs ? DL_KEY_max_cosine_lr_epochs
                               : DL_KEY_lr_schedule;
    if (!resolve_warmup(c, schedule, err)) return false;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (dl_config_outranks(c, pairs[i].beaten_by, pairs[i].key) &&
            !dl_config_set(c, pairs[i].key, "null", err))
            return false;
    warn_of_others(c);
    return resolve_options(c, err) &&
           (!epochs || dl_config_set(c, DL_KEY_scheduler, "cosine", err));
}

const dl_yaml *dl_step_ranges(const dl_config *c) {
    const dl_yaml *v = dl_config_value(c, DL_KEY_lr_schedule);
    bool ranges = v->kind == DL_YAML_LIST && !dl_is_rate_phases(v);
    return ranges && dl_config_is_null(c, DL_KEY_scheduler) ? v : NULL;
}

bool dl_step_has_plateau(const dl_config *c) {
    dl_rate_plateau plateau;
    const char *name = dl_config_str(c, DL_KEY_scheduler);
    return name ? strcmp(name, "reducelr") == 0 : dl_rate_plateau_of(c, &plateau);
}

dl_schedule dl_step_schedule(const dl_config *c) {
    const char *name = dl_config_str(c, DL_KEY_scheduler);
    if (name) return strcmp(name, "cosine") == 0 ? DL_SCHEDULE_cosine_epochs : DL_SCHEDULE_constant;
    if (dl_step_ranges(c)) return DL_SCHEDULE_piecewise;
    const dl_yaml *v = dl_config_value(c, DL_KEY_lr_schedule);
    int own = v->kind == DL_YAML_STRING ? dl_schedule_find(v->text) : -1;
    if (own >= 0) return (dl_schedule)own;
    if (dl_step_has_plateau(c)) return DL_SCHEDULE_constant;
    if (v->kind != DL_YAML_STRING || strcmp(v->text, "none") != 0) return DL_SCHEDULE_phases;
    return dl_config_int(c, DL_KEY_lr_warmup_epochs) > 0 ? DL_SCHEDULE_piecewise
                                                         : DL_SCHEDULE_constant;
}

dl_dtype dl_step_lower_precision(const dl_config *c) {
    const char *mode = dl_config_str(c, DL_KEY_amp_mode);
    if (strcmp(mode, "bf16") == 0) return DL_BF16;
    return strcmp(mode, "fp16") == 0 || dl_config_bool(c, DL_KEY_enable_amp) ? DL_F16 : DL_F32;
}

static bool averages(const dl_config *c) { return dl_config_float(c, DL_KEY_ema) > 0; }

/* The kinds of the schedule's phases (ir/step_options.h). */
static bool pack_phases(const dl_config *c, uint64_t *packed, dl_error *err) {
    dl_rate_phases phases = {0};
    *packed = 0;
    if (dl_step_schedule(c) != DL_SCHEDULE_phases) return true;
    if (!dl_rate_phases_of(c, &phases, err)) return false;
    for (int i = 0; i < phases.n; i++) *packed |= (uint64_t)(phases.phase[i].kind + 1) << 4 * i;
    return true;
}

void dl_step_set_optimizer(dl_step_options *o, dl_optimizer which,
                           const double numbers[DL_N_OPTIONS]) {
    o->optimizer = which;
    o->momentum = numbers[DL_OPTION_momentum] > 0;
    o->nesterov = numbers[DL_OPTION_nesterov] != 0;
    o->dampens = o->momentum && numbers[DL_OPTION_dampening] != 0;
    o->amsgrad = numbers[DL_OPTION_amsgrad] != 0;
    o->maximize = numbers[DL_OPTION_maximize] != 0;
    o->centered = numbers[DL_OPTION_centered] != 0;
    o->accumulator = numbers[DL_OPTION_initial_accumulator_value];
    o->decay = numbers[DL_OPTION_weight_decay] > 0;
}

const char *dl_step_nesterov_fault(const dl_step_options *o) {
    if (!o->nesterov) return NULL;
    if (!o->momentum)
        return "Nesterov's momentum needs a momentum above 0: --nesterov=false, or --momentum=0.9";
    return o->dampens ? "Nesterov's momentum has no dampening: --nesterov=false, or "
                        "--sgd_dampening=0"
                      : NULL;
}

bool dl_step_options_of(const dl_config *c, dl_step_options *step_options, dl_error *err) {
    if (dl_config_bool(c, DL_KEY_torch_checkpoints) && !*dl_optimizers[dl_step_optimizer(c)].of)
        return dl_config_fail(
            c, DL_KEY_torch_checkpoints, err,
            "PyTorch's files have no state of the optimizer %s: --torch_checkpoints=false",
            dl_config_str(c, DL_KEY_optimizer));
    bool swa = !dl_config_is_null(c, DL_KEY_swa);
    if (averages(c) && swa)
        return dl_config_fail(c, DL_KEY_swa, err,
                              "one mean of the weights is kept: --ema=0, or --swa=null");
    static const dl_key single[] = {DL_KEY_freeze, DL_KEY_groups};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (dl_config_bool(c, DL_KEY_torch_checkpoints) && !dl_config_is_null(c, single[i]))
            return dl_config_fail(c, DL_KEY_torch_checkpoints, err,
                                  "PyTorch's files are written of one group of parameters, and %s "
                                  "makes others: --torch_checkpoints=false",
                                  dl_key_name(single[i]));
    const dl_yaml *ranges = dl_step_ranges(c);
    uint64_t phases;
    if (!pack_phases(c, &phases, err)) return false;
    *step_options = (dl_step_options){
        .schedule = dl_step_schedule(c),
        .low = dl_step_lower_precision(c),
        .phases = phases,
        .ranges = ranges ? ranges->items.n : 0,
        .decay_vectors = dl_config_bool(c, DL_KEY_decay_norm_and_bias),
        .together = strcmp(dl_config_str(c, DL_KEY_optimize_order), "together") == 0,
        .accumulate = dl_config_int(c, DL_KEY_accumulate) > 1,
        .clip = dl_config_float(c, DL_KEY_clip_grad_norm) > 0,
        .clip_value = dl_config_float(c, DL_KEY_clip_grad_value) > 0,
        .average = averages(c) || swa,
        .mean_of_epochs = swa,
        .norms = dl_config_bool(c, DL_KEY_log_norms),
        .layer_norms = dl_config_bool(c, DL_KEY_log_layer_norms),
        .noise = dl_config_bool(c, DL_KEY_log_noise_scale)};
    double numbers[DL_N_OPTIONS];
    for (int i = 0; i < DL_N_OPTIONS; i++) numbers[i] = dl_step_option(c, (dl_optimizer_option)i);
    dl_step_set_optimizer(step_options, dl_step_optimizer(c), numbers);
    const char *fault = dl_step_nesterov_fault(step_options);
    return !fault || dl_config_fail(c, DL_KEY_nesterov, err, "%s", fault);
}
