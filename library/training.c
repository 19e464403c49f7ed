/* Training in a program of the caller's: its start, and its checkpoints. */
#include <math.h>

#include "ir/base/dirs.h"
#include "library/model.h"
#include "runtime/setup/rates.h"
#include "runtime/train/start.h"

/* Steps of the schedule: the key num_iters, or the epochs of the run's data. */
static void count_steps(dlc_model *m) {
    const dl_config *c = m->config;
    const dl_yaml *iterations = dl_config_value(c, DL_KEY_num_iters);
    int64_t samples = dl_config_int(c, DL_KEY_Nsamples),
            step = m->batch * m->in_step * m->world.size,
            epoch = samples >= step ? samples / step : 1;
    m->epoch_steps = epoch;
    m->schedule = dl_rates_schedule(m->arena, c, step, m->world.size);
    m->schedule.epoch_steps = epoch;
    m->schedule.steps = iterations->kind == DL_YAML_INT
                            ? iterations->integer
                            : epoch * dl_config_int(c, DL_KEY_num_epochs);
    if (m->schedule.steps < 1) m->schedule.steps = 1;
}

/* The optimiser's state goes on where the checkpoint has it; after another optimiser's it begins
 * anew. */
static bool load_optimizer(dlc_model *m, dl_error *err) {
    dlr_tensors state = dlr_tensors_of_optimizer(m->arena, m->exec),
                scaler = dlr_tensors_of_scaler(m->arena, m->exec);
    dl_error none = {0};
    dlr_differences list = {0};
    if (!m->net.checkpoint) return true;
    m->at = m->net.checkpoint->state;
    m->at.values = NULL, m->at.n_values = 0;
    const dlr_st_file *file = dlr_checkpoint_part_file(m->net.checkpoint, "optimizer", &none),
                      *scales = dlr_checkpoint_part_file(m->net.checkpoint, "scaler", &none);
    if (file) dlr_st_compare(m->arena, file, state.list, state.n, &list);
    if (!file || list.n)
        dl_console_warning(&m->console, "the optimiser begins anew: the checkpoint has another's "
                                        "state");
    else if (!dlr_tensors_load(&state, file, err))
        return false;
    return !scales || !scaler.n || dlr_tensors_load(&scaler, scales, err);
}

bool library_start_training(dlc_model *m, dl_error *err) {
    const dl_config *c = m->config;
    dlr_rates rates;
    dlr_start_options o = {.seed = (uint64_t)dl_config_int(c, DL_KEY_seed),
                           .loss_scale = dl_config_float(c, DL_KEY_loss_scale_init),
                           .init_partial = dl_config_bool(c, DL_KEY_init_partial),
                           .init_weights = dl_config_str(c, DL_KEY_init_weights),
                           .data_rank = m->world.rank};
    o.hypers = dl_rates_hypers(m->arena, c, dlr_exec_plan(m->exec), &o.n_hypers);
    if (m->net.o.path) o.init_weights = NULL;
    count_steps(m);
    m->at = (dlr_state){.seed = o.seed, .best_loss = INFINITY};
    m->loss = dlr_exec_result(m->exec, m->train, DL_RESULT_LOSS, NULL);
    m->valid_loss = dlr_exec_result(m->exec, m->eval, DL_RESULT_LOSS, NULL);
    m->scaler = dlr_scaler_of(m->exec, m->train);
    if (!m->loss.type) return dl_fail(err, DL_INPUT, "the model states no loss to train on");
    if (!dlr_schedule_rates(&m->schedule, &rates, err) || !dlr_start_weights(m->exec, &o, err))
        return false;
    if (m->net.o.path && (!dl_saved_model_load(&m->net, m->exec, err) || !load_optimizer(m, err)))
        return false;
    dlr_start_hypers(m->exec, &o, &rates);
    return true;
}

/* ---- checkpoints ---- */

static dlr_state_value text(const char *key, const char *value) {
    return (dlr_state_value){.key = key, .kind = DLR_STATE_TEXT, .text = value ? value : ""};
}

static dlr_state_value integer(const char *key, int64_t value) {
    return (dlr_state_value){.key = key, .kind = DLR_STATE_INT, .integer = value};
}

static bool save(dlc_model *m, const void *directory, dl_error *err) {
    dl_arena *arena = dl_arena_new(m->arena);
    dl_buf yaml = {0};
    dl_config_put_yaml(m->config, &yaml);
    dlr_tensors model = dlr_tensors_of_model(arena, m->exec),
                optimizer = dlr_tensors_of_optimizer(arena, m->exec),
                scaler = dlr_tensors_of_scaler(arena, m->exec);
    dlr_checkpoint_part parts[] = {{"model", dlr_tensors_content(&model)},
                                   {"optimizer", dlr_tensors_content(&optimizer)},
                                   {"scaler", dlr_tensors_content(&scaler)}};
    dlr_state_value values[] = {
        text("model", m->plan->model),
        integer("epoch_batches", m->epoch_steps),
        integer("batch", m->batch * m->in_step * m->world.size),
        text("hyperparams", yaml.at),
        text("graph", m->identity.graph),
        text("source", m->identity.source),
        text("data", m->net.data.loader ? dl_data_record_text(arena, &m->net.data) : NULL),
        text("from", NULL)};
    dlr_state at = m->at;
    at.epoch = at.iteration / m->epoch_steps, at.position = 0;
    at.values = values, at.n_values = (int)(sizeof values / sizeof *values);
    dlr_checkpoint_content content = {
        .parts = parts, .n_parts = scaler.n ? 3 : 2, .state = at, .keep = 1};
    const char *folder = dl_format(arena, "%s/checkpoints", (const char *)directory);
    bool ok = dl_make_dirs(folder, 0777, err) && dlr_checkpoint_save(folder, &content, err);
    dl_buf_free(&yaml);
    dl_arena_free(arena);
    return ok;
}

int dlc_save(dlc_model *m, const char *directory, dlc_status *status) {
    LIBRARY_OWN_FLOATS;
    dl_error err = {0};
    static const char call[] = "dlc_save";
    if (!m)
        return library_end(dl_fail(&err, DL_USAGE, "dlc_save: the model is NULL"), &err, status);
    bool ok = ((directory && *directory) || dl_fail(&err, DL_USAGE, "dlc_save: no directory"));
    ok = ok && (m->train >= 0 ||
                dl_fail(&err, DL_USAGE, "dlc_save: open the model with dlc_options.train = 1"));
    locale_t before = library_enter_locale();
    ok = ok && (m->world.rank || library_guard(save, m, directory, &err));
    library_leave_locale(before);
    ok = library_agree(m, ok, call, &err);
    return library_end(ok, &err, status);
}
