/* Writes a simulated climate in the layout of the yearly HDF5 loader: DIR/train/YYYY.h5 and
 * DIR/valid/YYYY.h5, each with `fields` f32 [time, 20, lat, lon], and DIR/stats/global_means.npy
 * and global_stds.npy [1, 20, 1, 1]. */
#ifndef DLDATA_WEATHER_FILES_H
#define DLDATA_WEATHER_FILES_H
#include "dldata/atmosphere.h"
#include "ir/base/console.h"

#define WEATHER_GENERATOR "dldata weather"

typedef struct {
    int rows, columns, threads;
    uint64_t seed;
    int first_year, train_years, valid_years;
    int samples;    /* samples per year */
    double hours;   /* between two samples */
    double spin_up; /* days before the first year */
} weather_setup;

/* Bytes on disk, and of memory, slightly overestimated. */
uint64_t weather_bytes(const weather_setup *s);
uint64_t weather_memory(const weather_setup *s);

/* Called after each sample and each equal period of the spin-up; returns false to stop. */
typedef bool weather_watch(void *ctx, long long step, long long steps, const atmosphere *a,
                           const air_budget *b);
/* Simulates and writes; the directory appears whole or not at all. `console` (may be NULL) ends a
 * write when it becomes non-zero; err then stays DL_OK, as when `watch` stopped it. Errors:
 * DL_USAGE, DL_IO, DL_RESOURCE, DL_NUMERIC. */
bool weather_write(const char *path, const weather_setup *s, weather_watch *watch, void *ctx,
                   const dl_console *console, dl_error *err);
#endif
