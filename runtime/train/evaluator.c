#include "runtime/train/evaluator.h"

#include <math.h>

#include "ir/base/philox.h"
#include "ir/base/tags.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/not_finite.h"
#include "runtime/exec/state.h"
#include "runtime/formats/log.h"
#include "runtime/train/finite.h"

/* Samples of a full batch of all ranks. */
static int64_t full_batch(const dlr_evaluator *e) {
    return (int64_t)e->batches->batch * e->batches->ranks;
}

/* Whether the program counts the samples of a batch that is not full. */
static bool counts(const dlr_evaluator *e) { return e->samples.type != NULL; }

/* Samples of validation that fill no batch, where the program cannot count these. */
static bool check_left_out(const dlr_evaluator *e, dl_error *err) {
    const dlr_batches *b = e->batches;
    const int64_t full = full_batch(e), all = b->o->valid ? dlr_dataset_samples(b->o->valid) : 0,
                  rest = all % full;
    if (counts(e) || rest == 0) return true;
    const char *why = "the model relates the samples of a batch to each other, so that all batches "
                      "must be full";
    if (rest == all)
        return dl_fail(err, DL_USAGE,
                       "validation has %lld samples, which fill no batch of %lld, and %s: set "
                       "local_batch_size",
                       (long long)all, (long long)full, why);
    if (dlr_is_rank0(e->ranks))
        dlr_log_info("Validation leaves out the last %lld of its %lld samples: they fill no batch "
                     "of %lld, and %s",
                     (long long)rest, (long long)all, (long long)full, why);
    return true;
}

bool dlr_evaluator_open(dlr_evaluator *e, dl_error *err) {
    e->program = dlr_exec_program(e->exec, "eval");
    if (e->program < 0) return dl_fail(err, DL_INPUT, "the plan has no program 'eval'");
    e->loss = dlr_exec_result(e->exec, e->program, DL_RESULT_LOSS, NULL);
    if (!e->loss.type) return dl_fail(err, DL_INPUT, "the model states no loss to train on");
    e->averages = dlr_averages_of(e->arena, e->exec, e->program, "valid", e->logger->o->style);
    e->samples = dlr_exec_variable(e->exec, DL_BATCH_SAMPLES);
    e->of_all = dlr_exec_variable(e->exec, DL_BATCH_SAMPLES_OF_ALL);
    e->number = dlr_exec_variable(e->exec, DL_RANDOM_BATCH);
    return check_left_out(e, err);
}

/* The next batch, into the program's inputs, and how many of its samples count. */
static bool next_batch(dlr_evaluator *e, dlr_batch *batch, dl_error *err) {
    if (!dlr_batches_next(e->batches, batch, err)) return false;
    if (!counts(e) || (e->counted[0] == batch->samples && e->counted[1] == batch->of_all))
        return true;
    e->counted[0] = batch->samples, e->counted[1] = batch->of_all;
    dlr_state_write(e->exec, e->samples, DL_I64, &e->counted[0]);
    dlr_state_write(e->exec, e->of_all, DL_I64, &e->counted[1]);
    return true;
}

static bool check_loss(const dlr_evaluator *e, const dlr_state *at, const char *what, double loss,
                       dl_error *err) {
    return isfinite(loss) ||
           dlr_finite_fail(at, what, loss, dlr_not_finite_text(e->arena, e->exec, e->program), err);
}

/* Mean loss and metrics over the next `n` batches; at the end of an epoch the first is drawn. */
static bool run_on(dlr_evaluator *e, const dlr_steps *steps, const dlr_state *at, int64_t n,
                   bool epoch, double *mean, bool *stopped, dl_error *err) {
    double sum = 0, weights = 0;
    dlr_averages_clear(&e->averages);
    for (int64_t i = 0; i < n; i++) {
        dlr_batch batch;
        if (!next_batch(e, &batch, err)) return false;
        if (e->number.type) dlr_state_write(e->exec, e->number, DL_I64, &i);
        const char *found = dlr_steps_start_program(steps, e->program);
        dlr_exec_wait_oldest(e->exec);
        double loss = dlr_scalar(e->exec, e->loss);
        if (!dlr_exec_check(e->exec, err) ||
            !dlr_finite_check_found(at, "validation", found, false, err) ||
            !check_loss(e, at, "validation", loss, err))
            return false;
        if (i == 0 && epoch &&
            !dlr_logger_draw(e->logger, e->exec, e->program, &e->batches->feed, &batch, at, err))
            return false;
        const double weight = (double)batch.of_all / (double)full_batch(e);
        sum += weight * loss, weights += weight;
        dlr_averages_add(&e->averages, e->exec, false, weight);
        dlr_progress_step(&e->logger->progress, batch.of_all, loss);
        if (!dlr_stopper_poll(e->stopper, err)) return false;
        if (epoch && e->stopper->requested) return *stopped = true;
    }
    *mean = sum / weights;
    return true;
}

bool dlr_evaluator_run(dlr_evaluator *e, const dlr_steps *steps, const dlr_state *at, bool whole,
                       double *mean, bool *stopped, dl_error *err) {
    const dlr_batches_options *data = e->batches->o;
    *stopped = false;
    if (!dlr_ranks_share_buffers(e->ranks, e->exec, err) ||
        !dlr_prefetch_switch(e->batches->ring, data->valid, counts(e), 0, 0, err))
        return false;
    int64_t n = whole ? dlr_prefetch_batches(e->batches->ring) : 1;
    dlr_progress_start(&e->logger->progress, "validation", n);
    dlr_range_begin(e->ranges, DLR_PART_VALIDATION, 0);
    bool ok = run_on(e, steps, at, n, whole, mean, stopped, err);
    dlr_range_end(e->ranges);
    dlr_progress_finish(&e->logger->progress);
    if (!ok || *stopped) return ok;
    bool ended = at->position >= e->batches->epoch_batches || (whole && !e->within);
    return dlr_batches_switch(e->batches, at->epoch + ended, ended ? 0 : at->position, err);
}

bool dlr_evaluator_record_untrained(dlr_evaluator *e, const dlr_steps *steps, const dlr_state *at,
                                    dl_error *err) {
    dlr_logger *l = e->logger;
    dlr_batch batch;
    double valid;
    bool stopped;
    if (!next_batch(e, &batch, err)) return false;
    dlr_exec_run(e->exec, e->program, NULL);
    double train = dlr_scalar(e->exec, e->loss);
    if (!dlr_exec_check(e->exec, err)) return false;
    dlr_averages metrics = dlr_averages_of(e->arena, e->exec, e->program, "train", l->o->style);
    dlr_averages_add(&metrics, e->exec, false, 1);
    if (!check_loss(e, at, "initial", train, err) ||
        !dlr_evaluator_run(e, steps, at, false, &valid, &stopped, err))
        return false;
    dlr_logger_put(l, DLR_VALUE_TRAIN_LOSS, train), dlr_logger_put(l, DLR_VALUE_VALID_LOSS, valid);
    dlr_logger_put_averages(l, &metrics), dlr_logger_put_averages(l, &e->averages);
    return dlr_logger_record(l, at, false, err);
}
