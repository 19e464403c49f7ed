/* How much a batch counts in a mean over the batches of a step (accumulate.c). */
#ifndef DL_BATCH_WEIGHT_H
#define DL_BATCH_WEIGHT_H
#include "ir/graph.h"

/* Whether each value depends on fed samples, and on parameters; indexed by value id. Made once a
 * graph, before nodes are added. */
typedef struct dl_batch_weights dl_batch_weights;
dl_batch_weights *dl_batch_weights_of(const dl_graph *g, dl_arena *arena);

/* The scalar by which batches weigh in the mean of a scalar v: v is a sum over samples by that
 * scalar, which depends on fed samples alone, as the mean over targets that are not ignored. NULL:
 * batches weigh the same, as in a mean over samples; also where v is neither. */
dl_value *dl_batch_weight(const dl_batch_weights *w, dl_value *v);

/* The value in a scalar v by which the mean over batches, weighed so, is not v of all samples of
 * the step: the root of a mean, a product of two sums. NULL: the mean is v. Means within a batch,
 * as batch_norm's, are the model's own. */
const dl_value *dl_batch_mean_differs(const dl_batch_weights *w, dl_value *v);
#endif
