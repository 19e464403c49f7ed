#include "dldata/mesh.h"

#include "dldata/parallel.h"

#include <math.h>
#include <stdlib.h>

float *mesh_field(const mesh *m, dl_error *err) {
    size_t bytes = (mesh_floats(m) * sizeof(float) + 63) & ~(size_t)63;
    float *field = aligned_alloc(64, bytes);
    if (!field)
        dl_fail(err, DL_RESOURCE, "no memory for a field of %d^3 cells; try a smaller --size",
                m->size);
    return field;
}

bool mesh_open(mesh *m, int size, int threads, dl_error *err) {
    *m = (mesh){.size = size, .threads = threads};
    float *field = mesh_field(m, err);
    if (!field) return false;
    fftwf_complex *transform = (fftwf_complex *)field;
    /* FFTW_ESTIMATE does not measure and FFTW_UNALIGNED ignores addresses: the plan is always the
     * same. */
    unsigned flags = FFTW_ESTIMATE | FFTW_UNALIGNED;
    int half = size / 2 + 1, stride = size * half;
    m->plane_forward = fftwf_plan_dft_r2c_2d(size, size, field, transform, flags);
    m->plane_inverse = fftwf_plan_dft_c2r_2d(size, size, transform, field, flags);
    m->line_forward = fftwf_plan_many_dft(1, &size, half, transform, NULL, stride, 1, transform,
                                          NULL, stride, 1, FFTW_FORWARD, flags);
    m->line_inverse = fftwf_plan_many_dft(1, &size, half, transform, NULL, stride, 1, transform,
                                          NULL, stride, 1, FFTW_BACKWARD, flags);
    free(field);
    if (m->plane_forward && m->plane_inverse && m->line_forward && m->line_inverse) return true;
    mesh_close(m);
    return dl_fail(err, DL_RESOURCE, "FFTW has no plan for a mesh of %d^3 cells", size);
}

void mesh_close(mesh *m) {
    fftwf_plan *plans[] = {&m->plane_forward, &m->plane_inverse, &m->line_forward,
                           &m->line_inverse};
    for (int i = 0; i < 4; i++) {
        if (*plans[i]) fftwf_destroy_plan(*plans[i]);
        *plans[i] = NULL;
    }
}

typedef struct {
    const mesh *m;
    float *field;
} transform_job;

static void plane_forward(void *ctx, int x) {
    transform_job *j = ctx;
    float *plane = j->field + (size_t)x * mesh_plane(j->m);
    fftwf_execute_dft_r2c(j->m->plane_forward, plane, (fftwf_complex *)plane);
}

static void plane_inverse(void *ctx, int x) {
    transform_job *j = ctx;
    float *plane = j->field + (size_t)x * mesh_plane(j->m);
    fftwf_execute_dft_c2r(j->m->plane_inverse, (fftwf_complex *)plane, plane);
}

static void line_forward(void *ctx, int y) {
    transform_job *j = ctx;
    fftwf_complex *lines = (fftwf_complex *)(j->field + (size_t)y * mesh_pitch(j->m));
    fftwf_execute_dft(j->m->line_forward, lines, lines);
}

static void line_inverse(void *ctx, int y) {
    transform_job *j = ctx;
    fftwf_complex *lines = (fftwf_complex *)(j->field + (size_t)y * mesh_pitch(j->m));
    fftwf_execute_dft(j->m->line_inverse, lines, lines);
}

void mesh_forward(const mesh *m, float *field) {
    transform_job job = {m, field};
    parallel_for(m->threads, m->size, plane_forward, &job);
    parallel_for(m->threads, m->size, line_forward, &job);
}

void mesh_inverse(const mesh *m, float *field) {
    transform_job job = {m, field};
    parallel_for(m->threads, m->size, line_inverse, &job);
    parallel_for(m->threads, m->size, plane_inverse, &job);
}

/* Wave number of index i, in radians per cell. */
static double wave(const mesh *m, int i) {
    return 2 * M_PI / m->size * (i <= m->size / 2 ? i : i - m->size);
}

typedef struct {
    const mesh *m;
    const float *from;
    float *to;
    int axis;
    double (*gain)(const void *ctx, double k);
    const void *gain_ctx;
} mode_job;

/* psi_k = i k / k^2 contrast_k. The Nyquist wave along the axis has no sign, so its gradient is
 * omitted. */
static void displace_plane(void *ctx, int x) {
    mode_job *j = ctx;
    const mesh *m = j->m;
    int L = m->size, nyquist = L / 2;
    double norm = 1.0 / ((double)L * L * L), k[3] = {wave(m, x)};
    for (int y = 0; y < L; y++) {
        size_t row = (size_t)x * mesh_plane(m) + (size_t)y * mesh_pitch(m);
        const float *from = j->from + row;
        float *to = j->to + row;
        k[1] = wave(m, y);
        for (int z = 0; z <= nyquist; z++) {
            k[2] = wave(m, z);
            int index[3] = {x, y, z};
            double k2 = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
            float g = k2 > 0 && index[j->axis] != nyquist ? (float)(norm * k[j->axis] / k2) : 0;
            to[2 * z] = -g * from[2 * z + 1];
            to[2 * z + 1] = g * from[2 * z];
        }
    }
}

void mesh_displacement(const mesh *m, const float *contrast, int axis, float *psi) {
    mode_job job = {.m = m, .from = contrast, .to = psi, .axis = axis};
    parallel_for(m->threads, m->size, displace_plane, &job);
    mesh_inverse(m, psi);
}

static void shape_plane(void *ctx, int x) {
    mode_job *j = ctx;
    const mesh *m = j->m;
    int L = m->size;
    for (int y = 0; y < L; y++) {
        float *to = j->to + (size_t)x * mesh_plane(m) + (size_t)y * mesh_pitch(m);
        double kx = wave(m, x), ky = wave(m, y);
        for (int z = 0; z <= L / 2; z++) {
            double kz = wave(m, z), k = sqrt(kx * kx + ky * ky + kz * kz);
            float g = (float)j->gain(j->gain_ctx, k);
            to[2 * z] *= g;
            to[2 * z + 1] *= g;
        }
    }
}

void mesh_shape(const mesh *m, float *transform, double (*gain)(const void *ctx, double k),
                const void *ctx) {
    mode_job job = {.m = m, .to = transform, .gain = gain, .gain_ctx = ctx};
    parallel_for(m->threads, m->size, shape_plane, &job);
}

typedef struct {
    double radius, wing, norm;
} gaussian;

static double gaussian_gain(const void *ctx, double k) {
    const gaussian *g = ctx;
    double u = k * k * g->radius * g->radius / 2;
    return g->norm * (exp(-u) + (g->wing > 0 ? g->wing * exp(-16 * u) : 0));
}

void mesh_smooth(const mesh *m, float *field, double radius, double wing) {
    double L = m->size;
    gaussian g = {radius, wing, 1 / (L * L * L)};
    mesh_forward(m, field);
    mesh_shape(m, field, gaussian_gain, &g);
    mesh_inverse(m, field);
}
