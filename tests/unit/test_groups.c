/* Groups of a convolution have nothing to do with each other: what is no number in one stays there,
 * though groups share vectors in compiled code, which is held against the interpreter on each
 * target. */
#include <math.h>

#include "ir/interp/interp.h"
#include "tests/unit/compiled.h"
#include "tests/unit/random_numbers.h"

typedef struct {
    const char *what, *a, *b, *node; /* the types of its operands, and the node that makes %2 */
    int odd;                         /* the operand in which some are no numbers */
} group_case;

#define SPACED "{stride=[2], pad_lo=[1], pad_hi=[1], "
static const group_case cases[] = {
    {"groups across panels", "f32[N=2, C=12, H=5, W=6]", "f32[O=20, C=3, kH=3, kW=3]",
     "conv $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], groups=4} : f32[N=2, C=20, H=5, "
     "W=6]",
     0},
    {"small groups", "f32[N=1, C=96, W=9]", "f32[O=96, C=4, kW=3]",
     "conv $a, $b " SPACED "groups=24} : f32[N=1, C=96, W=5]", 0},
    {"many channels into few", "f32[N=1, C=300, W=70]", "f32[O=4, C=150, kW=3]",
     "conv $a, $b " SPACED "groups=2} : f32[N=1, C=4, W=35]", 0},
    {"an input gradient", "f32[N=2, C=60, W=5]", "f32[O=60, C=4, kW=3]",
     "conv_grad_input $a, $b " SPACED "size=[9], groups=6} : f32[N=2, C=24, W=9]", 0},
    {"a weight gradient", "f32[N=2, C=12, W=9]", "f32[N=2, C=20, W=5]",
     "conv_grad_weight $a, $b " SPACED "kernel=[3], groups=4} : f32[O=20, C=3, kW=3]", 0},
    {"a weight gradient of such", "f32[N=2, C=12, W=9]", "f32[N=2, C=20, W=5]",
     "conv_grad_weight $a, $b " SPACED "kernel=[3], groups=4} : f32[O=20, C=3, kW=3]", 1},
    {"groups of a vector", "f32[N=2, C=48, H=5, W=6]", "f32[O=48, C=16, kH=3, kW=3]",
     "conv $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], groups=3} : f32[N=2, C=48, H=5, "
     "W=6]",
     0},
    {"an input gradient of such", "f32[N=1, C=96, W=5]", "f32[O=96, C=16, kW=3]",
     "conv_grad_input $a, $b " SPACED "size=[9], groups=2} : f32[N=1, C=32, W=9]", 0},
    {"a weight gradient of such, too", "f32[N=2, C=48, W=9]", "f32[N=2, C=144, W=5]",
     "conv_grad_weight $a, $b " SPACED "kernel=[3], groups=3} : f32[O=144, C=16, kW=3]", 1},
    {"a weight gradient into as many", "f32[N=2, C=48, H=5, W=6]", "f32[N=2, C=48, H=5, W=6]",
     "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3], "
     "groups=3} : "
     "f32[O=48, C=16, kH=3, kW=3]",
     1},
    {"items of several groups", "f32[N=1, C=64, W=4300]", "f32[O=64, C=16, kW=1]",
     "conv $a, $b {stride=[1], pad_lo=[0], pad_hi=[0], groups=4} : f32[N=1, C=64, W=4300]", 0},
    {"items of several small ones", "f32[N=1, C=64, W=4300]", "f32[O=64, C=8, kW=1]",
     "conv $a, $b {stride=[1], pad_lo=[0], pad_hi=[0], groups=8} : f32[N=1, C=64, W=4300]", 0},
    {"groups of 24", "f32[N=1, C=72, W=9]", "f32[N=1, C=72, W=5]",
     "conv_grad_weight $a, $b " SPACED "kernel=[3], groups=3} : f32[O=72, C=24, kW=3]", 0},
    {"groups of 24 forward", "f32[N=1, C=72, W=300]", "f32[O=72, C=24, kW=3]",
     "conv $a, $b " SPACED "groups=3} : f32[N=1, C=72, W=150]", 0},
    {"depthwise", "f32[N=1, C=40, W=9]", "f32[O=40, C=1, kW=3]",
     "conv $a, $b " SPACED "dilation=[2], groups=40} : f32[N=1, C=40, W=4]", 0},
    {"a depthwise input gradient", "f32[N=1, C=40, W=4]", "f32[O=40, C=1, kW=3]",
     "conv_grad_input $a, $b " SPACED "dilation=[2], size=[9], groups=40} : f32[N=1, C=40, W=9]",
     0},
    {"a depthwise weight gradient", "f32[N=2, C=40, W=9]", "f32[N=2, C=40, W=4]",
     "conv_grad_weight $a, $b " SPACED
     "dilation=[2], kernel=[3], groups=40} : f32[O=40, C=1, kW=3]",
     0},
};

/* Some eight, where `odd`, are no numbers: infinite, or NaN. */
static void draw(const dl_type *t, uint64_t seed, bool odd, double *to) {
    rng r = {seed};
    int rare = 1 + (int)(dl_type_count(t) / 8);
    for (int64_t i = 0; i < dl_type_count(t); i++) {
        to[i] = (double)(float)uniform(&r, -1, 1);
        if (odd && one_in(&r, rare))
            to[i] = one_in(&r, 3) ? NAN : one_in(&r, 2) ? INFINITY : -INFINITY;
    }
}

static void set(dlr_exec *exec, const dl_var *v, const double *from) {
    dlr_view view = dlr_exec_variable(exec, v->name);
    int64_t at[DL_MAX_RANK] = {0};
    float *to = dlr_exec_host(exec, view, DLR_UPDATE);
    for (int64_t i = 0; i < dl_type_count(view.type); i++) {
        to[dl_type_offset(view.type, at)] = (float)from[i];
        for (int k = view.type->rank - 1; k >= 0 && ++at[k] == view.type->axis[k].size; k--)
            at[k] = 0;
    }
}

static bool alike(double got, double want) {
    if (isnan(want)) return isnan(got);
    return isinf(want) ? got == want
                       : fabs(got - want) <= 1e-4; /* sums of 450 products of numbers below 1 */
}

static void test_case(const group_case *c, const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text =
        dl_format(arena,
                  "graph @train {\n  input $a = %%0 : %s\n  input $b = %%1 : %s\n  %%2 = %s\n"
                  "  output \"y\" = %%2\n}\n",
                  c->a, c->b, c->node);
    dl_module *m = dl_parse_module(arena, text, strlen(text), "groups", &err);
    CHECK(m, "%s: %s", c->what, err.message);
    dlr_exec *exec = m ? open_plan(compile_text(arena, text, target, NULL), 2) : NULL;
    if (exec) {
        const dl_graph *g = m->graphs.at[0];
        dl_interp *in = dl_interp_new(g, false);
        for (int i = 0; i < 2; i++) {
            const dl_value *v = &g->vars.at[i]->value;
            draw(&v->type, 7 + (uint64_t)i, i == c->odd, dl_interp_data(in, v));
            set(exec, g->vars.at[i], dl_interp_data(in, v));
        }
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        dlr_exec_run(exec, 0, NULL);
        float *y = read_output(exec, 0, "y", DL_F32);
        const double *want = dl_interp_data(in, g->results.at[0].value);
        int64_t n = dl_type_count(&g->results.at[0].value->type), wrong = 0, numbers = 0;
        for (int64_t i = 0; i < n; i++)
            wrong += !alike((double)y[i], want[i]), numbers += isfinite(want[i]);
        CHECK(wrong == 0, "%s, %s: %lld of %lld elements", target, c->what, (long long)wrong,
              (long long)n);
        CHECK(numbers > 0 && numbers < n, "%s: %lld of %lld are numbers", c->what,
              (long long)numbers, (long long)n);
        free(y);
        dl_interp_free(in);
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* Groups that fill vectors of lanes are read as they lie, as where there is one: nothing is packed
 * ahead. */
static void test_in_place(const char *target) {
    static const char text[] = "graph @train {\n  input $a = %0 : f32[N=1, C=48, W=300]\n  input "
                               "$b = %1 : f32[O=48, C=16, kW=3]\n"
                               "  %2 = conv $a, $b {stride=[1], pad_lo=[1], pad_hi=[1], groups=3} "
                               ": f32[N=1, C=48, W=300]\n"
                               "  output \"y\" = %2\n}\n";
    dl_arena *arena = dl_arena_new(NULL);
    const dl_plan *p = compile_text(arena, text, target, NULL);
    for (int i = 0; p && i < p->kernels.n; i++)
        CHECK(p->kernels.at[i].phases == 1, "%s: %d phases", target, p->kernels.at[i].phases);
    dl_arena_free(arena);
}

/* Whether two cases are of one op; depthwise convolutions have loops of their own. */
static bool of_one_kind(const group_case *a, const group_case *b) {
    size_t n = strcspn(a->node, " ");
    return !strstr(a->what, "depthwise") == !strstr(b->what, "depthwise") &&
           n == strcspn(b->node, " ") && strncmp(a->node, b->node, n) == 0;
}

int main(void) {
    static char dir[] = "/tmp/dl_groups_XXXXXX";
    if (!test_cache(dir)) return DL_IO;
    unsigned number = 0;
    for (unsigned t = 0; t < COMPILED_TARGETS; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            unsigned at = 0, n = 0; /* among those of its kind */
            for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
                if (of_one_kind(&cases[k], &cases[i])) at += k < i, n++;
            if (dl_test_takes_of(t, at, n, number++)) test_case(&cases[i], compiled_targets[t]);
        }
    for (int t = 0; t < COMPILED_CPUS; t++) test_in_place(compiled_targets[t]);
    return dl_test_end();
}
