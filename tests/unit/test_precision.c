/* Sums of many terms keep their digits. All terms are equal, so that in one chain of f32 additions
 * every rounding between two powers of two goes the same way: n terms in one chain lose up to n
 * roundings. Slices of s terms lose s + n / s at most, whatever the numbers are, and sums in double
 * one. */
#include <stdlib.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "compiler/cpu/cpu.h"
#include "ir/builder.h"
#include "runtime/exec/exec.h"
#include "tests/cache.h"
#include "tests/check.h"

/* One op on tensors of equal numbers: its terms a result where nothing lies outside, and how many
 * of them are summed in one go. */
typedef struct {
    const char *what;
    dl_op op;
    int channels, made, out, kernel, stride; /* channels in and made; positions made an axis, 2-D */
    int slice;
} sum_case;

/* conv: x [N=1, channels, in, in], w [made, channels, kernel, kernel], in = (out - 1) * stride +
 * kernel. conv_grad_input: dy [N=1, channels, in, in], w [channels, made, ...], the same the other
 * way round. conv_grad_weight: x [N=1, channels, ...], dy [N=1, made, out, out]; the sum is over
 * positions. */
static const sum_case cases[] = {
    {"conv", DL_OP_conv, 512, 8, 1, 8, 1, DL_CHAIN},
    {"conv, gathered", DL_OP_conv, 12, 8, 1, 48, 1, DL_CHAIN},
    {"conv_grad_input", DL_OP_conv_grad_input, 512, 24, 8, 8, 1, DL_CHAIN},
    {"conv_grad_input, by stride phase", DL_OP_conv_grad_input, 512, 24, 16, 16, 2, DL_CHAIN},
    {"conv_grad_input, folded", DL_OP_conv_grad_input, 512, 2, 16, 16, 2, DL_CHAIN},
    {"conv_grad_weight", DL_OP_conv_grad_weight, 16, 8, 160, 2, 1, DL_M_BLOCK},
    {"conv_grad_weight, taps together", DL_OP_conv_grad_weight, 2, 8, 160, 3, 1, DL_M_BLOCK},
};
enum { NCASES = sizeof cases / sizeof *cases };
/* Added to a sum between 2^14 and 2^15, whose last place is 2^-9, each term loses nearly half of
 * that place. */
static const float each = 1 + 0.49f * 0x1p-9f, weight = 1;

static dl_value *operand(dl_graph *g, const char *name, const char *second, int n,
                         const char *first, int m, const char *const *axes, int size) {
    dl_type t = dl_scalar(DL_F32);
    dl_type_push(&t, first, m), dl_type_push(&t, second, n);
    for (int i = 0; i < 2; i++) dl_type_push(&t, axes[i], size);
    return &dl_graph_var(g, DL_VAR_PARAM, dl_internf("%s.%s", g->name, name), t, (dl_init){0},
                         (dl_loc){0})
                ->value;
}

static void build(dl_module *m, int number) {
    static const char *const image[] = {"H", "W"}, *const taps[] = {"kH", "kW"};
    const sum_case *c = &cases[number];
    dl_graph *g = dl_graph_new(m, dl_internf("case%d", number));
    dl_builder b = {.graph = g};
    int in = (c->out - 1) * c->stride + c->kernel;
    bool gradient = c->op == DL_OP_conv_grad_input, of_weight = c->op == DL_OP_conv_grad_weight;
    /* an input gradient makes `out` positions from as many as a convolution with padding would */
    int64_t stride[] = {c->stride, c->stride}, pad = gradient ? c->kernel / 2 : 0,
            lo[] = {pad, pad}, hi[] = {pad, pad}, size[] = {c->out, c->out},
            kernel[] = {c->kernel, c->kernel};
    if (gradient) in = (int)(c->out + 2 * pad - c->kernel) / c->stride + 1;
    dl_value *x = operand(g, "x", "C", c->channels, "N", 1, image, in), *w;
    if (of_weight)
        w = operand(g, "y", "C", c->made, "N", 1, image, c->out);
    else
        w = operand(g, "w", "C", gradient ? c->made : c->channels, "O",
                    gradient ? c->channels : c->made, taps, c->kernel);
    dl_attr attrs[] = {
        dl_attr_ints(DL_ATTR_stride, 2, stride), dl_attr_ints(DL_ATTR_pad_lo, 2, lo),
        dl_attr_ints(DL_ATTR_pad_hi, 2, hi),
        dl_attr_ints(of_weight ? DL_ATTR_kernel : DL_ATTR_size, 2, of_weight ? kernel : size)};
    dl_value *both[] = {x, w};
    dl_value *y = dl_build(&b, c->op, 2, both, c->op == DL_OP_conv ? 3 : 4, attrs);
    dl_graph_result(g, DL_RESULT_OUTPUT, "y", y, NULL);
}

/* sum and mean of n equal numbers, into a scalar and along each axis. */
static void build_reductions(dl_module *m) {
    static const char *const over[] = {"A", "B"};
    dl_graph *g = dl_graph_new(m, dl_intern("reductions"));
    dl_builder b = {.graph = g};
    dl_type t = dl_scalar(DL_F32);
    dl_type_push(&t, "A", 3001), dl_type_push(&t, "B", 1003);
    dl_value *x =
        &dl_graph_var(g, DL_VAR_PARAM, dl_intern("reductions.x"), t, (dl_init){0}, (dl_loc){0})
             ->value;
    dl_graph_result(g, DL_RESULT_OUTPUT, "all", dl_build_reduce(&b, DL_OP_sum, x, 0, NULL), NULL);
    for (int i = 0; i < 2; i++)
        dl_graph_result(g, DL_RESULT_OUTPUT, over[i],
                        dl_build_reduce(&b, DL_OP_sum, x, 1, &over[i]), NULL);
}

static void fill(dlr_exec *exec, const char *name, float v) {
    dlr_view view = dlr_exec_variable(exec, name);
    float *to = view.type ? dlr_exec_host(exec, view, DLR_WRITE) : NULL;
    for (int64_t i = 0; to && i < dl_type_stored(view.type); i++) to[i] = v;
}

/* Taps of one axis that reach an operand's position from position `at` of an input gradient. */
static int64_t reaching(const sum_case *c, int64_t at) {
    int64_t n = 0, pad = c->kernel / 2, in = (c->out + 2 * pad - c->kernel) / c->stride + 1;
    for (int64_t from = at + pad, tap = 0; tap < c->kernel; tap++)
        n += from >= tap && (from - tap) % c->stride == 0 && (from - tap) / c->stride < in;
    return n;
}

static double terms_at(const sum_case *c, const int64_t *at) {
    if (c->op == DL_OP_conv_grad_weight) return (double)c->out * c->out;
    if (c->op == DL_OP_conv) return (double)c->channels * c->kernel * c->kernel;
    return (double)(c->channels * reaching(c, at[2]) * reaching(c, at[3]));
}

static void check_case(dlr_exec *exec, const sum_case *c, const char *name, const char *target) {
    fill(exec, dl_internf("%s.x", name), each);
    fill(exec, dl_internf("%s.w", name), weight), fill(exec, dl_internf("%s.y", name), weight);
    int program = dlr_exec_program(exec, name);
    dlr_exec_run(exec, program, NULL);
    dlr_view v = dlr_exec_result(exec, program, DL_RESULT_OUTPUT, "y");
    CHECK(v.type != NULL, "%s", c->what);
    double worst = 0, most = 0;
    int64_t at[DL_MAX_RANK] = {0};
    for (int64_t i = 0; v.type && i < dl_type_count(v.type); i++) {
        double got = (double)((float *)dlr_exec_data(exec, v))[dl_type_offset(v.type, at)],
               terms = terms_at(c, at), want = terms * (double)each;
        double slices =
            ceil(terms / c->slice) + c->kernel * c->kernel; /* a tap may begin a slice */
        worst = dl_test_worse(worst, fabs(got - want) / (want * 0x1p-24 * (c->slice + slices)));
        most = fmax(most, terms);
        for (int a = v.type->rank - 1; a >= 0 && ++at[a] == v.type->axis[a].size; a--) at[a] = 0;
    }
    CHECK(most > 16384, "%s, %s: %g terms are not many", target, c->what, most);
    CHECK(worst <= 1, "%s, %s: %.2f times the roundings of a slice and of the slices' sum", target,
          c->what, worst);
}

static void check_reductions(dlr_exec *exec, const char *target) {
    fill(exec, "reductions.x", each);
    int program = dlr_exec_program(exec, "reductions");
    dlr_exec_run(exec, program, NULL);
    static const struct {
        const char *name;
        int64_t terms;
    } sums[] = {{"all", 3001 * 1003}, {"A", 3001}, {"B", 1003}};
    for (int i = 0; i < 3; i++) {
        dlr_view v = dlr_exec_result(exec, program, DL_RESULT_OUTPUT, sums[i].name);
        double want = (double)sums[i].terms * (double)each, worst = 0;
        for (int64_t k = 0; v.type && k < dl_type_count(v.type); k++)
            worst = dl_test_worse(worst,
                                  fabs((double)((float *)dlr_exec_data(exec, v))[k] - want) / want);
        /* lanes are added as a tree of floats where they do not stay apart: four roundings and the
         * last */
        CHECK(v.type && worst <= 5 * 0x1p-24, "%s, sum over %s: %.2e", target, sums[i].name, worst);
    }
}

static void test_target(const char *target) {
    dl_error err = {0};
    dl_compile_options opt = {.target = dl_target_find(NULL, target, &err),
                              .step_options.optimizer = DL_OPT_NONE,
                              .model = "precision",
                              .batch = 1,
                              .validate = DL_VALIDATE_PASSES,
                              .link = true};
    if (!opt.target) {
        dl_test_skip("%s: %s", target, err.message);
        return;
    }
    dl_module *m = dl_module_new(NULL);
    for (int i = 0; i < NCASES; i++) build(m, i);
    build_reductions(m);
    dl_compile_times times = {0};
    dl_plan *p = dl_compile(m->arena, m, &opt, &times, &err);
    dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 0}, &err) : NULL;
    CHECK(exec != NULL, "%s: %s", target, err.message);
    for (int i = 0; exec && i < NCASES; i++)
        check_case(exec, &cases[i], dl_internf("case%d", i), target);
    if (exec) check_reductions(exec, target);
    dlr_exec_close(exec);
    dl_arena_free(m->arena);
}

int main(void) {
    char dir[] = "/tmp/dl_precision_XXXXXX";
    if (!test_cache(dir)) return 1;
    test_target("cpu:avx512");
    test_target("cpu:avx2");
    test_target("cpu:generic");
    return dl_test_end();
}
