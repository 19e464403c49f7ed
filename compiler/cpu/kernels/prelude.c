/* The prelude of every generated CPU source: vectors, loads and stores; functions.c follows it.
 * The emitter defines LANES, PANEL, TILE_ROWS and the block sizes, from
 * compiler/target/target.h. */
typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int vi __attribute__((vector_size(LANES * 4)));
typedef unsigned vw __attribute__((vector_size(LANES * 4)));
typedef vi vb; /* truth values: all bits of a lane, or none */
typedef unsigned char vc __attribute__((vector_size(LANES)));
typedef int vi_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef unsigned char vc_any __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef float vf_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef unsigned short f16, bf16; /* in memory alone (elements.c) */
typedef unsigned short vh __attribute__((vector_size(LANES * 2)));
typedef unsigned short vh_any __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
/* Constraint of a vector or float operand of asm: a register, if the CPU has one of that width. */
#if !defined(__x86_64__)
#define HELD "+w"
#elif LANES == 16 && !defined(__AVX512F__) /* emulated */
#define HELD "+m"
#else
#define HELD "+v"
#endif
#define INLINE static inline __attribute__((always_inline, unused))
/* a * b + c of one expression is rounded once where the target has FMA, which the register tiles
 * rely on. Clang decides that before it optimises: the bits are those of any -O. GCC does it by
 * default, in GNU C. */
#if defined(__clang__)
#pragma clang fp contract(on)
#endif
/* Most of a source is written in vectors already, so -O1 is hardly faster than -Og, which
 * compiles in half the time, except for two passes. Loops that gain more have attributes. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("tree-sra", "move-loop-invariants")
#define WARM __attribute__((optimize("O1")))
#if LANES == 16 &&                                                                                 \
    !defined(__AVX512F__) /* emulated: a tile would take the compiler 9 s, for no speed */
#define HOT static __attribute__((noinline, unused))
#define UNROLLED
#else
#define HOT      static __attribute__((noinline, unused, optimize("O2")))
#define UNROLLED _Pragma("GCC unroll 4")
#endif
#else
#define HOT static __attribute__((noinline, unused))
#define WARM
#define UNROLLED _Pragma("clang loop unroll_count(4)")
#endif
#define UNUSED static WARM __attribute__((unused))
/* Called by kernels. SEPARATE: the functions with this attribute are in other objects than their
 * callers (compiler/cpu/library.h). */
/* HEAD: a kernel's function that calls them. */
#if SEPARATE
#define ENTRY WARM __attribute__((visibility("hidden")))
#define HEAD
#else
#define ENTRY UNUSED
#define HEAD  WARM
#endif

/* ---- the element that an index denotes on an axis of n (ir/affine.h) ---- */
INLINE long floor_div(long a, long b) { return a / b - (a % b < 0); }
INLINE long edge_place(long x, long n) { return x < 0 ? 0 : x < n ? x : n - 1; }
INLINE long wrap_place(long x, long n) { return x - floor_div(x, n) * n; }
INLINE long reflect_place(long x, long n) {
    if (n == 1) return 0;
    x = wrap_place(x, 2 * (n - 1));
    return x < n ? x : 2 * (n - 1) - x;
}

/* ---- memory; the _part forms touch the first n lanes only, the others read as zero ---- */
INLINE vf splat(float a) { return a - (vf){0}; }
INLINE vf ld(const float *p) { return *(const vf_any *)p; }
/* Loads, and prefetches n floats further on: for strided sums, which hardware prefetchers do not
 * follow. */
INLINE vf ld_ahead(const float *p, long n) {
    __builtin_prefetch(p + n, 0, 1);
    return ld(p);
}
INLINE void st(float *p, vf v) { *(vf_any *)p = v; }
#if defined(__AVX512F__) && LANES == 16
INLINE vf ld_part(const float *p, long n) {
    return __builtin_ia32_loadups512_mask((const void *)p, (vf){0}, (1u << n) - 1);
}
INLINE void st_part(float *p, vf v, long n) {
    __builtin_ia32_storeups512_mask((void *)p, v, (1u << n) - 1);
}
#else
INLINE vf ld_part(const float *p, long n) {
    vf v = {0};
    for (long i = 0; i < n; i++) v[i] = p[i];
    return v;
}
INLINE void st_part(float *p, vf v, long n) {
    for (long i = 0; i < n; i++) p[i] = v[i];
}
#endif
/* n is constant in a loop's body, where one of the two branches remains. */
INLINE vf ldn(const float *p, long n) { return n >= LANES ? ld(p) : ld_part(p, n); }
INLINE void stn(float *p, vf v, long n) {
    if (n >= LANES)
        st(p, v);
    else
        st_part(p, v, n);
}
INLINE vf ld_step(const float *p, long step, long n) {
    vf v = {0};
    for (long i = 0; i < n; i++) v[i] = p[i * step];
    return v;
}
INLINE void st_step(float *p, long step, vf v, long n) {
    for (long i = 0; i < n; i++) p[i * step] = v[i];
}
/* p[at[i]] of the first n lanes i; each at[i] fits in an int. */
#if defined(__AVX512F__) && LANES == 16
INLINE vf gather(const float *p, vw at, long n) {
    return __builtin_ia32_gathersiv16sf((vf){0}, p, (vi)at,
                                        (unsigned short)(n >= LANES ? 0xffff : (1u << n) - 1), 4);
}
#else
INLINE vf gather(const float *p, vw at, long n) {
    unsigned place[LANES] __attribute__((aligned(64)));
    float v[LANES] __attribute__((aligned(64))) = {0};
    *(vw *)place = at;
    for (long i = 0; i < n; i++) v[i] = p[place[i]];
    return *(vf *)v;
}
#endif
/* The same for integers, and for truth values, which are bytes in memory. */
INLINE vi splat_i(int a) { return a - (vi){0}; }
INLINE vb splat_b(int a) { return splat_i(-(a != 0)); }
INLINE vi ldn_i(const int *p, long n) {
    vi v = {0};
    if (n >= LANES) return *(const vi_any *)p;
    for (long i = 0; i < n; i++) v[i] = p[i];
    return v;
}
INLINE void stn_i(int *p, vi v, long n) {
    if (n >= LANES)
        *(vi_any *)p = v;
    else
        for (long i = 0; i < n; i++) p[i] = v[i];
}
INLINE vb ldn_b(const unsigned char *p, long n) {
    vb v = {0};
    if (n >= LANES) return -__builtin_convertvector((vc) * (const vc_any *)p, vi);
    for (long i = 0; i < n; i++) v[i] = -p[i];
    return v;
}
INLINE void stn_b(unsigned char *p, vb v, long n) {
    if (n >= LANES)
        *(vc_any *)p = __builtin_convertvector(v & 1, vc);
    else
        for (long i = 0; i < n; i++) p[i] = (unsigned char)(v[i] & 1);
}
/* Transposes a LANES x LANES block with rows r0, r1, ... by exchanging halves, then quarters,
 * ...: LO and HI interleave the lower and upper parts of two rows. */
#define SWAP(h, i, j)                                                                              \
    {                                                                                              \
        vf a = r##i, b = r##j;                                                                     \
        r##i = __builtin_shufflevector(a, b, LO##h), r##j = __builtin_shufflevector(a, b, HI##h);  \
    }
#if LANES == 16
#define LOWER 0, 1, 2, 3, 4, 5, 6, 7
#define UPPER 8, 9, 10, 11, 12, 13, 14, 15
#define LO8   0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HI8   8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LO4   0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HI4   4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LO2   0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HI2   2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LO1   0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HI1   1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define BLOCK_ROWS(X)                                                                              \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
/* clang-format off */
#define TRANSPOSE_ALL \
    SWAP(8, 0, 8) SWAP(8, 1, 9) SWAP(8, 2, 10) SWAP(8, 3, 11) SWAP(8, 4, 12) SWAP(8, 5, 13) \
    SWAP(8, 6, 14) SWAP(8, 7, 15) \
    SWAP(4, 0, 4) SWAP(4, 1, 5) SWAP(4, 2, 6) SWAP(4, 3, 7) SWAP(4, 8, 12) SWAP(4, 9, 13) \
    SWAP(4, 10, 14) SWAP(4, 11, 15) \
    SWAP(2, 0, 2) SWAP(2, 1, 3) SWAP(2, 4, 6) SWAP(2, 5, 7) SWAP(2, 8, 10) SWAP(2, 9, 11) \
    SWAP(2, 12, 14) SWAP(2, 13, 15) \
    SWAP(1, 0, 1) SWAP(1, 2, 3) SWAP(1, 4, 5) SWAP(1, 6, 7) SWAP(1, 8, 9) SWAP(1, 10, 11) \
    SWAP(1, 12, 13) SWAP(1, 14, 15)
/* clang-format on */
#elif LANES == 8
#define LOWER         0, 1, 2, 3
#define UPPER         4, 5, 6, 7
#define LO4           0, 1, 2, 3, 8, 9, 10, 11
#define HI4           4, 5, 6, 7, 12, 13, 14, 15
#define LO2           0, 1, 8, 9, 4, 5, 12, 13
#define HI2           2, 3, 10, 11, 6, 7, 14, 15
#define LO1           0, 8, 2, 10, 4, 12, 6, 14
#define HI1           1, 9, 3, 11, 5, 13, 7, 15
#define BLOCK_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
/* clang-format off */
#define TRANSPOSE_ALL \
    SWAP(4, 0, 4) SWAP(4, 1, 5) SWAP(4, 2, 6) SWAP(4, 3, 7) \
    SWAP(2, 0, 2) SWAP(2, 1, 3) SWAP(2, 4, 6) SWAP(2, 5, 7) \
    SWAP(1, 0, 1) SWAP(1, 2, 3) SWAP(1, 4, 5) SWAP(1, 6, 7)
/* clang-format on */
#else
#define LOWER         0, 1
#define UPPER         2, 3
#define LO2           0, 1, 4, 5
#define HI2           2, 3, 6, 7
#define LO1           0, 4, 2, 6
#define HI1           1, 5, 3, 7
#define BLOCK_ROWS(X) X(0) X(1) X(2) X(3)
#define TRANSPOSE_ALL SWAP(2, 0, 2) SWAP(2, 1, 3) SWAP(1, 0, 1) SWAP(1, 2, 3)
#endif
INLINE vi lane_numbers(void) { return (vi){LOWER, UPPER}; }
/* The lanes from n on set to zero. */
INLINE vf keep(vf v, long n) { return (vf)((vi)v & (lane_numbers() < (int)n)); }
typedef double vd __attribute__((vector_size(LANES * 4)));
/* s[i] += v[i] in double, i < n */
INLINE void add_to(double *s, vf v, long n) {
    typedef double vd_any __attribute__((vector_size(LANES * 4), aligned(8), may_alias));
    if (n < LANES) {
        for (long i = 0; i < n; i++) s[i] += v[i];
        return;
    }
    vd_any *lower = (vd_any *)s, *upper = (vd_any *)(s + LANES / 2);
    *lower += __builtin_convertvector(__builtin_shufflevector(v, v, LOWER), vd);
    *upper += __builtin_convertvector(__builtin_shufflevector(v, v, UPPER), vd);
}
/* The sum of the lanes as a fixed tree. */
INLINE float sum_lanes(vf v) {
#if LANES == 16
    v += __builtin_shufflevector(v, v, HI8);
#endif
#if LANES >= 8
    v += __builtin_shufflevector(v, v, HI4);
#endif
    v += __builtin_shufflevector(v, v, HI2);
    return v[0] + v[1];
}

/* Sums by lane in double, over any number of terms: both halves of a vector. Then their total,
 * lane after lane; and the sums unchanged. */
struct sums {
    vd lower, upper;
};
INLINE void sum_in(struct sums *s, vf v) {
    s->lower += __builtin_convertvector(__builtin_shufflevector(v, v, LOWER), vd);
    s->upper += __builtin_convertvector(__builtin_shufflevector(v, v, UPPER), vd);
}
INLINE double total(struct sums s) {
    vd all = s.lower + s.upper;
    double sum = 0;
    for (int i = 0; i < LANES / 2; i++) sum += all[i];
    return sum;
}
INLINE vf narrow(struct sums s) {
    vf v;
    for (int i = 0; i < LANES / 2; i++)
        v[i] = (float)s.lower[i], v[i + LANES / 2] = (float)s.upper[i];
    return v;
}
