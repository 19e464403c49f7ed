#include "runtime/train/learning_rate.h"

#include <math.h>

#include "ir/base/tags.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/log.h"

void dlr_learning_rate_open(dlr_learning_rate *r, const dlr_learning_rate_options *o,
                            dlr_exec *exec, int program) {
    *r = (dlr_learning_rate){.o = o,
                             .exec = exec,
                             .view = dlr_exec_result(exec, program, DL_RESULT_METRIC, DL_TAG_RATE)};
}

/* A cosine of fewer epochs than the run rises again; one of a phase stays at its end. */
static void warn_of_short(const dlr_schedule *s, const dlr_rates *rates) {
    int64_t epochs = (s->steps + s->epoch_steps - 1) / s->epoch_steps;
    if (s->by_epochs && s->cosine_epochs && s->cosine_epochs < epochs)
        dlr_log_warning("the cosine is shorter than the run: after epoch %lld of %lld the learning "
                        "rate rises again",
                        (long long)s->cosine_epochs, (long long)epochs);
    if (!rates->phases || s->phase[rates->phases - 1].kind != DL_RATE_PHASE_cosine) return;
    const dlr_rate_phase *last = &rates->phase[rates->phases - 1];
    double end = last->start + last->length, all = ceil((double)s->steps / rates->unit);
    if (end < all - 1) /* onecycle's ends one step before the run's end */
        dlr_log_warning("the cosine is shorter than the run: after %s %.0f of %.0f the learning "
                        "rate stays at %g",
                        s->phases_in_epochs ? "epoch" : "step", end, all, last->to);
}

bool dlr_learning_rate_set_steps(dlr_learning_rate *r, int64_t steps, int64_t epoch_steps,
                                 dl_error *err) {
    dlr_schedule schedule = r->o->schedule;
    schedule.steps = steps, schedule.epoch_steps = epoch_steps;
    if (!dlr_schedule_rates(&schedule, &r->rates, err)) return false;
    warn_of_short(&schedule, &r->rates);
    return true;
}

void dlr_learning_rate_reset(dlr_learning_rate *r) {
    r->plateau = (dlr_plateau){.best = INFINITY, .rate = r->rates.init};
}

/* The plateau's rate as the factor that the plan multiplies its first one by. */
static void set_scale(const dlr_learning_rate *r) {
    if (r->o->plateau && r->rates.init > 0)
        dlr_set_hyper(r->exec, "optimizer.lr.scale", r->plateau.rate / r->rates.init);
}

void dlr_learning_rate_begin(dlr_learning_rate *r, const dlr_start_options *start, double passed) {
    r->rates.passed = passed;
    dlr_start_hypers(r->exec, start, &r->rates);
    set_scale(r);
}

void dlr_learning_rate_note(dlr_learning_rate *r) {
    r->last = dlr_scalar(r->exec, r->view);
    r->moved = r->moved || r->last != 0;
}

void dlr_learning_rate_end_epoch(dlr_learning_rate *r, int64_t epoch, int64_t noted) {
    if (noted > 0 && !r->moved && !r->warned) {
        dlr_log_warning("the learning rate was 0 in all steps of epoch %lld: no weight has moved "
                        "(start_lr, lr_schedule)",
                        (long long)epoch);
        r->warned = true;
    }
    r->moved = false;
}

void dlr_learning_rate_validated(dlr_learning_rate *r, double valid) {
    if (!r->o->plateau || !dlr_plateau_step(&r->plateau, r->o->plateau, valid)) return;
    dlr_log_info("  Learning rate reduced to %g", r->plateau.rate);
    set_scale(r);
}

/* The cosine schedule's rate after so many epochs. */
static double cosine_rate(const dlr_rates *rates, int64_t epochs) {
    dlr_rates cosine = *rates;
    cosine.warmup = 0; /* which no scheduler of PyTorch's knows */
    return dlr_schedule_rate(&cosine, epochs);
}

double dlr_learning_rate_next(const dlr_learning_rate *r, const dlr_state *at) {
    const dlr_schedule *s = &r->o->schedule;
    return s->by_epochs ? cosine_rate(&r->rates, at->epoch)
           : s->cosine
               ? dlr_schedule_cosine(&r->rates, at->iteration + (int64_t)r->rates.passed + 1)
           : r->o->plateau ? r->plateau.rate
                           : NAN;
}

/* The scheduler of preset weather includes the warm-up. With the others, a schedule with warm-up
 * records the last step's rate. */
double dlr_learning_rate_recorded(const dlr_learning_rate *r, const dlr_state *at, bool at_end) {
    bool whole = r->o->schedule.cosine || !(r->rates.warmup > 0);
    double next = at_end && whole ? dlr_learning_rate_next(r, at) : NAN;
    return isnan(next) ? r->last : next;
}

/* ---- in a checkpoint ---- */

void dlr_learning_rate_put_state(const dlr_learning_rate *r, dl_arena *arena,
                                 dlr_state_list *list) {
    if (!r->o->plateau) return;
    double *plateau = dlr_state_put_reals(arena, list, "plateau", 5);
    plateau[0] = r->plateau.best, plateau[1] = (double)r->plateau.bad, plateau[2] = r->plateau.rate;
    plateau[3] = r->rates.init; /* which that is a part of */
    plateau[4] = (double)r->plateau.waiting;
}

void dlr_learning_rate_restore(dlr_learning_rate *r, const dlr_checkpoint *c) {
    enum { FIRST = 3, ALL = 5 }; /* of version 0.1's checkpoints, and now */
    const double *v = NULL;
    int n = ALL + 1;
    while (!v && --n >= FIRST) v = dlr_state_reals(c, "plateau", n);
    if (!r->o->plateau || !v) return;
    r->plateau = (dlr_plateau){.best = v[0], .bad = (int64_t)v[1], .rate = v[2]};
    if (n == ALL) r->plateau.waiting = (int64_t)v[ALL - 1];
    double init = r->rates.init, then = n > FIRST ? v[FIRST] : init;
    if (then != init) r->plateau.rate = then > 0 ? r->plateau.rate / then * init : init;
}
