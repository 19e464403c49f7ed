/* Goes behind the prelude where a source holds contractions: the register tile and the loops around it.
 *
 * A tile is TILE_ROWS output positions by PANEL output channels, held in registers: TILE_ROWS x 2 vectors.
 * Each row of the tile has a pointer of its own to the channels it reads, so that one tile serves
 * convolutions, their input gradients (by parity of the position) and cat operands: padding is a pointer to
 * zeros, a tap is an offset. */
struct tap {
    int w;     /* position in the weight's taps */
    int at[3]; /* displacement of the input */
};
struct part { /* operands that lie side by side along the channels */
    int arg, channels;
};
/* Output positions out = step * j + shift, j < count, that share their taps: all of a convolution's, or one
 * parity of an input gradient's. Input position: scale * j + tap. */
struct positions {
    int count[3], step[3], shift[3], first_tap, taps;
};
struct contraction {
    int batch, in[3], out[3], scale[3];
    int channels;                          /* of the result */
    int reduced;                           /* channels summed over */
    int columns;                           /* panels of result channels */
    int weight, weight_taps, weight_start; /* argument; its taps; first panel used (conv) */
    int weight_channels;                   /* second axis of the weight */
    int nparts, npositions;
    const struct part *part;
    const struct positions *positions;
    const struct tap *taps;
};
/* The rest of a kernel at one output position: `acc` has the sums of `n` channels from `channel` on. */
typedef void point_fn(char *const *arg, const float *acc, const long at[4], long channel, long n,
                      double *sums);

#if TILE_ROWS == 8
#define ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define ROWS(X) X(0) X(1) X(2) X(3)
#endif
#define ROW_AT(r) const float *a##r = a[r];
#define ROW_ZERO(r)                                                                                          \
    ROW_AT(r)                                                                                                \
    vf c##r##0 = {0}, c##r##1 = {0};
#define ROW_ON(r)                                                                                            \
    ROW_AT(r)                                                                                                \
    vf c##r##0 = ld(c + r * PANEL), c##r##1 = ld(c + r * PANEL + LANES);
#define ROW_STEP(r)                                                                                          \
    {                                                                                                        \
        vf x = splat(a##r[k]);                                                                               \
        c##r##0 += x * b0, c##r##1 += x * b1;                                                                \
    }
#define ROW_ADD(r)                                                                                           \
    st(c + r * PANEL, ld(c + r * PANEL) + c##r##0);                                                          \
    st(c + r * PANEL + LANES, ld(c + r * PANEL + LANES) + c##r##1);
#define ROW_OUT(r) st(c + r * PANEL, c##r##0), st(c + r * PANEL + LANES, c##r##1);

/* c[TILE_ROWS][PANEL] += a[row][k] * b[k][PANEL], k < n. Errors grow with the length of a chain of additions
 * and the number of chains, not with all terms: `tile` sums its slice by itself, from zero, and then adds it;
 * `tile_on` goes on with the chain in c, which is cheaper for short slices, and whose caller ends it in time
 * (end_chain). */
#define TILE(name, BEGIN, END)                                                                               \
    HOT void name(const float *const *a, const float *b, long n, float *c) {                                 \
        ROWS(BEGIN)                                                                                          \
        for (long k = 0; k < n; k++, b += PANEL) {                                                           \
            vf b0 = ld(b), b1 = ld(b + LANES);                                                               \
            ROWS(ROW_STEP)                                                                                   \
        }                                                                                                    \
        ROWS(END)                                                                                            \
    }
TILE(tile, ROW_ZERO, ROW_ADD)
TILE(tile_on, ROW_ON, ROW_OUT)

/* Adds a block's chains to its sums and begins new ones. */
HOT void end_chain(float *chain, float *sum, long n) {
    for (long i = 0; i < n; i += LANES) st(sum + i, ld(sum + i) + ld(chain + i)), st(chain + i, (vf){0});
}

/* Output positions of a block, by component: input position before the tap (may lie outside), its index in
 * the whole input, and the output position. */
struct rows {
    int at[3][ROW_BLOCK], base[ROW_BLOCK], out[4][ROW_BLOCK];
};
typedef int v_rows __attribute__((vector_size(TILE_ROWS * 4)));
typedef int v_rows_any __attribute__((vector_size(TILE_ROWS * 4), aligned(4), may_alias));
typedef unsigned u_rows __attribute__((vector_size(TILE_ROWS * 4)));
typedef long v_pointers __attribute__((vector_size(TILE_ROWS * 8)));

/* Rows from `from` on, at most `most`; filled up with outside ones to a whole tile. Returns how many there
 * are. */
UNUSED long fill_rows(const struct contraction *s, const struct positions *p, long from, struct rows *row,
                      long most) {
    long all = (long)s->batch * p->count[0] * p->count[1] * p->count[2],
         n = all - from < most ? all - from : most;
    long w = from % p->count[2], h = from / p->count[2] % p->count[1];
    long d = from / ((long)p->count[2] * p->count[1]) % p->count[0],
         b = from / ((long)p->count[2] * p->count[1] * p->count[0]);
    for (long i = 0; i < n; i++) {
        int j[3] = {(int)d, (int)h, (int)w};
        for (int k = 0; k < 3; k++) {
            row->at[k][i] = j[k] * s->scale[k];
            row->out[1 + k][i] = j[k] * p->step[k] + p->shift[k];
        }
        row->out[0][i] = (int)b;
        row->base[i] =
            (((int)b * s->in[0] + row->at[0][i]) * s->in[1] + row->at[1][i]) * s->in[2] + row->at[2][i];
        if (++w == p->count[2] && (w = 0, ++h == p->count[1]) && (h = 0, ++d == p->count[0])) d = 0, b++;
    }
    for (long i = n; i % TILE_ROWS; i++)
        row->at[0][i] = 1 << 30, row->at[1][i] = row->at[2][i] = row->base[i] = 0;
    return n;
}

static const float zeros[K_BLOCK] __attribute__((aligned(64), unused));

/* All-ones where rows r.. read inside the input at this tap. */
INLINE v_rows inside(const struct contraction *s, const struct rows *row, long r, const struct tap *tap) {
    v_rows in = {0};
    in = ~in;
    for (int k = 0; k < 3; k++) {
        v_rows at = *(const v_rows_any *)(row->at[k] + r) + tap->at[k];
        in &= (u_rows)at < (unsigned)s->in[k];
    }
    return in;
}

INLINE int any(v_rows m) {
    long x[TILE_ROWS / 2];
    *(v_rows_any *)x = m;
    long some = x[0] | x[1];
    for (int i = 2; i < TILE_ROWS / 2; i++) some |= x[i];
    return some != 0;
}

/* One tap and reduction slice for all rows of a block. */
HOT void tap_rows(const struct contraction *s, const struct rows *row, long n, const struct tap *tap,
                  const float *x, long channels, long k0, long nk, const float *b, float *acc, int on) {
    long by = ((long)tap->at[0] * s->in[1] + tap->at[1]) * s->in[2] + tap->at[2];
    const char *from = (const char *)(x + by * channels + k0);
    for (long r = 0; r < n; r += TILE_ROWS) {
        v_rows in = inside(s, row, r, tap);
        if (!any(in)) continue;
        v_pointers use = __builtin_convertvector(in, v_pointers);
        v_pointers at =
            __builtin_convertvector(*(const v_rows_any *)(row->base + r), v_pointers) * (channels * 4) +
            (long)from;
        const float *a[TILE_ROWS];
        at = (at & use) | ((long)zeros & ~use);
        __builtin_memcpy(a, &at, sizeof a);
        (on ? tile_on : tile)(a, b, nk, acc + r * PANEL);
    }
}

UNUSED void finish_rows(const struct contraction *s, char *const *arg, const struct rows *row, long n,
                        const float *acc, long column, point_fn *point, double *sums) {
    long channel = column * PANEL, m = s->channels - channel < PANEL ? s->channels - channel : PANEL;
    for (long i = 0; i < n; i++) {
        long at[4] = {row->out[0][i], row->out[1][i], row->out[2][i], row->out[3][i]};
        point(arg, acc + i * PANEL, at, channel, m, sums);
    }
}

/* The weight panel of a convolution for (column, tap, channel): already in order. */
INLINE const float *panel_at(const struct contraction *s, const float *w, long column, long tap, long k) {
    return w + (((s->weight_start + column) * s->weight_taps + tap) * s->weight_channels + k) * PANEL;
}

/* b[k][lane] = weight[o = o0 + k][tap][channel = c0 + lane]: panels hold the weight by o, here channels lie
 * along lanes. */
HOT void turn_panel(const struct contraction *s, const float *w, long tap, long c0, long o0, long n,
                    float *b) {
    long channels = s->weight_channels, m = channels - c0 < PANEL ? channels - c0 : PANEL;
    for (long k = 0; k < n;) {
        long o = o0 + k, in = o % PANEL, run = PANEL - in < n - k ? PANEL - in : n - k;
        const float *from = w + ((o / PANEL * s->weight_taps + tap) * channels + c0) * PANEL + in;
        if (run == PANEL && m == PANEL) {
            for (long c = 0; c < PANEL; c += LANES)
                for (long i = 0; i < PANEL; i += LANES)
                    turn_block(from + c * PANEL + i, PANEL, b + (k + i) * PANEL + c, PANEL);
            k += run;
            continue;
        }
        for (long i = 0; i < run; i++) {
            float *to = b + (k + i) * PANEL;
            for (long c = 0; c < m; c++) to[c] = from[c * PANEL + i];
            for (long c = m; c < PANEL; c++) to[c] = 0;
        }
        k += run;
    }
}

struct rows_scratch {
    float chain[ROW_BLOCK * PANEL], acc[ROW_BLOCK * PANEL], b[K_BLOCK * PANEL];
    struct rows row;
};

INLINE void unit_of(const struct contraction *s, long unit, long *which, long *column, long *from) {
    *which = 0;
    for (;; ++*which) { /* units: positions, then columns, then row blocks */
        const struct positions *p = s->positions + *which;
        long rows = (long)s->batch * p->count[0] * p->count[1] * p->count[2],
             blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK;
        if (unit < blocks * s->columns) {
            *column = unit / blocks, *from = unit % blocks * ROW_BLOCK;
            return;
        }
        unit -= blocks * s->columns;
    }
}

/* A block of rows by one column of panels. `turned`: the weight is read across its panels (input gradients).
 */
UNUSED void rows_unit(const struct contraction *s, char *const *arg, const float *w, int turned, long unit,
                      char *scratch, point_fn *point, double *sums) {
    struct rows_scratch *t = (void *)scratch;
    long which, column, from;
    unit_of(s, unit, &which, &column, &from);
    const struct positions *p = s->positions + which;
    long n = fill_rows(s, p, from, &t->row, ROW_BLOCK), whole = (n + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    __builtin_memset(t->acc, 0, sizeof(float) * (unsigned long)(whole * PANEL));
    __builtin_memset(t->chain, 0, sizeof(float) * (unsigned long)(whole * PANEL));
    long length = 0;
    for (long i = 0; i < p->taps; i++) {
        const struct tap *tap = s->taps + p->first_tap + i;
        int some = 0;
        for (long r = 0; r < n && !some; r += TILE_ROWS) some = any(inside(s, &t->row, r, tap));
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
                tap_rows(s, &t->row, n, tap, x, channels, k, nk, b, t->chain, 1);
                length += nk;
                if (length < CHAIN) continue;
                end_chain(t->chain, t->acc, whole * PANEL);
                length = 0;
            }
        }
    }
    end_chain(t->chain, t->acc, whole * PANEL);
    finish_rows(s, arg, &t->row, n, t->acc, column, point, sums);
}

/* Few channels: the taps of PACK_ROWS positions are gathered into rows, then all is one reduction. Taps that
 * are neighbours along W lie side by side in the input too: `run` of them are copied at a time, by vectors
 * that write past the run what the next one overwrites. */
struct gather_scratch {
    struct rows row;
    float acc[PACK_ROWS * PANEL], a[];
};

INLINE void gather_row(const struct contraction *s, const struct rows *row, long r, const float *x,
                       const float *end, long channels, long taps, long run, float *to) {
    for (long i = 0; i < taps; i += run, to += run * channels) {
        const struct tap *tap = s->taps + i;
        int w = row->at[2][r] + tap->at[2];
        int in = (unsigned)(row->at[0][r] + tap->at[0]) < (unsigned)s->in[0] &&
                 (unsigned)(row->at[1][r] + tap->at[1]) < (unsigned)s->in[1];
        const float *from =
            x +
            (row->base[r] + ((long)tap->at[0] * s->in[1] + tap->at[1]) * s->in[2] + tap->at[2]) * channels;
        if (in && w >= 0 && w + run <= s->in[2] && from + run * channels + LANES <= end) {
            for (long c = 0; c < run * channels; c += LANES) st(to + c, ld(from + c));
            continue;
        }
        for (long j = 0; j < run; j++)
            for (long c = 0; c < channels; c++)
                to[j * channels + c] =
                    in && (unsigned)(w + j) < (unsigned)s->in[2] ? from[j * channels + c] : 0;
    }
}

UNUSED void gathered_unit(const struct contraction *s, char *const *arg, const float *w, long run, long unit,
                          char *scratch, point_fn *point, double *sums) {
    struct gather_scratch *t = (void *)scratch;
    const struct positions *p = s->positions;
    long n = fill_rows(s, p, unit * PACK_ROWS, &t->row, PACK_ROWS), channels = s->part[0].channels,
         nk = p->taps * channels;
    const float *x = (const float *)arg[s->part[0].arg];
    const float *end = x + (long)s->batch * s->in[0] * s->in[1] * s->in[2] * channels;
    for (long r = 0; r < n; r++) gather_row(s, &t->row, r, x, end, channels, p->taps, run, t->a + r * nk);
    for (long column = 0; column < s->columns; column++) {
        __builtin_memset(t->acc, 0, sizeof t->acc);
        for (long r = 0; r < n; r += TILE_ROWS) {
            const float *rows[TILE_ROWS];
            for (int i = 0; i < TILE_ROWS; i++) rows[i] = t->a + (r + i < n ? r + i : r) * nk;
            const float *b = panel_at(s, w, column, 0, 0);
            for (long k = 0; k < nk; k += K_BLOCK, b += K_BLOCK * PANEL) {
                tile(rows, b, nk - k < K_BLOCK ? nk - k : K_BLOCK, t->acc + r * PANEL);
                for (int i = 0; i < TILE_ROWS; i++) rows[i] += K_BLOCK;
            }
        }
        finish_rows(s, arg, &t->row, n, t->acc, column, point, sums);
    }
}
