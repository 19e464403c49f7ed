/* Each value of a kernel is of its own type: what an integer holds and a float of its size does
 * not, and truth values in memory, come out of compiled code as they should, in vectors and one at
 * a time. */
#include "tests/unit/compiled.h"

/* 2^24 + 1 elements in front of 8: a float cannot tell where the second part begins. */
static const char places[] =
    "graph @train {\n"
    "  input $a = %0 : f32[T=16777217]\n  input $b = %1 : f32[T=8]\n"
    "  %2 = cat $a, $b {axis=T} : f32[T=16777225]\n"
    "  %3 = iota {axis=T} : i32[T=16777225]\n"
    "  %4 = const {value=16777217} : i32[]\n  %5 = eq %3, %4 : bool[T=16777225]\n"
    "  %6 = cast %5 : i32[T=16777225]\n  %7 = sum %6 {over=[T]} : i32[]\n"
    "  %8 = iota {axis=T} : f32[T=16777225]\n"
    "  %9 = slice %8 {axis=T, start=16777210, stop=16777225} : f32[T=15]\n"
    "  %10 = slice %2 {axis=T, start=16777210, stop=16777225} : f32[T=15]\n"
    "  %11 = mul %10, %10 : f32[T=15]\n  %12 = add %9, %9 : f32[T=15]\n"
    "  output \"hits\" = %7\n  output \"end\" = %11\n  output \"numbers\" = %12\n  output \"all\" "
    "= %2\n}\n";

static void test_places(const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_exec *exec = open_plan(compile_text(arena, places, target, NULL), 2);
    if (exec) {
        float *a = malloc(16777217 * sizeof *a), b[8];
        for (int i = 0; i < 16777217; i++) a[i] = (float)(i % 5);
        for (int i = 0; i < 8; i++) b[i] = (float)(100 + i);
        write_input(exec, "a", a), write_input(exec, "b", b);
        free(a);
        dlr_exec_run(exec, 0, NULL);
        int *hits = read_output(exec, 0, "hits", DL_I32);
        float *all = read_output(exec, 0, "all", DL_F32),
              *end = read_output(exec, 0, "end", DL_F32);
        float *numbers = read_output(exec, 0, "numbers", DL_F32);
        CHECK(*hits == 1, "%s: one place is 2^24 + 1, not %d", target, *hits);
        for (int i = 16777210; i < 16777225; i++) {
            float want = i < 16777217 ? (float)(i % 5) : (float)(100 + i - 16777217);
            CHECK(all[i] == want, "%s: element %d is %g, not %g", target, i, (double)all[i],
                  (double)want);
            CHECK(end[i - 16777210] == want * want, "%s: square of element %d", target, i);
            CHECK(numbers[i - 16777210] == 2 * (float)i, "%s: number %d as a float", target, i);
        }
        free(hits), free(all), free(end), free(numbers);
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* Beyond what doubles (i64) and floats (i32) hold; casts; truth values from and to memory. %m is
 * stored, since two kernels over other points read it. */
static const char numbers[] =
    "graph @train {\n"
    "  input $l = %0 : i64[T=37]\n  input $i = %1 : i32[T=37]\n  input $x = %2 : f32[T=37]\n"
    "  input $t = %3 : bool[T=37]\n"
    "  %4 = const {value=1} : i64[]\n  %5 = add $l, %4 : i64[T=37]\n"
    "  %6 = reduce_max %5 {over=[T]} : i64[]\n  %7 = sum $l {over=[T]} : i64[]\n"
    "  %8 = const {value=3} : i32[]\n  %9 = mul $i, %8 : i32[T=37]\n"
    "  %10 = reduce_min %9 {over=[T]} : i32[]\n"
    "  %11 = cast $x : i32[T=37]\n  %12 = cast $i : f32[T=37]\n  %13 = cast $l : f32[T=37]\n"
    "  %14 = lt $i, %11 : bool[T=37]\n  %15 = not $t : bool[T=37]\n  %16 = or %14, %15 : "
    "bool[T=37]\n"
    "  %17 = cast %16 : i32[T=37]\n  %18 = select %16, $i, %11 : i32[T=37]\n"
    "  %19 = select $t, $x, %12 : f32[T=37]\n  %20 = abs $i : i32[T=37]\n  %21 = sign %20 : "
    "i32[T=37]\n"
    "  %22 = eq $t, %16 : bool[T=37]\n  %23 = gt $t, %16 : bool[T=37]\n"
    "  output \"next\" = %5\n  output \"most\" = %6\n  output \"sum\" = %7\n  output \"triple\" = "
    "%9\n"
    "  output \"least\" = %10\n  output \"cut\" = %11\n  output \"rounded\" = %12\n"
    "  output \"rounded_l\" = %13\n  output \"truth\" = %16\n  output \"counted\" = %17\n"
    "  output \"chosen\" = %18\n  output \"chosen_f\" = %19\n  output \"sign\" = %21\n"
    "  output \"equal\" = %22\n  output \"above\" = %23\n}\n";

enum { N = 37 };

#define EACH(NAME, T, DTYPE, WANT)                                                                 \
    {                                                                                              \
        T *got = read_output(exec, 0, NAME, DTYPE);                                                \
        for (int k = 0; got && k < N; k++)                                                         \
            CHECK(got[k] == (WANT), "%s, skip '%s': %s, element %d", target, skip ? skip : "",     \
                  NAME, k);                                                                        \
        free(got);                                                                                 \
    }
#define ONE(NAME, T, DTYPE, WANT)                                                                  \
    {                                                                                              \
        T *got = read_output(exec, 0, NAME, DTYPE);                                                \
        CHECK(got &&*got == (WANT), "%s, skip '%s': %s", target, skip ? skip : "", NAME);          \
        free(got);                                                                                 \
    }

static void test_numbers(const char *target, const char *skip) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_exec *exec = open_plan(compile_text(arena, numbers, target, skip), 1);
    if (exec) {
        int64_t l[N], most = INT64_MIN, sum = 0;
        int32_t i[N], least = INT32_MAX;
        float x[N];
        unsigned char t[N];
        for (int k = 0; k < N; k++) {
            l[k] = ((int64_t)1 << 53) + 2 * k * (k % 3 - 1) + 1, i[k] = (k - 18) * 16777217 / 2 + k;
            x[k] = (float)(k - 10) * 1e6f + 0.75f, t[k] = k % 3 == 0;
            if (l[k] + 1 > most) most = l[k] + 1;
            if (3 * i[k] < least) least = 3 * i[k];
            sum += l[k];
        }
        dlr_state_write(exec, dlr_exec_variable(exec, "l"), DL_I64, l);
        dlr_state_write(exec, dlr_exec_variable(exec, "i"), DL_I32, i);
        dlr_state_write(exec, dlr_exec_variable(exec, "x"), DL_F32, x);
        dlr_state_write(exec, dlr_exec_variable(exec, "t"), DL_BOOL, t);
        dlr_exec_run(exec, 0, NULL);
#define TRUTH (i[k] < (int32_t)x[k] || !t[k])
        EACH("next", int64_t, DL_I64, l[k] + 1);
        ONE("most", int64_t, DL_I64, most);
        ONE("sum", int64_t, DL_I64, sum);
        EACH("triple", int32_t, DL_I32, 3 * i[k]);
        ONE("least", int32_t, DL_I32, least);
        EACH("cut", int32_t, DL_I32, (int32_t)x[k]);
        EACH("rounded", float, DL_F32, (float)i[k]);
        EACH("rounded_l", float, DL_F32, (float)l[k]);
        EACH("truth", unsigned char, DL_BOOL, TRUTH);
        EACH("counted", int32_t, DL_I32, TRUTH);
        EACH("chosen", int32_t, DL_I32, TRUTH ? i[k] : (int32_t)x[k]);
        EACH("chosen_f", float, DL_F32, t[k] ? x[k] : (float)i[k]);
        EACH("sign", int32_t, DL_I32, i[k] != 0);
        EACH("equal", unsigned char, DL_BOOL, t[k] == TRUTH);
        EACH("above", unsigned char, DL_BOOL, t[k] > TRUTH);
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* Sums and largest that a later loop of the same kernel reads, by lanes along the outer of their
 * two axes: what is written lies the other way round. */
static const char turned[] =
    "graph @train {\n"
    "  input $x = %0 : f32[C=700, A=13, B=37]\n  input $i = %1 : i32[C=700, A=13, B=37]\n"
    "  input $u = %2 : f32[B=37, A=13]\n  input $v = %3 : i32[B=37, A=13]\n"
    "  %4 = sum $x {over=[C]} : f32[A=13, B=37]\n  %5 = sum %4 {over=[A, B]} : f32[]\n"
    "  %6 = sub %4, %5 : f32[A=13, B=37]\n  %7 = add $u, %6 : f32[B=37, A=13]\n"
    "  %8 = reduce_max $i {over=[C]} : i32[A=13, B=37]\n  %9 = sum %8 {over=[A, B]} : i32[]\n"
    "  %10 = sub %8, %9 : i32[A=13, B=37]\n  %11 = add $v, %10 : i32[B=37, A=13]\n"
    "  %12 = const {value=20} : i32[]\n  %13 = gt %8, %12 : bool[A=13, B=37]\n"
    "  %14 = cast %13 : f32[A=13, B=37]\n  %15 = sum %14 {over=[A, B]} : f32[]\n"
    "  %16 = broadcast %13 : bool[B=37, A=13]\n  %17 = select %16, $u, %15 : f32[B=37, A=13]\n"
    "  output \"floats\" = %7\n  output \"whole\" = %11\n  output \"chosen\" = %17\n}\n";

static void test_turned(const char *target) {
    enum { A = 13, B = 37, C = 700 };
    dl_arena *arena = dl_arena_new(NULL);
    dlr_exec *exec = open_plan(compile_text(arena, turned, target, NULL), 2);
    if (exec) {
        static float x[C][A][B], u[B][A];
        static int32_t i[C][A][B], v[B][A];
        float sum[A][B], all = 0, above = 0; /* whole numbers, which floats hold */
        int32_t most[A][B], total = 0;
        for (int a = 0; a < A; a++)
            for (int b = 0; b < B; b++) {
                u[b][a] = (float)(100 * a + b) / 4, v[b][a] = 100 * a + b;
                sum[a][b] = 0, most[a][b] = INT32_MIN;
                for (int c = 0; c < C; c++) {
                    i[c][a][b] = (7 * a + 11 * b + 13 * c) % 29 - a * b % 17,
                    x[c][a][b] = (float)(i[c][a][b] - 14);
                    sum[a][b] += x[c][a][b];
                    if (i[c][a][b] > most[a][b]) most[a][b] = i[c][a][b];
                }
                all += sum[a][b], total += most[a][b], above += most[a][b] > 20;
            }
        write_input(exec, "x", x), write_input(exec, "i", i);
        write_input(exec, "u", u), write_input(exec, "v", v);
        dlr_exec_run(exec, 0, NULL);
        float *floats = read_output(exec, 0, "floats", DL_F32),
              *chosen = read_output(exec, 0, "chosen", DL_F32);
        int32_t *whole = read_output(exec, 0, "whole", DL_I32);
        for (int a = 0; a < A; a++)
            for (int b = 0; b < B; b++) {
                int at = b * A + a;
                CHECK(floats[at] == u[b][a] + (sum[a][b] - all), "%s: float %d, %d", target, a, b);
                CHECK(whole[at] == v[b][a] + most[a][b] - total, "%s: whole number %d, %d", target,
                      a, b);
                CHECK(chosen[at] == (most[a][b] > 20 ? u[b][a] : above), "%s: choice %d, %d",
                      target, a, b);
            }
        free(floats), free(chosen), free(whole);
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* An op without code yet is a located error, whatever the types. */
static void test_refused(void) {
    static const compiled_refusal rows[] = {
        {"graph @train {\n  input $x = %0 : i32[T=4]\n  %1 = const {value=0.5} : i32[]   # "
         "m.dl:3:5\n"
         "  %2 = add $x, %1 : i32[T=4]   # m.dl:3:5\n  output \"y\" = %2\n}\n",
         "m.dl:3:5: error: the constant 0.5 is no number of i32 [DL-E0803]", DL_INPUT},
    };
    check_refusals(rows, sizeof rows / sizeof *rows);
}

int main(void) {
    char dir[] = "/tmp/dl_typed_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int t = 0; t < COMPILED_TARGETS; t++) {
        if (takes_on_target(t, 0)) test_places(compiled_targets[t]);
        if (takes_on_target(t, 1)) test_turned(compiled_targets[t]);
        if (takes_on_target(t, 0)) test_numbers(compiled_targets[t], NULL);
        if (takes_on_target(t, 1)) test_numbers(compiled_targets[t], "fuse");
    }
    test_refused();
    return dl_test_end();
}
