/* Convolutions by the variant of ir/kernel/winograd.h, on every CPU target that this machine can
 * run: each kernel is judged by the interpreter within the variant's error bound, with numbers of
 * all kinds; errors are next to those of the direct way; and the variant is a schedule by name,
 * taken by the cost model where it pays. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/cpu/cpu.h"
#include "ir/interp/interp.h"
#include "ir/kernel/winograd.h"
#include "tests/unit/compiled.h"
#include "tests/unit/random_numbers.h"
#include "verify/verify.h"

/* IMAGE: y = leaky_relu(conv(cat(x...), w) + b), and the means of its channels; INPUT: y of the
 * gradient of a convolution's input, in its place; WEIGHT: of the gradient of its weight, with b by
 * channel of x. Sizes of the last axes are size[0..2]: planes, height, width; a picture has 0
 * planes. */
typedef enum { IMAGE, INPUT, WEIGHT } kind;
typedef struct {
    const char *what;
    int batch, in[2], out, size[3], taps, stride, lo[3], hi[3]; /* along the planes: taps, stride */
    kind kind;
} problem;
static const problem problems[] = {
    {"odd picture", 2, {17}, 33, {0, 7, 9}, 0, 0, {0, 1, 1}, {0, 1, 1}, IMAGE},
    {"no padding", 1, {16}, 40, {0, 6, 5}, 0, 0, {0, 0, 0}, {0, 0, 0}, IMAGE},
    {"padding of one side", 1, {24}, 9, {0, 5, 8}, 0, 0, {0, 2, 0}, {0, 0, 2}, IMAGE},
    {"wide padding", 1, {16}, 16, {0, 3, 4}, 0, 0, {0, 4, 3}, {0, 4, 5}, IMAGE},
    {"one position", 3, {20}, 50, {0, 1, 1}, 0, 0, {0, 1, 1}, {0, 1, 1}, IMAGE},
    {"volume", 1, {20}, 64, {3, 6, 6}, 3, 1, {1, 1, 1}, {1, 1, 1}, IMAGE},
    {"strided planes", 2, {16}, 24, {6, 4, 5}, 2, 2, {1, 1, 1}, {0, 1, 1}, IMAGE},
    {"of two", 1, {16, 27}, 32, {0, 8, 8}, 0, 0, {0, 1, 1}, {0, 1, 1}, IMAGE},
    {"several chains", 1, {300}, 70, {0, 4, 5}, 0, 0, {0, 1, 1}, {0, 1, 1}, IMAGE},
    {"several blocks and groups", 2, {16}, 200, {0, 19, 22}, 0, 0, {0, 1, 1}, {0, 1, 1}, IMAGE},
    {"gradient, odd picture", 2, {17}, 33, {0, 7, 9}, 0, 0, {0, 1, 1}, {0, 1, 1}, INPUT},
    {"gradient, no padding", 1, {16}, 40, {0, 6, 5}, 0, 0, {0, 0, 0}, {0, 0, 0}, INPUT},
    {"gradient, uneven padding", 1, {24}, 9, {0, 5, 8}, 0, 0, {0, 2, 0}, {0, 0, 2}, INPUT},
    {"gradient, wide padding", 1, {16}, 16, {0, 9, 10}, 0, 0, {0, 4, 3}, {0, 4, 5}, INPUT},
    {"gradient, volume", 1, {20}, 70, {3, 6, 6}, 3, 1, {1, 1, 1}, {1, 0, 1}, INPUT},
    {"gradient, two planes of taps", 2, {16}, 24, {5, 4, 5}, 2, 1, {1, 1, 1}, {0, 1, 1}, INPUT},
    {"gradient of two", 1, {16, 27}, 32, {0, 8, 8}, 0, 0, {0, 1, 1}, {0, 1, 1}, INPUT},
    {"gradient, several chains", 1, {300}, 70, {0, 4, 5}, 0, 0, {0, 1, 1}, {0, 1, 1}, INPUT},
    {"gradient, several blocks", 2, {16}, 200, {0, 19, 22}, 0, 0, {0, 1, 1}, {0, 1, 1}, INPUT},
    {"weight, odd picture", 2, {17}, 33, {0, 7, 9}, 0, 0, {0, 1, 1}, {0, 1, 1}, WEIGHT},
    {"weight, no padding", 1, {16}, 40, {0, 6, 5}, 0, 0, {0, 0, 0}, {0, 0, 0}, WEIGHT},
    {"weight, uneven padding", 1, {24}, 9, {0, 5, 8}, 0, 0, {0, 2, 0}, {0, 0, 2}, WEIGHT},
    {"weight, wide padding", 1, {16}, 16, {0, 3, 4}, 0, 0, {0, 4, 3}, {0, 4, 5}, WEIGHT},
    {"weight, one position", 3, {20}, 50, {0, 1, 1}, 0, 0, {0, 1, 1}, {0, 1, 1}, WEIGHT},
    {"weight, volume", 1, {20}, 64, {3, 6, 6}, 3, 1, {1, 1, 1}, {1, 0, 1}, WEIGHT},
    {"weight, strided planes", 2, {16}, 24, {6, 4, 5}, 2, 2, {1, 1, 1}, {0, 1, 1}, WEIGHT},
    {"weight, of two", 1, {16, 27}, 32, {0, 8, 8}, 0, 0, {0, 1, 1}, {0, 1, 1}, WEIGHT},
    {"weight, several blocks", 1, {85, 60}, 100, {0, 6, 7}, 0, 0, {0, 1, 1}, {0, 1, 1}, WEIGHT},
    {"weight, several splits", 2, {16}, 40, {0, 19, 22}, 0, 0, {0, 1, 1}, {0, 1, 1}, WEIGHT},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static const char *image(dl_arena *arena, const problem *p, int channels, const int *size) {
    const char *planes = p->size[0] ? dl_format(arena, "D=%d, ", size[0]) : "";
    return dl_format(arena, "f32[N=%d, C=%d, %sH=%d, W=%d]", p->batch, channels, planes, size[1],
                     size[2]);
}

/* "[1, 2]", of as many axes as there are. */
static const char *list(dl_arena *arena, const problem *p, int first, const int *last) {
    return p->size[0] ? dl_format(arena, "[%d, %d, %d]", first, last[1], last[2])
                      : dl_format(arena, "[%d, %d]", last[1], last[2]);
}

/* The type of a weight, from one number of channels to another. */
static const char *weight(dl_arena *arena, const problem *p, int out, int in) {
    const char *planes = p->size[0] ? dl_format(arena, "kD=%d, ", p->taps) : "";
    return dl_format(arena, "f32[O=%d, C=%d, %skH=3, kW=3]", out, in, planes);
}

/* A window's sizes, strides and padding, from brace to brace. */
static const char *windows(dl_arena *arena, const problem *p, const char *more) {
    static const int ones[3] = {1, 1, 1};
    return dl_format(arena, "{stride=%s, pad_lo=%s, pad_hi=%s%s}", list(arena, p, p->stride, ones),
                     list(arena, p, p->lo[0], p->lo), list(arena, p, p->hi[0], p->hi), more);
}

/* %5 = the contraction of x, with its second operand. */
static void put_contraction(dl_arena *arena, dl_buf *to, const problem *p, int g, const int *made) {
    static const int threes[3] = {3, 3, 3};
    const int all = p->in[0] + p->in[1];
    const char *x = p->in[1] ? "%2" : dl_format(arena, "$x%d", g),
               *y = image(arena, p, p->out, made), *w = weight(arena, p, p->out, all);
    const char *size = dl_format(arena, ", size=%s", list(arena, p, made[0], made)),
               *kernel = dl_format(arena, ", kernel=%s", list(arena, p, p->taps, threes));
    if (p->kind == IMAGE)
        dl_putf(to, "  param $w%d = %%3 : %s\n  %%5 = conv %s, $w%d %s : %s\n", g, w, x, g,
                windows(arena, p, ""), y);
    if (p->kind == INPUT)
        dl_putf(to, "  param $w%d = %%3 : %s\n  %%5 = conv_grad_input %s, $w%d %s : %s\n", g,
                weight(arena, p, all, p->out), x, g, windows(arena, p, size), y);
    if (p->kind == WEIGHT)
        dl_putf(to, "  param $y%d = %%3 : %s\n  %%5 = conv_grad_weight %s, $y%d %s : %s\n", g, y, x,
                g, windows(arena, p, kernel), w);
}

/* Graph number `g` of it; variables have its number in their names. */
static void put_text(dl_arena *arena, dl_buf *to, const problem *p, int g) {
    const int all = p->in[0] + p->in[1], taps = p->taps ? p->taps : 1;
    const bool weighs = p->kind == WEIGHT;
    int made[3] = {1, 0, 0}, sign = p->kind == INPUT ? -1 : 1, channels = weighs ? all : p->out;
    if (p->size[0])
        made[0] = p->kind == INPUT ? (p->size[0] - 1) * p->stride + taps - p->lo[0] - p->hi[0]
                                   : (p->size[0] + p->lo[0] + p->hi[0] - taps) / p->stride + 1;
    for (int i = 1; i < 3; i++) made[i] = p->size[i] + sign * (p->lo[i] + p->hi[i] - 2);
    const char *y = weighs ? weight(arena, p, p->out, all) : image(arena, p, p->out, made);
    dl_putf(to, "graph @case%d {\n  param $x%d = %%0 : %s\n", g, g,
            image(arena, p, p->in[0], p->size));
    if (p->in[1])
        dl_putf(to, "  param $z%d = %%1 : %s\n  %%2 = cat $x%d, $z%d {axis=C} : %s\n", g,
                image(arena, p, p->in[1], p->size), g, g, image(arena, p, all, p->size));
    put_contraction(arena, to, p, g, made);
    dl_putf(to,
            "  param $b%d = %%4 : f32[C=%d]\n  %%6 = add %%5, $b%d : %s\n"
            "  %%7 = leaky_relu %%6 {slope=0.1} : %s\n"
            "  %%8 = mean %%7 {over=[%s%s%s]} : f32[C=%d]\n"
            "  output \"y\" = %%7\n  output \"means\" = %%8\n}\n",
            g, channels, g, y, y, weighs ? "O, " : "N, ",
            !p->size[0] ? ""
            : weighs    ? "kD, "
                        : "D, ",
            weighs ? "kH, kW" : "H, W", channels);
}

static const char *text_of(dl_arena *arena, int n, const problem *p) {
    dl_buf text = {0};
    for (int g = 0; g < n; g++) put_text(arena, &text, &p[g], g);
    const char *all = dl_strdup(arena, text.at);
    dl_buf_free(&text);
    return all;
}

/* ---- kernels of a variant ---- */

static const char *wanted; /* the variant of every kernel that has it */
static int named;

static bool choose(void *user, int n, dl_kernel *const *kernels, dl_error *err) {
    (void)err;
    const char *names[DL_MOST_VARIANTS];
    for (int i = 0; i < n; i++) {
        int variants = dl_cpu_variants(kernels[i], user, names);
        for (int v = 0; v < variants && variants > 1; v++)
            if (strcmp(names[v], wanted) == 0) kernels[i]->schedule.variant = names[v], named++;
    }
    return true;
}

static dl_plan *compile(dl_arena *arena, int n, const problem *p, const char *target,
                        const char *variant, dl_module **m) {
    dl_error err = {0};
    const char *here = compiled_target(target);
    if (!here) return NULL;
    dl_tuner tuner = {.choose = choose, .user = (void *)dl_target_find(NULL, here, &err)};
    wanted = variant, named = 0, compiled_by = &tuner;
    dl_plan *plan = compile_text_module(arena, text_of(arena, n, p), target, NULL, m);
    compiled_by = NULL;
    CHECK(!plan || named == n, "%s, %s: %d kernels of %d are %s", p->what, target, named, n,
          variant);
    return plan;
}

typedef enum { PLAIN, SPECIAL, LARGE, TINY, SORTS } sort;

/* Normal numbers; or among them infinities and NaNs, numbers that overflow in a transform, or such
 * below the normal range. */
static float number(rng *r, sort of) {
    double v = uniform(r, -1, 1), which = uniform(r, 0, 1);
    if (of == SPECIAL && which < 0.002) return v < 0 ? -INFINITY : INFINITY;
    if (of == SPECIAL && which < 0.003) return NAN;
    if (of == LARGE && which < 0.01) v *= 3e38;
    if (of == TINY) v *= 1e-38;
    return (float)v;
}

typedef struct {
    uint64_t seed;
    sort of;
} filling;

static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const filling *f = user;
    const dl_plan *p = dlr_exec_plan(exec);
    rng r = {f->seed};
    (void)err;
    for (int i = 0; i < p->vars.n; i++) {
        int64_t n = dl_type_count(&p->vars.at[i].type);
        bool weight = p->vars.at[i].name[0] == 'w';
        float *numbers = malloc((size_t)(n + 1) * sizeof *numbers);
        DL_CHECK(numbers);
        for (int64_t k = 0; k < n; k++)
            numbers[k] = number(&r, weight && f->of != TINY ? PLAIN : f->of);
        dlr_state_write(exec, dlr_exec_variable(exec, p->vars.at[i].name), DL_F32, numbers);
        free(numbers);
    }
    return true;
}

static void test_judged(const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = NULL;
    dl_error err = {0};
    dl_plan *p = compile(arena, PROBLEMS, problems, target, dl_winograd_name, &m);
    for (int g = 0; p && g < PROBLEMS; g++)
        for (int of = 0; of < SORTS; of++) {
            filling f = {(uint64_t)g + 1, (sort)of};
            dl_verify_run run = {{.threads = 2}, fill, NULL, &f};
            dl_verdict v = {0};
            CHECK(dl_verify_kernels(arena, m->graphs.at[g], p, &run, &v, &err), "%s", err.message);
            CHECK(v.faults.n == 0, "%s, %s, sort %d: %s", problems[g].what, target, of,
                  v.faults.at[0]);
        }
    dl_arena_free(arena);
}

/* ---- errors ---- */

/* The relative error of output y. */
static double error_of(const dl_plan *p, const dl_module *m) {
    dl_error err = {0};
    dlr_exec *exec = open_plan(p, 1);
    filling f = {7, PLAIN};
    dl_interp *in = dl_interp_new(m->graphs.at[0], false);
    fill(exec, &f, &err);
    for (int i = 0; i < m->graphs.at[0]->vars.n; i++) {
        const dl_var *v = m->graphs.at[0]->vars.at[i];
        dlr_state_read(exec, dlr_exec_variable(exec, v->name), DL_F64,
                       dl_interp_data(in, &v->value));
    }
    dlr_exec_run(exec, 0, NULL);
    CHECK(dl_interp_run(in, &err), "%s", err.message);
    const dl_value *y = m->graphs.at[0]->results.at[0].value;
    const double *want = dl_interp_data(in, y);
    double *got = read_output(exec, 0, "y", DL_F64), off = 0, all = 0;
    for (int64_t i = 0; got && i < dl_type_count(&y->type); i++)
        off += (got[i] - want[i]) * (got[i] - want[i]), all += want[i] * want[i];
    free(got);
    dl_interp_free(in);
    dlr_exec_close(exec);
    return sqrt(off / all);
}

/* The variant has fewer additions in a row, and more roundings. */
static void test_errors(const char *target) {
    static const problem all[] = {
        {"errors", 1, {64}, 64, {0, 24, 24}, 0, 0, {0, 1, 1}, {0, 1, 1}, IMAGE},
        {"errors of a gradient", 1, {64}, 64, {0, 24, 24}, 0, 0, {0, 1, 1}, {0, 1, 1}, INPUT},
        {"errors of a weight", 4, {40}, 64, {0, 24, 24}, 0, 0, {0, 1, 1}, {0, 1, 1}, WEIGHT}};
    dl_arena *arena = dl_arena_new(NULL);
    for (int i = 0; i < 3; i++) {
        dl_module *m = NULL;
        const dl_plan *p = compile(arena, 1, &all[i], target, dl_direct_name, &m);
        double direct = p ? error_of(p, m) : 0;
        p = p ? compile(arena, 1, &all[i], target, dl_winograd_name, &m) : NULL;
        double winograd = p ? error_of(p, m) : 0;
        CHECK(!p || (winograd > 0 && winograd < 1.5 * direct && winograd < 4e-7),
              "%s, %s: %.2e, directly %.2e", all[i].what, target, winograd, direct);
    }
    dl_arena_free(arena);
}

/* ---- schedules ---- */

/* The contraction of a problem, compiled for a target without code. */
static dl_kernel *contraction_of(dl_arena *arena, const problem *p, const dl_target *t,
                                 dl_module **m) {
    dl_error err = {0};
    dl_compile_times times;
    dl_compile_options opt = {
        .target = t, .step_options.optimizer = DL_OPT_NONE, .model = "text", .batch = 1};
    const char *text = text_of(arena, 1, p);
    *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    bool ok = *m && dl_compile(arena, *m, &opt, &times, &err);
    CHECK(ok, "%s: %s", p->what, err.message);
    for (int i = 0; ok && i < (*m)->graphs.at[0]->kernels.n; i++)
        if (dl_kernel_anchor((*m)->graphs.at[0]->kernels.at[i]) >= 0)
            return (*m)->graphs.at[0]->kernels.at[i];
    return NULL;
}

static bool emits(dl_arena *arena, const dl_kernel *k, const dl_target *t, dl_error *err) {
    dl_emitted code;
    dl_buf out = {0};
    bool ok = dl_cpu_emit(arena, &out, k, t, &code, err);
    dl_buf_free(&out);
    return ok;
}

/* A weight's gradient: taken by the cost model where there are positions for it; of bf16 numbers
 * and of groups not at all. */
static void test_weight_schedule(void) {
    static const problem large = {"weight", 4, {64},      64,        {0, 32, 32},
                                  0,        0, {0, 1, 1}, {0, 1, 1}, WEIGHT},
                         few = {"few positions", 1,         {64},  64, {0, 7, 7}, 0, 0,
                                {0, 1, 1},       {0, 1, 1}, WEIGHT};
    dl_arena *arena = dl_arena_new(NULL);
    const dl_target *t = dl_cpu_target("cpu:generic");
    dl_module *m;
    dl_kernel *k = contraction_of(arena, &few, t, &m);
    CHECK(k && strcmp(k->schedule.variant, dl_direct_name) == 0, "few positions of a weight: %s",
          k ? k->schedule.variant : "");
    k = contraction_of(arena, &large, t, &m);
    CHECK(k && dl_winograd_named(k), "weight: %s", k ? k->schedule.variant : "");
    if (!k) return;
    dl_kinstr *c = &k->instrs.at[dl_kernel_anchor(k)];
    c->windows.groups = 2;
    CHECK(!dl_winograd_suits(k), "a weight in two groups");
    c->windows.groups = 1;
    CHECK(dl_winograd_suits(k), "a weight in one group");
    k->params.at[c->parts[1][0]].type.dtype = DL_BF16;
    CHECK(!dl_winograd_suits(k), "a weight of dy in bf16");
    dl_arena_free(arena);
}

static void test_schedule(void) {
    static const problem large = {"large", 4, {64},      64,        {0, 32, 32},
                                  0,       0, {0, 1, 1}, {0, 1, 1}, IMAGE},
                         few = {"few", 1, {512}, 512, {0, 4, 4}, 0, 0, {0, 1, 1}, {0, 1, 1}, IMAGE},
                         kept = {"kept", 1, {256},     256,       {0, 10, 10},
                                 0,      0, {0, 1, 1}, {0, 1, 1}, IMAGE},
                         back = {"gradient", 4, {64},      64,        {0, 32, 32},
                                 0,          0, {0, 1, 1}, {0, 1, 1}, INPUT},
                         strided = {"gradient, strided planes",
                                    2,
                                    {64},
                                    64,
                                    {16, 16, 16},
                                    2,
                                    2,
                                    {1, 1, 1},
                                    {1, 1, 1},
                                    INPUT};
    dl_arena *arena = dl_arena_new(NULL);
    const dl_target *t = dl_cpu_target("cpu:generic"), *off = dl_target_without_winograd(arena, t);
    dl_module *m;
    dl_error err = {0};
    dl_kernel *k = contraction_of(arena, &large, off, &m);
    CHECK(k && !k->schedule.variant, "off: %s", k ? k->schedule.variant : "");
    k = contraction_of(arena, &few, t, &m);
    CHECK(k && strcmp(k->schedule.variant, dl_direct_name) == 0, "few: %s",
          k ? k->schedule.variant : "");
    k = contraction_of(arena, &kept, t, &m);
    CHECK(k && k->keeps_weight && dl_winograd_named(k), "a weight that is transformed once: %s",
          k ? k->schedule.variant : "");
    const char *names[DL_MOST_VARIANTS];
    if (k) k->keeps_weight = false, k->schedule.variant = NULL;
    CHECK(k && dl_cpu_variants(k, t, names) == 2 && strcmp(names[0], dl_direct_name) == 0,
          "a weight that is transformed each time: %s", names[0]);
    k = contraction_of(arena, &back, t, &m);
    CHECK(k && dl_winograd_named(k), "gradient: %s", k ? k->schedule.variant : "");
    k = contraction_of(arena, &strided, t, &m);
    CHECK(k && !k->schedule.variant, "gradient, strided planes: %s", k ? k->schedule.variant : "");
    k = contraction_of(arena, &large, t, &m);
    CHECK(k && dl_winograd_named(k), "large: %s", k ? k->schedule.variant : "");
    if (!k) return;
    dl_buf text = {0};
    dl_print_module(&text, m, (dl_print_options){0});
    dl_module *again = dl_parse_module(arena, text.at, text.n, "text", &err);
    CHECK(again && strstr(text.at, "variant=\"winograd 2x2\"}"), "%s%s", err.message, text.at);
    dl_buf_free(&text);
    double fast = dl_cpu_predict(k, t);
    CHECK(emits(arena, k, t, &err), "%s", err.message);
    CHECK(!emits(arena, k, off, &err) && err.code == DL_INPUT &&
              strstr(err.message, "has no variant 'winograd 2x2' of it"),
          "%s", err.message);
    k->schedule.variant = dl_intern("winograd 9x9"), err = (dl_error){0};
    CHECK(!emits(arena, k, t, &err) && strstr(err.message, "has no variant 'winograd 9x9' of it"),
          "%s", err.message);
    k->schedule.variant = dl_intern(dl_direct_name);
    CHECK(dl_cpu_predict(k, t) > fast, "%g us, directly %g", fast, dl_cpu_predict(k, t));
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_winograd_XXXXXX";
    if (!test_cache(dir)) return 1;
    test_schedule();
    test_weight_schedule();
    for (int t = 0; t < COMPILED_CPUS; t++)
        test_judged(compiled_targets[t]), test_errors(compiled_targets[t]);
    return dl_test_end();
}
