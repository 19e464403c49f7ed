/* Products of attention's tiles by wgmma (warpgroup.cu), in 16 bits: a warpgroup multiplies 64
 * rows, and the left operands of the second products stay in registers. 64 features of a token
 * have 128 bytes of shared memory, those of eight tokens are contiguous, and before the next
 * eight tokens come the other features of these. The 16-byte pieces are swizzled by the token's
 * number, so the same tile is K-major for scores, along features, and MN-major for the second
 * products, along tokens. */
#define WGMMA_OF(name)                                                                             \
    struct groups_of_##name : of_##name {                                                          \
        enum { WGMMA = 1 };                                                                       \
        template <bool OVERWRITE, bool ROWS = false, int N>                                        \
        static INLINE void product(float (&c)[N], kd_tile a, kd_tile b) {                          \
            kd_wgmma_##name<ROWS, ROWS, OVERWRITE>(c, a, b);                                       \
        }                                                                                          \
        template <int N>                                                                           \
        static INLINE void product_left(float (&c)[N], const left &a, kd_tile b) {                 \
            kd_wgmma_left_##name<true, false>(c, a.w[0], b);                                       \
        }                                                                                          \
    };
WGMMA_OF(bf16)
WGMMA_OF(f16)

template <class T, int PAD> struct tile_products<T, PAD, true> {
    typedef typename T::element element;
    enum { WIDTH = 64, PANELS = (PAD + WIDTH - 1) / WIDTH, STRIDE = PANELS * WIDTH };
    enum { PANEL = 8 * 2 * WIDTH /* bytes: 64 features of eight tokens */ };
    static_assert(sizeof(element) == 2, "pieces of 8 elements");
    static INLINE int place(int token, int at) {
        return token / 8 * 8 * STRIDE + at / WIDTH * (PANEL / 2) + token % 8 * WIDTH +
               ((at % WIDTH / 8 ^ token % 8) * 8 + at % 8);
    }
    typedef kd_saddr tile;
    static INLINE tile of(const element *at) {
        kd_saddr t = kd_saddr_of(at);
        kd_hold(t);
        return t;
    }
    /* The rows of a CTA's that a warpgroup multiplies. */
    template <int M, int WARPS> static INLINE tile own(const element *rows) {
        return of(rows + (WARPS > 4 ? kd_thread() / 128 * 64 * STRIDE : 0));
    }
    static INLINE tile advance(tile t, int elements) { return t + elements * (int)sizeof(element); }
    static INLINE void arrive() { kd_async_fence(); }
    /* Along features and along tokens. */
    static INLINE kd_tile tile_of(tile t) { return kd_tile_of<128>(t, PANEL, PANELS * PANEL); }
    /* 16 features from number 16 k on. */
    static INLINE kd_tile features(kd_tile t, int k) {
        return kd_tile_advance(t, k / 4 * PANEL + k % 4 * 32);
    }
    template <int N> static INLINE float (&flat(float (&c)[1][N][4]))[N * 4] {
        return (float(&)[N * 4]) c;
    }
    /* Sums start as zeros; products accumulate in a loop. */
    template <int N> static INLINE void sums(float (&c)[1][N][4]) { kd_wgmma_sums(flat(c)); }
    template <int LEFT, int N> static INLINE void wait(float (&c)[1][N][4]) {
        kd_wgmma_wait<LEFT>();
        sums(c);
    }
    template <int C> static INLINE void begin(float (&c)[1][C][4], tile rows, tile columns) {
        kd_tile left = tile_of(rows), right = tile_of(columns);
        kd_wgmma_begin();
        T::template product<true>(flat(c), left, right);
        UNROLL for (int k = 1; k < PAD / 16; k++) T::template product<false>(
            flat(c), features(left, k), features(right, k));
        kd_wgmma_commit();
    }
    /* c = rows columns' over TOKENS tokens, the lines of `rows`: each 64 of the sums' rows, with
     * pieces swizzled as a token's. */
    template <int TOKENS, int N>
    static INLINE void across(float (&c)[1][N][4], tile rows, tile columns) {
        kd_tile left = kd_tile_of<128>(rows, PANEL, PANEL), right = tile_of(columns);
        kd_wgmma_begin();
        T::template product<true, true>(flat(c), left, right);
        UNROLL for (int k = 1; k < TOKENS / 16; k++) T::template product<false, true>(
            flat(c), kd_tile_advance(left, k * 2 * PANEL),
            kd_tile_advance(right, k * 2 * PANELS * PANEL));
        kd_wgmma_commit();
    }
    template <bool IN_PLACE, int K, int N>
    static INLINE void spread(float (&acc)[1][N][4], const typename T::made (&a)[1][K],
                              const float (&)[1][2], tile columns) {
        static_assert(IN_PLACE, "sums are added to");
        kd_tile right = tile_of(columns);
        kd_wgmma_begin();
        FOR(k, K)
        T::product_left(flat(acc), a[0][k], kd_tile_advance(right, k * 2 * PANELS * PANEL));
        kd_wgmma_commit();
    }
};
