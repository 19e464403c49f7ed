/* Scans (ir/body.h): the interpreter next to the recurrence written out, gradients and gradients of
 * gradients next to central differences, the kernels of any number of steps, and faults. */
#include "ir/body.h"
#include "ir/interp/interp.h"
#include "ir/text/text.h"
#include "ir/validate/validate.h"
#include "passes/pass.h"
#include "tests/check.h"

enum { STEPS = 6, LINES = 3, UNITS = 4, CELLS = LINES * UNITS };

/* h' = tanh(h w + x), k' = 0.5 k + h'; y = h' k. The loss reads all results. */
static const char cell[] = "body @train_scan0 {\n"
                           "  input $x = %0 : f64[N=3, E=4]\n"
                           "  state $h = %1 : f64[N=3, E=4] init zero\n"
                           "  state $k = %2 : f64[N=3, E=4] init zero\n"
                           "  param $w = %3 : f64[E=4] init zero\n"
                           "  %4 = mul $h, $w : f64[N=3, E=4]\n"
                           "  %5 = add %4, $x : f64[N=3, E=4]\n"
                           "  %6 = tanh %5 : f64[N=3, E=4]\n"
                           "  %7 = const {value=0.5} : f64[]\n"
                           "  %8 = mul $k, %7 : f64[N=3, E=4]\n"
                           "  %9 = add %8, %6 : f64[N=3, E=4]\n"
                           "  %10 = mul %6, $k : f64[N=3, E=4]\n"
                           "  output \"y\" = %10\n"
                           "  update $h = %6\n"
                           "  update $k = %9\n"
                           "}\n";
static const char around[] =
    "graph @train {\n"
    "  param $x = %%0 : f64[T=%d, N=3, E=4] init zero\n"
    "  param $h = %%1 : f64[N=3, E=4] init zero\n"
    "  param $w = %%2 : f64[E=4] init zero\n"
    "  %%4, %%5, %%6 = scan @train_scan0($x, $h, $h, $w) {axis=T, reverse=%d, steps=%d} : "
    "f64[T=%d, N=3, E=4], f64[N=3, E=4], f64[N=3, E=4]\n"
    "  %%7 = sin %%4 : f64[T=%d, N=3, E=4]\n"
    "  %%8 = sum %%7 {over=[T, N, E]} : f64[]\n"
    "  %%9 = mul %%5, %%6 : f64[N=3, E=4]\n"
    "  %%10 = sum %%9 {over=[N, E]} : f64[]\n"
    "  %%11 = add %%8, %%10 : f64[]\n"
    "%s"
    "  output \"y\" = %%4\n"
    "  output \"last\" = %%6\n"
    "  loss \"loss\" = %s\n"
    "}\n";
/* The square of the loss' gradients by x and w, as the loss. */
static const char twice[] = "  %12 = grad %11, $x : f64[T=6, N=3, E=4]\n"
                            "  %13 = grad %11, $w : f64[E=4]\n"
                            "  %14 = mul %12, %12 : f64[T=6, N=3, E=4]\n"
                            "  %15 = mul %13, %13 : f64[E=4]\n"
                            "  %16 = sum %14 {over=[T, N, E]} : f64[]\n"
                            "  %17 = sum %15 {over=[E]} : f64[]\n"
                            "  %18 = add %16, %17 : f64[]\n";

static dl_module *read(dl_arena *arena, const char *text) {
    dl_error err = {0};
    dl_module *m = dl_read_module(arena, text, strlen(text), "test", &err);
    CHECK(m, "%s", err.message);
    return m;
}

static dl_module *model(dl_arena *arena, int steps, bool reverse, bool second) {
    dl_buf b = {0};
    dl_puts(&b, cell);
    dl_putf(&b, around, steps, reverse, steps, steps, steps, second ? twice : "",
            second ? "%18" : "%11");
    dl_module *m = read(arena, b.at);
    dl_buf_free(&b);
    return m;
}

static bool pass(dl_module *m, const char *names) {
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = m->arena, .err = &err};
    dl_run_passes(m, names, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES});
    CHECK(err.code == DL_OK, "%s", err.message);
    return err.code == DL_OK;
}

static double number(int i) { return sin(7.0 * i + 1) / 2; }

/* Runs the graph; `moved` of variable `of` is added to. Returns the loss. */
static double run(dl_interp *in, const dl_graph *g, const dl_var *of, int element, double moved) {
    dl_error err = {0};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        double *data = dl_interp_data(in, v);
        for (int k = 0; k < dl_type_count(&v->type); k++) data[k] = number(k + 100 * i);
        if (g->vars.at[i] == of) data[element] += moved;
    }
    CHECK(dl_interp_run(in, &err), "%s", err.message);
    return *dl_interp_data(in, dl_graph_find_result(g, DL_RESULT_LOSS, NULL)->value);
}

/* ---- the meaning ---- */

static void test_meaning(bool reverse) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = model(arena, STEPS, reverse, false);
    dl_graph *g = m->graphs.at[0];
    dl_interp *in = dl_interp_new(g, false);
    run(in, g, NULL, 0, 0);
    const double *y = dl_interp_data(in, dl_graph_find_result(g, DL_RESULT_OUTPUT, "y")->value),
                 *last =
                     dl_interp_data(in, dl_graph_find_result(g, DL_RESULT_OUTPUT, "last")->value);
    for (int e = 0; e < CELLS; e++) {
        double h = number(100 + e), k = h;
        for (int i = 0; i < STEPS; i++) {
            int t = reverse ? STEPS - 1 - i : i;
            h = tanh(h * number(200 + e % UNITS) + number(t * CELLS + e));
            CHECK_NEAR(y[t * CELLS + e], h * k, 1e-15);
            k = 0.5 * k + h;
        }
        CHECK_NEAR(last[e], k, 1e-15);
    }
    dl_interp_free(in);
    dl_arena_free(arena);
}

/* ---- gradients ---- */

/* The gradients of `derived` next to differences of `plain`, which are the same model. */
static void compare_gradients(dl_module *plain, dl_module *derived) {
    if (!pass(plain, "lower") || !pass(derived, "lower,simplify,contractions,autodiff,simplify"))
        return;
    dl_graph *g = derived->graphs.at[0], *p = plain->graphs.at[0];
    dl_interp *in = dl_interp_new(g, false), *moved = dl_interp_new(p, false);
    CHECK_NEAR(run(in, g, NULL, 0, 0), run(moved, p, NULL, 0, 0), 1e-12);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_result *r = dl_graph_find_result(g, DL_RESULT_GRAD, p->vars.at[i]->name);
        CHECK(r, "no gradient of %s", p->vars.at[i]->name);
        const double *dv = r ? dl_interp_data(in, r->value) : NULL, step = 1e-5;
        for (int k = 0; r && k < dl_type_count(&r->value->type); k += 3) {
            double up = run(moved, p, p->vars.at[i], k, step),
                   down = run(moved, p, p->vars.at[i], k, -step), want = (up - down) / (2 * step);
            CHECK_NEAR(dv[k], want, 1e-7 * (1 + fabs(want)));
        }
    }
    dl_interp_free(in), dl_interp_free(moved);
}

static void test_gradients(bool reverse, bool second) {
    dl_arena *arena = dl_arena_new(NULL);
    compare_gradients(model(arena, STEPS, reverse, second), model(arena, STEPS, reverse, second));
    dl_arena_free(arena);
}

/* h' = tanh(w h + x), with sums of 32 terms. */
static const char product[] = "body @train_scan0 {\n"
                              "  input $x = %%0 : f64[N=2, E=32]\n"
                              "  state $h = %%1 : f64[N=2, E=32] init zero\n"
                              "  param $w = %%2 : f64[F=32, E=32] init zero\n"
                              "  %%3 = contract $h, $w {over=[E]} : f64[N=2, F=32]\n"
                              "  %%4 = rename %%3 : f64[N=2, E=32]\n"
                              "  %%5 = add %%4, $x : f64[N=2, E=32]\n"
                              "  %%6 = tanh %%5 : f64[N=2, E=32]\n"
                              "  output \"y\" = %%6\n"
                              "  update $h = %%6\n"
                              "}\n"
                              "graph @train {\n"
                              "  param $x = %%0 : f64[T=3, N=2, E=32] init zero\n"
                              "  param $h = %%1 : f64[N=2, E=32] init zero\n"
                              "  param $w = %%2 : f64[F=32, E=32] init zero\n"
                              "  %%3, %%4 = scan @train_scan0($x, $h, $w) {axis=T, reverse=0, "
                              "steps=3%s} : f64[T=3, N=2, E=32], f64[N=2, E=32]\n"
                              "  %%5 = sin %%3 : f64[T=3, N=2, E=32]\n"
                              "  %%6 = sum %%5 {over=[T, N, E]} : f64[]\n"
                              "%s"
                              "  loss \"loss\" = %s\n"
                              "}\n";
static const char product_twice[] = "  %7 = grad %6, $w : f64[F=32, E=32]\n"
                                    "  %8 = mul %7, %7 : f64[F=32, E=32]\n"
                                    "  %9 = sum %8 {over=[F, E]} : f64[]\n";

static dl_module *product_model(dl_arena *arena, bool recompute, bool second) {
    dl_buf b = {0};
    dl_putf(&b, product, recompute ? ", recompute=1" : "", second ? product_twice : "",
            second ? "%9" : "%6");
    dl_module *m = read(arena, b.at);
    dl_buf_free(&b);
    return m;
}

/* Contractions of the graph and of its scans' bodies, each body once. */
static int contractions(const dl_graph *g) {
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *node = g->nodes.at[i];
        n += node->body ? contractions(node->body) : node->op == DL_OP_contract;
    }
    return n;
}

/* A product is made once for both passes, or where the scan is recomputed, twice: next to it there
 * are those of its two gradients. */
static void test_stored(void) {
    for (int recompute = 0; recompute < 2; recompute++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_module *derived = product_model(arena, recompute, false);
        compare_gradients(product_model(arena, recompute, false), derived);
        const int found = contractions(derived->graphs.at[0]);
        CHECK(found == 3 + recompute, "%d contractions with recompute=%d", found, recompute);
        compare_gradients(product_model(arena, recompute, true),
                          product_model(arena, recompute, true));
        dl_arena_free(arena);
    }
}

/* ---- kernels and memory ---- */

static int launches(const dl_graph *g) {
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *node = g->nodes.at[i];
        n += node->body ? (int)dl_steps_of(node).steps * launches(node->body) : 1;
    }
    return n;
}

/* The compiled graph has as many kernels for any number of steps; launches and memory are linear.
 */
static void test_size(void) {
    static const int steps[] = {100, 200, 300};
    int kernels[3], launched[3];
    int64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_module *m = model(arena, steps[i], false, false);
        if (!pass(m, dl_pipeline)) return;
        kernels[i] = dl_graph_kernels(m->graphs.at[0]);
        launched[i] = launches(m->graphs.at[0]);
        bytes[i] = m->graphs.at[0]->arena_bytes;
        dl_buf once = {0}, again = {0};
        dl_print_module(&once, m, (dl_print_options){.locations = true});
        dl_module *same = read(arena, once.at);
        if (same) dl_print_module(&again, same, (dl_print_options){.locations = true});
        if (same) CHECK_STR(again.at, once.at);
        dl_buf_free(&once), dl_buf_free(&again);
        dl_arena_free(arena);
    }
    CHECK(kernels[0] == kernels[1] && kernels[1] == kernels[2], "%d, %d and %d kernels", kernels[0],
          kernels[1], kernels[2]);
    CHECK(launched[2] - launched[1] == launched[1] - launched[0], "%d, %d and %d launches",
          launched[0], launched[1], launched[2]);
    CHECK(llabs((bytes[2] - bytes[1]) - (bytes[1] - bytes[0])) <= 2 * 4096,
          "%lld, %lld and %lld bytes", (long long)bytes[0], (long long)bytes[1],
          (long long)bytes[2]);
}

/* ---- faults ---- */

static void fails(const char *from, const char *to, const char *what) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_buf b = {0}, bad = {0};
    dl_error err = {0};
    dl_puts(&b, cell);
    dl_putf(&b, around, STEPS, 0, STEPS, STEPS, STEPS, "", "%11");
    const char *at = strstr(b.at, from);
    CHECK(at, "%s", from);
    dl_putn(&bad, b.at, (size_t)(at - b.at));
    dl_puts(&bad, to), dl_puts(&bad, at + strlen(from));
    CHECK(!dl_read_module(arena, bad.at, bad.n, "test", &err) && strstr(err.message, what),
          "'%s' in place of '%s': %s", to, from, err.message);
    dl_buf_free(&b), dl_buf_free(&bad);
    dl_arena_free(arena);
}

static void test_faults(void) {
    fails("scan @train_scan0(", "scan @train_scan1(", "no body @train_scan1 stands above");
    fails("($x, $h, $h, $w)", "($x, $h, $h)", "has 4 variables and 3 results, found 3 and 3");
    fails("($x, $h, $h, $w)", "($x, $h, $w, $w)",
          "expects $k as f64[N=3, E=4], but it is f64[E=4]");
    fails("steps=6}", "steps=5}", "expects $x as f64[T=5, N=3, E=4]");
    fails("steps=6}", "steps=0}", "takes one step at least");
    fails("reverse=0", "reverse=2", "reverse");
    fails("steps=6}", "steps=6, recompute=2}", "recompute");
    fails("  update $k = %9\n", "  output \"k\" = %9\n",
          "result 2 of scan should be f64[T=6, N=3, E=4]");
    fails("  state $k", "  hyper $k", "$k of @train_scan0 is a variable with 1 updates");
    fails("  output \"y\" = %10\n  update", "  figure \"y\" = %10\n  update", "neither an output");
    fails("graph @train {",
          "body @more {\n  input $x = %0 : f64[]\n  output \"y\" = $x\n}\n"
          "graph @train {",
          "body @more is run by no node");
    fails("graph @train {", "body @train_scan0 {\n}\ngraph @train {", "stands there twice");
}

int main(void) {
    for (int reverse = 0; reverse < 2; reverse++) {
        test_meaning(reverse);
        test_gradients(reverse, false);
        test_gradients(reverse, true);
    }
    test_stored();
    test_size();
    test_faults();
    return dl_test_end();
}
