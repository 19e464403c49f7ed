/* Winograd's F(2x2, 3x3), after contract.c: convolutions whose windows are 3 x 3 along the last two
 * axes, with stride 1. A tile is 2 x 2 output positions; it multiplies the 4 x 4 numbers that its
 * transformed inputs and weights have, where 2 x 2 windows multiply 36. Taps along the first axis
 * are summed like channels, so a plane of a volume is an image. All along one axis (Lavin and
 * Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016):
 *
 *   inputs   d0 - d2, d1 + d2, d2 - d1, d1 - d3
 *   weights  g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2
 *   outputs  m0 + m1 + m2, m1 - m2 - m3 */
enum {
    SIDE = 4,
    POINTS = SIDE * SIDE, /* of a tile */
    MADE = 4,             /* output positions of a tile */
    BLOCK_TILES = ROW_BLOCK / MADE / TILE_ROWS * TILE_ROWS,
    IN_PLANE = 9 /* taps */
};

/* Four numbers of an axis from the three, or four, of each of `n` columns. */
#define WEIGHT_ALONG(to, g0, g1, g2)                                                               \
    {                                                                                              \
        vf even = g0 * .5f + g2 * .5f, odd = g1 * .5f;                                             \
        to##0 = g0, to##1 = even + odd, to##2 = even - odd, to##3 = g2;                            \
    }
#define WEIGHT_COLUMN(j)                                                                           \
    vf e##j##0, e##j##1, e##j##2, e##j##3;                                                         \
    WEIGHT_ALONG(e##j, ld(g + (j)*tap), ld(g + (3 + (j)) * tap), ld(g + (6 + (j)) * tap))
#define WEIGHT_ROW(i)                                                                              \
    {                                                                                              \
        vf r0, r1, r2, r3;                                                                         \
        WEIGHT_ALONG(r, e0##i, e1##i, e2##i)                                                       \
        st(u + (SIDE * (i)) * point, r0), st(u + (SIDE * (i) + 1) * point, r1);                    \
        st(u + (SIDE * (i) + 2) * point, r2), st(u + (SIDE * (i) + 3) * point, r3);                \
    }
/* One vector of lanes: taps are `tap` floats from each other, points `point` floats. */
INLINE void transform_weight(const float *g, long tap, float *u, long point){
    WEIGHT_COLUMN(0) WEIGHT_COLUMN(1) WEIGHT_COLUMN(2) WEIGHT_ROW(0) WEIGHT_ROW(1) WEIGHT_ROW(2)
        WEIGHT_ROW(3)}

/* The terms of a point: channels, for each tap along the first axis. */
INLINE long point_terms(const struct contraction *s) {
    return (long)s->weight_taps / IN_PLANE * s->summed;
}

/* Transforms the weight w[column][tap][channel][PANEL]: u[column][point][plane][channel][PANEL].
 * Work item: one plane of taps of a panel. */
HOT void transform_plane(const float *g, long channels, float *u, long point) {
    for (long c = 0; c < channels; c++)
        for (long i = 0; i < PANEL; i += LANES)
            transform_weight(g + c * PANEL + i, channels * PANEL, u + c * PANEL + i, point);
}
ENTRY void winograd_weight(const struct contraction *s, struct array w, long item, float *u) {
    const long planes = s->weight_taps / IN_PLANE, column = item / planes, plane = item % planes,
               terms = point_terms(s), channels = s->summed;
    const float *g =
        (const float *)w.at +
        ((s->weight_start + column) * s->weight_taps + plane * IN_PLANE) * channels * PANEL;
    transform_plane(g, channels, u + (column * POINTS * terms + plane * channels) * PANEL,
                    terms * PANEL);
}
/* The same for the gradient of an input, whose weight is transposed, with mirrored taps: at most
 * CHAIN channels at a time, in `g`. */
ENTRY void winograd_mirrored(const struct contraction *s, struct array w, long item, float *g,
                             float *u) {
    const long planes = s->weight_taps / IN_PLANE, column = item / planes, plane = item % planes,
               terms = point_terms(s), channels = s->summed;
    u += (column * POINTS * terms + plane * channels) * PANEL;
    for (long c = 0; c < channels; c += CHAIN) {
        const long n = channels - c < CHAIN ? channels - c : CHAIN;
        for (long tap = 0; tap < IN_PLANE; tap++)
            transpose_panel(s, w, s->weight_taps - 1 - (plane * IN_PLANE + tap), column, c, n,
                            g + tap * n * PANEL);
        transform_plane(g, n, u + c * PANEL, terms * PANEL);
    }
}

#define INPUT_ALONG(to, d0, d1, d2, d3)                                                            \
    vf to##0 = d0 - d2, to##1 = d1 + d2, to##2 = d2 - d1, to##3 = d1 - d3;
#define INPUT_COLUMN(j)                                                                            \
    vf a##j = ldn(from[j] + c, n), b##j = ldn(from[SIDE + (j)] + c, n),                            \
       c##j = ldn(from[2 * SIDE + (j)] + c, n), d##j = ldn(from[3 * SIDE + (j)] + c, n);           \
    INPUT_ALONG(e##j, a##j, b##j, c##j, d##j)
#define INPUT_ROW(i)                                                                               \
    {                                                                                              \
        INPUT_ALONG(r, e0##i, e1##i, e2##i, e3##i)                                                 \
        st(to + (SIDE * (i)) * point, r0), st(to + (SIDE * (i) + 1) * point, r1);                  \
        st(to + (SIDE * (i) + 2) * point, r2), st(to + (SIDE * (i) + 3) * point, r3);              \
    }
/* One vector of channels of a tile's 4 x 4 positions; lanes from n on are undefined. */
INLINE void transform_vector(const float *const *from, long c, long n, float *to, long point){
    INPUT_COLUMN(0) INPUT_COLUMN(1) INPUT_COLUMN(2) INPUT_COLUMN(3) INPUT_ROW(0) INPUT_ROW(1)
        INPUT_ROW(2) INPUT_ROW(3)} HOT
    void transform_inputs(const float *const *from, long channels, float *to, long point) {
    long c = 0;
    for (; c + LANES <= channels; c += LANES) transform_vector(from, c, LANES, to + c, point);
    if (c < channels) transform_vector(from, c, channels - c, to + c, point);
}

#define OUTPUT_ALONG(to, m0, m1, m2, m3) vf to##0 = m0 + m1 + m2, to##1 = m1 - m2 - m3;
#define OUTPUT_COLUMN(j)                                                                           \
    OUTPUT_ALONG(e##j, ld(m + (j)*point), ld(m + (SIDE + (j)) * point),                            \
                 ld(m + (2 * SIDE + (j)) * point), ld(m + (3 * SIDE + (j)) * point))
#define OUTPUT_ROW(i)                                                                              \
    {                                                                                              \
        OUTPUT_ALONG(r, e0##i, e1##i, e2##i, e3##i)                                                \
        st(to[2 * (i)] + lane, r0), st(to[2 * (i) + 1] + lane, r1);                                \
    }
/* A panel of a tile's sums: 2 x 2 positions. */
HOT void transform_outputs(const float *m, long point, float *const *to, long lanes) {
    for (long lane = 0; lane < lanes; lane += LANES, m += LANES) {
        OUTPUT_COLUMN(0)
        OUTPUT_COLUMN(1)
        OUTPUT_COLUMN(2)
        OUTPUT_COLUMN(3)
        OUTPUT_ROW(0)
        OUTPUT_ROW(1)
    }
}

/* A block of tiles. Its rows are the output positions of one tile after another, those outside
 * left out. */
struct winograd_scratch {
    struct rows row;
    int row_of[BLOCK_TILES * MADE], first[BLOCK_TILES + 1]; /* -1: outside; by tile */
    long plane[BLOCK_TILES]; /* the sample's first position in the input, */
    int at[BLOCK_TILES][3];  /* and the first one of the tile's, which may be outside */
    float acc[(TILE_ROWS * MADE + 1) * PANEL], m[POINTS * BLOCK_TILES * PANEL],
        v[]; /* [point][tile][terms] */
};

/* Distances between tiles and between points of `v`, so that tiles do not share cache sets. */
INLINE long tile_pitch(long terms) { return (terms + LANES - 1) / LANES * LANES + 16; }
INLINE long point_pitch(long terms) { return BLOCK_TILES * tile_pitch(terms) + 16; }

INLINE long tiles_along(const struct contraction *s, int axis) { return (s->out[axis] + 1) / 2; }

/* Fills in tile i, number `tile`, with its rows from `row` on; returns the next row. */
INLINE int fill_tile(const struct contraction *s, long tile, long i, int row,
                     struct winograd_scratch *t) {
    const long across = tiles_along(s, 2), down = tiles_along(s, 1);
    const int w = 2 * (int)(tile % across), h = 2 * (int)(tile / across % down),
              d = (int)(tile / (across * down) % s->out[0]),
              b = (int)(tile / (across * down * s->out[0]));
    t->plane[i] = (long)b * s->in[0] * s->in[1] * s->in[2];
    t->at[i][0] = d * s->scale[0], t->at[i][1] = h, t->at[i][2] = w;
    t->first[i] = row;
    for (int k = 0; k < MADE; k++) {
        const int y = h + k / 2, x = w + k % 2, inside = y < s->out[1] && x < s->out[2];
        t->row_of[i * MADE + k] = inside ? row : -1;
        if (!inside) continue;
        t->row.out[0][row] = b, t->row.out[1][row] = d, t->row.out[2][row] = y;
        t->row.out[3][row++] = x;
    }
    return row;
}

/* Fills in tiles from number `from` on; returns how many there are. */
UNUSED long fill_tiles(const struct contraction *s, long from, struct winograd_scratch *t) {
    const long all = (long)s->batch * s->out[0] * tiles_along(s, 1) * tiles_along(s, 2),
               n = all - from < BLOCK_TILES ? all - from : BLOCK_TILES;
    int row = 0;
    for (long i = 0; i < n; i++) row = fill_tile(s, from + i, i, row, t);
    for (long i = n; i <= BLOCK_TILES; i++) t->first[i] = row;
    return n;
}

/* The addresses of a tile's 4 x 4 positions in a part of the input, at one tap of the first axis;
 * zeros outside. */
INLINE void find_positions(const struct contraction *s, const struct winograd_scratch *t, long i,
                           const struct tap *tap, const float *x, long channels,
                           const float **from) {
    const int d = t->at[i][0] + tap->at[0];
    for (int k = 0; k < POINTS; k++) {
        const int h = t->at[i][1] + tap->at[1] + k / SIDE, w = t->at[i][2] + tap->at[2] + k % SIDE;
        const int in = (unsigned)d < (unsigned)s->in[0] && (unsigned)h < (unsigned)s->in[1] &&
                       (unsigned)w < (unsigned)s->in[2];
        from[k] =
            in ? x + (t->plane[i] + ((long)d * s->in[1] + h) * s->in[2] + w) * channels : zeros;
    }
}

/* Transforms the inputs of tile i; at most CHAIN channels at a time, which `zeros` has. */
UNUSED void transform_tile(const struct contraction *s, char *const *arg,
                           const struct winograd_scratch *t, long i, float *v) {
    const long terms = point_terms(s), point = point_pitch(terms);
    float *to = v + i * tile_pitch(terms);
    for (long plane = 0; plane < s->weight_taps / IN_PLANE; plane++) {
        const struct tap *tap = s->taps + plane * IN_PLANE;
        for (const struct part *part = s->part; part < s->part + s->nparts; part++) {
            const float *from[POINTS];
            find_positions(s, t, i, tap, (const float *)arg[part->arg], part->channels, from);
            for (long c = 0; c < part->channels; c += CHAIN) {
                const long n = part->channels - c < CHAIN ? part->channels - c : CHAIN;
                transform_inputs(from, n, to, point);
                for (int k = 0; k < POINTS; k++) from[k] += from[k] == zeros ? 0 : n;
                to += n;
            }
        }
    }
}

/* m[point][tile][PANEL] = the products of a panel's weights u[point][terms][PANEL]. */
UNUSED void multiply_points(const float *v, const float *u, long tiles, long terms, long channels,
                            float *m) {
    const long pitch = tile_pitch(terms);
    for (long p = 0; p < POINTS; p++)
        for (long k = 0; k < terms; k += CHAIN)
            for (long r = 0; r < tiles; r += TILE_ROWS) {
                struct stretch stretch = {.b = u + (p * terms + k) * PANEL,
                                          .n = terms - k < CHAIN ? terms - k : CHAIN};
                for (long i = 0; i < TILE_ROWS; i++)
                    stretch.a[i] =
                        v + p * point_pitch(terms) + (r + i < tiles ? r + i : r) * pitch + k;
                tile(0, &stretch, 1, 0, channels, m + (p * BLOCK_TILES + r) * PANEL, k > 0);
            }
}

/* The outputs of some tiles and their epilogue. */
UNUSED void finish_tiles(struct winograd_scratch *t, char *const *arg, long from, long tiles,
                         long channel, long channels, rows_fn *epilogue, double *sums) {
    const int first = t->first[from], rows = t->first[from + tiles] - first;
    for (long i = from; i < from + tiles; i++) {
        float *to[MADE];
        for (int k = 0; k < MADE; k++) {
            const int row = t->row_of[i * MADE + k];
            to[k] = t->acc + (row < 0 ? TILE_ROWS * MADE : row - first) * PANEL;
        }
        transform_outputs(t->m + i * PANEL, BLOCK_TILES * PANEL, to,
                          channels > LANES ? PANEL : LANES);
    }
    epilogue(arg, t->acc, &t->row, first, rows, channel, channels, sums);
}

/* A block of tiles by some panels, whose transformed weights are `u`. */
ENTRY void winograd_item(const struct contraction *s, char *const *arg, const float *u, long item,
                         char *scratch, rows_fn *epilogue, double *sums) {
    struct winograd_scratch *t = (void *)scratch;
    const long groups = (s->columns + s->item_columns - 1) / s->item_columns,
               all = (long)s->batch * s->out[0] * tiles_along(s, 1) * tiles_along(s, 2),
               blocks = (all + BLOCK_TILES - 1) / BLOCK_TILES;
    const long block = s->by_rows ? item / groups : item % blocks,
               group = s->by_rows ? item % groups : item / blocks;
    const long tiles = fill_tiles(s, block * BLOCK_TILES, t), terms = point_terms(s);
    for (long i = 0; i < tiles; i++) transform_tile(s, arg, t, i, t->v);
    for (long column = group * s->item_columns, end = column + s->item_columns;
         column < end && column < s->columns; column++) {
        const long channel = column * PANEL,
                   m = s->channels - channel < PANEL ? s->channels - channel : PANEL;
        multiply_points(t->v, u + column * POINTS * terms * PANEL, tiles, terms, m, t->m);
        for (long r = 0; r < tiles; r += TILE_ROWS)
            finish_tiles(t, arg, r, tiles - r < TILE_ROWS ? tiles - r : TILE_ROWS, channel, m,
                         epilogue, sums);
    }
}
