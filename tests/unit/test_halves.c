/* f16 and bf16 in memory: every conversion to the last bit, on every target, in vectors and one at
 * a time; what a value of such a type becomes inside a kernel; and the accesses that are no
 * straight line. The oracle is the interpreter's rounding, which test_interp holds against exact
 * arithmetic. */
#include <math.h>

#include "ir/interp/interp.h"
#include "ir/interp/interp_parts.h"
#include "tests/unit/compiled.h"

enum { ALL = 1 << 16, COUNT = 1 << 18 };

/* Floats of every exponent, whose digits lie at ties of either type and next to them. */
static float awkward(uint32_t i) {
    static const uint32_t ends[] = {0,       1,       0xfff,  0x1000,  0x1001, 0x2fff,
                                    0x3000,  0x3001,  0x7fff, 0x8000,  0x8001, 0x17fff,
                                    0x18000, 0x18001, 0xffff, 0x7fffff};
    union {
        uint32_t word;
        float f;
    } v = {.word = (i * 2654435761u & ~(uint32_t)0x1ffff) ^ ends[i % 16]};
    return v.f;
}

static double half_value(dl_dtype d, uint16_t h) {
    if (d == DL_BF16) {
        union {
            uint32_t word;
            float f;
        } v = {.word = (uint32_t)h << 16};
        return (double)v.f;
    }
    int exponent = h >> 10 & 31, digits = h & 1023;
    double size = exponent == 31
                      ? (digits ? NAN : INFINITY)
                      : ldexp(digits + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
    return h & 0x8000 ? -size : size;
}

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* `@` stands for the type, `!` for the other one. Next to an f64 or an i64 no vectors are used. */
static const char program[] =
    "graph @train {\n  input $x = %0 : f32[N=262144]\n  input $h = %1 : @[M=65536]\n"
    "  input $i = %20 : i32[N=262144]\n  input $d = %21 : f64[N=262144]\n"
    "  %2 = cast $x : @[N=262144]\n  %3 = cast %2 : f32[N=262144]\n"
    "  %4 = cast $h : f32[M=65536]\n  %5 = cast $h : ![M=65536]\n  %6 = cast %5 : f32[M=65536]\n"
    "  %7 = cast $i : @[N=262144]\n  %8 = cast $d : @[N=262144]\n  %9 = cast %8 : i32[N=262144]\n"
    "  %10 = add %2, %7 : @[N=262144]\n  %11 = cast %2 : f64[N=262144]\n"
    "  %12 = slice $h {axis=M, start=5, stop=1003} : @[M=998]\n"
    "  %13 = pad %12 {axis=M, pad_lo=[3], pad_hi=[2]} : @[M=1003]\n"
    "  %14 = reduce_max %2 {over=[N]} : @[]\n  %15 = const {value=0.1} : @[]\n"
    "  %16 = mul %7, %15 : @[N=262144]\n"
    "  output \"narrow\" = %2\n  output \"round\" = %3\n  output \"wide\" = %4\n"
    "  output \"other\" = %5\n  output \"other_wide\" = %6\n  output \"whole\" = %7\n"
    "  output \"doubles\" = %8\n  output \"back\" = %9\n  output \"sum\" = %10\n"
    "  output \"double\" = %11\n  output \"padded\" = %13\n  output \"largest\" = %14\n"
    "  output \"tenth\" = %16\n}\n";

static char *text_of(dl_arena *arena, const char *type, const char *other) {
    dl_buf b = {0};
    for (const char *c = program; *c; c++)
        if (*c == '@' && c[1] != 't')
            dl_puts(&b, type);
        else if (*c == '!')
            dl_puts(&b, other);
        else
            dl_putn(&b, c, 1);
    char *text = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return text;
}

static double rounded(dl_dtype d, double v) { return dl_interp_convert(d, v, true); }

/* Element k of the output `name` wants WANT. */
#define EACH(NAME, N, WANT)                                                                        \
    {                                                                                              \
        double *got = read_output(exec, 0, NAME, DL_F64);                                          \
        int off = 0, at = 0;                                                                       \
        for (int k = (N)-1; got && k >= 0; k--)                                                    \
            if (!same(got[k], (WANT))) off++, at = k;                                              \
        CHECK(got && !off, "%s, %s, skip '%s': %s: %d off, first at %d", target, dl_dtype_name(d), \
              skip ? skip : "", NAME, off, at);                                                    \
        free(got);                                                                                 \
    }

static void test_type(const char *target, dl_dtype d, dl_dtype other, const char *skip) {
    dl_arena *arena = dl_arena_new(NULL);
    char *text = text_of(arena, dl_dtype_name(d), dl_dtype_name(other));
    dlr_exec *exec = open_plan(compile_text(arena, text, target, skip), 2);
    if (exec) {
        static float x[COUNT];
        static uint16_t h[ALL];
        static int i[COUNT];
        static double v[COUNT];
        for (int k = 0; k < COUNT; k++) {
            x[k] = awkward((uint32_t)k), i[k] = (int)((uint32_t)k * 2654435761u) >> k % 31;
            v[k] = (double)awkward((uint32_t)(COUNT - k));
            if (k % 3)
                v[k] *=
                    1 + (k % 3 == 1 ? 0x1p-40 : -0x1p-40); /* next to a tie, as no float can lie */
        }
        for (int k = 0; k < ALL; k++) h[k] = (uint16_t)k;
        write_input(exec, "x", x), write_input(exec, "h", h);
        write_input(exec, "i", i), write_input(exec, "d", v);
        dlr_exec_run(exec, 0, NULL);
#define X ((double)x[k])
        EACH("narrow", COUNT, rounded(d, X));
        EACH("round", COUNT, rounded(d, X));
        EACH("wide", ALL, half_value(d, h[k]));
        EACH("other", ALL, rounded(other, half_value(d, h[k])));
        EACH("other_wide", ALL, rounded(other, half_value(d, h[k])));
        EACH("whole", COUNT, rounded(d, i[k]));
        EACH("doubles", COUNT, rounded(d, v[k]));
        EACH("back", COUNT, dl_interp_convert(DL_I32, rounded(d, v[k]), true) + 0.0);
        EACH("sum", COUNT, rounded(d, rounded(d, X) + rounded(d, i[k])));
        EACH("double", COUNT, rounded(d, X));
        EACH("padded", 1003, k < 3 || k > 1000 ? 0 : half_value(d, h[k + 2]));
        EACH("largest", 1, NAN);
        /* a constant is not stored, and thus not rounded, as PyTorch's scalars are not */
        EACH("tenth", COUNT, rounded(d, rounded(d, i[k]) * (double)0.1F));
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_halves_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int t = 0; t < COMPILED_TARGETS; t++)
        for (unsigned skip = 0; skip < 2; skip++) {
            const char *without = skip ? "fuse" : NULL;
            if (takes_on_target(t, skip)) test_type(compiled_targets[t], DL_F16, DL_BF16, without);
            if (takes_on_target(t, !skip)) test_type(compiled_targets[t], DL_BF16, DL_F16, without);
        }
    return dl_test_end();
}
