/* A run into its checkpoint, and back: each component's values, and the tensors. */
#include <math.h>

#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/log.h"
#include "runtime/train/run.h"

/* ---- into a checkpoint ---- */

/* The newest scale; values of the epoch that are left out of its means: of the loss, and of each
 * metric. */
static void put_scaler(const dlr_run *r, dl_arena *arena, dlr_state_list *list) {
    double *numbers = dlr_state_put_reals(arena, list, "scaler", r->trained.n + 2);
    numbers[0] = r->steps.scaler.last, numbers[1] = (double)r->skipped;
    for (int i = 0; i < r->trained.n; i++) numbers[i + 2] = (double)r->trained.terms[i].skipped;
}

static void put_values(const void *run, dl_arena *arena, dlr_state_list *list) {
    const dlr_run *r = run;
    const dlr_run_model *model = &r->o->model;
    dlr_state_put_text(arena, list, "model", dlr_exec_plan(r->exec)->model);
    dlr_state_put_int(arena, list, "epoch_batches", r->batches.epoch_batches);
    dlr_state_put_int(arena, list, "batch", r->batches.global_batch);
    dlr_state_put_real(arena, list, "epoch_seconds", r->steps.seconds);
    dlr_state_put_real(arena, list, "epoch_wait", r->steps.wait);
    dlr_state_put_real(arena, list, "learning_rate", r->rate.last);
    dlr_averages_put_state(&r->trained, arena, list);
    dlr_state_put_int(arena, list, "best_epoch", r->best_epoch);
    dlr_state_put_text(arena, list, "hyperparams", r->o->log.hyperparams);
    dlr_state_put_text(arena, list, "graph", model->graph);
    dlr_state_put_text(arena, list, "source", model->source);
    dlr_state_put_text(arena, list, "data", model->data);
    dlr_state_put_text(arena, list, "from", r->origin.from);
    dlr_learning_rate_put_state(&r->rate, arena, list);
    dlr_stopper_put_state(&r->stopper, arena, list);
    dlr_best_put_state(&r->best, arena, list);
    if (dlr_tensors_of_scaler(arena, r->exec).n > 0) put_scaler(r, arena, list);
}

bool dlr_run_save(dlr_run *r, bool is_best, dl_error *err) {
    dlr_torch_run torch;
    dlr_torch_scheduler scheduler;
    r->stopper.saves = false;
    bool for_torch = r->o->checkpoints.torch && r->at.position == 0; /* epochs only */
    if (for_torch) dlr_run_describe_torch(r, &torch, &scheduler);
    dlr_checkpoint_request request = {.at = &r->at,
                                      .put_values = put_values,
                                      .run = r,
                                      .is_best = is_best,
                                      .best = &r->best,
                                      .torch = for_torch ? &torch : NULL};
    return dlr_checkpointer_save(&r->checkpointer, &request, err);
}

/* ---- from a checkpoint ---- */

static void restore_scaler_numbers(dlr_run *r, const dlr_checkpoint *c) {
    const double *v = dlr_state_reals(c, "scaler", r->trained.n + 2);
    if (!v) return;
    r->steps.scaler.last = v[0], r->skipped = (int64_t)v[1];
    for (int i = 0; i < r->trained.n; i++) r->trained.terms[i].skipped = (int64_t)v[i + 2];
}

/* The loss scaler's state, which either side may lack: another precision is a choice. */
static bool load_scaler(dlr_run *r, const dlr_checkpoint *c, dl_error *err) {
    dlr_tensors scaler = dlr_tensors_of_scaler(r->arena, r->exec);
    dl_error none = {0};
    const dlr_st_file *file = dlr_checkpoint_part_file(c, "scaler", &none);
    if (file && scaler.n > 0) {
        restore_scaler_numbers(r, c);
        return dlr_tensors_load(&scaler, file, err);
    }
    if (scaler.n > 0)
        dlr_log_info("the checkpoint has no loss scaler: it begins at %g", r->o->start.loss_scale);
    else if (file)
        dlr_log_info("the checkpoint's loss scaler is dropped: nothing is scaled now");
    dlr_scaler_start(r->exec, r->o->start.loss_scale);
    return true;
}

/* The mean of the weights, which the checkpoint may lack: it begins with its weights then. */
static bool load_average(dlr_run *r, const dlr_checkpoint *c, dl_error *err) {
    dlr_tensors average = dlr_tensors_of_average(r->arena, r->exec);
    dl_error none = {0};
    const dlr_st_file *file = dlr_checkpoint_part_file(c, "ema", &none);
    if (!average.n && file)
        dlr_log_info("the checkpoint's mean of the weights is dropped: none is kept now");
    if (!average.n) return true;
    if (file) return dlr_tensors_load(&average, file, err);
    dlr_log_info("the checkpoint has no mean of the weights: it begins with the checkpoint's");
    dlr_tensors_begin_average(r->exec);
    return true;
}

/* The means of an epoch so far as sums over so many batches. */
static void weigh(dlr_run *r, int64_t batches) {
    int64_t then = r->at.position - r->skipped;
    r->at.epoch_loss *= then > 0 ? (double)batches / (double)then : 0;
    r->skipped = 0;
    dlr_averages_weigh(&r->trained, batches);
}

/* If the batch size has changed within an epoch, the epoch continues with the first batch that has
 * samples it has not seen. */
static void move_within_epoch(dlr_run *r, const dlr_checkpoint *c) {
    int64_t batch = dlr_checkpoint_integer(c, "batch"),
            all = dlr_checkpoint_integer(c, "epoch_batches"), made = r->at.position;
    if (made == 0 || batch <= 0 || batch == r->batches.global_batch) return;
    int64_t seen = made * batch, now = seen / r->batches.global_batch;
    if (made >= all || now > r->batches.epoch_batches)
        now = r->batches.epoch_batches; /* validation was left */
    int64_t again = seen - now * r->batches.global_batch;
    weigh(r, now);
    r->at.position = now;
    dlr_log_info("the epoch goes on by batches of %lld samples (%lld in the checkpoint)%s",
                 (long long)r->batches.global_batch, (long long)batch,
                 made < all && again > 0
                     ? dl_format(r->arena, ": %lld samples are seen twice", (long long)again)
                     : "");
}

/* Everything that is another one now, each in the log where the error has no room for all. */
static bool check_same(const dlr_run *r, const dlr_checkpoint *c, const dlr_differences *list,
                       dl_error *err) {
    const char *what = dl_format(
        r->arena,
        "%.150s is of another run (a new one can begin with its weights: --init_weights=%.150s)",
        c->path, c->path);
    if (list->n == 0) return true;
    if (!dlr_differences_fit(list))
        for (int i = 0; i < list->n; i++) dlr_log(DLR_ERROR, "%s", list->at[i]);
    return dlr_differences_fail(list, what, err);
}

bool dlr_run_load(dlr_run *r, const dlr_checkpoint *c, dl_error *err) {
    dlr_tensors model = dlr_tensors_of_model(r->arena, r->exec);
    dlr_tensors optimizer = dlr_tensors_of_optimizer(r->arena, r->exec);
    const dlr_st_file *a = dlr_checkpoint_part_file(c, "model", err);
    const dlr_st_file *b = a ? dlr_checkpoint_part_file(c, "optimizer", err) : NULL;
    dlr_differences list = {0};
    if (!b) return false;
    dlr_run_compare(r, c, &list);
    dlr_st_compare(r->arena, a, model.list, model.n, &list);
    dlr_st_compare(r->arena, b, optimizer.list, optimizer.n, &list);
    if (!check_same(r, c, &list, err) || !dlr_tensors_load(&model, a, err) ||
        !dlr_tensors_load(&optimizer, b, err) || !load_scaler(r, c, err) ||
        !load_average(r, c, err))
        return false;
    r->at = c->state;
    r->at.values = NULL, r->at.n_values = 0; /* they are the checkpoint's memory */
    r->steps.seconds = dlr_state_real(c, "epoch_seconds");
    r->steps.wait = dlr_state_real(c, "epoch_wait");
    r->rate.last = dlr_state_real(c, "learning_rate");
    r->best_epoch = dlr_checkpoint_integer(c, "best_epoch");
    const char *from = dlr_state_text(c, "from");
    r->origin.from = from ? dl_strdup(r->arena, from) : NULL;
    dlr_averages_restore(&r->trained, c);
    move_within_epoch(r, c);
    dlr_learning_rate_restore(&r->rate, c);
    dlr_stopper_restore(&r->stopper, c);
    dlr_best_restore(&r->best, c);
    return true;
}
