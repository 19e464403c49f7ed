/* Windowed contractions, after contract_tile.c: the rows of a block, the K panels of a chain, and
 * the sums of all tiles by vectors. contract_items.c loops over blocks. */
/* Output positions of a block, as arrays: input position before the tap (may be out of bounds),
 * its index in the whole input, and the output position. Idle lanes read into the next array, so
 * `out` is last. */
struct rows {
    long base[ROW_BLOCK];
    int at[3][ROW_BLOCK], out[4][ROW_BLOCK];
};
/* The epilogue at rows [from, from + n) of a block, or at one output position: `acc` has the
 * sums of `m` channels from `channel` on, PANEL per row. Or a prefetch of all memory that the
 * epilogue accesses, called before the last sums; 0: none. */
typedef void rows_fn(char *const *arg, const float *acc, const struct rows *row, long from, long n,
                     long channel, long m, double *sums);
typedef void point_fn(char *const *arg, const float *acc, const long at[4], long channel, long m,
                      double *sums);
typedef int v_rows __attribute__((vector_size(ROW_LANES * 4)));
typedef int v_rows_any __attribute__((vector_size(ROW_LANES * 4), aligned(4), may_alias));
typedef unsigned u_rows __attribute__((vector_size(ROW_LANES * 4)));
/* Pointers in vectors of a width that the target has: wider ones are split through memory, which
 * stalls. */
enum { POINTERS = LANES / 2 };
typedef int v_ints_any __attribute__((vector_size(POINTERS * 4), aligned(4), may_alias));
typedef long v_pointers __attribute__((vector_size(POINTERS * 8)));
typedef unsigned long u_pointers __attribute__((vector_size(POINTERS * 8))); /* idle lanes wrap */
typedef long v_pointers_any __attribute__((vector_size(POINTERS * 8), aligned(8), may_alias));

/* Fills in rows from `from` on, at most `most`, and pads with out-of-bounds rows to a whole tile
 * or strip. Returns the number of rows. */
UNUSED long fill_rows(const struct contraction *s, const struct positions *p, long from,
                      struct rows *row, long most) {
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
            ((b * s->in[0] + row->at[0][i]) * s->in[1] + row->at[1][i]) * s->in[2] + row->at[2][i];
        if (++w == p->count[2] && (w = 0, ++h == p->count[1]) && (h = 0, ++d == p->count[0]))
            d = 0, b++;
    }
    for (long i = n; i % FILLED_ROWS; i++)
        row->at[0][i] = 1 << 30, row->at[1][i] = row->at[2][i] = 0, row->base[i] = 0;
    return n;
}

INLINE const struct k_range *column_k_range(const struct contraction *s, long column) {
    return s->k_ranges + column / s->panels_a_range;
}

enum {
    VECTORS_READ = 1 + HAS_GROUPS
}; /* for both vectors of a tile, which may have K ranges up to CHAIN apart */
static const float zeros[VECTORS_READ * CHAIN] __attribute__((aligned(64), unused));

/* All-ones where rows r.. are in bounds of the input at this tap. */
INLINE v_rows inside(const struct contraction *s, const struct rows *row, long r,
                     const struct tap *tap) {
    v_rows in = {-1, -1, -1, -1};
    for (int i = 4; i < TILE_ROWS; i++) in[i] = -1;
    for (int k = 0; k < 3; k++) {
        v_rows at = *(const v_rows_any *)(row->at[k] + r) + tap->at[k];
        in &= (u_rows)at < (unsigned)s->in[k];
    }
    return in;
}

INLINE int any(v_rows m) {
    long x[ROW_LANES / 2];
    *(v_rows_any *)x = m;
    long some = x[0] | x[1];
    for (int i = 2; i < ROW_LANES / 2; i++) some |= x[i];
    return some != 0;
}

/* Some panels of a block of rows: they sum channels [first, first + channels) of the parts, for
 * the second vector `vector_offset` further on. Their weights are
 * b[column][weight_taps][depth][PANEL]. Several panels go together where their sums are one chain,
 * and by AMX strips, which keep all sums: then a row's stores are contiguous. */
struct columns {
    const struct contraction *of;
    const struct positions *positions;
    const struct rows *row;
    long rows, first, vector_offset, channels, depth;
    const float *b;
    long first_column, columns;
    /* b, or its source for each chain: the weight in place, or b's elements that are not floats */
    struct array weight;
    enum { AS_IT_LIES, BY_TURNING, BY_WIDENING, BY_PAIRING } made;
    float *chain;                 /* buffer for it: [columns][K elements of the chain][PANEL] */
    rows_fn *epilogue, *prefetch; /* epilogue and its prefetch; 0: the caller runs it */
    int multi_group;              /* vectors of lanes hold several groups */
};
#if HAS_GROUPS
/* NaN fix-up: recomputes a tile's sums that are not finite (grouped.c). */
static void fix_nans(const struct columns *c, char *const *arg, long from, long rows, long column,
                     float *acc);
#define IF_GROUPS(...) __VA_ARGS__
#else
#define IF_GROUPS(...)
#endif

/* Neighbouring channels of one part at one tap. */
struct piece {
    const struct tap *tap;
    const char *x;  /* address for the row whose base is 0, */
    int type;       /* element type; */
    const float *b; /* the weights */
    long step, n;   /* bytes between positions; K elements */
    long channel,
        channels; /* the first channel, of those that are read; channels of the K elements */
};
enum { PIECES = 64 }; /* at most per tile and chain */

INLINE int reaches(const struct columns *c, const struct tap *tap) {
    for (long r = 0; r < c->rows; r += TILE_ROWS)
        if (any(inside(c->of, c->row, r, tap))) return 1;
    return 0;
}

/* Chains of about the same length, at most CHAIN K elements. */
INLINE long even_chain(long terms) {
    long chains = (terms + CHAIN - 1) / CHAIN;
    return chains ? (terms + chains - 1) / chains : 0;
}

/* K elements of a panel's chains: whole taps if possible. */
INLINE long chain_of(const struct columns *c) {
    long even = even_chain(c->channels * c->positions->taps);
    long taps = c->channels ? (even + c->channels - 1) / c->channels * c->channels : 0;
    return taps <= CHAIN ? taps : even;
}

/* The pieces of one chain from tap *tap_at and channel *k on, without taps that are out of
 * bounds for all rows. Returns their number; after the last ones *tap_at is the number of taps. */
UNUSED long next_pieces(const struct columns *c, char *const *arg, long *tap_at, long *k,
                        struct piece *piece) {
    const struct contraction *s = c->of;
    long n = 0, room = chain_of(c);
    for (; *tap_at < c->positions->taps; ++*tap_at, *k = 0) {
        const struct tap *tap = s->taps + c->positions->first_tap + *tap_at;
        if (*k == 0 && !reaches(c, tap)) continue;
        long by = ((long)tap->at[0] * s->in[1] + tap->at[1]) * s->in[2] + tap->at[2];
        while (*k < c->channels) {
            if (room <= 0 || n == PIECES) return n;
            const struct part *part = s->part;
            long at = c->first + *k, most = c->channels - *k < room ? c->channels - *k : room,
                 before = 0;
            for (; at >= part_terms(part); part++) at -= part_terms(part), before += part->channels;
            if (most > part_terms(part) - at) most = part_terms(part) - at;
            long by_term = term_channels(part),
                 step = part->channels * bytes_of(part->type) / by_term,
                 rest = part->channels - at * by_term;
            piece[n++] = (struct piece){tap,
                                        arg[part->arg] + by * step + at * bytes_of(part->type),
                                        part->type,
                                        c->b + (tap->w * c->depth + *k) * PANEL,
                                        step,
                                        most,
                                        before + (at - c->first) * by_term,
                                        most * by_term < rest ? most * by_term : rest};
            *k += most, room -= most;
            IF_TILES(s->pairs, { room -= whole_blocks(most) - most; })
        }
    }
    return n;
}

/* Byte offsets of a tile's rows, relative to a position with base 0. */
INLINE void find_offsets(const struct rows *row, long r, long step, long *at) {
    for (long i = 0; i < ROW_LANES; i += POINTERS)
        *(v_pointers_any *)(at + i) =
            (v_pointers)((u_pointers) * (const v_pointers_any *)(row->base + r + i) *
                         (unsigned long)step);
}
/* Sets a tile's row pointers for a piece. Idle lanes overwrite b and n. */
INLINE void point_rows(const struct piece *p, const long *at, v_rows in, struct stretch *to) {
    int use[ROW_LANES];
    *(v_rows_any *)use = in;
    for (long i = 0; i < ROW_LANES; i += POINTERS) {
        v_pointers m = __builtin_convertvector(*(const v_ints_any *)(use + i), v_pointers);
        *(v_pointers_any *)((long *)to + i) =
            ((v_pointers)((u_pointers) * (const v_pointers_any *)(at + i) + (unsigned long)p->x) &
             m) |
            ((long)zeros & ~m);
    }
    to->b = p->b, to->n = p->n;
}

/* Prefetches a piece's data for the tile of rows from r on, while the tile before is summed.
 * Only the last tap, or the last channels, read new cache lines. */
INLINE void prefetch_tile(const struct columns *c, const struct piece *p, long r) {
    long bytes = p->n * bytes_of(p->type);
    IF_OFFSET(c->vector_offset, bytes += c->vector_offset * bytes_of(p->type);)
    for (long end = r + TILE_ROWS < c->rows ? r + TILE_ROWS : c->rows; r < end; r++)
        for (long i = 0; i < bytes; i += 64)
            __builtin_prefetch(p->x + c->row->base[r] * p->step + i);
}

/* Are positions a whole number of 4-byte K elements apart? */
INLINE int lies_whole(const struct piece *p) { return bytes_of(p->type) == 4 && p->step % 4 == 0; }
INLINE void widen_piece(const struct piece *p, const void *from, float *to) {
    IF_PAIRS(p->type == PAIR, {
        copy_words(from, p->channels, to);
        return;
    })
    widen((struct array){from, p->type}, p->n, to);
}
/* Converts a tile's inputs to floats, or pairs, in `wide`, CHAIN per row and vector. of[i]: the
 * piece of stretch i. Returns the distance between the two vectors' inputs. */
INLINE long widen_rows(struct stretch *stretch, const struct piece *const *of, long n, long offset,
                       float *wide) {
    long found = offset;
    for (long i = 0, k = 0; i < n; k += stretch[i++].n)
        for (long r = 0; r < TILE_ROWS && !lies_whole(of[i]); r++) {
            float *to = wide + r * VECTORS_READ * CHAIN + k;
            const char *from = (const char *)stretch[i].a[r];
            stretch[i].a[r] = to;
            widen_piece(of[i], from, to);
            IF_OFFSET(offset, {
                widen_piece(of[i], from + offset * bytes_of(of[i]->type), to + CHAIN);
                found = CHAIN;
            })
        }
    return found;
}

/* Advances from a panel's weights to the next panel's, `panel_stride` floats further on, and to its
 * K range. */
INLINE void to_next(const struct contraction *s, long column, struct stretch *stretch, long n,
                    long panel_stride, long *between) {
    for (long i = 0; i < n; i++) stretch[i].b += panel_stride;
#if HAS_GROUPS
    const struct k_range *here = column_k_range(s, column), *next = column_k_range(s, column + 1);
    if (here == next) return;
    *between = next->vector_offset;
    for (long i = 0; i < n; i++)
        for (long r = 0; r < TILE_ROWS; r++) stretch[i].a[r] += next->first - here->first;
#else
    (void)s, (void)column, (void)between;
#endif
}

/* One chain of each tile: acc[row][PANEL], and after the `last` chain the epilogue. The panels'
 * weights are `panel_stride` floats from each other. */
HOT void sum_pieces(const struct columns *c, char *const *arg, const struct piece *piece, long n,
                    long panel_stride, float *acc, int more, int last, double *sums) {
    const struct contraction *s = c->of;
    struct stretch stretch[PIECES];
#if HALVES
    float wide[TILE_ROWS * VECTORS_READ * CHAIN] __attribute__((aligned(64)));
    const struct piece *of[PIECES];
#endif
    for (long r = 0; r < c->rows; r += TILE_ROWS) {
        long some = 0, step = -1, between = c->vector_offset;
        long at[ROW_LANES];
        for (long i = 0; i < n; i++) {
            v_rows in = inside(c->of, c->row, r, piece[i].tap);
            if (!any(in)) continue;
            if (step != piece[i].step) find_offsets(c->row, r, step = piece[i].step, at);
#if HALVES
            of[some] = piece + i;
#endif
            point_rows(piece + i, at, in, stretch + some++);
        }
#if HALVES
        between = widen_rows(stretch, of, some, between, wide);
#endif
        long rows = c->rows - r < TILE_ROWS ? c->rows - r : TILE_ROWS;
        if (n) prefetch_tile(c, piece + n - 1, r + TILE_ROWS);
        for (long column = c->first_column, end = column + c->columns; column < end; column++) {
            long channel = column * PANEL,
                 m = s->channels - channel < PANEL ? s->channels - channel : PANEL;
            if (last && c->prefetch)
                c->prefetch(arg, acc + r * PANEL, c->row, r, rows, channel, m, sums);
            long computed = m;
            IF_GROUPS(if (c->multi_group) computed = PANEL;) /* fix_nans reads all */
            tile(s->pairs, stretch, some, between, computed, acc + r * PANEL, more);
            IF_GROUPS(if (last && c->multi_group)
                          fix_nans(c, arg, r, rows, column, acc + r * PANEL);)
            if (last && c->epilogue)
                c->epilogue(arg, acc + r * PANEL, c->row, r, rows, channel, m, sums);
            if (column + 1 < end) to_next(s, column, stretch, some, panel_stride, &between);
        }
    }
}
