/* Halo kernels: contractions of few columns whose rows are an image's positions. A CTA takes a
 * tile of positions and loads all pixels that their windows read, CT_DEEP channels at a time,
 * once. Taps are shifts in it: ldmatrix takes an address for each row, so a shift is an offset
 * to the rows' addresses. Where x is computed, positions are those of one stride phase (row i of
 * phase q is place q + i * parities of the image), and one load serves all phases that have a
 * tap at that shift.
 *
 * The image is a struct that the emitter writes (emit_halo.c):
 *     word, index          as those of contract.cu
 *     axis0, axis1, axis2  ct_axis
 *     CHANNELS, PARTS      of all parts together
 *     at(part, image, x0, x1, x2)  offset of that pixel in a part, in elements; -1: out of bounds
 *     part(channel), from(channel)  the part that has it; its offset in a pixel of the part
 * CHANNELS and where parts begin are multiples of 8. An earlier phase has packed the weight in
 * the workspace: by chunks of channels, taps, columns in eights, in the order of the lanes
 * (ct_halo_weight). */
enum {
    CT_DEEP = 16,      /* channels of a chunk: the depth of one kd_mma */
    /* bytes between pixels: the same piece of eight neighbours is in different banks */
    CT_PITCH = 48,
    CT_FRAGMENT = 256, /* bytes of a tap's weight for 8 columns of a chunk */
    CT_HALO_WARPS = 4
};

/* Along one axis: rows of a tile; distance between them in pixels; position i of stride phase q
 * reads pixel i * STRIDE + (q + PAD - tap * DILATION) / STRIDE_PHASES at the taps for which that
 * is an integer. */
constexpr int ct_stride_phase_of(int tap, int stride_phases, int pad, int dilation) {
    return ((tap * dilation - pad) % stride_phases + stride_phases) % stride_phases;
}
constexpr int ct_shift_of(int tap, int stride_phases, int pad, int dilation) {
    return (ct_stride_phase_of(tap, stride_phases, pad, dilation) + pad - tap * dilation) /
           stride_phases;
}
template <int ROWS, int BETWEEN, int OF, int KERNEL, int PAD, int DILATION> struct ct_axis {
    enum {
        TILE = ROWS,
        STRIDE = BETWEEN,
        STRIDE_PHASES = OF,
        TAPS = KERNEL,
        FIRST = ct_shift_of(0, OF, PAD, DILATION),
        LAST = ct_shift_of(KERNEL - 1, OF, PAD, DILATION),
        LOW = FIRST < LAST ? FIRST : LAST, /* the lowest shift */
        SHIFTS = (FIRST < LAST ? LAST - FIRST : FIRST - LAST) + 1,
        HALO = (TILE - 1) * STRIDE + SHIFTS
    };
    /* The tap of a stride phase at that shift, or -1. */
    static INLINE int tap(int shift, int stride_phase) {
        int far = stride_phase + PAD - (shift + LOW) * STRIDE_PHASES;
        return far % DILATION == 0 && far / DILATION >= 0 && far / DILATION < TAPS ? far / DILATION
                                                                                   : -1;
    }
    /* Does any phase have one? */
    static INLINE bool read(int shift) {
        bool any = false;
        CT_UNROLL for (int q = 0; q < STRIDE_PHASES; q++) any |= tap(shift, q) >= 0;
        return any;
    }
};

/* Packs the weight: the thread's four words, rows 2 q and 2 q + 1 of a chunk, 2 q + 8 and 2 q +
 * 9, of column g, in kd_mma's layout; zeros beyond the last channel or column. */
template <int NT, int TAPS, class W>
INLINE void ct_halo_weight(const W &w, int columns, int channels, typename W::word *to) {
    int i = kd_block() * 256 + kd_thread(), lane = i % 32, tap = i / 32 / NT % TAPS,
        chunk = i / 32 / NT / TAPS;
    int column = i / 32 % NT * 8 + lane / 4, channel = chunk * CT_DEEP + lane % 4 * 2;
    if (chunk * CT_DEEP >= channels) return;
    CT_UNROLL for (int k = 0; k < 4; k++) {
        int c = channel + k / 2 * 8 + k % 2;
        to[(long)i * 4 + k] =
            column < columns && c < channels ? w.load(column, c, tap) : (typename W::word)0;
    }
}

/* MT times 16 rows a warp, NT times 8 columns. */
template <int ARITHMETIC, int MT, int NT, class S> struct ct_halo {
    typedef typename S::index index;
    typedef typename S::axis0 A;
    typedef typename S::axis1 B;
    typedef typename S::axis2 C;
    enum {
        THREADS = 32 * CT_HALO_WARPS,
        TAPS = A::TAPS * B::TAPS * C::TAPS,
        STRIDE_PHASES = A::STRIDE_PHASES * B::STRIDE_PHASES * C::STRIDE_PHASES,
        PIXELS = A::HALO * B::HALO * C::HALO,
        CHUNKS = (S::CHANNELS + CT_DEEP - 1) / CT_DEEP,
        IMAGE = PIXELS * CT_PITCH,
        WEIGHT = TAPS * NT * CT_FRAGMENT,
        STAGE = IMAGE + WEIGHT,
        OUT_B = B::TILE * B::STRIDE_PHASES, /* the tile in the result */
        OUT_C = C::TILE * C::STRIDE_PHASES
    };
    static_assert(A::TILE * B::TILE * C::TILE == MT * 16 * CT_HALO_WARPS, "the block's rows");
    float sum[A::STRIDE_PHASES][B::STRIDE_PHASES][C::STRIDE_PHASES][MT][NT][4];

    /* The offsets of each part's pixels. */
    static INLINE void place(const S &s, int image, int a, int b, int c, index *table) {
        CT_LOOP for (int i = kd_thread(); i < S::PARTS * PIXELS; i += THREADS) {
            int pixel = i % PIXELS;
            table[i] = s.at(i / PIXELS, image, a * A::STRIDE + A::LOW + pixel / (B::HALO * C::HALO),
                            b * B::STRIDE + B::LOW + pixel / C::HALO % B::HALO,
                            c * C::STRIDE + C::LOW + pixel % C::HALO);
        }
    }
    static INLINE void fetch(const S &s, const unsigned char *weight, int chunk, const index *table,
                             kd_saddr to) {
        enum { LINES = THREADS / 2, TIMES = (PIXELS + LINES - 1) / LINES, PIECES = WEIGHT / 16 };
        int piece = kd_thread() % 2, first = kd_thread() / 2, channel = chunk * CT_DEEP + piece * 8;
        bool in = S::CHANNELS % CT_DEEP == 0 || channel < S::CHANNELS;
        const typename S::word *from = s.from(in ? channel : 0);
        /* computed before the first copy, so that copies do not wait for each other's addresses */
        index at[TIMES];
        table += s.part(in ? channel : 0) * PIXELS + first;
        CT_UNROLL for (int i = 0; i < TIMES; i++) at[i] =
            in && (i * LINES + LINES <= PIXELS || first + i * LINES < PIXELS) ? table[i * LINES]
                                                                              : -1;
        kd_saddr image = to + first * CT_PITCH + piece * 16;
        CT_UNROLL for (int i = 0; i < TIMES;
                       i++) if (i * LINES + LINES <= PIXELS || first + i * LINES < PIXELS)
            kd_copy16(image + i * LINES * CT_PITCH, from + (at[i] < 0 ? 0 : at[i]),
                      at[i] < 0 ? 0 : 16);
        to += (unsigned)IMAGE + kd_thread() * 16, weight += (long)chunk * WEIGHT + kd_thread() * 16;
        CT_UNROLL for (int i = 0; i < PIECES;
                       i += THREADS) if (i + THREADS <= PIECES || i + kd_thread() < PIECES)
            kd_copy16(to + i * 16, weight + i * 16, 16);
    }
    /* The first pixel that a row of the tile reads, and the row of the result, of the first
     * stride phase. */
    static INLINE int pixel_of(int row) {
        return (row / (B::TILE * C::TILE) * A::STRIDE * B::HALO +
                row / C::TILE % B::TILE * B::STRIDE) *
                   C::HALO +
               row % C::TILE * C::STRIDE;
    }
    static INLINE int made_of(int row) {
        return (row / (B::TILE * C::TILE) * A::STRIDE_PHASES * OUT_B +
                row / C::TILE % B::TILE * B::STRIDE_PHASES) *
                   OUT_C +
               row % C::TILE * C::STRIDE_PHASES;
    }
    INLINE void begin() {
        CT_UNROLL for (int a = 0; a < A::STRIDE_PHASES; a++)
            CT_UNROLL for (int b = 0; b < B::STRIDE_PHASES; b++)
                CT_UNROLL for (int c = 0; c < C::STRIDE_PHASES; c++)
                    CT_UNROLL for (int i = 0; i < MT; i++) CT_UNROLL for (int j = 0; j < NT; j++)
                        CT_UNROLL for (int h = 0; h < 4; h++) sum[a][b][c][i][j][h] = 0;
    }
    static INLINE void multiply_tap(float (&sum)[MT][NT][4], const unsigned (&v)[MT][4],
                                    const unsigned char *weight) {
        CT_UNROLL for (int j = 0; j < NT; j++) {
            kd_few<8> w = kd_load_few<8>(weight + j * CT_FRAGMENT);
            unsigned two[2];
            memcpy(two, &w, 8);
            CT_UNROLL for (int i = 0; i < MT; i++) {
                if constexpr (ARITHMETIC == CT_BF16) kd_mma_bf16(sum[i][j], v[i], two);
                if constexpr (ARITHMETIC == CT_F16) kd_mma_f16(sum[i][j], v[i], two);
            }
        }
    }
    INLINE void multiply(const int (&row)[MT], const unsigned char *stage) {
        kd_saddr image = kd_saddr_of(stage);
        const unsigned char *weight = stage + IMAGE + kd_thread() % 32 * 8;
        CT_UNROLL for (int sa = 0; sa < A::SHIFTS; sa++)
            CT_UNROLL for (int sb = 0; sb < B::SHIFTS; sb++)
                CT_UNROLL for (int sc = 0; sc < C::SHIFTS; sc++) {
            unsigned v[MT][4];
            if (!A::read(sa) || !B::read(sb) || !C::read(sc)) continue;
            CT_UNROLL for (int i = 0; i < MT; i++) kd_ldmatrix4(
                v[i], image + row[i] + ((sa * B::HALO + sb) * C::HALO + sc) * CT_PITCH);
            CT_UNROLL for (int a = 0; a < A::STRIDE_PHASES; a++) {
                const int ta = A::tap(sa, a);
                if (ta < 0) continue;
                CT_UNROLL for (int b = 0; b < B::STRIDE_PHASES; b++) {
                    const int tb = B::tap(sb, b);
                    if (tb < 0) continue;
                    CT_UNROLL for (int c = 0; c < C::STRIDE_PHASES; c++) {
                        const int tc = C::tap(sc, c);
                        if (tc < 0) continue;
                        multiply_tap(sum[a][b][c], v,
                                     weight +
                                         ((ta * B::TAPS + tb) * C::TAPS + tc) * NT * CT_FRAGMENT);
                    }
                }
            }
        }
    }
    /* Stores lines of NT * 8 floats, in the result's order of the tile. */
    INLINE void put(float *sums) const {
        int lane = kd_thread() % 32, row = kd_thread() / 32 * (MT * 16) + lane / 4;
        CT_UNROLL for (int i = 0; i < MT; i++) CT_UNROLL for (int h = 0; h < 2; h++) {
            float *to = sums + made_of(row + i * 16 + h * 8) * (NT * 8) + lane % 4 * 2;
            CT_UNROLL for (int a = 0; a < A::STRIDE_PHASES; a++)
                CT_UNROLL for (int b = 0; b < B::STRIDE_PHASES; b++) {
                float2 line[C::STRIDE_PHASES * NT];
                CT_UNROLL for (int c = 0; c < C::STRIDE_PHASES; c++)
                    CT_UNROLL for (int j = 0; j < NT; j++) line[c * NT + j] =
                        make_float2(sum[a][b][c][i][j][h * 2], sum[a][b][c][i][j][h * 2 + 1]);
                kd_put_pairs(kd_saddr_of(to + (a * OUT_B + b) * OUT_C * (NT * 8)), line);
            }
        }
    }
};

/* The sums of the tile whose first row is (a, b, c) of that image: lines of NT * 8 floats in
 * shared memory, one for each place of the tile in the result, visible to all threads. `shared`:
 * they replace two chunks; after both comes an index for each pixel and part (dl_halo.shared). */
template <int ARITHMETIC, int MT, int NT, class S>
INLINE const float *ct_tile_halo(const S &s, const char *weight, int image, int a, int b, int c,
                                 unsigned char *shared) {
    typedef ct_halo<ARITHMETIC, MT, NT, S> H;
    enum { SUMS = MT * 16 * CT_HALO_WARPS * H::STRIDE_PHASES * NT * 32, CHUNKS = 2 * H::STAGE };
    typename S::index *table = (typename S::index *)(shared + (CHUNKS > SUMS ? CHUNKS : SUMS));
    const unsigned char *from = (const unsigned char *)weight;
    H product;
    int row[MT], lane = kd_thread() % 32;
    CT_UNROLL for (int i = 0; i < MT; i++) {
        row[i] =
            H::pixel_of((kd_thread() / 32 * MT + i) * 16 + lane % 16) * CT_PITCH + lane / 16 * 16;
        kd_hold(row[i]);
    }
    H::place(s, image, a, b, c, table);
    product.begin();
    __syncthreads();
    H::fetch(s, from, 0, table, kd_saddr_of(shared));
    kd_copy_commit();
    CT_LOOP for (int chunk = 0; chunk < H::CHUNKS; chunk++) {
        kd_copy_wait<0>();
        __syncthreads(); /* the chunk is there, and the one before is no longer read */
        if (chunk + 1 < H::CHUNKS)
            H::fetch(s, from, chunk + 1, table,
                     kd_saddr_of(shared) + (chunk + 1) % 2 * (unsigned)H::STAGE);
        kd_copy_commit();
        product.multiply(row, shared + chunk % 2 * H::STAGE);
    }
    __syncthreads();
    product.put((float *)shared);
    __syncthreads();
    return (const float *)shared;
}
