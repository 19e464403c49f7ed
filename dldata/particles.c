#include "dldata/particles.h"

#include "dldata/parallel.h"
#include "ir/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ONE = 1 << 14 };
#define UNIT 0x1p-42 /* weights are multiples of this: ONE^3 of them are a whole particle */

/* The weights of the two mesh points per axis, in units of 2^-14, and their indices. */
typedef struct {
    int at[3][2];
    int32_t weight[3][2];
} cloud;

static inline cloud cloud_of(const particle *p, int L) {
    cloud c;
    for (int d = 0; d < 3; d++) {
        int i = (int)p->x[d];
        c.at[d][0] = i;
        c.at[d][1] = i + 1 == L ? 0 : i + 1;
        c.weight[d][1] = (int32_t)((p->x[d] - (float)i) * ONE);
        c.weight[d][0] = ONE - c.weight[d][1];
    }
    return c;
}

bool particles_open(particles *ps, const mesh *m, dl_error *err) {
    size_t L = (size_t)m->size, n = L * L * L;
    *ps = (particles){.m = m, .n = n};
    ps->at = malloc(n * sizeof *ps->at);
    ps->spare = malloc(n * sizeof *ps->spare);
    ps->plane_start = malloc((L + 1) * sizeof *ps->plane_start);
    ps->count = malloc(L * sizeof *ps->count);
    if (!ps->at || !ps->spare || !ps->plane_start || !ps->count) {
        particles_close(ps);
        return dl_fail(err, DL_RESOURCE, "no memory for %zu particles; try a smaller --size", n);
    }
    particle *p = ps->at;
    for (size_t x = 0; x < L; x++) {
        ps->plane_start[x] = x * L * L;
        for (size_t y = 0; y < L; y++)
            for (size_t z = 0; z < L; z++) *p++ = (particle){.x = {(float)x, (float)y, (float)z}};
    }
    ps->plane_start[L] = n;
    return true;
}

void particles_close(particles *ps) {
    free(ps->at);
    free(ps->spare);
    free(ps->plane_start);
    free(ps->count);
    *ps = (particles){0};
}

/* A counting sort in pieces: each piece counts its particles by plane, the counts are summed in
 * (plane, piece) order, and each piece then knows the destinations of its particles. The sort is
 * stable, so the result does not depend on the number of pieces. */
static size_t piece_start(const particles *ps, int piece) {
    return ps->n / PARTICLES_PIECES * (size_t)piece;
}
static size_t piece_end(const particles *ps, int piece) {
    return piece + 1 == PARTICLES_PIECES ? ps->n : piece_start(ps, piece + 1);
}

static void count_piece(void *ctx, int piece) {
    particles *ps = ctx;
    for (size_t i = piece_start(ps, piece); i < piece_end(ps, piece); i++)
        ps->count[(int)ps->at[i].x[0]][piece]++;
}

static void move_piece(void *ctx, int piece) {
    particles *ps = ctx;
    for (size_t i = piece_start(ps, piece); i < piece_end(ps, piece); i++)
        ps->spare[ps->count[(int)ps->at[i].x[0]][piece]++] = ps->at[i];
}

void particles_sort(particles *ps) {
    int L = ps->m->size;
    memset(ps->count, 0, (size_t)L * sizeof *ps->count);
    parallel_for(ps->m->threads, PARTICLES_PIECES, count_piece, ps);
    size_t next = 0;
    for (int x = 0; x < L; x++) {
        ps->plane_start[x] = next;
        for (int piece = 0; piece < PARTICLES_PIECES; piece++) {
            size_t n = ps->count[x][piece];
            ps->count[x][piece] = next;
            next += n;
        }
    }
    parallel_for(ps->m->threads, PARTICLES_PIECES, move_piece, ps);
    particle *sorted = ps->spare;
    ps->spare = ps->at, ps->at = sorted;
}

/* One item writes each plane of a deposit, from the particles of the previous plane and of its own,
 * in order. */
typedef struct {
    const particles *ps;
    particles *momenta; /* the same particles, to be changed */
    float *field;
    const float *from;
    int axis;
    double factor;
} field_job;

/* Sums in units of 2^-42 of a particle: up to 2^22 particles per cell fit. */
static void add_masses(const particles *ps, int from, int side, uint64_t *sum) {
    size_t L = (size_t)ps->m->size;
    for (size_t i = ps->plane_start[from]; i < ps->plane_start[from + 1]; i++) {
        cloud c = cloud_of(&ps->at[i], (int)L);
        for (int b = 0; b < 2; b++) {
            uint64_t w = (uint64_t)c.weight[0][side] * (uint64_t)c.weight[1][b];
            uint64_t *row = sum + (size_t)c.at[1][b] * L;
            row[c.at[2][0]] += w * (uint64_t)c.weight[2][0];
            row[c.at[2][1]] += w * (uint64_t)c.weight[2][1];
        }
    }
}

static void deposit_mass_plane(void *ctx, int x) {
    field_job *j = ctx;
    const particles *ps = j->ps;
    size_t L = (size_t)ps->m->size, pitch = mesh_pitch(ps->m);
    float *plane = j->field + (size_t)x * mesh_plane(ps->m);
    uint64_t *sum = dl_calloc(L * L, sizeof *sum);
    add_masses(ps, x == 0 ? (int)L - 1 : x - 1, 1, sum);
    add_masses(ps, x, 0, sum);
    for (size_t y = 0; y < L; y++)
        for (size_t z = 0; z < L; z++)
            plane[y * pitch + z] = (float)((double)sum[y * L + z] * UNIT);
    free(sum);
}

void particles_deposit_mass(const particles *ps, float *field) {
    field_job job = {.ps = ps, .field = field};
    parallel_for(ps->m->threads, ps->m->size, deposit_mass_plane, &job);
}

static void add_momenta(const particles *ps, int from, int side, int axis, float *plane) {
    int L = ps->m->size;
    size_t pitch = mesh_pitch(ps->m);
    for (size_t i = ps->plane_start[from]; i < ps->plane_start[from + 1]; i++) {
        cloud c = cloud_of(&ps->at[i], L);
        double p = ps->at[i].p[axis] * UNIT;
        for (int b = 0; b < 2; b++) {
            double w = (double)c.weight[0][side] * c.weight[1][b] * p;
            float *row = plane + (size_t)c.at[1][b] * pitch;
            row[c.at[2][0]] += (float)(w * c.weight[2][0]);
            row[c.at[2][1]] += (float)(w * c.weight[2][1]);
        }
    }
}

static void deposit_momentum_plane(void *ctx, int x) {
    field_job *j = ctx;
    const particles *ps = j->ps;
    float *plane = j->field + (size_t)x * mesh_plane(ps->m);
    memset(plane, 0, mesh_plane(ps->m) * sizeof *plane);
    add_momenta(ps, x == 0 ? ps->m->size - 1 : x - 1, 1, j->axis, plane);
    add_momenta(ps, x, 0, j->axis, plane);
}

void particles_deposit_momentum(const particles *ps, int axis, float *field) {
    field_job job = {.ps = ps, .field = field, .axis = axis};
    parallel_for(ps->m->threads, ps->m->size, deposit_momentum_plane, &job);
}

static void kick_plane(void *ctx, int x) {
    field_job *j = ctx;
    particles *ps = j->momenta;
    int L = ps->m->size;
    size_t pitch = mesh_pitch(ps->m);
    const float *plane[2] = {j->from + (size_t)x * mesh_plane(ps->m),
                             j->from + (size_t)(x + 1 == L ? 0 : x + 1) * mesh_plane(ps->m)};
    float factor = (float)(j->factor * UNIT);
    for (size_t i = ps->plane_start[x]; i < ps->plane_start[x + 1]; i++) {
        cloud c = cloud_of(&ps->at[i], L);
        float sum = 0;
        for (int a = 0; a < 2; a++)
            for (int b = 0; b < 2; b++) {
                const float *row = plane[a] + (size_t)c.at[1][b] * pitch;
                float w = (float)(c.weight[0][a] * c.weight[1][b]); /* at most 2^28 */
                sum += w * ((float)c.weight[2][0] * row[c.at[2][0]] +
                            (float)c.weight[2][1] * row[c.at[2][1]]);
            }
        ps->at[i].p[j->axis] += factor * sum;
    }
}

void particles_kick(particles *ps, int axis, const float *field, double factor) {
    field_job job = {.ps = ps, .momenta = ps, .from = field, .axis = axis, .factor = factor};
    parallel_for(ps->m->threads, ps->m->size, kick_plane, &job);
}

typedef struct {
    particles *ps;
    float factor;
} drift_job;

static void drift_piece(void *ctx, int piece) {
    drift_job *j = ctx;
    particles *ps = j->ps;
    float L = (float)ps->m->size;
    for (size_t i = piece_start(ps, piece); i < piece_end(ps, piece); i++)
        for (int d = 0; d < 3; d++) {
            float x = ps->at[i].x[d] + j->factor * ps->at[i].p[d];
            x -= L * floorf(x / L);
            /* rounding may have moved x to L, which is 0 */
            ps->at[i].x[d] = x >= 0 && x < L ? x : 0;
        }
}

void particles_drift(particles *ps, double factor) {
    drift_job job = {ps, (float)factor};
    parallel_for(ps->m->threads, PARTICLES_PIECES, drift_piece, &job);
}
