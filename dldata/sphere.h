/* Transforms between fields on the sphere and sums of spherical harmonics, multithreaded, with the
 * same bits for any number of threads.
 *
 * A field is f(lat, lon) = sum over m = -T..T, n = |m|..T of f_nm P_nm(sin lat) exp(i m lon), with
 * the integral of P_nm^2 over sin lat from -1 to 1 equal to 1. It is real, so only m >= 0 is
 * stored: complex numbers in the order m = 0: n = 0..T, m = 1: n = 1..T, ... On a grid it is
 * double[rows][columns], rows from north to south, columns from longitude 0 eastward.
 *
 * The intermediate form is Fourier coefficients of rows: fftw_complex[rows][fields][columns/2 + 1].
 * Functions on `m` process all rows of one wave number, so that threads can share wave numbers;
 * those on rows use FFTW. Wind is computed from vorticity and divergence, and their tendencies from
 * fluxes, by exact derivatives of P (Temperton 1991, Mon. Wea. Rev. 119; P by the usual three-term
 * recurrence). */
#ifndef DLDATA_SPHERE_H
#define DLDATA_SPHERE_H
#include "ir/base/status.h"
#include <fftw3.h>
#include <stddef.h>

typedef struct {
    int truncation, rows, columns; /* T < columns/2; columns even */
    int half;         /* rows from the pole to the equator; the southern rows mirror them */
    int pitch;        /* half, rounded up to whole vectors; the padding is zero */
    double *latitude; /* [rows], radians */
    double *weight; /* [pitch] for a Gaussian grid: weights of the integral over sin lat; otherwise
                       NULL */
    double *p, *p_east, *p_north;  /* [modes][pitch]: P, m P / cos lat, dP / dlat */
    fftw_plan to_grid, to_fourier; /* of one row */
} sphere;

/* Gaussian latitudes, on which products of two fields are analysed exactly when rows >= (3 T + 1) /
 * 2 and columns >= 3 T + 1; rows even. Errors: DL_RESOURCE. Two threads must not call it at a
 * time. */
bool sphere_gaussian(sphere *s, int truncation, int rows, int columns, dl_error *err);
/* Latitudes 90 - 180 j / (rows - 1) degrees, including the poles, for output only: fields on them
 * cannot be analysed. */
bool sphere_even(sphere *s, int truncation, int rows, int columns, dl_error *err);
void sphere_close(sphere *s);

/* The number of complex coefficients, the index of (m, n = m), and the number of Fourier
 * coefficients in a row. */
static inline size_t sphere_modes(int truncation) {
    return (size_t)(truncation + 1) * (size_t)(truncation + 2) / 2;
}
static inline size_t sphere_first(int truncation, int m) {
    return (size_t)m * (size_t)(2 * truncation + 3 - m) / 2;
}
static inline size_t sphere_line(const sphere *s) { return (size_t)s->columns / 2 + 1; }

/* All rows of wave number m: row j's coefficient goes to fourier[j * stride + m]. */
void sphere_scalar(const sphere *s, int m, fftw_complex *field, fftw_complex *fourier,
                   size_t stride);
/* The same of east = (1/cos lat) dchi/dlon - dpsi/dlat and north = (1/cos lat) dpsi/dlon +
 * dchi/dlat. */
void sphere_vector(const sphere *s, int m, fftw_complex *psi, fftw_complex *chi, fftw_complex *east,
                   fftw_complex *north, size_t stride);
/* The coefficients (m, n = m..T) of a field from its rows' Fourier coefficients; only where weight
 * is not NULL. */
void sphere_analyse(const sphere *s, int m, fftw_complex *fourier, size_t stride,
                    fftw_complex *field);
/* The same for (1/cos lat) (d east/dlon + d (north cos lat)/dlat): a divergence. */
void sphere_divergence(const sphere *s, int m, fftw_complex *east, fftw_complex *north,
                       size_t stride, fftw_complex *field);
/* The same for (1/cos lat) (d north/dlon - d (east cos lat)/dlat): a curl. */
void sphere_curl(const sphere *s, int m, fftw_complex *east, fftw_complex *north, size_t stride,
                 fftw_complex *field);

/* One row: Fourier coefficients (overwritten) to `columns` numbers, and back (divided by
 * columns). */
void sphere_row_to_grid(const sphere *s, fftw_complex *line, double *row);
void sphere_row_to_fourier(const sphere *s, const double *row, fftw_complex *line);

/* Whole fields, multithreaded: for transforms that are not done in each step. Errors:
 * DL_RESOURCE. */
bool sphere_to_grid(const sphere *s, int threads, fftw_complex *field, double *grid, dl_error *err);
bool sphere_vector_to_grid(const sphere *s, int threads, fftw_complex *psi, fftw_complex *chi,
                           double *east, double *north, dl_error *err);
bool sphere_from_grid(const sphere *s, int threads, const double *grid, fftw_complex *field,
                      dl_error *err);
#endif
