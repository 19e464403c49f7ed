/* The reference interpreter: fused kernels against the plain nodes they stand for, updates,
 * rounding, refusals. The ops themselves are compared with PyTorch by tests/oracle/check_ops.py. */
#include "tests/check.h"

#include "ir/interp/interp.h"
#include "ir/text/text.h"
#include "tests/unit/interp_ranges.h"

static dl_module *parse(dl_arena *arena, const char *text) {
    dl_error err = {0};
    dl_module *m = dl_parse_module(arena, text, strlen(text), "t.dlir", &err);
    CHECK(m, "%s", err.message);
    return m;
}

/* Fills a variable with numbers of both signs that no op maps to each other. */
static void fill(dl_interp *in, const dl_var *v, int seed) {
    double *x = dl_interp_data(in, &v->value);
    int64_t n = dl_type_count(&v->value.type);
    for (int64_t i = 0; i < n; i++) x[i] = sin(1.7 * (double)i + seed) + 0.1 * cos(0.3 * (double)i);
}

/* Runs the first graph; its kernel must make what its plain nodes make: outputs come in pairs. */
static void check_pairs(const char *text) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = parse(arena, text);
    if (!m) return;
    const dl_graph *g = m->graphs.at[0];
    for (int i = 0; i < g->kernels.n; i++) {
        const char *fault = dl_kernel_fault(g->kernels.at[i], arena);
        CHECK(!fault, "%s: %s", g->kernels.at[i]->name, fault ? fault : "");
    }
    dl_interp *in = dl_interp_new(g, false);
    for (int i = 0; i < g->vars.n; i++) fill(in, g->vars.at[i], i);
    dl_error err = {0};
    CHECK(dl_interp_run(in, &err), "%s", err.message);
    for (int r = 0; r + 1 < g->results.n; r += 2) {
        const dl_value *a = g->results.at[r].value, *b = g->results.at[r + 1].value;
        int64_t n = dl_type_count(&a->type);
        CHECK(n == dl_type_count(&b->type) && n > 0);
        double worst = 0, size = 0;
        for (int64_t i = 0; i < n; i++) {
            double x = dl_interp_data(in, a)[i], y = dl_interp_data(in, b)[i];
            worst = dl_test_worse(worst, fabs(x - y)), size = fmax(size, fabs(x));
        }
        CHECK(size > 0 && worst <= 1e-12 * size, "%s: off by %g of %g", g->results.at[r].name,
              worst, size);
    }
    dl_interp_free(in);
    dl_arena_free(arena);
}

/* conv of two parts and a slice of a weight, bias, leaky_relu, and the sum of all that over N and
 * W. */
static void test_conv_kernel(void) {
    check_pairs(
        "kernel @k0(%a: f32[N=2, C=2, W=7], %b: f32[N=2, C=1, W=7] @cl, %w: f32[O=6, C=3, kW=3], "
        "%bias: "
        "f32[C=4]) -> "
        "(%o: f32[N=2, C=4, W=4] @cl, %s: f32[C=4]) space(N=2, C=4, W=4) {\n"
        "  %0 = conv cat(%a, %b), %w {stride=[2], pad_lo=[1], pad_hi=[1], w_start=2} : f32\n"
        "  %1 = load %bias[C] : f32\n"
        "  %2 = add %0, %1 : f32\n"
        "  %3 = leaky_relu %2 {slope=0.01} : f32\n"
        "  store %o[N, C, W], %3\n"
        "  %5 = sum %3 {over=[N, W]} : f32\n"
        "  %6 = load %bias[C] : f32\n"
        "  %7 = mul %5, %6 : f32\n"
        "  store %s[C], %7\n}\n"
        "graph @g {\n"
        "  input $a = %0 : f32[N=2, C=2, W=7]\n"
        "  input $b = %1 : f32[N=2, C=1, W=7]\n"
        "  param $w = %2 : f32[O=6, C=3, kW=3] init zero\n"
        "  param $bias = %3 : f32[C=4] init zero\n"
        "  %4 = cat $a, $b {axis=C} : f32[N=2, C=3, W=7]\n"
        "  %5 = slice $w {axis=O, start=2, stop=6} : f32[O=4, C=3, kW=3]\n"
        "  %6 = conv %4, %5 {stride=[2], pad_lo=[1], pad_hi=[1]} : f32[N=2, C=4, W=4]\n"
        "  %7 = add %6, $bias : f32[N=2, C=4, W=4]\n"
        "  %8 = leaky_relu %7 {slope=0.01} : f32[N=2, C=4, W=4]\n"
        "  %9 = sum %8 {over=[N, W]} : f32[C=4]\n"
        "  %10 = mul %9, $bias : f32[C=4]\n"
        "  %11, %12 = fused @k0($a, $b, $w, $bias) : f32[N=2, C=4, W=4] @cl, f32[C=4]\n"
        "  output \"y\" = %8\n  output \"y2\" = %11\n  output \"s\" = %10\n  output \"s2\" = "
        "%12\n}\n");
}

/* Both gradients, their operands in parts. */
static void test_gradient_kernels(void) {
    check_pairs("kernel @dx(%p: f32[N=2, C=1, H=2, W=3], %q: f32[N=2, C=3, H=2, W=3], %w: f32[O=4, "
                "C=2, kH=3, kW=2]) "
                "-> "
                "(%o: f32[N=2, C=2, H=4, W=5]) space(N=2, C=2, H=4, W=5) {\n"
                "  %0 = conv_grad_input cat(%p, %q), %w {stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, "
                "1]} : f32\n"
                "  store %o[N, C, H, W], %0\n}\n"
                "kernel @dw(%x: f32[N=2, C=2, H=4, W=5], %p: f32[N=2, C=1, H=2, W=3], %q: f32[N=2, "
                "C=3, H=2, W=3]) "
                "-> "
                "(%o: f32[O=4, C=2, kH=3, kW=2] @panel16) space(O=4, C=2, kH=3, kW=2) {\n"
                "  %0 = conv_grad_weight %x, cat(%p, %q) {stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, "
                "1]} : f32\n"
                "  store %o[O, C, kH, kW], %0\n}\n"
                "graph @g {\n"
                "  input $x = %0 : f32[N=2, C=2, H=4, W=5]\n"
                "  input $p = %1 : f32[N=2, C=1, H=2, W=3]\n"
                "  input $q = %2 : f32[N=2, C=3, H=2, W=3]\n"
                "  param $w = %3 : f32[O=4, C=2, kH=3, kW=2] init zero\n"
                "  %4 = cat $p, $q {axis=C} : f32[N=2, C=4, H=2, W=3]\n"
                "  %5 = conv_grad_input %4, $w {stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, 1], "
                "size=[4, 5]} : f32[N=2, "
                "C=2, H=4, "
                "W=5]\n"
                "  %6 = conv_grad_weight $x, %4 {stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, 1], "
                "kernel=[3, 2]} : "
                "f32[O=4, C=2, "
                "kH=3, kW=2]\n"
                "  %7 = fused @dx($p, $q, $w) : f32[N=2, C=2, H=4, W=5]\n"
                "  %8 = fused @dw($x, $p, $q) : f32[O=4, C=2, kH=3, kW=2] @panel16\n"
                "  output \"dx\" = %5\n  output \"dx2\" = %7\n  output \"dw\" = %6\n  output "
                "\"dw2\" = %8\n}\n");
}

/* Loads outside read 0 and stores outside are dropped (pad, slice, cat); coordinates; two
 * reductions; a scalar. */
static void test_point_kernels(void) {
    check_pairs("kernel @move(%a: f32[N=2, W=5], %b: f32[N=2, W=3]) -> (%pad: f32[N=2, W=8], %cut: "
                "f32[N=2, W=2], "
                "%cat: "
                "f32[N=2, W=8]) space(N=2, W=8) {\n"
                "  %0 = load %a[N, W-1] : f32\n"
                "  store %pad[N, W], %0\n"
                "  %2 = load %a[N, W] : f32\n"
                "  store %cut[N, W-2], %2\n"
                "  %4 = load %b[N, W-5] : f32\n"
                "  %5 = add %2, %4 : f32\n"
                "  store %cat[N, W], %5\n}\n"
                "kernel @stat(%a: f32[N=2, W=5]) -> (%hi: f32[], %lo: f32[]) space(N=2, W=5) {\n"
                "  %0 = load %a[N, W] : f32\n"
                "  %1 = coord W : f32\n"
                "  %2 = mul %0, %1 : f32\n"
                "  %3 = reduce_max %2 {over=[N, W]} : f32\n"
                "  %4 = reduce_min %0 {over=[N, W]} : f32\n"
                "  %5 = const {value=3} : f32\n"
                "  %6 = add %3, %5 : f32\n"
                "  store %hi[], %6\n"
                "  store %lo[], %4\n}\n"
                "graph @g {\n"
                "  input $a = %0 : f32[N=2, W=5]\n"
                "  input $b = %1 : f32[N=2, W=3]\n"
                "  %2 = pad $a {axis=W, pad_lo=[1], pad_hi=[2]} : f32[N=2, W=8]\n"
                "  %3 = slice $a {axis=W, start=2, stop=4} : f32[N=2, W=2]\n"
                "  %4 = cat $a, $b {axis=W} : f32[N=2, W=8]\n"
                "  %5, %6, %7 = fused @move($a, $b) : f32[N=2, W=8], f32[N=2, W=2], f32[N=2, W=8]\n"
                "  %8 = iota {axis=W} : f32[W=5]\n"
                "  %9 = mul $a, %8 : f32[N=2, W=5]\n"
                "  %10 = reduce_max %9 {over=[N, W]} : f32[]\n"
                "  %11 = const {value=3} : f32[]\n"
                "  %12 = add %10, %11 : f32[]\n"
                "  %13 = reduce_min $a {over=[N, W]} : f32[]\n"
                "  %14, %15 = fused @stat($a) : f32[], f32[]\n"
                "  output \"pad\" = %2\n  output \"pad2\" = %5\n  output \"cut\" = %3\n  output "
                "\"cut2\" = %6\n"
                "  output \"cat\" = %4\n  output \"cat2\" = %7\n  output \"hi\" = %12\n  output "
                "\"hi2\" = %14\n"
                "  output \"lo\" = %13\n  output \"lo2\" = %15\n}\n");
}

/* Updates see the values from before any of them, also when variables swap; released values are
 * gone, results stay. */
static void test_updates(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = parse(arena, "graph @g {\n"
                                "  state $a = %0 : f32[] init zero\n"
                                "  state $b = %1 : f32[] init zero\n"
                                "  state $n = %2 : f32[] init zero\n"
                                "  %3 = const {value=1} : f32[]\n"
                                "  %4 = add $n, %3 : f32[]\n"
                                "  %5 = mul %4, %4 : f32[]\n"
                                "  output \"square\" = %5\n"
                                "  update $a = $b\n  update $b = $a\n  update $n = %4\n}\n");
    const dl_graph *g = m->graphs.at[0];
    dl_interp *in = dl_interp_new(g, false);
    dl_error err = {0};
    double *a = dl_interp_data(in, &g->vars.at[0]->value),
           *b = dl_interp_data(in, &g->vars.at[1]->value);
    *a = 1, *b = 2;
    CHECK(dl_interp_run(in, &err) && *a == 2 && *b == 1);
    dl_interp_release(in);
    CHECK(dl_interp_run(in, &err) && *a == 1 && *b == 2);
    CHECK(dl_interp_run(in, &err) && *a == 2 && *b == 1);
    CHECK(*dl_interp_data(in, &g->vars.at[2]->value) == 3);
    CHECK(*dl_interp_data(in, g->results.at[0].value) == 9);
    CHECK(*dl_interp_data(in, &g->nodes.at[0]->out[0]) == 0, "a released value starts anew");
    dl_interp_free(in);
    dl_arena_free(arena);
}

/* Known neighbours of each element type. */
static void test_rounding(void) {
    static const struct {
        dl_dtype type;
        double v, rounded;
    } cases[] = {
        {DL_F32, 0.1, 0.100000001490116119384765625},
        {DL_F64, 0.1, 0.1},
        {DL_F16, 0.1, 0.0999755859375},
        {DL_F16, 65519, 65504},
        {DL_F16, 65520, INFINITY},
        {DL_F16, 6e-8, 5.9604644775390625e-08},
        {DL_F16, 2e-8, 0},
        {DL_F16, 2049, 2048}, /* half to even */
        {DL_F16, 2051, 2052},
        {DL_BF16, 0.1, 0.10009765625},
        {DL_BF16, -257, -256},
        {DL_BF16, 3.4e38, INFINITY},
        {DL_I32, -2.7, -2},
        {DL_BOOL, 0.3, 1},
        {DL_F16, -INFINITY, -INFINITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got = dl_interp_convert(cases[i].type, cases[i].v, true);
        CHECK(got == cases[i].rounded, "%s of %.17g: got %.17g", dl_dtype_name(cases[i].type),
              cases[i].v, got);
    }
    CHECK(dl_interp_convert(DL_F16, 0.1, false) == 0.1 &&
          dl_interp_convert(DL_I64, 1.9, false) == 1);
    CHECK(isnan(dl_interp_convert(DL_F16, NAN, true)));
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = parse(arena, "graph @g {\n  input $x = %0 : f32[N=4]\n  %1 = exp $x : f32[N=4]\n"
                                "  %2 = sum %1 {over=[N]} : f32[]\n  output \"y\" = %2\n}\n");
    for (int round = 0; round < 2; round++) {
        dl_interp *in = dl_interp_new(m->graphs.at[0], round);
        dl_error err = {0};
        float sum = 0; /* the exponentials as floats, their sum in double, rounded once */
        double exact = 0, of_floats = 0;
        fill(in, m->graphs.at[0]->vars.at[0], 0);
        for (int i = 0; i < 4; i++) {
            double e = exp(dl_interp_data(in, &m->graphs.at[0]->vars.at[0]->value)[i]);
            exact += e, of_floats += (double)(float)e;
        }
        sum = (float)of_floats;
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        double got = *dl_interp_data(in, m->graphs.at[0]->results.at[0].value);
        CHECK(round ? got == (double)sum : fabs(got - exact) < 1e-14, "%.17g", got);
        dl_interp_free(in);
    }
    dl_arena_free(arena);
}

/* A table's numbers are there without being set, rounded where the run rounds. */
static void test_table(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = parse(
        arena,
        "graph @g {\n  table $w = %0 : f32[N=3] numbers(0.1, -2, 7)\n  table $k = %1 : i64[N=3] "
        "numbers(1, 2, 9007199254740992)\n"
        "  %2 = mul $w, $w : f32[N=3]\n  output \"y\" = %2\n  output \"k\" = $k\n}\n");
    for (int round = 0; round < 2; round++) {
        dl_interp *in = dl_interp_new(m->graphs.at[0], round);
        dl_error err = {0};
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        const double *y = dl_interp_data(in, m->graphs.at[0]->results.at[0].value),
                     *k = dl_interp_data(in, m->graphs.at[0]->results.at[1].value);
        double tenth = round ? (double)0.1f : 0.1;
        CHECK(y[0] == (round ? (double)(float)(tenth * tenth) : tenth * tenth) && y[1] == 4 &&
                  y[2] == 49,
              "%.17g %g %g", y[0], y[1], y[2]);
        CHECK(k[0] == 1 && k[1] == 2 && k[2] == 9007199254740992);
        dl_interp_free(in);
    }
    dl_arena_free(arena);
}

static void test_refusal(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m =
        parse(arena, "graph @g {\n  input $q = %0 : f32[N=1, T=2, E=4]\n"
                     "  %1 = attention $q, $q, $q {rate=0, heads=2} : f32[N=1, T=2, E=4]\n"
                     "  output \"y\" = %1\n}\n");
    dl_interp *in = dl_interp_new(m->graphs.at[0], false);
    dl_error err = {0};
    CHECK(!dl_interp_run(in, &err) && err.code == DL_INPUT);
    CHECK_STR(err.message, "op 'attention' is checked but not lowered yet");
    dl_interp_free(in);
    dl_arena_free(arena);
}

/* Operands of f32 go into TF32, ties away from zero, where results are rounded; those of 16 bits,
 * and what is no number, stay; and the text says so. */
static void test_tf32(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m =
        parse(arena, "kernel @k(%a: f32[M=6, K=1], %b: f32[K=1]) -> (%o: f32[M=6]) space(M=6) {\n"
                     "  %0 = contract over(K=1) %a[M, K], %b[K] in tf32 : f32\n"
                     "  store %o[M], %0\n}\n"
                     "graph @g {\n  input $a = %0 : f32[M=6, K=1]\n  input $b = %1 : f32[K=1]\n"
                     "  %2 = fused @k($a, $b) : f32[M=6]\n  output \"y\" = %2\n}\n");
    if (!m) return;
    const dl_graph *g = m->graphs.at[0];
    dl_buf text = {0};
    dl_print_module(&text, m, (dl_print_options){0});
    CHECK(strstr(text.at, "%b[K] in tf32 : f32"), "printed: %s", text.at);
    dl_buf_free(&text);
    const double given[] = {1 + 0x1p-11, -1 - 0x1p-11, 1 + 0x1p-11 - 0x1p-20,
                            INFINITY,    0x1.fffp10,   3},
                 wanted[] = {1 + 0x1p-10, -1 - 0x1p-10, 1, INFINITY, 0x1p11, 3};
    for (int round = 0; round < 2; round++) {
        dl_interp *in = dl_interp_new(g, round);
        dl_error err = {0};
        memcpy(dl_interp_data(in, &g->vars.at[0]->value), given, sizeof given);
        dl_interp_data(in, &g->vars.at[1]->value)[0] = 1;
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        const double *got = dl_interp_data(in, g->results.at[0].value),
                     *want = round ? wanted : given;
        for (int i = 0; i < 6; i++)
            CHECK(got[i] == want[i], "round %d: %d: %.9g", round, i, got[i]);
        dl_interp_free(in);
    }
    dl_arena_free(arena);
}

/* Axes that all instructions follow together are walked as one (H and W of @joined; all four, of
 * its second sum), those that one reads the other way round, at an offset, as a coordinate or alone
 * are not. Rows are longer than a block. */
static const char joined[] =
    "kernel @joined(%x: f32[N=2, C=3, H=5, W=101], %b: f32[C=3]) -> (%y: f32[N=2, C=3, H=5, "
    "W=101], %s: "
    "f32[N=2, "
    "C=3], %t: f32[]) space(N=2, C=3, H=5, W=101) {\n"
    "  %0 = load %x[N, C, H, W] : f32\n"
    "  %1 = load %b[C] : f32\n"
    "  %2 = mul %0, %1 : f32\n"
    "  store %y[N, C, H, W], %2\n"
    "  %4 = sum %2 {over=[H, W]} : f32\n"
    "  store %s[N, C], %4\n"
    "  %6 = sum %0 {over=[N, C, H, W]} : f32\n"
    "  store %t[], %6\n}\n"
    "kernel @turned(%x: f32[N=2, C=3, H=5, W=101]) -> (%y: f32[N=2, C=3, W=101, H=5], %s: f32[N=2, "
    "C=3, "
    "H=5]) "
    "space(N=2, C=3, H=5, W=101) {\n"
    "  %0 = load %x[N, C, H, W] : f32\n"
    "  %1 = load %x[N, C, H, W-1] : f32\n"
    "  %2 = add %0, %1 : f32\n"
    "  store %y[N, C, W, H], %2\n"
    "  %4 = coord H : f32\n"
    "  %5 = mul %0, %4 : f32\n"
    "  %6 = reduce_max %5 {over=[W]} : f32\n"
    "  store %s[N, C, H], %6\n}\n"
    "graph @g {\n"
    "  input $x = %0 : f32[N=2, C=3, H=5, W=101]\n"
    "  param $b = %1 : f32[C=3] init zero\n"
    "  %2 = mul $x, $b : f32[N=2, C=3, H=5, W=101]\n"
    "  %3 = sum %2 {over=[H, W]} : f32[N=2, C=3]\n"
    "  %4 = sum $x {over=[N, C, H, W]} : f32[]\n"
    "  %5, %6, %7 = fused @joined($x, $b) : f32[N=2, C=3, H=5, W=101], f32[N=2, C=3], f32[]\n"
    "  %8 = slice $x {axis=W, start=0, stop=100} : f32[N=2, C=3, H=5, W=100]\n"
    "  %9 = pad %8 {axis=W, pad_lo=[1], pad_hi=[0]} : f32[N=2, C=3, H=5, W=101]\n"
    "  %10 = add $x, %9 : f32[N=2, C=3, H=5, W=101]\n"
    "  %11 = broadcast %10 : f32[N=2, C=3, W=101, H=5]\n"
    "  %12 = iota {axis=H} : f32[H=5]\n"
    "  %13 = mul $x, %12 : f32[N=2, C=3, H=5, W=101]\n"
    "  %14 = reduce_max %13 {over=[W]} : f32[N=2, C=3, H=5]\n"
    "  %15, %16 = fused @turned($x) : f32[N=2, C=3, W=101, H=5], f32[N=2, C=3, H=5]\n"
    "  output \"y\" = %2\n  output \"y2\" = %5\n  output \"s\" = %3\n  output \"s2\" = %6\n"
    "  output \"t\" = %4\n  output \"t2\" = %7\n  output \"u\" = %11\n  output \"u2\" = %15\n"
    "  output \"m\" = %14\n  output \"m2\" = %16\n}\n";
static void test_joined_axes(void) { check_pairs(joined); }

/* ---- runs that hold nothing ---- */

typedef struct {
    const dl_graph *g;
    dl_interp *held; /* a run that has everything */
    int sources, taken, off;
} streamed;

static void give(void *user, const dl_value *v, double *to) {
    streamed *s = user;
    int number = 0;
    while (s->g->vars.at[number]->name != v->var->name) number++;
    double *x = dl_interp_data(s->held, &s->g->vars.at[number]->value);
    memcpy(to, x, sizeof *x * (size_t)dl_type_count(&v->type));
    s->sources++;
}

static void take(void *user, const dl_value *v, const double *data) {
    streamed *s = user;
    const double *want = dl_interp_data(s->held, v);
    s->off += memcmp(want, data, sizeof *want * (size_t)dl_type_count(&v->type)) != 0;
    s->taken++;
}

/* A result of no elements is taken, though no node need run for it. */
static void test_stream_empty(void) {
    static const char text[] =
        "graph @g {\n  input $x = %0 : f32[N=0, C=3]\n  %1 = neg $x : f32[N=0, C=3]\n"
        "  output \"y\" = %1\n}\n";
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = parse(arena, text);
    if (!m) return;
    dl_error err = {0};
    streamed s = {.g = m->graphs.at[0], .held = dl_interp_new(m->graphs.at[0], false)};
    dl_interp *in = dl_interp_new(s.g, false);
    dl_interp_stream(in, give, take, &s);
    CHECK(dl_interp_run(in, &err) && s.taken == 1, "%d taken: %s", s.taken, err.message);
    dl_interp_free(in), dl_interp_free(s.held);
    dl_arena_free(arena);
}

/* Every result is taken once and is that of a run that holds all; variables are asked for by each
 * of their readers, as often as the run is made, and are not held in between. */
static void test_stream(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = parse(arena, joined);
    if (!m) return;
    const dl_graph *g = m->graphs.at[0];
    dl_error err = {0};
    streamed s = {.g = g, .held = dl_interp_new(g, false)};
    for (int i = 0; i < g->vars.n; i++) fill(s.held, g->vars.at[i], i);
    CHECK(dl_interp_run(s.held, &err), "%s", err.message);
    dl_interp *in = dl_interp_new(g, false);
    dl_interp_stream(in, give, take, &s);
    for (int run = 1; run <= 2; run++) {
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        CHECK(s.taken == 10 * run && s.off == 0, "%d results of run %d, %d off", s.taken, run,
              s.off);
        CHECK(s.sources == 9 * run, "a variable was asked for %d times in %d runs", s.sources, run);
    }
    dl_interp_free(in), dl_interp_free(s.held);
    dl_arena_free(arena);
}

typedef struct {
    const dl_node *n;
    dl_interp *in;
    int64_t judged;
    int outside, off;
} judging;

static void judge(void *user, int k, int64_t element, double at, double low, double high) {
    judging *j = user;
    double want = dl_interp_data(j->in, &j->n->out[k])[element];
    j->judged++;
    j->outside += !(at >= low && at <= high);
    j->off += !(fabs(at - want) <= 1e-5 * (1 + fabs(want)));
}

/* Each element of a kernel's results is judged once, and is in its range; what nothing was stored
 * into is 0. */
static void test_judged_once(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = parse(arena, joined);
    if (!m) return;
    const dl_graph *g = m->graphs.at[0];
    dl_error err = {0};
    dl_interp *in = dl_interp_new(g, true);
    for (int i = 0; i < g->vars.n; i++) {
        double *x = dl_interp_data(in, &g->vars.at[i]->value);
        fill(in, g->vars.at[i], i);
        for (int64_t k = 0; k < dl_type_count(&g->vars.at[i]->value.type); k++)
            x[k] = (double)(float)x[k];
    }
    CHECK(dl_interp_run(in, &err), "%s", err.message);
    for (int i = 0; i < g->nodes.n; i++) {
        judging j = {g->nodes.at[i], in, 0, 0, 0};
        int64_t all = 0;
        for (int k = 0; k < j.n->nout; k++) all += dl_type_count(&j.n->out[k].type);
        if (!j.n->kernel) continue;
        CHECK(dl_interp_node_ranges(in, j.n, &(dl_interp_ranges){judge, &j, false}, &err), "%s",
              err.message);
        CHECK(j.judged == all && !j.outside && !j.off,
              "%s: %lld of %lld judged, %d outside, %d off", j.n->kernel->name, (long long)j.judged,
              (long long)all, j.outside, j.off);
    }
    dl_interp_free(in);
    dl_arena_free(arena);
}

int main(void) {
    test_ranges();
    test_joined_axes();
    test_stream();
    test_stream_empty();
    test_judged_once();
    test_tf32();
    test_conv_kernel();
    test_gradient_kernels();
    test_point_kernels();
    test_updates();
    test_rounding();
    test_table();
    test_refusal();
    return dl_test_end();
}
