/* The register tile and the loops of windowed contractions; after the prelude, in sources with
 * contractions.
 *
 * A tile is TILE_ROWS output positions by PANEL output channels in registers: TILE_ROWS x 2
 * vectors. Each row of the tile has its own pointer to the channels that it reads. So one tile
 * serves convolutions, their input gradients (by stride phase) and cat operands: padding is a
 * pointer to zeros, a tap is an offset. A tile stays in registers over several taps and
 * operands, CHAIN K elements in all. Its epilogue follows at once, so that its stores overlap
 * with the next tile's arithmetic. */
struct tap {
    int w;     /* index in the weight's taps */
    int at[3]; /* displacement in the input */
};
struct part { /* operands concatenated along the channels; PAIR: their K elements are bf16 pairs */
    int arg, channels, type;
};
/* Channels per K element; and K elements of a part: an odd last channel is paired with zero. */
INLINE long term_channels(const struct part *p) { return p->type == PAIR ? 2 : 1; }
INLINE long part_terms(const struct part *p) {
    return (p->channels + term_channels(p) - 1) / term_channels(p);
}
#define PART_OF(arg, part) ((struct array){(arg)[(part).arg], (part).type})
/* Output positions out = step * j + shift, j < count, with the same taps: all of a
 * convolution's, or a stride phase of an input gradient's. Input position: scale * j + tap. */
struct positions {
    int count[3], step[3], shift[3], first_tap, taps;
};
/* The K range of a panel's lanes: `terms` K elements from `first` on. If its two vectors of
 * lanes belong to different groups, the second one's are `apart` further on. */
struct k_range {
    int first, vector_offset, terms;
};
struct contraction {
    int batch, in[3], out[3], scale[3];
    int channels; /* of the result */
    int summed,
        reduced; /* channels summed over; the K elements that they make: with `pairs`, bf16 pairs */
    int columns, unit_columns;      /* panels of result channels; panels per work item */
    int panels_a_range;             /* consecutive panels with equal K ranges */
    const struct k_range *k_ranges; /* the K range of each such run */
    int own, depth;                 /* result channels per group; maximum K elements of a panel */
    int by_rows; /* is the panel the inner axis of the work items' order, or the row block? */
    int weight_taps, weight_start; /* the weight's taps; first panel used (conv) */
    int weight_channels;           /* its second axis */
    int pairs;                     /* K elements are bf16 pairs (bf16_pairs.c) */
    int nparts, npositions;
    const struct part *part;
    const struct positions *positions;
    const struct tap *taps;
};

#if TILE_ROWS == 8
#define ROWS(X)   X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define ROW_LANES 8
#elif TILE_ROWS == 6
#define ROWS(X)   X(0) X(1) X(2) X(3) X(4) X(5)
#define ROW_LANES 8 /* vector width for data per row: two lanes are idle */
#else
#define ROWS(X)   X(0) X(1) X(2) X(3)
#define ROW_LANES 4
#endif
#define ROW_ZERO(r) vf c##r##0 = {0}, c##r##1 = {0};
#define ROW_AT(r)   const float *a##r = s->a[r];
#define ROW_STEP(r)                                                                                \
    {                                                                                              \
        vf x = splat(a##r[k]);                                                                     \
        c##r##0 += x * b0, c##r##1 += x * b1;                                                      \
    }
#define ROW_PAIR(r)                                                                                \
    {                                                                                              \
        vf x = splat(a##r[k]);                                                                     \
        c##r##0 = dot_pairs(c##r##0, x, b0), c##r##1 = dot_pairs(c##r##1, x, b1);                  \
    }
#define ROW_ADD(r) c##r##0 += ld(c + r * PANEL), c##r##1 += ld(c + r * PANEL + LANES);
#define ROW_OUT(r) st(c + r * PANEL, c##r##0), st(c + r * PANEL + LANES, c##r##1);

/* Two vectors of different groups read K elements that are `apart` from each other. */
#define ROW_APART(r) c##r##0 += splat(a##r[k]) * b0, c##r##1 += splat(a##r[k + apart]) * b1;
#define ROW_PAIR_APART(r)                                                                          \
    c##r##0 = dot_pairs(c##r##0, splat(a##r[k]), b0),                                              \
    c##r##1 = dot_pairs(c##r##1, splat(a##r[k + apart]), b1);

/* A K panel of a tile: where each row's K elements begin, the weights' panel, and the number of
 * K elements. */
struct stretch {
    const float *a[TILE_ROWS], *b;
    long n;
};

/* c[TILE_ROWS][PANEL] = the sum of a[row][k] * b[k][PANEL] over all K panels; `more`: added to
 * c. Rounding errors grow with the length of a chain of additions and the number of chains, not
 * with all of K. A tile's sum is one chain from zero, and callers pass at most CHAIN K elements. */
#define TILE(name, STEP)                                                                           \
    HOT void name(const struct stretch *s, long n, long apart, float *c, int more) {               \
        (void)apart;                                                                               \
        ROWS(ROW_ZERO)                                                                             \
        for (const struct stretch *end = s + n; s < end; s++) {                                    \
            const float *b = s->b;                                                                 \
            ROWS(ROW_AT)                                                                           \
            UNROLLED for (long k = 0; k < s->n; k++, b += PANEL) {                                 \
                vf b0 = ld(b), b1 = ld(b + LANES);                                                 \
                ROWS(STEP)                                                                         \
            }                                                                                      \
        }                                                                                          \
        if (more) {                                                                                \
            ROWS(ROW_ADD)                                                                          \
        }                                                                                          \
        ROWS(ROW_OUT)                                                                              \
    }
TILE(tile_floats, ROW_STEP)
#if HAS_PAIRS
TILE(tile_pairs, ROW_PAIR)
#endif
#if HAS_GROUPS
#define IF_APART(apart, ...)                                                                       \
    if (apart) __VA_ARGS__
TILE(tile_floats_offset, ROW_APART)
#if HAS_PAIRS
TILE(tile_pairs_offset, ROW_PAIR_APART)
#endif
#else
#define IF_APART(apart, ...)
#endif
INLINE void tile(int pairs, const struct stretch *s, long n, long apart, float *c, int more) {
    IF_APART(apart, {
        IF_PAIRS(pairs, {
            tile_pairs_offset(s, n, apart, c, more);
            return;
        })
        tile_floats_offset(s, n, apart, c, more);
        return;
    })
    IF_PAIRS(pairs, {
        tile_pairs(s, n, 0, c, more);
        return;
    })
    (void)pairs, (void)apart;
    tile_floats(s, n, 0, c, more);
}

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
 * the second vector `apart` further on. Their weights are b[column][weight_taps][depth][PANEL].
 * Several panels go together where their sums are one chain, and by AMX strips, which keep all
 * sums: then a row's stores are contiguous. */
struct columns {
    const struct contraction *of;
    const struct positions *positions;
    const struct rows *row;
    long rows, first, apart, channels, depth;
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
        *(v_pointers_any *)(at + i) = *(const v_pointers_any *)(row->base + r + i) * step;
}
/* Sets a tile's row pointers for a piece. Idle lanes overwrite b and n. */
INLINE void point_rows(const struct piece *p, const long *at, v_rows in, struct stretch *to) {
    int use[ROW_LANES];
    *(v_rows_any *)use = in;
    for (long i = 0; i < ROW_LANES; i += POINTERS) {
        v_pointers m = __builtin_convertvector(*(const v_ints_any *)(use + i), v_pointers);
        *(v_pointers_any *)((long *)to + i) =
            ((*(const v_pointers_any *)(at + i) + (long)p->x) & m) | ((long)zeros & ~m);
    }
    to->b = p->b, to->n = p->n;
}

/* Prefetches a piece's data for the tile of rows from r on, while the tile before is summed.
 * Only the last tap, or the last channels, read new cache lines. */
INLINE void prefetch_tile(const struct columns *c, const struct piece *p, long r) {
    long bytes = p->n * bytes_of(p->type);
    IF_APART(c->apart, bytes += c->apart * bytes_of(p->type);)
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
INLINE long widen_rows(struct stretch *stretch, const struct piece *const *of, long n, long apart,
                       float *wide) {
    long found = apart;
    for (long i = 0, k = 0; i < n; k += stretch[i++].n)
        for (long r = 0; r < TILE_ROWS && !lies_whole(of[i]); r++) {
            float *to = wide + r * VECTORS_READ * CHAIN + k;
            const char *from = (const char *)stretch[i].a[r];
            stretch[i].a[r] = to;
            widen_piece(of[i], from, to);
            IF_APART(apart, {
                widen_piece(of[i], from + apart * bytes_of(of[i]->type), to + CHAIN);
                found = CHAIN;
            })
        }
    return found;
}

/* Advances from a panel's weights to the next panel's, `apart` floats further on, and to its K
 * range. */
INLINE void to_next(const struct contraction *s, long column, struct stretch *stretch, long n,
                    long apart, long *between) {
    for (long i = 0; i < n; i++) stretch[i].b += apart;
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
 * weights are `apart` floats from each other. */
HOT void sum_pieces(const struct columns *c, char *const *arg, const struct piece *piece, long n,
                    long apart, float *acc, int more, int last, double *sums) {
    const struct contraction *s = c->of;
    struct stretch stretch[PIECES];
#if HALVES
    float wide[TILE_ROWS * VECTORS_READ * CHAIN] __attribute__((aligned(64)));
    const struct piece *of[PIECES];
#endif
    for (long r = 0; r < c->rows; r += TILE_ROWS) {
        long some = 0, step = -1, between = c->apart;
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
            tile(s->pairs, stretch, some, between, acc + r * PANEL, more);
            IF_GROUPS(if (last && c->multi_group)
                          fix_nans(c, arg, r, rows, column, acc + r * PANEL);)
            if (last && c->epilogue)
                c->epilogue(arg, acc + r * PANEL, c->row, r, rows, channel, m, sums);
            if (column + 1 < end) to_next(s, column, stretch, some, apart, &between);
        }
    }
}

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
                 long apart, float *acc, int more, int last, double *sums) {
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
                           terms[strip][j].b + i * apart, terms[strip][j].n);
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
UNUSED void transpose_weight(const struct contraction *s, struct array w, long unit,
                             float *packed) {
    transpose_panel(s, w, s->weight_taps - 1 - unit % s->weight_taps, unit / s->weight_taps, 0,
                    s->reduced, packed + unit * s->reduced * PANEL);
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
             apart = c->of->weight_taps * c->depth * PANEL;
        if (c->made) apart = make_pieces(c, piece, n);
        int last = tap == c->positions->taps;
        IF_TILES(c->of->pairs, {
            sum_amx(c, arg, piece, n, apart, acc, more, last, sums);
            continue;
        })
        sum_pieces(c, arg, piece, n, apart, acc, more, last, sums);
    }
}

struct rows_scratch {
    struct rows row;
    float acc[]; /* of a panel, or with AMX of all; followed by weights that are converted chain by
                    chain */
};
INLINE float *chain_at(const struct contraction *s, struct rows_scratch *t) {
    long columns = 1;
    IF_TILES(s->pairs, { columns = s->unit_columns; })
    (void)s;
    return t->acc + columns * ROW_BLOCK * PANEL;
}

/* The block of a work item, with weights w[column][tap][depth][PANEL] in floats, or converted.
 * Work items are ordered by positions, then row blocks and groups of panels. */
INLINE struct columns columns_of(const struct contraction *s, long unit, struct rows_scratch *t,
                                 struct array w, long depth, rows_fn *epilogue, rows_fn *prefetch) {
    long groups = (s->columns + s->unit_columns - 1) / s->unit_columns;
    for (const struct positions *p = s->positions;; p++) {
        long rows = (long)s->batch * p->count[0] * p->count[1] * p->count[2],
             blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK;
        if (unit >= blocks * groups) {
            unit -= blocks * groups;
            continue;
        }
        long block = s->by_rows ? unit / groups : unit % blocks,
             group = s->by_rows ? unit % groups : unit / blocks;
        struct columns c = {.of = s, .positions = p, .row = &t->row, .depth = depth};
        c.rows = fill_rows(s, p, block * ROW_BLOCK, &t->row, ROW_BLOCK);
        c.epilogue = epilogue, c.prefetch = prefetch;
        c.first_column = group * s->unit_columns, c.columns = s->columns - c.first_column;
        if (c.columns > s->unit_columns) c.columns = s->unit_columns;
        const struct k_range *range = column_k_range(s, c.first_column);
        c.first = range->first, c.apart = range->vector_offset, c.channels = range->terms;
        c.weight = w, c.chain = chain_at(s, t);
        c.b = (const float *)w.at + c.first_column * s->weight_taps * depth * PANEL;
        if (!is_float(w)) c.made = s->pairs ? BY_PAIRING : BY_WIDENING, c.b = c.chain;
        return c;
    }
}

/* A block of rows by some panels. w: [column][tap][channel][PANEL] */
UNUSED void rows_unit(const struct contraction *s, char *const *arg, struct array w, long unit,
                      char *scratch, rows_fn *epilogue, rows_fn *prefetch, double *sums) {
    struct rows_scratch *t = (void *)scratch;
    long depth = is_float(w) ? s->reduced : s->weight_channels;
    w = from_element(w, (long)s->weight_start * s->weight_taps * depth * PANEL);
    struct columns c = columns_of(s, unit, t, w, s->reduced, epilogue, prefetch);
    sum_columns(&c, arg, t->acc, sums);
}

/* The same for an input gradient whose weights few blocks of rows share: each chain transposes
 * its own. */
UNUSED void transposing_unit(const struct contraction *s, char *const *arg, struct array w,
                             long unit, char *scratch, rows_fn *epilogue, rows_fn *prefetch,
                             double *sums) {
    struct rows_scratch *t = (void *)scratch;
    struct columns c = columns_of(s, unit, t, w, s->reduced, epilogue, prefetch);
    c.b = c.chain, c.made = BY_TURNING;
    sum_columns(&c, arg, t->acc, sums);
}

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

UNUSED void im2col_unit(const struct contraction *s, char *const *arg, struct array w, long run,
                        long unit, char *scratch, rows_fn *epilogue, rows_fn *prefetch,
                        double *sums) {
    struct im2col_scratch *t = (void *)scratch;
    const struct positions *p = s->positions;
    long most = s->pairs ? ROW_BLOCK : PACK_ROWS, n = fill_rows(s, p, unit * most, &t->row, most),
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
