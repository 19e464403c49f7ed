#include "dldata/nbody.h"

#include "dldata/parallel.h"
#include "runtime/base/rng.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    const nbody_setup *s;
    const mesh *m;
    float *field;
} noise_job;

static void noise_plane(void *ctx, int x) {
    noise_job *j = ctx;
    size_t L = (size_t)j->m->size;
    float *plane = j->field + (size_t)x * mesh_plane(j->m);
    dlr_rng_place place = {.seed = j->s->seed, .stream = DLR_STREAM_UNIVERSE};
    for (size_t y = 0; y < L; y++)
        dlr_normals(place, ((size_t)x * L + y) * L, L, 0, 1, plane + y * mesh_pitch(j->m));
}

/* Unit noise has <|w_k|^2> = L^3 in an undivided transform; a field of power P has L^6 P / box^3.
 */
static double colour(const void *ctx, double k) {
    const nbody_setup *s = ctx;
    if (k <= 0) return 0;
    double cell = s->box / s->size;
    return sqrt(cosmology_power(&s->cosmos, k / cell) / (cell * cell * cell));
}

void nbody_linear_field(const nbody_setup *s, const mesh *m, float *transform) {
    noise_job job = {s, m, transform};
    parallel_for(m->threads, m->size, noise_plane, &job);
    mesh_forward(m, transform);
    mesh_shape(m, transform, colour, s);
}

void nbody_zeldovich(const nbody_setup *s, particles *ps, const float *linear, double a,
                     float *psi) {
    /* At mesh points a kick reads the field's own values, and a kick by G then moves by D / G of
     * it. */
    double D = cosmology_growth(&s->cosmos, a), G = cosmology_momentum_growth(&s->cosmos, a);
    for (int axis = 0; axis < 3; axis++) {
        mesh_displacement(ps->m, linear, axis, psi);
        particles_kick(ps, axis, psi, G);
    }
    particles_drift(ps, D / G);
}

/* p += psi (G(to) - G(from)), with psi from the density contrast at `now`; in linear theory
 * contrast = -D div psi. */
static void kick(const nbody_setup *s, particles *ps, double from, double now, double to,
                 float *contrast, float *force) {
    const mesh *m = ps->m;
    particles_sort(ps);
    particles_deposit_mass(ps, contrast);
    mesh_forward(m, contrast);
    double change =
        cosmology_momentum_growth(&s->cosmos, to) - cosmology_momentum_growth(&s->cosmos, from);
    for (int axis = 0; axis < 3; axis++) {
        mesh_displacement(m, contrast, axis, force);
        particles_kick(ps, axis, force, change / cosmology_growth(&s->cosmos, now));
    }
}

static void drift(const nbody_setup *s, particles *ps, double from, double now, double to) {
    double change = cosmology_growth(&s->cosmos, to) - cosmology_growth(&s->cosmos, from);
    particles_drift(ps, change / cosmology_momentum_growth(&s->cosmos, now));
}

bool nbody_evolve(const nbody_setup *s, particles *ps, double from, double to, float *contrast,
                  float *force, nbody_watch *watch, void *ctx) {
    double step = (to - from) / s->steps, kicked = from;
    for (int i = 0; i < s->steps; i++) {
        double a = from + i * step, middle = a + step / 2, next = i + 1 == s->steps ? to : a + step;
        kick(s, ps, kicked, a, middle, contrast, force);
        kicked = middle;
        drift(s, ps, a, middle, next);
        if (watch && !watch(ctx, i + 1, s->steps, next)) return false;
    }
    kick(s, ps, kicked, to, to, contrast, force);
    return true;
}

bool nbody_run(const nbody_setup *s, const mesh *m, particles *ps, nbody_watch *watch, void *ctx,
               dl_error *err) {
    double start = 1 / (1 + s->z_start);
    bool done = false;
    float *linear = mesh_field(m, err), *work = mesh_field(m, err);
    if (linear && work && particles_open(ps, m, err)) {
        nbody_linear_field(s, m, linear);
        nbody_zeldovich(s, ps, linear, start, work);
        done = (!watch || watch(ctx, 0, s->steps, start)) &&
               nbody_evolve(s, ps, start, 1, linear, work, watch, ctx);
        if (!done) particles_close(ps);
    }
    free(linear);
    free(work);
    return done;
}

double nbody_velocity_unit(const nbody_setup *s, double a) { return 100 * s->box / s->size / a; }
