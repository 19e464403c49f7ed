#include "runtime/predict/score.h"

#include <math.h>

dlr_score dlr_score_new(dl_arena *arena, int64_t channels, int64_t steps) {
    return (dlr_score){channels, steps, DL_NEWS(arena, double, channels *steps),
                       DL_NEWS(arena, double, channels *steps),
                       DL_NEWS(arena, int64_t, channels * steps)};
}

void dlr_score_add(dlr_score *s, int64_t step, int64_t channel, const float *predicted,
                   const float *truth, int64_t n) {
    double square = 0, absolute = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)predicted[i] - (double)truth[i];
        square += d * d, absolute += fabs(d);
    }
    int64_t at = step * s->channels + channel;
    s->square[at] += square, s->absolute[at] += absolute, s->n[at] += n;
}

static double mean(const dlr_score *s, const double *sums, int64_t step, int64_t channel) {
    int64_t at = step * s->channels + channel;
    return s->n[at] > 0 ? sums[at] / (double)s->n[at] : NAN;
}

double dlr_score_rmse(const dlr_score *s, int64_t step, int64_t channel) {
    return sqrt(mean(s, s->square, step, channel));
}

double dlr_score_mae(const dlr_score *s, int64_t step, int64_t channel) {
    return mean(s, s->absolute, step, channel);
}
