/* Synthetic data for a model without files, by the types of its inputs and targets.
 *
 * It supports any number of arrays of any types. A sample is drawn from (seed, split, sample): the
 * same at each epoch, like a file's. With `redraw`, training samples are drawn from (seed, epoch,
 * sample): new ones at each epoch. */
#ifndef DLR_NOISE_H
#define DLR_NOISE_H
#include "runtime/data/dataset.h"

/* the largest count whose classes a float represents exactly */
enum { DLR_NOISE_MAX_CLASSES = 1 << 24 };

typedef struct {
    int64_t samples; /* in an epoch */
    bool redraw;     /* training samples are drawn anew at each epoch */
    bool uniform; /* floats are uniform in [0, 1), multiples of 2^-24, instead of standard normal */
    /* of each array: uniform whole numbers from 0 to classes - 1; 0: floats as above */
    int64_t classes[DLR_MAX_ARRAYS];
} dlr_noise_options;

extern const dlr_loader dlr_noise_loader;
#endif
