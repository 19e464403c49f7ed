#include "dldata/sphere.h"

#include "dldata/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* partial sums of a scalar product: their order is fixed, and compilers vectorize them */
enum { VECTOR = 4 };

/* ---- tables ---- */

/* ratio(n, m) of mu P_n = ratio(n + 1) P_(n+1) + ratio(n) P_(n-1). */
static double ratio(int n, int m) {
    return sqrt(((double)n * n - (double)m * m) / (4.0 * (double)n * n - 1));
}

/* P / cos lat for n = m..T + 1 of one row, m > 0; P itself where m = 0. */
static void recur(int truncation, int m, double mu, double cosine, double *at) {
    double start = sqrt(0.5);
    for (int k = 1; k <= m; k++) start *= sqrt((2.0 * k + 1) / (2.0 * k)) * (k < m ? cosine : 1);
    at[0] = start;
    for (int n = m + 1; n <= truncation + 1; n++) {
        double back = n - 2 >= m ? ratio(n - 1, m) * at[n - 2 - m] : 0;
        at[n - m] = (mu * at[n - 1 - m] - back) / ratio(n, m);
    }
}

/* dP/dlat. For m > 0: cos lat dP/dlat = (n + 1) ratio(n) P_(n-1) - n ratio(n + 1) P_(n+1). For m =
 * 0: sqrt(n (n + 1)) P_n1, which is valid at the poles, too. */
static void fill_row(sphere *s, int j, double *over, double *first) {
    int T = s->truncation;
    double lat = s->latitude[j], mu = sin(lat), cosine = cos(lat);
    if (s->rows % 2 && j == s->half - 1) mu = 0, cosine = 1;
    if (j == 0 && lat == M_PI / 2) cosine = 0;
    recur(T, 1, mu, cosine, first);
    for (int m = 0; m <= T; m++) {
        recur(T, m, mu, cosine, over);
        for (int n = m; n <= T; n++) {
            size_t at = (sphere_first(T, m) + (size_t)(n - m)) * (size_t)s->pitch + (size_t)j;
            double p = over[n - m], below = n > m ? over[n - 1 - m] : 0;
            if (m == 0) {
                s->p[at] = p;
                s->p_north[at] = n > 0 ? sqrt((double)n * (n + 1)) * first[n - 1] * cosine : 0;
            } else {
                s->p[at] = p * cosine;
                s->p_east[at] = m * p;
                s->p_north[at] =
                    (n + 1) * ratio(n, m) * below - n * ratio(n + 1, m) * over[n + 1 - m];
            }
        }
    }
}

static bool open_tables(sphere *s, int truncation, int rows, int columns, dl_error *err) {
    *s = (sphere){
        .truncation = truncation, .rows = rows, .columns = columns, .half = (rows + 1) / 2};
    s->pitch = (s->half + VECTOR - 1) / VECTOR * VECTOR;
    size_t cells = sphere_modes(truncation) * (size_t)s->pitch;
    s->latitude = calloc((size_t)rows, sizeof(double));
    s->p = calloc(cells, sizeof(double));
    s->p_east = calloc(cells, sizeof(double));
    s->p_north = calloc(cells, sizeof(double));
    double *row = calloc((size_t)columns, sizeof(double));
    fftw_complex *line = calloc(sphere_line(s), sizeof *line);
    if (s->latitude && s->p && s->p_east && s->p_north && row && line) {
        /* FFTW_ESTIMATE does not measure and FFTW_UNALIGNED ignores addresses: the plan is always
         * the same. */
        s->to_grid = fftw_plan_dft_c2r_1d(columns, line, row, FFTW_ESTIMATE | FFTW_UNALIGNED);
        s->to_fourier = fftw_plan_dft_r2c_1d(columns, row, line, FFTW_ESTIMATE | FFTW_UNALIGNED);
    }
    free(row);
    free(line);
    if (s->to_grid && s->to_fourier) return true;
    sphere_close(s);
    return dl_fail(err, DL_RESOURCE,
                   "no memory for spherical harmonics up to %d; try a smaller --size", truncation);
}

static bool fill_tables(sphere *s, dl_error *err) {
    double *room = malloc(2 * (size_t)(s->truncation + 2) * sizeof *room);
    if (!room) {
        sphere_close(s);
        return dl_fail(err, DL_RESOURCE, "no memory for spherical harmonics");
    }
    for (int j = 0; j < s->half; j++) fill_row(s, j, room, room + s->truncation + 2);
    free(room);
    return true;
}

/* Zeros of the Legendre polynomial of degree n by Newton's method, and weights 2 / ((1 - x^2)
 * P'^2). */
static void gauss(int n, int j, double *x, double *weight) {
    double at = cos(M_PI * (j + 0.75) / (n + 0.5)), slope = 1;
    for (int i = 0; i < 100; i++) {
        double p0 = 1, p1 = at;
        for (int k = 2; k <= n; k++) {
            double p2 = ((2.0 * k - 1) * at * p1 - (k - 1) * p0) / k;
            p0 = p1, p1 = p2;
        }
        slope = n * (at * p1 - p0) / (at * at - 1);
        double step = p1 / slope;
        at -= step;
        if (fabs(step) < 1e-15) break;
    }
    *x = at;
    *weight = 2 / ((1 - at * at) * slope * slope);
}

bool sphere_gaussian(sphere *s, int truncation, int rows, int columns, dl_error *err) {
    if (!open_tables(s, truncation, rows, columns, err)) return false;
    s->weight = calloc((size_t)s->pitch, sizeof(double));
    if (!s->weight) {
        sphere_close(s);
        return dl_fail(err, DL_RESOURCE, "no memory for spherical harmonics");
    }
    for (int j = 0; j < s->half; j++) {
        double mu;
        gauss(rows, j, &mu, &s->weight[j]);
        s->latitude[j] = asin(mu);
        s->latitude[rows - 1 - j] = -s->latitude[j];
    }
    return fill_tables(s, err);
}

bool sphere_even(sphere *s, int truncation, int rows, int columns, dl_error *err) {
    if (!open_tables(s, truncation, rows, columns, err)) return false;
    for (int j = 0; j < s->half; j++) {
        s->latitude[j] = M_PI / 2 - M_PI * j / (rows - 1);
        s->latitude[rows - 1 - j] = -s->latitude[j];
    }
    return fill_tables(s, err);
}

void sphere_close(sphere *s) {
    if (s->to_grid) fftw_destroy_plan(s->to_grid);
    if (s->to_fourier) fftw_destroy_plan(s->to_fourier);
    free(s->latitude);
    free(s->weight);
    free(s->p);
    free(s->p_east);
    free(s->p_north);
    *s = (sphere){0};
}

/* ---- coefficients to rows and back, one wave number at a time ----
 *
 * P_nm(-mu) = (-1)^(n-m) P_nm(mu), and dP/dlat has the other sign: sums of even and of odd n - m
 * are separate, and give the northern and the southern row together. */

enum { PIECE = 32 }; /* rows whose sums stay in the L1 cache */

typedef struct {
    double even[2][PIECE], odd[2][PIECE]; /* real, imaginary */
} piece;

/* sums += c times[...] for one mode, for the existing rows of [j, j + PIECE). */
static void add(double sums[restrict 2][PIECE], double re, double im, const double *restrict times,
                int n) {
    for (int k = 0; k < n; k++) {
        sums[0][k] += re * times[k];
        sums[1][k] += im * times[k];
    }
}

static void put(const sphere *s, int j, int n, const piece *p, fftw_complex *to, size_t stride) {
    for (int k = 0; k < n && j + k < s->half; k++) {
        double *north = to[(size_t)(j + k) * stride],
               *south = to[(size_t)(s->rows - 1 - j - k) * stride];
        for (int i = 0; i < 2; i++) {
            south[i] = p->even[i][k] - p->odd[i][k];
            north[i] = p->even[i][k] + p->odd[i][k]; /* on the equator odd is zero */
        }
    }
}

void sphere_scalar(const sphere *s, int m, fftw_complex *field, fftw_complex *fourier,
                   size_t stride) {
    size_t first = sphere_first(s->truncation, m), pitch = (size_t)s->pitch;
    for (int j = 0; j < s->pitch; j += PIECE) {
        int n = s->pitch - j < PIECE ? s->pitch - j : PIECE;
        piece sum = {0};
        for (int i = 0; i <= s->truncation - m; i++) {
            const double *c = field[first + (size_t)i];
            add(i % 2 ? sum.odd : sum.even, c[0], c[1], s->p + (first + (size_t)i) * pitch + j, n);
        }
        put(s, j, n, &sum, fourier + m, stride);
    }
}

void sphere_vector(const sphere *s, int m, fftw_complex *psi, fftw_complex *chi, fftw_complex *east,
                   fftw_complex *north, size_t stride) {
    size_t first = sphere_first(s->truncation, m), pitch = (size_t)s->pitch;
    for (int j = 0; j < s->pitch; j += PIECE) {
        int n = s->pitch - j < PIECE ? s->pitch - j : PIECE;
        piece u = {0}, v = {0};
        for (int i = 0; i <= s->truncation - m; i++) {
            const double *a = psi[first + (size_t)i], *b = chi[first + (size_t)i];
            const double *p_east = s->p_east + (first + (size_t)i) * pitch + j;
            const double *p_north = s->p_north + (first + (size_t)i) * pitch + j;
            add(i % 2 ? u.odd : u.even, -b[1], b[0], p_east, n);
            add(i % 2 ? u.even : u.odd, -a[0], -a[1], p_north, n);
            add(i % 2 ? v.odd : v.even, -a[1], a[0], p_east, n);
            add(i % 2 ? v.even : v.odd, b[0], b[1], p_north, n);
        }
        put(s, j, n, &u, east + m, stride);
        put(s, j, n, &v, north + m, stride);
    }
}

/* Rows of wave number m, weighted, as their even and their odd part: [2][pitch], real then
 * imaginary. */
static void fold(const sphere *s, fftw_complex *fourier, size_t stride, int m, double *even,
                 double *odd) {
    for (int j = 0; j < s->half; j++) {
        const double *north = fourier[(size_t)j * stride + (size_t)m];
        const double *south = fourier[(size_t)(s->rows - 1 - j) * stride + (size_t)m];
        for (int i = 0; i < 2; i++) {
            even[i * s->pitch + j] = s->weight[j] * (north[i] + south[i]);
            odd[i * s->pitch + j] = s->weight[j] * (north[i] - south[i]);
        }
    }
    for (int i = 0; i < 2; i++)
        for (int j = s->half; j < s->pitch; j++) even[i * s->pitch + j] = odd[i * s->pitch + j] = 0;
}

/* The products of both parts of x with a mode's row, in a fixed order. */
static void project(const sphere *s, const double *restrict x, const double *restrict mode,
                    double *restrict out) {
    double re[VECTOR] = {0}, im[VECTOR] = {0};
    for (int j = 0; j < s->pitch; j += VECTOR)
        for (int k = 0; k < VECTOR; k++) {
            re[k] += x[j + k] * mode[j + k];
            im[k] += x[s->pitch + j + k] * mode[j + k];
        }
    out[0] = (re[0] + re[1]) + (re[2] + re[3]);
    out[1] = (im[0] + im[1]) + (im[2] + im[3]);
}

void sphere_analyse(const sphere *s, int m, fftw_complex *fourier, size_t stride,
                    fftw_complex *field) {
    size_t first = sphere_first(s->truncation, m), pitch = (size_t)s->pitch;
    double even[2 * pitch], odd[2 * pitch];
    fold(s, fourier, stride, m, even, odd);
    for (int i = 0; i <= s->truncation - m; i++)
        project(s, i % 2 ? odd : even, s->p + (first + (size_t)i) * pitch,
                field[first + (size_t)i]);
}

/* (1/cos lat) (d east/dlon + sign d (north cos lat)/dlat). */
static void differentiate(const sphere *s, int m, fftw_complex *east, fftw_complex *north,
                          double sign, size_t stride, fftw_complex *field) {
    size_t first = sphere_first(s->truncation, m), pitch = (size_t)s->pitch;
    double even[2][2 * pitch], odd[2][2 * pitch];
    fold(s, east, stride, m, even[0], odd[0]);
    fold(s, north, stride, m, even[1], odd[1]);
    for (int i = 0; i <= s->truncation - m; i++) { /* by parts: the derivative is applied to P */
        size_t at = first + (size_t)i;
        double x[2], y[2];
        project(s, i % 2 ? odd[0] : even[0], s->p_east + at * pitch, x);
        project(s, i % 2 ? even[1] : odd[1], s->p_north + at * pitch, y);
        field[at][0] = -x[1] - sign * y[0];
        field[at][1] = x[0] - sign * y[1];
    }
}

void sphere_divergence(const sphere *s, int m, fftw_complex *east, fftw_complex *north,
                       size_t stride, fftw_complex *field) {
    differentiate(s, m, east, north, 1, stride, field);
}

void sphere_curl(const sphere *s, int m, fftw_complex *east, fftw_complex *north, size_t stride,
                 fftw_complex *field) {
    differentiate(s, m, north, east, -1, stride, field);
}

/* ---- rows, and whole fields ---- */

void sphere_row_to_grid(const sphere *s, fftw_complex *line, double *row) {
    memset(line[s->truncation + 1], 0, (sphere_line(s) - (size_t)s->truncation - 1) * sizeof *line);
    fftw_execute_dft_c2r(s->to_grid, line, row);
}

void sphere_row_to_fourier(const sphere *s, const double *row, fftw_complex *line) {
    /* keeps a separate copy of the row */
    fftw_execute_dft_r2c(s->to_fourier, (double *)(size_t)row, line);
    for (int m = 0; m <= s->truncation; m++)
        for (int i = 0; i < 2; i++) line[m][i] /= s->columns;
}

typedef struct {
    const sphere *s;
    fftw_complex *from, *chi;
    fftw_complex *fourier, *north, *field;
    double *grid;
    const double *values;
} whole;

static void scalar_wave(void *ctx, int m) {
    whole *w = ctx;
    sphere_scalar(w->s, m, w->from, w->fourier, sphere_line(w->s));
}

static void vector_wave(void *ctx, int m) {
    whole *w = ctx;
    sphere_vector(w->s, m, w->from, w->chi, w->fourier, w->north, sphere_line(w->s));
}

static void grid_row(void *ctx, int j) {
    whole *w = ctx;
    sphere_row_to_grid(w->s, w->fourier + (size_t)j * sphere_line(w->s),
                       w->grid + (size_t)j * (size_t)w->s->columns);
}

static void fourier_row(void *ctx, int j) {
    whole *w = ctx;
    sphere_row_to_fourier(w->s, w->values + (size_t)j * (size_t)w->s->columns,
                          w->fourier + (size_t)j * sphere_line(w->s));
}

static void analyse_wave(void *ctx, int m) {
    whole *w = ctx;
    sphere_analyse(w->s, m, w->fourier, sphere_line(w->s), w->field);
}

static fftw_complex *lines(const sphere *s, dl_error *err) {
    fftw_complex *room = malloc((size_t)s->rows * sphere_line(s) * sizeof *room);
    if (!room) dl_fail(err, DL_RESOURCE, "no memory for a field of %d rows", s->rows);
    return room;
}

bool sphere_to_grid(const sphere *s, int threads, fftw_complex *field, double *grid,
                    dl_error *err) {
    whole w = {.s = s, .from = field, .fourier = lines(s, err), .grid = grid};
    if (!w.fourier) return false;
    parallel_for(threads, s->truncation + 1, scalar_wave, &w);
    parallel_for(threads, s->rows, grid_row, &w);
    free(w.fourier);
    return true;
}

bool sphere_vector_to_grid(const sphere *s, int threads, fftw_complex *psi, fftw_complex *chi,
                           double *east, double *north, dl_error *err) {
    whole w = {.s = s, .from = psi, .chi = chi, .fourier = lines(s, err), .north = lines(s, err)};
    bool ok = w.fourier && w.north;
    if (ok) {
        parallel_for(threads, s->truncation + 1, vector_wave, &w);
        w.grid = east;
        parallel_for(threads, s->rows, grid_row, &w);
        fftw_complex *swap = w.fourier;
        w.fourier = w.north, w.north = swap, w.grid = north;
        parallel_for(threads, s->rows, grid_row, &w);
    }
    free(w.fourier);
    free(w.north);
    return ok;
}

bool sphere_from_grid(const sphere *s, int threads, const double *grid, fftw_complex *field,
                      dl_error *err) {
    whole w = {.s = s, .fourier = lines(s, err), .values = grid, .field = field};
    if (!w.fourier) return false;
    parallel_for(threads, s->rows, fourier_row, &w);
    parallel_for(threads, s->truncation + 1, analyse_wave, &w);
    free(w.fourier);
    return true;
}
