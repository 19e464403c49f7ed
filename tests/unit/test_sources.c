/* The sources of kernels: the loops that they share in libraries, and no
 * more text than their sizes need. It is what compiling them takes its time for. */
#include "tests/unit/compiled.h"

/* The sources of a text's plan, made for cpu:generic: four lanes, panels of eight. */
static dl_plan *emit_text(dl_arena *arena, const char *text) {
    dl_error err = {0};
    dl_compile_times times = {0};
    dl_compile_options opt = {.target = dl_target_find(NULL, "cpu:generic", &err),
                              .step_options.optimizer = DL_OPT_NONE,
                              .keep_gradients = true,
                              .model = "text",
                              .batch = 1,
                              .validate = DL_VALIDATE_PASSES};
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    dl_plan *p = m ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p != NULL, "%s", err.message);
    return p;
}

/* Sources of the plan that hold a text. */
static int count(const dl_plan *p, const char *text) {
    int n = 0;
    for (int i = 0; i < p->objects.n; i++) n += strstr(p->objects.at[i].source, text) != NULL;
    return n;
}

/* The libraries of all sources that hold a text, each once; *n: how many libraries there are. */
static int count_libraries(const dl_plan *p, const char *text, int *n) {
    const char *all[8];
    int with = 0;
    *n = 0;
    for (int i = 0; i < p->objects.n; i++)
        for (int k = 0; k < p->objects.at[i].nlibraries; k++) {
            const char *library = p->objects.at[i].libraries[k];
            int j = 0;
            while (j < *n && strcmp(all[j], library)) j++;
            if (j < *n || *n == 8) continue;
            all[(*n)++] = library, with += strstr(library, text) != NULL;
        }
    return with;
}

/* The code of kernels, after all preludes. */
static const char *code_of(const dl_plan *p, int kernel) {
    const char *source = p->objects.at[p->kernels.at[kernel].object].source;
    return strstr(source, p->kernels.at[kernel].symbol);
}

/* Kernels around the same loops, in however many kinds, are linked to one library, whose functions
 * stand nowhere else. */
static void test_loops(void) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *text = "graph @train {\n  param $v = %0 : f32[O=32, C=16, kH=3, kW=3] init zero\n"
                       "  param $w = %1 : f32[O=48, C=32, kH=3, kW=3] init zero\n"
                       "  param $u = %2 : f32[O=16, C=48, kH=1, kW=1] init zero\n"
                       "  input $x = %3 : f32[N=2, C=16, H=8, W=8]\n"
                       "  %4 = conv $x, $v {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : "
                       "f32[N=2, C=32, H=8, W=8]\n"
                       "  %5 = relu %4 : f32[N=2, C=32, H=8, W=8]\n"
                       "  %6 = conv %5, $w {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : "
                       "f32[N=2, C=48, H=8, W=8]\n"
                       "  %7 = relu %6 : f32[N=2, C=48, H=8, W=8]\n"
                       "  %8 = conv %7, $u {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : "
                       "f32[N=2, C=16, H=8, W=8]\n"
                       "  %9 = mul %8, %8 : f32[N=2, C=16, H=8, W=8]\n"
                       "  %10 = sum %9 {over=[N, C, H, W]} : f32[]\n  loss \"loss\" = %10\n}\n";
    dl_plan *p = emit_text(arena, text);
    if (!p) return;
    CHECK(p->kernels.n > 6, "%d kernels", p->kernels.n);
    int n, rows = count_libraries(p, "\n    sum_columns(&c, arg", &n),
           gradients = count_libraries(p, "\n    sum_positions(", &n);
    CHECK(rows == 1 && gradients == 1 && n == 2, "%d, %d, %d", rows, gradients, n);
    CHECK(count(p, "\n    sum_positions(") == 0, "a library's function in a source");
    CHECK(count(p, "    rows_item(&") > 0 && count(p, "    gradient_item(&") > 0, "calls");
    CHECK(count(p, "struct groups") == 0, "nothing has groups");
    dl_arena_free(arena);
}

/* A source with nothing but the gradient of a depthwise weight, lane by lane, and its squares'
 * sum declares what it calls. */
static void test_depthwise(void) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *text =
        "graph @train {\n  input $x = %0 : f32[N=2, C=4, W=13]\n"
        "  input $y = %1 : f32[N=2, C=4, W=13]\n"
        "  %2 = conv_grad_weight $x, $y {stride=[1], pad_lo=[1], pad_hi=[1], groups=4, kernel=[3]} "
        ": f32[O=4, C=1, kW=3]\n  %3 = mul %2, %2 : f32[O=4, C=1, kW=3]\n"
        "  %4 = sum %3 {over=[O, C, kW]} : f32[]\n  output \"w\" = %2\n  output \"s\" = %4\n}\n";
    dl_plan *p = emit_text(arena, text);
    if (p) {
        CHECK(count(p, " panel_points(x0") == 1, "the kernel");
        CHECK(count(p, "INLINE long panel_points(") == 1, "its declarations");
    }
    dl_arena_free(arena);
}

static const char *attention(dl_arena *arena, int tokens, int features, double rate) {
    char *t = dl_format(arena, "f32[N=1, T=%d, E=%d]", tokens, features),
         *k = dl_format(arena, "f32[N=1, S=%d, E=%d]", tokens, features);
    return dl_format(
        arena,
        "graph @train {\n  input $q = %%0 : %s\n  input $k = %%1 : %s\n  input $v = %%2 : %s\n"
        "  %%3 = attention $q, $k, $v {rate=%g, heads=1, causal=0} : %s\n  output \"y\" = %%3\n}\n",
        t, k, k, rate, t);
}

/* Attention of all sizes has one library; with random numbers, another one. */
static void test_attention(void) {
    static const struct {
        int tokens, features;
        double rate;
    } rows[] = {{48, 12, 0}, {25, 12, 0}, {55, 12, 0}, {48, 20, 0}, {29, 4, 0}, {48, 3, 0.5}};
    dl_arena *arena = dl_arena_new(NULL);
    const char *first = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int n;
        dl_plan *p =
            emit_text(arena, attention(arena, rows[i].tokens, rows[i].features, rows[i].rate));
        if (!p) continue;
        CHECK(count_libraries(p, "#define DRAWS 1\n", &n) == (rows[i].rate > 0), "row %zu", i);
        CHECK(n == 1, "row %zu: %d libraries", i, n);
        for (int k = 0; k < p->objects.n; k++) {
            if (!p->objects.at[k].nlibraries) continue;
            const char *library = p->objects.at[k].libraries[0];
            if (!first) first = library;
            CHECK((strcmp(first, library) == 0) == !(rows[i].rate > 0), "row %zu", i);
        }
    }
    dl_arena_free(arena);
}

/* A loop over x[N, H, W, C] with so many channels; `near` is read along C, H, or is the
 * coordinate of H. */
static const char *loop_of(dl_arena *arena, int channels, const char *near) {
    char *t = dl_format(arena, "f32[N=3, H=5, W=7, C=%d]", channels);
    char *b = strcmp(near, "iota") ? dl_format(arena, "input $b = %%1 : f32[%s=%d]", near,
                                               *near == 'C' ? channels : 5)
                                   : dl_format(arena, "%%1 = iota {axis=H} : f32[H=5]");
    return dl_format(arena,
                     "graph @train {\n  input $x = %%0 : %s\n  %s\n  %%2 = mul $x, %s : %s\n  "
                     "output \"y\" = %%2\n}\n",
                     t, b, strcmp(near, "iota") ? "$b" : "%1", t);
}

/* Axes that all accesses step through as one are one; whole vectors ask for no number of lanes; a
 * loop that goes from lane to lane asks for the optimiser. */
static void test_loop_text(void) {
    static const struct {
        int channels;
        const char *near, *has, *lacks;
    } rows[] = {{8, "C", "const long x2 = row;", "row /"},
                {8, "H", "row / 7L % 5L", "x2 = row;"},
                {8, "iota", "row / 7L % 5L", "x2 = row;"},
                {8, "C", "= ld(", "ldn("},
                {9, "C", "= ldn(", "= ld("},
                {8, "C", "\nvoid ", "WARM"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_plan *p = emit_text(arena, loop_of(arena, rows[i].channels, rows[i].near));
        const char *code = p ? code_of(p, 0) : "";
        CHECK(strstr(code, rows[i].has) && !strstr(code, rows[i].lacks), "row %zu: %s", i, code);
        dl_arena_free(arena);
    }
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = emit_text(
        arena, "graph @train {\n  input $x = %0 : f32[A=6, B=8]\n  input $y = %1 : f32[B=8, A=6]\n"
               "  %2 = mul $x, $y : f32[A=6, B=8]\n  output \"z\" = %2\n}\n");
    if (p) CHECK(strstr(code_of(p, 0), "\nWARM void "), "%s", code_of(p, 0));
    dl_arena_free(arena);
}

int main(void) {
    test_loops();
    test_depthwise();
    test_attention();
    test_loop_text();
    return dl_test_end();
}
