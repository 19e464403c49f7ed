/* The vectors' own functions keep what their comments promise, in units of the last place, on every
 * target, at a float in every few of those that there are. */
#include <math.h>

#include "tests/unit/compiled.h"

enum { COUNT = 1 << 20 };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static const struct {
    const char *op;
    double (*exact)(double);
    double ulps, low, high; /* where it is asked for, next to numbers of every exponent */
    double least;           /* results below it may be 0 */
} functions[] = {{"exp", exp, 2, -104, 89, 0},      {"tanh", tanh, 3, -12, 12, 0},
                 {"erf", erf, 2, -5, 5, 0},         {"sigmoid", sigmoid, 4, -87, 87, 0x1p-126},
                 {"log", log, 1, 0, 4, 0},          {"log1p", log1p, 1, -1, 3, 0},
                 {"expm1", expm1, 1.6, -20, 89, 0}, {"sin", sin, 1, -20, 20, 0},
                 {"cos", cos, 1, -13000, 13000, 0}, {"floor", floor, 0, -9, 9, 0}};
enum { NFUNCTIONS = sizeof functions / sizeof *functions };

/* Evenly from low to high in the first half; every exponent, both signs in the second. NaNs are
 * quiet: C says nothing of signalling ones. */
static float point(int i, double low, double high) {
    if (i < COUNT / 2) return (float)(low + (high - low) * i / (COUNT / 2 - 1));
    union {
        uint32_t word;
        float f;
    } v = {.word = (uint32_t)(i - COUNT / 2) * (UINT32_MAX / (COUNT / 2)) + 1};
    if (isnan(v.f)) v.word |= 0x400000;
    return v.f;
}

/* Distance in units of the last place of the exact value; below the normal range those of its end.
 */
static double ulps(double got, double want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    if ((float)want == (float)got) return 0;
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

/* Functions of two arguments: the second one is asked for in another order. */
static const struct {
    const char *op;
    double (*exact)(double, double);
    double ulps;
} pairs[] = {{"atan2", atan2, 2}, {"pow", pow, 1}};
enum { NPAIRS = sizeof pairs / sizeof *pairs };

/* Numbers that a function of two treats by themselves: all pairs of them come at the end. */
static const float special[] = {0,      -0.0f,    1,         -1,         2,     -2,
                                3,      -3,       0.5f,      -0.5f,      1.5f,  -1.5f,
                                1e-40f, -1e-40f,  3e38f,     -3e38f,     33.0f, -33.0f,
                                NAN,    INFINITY, -INFINITY, 16777217.f, -7.0f, 1e-30f};
enum { SPECIAL = sizeof special / sizeof *special };

static void fill_pairs(float *x, float *z) {
    for (int i = 0; i < COUNT; i++) {
        x[i] = point(i, -4, 4);
        z[i] = point((int)((int64_t)i * 7919 % COUNT), -9, 9);
        if (i % 3 == 0) z[i] = floorf(z[i]);
    }
    for (int i = 0; i < SPECIAL * SPECIAL; i++)
        x[i] = special[i / SPECIAL], z[i] = special[i % SPECIAL];
}

/* Runs `op` on $x, or on $x and $z; NULL: not on this machine, or it failed. */
static float *result_of(dl_arena *arena, const char *target, const char *op, const float *x,
                        const float *z) {
    const char *text =
        dl_format(arena,
                  "graph @train {\n  input $x = %%0 : f32[N=%d]\n%s"
                  "  %%2 = %s $x%s : f32[N=%d]\n  output \"y\" = %%2\n}\n",
                  COUNT, z ? dl_format(arena, "  input $z = %%1 : f32[N=%d]\n", COUNT) : "", op,
                  z ? ", $z" : "", COUNT);
    dlr_exec *exec = open_plan(compile_text(arena, text, target, NULL), 2);
    if (!exec) return NULL;
    write_input(exec, "x", x);
    if (z) write_input(exec, "z", z);
    dlr_exec_run(exec, 0, NULL);
    float *y = read_output(exec, 0, "y", DL_F32);
    dlr_exec_close(exec);
    return y;
}

static void test_function(const char *target, int f) {
    dl_arena *arena = dl_arena_new(NULL);
    static float x[COUNT];
    float worst = 0;
    double most = 0;
    for (int i = 0; i < COUNT; i++) x[i] = point(i, functions[f].low, functions[f].high);
    x[COUNT - 2] = 0, x[COUNT - 1] = -0.0f;
    float *y = result_of(arena, target, functions[f].op, x, NULL);
    for (int i = 0; y && i < COUNT; i++) {
        double want = functions[f].exact((double)x[i]);
        double off = y[i] == 0 && fabs(want) < functions[f].least ? 0 : ulps((double)y[i], want);
        if (x[i] == 0 && want == 0 && !signbit(y[i]) != !signbit(want)) off = INFINITY;
        if (off > most) most = off, worst = x[i];
    }
    if (y) printf("%s, %s: %.2f ulp at %.9g\n", target, functions[f].op, most, (double)worst);
    CHECK(most <= functions[f].ulps, "%s, %s: %.2f ulp at %.9g", target, functions[f].op, most,
          (double)worst);
    free(y);
    dl_arena_free(arena);
}

static void test_pair(const char *target, int f) {
    dl_arena *arena = dl_arena_new(NULL);
    static float x[COUNT], z[COUNT];
    int worst = 0;
    double most = 0;
    fill_pairs(x, z);
    float *y = result_of(arena, target, pairs[f].op, x, z);
    for (int i = 0; y && i < COUNT; i++) {
        double want = pairs[f].exact((double)x[i], (double)z[i]), off = ulps((double)y[i], want);
        if (y[i] == 0 && want == 0 && !signbit(y[i]) != !signbit(want)) off = INFINITY;
        if (off > most) most = off, worst = i;
    }
    if (y)
        printf("%s, %s: %.2f ulp at %.9g, %.9g\n", target, pairs[f].op, most, (double)x[worst],
               (double)z[worst]);
    CHECK(most <= pairs[f].ulps, "%s, %s: %.2f ulp at %.9g, %.9g", target, pairs[f].op, most,
          (double)x[worst], (double)z[worst]);
    free(y);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_functions_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int t = 0; t < COMPILED_TARGETS; t++) {
        for (int f = 0; f < NFUNCTIONS; f++) test_function(compiled_targets[t], f);
        for (int f = 0; f < NPAIRS; f++) test_pair(compiled_targets[t], f);
    }
    return dl_test_end();
}
