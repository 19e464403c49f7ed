/* The checkpoints of PyTorch's programs: ckpt.tar after each epoch, ckpt_best.tar after the
 * best. */
#include <math.h>

#include "runtime/train/train_parts.h"

/* The cosine schedule's rate after so many epochs. */
static double cosine_rate(const dlr_rates *rates, int64_t epochs) {
    dlr_rates cosine = *rates;
    cosine.warmup = 0; /* which no scheduler of PyTorch's knows */
    return dlr_schedule_rate(&cosine, epochs);
}

double dlr_run_next_rate(const dlr_run *r) {
    const dlr_schedule *s = &r->o->schedule;
    return s->by_epochs ? cosine_rate(&r->rates, r->at.epoch)
           : s->cosine
               ? dlr_schedule_cosine(&r->rates, r->at.iteration + (int64_t)r->rates.passed + 1)
           : r->o->plateau ? r->plateau.rate
                           : NAN;
}

bool dlr_run_gather_torch(const dlr_run *r, dl_arena *arena, dlr_torch_gathered *gathered,
                          dl_error *err) {
    const dlr_train_options *o = r->o;
    bool cosine = o->schedule.by_epochs;
    double scheduled = dlr_run_next_rate(r);
    dlr_torch_scheduler scheduler = {.epochs = r->at.epoch,
                                     .plateau = o->plateau,
                                     .at = r->plateau,
                                     .total = (int64_t)r->rates.total,
                                     .least_rate = r->rates.end};
    dlr_torch_run t = {.optimizer = o->torch,
                       .rate = scheduled == scheduled ? scheduled : r->last_rate,
                       .initial_rate = cosine || o->plateau ? r->rates.init : NAN,
                       .iters = r->at.iteration,
                       .epoch = r->at.epoch - 1, /* the one just finished, from 0 */
                       .scheduler = cosine || o->plateau ? &scheduler : NULL,
                       .finite = true};
    return dlr_torch_run_gather(arena, r->exec, &t, gathered, err);
}
