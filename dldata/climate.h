/* The forcing of the shallow atmosphere: land and mountains, sun and seasons, evaporation and rain,
 * stirring. All constants are here or in climate.c; docs/datasets/weather.md explains them. */
#ifndef DLDATA_CLIMATE_H
#define DLDATA_CLIMATE_H
#include "dldata/atmosphere.h"

#define CLIMATE_RELAXATION (8 * EARTH_DAY) /* relaxation of thickness to the season's, s */
#define CLIMATE_DRAG       (8 * EARTH_DAY) /* time scale of the drag on vorticity */
#define CLIMATE_CALMING    (1 * EARTH_DAY) /* and on divergence */
#define CLIMATE_LAPSE      6.5e-3          /* K/m, for air near the ground over mountains */
#define CLIMATE_COLUMN     3000.0          /* kg/m2: the moist air above a square metre */

/* Initializes land, mountains, the thickness's targets and the first state. Errors: DL_RESOURCE. */
bool climate_open(atmosphere *a, dl_error *err);
/* Draws the stirring of a step of dt seconds. */
void climate_stir(atmosphere *a, double dt);
/* The season at a time, -1 in January to 1 in July. */
double climate_season(const atmosphere *a, double time);

/* Computes the sun's heating at the present time: a->sun, constant within a step. */
void climate_shine(atmosphere *a);
/* The equilibrium temperature of the upper air at a latitude (radians), K. */
double climate_upper(double latitude, double season);

typedef struct {
    double land, height, wind; /* 0 to 1; m; m/s */
    double sun, upper;         /* results of climate_shine, K/s; of climate_upper, K */
    double value[AIR_FIELDS];  /* only the transported fields are read */
} climate_point;

/* Specific humidity of saturated air at 1,000 hPa (Bolton 1980, equation 10), kg/kg. */
double climate_saturation(double kelvin);
/* Rate at which water condenses, 1/s. */
double climate_rain(const climate_point *p);
/* d/dt of the transported fields, without transport by the wind. */
void climate_sources(const climate_point *p, double out[AIR_FIELDS]);
#endif
