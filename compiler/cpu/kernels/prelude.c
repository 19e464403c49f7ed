/* The prelude of every generated CPU source: vectors, and the scalar functions of ops.def over
 * them. The emitter defines LANES, PANEL, TILE_ROWS and the block sizes, from
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
#if SEPARATE
#define ENTRY WARM __attribute__((visibility("hidden")))
#else
#define ENTRY UNUSED
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

/* ---- scalar functions, one lane at a time where speed does not matter ---- */
#define V(x) ((x) - (vf){0}) /* a scalar literal becomes a vector; x - 0 is x */
#define EACH(f, a)                                                                                 \
    ({                                                                                             \
        vf each_a = (a), each_r;                                                                   \
        for (int each_i = 0; each_i < LANES; each_i++) each_r[each_i] = f(each_a[each_i]);         \
        each_r;                                                                                    \
    })
INLINE vf v_pick(vi m, vf a, vf b) { return (vf)(((vi)a & m) | ((vi)b & ~m)); }
INLINE vf v_truth(vi m) { return (vf)((vi)splat(1.0f) & m); }
#define v_select(c, a, b) v_pick(c, V(a), V(b))
#define v_eq(a, b)        ((vb)(V(a) == V(b)))
#define v_ne(a, b)        ((vb)(V(a) != V(b)))
#define v_lt(a, b)        ((vb)(V(a) < V(b)))
#define v_le(a, b)        ((vb)(V(a) <= V(b)))
#define v_gt(a, b)        ((vb)(V(a) > V(b)))
#define v_ge(a, b)        ((vb)(V(a) >= V(b)))
/* a where it is larger, or smaller, else b: so b where one is a NaN. */
#if defined(__AVX512F__) && LANES == 16 && defined(__clang__)
INLINE vf larger(vf a, vf b) { return __builtin_ia32_maxps512(a, b, 4); }
INLINE vf smaller(vf a, vf b) { return __builtin_ia32_minps512(a, b, 4); }
#elif defined(__AVX512F__) && LANES == 16
INLINE vf larger(vf a, vf b) { return __builtin_ia32_maxps512_mask(a, b, a, (short)-1, 4); }
INLINE vf smaller(vf a, vf b) { return __builtin_ia32_minps512_mask(a, b, a, (short)-1, 4); }
#elif defined(__AVX__) && LANES == 8
INLINE vf larger(vf a, vf b) { return __builtin_ia32_maxps256(a, b); }
INLINE vf smaller(vf a, vf b) { return __builtin_ia32_minps256(a, b); }
#elif defined(__SSE__) && LANES == 4
INLINE vf larger(vf a, vf b) { return __builtin_ia32_maxps(a, b); }
INLINE vf smaller(vf a, vf b) { return __builtin_ia32_minps(a, b); }
#else
INLINE vf larger(vf a, vf b) { return v_pick(a > b, a, b); }
INLINE vf smaller(vf a, vf b) { return v_pick(a < b, a, b); }
#endif
/* a b + c, rounded once where the target has FMA: explicit, since -Og contracts nothing. */
#if defined(__AVX512F__) && LANES == 16
INLINE vf v_fma(vf a, vf b, vf c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, (short)-1, 4); }
#elif defined(__FMA__) && LANES == 8
INLINE vf v_fma(vf a, vf b, vf c) { return __builtin_ia32_vfmaddps256(a, b, c); }
#else
INLINE vf v_fma(vf a, vf b, vf c) { return a * b + c; }
#endif
/* One step of Horner's scheme. */
INLINE vf v_on(vf sum, vf x, float k) { return v_fma(sum, x, splat(k)); }
INLINE vf v_max_(vf a, vf b) { return v_pick(a != a, a, larger(a, b)); } /* propagates NaN */
INLINE vf v_min_(vf a, vf b) { return v_pick(a != a, a, smaller(a, b)); }
#define v_max(a, b) v_max_(V(a), V(b))
#define v_min(a, b) v_min_(V(a), V(b))
INLINE vf v_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }
INLINE vf v_sign(vf a) { return v_truth(a > 0) - v_truth(a < 0); } /* 0 for NaN, as in PyTorch */
#if defined(__AVX512F__) && LANES == 16 && defined(__clang__)
INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps512(a, 4); }
#elif defined(__AVX512F__) && LANES == 16
INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps512_mask(a, a, (short)-1, 4); }
#elif defined(__AVX__) && LANES == 8
INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps256(a); }
#elif defined(__SSE__) && LANES == 4
INLINE vf v_sqrt(vf a) { return __builtin_ia32_sqrtps(a); }
#else
INLINE vf v_sqrt(vf a) { return EACH(__builtin_sqrtf, a); }
#endif
INLINE vf v_log(vf a) { return EACH(__builtin_logf, a); }
INLINE vf v_expm1(vf a) { return EACH(__builtin_expm1f, a); }
INLINE vf v_log1p(vf a) { return EACH(__builtin_log1pf, a); }
INLINE vf v_sin(vf a) { return EACH(__builtin_sinf, a); }
INLINE vf v_cos(vf a) { return EACH(__builtin_cosf, a); }
INLINE vf v_floor(vf a) { return EACH(__builtin_floorf, a); }
INLINE vf v_pow(vf a, vf b) {
    vf r;
    for (int i = 0; i < LANES; i++) r[i] = __builtin_powf(a[i], b[i]);
    return r;
}
INLINE vf v_atan2(vf a, vf b) {
    vf r;
    for (int i = 0; i < LANES; i++) r[i] = __builtin_atan2f(a[i], b[i]);
    return r;
}

/* exp(x) as y 2^n by range reduction to |r| <= ln(2)/2 and a polynomial of degree 6; its
 * constants are the Taylor series', improved by least squares. */
INLINE vf exp_parts(vf x, vf *n) {
    vf t = v_on(x, splat(1.44269504f),
                12582912.0f); /* 1.5 * 2^23: rounds to an integer in the low bits */
    *n = t - 12582912.0f;
    vf r = v_fma(*n, splat(2.12194440e-4f), v_fma(*n, splat(-0.693359375f), x));
    vf y = v_on(v_on(splat(1.9875691e-4f), r, 1.3981999e-3f), r, 8.3334519e-3f);
    y = v_on(v_on(v_on(y, r, 4.1665796e-2f), r, 1.6666665e-1f), r, 0.5f);
    return v_fma(y * r, r, r) + 1.0f;
}
/* y 2^n for an integer n, in two steps, so that denormal results are right. */
#if defined(__AVX512F__) && LANES == 16 && defined(__clang__)
INLINE vf scale(vf y, vf n) {
    return __builtin_ia32_scalefps512_mask(y, n, y, (unsigned short)-1, 4);
}
#elif defined(__AVX512F__) && LANES == 16
INLINE vf scale(vf y, vf n) { return __builtin_ia32_scalefps512_mask(y, n, y, (short)-1, 4); }
#else
INLINE vf scale(vf y, vf n) {
    vi all = __builtin_convertvector(n, vi), half = all >> 1;
    return y * (vf)((half + 127) << 23) * (vf)((all - half + 127) << 23);
}
#endif
/* For arguments from -87 to 88, or NaN. Within 2 ulp, as the next. */
INLINE vf exp_normal(vf a) {
    vf n, y = exp_parts(a, &n);
#if defined(__AVX512F__) && LANES == 16
    return scale(y, n);
#else
    return y * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
#endif
}
INLINE vf v_exp(vf a) {
    vf n, y = exp_parts(larger(splat(-104.0f), smaller(splat(89.0f), a)), &n);
    return scale(y, n);
}
/* tanh: odd polynomial below 0.625, 1 - 2 / (exp(2|x|) + 1) above. Within 3 ulp. */
INLINE vf v_tanh(vf a) {
    vf x = v_abs(a), z = a * a;
    vf small = v_on(v_on(splat(-5.70498872e-3f), z, 2.06390888e-2f), z, -5.37397156e-2f);
    small = v_on(v_on(small, z, 1.33314422e-1f), z, -3.33332819e-1f);
    vf e = exp_normal(2.0f * smaller(splat(10.0f), x));
    vf large = 1.0f - 2.0f / (e + 1.0f);
    large = (vf)((vi)large | ((vi)a & (int)0x80000000u));
    return v_pick(x < 0.625f, v_fma(small * z, a, a), large);
}
#if defined(__AVX512F__) && LANES == 16
#if defined(__clang__)
INLINE vf look_up(const float *table, vi i) { return __builtin_ia32_permvarsf512(ld(table), i); }
#else
INLINE vf look_up(const float *table, vi i) {
    return __builtin_ia32_permvarsf512_mask(ld(table), i, (vf){0}, (short)-1);
}
#endif
/* erf(c + r) - r as a polynomial in r around each of 16 points c, 67 / 256 apart, by weighted
 * least squares for a small maximum error: by power, then by point. */
static const float erf_powers[6][LANES] __attribute__((aligned(64))) = {
    {0, 0.288711548f, 0.540853143f, 0.733164072f, 0.861261427f, 0.935777366f, 0.973632574f,
     0.990427017f, 0.996933699f, 0.999135077f, 0.999785483f, 0.99995327f, 0.999991059f, 0.99999851f,
     0.999999762f, 1},
    {0.128379166f, 0.0536766574f, -0.142045751f, -0.390848398f, -0.622869909f, -0.79640758f,
     -0.904162288f, -0.960661709f, -0.985920072f, -0.995605707f, -0.998804152f, -0.999716222f,
     -0.999941289f, -0.99998939f, -0.999998331f, -0.999999762f},
    {2.9349215e-07f, -0.275763065f, -0.449077636f, -0.478267103f, -0.394809932f, -0.266431421f,
     -0.150489688f, -0.0720736086f, -0.0294898562f, -0.0103504481f, -0.00313535472f,
     -0.000818542263f, -0.000180668576f, -3.92196816e-05f, 2.57994179e-06f, -1.4070929e-05f},
    {-0.376142472f, -0.303136319f, -0.129289612f, 0.0473042391f, 0.149831682f, 0.164557219f,
     0.125605494f, 0.0749095827f, 0.0364557654f, 0.0147889052f, 0.00506210979f, 0.00147331262f,
     0.000366509426f, 7.82170828e-05f, 1.43593343e-05f, 2.2723857e-06f},
    {0.000298859697f, 0.130665883f, 0.182287306f, 0.139772788f, 0.0534343608f, -0.0178015884f,
     -0.0484859683f, -0.0442301109f, -0.0277737547f, -0.0140289273f, -0.00529567013f,
     -0.0017760864f, -0.000740104762f, 6.19407874e-05f, -0.000531926809f, 0.000764669501f},
    {0.110910431f, 0.0782253966f, 0.00128169684f, -0.0584267899f, -0.0669282302f, -0.0393515229f,
     -0.00744902529f, 0.010082664f, 0.0127474507f, 0.00872375257f, 0.00434200885f, 0.00170041621f,
     0.000542375317f, 0.000143642799f, 3.19386563e-05f, 6.00960175e-06f},
};
/* Within 2 ulp; 1 from where it rounds to 1. */
INLINE vf v_erf(vf a) {
    vf x = v_abs(a), t = smaller(splat(4.0f), x), m = v_on(t, splat(256 / 67.0f), 12582912.0f);
    vf r = v_fma(m - 12582912.0f, splat(-67 / 256.0f), t), y = look_up(erf_powers[5], (vi)m);
    for (int i = 4; i > 0; i--) y = v_fma(y, r, look_up(erf_powers[i], (vi)m));
    y = v_fma(y, r, look_up(erf_powers[0], (vi)m) + r);
    y = v_pick(x >= 3.925f, splat(1.0f), y);
    return (vf)((vi)y | ((vi)a & (int)0x80000000u));
}
#else
/* erf: odd polynomial below 1, above it 1 - exp(polynomial), which is log(1 - erf); both by
 * weighted least squares for a small maximum error. Within 2 ulp. */
INLINE vf v_erf(vf a) {
    vf x = v_abs(a), z = a * a, t = smaller(splat(4.0f), x);
    vf small = v_on(v_on(splat(7.8891193e-5f), z, -8.02084105e-4f), z, 5.18953521e-3f);
    small = v_on(v_on(small, z, -2.68544443e-2f), z, 0.112836003f);
    small = v_on(v_on(small, z, -0.37612626f), z, 0.128379167f);
    vf q = v_on(v_on(splat(-2.16868502e-5f), t, 4.41336364e-4f), t, -4.20456193e-3f);
    q = v_on(v_on(v_on(q, t, 2.52082571e-2f), t, -0.108418576f), t, -0.633219898f);
    q = v_on(v_on(q, t, -1.12957847f), t, 1.88040227e-4f);
    vf large = 1.0f - exp_normal(q);
    large = (vf)((vi)large | ((vi)a & (int)0x80000000u));
    return v_pick(x < 1.0f, v_fma(small, a, a), large);
}
#endif
INLINE vf v_sigmoid(vf a) { return 1.0f / (1.0f + v_exp(-a)); }

/* integers */
#define VI(x) ((x) - (vi){0})
INLINE vi vi_pick(vb m, vi a, vi b) { return (a & m) | (b & ~m); }
#define vi_select(c, a, b) vi_pick(c, VI(a), VI(b))
#define vi_eq(a, b)        ((vb)(VI(a) == VI(b)))
#define vi_ne(a, b)        ((vb)(VI(a) != VI(b)))
#define vi_lt(a, b)        ((vb)(VI(a) < VI(b)))
#define vi_le(a, b)        ((vb)(VI(a) <= VI(b)))
#define vi_gt(a, b)        ((vb)(VI(a) > VI(b)))
#define vi_ge(a, b)        ((vb)(VI(a) >= VI(b)))
#define vi_max(a, b)       vi_pick(VI(a) > VI(b), VI(a), VI(b))
#define vi_min(a, b)       vi_pick(VI(a) < VI(b), VI(a), VI(b))
INLINE vi vi_abs(vi a) { return vi_pick(a < 0, -a, a); }
INLINE vi vi_sign(vi a) { return (a < 0) - (a > 0); }
INLINE vi vi_floor(vi a) { return a; }
/* truth values; a number is true unless 0, and true is the larger */
#define VB(x)              ((vb)(VI(x) != 0))
#define vb_select(c, a, b) vi_pick(c, VB(a), VB(b))
#define vb_eq(a, b)        ((vb)(VB(a) == VB(b)))
#define vb_ne(a, b)        ((vb)(VB(a) != VB(b)))
#define vb_lt(a, b)        ((vb)(VB(b) < VB(a)))
#define vb_le(a, b)        ((vb)(VB(b) <= VB(a)))
#define vb_gt(a, b)        ((vb)(VB(b) > VB(a)))
#define vb_ge(a, b)        ((vb)(VB(b) >= VB(a)))

#define LIBM_F(name) __builtin_##name##f
#define LIBM_D(name) __builtin_##name
SCALAR_FUNCTIONS(float, s_, LIBM_F)
SCALAR_FUNCTIONS(double, d_, LIBM_D)
WHOLE_FUNCTIONS(int, i_)
WHOLE_FUNCTIONS(long, l_)
COMPARISONS(int, b_)
/* The largest and the smallest lane. */
INLINE float largest(vf v) {
    float r = v[0];
    for (int i = 1; i < LANES; i++) r = s_max(r, v[i]);
    return r;
}
INLINE float smallest(vf v) {
    float r = v[0];
    for (int i = 1; i < LANES; i++) r = s_min(r, v[i]);
    return r;
}

/* Sums with rounded operands: a product is not contracted into an FMA (dl_kinstr.no_contract). */
#define ROUNDED(v) __asm__("" : HELD(v))
#define NO_CONTRACT(T, p)                                                                          \
    INLINE T p##add_no_contract(T a, T b) {                                                        \
        ROUNDED(a);                                                                                \
        ROUNDED(b);                                                                                \
        return a + b;                                                                              \
    }                                                                                              \
    INLINE T p##sub_no_contract(T a, T b) {                                                        \
        ROUNDED(a);                                                                                \
        ROUNDED(b);                                                                                \
        return a - b;                                                                              \
    }
NO_CONTRACT(vf, v_)
NO_CONTRACT(float, s_)
NO_CONTRACT(double, d_)
