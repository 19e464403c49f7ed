/* Errors of predictions: for each channel, and each step of a rollout. */
#ifndef DLR_SCORE_H
#define DLR_SCORE_H
#include "ir/base/str.h"

#include <stdint.h>

typedef struct {
    int64_t channels, steps;
    double *square, *absolute; /* sums, [steps, channels] */
    int64_t *n;
} dlr_score;

dlr_score dlr_score_new(dl_arena *arena, int64_t channels, int64_t steps);
/* Adds n predicted numbers of a channel and their true values. Sums are in double precision. */
void dlr_score_add(dlr_score *s, int64_t step, int64_t channel, const float *predicted,
                   const float *truth, int64_t n);
/* The root mean square error and the mean absolute error, in the target's units; NAN where nothing
 * was added. */
double dlr_score_rmse(const dlr_score *s, int64_t step, int64_t channel);
double dlr_score_mae(const dlr_score *s, int64_t step, int64_t channel);
#endif
