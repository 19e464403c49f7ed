/* The atmosphere's parts against what is known exactly: harmonics, flows that stay, waves, what is conserved.
 */
#include "dldata/atmosphere.h"
#include "tests/check.h"

#include <stdlib.h>

static dl_error err;

static atmosphere_setup bare(int columns, double rotation, double depth, int threads) {
    return (atmosphere_setup){.columns = columns,
                              .threads = threads,
                              .rotation = rotation,
                              .depth = depth,
                              .year = 30 * EARTH_DAY,
                              .bare = true};
}

static void test_harmonics(void) {
    enum { T = 21, ROWS = 32, COLUMNS = 64, CELLS = ROWS * COLUMNS };
    sphere s, look;
    CHECK(sphere_gaussian(&s, T, ROWS, COLUMNS, &err) && sphere_even(&look, T, 19, COLUMNS, &err));
    double sum = 0, sum4 = 0;
    for (int j = 0; j < ROWS / 2; j++) {
        sum += 2 * s.weight[j];
        sum4 += 2 * s.weight[j] * pow(sin(s.latitude[j]), 40);
    }
    CHECK_NEAR(sum, 2, 1e-14);
    CHECK_NEAR(sum4, 2 / 41.0, 1e-14);
    /* P_32 = sqrt(105 / 16) mu (1 - mu^2), with its derivative and m / cos. */
    size_t mode = sphere_first(T, 2) + 1;
    for (int j = 0; j < s.half; j++) {
        double mu = sin(s.latitude[j]), c = cos(s.latitude[j]), k = sqrt(105 / 16.0);
        CHECK_NEAR(s.p[mode * (size_t)s.pitch + (size_t)j], k * mu * c * c, 1e-13);
        CHECK_NEAR(s.p_east[mode * (size_t)s.pitch + (size_t)j], 2 * k * mu * c, 1e-13);
        CHECK_NEAR(s.p_north[mode * (size_t)s.pitch + (size_t)j], k * (c * c * c - 2 * mu * mu * c), 1e-13);
    }
    /* Out and back, and the same function on the other grid, poles included. */
    size_t modes = sphere_modes(T);
    fftw_complex *f = calloc(modes, sizeof *f), *g = calloc(modes, sizeof *g);
    double *grid = malloc(CELLS * sizeof *grid), *north = malloc(CELLS * sizeof *north);
    for (size_t i = 0; i < modes; i++)
        f[i][0] = sin(1.0 + (double)i), f[i][1] = i > T ? cos(3.0 * (double)i) : 0;
    CHECK(sphere_to_grid(&s, 2, f, grid, &err) && sphere_from_grid(&s, 2, grid, g, &err));
    double worst = 0;
    for (size_t i = 0; i < modes; i++)
        for (int k = 0; k < 2; k++) worst = fmax(worst, fabs(f[i][k] - g[i][k]));
    CHECK(worst < 1e-12, "%g", worst);
    /* A wind of the potential x = cos lat cos lon (mode n = m = 1): its gradient is e_x, also at the poles.
     */
    memset(f, 0, modes * sizeof *f);
    memset(g, 0, modes * sizeof *g);
    f[sphere_first(T, 1)][0] = 0.5 / sqrt(0.75);
    CHECK(sphere_vector_to_grid(&look, 1, g, f, grid, north, &err));
    for (int j = 0; j < 19; j++)
        for (int i = 0; i < COLUMNS; i++) {
            double lon = 2 * M_PI * i / COLUMNS, lat = M_PI / 2 - M_PI * j / 18;
            worst = fmax(worst, fabs(grid[j * COLUMNS + i] + sin(lon)));
            worst = fmax(worst, fabs(north[j * COLUMNS + i] + sin(lat) * cos(lon)));
        }
    CHECK(worst < 1e-12, "%g", worst);
    free(f), free(g), free(grid), free(north);
    sphere_close(&s);
    sphere_close(&look);
}

static double *grid_field(const atmosphere *a) {
    return calloc((size_t)a->grid.rows * (size_t)a->grid.columns, sizeof(double));
}

/* Solid rotation with speed u0 about an axis tilted by `tilt` from the poles, in balance: Williamson et al.
 * (1992), case 2 (equations 90 to 95); across the poles where the sphere itself does not turn. */
static void steady_flow(double rotation, double tilt) {
    atmosphere a;
    atmosphere_setup s = bare(64, rotation, 3000, 2);
    CHECK(atmosphere_open(&a, &s, &err));
    const sphere *g = &a.grid;
    double *u = grid_field(&a), *v = grid_field(&a), *h = grid_field(&a), *now = grid_field(&a), u0 = 38.61;
    double top = 29400;
    for (int j = 0; j < g->rows; j++)
        for (int i = 0; i < g->columns; i++) {
            double lon = 2 * M_PI * i / g->columns, lat = g->latitude[j];
            double along = -cos(lon) * cos(lat) * sin(tilt) + sin(lat) * cos(tilt);
            int at = j * g->columns + i;
            u[at] = u0 * (cos(lat) * cos(tilt) + cos(lon) * sin(lat) * sin(tilt));
            v[at] = -u0 * sin(lon) * sin(tilt);
            h[at] = top - (EARTH_RADIUS * rotation * u0 + u0 * u0 / 2) * along * along;
        }
    CHECK(atmosphere_set_wind(&a, u, v, &err) &&
          sphere_from_grid(g, 1, h, atmosphere_field(&a, AIR_THICKNESS), &err));
    for (int k = 0; k < 480; k++) atmosphere_step(&a, 900); /* five days */
    double worst = 0;
    CHECK(sphere_to_grid(g, 1, atmosphere_field(&a, AIR_THICKNESS), now, &err));
    for (int i = 0; i < g->rows * g->columns; i++) worst = fmax(worst, fabs(now[i] - h[i]) / top);
    CHECK(worst < 1e-11, "thickness off by %g", worst);
    printf("steady flow, tilt %g: thickness off by %.1e after 5 days\n", tilt, worst);
    atmosphere_potentials(&a);
    CHECK(sphere_vector_to_grid(g, 1, a.psi, a.chi, now, h, &err));
    worst = 0;
    for (int i = 0; i < g->rows * g->columns; i++)
        worst = fmax(worst, fmax(fabs(now[i] - u[i]), fabs(h[i] - v[i])) / u0);
    CHECK(worst < 1e-10, "wind off by %g", worst);
    free(u), free(v), free(h), free(now);
    atmosphere_close(&a);
}

int main(void) {
    test_harmonics();
    steady_flow(EARTH_ROTATION, 0);
    steady_flow(0, M_PI / 2);
    steady_flow(0, 0.7);
    return dl_test_end();
}
