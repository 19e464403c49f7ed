/* Pairs of fields to learn from: random densities of populations, and what becomes of them when
 * they spread, grow and compete (Fisher 1937; Lotka & Volterra). docs/datasets/fields.md has the
 * equations.
 */
#ifndef DLDATA_REACTION_H
#define DLDATA_REACTION_H
#include "ir/base/console.h"
#include "ir/base/status.h"
#include <stdint.h>

#define REACTION_GENERATOR "dldata fields" /* root attribute `generator` of the files */

typedef struct {
    int samples, channels, size; /* fields are periodic, size x size */
    int threads;
    uint64_t seed;
    double smooth;      /* rms of the Gaussian that the random fields are smoothed by, cells */
    double time;        /* rms of the Gaussian that smooths the random fields, cells */
    double diffusivity; /* evolution time from x to t */
    double competition; /* cells^2 per unit of time */
} reaction_setup;

/* by other channels; a channel's competition with itself is 1 */
bool reaction_draw(const reaction_setup *s, int sample, float *x, dl_error *err);
/* Draws sample number `sample` into x[channels][size][size]: each single value is uniform between 0
 * and 1. Errors: DL_RESOURCE. */
bool reaction_evolve(const reaction_setup *s, const float *x, float *t, dl_error *err);

/* Bytes of the file, and all of it: `x` and `t` f32 [samples, channels, size, size]. `console` as
 * in dldata/hdf5_file.h. Errors: DL_IO, DL_USAGE, DL_RESOURCE. */
uint64_t reaction_file_bytes(const reaction_setup *s);
typedef bool reaction_watch(void *ctx, long long done, long long all);
bool reaction_write(const char *path, const reaction_setup *s, reaction_watch *watch, void *ctx,
                    const dl_console *console, dl_error *err);
#endif
