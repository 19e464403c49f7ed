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

/* A velocity is a smoothed momentum divided by an equally smoothed mass. Where no particle is near,
 * a hundredth of a smoothing four times as wide dominates, so that empty cells have the velocity of
 * their surroundings. */
#define WING 0.01
#define MIN_DENSITY                                                                                \
    1e-3f /* rounding of the transforms may leave less, or a negative value, in the emptiest voids \
           */

/* Converts one value of a field to one of a channel. */
typedef float channel(float value);
static float log_density(float rho) { return log10f(1 + rho); }
static float gas_density(float rho) {
    return logf(fmaxf(rho, MIN_DENSITY)) / (float)SCALE_LOG_DENSITY;
}
static float dark_velocity(float v) { return v / (float)SCALE_VELOCITY; }
static float gas_velocity(float v) { return tanhf(v / (float)SCALE_GAS_VELOCITY); }
static float temperature(float T) { return tanhf(log10f(T / 1e4f) / (float)SCALE_LOG_T); }

typedef struct {
    const mesh *m;
    const float *field;
    channel *convert;
    float *out; /* [L][L][L], without the field's padding */
} channel_job;

static void fill_plane(void *ctx, int x) {
    channel_job *j = ctx;
    size_t L = (size_t)j->m->size;
    for (size_t y = 0; y < L; y++) {
        const float *row = j->field + (size_t)x * mesh_plane(j->m) + y * mesh_pitch(j->m);
        float *out = j->out + ((size_t)x * L + y) * L;
        for (size_t z = 0; z < L; z++) out[z] = j->convert(row[z]);
    }
}

static void fill(const mesh *m, channel *convert, const float *field, float *out) {
    channel_job job = {m, field, convert, out};
    parallel_for(m->threads, m->size, fill_plane, &job);
}

/* A task on fields, plane by plane. */
typedef struct {
    const mesh *m;
    const float *mass, *v[3];
    float *to;
    double scale;
} field_job;

static void divide_plane(void *ctx, int x) {
    field_job *j = ctx;
    size_t start = (size_t)x * mesh_plane(j->m);
    for (size_t i = start; i < start + mesh_plane(j->m); i++)
        j->to[i] = j->to[i] / fmaxf(j->mass[i], MIN_DENSITY) * (float)j->scale;
}

/* Mean velocities in km/s, smoothed over `radius` cells; `mass` is a buffer for a field. */
static void mean_velocity(const nbody_setup *s, const particles *ps, double radius, float *mass,
                          float *v[3]) {
    const mesh *m = ps->m;
    particles_deposit_mass(ps, mass);
    mesh_smooth(m, mass, radius, WING);
    for (int axis = 0; axis < 3; axis++) {
        particles_deposit_momentum(ps, axis, v[axis]);
        mesh_smooth(m, v[axis], radius, WING);
        field_job job = {.m = m, .mass = mass, .to = v[axis], .scale = nbody_velocity_unit(s, 1)};
        parallel_for(m->threads, m->size, divide_plane, &job);
    }
}

/* Where the flow converges: the temperature after a shock that is `scale` cells thick. */
static void shock_plane(void *ctx, int x) {
    field_job *j = ctx;
    const mesh *m = j->m;
    size_t L = (size_t)m->size, pitch = mesh_pitch(m), plane = mesh_plane(m);
    size_t here = (size_t)x * plane, left = (size_t)((x + m->size - 1) % m->size) * plane,
           right = (size_t)((x + 1) % m->size) * plane;
    for (size_t y = 0; y < L; y++) {
        size_t row = y * pitch, down = here + (y + L - 1) % L * pitch,
               up = here + (y + 1) % L * pitch;
        for (size_t z = 0; z < L; z++) {
            float spread = j->v[0][right + row + z] - j->v[0][left + row + z];
            spread += j->v[1][up + z] - j->v[1][down + z];
            spread += j->v[2][here + row + (z + 1) % L] - j->v[2][here + row + (z + L - 1) % L];
            float jump = spread < 0 ? -spread / 2 * (float)j->scale : 0;
            j->to[here + row + z] = (float)GAS_SHOCK_K * jump * jump;
        }
    }
}

/* to = temperature: that of gas at rest, plus the shock heating (in `to`; smoothing may have left
 * values slightly below 0). */
static void heat_plane(void *ctx, int x) {
    field_job *j = ctx;
    size_t start = (size_t)x * mesh_plane(j->m);
    for (size_t i = start; i < start + mesh_plane(j->m); i++)
        j->to[i] = (float)GAS_T0 * powf(fmaxf(j->mass[i], MIN_DENSITY), (float)GAS_GAMMA - 1) +
                   fmaxf(j->to[i], 0);
}

static void make_gas(const nbody_setup *s, const particles *ps, float *mass, float *v[3], float *T,
                     float *hydro) {
    const mesh *m = ps->m;
    size_t L = (size_t)m->size, cells = L * L * L;
    double radius = fmax(GAS_FILTER_MPC * s->size / s->box, 1);
    mean_velocity(s, ps, radius, mass, v);
    for (size_t axis = 0; axis < 3; axis++)
        fill(m, gas_velocity, v[axis], hydro + (2 + axis) * cells);
    particles_deposit_mass(ps, mass);
    mesh_smooth(m, mass, radius, 0);
    fill(m, gas_density, mass, hydro);
    field_job job = {m, mass, {v[0], v[1], v[2]}, T, GAS_SHOCK_FILTERS * radius};
    parallel_for(m->threads, m->size, shock_plane, &job);
    mesh_smooth(m, T, radius, 0); /* heat spreads from the shocks to the enclosed gas */
    parallel_for(m->threads, m->size, heat_plane, &job);
    fill(m, temperature, T, hydro + cells);
}

bool volumes_make(const nbody_setup *s, const particles *ps, float *nbody, float *hydro,
                  dl_error *err) {
    const mesh *m = ps->m;
    size_t L = (size_t)m->size, cells = L * L * L;
    float *field[5]; /* mass, three velocities, temperature */
    bool ok = true;
    for (int i = 0; i < 5; i++) ok = (field[i] = mesh_field(m, err)) && ok;
    if (ok) {
        /* so that the padding is defined */
        for (int i = 0; i < 5; i++) memset(field[i], 0, mesh_floats(m) * sizeof(float));
        particles_deposit_mass(ps, field[0]);
        fill(m, log_density, field[0], nbody);
        mean_velocity(s, ps, 1, field[0], field + 1);
        for (size_t axis = 0; axis < 3; axis++)
            fill(m, dark_velocity, field[1 + axis], nbody + (1 + axis) * cells);
        make_gas(s, ps, field[0], field + 1, field[4], hydro);
    }
    for (int i = 0; i < 5; i++) free(field[i]);
    return ok;
}
