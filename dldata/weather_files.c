#include "dldata/weather_files.h"

#include "dldata/hdf5_file.h"
#include "dldata/npy_file.h"
#include "dldata/output_tree.h"
#include "dldata/weather.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_STEPS = 1 << 20 };

static uint64_t points(const weather_setup *s) { return (uint64_t)s->rows * (uint64_t)s->columns; }
static uint64_t year_bytes(const weather_setup *s) {
    return (uint64_t)s->samples * WEATHER_CHANNELS * points(s) * sizeof(float);
}

uint64_t weather_bytes(const weather_setup *s) {
    return (uint64_t)(s->train_years + s->valid_years) *
           (year_bytes(s) + 8 * points(s) + (1 << 17));
}

/* The memory of a year and its file's image; of three tables of harmonics for each of two grids; of
 * rows and their waves. */
uint64_t weather_memory(const weather_setup *s) {
    uint64_t T = (uint64_t)(s->columns - 1) / 3, rows = (3 * T + 4) / 2;
    return year_bytes(s) + 12 * T * T * ((uint64_t)s->rows + rows) +
           1000 * (points(s) + rows * 3 * T);
}

typedef struct {
    const weather_setup *s;
    atmosphere air;
    weather_view view;
    float *year, *latitude, *longitude;
    double dt;
    int steps; /* time steps of dt per sample */
    long long done, all;
    air_budget now;
    weather_watch *watch;
    void *ctx;
    weather_statistics statistics;
} run;

/* Advances from one sample to the next. */
static bool go_on(run *r, dl_error *err) {
    for (int k = 0; k < r->steps; k++) atmosphere_step(&r->air, r->dt);
    r->done++;
    return atmosphere_measure(&r->air, &r->now, err) &&
           (!r->watch || r->watch(r->ctx, r->done, r->all, &r->air, &r->now));
}

typedef struct {
    air_budget first, last;
    double kinetic, energy, enstrophy; /* means over the samples */
} year_budget;

static bool write_year(run *r, const char *path, double day, const year_budget *b,
                       const dl_console *console, dl_error *err) {
    const weather_setup *s = r->s;
    uint64_t rows = (uint64_t)s->rows, columns = (uint64_t)s->columns;
    const hdf5_set sets[] = {
        {"fields",
         4,
         {(uint64_t)s->samples, WEATHER_CHANNELS, rows, columns},
         r->year,
         weather_channel_names,
         WEATHER_CHANNELS},
        {"latitude", 1, {rows}, r->latitude, NULL, 0},
        {"longitude", 1, {columns}, r->longitude, NULL, 0},
        {"land", 2, {rows, columns}, r->view.land, NULL, 0},
        {"orography", 2, {rows, columns}, r->view.height, NULL, 0},
    };
    const hdf5_attribute attributes[] = {
        {"generator", HDF5_TEXT, .text = WEATHER_GENERATOR},
        {"version", HDF5_TEXT, .text = DL_VERSION},
        {"description", HDF5_TEXT,
         .text = "A shallow atmosphere on a rotating sphere with mountains, seasons and stirring; "
                 "equations and channels: docs/datasets/weather.md of dlc. Axes of fields: time, "
                 "channel, latitude (from the north pole), longitude (from 0)."},
        {"seed", HDF5_INTEGER, .integer = s->seed},
        {"hours_between_samples", HDF5_REAL, .real = s->hours},
        {"first_day", HDF5_REAL, .real = day},
        {"days_of_a_year", HDF5_REAL, .real = r->air.setup.year / EARTH_DAY},
        {"truncation", HDF5_INTEGER, .integer = (uint64_t)r->air.grid.truncation},
        {"step_s", HDF5_REAL, .real = r->dt},
        {"mass_kg_m2", HDF5_REAL, .real = b->last.mass},
        {"energy_first_J_m2", HDF5_REAL, .real = b->first.energy},
        {"energy_last_J_m2", HDF5_REAL, .real = b->last.energy},
        {"energy_mean_J_m2", HDF5_REAL, .real = b->energy},
        {"kinetic_energy_mean_J_m2", HDF5_REAL, .real = b->kinetic},
        {"potential_enstrophy_first", HDF5_REAL, .real = b->first.enstrophy},
        {"potential_enstrophy_last", HDF5_REAL, .real = b->last.enstrophy},
        {"potential_enstrophy_mean", HDF5_REAL, .real = b->enstrophy},
    };
    hdf5_contents contents = {sets, sizeof sets / sizeof sets[0], attributes,
                              sizeof attributes / sizeof attributes[0]};
    return hdf5_file_write(path, &contents, console, err);
}

static bool simulate_year(run *r, int number, dl_output_dir *d, const dl_console *console,
                          dl_error *err) {
    const weather_setup *s = r->s;
    bool train = number < s->train_years;
    double day = r->air.time / EARTH_DAY;
    year_budget b = {0};
    char path[PATH_MAX];
    for (int i = 0; i < s->samples; i++) {
        float *sample = r->year + (size_t)i * WEATHER_CHANNELS * points(s);
        if (!weather_look(&r->view, sample, err)) return false;
        if (train) weather_count(&r->statistics, sample, points(s));
        b.last = r->now;
        if (i == 0) b.first = r->now;
        b.kinetic += b.last.kinetic / s->samples;
        b.energy += b.last.energy / s->samples;
        b.enstrophy += b.last.enstrophy / s->samples;
        if (!go_on(r, err)) return false;
    }
    return output_tree_path(d, path, sizeof path, err, "%s/%04d.h5", train ? "train" : "valid",
                            s->first_year + number) &&
           write_year(r, path, day, &b, console, err);
}

static bool write_statistics(const run *r, dl_output_dir *d, dl_error *err) {
    const int dims[4] = {1, WEATHER_CHANNELS, 1, 1};
    float mean[WEATHER_CHANNELS], deviation[WEATHER_CHANNELS];
    char path[PATH_MAX];
    for (int c = 0; c < WEATHER_CHANNELS; c++) {
        mean[c] = (float)r->statistics.mean[c];
        deviation[c] = weather_deviation(&r->statistics, c);
    }
    return output_tree_path(d, path, sizeof path, err, "stats/global_means.npy") &&
           npy_file_write(path, mean, dims, 4, err) &&
           output_tree_path(d, path, sizeof path, err, "stats/global_stds.npy") &&
           npy_file_write(path, deviation, dims, 4, err);
}

static bool simulate(run *r, dl_output_dir *d, const dl_console *console, dl_error *err) {
    const weather_setup *s = r->s;
    int spin_up = (int)ceil(s->spin_up * 24 / s->hours);
    r->all = spin_up + (long long)(s->train_years + s->valid_years) * s->samples;
    r->air.time = -spin_up * s->hours * 3600; /* the first year begins at 0, in January */
    if (!atmosphere_measure(&r->air, &r->now, err) ||
        (r->watch && !r->watch(r->ctx, 0, r->all, &r->air, &r->now)))
        return false;
    for (int i = 0; i < spin_up; i++)
        if (!go_on(r, err)) return false;
    r->air.time = 0; /* removes rounding errors */
    for (int i = 0; i < s->train_years + s->valid_years; i++)
        if (!simulate_year(r, i, d, console, err)) return false;
    return write_statistics(r, d, err);
}

static bool open_run(run *r, dl_error *err) {
    const weather_setup *s = r->s;
    atmosphere_setup setup = {.columns = s->columns,
                              .threads = s->threads,
                              .seed = s->seed,
                              .rotation = EARTH_ROTATION,
                              .depth = 5000,
                              .year = s->samples * s->hours * 3600};
    if (!atmosphere_open(&r->air, &setup, err) ||
        !weather_view_open(&r->view, &r->air, s->rows, err))
        return false;
    double interval = s->hours * 3600, steps = ceil(interval / atmosphere_longest_step(&r->air));
    if (steps > MAX_STEPS)
        return dl_fail(err, DL_USAGE, "--hours %g needs too many steps a sample", s->hours);
    r->steps = (int)steps;
    r->dt = interval / steps;
    r->year = malloc(year_bytes(s));
    r->latitude = malloc((size_t)s->rows * sizeof(float));
    r->longitude = malloc((size_t)s->columns * sizeof(float));
    if (!r->year || !r->latitude || !r->longitude)
        return dl_fail(err, DL_RESOURCE,
                       "no memory for a year of %d samples; try fewer, or a smaller --size",
                       s->samples);
    for (int j = 0; j < s->rows; j++)
        r->latitude[j] = (float)(r->view.grid.latitude[j] * 180 / M_PI);
    for (int i = 0; i < s->columns; i++) r->longitude[i] = (float)(360.0 * i / s->columns);
    return true;
}

bool weather_write(const char *path, const weather_setup *s, weather_watch *watch, void *ctx,
                   const dl_console *console, dl_error *err) {
    run r = {.s = s, .watch = watch, .ctx = ctx};
    dl_output_dir *d = NULL;
    bool ok = open_run(&r, err) && (d = dl_output_dir_open(path, err)) != NULL &&
              simulate(&r, d, console, err);
    free(r.year);
    free(r.latitude);
    free(r.longitude);
    weather_view_close(&r.view);
    atmosphere_close(&r.air);
    if (ok) return dl_output_dir_commit(d, err);
    dl_output_dir_discard(d);
    return false;
}
