/* The loop. It reads from top to bottom in the order of the run; the other train_*.c files have its
 * helpers. */
#include "runtime/train/train.h"

#include "ir/base/tags.h"
#include "runtime/base/debug.h"
#include "runtime/formats/log.h"
#include "runtime/train/train_parts.h"

/* ---- before the first step ---- */

static bool find_programs(dlr_run *r, dl_error *err) {
    if (!dlr_steps_open(&r->steps, r->exec, err)) return false;
    dlr_run_open_steps(r);
    r->eval = dlr_exec_program(r->exec, "eval");
    if (r->eval < 0) return dl_fail(err, DL_INPUT, "the plan has no program 'eval'");
    r->rate = dlr_exec_result(r->exec, r->steps.program, DL_RESULT_METRIC, DL_TAG_RATE);
    r->valid = dlr_exec_result(r->exec, r->eval, DL_RESULT_LOSS, NULL);
    if (!r->valid.type) return dl_fail(err, DL_INPUT, "the model states no loss to train on");
    if (!r->rate.type) return dl_fail(err, DL_INPUT, "the plan has no optimiser");
    r->trained = dlr_averages_of(r->arena, r->exec, r->steps.program, "train", r->o->style);
    r->validated = dlr_averages_of(r->arena, r->exec, r->eval, "valid", r->o->style);
    return dlr_feed_open(&r->feed, r->exec, dlr_dataset_arrays(r->o->train), err);
}

/* Batches of many megabytes are read one ahead, smaller ones two, so that the host's memory stays
 * small compared with the plan's. Without workers there is only the batch in use. */
dlr_train_ring dlr_train_ring_of(const dl_plan *plan, int workers) {
    dlr_train_ring ring = {0};
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        if (!dl_plan_is_fed(v)) continue;
        int element =
            dl_dtype_is_float(v->type.dtype) ? (int)sizeof(float) : dl_dtype_bytes(v->type.dtype);
        ring.bytes += dl_type_count(&v->type) * element;
    }
    ring.batches = workers == 0 ? 1 : ring.bytes > 16 << 20 ? 2 : 3;
    return ring;
}

static dlr_prefetch *read_ahead(const dlr_run *r, const dlr_dataset *data, dl_error *err) {
    dlr_train_ring ring = dlr_train_ring_of(dlr_exec_plan(r->exec), r->o->workers);
    dlr_prefetch_options o = {.batch = r->batch,
                              .rank = r->o->ranks.data_rank,
                              .world = r->global_batch / r->batch,
                              .workers = r->o->workers,
                              .depth = ring.batches,
                              .turned_between = !r->o->measure, /* to validate, and back */
                              .raw = r->gathers ? &r->raw : NULL};
    return dlr_prefetch_start(data, &o, err);
}

/* Whether nothing is left to do, not even a validation. */
static bool is_done(const dlr_run *r) {
    return r->o->steps ? r->at.position == 0 && r->at.iteration >= r->o->steps
                       : r->at.epoch >= r->o->epochs;
}

static void tell_done(const dlr_run *r) {
    if (r->o->steps)
        dlr_log_info("nothing is left to do: %lld steps are made, and num_iters is %lld",
                     (long long)r->at.iteration, (long long)r->o->steps);
    else
        dlr_log_info("nothing is left to do: %lld epochs are over, and num_epochs is %lld",
                     (long long)r->at.epoch, (long long)r->o->epochs);
}

static bool set_rates(dlr_run *r, dl_error *err) {
    const dlr_train_options *o = r->o;
    dlr_schedule schedule = o->schedule;
    schedule.steps = o->steps ? o->steps : o->epochs * r->epoch_batches;
    schedule.epoch_steps = r->epoch_batches;
    return dlr_schedule_rates(&schedule, &r->rates, err);
}

static bool start(dlr_run *r, dl_error *err) {
    const dlr_train_options *o = r->o;
    bool restored = false;
    r->batch = (int)dlr_exec_plan(r->exec)->batch;
    r->global_batch = r->batch * (o->ranks.data_ranks ? o->ranks.data_ranks : 1);
    if (!find_programs(r, err) || !dlr_run_open_saver(r, err)) return false;
    r->gathers = dlr_run_gathers(r);
    if (r->gathers) dlr_feed_lend(&r->feed, &r->raw), r->raw.held = dlr_run_holds(r);
    r->batches = read_ahead(r, o->train, err);
    if (!r->batches) return false;
    r->epoch_batches = dlr_prefetch_batches(r->batches);
    if (!set_rates(r, err)) return false;
    if (!dlr_run_begin(r, o->resume, &restored, err)) return false;
    r->first = r->at.iteration;
    return dlr_run_check_ranks(r, err) && dlr_run_open_records(r, restored, err);
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

bool dlr_train(const dlr_train_options *o, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_run r = {.o = o, .arena = arena, .exec = o->exec};

    dl_console_stoppable(
        o->console,
        DL_STOP_LATER); /* from here on, so that a signal before the first step counts, too */
    bool ok = start(&r, err);
    if (ok) dlr_run_log_process(o, o->style->begin);
    if (ok) dlr_gate("begin", 0);
    if (ok && is_done(&r)) tell_done(&r);
    if (ok && r.at.iteration == 0 && !o->measure && o->style->untrained)
        ok = dlr_run_record_untrained(&r, err);
    while (ok && !is_done(&r)) ok = dlr_run_train_epoch(&r, err) && dlr_run_finish_epoch(&r, err);
    ok = ok && dlr_run_end_asking(&r, err);
    ok = ok && dlr_run_wait_saved(&r, err); /* a signal is still heard, and the same as none */
    if (ok) dlr_run_log_saver(&r);
    ok = end_profile(o, ok, err) && ok;
    ok = ok && dlr_run_save_weights(o, err) && dlr_run_end_history(&r, err);

    dlr_run_close_saver(&r);
    ok = dlr_run_close_records(&r, ok, err) && ok;
    dlr_prefetch_stop(r.batches);
    dl_arena_free(arena);
    if (ok) dlr_run_log_process(o, o->style->end);
    return ok;
}
