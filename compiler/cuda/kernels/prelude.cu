/* The prelude of every CUDA kernel, after device.cu or emulated.cc: the scalar functions of
 * ir/ops.def and the conversions, with the names and meaning of the CPU's scalar functions
 * (compiler/cpu/kernels/prelude.c, elements.c, random.c); vectors of 16 bytes; reductions over a
 * warp and over a CTA. */
#define INLINE KD_INLINE

/* ---- indices of the thread and the CTA, as numbers that the compiler knows to be non-negative,
 * so that division becomes a shift and a mask ---- */
INLINE int kd_thread() { return (int)(threadIdx.x & 1023u); } /* at most 1,024 */
INLINE int kd_block() { return (int)(blockIdx.x & 0x7fffffffu); }

/* ---- the element that an index denotes on an axis of n (ir/affine.h); int, long or both ---- */
#define PLACE(name) template <class X, class N> INLINE auto name(X x, N n)->decltype(x + n)
PLACE(floor_div) { return x / n - (x % n < 0); }
PLACE(edge_place) { return x < 0 ? 0 : x < n ? x : n - 1; }
PLACE(wrap_place) { return x - floor_div(x, n) * n; }
PLACE(reflect_place) {
    if (n == 1) return 0;
    decltype(x + n) w = wrap_place(x, 2 * (n - 1));
    return w < n ? w : 2 * (n - 1) - w;
}
#undef PLACE

/* ---- divisors that are arguments (compiler/cuda/merge.c): of numbers below 2^31 ---- */
struct kd_shift { /* a power of two: its logarithm, and the bits below it */
    unsigned n, mask;
    INLINE kd_shift(long v) : n((unsigned)v), mask((unsigned)((unsigned long)v >> 32)) {}
};
INLINE unsigned operator/(unsigned x, kd_shift d) { return x >> d.n; }
INLINE unsigned operator%(unsigned x, kd_shift d) { return x & d.mask; }
struct kd_divisor {
    unsigned d, times, n; /* x / d is x * times >> n */
    INLINE kd_divisor(long v, long shift)
        : d((unsigned)v), times((unsigned)((unsigned long)v >> 32)), n((unsigned)shift) {}
};
INLINE unsigned operator/(unsigned x, kd_divisor d) {
    return (unsigned)((unsigned long)x * d.times >> d.n);
}
INLINE unsigned operator%(unsigned x, kd_divisor d) { return x - x / d * d.d; }
#define DIVISIONS(D)                                                                               \
    INLINE int operator/(int x, D d) {                                                             \
        return x < 0 ? -(int)(-(unsigned)x / d) : (int)((unsigned)x / d);                          \
    }                                                                                              \
    INLINE int operator%(int x, D d) {                                                             \
        return x < 0 ? -(int)(-(unsigned)x % d) : (int)((unsigned)x % d);                          \
    }                                                                                              \
    INLINE unsigned &operator/=(unsigned &x, D d) { return x = x / d; }
DIVISIONS(kd_shift)
DIVISIONS(kd_divisor)
#undef DIVISIONS

/* ---- scalar functions ---- */
#define LIBM_F(name) name##f
#define LIBM_D(name) name
SCALAR_FUNCTIONS(float, s_, LIBM_F)
SCALAR_FUNCTIONS(double, d_, LIBM_D)
WHOLE_FUNCTIONS(int, i_)
WHOLE_FUNCTIONS(long, l_)
COMPARISONS(int, b_)
/* Sums with rounded operands: a product is not contracted into an FMA (dl_kinstr.no_contract). */
INLINE float s_add_no_contract(float a, float b) { return __fadd_rn(a, b); }
INLINE float s_sub_no_contract(float a, float b) { return __fsub_rn(a, b); }
INLINE double d_add_no_contract(double a, double b) { return __dadd_rn(a, b); }
INLINE double d_sub_no_contract(double a, double b) { return __dsub_rn(a, b); }
#undef COMPARISONS
#undef WHOLE_FUNCTIONS
#undef SCALAR_FUNCTIONS
#undef LIBM_F
#undef LIBM_D

/* ---- 16 bits: in memory f16 and bf16, in registers floats ---- */
INLINE float s_widen_f16(f16 h) { return kd_widen_f16(h); }
INLINE f16 s_narrow_f16(float v) { return kd_narrow_f16(v); }
INLINE float s_round_f16(float v) { return kd_widen_f16(kd_narrow_f16(v)); }
INLINE float s_widen_bf16(bf16 h) { return kd_widen_bf16(h); }
INLINE bf16 s_narrow_bf16(float v) { return kd_narrow_bf16(v); }
INLINE float s_round_bf16(float v) { return kd_round_bf16(v); }
/* Rounds a double to float by round-to-odd: an inexact result has its last bit set. A second
 * rounding then gives the same result as rounding the double directly (Boldo and Melquiond, IEEE
 * Transactions on Computers 57(4), 2008). */
INLINE float odd_float(double v) {
    float f = (float)v;
    if (f != f || (double)f == v) return f;
    return __int_as_float((__float_as_int(f) - (fabs((double)f) > fabs(v))) | 1);
}

/* ---- random numbers: ir/base/philox.h; element `at` of the numbers that op `number` draws ---- */
INLINE float s_random(unsigned long at, long seed, long step, int number) {
    unsigned c[4] = {(unsigned)(at / 4), (unsigned)(at / 4 >> 32), (unsigned)step,
                     6u | (unsigned)number << 8};
    unsigned k0 = (unsigned)seed, k1 = (unsigned)((unsigned long)seed >> 32);
    for (int round = 0; round < 10; round++) {
        unsigned long p0 = 0xD2511F53ul * c[0], p1 = 0xCD9E8D57ul * c[2];
        unsigned c1 = c[1], c3 = c[3];
        c[0] = (unsigned)(p1 >> 32) ^ c1 ^ k0, c[1] = (unsigned)p1;
        c[2] = (unsigned)(p0 >> 32) ^ c3 ^ k1, c[3] = (unsigned)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    /* avoids indexing registers */
    unsigned half = at & 1 ? c[1] : c[0], other = at & 1 ? c[3] : c[2];
    return (float)((at & 2 ? other : half) >> 8) * 0x1p-24f;
}

/* ---- vectors of 16 bytes: VECTOR(T) elements, in registers floats; p is a multiple of 16 bytes
 * ---- */
#define VECTOR(T) (16 / (int)sizeof(T))
INLINE void load_vector(const float *p, float *v) {
    kd_words w = kd_load16(p);
    for (int i = 0; i < 4; i++) v[i] = __uint_as_float(w.w[i]);
}
INLINE void store_vector(float *p, const float *v) {
    kd_words w;
    for (int i = 0; i < 4; i++) w.w[i] = __float_as_uint(v[i]);
    kd_store16(p, w);
}
/* f16 and bf16 are one type in C++, so the functions have their names. */
#define HALF_VECTORS(T)                                                                            \
    INLINE void load_vector_##T(const T *p, float *v) {                                            \
        kd_words w = kd_load16(p);                                                                 \
        for (int i = 0; i < 8; i++) v[i] = kd_widen_##T((T)(w.w[i / 2] >> i % 2 * 16));            \
    }                                                                                              \
    INLINE void store_vector_##T(T *p, const float *v) {                                           \
        kd_words w;                                                                                \
        for (int i = 0; i < 4; i++) w.w[i] = kd_narrow2_##T(v[2 * i], v[2 * i + 1]);               \
        kd_store16(p, w);                                                                          \
    }
HALF_VECTORS(f16)
HALF_VECTORS(bf16)
#undef HALF_VECTORS

/* ---- reductions in a fixed order, with the result in every thread; float, double, int or long
 * ---- */
struct by_sum {
    enum { EITHER_WAY = 1 };
    template <class T> static INLINE T of(T a, T b) { return a + b; }
};
struct by_max { /* propagates NaN */
    enum { EITHER_WAY = 0 };
    template <class T> static INLINE T of(T a, T b) { return a > b || a != a ? a : b; }
};
struct by_min {
    enum { EITHER_WAY = 0 };
    template <class T> static INLINE T of(T a, T b) { return a < b || a != a ? a : b; }
};
/* Combines with the lane at distance m, a power of two. The lower lane's value comes first, so
 * that both lanes get the same bits (for +0 and -0 in by_max and by_min; sums are commutative). */
template <class BY, class T> INLINE T warp_step(T v, int m) {
    T other = __shfl_xor_sync(0xffffffffu, v, m);
    bool swap = !BY::EITHER_WAY && threadIdx.x & m;
    return BY::of(swap ? other : v, swap ? v : other);
}
/* Over LANES neighbours of a warp, all of whose lanes call it. */
template <class BY, int LANES = 32, class T> INLINE T warp_reduce(T v) {
    for (int m = 1; m < LANES; m *= 2) v = warp_step<BY>(v, m);
    return v;
}
/* Reduces the warps' N values over a CTA of THREADS threads, all of which call it. It has two
 * barriers; shared memory that threads wrote before is visible afterwards. WRITTEN: unroll
 * factor over warps. */
template <class BY, int THREADS, int WRITTEN = THREADS / 32, int N, class T>
INLINE void block_join(T (&v)[N]) {
    enum { WARPS = THREADS / 32 };
    if (WARPS == 1) {
        __syncthreads();
        return;
    }
    __shared__ T parts[N][WARPS];
    if (threadIdx.x % 32 == 0)
        for (int i = 0; i < N; i++) parts[i][threadIdx.x / 32] = v[i];
    __syncthreads();
    for (int i = 0; i < N; i++) v[i] = parts[i][0];
#pragma unroll WRITTEN
    for (int w = 1; w < WARPS; w++) /* each thread by itself, in order: WARPS is at most 32 */
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = BY::of(v[i], parts[i][w]);
    __syncthreads(); /* the next call may write parts */
}
/* Over the CTA's threads. */
template <class BY, int THREADS, int N, class T> INLINE void block_reduce(T (&v)[N]) {
    for (int i = 0; i < N; i++) v[i] = warp_reduce<BY>(v[i]);
    block_join<BY, THREADS>(v);
}
template <class T> INLINE T warp_sum(T v) { return warp_reduce<by_sum>(v); }
template <class T> INLINE T warp_max(T v) { return warp_reduce<by_max>(v); }
template <class T> INLINE T warp_min(T v) { return warp_reduce<by_min>(v); }
template <class BY, int THREADS, class T> INLINE T block_reduce_one(T v) {
    T one[1] = {v};
    block_reduce<BY, THREADS>(one);
    return one[0];
}
template <int THREADS, class T> INLINE T block_sum(T v) {
    return block_reduce_one<by_sum, THREADS>(v);
}
template <int THREADS, class T> INLINE T block_max(T v) {
    return block_reduce_one<by_max, THREADS>(v);
}
template <int THREADS, class T> INLINE T block_min(T v) {
    return block_reduce_one<by_min, THREADS>(v);
}
/* N sums with the barriers of one. */
template <int THREADS, int N, class T> INLINE void block_sums(T (&v)[N]) {
    block_reduce<by_sum, THREADS>(v);
}
