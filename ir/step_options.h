/* The options of training that determine the step's graph: the optimiser, the schedule of
 * the learning rate, and additions to the gradients. Its numbers (rates, betas, decay, ...) are
 * variables of role HYPER, which the host sets: changing one needs no compilation. The passes
 * build a step from it (passes/optim/optimizer.c); verify/step.c computes the same step from its
 * definition. */
#ifndef DL_STEP_OPTIONS_H
#define DL_STEP_OPTIONS_H
#include <stdint.h>

#include "ir/base/optimizers.h"
#include "ir/base/rate_phases.h"
#include "ir/type.h"

typedef enum {
#define SCHEDULE(id, help) DL_SCHEDULE_##id,
#include "ir/base/schedules.def"
#undef SCHEDULE
} dl_schedule;

typedef struct {
    dl_optimizer optimizer;
    dl_schedule schedule;
    bool momentum;             /* sgd, rmsprop */
    bool nesterov;             /* sgd, lars, muon */
    bool dampens;              /* sgd: momentum is dampened */
    bool amsgrad;              /* adam, adamw */
    bool maximize;             /* the step ascends */
    bool centered;             /* rmsprop */
    bool decay, decay_vectors; /* decay: weight decay is on; decay_vectors: for biases and norms'
                                  weights, too */
    bool together;             /* optimisers of objectives of their own step from the same weights,
                                  not in turn */
    bool accumulate;           /* a step takes the mean gradient of several batches */
    bool clip;                 /* clips gradients by their common norm */
    bool average;              /* a mean of the weights is kept, and validated with, */
    bool mean_of_epochs;       /* of all steps from an epoch on, not an exponential one */
    bool clip_value;           /* clips each element of a gradient */
    bool norms; /* metrics: the norm of all gradients before clipping, and of all weights after the
                   step */
    bool layer_norms;   /* the same of each layer */
    bool noise;         /* metric: the gradient's noise scale */
    double accumulator; /* adagrad: the initial value of its sums */
    int ranges;         /* piecewise: the number of ranges of epochs that have a factor */
    dl_dtype low;       /* mixed precision: bf16, or f16, which needs loss scaling; f32: none */
    uint64_t phases;    /* phases: 1 + dl_rate_phase_kind of each, 4 bits a phase; 0: no more */
} dl_step_options;

/* The kind of phase i of the schedule `phases`; -1: it has no such phase. */
static inline int dl_step_phase(const dl_step_options *o, int i) {
    return i < DL_MOST_RATE_PHASES ? (int)(o->phases >> 4 * i & 15) - 1 : -1;
}

/* The optimiser of an objective, where the model has several (statement `optimize`). */
typedef struct {
    const char *name;    /* the objective's, interned */
    dl_step_options own; /* its optimiser and that one's options; the rest is the step's */
    bool rate;           /* it has a factor of the rate, the hyperparameter optimizer.NAME.rate */
    bool every; /* it takes one step in every optimizer.NAME.every steps, the last of them */
} dl_objective_options;

/* Does training with these options scale its loss? */
static inline bool dl_step_scales_loss(const dl_step_options *step_options) {
    return step_options->low == DL_F16 && step_options->optimizer != DL_OPT_NONE;
}
#endif
