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

dlr_placement dlr_place(int rotation, int size) {
    const dlr_rotation *r = &dlr_rotations[rotation - 1];
    ptrdiff_t stride[3] = {(ptrdiff_t)size * size, size, 1};
    dlr_placement to = {0};
    for (int a = 0; a < 3; a++) {
        to.step[r->axis[a]] = r->flip[a] ? -stride[a] : stride[a];
        if (r->flip[a]) to.base += (size - 1) * stride[a];
    }
    return to;
}

static int min(int a, int b) { return a < b ? a : b; }

void dlr_place_planes(const dlr_placement *to, int size, int first, int planes, const float *const plane[],
                      ptrdiff_t row, float *out) {
    const ptrdiff_t d0 = to->step[0], d1 = to->step[1], d2 = to->step[2];
    out += to->base + first * d0;
    if (d2 == 1) { /* rows stay rows */
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
    } else if (d1 == 1 ||
               d1 == -1) { /* rows become columns: in tiles, so that both sides use whole cache lines */
        enum { TILE = 16 };
        for (int p = 0; p < planes; p++)
            for (int j0 = 0; j0 < size; j0 += TILE)
                for (int k = 0; k < size; k++) {
                    const float *restrict from = plane[p] + k;
                    float *restrict into = out + p * d0 + k * d2;
                    for (int j = j0, end = min(j0 + TILE, size); j < end; j++) into[j * d1] = from[j * row];
                }
    } else { /* planes become columns: all the planes at once, for the same reason */
        for (int j = 0; j < size; j++)
            for (int k = 0; k < size; k++) {
                float *restrict into = out + j * d1 + k * d2;
                for (int p = 0; p < planes; p++) into[p * d0] = plane[p][j * row + k];
            }
    }
}
