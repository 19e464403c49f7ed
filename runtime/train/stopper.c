#include "runtime/train/stopper.h"

#include "runtime/formats/log.h"
#include "runtime/train/train_ranks.h"

/* ---- requests ---- */

/* The flag is reduced over the ranks while the next step runs: no step waits for it, and all ranks
 * see it after the same step. */
bool dlr_stopper_poll(dlr_stopper *s, dl_error *err) {
    if (!s->console) return true;
    if (!s->comm) {
        s->requested = dl_console_stop_requested(s->console);
        return true;
    }
    if (s->asking && !dlr_comm_wait(s->comm, s->ticket, err)) return false;
    if (s->asking) s->requested = s->flags[1];
    s->flags[0] = dl_console_stop_requested(s->console);
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
