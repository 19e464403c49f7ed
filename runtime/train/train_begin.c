/* The begin of a run, or of its continuation: weights, rates and batches. */
#include <math.h>

#include "runtime/train/train_parts.h"

/* Counted from where the epoch began, which need not be a multiple of anything: an earlier run may
 * have ended with a short one. */
int64_t dlr_run_epoch_steps(const dlr_run *r) {
    if (!r->o->steps) return r->epoch_batches;
    int64_t left = r->o->steps - (r->at.iteration - r->at.position);
    return left < r->epoch_batches ? left : r->epoch_batches;
}

void dlr_run_set_scale(const dlr_run *r) {
    if (r->o->plateau && r->rates.init > 0)
        dlr_run_set_hyper(r->exec, "optimizer.lr.scale", r->plateau.rate / r->rates.init);
}

/* A schedule over epochs continues by epochs where the checkpoint's epochs have another number of
 * steps, by another batch size or number of ranks. A schedule over steps continues by steps. */
static double steps_passed(const dlr_run *r) {
    int64_t epochs = r->at.epoch * r->epoch_batches + r->at.position;
    return r->o->steps ? 0 : (double)(epochs - r->at.iteration);
}

bool dlr_run_begin(dlr_run *r, bool resume, bool *restored, dl_error *err) {
    *restored = false;
    r->at = (dlr_state){.seed = r->o->seed, .best_loss = INFINITY};
    r->plateau = (dlr_plateau){.best = INFINITY, .rate = r->rates.init};
    if (resume && !dlr_run_restore(r, restored, err)) return false;
    if (!*restored && !dlr_run_start_weights(r->o, err)) return false;
    r->rates.passed = steps_passed(r);
    dlr_run_set_hypers(r->o, &r->rates);
    dlr_run_set_scale(r);
    /* it was stopped while it was validating */
    bool ended = r->at.position > 0 && r->at.position >= dlr_run_epoch_steps(r);
    dlr_prefetch_seek(r->batches, r->at.epoch + ended, ended ? 0 : r->at.position);
    return true;
}
