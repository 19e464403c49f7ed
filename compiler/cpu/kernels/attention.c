/* Attention without stored scores (Dao et al., FlashAttention, NeurIPS 2022; Milakov and Gimelshein, online
 * softmax, 2018). A unit goes over the keys (forwards) or the queries (backwards) block by block; a block's
 * scores live in the scratch, in the first caches.
 *
 * A first phase packs each head's tokens so that every product below is of one form, a tile of rows by
 * vectors: c[row][lane] = sum over terms of a[row][term] b[term][lane]. Tokens of a head are then rows of
 * WIDTH floats, zero behind the last feature and the last token; `turned` ones lie block by block,
 * [block][feature][KEYS]. */
#if LANES == 16
#define ATTENTION_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
enum { ROWS_AT_ONCE = 8 };
#else
#define ATTENTION_ROWS(X) X(0) X(1) X(2) X(3)
enum { ROWS_AT_ONCE = 4 };
#endif
enum { KEYS = 6 * LANES, QUERIES = 64 }; /* of a block */

struct attention {
    long batch, queries, keys, heads, size;
    long width; /* floats of a packed row: `size`, rounded up to whole vectors */
    float scale, threshold, kept;
    int number, causal, drops, in_parts;
    int type;    /* of all but the logarithms, which are floats */
    long chunks; /* backwards: parts of the keys that are units of their own */
};

/* Three vectors at a time are as many as the registers hold; what remains goes by two or one. The sum of a
 * chain is added to (ADD) or replaces (SET) what is there; its terms are a block's at most. */
#define ROW_BEGIN_3(r) vf c##r##0 = {0}, c##r##1 = {0}, c##r##2 = {0};
#define ROW_BEGIN_2(r) vf c##r##0 = {0}, c##r##1 = {0};
#define ROW_BEGIN_1(r) vf c##r##0 = {0};
#define TERM_3         vf b0 = ld(b), b1 = ld(b + LANES), b2 = ld(b + 2 * LANES);
#define TERM_2         vf b0 = ld(b), b1 = ld(b + LANES);
#define TERM_1         vf b0 = ld(b);
#define ROW_TERM_3(r)                                                                                        \
    {                                                                                                        \
        vf x = splat(a[r * row]);                                                                            \
        c##r##0 += x * b0, c##r##1 += x * b1, c##r##2 += x * b2;                                             \
    }
#define ROW_TERM_2(r)                                                                                        \
    {                                                                                                        \
        vf x = splat(a[r * row]);                                                                            \
        c##r##0 += x * b0, c##r##1 += x * b1;                                                                \
    }
#define ROW_TERM_1(r) c##r##0 += splat(a[r * row]) * b0;
#define ROW_SET_1(r)  st(c + r * out, c##r##0);
#define ROW_SET_2(r)  ROW_SET_1(r) st(c + r * out + LANES, c##r##1);
#define ROW_SET_3(r)  ROW_SET_2(r) st(c + r * out + 2 * LANES, c##r##2);
#define ROW_SUM_1(r)  st(c + r * out, ld(c + r * out) + c##r##0);
#define ROW_SUM_2(r)  ROW_SUM_1(r) st(c + r * out + LANES, ld(c + r * out + LANES) + c##r##1);
#define ROW_SUM_3(r)  ROW_SUM_2(r) st(c + r * out + 2 * LANES, ld(c + r * out + 2 * LANES) + c##r##2);
/* a[i row + k term], i < ROWS_AT_ONCE; b[k step ...]; c[i out ...]. */
#define ATTENTION_TILE(name, VECTORS, END)                                                                   \
    HOT void name(const float *a, long row, long term, const float *b, long step, long terms, float *c,      \
                  long out) {                                                                                \
        ATTENTION_ROWS(ROW_BEGIN_##VECTORS)                                                                  \
        for (long k = 0; k < terms; k++, a += term, b += step) {                                             \
            TERM_##VECTORS ATTENTION_ROWS(ROW_TERM_##VECTORS)                                                \
        }                                                                                                    \
        ATTENTION_ROWS(END##_##VECTORS)                                                                      \
    }
ATTENTION_TILE(set_3, 3, ROW_SET)
ATTENTION_TILE(sum_3, 3, ROW_SUM)
/* Only the ends that the kernels below need: ATTENTION_ENDS is a mask that the emitter sets. */
#if ATTENTION_ENDS & 1
ATTENTION_TILE(set_1, 1, ROW_SET)
#else
#define set_1(...) __builtin_trap()
#endif
#if ATTENTION_ENDS & 2
ATTENTION_TILE(set_2, 2, ROW_SET)
#else
#define set_2(...) __builtin_trap()
#endif
#if ATTENTION_ENDS & 4
ATTENTION_TILE(sum_1, 1, ROW_SUM)
#else
#define sum_1(...) __builtin_trap()
#endif
#if ATTENTION_ENDS & 8
ATTENTION_TILE(sum_2, 2, ROW_SUM)
#else
#define sum_2(...) __builtin_trap()
#endif

/* c[rows][width] = or += a b, whole tiles of rows. */
#define ATTENTION_PRODUCT(name, tile)                                                                        \
    UNUSED void name(const float *a, long row, long term, const float *b, long step, long terms, float *c,   \
                     long out, long rows, long width) {                                                      \
        for (long i = 0; i < rows; i += ROWS_AT_ONCE, a += ROWS_AT_ONCE * row, c += ROWS_AT_ONCE * out) {    \
            long j = 0;                                                                                      \
            for (; j + 3 * LANES <= width; j += 3 * LANES)                                                   \
                tile##_3(a, row, term, b + j, step, terms, c + j, out);                                      \
            if (width - j == 2 * LANES) tile##_2(a, row, term, b + j, step, terms, c + j, out);              \
            if (width - j == LANES) tile##_1(a, row, term, b + j, step, terms, c + j, out);                  \
        }                                                                                                    \
    }
ATTENTION_PRODUCT(product_set, set)
ATTENTION_PRODUCT(product_sum, sum)

INLINE long blocks_of(long n, long block) { return (n + block - 1) / block; }
INLINE long least(long a, long b) { return a < b ? a : b; }
/* Rows of a block that are computed: whole tiles. */
INLINE long tiles_of(long rows) { return blocks_of(rows, ROWS_AT_ONCE) * ROWS_AT_ONCE; }

/* ---- packing ---- */

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

/* A block of KEYS tokens, turned: to[feature][KEYS]. */
UNUSED void pack_turned(const struct attention *s, struct array from, long tokens, long first, float *to) {
    long row = s->heads * s->size;
    for (long j = 0; j < KEYS; j += LANES) {
        long f = 0, at = (first + j) * row;
        if (first + j + LANES <= tokens)
            for (; f + LANES <= s->size; f += LANES) turn_block(from, at + f, row, to + f * KEYS + j, KEYS);
        for (; f < s->size; f++)
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
    if (!back) {
        pack_rows(s, v, s->keys, first, KEYS, 1, p.v + key * s->width);
        return;
    }
    pack_turned(s, v, s->keys, first, p.v_turned + key * s->size);
    pack_rows(s, k, s->keys, first, KEYS, 1, p.k + key * s->width);
}

/* ---- a block of scores ---- */

/* Arguments between what is read and the results: seed, step and part. */
INLINE int draws_by(const struct attention *s) { return s->drops ? 2 + s->in_parts : 0; }

/* Where scores are dropped: what draws, and the number of the block's first score. */
struct draws {
    const long *seed, *step;
    unsigned long first;
};
INLINE struct draws draws_of(const struct attention *s, char *const *arg, int seed, long head, long query,
                             long key) {
    struct draws d = {0};
    if (s->drops) d.seed = (const long *)arg[seed], d.step = (const long *)arg[seed + 1];
    d.first = (unsigned long)((head * s->queries + query) * s->keys + key);
    if (s->in_parts) /* of all samples */
        d.first += *(const unsigned long *)arg[seed + 2] *
                   (unsigned long)(s->batch * s->heads * s->queries * s->keys);
    return d;
}
INLINE vf dropped(const struct attention *s, const struct draws *d, long i, long j, vf v) {
#if !DRAWS /* by none of this source: nothing to compile */
    return v;
#else
    vf drawn = v_random_row(d->first + (unsigned long)(i * s->keys + j), *d->seed, *d->step, s->number);
    return v_pick(drawn < s->threshold, (vf){0}, v * s->kept);
#endif
}

/* Keys of the block from `key` on that are computed: whole vectors. */
INLINE long wide_of(const struct attention *s, long key) {
    return blocks_of(least(s->keys - key, KEYS), LANES) * LANES;
}

/* Keys of the block from `key` on that query i sees. */
INLINE long seen_of(const struct attention *s, long query, long key) {
    long n = least(s->keys - key, KEYS), ahead = query + 1 - key;
    return s->causal && ahead < n ? (ahead < 0 ? 0 : ahead) : n;
}

INLINE float largest_lane(vf v) {
#if LANES == 16
    v = larger(v, __builtin_shufflevector(v, v, HI8));
#endif
#if LANES >= 8
    v = larger(v, __builtin_shufflevector(v, v, HI4));
#endif
    v = larger(v, __builtin_shufflevector(v, v, HI2));
    return larger(v, __builtin_shufflevector(v, v, HI1))[0];
}

/* v_exp for what is not above 0 by more than rounding. What would be below the normal range is 0; a NaN
 * stays. */
INLINE vf share_of(vf a) {
    const float least = -87.0f;
    return (vf)((vi)exp_normal(larger(splat(least), a)) & ~(a < least));
}

/* ---- forwards ---- */

/* Scores of a block become shares, not yet divided by their sum: of each row the largest score so far, the
 * sum so far (in lanes), and y so far change with it. */
HOT void soften(const struct attention *s, const struct draws *d, long query, long key, long rows,
                float *score, float *most, float *sum, float *y) {
    long wide = wide_of(s, key);
    for (long i = 0; i < rows; i++, score += KEYS, y += s->width, sum += LANES) {
        long n = seen_of(s, query + i, key);
        vf top = splat(most[i]), all = {0};
        for (long j = n / LANES * LANES; j < wide; j += LANES)
            st(score + j, v_pick(lane_numbers() + (int)j < (int)n, ld(score + j), splat(-__builtin_inff())));
        for (long j = 0; j < wide; j += LANES) top = larger(ld(score + j), top);
        float now = largest_lane(top);
        vf m = splat(now);
        for (long j = 0; j < wide; j += LANES) {
            vf p = share_of(ld(score + j) - m);
            all += p;
            if (s->drops) p = dropped(s, d, i, j, p);
            st(score + j, p);
        }
        if (now > most[i]) {
            vf shrink = share_of(splat(most[i] - now));
            st(sum, ld(sum) * shrink);
            for (long f = 0; f < s->width; f += LANES) st(y + f, ld(y + f) * shrink);
            most[i] = now;
        }
        st(sum, ld(sum) + all);
    }
}

/* A unit: a block of queries of a head. */
UNUSED void attention_unit(const struct attention *s, char *const *arg, long unit, char *scratch,
                           char *workspace) {
    struct packed p = packed_of(s, workspace, 0);
    long blocks = p.queries / QUERIES, head = unit / blocks, query = unit % blocks * QUERIES;
    long rows = least(s->queries - query, QUERIES), row = s->heads * s->size;
    float *q = (float *)scratch, *y = q + QUERIES * s->width, *score = y + QUERIES * s->width;
    float most[QUERIES], sum[QUERIES * LANES];
    long at = head / s->heads * s->queries * row + head % s->heads * s->size;
    pack_rows(s, tokens_of(s, arg, 0, at), s->queries, query, QUERIES, s->scale, q);
    for (long i = 0; i < QUERIES * s->width; i += LANES) st(y + i, (vf){0});
    for (long i = 0; i < QUERIES; i++) most[i] = -__builtin_inff(), st(sum + i * LANES, (vf){0});
    long last = s->causal ? least(s->keys, query + rows) : s->keys;
    for (long key = 0; key < last; key += KEYS) {
        struct draws d = draws_of(s, arg, 3, head, query, key);
        long wide = wide_of(s, key);
        product_set(q, s->width, 1, p.k_turned + (head * p.keys + key) * s->size, KEYS, s->size, score, KEYS,
                    tiles_of(rows), wide);
        soften(s, &d, query, key, rows, score, most, sum, y);
        product_sum(score, KEYS, 1, p.v + (head * p.keys + key) * s->width, s->width, wide, y, s->width,
                    tiles_of(rows), s->width);
    }
    int out = 3 + draws_by(s);
    struct array to = tokens_of(s, arg, out, at + query * row);
    float *log = (float *)arg[out + 1] + head * s->queries + query;
    for (long i = 0; i < rows; i++) {
        float all = sum_lanes(ld(sum + i * LANES));
        vf each = splat(all);
        for (long f = 0; f < s->size; f += LANES)
            store_n(to, i * row + f, ld(y + i * s->width + f) / each, s->size - f);
        log[i] = most[i] + __builtin_logf(all);
    }
}

/* ---- backwards ---- */

/* A unit: a block of queries of a head. Of each, beside its packed rows, the sum of y dy. */
UNUSED void pack_queries(const struct attention *s, char *const *arg, long unit, char *workspace) {
    struct packed p = packed_of(s, workspace, 1);
    long blocks = p.queries / QUERIES, head = unit / blocks, query = unit % blocks * QUERIES;
    long row = s->heads * s->size, at = head / s->heads * s->queries * row + head % s->heads * s->size;
    struct array y = tokens_of(s, arg, 3, at), dy = tokens_of(s, arg, 5, at);
    const float *log = (const float *)arg[4] + head * s->queries;
    long to = head * p.queries + query;
    pack_rows(s, tokens_of(s, arg, 0, at), s->queries, query, QUERIES, s->scale, p.q + to * s->width);
    pack_rows(s, dy, s->queries, query, QUERIES, 1, p.dy + to * s->width);
    for (long i = 0; i < QUERIES; i++) {
        vf sum = {0};
        long token = query + i, here = token < s->queries;
        for (long f = 0; here && f < s->size; f += LANES)
            sum += load_n(y, token * row + f, s->size - f) * load_n(dy, token * row + f, s->size - f);
        p.d[to + i] = sum_lanes(sum), p.log[to + i] = here ? log[token] : 0;
    }
}

/* Of a block: scores become shares, v dy becomes the gradient of the scores (before `scale`). */
HOT void soften_back(const struct attention *s, const struct draws *d, long query, long key, long rows,
                     long tiles, float *share, float *grad, const float *log, const float *sum) {
    long wide = wide_of(s, key);
    for (long i = 0; i < tiles; i++, share += KEYS, grad += KEYS) {
        long n = i < rows ? seen_of(s, query + i, key) : 0;
        vf l = splat(log[i]), less = splat(sum[i]);
        for (long j = 0; j < wide; j += LANES) {
            vf p = share_of(ld(share + j) - l), dp = ld(grad + j), used = p;
            if (n < KEYS) p = used = keep(p, n - j);
            if (s->drops) used = dropped(s, d, i, j, p), dp = dropped(s, d, i, j, dp);
            st(share + j, used), st(grad + j, n < KEYS ? keep(p * (dp - less), n - j) : p * (dp - less));
        }
    }
}

/* A unit: a chunk of a head's keys. dk and dv are its own; of dq it makes a part. */
UNUSED void attention_back(const struct attention *s, char *const *arg, long unit, char *scratch,
                           char *workspace) {
    struct packed p = packed_of(s, workspace, 1);
    long head = unit / s->chunks, chunk = unit % s->chunks, row = s->heads * s->size, out = 6 + draws_by(s);
    long blocks = p.keys / KEYS, each = blocks_of(blocks, s->chunks), from = chunk * each * KEYS;
    long to = least(from + each * KEYS, s->keys);
    float *share = (float *)scratch, *grad = share + QUERIES * KEYS, *dk = grad + QUERIES * KEYS,
          *dv = dk + KEYS * s->width;
    float *dq = p.dq + (head * s->chunks + chunk) * p.queries * s->width;
    for (long i = 0; i < p.queries * s->width; i += LANES) st(dq + i, (vf){0});
    for (long key = from; key < to; key += KEYS) {
        long block = head * p.keys + key, wide = wide_of(s, key);
        for (long i = 0; i < KEYS * s->width; i += LANES) st(dk + i, (vf){0}), st(dv + i, (vf){0});
        for (long query = s->causal ? key / QUERIES * QUERIES : 0; query < s->queries; query += QUERIES) {
            struct draws d = draws_of(s, arg, 6, head, query, key);
            long here = head * p.queries + query, rows = least(s->queries - query, QUERIES),
                 tiles = tiles_of(rows);
            const float *q = p.q + here * s->width, *dy = p.dy + here * s->width;
            product_set(q, s->width, 1, p.k_turned + block * s->size, KEYS, s->size, share, KEYS, tiles,
                        wide);
            product_set(dy, s->width, 1, p.v_turned + block * s->size, KEYS, s->size, grad, KEYS, tiles,
                        wide);
            soften_back(s, &d, query, key, rows, tiles, share, grad, p.log + here, p.d + here);
            product_sum(share, 1, KEYS, dy, s->width, tiles, dv, s->width, wide, s->width);
            product_sum(grad, 1, KEYS, q, s->width, tiles, dk, s->width, wide, s->width);
            product_sum(grad, KEYS, 1, p.k + block * s->width, s->width, wide, dq + query * s->width,
                        s->width, tiles, s->width);
        }
        long at = head / s->heads * s->keys * row + head % s->heads * s->size + key * row;
        struct array to_k = tokens_of(s, arg, out + 1, at), to_v = tokens_of(s, arg, out + 2, at);
        for (long j = 0; j < least(s->keys - key, KEYS); j++)
            for (long f = 0; f < s->size; f += LANES) {
                store_n(to_k, j * row + f, ld(dk + j * s->width + f), s->size - f);
                store_n(to_v, j * row + f, ld(dv + j * s->width + f), s->size - f);
            }
    }
}

/* A unit: a block of queries of a head, whose parts of dq are added in order. */
UNUSED void add_parts(const struct attention *s, char *const *arg, long unit, char *workspace) {
    struct packed p = packed_of(s, workspace, 1);
    long blocks = p.queries / QUERIES, head = unit / blocks, query = unit % blocks * QUERIES;
    long row = s->heads * s->size, at = head / s->heads * s->queries * row + head % s->heads * s->size;
    struct array to = tokens_of(s, arg, 6 + draws_by(s), at + query * row);
    for (long i = 0; i < least(s->queries - query, QUERIES); i++)
        for (long f = 0; f < s->size; f += LANES) {
            vf sum = {0};
            for (long c = 0; c < s->chunks; c++)
                sum += ld(p.dq + ((head * s->chunks + c) * p.queries + query + i) * s->width + f);
            store_n(to, i * row + f, sum * s->scale, s->size - f);
        }
}
