/* im2col rows for few channels: the taps of PACK_ROWS positions, with bf16 pairs ROW_BLOCK, are
 * copied into rows, and then form one reduction. Taps that are adjacent along W are contiguous
 * in the input: `run` of them are copied at a time, by vectors that write past the run; the next
 * run overwrites this. Floats of positions whose taps are all in bounds are read in place, run by
 * run: no row is made of them. Rows of bf16 pairs are copied unchanged,
 * with zeros after the last element up to whole vectors of pairs. */
enum { MOST_RUNS = 63 }; /* of a row that is read in place */
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
INLINE void clear_vector(int pairs, float *row, long to) {
    IF_PAIRS(pairs, {
        *(vh_any *)((bf16 *)row + to) = (vh_any){0};
        return;
    })
    (void)pairs;
    st(row + to, (vf){0});
}
INLINE void gather_element(int pairs, struct array x, long from, float *row, long to) {
    IF_PAIRS(pairs, {
        ((bf16 *)row)[to] = ((const bf16 *)x.at)[from];
        return;
    })
    (void)pairs;
    row[to] = element(x, from);
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
/* The last element of a row's base from which vectors do not read beyond the input. */
INLINE long last_base(const struct contraction *s, const struct reach *reach, long channels) {
    long all = (long)s->batch * s->in[0] * s->in[1] * s->in[2] * channels;
    return all - elements_to(s, reach->high, channels) - channels - LANES;
}

/* Copies the elements of a run of taps that are in bounds at row r, and zeros for the others. */
INLINE void gather_border(const struct contraction *s, const struct rows *row, long r,
                          const struct tap *tap, long run, struct array x, long from, long channels,
                          float *to, long at) {
    long w = row->at[2][r] + tap->at[2], low = w < 0 ? -w : 0,
         high = s->in[2] - w < run ? s->in[2] - w : run;
    for (long c = 0; c < run * channels; c += LANES) clear_vector(s->pairs, to, at + c);
    if ((unsigned)(row->at[0][r] + tap->at[0]) >= (unsigned)s->in[0] ||
        (unsigned)(row->at[1][r] + tap->at[1]) >= (unsigned)s->in[1])
        return;
    for (long c = low * channels; c < high * channels; c++)
        gather_element(s->pairs, x, from + c, to, at + c);
}
/* Makes row r's im2col row; `whole`: all of it is in bounds, and its vectors are within x. */
INLINE void im2col_row(const struct contraction *s, const struct rows *row, long r, struct array x,
                       int whole, long channels, long taps, long run, float *to) {
    for (long i = 0; i < taps; i += run) {
        const struct tap *tap = s->taps + i;
        long from = row->base[r] * channels + elements_to(s, tap->at, channels);
        if (!whole) {
            gather_border(s, row, r, tap, run, x, from, channels, to, i * channels);
            continue;
        }
        for (long c = 0; c < run * channels; c += LANES)
            gather_vector(s->pairs, x, from + c, to, i * channels + c);
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

/* Makes the im2col rows of the tile from r on, but for those that are read in place: made[i]. */
INLINE void im2col_tile(const struct contraction *s, struct im2col_scratch *t, long r, long n,
                        const struct reach *reach, int in_place, struct array x, long run,
                        long pitch, unsigned char *made) {
    const long channels = s->part[0].channels, taps = s->positions->taps,
               last = last_base(s, reach, channels);
    const struct tap low = {0, {reach->low[0], reach->low[1], reach->low[2]}},
                     high = {0, {reach->high[0], reach->high[1], reach->high[2]}};
    int whole[ROW_LANES];
    *(v_rows_any *)whole = inside(s, &t->row, r, &low) & inside(s, &t->row, r, &high);
    for (long i = 0; i < TILE_ROWS && r + i < n; i++) {
        const int all = whole[i] && t->row.base[r + i] * channels <= last;
        made[i] = !(all && in_place);
        if (made[i])
            im2col_row(s, &t->row, r + i, x, all, channels, taps, run, t->a + (r + i) * pitch);
    }
}

/* The K elements [k, k + n) of a tile's rows as stretches: of each run of taps, in the input or in
 * the row that was made; where all rows are made, of all runs. Returns their number. */
INLINE long im2col_stretches(const struct contraction *s, const struct im2col_scratch *t, long r,
                             long rows, const unsigned char *made, int in_place, struct array x,
                             long run, long pitch, long k, long n, const float *b,
                             struct stretch *to) {
    const long channels = s->part[0].channels, each = in_place ? run * channels : pitch;
    long some = 0, at[ROW_LANES], others = rows < TILE_ROWS;
    find_offsets(&t->row, r, channels * 4, at);
    for (long i = 0; i < rows; i++) others |= made[i];
    for (long end = k + n; k < end; some++) {
        const long skipped = in_place ? k % each : 0, left = each - skipped;
        const float *from = x.at;
        if (in_place) from += elements_to(s, s->taps[k / each * run].at, channels) + skipped;
        for (long i = 0; i < ROW_LANES; i += POINTERS)
            *(v_pointers_any *)((long *)(to + some) + i) =
                *(const v_pointers_any *)(at + i) + (long)from;
        for (long i = 0; others && i < TILE_ROWS; i++) {
            const long row = i < rows ? i : 0;
            to[some].a[i] =
                made[row] ? t->a + (r + row) * pitch + k : from + t->row.base[r + row] * channels;
        }
        to[some].b = b + k * PANEL, to[some].n = left < end - k ? left : end - k;
        k += to[some].n;
    }
    return some;
}

ENTRY void im2col_item(const struct contraction *s, char *const *arg, struct array w, long run,
                       long item, char *scratch, rows_fn *epilogue, rows_fn *prefetch,
                       double *sums) {
    struct im2col_scratch *t = (void *)scratch;
    const struct positions *p = s->positions;
    const long most = s->pairs ? ROW_BLOCK : PACK_ROWS,
               n = fill_rows(s, p, item * most, &t->row, most),
               terms = p->taps * s->part[0].channels,
               nk = s->pairs ? (terms + 2 * LANES - 1) / (2 * LANES) * LANES : terms;
    const struct array x = PART_OF(arg, s->part[0]);
    const struct reach reach = reach_of(s, p->taps);
    const int in_place = !s->pairs && is_float(x) && p->taps / run <= MOST_RUNS;
    unsigned char made[ROW_BLOCK > PACK_ROWS ? ROW_BLOCK : PACK_ROWS];
    if (prefetch) prefetch(arg, t->acc, &t->row, 0, n, 0, s->channels, sums);
    for (long r = 0; r < n; r += TILE_ROWS)
        im2col_tile(s, t, r, n, &reach, in_place, x, run, nk, made + r);
    IF_PAIRS(s->pairs, {
        for (long r = 0; r < n; r++) clear_after(t->a + r * nk, terms, nk);
    })
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
                struct stretch stretch[MOST_RUNS + 1];
                long some = im2col_stretches(s, t, r, rows, made + r, in_place, x, run, nk, k,
                                             nk - k < CHAIN ? nk - k : CHAIN, b, stretch);
                tile(s->pairs, stretch, some, 0, m, t->acc, k > 0);
            }
            epilogue(arg, t->acc, &t->row, r, rows, channel, m, sums);
        }
    }
    IF_TILES(s->pairs, end_tiles();)
}
