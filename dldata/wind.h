/* Converts wind on the grid to vorticity and divergence, the fields of an atmosphere's state. For a
 * climate's initial state and for the tests' known flows. */
#ifndef DLDATA_WIND_H
#define DLDATA_WIND_H
#include "dldata/atmosphere.h"

/* Sets vorticity and divergence from wind on the grid, m/s. Errors: DL_RESOURCE. */
bool atmosphere_set_wind(atmosphere *a, const double *east, const double *north, dl_error *err);
#endif
