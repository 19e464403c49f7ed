/* Windowed contractions by AMX strips (amx.c): the sums of all strips of a block, in place of
 * sum_pieces of contract.c. */
#if HAS_TILES
/* The constant stride of half a strip's rows in positions, or 0. */
INLINE long even_rows(const struct rows *row, long r) {
    long step = row->base[r + 1] - row->base[r], even = step > 0;
    for (long i = 1; i < TILE_WORDS; i++) even &= row->base[r + i] - row->base[r + i - 1] == step;
    return even ? step : 0;
}
/* The left operand of half a strip: rows from r on of a piece, in place with a stride of `step`
 * positions, or packed to `to` with zeros for out-of-bounds rows. Returns 0 if all rows are out
 * of bounds. */
INLINE int lay_half(const struct columns *c, const struct piece *p, long r, long step, float *to,
                    struct half *half) {
    enum { TILES = TILE_WORDS / TILE_ROWS };
    v_rows in[TILES], all = (v_rows){0} == 0, some = {0};
    for (long t = 0; t < TILES; t++) {
        in[t] = inside(c->of, c->row, r + t * TILE_ROWS, p->tap);
        all &= in[t], some |= in[t];
    }
    *half = (struct half){to, TILE_WORDS, BLOCK_FLOATS};
    if (step && p->n % TILE_WORDS == 0 && lies_whole(p) && !any(~all)) {
        *half = (struct half){(const float *)(p->x + c->row->base[r] * p->step), step * p->step / 4,
                              TILE_WORDS};
        return 1;
    }
    for (long t = 0; t < TILES; t++) {
        long at[ROW_LANES];
        struct stretch from;
        find_offsets(c->row, r + t * TILE_ROWS, p->step, at);
        point_rows(p, at, in[t], &from);
        for (long k = 0; k < TILE_ROWS; k++)
            pack_words(from.a[k], p->channels, to + (t * TILE_ROWS + k) * TILE_WORDS);
    }
    return any(some);
}

/* Prefetches a piece's data for rows `from` to `to` of the next block. */
INLINE void prefetch_rows(const struct columns *c, const struct piece *p, long from, long to) {
    for (; from < to; from++)
        for (long i = 0; i < p->n * 4; i += 64)
            __builtin_prefetch(p->x + (c->row->base[from] + ROW_BLOCK) * p->step + i, 0, 2);
}

/* Rows of one panel with complete sums; the epilogue has run for `done` of them. */
struct pending_epilogue {
    const float *acc;
    long r, rows, done, channel, m;
};
INLINE void epilogue_rows(const struct columns *c, char *const *arg, struct pending_epilogue *f,
                          long to, double *sums) {
    if (to > f->done)
        c->epilogue(arg, f->acc + f->done * PANEL, c->row, f->r + f->done, to - f->done, f->channel,
                    f->m, sums);
    f->done = to;
}

/* One chain by AMX strips: acc[column][ROW_BLOCK][PANEL]. All strips' left operands are prepared
 * first, so that a panel's weights stay in L1 for them. */
HOT void sum_amx(const struct columns *c, char *const *arg, const struct piece *piece, long n,
                 long panel_stride, float *acc, int more, int last, double *sums) {
    enum { STRIPS = ROW_BLOCK / AMX_ROWS };
    const struct contraction *s = c->of;
    float words[STRIPS * (CHAIN / TILE_WORDS + 1) * BLOCK_FLOATS] __attribute__((aligned(64)));
    struct {
        struct half half[2];
        const float *b;
        long n;
    } terms[STRIPS][PIECES];
    long some[STRIPS] = {0};
    float *to = words;
    for (long strip = 0, r = 0; r < c->rows; strip++, r += AMX_ROWS) {
        long step[2];
        for (long i = 0; i < 2; i++) step[i] = even_rows(c->row, r + i * TILE_WORDS);
        for (long i = 0; i < n; i++) {
            int reached = 0;
            for (long half = 0; half < 2; half++)
                reached |=
                    lay_half(c, piece + i, r + half * TILE_WORDS, step[half],
                             to + half * BLOCK_FLOATS / 2, terms[strip][some[strip]].half + half);
            if (!reached) continue;
            terms[strip][some[strip]].b = piece[i].b, terms[strip][some[strip]++].n = piece[i].n;
            to += word_blocks(piece[i].n) * BLOCK_FLOATS;
        }
    }
    begin_tiles();
    struct pending_epilogue pending = {0};
    for (long i = 0; i < c->columns; i++) {
        float *own = acc + i * ROW_BLOCK * PANEL;
        long channel = (c->first_column + i) * PANEL,
             m = s->channels - channel < PANEL ? s->channels - channel : PANEL;
        for (long strip = 0, r = 0; r < c->rows; strip++, r += AMX_ROWS, own += AMX_ROWS * PANEL) {
            long rows = c->rows - r < AMX_ROWS ? c->rows - r : AMX_ROWS;
            begin_strip(own, PANEL, more);
            for (long j = 0; j < some[strip]; j++) {
                long from = rows * j / some[strip], to = rows * (j + 1) / some[strip];
                if (i == 0) prefetch_rows(c, piece + n - 1, r + from, r + to);
                if (last && c->prefetch)
                    c->prefetch(arg, own, c->row, r + from, to - from, channel, m, sums);
                epilogue_rows(c, arg, &pending, pending.rows * (j + 1) / some[strip], sums);
                add_halves(terms[strip][j].half[0], terms[strip][j].half[1],
                           terms[strip][j].b + i * panel_stride, terms[strip][j].n);
            }
            epilogue_rows(c, arg, &pending, pending.rows, sums);
            end_strip(own, PANEL);
            if (last && c->epilogue)
                pending = (struct pending_epilogue){own, r, rows, 0, channel, m};
        }
    }
    epilogue_rows(c, arg, &pending, pending.rows, sums);
    end_tiles();
}
#endif
