/* A replay: the step loop on the batches of a file, to follow another program's run. */
#include <math.h>

#include "ir/base/str.h"
#include "ir/base/tags.h"
#include "runtime/base/debug.h"
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

typedef struct {
    const dlr_train_options *o;
    dl_arena *arena;
    dlr_steps steps;
    dlr_rates rates;
    dlr_replay *from;
    int64_t next; /* batch */
    dlr_averages metrics;
} replay;

/* {"step": 1, "loss": 0.123456789, "psnr": 21.5}: loss and metrics are those of one batch. With a
 * loss scaler the step's scale, to the last digit, and whether it was skipped follow the loss. */
static void print_step(const replay *r, double loss) {
    const dlr_scaler *scaler = &r->steps.scaler;
    if (!dlr_run_leads(r->o)) return;
    dl_buf b = {0};
    dl_putf(&b, "{\"" DL_TAG_STEP "\": %lld", (long long)r->steps.position);
    put_number(&b, DL_TAG_LOSS, loss);
    if (scaler->used.type)
        dl_putf(&b, ", \"" DL_TAG_LOSS_SCALE "\": %.17g, \"" DL_TAG_SKIPPED "\": %g", scaler->last,
                dlr_scalar(r->o->exec, scaler->skipped));
    for (int i = 0; i < r->metrics.n; i++)
        put_number(&b, r->metrics.terms[i].name, dlr_scalar(r->o->exec, r->metrics.terms[i].now));
    dl_puts(&b, "}\n");
    dl_console_puts(r->o->console, b.at);
    dl_buf_free(&b);
}

/* ---- for the step loop ---- */

static bool feed(void *loop, dl_error *err) {
    replay *r = loop;
    dlr_range_begin(&r->o->ranges, DLR_PART_COPY_IN, r->next);
    bool ok = dlr_replay_feed(r->from, r->next++, err);
    dlr_range_end(&r->o->ranges);
    return ok;
}

/* ---- a loss that is not finite: the replay begins again ---- */

static bool restart(void *loop, int64_t *done, dl_error *err) {
    replay *r = loop;
    r->next = *done = 0;
    if (!dlr_run_start_weights(r->o, err)) return false;
    dlr_run_set_hypers(r->o, &r->rates);
    return true;
}

static bool fail_loss(replay *r, int64_t step, dl_error *err) {
    dlr_again again = {r->o->exec, r->steps.program, r->o->ranks.comm, r, restart, feed};
    dlr_steps_abandon(&r->steps);
    return dl_fail(err, DL_NUMERIC, "loss is not finite at step %lld%s", (long long)step,
                   dlr_again_find(r->arena, &again, step));
}

static bool take(void *loop, const dlr_step *step, dl_error *err) {
    replay *r = loop;
    int64_t number = r->steps.position;
    if (number == 1 && !dlr_run_save_gradients(r->o, r->steps.program, err)) return false;
    if (step->found && !step->skipped)
        return dl_fail(err, DL_NUMERIC, "step %lld: %s: stopped (DLR_DEBUG=nan)", (long long)number,
                       step->found);
    if (!isfinite(step->loss) && !step->skipped) return fail_loss(r, number, err);
    print_step(r, step->loss);
    return dlr_scaler_check(&r->steps.scaler, r->o->exec, r->steps.program, number, err);
}

static bool run(replay *r, dl_error *err) {
    const dlr_ranges *ranges = &r->o->ranges;
    int64_t batches = dlr_replay_batches(r->from);
    bool stopped;
    if (ranges->profile)
        dlr_profile_epoch(ranges->profile, r->o->exec, r->steps.program, 0, 0, batches);
    return dlr_steps_run(&r->steps, batches, &stopped, err) &&
           (!ranges->profile || dlr_profile_write(ranges->profile, err));
}

bool dlr_train_replay(const dlr_train_options *o, const char *path, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    replay r = {.o = o,
                .arena = arena,
                .steps = {.arena = arena,
                          .ranges = &o->ranges,
                          .watches = dlr_debugs("nan"),
                          .first_alone = o->save_grads,
                          .loop = &r,
                          .feed = feed,
                          .take = take}};
    r.from = dlr_replay_open(path, o->exec, o->ranks.data_rank,
                             o->ranks.data_ranks ? o->ranks.data_ranks : 1, err);
    bool ok = r.from && dlr_steps_open(&r.steps, o->exec, err);
    if (ok) {
        dlr_schedule schedule = o->schedule;
        schedule.base_batch = schedule.global_batch;
        schedule.steps = schedule.epoch_steps = dlr_replay_batches(r.from);
        dlr_log_info("replaying %lld batches of %s", (long long)schedule.steps, path);
        r.metrics = dlr_averages_of(arena, o->exec, r.steps.program, "train", NULL);
        ok = dlr_schedule_rates(&schedule, &r.rates, err) && dlr_run_start_weights(o, err);
    }
    if (ok) dlr_run_set_hypers(o, &r.rates);
    ok = ok && run(&r, err) && dlr_run_save_weights(o, err);
    dlr_replay_close(r.from);
    dl_arena_free(arena);
    return ok;
}
