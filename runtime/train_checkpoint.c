/* A run into its checkpoint. */
#include "runtime/train_parts.h"

/* A run that cannot go on is not worth keeping: what was saved before is. */
static bool refuse_not_finite(const dlr_run *r, const dl_error *fault, dl_error *err) {
    return dl_fail(
        err, DL_NUMERIC,
        "%s behind step %lld, epoch %lld: stopped; nothing was saved of this step, and checkpoints stay "
        "as they were. A lower start_lr may help",
        fault->message, (long long)r->at.iteration, (long long)r->at.epoch + (r->at.position > 0));
}

/* Tensors of a checkpoint: whatever is not finite in them would be there for ever. */
static dlr_st_content only_finite(const dlr_tensors *tensors) {
    dlr_st_content content = dlr_tensors_content(tensors);
    content.finite = true;
    return content;
}

/* The newest scale; values of the epoch that are left out of its means: of the loss, and of each metric. */
static const double *scaler_numbers(dl_arena *arena, const dlr_run *r) {
    double *numbers = DL_NEWS(arena, double, r->trained.n + 2);
    numbers[0] = r->scaler.last, numbers[1] = (double)r->lost;
    for (int i = 0; i < r->trained.n; i++) numbers[i + 2] = (double)r->trained.terms[i].lost;
    return numbers;
}

bool dlr_run_save(dlr_run *r, bool is_best, dl_error *err) {
    if (!dlr_run_leads(r->o)) return true;
    dl_arena *arena = dl_arena_new(r->arena);
    dlr_tensors model = dlr_tensors_of_model(arena, r->exec);
    dlr_tensors optimizer = dlr_tensors_of_optimizer(arena, r->exec);
    dlr_tensors scaler = dlr_tensors_of_scaler(arena, r->exec);
    bool scales = scaler.n > 0;
    dlr_checkpoint_part parts[] = {{"model", only_finite(&model)},
                                   {"optimizer", only_finite(&optimizer)},
                                   {"scaler", only_finite(&scaler)}};
    const dlr_run_model *m = &r->o->model;
    double *sums = DL_NEWS(arena, double, r->trained.n + 1); /* of the model's metrics, behind their count */
    double *last = DL_NEWS(arena, double, r->trained.n + 1); /* of the newest step, likewise */
    sums[0] = last[0] = (double)r->trained.batches;
    for (int i = 0; i < r->trained.n; i++)
        sums[i + 1] = r->trained.terms[i].sum, last[i + 1] = r->trained.terms[i].last;
    const double plateau[] = {r->plateau.best, (double)r->plateau.bad, r->plateau.rate};
    dlr_state_value values[] = {
        {.key = "model", .kind = DLR_STATE_TEXT, .text = dlr_exec_plan(r->exec)->model},
        {.key = "epoch_batches", .kind = DLR_STATE_INT, .integer = r->epoch_batches},
        {.key = "batch", .kind = DLR_STATE_INT, .integer = r->global_batch},
        {.key = "epoch_seconds", .kind = DLR_STATE_REALS, .reals = &r->seconds, .n_reals = 1},
        {.key = "epoch_wait", .kind = DLR_STATE_REALS, .reals = &r->wait, .n_reals = 1},
        {.key = "learning_rate", .kind = DLR_STATE_REALS, .reals = &r->last_rate, .n_reals = 1},
        {.key = "metric_sums", .kind = DLR_STATE_REALS, .reals = sums, .n_reals = r->trained.n + 1},
        {.key = "metric_last", .kind = DLR_STATE_REALS, .reals = last, .n_reals = r->trained.n + 1},
        {.key = "best_epoch", .kind = DLR_STATE_INT, .integer = r->best_epoch},
        {.key = "hyperparams", .kind = DLR_STATE_TEXT, .text = r->o->hyperparams ? r->o->hyperparams : ""},
        {.key = "graph", .kind = DLR_STATE_TEXT, .text = m->graph ? m->graph : ""},
        {.key = "source", .kind = DLR_STATE_TEXT, .text = m->source ? m->source : ""},
        {.key = "from", .kind = DLR_STATE_TEXT, .text = r->from ? r->from : ""},
        {0}, /* the plateau's and the scaler's, only where there is one */
        {0},
    };
    int n_values = (int)(sizeof values / sizeof *values) - 2;
    if (r->o->plateau)
        values[n_values++] =
            (dlr_state_value){.key = "plateau", .kind = DLR_STATE_REALS, .reals = plateau, .n_reals = 3};
    if (scales)
        values[n_values++] = (dlr_state_value){.key = "scaler",
                                               .kind = DLR_STATE_REALS,
                                               .reals = scaler_numbers(arena, r),
                                               .n_reals = r->trained.n + 2};
    dlr_checkpoint_content content = {
        .parts = parts, .n_parts = 2 + scales, .state = r->at, .is_best = is_best, .keep = r->o->keep};
    content.state.values = values;
    content.state.n_values = n_values;
    /* points first: a resumed run drops those behind its checkpoint and writes them again */
    dl_error fault = {0};
    bool ok = dlr_metrics_flush(r->metrics, &fault) && dlr_tensorboard_flush(r->board, &fault) &&
              (r->at.position > 0 || dlr_run_save_torch(r, is_best, &fault)) && /* epochs only */
              dlr_checkpoint_save(r->o->dir->checkpoints, &content, &fault);
    dl_arena_free(arena);
    if (ok) return true;
    return fault.code == DL_NUMERIC ? refuse_not_finite(r, &fault, err)
                                    : dl_fail(err, fault.code, "%s", fault.message);
}
