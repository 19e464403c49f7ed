/* The part of a training recipe that shapes the step: the optimiser, the schedule of the learning
 * rate and what else training adds to the gradients. The numbers in it (rates, betas, decay, ...)
 * are variables of role HYPER, which the host sets: changing one compiles nothing. The passes build
 * a step from it (passes/optim/optimizer.c); verify/step.c computes the same step by its
 * definition. */
#ifndef DL_TRAIN_RECIPE_H
#define DL_TRAIN_RECIPE_H
#include "ir/base/optimizers.h"
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
    bool nesterov;             /* sgd */
    bool centered;             /* rmsprop */
    bool decay, decay_vectors; /* weight decay: at all; of biases and of norms' weights too */
    bool clip;                 /* gradients by their common norm */
    bool norms;                /* of all gradients before clipping, and of all weights after the
                                  step: metrics */
    double accumulator;        /* adagrad: what its sums start at */
    int ranges;                /* piecewise: how many ranges of epochs have a factor */
    dl_dtype low;              /* mixed precision: bf16, or f16, whose loss is scaled; f32: none */
} dl_recipe;

/* Does training by this recipe scale its loss? */
static inline bool dl_recipe_scales(const dl_recipe *recipe) {
    return recipe->low == DL_F16 && recipe->optimizer != DL_OPT_NONE;
}
#endif
