/* IR text that is wrong, or right but not for the pass: a message and DL_INPUT, never a pass's own
 * check. Each text is the smallest that shows its kind of fault. Run under the sanitizers, too. */
#include "tests/check.h"

#include "ir/text/text.h"
#include "passes/pass.h"

#define X_IN  "  input $x = %0 : f32[N=2, C=3, H=8]\n"
#define W_IN  "  param $w = %1 : f32[O=4, C=3, kH=3] init zero\n"
#define TRAIN "graph @train {\n"
#define CONV  "%2 = conv $x, $w {stride=[1], pad_lo=[1], pad_hi=[1]} : f32[N=2, C=4, H=8]\n"
#define EXP_K                                                                                      \
    "kernel @k0(%a: f32[N=4]) -> (%o: f32[N=4]) space(N=4) {\n  %0 = load %a[N] : f32\n  store "   \
    "%o[N], "                                                                                      \
    "%0\n}\n"
/* At each point of M and N the sum over N, by a schedule. */
#define SCHEDULED(schedule)                                                                        \
    "kernel @k0(%a: f32[M=2, N=4]) -> (%o: f32[M=2, N=4]) space(M=2, N=4) {\n"                     \
    "  schedule " schedule "\n  %0 = load %a[M, N] : f32\n  %1 = sum %0 {over=[N]} : f32\n"        \
    "  %2 = sub %0, %1 : f32\n  store %o[M, N], %2\n}\n"                                           \
    "graph @eval {\n  input $x = %0 : f32[M=2, N=4]\n  %1 = fused @k0($x) : f32[M=2, N=4]\n"       \
    "  output \"y\" = %1\n}\n"
/* By rows: %1 is computed by the first pass, %3 by the second. `over` takes the memory of %a. */
#define OVER_ROWS(over, other)                                                                     \
    "kernel @k0(%a: f32[M=2, N=4]) -> (%o: f32[M=2, N=4] alias %a, %p: f32[M=2, N=4]) "            \
    "space(M=2, N=4) {\n"                                                                          \
    "  schedule rows {over=[N], phases=1}\n  %0 = load %a[M, N] : f32\n  %1 = exp %0 : f32\n"      \
    "  %2 = sum %0 {over=[N]} : f32\n  %3 = sub %0, %2 : f32\n  store %o[M, N], " over             \
    "\n  store %p[M, N], " other "\n}\n"                                                           \
    "graph @eval {\n  input $x = %0 : f32[M=2, N=4]\n  %1, %2 = fused @k0($x) : "                  \
    "f32[M=2, N=4], f32[M=2, N=4]\n  output \"y\" = %1\n  output \"z\" = %2\n}\n"
#define TENSOR                                                                                     \
    "graph @eval {\n  input $x = %0 : f32[N=4]\n  %1 = exp $x : f32[N=4]\n  output \"y\" = "       \
    "%1\n}\n"
#define FUSED                                                                                      \
    EXP_K "graph @eval {\n  input $x = %0 : f32[N=4]\n  %1 = fused @k0($x) : f32[N=4]\n  output "  \
          "\"y\" = "                                                                               \
          "%1\n}\n"
#define PLANNED                                                                                    \
    EXP_K "graph @eval {\n  input $x = %0 : f32[N=4] at 0\n  %1 = fused @k0($x) : f32[N=4] at "    \
          "64\n  output "                                                                          \
          "\"y\" = %1\n"                                                                           \
          "  arena 80\n}\n"
#define LOSS "  %8 = sum $p {over=[N]} : f32[]\n  loss \"loss\" = %8\n}\n"

static const struct {
    const char *what, *passes, *text, *says; /* says NULL: it must work */
} cases[] = {
    /* types that the ops do not give: every pass would believe them */
    {"an axis that is not there", "",
     TRAIN X_IN "  %1 = relu $x : f32[N=2, Q=3, H=8]\n  output \"y\" = %1\n}\n",
     "its type should be f32[N=2, C=3, H=8]"},
    {"a size that is not so", "simplify",
     TRAIN X_IN "  %1 = mul $x, $x : f32[N=2, C=2147483648, H=8]\n}\n", "its type should be"},
    {"a slice from far away", "simplify",
     TRAIN X_IN "  %1 = slice $x {axis=C, start=140737488355328, stop=3} : f32[N=2, C=1, H=8]\n}\n",
     "bad"},
    {"a slice backwards", "simplify",
     TRAIN X_IN "  %1 = slice $x {axis=C, start=2, stop=1} : f32[N=2, C=1, H=8]\n}\n",
     "slice takes C from 2 up to 1"},
    {"negative padding", "fuse",
     TRAIN X_IN "  %1 = pad $x {axis=C, pad_lo=[-1], pad_hi=[0]} : f32[N=2, C=2, H=8]\n}\n",
     "neither may be negative"},
    {"a stride of 0", "layout,fuse",
     TRAIN X_IN W_IN
     "  %2 = conv $x, $w {stride=[0], pad_lo=[1], pad_hi=[1]} : f32[N=2, C=4, H=8]\n}\n",
     "stride"},
    {"a convolution of scalars", "fuse",
     TRAIN "  input $a = %0 : f32[]\n  %1 = conv $a, $a {stride=[1], pad_lo=[1], pad_hi=[1]} : "
           "f32[]\n}\n",
     "expects"},
    {"a gradient that no convolution has", "autodiff",
     TRAIN X_IN W_IN "  %2 = conv_grad_input $x, $w {stride=[1], pad_lo=[1], pad_hi=[1], size=[9]} "
                     ": f32[N=2, C=3, H=9]\n}\n",
     "channels"},
    {"more elements than there are", "plan_memory",
     TRAIN X_IN "  %1 = broadcast $x : f32[N=2, C=3, H=8, T=140737488355328]\n}\n",
     "more than 2^47 elements"},
    {"more bytes than 64 bits count", "layout,fuse,in_place_updates,schedule,plan_memory", NULL,
     "more than 2^62 bytes"},
    {"panels of two axes", "fuse", TRAIN "  input $x = %0 : f32[N=2, C=3] @panel16\n}\n",
     "no such layout"},
    {"panels without width", "fuse", TRAIN "  input $x = %0 : f32[N=2, C=3, H=2] @panel0\n}\n",
     "width of a panel"},
    {"channels last without channels", "fuse", TRAIN "  input $x = %0 : f32[N=2] @cl\n}\n",
     "no such layout"},
    /* variables and results */
    {"an update of another type", "layout",
     TRAIN "  state $s = %0 : f32[N=4] init zero\n  %1 = sum $s {over=[N]} : f32[]\n  update $s = "
           "%1\n}\n",
     "is not of its variable's type"},
    {"an update of an input", "optimizer",
     TRAIN X_IN "  %1 = exp $x : f32[N=2, C=3, H=8]\n  update $x = %1\n}\n", "only the host sets"},
    {"the gradient of an input", "optimizer",
     TRAIN X_IN "  %1 = exp $x : f32[N=2, C=3, H=8]\n  grad $x = %1\n}\n",
     "no floating-point parameter"},
    {"the gradient of integers", "optimizer",
     TRAIN "  param $i = %0 : i32[N=4] init zero\n  %1 = neg $i : i32[N=4]\n  grad $i = %1\n}\n",
     "no floating-point parameter"},
    {"the optimiser's own name", "autodiff,optimizer",
     TRAIN
     "  param $p = %0 : f32[N=4] init zero\n  input $optimizer.lr.init = %1 : f32[N=4]\n" LOSS,
     "$optimizer.lr.init"},
    {"a moment's name, for which the optimiser takes another", "autodiff,optimizer",
     TRAIN "  param $p = %0 : f32[N=4] init zero\n  input $exp_avg_sq.p = %1 : f32[N=4]\n" LOSS,
     NULL},
    {"an update next to the optimiser's", "autodiff,optimizer",
     TRAIN
     "  param $p = %0 : f32[N=4] init zero\n  %1 = exp $p : f32[N=4]\n  update $p = %1\n" LOSS,
     "update of $p already"},
    {"graphs that disagree about a variable", "layout",
     "graph @train {\n  param $w = %0 : f32[N=4] init zero\n}\ngraph @eval {\n  param $w = %0 : "
     "f32[N=5] "
     "init zero\n}\n",
     "variable $w is"},
    /* passes out of their order */
    {"no layout", "fuse", TRAIN X_IN W_IN "  " CONV "  output \"y\" = %2\n}\n", "'layout'"},
    {"a layout gone again", "layout,autodiff,optimizer,fuse",
     TRAIN X_IN "  param $w = %1 : f32[O=3, C=3, kH=3] @panel16 init zero\n"
                "  %2 = conv_grad_input $x, $w {stride=[1], pad_lo=[1], pad_hi=[1], size=[8]} : "
                "f32[N=2, C=3, H=8]\n"
                "  output \"y\" = %2\n}\n",
     NULL},
    {"nodes for schedule", "schedule", TENSOR, "'in_place_updates'"},
    {"nodes for updates", "in_place_updates", TENSOR, "'fuse'"},
    {"nodes for plan_memory", "plan_memory", TENSOR, "only fused nodes"},
    {"kernels for simplify", "simplify", FUSED, "consists of kernels already"},
    {"kernels for autodiff", "autodiff", FUSED, "consists of kernels already"},
    {"kernels for fuse", "fuse", FUSED, "consists of kernels already"},
    {"kernels and nodes", "fuse",
     EXP_K
     "graph @eval {\n  input $x = %0 : f32[N=4]\n  %1 = fused @k0($x) : f32[N=4]\n  %2 = exp %1 : "
     "f32[N=4]\n}\n",
     "only fused nodes"},
    {"planned for schedule", "schedule", PLANNED, "planned already"},
    {"planned twice", "in_place_updates,plan_memory,plan_memory", FUSED, "planned already"},
    {"fused twice", "fuse,fuse", TENSOR, "consists of kernels already"},
    {"a place for one value alone", "",
     "graph @eval {\n  input $x = %0 : f32[N=4] at 0\n  input $z = %1 : f32[N=4]\n  arena 16\n}\n",
     "no place in memory"},
    {"an op that cannot be compiled", "fuse",
     TRAIN X_IN "  %1 = gelu $x : f32[N=2, C=3, H=8]\n  output \"y\" = %1\n}\n", "DL-E0801"},
    {"a layout in front of gradients", "layout,autodiff",
     TRAIN X_IN W_IN
     "  " CONV "  %3 = relayout %2 : f32[N=2, C=4, H=8]\n  %4 = sum %3 {over=[N, C, H]} : f32[]\n"
     "  loss \"loss\" = %4\n}\n",
     "DL-E0802"},
    /* kernels */
    {"a kernel that stores nothing", "schedule",
     "kernel @k0(%a: f32[N=4]) -> (%o: f32[N=4]) space(N=4) {\n  %0 = load %a[N] : f32\n}\n"
     "graph @eval {\n  input $x = %0 : f32[N=4]\n  %1 = fused @k0($x) : f32[N=4]\n}\n",
     "nothing stores"},
    {"a kernel of other types", "schedule",
     EXP_K "graph @eval {\n  input $x = %0 : f32[N=5]\n  %1 = fused @k0($x) : f32[N=5]\n}\n",
     "but is given f32[N=5]"},
    /* schedules */
    {"a schedule without its phases", "schedule", SCHEDULED("points {phases=9}"),
     "its schedule has 3 phases, not 9"},
    {"tiles without a contraction", "schedule", SCHEDULED("tiles {phases=3}"),
     "does not run by schedule tiles"},
    {"a template's schedule", "schedule", SCHEDULED("call"), "does not run by schedule call"},
    {"rows that nothing reduces", "schedule", SCHEDULED("rows {over=[M], phases=1}"),
     "not those of a reduction"},
    {"an output over what is read elsewhere", "schedule",
     "kernel @k0(%a: f32[M=4, N=4]) -> (%o: f32[M=4, N=4] alias %a) space(M=4, N=4) {\n"
     "  schedule points {phases=1}\n  %0 = load %a[N, M] : f32\n  store %o[M, N], %0\n}\n"
     "graph @eval {\n  input $x = %0 : f32[M=4, N=4]\n  %1 = fused @k0($x) : f32[M=4, N=4]\n}\n",
     "its schedule reads %a after %o has overwritten it"},
    {"an output over what a later pass over the row reads", "schedule", OVER_ROWS("%1", "%3"),
     "its schedule reads %a after %o has overwritten it"},
    /* right, though odd */
    {"an output over what the last pass over the row reads", "schedule", OVER_ROWS("%3", "%1"),
     NULL},
    {"by points", "schedule,plan_memory", SCHEDULED("points {phases=3}"), NULL},
    {"by rows", "schedule,plan_memory", SCHEDULED("rows {over=[N], phases=1}"), NULL},
    {"by threads", "schedule,plan_memory", SCHEDULED("per_thread {over=[N], phases=1}"), NULL},
    {"a sum of what is summed", "in_place_updates,schedule,plan_memory",
     "kernel @k0(%a: f32[N=4]) -> (%o: f32[]) space(N=4) {\n  %0 = load %a[N] : f32\n  %1 = sum %0 "
     "{over=[N]} : f32\n"
     "  %2 = sum %1 {over=[N]} : f32\n  store %o[], %2\n}\ngraph @eval {\n  input $x = %0 : "
     "f32[N=4]\n"
     "  %1 = fused @k0($x) : f32[]\n}\n",
     NULL},
    {"loads outside", "in_place_updates,schedule,plan_memory",
     "kernel @k0(%a: f32[N=4]) -> (%o: f32[N=4]) space(N=4) {\n  %0 = load %a[N+140737488355328] : "
     "f32\n  "
     "store %o[N], %0\n}\n"
     "graph @eval {\n  input $x = %0 : f32[N=4]\n  %1 = fused @k0($x) : f32[N=4]\n  output \"y\" = "
     "%1\n}\n",
     NULL},
    {"nothing at all",
     "simplify,autodiff,optimizer,layout,fuse,in_place_updates,schedule,plan_memory",
     "graph @train {\n}\n", NULL},
    {"sizes of 0",
     "simplify,autodiff,optimizer,simplify,layout,fuse,in_place_updates,schedule,plan_memory",
     TRAIN "  param $p = %0 : f32[N=0] init zero\n  %1 = mean $p {over=[N]} : f32[]\n  loss "
           "\"loss\" = %1\n}\n",
     NULL},
    {"a convolution's result as a weight",
     "simplify,autodiff,optimizer,simplify,layout,fuse,in_place_updates,schedule,plan_memory",
     TRAIN X_IN
     "  input $z = %3 : f32[N=5, C=2, H=4]\n  param $v = %1 : f32[O=3, C=2, kH=2] init zero\n"
     "  %2 = conv $z, $v {stride=[1], pad_lo=[0], pad_hi=[0]} : f32[N=5, C=3, H=3]\n"
     "  %4 = conv $x, %2 {stride=[1], pad_lo=[1], pad_hi=[1]} : f32[N=2, C=5, H=8]\n"
     "  %5 = sum %4 {over=[N, C, H]} : f32[]\n  loss \"loss\" = %5\n}\n",
     NULL},
    {"a weight that another graph knows as something else",
     "layout,fuse,in_place_updates,schedule,plan_memory",
     TRAIN X_IN W_IN "  " CONV "  output \"y\" = %2\n}\ngraph @eval {\n" W_IN
                     "  %2 = exp $w : f32[O=4, C=3, kH=3]\n  output \"y\" = %2\n}\n",
     NULL},
    {"channels and space with the names that gradients give",
     "simplify,autodiff,optimizer,simplify,layout,fuse",
     TRAIN "  input $x = %0 : f32[C=2, O=3, in=8]\n  param $w = %1 : f32[A=4, B=3, D=3] init zero\n"
           "  %2 = conv $x, $w {stride=[1], pad_lo=[1], pad_hi=[1]} : f32[C=2, O=4, in=8]\n"
           "  %3 = sum %2 {over=[C, O, in]} : f32[]\n  loss \"loss\" = %3\n}\n",
     NULL},
    {"arithmetic beyond 64 bits", "layout,fuse",
     TRAIN
     "  input $x = %0 : f32[N=1, C=8388608, H=8388608]\n  param $w = %1 : f32[O=8388608, "
     "C=8388608, "
     "kH=1] init zero\n"
     "  %2 = conv $x, $w {stride=[1], pad_lo=[0], pad_hi=[0]} : f32[N=1, C=8388608, H=8388608]\n"
     "  %3 = exp %2 : f32[N=1, C=8388608, H=8388608]\n  output \"y\" = %3\n}\n",
     NULL},
};
enum { NCASES = sizeof cases / sizeof *cases };

/* Variables enough to overflow a sum of their bytes. */
static const char *many_large(dl_arena *a) {
    dl_buf b = {0};
    dl_puts(&b, TRAIN);
    for (int i = 0; i < 9000; i++)
        dl_putf(&b, "  input $x%d = %%%d : f64[N=140737488355328]\n", i, i);
    dl_puts(&b, "}\n");
    const char *text = dl_strdup(a, b.at);
    dl_buf_free(&b);
    return text;
}

static void test_case(int i) {
    dl_arena *a = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text = cases[i].text ? cases[i].text : many_large(a), *says = cases[i].says;
    dl_module *m = dl_read_module(a, text, strlen(text), "t.dlir", &err);
    dl_pass_ctx ctx = {.arena = a, .weights = {.kind = DL_PANEL, .width = 16}, .err = &err};
    bool ok = m && dl_run_passes(m, cases[i].passes, &ctx,
                                 (dl_pass_options){.validate = DL_VALIDATE_PASSES});
    if (!says)
        CHECK(ok, "%s: %s", cases[i].what, err.message);
    else if (strcmp(says, "bad") == 0)
        CHECK(!ok && err.code == DL_INPUT, "%s: %d, %s", cases[i].what, err.code, err.message);
    else
        CHECK(!ok && err.code == DL_INPUT && strstr(err.message, says),
              "%s: %d, '%s' should contain '%s'", cases[i].what, err.code, err.message, says);
    dl_arena_free(a);
}

/* DLC_SKIP: what cannot be left out is refused by name, whatever else may be. */
static void test_skips(void) {
    static const struct {
        const char *skip;
        bool works;
    } skips[] = {{"simplify", true},    {"autodiff", true},     {"optimizer", true},
                 {"layout", false},     {"fuse", true},         {"in_place_updates", true},
                 {"schedule", true},    {"plan_memory", false}, {"fuse,simplify", true},
                 {"layout,fuse", false}};
    static const char text[] = TRAIN X_IN W_IN
        "  " CONV "  %3 = mean %2 {over=[N, C, H]} : f32[]\n  loss \"loss\" = %3\n}\n";
    for (size_t i = 0; i < sizeof skips / sizeof *skips; i++) {
        dl_arena *a = dl_arena_new(NULL);
        dl_error err = {0};
        dl_module *m = dl_read_module(a, text, sizeof text - 1, "t.dlir", &err);
        dl_pass_ctx ctx = {.arena = a, .weights = {.kind = DL_PANEL, .width = 16}, .err = &err};
        bool ok =
            m && dl_run_passes(m, dl_pipeline, &ctx, (dl_pass_options){.skip = skips[i].skip});
        CHECK(ok == skips[i].works, "%s: %s", skips[i].skip, err.message);
        if (ok)
            CHECK(dl_validate_module(m, DL_STAGE_PLANNED, &err), "%s: %s", skips[i].skip,
                  err.message);
        if (!ok)
            CHECK(err.code == DL_USAGE && strstr(err.message, skips[i].skip), "%s", err.message);
        dl_arena_free(a);
    }
}

int main(void) {
    for (int i = 0; i < NCASES; i++) test_case(i);
    test_skips();
    return dl_test_end();
}
