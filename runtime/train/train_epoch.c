/* An epoch: its steps, then validation, log lines, records and a checkpoint. */
#include <math.h>
#include <stdio.h>

#include "ir/base/clock.h"
#include "runtime/base/debug.h"
#include "runtime/formats/log.h"
#include "runtime/train/run.h"

/* The numbers of an epoch whose steps are done. */
static dlr_record_numbers epoch_numbers(const dlr_run *r) {
    return (dlr_record_numbers){
        .epoch = r->at.epoch + 1,
        .epochs = dlr_stopper_epochs(&r->o->stop, &r->at, r->batches.epoch_batches),
        .seconds = r->steps.seconds,
        .wait = r->steps.wait,
        .samples_per_sec = (double)(r->at.position * r->batches.global_batch) / r->steps.seconds,
        .train = r->at.epoch_loss / (double)(r->at.position - r->skipped)};
}

/* Starts the profiler, or the own profile, of the epoch's steps. */
static void begin_profile(const dlr_run *r) {
    const dlr_ranges *ranges = &r->o->ranges;
    if (r->at.epoch == DLR_PROFILED_EPOCH && ranges->start) ranges->start();
    if (ranges->profile)
        dlr_profile_epoch(ranges->profile, r->exec, r->steps.program, r->at.epoch, r->at.position,
                          dlr_run_epoch_steps(r) - r->at.position);
}

static void end_profiler(const dlr_run *r) {
    if (r->at.epoch == DLR_PROFILED_EPOCH && r->o->ranges.stop) r->o->ranges.stop();
}

/* The next multiple of `every` after `at`, or `end`. */
static int64_t next_of(int64_t every, int64_t at, int64_t end) {
    int64_t next = every ? (at / every + 1) * every : end;
    return next < end ? next : end;
}

/* Validates within an epoch: a point of its own. The best loss is that of whole epochs. */
static bool validate_within(dlr_run *r, dl_error *err) {
    bool stopped;
    double valid;
    r->evaluator.within = true;
    bool ok = dlr_evaluator_run(&r->evaluator, &r->steps, &r->at, true, &valid, &stopped, err);
    r->evaluator.within = false;
    if (!ok) return false;
    if (stopped) return dlr_run_pause(r, err);
    dlr_log_info("step %lld: validation loss %g", (long long)r->at.iteration, valid);
    dlr_logger_put(&r->logger, DLR_VALUE_VALID_LOSS, valid);
    dlr_logger_put_averages(&r->logger, &r->evaluator.averages);
    return dlr_logger_record(&r->logger, &r->at, true, err);
}

/* After so many of an epoch's steps, but not its last. */
static bool do_within(dlr_run *r, dl_error *err) {
    const dlr_intervals *every = &r->o->every;
    if (dlr_run_validates(r) && every->validate && r->at.position % every->validate == 0 &&
        !validate_within(r, err))
        return false;
    bool by_steps = every->save && r->at.position % every->save == 0;
    return !(by_steps || r->stopper.saves) || dlr_run_save(r, false, err);
}

static bool train_steps(dlr_run *r, dl_error *err) {
    const dlr_intervals *every = &r->o->every;
    int64_t end = dlr_run_epoch_steps(r);
    bool stopped = false, ok = true;
    r->steps.position = r->at.position;
    r->steps.first_alone = r->at.iteration == 0 && r->o->save_grads;
    while (ok && r->steps.position < end) {
        int64_t at = r->steps.position, to = end;
        if (dlr_run_keeps(r)) to = next_of(every->save, at, next_of(every->validate, at, end));
        ok = dlr_steps_run(&r->steps, to, &stopped, err);
        bool ends = stopped && dlr_stopper_stops(&r->stopper, r->at.iteration - r->first);
        if (ok && ends) ok = dlr_run_pause(r, err);
        if (ok && r->steps.position < end) ok = do_within(r, err);
    }
    return ok;
}

static void log_training(const dlr_run *r) {
    dlr_record_numbers numbers = epoch_numbers(r);
    dlr_logger_lines(r->o->log.style->trained, &numbers);
    for (int i = 0; i < r->trained.n; i++)
        if (r->trained.terms[i].own && !r->trained.terms[i].layer)
            dlr_log_info("  Avg %s=%g", r->trained.terms[i].name,
                         dlr_averages_mean(&r->trained, i));
    if (r->steps.scaler.used.type)
        dlr_log_info("  Loss scale=%g, %.0f steps skipped so far", r->steps.scaler.last,
                     dlr_scalar(r->exec, r->steps.scaler.all));
}

bool dlr_run_train_epoch(dlr_run *r, dl_error *err) {
    char label[64];
    int64_t epochs = dlr_stopper_epochs(&r->o->stop, &r->at, r->batches.epoch_batches);
    snprintf(label, sizeof label, "epoch %lld/%lld", (long long)r->at.epoch + 1, (long long)epochs);
    if (dlr_run_keeps(r))
        dlr_progress_start(&r->logger.progress, label, dlr_run_epoch_steps(r) - r->at.position);
    begin_profile(r);
    bool ok = train_steps(r, err);
    end_profiler(r);
    dlr_progress_finish(&r->logger.progress);
    if (ok && dlr_run_keeps(r)) log_training(r);
    return ok;
}

static void log_validation(const dlr_run *r, double loss, double seconds) {
    dlr_record_numbers numbers = epoch_numbers(r);
    numbers.valid = loss, numbers.valid_seconds = seconds,
    numbers.all_seconds = r->steps.seconds + seconds;
    dl_buf trained = {0}, validated = {0};
    const dlr_log_format *style = r->o->log.style;
    dlr_logger_lines(style->validated, &numbers);
    for (int i = 0; !style->metrics_in_line && i < r->evaluator.averages.n; i++)
        dlr_log_info("  Avg val %s=%f", r->evaluator.averages.terms[i].name,
                     dlr_averages_mean(&r->evaluator.averages, i));
    if (style->metrics_in_line) {
        numbers.metrics = dlr_averages_line(&r->trained, style, "", &trained);
        numbers.valid_metrics =
            dlr_averages_line(&r->evaluator.averages, style, "val_", &validated);
    }
    dlr_logger_lines(style->finished, &numbers);
    dl_buf_free(&trained), dl_buf_free(&validated);
}

/* Whether the epoch whose steps are done is validated. */
static bool validates_epoch(const dlr_run *r) {
    const int64_t epochs = r->o->every.epochs;
    dlr_state after = r->at;
    after.epoch++, after.position = 0;
    return dlr_run_validates(r) &&
           (epochs <= 1 || after.epoch % epochs == 0 || dlr_stopper_is_done(&r->o->stop, &after));
}

static void put_epoch(dlr_run *r, bool validates, double valid, double seconds) {
    dlr_record_numbers numbers = epoch_numbers(r);
    const bool at_end = r->o->log.style->rate_at_end;
    dlr_logger *l = &r->logger;
    dlr_logger_put(l, DLR_VALUE_TRAIN_LOSS, numbers.train);
    dlr_logger_put(l, DLR_VALUE_RATE, dlr_learning_rate_recorded(&r->rate, &r->at, at_end));
    if (r->steps.scaler.used.type) dlr_logger_put(l, DLR_VALUE_LOSS_SCALE, r->steps.scaler.last);
    dlr_logger_put(l, DLR_VALUE_ITERS_PER_SEC, (double)r->at.position / r->steps.seconds);
    dlr_logger_put(l, DLR_VALUE_SAMPLES_PER_SEC, numbers.samples_per_sec);
    dlr_logger_put(l, DLR_VALUE_SECONDS, r->steps.seconds);
    dlr_logger_put(l, DLR_VALUE_WAIT, r->steps.wait);
    dlr_logger_put(l, DLR_VALUE_ALL_SECONDS, r->steps.seconds + seconds);
    if (validates) {
        dlr_logger_put(l, DLR_VALUE_VALID_LOSS, valid);
        dlr_logger_put(l, DLR_VALUE_BEST_LOSS, r->at.best_loss);
        dlr_logger_put(l, DLR_VALUE_BEST_EPOCH, (double)r->best_epoch);
    }
    dlr_logger_put_averages(l, &r->trained);
    if (validates) dlr_logger_put_averages(l, &r->evaluator.averages);
}

/* Validates, where it is the epoch's turn; counts the epoch, and records it. */
static bool close_epoch(dlr_run *r, bool validates, dl_error *err) {
    double valid = NAN, seconds = 0, began = dl_clock_seconds();
    if (validates) {
        bool stopped;
        if (!dlr_evaluator_run(&r->evaluator, &r->steps, &r->at, true, &valid, &stopped, err))
            return false;
        if (stopped) return dlr_run_pause(r, err); /* it will be done again */
        seconds = dl_clock_seconds() - began;
        log_validation(r, valid, seconds);
    }
    if (valid <= r->at.best_loss) /* of equal ones the last, as in presets minimal and tracked */
        r->at.best_loss = valid, r->best_epoch = r->at.epoch;
    r->at.epoch++; /* epochs finished */
    if (validates) {
        dlr_best_note(&r->best, valid, &r->evaluator.averages, r->at.iteration);
        dlr_learning_rate_validated(&r->rate, valid);
        dlr_stopper_validated(&r->stopper, valid);
    }
    if (!dlr_run_keeps(r)) return true;
    put_epoch(r, validates, valid, seconds);
    return dlr_logger_record(&r->logger, &r->at, false, err);
}

bool dlr_run_finish_epoch(dlr_run *r, dl_error *err) {
    const bool validates = validates_epoch(r);
    if (!close_epoch(r, validates, err)) return false;
    dlr_gate("epoch", r->at.epoch);
    if (dlr_run_keeps(r)) /* of an epoch that began in an earlier process this one knows a part */
        dlr_learning_rate_end_epoch(&r->rate, r->at.epoch,
                                    r->at.iteration - r->first >= r->at.position ? r->at.position
                                                                                 : 0);
    r->at.position = r->steps.position = 0, r->at.epoch_loss = 0, r->skipped = 0,
    r->steps.seconds = r->steps.wait = 0;
    dlr_averages_clear(&r->trained);
    if (!validates && r->batches.in_step > 1) /* which would seek, too */
        dlr_batches_seek(&r->batches, r->at.epoch, 0);
    dlr_range_begin(&r->o->ranges, DLR_PART_CHECKPOINT, 0);
    bool is_best = validates && dlr_best_is(&r->best, r->at.iteration);
    if (dlr_run_keeps(r) && !dlr_run_save(r, is_best, err)) return false;
    dlr_range_end(&r->o->ranges);
    if (!dlr_stopper_is_done(&r->o->stop, &r->at) && !dlr_stopper_judge(&r->stopper, err))
        return false;
    return !r->o->ranges.profile || dlr_profile_write(r->o->ranges.profile, err);
}
