#include "dldata/reaction.h"

#include "dldata/hdf5_file.h"
#include "dldata/parallel.h"
#include "runtime/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 }; /* samples between two checks of the clock */

static size_t cells(const reaction_setup *s) { return (size_t)s->size * (size_t)s->size; }

/* ---- initial fields ---- */

/* to = from smoothed along rows, and transposed: two calls smooth both axes. */
static void smooth_rows(int size, const double *weight, int reach, const double *from, double *to) {
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++) {
            double sum = 0;
            for (int k = -reach; k <= reach; k++) {
                int at = (x + k) % size;
                sum += weight[k < 0 ? -k : k] * from[y * size + (at < 0 ? at + size : at)];
            }
            to[x * size + y] = sum;
        }
}

bool reaction_draw(const reaction_setup *s, int sample, float *x, dl_error *err) {
    int reach = (int)ceil(4 * s->smooth);
    if (2 * reach + 1 > s->size) reach = (s->size - 1) / 2;
    size_t n = cells(s);
    double *field = malloc((2 * n + (size_t)reach + 1) * sizeof *field), square = 0;
    if (!field) return dl_fail(err, DL_RESOURCE, "no memory for a field of %d^2 points", s->size);
    double *turned = field + n, *weight = turned + n;
    for (int k = 0; k <= reach; k++) {
        weight[k] = s->smooth > 0 ? exp(-k * k / (2 * s->smooth * s->smooth)) : 1;
        square += (k ? 2 : 1) * weight[k] * weight[k];
    }
    /* white noise keeps its variance of 1 */
    for (int k = 0; k <= reach; k++) weight[k] /= sqrt(square);
    for (int c = 0; c < s->channels; c++) {
        float *to = x + (size_t)c * n;
        dlr_rng_place place = {s->seed, DLR_STREAM_FIELDS, (uint32_t)c, (uint32_t)sample};
        dlr_normals(place, 0, n, 0, 1, to);
        for (size_t i = 0; i < n; i++) field[i] = (double)to[i];
        smooth_rows(s->size, weight, reach, field, turned);
        smooth_rows(s->size, weight, reach, turned, field);
        for (size_t i = 0; i < n; i++) to[i] = (float)(0.5 * erfc(-field[i] / M_SQRT2));
    }
    free(field);
    return true;
}

/* ---- evolution ---- */

static void slope(const reaction_setup *s, const double *u, double *out) {
    int L = s->size;
    size_t n = cells(s);
    for (int y = 0; y < L; y++) {
        int up = (y + L - 1) % L * L, down = (y + 1) % L * L, here = y * L;
        for (int x = 0; x < L; x++) {
            int left = (x + L - 1) % L, right = (x + 1) % L, at = here + x;
            double all = 0;
            for (int c = 0; c < s->channels; c++) all += u[(size_t)c * n + (size_t)at];
            for (int c = 0; c < s->channels; c++) {
                const double *f = u + (size_t)c * n;
                double laplace =
                    f[up + x] + f[down + x] + f[here + left] + f[here + right] - 4 * f[at];
                double crowd = f[at] + s->competition * (all - f[at]);
                out[(size_t)c * n + (size_t)at] = s->diffusivity * laplace + f[at] * (1 - crowd);
            }
        }
    }
}

bool reaction_evolve(const reaction_setup *s, const float *x, float *t, dl_error *err) {
    /* The Laplacian's eigenvalues go down to -8, the growth rate to the competition of all other
     * channels; the classical Runge-Kutta method is stable down to -2.7 per step. */
    double rate = 4 * s->diffusivity + s->competition * (s->channels - 1) + 4;
    int steps = (int)ceil(s->time * rate);
    size_t n = cells(s) * (size_t)s->channels;
    double dt = steps ? s->time / steps : 0, *u = malloc(4 * n * sizeof *u);
    if (!u) return dl_fail(err, DL_RESOURCE, "no memory for a field of %d^2 points", s->size);
    double *stage = u + n, *k = stage + n, *sum = k + n;
    static const double share[4] = {1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0},
                        ahead[4] = {0, 0.5, 0.5, 1};
    for (size_t i = 0; i < n; i++) u[i] = (double)x[i];
    for (int step = 0; step < steps; step++) {
        memcpy(sum, u, n * sizeof *sum);
        for (int r = 0; r < 4; r++) {
            for (size_t i = 0; i < n; i++) stage[i] = u[i] + (r ? ahead[r] * dt * k[i] : 0);
            slope(s, stage, k);
            for (size_t i = 0; i < n; i++) sum[i] += share[r] * dt * k[i];
        }
        memcpy(u, sum, n * sizeof *u);
    }
    for (size_t i = 0; i < n; i++) t[i] = (float)u[i];
    free(u);
    return true;
}

/* ---- the file ---- */

uint64_t reaction_file_bytes(const reaction_setup *s) {
    return 2 * (uint64_t)s->samples * (uint64_t)s->channels * cells(s) * sizeof(float) + 65536;
}

typedef struct {
    const reaction_setup *s;
    int first;
    float *x, *t;
    dl_error errors[CHUNK];
} job;

static void make_sample(void *ctx, int i) {
    job *j = ctx;
    size_t at = (size_t)(j->first + i) * (size_t)j->s->channels * cells(j->s);
    if (reaction_draw(j->s, j->first + i, j->x + at, &j->errors[i]))
        reaction_evolve(j->s, j->x + at, j->t + at, &j->errors[i]);
}

static bool make_all(job *j, reaction_watch *watch, void *ctx, dl_error *err) {
    const reaction_setup *s = j->s;
    if (watch && !watch(ctx, 0, s->samples)) return false;
    for (j->first = 0; j->first < s->samples; j->first += CHUNK) {
        int n = s->samples - j->first < CHUNK ? s->samples - j->first : CHUNK;
        parallel_for(s->threads, n, make_sample, j);
        for (int i = 0; i < n; i++)
            if (j->errors[i].code != DL_OK)
                return dl_fail(err, j->errors[i].code, "%s", j->errors[i].message);
        if (watch && !watch(ctx, j->first + n, s->samples)) return false;
    }
    return true;
}

bool reaction_write(const char *path, const reaction_setup *s, reaction_watch *watch, void *ctx,
                    const dl_console *console, dl_error *err) {
    size_t bytes = (size_t)s->samples * (size_t)s->channels * cells(s) * sizeof(float);
    job j = {.s = s, .x = malloc(bytes), .t = malloc(bytes)};
    bool ok = (j.x && j.t) || dl_fail(err, DL_RESOURCE, "no memory for %d samples of %d^2 points",
                                      s->samples, s->size);
    ok = ok && make_all(&j, watch, ctx, err);
    uint64_t n = (uint64_t)s->samples, c = (uint64_t)s->channels, L = (uint64_t)s->size;
    const hdf5_set sets[] = {{"x", 4, {n, c, L, L}, j.x, NULL, 0},
                             {"t", 4, {n, c, L, L}, j.t, NULL, 0}};
    const hdf5_attribute attributes[] = {
        {"generator", HDF5_TEXT, .text = REACTION_GENERATOR},
        {"version", HDF5_TEXT, .text = DL_VERSION},
        {"description", HDF5_TEXT,
         .text =
             "Random densities x, and t, what became of them by spreading, growth and competition; "
             "equations: docs/datasets/fields.md of dlc. Axes: sample, channel, y, x."},
        {"seed", HDF5_INTEGER, .integer = s->seed},
        {"smooth_cells", HDF5_REAL, .real = s->smooth},
        {"time", HDF5_REAL, .real = s->time},
        {"diffusivity", HDF5_REAL, .real = s->diffusivity},
        {"competition", HDF5_REAL, .real = s->competition},
    };
    hdf5_contents contents = {sets, 2, attributes, sizeof attributes / sizeof attributes[0]};
    ok = ok && hdf5_file_write(path, &contents, console, err);
    free(j.x);
    free(j.t);
    return ok;
}
