/* Reductions next to the contractions that make what they reduce: how many elements are not finite,
 * as the loss scaler asks, and the sum of squares, as clipping by norm does. In one kernel with the
 * contraction, of whichever family; as the interpreter finds them; with the same bits on any number
 * of threads. What fills up a weight's last panel does not count. */
#include <math.h>

#include "ir/interp/interp.h"
#include "tests/unit/compiled.h"
#include "tests/unit/random_numbers.h"

typedef struct {
    const char *what, *a, *b, *node; /* the types of its operands, and what makes %2 */
    const char *axes, *dtype;        /* of %2: "O=3, ..." */
    double most;                     /* size of the operands' elements */
    bool odd;                        /* some of $a are no numbers */
} beside_case;

#define ONE_D "{stride=[1], pad_lo=[1], pad_hi=[1], kernel=[3]"
static const beside_case cases[] = {
    {"a weight", "f32[N=2, C=12, W=9]", "f32[N=2, C=20, W=9]", "conv_grad_weight $a, $b " ONE_D "}",
     "O=20, C=12, kW=3", "f32", 1, false},
    {"a weight, not finite", "f32[N=2, C=12, W=9]", "f32[N=2, C=20, W=9]",
     "conv_grad_weight $a, $b " ONE_D "}", "O=20, C=12, kW=3", "f32", 1, true},
    {"a weight in f16", "f16[N=2, C=12, W=9]", "f16[N=2, C=20, W=9]",
     "conv_grad_weight $a, $b " ONE_D "}", "O=20, C=12, kW=3", "f16", 190, false},
    {"a weight in bf16", "bf16[N=2, C=34, W=19]", "bf16[N=2, C=70, W=19]",
     "conv_grad_weight $a, $b " ONE_D "}", "O=70, C=34, kW=3", "bf16", 1, true},
    {"a weight of one element", "f32[N=3, C=1, W=4]", "f32[N=3, C=1, W=2]",
     "conv_grad_weight $a, $b {stride=[3], pad_lo=[0], pad_hi=[0], kernel=[1]}", "O=1, C=1, kW=1",
     "f32", 1, false}, /* sums over it are itself */
    {"few channels", "f16[N=1, C=3, H=9, W=11]", "f16[N=1, C=33, H=9, W=11]",
     "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3]}",
     "O=33, C=3, kH=3, kW=3", "f16", 120, false},
    {"few channels made", "f16[N=1, C=37, W=50]", "f16[N=1, C=3, W=50]",
     "conv_grad_weight $a, $b " ONE_D "}", "O=3, C=37, kW=3", "f16", 160, false},
    {"few channels in bf16, many taps", "bf16[N=1, C=3, H=15, W=17]", "bf16[N=1, C=33, H=15, W=17]",
     "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[2, 2], pad_hi=[2, 2], kernel=[5, 5]}",
     "O=33, C=3, kH=5, kW=5", "bf16", 1, true},
    {"few channels made in bf16, many taps", "bf16[N=1, C=37, H=9, W=11]",
     "bf16[N=1, C=3, H=9, W=11]",
     "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[2, 2], pad_hi=[2, 2], kernel=[5, 5]}",
     "O=3, C=37, kH=5, kW=5", "bf16", 1, true},
    {"shared positions", "f32[N=2, C=5, H=24, W=31]", "f32[N=2, C=7, H=12, W=16]",
     "conv_grad_weight $a, $b {stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3]}",
     "O=7, C=5, kH=3, kW=3", "f32", 1, true},
    {"patches", "f16[N=2, C=3, H=8, W=20]", "f16[N=2, C=21, H=2, W=5]",
     "conv_grad_weight $a, $b {stride=[4, 4], pad_lo=[0, 0], pad_hi=[0, 0], kernel=[4, 4]}",
     "O=21, C=3, kH=4, kW=4", "f16", 140, false},
    {"groups", "f32[N=2, C=12, W=9]", "f32[N=2, C=20, W=9]",
     "conv_grad_weight $a, $b " ONE_D ", groups=4}", "O=20, C=3, kW=3", "f32", 1, true},
    {"depthwise", "f16[N=2, C=40, W=9]", "f16[N=2, C=40, W=9]",
     "conv_grad_weight $a, $b " ONE_D ", groups=40}", "O=40, C=1, kW=3", "f16", 170, false},
    {"a linear layer's weight", "f16[N=3, T=47, E=37]", "f16[N=3, T=47, O=83]",
     "contract $a, $b {over=[N, T]}", "E=37, O=83", "f16", 130, false},
    {"a linear layer's weight in bf16", "bf16[N=3, T=47, E=38]", "bf16[N=3, T=47, O=82]",
     "contract $a, $b {over=[N, T]}", "E=38, O=82", "bf16", 1, true},
    {"a product", "f32[N=5, E=37]", "f32[O=83, E=37]", "contract $a, $b {over=[E]}", "N=5, O=83",
     "f32", 1, true},
    /* one of $a that is no number follows a row's last term, next to which stands a zero */
    {"a product of an odd number in bf16", "bf16[N=10, E=33]", "bf16[O=83, E=33]",
     "contract $a, $b {over=[E]}", "N=10, O=83", "bf16", 1, true},
    {"an odd number of channels in bf16", "bf16[N=2, C=21, W=19]", "bf16[O=40, C=21, kW=3]",
     "conv $a, $b {stride=[1], pad_lo=[1], pad_hi=[1]}", "N=2, C=40, W=19", "bf16", 1, true},
    {"an odd number of dy's channels in bf16", "bf16[N=2, C=21, W=19]", "bf16[O=21, C=40, kW=3]",
     "conv_grad_input $a, $b {stride=[1], pad_lo=[1], pad_hi=[1], size=[19]}", "N=2, C=40, W=19",
     "bf16", 1, true},
    {"an odd number, by stride phase into few", "bf16[N=2, C=21, W=19]", "bf16[O=21, C=5, kW=4]",
     "conv_grad_input $a, $b {stride=[2], pad_lo=[1], pad_hi=[1], size=[38]}", "N=2, C=5, W=38",
     "bf16", 1, true},
    {"products by heads", "bf16[B=2, S=19, H=3, E=32]", "bf16[B=2, T=21, H=3, E=32]",
     "contract $a, $b {over=[E]}", "B=2, S=19, H=3, T=21", "bf16", 1, true},
};

/* The names of axes alone: "O, C, kW". */
static const char *names_of(dl_arena *arena, const char *axes) {
    char *to = dl_strdup(arena, axes);
    int n = 0;
    for (bool on = true; *axes; axes++) {
        if (*axes == '=' || *axes == ',') on = *axes == ',';
        if (on) to[n++] = *axes;
    }
    to[n] = 0;
    return to;
}

static const char *text_of(dl_arena *arena, const beside_case *c) {
    const char *over = names_of(arena, c->axes), *x = c->axes;
    return dl_format(
        arena,
        "graph @train {\n  input $a = %%0 : %s\n  input $b = %%1 : %s\n  %%2 = %s : %s[%s]\n"
        "  %%3 = const {value=inf} : %s[]\n  %%4 = const {value=-inf} : %s[]\n"
        "  %%5 = lt %%2, %%3 : bool[%s]\n  %%6 = gt %%2, %%4 : bool[%s]\n  %%7 = and %%5, %%6 : "
        "bool[%s]\n"
        "  %%8 = not %%7 : bool[%s]\n  %%9 = cast %%8 : f32[%s]\n  %%10 = sum %%9 {over=[%s]} : "
        "f32[]\n"
        "  %%11 = cast %%2 : f32[%s]\n  %%12 = mul %%11, %%11 : f32[%s]\n"
        "  %%13 = sum %%12 {over=[%s]} : f32[]\n"
        "  output \"faults\" = %%10\n  output \"squares\" = %%13\n}\n",
        c->a, c->b, c->node, c->dtype, x, c->dtype, c->dtype, x, x, x, x, x, over, x, x, over);
}

static void feed(const beside_case *c, const dl_graph *g, dl_interp *in, dlr_exec *const exec[2]) {
    for (int i = 0; i < 2; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        rng r = {11 + (uint64_t)i};
        double *to = dl_interp_data(in, v);
        int64_t n = dl_type_count(&v->type);
        for (int64_t k = 0; k < n; k++) {
            to[k] = dl_interp_convert(v->type.dtype, uniform(&r, -c->most, c->most), true);
            if (c->odd && i == 0 && one_in(&r, 1 + (int)(n / 4)))
                to[k] = one_in(&r, 3) ? NAN : INFINITY;
        }
        for (int t = 0; t < 2; t++)
            dlr_state_write(exec[t], dlr_exec_variable(exec[t], g->vars.at[i]->name), DL_F64, to);
    }
}

/* Kernels that contract, and those of them that reduce next to it; others that reduce. */
static void count_kernels(const dl_graph *g, int *contract, int *with_sums, int *others) {
    for (int i = 0; i < g->kernels.n; i++) {
        const dl_kernel *k = g->kernels.at[i];
        bool makes = dl_kernel_anchor(k) >= 0, reduces = false;
        for (int j = 0; j < k->instrs.n; j++) reduces |= k->instrs.at[j].kind == DL_K_REDUCE;
        *contract += makes, *with_sums += makes && reduces, *others += !makes && reduces;
    }
}

static void test_case(const beside_case *c, const char *target) {
    static const int threads[] = {1, 3};
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text = text_of(arena, c);
    dl_module *m = dl_parse_module(arena, text, strlen(text), "sums", &err), *made = NULL;
    CHECK(m, "%s: %s", c->what, err.message);
    dl_plan *p = m ? compile_text_module(arena, text, target, NULL, &made) : NULL;
    dlr_exec *exec[2] = {0};
    for (int t = 0; t < 2; t++) exec[t] = open_plan(p, threads[t]);
    if (exec[0] && exec[1]) {
        int contract = 0, with_sums = 0, others = 0;
        count_kernels(made->graphs.at[0], &contract, &with_sums, &others);
        CHECK(contract == 1 && with_sums == 1 && others == 0,
              "%s, %s: %d, %d next to it, %d others", target, c->what, contract, with_sums, others);
        const dl_graph *g = m->graphs.at[0];
        dl_interp *in = dl_interp_new(g, true);
        feed(c, g, in, exec);
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        const dl_value *of = &g->nodes.at[0]->out[0];
        double want[2], all = (double)dl_type_count(&of->type);
        float got[2][2];
        for (int t = 0; t < 2; t++) {
            dlr_exec_run(exec[t], 0, NULL);
            for (int r = 0; r < 2; r++) {
                float *one = read_output(exec[t], 0, r ? "squares" : "faults", DL_F32);
                got[t][r] = one ? *one : NAN;
                want[r] = *dl_interp_data(in, g->results.at[r].value);
                free(one);
            }
        }
        CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0, "%s, %s: other bits on three threads",
              target, c->what);
        CHECK((double)got[0][0] == want[0], "%s, %s: %g of %g elements are not finite, not %g",
              target, c->what, want[0], all, (double)got[0][0]);
        bool some = c->odd || c->most > 1;
        CHECK(some ? want[0] > 0 && want[0] < all : want[0] == 0, "%s: %g of %g", c->what, want[0],
              all);
        /* stored in 16 bits it is rounded, to half of the last digit at most */
        double most = !strcmp(c->dtype, "f32") ? 1e-5 : 1e-2,
               off = fabs((double)got[0][1] - want[1]);
        CHECK(!isfinite(want[1]) || off <= most * want[1], "%s, %s: squares %g, not %g", target,
              c->what, want[1], (double)got[0][1]);
        dl_interp_free(in);
    }
    for (int t = 0; t < 2; t++) dlr_exec_close(exec[t]);
    dl_arena_free(arena);
}

/* Sums of a million elements, to one number and to one for each of the last axis: more work items
 * than a thread finalizes at once. Elements are whole numbers, so that each sum is exact. */
static void test_many_items(const char *target) {
    enum { ROWS = 1031, COLUMNS = 1201 };
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text =
        dl_format(arena,
                  "graph @train {\n  input $a = %%0 : f32[N=%d, W=%d]\n"
                  "  %%1 = sum $a {over=[N, W]} : f32[]\n  %%2 = sum $a {over=[N]} : f32[W=%d]\n"
                  "  output \"all\" = %%1\n  output \"columns\" = %%2\n}\n",
                  ROWS, COLUMNS, COLUMNS);
    dl_module *m = dl_parse_module(arena, text, strlen(text), "sums", &err), *made = NULL;
    CHECK(m, "%s", err.message);
    dl_plan *p = m ? compile_text_module(arena, text, target, NULL, &made) : NULL;
    double *x = calloc(ROWS * COLUMNS, sizeof *x), want[COLUMNS] = {0}, all = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (i * 7919LL + i / COLUMNS) % 7 - 2;
        all += x[i], want[i % COLUMNS] += x[i];
    }
    for (int threads = 1; threads <= 3; threads += 2) {
        dlr_exec *e = open_plan(p, threads);
        if (!e) continue;
        dlr_state_write(e, dlr_exec_variable(e, "a"), DL_F64, x);
        dlr_exec_run(e, 0, NULL);
        float *sum = read_output(e, 0, "all", DL_F32), *sums = read_output(e, 0, "columns", DL_F32);
        CHECK(sum && (double)*sum == all, "%s: %g, not %g", target, sum ? (double)*sum : NAN, all);
        for (int i = 0; sums && i < COLUMNS; i++)
            CHECK((double)sums[i] == want[i], "%s: column %d: %g, not %g", target, i,
                  (double)sums[i], want[i]);
        free(sum), free(sums);
        dlr_exec_close(e);
    }
    free(x);
    dl_arena_free(arena);
}

int main(void) {
    static char dir[] = "/tmp/dl_beside_XXXXXX";
    if (!test_cache(dir)) return DL_IO;
    enum { NCASES = sizeof cases / sizeof *cases };
    unsigned number = 0;
    for (unsigned t = 0; t < COMPILED_TARGETS; t++) test_many_items(compiled_targets[t]);
    for (unsigned t = 0; t < COMPILED_TARGETS; t++)
        for (unsigned i = 0; i < NCASES; i++)
            if (dl_test_takes_of(t, i, NCASES, number++)) test_case(&cases[i], compiled_targets[t]);
    return dl_test_end();
}
