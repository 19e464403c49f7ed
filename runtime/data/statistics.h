/* Means and standard deviations of channels, as recipe weather has them: .npy files [1, C, 1, 1].
 */
#ifndef DLR_STATISTICS_H
#define DLR_STATISTICS_H
#include "ir/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Reads one number a channel into `out`, rounded to f32; the array has `channels` elements along
 * one axis, and its other axes are of size 1. `what` opens messages: "global_means_path".
 * `positive`: none is 0 or less. Errors: DL_USAGE (no path), DL_IO, DL_INPUT (damaged, other shapes
 * or types, numbers that are not finite). */
bool dlr_statistics_read(const char *path, const char *what, int64_t channels, bool positive,
                         float *out, dl_error *err);

/* The place of the first number that is not finite, or -1. */
int64_t dlr_not_finite_at(const float *x, size_t n);
/* (x - mean) / deviation of n numbers in place, as numpy does it in f32. Returns the place of the
 * first that is not finite, or -1: the numbers are then as they were. */
int64_t dlr_normalise(float *x, size_t n, float mean, float deviation);
#endif
