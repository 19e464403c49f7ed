/* The input of a weather model from the shallow atmosphere: 20 channels on a regular grid, and
 * their statistics. docs/datasets/weather.md has the table. */
#ifndef DLDATA_WEATHER_H
#define DLDATA_WEATHER_H
#include "dldata/atmosphere.h"

enum { WEATHER_CHANNELS = 20 };
/* One line each: name, description, unit. */
extern const char *const weather_channel_names[WEATHER_CHANNELS];

/* Rows from 90 degrees north to 90 south, both included; the atmosphere's columns, from longitude
 * 0. */
typedef struct {
    atmosphere *air;
    sphere grid;
    double *fields;       /* a buffer: [WEATHER_FIELDS][rows][columns] */
    double *slope[2];     /* slope of the mountains, eastward and northward */
    float *land, *height; /* [rows][columns]: 0 to 1; m */
} weather_view;
/* Errors: DL_RESOURCE. */
bool weather_view_open(weather_view *w, atmosphere *a, int rows, dl_error *err);
void weather_view_close(weather_view *w);
/* The present state as out[20][rows][columns]. Errors: DL_RESOURCE. */
bool weather_look(weather_view *w, float *out, dl_error *err);

/* Mean and standard deviation of each channel, over all samples and points (Chan, Golub & LeVeque
 * 1983). */
typedef struct {
    double n, mean[WEATHER_CHANNELS], square[WEATHER_CHANNELS]; /* sum of squared deviations */
} weather_statistics;
void weather_count(weather_statistics *s, const float *sample, size_t points);
float weather_deviation(const weather_statistics *s, int channel);
#endif
