/* Converts between a tensor's row-major order and its stored layout, in tiles that fit a core's
 * cache.
 *
 * A tile is `rows` rows of `outer * inner` elements. In row-major order a row is contiguous, and
 * rows are `row_step` apart. In memory elements of different rows are contiguous: element (row, k,
 * t) is at stored + k * outer_step + t * inner_step + row. (ROW: one row. CL: rows are channels.
 * PANEL: rows are lanes, k channels, t taps.) */
#ifndef DLR_LAYOUT_H
#define DLR_LAYOUT_H
#include "ir/type.h"

enum { DLR_TILE = 16384 /* elements at most */ };

typedef struct {
    int64_t first, row_step; /* row-major, elements */
    int64_t rows, outer, inner;
    int64_t stored, outer_step, inner_step; /* in memory, elements */
    int64_t padding;                        /* PANEL: lanes after the last row, kept zero */
} dlr_tile;

/* Whether the stored order is the row-major one. */
bool dlr_layout_is_rows(const dl_type *t);
/* A tensor's tiles cover each element once, and the padding. 0 for a tensor without elements. */
int64_t dlr_layout_tiles(const dl_type *t);
dlr_tile dlr_layout_tile(const dl_type *t, int64_t i);
/* Tiles begin .. end - 1 together hold the elements first .. first + n - 1, counted row-major; some
 * of these tiles may hold none of them. n is at least 1. */
void dlr_layout_span(const dl_type *t, int64_t first, int64_t n, int64_t *begin, int64_t *end);
/* Moves a tile between `rows` (the first row's first element, rows `row_step` elements apart) and
 * the tensor; elements of 1, 2, 4 or 8 bytes. Storing also writes the padding. */
void dlr_tile_store(const dlr_tile *tile, int bytes, const void *rows, int64_t row_step,
                    void *tensor);
void dlr_tile_load(const dlr_tile *tile, int bytes, const void *tensor, void *rows,
                   int64_t row_step);
#endif
