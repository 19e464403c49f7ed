/* Functions of numbers in vectors, one lane at a time where speed does not matter; after
 * prelude.c. */
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
INLINE vf v_sin(vf a) { return EACH(__builtin_sinf, a); }
INLINE vf v_cos(vf a) { return EACH(__builtin_cosf, a); }
INLINE vf v_floor(vf a) {
    vf whole = __builtin_convertvector(__builtin_convertvector(a, vi), vf);
    whole -= (vf)((whole > a) & (vi)splat(1.0f));
    whole = (vf)((vi)whole | ((vi)a & (int)0x80000000u)); /* -0 */
    return v_pick(v_abs(a) < 8388608.0f, whole, a);       /* from 2^23 on all are whole, or NaN */
}
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

/* exp(r) - 1 for the rest r of x = n log(2) + r, |r| <= log(2) / 2, by a polynomial of degree 6;
 * its constants are the Taylor series', improved by least squares. */
INLINE vf exp_less_one(vf x, vf *n) {
    vf t = v_on(x, splat(1.44269504f),
                12582912.0f); /* 1.5 * 2^23: rounds to an integer in the low bits */
    *n = t - 12582912.0f;
    vf r = v_fma(*n, splat(2.12194440e-4f), v_fma(*n, splat(-0.693359375f), x));
    vf y = v_on(v_on(splat(1.9875691e-4f), r, 1.3981999e-3f), r, 8.3334519e-3f);
    y = v_on(v_on(v_on(y, r, 4.1665796e-2f), r, 1.6666665e-1f), r, 0.5f);
    return v_fma(y * r, r, r);
}
/* exp(x) as y 2^n. */
INLINE vf exp_parts(vf x, vf *n) { return exp_less_one(x, n) + 1.0f; }
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
/* exp(x) - 1 by exp's reduction. Within 1.6 ulp. */
INLINE vf v_expm1(vf a) {
    vf x = larger(splat(-20.0f), smaller(splat(89.0f), a)), n, y = exp_less_one(x, &n);
    vf half = (vf)((__builtin_convertvector(n, vi) + 126) << 23); /* 2^n / 2: 2^128 is infinite */
    return v_pick(n == 0, v_pick(a == 0, a, y), 2.0f * v_fma(half, y, half - 0.5f));
}
/* a = m 2^e with m from sqrt(1/2) to sqrt(2), for a positive, finite, normal number. */
INLINE vf log_parts(vf a, vf *e) {
    vi n = ((vi)a - 0x3f3504f3) >> 23;
    *e = __builtin_convertvector(n, vf);
    return (vf)((vi)a - (n << 23));
}
/* log(1 + r) + e log(2) + low: r - r^2 / 2 + r^3 P(r), with the polynomial of Cephes' logf. */
INLINE vf log_sum(vf r, vf e, vf low) {
    vf z = r * r, y = v_on(v_on(splat(7.0376836e-2f), r, -1.1514610e-1f), r, 1.1676999e-1f);
    y = v_on(v_on(v_on(y, r, -1.2420141e-1f), r, 1.4249323e-1f), r, -1.6668058e-1f);
    y = v_on(v_on(v_on(y, r, 2.0000715e-1f), r, -2.4999994e-1f), r, 3.3333331e-1f);
    low += v_fma(e, splat(-2.12194440e-4f), v_fma(z, splat(-0.5f), y * r * z));
    return v_fma(e, splat(0.693359375f), r + low);
}
/* log's value y where a is 0, infinite, negative or NaN. */
INLINE vf log_ends(vf a, vf y) {
    y = v_pick(a == 0, splat(-__builtin_inff()), v_pick(a == __builtin_inff(), a, y));
    return v_pick(a >= 0, y, splat(__builtin_nanf("")));
}
/* Within 1 ulp, as the next. */
INLINE vf v_log(vf a) {
    vi denormal = a < 1.17549435e-38f;
    vf e, m = log_parts(v_pick(denormal, a * 8388608.0f, a), &e);
    return log_ends(a, log_sum(m - 1.0f, e - (vf)(denormal & (vi)splat(23.0f)), splat(0)));
}
/* By the logarithm of u = 1 + a, and what this addition lost over u. */
INLINE vf v_log1p(vf a) {
    vf u = 1.0f + a, e, m = log_parts(u, &e);
    vi near = e == 0;
    vf lost = v_pick(a > 1.0f, 1.0f - (u - a), a - (u - 1.0f)) / u;
    vf y = log_sum(v_pick(near, a, m - 1.0f), e, v_pick(near, splat(0), lost));
    return v_pick(a == 0, a, log_ends(u, y));
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
