/* The checkpoints of PyTorch's programs: ckpt.tar after each epoch, ckpt_best.tar after the
 * best. */
#include <math.h>

#include "runtime/train/run.h"

void dlr_run_describe_torch(const dlr_run *r, dlr_torch_run *torch,
                            dlr_torch_scheduler *scheduler) {
    const dlr_learning_rate_options *o = &r->o->rate;
    bool has_scheduler = o->schedule.by_epochs || o->plateau;
    double next = dlr_learning_rate_next(&r->rate, &r->at);
    *scheduler = (dlr_torch_scheduler){.epochs = r->at.epoch,
                                       .plateau = o->plateau,
                                       .at = r->rate.plateau,
                                       .total = (int64_t)r->rate.rates.total,
                                       .least_rate = r->rate.rates.end};
    *torch = (dlr_torch_run){.optimizer = r->o->checkpoints.torch,
                             .rate = isnan(next) ? r->rate.last : next,
                             .initial_rate = has_scheduler ? r->rate.rates.init : NAN,
                             .iters = r->at.iteration,
                             .epoch = r->at.epoch - 1, /* the one just finished, from 0 */
                             .scheduler = has_scheduler ? scheduler : NULL,
                             .finite = true};
}
