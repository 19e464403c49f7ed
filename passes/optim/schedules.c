/* The learning rate of a step as nodes: rows of schedules.def. Its numbers are hyperparameters, so
 * that changing one needs no compilation; their names in the graph begin with `optimizer.`. In the
 * formulas, it is the number of the step from 1 (o->at): the run's own number plus lr.passed,
 * which is not 0 where earlier epochs had another number of steps. The hyperparameters are
 *
 *   lr.init     the initial rate        lr.total    steps of the cosine (cosine_epochs: epochs)
 *   lr.end      the final rate          lr.steps    steps in an epoch
 *   lr.warmup   steps of warm-up        lr.scale    a factor on all rates */
#include <math.h>

#include "passes/optim/optimizer.h"

static dl_value *init(dl_optimization *o) { return dl_optimizer_hyper(o, "lr.init", 0); }
static dl_value *end(dl_optimization *o) { return dl_optimizer_hyper(o, "lr.end", 0); }
static dl_value *total(dl_optimization *o) { return dl_optimizer_hyper(o, "lr.total", 1); }
static dl_value *warmup(dl_optimization *o) { return dl_optimizer_hyper(o, "lr.warmup", 0); }

/* end + (init - end) / 2 (1 + cos(pi at / total)) */
static dl_value *half_cosine(dl_optimization *o, dl_value *at) {
    dl_value *all = total(o), *angle = dl_o_div(o, dl_o_mul(o, dl_o_k(o, M_PI), at), all);
    dl_value *wave = dl_build_k(o->b, DL_OP_add, dl_build1(o->b, DL_OP_cos, angle), 1);
    dl_value *to = end(o), *height = dl_o_sub(o, init(o), to);
    return dl_o_add(o, to, dl_o_mul(o, dl_o_mul(o, dl_o_k(o, 0.5), height), wave));
}

/* it / warmup, which is infinite without a warm-up. */
static dl_value *risen(dl_optimization *o) { return dl_o_div(o, o->at, warmup(o)); }

/* it < warmup: it / warmup init; otherwise the cosine of it - warmup. */
dl_value *dl_schedule_warmup_cosine(dl_optimization *o) {
    dl_value *height = init(o), *rising = dl_o_mul(o, risen(o), height);
    dl_value *falling = half_cosine(o, dl_o_sub(o, o->at, warmup(o)));
    return dl_build3(o->b, DL_OP_select, dl_build2(o->b, DL_OP_lt, o->at, warmup(o)), rising,
                     falling);
}

/* i = it - 1: init min((i + 1) / warmup, (1 + cos(pi i / total)) / 2) */
dl_value *dl_schedule_cosine(dl_optimization *o) {
    dl_value *falling = half_cosine(o, dl_o_sub(o, o->at, dl_o_k(o, 1)));
    dl_value *height = init(o);
    return dl_build2(o->b, DL_OP_min, dl_o_mul(o, risen(o), height), falling);
}

dl_value *dl_rate_before(dl_optimization *o) { return dl_o_sub(o, o->at, dl_o_k(o, 1)); }

/* Epochs completed before this step. */
static dl_value *epoch(dl_optimization *o) {
    dl_value *before = dl_rate_before(o);
    return dl_build1(o->b, DL_OP_floor, dl_o_div(o, before, dl_optimizer_hyper(o, "lr.steps", 1)));
}

dl_value *dl_rate_warmed(dl_optimization *o, dl_value *rate) {
    return dl_o_mul(o, rate, dl_build_k(o->b, DL_OP_min, risen(o), 1));
}

dl_value *dl_schedule_cosine_epochs(dl_optimization *o) {
    return dl_rate_warmed(o, half_cosine(o, epoch(o)));
}

/* init times three factors. First, the factor of the schedule's last range [start, end) that has
 * begun (1 before any). Second, a warm-up from lr.warmup.from to 1 over the steps of lr.warmup
 * (Goyal et al. 2017). As with Horovod's callbacks, the factor stays after the end of its range,
 * and the first step already has one increment of the warm-up. */
dl_value *dl_schedule_piecewise(dl_optimization *o) {
    dl_value *factor = dl_o_k(o, 1), *held = dl_o_k(o, -1), *now = epoch(o);
    for (int i = 0; i < o->step_options->ranges; i++) {
        dl_value *from = dl_optimizer_hyper(o, dl_internf("lr.range.%d.start", i), 0);
        dl_value *to = dl_optimizer_hyper(o, dl_internf("lr.range.%d.end", i), 0);
        dl_value *k = dl_optimizer_hyper(o, dl_internf("lr.range.%d.factor", i), 1);
        dl_value *last = dl_build2(o->b, DL_OP_min, now, dl_o_sub(o, to, dl_o_k(o, 1)));
        dl_value *begun = dl_build2(o->b, DL_OP_ge, now, from);
        dl_value *sets = dl_build2(o->b, DL_OP_and, begun, dl_build2(o->b, DL_OP_ge, last, held));
        factor = dl_build3(o->b, DL_OP_select, sets, k, factor);
        held = dl_build3(o->b, DL_OP_select, sets, last, held);
    }
    dl_value *first = dl_optimizer_hyper(o, "lr.warmup.from", 1);
    dl_value *share = dl_build_k(o->b, DL_OP_min, risen(o), 1);
    dl_value *rise = dl_o_add(o, first, dl_o_mul(o, dl_o_sub(o, dl_o_k(o, 1), first), share));
    dl_value *rises = dl_build2(o->b, DL_OP_lt, o->at, warmup(o));
    dl_value *warm = dl_build3(o->b, DL_OP_select, rises, rise, dl_o_k(o, 1));
    return dl_o_mul(o, dl_o_mul(o, init(o), factor), warm);
}

dl_value *dl_schedule_constant(dl_optimization *o) {
    dl_value *by = dl_optimizer_hyper(o, "lr.scale", 1);
    return dl_rate_warmed(o, dl_o_mul(o, init(o), by));
}
