/* The atmosphere's parts against what is known exactly: harmonics, flows that stay, waves, what is
 * conserved. */
#include "dldata/output_tree.h"
#include "dldata/weather_files.h"
#include "dldata/wind.h"
#include "ir/base/input.h"
#include "tests/check.h"
#include "tests/unit/written.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

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
        CHECK_NEAR(s.p_north[mode * (size_t)s.pitch + (size_t)j], k * (c * c * c - 2 * mu * mu * c),
                   1e-13);
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
        for (int k = 0; k < 2; k++) worst = dl_test_worse(worst, fabs(f[i][k] - g[i][k]));
    CHECK(worst < 1e-12, "%g", worst);
    /* A wind of the potential x = cos lat cos lon (mode n = m = 1): its gradient is e_x, also at
     * the poles. */
    memset(f, 0, modes * sizeof *f);
    memset(g, 0, modes * sizeof *g);
    f[sphere_first(T, 1)][0] = 0.5 / sqrt(0.75);
    CHECK(sphere_vector_to_grid(&look, 1, g, f, grid, north, &err));
    for (int j = 0; j < 19; j++)
        for (int i = 0; i < COLUMNS; i++) {
            double lon = 2 * M_PI * i / COLUMNS, lat = M_PI / 2 - M_PI * j / 18;
            worst = dl_test_worse(worst, fabs(grid[j * COLUMNS + i] + sin(lon)));
            worst = dl_test_worse(worst, fabs(north[j * COLUMNS + i] + sin(lat) * cos(lon)));
        }
    CHECK(worst < 1e-12, "%g", worst);
    free(f), free(g), free(grid), free(north);
    sphere_close(&s);
    sphere_close(&look);
}

static double *grid_field(const atmosphere *a) {
    return calloc((size_t)a->grid.rows * (size_t)a->grid.columns, sizeof(double));
}

/* Solid rotation with speed u0 about an axis tilted by `tilt` from the poles, in balance:
 * Williamson et al. (1992), case 2 (equations 90 to 95); across the poles where the sphere itself
 * does not turn. */
static void steady_flow(double rotation, double tilt) {
    atmosphere a;
    atmosphere_setup s = bare(64, rotation, 3000, 2);
    CHECK(atmosphere_open(&a, &s, &err));
    const sphere *g = &a.grid;
    double *u = grid_field(&a), *v = grid_field(&a), *h = grid_field(&a), *now = grid_field(&a),
           u0 = 38.61;
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
    for (int i = 0; i < g->rows * g->columns; i++)
        worst = dl_test_worse(worst, fabs(now[i] - h[i]) / top);
    CHECK(worst < 1e-11, "thickness off by %g", worst);
    printf("steady flow, tilt %g: thickness off by %.1e after 5 days\n", tilt, worst);
    atmosphere_potentials(&a);
    CHECK(sphere_vector_to_grid(g, 1, a.psi, a.chi, now, h, &err));
    worst = 0;
    for (int i = 0; i < g->rows * g->columns; i++)
        worst = dl_test_worse(worst, fmax(fabs(now[i] - u[i]), fabs(h[i] - v[i])) / u0);
    CHECK(worst < 1e-10, "wind off by %g", worst);
    free(u), free(v), free(h), free(now);
    atmosphere_close(&a);
}

/* Small waves on air at rest. Without rotation a bump of degree n swings with omega^2 = n (n + 1)
 * phi / a^2; in slow rotation and deep air a vortex of (n, m) drifts with omega = -2 Omega m / (n
 * (n + 1)) (Haurwitz 1940). */
static void test_waves(void) {
    atmosphere a;
    atmosphere_setup s = bare(48, 0, 3000, 1);
    CHECK(atmosphere_open(&a, &s, &err));
    int n = 5, m = 3, T = a.grid.truncation;
    size_t at = sphere_first(T, m) + (size_t)(n - m);
    double phi = 3000 * EARTH_GRAVITY, omega = sqrt(n * (n + 1) * phi) / EARTH_RADIUS, dt = 600;
    atmosphere_field(&a, AIR_THICKNESS)[at][0] = 1e-3;
    for (int k = 0; k < 100; k++) atmosphere_step(&a, dt);
    CHECK_NEAR(atmosphere_field(&a, AIR_THICKNESS)[at][0] / 1e-3, cos(omega * 100 * dt), 1e-5);
    atmosphere_close(&a);

    s = bare(48, EARTH_ROTATION / 50, 100000, 1);
    CHECK(atmosphere_open(&a, &s, &err));
    n = 4, m = 2, at = sphere_first(T, m) + (size_t)(n - m);
    omega = -2 * s.rotation * m / (n * (n + 1)), dt = 600;
    fftw_complex *vorticity = atmosphere_field(&a, AIR_VORTICITY);
    vorticity[at][0] = 1e-9;
    int steps = (int)(0.1 / (-omega * dt)); /* a tenth of a radian */
    for (int k = 0; k < steps; k++) atmosphere_step(&a, dt);
    double drift = -atan2(vorticity[at][1], vorticity[at][0]) / (steps * dt);
    printf("Rossby wave: %.6e 1/s, linear theory %.6e\n", drift, omega);
    CHECK_NEAR(drift / omega, 1, 2e-3);
    CHECK_NEAR(hypot(vorticity[at][0], vorticity[at][1]) / 1e-9, 1, 1e-3);
    atmosphere_close(&a);
}

/* A day of the Rossby-Haurwitz wave of wave number 4 (Williamson et al. 1992, case 6), undamped. */
static air_budget wave_day(double dt, air_budget *before) {
    atmosphere a;
    atmosphere_setup s = bare(96, EARTH_ROTATION, 8000, 2);
    air_budget after = {0};
    CHECK(atmosphere_open(&a, &s, &err));
    const sphere *g = &a.grid;
    double *u = grid_field(&a), *v = grid_field(&a), w = 7.848e-6;
    for (int j = 0; j < g->rows; j++)
        for (int i = 0; i < g->columns; i++) {
            double lon = 2 * M_PI * i / g->columns, c = cos(g->latitude[j]),
                   l = sin(g->latitude[j]);
            int at = j * g->columns + i;
            u[at] = EARTH_RADIUS * w * (c + pow(c, 3) * (4 * l * l - c * c) * cos(4 * lon));
            v[at] = -EARTH_RADIUS * w * 4 * pow(c, 3) * l * sin(4 * lon);
        }
    CHECK(atmosphere_set_wind(&a, u, v, &err) && atmosphere_measure(&a, before, &err));
    for (int k = 0; k < (int)(EARTH_DAY / dt + 0.5); k++) atmosphere_step(&a, dt);
    CHECK(atmosphere_measure(&a, &after, &err), "%s", err.message);
    free(u), free(v);
    atmosphere_close(&a);
    return after;
}

static void test_conserved(void) {
    air_budget start, coarse = wave_day(1200, &start), fine = wave_day(600, &start);
    double energy[2] = {(coarse.energy - start.energy) / start.kinetic,
                        (fine.energy - start.energy) / start.kinetic};
    double enstrophy[2] = {coarse.enstrophy / start.enstrophy - 1,
                           fine.enstrophy / start.enstrophy - 1};
    printf("a day: energy %.2e and %.2e of the kinetic, potential enstrophy %.2e and %.2e, mass "
           "%.1e\n",
           energy[0], energy[1], enstrophy[0], enstrophy[1], fine.mass / start.mass - 1);
    CHECK_NEAR(fine.mass / start.mass, 1, 1e-13);
    /* The loss is the time step's, of fourth order: half a step loses a sixteenth. Enstrophy
     * goes into waves that the grid has no room for. */
    CHECK(fabs(energy[1]) < 5e-5 && fabs(energy[0] / energy[1]) > 12);
    CHECK(fabs(enstrophy[0]) < 2e-6 && fabs(enstrophy[1]) < 2e-6);
}

static bool stop_at(void *ctx, long long step, long long steps, const atmosphere *a,
                    const air_budget *b) {
    (void)steps, (void)a, (void)b;
    return step < *(int *)ctx;
}

/* The whole way: same bytes on any number of threads, nothing left when stopped, what the files
 * say. */
static void test_files(const char *dir) {
    static const char *const names[] = {"train/1990.h5", "train/1991.h5", "valid/1992.h5",
                                        "stats/global_means.npy", "stats/global_stds.npy"};
    weather_setup s = {.rows = 17,
                       .columns = 32,
                       .threads = 1,
                       .seed = 3,
                       .first_year = 1990,
                       .train_years = 2,
                       .valid_years = 1,
                       .samples = 5,
                       .hours = 6,
                       .spin_up = 1};
    dl_arena *arena = dl_arena_new(NULL);
    char path[3][300];
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/%d", dir, i);
    CHECK(weather_write(path[0], &s, NULL, NULL, NULL, &err), "%s", err.message);
    s.threads = 3;
    CHECK(weather_write(path[1], &s, NULL, NULL, NULL, &err), "%s", err.message);
    for (int i = 0; i < 5; i++) {
        size_t n[2];
        char *one = written_bytes(arena, path[0], names[i], &n[0]),
             *three = written_bytes(arena, path[1], names[i], &n[1]);
        CHECK(n[0] == n[1] && !memcmp(one, three, n[0]), "%s hangs on the number of threads",
              names[i]);
    }
    s.seed = 4;
    CHECK(weather_write(path[2], &s, NULL, NULL, NULL, &err), "%s", err.message);
    size_t n[2];
    char *one = written_bytes(arena, path[0], names[2], &n[0]),
         *other = written_bytes(arena, path[2], names[2], &n[1]);
    CHECK(n[0] == n[1] && memcmp(one, other, n[0]), "another seed does not differ");
    CHECK(!output_tree_prepare(path[0], 1, &err) && err.code == DL_USAGE);
    err = (dl_error){0};
    CHECK(!weather_write(path[0], &s, NULL, NULL, NULL, &err) && err.code != DL_OK,
          "replaced a directory");
    err = (dl_error){0};
    int last = 12; /* in the second year */
    snprintf(path[2], sizeof path[2], "%s/stopped", dir);
    CHECK(!weather_write(path[2], &s, stop_at, &last, NULL, &err) && err.code == DL_OK, "%s",
          err.message);
    int left = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        left += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d) closedir(d);
    CHECK(left == 3, "%d names are left", left);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/test_atmosphere.XXXXXX", command[64];
    if (!mkdtemp(dir)) return 1;
    test_harmonics();
    steady_flow(EARTH_ROTATION, 0);
    if (dl_test_fast()) { /* sanitizers see no other code in other flows, and days take long */
        steady_flow(0, M_PI / 2);
        steady_flow(0, 0.7);
        test_waves();
        test_conserved();
    }
    test_files(dir);
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return dl_test_end();
}
