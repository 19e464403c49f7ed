/* Validation: mean loss and metrics of the program "eval". */
#include "runtime/train/train_parts.h"

/* Mean loss and metrics over the next `n` batches; at the end of an epoch the first is drawn. */
static bool validate_on(dlr_run *r, int64_t n, bool epoch, double *mean, dl_error *err) {
    double sum = 0;
    dlr_averages_clear(&r->validated);
    for (int64_t i = 0; i < n; i++) {
        dlr_batch batch;
        if (!dlr_prefetch_next(r->batches, &batch, err)) return false;
        dlr_feed_batch(&r->feed, &batch);
        const char *found = dlr_steps_start_program(&r->steps, r->eval);
        dlr_exec_wait_oldest(r->exec);
        double loss = dlr_scalar(r->exec, r->valid);
        if (!dlr_exec_check(r->exec, err) ||
            !dlr_run_check_found(r, "validation", found, false, err))
            return false;
        if (!dlr_run_check_loss(r, "validation", loss, err)) return false;
        if (i == 0 && epoch && !dlr_run_draw(r, &batch, err)) return false;
        sum += loss;
        dlr_averages_add(&r->validated, r->exec, false);
        dlr_progress_step(&r->progress, r->global_batch, loss);
        if (!dlr_run_ask(r, err)) return false;
        if (epoch && r->asked) return dlr_run_pause(r, err); /* it will be done again */
    }
    *mean = sum / (double)n;
    return true;
}

bool dlr_run_validate(dlr_run *r, bool epoch, double *mean, dl_error *err) {
    if (!dlr_run_share_buffers(r, err) || !dlr_prefetch_turn(r->batches, r->o->valid, 0, 0, err))
        return false;
    int64_t n = epoch ? dlr_prefetch_batches(r->batches) : 1;
    dlr_progress_start(&r->progress, "validation", n);
    dlr_range_begin(&r->o->ranges, DLR_PART_VALIDATION, 0);
    bool ok = validate_on(r, n, epoch, mean, err);
    dlr_range_end(&r->o->ranges);
    dlr_progress_finish(&r->progress);
    return ok && dlr_prefetch_turn(r->batches, r->o->train, r->at.epoch + epoch, 0, err);
}

bool dlr_run_record_untrained(dlr_run *r, dl_error *err) {
    dlr_batch batch;
    double valid;
    if (!dlr_prefetch_next(r->batches, &batch, err)) return false;
    dlr_feed_batch(&r->feed, &batch);
    dlr_exec_run(r->exec, r->eval, NULL);
    double train = dlr_scalar(r->exec, r->valid);
    if (!dlr_exec_check(r->exec, err)) return false;
    dlr_averages metrics = dlr_averages_of(r->arena, r->exec, r->eval, "train", r->o->style);
    dlr_averages_add(&metrics, r->exec, false);
    if (!dlr_run_check_loss(r, "initial", train, err) || !dlr_run_validate(r, false, &valid, err))
        return false;
    dlr_run_put(r, DLR_VALUE_TRAIN_LOSS, train), dlr_run_put(r, DLR_VALUE_VALID_LOSS, valid);
    dlr_run_put_averages(r, &metrics), dlr_run_put_averages(r, &r->validated);
    return dlr_run_record(r, err);
}
