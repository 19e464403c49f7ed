/* Gravity: from Gaussian fluctuations to the cosmic web, by particles on a mesh.
 * docs/datasets/nbody.md has the equations. */
#ifndef DLDATA_NBODY_H
#define DLDATA_NBODY_H
#include "dldata/cosmology.h"
#include "dldata/particles.h"

typedef struct {
    int size;   /* L: mesh points and particles along a side */
    double box; /* side, comoving Mpc/h */
    uint64_t seed;
    int steps;      /* leapfrog steps, equal in scale factor */
    double z_start; /* redshift of the initial conditions */
    int threads;
    cosmology cosmos;
} nbody_setup;

/* Called after the initial conditions (step 0) and after each step; returns false to stop the
 * run. */
typedef bool nbody_watch(void *ctx, int step, int steps, double a);

/* White noise of unit variance per cell, filtered by the power spectrum: the transform of the
 * linear density contrast today (the mean is 0). The field at a mesh point depends on seed and
 * position alone. */
void nbody_linear_field(const nbody_setup *s, const mesh *m, float *transform);
/* Moves particles from the mesh points to the positions and velocities of linear theory at scale
 * factor a (Zel'dovich 1970). `psi` is a buffer for a field. */
void nbody_zeldovich(const nbody_setup *s, particles *ps, const float *linear, double a,
                     float *psi);
/* Leapfrog from scale factor `from` to `to`; momenta and positions are both at `to` at the end, and
 * particles sorted. `contrast` and `force` are buffers for a field each. False when `watch` (may be
 * NULL) stopped it. */
bool nbody_evolve(const nbody_setup *s, particles *ps, double from, double to, float *contrast,
                  float *force, nbody_watch *watch, void *ctx);

/* The whole run: particles at a = 1, sorted. False with DL_RESOURCE, or with err->code DL_OK when
 * `watch` stopped it. */
bool nbody_run(const nbody_setup *s, const mesh *m, particles *ps, nbody_watch *watch, void *ctx,
               dl_error *err);

/* km/s for one unit of momentum at scale factor a: peculiar velocity = a dx/dt = p / a. */
double nbody_velocity_unit(const nbody_setup *s, double a);
#endif
