/* Names under which the training loop writes its own values: TensorBoard's tags, the keys of
 * metrics.jsonl and of --replay's lines. A model's metrics and figures are in the same files, so
 * they must have other names. */
#ifndef DL_TAGS_H
#define DL_TAGS_H
#include <stdbool.h>

#define DL_TAG_TRAIN_LOSS "Loss/train"
#define DL_TAG_VALID_LOSS "Loss/valid"
#define DL_TAG_RATE       "Learning Rate"
#define DL_TAG_SPEED      "Avg iters per sec"
#define DL_TAG_WAIT       "Data wait time"
#define DL_TAG_PICTURE    "Visualization"
#define DL_TAG_SETTINGS   "hyperparams"
#define DL_TAG_EPOCH      "epoch"
#define DL_TAG_ITERATION  "iteration"
#define DL_TAG_STEP       "step"
#define DL_TAG_LOSS       "loss"
/* The state of the loss scaler (passes/optim/scaler.h). */
#define DL_SCALER_SCALE   "scaler.scale"
#define DL_SCALER_GOOD    "scaler.good"
#define DL_SCALER_SKIPPED "scaler.skipped"
/* Sums over the batches of a step, which are 0 between steps, and their number
 * (passes/optim/accumulate.c). No name of a model has two dots. */
#define DL_ACCUMULATED        "accumulated.."
#define DL_ACCUMULATE_BATCHES "accumulate.batches"
/* The samples that count in a batch of validation: in this rank's, and in those of all ranks
 * together (passes/parallel/partial_batch.c). */
#define DL_BATCH_SAMPLES        "validation.samples"
#define DL_BATCH_SAMPLES_OF_ALL "validation.samples_of_all"
/* Means of the weights (passes/optim/average.h). */
#define DL_AVERAGE "average.."
/* The loss of an optimiser of its own: the metric of this name and the optimiser's. */
#define DL_OBJECTIVE_METRIC "loss_"
/* With log_norms; results of the step under these names. */
#define DL_TAG_GRAD_NORM   "grad_norm"
#define DL_TAG_WEIGHT_NORM "weight_norm"
/* With log_layer_norms: one of the two, a dot, and the layer. */
/* With log_noise_scale: the batch at which the gradient's noise is as large as the gradient, in
 * samples; the mean square of the norms of the gradients of a step's parts (batches and ranks);
 * state kept from step to step. */
#define DL_TAG_NOISE_SCALE "noise_scale"
#define DL_TAG_PART_SQUARE "grad_square"
#define DL_NOISE_VARIANCE  "noise.variance"
#define DL_NOISE_SQUARE    "noise.square"
/* With a loss scaler: the scale of the step, and 1 where it overflowed and changed nothing, else
 * 0. */
#define DL_TAG_LOSS_SCALE "loss_scale"
#define DL_TAG_SKIPPED    "skipped"

/* The loop's own spelling of `name`, whatever the case of its letters; NULL when the loop has no
 * such name. */
const char *dl_tag_find(const char *name);
#endif
