#include "dldata/climate.h"

#include "dldata/wind.h"

#include "runtime/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_LAND UINT32_MAX /* a step number of the random stream that no time step uses */

#define LAND_SHARE    0.35    /* fraction of the sphere, approximate */
#define SUMMIT        2500.0  /* m, about */
#define JET_LATITUDE  0.75    /* radians: 43 degrees */
#define JET_WIDTH     0.20    /* radians */
#define SLOPE         17000.0 /* m2/s2: decrease of the layer's thickness across a jet */
#define SWING         0.35    /* of SLOPE, between winter and summer */
#define STIR_FROM     6
#define STIR_TO       14      /* total wave numbers */
#define STIR_STRENGTH 1.2e-10 /* rms, 1/s2 */
#define STIR_MEMORY   (2 * EARTH_DAY)
#define LATENT        2488.0 /* K: latent heat of vaporisation / heat capacity of air */

double climate_season(const atmosphere *a, double time) {
    return -cos(2 * M_PI * time / a->setup.year);
}

/* Coefficients of a random field on the sphere, Philox of (seed, step): wave numbers from..to, with
 * variance share(n) for each n; m = 0 is real. */
static void draw(const atmosphere *a, uint32_t step, int from, int to, double (*share)(int n),
                 fftw_complex *field) {
    int T = a->grid.truncation;
    memset(field, 0, a->modes * sizeof *field);
    for (int n = from; n <= to && n <= T; n++) {
        dlr_rng_place place = {a->setup.seed, DLR_STREAM_WEATHER, step, (uint32_t)n};
        float z[2 * n + 2];
        dlr_normals(place, 0, 2 * (size_t)n + 2, 0, 1, z);
        /* Normalization: an orthonormal harmonic has mean square 1 / (2 pi) of ours for m = 0,
         * twice that for a pair of m. */
        double scale = sqrt(share(n) / (2 * n + 1));
        for (int m = 0; m <= n; m++) {
            double *c = field[sphere_first(T, m) + (size_t)(n - m)];
            c[0] = scale * (double)z[2 * m] * (m ? 1 : M_SQRT2);
            c[1] = m ? scale * (double)z[2 * m + 1] : 0;
        }
    }
}

static double land_share(int n) { return 1.0 / (n * n); }
static double stir_share(int n) {
    (void)n;
    return 1.0 / (STIR_TO - STIR_FROM + 1);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Land where a smooth random field is high, mountains where it is higher; both are smooth, since
 * steps would ring in the harmonics. */
static bool make_land(atmosphere *a, dl_error *err) {
    size_t n = (size_t)a->grid.rows * (size_t)a->grid.columns;
    double *field = malloc(n * sizeof *field), *sorted = malloc(n * sizeof *sorted);
    bool ok = (field && sorted) || dl_fail(err, DL_RESOURCE, "no memory for the mountains");
    draw(a, STEP_LAND, 1, 9, land_share, a->mountains);
    ok = ok && sphere_to_grid(&a->grid, a->setup.threads, a->mountains, field, err);
    if (ok) {
        memcpy(sorted, field, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, ascending);
        double shore = sorted[(size_t)((1 - LAND_SHARE) * (double)n)], top = sorted[n - 1];
        for (size_t i = 0; i < n; i++) {
            double up = (field[i] - shore) / (top - shore);
            a->land[i] = 0.5 * (1 + tanh(up / 0.08));
            a->height[i] = EARTH_GRAVITY * SUMMIT * (up > 0 ? up * up : 0);
        }
        ok = sphere_from_grid(&a->grid, a->setup.threads, a->height, a->mountains, err);
    }
    if (ok) { /* damps the shortest waves, so that slopes are smooth on this grid */
        int T = a->grid.truncation;
        for (int m = 0; m <= T; m++)
            for (int k = m; k <= T; k++)
                for (int i = 0; i < 2; i++)
                    a->mountains[sphere_first(T, m) + (size_t)(k - m)][i] *=
                        exp(-4 * pow((double)k / T, 4));
        ok = sphere_to_grid(&a->grid, a->setup.threads, a->mountains, a->height, err);
        for (size_t i = 0; i < n; i++) a->height[i] /= EARTH_GRAVITY;
    }
    free(field);
    free(sorted);
    return ok;
}

/* A smooth step: 0 south of a jet and 1 north of it. */
static double beyond(double lat) { return 0.5 * (1 + tanh((lat - JET_LATITUDE) / JET_WIDTH)); }

/* Targets: the top of the air falls by SLOPE across each jet, more in winter; its mean is the mean
 * depth. */
static bool make_targets(atmosphere *a, double *field, dl_error *err) {
    const sphere *g = &a->grid;
    for (int k = 0; k < 2; k++) {
        for (int j = 0; j < g->rows; j++) {
            double north = beyond(g->latitude[j]), south = beyond(-g->latitude[j]);
            for (int i = 0; i < g->columns; i++)
                field[j * g->columns + i] =
                    SLOPE * (k ? SWING * (north - south) : -(north + south));
        }
        if (!sphere_from_grid(g, a->setup.threads, field, k ? a->season : a->target, err))
            return false;
        (k ? a->season : a->target)[0][0] = 0;
    }
    return true;
}

/* The initial state: jets in balance with January's target, away from the equator; temperatures and
 * humidity by latitude. */
static bool make_state(atmosphere *a, double *east, double *north, dl_error *err) {
    const sphere *g = &a->grid;
    size_t cells = (size_t)g->rows * (size_t)g->columns;
    fftw_complex *thickness = atmosphere_field(a, AIR_THICKNESS);
    double mean = thickness[0][0];
    for (size_t i = 0; i < a->modes; i++)
        for (int k = 0; k < 2; k++) a->chi[i][k] = a->target[i][k] - a->season[i][k];
    memset(a->psi, 0, a->modes * sizeof *a->psi);
    if (!sphere_vector_to_grid(g, a->setup.threads, a->psi, a->chi, east, north, err)) return false;
    for (int j = 0; j < g->rows; j++) {
        double f = 2 * a->setup.rotation * sin(g->latitude[j]), least = 0.3 * a->setup.rotation;
        for (int i = 0; i < g->columns; i++) {
            size_t at = (size_t)(j * g->columns + i);
            east[at] = -north[at] / EARTH_RADIUS * f / (f * f + least * least);
        }
    }
    memset(north, 0, cells * sizeof *north);
    if (!atmosphere_set_wind(a, east, north, err)) return false;
    for (size_t i = 0; i < a->modes; i++)
        for (int k = 0; k < 2; k++) thickness[i][k] = a->chi[i][k] - a->mountains[i][k];
    thickness[0][0] = mean;
    for (int f = AIR_CORE; f < AIR_FIELDS; f++) {
        for (int j = 0; j < g->rows; j++) {
            double s2 = pow(sin(g->latitude[j]), 2);
            double value[AIR_FIELDS] = {
                [AIR_SURFACE_T] = 301 - 45 * s2, [AIR_UPPER_T] = 264 - 30 * s2};
            value[AIR_HUMIDITY] = 0.7 * climate_saturation(value[AIR_SURFACE_T]);
            for (int i = 0; i < g->columns; i++)
                east[j * g->columns + i] = f == AIR_TRACER ? a->land[j * g->columns + i] : value[f];
        }
        if (!sphere_from_grid(g, a->setup.threads, east, atmosphere_field(a, (air_field)f), err))
            return false;
    }
    return true;
}

bool climate_open(atmosphere *a, dl_error *err) {
    size_t cells = (size_t)a->grid.rows * (size_t)a->grid.columns;
    double *east = malloc(cells * sizeof *east), *north = malloc(cells * sizeof *north);
    bool ok = (east && north) || dl_fail(err, DL_RESOURCE, "no memory for the first state");
    ok = ok && make_land(a, err) && make_targets(a, east, err) && make_state(a, east, north, err);
    free(east);
    free(north);
    if (ok) climate_stir(a, 1e9); /* in the stationary state of the stirring */
    if (ok) climate_shine(a);
    return ok;
}

/* An Ornstein-Uhlenbeck process for each coefficient, as Vallis et al. (2004) stir a barotropic
 * model. */
void climate_stir(atmosphere *a, double dt) {
    fftw_complex *fresh = a->room;
    double keep = exp(-dt / STIR_MEMORY), strength = STIR_STRENGTH * sqrt(1 - keep * keep);
    draw(a, a->stirred++, STIR_FROM, STIR_TO, stir_share, fresh);
    for (size_t i = 0; i < a->modes; i++)
        for (int k = 0; k < 2; k++)
            a->stirring[i][k] = keep * a->stirring[i][k] + strength * fresh[i][k];
}

double climate_saturation(double kelvin) {
    double celsius = kelvin - 273.15;
    return 0.622 * 611.2 * exp(17.67 * celsius / (celsius + 243.5)) / 1e5;
}

double climate_upper(double latitude, double season) {
    double up = sin(latitude - 0.1 * season);
    return 264 - 32 * up * up;
}

/* The time scale of the surface temperature, s. */
static double memory(double land) { return (12 - 7 * land) * EARTH_DAY; }

double climate_rain(const climate_point *p) {
    double excess = p->value[AIR_HUMIDITY] -
                    climate_saturation(p->value[AIR_SURFACE_T] - CLIMATE_LAPSE * p->height);
    return excess > 0 ? excess / (3 * 3600.0) : 0;
}

void climate_shine(atmosphere *a) {
    const sphere *g = &a->grid;
    double season = climate_season(a, a->time), turn = 2 * M_PI / EARTH_DAY;
    for (int j = 0; j < g->rows; j++)
        for (int i = 0; i < g->columns; i++) {
            /* The sun's latitude, with the ground's delayed response: amplitude 6 degrees over sea,
             * 18 over land. */
            int at = j * g->columns + i;
            double land = a->land[at], up = sin(g->latitude[j] - season * (0.10 + 0.21 * land));
            double want = 302 - (44 + 10 * land) * up * up;
            double hour = turn * a->time + 2 * M_PI * i / g->columns - M_PI; /* 0 at noon */
            a->sun[at] = want / memory(land) + 4 * turn * land * cos(g->latitude[j]) * cos(hour);
        }
}

void climate_sources(const climate_point *p, double out[AIR_FIELDS]) {
    double surface = p->value[AIR_SURFACE_T], upper = p->value[AIR_UPPER_T],
           water = p->value[AIR_HUMIDITY];
    double rain = climate_rain(p);
    out[AIR_SURFACE_T] = p->sun - surface / memory(p->land);
    out[AIR_UPPER_T] = (p->upper - upper) / (20 * EARTH_DAY) +
                       (surface - 36 - upper) / (15 * EARTH_DAY) + 0.3 * LATENT * rain;
    double lack = 0.85 * climate_saturation(surface) - water;
    double evaporation =
        lack > 0 ? (1 - 0.6 * p->land) * lack * (3 + p->wind) / 12 / (4 * EARTH_DAY) : 0;
    out[AIR_HUMIDITY] = evaporation - rain;
    out[AIR_TRACER] = (p->land - p->value[AIR_TRACER]) / (10 * EARTH_DAY);
}
