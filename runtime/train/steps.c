#include "runtime/train/steps.h"

#include "ir/base/clock.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/not_finite.h"

bool dlr_steps_open(dlr_steps *s, dlr_exec *exec, dl_error *err) {
    s->exec = exec, s->program = dlr_exec_program(exec, "train");
    if (s->program < 0) return dl_fail(err, DL_INPUT, "the plan has no program 'train'");
    s->accumulate = dlr_exec_program(exec, DL_GRAPH_ACCUMULATE);
    s->loss = dlr_exec_result(exec, s->program, DL_RESULT_LOSS, NULL);
    s->scaler = dlr_scaler_of(exec, s->program);
    return s->loss.type || dl_fail(err, DL_INPUT, "the model states no loss to train on");
}

const char *dlr_steps_start_program(const dlr_steps *s, int program) {
    if (s->watches) return dlr_start_checked(s->arena, s->exec, program);
    dlr_exec_start(s->exec, program);
    return NULL;
}

bool dlr_steps_sum_batch(dlr_steps *s, dl_error *err) {
    const char *found = dlr_steps_start_program(s, s->accumulate);
    if (!s->fed) s->fed = found;
    dlr_exec_wait_oldest(s->exec);
    return dlr_exec_check(s->exec, err);
}

static void end_step_range(dlr_steps *s) {
    if (s->in_step) dlr_range_end(s->ranges);
    s->in_step = false;
}

/* Copies a batch to the device and begins its step. The step's range goes on until the next one
 * begins. */
static bool start(dlr_steps *s, dl_error *err) {
    const dlr_ranges *ranges = s->ranges;
    int64_t number = s->position + s->started;
    end_step_range(s);
    dlr_range_begin(ranges, DLR_PART_STEP, number), s->in_step = true;
    dlr_timeline *timeline = ranges->profile ? dlr_profile_step(ranges->profile, number) : NULL;
    if (timeline) dlr_exec_time(s->exec, timeline);
    double began = dl_clock_seconds();
    s->fed = NULL;
    if (!s->feed(s->loop, err)) return false;
    dlr_range_begin(ranges, DLR_PART_PROGRAM, number);
    const char *found = dlr_steps_start_program(s, s->program);
    s->found = s->fed ? s->fed : found;
    dlr_range_end(ranges);
    s->started++;
    s->seconds += dl_clock_seconds() - began;
    return true;
}

/* Takes the results of the oldest step under way. */
static bool finish(dlr_steps *s, dl_error *err) {
    double began = dl_clock_seconds();
    dlr_range_begin(s->ranges, DLR_PART_RESULTS, s->position);
    dlr_exec_wait_oldest(s->exec);
    s->started--;
    dlr_step step = {.loss = dlr_scalar(s->exec, s->loss), .found = s->found};
    if (!dlr_exec_check(s->exec, err)) return false;
    step.skipped = dlr_scaler_note(&s->scaler, s->exec);
    s->position++;
    dlr_range_end(s->ranges);
    s->seconds += dl_clock_seconds() - began;
    return s->take(s->loop, &step, err);
}

/* Steps that may be under way: one whose times are recorded is alone, and so is one that is
 * watched. */
static int most_started(const dlr_steps *s) {
    const dlr_profile *profile = s->ranges->profile;
    int64_t next = s->position + s->started;
    bool alone =
        s->watches || s->alone || (s->first_alone && s->position == 0) ||
        (profile && (dlr_profile_wants(profile, next) || dlr_profile_wants(profile, next - 1)));
    return alone ? 1 : dlr_exec_ahead(s->exec);
}

bool dlr_steps_run(dlr_steps *s, int64_t end, bool *stopped, dl_error *err) {
    *stopped = false;
    while (s->started > 0 || (!*stopped && s->position < end)) {
        bool more = !*stopped && s->position + s->started < end && s->started < most_started(s);
        if (!(more ? start(s, err) : finish(s, err))) return false;
        *stopped = s->stops && s->stops(s->loop, s->started);
    }
    end_step_range(s);
    return true;
}

void dlr_steps_abandon(dlr_steps *s) {
    while (s->started > 0) dlr_exec_wait_oldest(s->exec), s->started--;
}
