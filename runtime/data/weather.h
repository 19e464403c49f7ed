/* The yearly HDF5 loader: fields of the atmosphere, one HDF5 file per year, `fields` [time,
 * channel, lat, lon]. A sample is the field of one time as the model's input [C,H,W] and the field
 * `dt` steps later as its target [C,H,W]. Both are cropped from the origin and normalized by a mean
 * and a standard deviation per channel.
 *
 * The files are those of a folder that end in .h5, in the order of their names; dlr_weather_pair
 * pairs time `local` of a year of n steps. Training shuffles the samples in each epoch, drawn from
 * (seed, epoch); validation keeps the files' order. */
#ifndef DLR_WEATHER_H
#define DLR_WEATHER_H
#include "runtime/data/dataset.h"

typedef struct {
    const char *folder;       /* train_data_path or valid_data_path */
    const char *means, *stds; /* .npy, [1,C,1,1] */
    int64_t dt;               /* time steps between input and target, at least 1 */
    int64_t limit;            /* use only the first so many samples; 0: all */
} dlr_weather_options;

extern const dlr_loader dlr_weather_loader;

/* The input time of sample `local` of a year of n steps: local % (n - dt), and dt later where that
 * is below dt. The target is dt after it. n is at least 3 dt. */
int64_t dlr_weather_pair(int64_t local, int64_t n, int64_t dt);
#endif
