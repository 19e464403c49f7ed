/* The training loop's options, from the configuration. */
#include "runtime/job/job.h"
#include "runtime/job/profile_options.h"
#include "runtime/setup/dataset_options.h"
#include "runtime/setup/rates.h"

/* The whole configuration, as it is now. */
static bool add_tracking(const dl_run_job *p, dl_error *err) {
    static const dlr_json_limits limits = {.depth = 64, .values = 1 << 20};
    if (!p->wandb) return true;
    dl_buf json = {0};
    dl_config_put_json(p->config, &json);
    p->wandb->config = dlr_json_parse(p->arena, json.at, json.n, limits, "configuration", err);
    p->wandb->words = p->argv, p->wandb->n_words = p->argc;
    dl_buf_free(&json);
    return p->wandb->config != NULL;
}

/* The values of a sweep's trial. */
static const dlr_hparam *trial_values(const dl_run_job *p, int *n) {
    *n = p->trial ? p->trial->entries.n : 0;
    dlr_hparam *all = DL_NEWS(p->arena, dlr_hparam, *n + 1);
    for (int i = 0; i < *n; i++) {
        const dl_yaml *v = p->trial->entries.at[i].value;
        bool number = v->kind == DL_YAML_INT || v->kind == DL_YAML_FLOAT;
        all[i] = (dlr_hparam){.name = p->trial->entries.at[i].key,
                              .text = number                      ? NULL
                                      : v->kind == DL_YAML_STRING ? v->text
                                                                  : dl_yaml_show(p->arena, v),
                              .number = number ? v->number : 0};
    }
    return all;
}

static dlr_start_options start_options(const dl_run_job *p) {
    dlr_start_options o = {.seed = (uint64_t)dl_config_int(p->config, DL_KEY_seed),
                           .data_rank = p->place[DL_RANKS_DP],
                           .loss_scale = dl_config_float(p->config, DL_KEY_loss_scale_init),
                           .init_partial = dl_config_bool(p->config, DL_KEY_init_partial),
                           .init_weights = dl_config_str(p->config, DL_KEY_init_weights)};
    o.hypers = dl_rates_hypers(p->arena, p->config, dlr_exec_plan(p->exec), &o.n_hypers);
    return o;
}

static dlr_stopper_options stopper_options(const dl_run_job *p) {
    const dl_yaml *steps = dl_config_value(p->config, DL_KEY_num_iters),
                  *early = dl_config_value(p->config, DL_KEY_early_stop),
                  *stop = dl_config_value(p->config, DL_KEY_stop_after);
    return (dlr_stopper_options){.epochs = dl_config_int(p->config, DL_KEY_num_epochs),
                                 .steps = steps->kind == DL_YAML_INT ? steps->integer : 0,
                                 .early = early->kind == DL_YAML_INT ? early->integer : 0,
                                 .judge = p->judge,
                                 .stop_after = stop->kind == DL_YAML_INT ? stop->integer : 0,
                                 .save_seconds =
                                     60 * dl_config_float(p->config, DL_KEY_save_every_minutes),
                                 .resume_command = p->resume_command};
}

static dlr_checkpointer_options checkpointer_options(const dl_run_job *p) {
    const dl_config *c = p->config;
    bool torch = dl_config_bool(c, DL_KEY_torch_checkpoints);
    return (dlr_checkpointer_options){.async = dl_config_bool(c, DL_KEY_async_checkpoints),
                                      .sharded = dl_config_bool(c, DL_KEY_sharded_checkpoints),
                                      .keep = (int)dl_config_int(c, DL_KEY_keep_checkpoints),
                                      .torch = torch ? dl_rates_optimizer(p->arena, c) : NULL};
}

static dlr_run_ranks ranks_of(const dl_run_job *p) {
    const dl_config *c = p->config;
    return (dlr_run_ranks){.comm = p->comm,
                           .size = p->world.size,
                           .rank = p->world.rank,
                           .data_rank = p->place[DL_RANKS_DP],
                           .data_ranks = p->data_ranks,
                           .check_every = dl_config_int(c, DL_KEY_check_replicas),
                           .own_buffers = dl_config_bool(c, DL_KEY_disable_broadcast_buffers)};
}

static dlr_train_options train_options(const dl_run_job *p, const dl_buf *yaml) {
    const dl_config *c = p->config;
    return (dlr_train_options){
        .exec = p->exec,
        .console = p->out,
        .dir = &p->dir,
        .model = p->model,
        .ranks = ranks_of(p),
        .start = start_options(p),
        .rate = {.schedule = dl_rates_schedule(p->arena, c, p->global_batch, p->data_ranks),
                 .plateau = dl_rates_plateau(p->arena, c)},
        .data = {.train = p->train,
                 .valid = p->valid,
                 .in_step = dl_config_int(c, DL_KEY_accumulate),
                 .workers = (int)dl_config_int(c, DL_KEY_num_data_workers),
                 .device_samples = dl_samples_by_device(c),
                 .device_holds = dl_samples_held(c)},
        .stop = stopper_options(p),
        .best = {.metric = dl_config_str(c, DL_KEY_best_metric),
                 .largest = strcmp(dl_config_str(c, DL_KEY_best_goal), "maximize") == 0,
                 .keep = (int)dl_config_int(c, DL_KEY_keep_best)},
        .every = {.log = dl_config_int(c, DL_KEY_log_every),
                  .validate = dl_config_int(c, DL_KEY_val_every),
                  .save = dl_config_int(c, DL_KEY_save_every),
                  .epochs = dl_config_int(c, DL_KEY_val_every_epochs)},
        .measure = dl_config_bool(c, DL_KEY_enable_benchy),
        .resume = {.wanted = dl_config_bool(c, DL_KEY_resume),
                   .from = dl_config_str(c, DL_KEY_resume)},
        .checkpoints = checkpointer_options(p),
        .log = {.style = dlr_record_find(dl_config_str(c, DL_KEY_log_format)),
                .between = dl_config_int(c, DL_KEY_log_every) || dl_config_int(c, DL_KEY_val_every),
                .hyperparams = yaml->at,
                .kernels = p->kept,
                .wandb = p->wandb},
        .save_grads = dl_config_str(c, DL_KEY_save_grads),
        .save_weights = dl_config_str(c, DL_KEY_save_weights),
    };
}

bool dl_job_train(const dl_run_job *p, dl_error *err) {
    dl_buf yaml = {0};
    dl_config_put_yaml(p->config, &yaml);
    dlr_train_options o = train_options(p, &yaml);
    o.log.trial = trial_values(p, &o.log.n_trial);
    bool asked = dl_config_option(p->config, "profile") != NULL,
         ok = add_tracking(p, err) &&
              dl_profile_open(p->arena, asked, &p->dir, p->exec, p->device.device, &o.ranges, err);
    if (ok)
        ok = dl_job_replays(p->config)
                 ? dlr_train_replay(&o, dl_config_str(p->config, DL_KEY_replay), err)
                 : dlr_train(&o, err);
    dl_buf_free(&yaml);
    return ok;
}
