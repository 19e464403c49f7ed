/* The loop. It reads from top to bottom in the order of the run; run.h lists its components. */
#include "runtime/train/train.h"

#include "runtime/base/debug.h"
#include "runtime/formats/log.h"
#include "runtime/train/replay.h"
#include "runtime/train/run.h"
#include "runtime/train/save_tensors.h"

/* The components, each with its options and the ones that it uses. */
static dlr_run new_run(const dlr_train_options *o, dl_arena *arena) {
    dlr_comm *comm = o->ranks.comm;
    return (dlr_run){
        .o = o,
        .arena = arena,
        .exec = o->exec,
        .stopper = {.o = &o->stop,
                    .console = o->dir ? o->console : NULL,
                    .comm = comm,
                    .is_rank0 = dlr_is_rank0(&o->ranks)},
        .logger = {.o = &o->log, .dir = o->dir, .ranks = &o->ranks, .arena = arena},
        .checkpointer = {.o = &o->checkpoints,
                         .dir = o->dir ? o->dir->checkpoints : NULL,
                         .exec = o->exec,
                         .ranks = &o->ranks,
                         .arena = arena},
        .evaluator = {.exec = o->exec, .arena = arena, .ranks = &o->ranks, .ranges = &o->ranges}};
}

static bool find_programs(dlr_run *r, dl_error *err) {
    r->checkpointer.sinks = &r->logger.sinks;
    r->evaluator.batches = &r->batches;
    r->evaluator.stopper = &r->stopper, r->evaluator.logger = &r->logger;
    if (!dlr_steps_open(&r->steps, r->exec, err) ||
        !dlr_batches_open(&r->batches, &r->o->data, r->exec, &r->o->ranks, err))
        return false;
    dlr_run_open_steps(r);
    if (dlr_run_keeps(r) && !dlr_evaluator_open(&r->evaluator, err)) return false;
    dlr_learning_rate_open(&r->rate, &r->o->rate, r->exec, r->steps.program);
    if (dlr_run_keeps(r) && !r->rate.view.type)
        return dl_fail(err, DL_INPUT, "the plan has no optimiser");
    r->trained = dlr_averages_of(r->arena, r->exec, r->steps.program, "train", r->o->log.style);
    return true;
}

static bool start(dlr_run *r, dl_error *err) {
    const dlr_train_options *o = r->o;
    if (!find_programs(r, err) ||
        (dlr_run_keeps(r) && !dlr_checkpointer_open(&r->checkpointer, err)) ||
        !dlr_batches_start(&r->batches, r->exec, &o->ranks,
                           dlr_run_validates(r) && o->every.epochs <= 1, err))
        return false;
    int64_t epoch = r->batches.epoch_batches;
    if (!dlr_learning_rate_set_steps(&r->rate, dlr_stopper_all_steps(&o->stop, epoch), epoch,
                                     err) ||
        !dlr_run_begin(r, o->resume.wanted, err))
        return false;
    r->first = r->at.iteration;
    return dlr_ranks_check_begin(&o->ranks, r->exec, r->at.iteration, err) &&
           (!dlr_run_keeps(r) || dlr_logger_open(&r->logger, &r->at, &r->origin, err));
}

/* Writes the profile, also of a run that ended within the profiled epoch or before it. */
static bool end_profile(const dlr_train_options *o, bool trained, dl_error *err) {
    dl_error fault = {0};
    dlr_profile *profile = o->ranges.profile;
    if (!profile) return true;
    bool ok = dlr_profile_write(profile, trained ? err : &fault);
    if (fault.code) dlr_log_warning("no profile: %s", fault.message);
    if (ok && !dlr_profile_done(profile))
        dlr_log_warning("nothing was profiled: the run ended before the steps that are recorded");
    return ok;
}

static void log_process(const dlr_run *r, const char *lines) {
    dlr_logger_process(&r->o->ranks, lines);
}

static bool run(dlr_run *r, dl_error *err) {
    const dlr_train_options *o = r->o;
    const dlr_log_format *style = o->log.style;
    bool ok = start(r, err);
    if (ok && style) log_process(r, style->begin);
    if (ok) dlr_gate("begin", 0);
    if (ok && dlr_stopper_is_done(&o->stop, &r->at)) dlr_stopper_log_done(&o->stop, &r->at);
    if (ok && r->at.iteration == 0 && dlr_run_validates(r) && style->untrained)
        ok = dlr_evaluator_record_untrained(&r->evaluator, &r->steps, &r->at, err);
    while (ok && !dlr_stopper_is_done(&o->stop, &r->at) && !dlr_stopper_is_early(&r->stopper))
        ok = dlr_run_train_epoch(r, err) && dlr_run_finish_epoch(r, err);
    ok = ok && dlr_stopper_end_poll(&r->stopper, err);
    ok = ok && dlr_checkpointer_wait(&r->checkpointer,
                                     err); /* a signal is still heard, and the same as none */
    if (ok) dlr_checkpointer_log(&r->checkpointer);
    ok = end_profile(o, ok, err) && ok;
    return ok && dlr_save_weights(r->exec, &o->ranks, o->save_weights, err) &&
           (!style || dlr_logger_history(&r->logger, &r->trained, &r->evaluator.averages, err));
}

bool dlr_train(const dlr_train_options *o, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_run r = new_run(o, arena);
    /* from here on, so that a signal before the first step counts, too */
    if (o->dir) dl_console_stoppable(o->console, DL_STOP_LATER);
    bool ok = run(&r, err);
    dlr_checkpointer_close(&r.checkpointer);
    ok = dlr_logger_close(&r.logger, ok, err) && ok;
    dlr_batches_close(&r.batches);
    if (ok && o->log.style) log_process(&r, o->log.style->end);
    dl_arena_free(arena);
    return ok;
}

bool dlr_train_replay(const dlr_train_options *options, const char *path, dl_error *err) {
    dlr_train_options o = *options;
    dlr_dataset *data = dlr_replay_open(path, o.exec, &o.ranks, err);
    if (!data) return false;
    o.dir = NULL, o.log = (dlr_logger_options){0};
    o.data = (dlr_batches_options){.train = data, .in_step = options->data.in_step};
    o.stop = (dlr_stopper_options){.epochs = 1};
    o.rate.plateau = NULL;
    o.rate.schedule.base_batch = o.rate.schedule.global_batch;
    bool ok = dlr_train(&o, err);
    dlr_dataset_close(data);
    return ok;
}
