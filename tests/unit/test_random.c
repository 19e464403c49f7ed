/* Random numbers of a step: the same from compiled kernels (each target, threads, fusion, layout),
 * from the interpreter and from their definition; and masks that are as random, and as independent,
 * as they should be. Known answers of Philox itself: test_rng.c. */
#include <math.h>

#include "ir/base/philox.h"
#include "ir/interp/interp.h"
#include "tests/unit/compiled.h"

/* The state that is drawn by: the element's part, of whose elements there are `count`; -1: there
 * are no parts. */
typedef struct {
    int64_t seed, step, part;
} source;

static double number_at(int64_t seed, int64_t step, uint32_t number, uint64_t element) {
    return (double)dl_unit_float(dl_random_word((uint64_t)seed, (uint64_t)step, number, element));
}

/* Straight through memory; in rows of no whole vectors; channels last, where neighbours in memory
 * are far apart in number; parts of a tensor of more than 2^34 elements, which is never stored; a
 * number for a row, also of that tensor. */
static const char draws[] =
    "graph @train {\n"
    "  hyper $seed = %0 : i64[]\n  state $step = %1 : i64[]\n"
    "  input $a = %2 : f32[N=3, T=41]\n  input $x = %3 : f32[N=2, C=19, H=5, W=3]\n"
    "  param $w = %4 : f32[O=19, C=19, kH=1, kW=1] init zero\n"
    "  %5 = random $seed, $step {number=0} : f32[N=3, T=41]\n  %6 = add $a, %5 : f32[N=3, T=41]\n"
    "  %7 = random $seed, $step {number=16777215} : f32[N=3]\n  %8 = mul %7, $a : f32[N=3, T=41]\n"
    "  %9 = conv $x, $w {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[N=2, C=19, H=5, W=3]\n"
    "  %10 = random $seed, $step {number=7} : f32[N=2, C=19, H=5, W=3]\n"
    "  %11 = add %9, %10 : f32[N=2, C=19, H=5, W=3]\n"
    "  %12 = random $seed, $step {number=1} : f32[A=1048578, B=16384]\n"
    "  %13 = slice %12 {axis=A, start=1048575, stop=1048578} : f32[A=3, B=16384]\n"
    "  %14 = slice %13 {axis=B, start=16321, stop=16382} : f32[A=3, B=61]\n  %15 = neg %14 : "
    "f32[A=3, B=61]\n"
    "  %30 = slice %13 {axis=B, start=9, stop=10} : f32[A=3, B=1]\n"
    "  %31 = squeeze %30 {axis=B} : f32[A=3]\n  %32 = rename %31 : f32[N=3]\n"
    "  %33 = mul %32, $a : f32[N=3, T=41]\n"
    "  %16 = random $seed, $step {number=2} : f32[K=1003]\n"
    "  %17 = random $seed, $step {number=3} : f64[K=1003]\n  %18 = neg %17 : f64[K=1003]\n"
    "  %19 = reduce_max %16 {over=[K]} : f32[]\n"
    "  output \"rows\" = %6\n  output \"row\" = %8\n  output \"last\" = %11\n  output \"far\" = "
    "%15\n"
    "  output \"far row\" = %33\n  output \"bare\" = %16\n  output \"double\" = %18\n  output "
    "\"most\" = %19\n}\n";

static double drawn(const source *by, uint32_t number, uint64_t count, uint64_t element) {
    return number_at(by->seed, by->step, number,
                     (by->part > 0 ? (uint64_t)by->part * count : 0) + element);
}

/* The same with each tensor a part of a larger one: begins where vectors and blocks do not. */
static const char *in_parts(dl_arena *arena) {
    static const char from[] = "$seed, $step", first[] = "graph @train {\n";
    dl_buf text = {0};
    dl_puts(&text, first), dl_puts(&text, "  hyper $part = %20 : i64[]\n");
    const char *at = draws + strlen(first);
    for (const char *next; (next = strstr(at, from)); at = next + strlen(from))
        dl_putn(&text, at, (size_t)(next - at)), dl_puts(&text, "$seed, $step, $part");
    dl_puts(&text, at);
    const char *whole = dl_strdup(arena, text.at);
    dl_buf_free(&text);
    return whole;
}

static const int64_t seeds[] = {0, 0x123456789abcdef, -1}, steps[] = {0, 1, ((int64_t)1 << 32) + 5};

static void compare(const char *what, const char *name, const double *got, const double *want,
                    int n) {
    int wrong = 0;
    for (int i = 0; got && i < n; i++)
        if (got[i] != want[i] && !wrong++)
            printf("%s, %s: element %d is %.9g, not %.9g\n", what, name, i, got[i], want[i]);
    CHECK(got && wrong == 0, "%s, %s: %d of %d", what, name, wrong, n);
}

static void check_output(dlr_exec *exec, const char *what, const char *name, const double *want,
                         int n) {
    double *got = read_output(exec, 0, name, DL_F64);
    compare(what, name, got, want, n);
    free(got);
}

/* part: -1, or the number of the part. */
static void test_draws(const char *target, const char *skip, int threads, int64_t part) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *text = part < 0 ? draws : in_parts(arena);
    dlr_exec *exec = open_plan(compile_text(arena, text, target, skip), threads);
    for (int s = 0; exec && s < 3; s++) {
        int64_t seed = seeds[s], step = steps[s];
        double want[1003], most = 0;
        const source by = {seed, step, part};
        const char *what =
            dl_format(arena, "%s, skip '%s', %d threads, seed %lld, step %lld, part %lld", target,
                      skip ? skip : "", threads, (long long)seed, (long long)step, (long long)part);
        if (part >= 0) dlr_state_write(exec, dlr_exec_variable(exec, "part"), DL_I64, &part);
        dlr_state_write(exec, dlr_exec_variable(exec, "seed"), DL_I64, &seed);
        dlr_state_write(exec, dlr_exec_variable(exec, "step"), DL_I64, &step);
        float ones[123];
        for (int i = 0; i < 123; i++) ones[i] = 1;
        dlr_state_write(exec, dlr_exec_variable(exec, "a"), DL_F32, ones);
        dlr_exec_run(exec, 0, NULL);
        for (uint64_t i = 0; i < 123; i++) want[i] = (double)(float)(1 + drawn(&by, 0, 123, i));
        check_output(exec, what, "rows", want, 123);
        for (uint64_t i = 0; i < 123; i++) want[i] = drawn(&by, 16777215, 3, i / 41);
        check_output(exec, what, "row", want, 123);
        for (uint64_t i = 0; i < 570; i++) want[i] = drawn(&by, 7, 570, i);
        check_output(exec, what, "last", want, 570);
        for (uint64_t i = 0; i < 183; i++)
            want[i] = -drawn(&by, 1, (uint64_t)1048578 * 16384,
                             (1048575 + i / 61) * 16384 + 16321 + i % 61);
        check_output(exec, what, "far", want, 183);
        for (uint64_t i = 0; i < 123; i++)
            want[i] = drawn(&by, 1, (uint64_t)1048578 * 16384, (1048575 + i / 41) * 16384 + 9);
        check_output(exec, what, "far row", want, 123);
        for (uint64_t i = 0; i < 1003; i++) want[i] = -drawn(&by, 3, 1003, i);
        check_output(exec, what, "double", want, 1003);
        for (uint64_t i = 0; i < 1003; i++)
            want[i] = drawn(&by, 2, 1003, i), most = fmax(most, want[i]);
        check_output(exec, what, "bare", want, 1003);
        check_output(exec, what, "most", &most, 1);
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* y = 2 dropout(dropout(x, 0.5), 0.3), and drop_path of it; a step counts. */
static const char dropped[] =
    "graph @train {\n"
    "  param $x = %0 : f32[N=257, T=21, C=13] init zero\n"
    "  %1 = dropout $x {rate=0.5} : f32[N=257, T=21, C=13]\n"
    "  %2 = dropout %1 {rate=0.3} : f32[N=257, T=21, C=13]\n"
    "  %3 = drop_path $x {rate=0.25} : f32[N=257, T=21, C=13]\n"
    "  %4 = add %1, %3 : f32[N=257, T=21, C=13]\n  %5 = add %4, %2 : f32[N=257, T=21, C=13]\n"
    "  %6 = mul %5, %5 : f32[N=257, T=21, C=13]\n  %7 = mean %6 {over=[N, T, C]} : f32[]\n"
    "  output \"once\" = %1\n  output \"twice\" = %2\n  output \"path\" = %3\n  loss \"loss\" = "
    "%7\n}\n";
enum { SAMPLES = 257, ROW = 21 * 13, ALL = SAMPLES * ROW };

/* Correlation of two sequences of coin tosses, in standard deviations of what chance makes of it.
 */
static double correlation(const bool *a, const bool *b, int n) {
    double both = 0, sa = 0, sb = 0;
    for (int i = 0; i < n; i++) both += a[i] && b[i], sa += a[i], sb += b[i];
    double pa = sa / n, pb = sb / n, spread = sqrt(pa * (1 - pa) * pb * (1 - pb));
    return (both / n - pa * pb) / spread * sqrt(n);
}

static void check_share(const char *what, const bool *kept, int n, double want) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += kept[i];
    CHECK(fabs(sum / n - want) < 5 * sqrt(want * (1 - want) / n), "%s: %g of them, not %g", what,
          sum / n, want);
}

typedef struct {
    bool once[ALL], twice[ALL], path[SAMPLES]; /* what is kept */
} masks;

static void run_step(dlr_exec *exec, masks *m) {
    dlr_exec_run(exec, 0, NULL);
    float *once = read_output(exec, 0, "once", DL_F32),
          *twice = read_output(exec, 0, "twice", DL_F32);
    float *path = read_output(exec, 0, "path", DL_F32);
    for (int i = 0; i < ALL; i++) {
        m->once[i] = once[i] != 0, m->twice[i] = twice[i] != 0;
        CHECK(once[i] == 0 || once[i] == 2, "element %d of ones is %g", i, (double)once[i]);
        CHECK(twice[i] == 0 || twice[i] == 2 * (float)(1 / 0.7), "element %d is %g", i,
              (double)twice[i]);
        CHECK(path[i] == 0 || path[i] == (float)(1 / 0.75), "element %d is %g", i, (double)path[i]);
        CHECK((path[i] != 0) == (path[i / ROW * ROW] != 0),
              "a sample is kept as a whole: element %d", i);
        m->path[i / ROW] = path[i] != 0;
    }
    dlr_view dx = dlr_exec_result(exec, 0, DL_RESULT_GRAD, "x");
    float *grad = calloc(ALL, sizeof *grad);
    dlr_state_read(exec, dx, DL_F32, grad);
    for (int i = 0; i < ALL; i++) { /* the same masks on the way back */
        double slope = (double)once[i] + (double)path[i] + (double)twice[i],
               want = 2 * slope * slope / ALL;
        CHECK(fabs((double)grad[i] - want) <= 1e-6 * want, "gradient of element %d", i);
    }
    free(once), free(twice), free(path), free(grad);
}

/* `more` compiled without what fuses and what draws again: the same. */
static void test_masks(const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    const dl_plan *p = compile_text(arena, dropped, target, NULL),
                  *more = compile_text(arena, dropped, target, "fuse,simplify");
    dlr_exec *exec = open_plan(p, 3), *other = open_plan(more, 1);
    masks *first = calloc(4, sizeof *first), *second = first + 1, *seeded = first + 2,
          *same = first + 3;
    int64_t seed = 42, step = 0;
    float *ones = calloc(ALL, sizeof *ones);
    for (int i = 0; i < ALL; i++) ones[i] = 1;
    dlr_exec *both[] = {exec, other};
    for (int i = 0; exec && other && i < 2; i++) {
        dlr_state_write(both[i], dlr_exec_variable(both[i], DL_RANDOM_SEED), DL_I64, &seed);
        dlr_state_write(both[i], dlr_exec_variable(both[i], "x"), DL_F32, ones);
    }
    if (exec && other) {
        run_step(exec, first), run_step(exec, second), run_step(other, same);
        CHECK(memcmp(first, same, sizeof *first) == 0, "%s: the same step fused otherwise", target);
        dlr_state_read(exec, dlr_exec_variable(exec, DL_RANDOM_STEP), DL_I64, &step);
        CHECK(step == 2, "%s: two steps count %lld", target, (long long)step);
        step = 0, seed = 43;
        dlr_state_write(exec, dlr_exec_variable(exec, DL_RANDOM_STEP), DL_I64, &step);
        dlr_state_write(exec, dlr_exec_variable(exec, DL_RANDOM_SEED), DL_I64, &seed);
        run_step(exec, seeded);
        check_share("kept at 0.5", first->once, ALL, 0.5);
        check_share("kept at 0.5 and 0.3", first->twice, ALL, 0.35);
        check_share("samples kept at 0.25", first->path, SAMPLES, 0.75);
        bool kept[ALL], again[ALL];
        int n = 0;
        for (int i = 0; i < ALL; i++) /* the second op's tosses, seen where the first kept */
            if (first->once[i] && second->once[i])
                kept[n] = first->twice[i], again[n++] = second->twice[i];
        const struct {
            const char *what;
            double is;
        } rows[] = {{"two steps", correlation(first->once, second->once, ALL)},
                    {"two steps of another op", correlation(kept, again, n)},
                    {"two steps of samples", correlation(first->path, second->path, SAMPLES)},
                    {"two seeds", correlation(first->once, seeded->once, ALL)},
                    {"neighbours", correlation(first->once, first->once + 1, ALL - 1)},
                    {"neighbours in blocks", correlation(first->once, first->once + 4, ALL - 4)},
                    {"two samples", correlation(first->once, first->once + ROW, ALL - ROW)}};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            CHECK(fabs(rows[i].is) < 5, "%s: %s: %g standard deviations", target, rows[i].what,
                  rows[i].is);
        n = 0;
        for (int i = 0; i < ALL; i++) /* two ops of one step */
            if (first->once[i]) kept[n] = first->twice[i], again[n++] = second->once[i];
        CHECK(fabs(correlation(kept, again, n)) < 5, "%s: two ops", target);
        CHECK(first->once[0] != first->path[0] || memcmp(first->once, first->path, SAMPLES) != 0,
              "two ops");
    }
    free(first), free(ones);
    dlr_exec_close(exec), dlr_exec_close(other);
    dl_arena_free(arena);
}

/* A NaN stays one where it is dropped, as PyTorch's product makes it, so that a loss
 * shows it. */
static void test_not_finite(const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_exec *exec = open_plan(compile_text(arena, dropped, target, NULL), 2);
    int64_t seed = 42;
    float *x = calloc(ALL, sizeof *x);
    for (int i = 0; i < ALL; i++) x[i] = i % 2 ? NAN : INFINITY;
    if (exec) {
        dlr_state_write(exec, dlr_exec_variable(exec, DL_RANDOM_SEED), DL_I64, &seed);
        dlr_state_write(exec, dlr_exec_variable(exec, "x"), DL_F32, x);
        dlr_exec_run(exec, 0, NULL);
        float *once = read_output(exec, 0, "once", DL_F32);
        int finite = 0, numbers = 0, infinite = 0;
        for (int i = 0; i < ALL; i++)
            finite += isfinite(once[i]), numbers += i % 2 && !isnan(once[i]),
                infinite += isinf(once[i]) != 0;
        CHECK(finite == 0 && numbers == 0, "%s: %d finite, %d no NaN", target, finite, numbers);
        CHECK(infinite > ALL / 5 && infinite < ALL / 3, "%s: infinities that are kept: %d", target,
              infinite);
        free(once);
    }
    free(x);
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* The interpreter, on the graph as written and after the passes, against compiled code; and no
 * mask is stored. */
static void test_interpreter(void) {
    static const char passes[] = "lower,simplify,autodiff,simplify,layout,fuse";
    dl_error err = {0};
    float *loss = NULL;
    for (int after = 0; after < 2; after++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_module *m = dl_parse_module(arena, dropped, strlen(dropped), "text", &err);
        dl_pass_ctx ctx = {.arena = arena,
                           .step_options.optimizer = DL_OPT_NONE,
                           .keep_gradients = true,
                           .err = &err};
        dl_dtype type = DL_BOOL;
        CHECK(m && dl_run_passes(m, after ? passes : "lower", &ctx,
                                 (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
              "%s", err.message);
        const dl_graph *g = m->graphs.at[0];
        dl_interp *in = dl_interp_new(g, false);
        const dl_var *x = dl_graph_find_var(g, "x");
        for (int i = 0; i < ALL; i++) dl_interp_data(in, &x->value)[i] = 1;
        *dl_interp_data(in, &dl_graph_find_var(g, DL_RANDOM_SEED)->value) = 42;
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        dlr_exec *exec = open_plan(compile_text(arena, dropped, "cpu:generic", NULL), 1);
        int64_t seed = 42;
        float *ones = calloc(ALL, sizeof *ones);
        for (int i = 0; i < ALL; i++) ones[i] = 1;
        dlr_state_write(exec, dlr_exec_variable(exec, DL_RANDOM_SEED), DL_I64, &seed);
        dlr_state_write(exec, dlr_exec_variable(exec, "x"), DL_F32, ones);
        dlr_exec_run(exec, 0, NULL);
        float *twice = read_output(exec, 0, "twice", DL_F32);
        const double *want =
            dl_interp_data(in, dl_graph_find_result(g, DL_RESULT_OUTPUT, "twice")->value);
        int wrong = 0;
        for (int i = 0; i < ALL; i++) wrong += (twice[i] != 0) != (want[i] != 0);
        CHECK(wrong == 0, "%d elements are kept by one alone", wrong);
        for (int i = 0; after && i < g->nodes.n; i++)
            for (int k = 0; k < g->nodes.at[i]->nout; k++) {
                const dl_type *t = &g->nodes.at[i]->out[k].type;
                CHECK(t->dtype != type || dl_type_count(t) == SAMPLES, "a mask is stored: %s",
                      dl_type_text(t));
            }
        free(ones), free(twice);
        dlr_exec_close(exec);
        dl_interp_free(in);
        dl_arena_free(arena);
    }
    free(loss);
}

/* Words that a kernel of text may not have, and what a model's own variables may not be called. */
static void test_refused(void) {
    static const compiled_refusal rows[] = {
        {"graph @train {\n  param $random.seed = %0 : f32[] init zero   # m.dl:2:3\n"
         "  param $x = %1 : f32[N=4] init zero\n  %2 = dropout $x {rate=0.5} : f32[N=4]   # "
         "m.dl:4:3\n"
         "  output \"y\" = %2\n}\n",
         "m.dl:2:3: error: a variable is called $random.seed", DL_INPUT},
        {"graph @train {\n  input $s = %0 : f32[]\n  %1 = random $s, $s {number=0} : f32[N=4]   # "
         "m.dl:4:3\n"
         "  output \"y\" = %1\n}\n",
         "random takes a seed and a step, i64[] each", DL_INTERNAL},
        {"graph @train {\n  input $s = %0 : i64[]\n  %1 = random $s, $s {number=16777216} : "
         "f32[N=4]\n"
         "  output \"y\" = %1\n}\n",
         "numbers go from 0 to 16777215", DL_INTERNAL},
        {"graph @train {\n  input $s = %0 : i64[]\n  %1 = random $s, $s {number=0} : i32[N=4]\n"
         "  output \"y\" = %1\n}\n",
         "random makes f32 or f64", DL_INTERNAL},
    };
    check_refusals(rows, sizeof rows / sizeof *rows);
}

int main(void) {
    char dir[] = "/tmp/dl_random_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int t = 0; t < COMPILED_TARGETS; t++) {
        const char *target = compiled_targets[t];
        for (int threads = 1; threads <= 3 && takes_on_target(t, 0); threads++)
            test_draws(target, NULL, threads, -1);
        if (takes_on_target(t, 1)) test_draws(target, "fuse", 1, -1);
        for (int part = 0; part <= 5 && takes_on_target(t, 1); part++)
            test_draws(target, NULL, 1 + part % 3, part);
        if (takes_on_target(t, 0)) test_draws(target, "fuse", 1, 3);
        if (takes_on_target(t, 2)) test_masks(target);
        if (takes_on_target(t, 3)) test_not_finite(target);
    }
    test_interpreter();
    test_refused();
    return dl_test_end();
}
