/* The error bound of the gradient of a weight by Winograd's F(3x3, 2x2) (ir/kernel/winograd.h).
 *
 * The sum of the magnitudes of all that is added for a tap is a bilinear form in the magnitudes of
 * a tile's dy and x (interp_winograd.c). Along one axis its matrix is for the first tap, from y0
 * and y1 to d0 .. d3,
 *
 *   1 1 2 0
 *   0 1 1 0
 *
 * for the second one 0 1 1 0 twice, and for the third one
 *
 *   0 1 1 0
 *   0 2 1 1
 *
 * The square of the largest norm is 4 + sqrt(13). Along two axes the norm is that square, and
 * Cauchy and Schwarz give for a tile 7.61 |y| |d|, of one channel of dy and of x. The magnitudes of
 * all tiles are added. The transforms add eight roundings: one an axis of x and of dy, two of the
 * taps. Halves are exact but for numbers below the normal range. */
#include <float.h>
#include <math.h>

#include "ir/interp/interp_parts.h"
#include "ir/kernel/winograd.h"

enum { ROUNDINGS = 8, SIDE = 4, MADE_SIDE = 2 };
static const double norm = 7.6055512754639893; /* 4 + sqrt(13) */
static const double least = (double)FLT_MIN * FLT_MIN * DL_WINOGRAD_POINTS;

/* A plane of a channel: its size, and where a tile of `side` x `side` positions begins. */
typedef struct {
    const double *at;
    const int64_t *size;
} plane;
static double tile_norm(plane p, int64_t h, int64_t w, int side) {
    double sum = 0;
    for (int64_t i = h; i < h + side; i++)
        for (int64_t j = w; j < w + side; j++)
            if (i >= 0 && i < p.size[1] && j >= 0 && j < p.size[2])
                sum += p.at[i * p.size[2] + j] * p.at[i * p.size[2] + j];
    return sqrt(sum + least);
}

/* The norms of a tile of all channels, of plane `d` of sample `n` of a tensor. */
static void tile_norms(const double *of, int64_t channels, const int64_t size[3], int64_t n,
                       const int64_t at[3], int side, double *to) {
    for (int64_t c = 0; c < channels; c++) {
        const double *from = of + ((n * channels + c) * size[0] + at[0]) * size[1] * size[2];
        to[c] = tile_norm((plane){from, size}, at[1], at[2], side);
    }
}

typedef struct {
    const dl_conv_sizes *s;
    const double *x, *dy;
    double *x_norm, *dy_norm, *most; /* by channel; `most`: of x, of all tiles */
} operands;

/* Adds a tile's magnitudes at one plane of taps: size[o][c], planes of taps apart. */
static void add_tile(const operands *of, int64_t n, const int64_t at[3], int64_t tap,
                     double *size) {
    const dl_conv_sizes *s = of->s;
    const int64_t from[3] = {at[0] * s->stride[0] + tap * s->dilation[0] - s->pad_lo[0],
                             at[1] - s->pad_lo[1], at[2] - s->pad_lo[2]};
    if (from[0] < 0 || from[0] >= s->in[0]) return;
    tile_norms(of->x, s->c, s->in, n, from, SIDE, of->x_norm);
    for (int64_t c = 0; c < s->c; c++) {
        of->most[c] = fmax(of->most[c], of->x_norm[c]);
        for (int64_t o = 0; o < s->o; o++)
            size[(o * s->c + c) * s->tap[0] + tap] += of->x_norm[c] * of->dy_norm[o];
    }
}

/* size[o][c][plane of taps]: the magnitudes of all tiles; returns how many there are. */
static int64_t add_tiles(const operands *of, double *size) {
    const dl_conv_sizes *s = of->s;
    int64_t tiles = 0;
    for (int64_t n = 0; n < s->samples; n++)
        for (int64_t d = 0; d < s->out[0]; d++)
            for (int64_t h = 0; h < s->out[1]; h += MADE_SIDE)
                for (int64_t w = 0; w < s->out[2]; w += MADE_SIDE, tiles++) {
                    const int64_t at[3] = {d, h, w};
                    tile_norms(of->dy, s->o, s->out, n, at, MADE_SIDE, of->dy_norm);
                    for (int64_t tap = 0; tap < s->tap[0]; tap++) add_tile(of, n, at, tap, size);
                }
    return tiles;
}

void dl_interp_winograd_weight(const dl_relation *r, const double *x, const double *dy,
                               double *slack) {
    const dl_conv_sizes s = dl_relation_sizes(r);
    dl_arena *scratch = dl_arena_new(NULL);
    const operands of = {&s,
                         x,
                         dy,
                         DL_NEWS(scratch, double, s.c + 1),
                         DL_NEWS(scratch, double, s.o + 1),
                         DL_NEWS(scratch, double, s.c + 1)};
    double *sizes = DL_NEWS(scratch, double, s.o *s.c *s.tap[0] + 1);
    const int64_t tiles = add_tiles(&of, sizes);
    for (int64_t i = 0; i < s.o * s.c * s.tap[0]; i++) {
        const double size = norm * sizes[i];
        const bool fits = size <= (double)FLT_MAX &&
                          4 * of.most[i / s.tap[0] % s.c] <= (double)FLT_MAX; /* and is a number */
        for (int64_t tap = 0; tap < DL_WINOGRAD_TAPS; tap++)
            slack[i * DL_WINOGRAD_TAPS + tap] =
                fits ? dl_sum_slack(DL_F32, tiles, size, 0, 0) +
                           dl_sum_slack(DL_F32, ROUNDINGS - 1, size, 0, 0)
                     : INFINITY;
    }
    dl_arena_free(scratch);
}
