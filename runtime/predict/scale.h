/* The normalisation of an array by channels, as predictions apply and undo it. */
#ifndef DLR_SCALE_H
#define DLR_SCALE_H
#include "runtime/setup/data_record.h"

/* (x - mean[c]) / deviation[c] of channel c; NULL: numbers as they are. */
typedef struct {
    const float *mean, *deviation;
    int64_t channels;
} dlr_scale;

/* The statistics of `record` (NULL: none) for a type whose last `space` axes are spatial: one
 * number for each combination of the axes between, row-major; in the arena. `what` begins messages.
 * Errors (DL_INPUT): they are of another number of channels, or their axis is spatial. */
bool dlr_scale_of(dl_arena *arena, const dl_array_record *record, const dl_type *type, int space,
                  const char *what, dlr_scale *out, dl_error *err);
/* Whether both are the same map of numbers. */
bool dlr_scale_same(const dlr_scale *a, const dlr_scale *b);
static inline float dlr_scale_undo(const dlr_scale *s, int64_t c, float v) {
    return s->mean ? v * s->deviation[c] + s->mean[c] : v;
}
#endif
