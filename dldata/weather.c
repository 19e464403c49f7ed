#include "dldata/weather.h"

#include "dldata/climate.h"
#include "dldata/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const weather_channel_names[WEATHER_CHANNELS] = {
    "u10m: eastward wind near the ground, the layer's slowed and turned by friction, m/s",
    "v10m: northward wind near the ground, m/s",
    "t2m: temperature of the air near the ground, K",
    "u: eastward wind of the layer, m/s",
    "v: northward wind of the layer, m/s",
    "z: height of the layer's top above the sea, m",
    "h: thickness of the layer, m",
    "vo: relative vorticity, 1/s",
    "d: divergence, 1/s",
    "pv: potential vorticity (vorticity + f) / h, 1/(m s)",
    "ke: kinetic energy, m2/s2",
    "psi: stream function, m2/s",
    "chi: velocity potential, m2/s",
    "w: vertical velocity of the layer's top, m/s",
    "t: temperature of the upper air, K",
    "q: specific humidity, kg/kg",
    "r: relative humidity near the ground, %",
    "tp: rain, mm/day",
    "tracer: what land emits and ten days destroy, 1",
    "tadv: warming of the upper air by its wind, K/day",
};

/* The fields that are synthesized: the state, followed by */
enum { EAST = AIR_FIELDS, NORTH, PSI, CHI, T_EAST, T_NORTH, WEATHER_FIELDS };

static double *field(const weather_view *w, int f) {
    return w->fields + (size_t)f * (size_t)w->grid.rows * (size_t)w->grid.columns;
}

/* A field's gradient times the radius. */
static bool gradient(weather_view *w, fftw_complex *of, double *east, double *north,
                     dl_error *err) {
    fftw_complex *none = w->air->room;
    memset(none, 0, w->air->modes * sizeof *none);
    return sphere_vector_to_grid(&w->grid, w->air->setup.threads, none, of, east, north, err);
}

bool weather_view_open(weather_view *w, atmosphere *a, int rows, dl_error *err) {
    *w = (weather_view){.air = a};
    if (!sphere_even(&w->grid, a->grid.truncation, rows, a->setup.columns, err)) return false;
    size_t cells = (size_t)rows * (size_t)a->setup.columns;
    w->fields = malloc(WEATHER_FIELDS * cells * sizeof *w->fields);
    w->land = malloc(cells * sizeof *w->land);
    w->height = malloc(cells * sizeof *w->height);
    for (int i = 0; i < 2; i++) w->slope[i] = malloc(cells * sizeof *w->slope[i]);
    bool ok =
        (w->fields && w->land && w->height && w->slope[0] && w->slope[1]) ||
        dl_fail(err, DL_RESOURCE, "no memory for fields of %dx%d points", rows, a->setup.columns);
    double *grid = w->fields;
    fftw_complex *modes = a->room + a->modes;
    ok = ok && sphere_from_grid(&a->grid, a->setup.threads, a->land, modes, err) &&
         sphere_to_grid(&w->grid, a->setup.threads, modes, grid, err);
    for (size_t i = 0; ok && i < cells; i++) w->land[i] = (float)fmin(fmax(grid[i], 0), 1);
    ok = ok && sphere_to_grid(&w->grid, a->setup.threads, a->mountains, grid, err);
    for (size_t i = 0; ok && i < cells; i++) w->height[i] = (float)(grid[i] / EARTH_GRAVITY);
    ok = ok && gradient(w, a->mountains, w->slope[0], w->slope[1], err);
    for (size_t i = 0; ok && i < cells; i++)
        for (int k = 0; k < 2; k++) w->slope[k][i] /= EARTH_RADIUS * EARTH_GRAVITY;
    if (!ok) weather_view_close(w);
    return ok;
}

void weather_view_close(weather_view *w) {
    free(w->fields);
    free(w->land);
    free(w->height);
    for (int i = 0; i < 2; i++) free(w->slope[i]);
    sphere_close(&w->grid);
    *w = (weather_view){0};
}

typedef struct {
    weather_view *w;
    float *out;
} look_job;

static void look_row(void *ctx, int j) {
    look_job *job = ctx;
    weather_view *w = job->w;
    const atmosphere *a = w->air;
    size_t cells = (size_t)w->grid.rows * (size_t)w->grid.columns;
    double lat = w->grid.latitude[j], f0 = 2 * a->setup.rotation * sin(lat);
    for (int i = 0; i < w->grid.columns; i++) {
        size_t at = (size_t)j * (size_t)w->grid.columns + (size_t)i;
        double value[WEATHER_FIELDS];
        for (int f = 0; f < WEATHER_FIELDS; f++) value[f] = field(w, f)[at];
        double u = value[EAST], v = value[NORTH], land = (double)w->land[at],
               ground = (double)w->height[at];
        climate_point p = {.land = land, .height = ground};
        memcpy(p.value, value, sizeof p.value);
        /* Friction slows the wind and turns it towards lower pressure: to the left in the north. */
        double slowed = 0.85 - 0.25 * land,
               turned = (10 + 15 * land) * M_PI / 180 * tanh(lat / 0.2);
        double thickness = value[AIR_THICKNESS] / EARTH_GRAVITY;
        double t2m = value[AIR_SURFACE_T] - CLIMATE_LAPSE * ground;
        /* truncated sums of waves fall below zero in places */
        double water = fmax(value[AIR_HUMIDITY], 0);
        double out[WEATHER_CHANNELS] = {
            slowed * (u * cos(turned) - v * sin(turned)),
            slowed * (v * cos(turned) + u * sin(turned)),
            t2m,
            u,
            v,
            thickness + ground,
            thickness,
            value[AIR_VORTICITY],
            value[AIR_DIVERGENCE],
            (value[AIR_VORTICITY] + f0) / thickness,
            (u * u + v * v) / 2,
            value[PSI] * EARTH_RADIUS,
            value[CHI] * EARTH_RADIUS,
            u * w->slope[0][at] + v * w->slope[1][at] - thickness * value[AIR_DIVERGENCE],
            value[AIR_UPPER_T],
            water,
            100 * water / climate_saturation(t2m),
            climate_rain(&p) * CLIMATE_COLUMN * EARTH_DAY,
            value[AIR_TRACER],
            -(u * value[T_EAST] + v * value[T_NORTH]) / EARTH_RADIUS * EARTH_DAY,
        };
        for (int c = 0; c < WEATHER_CHANNELS; c++) job->out[(size_t)c * cells + at] = (float)out[c];
    }
}

bool weather_look(weather_view *w, float *out, dl_error *err) {
    atmosphere *a = w->air;
    int threads = a->setup.threads;
    atmosphere_potentials(a);
    bool ok = true;
    for (int f = 0; ok && f < AIR_FIELDS; f++)
        ok = sphere_to_grid(&w->grid, threads, atmosphere_field(a, (air_field)f), field(w, f), err);
    ok = ok && sphere_to_grid(&w->grid, threads, a->psi, field(w, PSI), err) &&
         sphere_to_grid(&w->grid, threads, a->chi, field(w, CHI), err) &&
         sphere_vector_to_grid(&w->grid, threads, a->psi, a->chi, field(w, EAST), field(w, NORTH),
                               err) &&
         gradient(w, atmosphere_field(a, AIR_UPPER_T), field(w, T_EAST), field(w, T_NORTH), err);
    look_job job = {w, out};
    if (ok) parallel_for(threads, w->grid.rows, look_row, &job);
    return ok;
}

void weather_count(weather_statistics *s, const float *sample, size_t points) {
    double n = (double)points, all = s->n + n;
    for (int c = 0; c < WEATHER_CHANNELS; c++) {
        const float *x = sample + (size_t)c * points;
        double mean = 0, square = 0;
        for (size_t i = 0; i < points; i++) mean += (double)x[i];
        mean /= n;
        for (size_t i = 0; i < points; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
        double apart = mean - s->mean[c];
        s->square[c] += square + apart * apart * s->n * n / all;
        s->mean[c] += apart * n / all;
    }
    s->n = all;
}

float weather_deviation(const weather_statistics *s, int channel) {
    return (float)sqrt(s->square[channel] / s->n);
}
