#include "dldata/wind.h"

#include <stdlib.h>

bool atmosphere_set_wind(atmosphere *a, const double *east, const double *north, dl_error *err) {
    const sphere *g = &a->grid;
    size_t line = sphere_line(g), n = (size_t)g->rows * line;
    fftw_complex *room = malloc(2 * n * sizeof *room);
    if (!room) return dl_fail(err, DL_RESOURCE, "no memory for a field of %d rows", g->rows);
    for (int j = 0; j < g->rows; j++) {
        sphere_row_to_fourier(g, east + (size_t)j * (size_t)g->columns, room + (size_t)j * line);
        sphere_row_to_fourier(g, north + (size_t)j * (size_t)g->columns,
                              room + n + (size_t)j * line);
    }
    fftw_complex *vorticity = atmosphere_field(a, AIR_VORTICITY);
    fftw_complex *divergence = atmosphere_field(a, AIR_DIVERGENCE);
    for (int m = 0; m <= g->truncation; m++) {
        sphere_curl(g, m, room, room + n, line, vorticity);
        sphere_divergence(g, m, room, room + n, line, divergence);
    }
    for (size_t i = 0; i < a->modes; i++)
        for (int c = 0; c < 2; c++)
            vorticity[i][c] /= EARTH_RADIUS, divergence[i][c] /= EARTH_RADIUS;
    free(room);
    return true;
}
