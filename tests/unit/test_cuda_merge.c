/* Phases of kernels that differ in numbers alone become one function (compiler/cuda/merge.c): how
 * many there are, what each kernel gives it, what a plan's file keeps of that, and, emulated, that
 * each computes what the CPU's own code does. */
#include <math.h>

#include "compiler/cuda/cuda.h"
#include "tests/unit/compiled.h"

/* Two layers of one kind after each other, and sizes that are powers of two in one alone; `last`
 * makes %6 of the second's sums %5. */
static const char *layers(dl_arena *arena, int c, int h, int w, const char *last) {
    return dl_format(arena,
                     "graph @predict {\n  input $x = %%0 : f32[N=2, C=%d, H=%d, W=%d]\n"
                     "  input $v = %%1 : f32[O=%d, C=%d, kH=3, kW=3]\n"
                     "  input $u = %%2 : f32[O=%d, C=%d, kH=3, kW=3]\n"
                     "  %%3 = conv $x, $v {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : "
                     "f32[N=2, C=%d, H=%d, W=%d]\n"
                     "  %%4 = relu %%3 : f32[N=2, C=%d, H=%d, W=%d]\n"
                     "  %%5 = conv %%4, $u {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : "
                     "f32[N=2, C=%d, H=%d, W=%d]\n"
                     "  %%6 = %s : f32[N=2, C=%d, H=%d, W=%d]\n  output \"y\" = %%6\n}\n",
                     c, h, w, 2 * c, c, 2 * c, 2 * c, 2 * c, h, w, 2 * c, h, w, 2 * c, h, w, last,
                     2 * c, h, w);
}
static const char alike[] = "relu %5", otherwise[] = "mul %5, %5", added[] = "add %5, %4";

static int count_functions(const dl_plan *p, int *phases, int *numbers) {
    const char *seen[64];
    int n = 0;
    *phases = *numbers = 0;
    for (int i = 0; i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].entries.n; j++) {
            const dl_plan_entry *e = &p->kernels.at[i].entries.at[j];
            int k = 0;
            while (k < n && strcmp(seen[k], e->symbol) != 0) k++;
            if (k == n) seen[n++] = e->symbol;
            ++*phases, *numbers += e->numbers.n;
        }
    return n;
}

static dl_plan *plan_of(dl_arena *arena, const char *text, const char *target) {
    dl_error err = {0};
    dl_compile_times times = {0};
    dl_compile_options opt = {
        .target = dl_target_find(arena, target, &err), .model = "text", .batch = 2};
    opt.step_options.optimizer = DL_OPT_NONE;
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    dl_plan *p = m && opt.target ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p != NULL, "%s", err.message);
    return p;
}

static int count_text(const dl_plan *p, const char *text) {
    int n = 0;
    for (int i = 0; i < p->objects.n; i++)
        for (const char *at = p->objects.at[i].source; (at = strstr(at, text)); at++) n++;
    return n;
}

static const char gradients[] =
    "graph @train {\n  input $a = %0 : f32[N=2, C=8, W=16]\n  input $b = %1 : f32[N=2, C=8, W=16]\n"
    "  input $c = %2 : f32[N=2, C=8, W=16]\n  input $d = %3 : f32[N=2, C=8, W=16]\n"
    "  %4 = conv_grad_weight $a, $b {stride=[1], pad_lo=[1], pad_hi=[1], kernel=[3]} : f32[O=8, "
    "C=8, kW=3]\n"
    "  %5 = conv_grad_weight $c, $d {stride=[1], pad_lo=[1], pad_hi=[1], kernel=[3]} : f32[O=8, "
    "C=8, kW=3]\n"
    "  %6 = relu %5 : f32[O=8, C=8, kW=3]\n  output \"y\" = %4\n  output \"z\" = %6\n}\n";

static void test_counts(void) {
    dl_arena *arena = dl_arena_new(NULL);
    int phases, numbers;
    dl_plan *p = plan_of(arena, layers(arena, 4, 8, 8, alike), "cuda:sm_90a");
    if (!p) return;
    int functions = count_functions(p, &phases, &numbers);
    CHECK(p->kernels.n >= 2 && functions < phases && numbers > 0,
          "%d functions of %d phases, %d numbers", functions, phases, numbers);
    CHECK(count_text(p, ") predict_") == functions, "%d kernels in the sources",
          count_text(p, ") predict_"));
    CHECK(count_text(p, "sums = ct_tile<") == 1, "%d loops over tiles",
          count_text(p, "sums = ct_tile<"));
    CHECK(count_text(p, "% kd_shift(number") > 0 && count_text(p, "kd_divisor(number") == 0,
          "shifts");
    /* other ends after the same loop */
    dl_plan *r = plan_of(arena, layers(arena, 4, 8, 8, otherwise), "cuda:sm_90a");
    if (r)
        CHECK(count_text(r, "sums = ct_tile<") == 1 && count_text(r, "if (number") == 2,
              "%d loops, %d ends", count_text(r, "sums = ct_tile<"), count_text(r, "if (number"));
    /* so do weights' gradients, whose sums are mended in front of their ends */
    dl_plan *w = plan_of(arena, gradients, "cuda:sm_90a");
    if (w)
        CHECK(count_text(w, "sums = ct_tile<") == 1 && count_text(w, " ct_fix_nans<") == 1 &&
                  count_text(w, "if (number") == 2,
              "%d loops, %d ends, %d mended", count_text(w, "sums = ct_tile<"),
              count_text(w, "if (number"), count_text(w, " ct_fix_nans<"));
    /* no power of two among the channels: another function, of products */
    dl_plan *q = plan_of(arena, layers(arena, 12, 8, 8, alike), "cuda:sm_90a");
    if (q) CHECK(count_text(q, "kd_divisor(number") > 0, "divisors");
    dl_plan *cpu = plan_of(arena, layers(arena, 4, 8, 8, alike), "cpu:generic");
    if (cpu)
        CHECK(count_functions(cpu, &phases, &numbers) == 0 && phases == 0,
              "the CPU has no entries");
    dl_arena_free(arena);
}

/* Two products of channels: the second's first way has tiles of other columns than the first's,
 * which does with those of the first where these take of all the time hardly more. */
static const char *pointwise(dl_arena *arena, int n) {
    return dl_format(arena,
                     "graph @predict {\n  input $a = %%0 : bf16[N=%d, C=64, H=56, W=56]\n"
                     "  input $b = %%1 : bf16[O=256, C=64, kH=1, kW=1]\n  input $c = %%2 : "
                     "bf16[N=256, C=2048, H=7, W=7]\n"
                     "  input $d = %%3 : bf16[O=512, C=2048, kH=1, kW=1]\n"
                     "  %%4 = conv $a, $b {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : "
                     "bf16[N=%d, C=256, H=56, W=56]\n"
                     "  %%5 = conv $c, $d {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : "
                     "bf16[N=256, C=512, H=7, W=7]\n"
                     "  output \"y\" = %%4\n  output \"z\" = %%5\n}\n",
                     n, n);
}

static void test_ways(void) {
    dl_arena *arena = dl_arena_new(NULL);
    for (int few = 0; few < 2; few++) {
        dl_plan *p = plan_of(arena, pointwise(arena, few ? 8 : 1024), "cuda:sm_90a");
        if (p)
            CHECK(count_text(p, "sums = ct_tile<") == 1 + few, "%d loops over tiles",
                  count_text(p, "sums = ct_tile<"));
    }
    dl_arena_free(arena);
}

/* Convolutions of several taps and of one, of one stride and two, padded and not, and of a
 * concatenation. */
static const char images[] = "graph @predict {\n  input $a = %0 : bf16[N=256, C=128, H=28, W=28]\n"
                             "  input $b = %1 : bf16[O=128, C=128, kH=3, kW=3]\n  input $c = %2 : "
                             "bf16[O=128, C=128, kH=1, kW=1]\n"
                             "  input $d = %3 : bf16[N=256, C=64, H=14, W=14]\n  input $e = %4 : "
                             "bf16[O=128, C=192, kH=3, kW=3]\n"
                             "  %5 = conv $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : "
                             "bf16[N=256, C=128, H=28, W=28]\n"
                             "  %6 = conv %5, $c {stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0]} : "
                             "bf16[N=256, C=128, H=14, W=14]\n"
                             "  %7 = conv %6, $c {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : "
                             "bf16[N=256, C=128, H=14, W=14]\n"
                             "  %8 = cat %7, $d {axis=C} : bf16[N=256, C=192, H=14, W=14]\n"
                             "  %9 = conv %8, $e {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : "
                             "bf16[N=256, C=128, H=14, W=14]\n"
                             "  output \"y\" = %9\n}\n";
/* Their gradients by the image, whose weights come by taps. */
static const char backwards[] =
    "graph @predict {\n  input $a = %0 : bf16[N=64, C=128, H=28, W=28]\n"
    "  input $b = %1 : bf16[O=128, C=128, kH=3, kW=3]\n  input $c = %2 : bf16[O=128, C=128, kH=1, "
    "kW=1]\n"
    "  %3 = conv_grad_input $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], size=[28, 28]} : "
    "bf16[N=64, C=128, H=28, W=28]\n"
    "  %4 = conv_grad_input %3, $c {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], size=[28, 28]} : "
    "bf16[N=64, C=128, H=28, W=28]\n"
    "  output \"y\" = %4\n}\n";

/* And by the weight: what is read again where sums are mended, too, is of one part and of two, and
 * of 1 x 1 without padding, which has nothing to mend. */
static const char weights[] =
    "graph @predict {\n  input $a = %0 : bf16[N=64, C=128, H=28, W=28]\n"
    "  input $b = %1 : bf16[N=64, C=128, H=28, W=28]\n  input $c = %2 : bf16[N=64, C=64, H=28, "
    "W=28]\n"
    "  input $d = %3 : bf16[N=64, C=64, H=28, W=28]\n  input $e = %4 : bf16[N=64, C=1152, H=56, "
    "W=56]\n"
    "  %5 = conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3]} : "
    "bf16[O=128, C=128, kH=3, kW=3]\n"
    "  %6 = cat $c, $d {axis=C} : bf16[N=64, C=128, H=28, W=28]\n"
    "  %7 = conv_grad_weight %6, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3]} : "
    "bf16[O=128, C=128, kH=3, kW=3]\n"
    "  %8 = conv_grad_weight $e, $b {stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0], kernel=[1, 1]} : "
    "bf16[O=128, C=1152, kH=1, kW=1]\n"
    "  output \"x\" = %5\n  output \"y\" = %7\n  output \"z\" = %8\n}\n";

static void test_taps(void) {
    static const struct {
        const char *text;
        int kernels;
    } of[] = {{images, 4}, {backwards, 2}, {weights, 3}};
    dl_arena *arena = dl_arena_new(NULL);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        dl_plan *p = plan_of(arena, of[i].text, "cuda:sm_90a");
        int made = 0;
        for (int k = 0; p && k < p->kernels.n; k++)
            made += p->kernels.at[k].variant && strstr(p->kernels.at[k].variant, "im2col");
        if (p)
            CHECK(made == of[i].kernels && count_text(p, "sums = ct_tile<") == 1 &&
                      count_text(p, "ct_total(own") <= 1,
                  "%d convolutions, %d loops, %d totals", made, count_text(p, "sums = ct_tile<"),
                  count_text(p, "ct_total(own"));
    }
    dl_arena_free(arena);
}

/* The result of shared terms is the same for images of one position as of several. */
static const char positions[] = "graph @predict {\n  input $a = %0 : bf16[N=16, C=512, H=1, W=1]\n"
                                "  input $b = %1 : bf16[N=8, C=512, H=2, W=1]\n  input $c = %2 : "
                                "bf16[O=512, C=512, kH=3, kW=3]\n"
                                "  %3 = conv $a, $c {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} "
                                ": bf16[N=16, C=512, H=1, W=1]\n"
                                "  %4 = conv $b, $c {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} "
                                ": bf16[N=8, C=512, H=2, W=1]\n"
                                "  output \"x\" = %3\n  output \"y\" = %4\n}\n";

static void test_positions(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = plan_of(arena, positions, "cuda:sm_90a");
    if (p) CHECK(count_text(p, "ct_total(own") == 1, "%d totals", count_text(p, "ct_total(own"));
    dl_arena_free(arena);
}

/* Rows of a tile are on their way two at a time where the end loads what follows them, and else one
 * by one; what is made of a row stands once. */
static void test_rows_ahead(void) {
    static const char *const ends[] = {"relu %4", "add %4, $a"};
    dl_arena *arena = dl_arena_new(NULL);
    for (int i = 0; i < 2; i++) {
        const char *text =
            dl_format(arena,
                      "graph @predict {\n  input $a = %%0 : bf16[N=64, C=128, H=28, W=28]\n"
                      "  input $b = %%1 : bf16[O=128, C=128, kH=3, kW=3]\n"
                      "  %%4 = conv $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : "
                      "bf16[N=64, C=128, H=28, W=28]\n"
                      "  %%5 = %s : bf16[N=64, C=128, H=28, W=28]\n  output \"y\" = %%5\n}\n",
                      ends[i]);
        dl_plan *p = plan_of(arena, text, "cuda:sm_90a");
        if (p)
            CHECK(count_text(p, "#pragma unroll 1\n    for (int first = ") == i &&
                      count_text(p, "#pragma unroll 1\n    for (int row = ") == 1 &&
                      count_text(p, "    vec<bf16, 8> a") == i &&
                      count_text(p, "    a0[0] = a0[1];\n") == i &&
                      count_text(p, "#pragma unroll 2") == 0,
                  "%s", ends[i]);
    }
    dl_arena_free(arena);
}

/* Sums by channel of two and of three axes: what stands after them is one function, whichever
 * number the channels' axis has, and whichever others there are. */
static const char channels[] =
    "graph @train {\n  input $a = %0 : f32[N=3001, C=24]\n  input $b = %1 : f32[N=50, H=61, C=24]\n"
    "  %2 = sum $a {over=[N]} : f32[C=24]\n  %3 = mul %2, %2 : f32[C=24]\n"
    "  %4 = sum $b {over=[N, H]} : f32[C=24]\n  %5 = mul %4, %4 : f32[C=24]\n"
    "  output \"y\" = %3\n  output \"z\" = %5\n}\n";

static void test_axes(void) {
    dl_arena *arena = dl_arena_new(NULL);
    int phases, numbers;
    dl_plan *p = plan_of(arena, channels, "cuda:sm_90a");
    if (p) {
        int functions = count_functions(p, &phases, &numbers),
            after = count_text(p, "group_reduce_by<by_sum");
        CHECK(phases == 4 && after == 1, "%d functions of %d phases, %d after sums", functions,
              phases, after);
    }
    dl_arena_free(arena);
}

/* Sources are even, as many as threads may share. */
static void test_sources(void) {
    enum { PIECES = 40, LONGEST = 20000 };
    dl_piece pieces[PIECES] = {{0}};
    int64_t filled[PIECES] = {0}, least = INT64_MAX, most = 0;
    for (int i = 0; i < PIECES; i++) {
        pieces[i].code.phases = 1 + i % 4;
        pieces[i].text.n = (size_t)(LONGEST * (i * 7 % PIECES) / PIECES);
    }
    int n = dl_cuda_assign_sources(PIECES, pieces, 2);
    for (int i = 0; i < PIECES; i++) filled[pieces[i].source] += (int64_t)pieces[i].text.n;
    for (int i = 0; i < n; i++) {
        if (filled[i] < least) least = filled[i];
        if (filled[i] > most) most = filled[i];
    }
    CHECK(n > 1 && n % 2 == 0 && most * 10 < least * 12, "%d sources, %lld to %lld letters", n,
          (long long)least, (long long)most);
    /* more threads, more sources; but none for a few, and no more than threads */
    int four = dl_cuda_assign_sources(PIECES, pieces, 4),
        sixteen = dl_cuda_assign_sources(PIECES, pieces, 16),
        all = dl_cuda_assign_sources(PIECES, pieces, 1000);
    CHECK(four == n && sixteen == 16 && all > 16 && all <= PIECES, "%d, %d and %d sources", four,
          sixteen, all);
}

/* The message of a damaged plan. */
static void test_checks(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = plan_of(arena, layers(arena, 4, 8, 8, alike), "cuda:sm_90a");
    if (!p) return;
    dl_plan_kernel *k = &p->kernels.at[0];
    dl_plan_entry good = k->entries.at[0];
    for (int i = 0; i < 4; i++) {
        dl_error err = {0};
        int bad = k->nargs;
        k->entries.at[0] = good;
        if (i == 0) k->entries.at[0].symbol = "a b";
        if (i == 1) k->entries.at[0].object = p->objects.n;
        if (i == 2) k->entries.at[0].args.at = &bad, k->entries.at[0].args.n = 1;
        if (i == 3) k->entries.at[0].numbers.n = DL_ENTRY_MOST + 1;
        CHECK(!dl_plan_check(p, &err) && strstr(err.message, "entry"), "%d: %s", i, err.message);
    }
    k->entries.at[0] = good, k->entries.n++;
    dl_error err = {0};
    CHECK(!dl_plan_check(p, &err) && strstr(err.message, "entry"), "an entry too many: %s",
          err.message);
    dl_arena_free(arena);
}

static void test_divisors(void) {
    const int64_t ds[] = {1,     2,     64,      0x40000000, 3,         5,    6,
                          7,     9,     48,      100,        641,       4050, 12544,
                          65535, 65537, 1000003, 0x40000001, 0x7fffffff};
    for (size_t i = 0; i < sizeof ds / sizeof *ds; i++) {
        int64_t number[2], d = ds[i];
        dl_cuda_divisor(d, number);
        uint64_t times = (uint64_t)number[0] >> 32;
        CHECK((number[0] & 0xffffffff) == d, "%lld", (long long)d);
        for (int64_t q = 0; q * d <= 0x7fffffff; q += 1 + 0x7fffffff / d / 1000)
            for (int64_t x = q * d - 1; x <= q * d + 1; x++)
                if (x >= 0 && x <= 0x7fffffff)
                    CHECK((int64_t)((uint64_t)x * times >> number[1]) == x / d, "%lld / %lld",
                          (long long)x, (long long)d);
        CHECK((int64_t)(0x7fffffffu * times >> number[1]) == 0x7fffffff / d, "%lld", (long long)d);
    }
}

static float *fill(int64_t n, unsigned seed) {
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        seed = seed * 1664525 + 1013904223, v[i] = (float)(seed >> 20) / 2048 - 1;
    return v;
}

/* The plan's output; through its file, where one is named. */
static float *run(dl_arena *arena, const char *text, const char *target, const char *file,
                  int64_t *n) {
    dl_error err = {0};
    static const char *const names[] = {"x", "v", "u"};
    dl_plan *p = compile_text(arena, text, target, NULL);
    if (p && file) {
        CHECK(dl_plan_write(p, file, &err) && (p = dl_plan_read(arena, file, &err)), "%s",
              err.message);
        unlink(file);
    }
    dlr_exec *exec = open_plan(p, 2);
    if (!exec) return NULL;
    for (unsigned i = 0; i < 3; i++) {
        int64_t count = dl_type_bytes(dlr_exec_variable(exec, names[i]).type) / 4;
        float *v = fill(count, i + 1);
        dlr_state_write(exec, dlr_exec_variable(exec, names[i]), DL_F32, v);
        free(v);
    }
    dlr_exec_run(exec, 0, NULL);
    *n = dl_type_count(dlr_exec_result(exec, 0, DL_RESULT_OUTPUT, "y").type);
    float *y = read_output(exec, 0, "y", DL_F32);
    dlr_exec_close(exec);
    return y;
}

static void test_run(const char *dir, int c, int h, int w, const char *last) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *text = layers(arena, c, h, w, last), *file = dl_format(arena, "%s/folded.dlp", dir);
    int64_t n = 0, m = 0;
    float *want = run(arena, text, "cpu:generic", NULL, &n);
    float *got = run(arena, text, "cuda:sm_90a:emulated", file, &m);
    double worst = 0, most = 0;
    CHECK(want && got && n == m && n > 0, "%lld and %lld", (long long)n, (long long)m);
    for (int64_t i = 0; want && got && i < n; i++) {
        worst = dl_test_worse(worst, fabs((double)want[i] - (double)got[i]));
        most = fmax(most, fabs((double)want[i]));
    }
    CHECK(worst <= 1e-5 * most && most > 1, "%d channels, %d x %d: off by %g of %g", c, h, w, worst,
          most);
    free(want), free(got);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_fold_XXXXXX";
    dl_error err = {0};
    if (!test_cache(dir)) return 1;
    test_counts();
    test_ways();
    test_taps();
    test_positions();
    test_rows_ahead();
    test_axes();
    test_sources();
    test_checks();
    test_divisors();
    if (dl_target_find(NULL, "cuda:sm_90a:emulated", &err)) {
        test_run(dir, 8, 4, 8, alike);
        test_run(dir, 8, 4, 8, otherwise);
        test_run(dir, 5, 7, 9, alike);
        test_run(dir, 5, 7, 9, otherwise);
        test_run(dir, 8, 4, 8, added);
        test_run(dir, 5, 7, 9, added);
        test_run(dir, 6, 5, 5, added); /* whose threads have one, two or three rows */
    } else {
        dl_test_skip("%s", err.message);
    }
    return dl_test_end();
}
