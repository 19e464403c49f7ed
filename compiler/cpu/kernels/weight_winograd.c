/* Weight gradients by Winograd's F(3x3, 2x2), after weight.c: convolutions whose windows are 3 x 3
 * along the last two axes, with stride 1 there. A tile is 2 x 2 positions of dy with the 4 x 4 of x
 * that they meet. It multiplies 16 numbers of each, where 3 x 3 taps at 2 x 2 positions multiply
 * 36. The products of all tiles are summed by point, and become taps at the end. Inputs are
 * transformed as for convolutions (winograd.c). All along one axis, the transposition of F(2, 3):
 *
 *   dy     y0, (y0 + y1) / 2, (y0 - y1) / 2, y1
 *   taps   m0 + m1 + m2, m1 - m2, m1 + m2 - m3
 *
 * Outside of x and of dy there are zeros. */
enum {
    GRAD_TILES = M_BLOCK / 4, /* whose transforms stay in cache */
};
struct winograd_gradient {
    long order[GRAD_TILES]; /* 0, 1, ... */
    int y_at[GRAD_TILES];   /* offsets in a panel of dy */
    /* x [point][tile][row], dy [point][panel][tile][PANEL], products [point][panel][row][PANEL],
     * sums [tap][panel][row][PANEL] */
    float data[] __attribute__((aligned(64)));
};
INLINE long grad_tile_pitch(const struct weight_gradient *s) { return tile_pitch(s->item_rows); }
INLINE long grad_point_pitch(const struct weight_gradient *s) {
    return GRAD_TILES * grad_tile_pitch(s) + 16;
}
INLINE long grad_y_pitch(const struct weight_gradient *s) {
    return (long)s->item_panels * GRAD_TILES * PANEL + 16;
}
INLINE float *transformed_y(const struct weight_gradient *s, struct winograd_gradient *t) {
    return t->data + POINTS * grad_point_pitch(s);
}
INLINE float *point_sums(const struct weight_gradient *s, struct winograd_gradient *t) {
    return transformed_y(s, t) + POINTS * grad_y_pitch(s);
}
/* Floats of a block's sums at one point, or tap. */
INLINE long point_floats(const struct weight_gradient *s) {
    return (long)s->item_panels * s->item_rows * PANEL;
}

/* Where a tile begins: of dy the batch, D, H, W; of x, before the taps along D. */
struct grad_tile_at {
    int b, d, h, w;
};
INLINE long grad_tiles_along(const struct weight_gradient *s, int axis) {
    return (s->out[axis] + 1) / 2;
}
INLINE struct grad_tile_at grad_tile_of(const struct weight_gradient *s, long tile) {
    const long across = grad_tiles_along(s, 2), down = grad_tiles_along(s, 1);
    return (struct grad_tile_at){.w = 2 * (int)(tile % across),
                                 .h = 2 * (int)(tile / across % down),
                                 .d = (int)(tile / (across * down) % s->out[0]),
                                 .b = (int)(tile / (across * down * s->out[0]))};
}

/* Transforms x at plane d of a tile, from channel b->row on: v[point][row]. */
UNUSED void transform_grad_x(const struct weight_gradient *s, char *const *arg,
                             const struct grad_block *b, struct grad_tile_at at, int d, float *v) {
    const long plane = ((long)at.b * s->in[0] + d) * s->in[1];
    long row = -b->row;
    for (const struct part *part = s->x; part < s->x + s->nx; row += part++->channels) {
        const long first = row < 0 ? -row : 0,
                   end = row + part->channels < b->rows ? part->channels : b->rows - row;
        for (long c = first; c < end; c += CHAIN) {
            const float *from[POINTS];
            for (int k = 0; k < POINTS; k++) {
                const int h = at.h - s->pad[1] + k / SIDE, w = at.w - s->pad[2] + k % SIDE,
                          in = (unsigned)h < (unsigned)s->in[1] && (unsigned)w < (unsigned)s->in[2];
                from[k] = in ? (const float *)arg[part->arg] +
                                   ((plane + h) * s->in[2] + w) * part->channels + c
                             : zeros;
            }
            transform_inputs(from, end - c < CHAIN ? end - c : CHAIN, v + row + c,
                             grad_point_pitch(s));
        }
    }
}

#define DY_ALONG(to, y0, y1)                                                                       \
    vf to##0 = y0, to##3 = y1, to##1 = to##0 * .5f + to##3 * .5f, to##2 = to##0 * .5f - to##3 * .5f
#define DY_ROW(i)                                                                                  \
    {                                                                                              \
        DY_ALONG(r, e0##i, e1##i);                                                                 \
        st(to + (SIDE * (i)) * point, r0), st(to + (SIDE * (i) + 1) * point, r1);                  \
        st(to + (SIDE * (i) + 2) * point, r2), st(to + (SIDE * (i) + 3) * point, r3);              \
    }
/* One vector of a tile's 2 x 2 positions; lanes from n on are zeros. */
INLINE void transform_dy(const float *const *from, long c, long n, float *to, long point) {
    DY_ALONG(e0, ldn(from[0] + c, n), ldn(from[2] + c, n));
    DY_ALONG(e1, ldn(from[1] + c, n), ldn(from[3] + c, n));
    DY_ROW(0);
    DY_ROW(1);
    DY_ROW(2);
    DY_ROW(3);
}
/* A panel, of which dy has so many lanes. */
HOT void transform_dy_panel(const float *const *from, long lanes, float *to, long point) {
    for (long i = 0; i < PANEL; i += LANES) {
        if (lanes - i >= LANES)
            transform_dy(from, i, LANES, to + i, point);
        else
            transform_dy(from, i, lanes > i ? lanes - i : 0, to + i, point);
    }
}

/* Transforms dy at a tile's positions, for the block's panels: y[point][panel][..][PANEL]. */
UNUSED void transform_grad_y(const struct weight_gradient *s, char *const *arg,
                             const struct grad_block *b, struct grad_tile_at at, float *y) {
    const long plane = ((long)at.b * s->out[0] + at.d) * s->out[1];
    long q = 0, lane = b->panel * PANEL;
    for (long p = 0; p < b->panels; p++, lane += PANEL) {
        while (lane >= s->y[q].channels) lane -= s->y[q++].channels;
        const long channels = s->y[q].channels;
        const float *from[MADE];
        for (int k = 0; k < MADE; k++) {
            const int h = at.h + k / 2, w = at.w + k % 2;
            from[k] = h < s->out[1] && w < s->out[2]
                          ? (const float *)arg[s->y[q].arg] +
                                ((plane + h) * s->out[2] + w) * channels + lane
                          : zeros;
        }
        transform_dy_panel(from, channels - lane, y + p * GRAD_TILES * PANEL, grad_y_pitch(s));
    }
}

/* Adds the products of n tiles to m[point][panel][row][PANEL]. */
UNUSED void multiply_tiles(const struct weight_gradient *s, struct winograd_gradient *t,
                           const struct grad_block *b, long n, float *m) {
    const float *y = transformed_y(s, t);
    for (long point = 0; point < POINTS; point++)
        for (long p = 0; p < b->panels; p++)
            for (long r = 0; r < b->rows; r += s->height) {
                const long rows = b->rows - r < s->height ? b->rows - r : s->height,
                           panel = point * s->item_panels + p;
                grad_tiles[rows](t->data + point * grad_point_pitch(s) + r, t->order,
                                 grad_tile_pitch(s), 0,
                                 y + point * grad_y_pitch(s) + p * GRAD_TILES * PANEL, t->y_at, n,
                                 m + (panel * s->item_rows + r) * PANEL);
            }
}

/* The products of a block over the tiles from `from` to `to`: m[point][panel][row][PANEL]. */
UNUSED void multiply_block(const struct weight_gradient *s, char *const *arg,
                           const struct grad_block *b, long from, long to,
                           struct winograd_gradient *t, float *m) {
    const int kd = (int)b->group / IN_PLANE * s->dilation[0] - s->pad[0];
    float *y = transformed_y(s, t);
    long n = 0;
    __builtin_memset(m, 0, sizeof(float) * (unsigned long)(POINTS * point_floats(s)));
    for (int i = 0; i < GRAD_TILES; i++) t->order[i] = i, t->y_at[i] = i * PANEL;
    for (; from < to; from++) {
        const struct grad_tile_at at = grad_tile_of(s, from);
        const int d = at.d * s->scale[0] + kd;
        if ((unsigned)d >= (unsigned)s->in[0]) continue;
        transform_grad_x(s, arg, b, at, d, t->data + n * grad_tile_pitch(s));
        transform_grad_y(s, arg, b, at, y + n * PANEL);
        if (++n == GRAD_TILES) multiply_tiles(s, t, b, n, m), n = 0;
    }
    if (n) multiply_tiles(s, t, b, n, m);
}

#define TAPS_ALONG(to, m0, m1, m2, m3)                                                             \
    vf to##0 = m0 + (m1 + m2), to##1 = m1 - m2, to##2 = m1 + m2 - m3;
#define TAPS_COLUMN(j)                                                                             \
    TAPS_ALONG(e##j, ld(m + (j)*point), ld(m + (SIDE + (j)) * point),                              \
               ld(m + (2 * SIDE + (j)) * point), ld(m + (3 * SIDE + (j)) * point))
#define TAPS_ROW(i)                                                                                \
    {                                                                                              \
        TAPS_ALONG(r, e0##i, e1##i, e2##i, e3##i)                                                  \
        st(to + (3 * (i)) * point, r0), st(to + (3 * (i) + 1) * point, r1);                        \
        st(to + (3 * (i) + 2) * point, r2);                                                        \
    }
/* The taps of n products m[point][n]: to[tap][n]. */
HOT void transform_taps(const float *m, long point, float *to) {
    for (const float *end = m + point; m < end; m += LANES, to += LANES) {
        TAPS_COLUMN(0)
        TAPS_COLUMN(1)
        TAPS_COLUMN(2)
        TAPS_COLUMN(3)
        TAPS_ROW(0)
        TAPS_ROW(1)
        TAPS_ROW(2)
    }
}

/* As gradient_item: a split of a block's tiles, whose taps are summed by gradient_splits where
 * there are several. */
ENTRY void winograd_gradient_item(const struct weight_gradient *s, char *const *arg, long item,
                                  char *scratch, char *workspace, block_fn *epilogue,
                                  double *sums) {
    struct winograd_gradient *t = (void *)scratch;
    const struct grad_block b = block_of(s, item / s->splits);
    const long split = item % s->splits,
               all = (long)s->batch * s->out[0] * grad_tiles_along(s, 1) * grad_tiles_along(s, 2);
    float *m = point_sums(s, t), *sum = s->splits > 1 ? (float *)workspace + item * block_size(s)
                                                      : m + POINTS * point_floats(s);
    multiply_block(s, arg, &b, split * all / s->splits, (split + 1) * all / s->splits, t, m);
    transform_taps(m, point_floats(s), sum);
    if (s->splits == 1) epilogue_block(s, arg, &b, sum, epilogue, sums);
}
