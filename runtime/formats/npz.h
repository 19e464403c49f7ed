/* .npz: arrays under names, as numpy.savez keeps them: a stored zip with a .npy each.
 *
 * Source: NumPy's documentation of the .npy format, version 1.0. */
#ifndef DLR_NPZ_H
#define DLR_NPZ_H
#include "ir/base/status.h"
#include <stdint.h>

/* Numbers of one axis, f8; or, without `numbers`, a whole number without axes, i8. */
typedef struct {
    const char *name; /* a '/' in it becomes '_': entries of an archive are paths */
    const double *numbers;
    int n;
    int64_t whole;
} dlr_npz_array;

/* Writes the file whole or not at all. Errors: DL_IO, DL_RESOURCE; DL_INTERNAL for more than a zip
 * of 32 bits holds. */
bool dlr_npz_write(const char *path, const dlr_npz_array *arrays, int n, dl_error *err);
#endif
