/* Weight gradients of bf16 pairs on CPUs that multiply them (bf16_pairs.c), but have no AMX. K
 * elements are positions. Any two positions that have a tap block's taps in bounds form a pair
 * of x and of dy, anew for each tap block, since taps at an edge have other positions in bounds
 * than their neighbours. */
#if HAS_PAIRS && !HAS_TILES
#define IF_VECTOR_PAIRS(pairs, ...)                                                                \
    if (pairs) __VA_ARGS__
#define GRAD_PAIR_OFFSET(r)                                                                        \
    c##r##0 = dot_pairs(c##r##0, splat(x[r]), b0),                                                 \
    c##r##1 = dot_pairs(c##r##1, splat(x[r + offset]), b1);
/* c[rows][PANEL] += x[j][row] * y[j][lane] over both positions of each pair, j < n; the second
 * vector of lanes reads x `offset` pairs further on. */
#define GRAD_PAIR(r)                                                                               \
    {                                                                                              \
        vf v = splat(x[r]);                                                                        \
        c##r##0 = dot_pairs(c##r##0, v, b0), c##r##1 = dot_pairs(c##r##1, v, b1);                  \
    }
#define PAIR_TILE_OF(name, STEP, rows)                                                             \
    HOT void name(const float *x, long offset, const float *y, long n, float *c) {                 \
        enum { both = 1 };                                                                         \
        (void)offset;                                                                              \
        R##rows(ROW_ZERO) for (long j = 0; j < n; j++, x += GRAD_HEIGHT, y += PANEL) {             \
            vf b0 = ld(y), b1 = ld(y + LANES);                                                     \
            R##rows(STEP)                                                                          \
        }                                                                                          \
        R##rows(ROW_ADD) R##rows(ROW_OUT)                                                          \
    }
#define PAIR_TILE(rows) PAIR_TILE_OF(pair_tile_##rows, GRAD_PAIR, rows)
EACH_HEIGHT(PAIR_TILE)
typedef void pair_tile_fn(const float *x, long offset, const float *y, long n, float *c);
#define PAIR_ENTRY(rows) [rows] = pair_tile_##rows,
static pair_tile_fn *const pair_tiles[] __attribute__((unused)) = {EACH_HEIGHT(PAIR_ENTRY)};
#if HAS_GROUPS
#define PAIR_TILE_OFFSET(rows) PAIR_TILE_OF(pair_tile_offset_##rows, GRAD_PAIR_OFFSET, rows)
EACH_HEIGHT(PAIR_TILE_OFFSET)
#define PAIR_ENTRY_OFFSET(rows) [rows] = pair_tile_offset_##rows,
static pair_tile_fn *const pair_tiles_offset[]
    __attribute__((unused)) = {EACH_HEIGHT(PAIR_ENTRY_OFFSET)};
#endif
/* x: packed rows, tile after tile; the pairs of n positions. */
INLINE void add_pairs(const float *x, long row, long offset, const float *y, long n, long rows,
                      float *c) {
    pair_tile_fn *tile = pair_tiles[rows];
    IF_OFFSET(offset, tile = pair_tiles_offset[rows];)
    tile(x + row * M_BLOCK, offset, y, (n + 1) / 2, c);
}

typedef unsigned short v_tile __attribute__((vector_size(GRAD_HEIGHT * 2)));
typedef unsigned short v_tile_any
    __attribute__((vector_size(GRAD_HEIGHT * 2), aligned(2), may_alias));
typedef unsigned short v_words_any
    __attribute__((vector_size(GRAD_HEIGHT * 4), aligned(4), may_alias));
_Static_assert(GRAD_HEIGHT == 8, "the numbers below");
INLINE void pair_tile_rows(const bf16 *a, const bf16 *b, float *to) {
    v_tile x = *(const v_tile_any *)a, y = *(const v_tile_any *)b;
    *(v_words_any *)to =
        __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
}

/* The address of x's channels c.. at position m of the n; zeros after the last one. */
INLINE const bf16 *x_pair(const struct grad_scratch *t, const bf16 *x, long channels, long c,
                          long m, long n) {
    return m < n ? x + t->x_at[m] * channels + c : no_elements;
}
/* x of the positions x_at[0], x_at[1], ...: [tile of rows][pair][GRAD_HEIGHT]. An odd last one
 * is paired with zeros. */
UNUSED void pack_part_x(const struct grad_scratch *t, const bf16 *x, long channels, long c,
                        long end, long r, long n, float *data) {
    for (long whole; c < end; c += whole ? GRAD_HEIGHT : 1, r += whole ? GRAD_HEIGHT : 1) {
        whole = r % GRAD_HEIGHT == 0 && c + GRAD_HEIGHT <= end;
        float *to = data + r / GRAD_HEIGHT * GRAD_HEIGHT * M_BLOCK + r % GRAD_HEIGHT;
        for (long m = 0; m < n; m += 2, to += GRAD_HEIGHT) {
            const bf16 *first = x_pair(t, x, channels, c, m, n),
                       *second = x_pair(t, x, channels, c, m + 1, n);
            if (whole)
                pair_tile_rows(first, second, to);
            else
                __builtin_memcpy(to, &(bf16[2]){*first, *second}, sizeof *to);
        }
    }
}
UNUSED void pack_pair_rows(const struct weight_gradient *s, char *const *arg,
                           const struct grad_scratch *t, const struct grad_block *b, long first_row,
                           long n, float *data) {
    long row = -first_row;
    for (long q = 0; q < s->nx; row += s->x[q++].channels) {
        long channels = s->x[q].channels, c = row < 0 ? -row : 0,
             end = row + channels < b->rows ? channels : b->rows - row;
        pack_part_x(t, (const bf16 *)arg[s->x[q].arg], channels, c, end, row + c, n, data);
    }
}
/* As pack_x. */
UNUSED void pack_pairs_x(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                         const struct grad_block *b, const struct k_range *range, long n) {
    long row = b->row + range->first;
    pack_pair_rows(s, arg, t, b, row, n, t->data);
    if (range->vector_offset)
        pack_pair_rows(s, arg, t, b, row + range->vector_offset, n, t->data + packed_floats(s));
}

/* dy of the positions y_at[0] / PANEL, ... of the block: [panel][M_BLOCK][PANEL], of which pairs
 * take half. */
UNUSED void pack_pairs_y(const struct weight_gradient *s, char *const *arg,
                         const struct grad_scratch *t, const struct grad_block *b, long n,
                         float *to) {
    long q = 0, lane = b->panel * PANEL;
    for (long p = 0; p < b->panels; p++, lane += PANEL, to += M_BLOCK * PANEL) {
        while (lane >= s->y[q].channels) lane -= s->y[q++].channels;
        long stride = s->y[q].channels, lanes = stride - lane < PANEL ? stride - lane : PANEL;
        const bf16 *y = (const bf16 *)arg[s->y[q].arg] + lane;
        for (long m = 0; m < n; m += 2) {
            const bf16 *first = y + t->y_pos[t->y_at[m] / PANEL] * stride,
                       *second =
                           m + 1 < n ? y + t->y_pos[t->y_at[m + 1] / PANEL] * stride : no_elements;
            pair_rows(ld_panel_part(first, lanes), ld_panel_part(second, lanes),
                      to + m / 2 * PANEL);
        }
    }
}
#else
#define IF_VECTOR_PAIRS(pairs, ...)
#endif
