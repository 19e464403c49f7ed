/* Recomputed numbers, and those that later loop nests read back of earlier ones, are the same
 * as those that were there first: on every target that this machine runs. */
#include <math.h>

#include "ir/kernel/loop_nest.h"
#include "tests/unit/compiled.h"
#include "tests/unit/random_numbers.h"

enum { ROWS = 5, WIDTH = 37 };

/* A mask of x k + b that the way back computes again, of numbers whose rounded product is -b: one
 * multiply-add would leave what was rounded off, and a mask with it. */
static const char jump[] = "graph @train {\n"
                           "  input $x = %0 : f32[N=5, T=1]\n"
                           "  input $v = %1 : f32[U=37, T=1]\n"
                           "  input $w = %2 : f32[S=5, U=37]\n"
                           "  input $k = %3 : f32[U=37]\n"
                           "  input $b = %4 : f32[U=37]\n"
                           "  %5 = contract $x, $v {over=[T]} : f32[N=5, U=37]\n"
                           "  %6 = mul %5, $k : f32[N=5, U=37]\n"
                           "  %7 = add %6, $b : f32[N=5, U=37]\n"
                           "  %8 = relu %7 : f32[N=5, U=37]\n"
                           "  %9 = contract %8, $w {over=[U]} : f32[N=5, S=5]\n"
                           "  %10 = contract %9, $w {over=[S]} : f32[N=5, U=37]\n"
                           "  %11 = const {value=0} : f32[]\n"
                           "  %12 = le %7, %11 : bool[N=5, U=37]\n"
                           "  %13 = select %12, %6, %10 : f32[N=5, U=37]\n"
                           "  output \"root\" = %5\n"
                           "  output \"forth\" = %9\n"
                           "  output \"back\" = %13\n"
                           "}\n";

static bool is_apart(const dl_kernel *k) {
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].no_contract) return true;
    return false;
}

static void test_mask(const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m;
    dlr_exec *exec = open_plan(compile_text_module(arena, jump, target, NULL, &m), 2);
    if (!exec) {
        dl_arena_free(arena);
        return;
    }
    int apart = 0;
    for (int i = 0; i < m->graphs.at[0]->kernels.n; i++)
        apart += is_apart(m->graphs.at[0]->kernels.at[i]);
    CHECK(apart == 2, "%s: %d kernels make the mask apart from the product", target, apart);
    float x[ROWS], one[WIDTH], w[5 * WIDTH], k[WIDTH], b[WIDTH];
    rng r = {3};
    for (int i = 0; i < ROWS; i++) x[i] = 1.1f; /* one number, so that each b is right for all */
    for (int i = 0; i < 5 * WIDTH; i++) w[i] = 1;
    for (int i = 0; i < WIDTH; i++) {
        one[i] = 1, k[i] = (float)uniform(&r, 1, 2);
        volatile float product = x[0] * k[i];
        b[i] = -product;
    }
    write_input(exec, "x", x), write_input(exec, "v", one), write_input(exec, "w", w);
    write_input(exec, "k", k), write_input(exec, "b", b);
    dlr_exec_run(exec, 0, NULL);
    float *root = read_output(exec, 0, "root", DL_F32),
          *back = read_output(exec, 0, "back", DL_F32),
          *forth = read_output(exec, 0, "forth", DL_F32);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        CHECK(root[i] == x[0] || strstr(target, "cuda"), "%s: x is %g", target, (double)root[i]);
        CHECK(root[i] != x[0] || back[i] == -b[i % WIDTH],
              "%s: at %d the mask is that of a multiply-add", target, i);
    }
    for (int i = 0; i < ROWS * 5; i++)
        CHECK(root[i] != x[0] || forth[i] == 0, "%s: forth is %g", target, (double)forth[i]);
    free(root), free(back), free(forth);
    dlr_exec_close(exec), dl_arena_free(arena);
}

/* The same of sums of no products, held to one way as 16 bits are: nothing stands apart from them.
 */
static const char sums[] = "graph @train {\n"
                           "  input $x = %0 : bf16[N=5, T=3]\n"
                           "  input $v = %1 : bf16[U=37, T=3]\n"
                           "  input $w = %2 : bf16[S=5, U=37]\n"
                           "  input $b = %3 : bf16[U=37]\n"
                           "  %4 = contract $x, $v {over=[T]} : bf16[N=5, U=37]\n"
                           "  %5 = add %4, $b : bf16[N=5, U=37]\n"
                           "  %6 = relu %5 : bf16[N=5, U=37]\n"
                           "  %7 = contract %6, $w {over=[U]} : bf16[N=5, S=5]\n"
                           "  %8 = contract %7, $w {over=[S]} : bf16[N=5, U=37]\n"
                           "  %9 = const {value=0} : bf16[]\n"
                           "  %10 = le %5, %9 : bool[N=5, U=37]\n"
                           "  %11 = select %10, %4, %8 : bf16[N=5, U=37]\n"
                           "  output \"root\" = %4\n"
                           "  output \"forth\" = %7\n"
                           "  output \"back\" = %11\n"
                           "}\n";

static void test_sums(const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m;
    int made = 0, apart = 0;
    if (compile_text_module(arena, sums, target, NULL, &m)) {
        const dl_graph *g = m->graphs.at[0];
        for (int i = 0; i < g->kernels.n; i++) {
            apart += is_apart(g->kernels.at[i]);
            for (int k = 0; k < g->kernels.at[i]->instrs.n; k++)
                made += g->kernels.at[i]->instrs.at[k].op == DL_OP_add;
        }
        CHECK(made == 2 && apart == 0, "%s: the sum is made %d times, in %d kernels apart", target,
              made, apart);
    }
    dl_arena_free(arena);
}

/* The way back of a batch norm after a residual, nearly: what is masked is stored, added up, and
 * taken again. */
#define RESIDUAL(T)                                                                                \
    "graph @train {\n"                                                                             \
    "  input $g = %0 : " T "[N=700, U=37]\n"                                                       \
    "  input $h = %1 : " T "[N=700, U=37]\n"                                                       \
    "  input $y = %2 : " T "[N=700, U=37]\n"                                                       \
    "  input $x = %3 : " T "[N=700, U=37]\n"                                                       \
    "  %4 = const {value=0} : " T "[]\n"                                                           \
    "  %5 = le $y, %4 : bool[N=700, U=37]\n"                                                       \
    "  %6 = add $g, $h : " T "[N=700, U=37]\n"                                                     \
    "  %7 = select %5, %4, %6 : " T "[N=700, U=37]\n"                                              \
    "  %8 = cast %7 : f32[N=700, U=37]\n"                                                          \
    "  %9 = cast $x : f32[N=700, U=37]\n"                                                          \
    "  %10 = mul %8, %9 : f32[N=700, U=37]\n"                                                      \
    "  %11 = sum %8 {over=[N]} : f32[U=37]\n"                                                      \
    "  %12 = sum %10 {over=[N]} : f32[U=37]\n"                                                     \
    "  %13 = mul %9, %12 : f32[N=700, U=37]\n"                                                     \
    "  %14 = sub %8, %11 : f32[N=700, U=37]\n"                                                     \
    "  %15 = sub %14, %13 : f32[N=700, U=37]\n"                                                    \
    "  output \"d\" = %7\n"                                                                        \
    "  output \"dx\" = %15\n"                                                                      \
    "}\n"
enum { TERMS = 700, POINTS = TERMS * WIDTH };

static float *some(dlr_exec *exec, const char *name, rng *r, int most) {
    float *v = calloc(POINTS, sizeof *v);
    for (int i = 0; i < POINTS; i++) v[i] = (float)(below(r, 2 * most + 1) - most);
    dlr_state_write(exec, dlr_exec_variable(exec, name), DL_F32, v);
    return v;
}

static void test_back(const char *target, dl_dtype type) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m;
    const char *text = type == DL_F32 ? RESIDUAL("f32") : RESIDUAL("bf16");
    dlr_exec *exec = open_plan(compile_text_module(arena, text, target, NULL, &m), 2);
    if (!exec) {
        dl_arena_free(arena);
        return;
    }
    const dl_kernel *k = m->graphs.at[0]->kernels.at[0];
    CHECK(m->graphs.at[0]->kernels.n == 1 && dl_kernel_read_back(arena, k) != k,
          "%s: nothing is read back", target);
    /* g, h, y, x and d; then d, x and dx */
    int64_t element = dl_dtype_bytes(type), small = 4096, want = POINTS * (7 * element + 4);
    CHECK(k->bytes >= want && k->bytes < want + small, "%s: %lld bytes, not %lld", target,
          (long long)k->bytes, (long long)want);
    rng r = {5};
    /* whole numbers whose sums are exact in float; g + h has 9 digits, one more than bf16 */
    float *g = some(exec, "g", &r, 255), *h = some(exec, "h", &r, 255), *y = some(exec, "y", &r, 1),
          *x = some(exec, "x", &r, 3);
    dlr_exec_run(exec, 0, NULL);
    float *d = read_output(exec, 0, "d", DL_F32), *dx = read_output(exec, 0, "dx", DL_F32);
    int rounded = 0;
    for (int u = 0; u < WIDTH; u++) {
        float s = 0, t = 0;
        for (int n = u; n < POINTS; n += WIDTH) {
            float all = y[n] <= 0 ? 0 : g[n] + h[n];
            rounded += d[n] != all;
            CHECK(type == DL_F32 ? d[n] == all : fabsf(d[n] - all) <= 1, "%s: d is %g for %g",
                  target, (double)d[n], (double)all);
            s += d[n], t += d[n] * x[n];
        }
        for (int n = u; n < POINTS; n += WIDTH)
            CHECK(dx[n] == d[n] - s - x[n] * t, "%s, %s: dx is %g for %g", target,
                  dl_dtype_name(type), (double)dx[n], (double)(d[n] - s - x[n] * t));
    }
    CHECK(type == DL_F32 || rounded > 100, "%s: nothing was rounded", target);
    free(g), free(h), free(y), free(x), free(d), free(dx);
    dlr_exec_close(exec), dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_again_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int t = 0; t < COMPILED_TARGETS; t++) {
        if (takes_on_target(t, 0)) test_mask(compiled_targets[t]);
        if (takes_on_target(t, 1)) test_sums(compiled_targets[t]);
        if (takes_on_target(t, 0)) test_back(compiled_targets[t], DL_F32);
        if (takes_on_target(t, 1)) test_back(compiled_targets[t], DL_BF16);
    }
    return dl_test_end();
}
