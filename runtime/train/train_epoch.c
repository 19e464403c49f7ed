/* An epoch: its steps, then validation, log lines, records and a checkpoint. */
#include <math.h>
#include <stdio.h>

#include "ir/base/clock.h"
#include "runtime/base/debug.h"
#include "runtime/formats/log.h"
#include "runtime/train/train_parts.h"

/* For the progress bar. */
static int64_t count_epochs(const dlr_run *r) {
    if (!r->o->steps) return r->o->epochs;
    int64_t left = r->o->steps - (r->at.iteration - r->at.position);
    return r->at.epoch + (left + r->epoch_batches - 1) / r->epoch_batches;
}

/* The numbers of an epoch whose steps are done. */
static dlr_record_numbers epoch_numbers(const dlr_run *r) {
    return (dlr_record_numbers){.epoch = r->at.epoch + 1,
                                .epochs = count_epochs(r),
                                .seconds = r->steps.seconds,
                                .wait = r->steps.wait,
                                .samples_per_sec =
                                    (double)(r->at.position * r->global_batch) / r->steps.seconds,
                                .train = r->at.epoch_loss / (double)(r->at.position - r->lost)};
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

static bool train_steps(dlr_run *r, dl_error *err) {
    bool stopped;
    r->steps.position = r->at.position;
    r->steps.first_alone = r->at.iteration == 0 && r->o->save_grads;
    return dlr_steps_run(&r->steps, dlr_run_epoch_steps(r), &stopped, err) &&
           (!stopped || dlr_run_pause(r, err));
}

bool dlr_run_train_epoch(dlr_run *r, dl_error *err) {
    char label[64];
    snprintf(label, sizeof label, "epoch %lld/%lld", (long long)r->at.epoch + 1,
             (long long)count_epochs(r));
    dlr_progress_start(&r->progress, label, dlr_run_epoch_steps(r) - r->at.position);
    begin_profile(r);
    bool ok = train_steps(r, err);
    end_profiler(r);
    dlr_progress_finish(&r->progress);
    if (!ok) return false;
    dlr_record_numbers numbers = epoch_numbers(r);
    dlr_run_log_lines(r->o->style->trained, &numbers);
    for (int i = 0; i < r->trained.n; i++)
        if (r->trained.terms[i].own)
            dlr_log_info("  Avg %s=%g", r->trained.terms[i].name,
                         dlr_averages_mean(&r->trained, i));
    if (r->steps.scaler.used.type)
        dlr_log_info("  Loss scale=%g, %.0f steps skipped so far", r->steps.scaler.last,
                     dlr_scalar(r->exec, r->steps.scaler.all));
    return true;
}

static void log_validation(const dlr_run *r, double loss, double seconds) {
    dlr_record_numbers numbers = epoch_numbers(r);
    numbers.valid = loss, numbers.valid_seconds = seconds,
    numbers.all_seconds = r->steps.seconds + seconds;
    dl_buf trained = {0}, validated = {0};
    const dlr_record_style *style = r->o->style;
    dlr_run_log_lines(style->validated, &numbers);
    for (int i = 0; !style->metrics_in_line && i < r->validated.n; i++)
        dlr_log_info("  Avg val %s=%f", r->validated.terms[i].name,
                     dlr_averages_mean(&r->validated, i));
    if (style->metrics_in_line) {
        numbers.metrics = dlr_averages_line(&r->trained, style, "", &trained);
        numbers.valid_metrics = dlr_averages_line(&r->validated, style, "val_", &validated);
    }
    dlr_run_log_lines(style->finished, &numbers);
    dl_buf_free(&trained), dl_buf_free(&validated);
}

/* The scheduler of preset weather includes the warm-up. With the others, a schedule with warm-up
 * records the last step's rate. */
static double recorded_rate(const dlr_run *r) {
    bool whole = r->o->schedule.cosine || !(r->rates.warmup > 0);
    double next = r->o->style->rate_at_end && whole ? dlr_run_next_rate(r) : NAN;
    return isnan(next) ? r->last_rate : next;
}

static void put_epoch(dlr_run *r, double valid, double seconds) {
    dlr_record_numbers numbers = epoch_numbers(r);
    dlr_run_put(r, DLR_VALUE_TRAIN_LOSS, numbers.train);
    dlr_run_put(r, DLR_VALUE_RATE, recorded_rate(r));
    if (r->steps.scaler.used.type) dlr_run_put(r, DLR_VALUE_LOSS_SCALE, r->steps.scaler.last);
    dlr_run_put(r, DLR_VALUE_ITERS_PER_SEC, (double)r->at.position / r->steps.seconds);
    dlr_run_put(r, DLR_VALUE_SAMPLES_PER_SEC, numbers.samples_per_sec);
    dlr_run_put(r, DLR_VALUE_SECONDS, r->steps.seconds);
    dlr_run_put(r, DLR_VALUE_WAIT, r->steps.wait);
    dlr_run_put(r, DLR_VALUE_ALL_SECONDS, r->steps.seconds + seconds);
    if (!r->o->measure) {
        dlr_run_put(r, DLR_VALUE_VALID_LOSS, valid);
        dlr_run_put(r, DLR_VALUE_BEST_LOSS, r->at.best_loss);
        dlr_run_put(r, DLR_VALUE_BEST_EPOCH, (double)r->best_epoch);
    }
    dlr_run_put_averages(r, &r->trained);
    if (!r->o->measure) dlr_run_put_averages(r, &r->validated);
}

bool dlr_run_finish_epoch(dlr_run *r, dl_error *err) {
    double valid = NAN, seconds = 0, began = dl_clock_seconds();
    if (!r->o->measure) {
        if (!dlr_run_validate(r, true, &valid, err)) return false;
        seconds = dl_clock_seconds() - began;
        log_validation(r, valid, seconds);
    }
    bool is_best =
        valid <= r->at.best_loss; /* of equal ones the last, as in presets minimal and tracked */
    if (is_best) r->at.best_loss = valid, r->best_epoch = r->at.epoch;
    r->at.epoch++; /* epochs finished */
    if (r->o->plateau && !r->o->measure && dlr_plateau_step(&r->plateau, r->o->plateau, valid)) {
        dlr_log_info("  Learning rate reduced to %g", r->plateau.rate);
        dlr_run_set_scale(r);
    }
    put_epoch(r, valid, seconds);
    if (!dlr_run_record(r, err)) return false;
    dlr_gate("epoch", r->at.epoch);
    r->at.position = r->steps.position = 0, r->at.epoch_loss = 0, r->lost = 0,
    r->steps.seconds = r->steps.wait = 0;
    dlr_averages_clear(&r->trained);
    dlr_range_begin(&r->o->ranges, DLR_PART_CHECKPOINT, 0);
    if (!dlr_run_save(r, is_best, err)) return false;
    dlr_range_end(&r->o->ranges);
    return !r->o->ranges.profile || dlr_profile_write(r->o->ranges.profile, err);
}
