/* Operands of attention's products, which a first phase lays out for the tile (attention_tiles.c). Tokens of
 * a head become rows of WIDTH floats, zero behind the last feature and the last token; `turned` ones lie
 * block by block, [block][feature][KEYS].
 *
 * Of pairs each form has half as many words in the first half of its place: rows are words of two features,
 * and so are turned ones; where tokens are the terms, two of them are a row of words. Queries and the
 * gradients of results are wanted in both forms, a block's rows before its pairs of tokens. */

/* Tokens [first, first + n) of a head, times `scale`: to[token][width]; rows behind the last token are zero.
 */
UNUSED void pack_rows(const struct attention *s, struct array from, long tokens, long first, long n,
                      float scale, float *to) {
    long row = s->heads * s->size;
    for (long i = 0; i < n; i++, to += s->width) {
        long at = (first + i) * row;
        for (long f = 0; f < s->width; f += LANES)
            st(to + f, first + i >= tokens    ? (vf){0}
                       : f + LANES <= s->size ? load(from, at + f) * scale
                                              : load_part(from, at + f, s->size - f) * scale);
    }
}

#if HAS_PAIRS
INLINE vh ld_features(const bf16 *p, long n) {
    vh v = {0};
    if (n >= LANES) return *(const vh_any *)p;
    for (long i = 0; i < n; i++) v[i] = p[i];
    return v;
}
/* Tokens [first, first + n) as they are: to[token][width / 2]. */
UNUSED void pack_row_words(const struct attention *s, const bf16 *from, long tokens, long first, long n,
                           float *to) {
    bf16 *at = (bf16 *)to;
    for (long i = 0; i < n; i++, at += s->width)
        for (long f = 0; f < s->width; f += LANES)
            *(vh_any *)(at + f) = first + i < tokens
                                      ? ld_features(from + (first + i) * s->heads * s->size + f, s->size - f)
                                      : (vh){0};
}
/* The same by two tokens: to[token / 2][width]. */
UNUSED void pack_token_pairs(const struct attention *s, const bf16 *from, long tokens, long first, long n,
                             float *to) {
    long row = s->heads * s->size;
    for (long i = first; i < first + n; i += 2, to += s->width)
        for (long f = 0; f < s->width; f += LANES) {
            vh a = {0}, b = {0};
            if (i < tokens) a = ld_features(from + i * row + f, s->size - f);
            if (i + 1 < tokens) b = ld_features(from + (i + 1) * row + f, s->size - f);
            st(to + f, (vf)(__builtin_convertvector(a, vw) | __builtin_convertvector(b, vw) << 16));
        }
}
#endif

/* A block of KEYS tokens, turned: to[feature][KEYS], of pairs to[feature / 2][KEYS]. */
UNUSED void pack_turned(const struct attention *s, struct array from, long tokens, long first, float *to) {
    long row = s->heads * s->size, size = s->size;
    if (s->pairs) from.type = PAIR, row /= 2, size /= 2;
    for (long j = 0; j < KEYS; j += LANES) {
        long f = 0, at = (first + j) * row;
        if (first + j + LANES <= tokens)
            for (; f + LANES <= size; f += LANES) turn_block(from, at + f, row, to + f * KEYS + j, KEYS);
        for (; f < size; f++)
            for (long i = 0; i < LANES; i++)
                to[f * KEYS + j + i] = first + j + i < tokens ? element(from, at + i * row + f) : 0;
    }
}

/* Argument `i` from an element on. */
INLINE struct array tokens_of(const struct attention *s, char *const *arg, int i, long at) {
    return from_element((struct array){arg[i], s->type}, at);
}

/* Where things lie in the workspace, in floats; heads of all samples one behind the other. */
struct packed {
    long keys, queries; /* tokens of a head, rounded up to whole blocks */
    float *k, *v, *k_turned, *v_turned, *q, *dy, *d, *log, *dq;
};
INLINE struct packed packed_of(const struct attention *s, char *workspace, int back) {
    struct packed p = {blocks_of(s->keys, KEYS) * KEYS, blocks_of(s->queries, QUERIES) * QUERIES};
    long heads = s->batch * s->heads, keys = heads * p.keys, queries = heads * p.queries;
    p.k_turned = (float *)workspace;
    if (!back) {
        p.v = p.k_turned + keys * s->size;
        return p;
    }
    p.v_turned = p.k_turned + keys * s->size, p.k = p.v_turned + keys * s->size;
    p.q = p.k + keys * s->width, p.dy = p.q + queries * s->width;
    p.d = p.dy + queries * s->width, p.log = p.d + queries;
    p.dq = p.log + queries;
    return p;
}

/* A unit: a block of keys of a head. */
UNUSED void pack_keys(const struct attention *s, char *const *arg, long unit, char *workspace, int back) {
    struct packed p = packed_of(s, workspace, back);
    long blocks = p.keys / KEYS, head = unit / blocks, first = unit % blocks * KEYS;
    long at = head / s->heads * s->keys * s->heads * s->size + head % s->heads * s->size,
         key = head * p.keys + first;
    struct array k = tokens_of(s, arg, 1, at), v = tokens_of(s, arg, 2, at);
    pack_turned(s, k, s->keys, first, p.k_turned + key * s->size);
    if (back) pack_turned(s, v, s->keys, first, p.v_turned + key * s->size);
    struct array rows = back ? k : v;
    float *to = (back ? p.k : p.v) + key * s->width;
    IF_PAIRS(s->pairs, {
        pack_token_pairs(s, rows.at, s->keys, first, KEYS, to);
        return;
    })
    pack_rows(s, rows, s->keys, first, KEYS, 1, to);
}

/* Arguments between what is read and the results: seed, step and part. */
INLINE int draws_by(const struct attention *s) { return s->drops ? 2 + s->in_parts : 0; }

/* A block of QUERIES rows, times `scale`; of pairs, which stay as they are, its words in both forms. */
UNUSED void pack_block(const struct attention *s, struct array from, long query, float scale, float *to) {
    IF_PAIRS(s->pairs, {
        pack_row_words(s, from.at, s->queries, query, QUERIES, to);
        pack_token_pairs(s, from.at, s->queries, query, QUERIES, to + QUERIES * s->width / 2);
        return;
    })
    pack_rows(s, from, s->queries, query, QUERIES, scale, to);
}

/* A unit: a block of queries of a head. Of each, beside its packed rows, the sum of y dy. */
UNUSED void pack_queries(const struct attention *s, char *const *arg, long unit, char *workspace) {
    struct packed p = packed_of(s, workspace, 1);
    long blocks = p.queries / QUERIES, head = unit / blocks, query = unit % blocks * QUERIES;
    long row = s->heads * s->size, at = head / s->heads * s->queries * row + head % s->heads * s->size;
    struct array y = tokens_of(s, arg, 3, at), dy = tokens_of(s, arg, 5, at);
    const float *log = (const float *)arg[4] + head * s->queries;
    long to = head * p.queries + query;
    pack_block(s, tokens_of(s, arg, 0, at), query, s->scale, p.q + to * s->width);
    pack_block(s, dy, query, 1, p.dy + to * s->width);
    for (long i = 0; i < QUERIES; i++) {
        vf sum = {0};
        long token = query + i, here = token < s->queries;
        for (long f = 0; here && f < s->size; f += LANES)
            sum += load_n(y, token * row + f, s->size - f) * load_n(dy, token * row + f, s->size - f);
        p.d[to + i] = sum_lanes(sum), p.log[to + i] = here ? log[token] : 0;
    }
}
