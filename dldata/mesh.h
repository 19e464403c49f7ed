/* A periodic cube of L^3 cells and its Fourier transform, multithreaded, with the same bits for any
 * number of threads.
 *
 * A field is a float[L][L][L + 2]: the last two of each row are padding, so that the transform (L/2
 * + 1 complex numbers a row) is in place. Lengths are in cells, wave numbers in radians per cell.
 * FFTW's own threads would choose other plans for other thread counts, and so round differently:
 * here threads share one-thread plans of planes and of lines. */
#ifndef DLDATA_MESH_H
#define DLDATA_MESH_H
#include "ir/base/status.h"
#include <fftw3.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int size, threads; /* L, even, at least 4 */
    fftwf_plan plane_forward, plane_inverse, line_forward, line_inverse;
} mesh;

/* Two threads must not call it at a time (FFTW's planner). Errors: DL_RESOURCE. */
bool mesh_open(mesh *m, int size, int threads, dl_error *err);
void mesh_close(mesh *m);

static inline size_t mesh_pitch(const mesh *m) { return (size_t)m->size + 2; }
static inline size_t mesh_plane(const mesh *m) { return (size_t)m->size * mesh_pitch(m); }
static inline size_t mesh_floats(const mesh *m) { return (size_t)m->size * mesh_plane(m); }
/* A field with undefined values, which the caller frees by free(); NULL with DL_RESOURCE. */
float *mesh_field(const mesh *m, dl_error *err);

void mesh_forward(const mesh *m, float *field);
/* without division by L^3, which the functions below do */
void mesh_inverse(const mesh *m, float *field);

/* From the transform of a density contrast, the field psi[axis] (in cells) with div psi = -contrast
 * and no curl: for a linear field the displacement, for any field the gravitational acceleration.
 * `contrast` is kept. */
void mesh_displacement(const mesh *m, const float *contrast, int axis, float *psi);

/* Convolves with a Gaussian of rms `radius` cells, plus `wing` times a Gaussian four times as wide.
 * Both have weight 1. */
void mesh_smooth(const mesh *m, float *field, double radius, double wing);

/* Multiplies each mode of a transform by gain(ctx, k), k >= 0 in radians per cell. */
void mesh_shape(const mesh *m, float *transform, double (*gain)(const void *ctx, double k),
                const void *ctx);
#endif
