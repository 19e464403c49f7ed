/* Means and standard deviations of channels, as files: .npy, [1, C, 1, 1]. */
#ifndef DLR_STATISTICS_H
#define DLR_STATISTICS_H
#include "ir/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Reads one number per channel into `out`, rounded to f32; the array has `channels` elements along
 * one axis, and its other axes have size 1. `what` begins messages: "global_means_path".
 * `positive`: every number must be above 0. Errors: DL_USAGE (no path), DL_IO, DL_INPUT (damaged,
 * other shapes or types, numbers that are not finite). */
bool dlr_statistics_read(const char *path, const char *what, int64_t channels, bool positive,
                         float *out, dl_error *err);

/* The index of the first number that is not finite, or -1. */
int64_t dlr_not_finite_at(const float *x, size_t n);
/* Computes (x - mean) / deviation of n numbers in place, as numpy does in f32. Returns the index of
 * the first that is not finite, or -1; in the former case the numbers are unchanged. */
int64_t dlr_normalise(float *x, size_t n, float mean, float deviation);
#endif
