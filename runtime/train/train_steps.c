/* The training run's side of the step loop: batches of a data set, losses that are checked and
 * summed, requests to stop. */
#include <math.h>

#include "ir/base/clock.h"
#include "runtime/base/debug.h"
#include "runtime/formats/log.h"
#include "runtime/train/finite.h"
#include "runtime/train/run.h"
#include "runtime/train/save_tensors.h"

bool dlr_run_pause(dlr_run *r, dl_error *err) {
    dlr_progress_finish(&r->logger.progress);
    return dlr_run_save(r, false, err) && dlr_checkpointer_wait(&r->checkpointer, err) &&
           dlr_stopper_end_poll(&r->stopper, err) && dlr_ranks_barrier(&r->o->ranks, err) &&
           dlr_stopper_fail(&r->stopper, &r->at, err);
}

static bool feed_one(dlr_run *r, dl_error *err) {
    const dlr_ranges *ranges = &r->o->ranges;
    int64_t number = r->steps.position + r->steps.started;
    dlr_batch batch;
    double began = dl_clock_seconds();
    dlr_range_begin(ranges, DLR_PART_WAIT, number);
    if (!dlr_prefetch_next(r->batches.ring, &batch, err)) return false;
    dlr_range_end(ranges);
    r->steps.wait += dl_clock_seconds() - began;
    dlr_range_begin(ranges, DLR_PART_COPY_IN, number);
    dlr_feed_batch(&r->batches.feed, &batch);
    dlr_range_end(ranges);
    return true;
}

static bool feed(void *loop, dl_error *err) {
    dlr_run *r = loop;
    for (int64_t i = 1; i < r->batches.in_step; i++)
        if (!feed_one(r, err) || !dlr_steps_sum_batch(&r->steps, err)) return false;
    return feed_one(r, err);
}

/* The loss is of all ranks, and each searches. */
static bool find_and_fail(dlr_run *r, double loss, dl_error *err) {
    const dlr_state at = r->at;
    const char *where = dlr_run_find_not_finite(r);
    r->at = at;
    return dlr_run_keeps(r) ? dlr_finite_fail(&r->at, "training", loss, where, err)
                            : dl_fail(err, DL_NUMERIC, "loss is not finite at step %lld%s",
                                      (long long)at.iteration, where);
}

/* Checks what was found in a watched step. */
static bool check_found(const dlr_run *r, const dlr_step *step, dl_error *err) {
    if (dlr_run_keeps(r))
        return dlr_finite_check_found(&r->at, "training", step->found, step->skipped, err);
    return !step->found || step->skipped ||
           dl_fail(err, DL_NUMERIC, "step %lld: %s: stopped (DLR_DEBUG=nan)",
                   (long long)r->at.iteration, step->found);
}

/* The step's numbers for people. */
static void report(dlr_run *r, const dlr_step *step) {
    const dlr_log_format *style = r->o->log.style;
    if (!dlr_run_keeps(r))
        dlr_run_print_step(r, step->loss);
    else
        dlr_progress_step(&r->logger.progress, r->batches.global_batch, step->loss);
    if (style && r->at.position == 2) dlr_logger_process(&r->o->ranks, style->stepped);
}

/* A line and a point of one step within an epoch; the epoch's last step has the epoch's. */
static bool record_step(dlr_run *r, double loss, dl_error *err) {
    int64_t every = r->o->every.log;
    if (!dlr_run_keeps(r) || !every || r->at.position % every != 0 ||
        r->at.position >= dlr_run_epoch_steps(r))
        return true;
    dlr_log_info("step %lld: loss %g, learning rate %g", (long long)r->at.iteration, loss,
                 r->rate.last);
    dlr_logger_put_step(&r->logger, loss);
    dlr_logger_put(&r->logger, DLR_VALUE_RATE, r->rate.last);
    return dlr_logger_record(&r->logger, &r->at, true, err);
}

static bool take(void *loop, const dlr_step *step, dl_error *err) {
    dlr_run *r = loop;
    bool left_out = step->skipped && !isfinite(step->loss);
    r->at.iteration++, r->at.position = r->steps.position;
    r->at.epoch_loss += left_out ? 0 : step->loss;
    r->skipped += left_out;
    dlr_averages_add(&r->trained, r->exec, step->skipped, 1);
    if (r->rate.view.type) dlr_learning_rate_note(&r->rate);
    if (r->at.iteration == 1 &&
        !dlr_save_gradients(r->exec, r->steps.program, &r->o->ranks, r->o->save_grads, err))
        return false;
    if (!check_found(r, step, err)) return false;
    if (!left_out && !isfinite(step->loss)) return find_and_fail(r, step->loss, err);
    report(r, step);
    if (!record_step(r, step->loss, err)) return false;
    if (!dlr_scaler_check(&r->steps.scaler, r->exec, r->steps.program, r->at.iteration, err))
        return false;
    dlr_gate("step", r->at.iteration);
    return dlr_ranks_check_replicas(&r->o->ranks, r->exec, r->at.iteration, err) &&
           dlr_stopper_poll(&r->stopper, err) && dlr_checkpointer_check(&r->checkpointer, err);
}

/* A signal asked to stop, the run's number of steps is reached, or a checkpoint is due by time. */
static bool stops(const void *loop, int started) {
    const dlr_run *r = loop;
    return r->stopper.saves || dlr_stopper_stops(&r->stopper, r->at.iteration + started - r->first);
}

void dlr_run_open_steps(dlr_run *r) {
    r->steps.arena = r->arena, r->steps.ranges = &r->o->ranges;
    r->steps.watches = dlr_debugs("nan");
    r->steps.alone = r->batches.in_step > 1;
    r->steps.loop = r, r->steps.feed = feed, r->steps.take = take, r->steps.stops = stops;
}
