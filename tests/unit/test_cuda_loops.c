/* CUDA kernels without a contraction, each way that they are emitted: lots and single points,
 * groups of threads along and across memory, blocks that share a sum, rows in passes, additions at
 * numbered places. Emulated, compared with the interpreter, twice with the same bits; and through
 * NVRTC for three architectures without a spill. What they compute otherwise is tested by
 * test_rows.c, test_typed.c, test_functions.c, test_halves.c and test_random.c on the same target.
 * Exit 77 (skip) without a C++ compiler. */
#include <math.h>

#include "compiler/cuda/nvrtc.h"
#include "ir/interp/interp.h"
#include "ir/plan/cubin.h"
#include "tests/unit/compiled.h"
#include "tests/unit/random_numbers.h"

typedef struct {
    const char *what, *text; /* inputs and what becomes of them; outputs y, z */
    double tolerance;        /* relative to the largest */
    const char *has;         /* what the kernels' text must hold: the way that is meant */
} nest_case;

/* Two sums and the largest of each row; two sums over all of what is made of them. */
#define SUMS_OF_ROWS                                                                               \
    "input $x = %0 : f32[A=61, B=20]\n %1 = sum $x {over=[B]} : f32[A=61]\n"                       \
    "%2 = reduce_max $x {over=[B]} : f32[A=61]\n %3 = mul $x, $x : f32[A=61, B=20]\n"              \
    "%4 = sum %3 {over=[B]} : f32[A=61]\n %5 = mul %1, %4 : f32[A=61]\n %6 = mul %5, %2 : "        \
    "f32[A=61]\n"                                                                                  \
    "%7 = sum %6 {over=[A]} : f32[]\n %8 = sum %5 {over=[A]} : f32[]\n %9 = add %7, %8 : f32[]\n"  \
    "output \"y\" = %6\n output \"z\" = %9\n"

static const nest_case cases[] = {
    {"lots of four, in rows that share what they take of each channel",
     "input $x = %0 : f32[A=337, B=5, C=12]\n input $w = %1 : f32[C=12]\n"
     "%2 = mul $x, $w : f32[A=337, B=5, C=12]\n output \"y\" = %2\n",
     1e-6,
     "vec<float, 4> l2;\n#pragma unroll\n    for (int j = 0; j < 4; j++) {\n    float v0 = "
     "(l1[j]);"},
    {"rows of a turn each, whose number is no loop's",
     "input $x = %0 : f32[A=337, B=5, C=12]\n input $w = %1 : f32[C=12]\n"
     "%2 = mul $x, $w : f32[A=337, B=5, C=12]\n output \"y\" = %2\n",
     1e-6,
     "first + 3072 < 20220 ? first + 3072 : 20220;\n#pragma unroll 1\n    for (int at = first; at "
     "< end;"},
    {"so few points that a thread has one each",
     "input $x = %0 : f32[A=128, B=64]\n %1 = mul $x, $x : f32[A=128, B=64]\n output \"y\" = %1\n",
     1e-6, "at < 8192) {\n    const int x0 = 0;\n    const int x1 = at;"},
    {"lots of eight",
     "input $x = %0 : f32[A=129, B=64]\n %1 = cast $x : bf16[A=129, B=64]\n"
     "%2 = cast %1 : f32[A=129, B=64]\n %3 = mul %2, %2 : f32[A=129, B=64]\n %4 = cast %3 : "
     "bf16[A=129, "
     "B=64]\n"
     "output \"y\" = %4\n output \"z\" = %1\n",
     1e-2, "vec<bf16, 8>"},
    {"lots of sixteen bits, taken out of their words: bf16",
     "input $x = %0 : bf16[A=129, B=512]\n input $w = %1 : f16[A=129, B=512]\n"
     "%2 = cast $x : f32[A=129, B=512]\n %3 = cast $w : f32[A=129, B=512]\n"
     "%4 = mul %2, %3 : f32[A=129, B=512]\n output \"y\" = %4\n",
     1e-2, "= s_widen_bf16(l0.half(j));"},
    {"and f16",
     "input $x = %0 : f16[A=129, B=512]\n %1 = cast $x : f32[A=129, B=512]\n"
     "%2 = neg %1 : f32[A=129, B=512]\n output \"y\" = %2\n",
     1e-3, "= s_widen_f16(l0.half(j));"},
    {"odd sizes",
     "input $x = %0 : f32[A=3, B=5, C=7]\n input $w = %1 : f32[C=7]\n"
     "%2 = mul $x, $w : f32[A=3, B=5, C=7]\n output \"y\" = %2\n",
     1e-6, "float v0 = (p0[x"},
    {"one point", "input $x = %0 : f32[]\n %1 = exp $x : f32[]\n output \"y\" = %1\n", 1e-6, NULL},
    {"eight axes",
     "input $x = %0 : f32[A=2, B=3, C=2, D=1, E=3, F=2, G=2, H=3]\n"
     "input $w = %1 : f32[C=2, F=2]\n %2 = add $x, $w : f32[A=2, B=3, C=2, D=1, E=3, F=2, G=2, "
     "H=3]\n"
     "%3 = sum %2 {over=[B, F, H]} : f32[A=2, C=2, D=1, E=3, G=2]\n output \"y\" = %2\n output "
     "\"z\" = %3\n",
     1e-5, NULL},
    {"shifted rows, which do not begin at lots",
     "input $x = %0 : f32[A=5, B=41]\n"
     "%1 = slice $x {axis=B, start=1, stop=41} : f32[A=5, B=40]\n %2 = neg %1 : f32[A=5, B=40]\n "
     "output "
     "\"y\" = %2\n",
     1e-6, "float v0 = (p0[x"},
    {"a sum over all, of many blocks",
     "input $x = %0 : f32[A=61, B=1021]\n %1 = mul $x, $x : f32[A=61, B=1021]\n"
     "%2 = sum %1 {over=[A, B]} : f32[]\n %3 = reduce_max %1 {over=[A, B]} : f32[]\n output \"y\" "
     "= %2\n"
     "output \"z\" = %3\n",
     1e-5, "t0[0] = a0;\n    group_reduce_few<by_sum, 256>(t0, 256);"},
    {"sums that keep the neighbours, shared by blocks",
     "input $x = %0 : f32[A=3001, C=24]\n"
     "%1 = mul $x, $x : f32[A=3001, C=24]\n %2 = sum %1 {over=[A]} : f32[C=24]\n"
     "%3 = sum $x {over=[A]} : f32[C=24]\n output \"y\" = %2\n output \"z\" = %3\n",
     1e-5, "group_store<by_sum, 256>(a0, "},
    {"like ones of one loop nest, which leave in turns, each a way after the one before it",
     "input $x = %0 : f32[A=3001, C=24]\n"
     "%1 = mul $x, $x : f32[A=3001, C=24]\n %2 = sum %1 {over=[A]} : f32[C=24]\n"
     "%3 = sum $x {over=[A]} : f32[C=24]\n %4 = neg %1 : f32[A=3001, C=24]\n"
     "%5 = sum %4 {over=[A]} : f32[C=24]\n %6 = mul $x, %2 : f32[A=3001, C=24]\n"
     "%7 = sub %6, %3 : f32[A=3001, C=24]\n %8 = sub %7, %5 : f32[A=3001, C=24]\n output \"y\" = "
     "%8\n",
     1e-5,
     "all[j] = i == 1 ? a1[j] : i == 2 ? a2[j] : a0[j];\n    }\n    group_store<by_sum, "
     "256>(all, "},
    {"unlike ones, each by itself",
     "input $x = %0 : f32[A=3001, C=24]\n"
     "%1 = mul $x, $x : f32[A=3001, C=24]\n %2 = sum %1 {over=[A]} : f32[C=24]\n"
     "%3 = reduce_max $x {over=[A]} : f32[C=24]\n %4 = mul $x, %2 : f32[A=3001, C=24]\n"
     "%5 = sub %4, %3 : f32[A=3001, C=24]\n output \"y\" = %5\n",
     1e-5, "group_store<by_max, 256>(a1, "},
    {"terms that a thread does not have, without a branch",
     "input $x = %0 : f32[A=30011, C=24]\n %1 = sum $x {over=[A]} : f32[C=24]\n output \"y\" = "
     "%1\n",
     1e-5, "t0[j] = in ? by_sum::of(t0[j], v0) : t0[j];"},
    {"what a channel's sum has left, read by lots in front of the loop",
     "input $x = %0 : f32[A=3001, C=24]\n %1 = sum $x {over=[A]} : f32[C=24]\n"
     "%2 = mul $x, %1 : f32[A=3001, C=24]\n %3 = sum %2 {over=[A]} : f32[C=24]\n output \"y\" = "
     "%3\n",
     1e-5, ")) + x0);\n    const int from = part"},
    {"sums of rows next to one over all",
     "input $x = %0 : f32[A=33, B=130]\n %1 = exp $x : f32[A=33, B=130]\n %2 = sum %1 {over=[B]} : "
     "f32[A=33]\n"
     "%3 = mul %1, %1 : f32[A=33, B=130]\n %4 = sum %3 {over=[A, B]} : f32[]\n output \"x\" = %1\n"
     "output \"y\" = %2\n output \"z\" = %4\n",
     1e-5, "= block_reduce_one<by_sum, 256>("},
    {"each kept point by itself, along memory",
     "input $x = %0 : f32[A=4099, B=17]\n"
     "%1 = sum $x {over=[B]} : f32[A=4099]\n output \"y\" = %1\n",
     1e-5, "32, false>"},
    {"each kept point by itself, across memory",
     "input $x = %0 : f32[A=19, B=5003]\n"
     "%1 = sum $x {over=[A]} : f32[B=5003]\n %2 = mul %1, %1 : f32[B=5003]\n output \"y\" = %2\n",
     1e-5, "8, true>"},
    {"long rows, a block each",
     "input $x = %0 : f32[A=20, B=4000]\n %1 = softmax $x {axis=B} : f32[A=20, B=4000]\n"
     "output \"y\" = %1\n",
     1e-5, "256, 256, false>"},
    {"short rows, several a warp",
     "input $x = %0 : f32[A=1700, B=20]\n %1 = softmax $x {axis=B} : f32[A=1700, B=20]\n"
     "output \"y\" = %1\n",
     1e-5, "256, 8, false>"},
    {"short rows, so few that a lane has no lots",
     "input $x = %0 : f32[A=61, B=20]\n %1 = softmax $x {axis=B} : f32[A=61, B=20]\n output \"y\" "
     "= %1\n",
     1e-5, "group_reduce_few<by_sum, 256>(t"},
    {"few rows whose sums are made at once", SUMS_OF_ROWS, 1e-5,
     "t0[0] = a2;\n    t0[1] = a4;\n    group_reduce_few<by_sum, 256>(t0, 32);\n    float t1[1];\n "
     "   t1[0] = a3;"},
    {"and so those of the block", SUMS_OF_ROWS, 1e-5,
     "t2[0] = a0;\n    t2[1] = a1;\n    group_reduce_few<by_sum, 256>(t2, 256);"},
    {"a few lanes for each of few rows",
     "input $x = %0 : f32[A=301, B=5]\n %1 = softmax $x {axis=B} : f32[A=301, B=5]\n output \"y\" "
     "= %1\n",
     1e-5, "group_reduce_few<by_max, 256>(t0, 8);"},
    {"values kept next to their rows",
     "input $x = %0 : f32[A=70, B=260]\n %1 = softmax $x {axis=B} : f32[A=70, B=260]\n"
     "%2 = erf %1 : f32[A=70, B=260]\n %3 = sum %2 {over=[B]} : f32[A=70]\n %4 = div %2, %3 : "
     "f32[A=70, "
     "B=260]\n"
     "output \"y\" = %4\n",
     1e-5, "KD_SHARED(char, own)"},
    {"rows in turns that wait for memory after a branch: no turn's loads come earlier written out",
     "input $x = %0 : f32[A=170, B=260]\n %1 = softmax $x {axis=B} : f32[A=170, B=260]\n"
     "output \"y\" = %1\n",
     1e-5,
     "#pragma unroll 1\n    for (int n = 0; n < 3; n++) {\n    const int place = n * 32 + lane;\n  "
     "  if (place < 65) {\n    const int x1 = place * 4;\n    vec<float, 4> l0;\n    l0.load("},
    {"a window's largest and how many there are of it, by each thread in lots of channels",
     "input $x = %0 : f32[N=2, H=33, W=33, C=32]\n"
     "%1 = affine $x {stride=[2, 1], start=-1, along=[H, K], div=1, outside=lowest} : f32[N=2, "
     "H=17, W=33, "
     "C=32, K=3]\n"
     "%2 = affine %1 {stride=[2, 1], start=-1, along=[W, L], div=1, outside=lowest} : f32[N=2, "
     "H=17, W=17, "
     "C=32, K=3, L=3]\n"
     "%3 = reduce_max %2 {over=[K, L]} : f32[N=2, H=17, W=17, C=32]\n"
     "%4 = eq %2, %3 : bool[N=2, H=17, W=17, C=32, K=3, L=3]\n"
     "%5 = cast %4 : f32[N=2, H=17, W=17, C=32, K=3, L=3]\n"
     "%6 = sum %5 {over=[K, L]} : f32[N=2, H=17, W=17, C=32]\n"
     "output \"y\" = %3\n output \"z\" = %6\n",
     0, ", -__builtin_inff());"},
    {"its rows of taps, each of which has enough on its way, in turns",
     "input $x = %0 : f32[N=2, H=17, W=17, C=32]\n"
     "%1 = affine $x {stride=[1, 1], start=-1, along=[H, K], div=1, outside=lowest} : f32[N=2, "
     "H=17, W=17, "
     "C=32, K=3]\n"
     "%2 = affine %1 {stride=[1, 1], start=-1, along=[W, L], div=1, outside=lowest} : f32[N=2, "
     "H=17, W=17, "
     "C=32, K=3, L=3]\n"
     "%3 = reduce_max %2 {over=[K, L]} : f32[N=2, H=17, W=17, C=32]\n output \"y\" = %3\n",
     0,
     "#pragma unroll 1\n    for (int x4 = 0; x4 < 3; x4++) {\n#pragma unroll\n    for (int x5 = "
     "0;"},
    {"a window's gradient, again in each loop nest: nothing of it in memory",
     "input $x = %0 : f32[N=2, H=16, W=16, C=32]\n input $w = %1 : f32[N=2, H=32, W=32, C=32]\n"
     "%2 = affine $x {stride=[1, -1], start=1, along=[H, K], div=2, outside=exact} : f32[N=2, "
     "H=32, W=16, "
     "C=32, K=3]\n"
     "%3 = affine %2 {stride=[1, -1], start=1, along=[W, L], div=2, outside=exact} : f32[N=2, "
     "H=32, W=32, "
     "C=32, K=3, L=3]\n"
     "%4 = sum %3 {over=[K, L]} : f32[N=2, H=32, W=32, C=32]\n"
     "%5 = mul %4, $w : f32[N=2, H=32, W=32, C=32]\n %6 = sum %5 {over=[N, H, W]} : f32[C=32]\n"
     "%7 = mul %5, %6 : f32[N=2, H=32, W=32, C=32]\n output \"y\" = %7\n",
     1e-5, "a1[j] = by_sum::of(a1[j], v0);"},
    {"an image of patches: lots along their channels, neighbours along its rows",
     "input $x = %0 : f32[N=2, T=30, E=384]\n input $w = %1 : f32[N=2, C=12, H=24, W=40]\n"
     "%2 = rearrange $x {pattern=\"n (h=6 w=5) (p=4 q=8 c=12) -> n c (h p) (w q)\"} : f32[N=2, "
     "C=12, H=24, "
     "W=40]\n"
     "%5 = sub %2, $w : f32[N=2, C=12, H=24, W=40]\n %6 = mul %5, %5 : f32[N=2, C=12, H=24, W=40]\n"
     "%7 = sum %6 {over=[C, H, W]} : f32[N=2]\n output \"y\" = %5\n output \"z\" = %7\n",
     1e-5, " / 40 % 3 * 4;"},
    {"whole numbers and truth values",
     "input $x = %0 : i32[A=40, B=12]\n input $k = %1 : i64[B=12]\n"
     "%2 = cast $x : i64[A=40, B=12]\n %3 = mul %2, $k : i64[A=40, B=12]\n %4 = gt %3, $k : "
     "bool[A=40, "
     "B=12]\n"
     "%5 = cast %4 : i32[A=40, B=12]\n %6 = sum %5 {over=[A]} : i32[B=12]\n %7 = reduce_min %3 "
     "{over=[B]} : "
     "i64[A=40]\n"
     "output \"y\" = %6\n output \"z\" = %7\n",
     0, NULL},
    {"doubles",
     "input $x = %0 : f64[A=300, B=70]\n %1 = sum $x {over=[A]} : f64[B=70]\n"
     "%2 = div $x, %1 : f64[A=300, B=70]\n output \"y\" = %2\n",
     1e-13, "double"},
    {"additions at places, of few points",
     "input $x = %0 : f32[N=30, E=9]\n input $k = %1 : i32[N=30]\n"
     "%2 = scatter_add $x, $k {axis=V} : f32[V=7, E=9]\n output \"y\" = %2\n",
     1e-6, "element < 63"},
    {"additions at places, of many points",
     "input $x = %0 : f32[N=777, E=9]\n input $k = %1 : i32[N=777]\n"
     "%2 = scatter_add $x, $k {axis=V} : f32[V=7, E=9]\n output \"y\" = %2\n",
     1e-5, "begins"},
    {"a place of its own for each row",
     "input $x = %0 : f32[N=41]\n input $k = %1 : i64[N=41]\n"
     "%2 = reshape $x : f32[N=41, M=1]\n %3 = sum %2 {over=[M]} : f32[N=41]\n"
     "%4 = scatter_add %3, $k {axis=V} : f32[V=300]\n output \"y\" = %4\n",
     1e-6, NULL},
};
enum { NCASES = sizeof cases / sizeof *cases };

static const char *text_of(dl_arena *arena, int i) {
    return dl_format(arena, "graph @train {\n%s}\n", cases[i].text);
}

/* Whole numbers are small, and some of them are no place. */
static double draw(rng *r, dl_dtype d) {
    return dl_dtype_is_float(d) ? (double)(float)uniform(r, -1, 1) : floor(uniform(r, -2, 9));
}

static void compare(const nest_case *c, const char *name, int64_t n, const double *got,
                    const double *want) {
    double most = 1e-30, off = 0;
    for (int64_t i = 0; i < n; i++) {
        if (fabs(want[i]) > most) most = fabs(want[i]);
        off = dl_test_worse(off, fabs(got[i] - want[i]));
    }
    CHECK(off <= c->tolerance * most, "%s, %s: off by %.2e of %.2e", c->what, name, off, most);
}

static void test_case(int i) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text = text_of(arena, i);
    dl_module *m = dl_parse_module(arena, text, strlen(text), cases[i].what, &err);
    dl_plan *p = m ? compile_text(arena, text, "cuda:sm_90a:emulated", NULL) : NULL;
    CHECK(p, "%s: %s", cases[i].what, err.message);
    dl_pass_ctx ctx = {.arena = arena, .step_options.optimizer = DL_OPT_NONE, .err = &err};
    CHECK(m && dl_run_passes(m, "lower", &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
          "%s", err.message);
    bool found = false;
    for (int k = 0; p && k < p->objects.n; k++)
        found |= !cases[i].has || strstr(p->objects.at[k].source, cases[i].has);
    CHECK(found, "%s: not by %s", cases[i].what, cases[i].has ? cases[i].has : "");
    dlr_exec *exec = open_plan(p, 1);
    dl_interp *in = m ? dl_interp_new(m->graphs.at[0], false) : NULL;
    rng r = {(uint64_t)i + 7};
    for (int v = 0; exec && v < m->graphs.at[0]->vars.n; v++) {
        const dl_var *var = m->graphs.at[0]->vars.at[v];
        double *x = dl_interp_data(in, &var->value);
        for (int64_t k = 0; k < dl_type_count(&var->value.type); k++)
            x[k] = draw(&r, var->value.type.dtype);
        dlr_state_write(exec, dlr_exec_variable(exec, var->name), DL_F64, x);
    }
    CHECK(!in || dl_interp_run(in, &err), "%s", err.message);
    for (int run = 0; exec && run < 2; run++) dlr_exec_run(exec, 0, NULL);
    CHECK(!exec || dlr_exec_check(exec, &err), "%s: %s", cases[i].what, err.message);
    for (int k = 0; exec && k < m->graphs.at[0]->results.n; k++) {
        const dl_result *result = &m->graphs.at[0]->results.at[k];
        double *got = read_output(exec, 0, result->name, DL_F64), *again;
        int64_t n = dl_type_count(&result->value->type);
        if (got) compare(&cases[i], result->name, n, got, dl_interp_data(in, result->value));
        dlr_exec_run(exec, 0, NULL);
        again = read_output(exec, 0, result->name, DL_F64);
        CHECK(memcmp(got, again, sizeof *got * (size_t)n) == 0, "%s: other bits", cases[i].what);
        free(got), free(again);
    }
    dl_interp_free(in);
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* The text of every case, for a GPU: no registers in memory, and no arrays either. */
static void test_registers(const char *arch) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_nvrtc nvrtc = {0};
    if (!dl_nvrtc_find(arena, &nvrtc, &err) || !dl_nvrtc_load(&nvrtc, &err)) {
        dl_test_skip("%s: %s", arch, err.message);
        dl_arena_free(arena);
        return;
    }
    for (int i = 0; i < NCASES; i++) {
        const char *target = dl_format(arena, "cuda:%s", arch);
        dl_plan *p = compile_text(arena, text_of(arena, i), target, NULL);
        for (int k = 0; p && k < p->objects.n; k++) {
            dl_cubin c = {0};
            bool ok = dl_cubin_read(arena, p->objects.at[k].image, (size_t)p->objects.at[k].bytes,
                                    &c, &err);
            CHECK(ok && c.n > 0, "%s, %s: %s", arch, cases[i].what, err.message);
            for (int f = 0; f < c.n; f++)
                CHECK(!c.kernels[f].frame_bytes && !c.kernels[f].spill_stores,
                      "%s, %s: a frame of %d bytes", arch, cases[i].what, c.kernels[f].frame_bytes);
        }
    }
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_loops_XXXXXX";
    dl_error err = {0};
    if (!test_cache(dir)) return 1;
    if (!dl_target_find(NULL, "cuda:sm_90a:emulated", &err))
        return dl_test_skip("%s", err.message), 77;
    for (int i = 0; i < NCASES; i++) test_case(i);
    test_registers("sm_80"), test_registers("sm_90a"), test_registers("sm_100");
    return dl_test_end();
}
