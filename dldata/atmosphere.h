/* A shallow atmosphere on a rotating sphere: one layer of air of varying thickness over mountains,
 * and tracers that its wind transports, by spherical harmonics. docs/datasets/weather.md has the
 * equations.
 *
 * Undamped and unforced (`bare`) it is the shallow-water core alone, which conserves mass, energy
 * and potential enstrophy, and which the tests compare with known flows. */
#ifndef DLDATA_ATMOSPHERE_H
#define DLDATA_ATMOSPHERE_H
#include "dldata/sphere.h"
#include <stdint.h>

/* Values of Williamson et al. (1992). */
#define EARTH_RADIUS   6.37122e6 /* m */
#define EARTH_ROTATION 7.292e-5  /* 1/s */
#define EARTH_GRAVITY  9.80616   /* m/s2 */
#define EARTH_DAY      86400.0   /* s */

typedef struct {
    int columns; /* columns of the grid on which products are computed: even, at least 16;
                    truncation and rows follow */
    int threads;
    uint64_t seed;          /* for land, mountains and stirring */
    double rotation, depth; /* rotation in 1/s; mean thickness in m */
    double year;            /* period of the seasons, s */
    bool bare;              /* no mountains, no forcing, no damping, no tracers */
} atmosphere_setup;

typedef enum {
    AIR_VORTICITY,  /* relative, 1/s */
    AIR_DIVERGENCE, /* 1/s */
    AIR_THICKNESS,  /* gravity times the layer's thickness, m2/s2 */
    AIR_CORE,
    AIR_SURFACE_T = AIR_CORE, /* temperature of the air near the ground, reduced to sea level, K */
    AIR_UPPER_T,              /* temperature of the air above, K */
    AIR_HUMIDITY,             /* kg/kg */
    AIR_TRACER,               /* a tracer that land emits */
    AIR_FIELDS
} air_field;

typedef struct {
    atmosphere_setup setup;
    sphere grid;
    double time;         /* s */
    int fields;          /* AIR_CORE or AIR_FIELDS */
    size_t modes;        /* complex numbers per field */
    fftw_complex *state; /* [fields][modes] */
    /* The ground and the forcing, constant within a step; all zero where bare. */
    double *land, *height;         /* [rows][columns]: 0 sea to 1 land; m */
    double *sun;                   /* [rows][columns]: heating by the sun (climate_shine) */
    fftw_complex *mountains;       /* gravity times height */
    fftw_complex *target, *season; /* targets of thickness plus mountains: the annual mean, and the
                                      seasonal amplitude */
    fftw_complex *stirring;        /* of vorticity, 1/s2 */
    uint32_t stirred;              /* number of draws so far */
    /* buffers: stream function and velocity potential, divided by the radius */
    fftw_complex *psi, *chi;
    fftw_complex *room, *waves, *flux; /* buffers of the time steps */
    double *rows;
    fftw_complex *stage; /* input state of the tendency, */
    fftw_complex *slope; /* its output, */
    double at;           /* and that state's time */
} atmosphere;

/* Means over the sphere, for air of 1 kg/m3. */
typedef struct {
    double mass;      /* kg/m2 */
    double kinetic;   /* J/m2 */
    double energy;    /* J/m2: kinetic and potential */
    double enstrophy; /* potential enstrophy: half the square of (vorticity + f) / thickness,
                         weighted by mass: 1/(m s2) */
    double wind;      /* the largest wind on the grid, m/s */
} air_budget;

/* Bare: an atmosphere at rest. Otherwise: with the jets of January. Errors: DL_RESOURCE. */
bool atmosphere_open(atmosphere *a, const atmosphere_setup *setup, dl_error *err);
void atmosphere_close(atmosphere *a);
/* The longest time step, in s, for which the Runge-Kutta method is stable here. */
double atmosphere_longest_step(const atmosphere *a);
/* One step of dt seconds: the classical fourth-order method, followed by stirring and diffusion. */
void atmosphere_step(atmosphere *a, double dt);
/* Computes psi and chi of the present state: sphere_vector gives the wind from them. */
void atmosphere_potentials(atmosphere *a);
/* Errors: DL_RESOURCE; DL_NUMERIC when the flow has become unstable. */
bool atmosphere_measure(atmosphere *a, air_budget *b, dl_error *err);

static inline fftw_complex *atmosphere_field(const atmosphere *a, air_field f) {
    return a->state + (size_t)f * a->modes;
}
#endif
