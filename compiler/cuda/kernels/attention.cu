/* Attention without stored scores (Dao et al., FlashAttention, NeurIPS 2022; Dao, FlashAttention-2, 2023;
 * Milakov and Gimelshein, online softmax, 2018). What is computed: ir/attention.h.
 *
 * A block has ROWS tokens of one head in shared memory, its `rows`, of which each warp takes 16 M; it goes
 * over the other tokens COLUMNS at a time, STAGES tiles of which are there at once. Scores are the
 * accumulators of kd_mma_*, and become the left operands of the next product where they stand: nothing of
 * them is ever in memory.
 *
 * In 16 bits shares and the scores' gradients are rounded to the operands' type once, as FlashAttention-2 and
 * cuDNN do, and their products added to a row's sums one by one. In f32 they are sums of PARTS numbers of
 * TF32, as the operands are themselves, and every sum is over COLUMNS tokens (or a head's features) at a
 * time; those sums are added in order. f16 has few exponents: shares are made 2^RANGE times as large, so that
 * what is lost of them is 2^-39 of the row's largest; backwards each row of a tile is brought there. */
/* ---- forwards ---- */

/* A block: ROWS queries of a head, OUT of their features. */
template <class T, int SIZE, int PAD, int OUT, bool DROPS, int M, int WARPS, int COLUMNS, int STAGES>
INLINE void attention(const attention_shape &s, const typename T::element *q, const typename T::element *k,
                      const typename T::element *v, const long *seed, const long *step, const long *part,
                      typename T::element *y, float *log) {
    typedef typename T::element element;
    enum {
        STRIDE = PAD + 16 / (int)sizeof(element),
        THREADS = 32 * WARPS,
        ROWS = 16 * M * WARPS,
        TILE = COLUMNS * STRIDE
    };
    enum { C = COLUMNS / 8, N = OUT / 8, CHUNKS = PAD / OUT };
    KD_SHARED(element, rows);
    element *stages = rows + ROWS * STRIDE;
    int blocks = (s.queries + ROWS - 1) / ROWS, unit = blockIdx.x / CHUNKS,
        feature = blockIdx.x % CHUNKS * OUT;
    int head = unit / blocks, block = unit % blocks;
    if (s.causal) block = blocks - 1 - block;          /* the longest first */
    int query = block * ROWS, ahead = query + s.ahead; /* the last key that the first query sees */
    int last = s.causal && ahead + ROWS < s.keys ? ahead + ROWS : s.keys;
    int tiles = (last + COLUMNS - 1) / COLUMNS, warp = threadIdx.x / 32;
    int mine = query + warp * 16 * M + ROW_OF_LANE; /* the first of the thread's queries */
    head_tokens<const element> from_k = tokens_of<SIZE>(k, s, s.keys, head),
                               from_v = tokens_of<SIZE>(v, s, s.keys, head);
    attention_draws draws = draws_of<DROPS>(s, seed, step, part, head);

    float acc[M][N][4], most[M][2], sum[M][2];
    FOR(m, M) FOR(half, 2) most[m][half] = -__builtin_inff(), sum[m][half] = 0;
    FOR(m, M) FOR(n, N) FOR(i, 4) acc[m][n][i] = 0;
    fetch<T, SIZE, PAD, ROWS, THREADS>(rows, tokens_of<SIZE>(q, s, s.queries, head), query);
    for (int tile = 1 - STAGES; tile < tiles; tile++) {
        int next = tile + STAGES - 1;
        if (next < tiles) {
            element *to = stages + next % STAGES * 2 * TILE;
            fetch<T, SIZE, PAD, COLUMNS, THREADS>(to, from_k, next * COLUMNS);
            fetch<T, SIZE, PAD, COLUMNS, THREADS>(to + TILE, from_v, next * COLUMNS);
        }
        kd_copy_commit();
        if (tile < 0) continue;
        kd_copy_wait<STAGES - 1>();
        __syncthreads();

        const element *now = stages + tile % STAGES * 2 * TILE;
        int key = tile * COLUMNS + PAIR_OF_LANE; /* the first of the thread's keys */
        float c[M][C][4], shrink[M][2], back[M][2];
        product<T, PAD, M, C>(c, rows + warp * 16 * M * STRIDE, now);
        bool whole =
            tile * COLUMNS + COLUMNS <= s.keys && !(s.causal && tile * COLUMNS + COLUMNS > ahead + 1);
        if (!whole) FOR(m, M) FOR(n, C) FOR(i, 4) {
                int at = key + n * 8 + i % 2;
                if (at >= s.keys || (s.causal && at > mine + s.ahead + m * 16 + i / 2 * 8))
                    c[m][n][i] = -__builtin_inff();
            }
        unsigned drop[M][C];
        if (DROPS) FOR(m, M) draw<false, C>(drop[m], s, draws, mine + m * 16, key);
        FOR(m, M) FOR(half, 2) {
            float top = most[m][half], all = 0;
            FOR(n, C) FOR(i, 2) top = fmaxf(top, c[m][n][2 * half + i]);
            top = row_max(top);
            float less = top == -__builtin_inff() ? 0 : top * s.scale2, from = less - T::RANGE;
            shrink[m][half] = kd_exp2(fmaf(most[m][half], s.scale2, -less));
            FOR(n, C) FOR(i, 2) {
                float *p = &c[m][n][2 * half + i];
                all += *p = kd_exp2(fmaf(*p, s.scale2, -from));
                if (DROPS && drop[m][n] >> (2 * half + i) & 1) *p = 0;
            }
            sum[m][half] = sum[m][half] * shrink[m][half] + all;
            most[m][half] = top;
        }
        typename T::made a[M][COLUMNS / T::STEP];
        make_left<T, false, M, C>(a, c, back);
        spread<T, T::MADE == 1, PAD, M, C, N>(acc, a, shrink, back, now + TILE + feature);
        __syncthreads();
    }

    float factor[M][2];
    const float brought = 1.0f / (1 << T::RANGE);
    FOR(m, M) FOR(half, 2) {
        float all = row_sum(sum[m][half]);
        int at = mine + m * 16 + half * 8;
        factor[m][half] = (DROPS ? s.kept : 1) / all;
        if (feature == 0 && threadIdx.x % 4 == 0 && at < s.queries)
            log[(long)head * s.queries + at] = most[m][half] * s.scale + logf(all * brought);
    }
    put_rows<T, SIZE, M, N>(tokens_of<SIZE>(y, s, s.queries, head), mine, feature, acc, factor);
}

/* ---- backwards ---- */

/* Of each query, the sum of y dy, and behind those of all its logarithm's power of two. A group of 8 lanes a
 * query of a head; a block has 32, in the order of memory. */
template <class T, int SIZE>
INLINE void attention_sums(const attention_shape &s, const typename T::element *y,
                           const typename T::element *dy, const float *log, float *sums) {
    enum { LANES = 8, GROUPS = 32 };
    long at = (long)blockIdx.x * GROUPS + threadIdx.x / LANES, all = (long)s.batch * s.queries * s.heads;
    float sum = 0;
    if (at < all)
        for (int f = threadIdx.x % LANES; f < SIZE; f += LANES)
            sum += T::widen(y[at * SIZE + f]) * T::widen(dy[at * SIZE + f]);
    for (int by = 1; by < LANES; by *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    long token = at / s.heads, head = token / s.queries * s.heads + at % s.heads;
    long to = head * s.queries + token % s.queries;
    if (at < all && threadIdx.x % LANES == 0) sums[to] = sum, sums[all + to] = log[to] * 1.44269504f;
}

/* BY_KEY: the rows are keys (x1, x2: k, v), the columns queries (y1, y2: q, dy), out1 and out2 dk and dv;
 * else the other way round, and out1 is dq. A block: ROWS rows of a head, OUT of the results' features. */
template <class T, int SIZE, int PAD, int OUT, bool BY_KEY, bool DROPS, int M, int WARPS, int COLUMNS,
          int STAGES>
INLINE void attention_back(const attention_shape &s, const typename T::element *x1,
                           const typename T::element *x2, const typename T::element *y1,
                           const typename T::element *y2, const float *sums, const long *seed,
                           const long *step, const long *part, typename T::element *out1,
                           typename T::element *out2) {
    typedef typename T::element element;
    enum {
        STRIDE = PAD + 16 / (int)sizeof(element),
        THREADS = 32 * WARPS,
        ROWS = 16 * M * WARPS,
        TILE = COLUMNS * STRIDE
    };
    enum { C = COLUMNS / 8, N = OUT / 8, CHUNKS = PAD / OUT };
    enum { BRINGS = T::RANGE != 0, IN_PLACE = T::MADE == 1 && !BRINGS };
    KD_SHARED(element, rows);
    element *rows2 = rows + ROWS * STRIDE, *stages = rows2 + ROWS * STRIDE;
    float *of_columns = (float *)(stages + STAGES * 2 * TILE); /* by stage: logarithms, sums */
    int nrows = BY_KEY ? s.keys : s.queries, ncolumns = BY_KEY ? s.queries : s.keys;
    int blocks = (nrows + ROWS - 1) / ROWS, unit = blockIdx.x / CHUNKS, feature = blockIdx.x % CHUNKS * OUT;
    int head = unit / blocks, block = unit % blocks;
    if (s.causal && !BY_KEY) block = blocks - 1 - block; /* the longest first */
    int first = block * ROWS, tiles = (ncolumns + COLUMNS - 1) / COLUMNS, begin = 0;
    if (s.causal && BY_KEY && first > s.ahead) begin = (first - s.ahead) / COLUMNS;
    if (begin > tiles) begin = tiles;
    int last = first + s.ahead + ROWS; /* behind the last key that the block's queries see */
    if (s.causal && !BY_KEY && last < ncolumns) tiles = (last + COLUMNS - 1) / COLUMNS;
    int warp = threadIdx.x / 32, mine = first + warp * 16 * M + ROW_OF_LANE;
    head_tokens<const element> from1 = tokens_of<SIZE>(y1, s, ncolumns, head),
                               from2 = tokens_of<SIZE>(y2, s, ncolumns, head);
    attention_draws draws = draws_of<DROPS>(s, seed, step, part, head);
    sums += (long)head * s.queries;
    const float *log2 = sums + (long)s.batch * s.heads * s.queries; /* attention_sums */

    float acc1[M][N][4], acc2[BY_KEY ? M : 1][BY_KEY ? N : 1][4], my_log[M][2], my_sum[M][2];
    FOR(m, M) FOR(n, N) FOR(i, 4) acc1[m][n][i] = 0;
    FOR(m, BY_KEY ? M : 1) FOR(n, BY_KEY ? N : 1) FOR(i, 4) acc2[m][n][i] = 0;
    if (!BY_KEY) FOR(m, M) FOR(half, 2) {
            int at = mine + m * 16 + half * 8;
            my_log[m][half] = at < s.queries ? log2[at] : 0, my_sum[m][half] = at < s.queries ? sums[at] : 0;
        }
    fetch<T, SIZE, PAD, ROWS, THREADS>(rows, tokens_of<SIZE>(x1, s, nrows, head), first);
    fetch<T, SIZE, PAD, ROWS, THREADS>(rows2, tokens_of<SIZE>(x2, s, nrows, head), first);
    for (int tile = begin + 1 - STAGES; tile < tiles; tile++) {
        int next = tile + STAGES - 1;
        if (next < tiles) {
            element *to = stages + next % STAGES * 2 * TILE;
            float *beside = of_columns + next % STAGES * 2 * COLUMNS;
            fetch<T, SIZE, PAD, COLUMNS, THREADS>(to, from1, next * COLUMNS);
            fetch<T, SIZE, PAD, COLUMNS, THREADS>(to + TILE, from2, next * COLUMNS);
            if (BY_KEY) fetch_floats<COLUMNS, THREADS>(beside, log2, next * COLUMNS, ncolumns);
            if (BY_KEY) fetch_floats<COLUMNS, THREADS>(beside + COLUMNS, sums, next * COLUMNS, ncolumns);
        }
        kd_copy_commit();
        if (tile < begin) continue;
        kd_copy_wait<STAGES - 1>();
        __syncthreads();

        const element *now = stages + tile % STAGES * 2 * TILE;
        const float *beside = of_columns + tile % STAGES * 2 * COLUMNS + PAIR_OF_LANE;
        int column = tile * COLUMNS + PAIR_OF_LANE; /* the first of the thread's */
        float p[M][C][4], ds[M][C][4], one[M][2], back[M][2];
        FOR(m, M) FOR(half, 2) one[m][half] = 1;
        product<T, PAD, M, C>(p, rows + warp * 16 * M * STRIDE, now);
        product<T, PAD, M, C>(ds, rows2 + warp * 16 * M * STRIDE, now + TILE);
        unsigned drop[M][C];
        if (DROPS) FOR(m, M) draw<BY_KEY, C>(drop[m], s, draws, mine + m * 16, column);
        FOR(m, M) FOR(n, C) FOR(i, 4) {
            float less = BY_KEY ? beside[n * 8 + i % 2] : my_log[m][i / 2];
            float d = BY_KEY ? beside[COLUMNS + n * 8 + i % 2] : my_sum[m][i / 2];
            float share = kd_exp2(fmaf(p[m][n][i], s.scale2, -less)), dp = ds[m][n][i];
            p[m][n][i] = share;
            if (DROPS) {
                bool dropped = drop[m][n] >> i & 1;
                p[m][n][i] = dropped ? 0 : share;
                dp = dropped ? 0 : dp * s.kept;
            }
            ds[m][n][i] = share * (dp - d);
        }
        /* The tile's first query, and behind its last key. */
        int query = BY_KEY ? tile * COLUMNS : first, behind = BY_KEY ? first + ROWS : (tile + 1) * COLUMNS;
        bool whole = tile * COLUMNS + COLUMNS <= ncolumns && first + ROWS <= nrows &&
                     !(s.causal && behind > query + s.ahead + 1);
        if (!whole) FOR(m, M) FOR(n, C) FOR(i, 4) {
                int row = mine + m * 16 + i / 2 * 8, across = column + n * 8 + i % 2;
                if (across >= ncolumns || row >= nrows ||
                    (s.causal && (BY_KEY ? row > across + s.ahead : across > row + s.ahead)))
                    p[m][n][i] = ds[m][n][i] = 0;
            }
        typename T::made a[M][COLUMNS / T::STEP];
        if constexpr (BY_KEY) {
            make_left<T, BRINGS, M, C>(a, p, back);
            spread<T, IN_PLACE, PAD, M, C, N>(acc2, a, one, back, now + TILE + feature);
        }
        make_left<T, BRINGS, M, C>(a, ds, back);
        spread<T, IN_PLACE, PAD, M, C, N>(acc1, a, one, back, now + feature);
        __syncthreads();
    }

    float factor[M][2];
    FOR(m, M) FOR(half, 2) factor[m][half] = s.scale;
    put_rows<T, SIZE, M, N>(tokens_of<SIZE>(out1, s, nrows, head), mine, feature, acc1, factor);
    if constexpr (BY_KEY) {
        FOR(m, M) FOR(half, 2) factor[m][half] = DROPS ? s.kept : 1;
        put_rows<T, SIZE, M, N>(tokens_of<SIZE>(out2, s, nrows, head), mine, feature, acc2, factor);
    }
}
