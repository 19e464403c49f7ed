/* Attention backward in one pass, in bf16 by wgmma: five products and an exponential a score. A CTA
 * has 128 keys of a head, two warpgroups 64 each, and goes over all queries COLUMNS at a time. The
 * scores' gradients go through shared memory to a product with its keys, dq of a tile, which the
 * two groups multiply in turns. A thread after theirs adds it to what the key blocks before have
 * added: the order is that of the blocks, so the bits are fixed. It waits for its turn while the
 * groups multiply on, with the registers of a warpgroup that gives the others its own.
 *
 * turns: a ticket, then a counter for each head's tile; they and dq begin as zeros. dq has a tile's
 * sums as a warpgroup's threads hold them, four floats of each in turn. */
template <class T, int PAD> struct one_pass {
    typedef tile_products<T, PAD> products;
    enum { COLUMNS = 64, GROUPS = 2, ROWS = 64 * GROUPS, THREADS = 128 * GROUPS /* and 128 */ };
    enum { TILE = COLUMNS * products::STRIDE, FLOATS = COLUMNS * PAD, SYNC = 1 };
};

/* A CTA's part, and where its shared memory is; ready, taken: barriers of the two groups. */
template <class E> struct pass_place {
    E *rows, *gradients; /* gradients: keys, each with COLUMNS queries */
    float *out;          /* a tile's sums of each group; after them the statistics of columns */
    kd_saddr ready, taken;
    int head, block, begin, tiles; /* begin: the first tile */
};

/* The thread that adds. */
template <int BYTES, class E>
INLINE void add_in_turn(float *dq, int *turns, const pass_place<E> &at) {
    const int begin = at.begin, tiles = at.tiles, block = at.block;
    const kd_saddr sums = kd_saddr_of(at.out), ready = at.ready, taken = at.taken;
    for (int tile = begin; tile < tiles; tile++) {
        const int i = tile - begin;
        kd_barrier_wait(ready + i % 2 * 8, i / 2 & 1);
        kd_turn_wait(turns + tile, block);
        kd_add_bulk(dq + (long)tile * (BYTES / 4), sums + i % 2 * BYTES, BYTES);
        if (i == 0) continue;
        kd_bulk_wait<1>();
        kd_turn_end(turns + tile - 1, block + 1);
        kd_barrier_arrive(taken + (i - 1) % 2 * 8);
    }
    if (begin == tiles) return;
    kd_bulk_wait<0>();
    kd_turn_end(turns + tiles - 1, block + 1);
}

/* The warpgroups that multiply. */
template <class T, int SIZE, int PAD, int STAGES>
INLINE void multiply_keys(const attention_shape &s, const typename T::element *q,
                          const typename T::element *k, const typename T::element *v,
                          const typename T::element *dy, const float *sums, typename T::element *dk,
                          typename T::element *dv, const pass_place<typename T::element> &at) {
    typedef typename T::element element;
    typedef one_pass<T, PAD> own;
    typedef typename own::products products;
    enum { COLUMNS = own::COLUMNS, ROWS = own::ROWS, THREADS = own::THREADS, TILE = own::TILE };
    enum { C = COLUMNS / 8, N = PAD / 8, FLOATS = own::FLOATS };
    const int head = at.head, first = at.block * ROWS, begin = at.begin, tiles = at.tiles;
    element *const rows = at.rows, *const rows2 = rows + ROWS * products::STRIDE,
                   *const stages = rows2 + ROWS * products::STRIDE, *const gradients = at.gradients;
    float *const of_columns = at.out + 2 * FLOATS;
    const int group = kd_thread() / 128, mine = first + kd_thread() / 32 * 16 + ROW_OF_LANE;
    token_feed<T, SIZE, PAD, ROWS, THREADS> from_k;
    token_feed<T, SIZE, PAD, COLUMNS, THREADS> from_q;
    float_feed<COLUMNS, THREADS> from_sums;
    from_k.begin(tokens_of<SIZE>(k, s, s.keys, head));
    from_q.begin(tokens_of<SIZE>(q, s, s.queries, head));
    from_sums.begin(sums + (long)head * s.queries, (long)s.batch * s.heads * s.queries, s.queries);
    const auto from_v = from_k.shifted(v - k);
    const auto from_dy = from_q.shifted(dy - q);
    from_k.bring(rows, first), from_v.bring(rows2, first);
    auto bring = [&](int tile) {
        element *to = stages + tile % STAGES * 2 * TILE;
        if (tile < tiles) {
            from_q.bring(to, tile * COLUMNS), from_dy.bring(to + TILE, tile * COLUMNS);
            from_sums.bring(of_columns + tile % STAGES * 2 * COLUMNS, tile * COLUMNS);
        }
        kd_copy_commit();
    };
    for (int tile = begin; tile < begin + STAGES - 1; tile++) bring(tile);
    const typename products::tile stages_at = products::of(stages), all_keys = products::of(rows);
    const auto keys = products::template own<1, THREADS / 32>(rows),
               values = products::template own<1, THREADS / 32>(rows2);
    float acc_k[1][N][4], acc_v[1][N][4], sum[1][N][4], p[1][C][4], ds[1][C][4], back[1][2];
    typename T::made of_p[1][COLUMNS / 16], of_ds[1][COLUMNS / 16];
    FOR(n, N) FOR(i, 4) acc_k[0][n][i] = acc_v[0][n][i] = 0;
    for (int tile = begin; tile < tiles; tile++) {
        const int i_th = tile - begin;
        const auto now = products::advance(stages_at, tile % STAGES * 2 * TILE);
        kd_copy_wait<STAGES - 2>();
        products::arrive();
        kd_sync_first<own::SYNC, THREADS>(); /* the gradients before have been read */
        bring(tile + STAGES - 1);
        products::begin(p, keys, now);
        products::begin(ds, values, products::advance(now, TILE));
        const float *statistics = of_columns + tile % STAGES * 2 * COLUMNS + PAIR_OF_LANE;
        const int column = tile * COLUMNS + PAIR_OF_LANE;
        const bool whole = tile * COLUMNS + COLUMNS <= s.queries && first + ROWS <= s.keys &&
                           !(s.causal && first + ROWS > tile * COLUMNS + s.query_offset + 1);
        products::template wait<1>(p);
        FOR(n, C)
        FOR(i, 4) p[0][n][i] =
            kd_exp2(fmaf(p[0][n][i], s.scale2, -statistics[COLUMNS + n * 8 + i % 2]));
        auto hide = [&](float(&c)[1][C][4]) {
            FOR(n, C) FOR(i, 4) {
                int key = mine + i / 2 * 8, query = column + n * 8 + i % 2;
                if (query >= s.queries || key >= s.keys ||
                    (s.causal && key > query + s.query_offset))
                    c[0][n][i] = 0;
            }
        };
        if (!whole) hide(p);
        make_left<T, false>(of_p, p, back);
        products::template spread<true>(acc_v, of_p, back, products::advance(now, TILE));
        products::template wait<1>(ds);
        FOR(n, C) FOR(i, 4) ds[0][n][i] = p[0][n][i] * (ds[0][n][i] - statistics[n * 8 + i % 2]);
        if (!whole) hide(ds);
        make_left<T, false>(of_ds, ds, back);
        products::template spread<true>(acc_k, of_ds, back, now);
        /* a key is a line of 128 bytes, whose pieces of 8 queries are swizzled by its number */
        FOR(n, C) FOR(half, 2) {
            const int key = kd_thread() / 32 * 16 + ROW_OF_LANE + half * 8;
            kd_put((unsigned *)(gradients + key * COLUMNS + (n ^ key % 8) * 8 + PAIR_OF_LANE),
                   of_ds[0][n / 2].w[0][n % 2 * 2 + half]);
        }
        kd_async_fence();
        kd_sync_first<own::SYNC, THREADS>();
        const bool adds = i_th % 2 == group;
        if (adds) products::template across<ROWS>(sum, products::of(gradients), all_keys);
        products::template wait<0>(acc_k), products::template wait<0>(acc_v);
        if (!adds) continue;
        products::sums(sum);
        if (i_th > 1) kd_barrier_wait(at.taken + group * 8, (i_th / 2 - 1) & 1);
        float *to = at.out + group * FLOATS + kd_thread() % 128 * 4;
        FOR(n, N)
        kd_put((float4 *)(to + n * 512),
               make_float4(sum[0][n][0], sum[0][n][1], sum[0][n][2], sum[0][n][3]));
        kd_async_fence();
        kd_barrier_arrive(at.ready + group * 8);
    }
    const float factor[2][1][2] = {{{s.scale, s.scale}}, {{1, 1}}};
    put_rows<T, SIZE, 1, N>(tokens_of<SIZE>(dk, s, s.keys, head), mine, 0, acc_k, factor[0]);
    put_rows<T, SIZE, 1, N>(tokens_of<SIZE>(dv, s, s.keys, head), mine, 0, acc_v, factor[1]);
}

template <class T, int SIZE, int PAD, int STAGES>
INLINE void attention_back_once(const attention_shape &s, const typename T::element *q,
                                const typename T::element *k, const typename T::element *v,
                                const typename T::element *dy, const float *sums, float *dq,
                                int *turns, typename T::element *dk, typename T::element *dv) {
    typedef typename T::element element;
    typedef one_pass<T, PAD> own;
    enum { COLUMNS = own::COLUMNS, ROWS = own::ROWS, THREADS = own::THREADS };
    enum { FLOATS = own::FLOATS, STRIDE = own::products::STRIDE };
    static_assert(T::RANGE == 0, "all keys of a sum over keys have one exponent");
    KD_SHARED(element, rows);
    pass_place<element> at;
    at.rows = rows, at.gradients = rows + 2 * ROWS * STRIDE + STAGES * 2 * own::TILE;
    at.out = (float *)(at.gradients + ROWS * COLUMNS);
    int *const ticket = (int *)(at.out + 2 * FLOATS + STAGES * 2 * COLUMNS);
    at.ready = kd_saddr_of(ticket + 4), at.taken = at.ready + 16;
    if (threadIdx.x == 0) {
        *ticket = kd_ticket(turns);
        for (int i = 0; i < 2; i++)
            kd_barrier_begin(at.ready + i * 8, 128), kd_barrier_begin(at.taken + i * 8, 1);
        kd_async_fence();
    }
    __syncthreads();
    const int blocks = (s.keys + ROWS - 1) / ROWS, item = *ticket;
    at.head = item / blocks, at.block = item % blocks;
    at.tiles = (s.queries + COLUMNS - 1) / COLUMNS;
    const int first = at.block * ROWS;
    at.begin = s.causal && first > s.query_offset ? (first - s.query_offset) / COLUMNS : 0;
    if (at.begin > at.tiles) at.begin = at.tiles;
    if (kd_thread() >= THREADS) {
        kd_fewer_registers<24>();
        if (kd_thread() == THREADS)
            add_in_turn<FLOATS * 4>(dq + (long)at.head * at.tiles * FLOATS,
                                    turns + 1 + at.head * at.tiles, at);
    } else {
        kd_more_registers<240>();
        multiply_keys<T, SIZE, PAD, STAGES>(s, q, k, v, dy, sums, dk, dv, at);
    }
}

/* dq of its sums; a thread has four of them. */
template <class T, int SIZE, int PAD>
INLINE void attention_dq(const attention_shape &s, const float *sums, typename T::element *dq) {
    enum { COLUMNS = one_pass<T, PAD>::COLUMNS, N = PAD / 8, EACH = 128 * N /* of a tile */ };
    const int tiles = (s.queries + COLUMNS - 1) / COLUMNS;
    const long at = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (long)s.batch * s.heads * tiles * EACH) return;
    const int place = (int)(at % EACH), thread = place % 128, head = (int)(at / EACH / tiles);
    const float4 four = *(const float4 *)(sums + at * 4);
    const head_tokens<typename T::element> to = tokens_of<SIZE>(dq, s, s.queries, head);
    const int query = (int)(at / EACH % tiles) * COLUMNS + thread / 32 * 16 + thread % 32 / 4,
              feature = place / 128 * 8 + thread % 4 * 2;
    const float pairs[2][2] = {{four.x, four.y}, {four.z, four.w}};
    FOR(half, 2)
    FOR(i, 2) if (query + half * 8 < s.queries && feature + i < SIZE)
        to.at[(query + half * 8) * to.row + feature + i] = T::narrow(pairs[half][i] * s.scale);
}

/* Zeros: `floats` from `dq` on and `counters` from `turns` on. */
INLINE void attention_zeros(float *dq, long floats, int *turns, long counters) {
    const long from = (long)blockIdx.x * blockDim.x + threadIdx.x,
               by = (long)gridDim.x * blockDim.x;
    for (long i = from; i < floats / 4; i += by) ((float4 *)dq)[i] = make_float4(0, 0, 0, 0);
    for (long i = from; i < counters; i += by) turns[i] = 0;
}
