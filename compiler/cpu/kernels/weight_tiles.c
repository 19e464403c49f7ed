/* Weight gradients, after contract.c, in three files: tiles and packed operands of floats here,
 * those of bf16 pairs in weight_pairs.c, the loops around both in weight.c. They sum products of
 * x's and dy's channels over positions.
 *
 * Rows (M) are x's channels at one tap. With few channels they are those of all taps along W,
 * which are contiguous in memory; by AMX, im2col rows also take the taps of planes and volumes.
 * Lanes (N) are dy's channels. A work item's block is some tap blocks, rows and panels, whose
 * sums stay in cache. Where there are few blocks, each work item takes a split of the positions,
 * and the splits are added later (split-K). Positions are processed M_BLOCK at a time: dy is
 * packed into panels once for all taps and rows. x is packed once for all panels; or its floats
 * are read in place, if there are few panels and other taps find it in cache. */
struct weight_gradient {
    int batch, in[3], out[3], scale[3], dilation[3], pad[3], kernel[3];
    int nx, ny; /* parts of x (channels: rows) and of dy (lanes) */
    const struct part *x, *y;
    int channels;                   /* of x that a panel's lanes read */
    int panels_a_range;             /* consecutive panels with equal ranges of x's channels: */
    const struct k_range *k_ranges; /* the range of each such run */
    int vectors;                    /* 2: a panel's vectors may have ranges of their own */
    int run, rows;                  /* taps per tap block, run * channels */
    int panels, groups;             /* panels of dy's channels; tap blocks */
    int item_groups;            /* divides the number of tap blocks with the same place along D */
    int item_rows, item_panels; /* rows: whole tiles, or all */
    int splits, direct;         /* splits of the positions; is x read in place? */
    int height;                 /* rows of a tile: GRAD_HEIGHT where x is packed */
    int pairs; /* both operands are bf16, and positions form pairs (weight_pairs.c) */
    const struct contraction
        *gather; /* how a tap block's taps become im2col rows (weight_amx.c), or 0 */
};
/* The epilogue: the gradient's rows [row, row + rows) of one tap block and some panels. A row's
 * sums are PANEL each, with panels `step` apart; `sums`: partial results of epilogue reductions. */
typedef void block_fn(char *const *arg, long group, long panel, long panels, long row, long rows,
                      const float *sum, long step, double *sums);

/* Lanes of the vector at `at` that are not padding of a weight's last panel: of `all` channels,
 * with so many rows per panel. */
INLINE long panel_points(long at, long all, long rows) {
    long n = all - at / PANEL / rows * PANEL - at % PANEL;
    return n < 0 ? 0 : n < LANES ? n : LANES;
}

typedef int v_grad_any __attribute__((vector_size(GRAD_HEIGHT * 4), aligned(4), may_alias));
#define GRAD_STEP(r)                                                                               \
    {                                                                                              \
        vf v = splat(from[r]);                                                                     \
        c##r##0 += v * b0, c##r##1 += v * b1;                                                      \
    }
#define GRAD_STEP_OFFSET(r) c##r##0 += splat(from[r]) * b0, c##r##1 += splat(from[r + offset]) * b1;
#define R1(X)               X(0)
#define R2(X)               R1(X) X(1)
#define R3(X)               R2(X) X(2)
#define R4(X)               R3(X) X(3)
#define R5(X)               R4(X) X(4)
#define R6(X)               R5(X) X(5)
#define R7(X)               R6(X) X(6)
#define R8(X)               R7(X) X(7)
#define EACH_HEIGHT(X)      X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
/* c[rows][PANEL] += x[x_at[m] * step + row] * y[y_at[m]][lane], m < n; the second vector of
 * lanes reads x `offset` floats further on. */
#define GRAD_TILE_OF(name, STEP, rows)                                                             \
    HOT void name(const float *x, const long *x_at, long step, long offset, const float *y,        \
                  const int *y_at, long n, float *c) {                                             \
        enum { both = 1 };                                                                         \
        (void)offset;                                                                              \
        R##rows(ROW_ZERO) UNROLLED for (long m = 0; m < n; m++) {                                  \
            const float *from = x + x_at[m] * step;                                                \
            vf b0 = ld(y + y_at[m]), b1 = ld(y + y_at[m] + LANES);                                 \
            R##rows(STEP)                                                                          \
        }                                                                                          \
        R##rows(ROW_ADD) R##rows(ROW_OUT)                                                          \
    }
#define GRAD_TILE(rows) GRAD_TILE_OF(grad_tile_##rows, GRAD_STEP, rows)
EACH_HEIGHT(GRAD_TILE)
typedef void grad_tile_fn(const float *x, const long *x_at, long step, long offset, const float *y,
                          const int *y_at, long n, float *c);
#define GRAD_ENTRY(rows) [rows] = grad_tile_##rows,
static grad_tile_fn *const grad_tiles[] __attribute__((unused)) = {EACH_HEIGHT(GRAD_ENTRY)};
#if HAS_GROUPS
#define GRAD_TILE_OFFSET(rows) GRAD_TILE_OF(grad_tile_offset_##rows, GRAD_STEP_OFFSET, rows)
EACH_HEIGHT(GRAD_TILE_OFFSET)
#define GRAD_ENTRY_OFFSET(rows) [rows] = grad_tile_offset_##rows,
static grad_tile_fn *const grad_tiles_offset[]
    __attribute__((unused)) = {EACH_HEIGHT(GRAD_ENTRY_OFFSET)};
#endif

enum { PACK_AT_ONCE = 16, LINE = 16 }; /* positions; floats of a cache line */

/* Positions of the block in one line along W; the first one of x, before the tap, may be out of
 * bounds. */
struct grad_line {
    long x;
    int at[3], from, n;
};
struct grad_scratch {
    /* of the block's positions: index in dy and, before the tap, in x */
    long y_pos[M_BLOCK], x_pos[M_BLOCK];
    struct grad_line line[M_BLOCK];
    /* those with a tap block in bounds: offsets in packed dy, in x and in packed x */
    int y_at[M_BLOCK];
    long x_at[M_BLOCK], order[M_BLOCK];
    long lines;
    /* x [row block][M_BLOCK][GRAD_HEIGHT], dy [panel][M_BLOCK][PANEL], sums
     * [group][panel][row][PANEL] */
    float data[] __attribute__((aligned(64)));
};
/* The block of a work item. */
struct grad_block {
    long group, row, rows, panel, panels;
};
/* The range of x's channels of a panel. */
INLINE const struct k_range *panel_k_range(const struct weight_gradient *s, long panel) {
    return s->k_ranges + panel / s->panels_a_range;
}
/* Distance in packed x between the rows of a panel's first vector and of its second one. */
INLINE long packed_floats(const struct weight_gradient *s) {
    return (s->item_rows + GRAD_HEIGHT - 1) / GRAD_HEIGHT * GRAD_HEIGHT * M_BLOCK;
}

/* Slow path: the rows of x do not fall into whole tiles, as for few channels with their taps,
 * and odd parts of a cat. */
UNUSED void pack_x_slowly(const struct weight_gradient *s, char *const *arg,
                          const struct grad_scratch *t, const struct grad_block *b, long first_row,
                          long from, long to, float *data) {
    long row = -first_row;
    for (long tap = 0; tap < s->run; tap++)
        for (long q = 0; q < s->nx; q++) {
            long channels = s->x[q].channels;
            struct array x = from_element(PART_OF(arg, s->x[q]), tap * channels);
            for (long m = from; m < to; m++)
                for (long c = row < 0 ? -row : 0; c < channels && row + c < b->rows; c++) {
                    long r = row + c;
                    data[r / GRAD_HEIGHT * GRAD_HEIGHT * M_BLOCK + m * GRAD_HEIGHT +
                         r % GRAD_HEIGHT] = element(x, t->x_at[m] * channels + c);
                }
            row += channels;
        }
}

#if HALVES
/* GRAD_HEIGHT 16-bit elements as floats: whole vectors of LANES, or half of one. */
#if GRAD_HEIGHT >= LANES
#define COPY_ROWS(T)                                                                               \
    INLINE void copy_rows_##T(const T *x, float *to) {                                             \
        for (int i = 0; i < GRAD_HEIGHT; i += LANES)                                               \
            st(to + i, widen_##T(*(const vh_any *)(x + i)));                                       \
    }
#else
typedef unsigned short vh_grad_any
    __attribute__((vector_size(GRAD_HEIGHT * 2), aligned(2), may_alias));
typedef float vf_grad_any __attribute__((vector_size(GRAD_HEIGHT * 4), aligned(4), may_alias));
#define COPY_ROWS(T)                                                                               \
    INLINE void copy_rows_##T(const T *x, float *to) {                                             \
        vh_grad_any h = *(const vh_grad_any *)x;                                                   \
        vf v = widen_##T(__builtin_shufflevector(h, h, LOWER, LOWER));                             \
        *(vf_grad_any *)to = __builtin_shufflevector(v, v, LOWER);                                 \
    }
#endif
#if HALVES & 1
COPY_ROWS(f16)
#endif
#if HALVES & 2
COPY_ROWS(bf16)
#endif
#endif
/* A tile's elements of one position. */
INLINE void copy_rows(struct array x, long at, float *to) {
    IF_F16(x.type, {
        copy_rows_f16((const f16 *)x.at + at, to);
        return;
    })
    IF_BF16(x.type, {
        copy_rows_bf16((const bf16 *)x.at + at, to);
        return;
    })
    *(v_grad_any *)to = *(const v_grad_any *)((const float *)x.at + at);
}

/* Packs rows of n positions, the block's number, from row `first_row` of x's rows at a tap block
 * on. */
INLINE void pack_x_rows(const struct weight_gradient *s, char *const *arg,
                        const struct grad_scratch *t, const struct grad_block *b, long first_row,
                        long n, float *data) {
    long row = -first_row, last = (long)s->batch * s->in[0] * s->in[1] * s->in[2];
    int whole = s->channels % GRAD_HEIGHT == 0;
    for (long q = 0; q < s->nx; q++) whole &= s->x[q].channels % GRAD_HEIGHT == 0;
    if (s->run > 1 && s->nx == 1) { /* neighbouring taps are contiguous in memory */
        for (long m = 0; m < n; m++) {
            if (t->x_at[m] + s->run + GRAD_HEIGHT > last) { /* would read beyond the end */
                pack_x_slowly(s, arg, t, b, first_row, m, m + 1, data);
                continue;
            }
            for (long r = 0; r < s->rows; r += GRAD_HEIGHT)
                copy_rows(PART_OF(arg, s->x[0]), t->x_at[m] * s->channels + r,
                          data + r * M_BLOCK + m * GRAD_HEIGHT);
        }
        return;
    }
    if (s->run > 1 || !whole) {
        pack_x_slowly(s, arg, t, b, first_row, 0, n, data);
        return;
    }
    for (long q = 0; q < s->nx; row += s->x[q++].channels) {
        long channels = s->x[q].channels, first = row < 0 ? -row : 0,
             end = row + channels < b->rows ? channels : b->rows - row;
        struct array x = PART_OF(arg, s->x[q]);
        /* Some positions at a time: tiles are a page apart, and one position writes half a line
         * of each. The next positions are prefetched meanwhile. */
        for (long m = 0; m < n; m += PACK_AT_ONCE)
            for (long c = first; c < end; c += GRAD_HEIGHT) {
                for (long i = m + PACK_AT_ONCE; c % LINE == 0 && i < n && i < m + 2 * PACK_AT_ONCE;
                     i++)
                    __builtin_prefetch(from_element(x, t->x_at[i] * channels + c).at);
                float *to = data + (row + c) * M_BLOCK + m * GRAD_HEIGHT;
                for (long i = m; i < n && i < m + PACK_AT_ONCE; i++, to += GRAD_HEIGHT)
                    copy_rows(x, t->x_at[i] * channels + c, to);
            }
    }
}

INLINE void pack_x(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                   const struct grad_block *b, const struct k_range *range, long n) {
    long row = b->row + range->first;
    pack_x_rows(s, arg, t, b, row, n, t->data);
    if (range->vector_offset)
        pack_x_rows(s, arg, t, b, row + range->vector_offset, n, t->data + packed_floats(s));
}

/* As many positions at a time as above: a panel has a line or two of each. */
INLINE void pack_y(const struct weight_gradient *s, char *const *arg, const struct grad_scratch *t,
                   const struct grad_block *b, long n, float *to) {
    for (long m = 0; m < n; m += PACK_AT_ONCE, to += PACK_AT_ONCE * PANEL) {
        long q = 0, lane = b->panel * PANEL, end = n - m < PACK_AT_ONCE ? n : m + PACK_AT_ONCE;
        for (long p = 0; p < b->panels; p++, lane += PANEL) {
            while (lane >= s->y[q].channels) lane -= s->y[q++].channels;
            long stride = s->y[q].channels, lanes = stride - lane < PANEL ? stride - lane : PANEL;
            struct array y = from_element(PART_OF(arg, s->y[q]), lane);
            float *at = to + p * M_BLOCK * PANEL;
            for (long i = end; i < n && i < end + PACK_AT_ONCE; i++)
                for (long j = 0; j < PANEL; j += LINE)
                    __builtin_prefetch(from_element(y, t->y_pos[i] * stride + j).at);
            for (long i = m; i < end; i++, at += PANEL)
                for (long j = 0; j < PANEL; j += LANES) {
                    long from = t->y_pos[i] * stride + j;
                    st(at + j, lanes - j >= LANES ? load(y, from)
                               : lanes > j        ? load_part(y, from, lanes - j)
                                                  : (vf){0});
                }
        }
    }
}

/* Prefetches into L2 the data n positions after the block's position m: dy, and x where its
 * positions advance as dy's do. Prefetched between tiles, it overlaps with arithmetic. */
INLINE void prefetch_after(const struct weight_gradient *s, char *const *arg,
                           const struct grad_scratch *t, const struct grad_block *b, long m,
                           long n) {
    if (s->ny == 1) {
        struct array y = from_element(PART_OF(arg, *s->y), (t->y_pos[m] + n) * s->y->channels);
        for (long i = b->panel * PANEL; i < (b->panel + b->panels) * PANEL; i += LINE)
            __builtin_prefetch(from_element(y, i).at, 0, 2);
    }
    if (s->nx == 1 && s->run == 1) {
        struct array x = from_element(PART_OF(arg, *s->x), (t->x_pos[m] + n) * s->x->channels);
        const struct k_range *last = panel_k_range(s, b->panel + b->panels - 1);
        long i = panel_k_range(s, b->panel)->first + b->row,
             end = last->first + last->vector_offset + b->row + b->rows;
        for (; i < end; i += LINE) __builtin_prefetch(from_element(x, i).at, 0, 2);
    }
}
