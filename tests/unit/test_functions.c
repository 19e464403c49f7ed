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
} functions[] = {{"exp", exp, 2, -104, 89, 0},
                 {"tanh", tanh, 3, -12, 12, 0},
                 {"erf", erf, 2, -5, 5, 0},
                 {"sigmoid", sigmoid, 4, -87, 87, 0x1p-126}};
enum { NFUNCTIONS = sizeof functions / sizeof *functions };

/* Evenly from low to high in the first half; every exponent, both signs in the second. */
static float point(int i, double low, double high) {
    if (i < COUNT / 2) return (float)(low + (high - low) * i / (COUNT / 2 - 1));
    union {
        uint32_t word;
        float f;
    } v = {.word = (uint32_t)(i - COUNT / 2) * (UINT32_MAX / (COUNT / 2)) + 1};
    return v.f;
}

/* Distance in units of the last place of the exact value; below the normal range those of its end.
 */
static double ulps(double got, double want) {
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if ((float)want == (float)got) return 0;
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static void test_function(const char *target, int f) {
    dl_arena *arena = dl_arena_new(NULL);
    char *text = dl_format(
        arena,
        "graph @train {\n  input $x = %%0 : f32[N=%d]\n  %%1 = %s $x : f32[N=%d]\n  output "
        "\"y\" = %%1\n}\n",
        COUNT, functions[f].op, COUNT);
    dlr_exec *exec = open_plan(compile_text(arena, text, target, NULL), 2);
    if (exec) {
        static float x[COUNT];
        float worst = 0;
        for (int i = 0; i < COUNT; i++) x[i] = point(i, functions[f].low, functions[f].high);
        write_input(exec, "x", x);
        dlr_exec_run(exec, 0, NULL);
        float *y = read_output(exec, 0, "y", DL_F32);
        double most = 0;
        for (int i = 0; i < COUNT; i++) {
            double want = functions[f].exact((double)x[i]);
            double off =
                y[i] == 0 && fabs(want) < functions[f].least ? 0 : ulps((double)y[i], want);
            if (off > most) most = off, worst = x[i];
        }
        free(y);
        printf("%s, %s: %.2f ulp at %.9g\n", target, functions[f].op, most, (double)worst);
        CHECK(most <= functions[f].ulps, "%s, %s: %.2f ulp at %.9g", target, functions[f].op, most,
              (double)worst);
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_functions_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int t = 0; t < COMPILED_TARGETS; t++)
        for (int f = 0; f < NFUNCTIONS; f++) test_function(compiled_targets[t], f);
    return dl_test_end();
}
