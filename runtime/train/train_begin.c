/* The begin of a run, or of its continuation: weights, rates and batches. */
#include <math.h>

#include "runtime/train/run.h"

int64_t dlr_run_epoch_steps(const dlr_run *r) {
    return dlr_stopper_epoch_steps(&r->o->stop, &r->at, r->batches.epoch_batches);
}

/* A schedule over epochs continues by epochs where the checkpoint's epochs have another number of
 * steps, by another batch size or number of ranks. A schedule over steps continues by steps. */
static double steps_passed(const dlr_run *r) {
    int64_t epochs = r->at.epoch * r->batches.epoch_batches + r->at.position;
    return r->o->stop.steps ? 0 : (double)(epochs - r->at.iteration);
}

bool dlr_run_begin(dlr_run *r, bool resume, dl_error *err) {
    r->origin = (dlr_run_origin){0};
    r->at = (dlr_state){.seed = r->o->start.seed, .best_loss = INFINITY};
    dlr_learning_rate_reset(&r->rate);
    r->stopper.least = INFINITY, r->stopper.stale = 0;
    dlr_best_begin(&r->best, &r->o->best, r->arena);
    if (resume && !dlr_run_restore(r, err)) return false;
    if (!r->origin.restored && !dlr_start_weights(r->exec, &r->o->start, err)) return false;
    dlr_learning_rate_begin(&r->rate, &r->o->start, steps_passed(r));
    /* it was stopped while it was validating */
    bool ended = r->at.position > 0 && r->at.position >= dlr_run_epoch_steps(r);
    dlr_batches_seek(&r->batches, r->at.epoch + ended, ended ? 0 : r->at.position);
    return true;
}
