/* Packs attention's operands for the tile (attention_tiles.c), in a phase before. A head's
 * tokens become rows of WIDTH floats, zero after the last feature. Transposed operands are
 * stored by block, [block][feature][KEYS], and are zero after the last token up to whole
 * vectors. Rows after the last token are zero up to whole tiles; nothing further is read.
 *
 * With bf16 pairs, each form takes the first half of its memory. Rows are pairs of two features,
 * and so are transposed rows; where K elements are tokens, two tokens make a row of pairs.
 * Queries and the gradients of results are packed in both forms, a block's rows before its pairs
 * of tokens. AMX strips read the latter by feature, [feature][QUERIES / 2], and also need zeros
 * after a head's last feature. */

enum {
    ROWS_AHEAD = 8
}; /* prefetch distance in rows: a token's features are a few cache lines among those of all heads
    */

/* Packs tokens [first, first + n) of a head, times `scale`: to[token][width]. */
HOT void pack_rows(const struct attention *s, struct array from, long tokens, long first, long n,
                   float scale, float *to) {
    long row = s->heads * s->size, here = least(n, tokens - first), at = first * row;
    for (long i = 0; i < here; i++, to += s->width, at += row) {
        long f = 0;
        for (; f + LANES <= s->size; f += LANES) {
            __builtin_prefetch(from_element(from, at + ROWS_AHEAD * row + f).at);
            st(to + f, load(from, at + f) * scale);
        }
        if (f < s->size) st(to + f, load_part(from, at + f, s->size - f) * scale);
    }
    for (long i = 0; i < (tiles_of(s, here) - here) * s->width; i += LANES) st(to + i, (vf){0});
}

#if HAS_PAIRS
INLINE vh ld_features(const bf16 *p, long n) {
    if (n >= LANES) return *(const vh_any *)p;
    v_panel v = ld_panel_part(p, n > 0 ? n : 0);
    vh lower;
    __builtin_memcpy(&lower, &v, sizeof lower);
    return lower;
}
/* Packs a block of KEYS tokens, transposed: to[feature / 2][KEYS]. It writes whole blocks of
 * pairs, which have room before the next keys'; an odd last feature is paired with zero. */
HOT void pack_transposed_words(const struct attention *s, const bf16 *from, long tokens, long first,
                               float *to) {
    long row = s->heads * s->size, here = least(KEYS, tokens - first);
    for (long j = 0; j < here; j += LANES)
        for (long f = 0; f < feature_terms(s); f += LANES) {
            const bf16 *at = from + (first + j) * row + 2 * f;
            long n = s->size > 2 * f ? s->size - 2 * f : 0, rows = here - j;
#define TOKEN_IN(k) vf r##k = k < rows ? (vf)ld_panel_part(at + k * row, n) : (vf){0};
#define WORDS_TO(k) st(to + (f + k) * KEYS + j, r##k);
            BLOCK_ROWS(TOKEN_IN)
            TRANSPOSE_ALL
            BLOCK_ROWS(WORDS_TO)
        }
}
/* Packs tokens [first, first + n) unchanged: to[token][width / 2]. */
HOT void pack_row_words(const struct attention *s, const bf16 *from, long tokens, long first,
                        long n, float *to) {
    bf16 *at = (bf16 *)to;
    n = tiles_of(s, least(n, tokens - first));
    for (long i = 0; i < n; i++, at += s->width)
        for (long f = 0; f < s->width; f += LANES)
            *(vh_any *)(at + f) =
                first + i < tokens
                    ? ld_features(from + (first + i) * s->heads * s->size + f, s->size - f)
                    : (vh){0};
}
/* Pairs of two tokens' features from f on; zeros after the last token and feature. */
INLINE vf pair_tokens(const struct attention *s, const bf16 *from, long tokens, long token,
                      long f) {
    long row = s->heads * s->size;
    vh a = {0}, b = {0};
    if (token < tokens) a = ld_features(from + token * row + f, s->size - f);
    if (token + 1 < tokens) b = ld_features(from + (token + 1) * row + f, s->size - f);
    return (vf)(__builtin_convertvector(a, vw) | __builtin_convertvector(b, vw) << 16);
}
/* Packs tokens in pairs of two: to[token / 2][width]. */
HOT void pack_token_pairs(const struct attention *s, const bf16 *from, long tokens, long first,
                          long n, float *to) {
    long end = first + tiles_of(s, least(n, tokens - first));
    for (long i = first; i < end; i += 2, to += s->width)
        for (long f = 0; f < s->width; f += LANES) st(to + f, pair_tokens(s, from, tokens, i, f));
}
#if HAS_TILES
/* Packs a block of queries in pairs of tokens, transposed: to[feature][QUERIES / 2]. */
HOT void pack_transposed_pairs(const struct attention *s, const bf16 *from, long tokens, long first,
                               float *to) {
    float words[LANES * LANES] __attribute__((aligned(64)));
    long n = tiles_of(s, least(QUERIES, tokens - first));
    for (long i = 0; i < n; i += 2 * LANES)
        for (long f = 0; f < s->width; f += LANES) {
            for (long j = 0; j < LANES; j++)
                st(words + j * LANES, pair_tokens(s, from, tokens, first + i + 2 * j, f));
            transpose_block((struct array){words, PAIR}, 0, LANES, to + f * (QUERIES / 2) + i / 2,
                            QUERIES / 2);
        }
}
#endif
#endif

/* Packs a block of KEYS tokens, transposed: to[feature][KEYS]; bf16 pairs as above. */
HOT void pack_transposed(const struct attention *s, struct array from, long tokens, long first,
                         float *to) {
    long row = s->heads * s->size, size = s->size, here = least(KEYS, tokens - first);
    IF_PAIRS(s->pairs, {
        pack_transposed_words(s, from.at, tokens, first, to);
        return;
    })
    for (long j = 0; j < here; j += LANES) {
        long f = 0, at = (first + j) * row;
        for (; f + LANES <= size; f += LANES)
            transpose_rows(from, at + f, row, here - j, to + f * KEYS + j, KEYS);
        if (f < size && f > 0) { /* the last vector overlaps the one before */
            f = size - LANES;
            transpose_rows(from, at + f, row, here - j, to + f * KEYS + j, KEYS);
            f = size;
        }
        for (; f < size; f++)
            for (long i = 0; i < LANES; i++)
                to[f * KEYS + j + i] = i < here - j ? element(from, at + i * row + f) : 0;
    }
}

/* Argument `i` from an element on. */
INLINE struct array tokens_of(const struct attention *s, char *const *arg, int i, long at) {
    return from_element((struct array){arg[i], s->type}, at);
}

/* Offsets of a head's packed operands, in floats; heads are contiguous. */
struct packed {
    long keys, queries; /* tokens of a head, rounded up to whole blocks */
    float *k, *v, *k_transposed, *v_transposed, *q, *dy, *d, *log, *dq;
};
INLINE struct packed packed_of(const struct attention *s, char *place, long head, int back) {
    struct packed p = {.keys = blocks_of(s->keys, KEYS) * KEYS,
                       .queries = blocks_of(s->queries, QUERIES) * QUERIES};
    if (!back) {
        p.k_transposed = (float *)place + head * 2 * p.keys * s->width;
        p.v = p.k_transposed + p.keys * s->width;
        return p;
    }
    p.k_transposed = (float *)place +
                     head * (3 * p.keys * s->width + p.queries * ((2 + s->chunks) * s->width + 2));
    p.v_transposed = p.k_transposed + p.keys * s->width, p.k = p.v_transposed + p.keys * s->width;
    p.q = p.k + p.keys * s->width, p.dy = p.q + p.queries * s->width;
    p.d = p.dy + p.queries * s->width, p.log = p.d + p.queries;
    p.dq = p.log + p.queries;
    return p;
}
/* The first element of a head, with so many tokens per sample. */
INLINE long head_at(const struct attention *s, long head, long tokens) {
    return (head / s->heads * tokens * s->heads + head % s->heads) * s->size;
}

/* Packs a block of keys of a head. */
UNUSED void pack_keys(const struct attention *s, char *const *arg, long head, long key,
                      const struct packed *p, int back) {
    long at = head_at(s, head, s->keys);
    struct array k = tokens_of(s, arg, 1, at), v = tokens_of(s, arg, 2, at);
    pack_transposed(s, k, s->keys, key, p->k_transposed + key * s->width);
    if (back) pack_transposed(s, v, s->keys, key, p->v_transposed + key * s->width);
    struct array rows = back ? k : v;
    float *to = (back ? p->k : p->v) + key * s->width;
    IF_PAIRS(s->pairs, {
        pack_token_pairs(s, rows.at, s->keys, key, KEYS, to);
        return;
    })
    pack_rows(s, rows, s->keys, key, KEYS, 1, to);
}

/* Number of arguments between the inputs and the results: seed, step and part. */
INLINE int draws_by(const struct attention *s) { return s->drops ? 2 + s->in_parts : 0; }

/* Packs a block of QUERIES rows, times `scale`; or unscaled bf16 pairs, in both forms. */
INLINE void pack_block(const struct attention *s, struct array from, long query, float scale,
                       float *to) {
    IF_PAIRS(s->pairs, {
        pack_row_words(s, from.at, s->queries, query, QUERIES, to);
        to += QUERIES * s->width / 2;
        IF_TILES(s->pairs, {
            pack_transposed_pairs(s, from.at, s->queries, query, to);
            return;
        })
        pack_token_pairs(s, from.at, s->queries, query, QUERIES, to);
        return;
    })
    pack_rows(s, from, s->queries, query, QUERIES, scale, to);
}

/* Packs a block of queries of a head. Backward also stores the sum of y dy of each query. */
UNUSED void pack_queries(const struct attention *s, char *const *arg, long head, long query,
                         const struct packed *p) {
    long row = s->heads * s->size, at = head_at(s, head, s->queries);
    struct array y = tokens_of(s, arg, 3, at), dy = tokens_of(s, arg, 5, at);
    const float *log = (const float *)arg[4] + head * s->queries;
    pack_block(s, tokens_of(s, arg, 0, at), query, s->scale, p->q + query * s->width);
    pack_block(s, dy, query, 1, p->dy + query * s->width);
    for (long i = query; i < least(query + QUERIES, s->queries); i++) {
        vf sum = {0};
        for (long f = 0; f < s->size; f += LANES)
            sum += load_n(y, i * row + f, s->size - f) * load_n(dy, i * row + f, s->size - f);
        p->d[i] = sum_lanes(sum);
        p->log[i] =
            s->addends && log[i] == -__builtin_inff() ? 0 : log[i]; /* no key is seen: exp(-inf) */
    }
}
