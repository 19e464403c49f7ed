/* Weight gradients, behind contract.c: sums over positions of the products of x's and dy's channels.
 *
 * Rows are x's channels at one tap, or, where these are few, at all taps along W, which are neighbours in
 * memory; lanes are dy's channels. A unit's block is some groups of taps, rows and panels, whose sums stay in
 * cache; where there are few blocks, a unit has a share of the positions only, and the shares are added
 * later. Positions go by M_BLOCK: dy is packed into panels once for all groups and rows, x once for all
 * panels, or, where these are few and other taps will find it in cache, read where its floats lie. */
struct weight_gradient {
    int batch, in[3], out[3], scale[3], dilation[3], pad[3], kernel[3];
    int nx, ny; /* parts of x (channels: rows) and of dy (lanes) */
    const struct part *x, *y;
    int channels;               /* of x */
    int run, rows;              /* taps a group, run * channels */
    int panels, groups;         /* of dy's channels; of taps */
    int unit_groups;            /* they divide the groups that share a place along D */
    int unit_rows, unit_panels; /* rows: whole tiles, or all */
    int shares, direct;         /* is x read where it lies? */
    int height;                 /* rows of a tile: GRAD_HEIGHT where x is packed */
    int across;                 /* does a row of the result lie panel behind panel? */
};
/* The rest of the kernel: the gradient's rows [row, row + rows) of one group and panel, PANEL each. */
typedef void block_fn(char *const *arg, long group, long panel, long row, long rows, const float *sum);

typedef int v_grad_any __attribute__((vector_size(GRAD_HEIGHT * 4), aligned(4), may_alias));
#define GRAD_STEP(r)                                                                                         \
    {                                                                                                        \
        vf v = splat(from[r]);                                                                               \
        c##r##0 += v * b0, c##r##1 += v * b1;                                                                \
    }
#define R1(X) X(0)
#define R2(X) R1(X) X(1)
#define R3(X) R2(X) X(2)
#define R4(X) R3(X) X(3)
#define R5(X) R4(X) X(4)
#define R6(X) R5(X) X(5)
#define R7(X) R6(X) X(6)
#define R8(X) R7(X) X(7)
/* c[rows][PANEL] += x[x_at[m] * step + row] * y[y_at[m]][lane], m < n */
#define GRAD_TILE(rows)                                                                                      \
    HOT void grad_tile_##rows(const float *x, const long *x_at, long step, const float *y, const int *y_at,  \
                              long n, float *c) {                                                            \
        R##rows(ROW_ZERO) for (long m = 0; m < n; m++) {                                                     \
            const float *from = x + x_at[m] * step;                                                          \
            vf b0 = ld(y + y_at[m]), b1 = ld(y + y_at[m] + LANES);                                           \
            R##rows(GRAD_STEP)                                                                               \
        }                                                                                                    \
        R##rows(ROW_ADD) R##rows(ROW_OUT)                                                                    \
    }
typedef void grad_tile_fn(const float *x, const long *x_at, long step, const float *y, const int *y_at,
                          long n, float *c);
/* Only the heights that the kernels below need: GRAD_ROWS is a mask that the emitter sets. */
#if GRAD_ROWS & 2
GRAD_TILE(1)
#endif
#if GRAD_ROWS & 4
GRAD_TILE(2)
#endif
#if GRAD_ROWS & 8
GRAD_TILE(3)
#endif
#if GRAD_ROWS & 16
GRAD_TILE(4)
#endif
#if GRAD_ROWS & 32
GRAD_TILE(5)
#endif
#if GRAD_ROWS & 64
GRAD_TILE(6)
#endif
#if GRAD_ROWS & 128
GRAD_TILE(7)
#endif
#if GRAD_ROWS & 256
GRAD_TILE(8)
#endif
static grad_tile_fn *const grad_tiles[] __attribute__((unused)) = {
    0,
#if GRAD_ROWS & 2
    [1] = grad_tile_1,
#endif
#if GRAD_ROWS & 4
    [2] = grad_tile_2,
#endif
#if GRAD_ROWS & 8
    [3] = grad_tile_3,
#endif
#if GRAD_ROWS & 16
    [4] = grad_tile_4,
#endif
#if GRAD_ROWS & 32
    [5] = grad_tile_5,
#endif
#if GRAD_ROWS & 64
    [6] = grad_tile_6,
#endif
#if GRAD_ROWS & 128
    [7] = grad_tile_7,
#endif
#if GRAD_ROWS & 256
    [8] = grad_tile_8,
#endif
};

enum { PACK_AT_ONCE = 16, LINE = 16 }; /* positions; floats of a cache line */

/* Positions of the block that lie in one line along W: x's first before the tap, which may lie outside. */
struct grad_line {
    long x;
    int at[3], from, n;
};
struct grad_scratch {
    /* of the block's positions: number in dy and, before the tap, in x */
    long y_pos[M_BLOCK], x_pos[M_BLOCK];
    struct grad_line line[M_BLOCK];
    /* those that a group's taps reach: where in packed dy, in x and in packed x */
    int y_at[M_BLOCK];
    long x_at[M_BLOCK], order[M_BLOCK];
    long lines;
    /* x [row block][M_BLOCK][GRAD_HEIGHT], dy [panel][M_BLOCK][PANEL], sums [group][panel][row][PANEL] */
    float data[] __attribute__((aligned(64)));
};
/* The block of a unit. */
struct grad_block {
    long group, row, rows, panel, panels;
};

/* Where the rows of x do not fall into whole tiles: few channels with their taps, odd parts of a cat. */
UNUSED void pack_x_slowly(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                          const struct grad_block *b, long from, long to) {
    long row = -b->row;
    for (long tap = 0; tap < s->run; tap++)
        for (long q = 0; q < s->nx; q++) {
            long channels = s->x[q].channels;
            struct array x = from_element(PART_OF(arg, s->x[q]), tap * channels);
            for (long m = from; m < to; m++)
                for (long c = row < 0 ? -row : 0; c < channels && row + c < b->rows; c++) {
                    long r = row + c;
                    t->data[r / GRAD_HEIGHT * GRAD_HEIGHT * M_BLOCK + m * GRAD_HEIGHT + r % GRAD_HEIGHT] =
                        element(x, t->x_at[m] * channels + c);
                }
            row += channels;
        }
}

#if HALVES
/* GRAD_HEIGHT elements of 16 bits as floats, in vectors of LANES, of which they may be half. */
#if GRAD_HEIGHT == LANES
#define FIRST_OF(h) (h)
#define TILE_OF(v)  (v)
#else
#define FIRST_OF(h) __builtin_shufflevector(h, h, LOWER, LOWER)
#define TILE_OF(v)  __builtin_shufflevector(v, v, LOWER)
#endif
typedef unsigned short vh_grad_any __attribute__((vector_size(GRAD_HEIGHT * 2), aligned(2), may_alias));
typedef float vf_grad_any __attribute__((vector_size(GRAD_HEIGHT * 4), aligned(4), may_alias));
#define COPY_ROWS(T)                                                                                         \
    INLINE void copy_rows_##T(const T *x, float *to) {                                                       \
        vh_grad_any h = *(const vh_grad_any *)x;                                                             \
        vf v = widen_##T(FIRST_OF(h));                                                                       \
        *(vf_grad_any *)to = TILE_OF(v);                                                                     \
    }
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

INLINE void pack_x(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                   const struct grad_block *b, long n) {
    long row = -b->row, last = (long)s->batch * s->in[0] * s->in[1] * s->in[2];
    int whole = 1;
    for (long q = 0; q < s->nx; q++) whole &= s->x[q].channels % GRAD_HEIGHT == 0;
    if (s->run > 1 && s->nx == 1) { /* neighbouring taps are neighbours in memory */
        for (long m = 0; m < n; m++) {
            if (t->x_at[m] + s->run + GRAD_HEIGHT > last) { /* would be read beyond its end */
                pack_x_slowly(s, arg, t, b, m, m + 1);
                continue;
            }
            for (long r = 0; r < s->rows; r += GRAD_HEIGHT)
                copy_rows(PART_OF(arg, s->x[0]), t->x_at[m] * s->channels + r,
                          t->data + r * M_BLOCK + m * GRAD_HEIGHT);
        }
        return;
    }
    if (s->run > 1 || !whole) {
        pack_x_slowly(s, arg, t, b, 0, n);
        return;
    }
    for (long q = 0; q < s->nx; row += s->x[q++].channels) {
        long channels = s->x[q].channels, first = row < 0 ? -row : 0,
             end = row + channels < b->rows ? channels : b->rows - row;
        struct array x = PART_OF(arg, s->x[q]);
        /* Some positions at a time: tiles lie a page apart, and one position writes half a line of each. The
         * next ones are fetched meanwhile. */
        for (long m = 0; m < n; m += PACK_AT_ONCE)
            for (long c = first; c < end; c += GRAD_HEIGHT) {
                for (long i = m + PACK_AT_ONCE; c % LINE == 0 && i < n && i < m + 2 * PACK_AT_ONCE; i++)
                    __builtin_prefetch(from_element(x, t->x_at[i] * channels + c).at);
                float *to = t->data + (row + c) * M_BLOCK + m * GRAD_HEIGHT;
                for (long i = m; i < n && i < m + PACK_AT_ONCE; i++, to += GRAD_HEIGHT)
                    copy_rows(x, t->x_at[i] * channels + c, to);
            }
    }
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

/* Where a unit's data lie behind its scratch. */
INLINE float *packed_y(const struct weight_gradient *s, struct grad_scratch *t) {
    return t->data +
           (s->direct ? 0 : (long)(s->unit_rows + GRAD_HEIGHT - 1) / GRAD_HEIGHT * GRAD_HEIGHT * M_BLOCK);
}
INLINE float *unit_sums(const struct weight_gradient *s, struct grad_scratch *t) {
    return packed_y(s, t) + (long)s->unit_panels * M_BLOCK * PANEL;
}
INLINE long block_size(const struct weight_gradient *s) {
    return (long)s->unit_groups * s->unit_panels * s->unit_rows * PANEL;
}

/* One position of whose taps along W only some lie inside, w the first one's. What lies outside is not there
 * at all: a zero in its place would make an infinity of dy's NaN. */
UNUSED void sum_edge(const struct weight_gradient *s, char *const *arg, const float *y,
                     const struct grad_block *b, long x_at, long w, float *sum) {
    long tap = w < 0 ? -w : 0, end = s->in[2] - w < s->run ? s->in[2] - w : s->run;
    for (float *to = sum + tap * s->channels * PANEL; tap < end; tap++)
        for (long q = 0; q < s->nx; q++) {
            long channels = s->x[q].channels;
            struct array x = from_element(PART_OF(arg, s->x[q]), (x_at + tap) * channels);
            for (long c = 0; c < channels; c++, to += PANEL)
                for (long p = 0; p < b->panels; p++)
                    for (long i = 0; i < PANEL; i += LANES) {
                        float *at = to + p * s->unit_rows * PANEL + i;
                        st(at, ld(at) + splat(element(x, c)) * ld(y + p * M_BLOCK * PANEL + i));
                    }
        }
}

/* The positions of the block that reach inside the input with all taps of a group whose first lies k away;
 * those of whose taps only some lie inside are summed at once. */
INLINE long reach(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                  const struct grad_block *b, const int k[3], float *sum) {
    const float *y = packed_y(s, t);
    long some = 0, by = ((long)k[0] * s->in[1] + k[1]) * s->in[2] + k[2], step = s->scale[2];
    for (const struct grad_line *l = t->line; l < t->line + t->lines; l++) {
        if ((unsigned)(l->at[0] + k[0]) >= (unsigned)s->in[0]) continue;
        if ((unsigned)(l->at[1] + k[1]) >= (unsigned)s->in[1]) continue;
        long x = l->x + by, w = l->at[2] + k[2], m = l->from, end = m + l->n;
        for (; m < end && w < 0; m++, x += step, w += step) sum_edge(s, arg, y + m * PANEL, b, x, w, sum);
        for (; m < end && w + s->run <= s->in[2]; m++, x += step, w += step)
            t->y_at[some] = (int)m * PANEL, t->x_at[some++] = x;
        for (; m < end && w < s->in[2]; m++, x += step, w += step)
            sum_edge(s, arg, y + m * PANEL, b, x, w, sum);
    }
    return some;
}

/* Fetches into the second cache what lies n positions behind the block's position m: dy, and x where
 * positions follow each other as dy's do. Asked for between tiles, it comes while those compute. */
INLINE void fetch_behind(const struct weight_gradient *s, char *const *arg, const struct grad_scratch *t,
                         const struct grad_block *b, long m, long n) {
    if (s->ny == 1) {
        struct array y = from_element(PART_OF(arg, *s->y), (t->y_pos[m] + n) * s->y->channels);
        for (long i = b->panel * PANEL; i < (b->panel + b->panels) * PANEL; i += LINE)
            __builtin_prefetch(from_element(y, i).at, 0, 2);
    }
    if (s->nx == 1 && s->run == 1) {
        struct array x = from_element(PART_OF(arg, *s->x), (t->x_pos[m] + n) * s->channels);
        for (long i = b->row; i < b->row + b->rows; i += LINE)
            __builtin_prefetch(from_element(x, i).at, 0, 2);
    }
}

/* Adds n positions to sum[group][panel][row][PANEL]. */
UNUSED void sum_block(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                      const struct grad_block *b, long n, float *sum) {
    int groups_w = s->kernel[2] / s->run;
    long tiles = s->unit_groups * b->panels * ((b->rows + s->height - 1) / s->height), tile = 0, fetched = 0;
    float *y = packed_y(s, t);
    pack_y(s, arg, t, b, n, y);
    for (int g = (int)b->group; g < b->group + s->unit_groups; g++) {
        int k[3] = {g / (groups_w * s->kernel[1]) * s->dilation[0],
                    g / groups_w % s->kernel[1] * s->dilation[1], g % groups_w * s->dilation[2]};
        long some = reach(s, arg, t, b, k, sum);
        if (some && !s->direct) pack_x(s, arg, t, b, some);
        for (long p = 0; p < b->panels && some; p++)
            for (long r = 0; r < b->rows; r += s->height) {
                grad_tile_fn *add = grad_tiles[b->rows - r < s->height ? b->rows - r : s->height];
                float *to = sum + (p * s->unit_rows + r) * PANEL, *yp = y + p * M_BLOCK * PANEL;
                if (s->direct)
                    add((const float *)arg[s->x->arg] + b->row + r, t->x_at, s->channels, yp, t->y_at, some,
                        to);
                else
                    add(t->data + r * M_BLOCK, t->order, GRAD_HEIGHT, yp, t->y_at, some, to);
                for (tile++; fetched * tiles < tile * n; fetched++) fetch_behind(s, arg, t, b, fetched, n);
            }
        sum += (long)s->unit_panels * s->unit_rows * PANEL;
    }
}

/* The sums of a block over dy's positions from `from` to `to`. */
UNUSED void sum_positions(const struct weight_gradient *s, char *const *arg, const struct grad_block *b,
                          long from, long to, struct grad_scratch *t, float *sum) {
    int per_d = s->kernel[2] / s->run * s->kernel[1], kd = (int)b->group / per_d * s->dilation[0],
        one_d = s->unit_groups <= per_d;
    int at[4]; /* of dy: batch, D, H, W */
    long rest = from, n = 0;
    __builtin_memset(sum, 0, sizeof(float) * (unsigned long)block_size(s));
    if (from == to) return;
    for (int i = 2; i >= 0; i--) at[1 + i] = (int)(rest % s->out[i]), rest /= s->out[i];
    at[0] = (int)rest;
    for (int m = 0; m < M_BLOCK; m++) t->order[m] = m;
    t->lines = 0;
    while (from < to) { /* line by line along W */
        int d = at[1] * s->scale[0] - s->pad[0], h = at[2] * s->scale[1] - s->pad[1];
        long end = from + s->out[2] - at[3] < to ? from + s->out[2] - at[3] : to;
        if (one_d && (unsigned)(d + kd) >= (unsigned)s->in[0]) from = end;
        long x = (((long)at[0] * s->in[0] + d) * s->in[1] + h) * s->in[2];
        int w = at[3] * s->scale[2] - s->pad[2];
        while (from < end) {
            long some = end - from < M_BLOCK - n ? end - from : M_BLOCK - n;
            t->line[t->lines++] = (struct grad_line){x + w, {d, h, w}, (int)n, (int)some};
            for (; some; some--, w += s->scale[2]) t->y_pos[n] = from++, t->x_pos[n++] = x + w;
            if (n == M_BLOCK) sum_block(s, arg, t, b, n, sum), n = t->lines = 0;
        }
        at[3] = 0;
        if (++at[2] == s->out[1] && (at[2] = 0, ++at[1] == s->out[0])) at[1] = 0, at[0]++;
    }
    if (n) sum_block(s, arg, t, b, n, sum);
}

INLINE long count_blocks(int all, int unit) { return (all + unit - 1) / unit; }

/* Blocks: groups, then panels, then rows. */
INLINE struct grad_block block_of(const struct weight_gradient *s, long number) {
    long rows = count_blocks(s->rows, s->unit_rows), panels = count_blocks(s->panels, s->unit_panels);
    struct grad_block b = {.group = number / (rows * panels) * s->unit_groups,
                           .row = number % rows * s->unit_rows,
                           .panel = number / rows % panels * s->unit_panels};
    b.rows = s->rows - b.row < s->unit_rows ? s->rows - b.row : s->unit_rows;
    b.panels = s->panels - b.panel < s->unit_panels ? s->panels - b.panel : s->unit_panels;
    return b;
}

UNUSED void finish_block(const struct weight_gradient *s, char *const *arg, const struct grad_block *b,
                         const float *sum, block_fn *finish) {
    long at_once = s->across ? 1 : b->rows; /* as they lie in memory */
    for (long g = 0; g < s->unit_groups; g++)
        for (long r = 0; r < b->rows; r += at_once)
            for (long p = 0; p < b->panels; p++)
                finish(arg, b->group + g, b->panel + p, b->row + r, at_once,
                       sum + ((g * s->unit_panels + p) * s->unit_rows + r) * PANEL);
}

/* A share of a block's positions: into the workspace, [block][share]; all of them: finished at once. */
UNUSED void gradient_unit(const struct weight_gradient *s, char *const *arg, long unit, char *scratch,
                          char *workspace, block_fn *finish) {
    struct grad_scratch *t = (void *)scratch;
    struct grad_block b = block_of(s, unit / s->shares);
    long share = unit % s->shares, all = (long)s->batch * s->out[0] * s->out[1] * s->out[2];
    float *sum = s->shares > 1 ? (float *)workspace + unit * block_size(s) : unit_sums(s, t);
    sum_positions(s, arg, &b, share * all / s->shares, (share + 1) * all / s->shares, t, sum);
    if (s->shares == 1) finish_block(s, arg, &b, sum, finish);
}

/* Adds a block's shares, in their order. */
UNUSED void gradient_shares(const struct weight_gradient *s, char *const *arg, long unit, char *scratch,
                            const char *workspace, block_fn *finish) {
    struct grad_block b = block_of(s, unit);
    long size = block_size(s);
    const float *from = (const float *)workspace + unit * s->shares * size;
    float *sum = (float *)scratch;
    for (long i = 0; i < size; i += LANES) {
        vf v = ld(from + i);
        for (long share = 1; share < s->shares; share++) v += ld(from + share * size + i);
        st(sum + i, v);
    }
    finish_block(s, arg, &b, sum, finish);
}
