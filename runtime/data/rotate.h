/* The 24 axis-aligned symmetries that augment 3-D crops. */
#ifndef DLR_ROTATE_H
#define DLR_ROTATE_H
#include <stddef.h>

enum { DLR_ROTATIONS = 24, DLR_NO_ROTATION = 24 };

/* Row r-1 is rotation r = 1..24. out[i0,i1,i2] = in[j] with j[axis[a]] = flip[a] ? size - 1 - i[a]
 * : i[a], which is numpy's in.transpose(axis) followed by [::-1] on each flipped axis.
 *
 * The table equals that of the trainer whose runs are to be reproduced (docs/compat), and is not
 * the rotation group of the cube: 5, 7, 9, 11, 13, 15, 19 and 23 are reflections, and as many
 * proper rotations are absent. The components of a velocity are not rotated with the volume: each
 * channel is transformed as a scalar field. Published losses depend on both. */
typedef struct {
    signed char axis[3], flip[3];
} dlr_rotation;
extern const dlr_rotation dlr_rotations[DLR_ROTATIONS];

/* Destinations of a crop's voxels: in[j0,j1,j2] goes to out[base + j0 step[0] + j1 step[1] + j2
 * step[2]]. */
typedef struct {
    ptrdiff_t base, step[3];
} dlr_voxel_map;
dlr_voxel_map dlr_voxel_map_of(int rotation, int size); /* rotation 1..24, size^3 voxels */

/* Copies `planes` planes of a crop, those at j0 = first, first + 1, ..., each of size x size voxels
 * with rows `row` floats apart, to their places in `out` (size^3, one channel). */
void dlr_voxel_map_copy(const dlr_voxel_map *to, int size, int first, int planes,
                        const float *const plane[], ptrdiff_t row, float *out);
#endif
