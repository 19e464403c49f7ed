#include "dldata/atmosphere.h"

#include "dldata/climate.h"
#include "dldata/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fields that are transformed to the grid (the state and the wind), and fields that are transformed
 * back. */
enum { IN_EAST = AIR_FIELDS, IN_NORTH, N_IN };
enum { OUT_EAST, OUT_NORTH, OUT_HEAD, OUT_MASS_EAST, OUT_MASS_NORTH, OUT_CORE, OUT_EACH = 3 };
enum { N_OUT = OUT_CORE + OUT_EACH * (AIR_FIELDS - AIR_CORE) };

static fftw_complex *complexes(size_t n) { return calloc(n, sizeof(fftw_complex)); }

bool atmosphere_open(atmosphere *a, const atmosphere_setup *setup, dl_error *err) {
    /* Without aliasing: products of two fields with wave numbers up to T need 3 T + 1 columns. */
    int T = (setup->columns - 1) / 3, rows = (3 * T + 1 + 3) / 4 * 2;
    *a = (atmosphere){
        .setup = *setup, .fields = setup->bare ? AIR_CORE : AIR_FIELDS, .modes = sphere_modes(T)};
    if (!sphere_gaussian(&a->grid, T, rows, setup->columns, err)) return false;
    size_t cells = (size_t)rows * (size_t)setup->columns, n = (size_t)a->fields * a->modes;
    size_t lines = (size_t)rows * sphere_line(&a->grid);
    a->land = calloc(cells, sizeof *a->land);
    a->height = calloc(cells, sizeof *a->height);
    a->sun = calloc(cells, sizeof *a->sun);
    a->rows = calloc(cells * (N_IN + N_OUT), sizeof *a->rows);
    fftw_complex **fields[] = {&a->mountains, &a->target, &a->season,
                               &a->stirring,  &a->psi,    &a->chi};
    bool ok = a->land && a->height && a->sun && a->rows;
    for (int i = 0; i < 6; i++) ok = (*fields[i] = complexes(a->modes)) != NULL && ok;
    a->state = complexes(n);
    a->room = complexes(3 * n);
    a->waves = complexes(lines * N_IN);
    a->flux = complexes(lines * N_OUT);
    ok = ok && a->state && a->room && a->waves && a->flux;
    if (!ok)
        dl_fail(err, DL_RESOURCE, "no memory for an atmosphere of %dx%d points", rows,
                setup->columns);
    if (ok) atmosphere_field(a, AIR_THICKNESS)[0][0] = M_SQRT2 * EARTH_GRAVITY * setup->depth;
    ok = ok && (setup->bare || climate_open(a, err));
    if (!ok) atmosphere_close(a);
    return ok;
}

void atmosphere_close(atmosphere *a) {
    void *rooms[] = {a->sun,      a->land, a->height, a->rows,  a->mountains, a->target, a->season,
                     a->stirring, a->psi,  a->chi,    a->state, a->room,      a->waves,  a->flux};
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) free(rooms[i]);
    sphere_close(&a->grid);
    *a = (atmosphere){0};
}

double atmosphere_longest_step(const atmosphere *a) {
    /* The method is stable up to 2.8 on the imaginary axis; the margin is for waves that move with
     * the wind and in thicker air. */
    double T = a->grid.truncation, speed = sqrt(EARTH_GRAVITY * a->setup.depth) + 80;
    return 2.3 * EARTH_RADIUS / (sqrt(T * (T + 1)) * speed);
}

/* ---- the tendency: transform to rows, multiply there, transform back ---- */

/* For one wave number: wind / radius from vorticity and divergence. */
static void potentials(atmosphere *a, int m, fftw_complex *state) {
    int T = a->grid.truncation;
    for (int n = m; n <= T; n++) {
        size_t at = sphere_first(T, m) + (size_t)(n - m);
        double inverse = n ? -EARTH_RADIUS / ((double)n * (n + 1)) : 0;
        for (int i = 0; i < 2; i++) {
            a->psi[at][i] = inverse * state[AIR_VORTICITY * a->modes + at][i];
            a->chi[at][i] = inverse * state[AIR_DIVERGENCE * a->modes + at][i];
        }
    }
}

static void to_rows(void *ctx, int m) {
    atmosphere *a = ctx;
    size_t line = sphere_line(&a->grid), stride = line * N_IN;
    potentials(a, m, a->stage);
    for (int f = 0; f < a->fields; f++)
        sphere_scalar(&a->grid, m, a->stage + (size_t)f * a->modes, a->waves + (size_t)f * line,
                      stride);
    sphere_vector(&a->grid, m, a->psi, a->chi, a->waves + IN_EAST * line,
                  a->waves + IN_NORTH * line, stride);
}

static void carry(const atmosphere *a, int j, double *const in[N_IN], double *const out[N_OUT]) {
    double upper = climate_upper(a->grid.latitude[j], climate_season(a, a->at)), source[AIR_FIELDS];
    for (int i = 0; i < a->grid.columns; i++) {
        size_t at = (size_t)(j * a->grid.columns + i);
        double u = in[IN_EAST][i], v = in[IN_NORTH][i];
        climate_point p = {a->land[at], a->height[at], sqrt(u * u + v * v), a->sun[at], upper, {0}};
        for (int f = AIR_CORE; f < AIR_FIELDS; f++) p.value[f] = in[f][i];
        climate_sources(&p, source);
        for (int f = AIR_CORE; f < AIR_FIELDS; f++) {
            double *const *to = out + OUT_CORE + OUT_EACH * (f - AIR_CORE);
            to[0][i] = u * in[f][i];
            to[1][i] = v * in[f][i];
            to[2][i] = in[AIR_DIVERGENCE][i] * in[f][i] + source[f];
        }
    }
}

static void products(void *ctx, int j) {
    atmosphere *a = ctx;
    const sphere *g = &a->grid;
    size_t line = sphere_line(g), columns = (size_t)g->columns;
    double *in[N_IN], *out[N_OUT], *row = a->rows + (size_t)j * (N_IN + N_OUT) * columns;
    for (int f = 0; f < N_IN; f++, row += columns) in[f] = row;
    for (int f = 0; f < N_OUT; f++, row += columns) out[f] = row;
    for (int f = 0; f < N_IN; f++)
        if (f < a->fields || f >= AIR_FIELDS)
            sphere_row_to_grid(g, a->waves + ((size_t)j * N_IN + (size_t)f) * line, in[f]);
    double f0 = 2 * a->setup.rotation * sin(g->latitude[j]);
    for (size_t i = 0; i < columns; i++) {
        double u = in[IN_EAST][i], v = in[IN_NORTH][i], turn = in[AIR_VORTICITY][i] + f0;
        out[OUT_EAST][i] = turn * u;
        out[OUT_NORTH][i] = turn * v;
        out[OUT_HEAD][i] = (u * u + v * v) / 2;
        out[OUT_MASS_EAST][i] = in[AIR_THICKNESS][i] * u;
        out[OUT_MASS_NORTH][i] = in[AIR_THICKNESS][i] * v;
    }
    if (a->fields > AIR_CORE) carry(a, j, in, out);
    int n = a->fields > AIR_CORE ? N_OUT : OUT_CORE;
    for (int f = 0; f < n; f++)
        sphere_row_to_fourier(g, out[f], a->flux + ((size_t)j * N_OUT + (size_t)f) * line);
}

/* Adds the linear terms, mode by mode: pressure gradient, relaxation, drag, stirring. */
static void add_linear(atmosphere *a, int m) {
    const sphere *g = &a->grid;
    double season = climate_season(a, a->at);
    for (int n = m; n <= g->truncation; n++) {
        size_t at = sphere_first(g->truncation, m) + (size_t)(n - m);
        double laplace = (double)n * (n + 1) / (EARTH_RADIUS * EARTH_RADIUS);
        for (int i = 0; i < 2; i++) {
            double vorticity = a->stage[AIR_VORTICITY * a->modes + at][i];
            double divergence = a->stage[AIR_DIVERGENCE * a->modes + at][i];
            double thickness = a->stage[AIR_THICKNESS * a->modes + at][i];
            double *to[AIR_CORE] = {&a->slope[AIR_VORTICITY * a->modes + at][i],
                                    &a->slope[AIR_DIVERGENCE * a->modes + at][i],
                                    &a->slope[AIR_THICKNESS * a->modes + at][i]};
            *to[AIR_DIVERGENCE] += laplace * (thickness + a->mountains[at][i]);
            if (a->setup.bare || n == 0) continue; /* n = 0: the total mass is conserved */
            *to[AIR_VORTICITY] += a->stirring[at][i] - vorticity / CLIMATE_DRAG;
            *to[AIR_DIVERGENCE] -= divergence / CLIMATE_CALMING;
            *to[AIR_THICKNESS] +=
                (a->target[at][i] + season * a->season[at][i] - a->mountains[at][i] - thickness) /
                CLIMATE_RELAXATION;
        }
    }
}

static void from_rows(void *ctx, int m) {
    atmosphere *a = ctx;
    const sphere *g = &a->grid;
    int T = g->truncation;
    size_t line = sphere_line(g), stride = line * N_OUT;
    fftw_complex *flux = a->flux;
    /* reused as scratch after the wind was computed */
    fftw_complex *to[AIR_FIELDS], *head = a->psi, *source = a->chi;
    for (int f = 0; f < a->fields; f++) to[f] = a->slope + (size_t)f * a->modes;
    sphere_divergence(g, m, flux + OUT_EAST * line, flux + OUT_NORTH * line, stride,
                      to[AIR_VORTICITY]);
    sphere_curl(g, m, flux + OUT_EAST * line, flux + OUT_NORTH * line, stride, to[AIR_DIVERGENCE]);
    sphere_divergence(g, m, flux + OUT_MASS_EAST * line, flux + OUT_MASS_NORTH * line, stride,
                      to[AIR_THICKNESS]);
    sphere_analyse(g, m, flux + OUT_HEAD * line, stride, head);
    for (int f = AIR_CORE; f < a->fields; f++) {
        fftw_complex *from = flux + (size_t)(OUT_CORE + OUT_EACH * (f - AIR_CORE)) * line;
        sphere_divergence(g, m, from, from + line, stride, to[f]);
        sphere_analyse(g, m, from + 2 * line, stride, source);
        for (int n = m; n <= T; n++) {
            size_t at = sphere_first(T, m) + (size_t)(n - m);
            for (int i = 0; i < 2; i++) to[f][at][i] = source[at][i] - to[f][at][i] / EARTH_RADIUS;
        }
    }
    for (int n = m; n <= T; n++) {
        size_t at = sphere_first(T, m) + (size_t)(n - m);
        double laplace = (double)n * (n + 1) / (EARTH_RADIUS * EARTH_RADIUS);
        for (int i = 0; i < 2; i++) {
            to[AIR_VORTICITY][at][i] /= -EARTH_RADIUS;
            to[AIR_DIVERGENCE][at][i] =
                to[AIR_DIVERGENCE][at][i] / EARTH_RADIUS + laplace * head[at][i];
            to[AIR_THICKNESS][at][i] /= -EARTH_RADIUS;
        }
    }
    add_linear(a, m);
}

/* slope = d stage / dt. */
static void tendency(atmosphere *a, fftw_complex *stage, double time, fftw_complex *slope) {
    a->stage = stage, a->slope = slope, a->at = time;
    parallel_for(a->setup.threads, a->grid.truncation + 1, to_rows, a);
    parallel_for(a->setup.threads, a->grid.rows, products, a);
    parallel_for(a->setup.threads, a->grid.truncation + 1, from_rows, a);
}

/* Diffusion by the eighth derivative damps the shortest waves within three hours and long ones
 * hardly. */
static void diffuse(atmosphere *a, double dt) {
    int T = a->grid.truncation;
    for (int m = 0; m <= T; m++)
        for (int n = m; n <= T; n++) {
            size_t at = sphere_first(T, m) + (size_t)(n - m);
            double keep =
                exp(-dt / (3 * 3600.0) * pow((double)n * (n + 1) / ((double)T * (T + 1)), 4));
            for (int f = 0; f < a->fields; f++)
                for (int i = 0; i < 2; i++) {
                    double *x = &a->state[(size_t)f * a->modes + at][i];
                    /* a uniform surface remains uniform */
                    double still = f == AIR_THICKNESS ? a->mountains[at][i] : 0;
                    *x = (*x + still) * keep - still;
                }
        }
}

void atmosphere_step(atmosphere *a, double dt) {
    static const double share[4] = {1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0},
                        ahead[4] = {0, 0.5, 0.5, 1};
    size_t n = (size_t)a->fields * a->modes;
    fftw_complex *stage = a->room, *slope = stage + n, *sum = slope + n;
    memset(sum, 0, n * sizeof *sum);
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < n; i++)
            for (int c = 0; c < 2; c++)
                stage[i][c] = a->state[i][c] + (k ? ahead[k] * dt * slope[i][c] : 0);
        tendency(a, stage, a->time + ahead[k] * dt, slope);
        for (size_t i = 0; i < n; i++)
            for (int c = 0; c < 2; c++) sum[i][c] += share[k] * slope[i][c];
    }
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 2; c++) a->state[i][c] += dt * sum[i][c];
    a->time += dt;
    if (a->setup.bare) return;
    diffuse(a, dt);
    climate_stir(a, dt);
    climate_shine(a);
}

/* ---- initial state and diagnostics ---- */

void atmosphere_potentials(atmosphere *a) {
    for (int m = 0; m <= a->grid.truncation; m++) potentials(a, m, a->state);
}

bool atmosphere_measure(atmosphere *a, air_budget *b, dl_error *err) {
    const sphere *g = &a->grid;
    size_t cells = (size_t)g->rows * (size_t)g->columns;
    double *east = malloc(4 * cells * sizeof *east);
    if (!east) return dl_fail(err, DL_RESOURCE, "no memory to measure the atmosphere");
    double *north = east + cells, *vorticity = north + cells, *thickness = vorticity + cells;
    atmosphere_potentials(a);
    int threads = a->setup.threads;
    bool ok = sphere_vector_to_grid(g, threads, a->psi, a->chi, east, north, err) &&
              sphere_to_grid(g, threads, atmosphere_field(a, AIR_VORTICITY), vorticity, err) &&
              sphere_to_grid(g, threads, atmosphere_field(a, AIR_THICKNESS), thickness, err);
    *b = (air_budget){0};
    double fastest = 0, thinnest = ok ? thickness[0] : 0;
    for (int j = 0; ok && j < g->rows; j++) {
        double weight = g->weight[j < g->half ? j : g->rows - 1 - j] / (2 * g->columns);
        double f0 = 2 * a->setup.rotation * sin(g->latitude[j]);
        for (int i = 0; i < g->columns; i++) {
            size_t at = (size_t)(j * g->columns + i);
            double h = thickness[at] / EARTH_GRAVITY,
                   speed2 = east[at] * east[at] + north[at] * north[at];
            double absolute = vorticity[at] + f0;
            b->mass += weight * h;
            b->kinetic += weight * h * speed2 / 2;
            b->energy += weight * h * (speed2 / 2 + EARTH_GRAVITY * (h / 2 + a->height[at]));
            b->enstrophy += weight * absolute * absolute / (2 * h);
            if (!(speed2 <= fastest)) fastest = speed2; /* also true for NaN */
            if (!(thickness[at] >= thinnest)) thinnest = thickness[at];
        }
    }
    b->wind = sqrt(fastest);
    free(east);
    if (ok && (!isfinite(b->energy) || !(thinnest > 0) || !(b->wind < 400)))
        ok = dl_fail(
            err, DL_NUMERIC,
            "the simulated air broke on day %.1f (wind up to %g m/s, thickness down to %g m); "
            "another --seed or --size may fare better",
            a->time / EARTH_DAY, b->wind, thinnest / EARTH_GRAVITY);
    return ok;
}
