/* The training run's side of the step loop: batches of a data set, losses that are checked and
 * summed, requests to stop. */
#include <math.h>

#include "ir/base/clock.h"
#include "runtime/base/debug.h"
#include "runtime/exec/not_finite.h"
#include "runtime/formats/log.h"
#include "runtime/train/train_parts.h"

bool dlr_run_pause(dlr_run *r, dl_error *err) {
    dlr_progress_finish(&r->progress);
    if (!dlr_run_save(r, false, err) || !dlr_run_wait_saved(r, err) ||
        !dlr_run_end_asking(r, err) || !dlr_run_meet(r, err))
        return false;
    return dl_fail(err, DL_REQUEUE,
                   "stopped by %s after step %lld (epoch %lld); checkpoint written: %s goes on",
                   r->asked ? dl_signal_name(r->asked) : "stop_after", (long long)r->at.iteration,
                   (long long)r->at.epoch + 1,
                   r->o->go_on ? r->o->go_on : "the same command with --resume");
}

static bool fail_loss(dlr_run *r, const char *what, double loss, const char *where, dl_error *err) {
    return dl_fail(
        err, DL_NUMERIC,
        "%s loss is %s at step %lld, epoch %lld: stopped; checkpoints stay as they were%s. A lower "
        "start_lr may help; or the data hold values that are not finite",
        what, isnan(loss) ? "nan" : "infinite", (long long)r->at.iteration,
        (long long)r->at.epoch + 1, where);
}

bool dlr_run_check_loss(dlr_run *r, const char *what, double loss, dl_error *err) {
    return isfinite(loss) ||
           fail_loss(r, what, loss, dlr_not_finite_text(r->arena, r->exec, r->eval), err);
}

bool dlr_run_check_found(const dlr_run *r, const char *what, const char *found, bool skipped,
                         dl_error *err) {
    if (!found) return true;
    if (skipped) return dlr_log_info("%s is skipped: %s", what, found), true;
    return dl_fail(err, DL_NUMERIC,
                   "%s of step %lld, epoch %lld: %s: stopped (DLR_DEBUG=nan); checkpoints stay as "
                   "they were",
                   what, (long long)r->at.iteration, (long long)r->at.epoch + 1, found);
}

static bool feed(void *loop, dl_error *err) {
    dlr_run *r = loop;
    const dlr_ranges *ranges = &r->o->ranges;
    int64_t number = r->steps.position + r->steps.started;
    dlr_batch batch;
    double began = dl_clock_seconds();
    dlr_range_begin(ranges, DLR_PART_WAIT, number);
    if (!dlr_prefetch_next(r->batches, &batch, err)) return false;
    dlr_range_end(ranges);
    r->steps.wait += dl_clock_seconds() - began;
    dlr_range_begin(ranges, DLR_PART_COPY_IN, number);
    dlr_feed_batch(&r->feed, &batch);
    dlr_range_end(ranges);
    return true;
}

/* The loss is of all ranks, and each searches. */
static bool find_and_fail(dlr_run *r, double loss, dl_error *err) {
    const dlr_state at = r->at;
    const char *where = dlr_run_find_not_finite(r);
    r->at = at;
    return fail_loss(r, "training", loss, where, err);
}

static bool take(void *loop, const dlr_step *step, dl_error *err) {
    dlr_run *r = loop;
    bool lost = step->skipped && !isfinite(step->loss);
    r->at.iteration++, r->at.position = r->steps.position;
    r->at.epoch_loss += lost ? 0 : step->loss;
    r->lost += lost;
    dlr_averages_add(&r->trained, r->exec, step->skipped);
    r->last_rate = dlr_scalar(r->exec, r->rate);
    if (r->at.iteration == 1 && !dlr_run_save_gradients(r->o, r->steps.program, err)) return false;
    if (!dlr_run_check_found(r, "training", step->found, step->skipped, err)) return false;
    if (!lost && !isfinite(step->loss)) return find_and_fail(r, step->loss, err);
    if (!dlr_scaler_check(&r->steps.scaler, r->exec, r->steps.program, r->at.iteration, err))
        return false;
    if (r->at.position == 2) dlr_run_log_process(r->o, r->o->style->stepped);
    dlr_progress_step(&r->progress, r->global_batch, step->loss);
    dlr_gate("step", r->at.iteration);
    return dlr_run_check_replicas(r, err) && dlr_run_ask(r, err) && dlr_run_check_saved(r, err);
}

/* A signal asked to stop, or the run's number of steps is reached. */
static bool stops(const void *loop, int started) {
    const dlr_run *r = loop;
    int64_t made = r->at.iteration + started - r->first;
    return r->asked || (r->o->stop_after && made >= r->o->stop_after);
}

void dlr_run_open_steps(dlr_run *r) {
    r->steps.arena = r->arena, r->steps.ranges = &r->o->ranges;
    r->steps.watches = dlr_debugs("nan");
    r->steps.loop = r, r->steps.feed = feed, r->steps.take = take, r->steps.stops = stops;
}
