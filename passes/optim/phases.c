/* The schedule `phases`: formulas of a learning rate after PyTorch's schedulers, rows of
 * ir/base/rate_phases.def, each in its closed form. Step i counts from 0, in units of lr.unit
 * steps. Phase K has the hyperparameters lr.phase.K.start, .length, .from, .to, .by, .down and
 * .fade, as far as its formula reads them; n is i - start. */
#include <math.h>

#include "passes/optim/optimizer.h"

typedef struct {
    dl_optimization *o;
    int k;       /* which phase */
    dl_value *n; /* the step's number within it */
} phase;

static dl_value *number(const phase *p, const char *name, double fallback) {
    return dl_optimizer_hyper(p->o, dl_internf("lr.phase.%d.%s", p->k, name), fallback);
}

static dl_value *from(const phase *p) { return number(p, "from", 0); }
static dl_value *to(const phase *p) { return number(p, "to", 0); }
static dl_value *length(const phase *p) { return number(p, "length", 1); }

/* x as it is, but at most k. */
static dl_value *at_most(const phase *p, dl_value *x, double k) {
    return dl_build_k(p->o->b, DL_OP_min, x, k);
}

static dl_value *whole(const phase *p, dl_value *x) { return dl_build1(p->o->b, DL_OP_floor, x); }

static dl_value *power(const phase *p, dl_value *x, dl_value *y) {
    return dl_build2(p->o->b, DL_OP_pow, x, y);
}

/* to + (from - to) share */
static dl_value *blend(const phase *p, dl_value *share) {
    dl_value *last = to(p), *height = dl_o_sub(p->o, from(p), last);
    return dl_o_add(p->o, last, dl_o_mul(p->o, height, share));
}

/* (1 + cos(pi share)) / 2 */
static dl_value *half_cosine(const phase *p, dl_value *share) {
    dl_value *angle = dl_build_k(p->o->b, DL_OP_mul, share, M_PI);
    dl_value *wave = dl_build_k(p->o->b, DL_OP_add, dl_build1(p->o->b, DL_OP_cos, angle), 1);
    return dl_build_k(p->o->b, DL_OP_mul, wave, 0.5);
}

/* (1 - n / length)^by: LinearLR, PolynomialLR, a constant. */
static dl_value *build_power(const phase *p) {
    dl_value *share = at_most(p, dl_o_div(p->o, p->n, length(p)), 1);
    return blend(p, power(p, dl_o_sub(p->o, dl_o_k(p->o, 1), share), number(p, "by", 1)));
}

/* CosineAnnealingLR, and the ways of OneCycleLR. */
static dl_value *build_cosine(const phase *p) {
    return blend(p, half_cosine(p, at_most(p, dl_o_div(p->o, p->n, length(p)), 1)));
}

/* from by^floor(n / length): StepLR, ExponentialLR. */
static dl_value *build_steps(const phase *p) {
    dl_value *stairs = whole(p, dl_o_div(p->o, p->n, length(p)));
    return dl_o_mul(p->o, from(p), power(p, number(p, "by", 1), stairs));
}

/* CosineAnnealingWarmRestarts (Loshchilov and Hutter 2017). Cycle c begins after length (by^c - 1)
 * / (by - 1) steps, or c length where by is 1. A step at which one begins is found in spite of the
 * logarithm's rounding, by a margin that is below the distance to the step before. */
static dl_value *build_restarts(const phase *p) {
    dl_optimization *o = p->o;
    dl_value *by = number(p, "by", 1), *first = length(p), *share = dl_o_div(o, p->n, first);
    dl_value *even = dl_build_k(o->b, DL_OP_le, by, 1);
    dl_value *growth = dl_build3(o->b, DL_OP_select, even, dl_o_k(o, 2), by);
    dl_value *rise = dl_build_k(o->b, DL_OP_sub, growth, 1);
    dl_value *sum = dl_build_k(o->b, DL_OP_add, dl_o_mul(o, share, rise), 1);
    dl_value *level =
        dl_o_div(o, dl_build1(o->b, DL_OP_log, sum), dl_build1(o->b, DL_OP_log, growth));
    dl_value *cycle = whole(p, dl_build_k(o->b, DL_OP_add, level, 1e-10));
    dl_value *times = power(p, growth, cycle);
    dl_value *began = dl_o_div(o, dl_build_k(o->b, DL_OP_sub, times, 1), rise);
    began = dl_build3(o->b, DL_OP_select, even, whole(p, share), began);
    times = dl_build3(o->b, DL_OP_select, even, dl_o_k(o, 1), times);
    dl_value *passed = dl_o_sub(o, p->n, dl_o_mul(o, first, began));
    return blend(p, half_cosine(p, dl_o_div(o, passed, dl_o_mul(o, first, times))));
}

/* CyclicLR (Smith 2017): from up to `to` within length and back within down; the height shrinks by
 * fade each cycle and by `by` each step. */
static dl_value *build_cycle(const phase *p) {
    dl_optimization *o = p->o;
    dl_value *up = length(p), *down = number(p, "down", 1), *all = dl_o_add(o, up, down);
    dl_value *cycle = whole(p, dl_o_div(o, p->n, all));
    dl_value *in = dl_o_sub(o, p->n, dl_o_mul(o, cycle, all));
    dl_value *rising = dl_o_div(o, in, up), *falling = dl_o_div(o, dl_o_sub(o, all, in), down);
    dl_value *height = dl_build2(o->b, DL_OP_min, rising, falling);
    height = dl_o_mul(o, height, power(p, number(p, "fade", 1), cycle));
    height = dl_o_mul(o, height, power(p, number(p, "by", 1), p->n));
    dl_value *low = from(p), *high = dl_o_sub(o, to(p), low);
    return dl_o_add(o, low, dl_o_mul(o, high, height));
}

static dl_value *(*const kinds[])(const phase *p) = {
#define RATE_PHASE(id, help) build_##id,
#include "ir/base/rate_phases.def"
};

dl_value *dl_schedule_phases(dl_optimization *o) {
    dl_value *unit = dl_optimizer_hyper(o, "lr.unit", 1);
    dl_value *at = dl_build1(o->b, DL_OP_floor, dl_o_div(o, dl_rate_before(o), unit));
    dl_value *rate = dl_o_k(o, 0);
    for (int k = 0; dl_step_phase(o->step_options, k) >= 0; k++) {
        phase p = {o, k, NULL};
        dl_value *start = number(&p, "start", 0);
        p.n = dl_build_k(o->b, DL_OP_max, dl_o_sub(o, at, start), 0);
        dl_value *mine = kinds[dl_step_phase(o->step_options, k)](&p);
        dl_value *begun = dl_build2(o->b, DL_OP_ge, at, start);
        rate = k ? dl_build3(o->b, DL_OP_select, begun, mine, rate) : mine;
    }
    return dl_rate_warmed(o, rate);
}
