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
INLINE vf v_floor(vf a) {
    vf whole = __builtin_convertvector(__builtin_convertvector(a, vi), vf);
    whole -= (vf)((whole > a) & (vi)splat(1.0f));
    whole = (vf)((vi)whole | ((vi)a & (int)0x80000000u)); /* -0 */
    return v_pick(v_abs(a) < 8388608.0f, whole, a);       /* from 2^23 on all are whole, or NaN */
}
/* Is a lane of the mask set? */
INLINE int any_lane(vi m) {
#if defined(__AVX512F__) && LANES == 16
    vf f = (vf)m;
    return __builtin_ia32_movmskps256(__builtin_shufflevector(f, f, LOWER)) |
           __builtin_ia32_movmskps256(__builtin_shufflevector(f, f, UPPER));
#elif defined(__AVX__) && LANES == 8
    return __builtin_ia32_movmskps256((vf)m);
#elif defined(__SSE__) && LANES == 4
    return __builtin_ia32_movmskps((vf)m);
#else
    int all = 0;
    for (int i = 0; i < LANES; i++) all |= m[i];
    return all;
#endif
}
/* sin, or with `turn` 1 cos, of the lanes whose numbers are too large for the vectors' reduction.
 */
static __attribute__((noinline, unused)) void far_sines(const vf *a, vf *y, int turn) {
    for (int i = 0; i < LANES; i++)
        if (__builtin_fabsf((*a)[i]) > 12800.0f)
            (*y)[i] = turn ? __builtin_cosf((*a)[i]) : __builtin_sinf((*a)[i]);
}
/* sin(a + turn pi/2). a = n pi/2 + r + low, where pi/2 is the sum of 4 numbers (Cody and Waite)
 * whose products with n, of at most 13 bits, are exact but for the last; then Cephes' polynomials.
 * Within 1 ulp. */
INLINE vf sine(vf a, int turn) {
    vf t = v_on(a, splat(0.636619772f), 12582912.0f), n = t - 12582912.0f;
    vf x = v_fma(n, splat(-4.837512969970703e-4f), v_fma(n, splat(-1.5703125f), a));
    vf r = v_fma(n, splat(-7.549533620476723e-8f), x);
    vf low =
        v_fma(n, splat(-2.5633440682570896e-12f), v_fma(n, splat(-7.549533620476723e-8f), x - r));
    vf z = r * r,
       p = v_on(v_on(splat(-1.9515295891e-4f), z, 8.3321608736e-3f), z, -1.6666654611e-1f);
    vf q = v_on(v_on(splat(2.443315711809948e-5f), z, -1.388731625493765e-3f), z,
                4.166664568298827e-2f);
    vf s = r + v_fma(z * r, p, low), half = 0.5f * z, w = 1.0f - half;
    vf c = w + v_fma(z * z, q, (1.0f - w - half) - r * low);
    vi k = (vi)t + turn;
    vf y = (vf)((vi)v_pick((k & 1) == 0, s, c) ^ ((k & 2) << 30));
    vf size = v_abs(a);
    if (any_lane((size > 12800.0f) & (size < __builtin_inff()))) {
        vf at = a, far = y;
        far_sines(&at, &far, turn);
        return far;
    }
    return y;
}
INLINE vf v_sin(vf a) { return v_pick(a == 0, a, sine(a, 0)); }
INLINE vf v_cos(vf a) { return sine(a, 1); }
/* By atan of the smaller size over the larger one, of which a polynomial knows all from 0 to 1
 * (a minimax of 9 terms). Within 2 ulp. */
INLINE vf v_atan2(vf a, vf b) {
    vf y = v_abs(a), x = v_abs(b), most = larger(y, x), least = smaller(y, x);
    vf q = least / most;
    q = v_pick(most == 0, splat(0), v_pick(least == __builtin_inff(), splat(1.0f), q));
    vf z = q * q, p = v_on(v_on(splat(-1.79358036e-3f), z, 1.09144328e-2f), z, -3.11775468e-2f);
    p = v_on(v_on(v_on(p, z, 5.79573177e-2f), z, -8.40343535e-2f), z, 1.09521814e-1f);
    p = v_on(v_on(v_on(p, z, -1.42642409e-1f), z, 1.99985489e-1f), z, -3.33332986e-1f);
    vf r = v_fma(z * q, p, q);
    r = v_pick(y > x, 1.57079637f - (r + 4.37113883e-8f), r);
    r = v_pick((vi)b < 0, 3.14159274f - (r + 8.74227766e-8f), r);
    r = (vf)((vi)r | ((vi)a & (int)0x80000000u));
    return v_pick((a != a) | (b != b), a + b, r);
}

#if LANES > 4
/* Half of the lanes, and the same as doubles. */
typedef long v_long __attribute__((vector_size(LANES * 4)));
typedef unsigned long v_ulong __attribute__((vector_size(LANES * 4)));
typedef float vf_half __attribute__((vector_size(LANES * 2)));
#if defined(__AVX512F__) && LANES == 16
INLINE vd fma_d(vd a, vd b, vd c) { return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4); }
#elif defined(__FMA__) && LANES == 8
INLINE vd fma_d(vd a, vd b, vd c) { return __builtin_ia32_vfmaddpd256(a, b, c); }
#else
INLINE vd fma_d(vd a, vd b, vd c) { return a * b + c; }
#endif
INLINE vd v_on_d(vd sum, vd x, double k) { return fma_d(sum, x, k - (vd){0}); }
INLINE vd pick_d(v_long m, vd a, vd b) { return (vd)(((v_long)a & m) | ((v_long)b & ~m)); }
/* x^b for positive, finite x as 2^(b log2(x)), in double precision and rounded once. log2(x) is by
 * the series of log((1 + s) / (1 - s)), to 2^-35 of it; 2^f by that of exp. */
INLINE vf_half power(vf_half base, vf_half exponent) {
    vd x = __builtin_convertvector(base, vd), b = __builtin_convertvector(exponent, vd);
    v_long e =
        (v_long)((v_ulong)((v_long)x + (0x7fe0000000000000L - 0x3fe6a09e667f3bcdL)) >> 52) - 2046;
    vd m = (vd)((v_long)x - (e << 52)), s = (m - 1.0) / (m + 1.0), z = s * s;
    vd l = v_on_d(v_on_d(z * (1.0 / 13) + 1.0 / 11, z, 1.0 / 9), z, 1.0 / 7);
    l = v_on_d(v_on_d(v_on_d(l, z, 1.0 / 5), z, 1.0 / 3), z, 1.0) * s * 2.8853900817779268;
    /* 1.5 * 2^52 has integers in its low bits. */
    vd y = b * (l + ((vd)(e + 0x4338000000000000L) - 6755399441055744.0));
    y = pick_d(y > 160.0, 160.0 - (vd){0}, pick_d(y < -160.0, -160.0 - (vd){0}, y));
    vd t = y + 6755399441055744.0, f = (y - (t - 6755399441055744.0)) * 0.69314718055994531;
    vd p = v_on_d(v_on_d(f * (1.0 / 40320) + 1.0 / 5040, f, 1.0 / 720), f, 1.0 / 120);
    p = v_on_d(v_on_d(v_on_d(p, f, 1.0 / 24), f, 1.0 / 6), f, 0.5);
    p = v_on_d(v_on_d(p, f, 1.0), f, 1.0) * (vd)(((v_long)t + 1023) << 52);
    return __builtin_convertvector(p, vf_half);
}
/* C's pow in all its cases. */
UNUSED __attribute__((noinline)) void powers(const vf *base, const vf *exponent, vf *to) {
    vf a = *base, b = *exponent, x = v_abs(a), size = v_abs(b), inf = splat(__builtin_inff());
    vf_half lower =
        power(__builtin_shufflevector(x, x, LOWER), __builtin_shufflevector(b, b, LOWER));
    vf_half upper =
        power(__builtin_shufflevector(x, x, UPPER), __builtin_shufflevector(b, b, UPPER));
    vf r = __builtin_shufflevector(lower, upper, LOWER, UPPER);
    r = v_pick((x == 0) | (x == inf), v_pick((x == 0) ^ (b < 0), splat(0), inf), r);
    vi whole = v_floor(b) == b, odd = whole & (size < 16777216.0f);
    odd &= -(__builtin_convertvector(v_pick(odd, size, splat(0)), vi) & 1);
    r = (vf)((vi)r ^ ((vi)a & odd & (int)0x80000000u));
    r = v_pick((a < 0) & (x != inf) & ~whole, splat(__builtin_nanf("")), r);
    r = v_pick((x == 1.0f) & (size == inf), splat(1.0f), r);
    r = v_pick((a != a) | (b != b), a + b, r);
    *to = v_pick((a == 1.0f) | (b == 0), splat(1.0f), r);
}
#else /* two doubles at once are slower than the C library */
UNUSED void powers(const vf *base, const vf *exponent, vf *to) {
    for (int i = 0; i < LANES; i++) (*to)[i] = __builtin_powf((*base)[i], (*exponent)[i]);
}
#endif
/* Within 0.51 ulp, or as the C library. */
INLINE vf v_pow(vf a, vf b) {
    vf r;
    powers(&a, &b, &r);
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
    vf large = 1.0f - 2.0f / (e + 1.0f), y = v_pick(x < 0.625f, v_fma(small * z, a, a), large);
    return (vf)((vi)y | ((vi)a & (int)0x80000000u)); /* of -0, too */
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
