/* Attention without stored scores (Dao et al., FlashAttention, NeurIPS 2022; Dao,
 * FlashAttention-2, 2023; Milakov and Gimelshein, online softmax, 2018). ir/attention.h defines
 * the result.
 *
 * A CTA has ROWS tokens of one head in shared memory, its `rows`, of which each warp takes 16 M.
 * It loops over the other tokens COLUMNS at a time, in a pipeline of STAGES tiles. Scores are
 * the accumulators of kd_mma_*, and become the left operands of the next product in registers,
 * without going through memory.
 *
 * In 16 bits, probabilities and the scores' gradients are rounded to the operands' type once, as
 * in FlashAttention-2 and cuDNN, and their products accumulate in place. In f32 they are split
 * into PARTS numbers of TF32, as the operands are, and every sum is over COLUMNS tokens (or a
 * head's features) at a time; those sums are added in order. f16 has a small range of exponents:
 * probabilities are scaled by 2^RANGE, so that what underflows is 2^-39 of the row's largest.
 * Backward, each row of a tile is scaled into the range; by wgmma, whose products accumulate in
 * place, with an exponent that only grows from tile to tile. */
/* ---- forward ---- */

/* A CTA: ROWS queries of a head, OUT of their features. */
template <class T, int SIZE, int PAD, int OUT, bool DROPS, int ADDS, int M, int WARPS, int COLUMNS,
          int STAGES>
INLINE void attention(const attention_shape &s, const attention_addends &added,
                      const typename T::element *q,
                      const typename T::element *k, const typename T::element *v, const long *seed,
                      const long *step, const long *part, typename T::element *y, float *log) {
    typedef typename T::element element;
    typedef tile_products<T, PAD> products;
    enum { THREADS = 32 * WARPS, ROWS = 16 * M * WARPS, TILE = COLUMNS * products::STRIDE };
    enum { C = COLUMNS / 8, N = OUT / 8, CHUNKS = PAD / OUT };
    KD_SHARED(element, rows);
    element *stages = rows + ROWS * products::STRIDE;
    int blocks = (s.queries + ROWS - 1) / ROWS, item = blockIdx.x / CHUNKS,
        feature = blockIdx.x % CHUNKS * OUT;
    int head = item / blocks, block = item % blocks;
    if (s.causal) block = blocks - 1 - block;          /* the longest first */
    /* the last key that the first query attends to */
    int query = block * ROWS, ahead = query + s.query_offset;
    int last = s.causal && ahead + ROWS < s.keys ? ahead + ROWS : s.keys;
    int tiles = (last + COLUMNS - 1) / COLUMNS, warp = threadIdx.x / 32;
    int mine = query + warp * 16 * M + ROW_OF_LANE; /* the first of the thread's queries */
    token_feed<T, SIZE, PAD, ROWS, THREADS> from_q;
    token_feed<T, SIZE, PAD, COLUMNS, THREADS> from_k;
    from_q.begin(tokens_of<SIZE>(q, s, s.queries, head));
    from_k.begin(tokens_of<SIZE>(k, s, s.keys, head));
    const auto from_v = from_k.shifted(v - k);
    attention_draws draws = draws_of<DROPS>(s, seed, step, part, head);
    head_addends<ADDS> adds;
    adds.begin(added, s, head);

    float acc[M][N][4], most[M][2], sum[M][2];
    FOR(m, M) FOR(half, 2) most[m][half] = -__builtin_inff(), sum[m][half] = 0;
    FOR(m, M) FOR(n, N) FOR(i, 4) acc[m][n][i] = 0;
    from_q.bring(rows, query);
    const typename products::tile tiles_at = products::of(stages);
    auto bring = [&](int tile) {
        element *to = stages + tile % STAGES * 2 * TILE;
        if (tile < tiles) {
            from_k.bring(to, tile * COLUMNS);
            from_v.bring(to + TILE, tile * COLUMNS);
        }
        kd_copy_commit();
    };
    auto of_stage = [&](int tile) { return products::advance(tiles_at, tile % STAGES * 2 * TILE); };
    float c[M][C][4], shrink[M][2], back[M][2];
    typename T::made a[M][COLUMNS / T::STEP];
    for (int tile = 0; tile < STAGES - 1; tile++) bring(tile);
    const auto own = products::template own<M, WARPS>(rows);
    for (int tile = 0; tile < tiles; tile++) {
        int key = tile * COLUMNS + PAIR_OF_LANE; /* the first of the thread's keys */
        next_tile<T, PAD, STAGES>(tile, bring);
        products::begin(c, own, of_stage(tile));
        products::template wait<0>(c);
        if (ADDS) FOR(m, M) FOR(n, C) FOR(i, 4) {
                int to = key + n * 8 + i % 2, from = mine + m * 16 + i / 2 * 8;
                if (to < s.keys && from < s.queries) c[m][n][i] += adds.of(from, to);
            }
        bool whole = tile * COLUMNS + COLUMNS <= s.keys &&
                     !(s.causal && tile * COLUMNS + COLUMNS > ahead + 1);
        if (!whole) FOR(m, M) FOR(n, C) FOR(i, 4) {
                int at = key + n * 8 + i % 2;
                if (at >= s.keys || (s.causal && at > mine + s.query_offset + m * 16 + i / 2 * 8))
                    c[m][n][i] = -__builtin_inff();
            }
        unsigned drop[M][C];
        if (DROPS) FOR(m, M) draw<false, C>(drop[m], s, draws, mine + m * 16, key);
        FOR(m, M) FOR(half, 2) {
            float tops[2] = {most[m][half], most[m][half]},
                  all[2] = {0, 0}; /* two chains, to hide latency */
            FOR(n, C) FOR(i, 2) tops[i] = fmaxf(tops[i], c[m][n][2 * half + i]);
            float top = row_max(fmaxf(tops[0], tops[1]));
            float less = top == -__builtin_inff() ? 0 : top * s.scale2, from = less - T::RANGE;
            shrink[m][half] = kd_exp2(fmaf(most[m][half], s.scale2, -less));
            FOR(n, C) FOR(i, 2) {
                float *p = &c[m][n][2 * half + i];
                all[i] += *p = kd_exp2(fmaf(*p, s.scale2, -from));
                if (DROPS && drop[m][n] >> (2 * half + i) & 1) *p = 0;
            }
            sum[m][half] = sum[m][half] * shrink[m][half] + (all[0] + all[1]);
            most[m][half] = top;
        }
        make_left<T, false>(a, c, back);
        FOR(m, M)
        if (shrink[m][0] != 1 || shrink[m][1] != 1)
            FOR(n, N) FOR(i, 4) acc[m][n][i] *= shrink[m][i / 2];
        products::template spread<T::MADE == 1>(acc, a, back,
                                                products::advance(of_stage(tile), TILE + feature));
        products::template wait<0>(acc);
    }

    float factor[M][2];
    const float brought = 1.0f / (1 << T::RANGE);
    FOR(m, M) FOR(half, 2) {
        float all = row_sum(sum[m][half]);
        int at = mine + m * 16 + half * 8;
        /* where addends hide all keys, the result is zero */
        factor[m][half] = ADDS && all == 0 ? 0 : (DROPS ? s.kept : 1) / all;
        if (feature == 0 && threadIdx.x % 4 == 0 && at < s.queries)
            log[(long)head * s.queries + at] = most[m][half] * s.scale + logf(all * brought);
    }
    put_rows<T, SIZE, M, N>(tokens_of<SIZE>(y, s, s.queries, head), mine, feature, acc, factor);
}

/* ---- backward ---- */

/* For each query, the sum of y dy, and after all of those its log-sum-exp as a power of two. A
 * group of 8 lanes takes a query of a head; a CTA has 32, in the order of memory. */
template <class T, int SIZE, int ADDS>
INLINE void attention_sums(const attention_shape &s, const typename T::element *y,
                           const typename T::element *dy, const float *log, float *sums) {
    enum { LANES = 8, GROUPS = 32 };
    long at = (long)blockIdx.x * GROUPS + threadIdx.x / LANES,
         all = (long)s.batch * s.queries * s.heads;
    float sum = 0;
    if (at < all)
        for (int f = threadIdx.x % LANES; f < SIZE; f += LANES)
            sum += T::widen(y[at * SIZE + f]) * T::widen(dy[at * SIZE + f]);
    for (int by = 1; by < LANES; by *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    long token = at / s.heads, head = token / s.queries * s.heads + at % s.heads;
    long to = head * s.queries + token % s.queries;
    if (at < all && threadIdx.x % LANES == 0)
        /* with no key seen, the scores are minus infinity, and so are 2^(score - 0) zero */
        sums[to] = sum,
        sums[all + to] = ADDS && log[to] == -__builtin_inff() ? 0 : log[to] * 1.44269504f;
}

/* BY_KEY: the rows are keys (x1, x2: k, v), the columns queries (y1, y2: q, dy), out1 and out2
 * dk and dv; otherwise rows are queries, and out1 is dq. A CTA: ROWS rows of a head, OUT of the
 * results' features. */
template <class T, int SIZE, int PAD, int OUT, bool BY_KEY, bool DROPS, int ADDS, int M, int WARPS,
          int COLUMNS, int STAGES>
INLINE void attention_back(const attention_shape &s, const attention_addends &added,
                           const typename T::element *x1,
                           const typename T::element *x2, const typename T::element *y1,
                           const typename T::element *y2, const float *sums, const long *seed,
                           const long *step, const long *part, typename T::element *out1,
                           typename T::element *out2) {
    typedef typename T::element element;
    typedef tile_products<T, PAD> products;
    enum { THREADS = 32 * WARPS, ROWS = 16 * M * WARPS, TILE = COLUMNS * products::STRIDE };
    enum { C = COLUMNS / 8, N = OUT / 8, CHUNKS = PAD / OUT };
    enum { LIFT = T::WGMMA ? T::RANGE : 0 /* of probabilities */ };
    enum { BRINGS = T::RANGE != LIFT, IN_PLACE = T::MADE == 1 && !BRINGS };
    KD_SHARED(element, rows);
    element *rows2 = rows + ROWS * products::STRIDE, *stages = rows2 + ROWS * products::STRIDE;
    float *of_columns = (float *)(stages + STAGES * 2 * TILE); /* by stage: sums, log-sum-exps */
    int nrows = BY_KEY ? s.keys : s.queries, ncolumns = BY_KEY ? s.queries : s.keys;
    int blocks = (nrows + ROWS - 1) / ROWS, item = blockIdx.x / CHUNKS,
        feature = blockIdx.x % CHUNKS * OUT;
    int head = item / blocks, block = item % blocks;
    if (s.causal && !BY_KEY) block = blocks - 1 - block; /* the longest first */
    int first = block * ROWS, tiles = (ncolumns + COLUMNS - 1) / COLUMNS, begin = 0;
    if (s.causal && BY_KEY && first > s.query_offset) begin = (first - s.query_offset) / COLUMNS;
    if (begin > tiles) begin = tiles;
    int last = first + s.query_offset + ROWS; /* one past the last key of the CTA's queries */
    if (s.causal && !BY_KEY && last < ncolumns) tiles = (last + COLUMNS - 1) / COLUMNS;
    int warp = threadIdx.x / 32, mine = first + warp * 16 * M + ROW_OF_LANE;
    token_feed<T, SIZE, PAD, ROWS, THREADS> rows1_from, rows2_from;
    token_feed<T, SIZE, PAD, COLUMNS, THREADS> from1;
    float_feed<COLUMNS, THREADS> from_sums;
    rows1_from.begin(tokens_of<SIZE>(x1, s, nrows, head)),
        rows2_from.begin(tokens_of<SIZE>(x2, s, nrows, head));
    from1.begin(tokens_of<SIZE>(y1, s, ncolumns, head));
    const auto from2 = from1.shifted(y2 - y1);
    attention_draws draws = draws_of<DROPS>(s, seed, step, part, head);
    head_addends<ADDS> adds;
    adds.begin(added, s, head);
    sums += (long)head * s.queries;
    /* log-sum-exps come after them: attention_sums */
    const long apart = (long)s.batch * s.heads * s.queries;
    from_sums.begin(sums, apart, s.queries);

    float acc1[M][N][4], acc2[BY_KEY ? M : 1][BY_KEY ? N : 1][4], my_log[M][2], my_sum[M][2];
    FOR(m, M) FOR(n, N) FOR(i, 4) acc1[m][n][i] = 0;
    FOR(m, BY_KEY ? M : 1) FOR(n, BY_KEY ? N : 1) FOR(i, 4) acc2[m][n][i] = 0;
    if (!BY_KEY) FOR(m, M) FOR(half, 2) {
            int at = mine + m * 16 + half * 8;
            my_log[m][half] = at < s.queries ? sums[apart + at] : 0,
            my_sum[m][half] = at < s.queries ? sums[at] : 0;
        }
    rows1_from.bring(rows, first), rows2_from.bring(rows2, first);
    const typename products::tile tiles_at = products::of(stages);
    auto of_stage = [&](int tile) { return products::advance(tiles_at, tile % STAGES * 2 * TILE); };
    auto bring = [&](int tile) {
        element *to = stages + tile % STAGES * 2 * TILE;
        if (tile < tiles) {
            from1.bring(to, tile * COLUMNS);
            from2.bring(to + TILE, tile * COLUMNS);
            if (BY_KEY) from_sums.bring(of_columns + tile % STAGES * 2 * COLUMNS, tile * COLUMNS);
        }
        kd_copy_commit();
    };
    for (int tile = begin; tile < begin + STAGES - 1; tile++) bring(tile);
    const auto own1 = products::template own<M, WARPS>(rows);
    const auto own2 = products::template own<M, WARPS>(rows2);
    float p[M][C][4], ds[M][C][4], back[M][2];
    int by[M][2];
    FOR(m, M) FOR(half, 2) by[m][half] = LEAST_POWER;
    typename T::made of_p[M][COLUMNS / T::STEP], of_ds[M][COLUMNS / T::STEP];
    for (int tile = begin; tile < tiles; tile++) {
        const typename products::tile now = of_stage(tile);
        next_tile<T, PAD, STAGES>(tile, bring);
        products::begin(p, own1, now);
        products::begin(ds, own2, products::advance(now, TILE));

        const float *statistics = of_columns + tile % STAGES * 2 * COLUMNS + PAIR_OF_LANE;
        int column = tile * COLUMNS + PAIR_OF_LANE; /* the thread's first */
        /* The tile's first query, and the key after its last one. */
        int query = BY_KEY ? tile * COLUMNS : first,
            key_end = BY_KEY ? first + ROWS : (tile + 1) * COLUMNS;
        bool whole = tile * COLUMNS + COLUMNS <= ncolumns && first + ROWS <= nrows &&
                     !(s.causal && key_end > query + s.query_offset + 1);
        unsigned drop[M][C];
        if (DROPS) FOR(m, M) draw<BY_KEY, C>(drop[m], s, draws, mine + m * 16, column);
        auto hidden = [&](int m, int n, int i) {
            int row = mine + m * 16 + i / 2 * 8, across = column + n * 8 + i % 2;
            int from = BY_KEY ? across : row, to = BY_KEY ? row : across; /* query, key */
            return across >= ncolumns || row >= nrows || (s.causal && to > from + s.query_offset);
        };
        auto dropped = [&](int m, int n, int i) { return DROPS && drop[m][n] >> i & 1; };
        products::template wait<1>(p);
        if (ADDS) FOR(m, M) FOR(n, C) FOR(i, 4) {
                int row = mine + m * 16 + i / 2 * 8, across = column + n * 8 + i % 2;
                int from = BY_KEY ? across : row, to = BY_KEY ? row : across; /* query, key */
                if (to < s.keys && from < s.queries) p[m][n][i] += adds.of(from, to);
            }
        FOR(m, M) FOR(n, C) FOR(i, 4) {
            float less = BY_KEY ? statistics[COLUMNS + n * 8 + i % 2] : my_log[m][i / 2];
            p[m][n][i] = kd_exp2(fmaf(p[m][n][i], s.scale2, LIFT - less));
        }
        if (!whole) FOR(m, M) FOR(n, C) FOR(i, 4) if (hidden(m, n, i)) p[m][n][i] = 0;
        auto spread_p = [&] {
            if constexpr (BY_KEY) {
                float kept[M][C][4];
                FOR(m, M) FOR(n, C) FOR(i, 4) kept[m][n][i] = dropped(m, n, i) ? 0 : p[m][n][i];
                make_left<T, BRINGS>(of_p, kept, back);
                products::template spread<IN_PLACE>(acc2, of_p, back,
                                                    products::advance(now, TILE + feature));
            }
        };
        /* overlaps with the products of dy; otherwise registers are too few */
        if (T::WGMMA) spread_p();
        products::template wait<BY_KEY ? 1 : 0>(ds);
        FOR(m, M) FOR(n, C) FOR(i, 4) {
            float d = BY_KEY ? statistics[n * 8 + i % 2] : my_sum[m][i / 2], dp = ds[m][n][i];
            if (DROPS) dp = dropped(m, n, i) ? 0 : dp * s.kept;
            ds[m][n][i] = p[m][n][i] * (dp - d);
        }
        if (!whole) FOR(m, M) FOR(n, C) FOR(i, 4) if (hidden(m, n, i)) ds[m][n][i] = 0;
        if (!T::WGMMA) spread_p();
        if (LIFT != 0) lift_rows<T>(ds, acc1, by);
        make_left<T, BRINGS>(of_ds, ds, back);
        products::template spread<IN_PLACE>(acc1, of_ds, back, products::advance(now, feature));
        products::template wait<0>(acc1);
        if constexpr (BY_KEY) products::template wait<0>(acc2);
    }

    float factor[M][2];
    FOR(m, M) FOR(half, 2)
    factor[m][half] =
        s.scale * (LIFT ? __uint_as_float((unsigned)(127 + by[m][half] - LIFT) << 23) : 1);
    put_rows<T, SIZE, M, N>(tokens_of<SIZE>(out1, s, nrows, head), mine, feature, acc1, factor);
    if constexpr (BY_KEY) {
        FOR(m, M) FOR(half, 2) factor[m][half] = (DROPS ? s.kept : 1) / (1 << LIFT);
        put_rows<T, SIZE, M, N>(tokens_of<SIZE>(out2, s, nrows, head), mine, feature, acc2, factor);
    }
}

/* The gradient of an addend [samples of it, heads of it, queries, keys]: a CTA has ROWS queries and
 * COLUMNS keys of a part of the sum over the samples and heads that share the addend. The sum of
 * each part is stored after that of the part before, in `to`. */
struct addend_parts {
    int samples, heads, parts;
};
template <class T, int SIZE, int PAD, bool DROPS, int ADDS, int WARPS, int COLUMNS>
INLINE void attention_bias_grad(const attention_shape &s, const attention_addends &added,
                                const addend_parts &of, const typename T::element *q,
                                const typename T::element *k, const typename T::element *v,
                                const typename T::element *dy, const float *sums, const long *seed,
                                const long *step, const long *part_of, float *to) {
    typedef typename T::element element;
    typedef tile_products<T, PAD> products;
    enum { THREADS = 32 * WARPS, ROWS = 16 * WARPS, C = COLUMNS / 8 };
    KD_SHARED(element, rows);
    element *rows2 = rows + ROWS * products::STRIDE, *columns = rows2 + ROWS * products::STRIDE,
            *columns2 = columns + COLUMNS * products::STRIDE;
    int queries = (s.queries + ROWS - 1) / ROWS, keys = (s.keys + COLUMNS - 1) / COLUMNS;
    int block = blockIdx.x % (queries * keys), unit = blockIdx.x / (queries * keys);
    int part = unit % of.parts, own = unit / of.parts;
    int first = block / keys * ROWS, start = block % keys * COLUMNS;
    int heads = s.heads / of.heads, terms = s.batch / of.samples * heads;
    int mine = first + threadIdx.x / 32 * 16 + ROW_OF_LANE, column = start + PAIR_OF_LANE;
    const long apart = (long)s.batch * s.heads * s.queries;
    float sum[C][4];
    FOR(n, C) FOR(i, 4) sum[n][i] = 0;
    const int end = (int)((long)(part + 1) * terms / of.parts);
    for (int term = (int)((long)part * terms / of.parts); term < end; term++) {
        int head = (own / of.heads + term / heads) * s.heads + own % of.heads + term % heads;
        token_feed<T, SIZE, PAD, ROWS, THREADS> from_rows;
        token_feed<T, SIZE, PAD, COLUMNS, THREADS> from_columns;
        __syncthreads(); /* the tiles before have been read */
        from_rows.begin(tokens_of<SIZE>(q, s, s.queries, head));
        from_rows.bring(rows, first), from_rows.shifted(dy - q).bring(rows2, first);
        from_columns.begin(tokens_of<SIZE>(k, s, s.keys, head));
        from_columns.bring(columns, start), from_columns.shifted(v - k).bring(columns2, start);
        kd_copy_commit();
        kd_copy_wait<0>();
        __syncthreads();
        float p[1][C][4], ds[1][C][4];
        products::begin(p, products::template own<1, WARPS>(rows), products::of(columns));
        products::begin(ds, products::template own<1, WARPS>(rows2), products::of(columns2));
        attention_draws draws = draws_of<DROPS>(s, seed, step, part_of, head);
        unsigned drop[C];
        if (DROPS) draw<false, C>(drop, s, draws, mine, column);
        head_addends<ADDS> adds;
        adds.begin(added, s, head);
        const float *of_head = sums + (long)head * s.queries;
        FOR(n, C) FOR(i, 4) {
            int row = mine + i / 2 * 8, across = column + n * 8 + i % 2;
            if (row >= s.queries || across >= s.keys ||
                (s.causal && across > row + s.query_offset))
                continue;
            float score = p[0][n][i] + adds.of(row, across), dp = ds[0][n][i];
            if (DROPS) dp = drop[n] >> i & 1 ? 0 : dp * s.kept;
            sum[n][i] +=
                kd_exp2(fmaf(score, s.scale2, -of_head[apart + row])) * (dp - of_head[row]);
        }
    }
    to += ((long)part * of.samples * of.heads + own) * s.queries * s.keys;
    FOR(n, C) FOR(i, 4) {
        int row = mine + i / 2 * 8, across = column + n * 8 + i % 2;
        if (row < s.queries && across < s.keys) to[(long)row * s.keys + across] = sum[n][i];
    }
}
/* Adds the parts, `all` numbers each, in order. */
INLINE void attention_add_parts(const float *from, float *to, long all, int parts) {
    long at = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= all) return;
    float sum = 0;
    for (int part = 0; part < parts; part++) sum += from[part * all + at];
    to[at] = sum;
}
