/* Attention block by block; comes after attention_tiles.c and attention_pack.c.
 *
 * With bf16 pairs, scores are sums of products of unscaled bf16, and are scaled here in floats.
 * Probabilities and gradients of scores are rounded to bf16 for the products that read them, in
 * the memory that held the floats. */

/* ---- a block of scores ---- */

/* A score times the scale, unless float queries were scaled before. It is rounded, and not
 * contracted into an FMA: the value that is subtracted from it is such a rounded score. */
INLINE vf scaled(const struct attention *s, vf score) {
    IF_PAIRS(s->pairs && !s->addends, {
        score *= splat(s->scale);
        ROUNDED(score);
    })
    (void)s;
    return score;
}

/* Adds masks and biases to a block of scores, which are scaled thereby. */
HOT void add_to_scores(const struct attention *s, char *const *arg, long head, long query, long key,
                       long rows, float *score) {
    long here = least(s->keys - key, KEYS);
    for (long i = 0; i < rows; i++, score += KEYS)
        for (long j = 0; j < here; j += LANES) {
            vf sum = ld(score + j);
            IF_PAIRS(s->pairs, {
                sum *= splat(s->scale);
                ROUNDED(sum);
            })
            for (long k = 0; k < s->addends; k++) {
                const struct array from = {arg[s->addend + k], F32};
                long at = head / s->heads * s->stride[k].sample +
                          head % s->heads * s->stride[k].head + (query + i) * s->stride[k].query;
                sum += load_n(from, at + key + j, here - j);
            }
            st(score + j, sum);
        }
}

/* Dropout of scores: the random stream, and the number of the block's first score. */
struct draws {
    const long *seed, *step;
    unsigned long first;
};
INLINE struct draws draws_of(const struct attention *s, char *const *arg, long head, long query,
                             long key) {
    struct draws d = {0};
    int seed = s->seed;
    if (s->drops) d.seed = (const long *)arg[seed], d.step = (const long *)arg[seed + 1];
    long row = (head / s->heads * s->all_heads + head % s->heads) * s->all_queries + query;
    d.first = (unsigned long)(s->first + row * s->all_keys + key);
    if (s->in_parts) /* over all samples */
        d.first += *(const unsigned long *)arg[seed + 2] *
                   (unsigned long)(s->batch * s->all_heads * s->all_queries * s->all_keys);
    return d;
}
INLINE vf dropped(const struct attention *s, const struct draws *d, long i, long j, vf v) {
#if !DRAWS /* no kernel of this source drops scores */
    return v;
#else
    vf drawn = v_random_row(d->first + (unsigned long)(i * s->all_keys + j), *d->seed, *d->step,
                            s->number);
    return v_pick(drawn < s->threshold, (vf){0}, v * s->kept);
#endif
}

/* Keys of the block from `key` on that are computed: whole vectors, or AMX panels. */
INLINE long wide_of(const struct attention *s, long key) {
    long vectors = LANES;
    IF_TILES(s->pairs, vectors = PANEL;)
    return blocks_of(least(s->keys - key, KEYS), vectors) * vectors;
}

/* Keys of the block from `key` on that query i attends to. */
INLINE long seen_of(const struct attention *s, long query, long key) {
    long n = least(s->keys - key, KEYS), seen = query + s->query_offset + 1 - key;
    return s->causal && seen < n ? (seen < 0 ? 0 : seen) : n;
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

/* v_exp for arguments that are not above 0 by more than rounding. Results below the normal range
 * become 0; a NaN stays. */
INLINE vf probability_of(vf a) {
    const float least = -87.0f;
    return (vf)((vi)exp_normal(larger(splat(least), a)) & ~(a < least));
}

/* ---- forward ---- */

/* Online softmax: turns a block's scores into probabilities, not yet divided by their sum.
 * Updates each row's running maximum, running sum (by lanes), and y. */
HOT void soften(const struct attention *s, const struct draws *d, long query, long key, long rows,
                float *score, float *most, float *sum, float *y) {
    long wide = wide_of(s, key);
    for (long i = 0; i < rows; i++, score += KEYS, y += s->width, sum += LANES) {
        long n = seen_of(s, query + i, key);
        vf top = splat(most[i]), all = {0};
        for (long j = n / LANES * LANES; j < wide; j += LANES)
            st(score + j,
               v_pick(lane_numbers() + (int)j < (int)n, ld(score + j), splat(-__builtin_inff())));
        for (long j = 0; j < wide; j += LANES) top = larger(scaled(s, ld(score + j)), top);
        float now = largest_lane(top);
        /* where the row has seen no key yet, all its probabilities are zero */
        vf m = splat(s->addends && now == -__builtin_inff() ? 0 : now);
        for (long j = 0; j < wide; j += LANES) {
            vf p = probability_of(scaled(s, ld(score + j)) - m);
            all += p;
            if (s->drops) p = dropped(s, d, i, j, p);
            IF_PAIRS(s->pairs, {
                *(vh_any *)((bf16 *)score + j) = narrow_normal(p);
                continue;
            })
            st(score + j, p);
        }
        if (now > most[i]) {
            vf shrink = probability_of(splat(most[i] - now));
            st(sum, ld(sum) * shrink);
            for (long f = 0; f < s->width; f += LANES) st(y + f, ld(y + f) * shrink);
            most[i] = now;
        }
        st(sum, ld(sum) + all);
    }
}

/* A block of queries of a head. */
UNUSED void attend(const struct attention *s, char *const *arg, long head, long query,
                   const struct packed *p, char *scratch) {
    long rows = least(s->queries - query, QUERIES), row = s->heads * s->size;
    float *q = (float *)scratch, *y = q + QUERIES * s->width, *score = y + QUERIES * s->width;
    float most[QUERIES], sum[QUERIES * LANES];
    long at = head_at(s, head, s->queries);
    long words = s->pairs ? 2 : 1; /* K elements per float of memory */
    IF_PAIRS(s->pairs,
             pack_row_words(s, tokens_of(s, arg, 0, at).at, s->queries, query, QUERIES, q);)
    if (!s->pairs) pack_rows(s, tokens_of(s, arg, 0, at), s->queries, query, QUERIES, s->scale, q);
    for (long i = 0; i < QUERIES * s->width; i += LANES) st(y + i, (vf){0});
    for (long i = 0; i < QUERIES; i++) most[i] = -__builtin_inff(), st(sum + i * LANES, (vf){0});
    long last = s->causal ? least(s->keys, query + s->query_offset + rows) : s->keys;
    IF_TILES(s->pairs, begin_tiles();)
    for (long key = 0; key < last; key += KEYS) {
        struct draws d = draws_of(s, arg, head, query, key);
        product_set(s, q, s->width / words, 1, p->k_transposed + key * s->width, KEYS,
                    feature_terms(s), score, KEYS, tiles_of(s, rows), wide_of(s, key));
        if (s->addends) add_to_scores(s, arg, head, query, key, rows, score);
        soften(s, &d, query, key, rows, score, most, sum, y);
        product_sum(s, score, KEYS, 1, p->v + key * s->width, s->width,
                    token_terms(s, least(s->keys - key, KEYS)), y, s->width, tiles_of(s, rows),
                    s->width);
    }
    IF_TILES(s->pairs, end_tiles();)
    int out = s->seed + draws_by(s);
    struct array to = tokens_of(s, arg, out, at + query * row);
    float *log = (float *)arg[out + 1] + head * s->queries + query;
    for (long i = 0; i < rows; i++) {
        float all = sum_lanes(ld(sum + i * LANES));
        vf each = splat(s->addends && all == 0 ? 1 : all); /* no key is seen: y is zero */
        for (long f = 0; f < s->size; f += LANES)
            store_n(to, i * row + f, ld(y + i * s->width + f) / each, s->size - f);
        log[i] = most[i] + __builtin_logf(all);
    }
}

/* ---- backward ---- */

/* For a vector of a row: scores become probabilities, after dropout; v dy becomes the gradient
 * of the scores (before `scale`). n: keys that the row attends to. */
INLINE void soften_vector(const struct attention *s, const struct draws *d, long i, long j, long n,
                          vf log, vf sum, vf *probability, vf *grad) {
    vf p = probability_of(scaled(s, *probability) - log);
    if (n < KEYS) p = keep(p, n - j);
    *probability = p;
    if (s->drops) *probability = dropped(s, d, i, j, p), *grad = dropped(s, d, i, j, *grad);
    *grad = n < KEYS ? keep(p * (*grad - sum), n - j) : p * (*grad - sum);
}

/* The same for a block. With bf16 pairs, two rows become one row of pairs in place of the first.
 * The gradients' rows also become pairs of two keys: grad_rows[row][KEYS / 2]. */
HOT void soften_back(const struct attention *s, const struct draws *d, long query, long key,
                     long rows, float *probability, float *grad, float *grad_rows, const float *log,
                     const float *sum) {
    long wide = wide_of(s, key), step = s->pairs ? 2 : 1;
    (void)grad_rows;
    for (long i = 0; i < rows; i += step, probability += step * KEYS, grad += step * KEYS)
        for (long j = 0; j < wide; j += LANES) {
            vf p[2], g[2];
            for (long r = 0; r < step; r++) {
                long n = i + r < rows ? seen_of(s, query + i + r, key) : 0;
                p[r] = ld(probability + r * KEYS + j), g[r] = ld(grad + r * KEYS + j);
                soften_vector(s, d, i + r, j, n, splat(log[i + r]), splat(sum[i + r]), &p[r],
                              &g[r]);
            }
            IF_PAIRS(s->pairs, {
                st(probability + j, pair_floats(p[0], p[1])), st(grad + j, pair_floats(g[0], g[1]));
                for (long r = 0; r < 2; r++)
                    *(vh_any *)((bf16 *)(grad_rows + (i + r) * KEYS / 2) + j) = narrow_normal(g[r]);
                continue;
            })
            st(probability + j, p[0]), st(grad + j, g[0]);
        }
    IF_TILES(s->pairs, {
        long i = blocks_of(rows, 2) * 2;
        for (; i < tiles_of(s, rows); i += 2, probability += 2 * KEYS, grad += 2 * KEYS)
            for (long j = 0; j < wide; j += LANES)
                st(probability + j, (vf){0}), st(grad + j, (vf){0});
    })
}

/* A sum for dv or dk: products of a block's scores with its queries' features. AMX strips
 * compute the transpose, to[width][KEYS]. */
INLINE void sum_queries(const struct attention *s, const float *score, const float *terms,
                        long rows, long keys, float *to) {
    IF_TILES(s->pairs, {
        multiply_amx(terms, QUERIES / 2, score, 2 * KEYS, token_terms(s, rows), to, KEYS, s->width,
                     tiles_of(s, keys), 1);
        return;
    })
    product_sum(s, score, 1, s->pairs ? 2 * KEYS : KEYS, terms, s->width, token_terms(s, rows), to,
                s->width, tiles_of(s, keys), s->width);
}
/* Stores the sums for n keys, whose first feature is element `at`. */
INLINE void store_keys(const struct attention *s, const float *sums, float scale, long n,
                       struct array to, long at) {
    long row = s->heads * s->size;
    IF_TILES(s->pairs, {
        float block[LANES * LANES] __attribute__((aligned(64)));
        for (long j = 0; j < n; j += LANES)
            for (long f = 0; f < s->size; f += LANES) {
                transpose_block((struct array){sums, F32}, f * KEYS + j, KEYS, block, LANES);
                for (long i = 0; i < least(n - j, LANES); i++)
                    store_n(to, at + (j + i) * row + f, ld(block + i * LANES) * scale, s->size - f);
            }
        return;
    })
    for (long j = 0; j < n; j++)
        for (long f = 0; f < s->size; f += LANES)
            store_n(to, at + j * row + f, ld(sums + j * s->width + f) * scale, s->size - f);
}

/* A chunk of a head's keys: complete dk and dv for them, and a partial dq. */
UNUSED void attend_back(const struct attention *s, char *const *arg, long head, long chunk,
                        const struct packed *p, char *scratch) {
    long row = s->heads * s->size, out = s->seed + draws_by(s), at = head_at(s, head, s->keys);
    long each = blocks_of(p->keys / KEYS, s->chunks) * KEYS,
         to = least((chunk + 1) * each, s->keys);
    float *probability = (float *)scratch, *grad = probability + QUERIES * KEYS,
          *dk = grad + QUERIES * KEYS, *dv = dk + KEYS * s->width,
          *grad_rows = dv + KEYS * s->width; /* these for bf16 pairs only */
    float *dq = p->dq + chunk * p->queries * s->width;
    struct array to_k = tokens_of(s, arg, out + 1, at), to_v = tokens_of(s, arg, out + 2, at);
    long words = s->pairs ? 2 : 1;
    for (long i = 0; i < p->queries * s->width; i += LANES) st(dq + i, (vf){0});
    IF_TILES(s->pairs, begin_tiles();)
    for (long key = chunk * each; key < to; key += KEYS) {
        long wide = wide_of(s, key), here = least(to - key, KEYS);
        for (long i = 0; i < KEYS * s->width; i += LANES) st(dk + i, (vf){0}), st(dv + i, (vf){0});
        long first =
            s->causal && key > s->query_offset ? (key - s->query_offset) / QUERIES * QUERIES : 0;
        for (long query = first; query < s->queries; query += QUERIES) {
            struct draws d = draws_of(s, arg, head, query, key);
            long rows = least(s->queries - query, QUERIES), tiles = tiles_of(s, rows);
            /* rows of features; and the operands whose K elements are tokens */
            const float *q = p->q + query * s->width, *dy = p->dy + query * s->width;
            const float *q_terms = s->pairs ? q + QUERIES * s->width / 2 : q,
                        *dy_terms = s->pairs ? dy + QUERIES * s->width / 2 : dy;
            product_set(s, q, s->width / words, 1, p->k_transposed + key * s->width, KEYS,
                        feature_terms(s), probability, KEYS, tiles, wide);
            if (s->addends) add_to_scores(s, arg, head, query, key, rows, probability);
            product_set(s, dy, s->width / words, 1, p->v_transposed + key * s->width, KEYS,
                        feature_terms(s), grad, KEYS, tiles, wide);
            soften_back(s, &d, query, key, rows, probability, grad, grad_rows, p->log + query,
                        p->d + query);
            sum_queries(s, probability, dy_terms, rows, here, dv);
            sum_queries(s, grad, q_terms, rows, here, dk);
            product_sum(s, s->pairs ? grad_rows : grad, KEYS / words, 1, p->k + key * s->width,
                        s->width, token_terms(s, here), dq + query * s->width, s->width, tiles,
                        s->width);
        }
        store_keys(s, dk, s->pairs ? s->scale : 1, here, to_k, key * row);
        store_keys(s, dv, 1, here, to_v, key * row);
    }
    IF_TILES(s->pairs, end_tiles();)
}

/* Adds the partial dq of a head's block of queries, in order. */
UNUSED void add_parts(const struct attention *s, char *const *arg, long head, long query,
                      const struct packed *p) {
    long row = s->heads * s->size;
    struct array to = tokens_of(s, arg, s->seed + draws_by(s), head_at(s, head, s->queries));
    for (long i = query; i < least(s->queries, query + QUERIES); i++)
        for (long f = 0; f < s->size; f += LANES) {
            vf sum = {0};
            for (long c = 0; c < s->chunks; c++)
                sum += ld(p->dq + (c * p->queries + i) * s->width + f);
            store_n(to, i * row + f, sum * s->scale, s->size - f);
        }
}

/* ---- the gradient of an addend ---- */

/* A block of queries and keys of the gradient, for a part of the samples and heads that share it:
 * sums the gradients of their scores, to[query][all keys]. */
UNUSED void sum_scores(const struct attention *s, char *const *arg, long at, long part, long query,
                       long key, char *scratch, char *workspace, float *to) {
    float *probability = (float *)scratch, *grad = probability + QUERIES * KEYS,
          *sum = grad + QUERIES * KEYS;
    long rows = least(s->queries - query, QUERIES), here = least(s->keys - key, KEYS);
    long heads = s->heads / s->heads_of, terms = s->batch / s->samples_of * heads;
    for (long i = 0; i < QUERIES * KEYS; i += LANES) st(sum + i, (vf){0});
    for (long term = part * terms / s->parts; term < (part + 1) * terms / s->parts; term++) {
        long sample = at / s->heads_of + term / heads,
             head = sample * s->heads + at % s->heads_of + term % heads;
        struct packed p = packed_of(s, workspace, head, 1);
        struct draws d = draws_of(s, arg, head, query, key);
        const float *q = p.q + query * s->width, *dy = p.dy + query * s->width;
        product_set(s, q, s->width, 1, p.k_transposed + key * s->width, KEYS, feature_terms(s),
                    probability, KEYS, tiles_of(s, rows), wide_of(s, key));
        product_set(s, dy, s->width, 1, p.v_transposed + key * s->width, KEYS, feature_terms(s),
                    grad, KEYS, tiles_of(s, rows), wide_of(s, key));
        add_to_scores(s, arg, head, query, key, rows, probability);
        soften_back(s, &d, query, key, rows, probability, grad, grad, p.log + query, p.d + query);
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < here; j += LANES)
                st(sum + i * KEYS + j, ld(sum + i * KEYS + j) + ld(grad + i * KEYS + j));
    }
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < here; j += LANES)
            store_n((struct array){to, F32}, (query + i) * s->keys + key + j,
                    ld(sum + i * KEYS + j), here - j);
}

/* The places of the parts' sums, after the packed operands of all heads. */
INLINE float *sums_of(const struct attention *s, char *workspace) {
    return packed_of(s, workspace, s->batch * s->heads, 1).k_transposed;
}
ENTRY void sum_scores_item(const struct attention *s, char *const *arg, long item, char *scratch,
                           char *workspace) {
    long keys = blocks_of(s->keys, KEYS), queries = blocks_of(s->queries, QUERIES);
    long block = item % (keys * queries), part = item / (keys * queries) % s->parts,
         at = item / (keys * queries * s->parts), size = s->queries * s->keys;
    float *to = s->parts == 1 ? (float *)arg[s->seed + draws_by(s)]
                              : sums_of(s, workspace) + part * s->samples_of * s->heads_of * size;
    sum_scores(s, arg, at, part, block / keys * QUERIES, block % keys * KEYS, scratch, workspace,
               to + at * size);
}
/* Adds the parts of a head's gradient, in order. */
ENTRY void add_sums_item(const struct attention *s, char *const *arg, long item, char *workspace) {
    long size = s->queries * s->keys, all = s->samples_of * s->heads_of * size;
    float *to = (float *)arg[s->seed + draws_by(s)] + item * size;
    const float *from = sums_of(s, workspace) + item * size;
    for (long i = 0; i < size; i++) {
        float sum = 0;
        for (long part = 0; part < s->parts; part++) sum += from[part * all + i];
        to[i] = sum;
    }
}

/* ---- work items ---- */

/* With many heads, each is a work item, whose packed operands stay in a core's cache. */
ENTRY void attend_head(const struct attention *s, char *const *arg, long head, char *scratch,
                       char *place) {
    struct packed p = packed_of(s, place, 0, 0);
    for (long key = 0; key < s->keys; key += KEYS) pack_keys(s, arg, head, key, &p, 0);
    for (long query = 0; query < s->queries; query += QUERIES)
        attend(s, arg, head, query, &p, scratch);
}
ENTRY void attend_head_back(const struct attention *s, char *const *arg, long head, char *scratch,
                            char *place) {
    struct packed p = packed_of(s, place, 0, 1);
    for (long key = 0; key < s->keys; key += KEYS) pack_keys(s, arg, head, key, &p, 1);
    for (long query = 0; query < s->queries; query += QUERIES)
        pack_queries(s, arg, head, query, &p);
    attend_back(s, arg, head, 0, &p, scratch);
    for (long query = 0; query < s->queries; query += QUERIES) add_parts(s, arg, head, query, &p);
}

/* With few heads, work items are blocks: of keys, of queries, chunks of keys. */
ENTRY void pack_keys_item(const struct attention *s, char *const *arg, long item, char *workspace,
                          int back) {
    long blocks = blocks_of(s->keys, KEYS), head = item / blocks;
    struct packed p = packed_of(s, workspace, head, back);
    pack_keys(s, arg, head, item % blocks * KEYS, &p, back);
}
ENTRY void pack_queries_item(const struct attention *s, char *const *arg, long item,
                             char *workspace) {
    long blocks = blocks_of(s->queries, QUERIES), head = item / blocks;
    struct packed p = packed_of(s, workspace, head, 1);
    pack_queries(s, arg, head, item % blocks * QUERIES, &p);
}
ENTRY void attend_item(const struct attention *s, char *const *arg, long item, char *scratch,
                       char *workspace) {
    long blocks = blocks_of(s->queries, QUERIES), head = item / blocks;
    struct packed p = packed_of(s, workspace, head, 0);
    attend(s, arg, head, item % blocks * QUERIES, &p, scratch);
}
ENTRY void attend_back_item(const struct attention *s, char *const *arg, long item, char *scratch,
                            char *workspace) {
    long head = item / s->chunks;
    struct packed p = packed_of(s, workspace, head, 1);
    attend_back(s, arg, head, item % s->chunks, &p, scratch);
}
ENTRY void add_parts_item(const struct attention *s, char *const *arg, long item, char *workspace) {
    long blocks = blocks_of(s->queries, QUERIES), head = item / blocks;
    struct packed p = packed_of(s, workspace, head, 1);
    add_parts(s, arg, head, item % blocks * QUERIES, &p);
}
