#include "runtime/train/stopper.h"

#include "ir/base/clock.h"
#include "runtime/formats/log.h"
#include "runtime/train/train_ranks.h"

/* ---- requests ---- */

/* A checkpoint's turn is told with the signal, as a number above all signals: a signal of another
 * rank that it hides is heard after the next step. */
enum { SAVES = 1 << 16 };

/* Whether a checkpoint is due; told once. */
static bool is_due(dlr_stopper *s) {
    if (!(s->o->save_seconds > 0)) return false;
    double now = dl_clock_seconds();
    bool due = s->save_at > 0 && now >= s->save_at;
    if (due || !(s->save_at > 0)) s->save_at = now + s->o->save_seconds;
    return due;
}

static void take(dlr_stopper *s, int flag) {
    s->requested = flag % SAVES;
    s->saves = s->saves || flag >= SAVES;
}

/* The flag is reduced over the ranks while the next step runs: no step waits for it, and all ranks
 * see it after the same step. */
bool dlr_stopper_poll(dlr_stopper *s, dl_error *err) {
    if (!s->console) return true;
    int flag = dl_console_stop_requested(s->console) + (s->is_rank0 && is_due(s) ? SAVES : 0);
    if (!s->comm) {
        take(s, flag);
        return true;
    }
    if (s->asking && !dlr_comm_wait(s->comm, s->ticket, err)) return false;
    if (s->asking) take(s, s->flags[1]);
    s->flags[0] = flag;
    s->asking = true;
    s->ticket = dlr_ranks_start_largest(s->comm, s->flags, "all_reduce of signals at a step's end");
    return true;
}

bool dlr_stopper_end_poll(dlr_stopper *s, dl_error *err) {
    bool asking = s->asking;
    s->asking = false;
    return !asking || dlr_comm_wait(s->comm, s->ticket, err);
}

bool dlr_stopper_stops(const dlr_stopper *s, int64_t made) {
    return s->requested || (s->o->stop_after && made >= s->o->stop_after);
}

bool dlr_stopper_fail(const dlr_stopper *s, const dlr_state *at, dl_error *err) {
    const char *command = s->o->resume_command;
    return dl_fail(err, DL_REQUEUE,
                   "stopped by %s after step %lld (epoch %lld); checkpoint written: %s goes on",
                   s->requested ? dl_signal_name(s->requested) : "stop_after",
                   (long long)at->iteration, (long long)at->epoch + 1,
                   command ? command : "the same command with --resume");
}

/* ---- no better validation loss ---- */

/* A loss that is not finite is no better one. */
void dlr_stopper_validated(dlr_stopper *s, double valid) {
    bool better = valid < s->least;
    if (better) s->least = valid;
    s->stale = better ? 0 : s->stale + 1;
    if (dlr_stopper_is_early(s))
        dlr_log_info("stopping early: %lld epochs without a better validation loss than %g",
                     (long long)s->stale, s->least);
}

bool dlr_stopper_is_early(const dlr_stopper *s) {
    return s->judged || (s->o->early && s->stale >= s->o->early);
}

bool dlr_stopper_judge(dlr_stopper *s, dl_error *err) {
    int64_t ends = 0;
    if (!s->o->judge) return true;
    if (s->is_rank0) {
        bool answer = false;
        s->o->judge->ask(s->o->judge->context, &answer);
        ends = answer;
    }
    dlr_collective c = {.kind = DLR_BROADCAST,
                        .type = DL_I64,
                        .outer = 1,
                        .count = 1,
                        .from = &ends,
                        .to = &ends,
                        .what = "broadcast of an early end"};
    if (s->comm && !dlr_comm_all(s->comm, &c, err)) return false;
    s->judged = ends != 0;
    return true;
}

void dlr_stopper_put_state(const dlr_stopper *s, dl_arena *arena, dlr_state_list *list) {
    if (!s->o->early) return;
    double *state = dlr_state_put_reals(arena, list, "early_stop", 2);
    state[0] = s->least, state[1] = (double)s->stale;
}

void dlr_stopper_restore(dlr_stopper *s, const dlr_checkpoint *c) {
    const double *state = dlr_state_reals(c, "early_stop", 2);
    if (s->o->early && state) s->least = state[0], s->stale = (int64_t)state[1];
}

/* ---- the run's length ---- */

bool dlr_stopper_is_done(const dlr_stopper_options *o, const dlr_state *at) {
    return o->steps ? at->position == 0 && at->iteration >= o->steps : at->epoch >= o->epochs;
}

void dlr_stopper_log_done(const dlr_stopper_options *o, const dlr_state *at) {
    if (o->steps)
        dlr_log_info("nothing is left to do: %lld steps are made, and num_iters is %lld",
                     (long long)at->iteration, (long long)o->steps);
    else
        dlr_log_info("nothing is left to do: %lld epochs are over, and num_epochs is %lld",
                     (long long)at->epoch, (long long)o->epochs);
}

int64_t dlr_stopper_all_steps(const dlr_stopper_options *o, int64_t epoch_batches) {
    return o->steps ? o->steps : o->epochs * epoch_batches;
}

/* Counted from where the epoch began, which need not be a multiple of anything: an earlier run may
 * have ended with a short one. */
static int64_t steps_left(const dlr_stopper_options *o, const dlr_state *at) {
    return o->steps - (at->iteration - at->position);
}

int64_t dlr_stopper_epoch_steps(const dlr_stopper_options *o, const dlr_state *at,
                                int64_t epoch_batches) {
    if (!o->steps) return epoch_batches;
    int64_t left = steps_left(o, at);
    return left < epoch_batches ? left : epoch_batches;
}

int64_t dlr_stopper_epochs(const dlr_stopper_options *o, const dlr_state *at,
                           int64_t epoch_batches) {
    if (!o->steps) return o->epochs;
    return at->epoch + (steps_left(o, at) + epoch_batches - 1) / epoch_batches;
}
