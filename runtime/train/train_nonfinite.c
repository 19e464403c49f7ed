/* Back to the newest checkpoint, to find where a loss stopped being finite. */
#include "runtime/formats/log.h"
#include "runtime/train/find_nonfinite.h"
#include "runtime/train/run.h"

typedef struct {
    dlr_run *run;
    int64_t epoch; /* of the step that is looked for: none is made in another one */
} search;

static bool back(void *loop, int64_t *done, dl_error *err) {
    search *s = loop;
    dlr_run *r = s->run;
    bool resume =
        dlr_run_keeps(r) && (r->o->resume.wanted || dlr_checkpoint_any(r->o->dir->checkpoints));
    if (!dlr_run_begin(r, resume, err)) return false;
    *done = r->at.iteration;
    return r->at.epoch == s->epoch || dl_fail(err, DL_INPUT, "no checkpoint is of its epoch");
}

static bool feed(void *loop, dl_error *err) {
    const search *s = loop;
    dlr_batches *batches = &s->run->batches;
    dlr_batch batch;
    if (!s->run->o->ranks.comm && dl_console_stop_requested(s->run->stopper.console))
        return dl_fail(err, DL_REQUEUE, "the search was stopped by a signal");
    for (int64_t i = 1; i < batches->in_step; i++)
        if (!dlr_batches_next(batches, &batch, err) || !dlr_steps_sum_batch(&s->run->steps, err))
            return false;
    return dlr_batches_next(batches, &batch, err);
}

const char *dlr_run_find_not_finite(dlr_run *r) {
    search s = {r, r->at.epoch};
    dlr_nonfinite_search how = {r->exec, r->steps.program, r->o->ranks.comm, &s, back, feed};
    dl_error fault = {0};
    if (!dlr_stopper_end_poll(&r->stopper, &fault)) return "";
    dlr_steps_abandon(&r->steps);
    dlr_progress_finish(&r->logger.progress);
    if (dlr_run_keeps(r))
        dlr_log_warning("the loss is not finite at step %lld: the steps since the newest "
                        "checkpoint are repeated, to find where (Ctrl-C ends the search)",
                        (long long)r->at.iteration);
    if (!dlr_checkpointer_wait(&r->checkpointer, &fault)) dlr_log(DLR_ERROR, "%s", fault.message);
    if (!dlr_ranks_barrier(&r->o->ranks, &fault)) return ""; /* all find the same checkpoint */
    return dlr_nonfinite_find(r->arena, &how, r->at.iteration);
}
