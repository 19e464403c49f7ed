/* Particles in a periodic mesh: cloud-in-cell deposit and interpolation (Hockney & Eastwood 1988,
 * chapter 5).
 *
 * Positions are in cells, in [0, L). A particle is distributed over the eight mesh points around it
 * with weights that are multiples of 2^-42: masses add up exactly, in any order. Both directions
 * use the same weights, so that a particle exerts no force on itself and momentum is conserved. */
#ifndef DLDATA_PARTICLES_H
#define DLDATA_PARTICLES_H
#include "dldata/mesh.h"

typedef struct {
    float x[3], p[3]; /* position in cells; momentum a^2 dx/dt in cells H0 */
} particle;

enum { PARTICLES_PIECES = 64 }; /* number of pieces of the sort, whatever the number of threads */

typedef struct {
    const mesh *m;
    size_t n;                          /* L^3 */
    particle *at, *spare;              /* sorted by plane; a buffer for the next sort */
    size_t *plane_start;               /* [L + 1]: begin of each plane's particles */
    size_t (*count)[PARTICLES_PIECES]; /* [L]: counts of the sort */
} particles;

/* Allocates one particle per cell, at rest on the mesh points, sorted. Errors: DL_RESOURCE. */
bool particles_open(particles *ps, const mesh *m, dl_error *err);
void particles_close(particles *ps);

/* Sorts the particles by the plane floor(x[0]), stably. The functions below require it. */
void particles_sort(particles *ps);
/* Mass per cell in units of the mean, so that the field's mean is exactly 1 before rounding to
 * float. */
void particles_deposit_mass(const particles *ps, float *field);
/* Mass times p[axis] per cell, in units of the mean mass. */
void particles_deposit_momentum(const particles *ps, int axis, float *field);
/* p[axis] += factor * field at the particle. */
void particles_kick(particles *ps, int axis, const float *field, double factor);
/* x += factor * p, wrapped into the box. Leaves the particles unsorted. */
void particles_drift(particles *ps, double factor);
#endif
