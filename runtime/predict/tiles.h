/* A long axis in pieces of the model's size: where they begin, and what of each output counts.
 *
 * Pieces overlap. Where the model's receptive field is known, the positions of a piece that would
 * see beyond its edges are discarded, and another piece has them: the result is what the whole axis
 * at once would give. Elsewhere pieces overlap by half and are blended, each with weights that fall
 * towards its inner edges. */
#ifndef DLR_TILES_H
#define DLR_TILES_H
#include "ir/base/arena.h"

#include <stdint.h>

/* One axis. Positions are the input's unless they are called the output's. */
typedef struct {
    int64_t whole, tile; /* sizes of the axis, and of the model's input along it; whole >= tile */
    int64_t num, den;    /* input positions an output position */
    bool exact;          /* discard what sees beyond a piece's edges, else blend */
    /* exact: pieces begin at multiples of step; output position o sees from o num / den + lo to o
     * num / den + hi */
    int64_t step;
    double lo, hi;
} dlr_axis;

typedef struct {
    int64_t start;    /* its first position */
    int64_t begin;    /* of its outputs in the whole output */
    int64_t from, to; /* its output positions from .. to - 1 count */
    const float
        *weight; /* of each of its output positions, such that those of all pieces add up to one */
} dlr_tile;

typedef struct {
    int64_t whole, tile; /* output positions */
    DL_ARRAY(dlr_tile) pieces;
} dlr_tiles;

/* In the arena. Errors (DL_INPUT): sizes that do not go together; a receptive field too large for
 * pieces of this size, saying both. */
bool dlr_tiles_make(dl_arena *arena, const dlr_axis *axis, dlr_tiles *tiles, dl_error *err);
#endif
