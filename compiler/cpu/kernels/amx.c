/* After bf16_pairs.c: contractions of bf16 pairs by AMX, with eight tile registers of 16 rows of 64
 * bytes. One instruction multiplies 16 rows of 16 pairs by 16 pairs of 16 lanes, and adds to a
 * tile of floats. A strip is two tiles of rows by a panel: four accumulator tiles, two tiles of
 * each operand, so four loads serve four products. HAS_TILES: the target has AMX, and the source
 * uses pairs.
 *
 * Left operands are packed into blocks of TILE_WORDS pairs, [block][AMX_ROWS][TILE_WORDS], with
 * zeros after the last pair; or read in place, where rows have a constant stride. Right operands
 * are panels as in bf16_pairs.c. */
#if HAS_TILES
#define IF_TILES(pairs, ...)                                                                       \
    if (pairs) __VA_ARGS__
enum {
    TILE_WORDS = 16,
    AMX_ROWS = 32,
    FILLED_ROWS = AMX_ROWS,
    BLOCK_FLOATS = AMX_ROWS * TILE_WORDS
};
_Static_assert(PANEL == 32 && ROW_BLOCK % AMX_ROWS == 0, "two tiles of lanes; whole bands");

/* Loads the accumulators of a strip: c[AMX_ROWS][PANEL] with rows `row` floats apart, or zeros. */
INLINE void begin_strip(const float *c, long row, int more) {
    const long apart = row * 4;
    if (more) {
        LOAD_TILE(0, c);
        LOAD_TILE(1, c + LANES);
        LOAD_TILE(2, c + TILE_WORDS * row);
        LOAD_TILE(3, c + TILE_WORDS * row + LANES);
        return;
    }
    ZERO_TILE(0);
    ZERO_TILE(1);
    ZERO_TILE(2);
    ZERO_TILE(3);
}
INLINE void end_strip(float *c, long row) {
    const long apart = row * 4;
    STORE_TILE(0, c);
    STORE_TILE(1, c + LANES);
    STORE_TILE(2, c + TILE_WORDS * row);
    STORE_TILE(3, c + TILE_WORDS * row + LANES);
}
/* The left operand of half a strip: its strides between rows and between blocks, in floats. */
struct half {
    const float *a;
    long row, block;
};
INLINE void load_halves(const struct half *x) {
    long apart = x[0].row * 4;
    LOAD_TILE(4, x[0].a);
    apart = x[1].row * 4;
    LOAD_TILE(5, x[1].a);
}
INLINE void load_block(const float *a, long row) {
    load_halves((struct half[2]){{a, row, 0}, {a + TILE_WORDS * row, row, 0}});
}
INLINE void load_words(const float *b, long row) {
    const long apart = row * 4;
    LOAD_TILE(6, b);
    LOAD_TILE(7, b + LANES);
}
INLINE void stream_words(const float *b, long row) {
    const long apart = row * 4;
    STREAM_TILE(6, b);
    STREAM_TILE(7, b + LANES);
}
/* Multiplies a block by a panel's pairs, both loaded. */
INLINE void add_products(void) {
    ADD_TILES(0, 4, 6);
    ADD_TILES(1, 4, 7);
    ADD_TILES(2, 5, 6);
    ADD_TILES(3, 5, 7);
}
INLINE void add_block(const float *a, const float *b) {
    load_words(b, PANEL);
    load_block(a, TILE_WORDS);
    add_products();
}
INLINE long word_blocks(long words) { return (words + TILE_WORDS - 1) / TILE_WORDS; }
INLINE long whole_blocks(long words) { return word_blocks(words) * TILE_WORDS; }
/* Adds the blocks of both halves times b[words][PANEL]. b is not read after its last pair. */
HOT void add_halves(struct half x, struct half y, const float *b, long words) {
    struct half both[2] = {x, y};
    float rest[TILE_WORDS * PANEL] __attribute__((aligned(64)));
    for (; words > 0; words -= TILE_WORDS, b += TILE_WORDS * PANEL) {
        const float *from = b;
        for (long i = 0; words < TILE_WORDS && i < TILE_WORDS * PANEL; i += LANES)
            st(rest + i, i < words * PANEL ? ld(b + i) : (vf){0}), from = rest;
        load_words(from, PANEL);
        load_halves(both);
        add_products();
        both[0].a += both[0].block, both[1].a += both[1].block;
    }
}
/* The same for packed blocks. */
HOT void add_blocks(const float *a, const float *b, long words) {
    struct half x = {a, TILE_WORDS, BLOCK_FLOATS},
                y = {a + BLOCK_FLOATS / 2, TILE_WORDS, BLOCK_FLOATS};
    add_halves(x, y, b, words);
}
/* The same for whole blocks that are `block` words apart, with rows `row` apart: packed, or in
 * place. For one panel after another: b streams, a stays in cache. */
HOT void add_rows(const float *a, long block, long row, const float *b, long words) {
    for (; words > 0; words -= TILE_WORDS, a += block, b += TILE_WORDS * PANEL) {
        stream_words(b, PANEL);
        load_block(a, row);
        add_products();
    }
}
/* Packs a row of a strip, the pairs of n elements, to `to`, the row's place in the first block. */
INLINE void pack_words(const void *from, long n, float *to) {
    for (const bf16 *p = from; n > 0; n -= 2 * TILE_WORDS, p += 2 * TILE_WORDS, to += BLOCK_FLOATS)
        st(to, (vf)ld_panel_part(p, n));
}
/* to[16 rows][16 words], where the 16 rows are contiguous in memory: pair i has the K elements 2
 * i and 2 i + 1, whose first rows are at from[]. */
typedef unsigned short v_tile __attribute__((vector_size(TILE_WORDS * 2)));
typedef unsigned short v_tile_any
    __attribute__((vector_size(TILE_WORDS * 2), aligned(2), may_alias));
INLINE void transpose_terms(const bf16 *const from[2 * TILE_WORDS], float *to) {
    float words[TILE_WORDS * TILE_WORDS] __attribute__((aligned(64)));
    for (long i = 0; i < TILE_WORDS; i++) {
        v_tile x = *(const v_tile_any *)from[2 * i], y = *(const v_tile_any *)from[2 * i + 1];
        st(words + i * TILE_WORDS,
           (vf)__builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                       31));
    }
    transpose_block((struct array){words, PAIR}, 0, TILE_WORDS, to, TILE_WORDS);
}
#else
#define IF_TILES(pairs, ...)
enum { FILLED_ROWS = TILE_ROWS };
#endif
