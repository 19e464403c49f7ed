/* Splits a long axis into tiles of the model's size: where each begins, and which of its output
 * positions are used.
 *
 * Tiles overlap. Where the model's receptive field is known, the output positions that would depend
 * on values outside the tile are discarded and come from another tile: the result equals that of
 * the whole axis at once. Otherwise tiles overlap by half and are blended with weights that
 * decrease towards their inner edges. */
#ifndef DLR_TILES_H
#define DLR_TILES_H
#include "ir/base/arena.h"

#include <stdint.h>

/* One axis. Positions are the input's unless they are called the output's. */
typedef struct {
    int64_t whole, tile; /* sizes of the axis, and of the model's input along it; whole >= tile */
    int64_t num, den;    /* input positions per output position: num / den */
    bool exact;          /* discard positions that depend on values outside the tile; else blend */
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

/* Computes the tiles, in the arena. Errors (DL_INPUT): sizes that contradict each other; a
 * receptive field that is too large for tiles of this size (the message has both). */
bool dlr_tiles_make(dl_arena *arena, const dlr_axis *axis, dlr_tiles *tiles, dl_error *err);
#endif
