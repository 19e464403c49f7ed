/* After the prelude: elements in memory by their type. All arithmetic is in floats; f16 (IEEE
 * 754 binary16) and bf16 (the upper half of a float) exist in memory alone. HALVES has a bit for
 * each of them that the source uses; the others are not compiled. Widening is exact. Narrowing
 * rounds to nearest, ties to even: too large values become infinite, values below the normal
 * range are denormal, and a NaN stays a NaN. */
enum { F32, F16, BF16, PAIR }; /* PAIR: two bf16 in 32 bits, moved like a float (bf16_pairs.c) */

#if HALVES

/* p[at[i]] of the first n lanes i. Vectors gather 32-bit words of two elements at even offsets,
 * so none crosses into a page that the array does not have. */
#if defined(__AVX512F__) && LANES == 16
INLINE vh gather_halves(const unsigned short *p, vw at, long n) {
    long odd = (long)p >> 1 & 1;
    at += (unsigned)odd;
    vw words = (vw)gather((const float *)(p - odd), at >> 1, n);
    return __builtin_convertvector(words >> ((at & 1) << 4), vh);
}
#else
INLINE vh gather_halves(const unsigned short *p, vw at, long n) {
    unsigned place[LANES] __attribute__((aligned(64)));
    unsigned short h[LANES] __attribute__((aligned(64))) = {0};
    *(vw *)place = at;
    for (long i = 0; i < n; i++) h[i] = p[place[i]];
    return *(vh *)h;
}
#endif

/* Rounds a double to float by round-to-odd: an inexact result has its last bit set. A second
 * rounding then gives the same result as rounding the double directly (Boldo and Melquiond, IEEE
 * Transactions on Computers 57(4), 2008). */
INLINE float odd_float(double v) {
    float f = (float)v;
    int u;
    __builtin_memcpy(&u, &f, sizeof u);
    if (f == f && (double)f != v) u = (u - (__builtin_fabs((double)f) > __builtin_fabs(v))) | 1;
    __builtin_memcpy(&f, &u, sizeof f);
    return f;
}
INLINE vf odd_floats(vi v) {
    vf r;
    for (int i = 0; i < LANES; i++) r[i] = odd_float(v[i]);
    return r;
}
#endif

#if HALVES & 1
#if defined(__AVX512F__) && LANES == 16
typedef short vs __attribute__((vector_size(32)));
INLINE vf widen_f16(vh h) { return __builtin_ia32_vcvtph2ps512_mask((vs)h, (vf){0}, (short)-1, 4); }
INLINE vh narrow_f16(vf v) {
    return (vh)__builtin_ia32_vcvtps2ph512_mask(v, 0, (vs){0}, (short)-1);
}
#elif defined(__F16C__) && LANES == 8
typedef short vs __attribute__((vector_size(16)));
INLINE vf widen_f16(vh h) { return __builtin_ia32_vcvtph2ps256((vs)h); }
INLINE vh narrow_f16(vf v) { return (vh)__builtin_ia32_vcvtps2ph256(v, 0); }
#else
INLINE vf widen_f16(vh h) {
    vi w = __builtin_convertvector(h, vi), m = w & 0x7fff;
    vf small = __builtin_convertvector(m, vf) * 0x1p-24f; /* below the normal range */
    vi large = (m << 13) + 0x38000000 + ((m >= 0x7c00) & 0x38000000);
    return (vf)(vi_pick(m < 0x400, (vi)small, large) | (w & 0x8000) << 16);
}
INLINE vh narrow_f16(vf v) {
    vi all = (vi)v, u = all & 0x7fffffff;
    vi r = (u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13;
    /* floats next to 0.5 have the spacing of f16 denormals */
    r = vi_pick(u < 0x38800000, (vi)((vf)u + 0.5f) - 0x3f000000, r);
    r = vi_pick(u >= 0x477ff000, splat_i(0x7c00), r);
    r = vi_pick(u > 0x7f800000, splat_i(0x7e00), r);
    return __builtin_convertvector(r | (all >> 16 & 0x8000), vh);
}
#endif
INLINE vf round_f16(vf v) { return widen_f16(narrow_f16(v)); }
#endif
#if HALVES & 2
INLINE vf widen_bf16(vh h) { return (vf)(__builtin_convertvector(h, vw) << 16); }
/* Rounds to bf16 in the upper halves, and quiets NaNs; the lower halves are undefined. */
INLINE vw round_upper(vf v) {
    vw u = (vw)v, number = (vw)(v == v);
    return (u + ((0x7fff + (u >> 16 & 1)) & number)) | (0x400000 & ~number);
}
#if HAS_PAIRS
INLINE vh narrow_bf16(vf v) {
    vh h = narrow_normal(v);
    if (__builtin_expect(has_denormals(v), 0))
        h = __builtin_convertvector(round_upper(v) >> 16, vh);
    return h;
}
INLINE vf round_bf16(vf v) { return widen_bf16(narrow_bf16(v)); }
#else
INLINE vh narrow_bf16(vf v) { return __builtin_convertvector(round_upper(v) >> 16, vh); }
INLINE vf round_bf16(vf v) { return (vf)(round_upper(v) & 0xffff0000); }
#endif
#endif

/* The prelude's functions on arrays of floats, for this type; and rounding to the type, as a
 * float. */
#define HALF_FUNCTIONS(T)                                                                          \
    INLINE float s_widen_##T(T h) { return widen_##T((vh){h})[0]; }                                \
    INLINE T s_narrow_##T(float v) { return narrow_##T((vf){v})[0]; }                              \
    INLINE float s_round_##T(float v) { return round_##T((vf){v})[0]; }                            \
    INLINE vf splat_##T(T h) { return splat(s_widen_##T(h)); }                                     \
    INLINE vf ld_##T(const T *p) { return widen_##T(*(const vh_any *)p); }                         \
    INLINE vf ld_ahead_##T(const T *p, long n) {                                                   \
        __builtin_prefetch(p + n, 0, 1);                                                           \
        return ld_##T(p);                                                                          \
    }                                                                                              \
    INLINE void st_##T(T *p, vf v) { *(vh_any *)p = narrow_##T(v); }                               \
    INLINE vf ld_step_##T(const T *p, long step, long n) {                                         \
        vh h = {0};                                                                                \
        for (long i = 0; i < n; i++) h[i] = p[i * step];                                           \
        return widen_##T(h);                                                                       \
    }                                                                                              \
    INLINE void st_step_##T(T *p, long step, vf v, long n) {                                       \
        vh h = narrow_##T(v);                                                                      \
        for (long i = 0; i < n; i++) p[i * step] = h[i];                                           \
    }                                                                                              \
    INLINE vf gather_##T(const T *p, vw at, long n) { return widen_##T(gather_halves(p, at, n)); } \
    INLINE vf ldn_##T(const T *p, long n) {                                                        \
        return n >= LANES ? ld_##T(p) : ld_step_##T(p, 1, n);                                      \
    }                                                                                              \
    INLINE void stn_##T(T *p, vf v, long n) {                                                      \
        if (n >= LANES)                                                                            \
            st_##T(p, v);                                                                          \
        else                                                                                       \
            st_step_##T(p, 1, v, n);                                                               \
    }
#if HALVES & 1
HALF_FUNCTIONS(f16)
#endif
#if HALVES & 2
HALF_FUNCTIONS(bf16)
#endif

/* ---- operands of hand-written loops: a constant table has their element type ---- */

struct array {
    const void *at;
    int type;
};
/* f_f16(...) or f_bf16(...) for elements of that type; the code after it is for floats. */
#if HALVES & 1
#define IF_F16(type, statement)                                                                    \
    if ((type) == F16) statement
#else
#define IF_F16(type, statement)
#endif
#if HALVES & 2
#define IF_BF16(type, statement)                                                                   \
    if ((type) == BF16) statement
#else
#define IF_BF16(type, statement)
#endif

INLINE long bytes_of(int type) {
    IF_F16(type, return 2;)
    IF_BF16(type, return 2;)
    return (void)type, 4;
}
/* Is each element a float in memory? */
INLINE int is_float(struct array a) { return bytes_of(a.type) == 4; }
INLINE struct array from_element(struct array a, long i) {
    return (struct array){(const char *)a.at + i * bytes_of(a.type), a.type};
}
/* Elements i, i + 1, ... as a vector; n of them, and zeros; one. */
INLINE vf load(struct array a, long i) {
    IF_F16(a.type, return ld_f16((const f16 *)a.at + i);)
    IF_BF16(a.type, return ld_bf16((const bf16 *)a.at + i);)
    return ld((const float *)a.at + i);
}
INLINE vf load_part(struct array a, long i, long n) {
    IF_F16(a.type, return ld_step_f16((const f16 *)a.at + i, 1, n);)
    IF_BF16(a.type, return ld_step_bf16((const bf16 *)a.at + i, 1, n);)
    return ld_part((const float *)a.at + i, n);
}
INLINE vf load_n(struct array a, long i, long n) {
    return n >= LANES ? load(a, i) : load_part(a, i, n);
}
INLINE float element(struct array a, long i) {
    IF_F16(a.type, return s_widen_f16(((const f16 *)a.at)[i]);)
    IF_BF16(a.type, return s_widen_bf16(((const bf16 *)a.at)[i]);)
    return ((const float *)a.at)[i];
}
INLINE void store_n(struct array a, long i, vf v, long n) {
    IF_F16(a.type, {
        stn_f16((f16 *)a.at + i, v, n);
        return;
    })
    IF_BF16(a.type, {
        stn_bf16((bf16 *)a.at + i, v, n);
        return;
    })
    stn((float *)a.at + i, v, n);
}
/* to[0], to[1], ... = n elements. */
HOT void widen(struct array a, long n, float *to) {
    long i = 0;
    for (; i + LANES <= n; i += LANES) st(to + i, load(a, i));
    for (; i < n; i++) to[i] = element(a, i);
}
/* Transposes a LANES x LANES block of elements from i on: to[j][k] = a[i + k * by + j], with
 * rows of `to` `apart` floats apart. */
INLINE void transpose_block(struct array a, long i, long by, float *to, long apart) {
#define BLOCK_IN(k)  vf r##k = load(a, i + k * by);
#define BLOCK_OUT(k) st(to + k * apart, r##k);
    BLOCK_ROWS(BLOCK_IN)
    TRANSPOSE_ALL
    BLOCK_ROWS(BLOCK_OUT)
}
/* The same for the first `rows` of them; the others become zero. */
INLINE void transpose_rows(struct array a, long i, long by, long rows, float *to, long apart) {
#define BLOCK_SOME(k) vf r##k = k < rows ? load(a, i + k * by) : (vf){0};
    BLOCK_ROWS(BLOCK_SOME)
    TRANSPOSE_ALL
    BLOCK_ROWS(BLOCK_OUT)
}
