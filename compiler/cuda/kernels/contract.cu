/* Tiled GEMM: sum over k of left(row, k) right(column, k), for any source of the operands. An
 * operand is a struct that the emitter writes for each kernel (emit_loaders.c):
 *     word                 its element in shared memory: bf16, f16 or float
 *     index, place         int or long; ct_place<index, parts>
 *     ALONG_K              is it contiguous in memory along k? Otherwise along its rows.
 *     BYTES                so many bytes are copied at once; 0: element by element, through load;
 *                          CT_TMA_TILE: TMA tiles, and everything below is replaced by
 *                          coordinate() and map_of()
 *     REUSED               is it an image that several taps read?
 *     coordinate(row, k)   the coordinates of the box that begins there, a ct_tma_coordinate
 *                          (contract_wgmma.cu)
 *                          CT_TMA_IM2COL: TMA im2col of images with WINDOWS axes, and in place of
 *                          coordinate()
 *     map_of(part)         the tensor map of a part
 *     count(), position(i) of its rows; where the window of position i begins
 *     tap(i)               channel, tap and part of number i; both are a ct_window
 *     row(i), col(k, end)  address contributions of row i and of K element k; beyond the last: out
 *                          of bounds
 *     inside(row, col)     is it in bounds? Otherwise the element is zero.
 *     at(row, col)         its address, or load(row, col): its value
 *                          CT_STRIP: strips of an image of few channels (contract_strips.cu)
 *
 * A CTA multiplies BM rows by BN columns in WM x WN warps. A tile of an operand in shared memory
 * has 64 bytes of depth: its lines are rows of 64 bytes, or (not ALONG_K) the rows of one K
 * element, in blocks of 128 bytes. The 16-byte pieces of a line are swizzled by the line's
 * number, so that the same piece of eight lines is in different banks. It is also wgmma's layout
 * (swizzling by 64 and by 128 bytes). The pipeline has STAGES tiles. */
enum { CT_BF16, CT_F16, CT_TF32, CT_F32, CT_BF16_WGMMA, CT_F16_WGMMA, CT_TF32_WGMMA };
/* CT_..._WGMMA: contract_wgmma.cu. */
enum { CT_LINE = 64, CT_BLOCK = 128, CT_HELD = 4 /* addresses that a thread keeps, at most */ };
enum { CT_TMA_TILE = 128, CT_TMA_IM2COL = 256, CT_STRIP = 512 };
#ifdef __CUDACC_RTC__
#define CT_UNROLL _Pragma("unroll")
#define CT_LOOP   _Pragma("unroll 1")
#else
#define CT_UNROLL
#define CT_LOOP
#endif

template <class I, int PARTS> struct ct_place {
    I at[PARTS];    /* elements, in each part */
    /* taps in bounds as bits, where `inside` uses them: a row has the taps in bounds along each
     * axis, a K element its own tap */
    unsigned taps;
    int x[3], part; /* along the image's axes; index of the part */
    bool in;
};
/* The bits of the taps, `taps` of them `spread` apart, that are in bounds of an axis of `limit`
 * from x on: one K element's are tested at once (as CUTLASS does). */
INLINE unsigned ct_taps(int x, int spread, int taps, int limit) {
    unsigned bits = 0;
    /* from the first tap in bounds to the first one out of bounds */
    if (spread == 1 || spread == -1) {
        int from = spread > 0 ? -x : x - limit + 1, to = from + limit;
        from = from < 0 ? 0 : from < taps ? from : taps, to = to < 0 ? 0 : to < taps ? to : taps;
        return (1u << to) - (1u << from);
    }
    CT_LOOP for (int t = 0; t < taps; t++, x += spread) bits |=
        (unsigned)((unsigned)x < (unsigned)limit) << t;
    return bits;
}

/* Where a window begins, along W, H and D, in image `at`; or the offset of a tap from there, at
 * channel `at` of that part. */
struct ct_window {
    int x[3], at, part;
};

/* ---- an operand's tiles ---- */
/* The layout of a tile of ROWS rows, ALONG k or along its rows, of elements of BYTES bytes. */
template <bool ALONG, int BYTES, int ROWS> struct ct_lines {
    enum {
        ALONG_K = ALONG,
        STRIPS = 0,
        WORD = BYTES,
        SPAN = ALONG ? (int)CT_LINE : ROWS * BYTES,
        /* bytes between lines of a block */
        PITCH = SPAN < (int)CT_BLOCK ? (int)SPAN : (int)CT_BLOCK,
        LINES = ALONG ? ROWS : CT_LINE / BYTES,
        BYTES_OF_TILE = ROWS * CT_LINE
    };
    /* Swizzle: the position in a line of its piece number `piece`. */
    static INLINE int swizzled(int line, int piece) {
        enum { PIECES = PITCH / 16 };
        if (!ALONG && BYTES == 4) return piece ^ ((line % 4 * 2) & (PIECES - 1));
        return PIECES >= 8   ? piece ^ (line & 7)
               : PIECES == 4 ? piece ^ (line / 2 & 3)
               : PIECES == 2 ? piece ^ (line / 4 & 1)
                             : piece;
    }
    static INLINE int byte_of(int line, int byte) {
        return byte / PITCH * (LINES * PITCH) + line * PITCH +
               swizzled(line, byte % PITCH / 16) * 16 + byte % 16;
    }
    static INLINE unsigned word_of(const unsigned char *tile, int row, int k) {
        return *(const unsigned *)(tile + (ALONG ? byte_of(row, k * 4) : byte_of(k, row * 4)));
    }
};

/* Fills tiles of an operand by a CTA's threads. TRANSPOSED: tiles are along k, but memory is along
 * the rows. BOXES: TMA tiles or im2col (contract_wgmma.cu has both). Or strips. */
template <class S, int ROWS, int THREADS, bool TRANSPOSED = false,
          int BOXES = S::BYTES >= (int)CT_TMA_TILE ? (int)S::BYTES : 0>
struct ct_feed : ct_lines<S::ALONG_K, sizeof(typename S::word), ROWS> {
    typedef ct_lines<S::ALONG_K, sizeof(typename S::word), ROWS> lines;
    typedef typename S::word word;
    typedef typename S::index index;
    typedef typename S::place place;
    enum {
        LINES = lines::LINES,
        STEP = S::BYTES ? S::BYTES : sizeof(word),
        ACROSS = lines::SPAN / STEP,
        DOWN = THREADS / ACROSS,
        COUNT = (LINES + DOWN - 1) / DOWN,
        HELD = !S::ALONG_K ? 1 : COUNT <= (int)CT_HELD ? (int)COUNT : 0,
        TMA = 0
    };
    place held[HELD ? HELD : 1];
    word words[S::BYTES ? 1 : COUNT];
    int down, across; /* the thread's first line, and the offset in it, in bytes */
    int first;        /* byte of its first piece */

    static INLINE place *table() {
        __shared__ place t[HELD ? 1 : ROWS];
        return t;
    }
    static INLINE bool has(int line) { return LINES % DOWN == 0 || line < LINES; }
    /* Does the thread have a piece number i, and where is it stored? Lines that are 8 apart have
     * the same swizzle. */
    INLINE bool has_piece(int i) const { return has(down + i * DOWN); }
    INLINE int place_of(int i) const {
        return DOWN % 8 == 0 ? first + i * DOWN * lines::PITCH
                             : lines::byte_of(down + i * DOWN, across);
    }

    /* The rows from `from` on; a barrier must follow. */
    INLINE void begin(const S &s, index from) {
        down = kd_thread() / ACROSS, across = kd_thread() % ACROSS * STEP;
        first = lines::byte_of(down, across);
        kd_hold(down), kd_hold(across), kd_hold(first);
        if constexpr (!S::ALONG_K) {
            held[0] = s.row(from + across / lines::WORD);
        } else if constexpr (HELD > 0) {
            CT_UNROLL for (int i = 0; i < HELD; i++) held[i] = s.row(from + down + i * DOWN);
        } else {
            CT_LOOP for (int i = kd_thread(); i < ROWS; i += THREADS) table()[i] = s.row(from + i);
        }
    }
    /* Starts copies of K elements [k, k + depth) into the tile, with zeros from `end` on; TMA
     * signals a barrier. */
    INLINE void fetch(const S &s, kd_saddr tile, index k, index end, kd_saddr) {
        place c;
        if constexpr (S::ALONG_K) c = s.col(k + across / lines::WORD, end);
        CT_UNROLL for (int i = 0; i < COUNT; i++) {
            int line = down + i * DOWN;
            if (!has(line)) break;
            if constexpr (!S::ALONG_K) c = s.col(k + line, end);
            place r = !S::ALONG_K ? held[0] : HELD ? held[HELD ? i : 0] : table()[HELD ? 0 : line];
            bool in = s.inside(r, c);
            if constexpr (S::BYTES == 0) {
                words[i] = in ? s.load(r, c) : (word)0;
            } else {
                kd_saddr to = tile + place_of(i);
                const void *from = s.at(r, c);
                if constexpr (S::BYTES == 16 && !S::REUSED) kd_copy16(to, from, in ? 16 : 0);
                if constexpr (S::BYTES == 16 && S::REUSED) kd_copy16_cached(to, from, in ? 16 : 0);
                if constexpr (S::BYTES == 8) kd_copy8(to, from, in ? 8 : 0);
                if constexpr (S::BYTES == 4) kd_copy4(to, from, in ? 4 : 0);
            }
        }
    }
    /* Stores elements that came through registers into the tile. */
    INLINE void put(unsigned char *tile) const {
        if constexpr (S::BYTES == 0) {
            CT_UNROLL for (int i = 0; i < COUNT; i++)
                if (has_piece(i)) kd_put((word *)(tile + place_of(i)), words[i]);
        }
    }
};

/* ---- the products of two tiles ---- */
/* A warp's reads of its rows of an operand, from `row` on, as blocks of 8 rows by 16 bytes of
 * depth: in the order of kd_mma's left operand, rows first; or of its right one, depth first. */
template <class F, bool LEFT, int ROWS, bool STRIPS = F::STRIPS> struct ct_reader {
    enum {
        ALONG_K = F::ALONG_K,
        /* element by element: no instruction transposes such blocks */
        PLAIN = !F::ALONG_K && F::WORD == 4,
        PAIRS = (ROWS + 15) / 16,
        STEP = ALONG_K ? 0 : F::PITCH * (32 / F::WORD), /* distance of 32 bytes of depth */
        OFFSETS = ALONG_K ? CT_LINE / 32 : PLAIN ? 1 : PAIRS
    };
    int at[OFFSETS]; /* by step of depth, or by pair of blocks of rows */

    INLINE void begin(int row) {
        int lane = kd_thread() % 32, i = lane / 8 % (ROWS == 8 ? 2 : 4), j = lane % 8;
        int half = ROWS == 8 ? 0
                   : LEFT    ? i & 1
                             : i >> 1,
            deep = ROWS == 8 ? i
                   : LEFT    ? i >> 1
                             : i & 1;
        if constexpr (ALONG_K) {
            CT_UNROLL for (int s = 0; s < OFFSETS; s++) at[s] =
                F::byte_of(row + half * 8 + j, s * 32 + deep * 16);
        } else if constexpr (!PLAIN) {
            CT_UNROLL for (int p = 0; p < PAIRS; p++)
                at[p] = F::byte_of(deep * 8 + j, (row + p * 16 + half * 8) * 2);
        } else {
            at[0] = row;
        }
        CT_UNROLL for (int i = 0; i < OFFSETS; i++) kd_hold(at[i]);
    }
    /* Pair number p of blocks of rows, step number s of depth; r[2] and r[3] are unused for 8
     * rows. */
    INLINE void read(unsigned (&r)[4], const unsigned char *tile, int p, int s) const {
        if constexpr (PLAIN) {
            int lane = kd_thread() % 32;
            CT_UNROLL for (int b = 0; b < (ROWS == 8 ? 2 : 4); b++) {
                int half = ROWS == 8 ? 0
                           : LEFT    ? b & 1
                                     : b >> 1,
                    deep = ROWS == 8 ? b
                           : LEFT    ? b >> 1
                                     : b & 1;
                r[b] = F::word_of(tile, at[0] + p * 16 + half * 8 + lane / 4,
                                  s * 8 + deep * 4 + lane % 4);
            }
        } else {
            kd_saddr from = kd_saddr_of(tile) + (ALONG_K ? at[s % OFFSETS] + p * 16 * CT_LINE
                                                         : at[p % OFFSETS] + s * STEP);
            if constexpr (ROWS == 8) {
                unsigned two[2];
                if constexpr (ALONG_K)
                    kd_ldmatrix2(two, from);
                else
                    kd_ldmatrix2_trans(two, from);
                r[0] = two[0], r[1] = two[1];
            } else if constexpr (ALONG_K) {
                kd_ldmatrix4(r, from);
            } else {
                kd_ldmatrix4_trans(r, from);
            }
        }
    }
};

template <int ARITHMETIC> INLINE void ct_round(unsigned (&w)[4]) {
    if constexpr (ARITHMETIC == CT_TF32) {
        CT_UNROLL for (int i = 0; i < 4; i++) w[i] =
            __float_as_uint(kd_round_tf32(__uint_as_float(w[i])));
    }
}

template <int ARITHMETIC, class A, class B, int MT, int NT>
INLINE void ct_multiply(float (&sum)[MT][NT][4], const A &a, const B &b, const unsigned char *left,
                        const unsigned char *right) {
    CT_UNROLL for (int s = 0; s < CT_LINE / 32; s++) {
        unsigned w[(NT + 1) / 2][4];
        CT_UNROLL for (int j = 0; j < NT; j += 2) {
            b.read(w[j / 2], right, j / 2, s);
            ct_round<ARITHMETIC>(w[j / 2]);
        }
        CT_UNROLL for (int i = 0; i < MT; i++) {
            unsigned v[4];
            a.read(v, left, i, s);
            ct_round<ARITHMETIC>(v);
            CT_UNROLL for (int j = 0; j < NT; j++) {
                const unsigned *two = w[j / 2] + j % 2 * 2;
                if constexpr (ARITHMETIC == CT_BF16) kd_mma_bf16(sum[i][j], v, two);
                if constexpr (ARITHMETIC == CT_F16) kd_mma_f16(sum[i][j], v, two);
                if constexpr (ARITHMETIC == CT_TF32) kd_mma_tf32(sum[i][j], v, two);
            }
        }
    }
}

/* The same in f32 without tensor cores, with the sums in the layout of kd_mma. A tile's products
 * are summed first, since a long chain of floats loses digits. */
template <class A, class B, int MT, int NT>
INLINE void ct_multiply_plain(float (&sum)[MT][NT][4], const unsigned char *left,
                              const unsigned char *right, int row, int column) {
    int lane = kd_thread() % 32;
    float own[MT][NT][4] = {};
    CT_LOOP for (int k = 0; k < CT_LINE / 4; k++) {
        float b[NT][2];
        CT_UNROLL for (int j = 0; j < NT; j++)
            CT_UNROLL for (int h = 0; h < 2; h++)
                b[j][h] = __uint_as_float(B::word_of(right, column + j * 8 + lane % 4 * 2 + h, k));
        CT_UNROLL for (int i = 0; i < MT; i++) CT_UNROLL for (int h = 0; h < 2; h++) {
            float a = __uint_as_float(A::word_of(left, row + i * 16 + h * 8 + lane / 4, k));
            CT_UNROLL for (int j = 0; j < NT; j++) {
                own[i][j][2 * h] += a * b[j][0], own[i][j][2 * h + 1] += a * b[j][1];
            }
        }
    }
    CT_UNROLL for (int i = 0; i < MT; i++)
        CT_UNROLL for (int j = 0; j < NT; j++)
            CT_UNROLL for (int h = 0; h < 4; h++) sum[i][j][h] += own[i][j][h];
}

/* A CTA's sums of products of tiles; here by mma.sync, or in f32. A thread's sums are MT blocks
 * of 16 rows, which are M_STEP rows from each other. READ_LAG: number of tiles after which a
 * multiplied tile's memory may be overwritten. TRANSPOSED: rows and columns are exchanged. */
template <int ARITHMETIC, class A, class B, int BM, int BN, int WM, int WN> struct ct_product {
    enum { MT = BM / WM / 16, NT = BN / WN / 8, M_STEP = 16, READ_LAG = 1, TRANSPOSED = 0 };
    float sum[MT][NT][4];
    int row, column; /* the warp's first */
    /* equal for all operands with this tile layout */
    ct_reader<typename A::lines, true, BM / WM> rows;
    ct_reader<typename B::lines, false, BN / WN> columns;

    INLINE void begin() {
        int warp = kd_thread() / 32;
        row = warp / WN * (BM / WM), column = warp % WN * (BN / WN);
        CT_UNROLL for (int i = 0; i < MT; i++)
            CT_UNROLL for (int j = 0; j < NT; j++)
                CT_UNROLL for (int h = 0; h < 4; h++) sum[i][j][h] = 0;
        rows.begin(row), columns.begin(column);
    }
    /* Makes the thread's copies of a tile visible; a barrier follows. */
    INLINE void arrive(const A &, const B &, unsigned char *) const {}
    INLINE void multiply(const unsigned char *left, const unsigned char *right) {
        if constexpr (ARITHMETIC == CT_F32)
            ct_multiply_plain<typename A::lines, typename B::lines>(sum, left, right, row, column);
        else
            ct_multiply<ARITHMETIC>(sum, rows, columns, left, right);
    }
    INLINE void end() const {}
};

/* Barriers (mbarrier) of TMA tiles, each for so many bytes: one for each stage, in memory with
 * no other use. This one has none; contract_wgmma.cu has the others. */
template <int STAGES, int BYTES, bool ANY = BYTES != 0> struct ct_arrivals {
    INLINE void begin(unsigned char *) {}
    INLINE kd_saddr expect(int) { return 0; }
    INLINE void wait(int) {}
};

/* The sums over K elements [k, end) of rows from m on and columns from n on: lines of BN + 8
 * floats in shared memory, visible to all threads. `shared`: they replace the tiles; after both
 * come 8 bytes a stage for TMA's barriers (dl_tiling_shared). */
template <int ARITHMETIC, int BM, int BN, int WM, int WN, int STAGES, class SA, class SB>
INLINE const float *ct_tile(const SA &a, const SB &b, typename SA::index m, typename SA::index n,
                            typename SA::index k, typename SA::index end, unsigned char *shared) {
    enum { BY_K = ARITHMETIC == CT_TF32_WGMMA };
    typedef ct_feed<SA, BM, 32 * WM * WN, BY_K && !SA::ALONG_K> A;
    typedef ct_feed<SB, BN, 32 * WM * WN, BY_K && !SB::ALONG_K> B;
    typedef ct_product<ARITHMETIC, A, B, BM, BN, WM, WN> P;
    enum {
        DEPTH = CT_LINE / sizeof(typename SA::word),
        STAGE = (int)A::BYTES_OF_TILE + (int)B::BYTES_OF_TILE,
        TILES = STAGES * STAGE,
        SUMS = BM * (BN + 8) * 4,
        AHEAD = STAGES - (int)P::READ_LAG,
        BOXES = (A::TMA ? (int)A::BYTES_OF_TILE : 0) + (B::TMA ? (int)B::BYTES_OF_TILE : 0),
        COPIES = !A::TMA || !B::TMA
    };
    ct_arrivals<STAGES, BOXES> arrivals;
    A left;
    B right;
    P product;
    left.begin(a, m), right.begin(b, n);
    arrivals.begin(shared + (TILES > SUMS ? TILES : SUMS));
    __syncthreads();
    product.begin();
    int count = end > k ? (int)((end - k + DEPTH - 1) / DEPTH) : 0, read = 0, write = 0;
    int t = -AHEAD; /* known to be less than count: otherwise ptxas serialises wgmma */
    CT_LOOP do {
        unsigned char *from = shared + read * STAGE;
        if (t >= 0) { /* tile t is there, and tile t - READ_LAG is no longer read */
            if constexpr (COPIES) kd_copy_wait<AHEAD - 1>();
            arrivals.wait(read);
            product.arrive(left, right, from);
            __syncthreads();
        }
        bool more = t + AHEAD < count;
        unsigned char *to = shared + write * STAGE;
        if (more) {
            typename SA::index at = k + (t + AHEAD) * DEPTH;
            kd_saddr barrier = arrivals.expect(write);
            left.fetch(a, kd_saddr_of(to), at, end, barrier);
            right.fetch(b, kd_saddr_of(to) + (unsigned)A::BYTES_OF_TILE, at, end, barrier);
        }
        if constexpr (COPIES) kd_copy_commit();
        if (t >= 0) {
            product.multiply(from, from + A::BYTES_OF_TILE);
            read = read + 1 == STAGES ? 0 : read + 1;
        }
        if (more) {
            left.put(to), right.put(to + A::BYTES_OF_TILE);
            write = write + 1 == STAGES ? 0 : write + 1;
        }
    } while (++t < count);
    product.end();
    if constexpr (COPIES) kd_copy_wait<0>();
    __syncthreads();
    int lane = kd_thread() % 32;
    float *sums = (float *)shared;
    if constexpr (P::TRANSPOSED) {
        float *to = sums + lane % 4 * 2 * (BN + 8) + product.row + lane / 4;
        CT_UNROLL for (int i = 0; i < 2 * P::MT; i++)
            CT_UNROLL for (int j = 0; j < P::NT; j++)
                CT_UNROLL for (int h = 0; h < 2; h++)
                    to[(j * 8 + h) * (BN + 8) + i / 2 * P::M_STEP + i % 2 * 8] =
                        product.sum[i / 2][j][i % 2 * 2 + h];
    } else {
        float *to = sums + (product.row + lane / 4) * (BN + 8) + product.column + lane % 4 * 2;
        CT_UNROLL for (int i = 0; i < 2 * P::MT; i++) {
            float2 line[P::NT];
            CT_UNROLL for (int j = 0; j < P::NT; j++) line[j] =
                make_float2(product.sum[i / 2][j][i % 2 * 2], product.sum[i / 2][j][i % 2 * 2 + 1]);
            kd_put_pairs(kd_saddr_of(to + (i / 2 * P::M_STEP + i % 2 * 8) * (BN + 8)), line);
        }
    }
    __syncthreads();
    return sums;
}

/* Split-K: stores the sums as BM x BN floats, for a phase that adds the splits. */
template <int BM, int BN, int THREADS> INLINE void ct_leave(const float *sums, float *to) {
    CT_LOOP for (int i = kd_thread() * 4; i < BM * BN; i += THREADS * 4)
        kd_store16(to + i, kd_load16(sums + i / BN * (BN + 8) + i % BN));
}

/* N contiguous sums, aligned to N; and the totals over `splits` CTAs, `step` apart, in their
 * order. */
template <int N> INLINE void ct_take(float (&own)[N], const float *from) {
    if constexpr (N % 4 == 0) {
        CT_UNROLL for (int i = 0; i < N; i += 4) {
            const float4 f = kd_load_floats(from + i);
            own[i] = f.x, own[i + 1] = f.y, own[i + 2] = f.z, own[i + 3] = f.w;
        }
    } else {
        CT_UNROLL for (int i = 0; i < N; i++) own[i] = from[i];
    }
}
/* The same for a thread's own line in shared memory. With 8 sums, neighbours' lines are 32 bytes
 * apart, so every other four threads take the second half first, which avoids bank conflicts. It
 * is unrolled: every epilogue has it, and a loop would add a third to the compile time of a
 * simple epilogue. */
template <int N> INLINE void ct_take_near(float (&own)[N], const float *from) {
    if constexpr (N == 8) {
        bool swizzled = kd_thread() & 4;
        const float4 f = kd_load_floats(from + (swizzled ? 4 : 0)),
                     g = kd_load_floats(from + (swizzled ? 0 : 4));
        own[0] = swizzled ? g.x : f.x, own[1] = swizzled ? g.y : f.y, own[2] = swizzled ? g.z : f.z;
        own[3] = swizzled ? g.w : f.w, own[4] = swizzled ? f.x : g.x, own[5] = swizzled ? f.y : g.y;
        own[6] = swizzled ? f.z : g.z, own[7] = swizzled ? f.w : g.w;
    } else {
        ct_take(own, from);
    }
}
/* Reduces a column's values over GROUPS groups of threads, STEP apart, in fixed order: small
 * trees, each with all of its loads in flight, one after the other. */
template <class BY, int N, int STEP, class T> INLINE T ct_tree(const T *from) {
    if constexpr (N == 1)
        return *from;
    else
        return BY::of(ct_tree<BY, N / 2, STEP>(from),
                      ct_tree<BY, N - N / 2, STEP>(from + N / 2 * STEP));
}
template <class BY, class R, int GROUPS, int STEP, class T> INLINE R ct_join(const T *from) {
    enum { TREE = GROUPS < 16 ? GROUPS : 16, TREES = GROUPS / TREE, REST = GROUPS % TREE };
    R all = (R)ct_tree<BY, TREE, STEP>(from);
    CT_LOOP for (int g = 1; g < TREES; g++) all =
        BY::of(all, (R)ct_tree<BY, TREE, STEP>(from + g * (TREE * STEP)));
    if constexpr (REST > 0)
        all = BY::of(all, (R)ct_tree<BY, REST, STEP>(from + TREES * (TREE * STEP)));
    return all;
}
template <int N> INLINE void ct_total(float (&own)[N], const float *from, int splits, int step) {
    enum { LOADS = 8 }; /* in flight */
    ct_take(own, from);
    CT_LOOP for (int s = 1; s < splits; s += LOADS) {
        float more[LOADS][N];
        CT_UNROLL for (int l = 0; l < LOADS; l++)
            if (s + l < splits) ct_take(more[l], from + (long)(s + l) * step);
        CT_UNROLL for (int l = 0; l < LOADS; l++)
            CT_UNROLL for (int i = 0; i < N; i++)
                if (s + l < splits) own[i] += more[l][i];
    }
}
INLINE int ct_some(int n) { return n > 0 ? n : 1; }
