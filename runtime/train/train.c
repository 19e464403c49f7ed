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

/* Asked to stop: keeps everything and says so. */
static bool pause_run(dlr_run *r, dl_error *err) {
    dlr_progress_finish(&r->progress);
    if (!dlr_run_save(r, false, err) || !dlr_run_wait_saved(r, err) ||
        !dlr_run_end_asking(r, err) || !dlr_run_meet(r, err))
        return false;
    return dl_fail(err, DL_REQUEUE,
                   "stopped by %s after step %lld (epoch %lld); checkpoint written: %s goes on",
                   r->asked ? dlr_signal_name(r->asked) : "stop_after", (long long)r->at.iteration,
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

/* Checks the loss of the eval program just run. */
static bool check_loss(dlr_run *r, const char *what, double loss, dl_error *err) {
    return isfinite(loss) ||
           fail_loss(r, what, loss, dlr_not_finite_text(r->arena, r->exec, r->eval), err);
}

/* Begins a run of a program; with DLR_DEBUG=nan it is watched. */
static void start_program(dlr_run *r, int program) {
    r->found = NULL;
    if (r->watches)
        r->found = dlr_start_checked(r->arena, r->exec, program);
    else
        dlr_exec_start(r->exec, program);
}

/* Checks the finding of the watched run just taken. A step that a loss scaler skips may have such
 * values. */
static bool check_watched(const dlr_run *r, const char *what, bool skipped, dl_error *err) {
    if (!r->found) return true;
    if (skipped) return dlr_log_info("%s is skipped: %s", what, r->found), true;
    return dl_fail(
        err, DL_NUMERIC,
        "%s of step %lld, epoch %lld: %s: stopped (DLR_DEBUG=nan); checkpoints stay as they were",
        what, (long long)r->at.iteration, (long long)r->at.epoch + 1, r->found);
}

/* ---- validation: also the loss of the untrained model, on one batch ---- */

/* Mean loss and metrics over the next `n` batches; at the end of an epoch the first is drawn. */
static bool validate_on(dlr_run *r, int64_t n, bool epoch, double *mean, dl_error *err) {
    double sum = 0;
    dlr_averages_clear(&r->validated);
    for (int64_t i = 0; i < n; i++) {
        dlr_batch batch;
        if (!dlr_prefetch_next(r->batches, &batch, err)) return false;
        dlr_feed_batch(&r->feed, &batch);
        start_program(r, r->eval);
        dlr_exec_wait_oldest(r->exec);
        double loss = dlr_scalar(r->exec, r->valid);
        if (!dlr_exec_check(r->exec, err) || !check_watched(r, "validation", false, err))
            return false;
        if (!check_loss(r, "validation", loss, err)) return false;
        if (i == 0 && epoch && !dlr_run_draw(r, &batch, err)) return false;
        sum += loss;
        dlr_averages_add(&r->validated, r->exec, false);
        dlr_progress_step(&r->progress, r->global_batch, loss);
        if (!dlr_run_ask(r, err)) return false;
        if (epoch && r->asked) return pause_run(r, err); /* it will be done again */
    }
    *mean = sum / (double)n;
    return true;
}

/* The ring of batches serves validation too, and is given back to the epoch that comes next. */
static bool validate(dlr_run *r, bool epoch, double *mean, dl_error *err) {
    if (!dlr_run_share_buffers(r, err) || !dlr_prefetch_turn(r->batches, r->o->valid, 0, 0, err))
        return false;
    int64_t n = epoch ? dlr_prefetch_batches(r->batches) : 1;
    dlr_progress_start(&r->progress, "validation", n);
    dlr_range_begin(&r->o->ranges, DLR_PART_VALIDATION, 0);
    bool ok = validate_on(r, n, epoch, mean, err);
    dlr_range_end(&r->o->ranges);
    dlr_progress_finish(&r->progress);
    return ok && dlr_prefetch_turn(r->batches, r->o->train, r->at.epoch + epoch, 0, err);
}

/* The first point of the curves: the untrained model on the first batch of either data set. */
static bool record_untrained(dlr_run *r, dl_error *err) {
    dlr_batch batch;
    double valid;
    if (!dlr_prefetch_next(r->batches, &batch, err)) return false;
    dlr_feed_batch(&r->feed, &batch);
    dlr_exec_run(r->exec, r->eval, NULL);
    double train = dlr_scalar(r->exec, r->valid);
    if (!dlr_exec_check(r->exec, err)) return false;
    dlr_averages metrics = dlr_averages_of(r->arena, r->exec, r->eval, "train", r->o->style);
    dlr_averages_add(&metrics, r->exec, false);
    if (!check_loss(r, "initial", train, err) || !validate(r, false, &valid, err)) return false;
    dlr_run_put(r, DLR_VALUE_TRAIN_LOSS, train), dlr_run_put(r, DLR_VALUE_VALID_LOSS, valid);
    dlr_run_put_averages(r, &metrics), dlr_run_put_averages(r, &r->validated);
    return dlr_run_record(r, err);
}

/* ---- log lines ---- */

static void log_lines(const char *lines, const dlr_record_numbers *numbers) {
    dl_buf line = {0};
    for (int i = 0; dlr_record_line(&line, lines, i, numbers); i++, line.n = 0)
        dlr_log_info("%s", line.at);
    dl_buf_free(&line);
}

/* Log lines about the process as a whole. */
static void log_process(const dlr_train_options *o, const char *lines) {
    dlr_memory_use use = dlr_memory_used();
    log_lines(lines, &(dlr_record_numbers){.rank = o->ranks.rank,
                                           .ranks = o->ranks.size,
                                           .memory = use.now / 0x1p30,
                                           .most_memory = use.most / 0x1p30});
}

/* ---- an epoch ---- */

static void end_step_range(dlr_run *r) {
    if (r->in_step) dlr_range_end(&r->o->ranges);
    r->in_step = false;
}

/* Copies a batch to the device and begins its step. The step's range goes on until the next one
 * begins. */
static bool start_step(dlr_run *r, dl_error *err) {
    const dlr_ranges *ranges = &r->o->ranges;
    int64_t number = r->at.position + r->started;
    dlr_batch batch;
    end_step_range(r);
    dlr_range_begin(ranges, DLR_PART_STEP, number), r->in_step = true;
    dlr_timeline *timeline = ranges->profile ? dlr_profile_step(ranges->profile, number) : NULL;
    if (timeline) dlr_exec_time(r->exec, timeline);
    double began = dl_clock_seconds();
    dlr_range_begin(ranges, DLR_PART_WAIT, number);
    if (!dlr_prefetch_next(r->batches, &batch, err)) return false;
    dlr_range_end(ranges);
    r->wait += dl_clock_seconds() - began;
    dlr_range_begin(ranges, DLR_PART_COPY_IN, number);
    dlr_feed_batch(&r->feed, &batch);
    dlr_range_end(ranges);
    dlr_range_begin(ranges, DLR_PART_PROGRAM, number);
    start_program(r, r->train);
    dlr_range_end(ranges);
    r->started++;
    r->seconds += dl_clock_seconds() - began;
    return true;
}

/* Takes the results of the oldest step under way. */
static bool finish_step(dlr_run *r, dl_error *err) {
    double began = dl_clock_seconds();
    dlr_range_begin(&r->o->ranges, DLR_PART_RESULTS, r->at.position);
    dlr_exec_wait_oldest(r->exec);
    r->started--;
    double loss = dlr_scalar(r->exec, r->loss);
    if (!dlr_exec_check(r->exec, err)) return false;
    bool skipped = dlr_scaler_note(&r->scaler, r->exec), lost = skipped && !isfinite(loss);
    r->at.iteration++, r->at.position++;
    r->at.epoch_loss += lost ? 0 : loss;
    r->lost += lost;
    dlr_averages_add(&r->trained, r->exec, skipped);
    r->last_rate = dlr_scalar(r->exec, r->rate);
    dlr_range_end(&r->o->ranges);
    r->seconds += dl_clock_seconds() - began;
    if (r->at.iteration == 1 && !dlr_run_save_gradients(r->o, r->train, err)) return false;
    if (!check_watched(r, "training", skipped, err)) return false;
    if (!lost && !isfinite(loss)) {
        const dlr_state at = r->at;
        const char *where =
            dlr_run_find_not_finite(r); /* the loss is of all ranks: all of them search */
        r->at = at;
        return fail_loss(r, "training", loss, where, err);
    }
    if (!dlr_scaler_check(&r->scaler, r->exec, r->train, r->at.iteration, err)) return false;
    if (r->at.position == 2) log_process(r->o, r->o->style->stepped);
    dlr_progress_step(&r->progress, r->global_batch, loss);
    dlr_gate("step", r->at.iteration);
    return dlr_run_check_replicas(r, err) && dlr_run_ask(r, err) && dlr_run_check_saved(r, err);
}

/* Steps that may be under way: one whose times are recorded is alone, and so is the first where its
 * gradients are wanted. */
static int most_started(const dlr_run *r) {
    const dlr_profile *profile = r->o->ranges.profile;
    int64_t next = r->at.position + r->started;
    bool alone =
        r->watches || (r->at.iteration == 0 && r->o->save_grads) ||
        (profile && (dlr_profile_wants(profile, next) || dlr_profile_wants(profile, next - 1)));
    return alone ? 1 : dlr_exec_ahead(r->exec);
}

/* Whether no further step is begun: a signal asked to stop, or the run's number of steps is
 * reached. */
static bool stops_now(const dlr_run *r) {
    int64_t made = r->at.iteration + r->started - r->first;
    return r->asked || (r->o->stop_after && made >= r->o->stop_after);
}

/* A device is given the next step before the last one's results are looked at: it never waits for
 * the host. All are done at the end, so that a checkpoint is of the step that it says. */
static bool train_steps(dlr_run *r, dl_error *err) {
    bool stops = false;
    while (r->started > 0 || (!stops && r->at.position < dlr_run_epoch_steps(r))) {
        bool more = !stops && r->at.position + r->started < dlr_run_epoch_steps(r) &&
                    r->started < most_started(r);
        if (!(more ? start_step(r, err) : finish_step(r, err))) return false;
        stops = stops_now(r);
    }
    end_step_range(r);
    return !stops || pause_run(r, err);
}

/* The numbers of an epoch whose steps are done. */
static dlr_record_numbers epoch_numbers(const dlr_run *r) {
    return (dlr_record_numbers){.epoch = r->at.epoch + 1,
                                .epochs = count_epochs(r),
                                .seconds = r->seconds,
                                .wait = r->wait,
                                .samples_per_sec =
                                    (double)(r->at.position * r->global_batch) / r->seconds,
                                .train = r->at.epoch_loss / (double)(r->at.position - r->lost)};
}

/* Starts the profiler, or the own profile, of the epoch's steps. */
static void begin_profile(const dlr_run *r) {
    const dlr_ranges *ranges = &r->o->ranges;
    if (r->at.epoch == DLR_PROFILED_EPOCH && ranges->start) ranges->start();
    if (ranges->profile)
        dlr_profile_epoch(ranges->profile, r->exec, r->train, r->at.epoch, r->at.position,
                          dlr_run_epoch_steps(r) - r->at.position);
}

static void end_profiler(const dlr_run *r) {
    if (r->at.epoch == DLR_PROFILED_EPOCH && r->o->ranges.stop) r->o->ranges.stop();
}

static bool train_epoch(dlr_run *r, dl_error *err) {
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
    log_lines(r->o->style->trained, &numbers);
    for (int i = 0; i < r->trained.n; i++)
        if (r->trained.terms[i].own)
            dlr_log_info("  Avg %s=%g", r->trained.terms[i].name,
                         dlr_averages_mean(&r->trained, i));
    if (r->scaler.used.type)
        dlr_log_info("  Loss scale=%g, %.0f steps skipped so far", r->scaler.last,
                     dlr_scalar(r->exec, r->scaler.all));
    return true;
}

static void log_validation(const dlr_run *r, double loss, double seconds) {
    dlr_record_numbers numbers = epoch_numbers(r);
    numbers.valid = loss, numbers.valid_seconds = seconds,
    numbers.all_seconds = r->seconds + seconds;
    dl_buf trained = {0}, validated = {0};
    const dlr_record_style *style = r->o->style;
    log_lines(style->validated, &numbers);
    for (int i = 0; !style->metrics_in_line && i < r->validated.n; i++)
        dlr_log_info("  Avg val %s=%f", r->validated.terms[i].name,
                     dlr_averages_mean(&r->validated, i));
    if (style->metrics_in_line) {
        numbers.metrics = dlr_averages_line(&r->trained, style, "", &trained);
        numbers.valid_metrics = dlr_averages_line(&r->validated, style, "val_", &validated);
    }
    log_lines(style->finished, &numbers);
    dl_buf_free(&trained), dl_buf_free(&validated);
}

/* System D's scheduler includes the warm-up. With the others, a schedule with warm-up records the
 * last step's rate. */
static double recorded_rate(const dlr_run *r) {
    bool whole = r->o->schedule.cosine || !(r->rates.warmup > 0);
    double next = r->o->style->rate_at_end && whole ? dlr_run_next_rate(r) : NAN;
    return isnan(next) ? r->last_rate : next;
}

static void put_epoch(dlr_run *r, double valid, double seconds) {
    dlr_record_numbers numbers = epoch_numbers(r);
    dlr_run_put(r, DLR_VALUE_TRAIN_LOSS, numbers.train);
    dlr_run_put(r, DLR_VALUE_RATE, recorded_rate(r));
    if (r->scaler.used.type) dlr_run_put(r, DLR_VALUE_LOSS_SCALE, r->scaler.last);
    dlr_run_put(r, DLR_VALUE_ITERS_PER_SEC, (double)r->at.position / r->seconds);
    dlr_run_put(r, DLR_VALUE_SAMPLES_PER_SEC, numbers.samples_per_sec);
    dlr_run_put(r, DLR_VALUE_SECONDS, r->seconds);
    dlr_run_put(r, DLR_VALUE_WAIT, r->wait);
    dlr_run_put(r, DLR_VALUE_ALL_SECONDS, r->seconds + seconds);
    if (!r->o->measure) {
        dlr_run_put(r, DLR_VALUE_VALID_LOSS, valid);
        dlr_run_put(r, DLR_VALUE_BEST_LOSS, r->at.best_loss);
        dlr_run_put(r, DLR_VALUE_BEST_EPOCH, (double)r->best_epoch);
    }
    dlr_run_put_averages(r, &r->trained);
    if (!r->o->measure) dlr_run_put_averages(r, &r->validated);
}

/* Validates, records, and leaves a checkpoint at the start of the next epoch. */
static bool finish_epoch(dlr_run *r, dl_error *err) {
    double valid = NAN, seconds = 0, began = dl_clock_seconds();
    if (!r->o->measure) {
        if (!validate(r, true, &valid, err)) return false;
        seconds = dl_clock_seconds() - began;
        log_validation(r, valid, seconds);
    }
    bool is_best =
        valid <= r->at.best_loss; /* of equal ones the last, as systems B and C keep it */
    if (is_best) r->at.best_loss = valid, r->best_epoch = r->at.epoch;
    r->at.epoch++; /* epochs finished */
    if (r->o->plateau && !r->o->measure && dlr_plateau_step(&r->plateau, r->o->plateau, valid)) {
        dlr_log_info("  Learning rate reduced to %g", r->plateau.rate);
        dlr_run_set_scale(r);
    }
    put_epoch(r, valid, seconds);
    if (!dlr_run_record(r, err)) return false;
    dlr_gate("epoch", r->at.epoch);
    r->at.position = 0, r->at.epoch_loss = 0, r->lost = 0, r->seconds = r->wait = 0;
    dlr_averages_clear(&r->trained);
    dlr_range_begin(&r->o->ranges, DLR_PART_CHECKPOINT, 0);
    if (!dlr_run_save(r, is_best, err)) return false;
    dlr_range_end(&r->o->ranges);
    return !r->o->ranges.profile || dlr_profile_write(r->o->ranges.profile, err);
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

    dlr_signals_install(); /* from here on, so that a signal before the first step counts, too */
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
