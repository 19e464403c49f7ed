/* Goes behind the prelude where a source holds contractions: the register tile and the loops around it.
 *
 * A tile is TILE_ROWS output positions by PANEL output channels, held in registers: TILE_ROWS x 2 vectors. Each row of
 * the tile has a pointer of its own to the channels it reads, so that one tile serves convolutions, their input
 * gradients (by parity of the position) and cat operands: padding is a pointer to zeros, a tap is an offset. */
struct tap {
    int w;       /* position in the weight's taps */
    int at[3];   /* displacement of the input */
};
struct part { /* operands that lie side by side along the channels */
    int arg, channels;
};
/* Output positions out = step * j + shift, j < count, that share their taps: all of a convolution's, or one parity of an
 * input gradient's. Input position: scale * j + tap. */
struct positions {
    int count[3], step[3], shift[3], first_tap, taps;
};
struct contraction {
    int batch, in[3], out[3], scale[3];
    int channels;    /* of the result */
    int reduced;     /* channels summed over */
    int columns;     /* panels of result channels */
    int weight, weight_taps, weight_start; /* argument; its taps; first panel used (conv) */
    int weight_channels; /* second axis of the weight */
    int nparts, npositions;
    const struct part *part;
    const struct positions *positions;
    const struct tap *taps;
};
/* The rest of a kernel at one output position: `acc` has the sums of `n` channels from `channel` on. */
typedef void point_fn(char *const *arg, const float *acc, const long at[4], long channel, long n, float *sums);

#if TILE_ROWS == 8
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define ROWS(X) X(0) X(1) X(2) X(3)
#endif
#define ROW_IN(r)                                                                                                    \
    const float *a##r = a[r];                                                                                        \
    vf c##r##0 = ld(c + r * PANEL), c##r##1 = ld(c + r * PANEL + LANES);
#define ROW_STEP(r)                                                                                                  \
    {                                                                                                                \
        vf x = splat(a##r[k]);                                                                                       \
        c##r##0 += x * b0, c##r##1 += x * b1;                                                                        \
    }
#define ROW_OUT(r) st(c + r * PANEL, c##r##0), st(c + r * PANEL + LANES, c##r##1);

/* c[TILE_ROWS][PANEL] += a[row][k] * b[k][PANEL], k < n */
static __attribute__((noinline, unused)) void tile(const float *const *a, const float *b, long n, float *c) {
    ROWS(ROW_IN)
    for (long k = 0; k < n; k++, b += PANEL) {
        vf b0 = ld(b), b1 = ld(b + LANES);
        ROWS(ROW_STEP)
    }
    ROWS(ROW_OUT)
}

struct row {
    int at[3]; /* input position before the tap, may lie outside */
    int base;  /* index of that position in the whole input, batch included */
    int out[4];
};

UNUSED long fill_rows(const struct contraction *s, const struct positions *p, long from, struct row *row, long most) {
    long all = (long)s->batch * p->count[0] * p->count[1] * p->count[2], n = all - from < most ? all - from : most;
    long w = from % p->count[2], h = from / p->count[2] % p->count[1];
    long d = from / ((long)p->count[2] * p->count[1]) % p->count[0], b = from / ((long)p->count[2] * p->count[1] * p->count[0]);
    for (long i = 0; i < n; i++) {
        long j[3] = {d, h, w};
        for (int k = 0; k < 3; k++) {
            row[i].at[k] = (int)j[k] * s->scale[k];
            row[i].out[1 + k] = (int)j[k] * p->step[k] + p->shift[k];
        }
        row[i].out[0] = (int)b;
        row[i].base = (((int)b * s->in[0] + row[i].at[0]) * s->in[1] + row[i].at[1]) * s->in[2] + row[i].at[2];
        if (++w == p->count[2] && (w = 0, ++h == p->count[1]) && (h = 0, ++d == p->count[0])) d = 0, b++;
    }
    return n;
}

INLINE int inside(const struct contraction *s, const struct row *row, const struct tap *tap) {
    return (unsigned)(row->at[0] + tap->at[0]) < (unsigned)s->in[0] && (unsigned)(row->at[1] + tap->at[1]) < (unsigned)s->in[1] &&
           (unsigned)(row->at[2] + tap->at[2]) < (unsigned)s->in[2];
}

static const float zeros[K_BLOCK] __attribute__((aligned(64), unused));

/* One tap and reduction slice for all rows of a block. */
UNUSED void tap_rows(const struct contraction *s, const struct row *row, long n, const struct tap *tap, const float *x,
                     long channels, long k0, long nk, const float *b, float *acc) {
    long by = ((long)tap->at[0] * s->in[1] + tap->at[1]) * s->in[2] + tap->at[2];
    for (long r = 0; r < n; r += TILE_ROWS) {
        const float *a[TILE_ROWS];
        int some = 0;
        for (int i = 0; i < TILE_ROWS; i++) {
            int use = r + i < n && inside(s, row + r + i, tap);
            some |= use;
            a[i] = use ? x + (row[r + i].base + by) * channels + k0 : zeros;
        }
        if (some) tile(a, b, nk, acc + r * PANEL);
    }
}

UNUSED void finish_rows(const struct contraction *s, char *const *arg, const struct row *row, long n, const float *acc,
                        long column, point_fn *point, float *sums) {
    long channel = column * PANEL, m = s->channels - channel < PANEL ? s->channels - channel : PANEL;
    for (long i = 0; i < n; i++) {
        long at[4] = {row[i].out[0], row[i].out[1], row[i].out[2], row[i].out[3]};
        point(arg, acc + i * PANEL, at, channel, m, sums);
    }
}

/* The weight panel of a convolution for (column, tap, channel): already in order. */
INLINE const float *panel_at(const struct contraction *s, const float *w, long column, long tap, long k) {
    return w + (((s->weight_start + column) * s->weight_taps + tap) * s->weight_channels + k) * PANEL;
}

/* b[k][lane] = weight[o = o0 + k][tap][channel = c0 + lane]: panels hold the weight by o, here channels lie along lanes. */
UNUSED void turn_panel(const struct contraction *s, const float *w, long tap, long c0, long o0, long n, float *b) {
    long channels = s->weight_channels, m = channels - c0 < PANEL ? channels - c0 : PANEL;
    for (long k = 0; k < n;) {
        long o = o0 + k, in = o % PANEL, run = PANEL - in < n - k ? PANEL - in : n - k;
        const float *from = w + ((o / PANEL * s->weight_taps + tap) * channels + c0) * PANEL + in;
        for (long i = 0; i < run; i++) {
            float *to = b + (k + i) * PANEL;
            for (long c = 0; c < m; c++) to[c] = from[c * PANEL + i];
            for (long c = m; c < PANEL; c++) to[c] = 0;
        }
        k += run;
    }
}

struct rows_scratch {
    float acc[ROW_BLOCK * PANEL], b[K_BLOCK * PANEL];
    struct row row[ROW_BLOCK];
};

INLINE void unit_of(const struct contraction *s, long unit, long *which, long *column, long *from) {
    *which = 0;
    for (;; ++*which) { /* units: positions, then columns, then row blocks */
        const struct positions *p = s->positions + *which;
        long rows = (long)s->batch * p->count[0] * p->count[1] * p->count[2], blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK;
        if (unit < blocks * s->columns) {
            *column = unit / blocks, *from = unit % blocks * ROW_BLOCK;
            return;
        }
        unit -= blocks * s->columns;
    }
}

/* A block of rows by one column of panels. `turned`: the weight is read across its panels (input gradients). */
INLINE void rows_unit(const struct contraction *s, char *const *arg, const float *w, int turned, long unit, char *scratch,
                      point_fn *point, float *sums) {
    struct rows_scratch *t = (void *)scratch;
    long which, column, from;
    unit_of(s, unit, &which, &column, &from);
    const struct positions *p = s->positions + which;
    long n = fill_rows(s, p, from, t->row, ROW_BLOCK), whole = (n + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    __builtin_memset(t->acc, 0, sizeof(float) * (unsigned long)(whole * PANEL));
    for (long i = 0; i < p->taps; i++) {
        const struct tap *tap = s->taps + p->first_tap + i;
        int some = 0;
        for (long r = 0; r < n && !some; r++) some = inside(s, t->row + r, tap);
        if (!some) continue;
        for (long q = 0, start = 0; q < s->nparts; start += s->part[q++].channels) {
            const float *x = (const float *)arg[s->part[q].arg];
            long channels = s->part[q].channels;
            for (long k = 0; k < channels; k += K_BLOCK) {
                long nk = channels - k < K_BLOCK ? channels - k : K_BLOCK;
                const float *b = t->b;
                if (turned)
                    turn_panel(s, w, tap->w, column * PANEL, start + k, nk, t->b);
                else
                    b = panel_at(s, w, column, tap->w, start + k);
                tap_rows(s, t->row, n, tap, x, channels, k, nk, b, t->acc);
            }
        }
    }
    finish_rows(s, arg, t->row, n, t->acc, column, point, sums);
}

/* Few channels: the taps of PACK_ROWS positions are gathered into rows, then all is one reduction. */
INLINE void gathered_unit(const struct contraction *s, char *const *arg, const float *w, long unit, char *scratch,
                          point_fn *point, float *sums) {
    struct row *row = (void *)scratch;
    float *acc = (float *)(row + PACK_ROWS), *a = acc + PACK_ROWS * PANEL;
    const struct positions *p = s->positions;
    long n = fill_rows(s, p, unit * PACK_ROWS, row, PACK_ROWS), channels = s->part[0].channels, nk = p->taps * channels;
    const float *x = (const float *)arg[s->part[0].arg];
    for (long r = 0; r < n; r++) {
        float *to = a + r * nk;
        for (long i = 0; i < p->taps; i++, to += channels) {
            const struct tap *tap = s->taps + i;
            long by = ((long)tap->at[0] * s->in[1] + tap->at[1]) * s->in[2] + tap->at[2];
            if (inside(s, row + r, tap))
                for (long c = 0; c < channels; c++) to[c] = x[(row[r].base + by) * channels + c];
            else
                for (long c = 0; c < channels; c++) to[c] = 0;
        }
    }
    for (long column = 0; column < s->columns; column++) {
        __builtin_memset(acc, 0, sizeof(float) * PACK_ROWS * PANEL);
        for (long r = 0; r < n; r += TILE_ROWS) {
            const float *rows[TILE_ROWS];
            for (int i = 0; i < TILE_ROWS; i++) rows[i] = a + (r + i < n ? r + i : r) * nk;
            tile(rows, panel_at(s, w, column, 0, 0), nk, acc + r * PANEL);
        }
        finish_rows(s, arg, row, n, acc, column, point, sums);
    }
}

/* ---- weight gradients ---- */
struct weight_gradient {
    int batch, in[3], out[3], scale[3], pad[3], kernel[3];
    int nx, ny; /* parts of x (channels summed into rows) and of dy (lanes) */
    const struct part *x, *y;
    int channels, rows_out; /* second and first axis of the weight */
};

#define GRAD_IN(r)  vf c##r##0 = ld(c + r * PANEL), c##r##1 = ld(c + r * PANEL + LANES);
#define GRAD_STEP(r)                                                                                                 \
    {                                                                                                                \
        vf v = splat(xm[r]);                                                                                         \
        c##r##0 += v * b0, c##r##1 += v * b1;                                                                        \
    }
#define R1(X) X(0)
#define R2(X) R1(X) X(1)
#define R3(X) R2(X) X(2)
#define R4(X) R3(X) X(3)
#define R5(X) R4(X) X(4)
#define R6(X) R5(X) X(5)
#define R7(X) R6(X) X(6)
#define R8(X) R7(X) X(7)
/* c[rows][PANEL] += x[xo[m] + row] * y[yo[m] + lane], m < n; `part`: y has fewer than PANEL lanes left */
#define GRAD_TILE(n_rows)                                                                                            \
    static __attribute__((noinline, unused)) void grad_tile_##n_rows(const float *x, const float *y, const int *xo,  \
                                                                     const int *yo, long n, float *c) {              \
        R##n_rows(GRAD_IN) for (long m = 0; m < n; m++) {                                                            \
            const float *xm = x + xo[m], *ym = y + yo[m];                                                            \
            vf b0 = ld(ym), b1 = ld(ym + LANES);                                                                     \
            R##n_rows(GRAD_STEP)                                                                                     \
        }                                                                                                            \
        R##n_rows(ROW_OUT)                                                                                           \
    }
GRAD_TILE(1) GRAD_TILE(2) GRAD_TILE(3) GRAD_TILE(4)
#if TILE_ROWS == 8
GRAD_TILE(5) GRAD_TILE(6) GRAD_TILE(7) GRAD_TILE(8)
#endif

typedef void grad_tile_fn(const float *x, const float *y, const int *xo, const int *yo, long n, float *c);
static grad_tile_fn *const grad_tiles[] __attribute__((unused)) = {0, grad_tile_1, grad_tile_2, grad_tile_3, grad_tile_4,
#if TILE_ROWS == 8
                                                               grad_tile_5, grad_tile_6, grad_tile_7, grad_tile_8
#endif
};

struct grad_scratch {
    int xo[M_BLOCK], yo[M_BLOCK];
    float y[M_BLOCK * PANEL]; /* lanes of dy, where the last panel is not full */
};

INLINE void sum_block(const struct weight_gradient *s, char *const *arg, const float *y, struct grad_scratch *t,
                      const int *positions, long n, float *acc) {
    long row = 0;
    for (long q = 0; q < s->nx; q++) {
        const float *x = (const float *)arg[s->x[q].arg];
        long channels = s->x[q].channels;
        for (long m = 0; m < n; m++) t->xo[m] = positions[m] * (int)channels;
        for (long c = 0; c < channels; c += TILE_ROWS) {
            long rows = channels - c < TILE_ROWS ? channels - c : TILE_ROWS;
            grad_tiles[rows](x + c, y, t->xo, t->yo, n, acc + (row + c) * PANEL);
        }
        row += channels;
    }
}

/* acc[channels][PANEL] = the gradient of panel (unit / taps) at tap (unit % taps). */
INLINE void gradient_unit(const struct weight_gradient *s, char *const *arg, long unit, char *scratch, float *acc) {
    struct grad_scratch *t = (void *)scratch;
    int positions[M_BLOCK];
    long taps = (long)s->kernel[0] * s->kernel[1] * s->kernel[2], tap = unit % taps, lane = unit / taps * PANEL;
    long k[3] = {tap / (s->kernel[1] * s->kernel[2]), tap / s->kernel[2] % s->kernel[1], tap % s->kernel[2]};
    long q = 0;
    while (lane >= s->y[q].channels) lane -= s->y[q++].channels;
    const float *y = (const float *)arg[s->y[q].arg] + lane;
    long stride = s->y[q].channels, lanes = stride - lane < PANEL ? stride - lane : PANEL, n = 0;
    __builtin_memset(acc, 0, sizeof(float) * (unsigned long)(s->channels * PANEL));
    for (long b = 0; b < s->batch; b++)
        for (long d = 0; d < s->out[0]; d++) {
            long xd = d * s->scale[0] + k[0] - s->pad[0];
            if ((unsigned long)xd >= (unsigned long)s->in[0]) continue;
            for (long h = 0; h < s->out[1]; h++) {
                long xh = h * s->scale[1] + k[1] - s->pad[1];
                if ((unsigned long)xh >= (unsigned long)s->in[1]) continue;
                for (long w = 0; w < s->out[2]; w++) {
                    long xw = w * s->scale[2] + k[2] - s->pad[2];
                    if ((unsigned long)xw >= (unsigned long)s->in[2]) continue;
                    long at = ((b * s->out[0] + d) * s->out[1] + h) * s->out[2] + w;
                    positions[n] = (int)(((b * s->in[0] + xd) * s->in[1] + xh) * s->in[2] + xw);
                    if (lanes == PANEL) {
                        t->yo[n] = (int)(at * stride);
                    } else {
                        for (long i = 0; i < PANEL; i++) t->y[n * PANEL + i] = i < lanes ? y[at * stride + i] : 0;
                        t->yo[n] = (int)(n * PANEL);
                    }
                    if (++n == M_BLOCK) sum_block(s, arg, lanes == PANEL ? y : t->y, t, positions, n, acc), n = 0;
                }
            }
        }
    if (n) sum_block(s, arg, lanes == PANEL ? y : t->y, t, positions, n, acc);
}
