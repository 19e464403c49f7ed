/* Wind on the grid as vorticity and divergence, the fields by which an atmosphere keeps it. A
 * climate's first state and the tests' known flows begin so. */
#ifndef DLDATA_WIND_H
#define DLDATA_WIND_H
#include "dldata/atmosphere.h"

/* Sets vorticity and divergence from wind on the grid, m/s. Errors: DL_RESOURCE. */
bool atmosphere_set_wind(atmosphere *a, const double *east, const double *north, dl_error *err);
#endif
