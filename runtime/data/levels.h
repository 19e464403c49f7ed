/* Levels of an axis: its indices by the coordinates in the file, as pressure levels are named. */
#ifndef DLR_LEVELS_H
#define DLR_LEVELS_H
#include "runtime/data/array_file.h"

/* Finds the axis of that name of an array of the open file, and the indices along it where the
 * coordinate (the file's 1-D array of the axis' name) is one of n levels, to 6 digits; without a
 * coordinate, levels are indices. Errors (DL_INPUT), as sentences about the array: no such axis, no
 * such level, with what there is; those of reading the coordinate. */
bool dlr_levels_find(const dlr_array_file *file, const dlr_array_facts *array, const char *name,
                     const double *levels, int n, int *axis, int64_t *indices, dl_error *err);
#endif
