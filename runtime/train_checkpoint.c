/* A run into its checkpoint, and back. */
#include "runtime/io/log.h"
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
        {.key = "batch", .kind = DLR_STATE_INT, .integer = r->batch},
        {.key = "epoch_seconds", .kind = DLR_STATE_REALS, .reals = &r->seconds, .n_reals = 1},
        {.key = "epoch_wait", .kind = DLR_STATE_REALS, .reals = &r->wait, .n_reals = 1},
        {.key = "learning_rate", .kind = DLR_STATE_REALS, .reals = &r->last_rate, .n_reals = 1},
        {.key = "metric_sums", .kind = DLR_STATE_REALS, .reals = sums, .n_reals = r->trained.n + 1},
        {.key = "metric_last", .kind = DLR_STATE_REALS, .reals = last, .n_reals = r->trained.n + 1},
        {.key = "best_epoch", .kind = DLR_STATE_INT, .integer = r->best_epoch},
        {.key = "hyperparams", .kind = DLR_STATE_TEXT, .text = r->o->hyperparams ? r->o->hyperparams : ""},
        {.key = "graph", .kind = DLR_STATE_TEXT, .text = m->graph ? m->graph : ""},
        {.key = "source", .kind = DLR_STATE_TEXT, .text = m->source ? m->source : ""},
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

static double real(const dlr_checkpoint *c, const char *key) {
    const dlr_state_value *v = dlr_checkpoint_value(c, key);
    return v && v->kind == DLR_STATE_REALS && v->n_reals == 1 ? v->reals[0] : 0;
}

/* The sums of the epoch's metrics so far. Of other metrics than now: averages begin here. */
static void restore_sums(dlr_averages *a, const dlr_checkpoint *c) {
    const dlr_state_value *v = dlr_checkpoint_value(c, "metric_sums");
    if (!v || v->kind != DLR_STATE_REALS || v->n_reals != a->n + 1) return;
    a->batches = (int64_t)v->reals[0];
    for (int i = 0; i < a->n; i++) a->terms[i].sum = v->reals[i + 1];
    v = dlr_checkpoint_value(c, "metric_last");
    if (!v || v->kind != DLR_STATE_REALS || v->n_reals != a->n + 1) return;
    for (int i = 0; i < a->n; i++) a->terms[i].last = v->reals[i + 1];
}

/* Where a run goes on that was lowered by a plateau; of one that was not, it begins now. */
static void restore_plateau(dlr_plateau *p, const dlr_checkpoint *c) {
    const dlr_state_value *v = dlr_checkpoint_value(c, "plateau");
    if (!v || v->kind != DLR_STATE_REALS || v->n_reals != 3) return;
    *p = (dlr_plateau){.best = v->reals[0], .bad = (int64_t)v->reals[1], .rate = v->reals[2]};
}

static void restore_scaler_numbers(dlr_run *r, const dlr_checkpoint *c) {
    const dlr_state_value *v = dlr_checkpoint_value(c, "scaler");
    if (!v || v->kind != DLR_STATE_REALS || v->n_reals != r->trained.n + 2) return;
    r->scaler.last = v->reals[0], r->lost = (int64_t)v->reals[1];
    for (int i = 0; i < r->trained.n; i++) r->trained.terms[i].lost = (int64_t)v->reals[i + 2];
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
        dlr_log_info("the checkpoint has no loss scaler: it begins at %g", r->o->loss_scale);
    else if (file)
        dlr_log_info("the checkpoint's loss scaler is dropped: nothing is scaled now");
    dlr_scaler_start(r->exec, r->o->loss_scale);
    return true;
}

/* Everything that is another one now, each in the log where the error has no room for all. */
static bool check_same(const dlr_run *r, const dlr_checkpoint *c, const dlr_differences *list,
                       dl_error *err) {
    const char *what = dl_format(
        r->arena, "%.150s is of another run (its model.safetensors can be --init_weights of a new one)",
        c->path);
    if (list->n == 0) return true;
    if (!dlr_differences_fit(list))
        for (int i = 0; i < list->n; i++) dlr_log(DLR_ERROR, "%s", list->at[i]);
    return dlr_differences_fail(list, what, err);
}

static bool load(dlr_run *r, const dlr_checkpoint *c, dl_error *err) {
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
        !dlr_tensors_load(&optimizer, b, err) || !load_scaler(r, c, err))
        return false;
    r->at = c->state;
    r->at.values = NULL, r->at.n_values = 0; /* they are the checkpoint's memory */
    r->seconds = real(c, "epoch_seconds"), r->wait = real(c, "epoch_wait"),
    r->last_rate = real(c, "learning_rate");
    const dlr_state_value *best = dlr_checkpoint_value(c, "best_epoch");
    if (best && best->kind == DLR_STATE_INT) r->best_epoch = best->integer;
    restore_sums(&r->trained, c);
    if (r->o->plateau) restore_plateau(&r->plateau, c);
    return true;
}

/* The newest of our own; *c NULL: there is none. */
static bool open_own(const dlr_run *r, dlr_checkpoint **c, dl_error *err) {
    *c = NULL;
    if (dlr_checkpoint_open(r->o->dir->checkpoints, "last", c, err) == DLR_CHECKPOINT_FAILED) return false;
    for (int i = 0; *c && i < (*c)->n_warnings; i++) dlr_log_warning("%s", (*c)->warnings[i]);
    return true;
}

bool dlr_run_restore(dlr_run *r, bool *restored, dl_error *err) {
    dlr_checkpoint *own;
    dlr_st_file *theirs = NULL;
    if (!open_own(r, &own, err)) return false;
    bool ok = dlr_run_find_torch(r, own ? &own->state : NULL, &theirs, err);
    const char *path = theirs ? theirs->path : own ? own->path : NULL;
    if (ok && path) ok = theirs ? dlr_run_load_torch(r, theirs, err) : load(r, own, err);
    if (ok && path)
        dlr_log_info("resuming from %s: epoch %lld, step %lld, batch %lld of %lld", path,
                     (long long)r->at.epoch + 1, (long long)r->at.iteration, (long long)r->at.position,
                     (long long)r->epoch_batches);
    else if (ok)
        dlr_log_info("resume: no checkpoint in %s yet, so this run starts from the beginning",
                     r->o->dir->checkpoints);
    *restored = ok && path;
    dlr_st_close(theirs);
    dlr_checkpoint_close(own);
    return ok;
}
