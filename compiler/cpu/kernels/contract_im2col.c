/* im2col rows for few channels: the taps of PACK_ROWS positions, with bf16 pairs ROW_BLOCK, are
 * copied into rows, and then form one reduction. Taps that are adjacent along W are contiguous
 * in the input: `run` of them are copied at a time, by vectors that write past the run; the next
 * run overwrites this. Rows of bf16 pairs are copied unchanged, with zeros after the last
 * element up to whole vectors of pairs. */
struct im2col_scratch {
    struct rows row;
    float acc[PACK_ROWS * PANEL], a[];
};

INLINE void gather_vector(int pairs, struct array x, long from, float *row, long to) {
    IF_PAIRS(pairs, {
        *(vh_any *)((bf16 *)row + to) = *(const vh_any *)((const bf16 *)x.at + from);
        return;
    })
    (void)pairs;
    st(row + to, load(x, from));
}
/* Copies the element at `from`, or a zero. */
INLINE void im2col_element(int pairs, struct array x, long from, int there, float *row, long to) {
    IF_PAIRS(pairs, {
        ((bf16 *)row)[to] = there ? ((const bf16 *)x.at)[from] : 0;
        return;
    })
    (void)pairs;
    row[to] = there ? element(x, from) : 0;
}

#if HAS_PAIRS
/* Zeros after the first elements of a row of n words. */
INLINE void clear_after(float *row, long elements, long n) {
    for (long i = elements / (2 * LANES) * LANES; i < n; i += LANES) {
        vw word = (vw){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + (int)i,
           first = 2 * word < (int)elements, second = 2 * word + 1 < (int)elements;
        st(row + i, (vf)((vw)ld(row + i) & ((first & 0xffff) | (second & -0x10000))));
    }
}
#endif

/* The range of taps along each axis. */
struct reach {
    int low[3], high[3];
};
INLINE struct reach reach_of(const struct contraction *s, long taps) {
    struct reach all = {{0}, {0}};
    for (long i = 0; i < taps; i++)
        for (int k = 0; k < 3; k++) {
            int at = s->taps[i].at[k];
            if (i == 0 || at < all.low[k]) all.low[k] = at;
            if (i == 0 || at > all.high[k]) all.high[k] = at;
        }
    return all;
}
INLINE long elements_to(const struct contraction *s, const int *at, long channels) {
    return (((long)at[0] * s->in[1] + at[1]) * s->in[2] + at[2]) * channels;
}

/* Is row r in bounds of the input at all taps? */
INLINE int reaches_inside(const struct contraction *s, const struct rows *row, long r,
                          const struct reach *reach) {
    int inside = 1;
    for (int k = 0; k < 3; k++)
        inside &= row->at[k][r] + reach->low[k] >= 0 && row->at[k][r] + reach->high[k] < s->in[k];
    return inside;
}
/* `end`: the end of x, beyond which no vector may read. */
INLINE void im2col_row(const struct contraction *s, const struct rows *row, long r, struct array x,
                       long end, const struct reach *reach, long channels, long taps, long run,
                       float *to) {
    long base = row->base[r] * channels,
         inside = reaches_inside(s, row, r, reach) &&
                  base + elements_to(s, reach->high, channels) + channels + LANES <= end;
    for (long i = 0; i < taps; i += run) {
        const struct tap *tap = s->taps + i;
        long from = base + elements_to(s, tap->at, channels);
        if (inside) {
            for (long c = 0; c < run * channels; c += LANES)
                gather_vector(s->pairs, x, from + c, to, i * channels + c);
            continue;
        }
        int in = (unsigned)(row->at[0][r] + tap->at[0]) < (unsigned)s->in[0] &&
                 (unsigned)(row->at[1][r] + tap->at[1]) < (unsigned)s->in[1];
        for (long j = 0; j < run; j++) {
            int there = in && (unsigned)(row->at[2][r] + tap->at[2] + j) < (unsigned)s->in[2];
            for (long c = 0; c < channels; c++)
                im2col_element(s->pairs, x, from + j * channels + c, there, to,
                               (i + j) * channels + c);
        }
    }
}

/* A panel's weights, `terms` elements, as floats or pairs, `n` per lane: in place, or converted. */
INLINE const float *im2col_weight(int pairs, struct array w, long terms, long n, float *made) {
    IF_PAIRS(pairs, {
        long words = (terms + 1) / 2;
        if (is_float(w)) /* combined into pairs */
            for (long i = 0; i < words * PANEL; i += LANES)
                st(made + i, ld((const float *)w.at + i));
        else
            pair_panels(w.at, terms, made);
        for (long i = words * PANEL; i < n * PANEL; i += LANES) st(made + i, (vf){0});
        return made;
    })
    (void)pairs, (void)n;
    if (is_float(w)) return w.at;
    widen(w, terms * PANEL, made);
    return made;
}

ENTRY void im2col_item(const struct contraction *s, char *const *arg, struct array w, long run,
                       long item, char *scratch, rows_fn *epilogue, rows_fn *prefetch,
                       double *sums) {
    struct im2col_scratch *t = (void *)scratch;
    const struct positions *p = s->positions;
    long most = s->pairs ? ROW_BLOCK : PACK_ROWS, n = fill_rows(s, p, item * most, &t->row, most),
         channels = s->part[0].channels, terms = p->taps * channels,
         nk = s->pairs ? (terms + 2 * LANES - 1) / (2 * LANES) * LANES : terms;
    struct array x = PART_OF(arg, s->part[0]);
    long end = (long)s->batch * s->in[0] * s->in[1] * s->in[2] * channels;
    struct reach reach = reach_of(s, p->taps);
    for (long r = 0; r < n; r++) {
        float *row = t->a + r * nk;
        if (prefetch) prefetch(arg, t->acc, &t->row, r, 1, 0, s->channels, sums);
        im2col_row(s, &t->row, r, x, end, &reach, channels, p->taps, run, row);
        IF_PAIRS(s->pairs, clear_after(row, terms, nk);)
    }
    IF_TILES(s->pairs, begin_tiles();)
    for (long column = 0; column < s->columns; column++) {
        long channel = column * PANEL,
             m = s->channels - channel < PANEL ? s->channels - channel : PANEL;
        long all = s->pairs && is_float(w) ? terms / 2 : terms;
        const float *b =
            im2col_weight(s->pairs, from_element(w, (s->weight_start + column) * all * PANEL),
                          terms, nk, t->a + most * nk + LANES);
        IF_TILES(s->pairs, {
            for (long r = 0; r < n; r += AMX_ROWS) {
                begin_strip(t->acc, PANEL, 0);
                add_rows(t->a + r * nk, TILE_WORDS, nk, b, nk);
                end_strip(t->acc, PANEL);
                epilogue(arg, t->acc, &t->row, r, n - r < AMX_ROWS ? n - r : AMX_ROWS, channel, m,
                         sums);
            }
            continue;
        })
        for (long r = 0; r < n; r += TILE_ROWS) {
            long rows = n - r < TILE_ROWS ? n - r : TILE_ROWS;
            for (long k = 0; k < nk; k += CHAIN) {
                struct stretch one = {.b = b + k * PANEL, .n = nk - k < CHAIN ? nk - k : CHAIN};
                for (long i = 0; i < TILE_ROWS; i++)
                    one.a[i] = t->a + (i < rows ? r + i : r) * nk + k;
                tile(s->pairs, &one, 1, 0, t->acc, k > 0);
            }
            epilogue(arg, t->acc, &t->row, r, rows, channel, m, sums);
        }
    }
    IF_TILES(s->pairs, end_tiles();)
}
