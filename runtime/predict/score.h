/* How far predictions are from the truth: for each channel, and each step of a rollout. */
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
/* Adds n numbers of a channel and the true ones. Sums are kept in double precision. */
void dlr_score_add(dlr_score *s, int64_t step, int64_t channel, const float *predicted,
                   const float *truth, int64_t n);
/* Root of the mean square, and mean absolute, difference; NAN of
 * nothing. */
double dlr_score_rmse(const dlr_score *s, int64_t step, int64_t channel);
double dlr_score_mae(const dlr_score *s, int64_t step, int64_t channel);
#endif
