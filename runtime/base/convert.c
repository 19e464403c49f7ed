#include "runtime/base/convert.h"

#include <math.h>

enum { CHUNK = 256 };

/* The float toward zero, whose last bit is set where digits were lost: rounding that once more to
 * 16 bits gives the same as rounding v (Boldo and Melquiond 2008, Emulation of FMA and Correctly
 * Rounded Sums: Proved Algorithms Using Rounding to Odd). Beyond the largest float it is the
 * largest. */
static float odd_float(double v) {
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (v != v || (double)f == v) return f;
    if (fabs((double)f) > fabs(v)) u--;
    u |= 1;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* bf16 is the upper half of f32. */
static uint16_t bf16_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (f != f) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float float_of_bf16(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* IEEE binary16: 1 + 5 + 10 bits. */
static uint16_t f16_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    u &= 0x7fffffff;
    if (u > 0x7f800000) return sign | 0x7e00;
    if (u >= 0x477ff000) return sign | 0x7c00; /* rounds to 65520 or more: infinity */
    if (u < 0x38800000) { /* subnormal: adding 0.5 leaves multiples of 2^-24 in the low bits */
        float magnitude;
        memcpy(&magnitude, &u, sizeof magnitude);
        magnitude += 0.5f;
        memcpy(&u, &magnitude, sizeof u);
        return sign | (uint16_t)(u - 0x3f000000);
    }
    return sign | (uint16_t)((u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13);
}

static float float_of_f16(uint16_t h) {
    uint32_t exponent = h >> 10 & 31, mantissa = h & 0x3ff, u;
    float f = (float)mantissa * 0x1p-24f; /* subnormal */
    if (exponent) {
        u = (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
        memcpy(&f, &u, sizeof f);
    }
    return h & 0x8000 ? -f : f;
}

static int64_t int_of(double v, int64_t low, int64_t high) {
    if (v != v) return 0;
    if (v <= (double)low) return low;
    return v >= (double)high ? high : (int64_t)v;
}

static int32_t narrow(int64_t v) {
    return v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

/* X(type, its C type, value as double, from double) */
#define FLOATS(X)                                                                                  \
    X(F32, float, (double)x, (float)v)                                                             \
    X(F64, double, x, v)                                                                           \
    X(F16, uint16_t, (double)float_of_f16(x), f16_of(odd_float(v)))                                \
    X(BF16, uint16_t, (double)float_of_bf16(x), bf16_of(odd_float(v)))
/* X(type, its C type, from double, from int64) */
#define INTEGERS(X)                                                                                \
    X(I32, int32_t, (int32_t)int_of(v, INT32_MIN, INT32_MAX), narrow(v))                           \
    X(I64, int64_t, int_of(v, INT64_MIN, INT64_MAX), v)                                            \
    X(BOOL, uint8_t, v != 0, v != 0)

#define LOOP(C, T, name, value_of, result)                                                         \
    static void name(const void *in_, void *out_, int64_t n) {                                     \
        const C *in = in_;                                                                         \
        T *out = out_;                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            C value_of = in[i];                                                                    \
            out[i] = (result);                                                                     \
        }                                                                                          \
    }
#define X(D, T, as_double, of_double)                                                              \
    LOOP(T, double, double_from_##D, x, as_double)                                                 \
    LOOP(double, T, double_to_##D, v, of_double)
FLOATS(X)
#undef X
#define X(D, T, of_double, of_int)                                                                 \
    LOOP(T, double, double_from_##D, x, (double)x)                                                 \
    LOOP(double, T, double_to_##D, v, of_double)                                                   \
    LOOP(T, int64_t, int_from_##D, x, x)                                                           \
    LOOP(int64_t, T, int_to_##D, v, of_int)
INTEGERS(X)
#undef X

typedef void loop(const void *in, void *out, int64_t n);
static const struct {
    loop *from, *to, *int_from, *int_to;
} loops[DL_NDTYPES] = {
#define X(D, T, a, b) [DL_##D] = {double_from_##D, double_to_##D, NULL, NULL},
    FLOATS(X)
#undef X
#define X(D, T, a, b) [DL_##D] = {double_from_##D, double_to_##D, int_from_##D, int_to_##D},
        INTEGERS(X)
#undef X
};

void dlr_convert(dl_dtype to, void *out, dl_dtype from, const void *in, int64_t n) {
    int to_bytes = dl_dtype_bytes(to), from_bytes = dl_dtype_bytes(from);
    if (to == from) {
        memcpy(out, in, (size_t)(n * to_bytes));
        return;
    }
    bool ints = loops[to].int_to && loops[from].int_from; /* exact above 2^53 too */
    loop *load = ints ? loops[from].int_from : loops[from].from;
    loop *store = ints ? loops[to].int_to : loops[to].to;
    union {
        double d[CHUNK];
        int64_t i[CHUNK];
    } wide;
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t part = n - at < CHUNK ? n - at : CHUNK;
        load((const char *)in + at * from_bytes, &wide, part);
        store(&wide, (char *)out + at * to_bytes, part);
    }
}
