/* .npz files as numpy.savez writes them: named arrays, a stored zip with one .npy each.
 *
 * Source: NumPy's documentation of the .npy format, version 1.0. */
#ifndef DLR_NPZ_H
#define DLR_NPZ_H
#include "ir/base/status.h"
#include <stdint.h>

/* A one-dimensional array, f8; or, without `numbers`, an integer scalar, i8. */
typedef struct {
    const char *name; /* '/' in it becomes '_': entries of an archive are paths */
    const double *numbers;
    int n;
    int64_t whole;
} dlr_npz_array;

/* Writes the file atomically. Errors: DL_IO, DL_RESOURCE; DL_INTERNAL for more than a zip of 32
 * bits can hold. */
bool dlr_npz_write(const char *path, const dlr_npz_array *arrays, int n, dl_error *err);
#endif
