/* Synthetic data: what a model is fed where there is no file, by the types that it declares. */
#ifndef DLR_NOISE_H
#define DLR_NOISE_H
#include "runtime/rng.h"

/* One array of a sample. */
typedef struct {
    int64_t elements;
    int64_t classes; /* whole numbers from 0 to classes - 1, each as likely; 0: standard normal numbers */
} dlr_noise;
enum { DLR_NOISE_MAX_CLASSES = 1 << 24 }; /* all of which a float holds */

/* Writes the array of one sample: a function of its place alone. */
void dlr_noise_fill(const dlr_noise *noise, dlr_rng_place place, float *out);
#endif
