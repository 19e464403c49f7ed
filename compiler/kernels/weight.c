/* Weight gradients, behind contract.c.
 *
 * Taps go by groups: one tap, or, where x has few channels, all taps along W (they are neighbours in memory).
 * A unit is a few groups that differ in W (or H) only, and a few panels of O, over all positions; or, where
 * all sums together are small, all of these over a share of the positions, and the shares are added later.
 * Positions go by M_BLOCK: dy is packed into panels once a block, x into blocks of TILE_ROWS channels once a
 * group, so that the tile runs through L1 whatever the strides were. */
struct weight_gradient {
    int batch, in[3], out[3], scale[3], dilation[3], pad[3], kernel[3];
    int nx, ny; /* parts of x (channels: rows) and of dy (lanes) */
    const struct part *x, *y;
    int channels;            /* second axis of the weight */
    int run, rows;           /* taps a group, run * channels */
    int unit_groups;         /* groups a unit works on; they divide the groups that share a place along D */
    int panels, unit_panels; /* of O; those a unit works on */
};

#define GRAD_IN(r) vf c##r##0 = {0}, c##r##1 = {0};
#define GRAD_STEP(r)                                                                                         \
    {                                                                                                        \
        vf v = splat(x[r]);                                                                                  \
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
/* c[rows][PANEL] += x[m][row] * y[y_at[m]][lane], m < n; x in steps of TILE_ROWS */
#define GRAD_TILE(rows)                                                                                      \
    HOT void grad_tile_##rows(const float *x, const float *y, const int *y_at, long n, float *c) {           \
        R##rows(GRAD_IN) for (long m = 0; m < n; m++, x += TILE_ROWS) {                                      \
            vf b0 = ld(y + y_at[m]), b1 = ld(y + y_at[m] + LANES);                                           \
            R##rows(GRAD_STEP)                                                                               \
        }                                                                                                    \
        R##rows(ROW_ADD)                                                                                     \
    }
typedef void grad_tile_fn(const float *x, const float *y, const int *y_at, long n, float *c);
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

enum { PACK_AT_ONCE = 16 };

struct grad_scratch {
    /* positions of the block: number in dy and, before the tap (may lie outside), in x; there by component */
    int y_pos[M_BLOCK], x_pos[M_BLOCK], at[3][M_BLOCK];
    int y_at[M_BLOCK], x_at[M_BLOCK],
        x_w[M_BLOCK]; /* those that a group's taps reach: where in packed dy, in x, x's W */
    float data[]; /* x [row block][M_BLOCK][TILE_ROWS], dy [panel][M_BLOCK][PANEL], sums as in `sum` below */
};

/* Where the rows of x do not fall into whole blocks: few channels with their taps, odd parts of a cat. */
UNUSED void pack_x_slowly(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t,
                          long from, long to) {
    long row = 0;
    for (long tap = 0; tap < s->run; tap++)
        for (long q = 0; q < s->nx; q++) {
            long channels = s->x[q].channels;
            const float *x = (const float *)arg[s->x[q].arg] + tap * channels;
            for (long m = from; m < to; m++) {
                int in = (unsigned)(t->x_w[m] + (int)tap) < (unsigned)s->in[2];
                for (long c = 0; c < channels; c++) {
                    long r = row + c;
                    t->data[r / TILE_ROWS * TILE_ROWS * M_BLOCK + m * TILE_ROWS + r % TILE_ROWS] =
                        in ? x[(long)t->x_at[m] * channels + c] : 0;
                }
            }
            row += channels;
        }
}

INLINE void pack_x(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t, long n) {
    long row = 0, last = (long)s->batch * s->in[0] * s->in[1] * s->in[2];
    int whole = 1;
    for (long q = 0; q < s->nx; q++) whole &= s->x[q].channels % TILE_ROWS == 0;
    if (s->run > 1 && s->nx == 1) { /* neighbouring taps are neighbours in memory */
        for (long m = 0; m < n; m++) {
            if (t->x_w[m] < 0 || t->x_w[m] + s->run > s->in[2] || t->x_at[m] + s->run + TILE_ROWS > last) {
                pack_x_slowly(s, arg, t, m, m + 1);
                continue;
            }
            const float *from = (const float *)arg[s->x[0].arg] + (long)t->x_at[m] * s->channels;
            for (long r = 0; r < s->rows; r += TILE_ROWS)
                *(v_rows_any *)(t->data + r * M_BLOCK + m * TILE_ROWS) = *(const v_rows_any *)(from + r);
        }
        return;
    }
    if (s->run > 1 || !whole) {
        pack_x_slowly(s, arg, t, 0, n);
        return;
    }
    for (long q = 0; q < s->nx; row += s->x[q++].channels) {
        long channels = s->x[q].channels;
        const float *x = (const float *)arg[s->x[q].arg];
        /* Some positions at a time: row blocks lie a page apart, and one position writes half a line of each.
         */
        for (long m = 0; m < n; m += PACK_AT_ONCE)
            for (long c = 0; c < channels; c += TILE_ROWS) {
                float *to = t->data + (row + c) * M_BLOCK + m * TILE_ROWS;
                for (long i = m; i < n && i < m + PACK_AT_ONCE; i++, to += TILE_ROWS)
                    *(v_rows_any *)to = *(const v_rows_any *)(x + (long)t->x_at[i] * channels + c);
            }
    }
}

INLINE void pack_y(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t, long panel,
                   long n, float *to) {
    long lane = panel * PANEL, q = 0;
    while (lane >= s->y[q].channels) lane -= s->y[q++].channels;
    long stride = s->y[q].channels, lanes = stride - lane < PANEL ? stride - lane : PANEL;
    const float *y = (const float *)arg[s->y[q].arg] + lane;
    for (long m = 0; m < n; m++, to += PANEL) {
        for (long i = 0; i < PANEL; i += LANES) {
            const float *from = y + t->y_pos[m] * stride + i;
            st(to + i, lanes - i >= LANES ? ld(from) : lanes > i ? ld_part(from, lanes - i) : (vf){0});
        }
    }
}

/* The positions of the block that reach inside the input with a tap that lies k away. */
INLINE long reach(const struct weight_gradient *s, struct grad_scratch *t, const int k[3], long n) {
    long some = 0;
    int by = (k[0] * s->in[1] + k[1]) * s->in[2] + k[2];
    for (long m = 0; m < n; m++) {
        int w = t->at[2][m] + k[2];
        int in = ((unsigned)(t->at[0][m] + k[0]) < (unsigned)s->in[0]) &
                 ((unsigned)(t->at[1][m] + k[1]) < (unsigned)s->in[1]) & (w + s->run > 0) & (w < s->in[2]);
        t->y_at[some] = (int)m * PANEL;
        t->x_at[some] = t->x_pos[m] + by;
        t->x_w[some] = w;
        some += in;
    }
    return some;
}

/* Where a unit's data lie behind its scratch. */
INLINE float *packed_y(const struct weight_gradient *s, struct grad_scratch *t) {
    return t->data + (long)(s->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS * M_BLOCK;
}
INLINE float *unit_sums(const struct weight_gradient *s, struct grad_scratch *t) {
    return packed_y(s, t) + (long)s->unit_panels * M_BLOCK * PANEL;
}

/* Adds a block's n positions to sum[group][panel][rows][PANEL]. */
UNUSED void sum_block(const struct weight_gradient *s, char *const *arg, struct grad_scratch *t, long group,
                      long panel, long panels, long n, float *sum) {
    int groups_w = s->kernel[2] / s->run;
    float *y = packed_y(s, t);
    for (long p = 0; p < panels; p++) pack_y(s, arg, t, panel + p, n, y + p * M_BLOCK * PANEL);
    for (int g = (int)group; g < group + s->unit_groups; g++, sum += s->unit_panels * s->rows * PANEL) {
        int k[3] = {g / (groups_w * s->kernel[1]) * s->dilation[0],
                    g / groups_w % s->kernel[1] * s->dilation[1], g % groups_w * s->dilation[2]};
        long some = reach(s, t, k, n);
        if (!some) continue;
        pack_x(s, arg, t, some);
        for (long p = 0; p < panels; p++)
            for (long r = 0; r < s->rows; r += TILE_ROWS)
                grad_tiles[s->rows - r < TILE_ROWS ? s->rows - r : TILE_ROWS](
                    t->data + r * M_BLOCK, y + p * M_BLOCK * PANEL, t->y_at, some,
                    sum + (p * s->rows + r) * PANEL);
    }
}

/* The sums of groups group.. and panels panel.. over dy's lines along W from `line` to `last`, zeros
 * included. */
UNUSED void gradient_unit(const struct weight_gradient *s, char *const *arg, long group, long panel,
                          long panels, long line, long last, char *scratch, float *sum) {
    struct grad_scratch *t = (void *)scratch;
    int per_d = s->kernel[2] / s->run * s->kernel[1], kd = (int)group / per_d * s->dilation[0],
        one_d = s->unit_groups <= per_d;
    __builtin_memset(
        sum, 0, sizeof(float) * (unsigned long)((long)s->unit_groups * s->unit_panels * s->rows * PANEL));
    long n = 0;
    for (; line < last; line++) {
        int h = (int)(line % s->out[1]) * s->scale[1] - s->pad[1],
            d = (int)(line / s->out[1] % s->out[0]) * s->scale[0] - s->pad[0];
        if (one_d && (unsigned)(d + kd) >= (unsigned)s->in[0]) continue;
        int x = (((int)(line / s->out[1] / s->out[0]) * s->in[0] + d) * s->in[1] + h) * s->in[2];
        for (int i = 0; i < s->out[2]; i++) {
            int w = i * s->scale[2] - s->pad[2];
            t->y_pos[n] = (int)line * s->out[2] + i, t->x_pos[n] = x + w;
            t->at[0][n] = d, t->at[1][n] = h, t->at[2][n] = w;
            if (++n == M_BLOCK) sum_block(s, arg, t, group, panel, panels, n, sum), n = 0;
        }
    }
    if (n) sum_block(s, arg, t, group, panel, panels, n, sum);
}

/* What the shares [share][size] have at one place, in their order. */
INLINE vf add_shares(const float *from, long size, long shares) {
    vf sum = ld(from);
    for (long i = 1; i < shares; i++) sum += ld(from + i * size);
    return sum;
}
