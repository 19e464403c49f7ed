/* Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011; ir/base/philox.h). A number is a pure function of its
 * place, (seed, stream, step, item, element), so any thread, rank or order of work draws the same
 * one, and resuming needs no saved state.
 *
 *   key     = seed, low word then high word
 *   counter = {block of four elements, item, step, stream}
 *
 * Every result is the same to the last bit on every machine with IEEE arithmetic: the
 * floating-point part uses only + - * / sqrt and conversions, compiled without contraction to FMA,
 * and never the system's libm. */
#ifndef DLR_RNG_H
#define DLR_RNG_H
#include <stddef.h>
#include <stdint.h>

/* The purposes of random numbers; two purposes never share numbers. Append only: the values are
 * part of every run. */
typedef enum {
    DLR_STREAM_WEIGHTS = 1, /* item: parameter */
    DLR_STREAM_TRAIN = 2,   /* step: epoch, item: sample */
    DLR_STREAM_VALID = 3,   /* step: 0, item: sample */
    DLR_STREAM_NOISE = 4,   /* synthetic samples: step: 2 split + k % 2 + 4 (k / 2) of array k, plus
                               32 epoch where each epoch draws new samples; item: sample */
    /* 6 is DL_STREAM_STEP of ir/base/philox.h: draws of a step's kernels */
    DLR_STREAM_UNIVERSE = 5, /* initial conditions of `dldata nbody` */
    /* order of samples: step: epoch, item: half of a number and round (data/shuffle.h) */
    DLR_STREAM_SHUFFLE = 7,
    DLR_STREAM_SPLIT = 8,    /* random splits; step: 0 */
    DLR_STREAM_WEATHER = 16, /* `dldata weather`: step: draw, item: wave number */
    DLR_STREAM_IMAGES = 17,  /* `dldata images`: step: split, item: image */
    DLR_STREAM_FIELDS = 18   /* `dldata fields`; step: channel, item: sample */
} dlr_stream;

typedef struct {
    uint64_t seed;
    uint32_t stream, step, item;
} dlr_rng_place;

/* Successive numbers of one place, beginning at element 0; at most 2^34 of them. */
typedef struct {
    dlr_rng_place place;
    uint32_t block, word[4];
    int left;
} dlr_rng;
dlr_rng dlr_rng_at(dlr_rng_place place);
uint32_t dlr_rng_u32(dlr_rng *rng);
/* Uniform in [0, n) without bias, n > 0 (Lemire, "Fast random integer generation in an interval",
 * 2019). */
uint32_t dlr_rng_below(dlr_rng *rng, uint32_t n);
/* Uniform in [0, 1), a multiple of 2^-24. */
float dlr_rng_float(dlr_rng *rng);

/* Elements first .. first+n-1 of a place, as floats. The value of element e does not depend on the
 * requested range, so many threads may fill an array in parts. first + n is at most 2^34. */
/* low + (high - low) u, with u uniform in [0, 1), rounded to float (which may round up to
 * `high`). */
void dlr_uniforms(dlr_rng_place place, uint64_t first, size_t n, float low, float high, float *out);
/* mean + std z by Box-Muller on 32-bit uniforms: |z| is at most 6.66. Computed in double to within
 * 1e-14 of the exact transform and then rounded once. */
void dlr_normals(dlr_rng_place place, uint64_t first, size_t n, float mean, float std, float *out);
#endif
