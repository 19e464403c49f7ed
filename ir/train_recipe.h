/* The part of a training recipe that determines the step's graph: the optimiser, the schedule of
 * the learning rate, and additions to the gradients. Its numbers (rates, betas, decay, ...) are
 * variables of role HYPER, which the host sets: changing one needs no compilation. The passes
 * build a step from it (passes/optim/optimizer.c); verify/step.c computes the same step from its
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
    bool decay, decay_vectors; /* decay: weight decay is on; decay_vectors: for biases and norms'
                                  weights, too */
    bool clip;                 /* clips gradients by their common norm */
    bool norms; /* metrics: the norm of all gradients before clipping, and of all weights after the
                   step */
    double accumulator; /* adagrad: the initial value of its sums */
    int ranges;         /* piecewise: the number of ranges of epochs that have a factor */
    dl_dtype low;       /* mixed precision: bf16, or f16, which needs loss scaling; f32: none */
} dl_recipe;

/* Does training with this recipe scale its loss? */
static inline bool dl_recipe_scales(const dl_recipe *recipe) {
    return recipe->low == DL_F16 && recipe->optimizer != DL_OPT_NONE;
}
#endif
