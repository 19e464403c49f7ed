/* The arrays of a GRIB file. The fields of one parameter, kind of level and grid are an array: of
 * members of an ensemble, times, steps of forecasts, levels, and the points. Axes of one member,
 * step or level are left out. The coordinates are arrays of one axis. Private to array_grib.c. */
#ifndef DLR_GRIB_ARRAYS_H
#define DLR_GRIB_ARRAYS_H
#include "runtime/data/array_file.h"
#include "runtime/data/grib_contents.h"

/* A coordinate: an array of its own. */
typedef struct {
    const char *kind, *name;
    const double *at;
    int64_t n;
} dlr_grib_coordinate;

/* The fields of an array, in the order of its indices; or its numbers. */
typedef struct {
    dlr_grib_field *field;
    int64_t fields, points;
    const dlr_grib_coordinate *coordinate;
} dlr_grib_content;

/* All fields of a file, whose order is changed; the grids of which coordinates are known. */
typedef struct {
    dlr_grib_about *field;
    int64_t fields, grids;
    const char *grid, *end;
} dlr_grib_found;

/* Fills in f->arrays, and f->state: a dlr_grib_content for each. An array whose fields do not fill
 * its axes is refused. */
void dlr_grib_make_arrays(dlr_array_file *f, const dlr_grib_found *found);
#endif
