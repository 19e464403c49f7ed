/* The register tile of windowed contractions, and the constant tables that describe them; after
 * the prelude, in sources with contractions. contract.c has the loops around the tile.
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
 * lanes belong to different groups, the second one's are `offset` further on. */
struct k_range {
    int first, vector_offset, terms;
};
struct contraction {
    int batch, in[3], out[3], scale[3];
    int channels; /* of the result */
    int summed,
        reduced; /* channels summed over; the K elements that they make: with `pairs`, bf16 pairs */
    int columns, item_columns;      /* panels of result channels; panels per work item */
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
        c##r##0 += x * b0;                                                                         \
        if (both) c##r##1 += x * b1;                                                               \
    }
#define ROW_PAIR(r)                                                                                \
    {                                                                                              \
        vf x = splat(a##r[k]);                                                                     \
        c##r##0 = dot_pairs(c##r##0, x, b0);                                                       \
        if (both) c##r##1 = dot_pairs(c##r##1, x, b1);                                             \
    }
#define ROW_ADD(r)                                                                                 \
    c##r##0 += ld(c + r * PANEL);                                                                  \
    if (both) c##r##1 += ld(c + r * PANEL + LANES);
#define ROW_OUT(r)                                                                                 \
    st(c + r * PANEL, c##r##0);                                                                    \
    if (both) st(c + r * PANEL + LANES, c##r##1);

/* Two vectors of different groups read K elements that are `offset` from each other. */
#define ROW_OFFSET(r) c##r##0 += splat(a##r[k]) * b0, c##r##1 += splat(a##r[k + offset]) * b1;
#define ROW_PAIR_OFFSET(r)                                                                         \
    c##r##0 = dot_pairs(c##r##0, splat(a##r[k]), b0),                                              \
    c##r##1 = dot_pairs(c##r##1, splat(a##r[k + offset]), b1);

/* A K panel of a tile: where each row's K elements begin, the weights' panel, and the number of
 * K elements. */
struct stretch {
    const float *a[TILE_ROWS], *b;
    long n;
};

/* c[TILE_ROWS][PANEL] = the sum of a[row][k] * b[k][PANEL] over all K panels; `more`: added to
 * c. Without `both` only the first vector of each row is computed: a panel with at most LANES
 * channels has no others. Rounding errors grow with the length of a chain of additions and the
 * number of chains, not with all of K. A tile's sum is one chain from zero, and callers pass at
 * most CHAIN K elements. */
#define TILE(name, BOTH, STEP)                                                                     \
    HOT void name(const struct stretch *s, long n, long offset, float *c, int more) {              \
        enum { both = BOTH };                                                                      \
        (void)offset;                                                                              \
        ROWS(ROW_ZERO)                                                                             \
        for (const struct stretch *end = s + n; s < end; s++) {                                    \
            const float *b = s->b;                                                                 \
            ROWS(ROW_AT)                                                                           \
            UNROLLED for (long k = 0; k < s->n; k++, b += PANEL) {                                 \
                vf b0 = ld(b), b1 = both ? ld(b + LANES) : b0;                                     \
                ROWS(STEP)                                                                         \
            }                                                                                      \
        }                                                                                          \
        if (more) {                                                                                \
            ROWS(ROW_ADD)                                                                          \
        }                                                                                          \
        ROWS(ROW_OUT)                                                                              \
    }
TILE(tile_floats, 1, ROW_STEP)
TILE(half_tile_floats, 0, ROW_STEP)
#if HAS_PAIRS
TILE(tile_pairs, 1, ROW_PAIR)
TILE(half_tile_pairs, 0, ROW_PAIR)
#endif
#if HAS_GROUPS
#define IF_OFFSET(offset, ...)                                                                     \
    if (offset) __VA_ARGS__
TILE(tile_floats_offset, 1, ROW_OFFSET)
#if HAS_PAIRS
TILE(tile_pairs_offset, 1, ROW_PAIR_OFFSET)
#endif
#else
#define IF_OFFSET(offset, ...)
#endif
/* channels: those of the panel. */
INLINE void tile(int pairs, const struct stretch *s, long n, long offset, long channels, float *c,
                 int more) {
    IF_OFFSET(offset, {
        IF_PAIRS(pairs, {
            tile_pairs_offset(s, n, offset, c, more);
            return;
        })
        tile_floats_offset(s, n, offset, c, more);
        return;
    })
    IF_PAIRS(pairs, {
        (channels > LANES ? tile_pairs : half_tile_pairs)(s, n, 0, c, more);
        return;
    })
    (void)pairs, (void)offset;
    (channels > LANES ? tile_floats : half_tile_floats)(s, n, 0, c, more);
}
