/* Attention without stored scores (Dao et al., FlashAttention, NeurIPS 2022; Milakov and
 * Gimelshein, online softmax, 2018). A work item loops over blocks of keys (forward) or queries
 * (backward); a block's scores stay in scratch, in L1 or L2.
 *
 * This file has the register tile of every product, c[row][lane] = sum over k of a[row][k]
 * b[k][lane], for floats or bf16 pairs (bf16_pairs.c), and by AMX strips (amx.c) where the CPU has
 * them. attention_pack.c packs its operands; attention.c loops over the blocks. */
#if TILE_ROWS == 8 /* 32 registers */
#define ATTENTION_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
enum { ROWS_AT_ONCE = 8 };
#else
#define ATTENTION_ROWS(X) X(0) X(1) X(2) X(3)
enum { ROWS_AT_ONCE = 4 };
#endif
enum { KEYS = 6 * LANES, QUERIES = 64 }; /* of a block */

struct attention {
    long batch, queries, keys, heads, size;
    long all_heads, all_queries,
        all_keys;      /* of the whole attention, of which this may be a part; */
    long first;        /* number of the sample's first score in the whole attention, */
    long query_offset; /* and the offset of the queries in the keys */
    long width; /* floats of a packed row: `size`, rounded up to whole vectors, or to AMX panels */
    float scale, threshold, kept;
    int number, causal, drops, in_parts;
    int type;  /* of everything but the log-sum-exps, which are floats */
    int pairs; /* bf16 pairs are multiplied */
    /* Tensors of floats that are added to the scores: the argument of the first, their number, and
     * the distances between samples, heads and queries; and the argument of the seed. */
    int addend, addends, seed;
    struct {
        long sample, head, query;
    } stride[2];
    /* The gradient of an addend: its samples and heads, all or one; and parts of the sum over those
     * that share it, which are work items of their own. */
    long samples_of, heads_of, parts;
    long chunks; /* backward: parts of the keys that are work items of their own */
};

/* Three vectors at a time fill the registers; the remainder takes two or one. A chain's sum is
 * added to memory (ADD) or stored (SET); it has at most a block's K elements. */
#define ROW_BEGIN_3(r) vf c##r##0 = {0}, c##r##1 = {0}, c##r##2 = {0};
#define ROW_BEGIN_2(r) vf c##r##0 = {0}, c##r##1 = {0};
#define ROW_BEGIN_1(r) vf c##r##0 = {0};
#define TERM_3         vf b0 = ld(b), b1 = ld(b + LANES), b2 = ld(b + 2 * LANES);
#define TERM_2         vf b0 = ld(b), b1 = ld(b + LANES);
#define TERM_1         vf b0 = ld(b);
#define ROW_TERM_3(r)                                                                              \
    {                                                                                              \
        vf x = splat(a[r * row]);                                                                  \
        c##r##0 += x * b0, c##r##1 += x * b1, c##r##2 += x * b2;                                   \
    }
#define ROW_TERM_2(r)                                                                              \
    {                                                                                              \
        vf x = splat(a[r * row]);                                                                  \
        c##r##0 += x * b0, c##r##1 += x * b1;                                                      \
    }
#define ROW_TERM_1(r) c##r##0 += splat(a[r * row]) * b0;
#define ROW_SET_1(r)  st(c + r * out, c##r##0);
#define ROW_SET_2(r)  ROW_SET_1(r) st(c + r * out + LANES, c##r##1);
#define ROW_SET_3(r)  ROW_SET_2(r) st(c + r * out + 2 * LANES, c##r##2);
#define ROW_SUM_1(r)  st(c + r * out, ld(c + r * out) + c##r##0);
#define ROW_SUM_2(r)  ROW_SUM_1(r) st(c + r * out + LANES, ld(c + r * out + LANES) + c##r##1);
#define ROW_SUM_3(r)                                                                               \
    ROW_SUM_2(r) st(c + r * out + 2 * LANES, ld(c + r * out + 2 * LANES) + c##r##2);
#define PAIR_TERM_3(r)                                                                             \
    {                                                                                              \
        vf x = splat(a[r * row]);                                                                  \
        c##r##0 = dot_pairs(c##r##0, x, b0), c##r##1 = dot_pairs(c##r##1, x, b1);                  \
        c##r##2 = dot_pairs(c##r##2, x, b2);                                                       \
    }
#define PAIR_TERM_2(r)                                                                             \
    {                                                                                              \
        vf x = splat(a[r * row]);                                                                  \
        c##r##0 = dot_pairs(c##r##0, x, b0), c##r##1 = dot_pairs(c##r##1, x, b1);                  \
    }
#define PAIR_TERM_1(r) c##r##0 = dot_pairs(c##r##0, splat(a[r * row]), b0);
/* a[i row + k term], i < ROWS_AT_ONCE; b[k step ...]; c[i out ...]. */
#define ATTENTION_TILE(name, TERM, VECTORS, END)                                                   \
    HOT void name(const float *a, long row, long term, const float *b, long step, long terms,      \
                  float *c, long out) {                                                            \
        ATTENTION_ROWS(ROW_BEGIN_##VECTORS)                                                        \
        for (long k = 0; k < terms; k++, a += term, b += step) {                                   \
            TERM_##VECTORS ATTENTION_ROWS(TERM##_TERM_##VECTORS)                                   \
        }                                                                                          \
        ATTENTION_ROWS(END##_##VECTORS)                                                            \
    }
/* c[rows][width] = or += a b, whole tiles of rows. */
#define ATTENTION_PRODUCT(name, tile)                                                              \
    UNUSED void name(const float *a, long row, long term, const float *b, long step, long terms,   \
                     float *c, long out, long rows, long width) {                                  \
        for (long i = 0; i < rows;                                                                 \
             i += ROWS_AT_ONCE, a += ROWS_AT_ONCE * row, c += ROWS_AT_ONCE * out) {                \
            long j = 0;                                                                            \
            for (; j + 3 * LANES <= width; j += 3 * LANES)                                         \
                tile##_3(a, row, term, b + j, step, terms, c + j, out);                            \
            if (width - j == 2 * LANES) tile##_2(a, row, term, b + j, step, terms, c + j, out);    \
            if (width - j == LANES) tile##_1(a, row, term, b + j, step, terms, c + j, out);        \
        }                                                                                          \
    }
/* All products of one kind of K elements. */
#define ATTENTION_PRODUCTS(kind, TERM)                                                             \
    ATTENTION_TILE(set_##kind##_3, TERM, 3, ROW_SET)                                               \
    ATTENTION_TILE(sum_##kind##_3, TERM, 3, ROW_SUM)                                               \
    ATTENTION_TILE(set_##kind##_1, TERM, 1, ROW_SET)                                               \
    ATTENTION_TILE(set_##kind##_2, TERM, 2, ROW_SET)                                               \
    ATTENTION_TILE(sum_##kind##_1, TERM, 1, ROW_SUM)                                               \
    ATTENTION_TILE(sum_##kind##_2, TERM, 2, ROW_SUM)                                               \
    ATTENTION_PRODUCT(set_##kind, set_##kind)                                                      \
    ATTENTION_PRODUCT(sum_##kind, sum_##kind)
ATTENTION_PRODUCTS(floats, ROW)
#if HAS_PAIRS && !HAS_TILES
ATTENTION_PRODUCTS(pairs, PAIR)
#else
#define set_pairs(...) __builtin_trap()
#define sum_pairs(...) __builtin_trap()
#endif
#if HAS_TILES
/* AMX strips: c[rows][width] = a b or += a b; whole strips, panels and blocks of K. The
 * operands' rows are `row`, `step` and `out` words apart. */
HOT void multiply_amx(const float *a, long row, const float *b, long step, long terms, float *c,
                      long out, long rows, long width, int more) {
    for (long i = 0; i < rows; i += AMX_ROWS, a += AMX_ROWS * row, c += AMX_ROWS * out)
        for (long j = 0; j < width; j += PANEL) {
            begin_strip(c + j, out, more);
            for (long k = 0; k < terms; k += TILE_WORDS) {
                load_words(b + k * step + j, step);
                load_block(a + k, row);
                add_products();
            }
            end_strip(c + j, out);
        }
}
#endif
/* For floats or bf16 pairs: `terms` floats or pairs. */
INLINE void product_set(const struct attention *s, const float *a, long row, long term,
                        const float *b, long step, long terms, float *c, long out, long rows,
                        long width) {
    IF_TILES(s->pairs, {
        multiply_amx(a, row, b, step, terms, c, out, rows, width, 0);
        return;
    })
    if (s->pairs)
        set_pairs(a, row, term, b, step, terms, c, out, rows, width);
    else
        set_floats(a, row, term, b, step, terms, c, out, rows, width);
}
INLINE void product_sum(const struct attention *s, const float *a, long row, long term,
                        const float *b, long step, long terms, float *c, long out, long rows,
                        long width) {
    IF_TILES(s->pairs, {
        multiply_amx(a, row, b, step, terms, c, out, rows, width, 1);
        return;
    })
    if (s->pairs)
        sum_pairs(a, row, term, b, step, terms, c, out, rows, width);
    else
        sum_floats(a, row, term, b, step, terms, c, out, rows, width);
}

INLINE long blocks_of(long n, long block) { return (n + block - 1) / block; }
INLINE long least(long a, long b) { return a < b ? a : b; }
/* Rows of a block that are computed: whole tiles, or AMX strips. */
INLINE long tiles_of(const struct attention *s, long rows) {
    long tile = ROWS_AT_ONCE;
    IF_TILES(s->pairs, tile = AMX_ROWS;)
    return (void)s, blocks_of(rows, tile) * tile;
}
/* K elements of products over so many tokens, and over features. */
INLINE long token_terms(const struct attention *s, long n) {
    IF_TILES(s->pairs, return tiles_of(s, n) / 2;)
    return s->pairs ? blocks_of(n, 2) : n;
}
INLINE long feature_terms(const struct attention *s) {
    IF_TILES(s->pairs, return s->width / 2;)
    return s->pairs ? blocks_of(s->size, 2) : s->size;
}
