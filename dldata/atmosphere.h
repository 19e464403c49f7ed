/* A shallow atmosphere on a rotating sphere: one layer of air of varying thickness over mountains,
 * and what its wind carries, by spherical harmonics. docs/datasets/weather.md has the equations.
 *
 * Undamped and unforced (`bare`) it is the shallow-water core alone, whose mass, energy and
 * potential enstrophy stay, and which the tests hold against known flows. */
#ifndef DLDATA_ATMOSPHERE_H
#define DLDATA_ATMOSPHERE_H
#include "dldata/sphere.h"
#include <stdint.h>

#define EARTH_RADIUS                                                                               \
    6.37122e6                   /* m; this and the next two as Williamson et al. (1992) have them  \
                                 */
#define EARTH_ROTATION 7.292e-5 /* 1/s */
#define EARTH_GRAVITY  9.80616  /* m/s2 */
#define EARTH_DAY      86400.0  /* s */

typedef struct {
    int columns; /* of the grid that products are taken on: even, at least 16; truncation and rows
                    follow */
    int threads;
    uint64_t seed;          /* of land, mountains and stirring */
    double rotation, depth; /* 1/s; mean thickness, m */
    double year;            /* the seasons' period, s */
    bool bare;              /* no mountains, no forcing, no damping, nothing carried */
} atmosphere_setup;

typedef enum {
    AIR_VORTICITY,  /* relative, 1/s */
    AIR_DIVERGENCE, /* 1/s */
    AIR_THICKNESS,  /* gravity times the layer's thickness, m2/s2 */
    AIR_CORE,
    AIR_SURFACE_T = AIR_CORE, /* of the air near the ground, reduced to sea level, K */
    AIR_UPPER_T,              /* of the air above, K */
    AIR_HUMIDITY,             /* kg/kg */
    AIR_TRACER,               /* what land emits */
    AIR_FIELDS
} air_field;

typedef struct {
    atmosphere_setup setup;
    sphere grid;
    double time;         /* s */
    int fields;          /* AIR_CORE or AIR_FIELDS */
    size_t modes;        /* complex numbers a field */
    fftw_complex *state; /* [fields][modes] */
    /* The ground, and what drives the air, held for a step; all zero where bare. */
    double *land, *height;         /* [rows][columns]: 0 sea to 1 land; m */
    double *sun;                   /* [rows][columns]: climate_shine */
    fftw_complex *mountains;       /* gravity times height */
    fftw_complex *target, *season; /* of thickness and mountains: the year's mean, and its swing */
    fftw_complex *stirring;        /* of vorticity, 1/s2 */
    uint32_t stirred;              /* how often it was drawn */
    fftw_complex *psi,
        *chi; /* room: stream function and velocity potential, divided by the radius */
    fftw_complex *room, *waves, *flux; /* room of the steps */
    double *rows;
    fftw_complex *stage; /* the state whose tendency is taken, */
    fftw_complex *slope; /* where it goes, */
    double at;           /* and the state's time */
} atmosphere;

/* Means over the sphere, for air of 1 kg/m3. */
typedef struct {
    double mass;      /* kg/m2 */
    double kinetic;   /* J/m2 */
    double energy;    /* J/m2: kinetic and potential */
    double enstrophy; /* potential: half the square of (vorticity + f) / thickness, by mass: 1/(m
                         s2) */
    double wind;      /* the largest of the grid, m/s */
} air_budget;

/* Bare: at rest. Otherwise: with the jets of January. Errors: DL_RESOURCE. */
bool atmosphere_open(atmosphere *a, const atmosphere_setup *setup, dl_error *err);
void atmosphere_close(atmosphere *a);
/* The longest step, in s, that the Runge-Kutta method takes here. */
double atmosphere_longest_step(const atmosphere *a);
/* One step of dt seconds: the classical fourth-order method, then stirring and diffusion. */
void atmosphere_step(atmosphere *a, double dt);
/* Fills psi and chi of the present state: wind is their sphere_vector. */
void atmosphere_potentials(atmosphere *a);
/* Errors: DL_RESOURCE; DL_NUMERIC when the flow has broken. */
bool atmosphere_measure(atmosphere *a, air_budget *b, dl_error *err);

static inline fftw_complex *atmosphere_field(const atmosphere *a, air_field f) {
    return a->state + (size_t)f * a->modes;
}
#endif
