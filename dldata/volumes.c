#include "dldata/volumes.h"

#include "dldata/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const nbody_channel_names[NBODY_CHANNELS] = {
    "density: log10(1 + rho), rho = mass per cell / mean",
    "velocity x: v / (300 km/s), mean of the mass around",
    "velocity y: v / (300 km/s), mean of the mass around",
    "velocity z: v / (300 km/s), mean of the mass around",
};
const char *const hydro_channel_names[HYDRO_CHANNELS] = {
    "gas density: ln(rho) / 14, rho = gas density / mean",
    "temperature: tanh(log10(T / 10^4 K) / 2)",
    "gas velocity x: tanh(v / (500 km/s))",
    "gas velocity y: tanh(v / (500 km/s))",
    "gas velocity z: tanh(v / (500 km/s))",
};

/* Velocities are a smoothed momentum over an equally smoothed mass. Where no particle is near, a hundredth of
 * a smoothing four times as wide decides, so that empty cells have the velocity of their surroundings. */
#define WING 0.01
#define MIN_DENSITY                                                                                          \
    1e-3f /* rounding of the transforms may leave less, or a negative trace, in the emptiest voids */

typedef struct {
    const mesh *m;
    const float *field, *divide, *v[3];
    float *out;
    double scale; /* meaning: see each function */
} cell_job;

typedef void row_function(const cell_job *j, int x, int y, const float *field, float *out);

/* Runs `row` over the field's rows; `out` has no padding. */
static void each_row(const cell_job *j, int x, row_function *row) {
    size_t L = (size_t)j->m->size;
    for (size_t y = 0; y < L; y++)
        row(j, x, (int)y, j->field + (size_t)x * mesh_plane(j->m) + y * mesh_pitch(j->m),
            j->out + ((size_t)x * L + y) * L);
}

static void log_density_row(const cell_job *j, int x, int y, const float *rho, float *out) {
    (void)x, (void)y;
    for (int z = 0; z < j->m->size; z++) out[z] = log10f(1 + rho[z]);
}
static void log_density(void *ctx, int x) { each_row(ctx, x, log_density_row); }

static void gas_density_row(const cell_job *j, int x, int y, const float *rho, float *out) {
    (void)x, (void)y;
    for (int z = 0; z < j->m->size; z++) out[z] = logf(fmaxf(rho[z], MIN_DENSITY)) / (float)SCALE_LOG_DENSITY;
}
static void gas_density(void *ctx, int x) { each_row(ctx, x, gas_density_row); }

static void dark_velocity_row(const cell_job *j, int x, int y, const float *v, float *out) {
    (void)x, (void)y;
    for (int z = 0; z < j->m->size; z++) out[z] = v[z] / (float)SCALE_VELOCITY;
}
static void dark_velocity(void *ctx, int x) { each_row(ctx, x, dark_velocity_row); }

static void gas_velocity_row(const cell_job *j, int x, int y, const float *v, float *out) {
    (void)x, (void)y;
    for (int z = 0; z < j->m->size; z++) out[z] = tanhf(v[z] / (float)SCALE_GAS_VELOCITY);
}
static void gas_velocity(void *ctx, int x) { each_row(ctx, x, gas_velocity_row); }

/* field = gas density, v = gas velocity in km/s, scale = thickness of a shock in cells. */
static void temperature_row(const cell_job *j, int x, int y, const float *rho, float *out) {
    int L = j->m->size;
    size_t plane = mesh_plane(j->m), pitch = mesh_pitch(j->m), row = (size_t)x * plane + (size_t)y * pitch;
    size_t x0 = (size_t)((x + L - 1) % L) * plane + (size_t)y * pitch,
           x1 = (size_t)((x + 1) % L) * plane + (size_t)y * pitch;
    size_t y0 = (size_t)x * plane + (size_t)((y + L - 1) % L) * pitch,
           y1 = (size_t)x * plane + (size_t)((y + 1) % L) * pitch;
    for (int z = 0; z < L; z++) {
        size_t z0 = row + (size_t)((z + L - 1) % L), z1 = row + (size_t)((z + 1) % L), i = (size_t)z;
        float spread = (j->v[0][x1 + i] - j->v[0][x0 + i] + j->v[1][y1 + i] - j->v[1][y0 + i] + j->v[2][z1] -
                        j->v[2][z0]) /
                       2;
        float jump = spread < 0 ? -spread * (float)j->scale : 0; /* km/s across the shock */
        float T = (float)GAS_T0 * powf(fmaxf(rho[z], MIN_DENSITY), (float)GAS_GAMMA - 1) +
                  (float)GAS_SHOCK_K * jump * jump;
        out[z] = tanhf(log10f(T / 1e4f) / (float)SCALE_LOG_T);
    }
}
static void temperature(void *ctx, int x) { each_row(ctx, x, temperature_row); }

/* out (padded here) = out / divide * scale. */
static void divide_plane(void *ctx, int x) {
    cell_job *j = ctx;
    size_t start = (size_t)x * mesh_plane(j->m);
    for (size_t i = start; i < start + mesh_plane(j->m); i++)
        j->out[i] = j->out[i] / fmaxf(j->divide[i], MIN_DENSITY) * (float)j->scale;
}

/* Mean velocities in km/s, smoothed over `radius` cells; `mass` is room for a field. */
static void mean_velocity(const nbody_setup *s, const particles *ps, double radius, float *mass,
                          float *v[3]) {
    const mesh *m = ps->m;
    particles_deposit_mass(ps, mass);
    mesh_smooth(m, mass, radius, WING);
    for (int axis = 0; axis < 3; axis++) {
        particles_deposit_momentum(ps, axis, v[axis]);
        mesh_smooth(m, v[axis], radius, WING);
        cell_job job = {.m = m, .divide = mass, .out = v[axis], .scale = nbody_velocity_unit(s, 1)};
        parallel_for(m->threads, m->size, divide_plane, &job);
    }
}

static void fill(const mesh *m, void (*plane)(void *ctx, int x), const float *field, float *out) {
    cell_job job = {.m = m, .field = field, .out = out};
    parallel_for(m->threads, m->size, plane, &job);
}

bool volumes_make(const nbody_setup *s, const particles *ps, float *nbody, float *hydro, dl_error *err) {
    const mesh *m = ps->m;
    size_t cells = (size_t)s->size * (size_t)s->size * (size_t)s->size;
    double gas_filter = fmax(GAS_FILTER_MPC * s->size / s->box, 1);
    float *mass = mesh_field(m, err), *v[3] = {mesh_field(m, err), mesh_field(m, err), mesh_field(m, err)};
    bool ok = mass && v[0] && v[1] && v[2];
    if (ok) {
        particles_deposit_mass(ps, mass);
        fill(m, log_density, mass, nbody);
        mean_velocity(s, ps, 1, mass, v);
        for (size_t axis = 0; axis < 3; axis++) fill(m, dark_velocity, v[axis], nbody + (1 + axis) * cells);

        mean_velocity(s, ps, gas_filter, mass, v);
        for (size_t axis = 0; axis < 3; axis++) fill(m, gas_velocity, v[axis], hydro + (2 + axis) * cells);
        particles_deposit_mass(ps, mass);
        mesh_smooth(m, mass, gas_filter, 0);
        fill(m, gas_density, mass, hydro);
        cell_job job = {.m = m,
                        .field = mass,
                        .v = {v[0], v[1], v[2]},
                        .out = hydro + cells,
                        .scale = GAS_SHOCK_FILTERS * gas_filter};
        parallel_for(m->threads, m->size, temperature, &job);
    }
    free(mass);
    for (int axis = 0; axis < 3; axis++) free(v[axis]);
    return ok;
}
