/* Training on given batches, to follow another program's run step by step. */
#include <math.h>
#include <stdio.h>

#include "ir/base/str.h"
#include "ir/base/tags.h"
#include "runtime/base/debug.h"
#include "runtime/exec/not_finite.h"
#include "runtime/formats/json.h"
#include "runtime/formats/log.h"
#include "runtime/train/again.h"
#include "runtime/train/train_parts.h"

static void put_number(dl_buf *b, const char *name, double value) {
    dlr_json_put_key(b, name);
    if (isfinite(value))
        dl_putf(b, "%.9g", value);
    else
        dl_puts(b, "null");
}

/* {"step": 1, "loss": 0.123456789, "psnr": 21.5}: loss and metrics are those of one batch. With a
 * loss scaler the step's scale, to the last digit, and whether it was skipped follow the loss. */
static bool print_step(const dlr_train_options *o, int64_t step, double loss,
                       const dlr_scaler *scaler, const dlr_averages *metrics, dl_error *err) {
    if (!dlr_run_leads(o)) return true;
    dl_buf b = {0};
    dl_putf(&b, "{\"" DL_TAG_STEP "\": %lld", (long long)step);
    put_number(&b, DL_TAG_LOSS, loss);
    if (scaler->used.type)
        dl_putf(&b, ", \"" DL_TAG_LOSS_SCALE "\": %.17g, \"" DL_TAG_SKIPPED "\": %g", scaler->last,
                dlr_scalar(o->exec, scaler->skipped));
    for (int i = 0; i < metrics->n; i++)
        put_number(&b, metrics->terms[i].name, dlr_scalar(o->exec, metrics->terms[i].now));
    dl_puts(&b, "}\n");
    bool ok = fputs(b.at, stdout) >= 0 && fflush(stdout) == 0;
    dl_buf_free(&b);
    return ok || dl_fail_errno(err, DL_IO, "cannot write to standard output");
}

/* A replay that begins again. */
typedef struct {
    const dlr_train_options *o;
    const dlr_rates *rates;
    dlr_replay *from;
    int64_t next;
} search;

static bool back(void *loop, int64_t *done, dl_error *err) {
    search *s = loop;
    s->next = *done = 0;
    if (!dlr_run_start_weights(s->o, err)) return false;
    dlr_run_set_hypers(s->o, s->rates);
    return true;
}

static bool feed(void *loop, dl_error *err) {
    search *s = loop;
    return dlr_replay_feed(s->from, s->next++, err);
}

static bool replay(const dlr_train_options *o, const dlr_rates *rates, dl_arena *arena,
                   dlr_replay *from, dl_error *err) {
    bool watches = dlr_debugs("nan");
    int train = dlr_exec_program(o->exec, "train");
    dlr_view loss = dlr_exec_result(o->exec, train, DL_RESULT_LOSS, NULL);
    if (!loss.type) return dl_fail(err, DL_INPUT, "the model states no loss to train on");
    dlr_averages metrics = dlr_averages_of(arena, o->exec, train, "train", NULL);
    dlr_scaler scaler = dlr_scaler_of(o->exec, train);
    const dlr_ranges *ranges = &o->ranges;
    if (ranges->profile)
        dlr_profile_epoch(ranges->profile, o->exec, train, 0, 0, dlr_replay_batches(from));
    for (int64_t i = 0; i < dlr_replay_batches(from); i++) {
        dlr_range_begin(ranges, DLR_PART_STEP, i);
        dlr_timeline *timeline = ranges->profile ? dlr_profile_step(ranges->profile, i) : NULL;
        if (timeline) dlr_exec_watch(o->exec, timeline);
        dlr_range_begin(ranges, DLR_PART_COPY_IN, i);
        if (!dlr_replay_feed(from, i, err)) return false;
        dlr_range_end(ranges);
        dlr_range_begin(ranges, DLR_PART_PROGRAM, i);
        const char *found = NULL;
        if (watches)
            found = dlr_start_watched(arena, o->exec, train);
        else
            dlr_exec_start(o->exec, train);
        dlr_range_end(ranges);
        dlr_range_begin(ranges, DLR_PART_RESULTS, i);
        dlr_exec_take(o->exec);
        double value = dlr_scalar(o->exec, loss);
        dlr_range_end(ranges);
        dlr_range_end(ranges);
        if (!dlr_exec_check(o->exec, err)) return false;
        if (i == 0 && !dlr_run_save_gradients(o, train, err)) return false;
        bool skipped = dlr_scaler_note(&scaler, o->exec);
        if (found && !skipped)
            return dl_fail(err, DL_NUMERIC, "step %lld: %s: stopped (DLR_DEBUG=nan)",
                           (long long)i + 1, found);
        if (!isfinite(value) && !skipped) {
            search s = {.o = o, .rates = rates, .from = from};
            dlr_again again = {o->exec, train, o->ranks.comm, &s, back, feed};
            return dl_fail(err, DL_NUMERIC, "loss is not finite at step %lld%s", (long long)i + 1,
                           dlr_again_find(arena, &again, i + 1));
        }
        if (!print_step(o, i + 1, value, &scaler, &metrics, err) ||
            !dlr_scaler_check(&scaler, o->exec, train, i + 1, err))
            return false;
    }
    return !ranges->profile || dlr_profile_write(ranges->profile, err);
}

bool dlr_train_replay(const dlr_train_options *o, const char *path, dl_error *err) {
    dlr_replay *from = dlr_replay_open(path, o->exec, o->ranks.data_rank,
                                       o->ranks.data_ranks ? o->ranks.data_ranks : 1, err);
    if (!from) return false;
    dlr_schedule schedule = o->schedule;
    schedule.base_batch = schedule.global_batch;
    schedule.steps = schedule.epoch_steps = dlr_replay_batches(from);
    dlr_log_info("replaying %lld batches of %s", (long long)schedule.steps, path);
    dl_arena *arena = dl_arena_new(NULL);
    dlr_rates rates;
    bool ok = dlr_schedule_rates(&schedule, &rates, err) && dlr_run_start_weights(o, err);
    if (ok) dlr_run_set_hypers(o, &rates);
    ok = ok && replay(o, &rates, arena, from, err) && dlr_run_save_weights(o, err);
    dl_arena_free(arena);
    dlr_replay_close(from);
    return ok;
}
