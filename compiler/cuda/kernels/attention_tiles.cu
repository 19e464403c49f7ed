/* The parts of attention's kernels (attention.cu, after this): operands of kd_mma_*, tiles of
 * tokens in shared memory, their products, dropout. A row of a tile is SIZE elements, zeros up
 * to PAD, a multiple of 16, and 16 bytes of padding, so that eight consecutive rows begin in
 * eight different banks. */
#ifdef __CUDACC_RTC__
#define UNROLL    _Pragma("unroll")
#define UNROLL_IN _Pragma("unroll 4")
#define ROLLED    _Pragma("unroll 1")
#else
#define UNROLL
#define UNROLL_IN
#define ROLLED
#endif
#define FOR(i, n)      UNROLL for (int i = 0; i < (n); i++)
/* where i does not index registers */
#define FOR_MANY(i, n) UNROLL_IN for (int i = 0; i < (n); i++)

/* ---- operands of kd_mma_*: 16 x STEP and STEP x 8, in parts ---- */
template <int PARTS> struct left_operand { unsigned w[PARTS][4]; };
template <int PARTS> struct right_operand { unsigned w[PARTS][2]; };
#define ROW_OF_LANE  (kd_thread() % 32 / 4)
#define PAIR_OF_LANE (kd_thread() % 4 * 2)

/* c += a b; the smallest products first, the product of the lowest parts is left out. */
template <class T, int A, int B>
INLINE void multiply(float c[4], const left_operand<A> &a, const right_operand<B> &b) {
    FOR(i, A)
    FOR(j, B)
    if (A - 1 - i + (B - 1 - j) < (A > B ? A : B)) T::mma(c, a.w[A - 1 - i], b.w[B - 1 - j]);
}

/* For 16 bits. Tiles are in shared memory, with rows STRIDE elements apart. */
struct in_halves {
    typedef unsigned short element;
    /* features or tokens per instruction; parts in memory; wgmma */
    enum { STEP = 16, MEMORY = 1, WGMMA = 0 };
    typedef left_operand<1> left;
    typedef right_operand<1> right;
    /* 16 rows from `at` on. */
    template <int STRIDE> static INLINE void load_left(left &a, const element *at) {
        int lane = threadIdx.x % 32;
        kd_ldmatrix4(a.w[0], kd_saddr_of(at + lane % 16 * STRIDE + lane / 16 * 8));
    }
    static INLINE void pair(right b[2], const unsigned r[4]) {
        FOR(i, 4) b[i / 2].w[0][i % 2] = r[i];
    }
    /* 16 columns, each of which is a row of the tile. */
    template <int STRIDE> static INLINE void load_transposed(right b[2], const element *at) {
        int lane = threadIdx.x % 32;
        unsigned r[4];
        kd_ldmatrix4(r, kd_saddr_of(at + (lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 8));
        pair(b, r);
    }
    /* STEP rows of the tile, 16 columns. */
    template <int STRIDE> static INLINE void load_right(right b[2], const element *at) {
        int lane = threadIdx.x % 32;
        unsigned r[4];
        kd_ldmatrix4_trans(r, kd_saddr_of(at + lane % 16 * STRIDE + lane / 16 * 8));
        pair(b, r);
    }
};

/* RANGE: the exponent to which each row's maximum is scaled where the type has a small range. */
#define OPERANDS_OF(name, range)                                                                   \
    struct of_##name : in_halves {                                                                 \
        enum { MADE = 1, RANGE = range };                                                          \
        typedef left_operand<1> made;                                                              \
        static INLINE void mma(float c[4], const unsigned a[4], const unsigned b[2]) {             \
            kd_mma_##name(c, a, b);                                                                \
        }                                                                                          \
        static INLINE float widen(element v) { return kd_widen_##name(v); }                        \
        static INLINE element narrow(float v) { return kd_narrow_##name(v); }                      \
        static INLINE void store2(element *to, float a, float b) {                                 \
            unsigned w = kd_narrow2_##name(a, b);                                                  \
            *(ushort2 *)to = make_ushort2((unsigned short)w, (unsigned short)(w >> 16));           \
        }                                                                                          \
        /* From two neighbouring accumulators. */                                                  \
        static INLINE void make(made &a, const float c[][4]) {                                     \
            FOR(i, 4) a.w[0][i] = kd_narrow2_##name(c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1]); \
        }                                                                                          \
    };
OPERANDS_OF(bf16, 0)
OPERANDS_OF(f16, 14)

template <int PARTS> struct of_f32 {
    typedef float element;
    enum { STEP = 8, MEMORY = PARTS, MADE = PARTS, RANGE = 0, WGMMA = 0 };
    typedef left_operand<PARTS> left, made;
    typedef right_operand<PARTS> right;
    static INLINE void mma(float c[4], const unsigned a[4], const unsigned b[2]) {
        kd_mma_tf32(c, a, b);
    }
    static INLINE float widen(float v) { return v; }
    static INLINE float narrow(float v) { return v; }
    static INLINE void store2(float *to, float a, float b) { *(float2 *)to = make_float2(a, b); }
    template <int N> static INLINE void split(unsigned (&w)[PARTS][N], int at, float v) {
        FOR(i, PARTS) {
            float part = kd_round_tf32(v);
            w[i][at] = __float_as_uint(part);
            v = v - v == 0 ? v - part : 0; /* a value that is not finite has no remainder */
        }
    }
    template <int STRIDE> static INLINE void load_left(left &a, const float *at) {
        at += ROW_OF_LANE * STRIDE + PAIR_OF_LANE / 2;
        FOR(i, 4) split(a.w, i, at[i % 2 * 8 * STRIDE + i / 2 * 4]);
    }
    template <int STRIDE> static INLINE void load_transposed(right b[2], const float *at) {
        at += ROW_OF_LANE * STRIDE + PAIR_OF_LANE / 2;
        FOR(i, 4) split(b[i / 2].w, i % 2, at[i / 2 * 8 * STRIDE + i % 2 * 4]);
    }
    /* The order of K is that of `make`: row 2 q where the instruction has row q, 2 q + 1 for q +
     * 4. */
    template <int STRIDE> static INLINE void load_right(right b[2], const float *at) {
        at += PAIR_OF_LANE * STRIDE + ROW_OF_LANE;
        FOR(i, 4) split(b[i / 2].w, i % 2, at[i % 2 * STRIDE + i / 2 * 8]);
    }
    static INLINE void make(made &a, const float c[][4]) {
        FOR(i, 4) split(a.w, i, c[0][i % 2 * 2 + i / 2]);
    }
};

/* ---- tiles ---- */
struct attention_shape {
    int batch, queries, keys, heads;
    /* of the whole attention, of which this may be a part; */
    long all_heads, all_queries, all_keys;
    /* the number of the sample's first score in the whole attention, */
    long first;
    int query_offset;                             /* and the offset of the queries in the keys */
    float scale, scale2; /* 1 / sqrt(size); for powers of two: times log2 e */
    float threshold, kept;
    int number;
    bool causal;
};
/* Tensors that are added to the scores, and the distances in them between samples, heads and
 * queries. Products are scaled after the sum, so addends are multiplied by `by`, 1 / scale. */
struct attention_addends {
    const float *at[2];
    long sample[2], head[2], query[2];
    float by;
};
/* The addends of a head's scores; ADDS of them. */
template <int ADDS> struct head_addends {
    const float *at[ADDS ? ADDS : 1];
    long query[ADDS ? ADDS : 1];
    float by;
    INLINE void begin(const attention_addends &a, const attention_shape &s, int head) {
        FOR(k, ADDS) {
            at[k] = a.at[k] + head / s.heads * a.sample[k] + head % s.heads * a.head[k];
            query[k] = a.query[k];
        }
        by = a.by;
    }
    INLINE float of(int from, int key) const {
        float sum = 0;
        FOR(k, ADDS) sum += at[k][from * query[k] + key];
        return sum * by;
    }
};
/* Tokens of a head: of tensor `from`, [batch, count, heads * SIZE]. */
template <class E> struct head_tokens {
    E *at;
    long row;
    int count;
};
template <int SIZE, class E>
INLINE head_tokens<E> tokens_of(E *from, const attention_shape &s, int count, int head) {
    long row = (long)s.heads * SIZE;
    return {from + head / s.heads * count * row + (long)(head % s.heads) * SIZE, row, count};
}

template <class T, int PAD, bool WGMMA = T::WGMMA> struct tile_products;

/* Copies COUNT tokens at a time to shared memory. LANES threads copy a token's vectors, aligned
 * as SIZE allows; each thread computes its addresses once. */
template <class T, int SIZE, int PAD, int COUNT, int THREADS> struct token_feed {
    typedef typename T::element element;
    enum {
        BYTES = (int)sizeof(element),
        VECTOR = SIZE * BYTES % 16 == 0 ? 16 : SIZE * BYTES % 4 == 0 ? 4 : BYTES,
        EACH = PAD * BYTES / VECTOR,
        LANES = EACH > 16 ? 32 : EACH > 8 ? 16 : EACH > 4 ? 8 : 4,
        ACROSS = (EACH + LANES - 1) / LANES,
        STEP = THREADS / LANES,
        /* a thread's destinations are as far apart as its tokens */
        EVEN = ACROSS == 1 && STEP % 8 == 0
    };
    typedef tile_products<T, PAD> products;
    long from, row; /* address of the thread's first vector; bytes between tokens */
    int count, token, lane, place;

    INLINE void begin(head_tokens<const element> of) {
        token = kd_thread() / LANES, lane = kd_thread() % LANES;
        row = of.row * BYTES, count = of.count - token;
        from = (long)of.at + token * row + lane * VECTOR;
        place = products::place(token, lane * (VECTOR / BYTES));
        kd_hold(from), kd_hold(place), kd_hold(count);
    }
    /* For the same tokens in a tensor that is `elements` further in memory. */
    INLINE token_feed shifted(long elements) const {
        token_feed f = *this;
        f.from += elements * BYTES;
        kd_hold(f.from);
        return f;
    }
    /* Copies those from `first` on. */
    INLINE void bring(element *to, int first) const {
        const long begins = from + (long)first * row;
        const int left = count - first;
        element *const own = to + place;
        FOR_MANY(i, (COUNT + STEP - 1) / STEP) {
            if (COUNT % STEP && token + i * STEP >= COUNT) break;
            FOR(j, ACROSS) {
                int vector = lane + j * LANES;
                if (EACH % LANES && vector >= EACH) break;
                bool there = i * STEP < left && (SIZE == PAD || vector * VECTOR < SIZE * BYTES);
                element *at =
                    EVEN ? own + i * (STEP * products::STRIDE)
                         : to + products::place(token + i * STEP, vector * (VECTOR / BYTES));
                /* with no bytes: any address */
                long source = begins + i * (STEP * row) + j * (LANES * VECTOR);
                if (VECTOR == 16)
                    kd_copy16(kd_saddr_of(at), (const void *)source, there ? 16 : 0);
                else if (VECTOR == 4)
                    kd_copy4(kd_saddr_of(at), (const void *)source, there ? 4 : 0);
                else
                    *at = there ? *(const element *)source : 0;
            }
        }
    }
};
/* Copies two numbers per token: COUNT of the first kind, then of the second, which are `apart`
 * in memory. */
template <int COUNT, int THREADS> struct float_feed {
    enum { EACH = (2 * COUNT + THREADS - 1) / THREADS };
    long from[EACH];
    int count;
    INLINE void begin(const float *at, long apart, int all) {
        count = all - kd_thread() % COUNT;
        FOR(i, EACH) {
            int mine = kd_thread() + i * THREADS;
            from[i] = (long)(at + (mine < COUNT ? 0 : apart) + mine % COUNT);
            kd_hold(from[i]);
        }
    }
    INLINE void bring(float *to, int first) const {
        static_assert(THREADS % COUNT == 0 || COUNT % THREADS == 0,
                      "a thread's numbers are of one token");
        FOR(i, EACH) {
            int mine = kd_thread() + i * THREADS;
            if (2 * COUNT % THREADS && mine >= 2 * COUNT) break;
            int left = count - (COUNT > THREADS ? i * THREADS % COUNT : 0);
            kd_copy4(kd_saddr_of(to + mine), (const void *)(from[i] + (long)first * 4),
                     first < left ? 4 : 0);
        }
    }
};

/* Products of tiles by warps (mma.sync): each warp has 16 M rows of the CTA's.
 * attention_wgmma.cu has those of warpgroups. Products are complete after their `wait`, in the
 * order in which they were issued. */
template <class T, int PAD, bool WGMMA> struct tile_products {
    typedef typename T::element element;
    enum { STRIDE = PAD + 16 / (int)sizeof(element) }; /* elements of a token */
    typedef const element *tile;
    static INLINE tile of(const element *at) { return at; }
    /* The rows of a CTA's that a warp multiplies. */
    template <int M, int WARPS> static INLINE tile own(const element *rows) {
        return rows + kd_thread() / 32 * 16 * M * STRIDE;
    }
    static INLINE tile advance(tile t, int elements) { return t + elements; }
    static INLINE int place(int token, int at) { return token * STRIDE + at; }
    /* Makes the thread's shared memory writes visible to products after the next barrier. */
    static INLINE void arrive() {}
    template <int LEFT, int M, int N> static INLINE void wait(float (&)[M][N][4]) {}

    /* c = rows columns', over PAD features. */
    template <int M, int C> static INLINE void begin(float (&c)[M][C][4], tile rows, tile columns) {
        FOR(m, M) FOR(n, C) FOR(i, 4) c[m][n][i] = 0;
        FOR_MANY(k, PAD / T::STEP) {
            typename T::left a[M];
            FOR(m, M) T::template load_left<STRIDE>(a[m], rows + m * 16 * STRIDE + k * T::STEP);
            FOR(n, C / 2) {
                typename T::right b[2];
                T::template load_transposed<STRIDE>(b, columns + n * 16 * STRIDE + k * T::STEP);
                FOR(m, M) FOR(j, 2) multiply<T>(c[m][2 * n + j], a[m], b[j]);
            }
        }
    }

    /* acc = acc + (a columns) back, by row; over K * STEP tokens and N * 8 features from
     * `columns` on. IN_PLACE: back is 1, and the products accumulate in acc; otherwise they are
     * summed first. */
    template <bool IN_PLACE, int M, int K, int N>
    static INLINE void spread(float (&acc)[M][N][4], const typename T::made (&a)[M][K],
                              const float (&back)[M][2], tile columns) {
        FOR(n, N / 2) {
            float sum[M][2][4];
            FOR(m, M) FOR(j, 2) FOR(i, 4) sum[m][j][i] = 0;
            FOR(k, K) {
                typename T::right b[2];
                T::template load_right<STRIDE>(b, columns + k * T::STEP * STRIDE + n * 16);
                FOR(m, M)
                FOR(j, 2) multiply<T>(IN_PLACE ? acc[m][2 * n + j] : sum[m][j], a[m][k], b[j]);
            }
            if constexpr (!IN_PLACE)
                FOR(m, M) FOR(j, 2) FOR(i, 4) acc[m][2 * n + j][i] += sum[m][j][i] * back[m][i / 2];
        }
    }
};

/* Waits for a tile, which all threads may then read, and starts the copy of the tile STAGES - 1
 * later into the stage that is free. */
template <class T, int PAD, int STAGES, class BRING>
INLINE void next_tile(int tile, const BRING &bring) {
    if (STAGES == 1) {
        __syncthreads();
        bring(tile);
    }
    kd_copy_wait<(STAGES > 1 ? STAGES - 2 : 0)>();
    tile_products<T, PAD>::arrive();
    __syncthreads();
    if (STAGES > 1) bring(tile + STAGES - 1);
}

/* Over the four lanes that share a row. */
INLINE float row_max(float v) {
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
    return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
INLINE float row_sum(float v) {
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

/* Left operands from accumulators. BRINGS: rows are first scaled by powers of two, and `back`
 * has the inverse (T::RANGE). */
template <class T, bool BRINGS, int M, int C, int K>
INLINE void make_left(typename T::made (&a)[M][K], float (&c)[M][C][4], float (&back)[M][2]) {
    FOR(m, M) FOR(half, 2) {
        back[m][half] = 1;
        if (!BRINGS) continue;
        float most = 0;
        FOR(n, C) FOR(i, 2) most = fmaxf(most, fabsf(c[m][n][2 * half + i]));
        int exponent = (int)(__float_as_uint(row_max(most)) >> 23);
        bool plain = exponent > 0 && exponent < 255;
        int by = plain ? (exponent < 32 ? 32 : exponent) - 127 - T::RANGE : 0;
        float factor = __uint_as_float((unsigned)(127 - by) << 23);
        back[m][half] = __uint_as_float((unsigned)(127 + by) << 23);
        FOR(n, C) FOR(i, 2) c[m][n][2 * half + i] *= factor;
    }
    FOR(m, M) FOR(k, K) T::make(a[m][k], c[m] + k * (T::STEP / 8));
}

/* Scales rows by powers of two into T's range, and `acc`, sums of products with rows that were
 * scaled before, as these: by[] has the exponents, which only grow, from LEAST_POWER on. */
enum { LEAST_POWER = -110 };
template <class T, int M, int C, int N>
INLINE void lift_rows(float (&c)[M][C][4], float (&acc)[M][N][4], int (&by)[M][2]) {
    FOR(m, M) FOR(half, 2) {
        float most = 0;
        FOR(n, C) FOR(i, 2) most = fmaxf(most, fabsf(c[m][n][2 * half + i]));
        int exponent = (int)(__float_as_uint(row_max(most)) >> 23), now = exponent - 127 - T::RANGE;
        if (exponent < 255 && now > by[m][half]) {
            int less = 127 + by[m][half] - now;
            float shrink = __uint_as_float(less > 0 ? (unsigned)less << 23 : 0);
            FOR(n, N) FOR(i, 2) acc[m][n][2 * half + i] *= shrink;
            by[m][half] = now;
        }
        float factor = __uint_as_float((unsigned)(127 - by[m][half]) << 23);
        FOR(n, C) FOR(i, 2) c[m][n][2 * half + i] *= factor;
    }
}

/* Rows of results. `first`: the head's token of the thread's first row. */
template <class T, int SIZE, int M, int N>
INLINE void put_rows(head_tokens<typename T::element> to, int first, int feature,
                     float acc[M][N][4], const float factor[M][2]) {
    FOR(m, M) FOR(half, 2) {
        int token = first + m * 16 + half * 8;
        if (token >= to.count) continue;
        typename T::element *row = to.at + token * to.row;
        FOR(n, N) {
            int f = feature + n * 8 + PAIR_OF_LANE;
            float a = acc[m][n][2 * half] * factor[m][half],
                  b = acc[m][n][2 * half + 1] * factor[m][half];
            if (SIZE % 2 == 0 && f < SIZE) T::store2(row + f, a, b);
            if (SIZE % 2 && f < SIZE) row[f] = T::narrow(a);
            if (SIZE % 2 && f + 1 < SIZE) row[f + 1] = T::narrow(b);
        }
    }
}

/* ---- dropout: ir/base/philox.h ---- */
/* The random numbers 4 block to 4 block + 3 in s_random's numbering, as words. */
INLINE void random_block(unsigned c[4], unsigned long block, long seed, long step, int number) {
    unsigned k0 = (unsigned)seed, k1 = (unsigned)((unsigned long)seed >> 32);
    c[0] = (unsigned)block, c[1] = (unsigned)(block >> 32), c[2] = (unsigned)step,
    c[3] = 6u | (unsigned)number << 8;
    FOR(round, 10) {
        unsigned long p0 = 0xD2511F53ul * c[0], p1 = 0xCD9E8D57ul * c[2];
        c[0] = (unsigned)(p1 >> 32) ^ c[1] ^ k0, c[1] = (unsigned)p1;
        c[2] = (unsigned)(p0 >> 32) ^ c[3] ^ k1, c[3] = (unsigned)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
}
struct attention_draws {
    long seed, step;
    unsigned long first; /* number of the head's first score */
};
/* `part`: address of the index of this part of all samples, or NULL. */
template <bool DROPS>
INLINE attention_draws draws_of(const attention_shape &s, const long *seed, const long *step,
                                const long *part, int head) {
    long row = (head / s.heads * s.all_heads + head % s.heads) * s.all_queries;
    attention_draws d = {0, 0, (unsigned long)(s.first + row * s.all_keys)};
    if (DROPS) d.seed = *seed, d.step = *step;
    if (DROPS && part)
        d.first += (unsigned long)*part * s.batch * s.all_heads * s.all_queries * s.all_keys;
    return d;
}
/* Dropout of the four scores from number 4 `block` on: a bit each. */
INLINE unsigned draw_four(const attention_shape &s, const attention_draws &d, unsigned long block) {
    unsigned c[4], bits = 0;
    random_block(c, block, d.seed, d.step, s.number);
    FOR(i, 4) bits |= ((float)(c[i] >> 8) * 0x1p-24f < s.threshold) << i;
    return bits;
}
/* The same for the four scores of an accumulator, where rows of scores begin anywhere. */
template <bool BY_KEY>
INLINE unsigned draw_each(const attention_shape &s, const attention_draws &d, int row, int column) {
    unsigned four = 0;
    ROLLED for (int i = 0; i < 4; i++) {
        int along = row + i / 2 * 8, across = column + i % 2;
        unsigned long query = BY_KEY ? across : along, key = BY_KEY ? along : across,
                      at = d.first + query * s.all_keys + key;
        four |= (s_random(at, d.seed, d.step, s.number) < s.threshold) << i;
    }
    return four;
}
/* The same for a warp's accumulators, a bit for each half, pair of n and place: queries from
 * `query` on (the thread's first row, or its column if BY_KEY), and keys from `key` on. Where
 * each row of scores begins a Philox block, a lane draws four scores of 16 keys by 1 query, and
 * shuffles distribute them. Loops stay loops: generators next to each other take more registers
 * than the sums of a gradient leave. */
template <bool BY_KEY, int C>
INLINE void draw(unsigned drop[C], const attention_shape &s, const attention_draws &d, int row,
                 int column) {
    enum { HELD = C < 8 ? C : 8 /* of a word: four bits each */ };
    static_assert(C % HELD == 0, "whole words");
    int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    bool each = s.all_keys % 4 || s.first % 4;
    FOR(w, C / HELD) {
        unsigned bits = 0;
        int from = column + w * HELD * 8;
        if (each) {
            ROLLED for (int n = 0; n < HELD; n++) bits |= draw_each<BY_KEY>(s, d, row, from + n * 8)
                                                          << 4 * n;
        } else if (BY_KEY) {
            ROLLED for (int n = 0; n < HELD; n++) {
                unsigned long query = from + n * 8 + g / 4, key = row - g + g % 4 * 4;
                unsigned four = draw_four(s, d, (d.first + query * s.all_keys + key) / 4);
                FOR(i, 4)
                bits |= (__shfl_sync(0xffffffffu, four, (i % 2 * 4 + i / 2 * 2 + g / 4) * 4 + q) >>
                             g % 4 &
                         1)
                        << (4 * n + i);
            }
        } else {
            ROLLED for (int n = 0; n < HELD; n++) { /* a half of 16 keys each */
                int half = n % 2, pair = n / 2;
                unsigned long query = row + half * 8, key = from - 2 * q + pair * 16 + q * 4;
                unsigned four = draw_four(s, d, (d.first + query * s.all_keys + key) / 4);
                FOR(j, 2)
                bits |= (__shfl_sync(0xffffffffu, four, g * 4 + j * 2 + q / 2) >> q % 2 * 2 & 3)
                        << (4 * (2 * pair + j) + 2 * half);
            }
        }
        FOR(n, HELD) drop[w * HELD + n] = bits >> 4 * n & 15;
    }
}
