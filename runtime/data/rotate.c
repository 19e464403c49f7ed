#include "runtime/data/rotate.h"

#include <string.h>

const dlr_rotation dlr_rotations[DLR_ROTATIONS] = {
    {{0, 1, 2}, {1, 1, 0}}, {{0, 1, 2}, {1, 0, 1}}, {{0, 1, 2}, {0, 1, 1}}, /*  1- 3 */
    {{1, 0, 2}, {1, 0, 0}}, {{1, 0, 2}, {1, 0, 1}}, {{1, 0, 2}, {0, 1, 0}},
    {{1, 0, 2}, {0, 1, 1}}, /*  4- 7 */
    {{2, 1, 0}, {1, 0, 0}}, {{2, 1, 0}, {1, 1, 0}}, {{2, 1, 0}, {0, 0, 1}},
    {{2, 1, 0}, {0, 1, 1}}, /*  8-11 */
    {{0, 2, 1}, {0, 1, 0}}, {{0, 2, 1}, {1, 1, 0}}, {{0, 2, 1}, {0, 0, 1}},
    {{0, 2, 1}, {1, 0, 1}}, /* 12-15 */
    {{1, 2, 0}, {1, 1, 0}}, {{1, 2, 0}, {0, 1, 1}}, {{1, 2, 0}, {1, 0, 1}},
    {{1, 2, 0}, {1, 1, 1}}, /* 16-19 */
    {{2, 0, 1}, {1, 1, 0}}, {{2, 0, 1}, {1, 0, 1}}, {{2, 0, 1}, {0, 1, 1}},
    {{2, 0, 1}, {1, 1, 1}}, /* 20-23 */
    {{0, 1, 2}, {0, 0, 0}}, /* 24    */
};

dlr_voxel_map dlr_voxel_map_of(int rotation, int size) {
    const dlr_rotation *r = &dlr_rotations[rotation - 1];
    ptrdiff_t stride[3] = {(ptrdiff_t)size * size, size, 1};
    dlr_voxel_map to = {0};
    for (int a = 0; a < 3; a++) {
        to.step[r->axis[a]] = r->flip[a] ? -stride[a] : stride[a];
        if (r->flip[a]) to.base += (size - 1) * stride[a];
    }
    return to;
}

static int min(int a, int b) { return a < b ? a : b; }

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
typedef int pick __attribute__((vector_size(16)));
#ifdef __clang__
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (pick){i, j, k, l})
#endif

/* Writes 4 rows at `at` as 4 columns: out[k step + r] = row[r][at + k]. */
static inline void transpose_4x4(const float *const row[], int at, float *out, ptrdiff_t step) {
    quad a = *(const quad *)(row[0] + at), b = *(const quad *)(row[1] + at);
    quad c = *(const quad *)(row[2] + at), d = *(const quad *)(row[3] + at);
    quad ab01 = SHUFFLE(a, b, 0, 4, 1, 5), ab23 = SHUFFLE(a, b, 2, 6, 3, 7);
    quad cd01 = SHUFFLE(c, d, 0, 4, 1, 5), cd23 = SHUFFLE(c, d, 2, 6, 3, 7);
    *(quad *)(out + 0 * step) = SHUFFLE(ab01, cd01, 0, 1, 4, 5);
    *(quad *)(out + 1 * step) = SHUFFLE(ab01, cd01, 2, 3, 6, 7);
    *(quad *)(out + 2 * step) = SHUFFLE(ab23, cd23, 0, 1, 4, 5);
    *(quad *)(out + 3 * step) = SHUFFLE(ab23, cd23, 2, 3, 6, 7);
}

/* Writes columns k0 <= k < k1 of some rows as rows: out[k step + r] = row[r][k]. Processing a crop
 * in TILE columns of TILE rows fills whole cache lines, and touches few of the pages that are
 * `step` apart. */
enum { TILE = 16 };
static void transpose(const float *const row[], int rows, int k0, int k1, float *out,
                      ptrdiff_t step) {
    int whole = rows & ~3, k = k0;
    for (; k + 4 <= k1; k += 4)
        for (int r = 0; r < whole; r += 4) transpose_4x4(row + r, k, out + k * step + r, step);
    for (int i = k0; i < k1; i++)
        for (int r = i < k ? whole : 0; r < rows; r++) out[i * step + r] = row[r][i];
}

void dlr_voxel_map_copy(const dlr_voxel_map *to, int size, int first, int planes,
                        const float *const plane[], ptrdiff_t row, float *out) {
    const ptrdiff_t d0 = to->step[0], d1 = to->step[1], d2 = to->step[2];
    const float *line[TILE];
    out += to->base + first * d0;
    if (d2 == 1) { /* rows remain rows */
        for (int p = 0; p < planes; p++)
            for (int j = 0; j < size; j++)
                memcpy(out + p * d0 + j * d1, plane[p] + j * row, (size_t)size * sizeof *out);
    } else if (d2 == -1) {
        for (int p = 0; p < planes; p++)
            for (int j = 0; j < size; j++) {
                const float *restrict from = plane[p] + j * row;
                float *restrict into = out + p * d0 + j * d1 - (size - 1);
                for (int k = 0; k < size; k++) into[k] = from[size - 1 - k];
            }
    } else if (d1 == 1 || d1 == -1) { /* the rows of a plane are adjacent */
        for (int k = 0; k < size; k += TILE)
            for (int p = 0; p < planes; p++)
                for (int j = 0, n; j < size; j += n) {
                    n = min(TILE, size - j);
                    for (int r = 0; r < n; r++)
                        line[r] = plane[p] + (d1 > 0 ? j + r : j + n - 1 - r) * row;
                    transpose(line, n, k, min(k + TILE, size),
                              out + p * d0 + (d1 > 0 ? j : -(j + n - 1)), d2);
                }
    } else { /* the rows of all planes are adjacent */
        for (int k = 0; k < size; k += TILE)
            for (int j = 0; j < size; j++)
                for (int p = 0, n; p < planes; p += n) {
                    n = min(TILE, planes - p);
                    for (int r = 0; r < n; r++)
                        line[r] = plane[d0 > 0 ? p + r : p + n - 1 - r] + j * row;
                    transpose(line, n, k, min(k + TILE, size),
                              out + j * d1 + (d0 > 0 ? p : -(p + n - 1)), d2);
                }
    }
}
