/* Products of tiles by wgmma (warpgroup.cu): four warps, one below the other, multiply 64 rows by all BN
 * columns; tiles lie as ct_feed puts them. */
template <int ARITHMETIC, class A, class B, int BM, int BN, int WM> struct ct_groups {
    enum { MT = 1, NT = BN / 8, BEHIND = 2, STEPS = CT_LINE / 32 };
    static_assert(BM == 16 * WM && WM % 4 == 0 && A::WORD == 2 && B::WORD == 2, "tiles of warps");
    float sum[MT][NT][4];
    int row, column;

    INLINE float (&sums())[BN / 2] { return (float(&)[BN / 2]) sum; }
    INLINE void begin() {
        row = (int)threadIdx.x / 32 * 16, column = 0;
        CT_UNROLL for (int i = 0; i < BN / 2; i++) sums()[i] = 0;
    }
    INLINE void arrive() const { kd_async_fence(); }
    /* Of an operand's tile: rows from `first` on, a multiple of 64, of step s of depth. */
    template <class F> static INLINE kd_tile part(const unsigned char *tile, int first, int s) {
        kd_saddr at = kd_saddr_of(tile);
        if constexpr (F::ALONG_K) return kd_tile_of<64>(at + first * CT_LINE + s * 32, 16, 8 * CT_LINE);
        return kd_tile_of<128>(at + first / 64 * (F::LINES * CT_BLOCK) + s * 16 * CT_BLOCK,
                               F::LINES * CT_BLOCK, 8 * CT_BLOCK);
    }
    INLINE void multiply(const unsigned char *left, const unsigned char *right) {
        int first = (int)threadIdx.x / 128 * 64;
        kd_wgmma_begin();
        CT_UNROLL for (int s = 0; s < STEPS; s++) {
            kd_tile a = part<A>(left, first, s), b = part<B>(right, 0, s);
            if constexpr (ARITHMETIC == CT_BF16_GROUPS)
                kd_wgmma_bf16<!A::ALONG_K, !B::ALONG_K>(sums(), a, b);
            else
                kd_wgmma_f16<!A::ALONG_K, !B::ALONG_K>(sums(), a, b);
        }
        kd_wgmma_commit();
        kd_wgmma_wait<BEHIND - 1>(sums());
    }
    INLINE void end() { kd_wgmma_wait<0>(sums()); }
};
template <class A, class B, int BM, int BN, int WM>
struct ct_product<CT_BF16_GROUPS, A, B, BM, BN, WM, 1> : ct_groups<CT_BF16_GROUPS, A, B, BM, BN, WM> {};
template <class A, class B, int BM, int BN, int WM>
struct ct_product<CT_F16_GROUPS, A, B, BM, BN, WM, 1> : ct_groups<CT_F16_GROUPS, A, B, BM, BN, WM> {};
