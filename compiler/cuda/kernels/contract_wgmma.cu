/* A loader whose tiles are along k, as wgmma needs for floats, for an operand that is contiguous
 * along its rows: element by element. A warp takes eight rows by four K elements at a time: 32
 * contiguous bytes in memory, without bank conflicts. */
template <class S, int ROWS, int THREADS>
struct ct_feed<S, ROWS, THREADS, true, 0> : ct_lines<true, sizeof(typename S::word), ROWS> {
    typedef ct_lines<true, sizeof(typename S::word), ROWS> lines;
    typedef typename S::word word;
    typedef typename S::index index;
    typedef typename S::place place;
    enum {
        STEP = 4,
        FOURS = CT_LINE / 16,
        EIGHTS = ROWS / 8 / (THREADS / 32),
        COUNT = FOURS * EIGHTS,
        TMA = 0
    };
    static_assert(sizeof(word) == STEP && EIGHTS * 8 * (THREADS / 32) == ROWS, "rows of warps");
    place held[EIGHTS];
    word words[S::BYTES ? 1 : COUNT];

    /* The thread's first row, of every eighth; its first K element, of every fourth. */
    static INLINE int row() { return kd_thread() / 32 * (EIGHTS * 8) + kd_thread() % 8; }
    static INLINE int term() { return kd_thread() % 32 / 8; }
    INLINE bool has_piece(int) const { return true; }
    INLINE int place_of(int i) const {
        return lines::byte_of(row() + i % EIGHTS * 8, (term() + i / EIGHTS * 4) * STEP);
    }
    INLINE void begin(const S &s, index from) {
        CT_UNROLL for (int e = 0; e < EIGHTS; e++) held[e] = s.row(from + row() + e * 8);
    }
    INLINE void fetch(const S &s, kd_saddr tile, index k, index end, kd_saddr) {
        CT_UNROLL for (int f = 0; f < FOURS; f++) {
            place c = s.col(k + term() + f * 4, end);
            CT_UNROLL for (int e = 0; e < EIGHTS; e++) {
                int i = f * EIGHTS + e;
                bool in = s.inside(held[e], c);
                if constexpr (S::BYTES == 0)
                    words[i] = in ? s.load(held[e], c) : (word)0;
                else
                    kd_copy4(tile + place_of(i), s.at(held[e], c), in ? 4 : 0);
            }
        }
    }
    INLINE void put(unsigned char *tile) const {
        if constexpr (S::BYTES == 0) {
            CT_UNROLL for (int i = 0; i < COUNT; i++)
                kd_put((word *)(tile + place_of(i)), words[i]);
        }
    }
};

/* Rounds the thread's copies of a tile as kd_mma_tf32's operands are; wgmma would truncate them. */
template <class F> INLINE void ct_round_tile(const F &feed, unsigned char *tile) {
    CT_UNROLL for (int i = 0; i < F::COUNT; i++) {
        if (feed.has_piece(i))
            kd_round_tf32_at<F::STEP>(kd_saddr_of(tile) + (unsigned)feed.place_of(i));
    }
}

/* Of an operand's tile: rows from `first` on, a multiple of 64, of step s of depth. */
template <class F> INLINE kd_tile ct_part(const unsigned char *tile, int first, int s) {
    kd_saddr at = kd_saddr_of(tile);
    if constexpr (F::ALONG_K) return kd_tile_of<64>(at + first * CT_LINE + s * 32, 16, 8 * CT_LINE);
    return kd_tile_of<128>(at + first / 64 * (F::LINES * CT_BLOCK) + s * 16 * CT_BLOCK,
                           F::LINES * CT_BLOCK, 8 * CT_BLOCK);
}

/* Products of tiles by wgmma (warpgroup.cu): a warpgroup multiplies MT times 64 rows by all BN
 * columns; tiles have ct_feed's layout. */
template <int ARITHMETIC, class A, class B, int BM, int BN, int WM> struct ct_wgmma {
    enum {
        MT = BM / (16 * WM),
        NT = BN / 8,
        M_STEP = 64,
        READ_LAG = 2,
        STEPS = CT_LINE / 32,
        TRANSPOSED = 0
    };
    static_assert(BM == 16 * WM * MT && WM % 4 == 0 && A::WORD == B::WORD, "tiles of warps");
    float sum[MT][NT][4];
    int row, column;

    INLINE float (&all())[MT * BN / 2] { return (float(&)[MT * BN / 2]) sum; }
    INLINE float (&sums(int i))[BN / 2] { return (float(&)[BN / 2]) sum[i]; }
    INLINE void begin() {
        row = kd_thread() / 128 * (64 * MT) + kd_thread() / 32 % 4 * 16, column = 0;
        CT_UNROLL for (int i = 0; i < MT * BN / 2; i++) all()[i] = 0;
    }
    INLINE void arrive(const A &a, const B &b, unsigned char *tile) const {
        if constexpr (ARITHMETIC == CT_TF32_WGMMA)
            ct_round_tile(a, tile), ct_round_tile(b, tile + A::BYTES_OF_TILE);
        if constexpr (ARITHMETIC == CT_TF32_WGMMA || !A::TMA || !B::TMA) kd_async_fence();
    }
    INLINE void multiply(const unsigned char *left, const unsigned char *right) {
        int first = kd_thread() / 128 * (64 * MT);
        kd_wgmma_begin();
        CT_UNROLL for (int s = 0; s < STEPS; s++) {
            kd_tile b = ct_part<B>(right, 0, s);
            CT_UNROLL for (int i = 0; i < MT; i++) {
                kd_tile a = ct_part<A>(left, first + i * 64, s);
                if constexpr (ARITHMETIC == CT_BF16_WGMMA)
                    kd_wgmma_bf16<!A::ALONG_K, !B::ALONG_K>(sums(i), a, b);
                if constexpr (ARITHMETIC == CT_F16_WGMMA)
                    kd_wgmma_f16<!A::ALONG_K, !B::ALONG_K>(sums(i), a, b);
                if constexpr (ARITHMETIC == CT_TF32_WGMMA) kd_wgmma_tf32(sums(i), a, b);
            }
        }
        kd_wgmma_commit();
        kd_wgmma_wait<READ_LAG - 1>();
    }
    INLINE void end() { kd_wgmma_wait<0>(); }
};

/* The same with strips (contract_strips.cu) as the left operand: each thread assembles its rows'
 * elements in registers, of 64 rows while those before them are multiplied. A warpgroup's
 * products of a tile are complete before it assembles the next tile. */
template <int ARITHMETIC, class A, class B, int BM, int BN, int WM>
struct ct_wgmma_strips : ct_wgmma<ARITHMETIC, A, B, BM, BN, WM> {
    typedef ct_wgmma<ARITHMETIC, A, B, BM, BN, WM> product;
    enum { MT = product::MT };
    static_assert(A::WORD == 2 && !B::STRIPS, "one operand of strips, in halves");
    int at[2 * MT]; /* offsets of the thread's rows */

    INLINE void begin() {
        product::begin();
        CT_UNROLL for (int i = 0; i < 2 * MT; i++) {
            at[i] = A::table()[this->row + i / 2 * product::M_STEP + i % 2 * 8 +
                               kd_thread() % 32 / 4];
            kd_hold(at[i]);
        }
    }
    template <class L, class R> INLINE void arrive(const L &, const R &, unsigned char *) const {
        if constexpr (!B::TMA) kd_async_fence();
    }
    INLINE void multiply(const unsigned char *strips, const unsigned char *tile) {
        const int *terms = (const int *)(strips + A::TERMS) + kd_thread() % 4 * 2;
        kd_wgmma_wait<0>();
        CT_UNROLL for (int s = 0; s < product::STEPS; s++) {
            kd_tile b = ct_part<B>(tile, 0, s);
            CT_UNROLL for (int i = 0; i < MT; i++) {
                unsigned a[4];
                CT_UNROLL for (int w = 0; w < 4; w++)
                    a[w] = A::two(strips + at[i * 2 + w % 2], terms + s * 16 + w / 2 * 8);
                kd_wgmma_begin();
                if constexpr (ARITHMETIC == CT_BF16_WGMMA)
                    kd_wgmma_left_bf16<!B::ALONG_K, false>(this->sums(i), a, b);
                if constexpr (ARITHMETIC == CT_F16_WGMMA)
                    kd_wgmma_left_f16<!B::ALONG_K, false>(this->sums(i), a, b);
            }
        }
        kd_wgmma_commit();
    }
};
/* And as the right operand: the sums are those of the transposed product. */
template <int ARITHMETIC, class A, class B, int BM, int BN, int WM>
struct ct_wgmma_transposed : ct_wgmma_strips<ARITHMETIC, B, A, BN, BM, WM> {
    typedef ct_wgmma_strips<ARITHMETIC, B, A, BN, BM, WM> product;
    enum { TRANSPOSED = 1 };
    INLINE void multiply(const unsigned char *left, const unsigned char *right) {
        product::multiply(right, left);
    }
};

/* By the operand that has strips, if there is one. */
template <int ARITHMETIC, class A, class B, int BM, int BN, int WM, bool LEFT = A::STRIPS,
          bool RIGHT = B::STRIPS>
struct ct_wgmma_of : ct_wgmma<ARITHMETIC, A, B, BM, BN, WM> {};
template <int ARITHMETIC, class A, class B, int BM, int BN, int WM>
struct ct_wgmma_of<ARITHMETIC, A, B, BM, BN, WM, true, false>
    : ct_wgmma_strips<ARITHMETIC, A, B, BM, BN, WM> {};
template <int ARITHMETIC, class A, class B, int BM, int BN, int WM>
struct ct_wgmma_of<ARITHMETIC, A, B, BM, BN, WM, false, true>
    : ct_wgmma_transposed<ARITHMETIC, A, B, BM, BN, WM> {};
template <class A, class B, int BM, int BN, int WM>
struct ct_product<CT_BF16_WGMMA, A, B, BM, BN, WM, 1>
    : ct_wgmma_of<CT_BF16_WGMMA, A, B, BM, BN, WM> {};
template <class A, class B, int BM, int BN, int WM>
struct ct_product<CT_F16_WGMMA, A, B, BM, BN, WM, 1>
    : ct_wgmma_of<CT_F16_WGMMA, A, B, BM, BN, WM> {};
template <class A, class B, int BM, int BN, int WM>
struct ct_product<CT_TF32_WGMMA, A, B, BM, BN, WM, 1>
    : ct_wgmma<CT_TF32_WGMMA, A, B, BM, BN, WM> {};

/* ---- TMA ---- */
/* TMA coordinates of a box: element x of line y of matrix z. */
struct ct_tma_coordinate {
    const kd_map *map;
    int x, y, z;
};

/* The TMA tile loader, whose boxes have the tiles' layout: along k a tile is one box, along the
 * rows a box is 128 bytes of them. The first thread issues all copies. */
template <class S, int ROWS, int THREADS>
struct ct_tma_copies : ct_lines<S::ALONG_K, sizeof(typename S::word), ROWS> {
    typedef ct_lines<S::ALONG_K, sizeof(typename S::word), ROWS> lines;
    typedef typename S::index index;
    enum {
        STEP = 16,
        COUNT = lines::BYTES_OF_TILE / STEP / THREADS,
        BLOCKS = S::ALONG_K ? 1 : lines::SPAN / CT_BLOCK,
        OF_BLOCK = CT_BLOCK / lines::WORD,
        TMA = 1
    };
    static_assert(COUNT * STEP * THREADS == lines::BYTES_OF_TILE &&
                      (S::ALONG_K || lines::PITCH == CT_BLOCK),
                  "whole boxes, and pieces of threads");

    /* The pieces that the thread rounds after they have arrived. */
    INLINE bool has_piece(int) const { return true; }
    INLINE int place_of(int i) const { return (i * THREADS + kd_thread()) * STEP; }
    /* The address of box i of a tile. */
    static INLINE kd_saddr box_of(kd_saddr tile, int i) {
        return tile + (unsigned)(i * lines::LINES * CT_BLOCK);
    }
    INLINE void put(unsigned char *) const {}
};

template <class S, int ROWS, int THREADS>
struct ct_feed<S, ROWS, THREADS, false, CT_TMA_TILE> : ct_tma_copies<S, ROWS, THREADS> {
    typedef ct_tma_copies<S, ROWS, THREADS> boxes;
    typedef typename S::index index;
    int first;

    INLINE void begin(const S &, index from) { first = (int)from; }
    INLINE void fetch(const S &s, kd_saddr tile, index k, index, kd_saddr barrier) {
        if (threadIdx.x != 0) return;
        CT_UNROLL for (int i = 0; i < boxes::BLOCKS; i++) {
            ct_tma_coordinate c = s.coordinate(first + i * boxes::OF_BLOCK, (int)k);
            kd_copy_tile(boxes::box_of(tile, i), c.map, c.x, c.y, c.z, barrier);
        }
    }
};

/* The TMA im2col loader. Along k, rows are positions, and a tile's K elements are channels of
 * one tap; otherwise K elements are positions, and the rows of a box such channels. Rows out of
 * range get another row's data, and their results are ignored; positions out of range are zeros. */
template <class S, int ROWS, int THREADS>
struct ct_feed<S, ROWS, THREADS, false, CT_TMA_IM2COL> : ct_tma_copies<S, ROWS, THREADS> {
    typedef ct_tma_copies<S, ROWS, THREADS> boxes;
    typedef typename S::index index;
    ct_window held[boxes::BLOCKS];

    INLINE void begin(const S &s, index from) {
        CT_UNROLL for (int i = 0; i < boxes::BLOCKS; i++) {
            index row = from + i * boxes::OF_BLOCK;
            if constexpr (S::ALONG_K)
                held[i] = s.position(row), kd_hold(held[i].at);
            else
                held[i] = s.tap(row < s.count() ? row : 0); /* its channel is a mask of the row */
            /* no division in the loop */
            CT_UNROLL for (int j = 0; j < S::WINDOWS; j++) kd_hold(held[i].x[j]);
        }
    }
    INLINE void fetch(const S &s, kd_saddr tile, index k, index, kd_saddr barrier) {
        if (threadIdx.x != 0) return;
        ct_window at;
        if constexpr (S::ALONG_K)
            at = s.tap(k);
        else
            at = s.position(k);
        CT_UNROLL for (int i = 0; i < boxes::BLOCKS; i++) {
            const ct_window &pixel = S::ALONG_K ? held[i] : at, &tap = S::ALONG_K ? at : held[i];
            const kd_map *map = s.map_of(tap.part);
            kd_copy_im2col<S::WINDOWS>(boxes::box_of(tile, i), map, tap.at, pixel.x, pixel.at,
                                       tap.x, barrier);
        }
    }
};

/* The first thread arms the barriers; all threads wait for tiles in the order of the stages. */
template <int STAGES, int BYTES> struct ct_arrivals<STAGES, BYTES, true> {
    kd_saddr barriers;
    int parity;

    INLINE kd_saddr barrier(int stage) const { return barriers + (unsigned)stage * 8; }
    INLINE void begin(unsigned char *at) {
        barriers = kd_saddr_of(at), parity = 0;
        if (threadIdx.x != 0) return;
        CT_UNROLL for (int i = 0; i < STAGES; i++) kd_barrier_begin(barrier(i), 1);
        kd_async_fence();
    }
    INLINE kd_saddr expect(int stage) {
        if (threadIdx.x == 0) kd_barrier_expect(barrier(stage), BYTES);
        return barrier(stage);
    }
    INLINE void wait(int stage) {
        kd_barrier_wait(barrier(stage), parity);
        if (stage == STAGES - 1) parity ^= 1;
    }
};
