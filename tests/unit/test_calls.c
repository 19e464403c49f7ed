/* Kernels whose product a library makes: which kernels those are and in which forms, each form and
 * each algorithm beside the interpreter, over the emulated driver and stand-ins of cuBLASLt and
 * cuDNN; what a plan with such calls is refused for. */
#include "tests/cache.h"
#include "tests/check.h"
#include "tests/emulator/cuda_emulator.h"

#include <stdlib.h>
#include <unistd.h>

#include "compiler/cuda/cuda.h"
#include "compiler/session.h"
#include "ir/text/text.h"
#include "runtime/base/rng.h"
#include "runtime/cuda/library.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "verify/verify.h"

/* A bit by what is called for, and the form. */
#define BIT(what, form) (1 << ((what)*DL_NFORMS + (form)))
enum {
    W = BIT(DL_CALLED_MATMUL, DL_FORM_WHOLE),
    S = BIT(DL_CALLED_MATMUL, DL_FORM_SUMS),
    CW = BIT(DL_CALLED_CONVOLUTION, DL_FORM_WHOLE),
    CS = BIT(DL_CALLED_CONVOLUTION, DL_FORM_SUMS)
};

/* Forms by kernel, in the order of the graph: those with a contraction. */
static const struct {
    const char *what, *text;
    int forms[4];
    int64_t batch, rows, columns, terms; /* of the first: a matmul; or samples, groups, c and o */
    int offered; /* algorithms of the first: cuBLASLt's are two for each form that it knows */
} cases[] = {
    {"linear, bias, relu",
     "input $x = %0 : f32[B=3, T=47, E=40]\n  input $w = %1 : f32[O=24, E=40]\n  input $b = %2 : "
     "f32[O=24]\n"
     "  %3 = contract $x, $w {over=[E]} : f32[B=3, T=47, O=24]\n  %4 = add %3, $b : f32[B=3, T=47, "
     "O=24]\n"
     "  %5 = relu %4 : f32[B=3, T=47, O=24]\n  output \"y\" = %5\n",
     {W | S},
     1,
     141,
     24,
     40,
     4},
    {"relu alone, terms across",
     "input $a = %0 : f32[K=64, M=40]\n  input $b = %1 : f32[K=64, N=24]\n"
     "  %2 = contract $a, $b {over=[K]} : f32[M=40, N=24]\n  %3 = relu %2 : f32[M=40, N=24]\n"
     "  output \"y\" = %3\n",
     {W | S},
     1,
     40,
     24,
     64,
     4},
    {"another activation",
     "input $a = %0 : f32[M=40, K=37]\n  input $b = %1 : f32[N=29, K=37]\n"
     "  %2 = contract $a, $b {over=[K]} : f32[M=40, N=29]\n  %3 = leaky_relu %2 {slope=0.5} : "
     "f32[M=40, "
     "N=29]\n"
     "  output \"y\" = %3\n",
     {S},
     1,
     40,
     29,
     37,
     2},
    {"bf16",
     "input $a = %0 : bf16[M=40, K=64]\n  input $b = %1 : bf16[K=64, N=24]\n"
     "  %2 = contract $a, $b {over=[K]} : bf16[M=40, N=24]\n  output \"y\" = %2\n",
     {W},
     1,
     40,
     24,
     64,
     2},
    {"f16 in a batch",
     "input $a = %0 : f16[B=3, M=16, K=24]\n  input $b = %1 : f16[B=3, N=40, K=24]\n"
     "  %2 = contract $a, $b {over=[K]} : f16[B=3, M=16, N=40]\n  output \"y\" = %2\n",
     {W},
     3,
     16,
     40,
     24,
     2},
    {"heads, of which no step is one",
     "input $a = %0 : f32[B=2, S=19, H=3, E=32]\n  input $b = %1 : f32[B=2, T=21, H=3, E=32]\n"
     "  %2 = contract $a, $b {over=[E]} : f32[B=2, S=19, H=3, T=21]\n  output \"y\" = %2\n",
     {0},
     0,
     0,
     0,
     0,
     0},
    {"a convolution of 1 x 1, and of 3 x 3",
     "input $x = %0 : f32[N=2, C=16, H=5, W=7]\n  input $v = %1 : f32[O=24, C=16, kH=1, kW=1]\n"
     "  input $w = %2 : f32[O=8, C=24, kH=3, kW=3]\n"
     "  %3 = conv $x, $v {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[N=2, C=24, H=5, W=7]\n"
     "  %4 = leaky_relu %3 {slope=0.1} : f32[N=2, C=24, H=5, W=7]\n"
     "  %5 = conv %4, $w {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : f32[N=2, C=8, H=5, W=7]\n"
     "  output \"y\" = %5\n",
     {S | CS, CW},
     1,
     70,
     24,
     16,
     3},
    {"a convolution of 1 x 1 with strides",
     "input $x = %0 : f32[N=2, C=16, H=6, W=8]\n  input $v = %1 : f32[O=24, C=16, kH=1, kW=1]\n"
     "  %3 = conv $x, $v {stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[N=2, C=24, H=3, W=4]\n"
     "  output \"y\" = %3\n",
     {CW},
     2,
     1,
     16,
     24,
     1},
    {"gradients of a linear layer",
     "param $x = %0 : f32[B=3, T=16, E=40]\n  param $w = %1 : f32[O=24, E=40]\n  param $b = %9 : "
     "f32[O=24]\n"
     "  %2 = contract $x, $w {over=[E]} : f32[B=3, T=16, O=24]\n  %3 = add %2, $b : f32[B=3, T=16, "
     "O=24]\n"
     "  %4 = mul %3, %3 : f32[B=3, T=16, O=24]\n  %6 = mean %4 {over=[B, T, O]} : f32[]\n  loss "
     "\"loss\" = "
     "%6\n",
     {W, W, W},
     1,
     48,
     24,
     40,
     2},
    {"gradients of a convolution of 1 x 1",
     "param $x = %0 : f32[N=2, C=16, H=5, W=7]\n  param $w = %1 : f32[O=24, C=16, kH=1, kW=1]\n"
     "  %2 = conv $x, $w {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[N=2, C=24, H=5, W=7]\n"
     "  %3 = tanh %2 : f32[N=2, C=24, H=5, W=7]\n  %4 = mul %3, %3 : f32[N=2, C=24, H=5, W=7]\n"
     "  %6 = mean %4 {over=[N, C, H, W]} : f32[]\n  loss \"loss\" = %6\n",
     {S | CS, W | CW, S | CW},
     1,
     70,
     24,
     16,
     3},
    {"strides, bias and sums by channel",
     "input $x = %0 : f32[N=2, C=12, H=9, W=11]\n  input $w = %1 : f32[O=20, C=12, kH=4, kW=4]\n"
     "  input $b = %2 : f32[C=20]\n"
     "  %3 = conv $x, $w {stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1]} : f32[N=2, C=20, H=4, W=5]\n"
     "  %4 = add %3, $b : f32[N=2, C=20, H=4, W=5]\n"
     "  %5 = leaky_relu %4 {slope=0.1} : f32[N=2, C=20, H=4, W=5]\n"
     "  %6 = sum %5 {over=[N, H, W]} : f32[C=20]\n  output \"y\" = %5\n  output \"s\" = %6\n",
     {CS},
     2,
     1,
     12,
     20,
     1},
    {"three axes in bf16, dilated, padded unlike at both ends",
     "input $x = %0 : bf16[N=2, C=5, D=6, H=7, W=5]\n  input $w = %1 : bf16[O=9, C=5, kD=2, kH=3, "
     "kW=2]\n"
     "  %3 = conv $x, $w {stride=[1, 2, 1], pad_lo=[1, 0, 2], pad_hi=[0, 2, 1], dilation=[2, 1, "
     "3]} : "
     "bf16[N=2, C=9, D=5, H=4, W=5]\n  output \"y\" = %3\n",
     {CW},
     2,
     1,
     5,
     9,
     3},
    {"one axis in f16, of which cuDNN makes no sums in f32",
     "input $x = %0 : f16[N=3, C=8, W=21]\n  input $w = %1 : f16[O=8, C=8, kW=5]\n"
     "  %3 = conv $x, $w {stride=[3], pad_lo=[2], pad_hi=[2]} : f16[N=3, C=8, W=7]\n"
     "  %4 = abs %3 : f16[N=3, C=8, W=7]\n  output \"y\" = %4\n",
     {CS},
     3,
     1,
     8,
     8,
     0},
    {"two parts side by side, which are no tensor",
     "input $x = %0 : f32[N=2, C=8, H=5, W=5]\n  input $z = %1 : f32[N=2, C=8, H=5, W=5]\n"
     "  input $w = %2 : f32[O=8, C=16, kH=3, kW=3]\n  %3 = cat $x, $z {axis=C} : f32[N=2, C=16, "
     "H=5, W=5]\n"
     "  %4 = conv %3, $w {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : f32[N=2, C=8, H=5, W=5]\n"
     "  output \"y\" = %4\n",
     {0},
     0,
     0,
     0,
     0,
     0},
    {"some of a weight's rows",
     "input $x = %0 : f32[N=2, C=8, H=5, W=5]\n  input $w = %1 : f32[O=24, C=8, kH=3, kW=3]\n"
     "  %2 = slice $w {axis=O, start=8, stop=16} : f32[O=8, C=8, kH=3, kW=3]\n"
     "  %3 = conv $x, %2 {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : f32[N=2, C=8, H=5, W=5]\n"
     "  output \"y\" = %3\n",
     {CW},
     2,
     1,
     8,
     8,
     1},
    {"gradients of a convolution with strides in three axes",
     "param $x = %0 : f32[N=2, C=6, D=5, H=6, W=7]\n  param $w = %1 : f32[O=10, C=6, kD=3, kH=4, "
     "kW=2]\n"
     "  %2 = conv $x, $w {stride=[2, 2, 3], pad_lo=[1, 1, 0], pad_hi=[1, 1, 1]} : "
     "f32[N=2, C=10, D=3, H=3, W=3]\n  %3 = tanh %2 : f32[N=2, C=10, D=3, H=3, W=3]\n"
     "  %4 = mul %3, %3 : f32[N=2, C=10, D=3, H=3, W=3]\n  %6 = mean %4 {over=[N, C, D, H, W]} : "
     "f32[]\n"
     "  loss \"loss\" = %6\n",
     {CS, CW, CW},
     2,
     1,
     6,
     10,
     1},
    {"a transposed convolution with bias",
     "input $x = %0 : f32[N=2, C=10, H=4, W=5]\n  input $w = %1 : f32[O=10, C=12, kH=4, kW=4]\n"
     "  input $b = %2 : f32[C=12]\n"
     "  %3 = conv_grad_input $x, $w {stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], size=[8, 10]} : "
     "f32[N=2, C=12, H=8, W=10]\n  %4 = add %3, $b : f32[N=2, C=12, H=8, W=10]\n"
     "  %5 = relu %4 : f32[N=2, C=12, H=8, W=10]\n  output \"y\" = %5\n",
     {CS},
     2,
     1,
     12,
     10,
     1},
    {"gradients in groups",
     "param $x = %0 : f32[N=2, C=16, H=5, W=6]\n  param $w = %1 : f32[O=24, C=8, kH=3, kW=3]\n"
     "  %2 = conv $x, $w {stride=[2, 1], pad_lo=[1, 1], pad_hi=[1, 1], groups=2} : "
     "f32[N=2, C=24, H=3, W=6]\n  %3 = tanh %2 : f32[N=2, C=24, H=3, W=6]\n"
     "  %4 = mul %3, %3 : f32[N=2, C=24, H=3, W=6]\n  %6 = mean %4 {over=[N, C, H, W]} : f32[]\n"
     "  loss \"loss\" = %6\n",
     {CS, CW, CW},
     2,
     2,
     8,
     12,
     1},
    {"gradients, channel by channel",
     "param $x = %0 : f32[N=2, C=12, H=5, W=6]\n  param $w = %1 : f32[O=12, C=1, kH=3, kW=3]\n"
     "  param $s = %9 : f32[C=12]\n"
     "  %2 = conv $x, $w {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], groups=12} : "
     "f32[N=2, C=12, H=5, W=6]\n  %3 = mul %2, $s : f32[N=2, C=12, H=5, W=6]\n"
     "  %4 = mul %3, %3 : f32[N=2, C=12, H=5, W=6]\n  %6 = mean %4 {over=[N, C, H, W]} : f32[]\n"
     "  loss \"loss\" = %6\n",
     {CS, CW, CW},
     2,
     12,
     1,
     1,
     1},
};
enum { NCASES = sizeof cases / sizeof *cases };

static dl_arena *arena;
static const dl_target *target;
static dlr_libraries_here here;

/* ---- a tuner that takes what it is told ---- */

typedef struct {
    int number; /* case */
    dl_library library;
    dl_form form;
    int algorithm;      /* of those that are offered for it */
    bool looks;         /* at which forms there are */
    int kernels, calls; /* with contractions; with such a call */
} wish;

enum { OFFERS = 4 };

/* What the library offers for a call. */
static int ask(dl_library l, const dl_call *call, dl_algorithm *to) {
    return call->what == dl_library_makes[l]
               ? dlr_libraries[l]->offer(here.opened[l], call, OFFERS, to)
               : 0;
}

static void look_at(const wish *w, int kernel, int n, const dl_call *forms) {
    int all = 0, offered = 0;
    dl_algorithm some[OFFERS];
    for (int i = 0; i < n; i++) {
        all |= BIT(forms[i].what, forms[i].algorithm.form);
        for (int l = 0; l < DL_NLIBRARIES; l++) offered += ask((dl_library)l, &forms[i], some);
    }
    CHECK(all == cases[w->number].forms[kernel], "%s, contraction %d: forms %d",
          cases[w->number].what, kernel, all);
    if (kernel || !n) return;
    const dl_matmul *m = &forms[0].matmul;
    const dl_convolution *c = &forms[0].convolution;
    int64_t matmul[] = {m->batch, m->rows, m->columns, m->terms},
            convolution[] = {c->samples, c->groups, c->c, c->o},
            *own = forms[0].what == DL_CALLED_MATMUL ? matmul : convolution;
    CHECK(memcmp(own, &cases[w->number].batch, sizeof matmul) == 0 &&
              offered == cases[w->number].offered,
          "%s: %lld, %lld, %lld, %lld, %d offered", cases[w->number].what, (long long)own[0],
          (long long)own[1], (long long)own[2], (long long)own[3], offered);
}

static bool choose(void *user, int n, dl_coded *kernels, dl_error *err) {
    wish *w = user;
    (void)err;
    for (int i = 0; i < n; i++) {
        dl_call forms[DL_MOST_CALLS];
        if (dl_kernel_anchor(kernels[i].kernel) < 0) continue;
        int count = target->backend->calls(kernels[i].kernel, target, forms);
        if (w->looks && w->kernels < 4) look_at(w, w->kernels, count, forms);
        w->kernels++;
        for (int f = 0; f < count; f++) {
            dl_algorithm *offers = DL_NEWS(arena, dl_algorithm, OFFERS);
            int offered = ask(w->library, &forms[f], offers);
            if (forms[f].algorithm.form != w->form || w->algorithm >= offered) continue;
            kernels[i].variant = (dl_variant){.by = &offers[w->algorithm]}, w->calls++;
        }
    }
    return true;
}

static dl_plan *compile(wish *w, bool tf32, dl_module **m, dl_error *err) {
    dl_compile_times times;
    dl_tuner tuner = {.choose = choose, .user = w};
    dl_compile_options opt = {.target = target,
                              .tuner = &tuner,
                              .tf32 = tf32,
                              .keep_gradients = true,
                              .step_options.optimizer = DL_OPT_NONE,
                              .model = "M",
                              .batch = 1,
                              .skip = "recompute",
                              .validate = DL_VALIDATE_PASSES,
                              .link = true};
    const char *text = dl_format(arena, "graph @train {\n  %s}\n", cases[w->number].text);
    *m = dl_parse_module(arena, text, strlen(text), cases[w->number].what, err);
    return *m ? dl_compile(arena, *m, &opt, &times, err) : NULL;
}

/* ---- numbers ---- */

static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const dl_plan *p = user;
    (void)err;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        int64_t n = dl_type_count(&v->type);
        float *numbers = DL_NEWS(arena, float, n + 1);
        dlr_normals((dlr_rng_place){.seed = 3, .item = (uint32_t)i}, 0, (size_t)n, 0, 1, numbers);
        dlr_state_write(exec, dlr_exec_variable(exec, v->name), DL_F32, numbers);
    }
    return true;
}

static void verify(const char *what, const dl_module *m, const dl_plan *p) {
    dl_error err = {0};
    dl_verdict v = {0};
    dl_verify_run run = {
        {.threads = 1, .device = "cuda:emulated"}, fill, NULL, (void *)(uintptr_t)p};
    CHECK(dl_plan_check(p, &err), "%s: %s", what, err.message);
    CHECK(dl_verify_kernels(arena, m->graphs.at[0], p, &run, &v, &err), "%s: %s", what,
          err.message);
    CHECK(v.compared && !v.faults.n, "%s: %s", what,
          v.faults.n ? v.faults.at[0] : "nothing compared");
}

static bool has(int number, dl_library l, dl_form form) {
    bool any = false;
    for (int i = 0; i < 4; i++)
        any |= (cases[number].forms[i] & BIT(dl_library_makes[l], form)) != 0;
    return any;
}

/* By the algorithm of that number; how many kernels were. */
static int test_one(wish w, bool tf32) {
    dl_error err = {0};
    dl_module *m;
    dl_plan *p = compile(&w, tf32, &m, &err);
    const char *what =
        dl_format(arena, "%s, %s, form %d, algorithm %d%s", cases[w.number].what,
                  dl_library_names[w.library], (int)w.form, w.algorithm, tf32 ? ", tf32" : "");
    CHECK(p, "%s: %s", what, err.message);
    CHECK(w.kernels && w.kernels <= 4, "%s: %d contractions", what, w.kernels);
    if (p && w.calls) verify(what, m, p);
    return w.calls;
}

static void test_case(int number) {
    test_one((wish){.number = number, .algorithm = OFFERS, .looks = true}, false);
    for (int tf32 = 0; tf32 < (strstr(cases[number].text, "f16") ? 1 : 2); tf32++)
        for (int l = 0; l < DL_NLIBRARIES; l++)
            for (int form = 0; form < DL_NFORMS; form++) {
                wish w = {.number = number, .library = (dl_library)l, .form = (dl_form)form};
                if (!has(number, w.library, w.form)) continue;
                while (w.algorithm < OFFERS && test_one(w, tf32)) w.algorithm++;
                CHECK((w.algorithm > 0) == (cases[number].offered > 0), "%s: %d by %s",
                      cases[number].what, w.algorithm, dl_library_names[l]);
            }
}

/* ---- what is refused ---- */

static void expect_refused(const dl_plan *p, const char *says) {
    dl_error err = {0};
    dlr_exec *e =
        dlr_exec_open(p, (dlr_exec_options){.threads = 1, .device = "cuda:emulated"}, &err);
    CHECK(!e && err.code == DL_RESOURCE && strstr(err.message, says), "%s, not: %s", err.message,
          says);
    if (e) dlr_exec_close(e);
}

#define FAULT(place, value)                                                                        \
    do {                                                                                           \
        dl_error err_ = {0};                                                                       \
        __typeof__(place) kept_ = (place);                                                         \
        (place) = (value);                                                                         \
        CHECK(!dl_plan_check(p, &err_) && strstr(err_.message, "call"), #place ": %s",             \
              err_.message);                                                                       \
        (place) = kept_;                                                                           \
    } while (0)

static void test_matmul_refused(const char *dir) {
    wish w = {.form = DL_FORM_WHOLE, .algorithm = 1};
    dl_error err = {0};
    dl_module *m;
    dl_plan *p = compile(&w, false, &m, &err);
    CHECK(p && w.calls == 1, "%s", err.message);
    if (!p) return;
    dl_plan_kernel *k = &p->kernels.at[0];
    dl_call *c = &k->calls.at[0];
    CHECK(k->phases == 0 && k->workspace >= c->algorithm.workspace &&
              p->workspace_bytes >= k->workspace,
          "%d phases, workspace %lld", k->phases, (long long)k->workspace);
    CHECK(strncmp(k->variant, "cuBLASLt 13.1.0, algorithm ", 27) == 0, "%s", k->variant);

    const char *path = dl_format(arena, "%s/calls.dlp", dir);
    CHECK(dl_plan_write(p, path, &err), "%s", err.message);
    dl_plan *back = dl_plan_read(arena, path, &err);
    CHECK(back && dl_algorithm_is_same(&back->kernels.at[0].calls.at[0].algorithm, &c->algorithm) &&
              memcmp(&back->kernels.at[0].calls.at[0].matmul, &c->matmul, sizeof c->matmul) == 0,
          "%s", err.message);
    if (back) verify("read again", m, back);

    FAULT(k->phases, -1);
    FAULT(k->workspace, c->algorithm.workspace);
    FAULT(c->algorithm.library, DL_NLIBRARIES);
    FAULT(c->algorithm.workspace, c->algorithm.workspace + 64);
    FAULT(c->workspace, -64);
    FAULT(c->matmul.rows, 142);
    FAULT(c->matmul.columns, 25);
    FAULT(c->matmul.terms, 0);
    FAULT(c->matmul.batch, 2);
    FAULT(c->matmul.left.line, 39);
    FAULT(c->matmul.left.line, INT64_MAX);
    FAULT(c->matmul.right.next, INT64_MAX);
    FAULT(c->matmul.result.param, 4);
    FAULT(c->matmul.result.param, DL_IN_WORKSPACE);
    FAULT(c->matmul.result.offset, 4);
    FAULT(c->matmul.left.dtype, DL_I32);
    FAULT(c->matmul.bias, 4);
    FAULT(c->matmul.bias_type, DL_F64);
    FAULT(p->target, "cpu:avx2");

    c->algorithm.version += 100;
    expect_refused(p, "made by cuBLASLt 13.2.0, as --tune=true has chosen, and ");
    c->algorithm.version -= 100;
    c->algorithm.words[1] ^= 1;
    expect_refused(p, "does not know the plan's algorithm here");
    c->algorithm.words[1] ^= 1;
}

static void test_convolution_refused(const char *dir) {
    enum { STRIDES = 10 }; /* with bias and sums by channel */
    wish w = {.number = STRIDES, .library = DL_LIBRARY_CUDNN, .form = DL_FORM_SUMS, .algorithm = 1};
    dl_error err = {0};
    dl_module *m;
    dl_plan *p = compile(&w, true, &m, &err);
    dl_plan_kernel *k = NULL;
    for (int i = 0; p && i < p->kernels.n; i++)
        if (p->kernels.at[i].calls.n) k = &p->kernels.at[i];
    CHECK(k && w.calls == 1, "%s", err.message);
    if (!k) return;
    dl_call *c = &k->calls.at[0];
    dl_convolution *v = &c->convolution;
    CHECK(c->what == DL_CALLED_CONVOLUTION && v->of[DL_TENSOR_Y].param == DL_IN_WORKSPACE &&
              strncmp(k->variant, "cuDNN 9.26.0, algorithm ", 24) == 0 &&
              strstr(k->variant, ", sums alone"),
          "%s", k->variant);

    const char *path = dl_format(arena, "%s/convolutions.dlp", dir);
    CHECK(dl_plan_write(p, path, &err), "%s", err.message);
    dl_plan *back = dl_plan_read(arena, path, &err);
    const dl_call *read = back ? &back->kernels.at[k - p->kernels.at].calls.at[0] : NULL;
    CHECK(read && dl_algorithm_is_same(&read->algorithm, &c->algorithm) && read->what == c->what &&
              memcmp(&read->convolution, v, sizeof *v) == 0,
          "%s", err.message);
    if (back) verify("read again", m, back);

    FAULT(c->what, DL_CALLED_MATMUL);
    FAULT(c->algorithm.library, DL_LIBRARY_CUBLASLT);
    FAULT(v->makes, DL_TENSOR_NONE);
    FAULT(v->makes, DL_TENSOR_W);
    FAULT(v->samples, 3);
    FAULT(v->groups, 0);
    FAULT(v->groups, INT64_MAX);
    FAULT(v->c, 13);
    FAULT(v->o, 24);
    FAULT(v->in[2], 12);
    FAULT(v->tap[1], 6);
    FAULT(v->out[2], 6);
    FAULT(v->stride[1], 0);
    FAULT(v->dilation[2], INT64_MAX);
    FAULT(v->pad_lo[1], -1);
    FAULT(v->pad_hi[2], 7);
    FAULT(v->of[DL_TENSOR_X].param, 9);
    FAULT(v->of[DL_TENSOR_X].param, DL_IN_WORKSPACE);
    FAULT(v->of[DL_TENSOR_X].offset, 4);
    FAULT(v->of[DL_TENSOR_W].step[0], INT64_MAX);
    FAULT(v->of[DL_TENSOR_W].dtype, DL_F64);
    FAULT(v->of[DL_TENSOR_W].dtype, DL_BF16);
    FAULT(v->of[DL_TENSOR_Y].step[1], 0);
    FAULT(v->of[DL_TENSOR_Y].step[3], 1);
    FAULT(c->workspace, 256);

    c->algorithm.version += 100;
    expect_refused(p, "made by cuDNN 9.27.0, as --tune=true has chosen, and ");
    c->algorithm.version -= 100;
    c->algorithm.words[1] ^= 8;
    expect_refused(p, "does not know the plan's algorithm here");
    c->algorithm.words[1] ^= 8;
}

static void test_text(void) {
    dl_algorithm back, a = {.version = 130100,
                            .form = DL_FORM_SUMS,
                            .words = {1, UINT64_MAX, 0, 7, 8, 9, 10, 11},
                            .workspace = 77};
    const char *text = dl_algorithm_text(arena, &a);
    CHECK(dl_algorithm_parse(text, strlen(text), &back) && dl_algorithm_is_same(&a, &back), "%s",
          text);
    for (size_t n = 0; n < strlen(text); n++)
        CHECK(!dl_algorithm_parse(text, n, &back) || n > strlen(text) - 16,
              "a part of %zu characters parses", n);
    CHECK(!dl_algorithm_parse("64x64, terms in 8", 17, &back), "a tiling parses");
    CHECK(strstr(dl_algorithm_name(&a), "cuBLASLt 13.1.0, algorithm ") &&
              strstr(dl_algorithm_name(&a), ", sums alone"),
          "%s", dl_algorithm_name(&a));
}

int main(void) {
    char dir[] = "/tmp/dl_calls_XXXXXX";
    dl_error err = {0};
    uint64_t key;
    arena = dl_arena_new(NULL);
    target = dl_target_find("cuda:sm_90a:emulated", &err);
    if (!target || !target->backend->toolchain(arena, target, &key, &err)) {
        dl_test_skip("%s", err.message);
        return 77;
    }
    if (!test_cache(dir)) return 1;
    CHECK(dlr_library_find(DL_LIBRARY_CUBLASLT, true, &err) == 130100 &&
              dlr_library_find(DL_LIBRARY_CUDNN, true, &err) == 92600 &&
              dlr_libraries_begin(&here, emulator()->driver(), 0, 3, &err) && here.opened[0] &&
              here.opened[1],
          "%s %s %s", err.message, here.why[0].message, here.why[1].message);
    test_text();
    bool both = here.opened[0] && here.opened[1];
    for (int i = 0; both && i < NCASES; i++)
        if (dl_test_takes((unsigned)i)) test_case(i);
    if (both) test_matmul_refused(dir), test_convolution_refused(dir);
    dlr_libraries_end(&here);
    CHECK(system(dl_format(arena, "rm -rf '%s'", dir)) == 0);
    dl_arena_free(arena);
    return dl_test_end();
}
