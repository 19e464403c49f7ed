/* Work items of windowed contractions: blocks of rows by panels, whose weights are read in place,
 * converted, or transposed for an input gradient. */
/* Transposes one vector of lanes: b[k][lane] = weight[o = o0 + k][tap][channel `made` + lane].
 * Weight panels have lanes along o, but here lanes are channels. With bf16 pairs o counts pairs,
 * whose elements are contiguous in memory; an odd last o is paired with a panel's padding. */
INLINE void transpose_lanes(const struct contraction *s, struct array w, long tap, long made,
                            long o0, long n, float *b) {
    long channels = s->weight_channels, c0 = made % channels, m = channels - c0, row = PANEL;
    if (made >= s->channels) m = 0;
    if (m > LANES) m = LANES;
    IF_PAIRS(s->pairs, { w.type = PAIR, row = PANEL / 2; })
    for (long k = 0; k < n;) {
        long o = o0 + k, in = o % row, run = row - in < n - k ? row - in : n - k;
        long from = ((o / row * s->weight_taps + tap) * channels + c0) * row + in;
        if (run == row && m == LANES) {
            for (long i = 0; i < row; i += LANES)
                transpose_block(w, from + i, row, b + (k + i) * PANEL, PANEL);
            k += run;
            continue;
        }
        for (long i = 0; i < run; i++) {
            float *to = b + (k + i) * PANEL;
            for (long c = 0; c < m; c++) to[c] = element(w, from + c * row + i);
            for (long c = m; c < LANES; c++) to[c] = 0;
        }
        k += run;
    }
}

/* Transposes n K elements from the k-th on of a panel's K range. */
HOT void transpose_panel(const struct contraction *s, struct array w, long tap, long column, long k,
                         long n, float *b) {
    const struct k_range *range = column_k_range(s, column);
    for (long i = 0; i < PANEL; i += LANES)
        transpose_lanes(s, w, tap, column * PANEL + i,
                        range->first + (i ? range->vector_offset : 0) + k, n, b + i);
    IF_PAIRS(s->pairs && s->summed % 2 && 2 * (k + n) > s->summed, keep_first(b + (n - 1) * PANEL);)
}

/* Transposes the weight for an input gradient: packed[column][mirrored tap][o][PANEL], so that
 * neighbouring taps read neighbours of dy. Work item: one tap of a panel. */
ENTRY void transpose_weight(const struct contraction *s, struct array w, long item, float *packed) {
    transpose_panel(s, w, s->weight_taps - 1 - item % s->weight_taps, item / s->weight_taps, 0,
                    s->reduced, packed + item * s->reduced * PANEL);
}

/* Converts the weights of a chain, if they are not transposed yet (one panel), or not floats.
 * Returns the distance between panels. */
UNUSED long make_pieces(const struct columns *c, struct piece *piece, long n) {
    long taps = c->of->weight_taps, depth = c->of->weight_channels, terms = 0, k = 0;
    for (long i = 0; i < n; i++) terms += piece[i].n;
    for (long i = 0; i < n; k += piece[i++].n) {
        long tap = piece[i].tap->w, at = piece[i].channel;
        float *to = c->chain + k * PANEL;
        if (c->made == BY_TURNING)
            transpose_panel(c->of, c->weight, taps - 1 - tap, c->first_column,
                            c->of->pairs ? at / 2 : at, piece[i].n, to);
        for (long column = 0; HALVES && c->made >= BY_WIDENING && column < c->columns; column++) {
            long from = (((c->first_column + column) * taps + tap) * depth + at) * PANEL;
            IF_PAIRS(c->made == BY_PAIRING, {
                pair_panels((const bf16 *)c->weight.at + from, piece[i].channels,
                            to + column * terms * PANEL);
                continue;
            })
            widen(from_element(c->weight, from), piece[i].n * PANEL, to + column * terms * PANEL);
        }
        piece[i].b = to;
    }
    return terms * PANEL;
}

/* Computes the sums: acc[row][PANEL], whole tiles of rows. */
UNUSED void sum_columns(const struct columns *c, char *const *arg, float *acc, double *sums) {
    struct piece piece[PIECES];
    long tap = 0, k = 0;
    for (int more = 0; !more || tap < c->positions->taps; more = 1) {
        long n = next_pieces(c, arg, &tap, &k, piece),
             panel_stride = c->of->weight_taps * c->depth * PANEL;
        if (c->made) panel_stride = make_pieces(c, piece, n);
        int last = tap == c->positions->taps;
        IF_TILES(c->of->pairs, {
            sum_amx(c, arg, piece, n, panel_stride, acc, more, last, sums);
            continue;
        })
        sum_pieces(c, arg, piece, n, panel_stride, acc, more, last, sums);
    }
}

struct rows_scratch {
    struct rows row;
    float acc[]; /* of a panel, or with AMX of all; followed by weights that are converted chain by
                    chain */
};
INLINE float *chain_at(const struct contraction *s, struct rows_scratch *t) {
    long columns = 1;
    IF_TILES(s->pairs, { columns = s->item_columns; })
    (void)s;
    return t->acc + columns * ROW_BLOCK * PANEL;
}

/* The block of a work item, with weights w[column][tap][depth][PANEL] in floats, or converted.
 * Work items are ordered by positions, then row blocks and groups of panels. */
INLINE struct columns columns_of(const struct contraction *s, long item, struct rows_scratch *t,
                                 struct array w, long depth, rows_fn *epilogue, rows_fn *prefetch) {
    long groups = (s->columns + s->item_columns - 1) / s->item_columns;
    for (const struct positions *p = s->positions;; p++) {
        long rows = (long)s->batch * p->count[0] * p->count[1] * p->count[2],
             blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK;
        if (item >= blocks * groups) {
            item -= blocks * groups;
            continue;
        }
        long block = s->by_rows ? item / groups : item % blocks,
             group = s->by_rows ? item % groups : item / blocks;
        struct columns c = {.of = s, .positions = p, .row = &t->row, .depth = depth};
        c.rows = fill_rows(s, p, block * ROW_BLOCK, &t->row, ROW_BLOCK);
        c.epilogue = epilogue, c.prefetch = prefetch;
        c.first_column = group * s->item_columns, c.columns = s->columns - c.first_column;
        if (c.columns > s->item_columns) c.columns = s->item_columns;
        const struct k_range *range = column_k_range(s, c.first_column);
        c.first = range->first, c.vector_offset = range->vector_offset, c.channels = range->terms;
        c.weight = w, c.chain = chain_at(s, t);
        c.b = (const float *)w.at + c.first_column * s->weight_taps * depth * PANEL;
        if (!is_float(w)) c.made = s->pairs ? BY_PAIRING : BY_WIDENING, c.b = c.chain;
        return c;
    }
}

/* A block of rows by some panels. w: [column][tap][channel][PANEL] */
ENTRY void rows_item(const struct contraction *s, char *const *arg, struct array w, long item,
                     char *scratch, rows_fn *epilogue, rows_fn *prefetch, double *sums) {
    struct rows_scratch *t = (void *)scratch;
    long depth = is_float(w) ? s->reduced : s->weight_channels;
    w = from_element(w, (long)s->weight_start * s->weight_taps * depth * PANEL);
    struct columns c = columns_of(s, item, t, w, s->reduced, epilogue, prefetch);
    sum_columns(&c, arg, t->acc, sums);
}

/* The same for an input gradient whose weights few blocks of rows share: each chain transposes
 * its own. */
ENTRY void transposing_item(const struct contraction *s, char *const *arg, struct array w,
                            long item, char *scratch, rows_fn *epilogue, rows_fn *prefetch,
                            double *sums) {
    struct rows_scratch *t = (void *)scratch;
    struct columns c = columns_of(s, item, t, w, s->reduced, epilogue, prefetch);
    c.b = c.chain, c.made = BY_TURNING;
    sum_columns(&c, arg, t->acc, sums);
}
