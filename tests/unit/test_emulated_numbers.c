/* The functions of CUDA sources on the CPU: conversions of all 16-bit patterns, ir/ops.def's
 * functions next to the C library's in double, what lies at the edges; sums of contractions that
 * are made one by one. */
#include "tests/unit/emulated.h"
#include "tests/unit/sixteen_bits.h"

enum { PATTERNS = 1 << 16 };

static bool same(double got, double want) {
    return isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
}

/* Near the numbers that 16 bits can hold: exactly, half way to the next, a little to both sides of
 * that; and numbers of all sizes. */
static float near_half(int i) {
    uint16_t h = (uint16_t)(i * 40503);
    int digits = i % 2 ? 10 : 7, exponent = 15 - digits;
    double a = widen_16(h, exponent, digits), b = widen_16((uint16_t)(h + 1), exponent, digits);
    if (i % 16 == 14) return ldexpf(number(i), i / 16 % 300 - 160);
    if (i % 16 == 15) return i % 32 == 15 ? NAN : i % 64 == 31 ? INFINITY : -INFINITY;
    double v = i / 2 % 4 == 0 ? a : (a + b) / 2;
    if (!isfinite(v)) return (float)v;
    float f = (float)v;
    return i / 2 % 4 == 2 ? nextafterf(f, INFINITY) : i / 2 % 4 == 3 ? nextafterf(f, -INFINITY) : f;
}

/* Rounded to odd: what lies between two floats has the one whose last digit is set. */
static double odd(double d) {
    float f = (float)d, other = (double)f < d ? nextafterf(f, INFINITY) : nextafterf(f, -INFINITY);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (double)f == d || isnan(d) || bits & 1 ? (double)f : (double)other;
}

static void test_halves(void) {
    static float x[PATTERNS], wide_f16[PATTERNS], wide_bf16[PATTERNS], rounded[3 * PATTERNS],
        odds[PATTERNS];
    static double d[PATTERNS];
    static uint16_t narrow_f16[PATTERNS], narrow_bf16[PATTERNS];
    static uint32_t pairs[2 * PATTERNS];
    int wrong[6] = {0};
    for (int i = 0; i < PATTERNS; i++)
        x[i] = near_half(i), d[i] = ((double)x[i] + (double)x[i] * 0x1p-30 * (i % 3 - 1));
    CHECK(RUN("halves_0", 256, 256, 0, 1, x, d, wide_f16, wide_bf16, narrow_f16, narrow_bf16, pairs,
              rounded, odds),
          "%s", error);
    for (int i = 0; i < PATTERNS; i++) {
        uint16_t f16 = narrow_16(x[i], 5, 10), bf16 = narrow_16(x[i], 8, 7);
        wrong[0] += !same((double)wide_f16[i], widen_16((uint16_t)i, 5, 10)) +
                    !same((double)wide_bf16[i], widen_16((uint16_t)i, 8, 7));
        bool nan = isnan(x[i]);
        wrong[1] += nan ? (narrow_f16[i] & 0x7fff) <= 0x7c00 : narrow_f16[i] != f16;
        wrong[2] += nan ? (narrow_bf16[i] & 0x7fff) <= 0x7f80 : narrow_bf16[i] != bf16;
        wrong[3] += pairs[2 * i] != (narrow_f16[i] | (uint32_t)narrow_f16[i ^ 1] << 16) ||
                    pairs[2 * i + 1] != (narrow_bf16[i] | (uint32_t)narrow_bf16[i ^ 1] << 16);
        uint32_t bits, down;
        memcpy(&bits, &x[i], sizeof bits);
        down = bits & 0xffffe000;
        if (bits & 0x1000) down += 0x2000; /* ties away from zero, into infinity */
        float tf32;
        memcpy(&tf32, &down, sizeof tf32);
        wrong[4] += !same((double)rounded[3 * i], widen_16(f16, 5, 10)) +
                    !same((double)rounded[3 * i + 1], widen_16(bf16, 8, 7)) +
                    !same((double)rounded[3 * i + 2], nan ? (double)NAN : (double)tf32);
        wrong[5] += !same((double)odds[i], odd(d[i]));
    }
    static const char *const what[] = {"widened", "f16", "bf16", "pairs", "rounded", "odd"};
    for (int i = 0; i < 6; i++) CHECK(wrong[i] == 0, "%s: %d of 65,536 wrong", what[i], wrong[i]);

    static _Alignas(64) float lots[256], back[512];
    static _Alignas(64) uint16_t h[256], b[256];
    for (int i = 0; i < 256; i++) lots[i] = number(i);
    CHECK(RUN("lots_0", 1, 32, 0, 1, lots, back, h, b), "%s", error);
    int bad = 0;
    for (int i = 0; i < 256; i++)
        bad += h[i] != narrow_16(lots[i], 5, 10) || b[i] != narrow_16(lots[i], 8, 7) ||
               (double)back[i] != widen_16(h[i], 5, 10) ||
               (double)back[256 + i] != widen_16(b[i], 8, 7);
    CHECK(bad == 0, "%d of 256 elements in rows of 16 bytes", bad);
}

enum { FUNCTIONS = 17, EDGES = 13, CASES = 32 * 40 };
static const char *const names[FUNCTIONS] = {"max",   "min",   "abs",   "sign", "exp",     "log",
                                             "expm1", "log1p", "sqrt",  "tanh", "sigmoid", "sin",
                                             "cos",   "erf",   "floor", "pow",  "atan2"};
static void functions(double a, double b, double y[FUNCTIONS]) {
    bool nan = isnan(a) || isnan(b);
    const double values[FUNCTIONS] = {nan ? (double)NAN : fmax(a, b),
                                      nan ? (double)NAN : fmin(a, b),
                                      fabs(a),
                                      (a > 0) - (a < 0), /* 0 of a NaN */
                                      exp(a),
                                      log(a),
                                      expm1(a),
                                      log1p(a),
                                      sqrt(a),
                                      tanh(a),
                                      1 / (1 + exp(-a)),
                                      sin(a),
                                      cos(a),
                                      erf(a),
                                      floor(a),
                                      pow(a, b),
                                      atan2(a, b)};
    memcpy(y, values, sizeof values);
}

static int compared(double a, double b) {
    return (a == b) | (a != b) << 1 | (a < b) << 2 | (a <= b) << 3 | (a > b) << 4 | (a >= b) << 5;
}

/* Near enough as a float: within 4 units in the last place, or of the smallest normal number. */
static bool near_float(double got, double want) {
    if (isnan(want) || isinf(want) || fabs(want) > (double)3.4028235e38f)
        return isnan(want) ? isnan(got) : isinf(got) && (got > 0) == (want > 0);
    return fabs(got - want) <= 4 * (0x1p-23 * fabs(want) + 0x1p-149);
}

static void test_functions(void) {
    static const float edges[EDGES] = {NAN,    INFINITY, -INFINITY, 0.0f,   -0.0f, 1.0f,   -1.0f,
                                       1e-40f, -1e-40f,  3e38f,     -3e38f, 88.0f, -104.0f};
    static float x[CASES], z[CASES], s[CASES * FUNCTIONS], fast[CASES * 2];
    static double d[CASES * FUNCTIONS];
    static int compares[CASES * 4];
    for (int i = 0; i < CASES; i++) {
        x[i] = i < EDGES * EDGES ? edges[i / EDGES] : number(i) * (float)(1 << i % 6);
        z[i] = i < EDGES * EDGES ? edges[i % EDGES] : i % 5 ? number(i + CASES) : x[i];
    }
    CHECK(RUN("functions_0", CASES / 32, 32, 0, 1, x, z, s, d, compares, fast), "%s", error);
    int wrong[FUNCTIONS] = {0}, compare = 0, quick = 0;
    for (int i = 0; i < CASES; i++) {
        double a = (double)x[i], b = (double)z[i], y[FUNCTIONS];
        functions(a, b, y);
        for (int f = 0; f < FUNCTIONS; f++) {
            double float_got = (double)s[i * FUNCTIONS + f], got = d[i * FUNCTIONS + f];
            wrong[f] += !near_float(float_got, y[f]) +
                        !(same(got, y[f]) || fabs(got - y[f]) <= 4 * 0x1p-52 * fabs(y[f]));
        }
        int ia = (int)fmaxf(fminf(x[i], 1e6f), -1e6f), ib = (int)fmaxf(fminf(z[i], 1e6f), -1e6f);
        if (isnan(x[i]) || isnan(z[i])) continue; /* made an int, a NaN may be any */
        int most = ia > ib ? ia : ib, least = ia > ib ? ib : ia;
        compare += compares[4 * i] != (compared(a, b) | (a < b) << 6) ||
                   compares[4 * i + 1] != (compared(a, b) | compared(ia, ib) << 8) ||
                   compares[4 * i + 2] != (compared(ia, ib) | compared(ia != 0, ib != 0) << 8) ||
                   compares[4 * i + 3] != most - least + abs(ia) * ((ia > 0) - (ia < 0)) + most;
        double power = exp2(fabs(a) < 0x1p-126 ? 0 : a), rcp = 1 / (fabs(a) < 0x1p-126 ? a * 0 : a);
        quick += !near_float((double)fast[2 * i], power < 0x1p-126 ? 0 : power) +
                 !near_float((double)fast[2 * i + 1], fabs(rcp) < 0x1p-126 ? 0 : rcp);
    }
    for (int f = 0; f < FUNCTIONS; f++) CHECK(wrong[f] == 0, "%s: %d wrong", names[f], wrong[f]);
    CHECK(compare == 0 && quick == 0, "%d comparisons and functions of whole numbers, %d fast ones",
          compare, quick);

    float f[3] = {0};
    double n[5] = {0};
    CHECK(RUN("numbers_0", 1, 32, 0, 0, f, n), "%s", error);
    CHECK(isinf(f[0]) && f[0] > 0 && isinf(f[1]) && f[1] < 0 && isnan(f[2]) && isinf(n[0]) &&
          n[0] > 0 && isinf(n[1]) && n[1] < 0 && isnan(n[2]) && n[3] == -0x1p63 && n[4] == -0x1p31);
}

/* Can the processor make one of a product and a sum? As compiler/cuda/emulate.c asks. */
static bool fuses(void) {
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false; /* not known */
#endif
}

/* The rest of a product when its rounded self is taken away: its rounding, where the two are
 * one, as NVRTC makes them; nothing, where the text says that each is rounded by itself. */
static void test_fused(void) {
    double x[32], y[32], d[32];
    float s[32];
    int left = 0, wrong = 0;
    for (int i = 0; i < 32; i++) {
        x[i] = (double)number(i) / 3, y[i] = (double)number(~i) / 3;
        d[i] = x[i] * y[i], s[i] = (float)x[i] * (float)y[i];
    }
    CHECK(RUN("fused_0", 1, 32, 0, 1, x, y, s, d), "%s", error);
    for (int i = 0; i < 32; i++) {
        float fx = (float)x[i], fy = (float)y[i];
        bool one = i % 3 == 0;
        left += one && s[i] != 0 && d[i] != 0;
        if (one && !fuses()) continue;
        wrong += s[i] != (one ? fmaf(fx, fy, -(fx * fy)) : 0) ||
                 d[i] != (one ? fma(x[i], y[i], -(x[i] * y[i])) : 0);
    }
    CHECK(wrong == 0 && (left > 5 || !fuses()), "%d wrong, of %d a rounding is left", wrong, left);
}

extern const char dl_cuda_kernels_contract[];

/* Sums one by one compared with doubles, with no NaN from what lies outside; the right operand is
 * read once for the four rows that a thread has, the left one where it is inside.
 * tests/unit/direct_kernels.cu */
static void test_alone(void) {
    enum { GROUPS = 27, ROWS = 30, TERMS = 65, OWN = 4 }; /* terms: two chains of 32, and one */
    static float left[GROUPS * ROWS * TERMS], right[GROUPS * TERMS], got[GROUPS * ROWS], loads[2];
    static double want[GROUPS * ROWS];
    dl_error err = {0};
    const char *text = dl_read_file(arena, "tests/unit/direct_kernels.cu", 1 << 20, NULL, &err);
    CHECK(text, "%s", err.message);
    if (!text || !load(dl_format(arena, "%s%s%s%s", dl_cuda_kernels_emulated,
                                 dl_cuda_kernels_prelude, dl_cuda_kernels_contract, text)))
        return;
    int inside = 0, wrong = 0;
    for (int i = 0; i < GROUPS * TERMS; i++) right[i] = number(i);
    for (int i = 0; i < GROUPS * ROWS * TERMS; i++) {
        bool in = (i / TERMS + i % TERMS) % 5 != 0;
        left[i] = in ? number(~i) : NAN, inside += in;
        if (in)
            want[i / TERMS] +=
                (double)left[i] * (double)right[i / (ROWS * TERMS) * TERMS + i % TERMS];
    }
    for (unsigned seed = 0; seed < 2; seed++) {
        loads[0] = loads[1] = 0;
        CHECK(RUN("alone", 1, 256, 32 * 40 * 4, seed, left, right, got, loads), "%s", error);
        for (int i = 0; i < GROUPS * ROWS; i++) wrong += !(fabs((double)got[i] - want[i]) < 1e-4);
        CHECK(wrong == 0 && (int)loads[0] == inside, "%d wrong, %g of %d read", wrong,
              (double)loads[0], inside);
        CHECK((int)loads[1] == (ROWS + OWN - 1) / OWN * GROUPS * TERMS, "%g read",
              (double)loads[1]);
    }
    dl_object_unload(&object);
}

int main(void) {
    static char cache[] = "/tmp/dlc_emulated_XXXXXX";
    if (!begin(cache)) return 77;
    if (load(source_with(NULL, NULL, NULL, NULL))) {
        test_halves();
        test_functions();
        test_fused();
        dl_object_unload(&object);
    }
    test_alone();
    end(cache);
    return dl_test_end();
}
