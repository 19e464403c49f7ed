/* Products of attention's tiles by wgmma (warpgroup.cu), in 16 bits: a warpgroup multiplies 64
 * rows, and the left operands of the second products stay in registers. A token has 128 bytes of
 * shared memory, of which PAD elements are used. Its 16-byte pieces are swizzled by its number,
 * so the same tile is K-major for scores, along features, and MN-major for the second products,
 * along tokens. */
#define WGMMA_OF(name)                                                                             \
    struct groups_of_##name : of_##name {                                                          \
        enum { WGMMA = 1 };                                                                       \
        template <bool OVERWRITE, int N>                                                           \
        static INLINE void product(float (&c)[N], kd_tile a, kd_tile b) {                          \
            kd_wgmma_##name<false, false, OVERWRITE>(c, a, b);                                     \
        }                                                                                          \
        template <bool ROWS, bool OVERWRITE, int N>                                                \
        static INLINE void product_left(float (&c)[N], const left &a, kd_tile b) {                 \
            kd_wgmma_left_##name<ROWS, OVERWRITE>(c, a.w[0], b);                                   \
        }                                                                                          \
    };
WGMMA_OF(bf16)
WGMMA_OF(f16)

template <class T, int PAD> struct tile_products<T, PAD, true> {
    typedef typename T::element element;
    enum { STRIDE = 64, LINE = 2 * STRIDE };
    static_assert(sizeof(element) == 2 && PAD <= STRIDE, "features of a line");
    static INLINE int place(int token, int at) {
        return token * STRIDE + ((at / 8 ^ token % 8) * 8 + at % 8);
    }
    typedef kd_saddr tile;
    static INLINE tile of(const element *at) {
        kd_saddr t = kd_saddr_of(at);
        kd_hold(t);
        return t;
    }
    struct left_rows {
        typename T::left of[PAD / 16];
    };
    /* The rows of a CTA's that a warpgroup multiplies; HELD: in registers. */
    template <int M, int WARPS, bool HELD> static INLINE auto own(const element *rows) {
        if constexpr (HELD) {
            left_rows own;
            int lane = kd_thread() % 32, row = kd_thread() / 32 * 16 + lane % 16;
            FOR(k, PAD / 16)
            kd_ldmatrix4(own.of[k].w[0], kd_saddr_of(rows + place(row, k * 16 + lane / 16 * 8)));
            return own;
        } else
            return of(rows + (WARPS > 4 ? kd_thread() / 128 * 64 * STRIDE : 0));
    }
    static INLINE tile advance(tile t, int elements) { return t + elements * (int)sizeof(element); }
    static INLINE void arrive() { kd_async_fence(); }
    /* Along features and along tokens; one is as wide as all of a token's bytes. */
    static INLINE kd_tile tile_of(tile t) { return kd_tile_of<128>(t, 16, 8 * LINE); }
    template <int N> static INLINE float (&flat(float (&c)[1][N][4]))[N * 4] {
        return (float(&)[N * 4]) c;
    }
    /* Sums start as zeros; products accumulate in a loop. */
    template <int N> static INLINE void sums(float (&c)[1][N][4]) { kd_wgmma_sums(flat(c)); }
    template <int LEFT, int N> static INLINE void wait(float (&c)[1][N][4]) {
        kd_wgmma_wait<LEFT>();
        sums(c);
    }
    static INLINE void commit() { kd_wgmma_commit(); }
    template <int C> static INLINE void begin(float (&c)[1][C][4], tile rows, tile columns) {
        kd_tile left = tile_of(rows), right = tile_of(columns);
        kd_wgmma_begin();
        T::template product<true>(flat(c), left, right);
        UNROLL for (int k = 1; k < PAD / 16; k++) T::template product<false>(
            flat(c), kd_tile_advance(left, k * 32), kd_tile_advance(right, k * 32));
        kd_wgmma_commit();
    }
    template <int C>
    static INLINE void begin(float (&c)[1][C][4], const left_rows &rows, tile columns) {
        kd_tile right = tile_of(columns);
        kd_wgmma_begin();
        T::template product_left<false, true>(flat(c), rows.of[0], right);
        UNROLL for (int k = 1; k < PAD / 16; k++) T::template product_left<false, false>(
            flat(c), rows.of[k], kd_tile_advance(right, k * 32));
        kd_wgmma_commit();
    }
    template <bool IN_PLACE, int K, int N>
    static INLINE void spread(float (&acc)[1][N][4], const typename T::made (&a)[1][K],
                              const float (&)[1][2], tile columns) {
        static_assert(IN_PLACE, "sums are added to");
        kd_tile right = tile_of(columns);
        kd_wgmma_begin();
        FOR(k, K)
        T::template product_left<true, false>(flat(acc), a[0][k],
                                              kd_tile_advance(right, k * 16 * LINE));
        kd_wgmma_commit();
    }
};
