/* Kernels with reductions whose results are spread again (ir/kernel/loop_nest.h): norms, softmax
 * and their gradients over rows in vectors, across vectors and in phases, of awkward sizes:
 * compiled for every target that this machine can run against the interpreter on the unfused graph,
 * the same bits with one thread and with three, and in no more kernels than their data flow needs.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "ir/base/hash.h"
#include "ir/kernel/schedule.h"
#include "ir/text/text.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/cache.h"
#include "tests/check.h"
#include "tests/unit/error_bound.h"
#include "tests/unit/random_numbers.h"

typedef struct {
    const char *what,
        *body;      /* of sizes A, B, C; its last value is %9, of x's type where it has that */
    bool scalar;    /* %9 is the loss itself */
    int kernels;    /* of the gradients' step, at most */
    int size[6][3]; /* ends with a 0 */
} row_case;

#define X "param $x = %%0 : f32[A=%1$d, B=%2$d, C=%3$d]\n"
static const row_case cases[] = {
    {"layer norm",
     X "  param $w = %%1 : f32[C=%3$d]\n  param $b = %%2 : f32[C=%3$d]\n"
       "  %%9 = layer_norm $x, $w, $b {eps=1e-05} : f32[A=%1$d, B=%2$d, C=%3$d]\n",
     false,
     2,
     {{2, 9, 16}, {3, 7, 1}, {1, 31, 37}, {2, 17, 384}, {1, 16, 8191}}},
    {"layer norm of few long rows", /* in phases: a row does not fit, and there is one */
     X "  param $w = %%1 : f32[C=%3$d]\n  param $b = %%2 : f32[C=%3$d]\n"
       "  %%9 = layer_norm $x, $w, $b {eps=1e-05} : f32[A=%1$d, B=%2$d, C=%3$d]\n",
     false,
     4,
     {{1, 1, 20011}, {1, 3, 66001}}},
    {"softmax along memory",
     X "  %%9 = softmax $x {axis=C} : f32[A=%1$d, B=%2$d, C=%3$d]\n",
     false,
     1,
     {{2, 9, 16}, {3, 5, 1}, {1, 31, 37}, {1, 3, 1009}, {2, 1, 16384}}},
    {"softmax across memory", /* each lane has a row of its own */
     X "  %%9 = softmax $x {axis=B} : f32[A=%1$d, B=%2$d, C=%3$d]\n",
     false,
     1,
     {{2, 9, 16}, {3, 1, 5}, {1, 31, 37}, {7, 300, 19}}},
    {"softmax of rows that do not fit",
     X "  %%9 = softmax $x {axis=C} : f32[A=%1$d, B=%2$d, C=%3$d]\n",
     false,
     2,
     {{1, 5, 20011}}},
    {"batch norm", /* phases */
     X "  param $w = %%1 : f32[B=%2$d]\n  param $b = %%2 : f32[B=%2$d]\n"
       "  input $m = %%3 : f32[B=%2$d]\n  input $v = %%4 : f32[B=%2$d]\n"
       "  %%9 = batch_norm $x, $w, $b, $m, $v {eps=1e-05, momentum=0.9, training=1} : f32[A=%1$d, "
       "B=%2$d, "
       "C=%3$d]\n",
     false,
     3,
     {{5, 3, 7}, {2, 33, 1}, {17, 5, 4099}}},
    {"cross-entropy",
     X
     "  %%1 = reshape $x : f32[N=%4$d, C=%3$d]\n  input $c = %%2 : i64[N=%4$d]\n"
     "  %%3 = cross_entropy %%1, $c {axis=C} : f32[N=%4$d]\n  %%9 = mean %%3 {over=[N]} : f32[]\n",
     true,
     3,
     {{2, 9, 16}, {1, 31, 37}, {4, 16, 1000}, {3, 5, 1}}},
    {"a norm, and what is divided by it",
     X "  %%1 = mul $x, $x : f32[A=%1$d, B=%2$d, C=%3$d]\n  %%2 = sum %%1 {over=[B, C]} : "
       "f32[A=%1$d]\n"
       "  %%3 = sqrt %%2 : f32[A=%1$d]\n  %%9 = div $x, %%3 : f32[A=%1$d, B=%2$d, C=%3$d]\n",
     false,
     1,
     {{19, 3, 5}, {17, 1, 2}, {16, 7, 130}}},
    {"squares of means times a weight", /* a loop nest over a row reads what one before it kept */
     X "  param $w = %%1 : f32[]\n  %%2 = mean $x {over=[C]} : f32[A=%1$d, B=%2$d]\n"
       "  %%3 = mul $w, %%2 : f32[A=%1$d, B=%2$d]\n  %%4 = mul %%3, %%3 : f32[A=%1$d, B=%2$d]\n"
       "  %%5 = mean %%4 {over=[A, B]} : f32[]\n  %%6 = mul %%4, %%5 : f32[A=%1$d, B=%2$d]\n"
       "  %%9 = sum %%6 {over=[A, B]} : f32[]\n",
     true,
     2,
     {{1, 52, 2}, {13, 4, 3}, {3, 70, 17}}},
    {"the smallest of means times a weight", /* compared with the smallest: it goes through memory
                                              */
     X "  param $w = %%1 : f32[]\n  %%2 = mean $x {over=[C]} : f32[A=%1$d, B=%2$d]\n"
       "  %%3 = mul $w, %%2 : f32[A=%1$d, B=%2$d]\n  %%9 = reduce_min %%3 {over=[A, B]} : f32[]\n",
     true,
     3,
     {{1, 52, 2}, {13, 4, 3}, {3, 70, 17}}},
    {"by the largest of all, a thousand times smaller", /* one scalar for all points */
     X "  %%1 = abs $x : f32[A=%1$d, B=%2$d, C=%3$d]\n  %%2 = reduce_max %%1 {over=[A, B, C]} : "
       "f32[]\n"
       "  %%9 = div $x, %%2 : f32[A=%1$d, B=%2$d, C=%3$d]\n",
     false,
     4,
     {{3, 5, 7}, {1, 1, 2}, {13, 70, 101}}},
};
enum { NCASES = sizeof cases / sizeof *cases, MOST = 64 };

static const char *name_of(dl_arena *arena, int i, int s) {
    return dl_format(arena, "c%d_%d", i, s);
}

/* One case as a graph: with the sum of its products with $t as loss. */
static void build(dl_module *m, int i, int s, dl_error *err) {
    const int *n = cases[i].size[s];
    const char *body = dl_format(m->arena, cases[i].body, n[0], n[1], n[2], n[0] * n[1]);
    const char *type = dl_format(m->arena, "f32[A=%d, B=%d, C=%d]", n[0], n[1], n[2]);
    const char *loss =
        cases[i].scalar
            ? "  loss \"loss\" = %9\n"
            : dl_format(m->arena,
                        "  input $t = %%10 : %s\n  %%11 = mul %%9, $t : %s\n  %%12 = sum %%11 "
                        "{over=[A, B, C]} : f32[]\n  loss \"loss\" = %%12\n  output \"y\" = %%9\n",
                        type, type);
    const char *text = dl_format(m->arena, "graph @train {\n  %s%s}\n", body, loss);
    dl_module *one = dl_parse_module(m->arena, text, strlen(text), "rows", err);
    CHECK(one, "%s: %s", cases[i].what, err->message);
    if (!one) return;
    dl_pass_ctx ctx = {.arena = m->arena,
                       .weights = {.kind = DL_PANEL, .width = 16},
                       .keep_gradients = true,
                       .step_options.optimizer = DL_OPT_NONE,
                       .err = err};
    bool ok = dl_run_passes(one, "lower,simplify,autodiff,simplify", &ctx,
                            (dl_pass_options){.validate = DL_VALIDATE_PASSES});
    CHECK(ok, "%s: %s", cases[i].what, err->message);
    dl_graph *g = one->graphs.at[0];
    g->name = dl_intern(name_of(m->arena, i, s)), g->module = m;
    for (int v = 0; v < g->vars.n; v++)
        g->vars.at[v]->name = dl_internf("%s.%s", g->name, g->vars.at[v]->name);
    dl_push(m->arena, &m->graphs, g);
}

/* The graphs of one size of each case. */
static dl_module *build_all(int s, int *of, dl_error *err) {
    dl_module *m = dl_module_new(NULL);
    for (int i = 0; i < NCASES; i++)
        if (s < 6 && cases[i].size[s][0]) of[m->graphs.n] = i, build(m, i, s, err);
    return m;
}

/* The graphs of one size, interpreted once for all targets and numbers of threads. */
typedef struct {
    dl_module *written;
    int of[NCASES]; /* the case of each graph */
    bounded_run *right[NCASES];
} reference;

static void interpret(reference *to, int s) {
    dl_error err = {0};
    to->written = build_all(s, to->of, &err);
    for (int i = 0; i < to->written->graphs.n; i++) {
        const dl_graph *g = to->written->graphs.at[i];
        rng r = {(uint64_t)to->of[i] + 100};
        to->right[i] = bounded_new(g);
        for (int v = 0; v < g->vars.n; v++) {
            const dl_value *value = &g->vars.at[v]->value;
            double *data = dl_interp_data(to->right[i]->value, value);
            for (int64_t k = 0; k < dl_type_count(&value->type); k++) {
                data[k] = (double)(float)uniform(&r, -1, 1);
                if (value->type.dtype == DL_I64) data[k] = 0;
            }
        }
        CHECK(bounded_run_all(to->right[i], &err), "%s", err.message);
    }
}

static void forget(reference *r) {
    for (int i = 0; i < r->written->graphs.n; i++) bounded_free(r->right[i]);
    dl_arena_free(r->written->arena);
}

/* The numbers that the interpreter had. */
static void feed(const dl_graph *g, dl_interp *in, dlr_exec *exec) {
    for (int i = 0; i < g->vars.n; i++) {
        dlr_view view = dlr_exec_variable(exec, g->vars.at[i]->name);
        if (view.type)
            dlr_state_write(exec, view, DL_F64, dl_interp_data(in, &g->vars.at[i]->value));
    }
}

/* The largest distance of an element, as a part of what it may be: 5e-5 of the result's largest
 * (float32 in a handful of operations a number, sums in double), and no more than what rounding its
 * own terms may leave of it (error_bound.h). A result that is smaller than that is nothing but what
 * is left where terms cancel: then it is their size that rounding goes by, and the result's says
 * nothing. So it is with layer norm over one element, whose gradient of zero is the difference of
 * two equal products: with one of them fused into the difference, the other's rounding is left. */
static double distance(const dlr_exec *exec, dlr_view view, const double *want,
                       const double *bound) {
    int64_t n = dl_type_count(view.type);
    double largest = 0, widest = 0, far = 0, *got = calloc((size_t)(n ? n : 1), sizeof *got);
    dlr_state_read(exec, view, DL_F64, got);
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i])), widest = fmax(widest, bound[i]);
    for (int64_t i = 0; i < n; i++) {
        double off = fabs(got[i] - want[i]);
        double most = largest > widest ? fmin(5e-5 * largest, bound[i]) : bound[i];
        far = fmax(far, off > 0 ? off / most : off == 0 ? 0 : INFINITY);
    }
    free(got);
    return widest < INFINITY ? far : INFINITY; /* where nothing is known, nothing would be asked */
}

static uint64_t bits_of(const dlr_exec *exec, int program, const dl_graph *g) {
    uint64_t h = 0;
    for (int r = 0; r < g->results.n; r++) {
        dlr_view v = dlr_exec_result(exec, program, g->results.at[r].role, g->results.at[r].name);
        if (!v.type) continue;
        size_t n = (size_t)dl_type_count(v.type) * sizeof(double);
        double *data = malloc(n + 1); /* exact, whatever device has it */
        dlr_state_read(exec, v, DL_F64, data);
        h = dl_hash(data, n, h);
        free(data);
    }
    return h;
}

static void check_case(const reference *of, int number, dlr_exec *exec, int s, const char *target,
                       int threads, uint64_t *bits) {
    const dl_graph *g = of->written->graphs.at[number];
    const bounded_run *right = of->right[number];
    const int i = of->of[number];
    feed(g, right->value, exec);
    int program = dlr_exec_program(exec, g->name);
    dlr_exec_run(exec, program, NULL);
    for (int r = 0; r < g->results.n; r++) {
        dlr_view v = dlr_exec_result(exec, program, g->results.at[r].role, g->results.at[r].name);
        if (!v.type) continue;
        const dl_value *value = g->results.at[r].value;
        double d = distance(exec, v, dl_interp_data(right->value, value),
                            dl_interp_data(right->bound, value));
        CHECK(d <= 1, "%s, %d threads, %s, size %d, result %s: %.2e of what it may be off by",
              target, threads, cases[i].what, s, g->results.at[r].name, d);
    }
    uint64_t h = bits_of(exec, program, g);
    CHECK(threads == 1 || h == *bits, "%s, %s, size %d: other bits with %d threads", target,
          cases[i].what, s, threads);
    *bits = h;
}

static void test_target(const char *target, int s, const reference *right) {
    dl_error err = {0};
    dl_compile_options opt = {.target = dl_target_find(NULL, target, &err),
                              .step_options.optimizer = DL_OPT_NONE,
                              .keep_gradients = true,
                              .model = "rows",
                              .batch = 1,
                              .validate = DL_VALIDATE_PASSES,
                              .link = true};
    int of[NCASES];
    uint64_t bits[NCASES] = {0};
    dl_module *m = build_all(s, of, &err);
    dl_compile_times times = {0};
    dl_plan *p = m->graphs.n ? dl_compile(m->arena, m, &opt, &times, &err) : NULL;
    CHECK(p || !m->graphs.n, "%s: %s", target, err.message);
    for (int threads = 1; p && threads <= 3; threads += 2) {
        dlr_exec *exec = dlr_exec_open(p, (dlr_exec_options){.threads = threads}, &err);
        CHECK(exec, "%s", err.message);
        for (int i = 0; exec && i < right->written->graphs.n; i++)
            check_case(right, i, exec, s, target, threads, &bits[i]);
        dlr_exec_close(exec);
    }
    for (int i = 0; p && i < m->graphs.n; i++)
        CHECK(m->graphs.at[i]->kernels.n <= cases[of[i]].kernels, "%s, size %d: %d kernels",
              cases[of[i]].what, s, m->graphs.at[i]->kernels.n);
    dl_arena_free(m->arena);
}

/* Equal kernels, whatever they are called, are emitted once. */
static void test_twins(void) {
    dl_error err = {0};
    dl_compile_options opt = {.target = dl_target_find(NULL, "cpu:generic", &err),
                              .step_options.optimizer = DL_OPT_NONE,
                              .keep_gradients = true,
                              .model = "twins",
                              .batch = 1};
    dl_module *m = dl_module_new(NULL);
    for (int i = 0; i < 3; i++) build(m, 2, i < 2 ? 0 : 2, &err);
    m->graphs.at[1]->name = dl_intern("again");
    dl_compile_times times = {0};
    dl_plan *p = dl_compile(m->arena, m, &opt, &times, &err);
    CHECK(p && p->kernels.n == 3, "%s", err.message);
    if (p) CHECK(p->kernels.at[0].symbol == p->kernels.at[1].symbol);
    if (p) CHECK(p->kernels.at[0].symbol != p->kernels.at[2].symbol);
    dl_arena_free(m->arena);
}

/* Short maxima go by rows on a CPU, however few they are, in vectors; few sums go by points, which
 * have vectors for these, and longer rows are shared by threads. */
static void test_maxima(void) {
    static const struct {
        const char *op;
        int taps, channels;
        dl_loop_kind kind;
    } of[] = {{"reduce_max", 4, 20, DL_BY_ROWS},
              {"reduce_min", 9, 1, DL_BY_ROWS},
              {"sum", 4, 20, DL_BY_POINTS},
              {"reduce_max", 5000, 20, DL_BY_POINTS}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        dl_error err = {0};
        dl_arena *arena = dl_arena_new(NULL);
        dl_compile_options opt = {.target = dl_target_find(NULL, "cpu:generic", &err),
                                  .step_options.optimizer = DL_OPT_NONE,
                                  .model = "maxima",
                                  .batch = 1};
        const char *text = dl_format(arena,
                                     "graph @g {\n  param $x = %%0 : f32[A=%d, B=%d, C=%d]\n"
                                     "  %%1 = %s $x {over=[B]} : f32[A=%d, C=%d]\n"
                                     "  output \"y\" = %%1\n}\n",
                                     7, of[i].taps, of[i].channels, of[i].op, 7, of[i].channels);
        dl_compile_times times = {0};
        dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
        bool ok = m && dl_compile(arena, m, &opt, &times, &err);
        CHECK(ok && m->graphs.at[0]->kernels.n == 1, "%s", err.message);
        if (ok)
            CHECK(m->graphs.at[0]->kernels.at[0]->schedule.kind == of[i].kind, "%s of %d: by %s",
                  of[i].op, of[i].taps,
                  dl_schedule_name(m->graphs.at[0]->kernels.at[0]->schedule.kind));
        dl_arena_free(arena);
    }
}

int main(void) {
    char dir[] = "/tmp/dl_rows_XXXXXX";
    if (!test_cache(dir)) return 1;
    test_twins();
    test_maxima();
    /* first what every machine has: a share always takes that */
    static const char *const targets[] = {"cpu:generic", "cpu:avx2", "cpu:avx512",
                                          "cuda:sm_90a:emulated"};
    enum { TARGETS = sizeof targets / sizeof *targets, SIZES = 6 };
    bool here[TARGETS];
    for (unsigned t = 0; t < TARGETS; t++) {
        dl_error err = {0};
        here[t] = dl_test_takes_cheap(t) && dl_target_find(NULL, targets[t], &err);
        if (err.code) dl_test_skip("%s: %s", targets[t], err.message);
    }
    for (int s = 0; s < SIZES; s++) {
        reference right;
        interpret(&right, s);
        for (int t = 0; t < TARGETS; t++)
            if (here[t]) test_target(targets[t], s, &right);
        forget(&right);
    }
    return dl_test_end();
}
