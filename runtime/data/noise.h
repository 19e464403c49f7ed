/* Synthetic data: what a model is fed where there is no file, by the types that it declares.
 *
 * Any number of arrays of any types. A sample is drawn from (seed, split, sample): the same at each
 * epoch, as a file's would be; or, in training, from (seed, epoch, sample): another one at each. */
#ifndef DLR_NOISE_H
#define DLR_NOISE_H
#include "runtime/data/dataset.h"

enum { DLR_NOISE_MAX_CLASSES = 1 << 24 }; /* all of which a float holds */

typedef struct {
    int64_t samples; /* in an epoch */
    bool redraw;     /* in training, samples are drawn anew at each epoch */
    bool uniform; /* floats are uniform in [0, 1), multiples of 2^-24, instead of standard normal */
    /* of each array: whole numbers from 0 to classes - 1, each as likely; 0: floats as above */
    int64_t classes[DLR_MAX_ARRAYS];
} dlr_noise_options;

extern const dlr_loader dlr_noise_loader;
#endif
