/* CUDA kernels around contractions, emulated: those of graphs written here, with their gradients,
 * each by itself compared with the interpreter, on the same operands. Those by wgmma through NVRTC,
 * too, where there is one: no spill, and no word of ptxas that it takes products one after the
 * other.
 */
#include "ir/plan/cubin.h"
#include "tests/unit/contraction_cases.h"
#include "tests/unit/contraction_runs.h"
#include "tests/unit/nvrtc_kept.h"
#include "tests/unit/random_numbers.h"

static void feed(dl_interp *in, const dl_graph *g) {
    rng random = {7};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        double *data = dl_interp_data(in, v);
        for (int64_t k = 0; k < dl_type_count(&v->type); k++)
            data[k] = dl_interp_convert(v->type.dtype, uniform(&random, -1, 1), true);
    }
}

static dl_nvrtc nvrtc;
static int boxed;     /* operands that tensor maps have brought */
static int in_groups; /* kernels by wgmma that NVRTC has compiled, */
static int in_halos;  /* and kernels by boxes with halos */

/* A kernel by wgmma, or by boxes with halos, in the text that emulation has run but for what stands
 * in front of it. */
static void check_machine_code(const char *what, dl_arena *arena, const dl_kernel *k,
                               const char *variant) {
    dl_error err = {0};
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a", &err);
    dl_buf text = {0}, whole = {0}, image = {0}, log = {0};
    dl_emitted code = {0};
    dl_cubin c = {0};
    bool ok = t && emit_cuda_text(&text, k, t, variant, &code, &err);
    if (ok && (code.needs[DL_NEED_WGMMA] || code.needs[DL_NEED_HALO]) && nvrtc.calls.compile) {
        dl_cuda_open(&whole, t, &code);
        dl_putn(&whole, text.at, text.n);
        ok = nvrtc_compile_kept(&nvrtc, whole.at, "sm_90a", &image, &log, &err) &&
             dl_cubin_read(arena, (const unsigned char *)image.at, image.n, &c, &err);
        CHECK(!log.n || strspn(log.at, " \n") == log.n, "%s: %s", what, log.at);
        for (int i = 0; i < c.n; i++)
            CHECK(!c.kernels[i].spill_stores && !c.kernels[i].spill_loads, "%s: %s spills", what,
                  c.kernels[i].name);
        *(code.needs[DL_NEED_HALO] ? &in_halos : &in_groups) += ok && c.n == code.phases;
    }
    CHECK(ok, "%s: %s", what, err.message);
    dl_buf_free(&text), dl_buf_free(&whole), dl_buf_free(&image), dl_buf_free(&log);
}

/* Convolutions by 1 x 1 read their operands as matrices: no place is taken apart into coordinates,
 * nor is a row where what is made of sums lies as they do. */
static void check_places(const char *what, const char *text) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, "INLINE place ")); n++) {
        const char *end = strstr(at, "return p;"), *rest = strchr(at, '%');
        CHECK(end && (!rest || rest > end), "%s: a place is taken apart: %.300s", what, at);
        at = end ? end : at + 1;
    }
    CHECK(n || strstr(text, "CT_TMA_TILE"), "%s: no way to find a place", what);
    CHECK(strstr(text, "const int x3 = (m + row);"), "%s: each end takes its rows apart", what);
}

/* An image that several taps read comes chunk by chunk of its channels, through the first cache,
 * and is known by a bit to be inside; what its positions add stays in registers. */
static void check_taps(const char *what, const char *text) {
    static const char *const has[] = {"const int k3 = k3c * ", "REUSED = 1",
                                      "return (r.taps & c.taps) == c.taps;", "kd_hold(p.at[0]);"};
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        CHECK(strstr(text, has[i]), "%s: no '%s'", what, has[i]);
}

/* A graph after the passes: the text of its contractions, and what they need, by node. */
typedef struct {
    const char *what;
    const dl_graph *graph;
    dl_buf text;
    dl_emitted *code, needs;
} emitted;

/* `variant`: as which contractions are made that can be, or NULL; `tile`: what the text must have,
 * or NULL. */
static bool emit_checked(emitted *e, dl_arena *arena, const dl_target *t, const char *variant,
                         const char *tile) {
    const dl_graph *g = e->graph;
    e->code = DL_NEWS(arena, dl_emitted, g->nodes.n + 1);
    bool ok = emit_graph(e->what, g, t, variant, &e->text, e->code, &e->needs);
    for (int i = 0; i < g->nodes.n && ok && variant; i++) {
        if (!has_contraction(g->nodes.at[i])) continue;
        const char *name = variant_of(g->nodes.at[i]->kernel, t, variant);
        if (name && t->has_wgmma) check_machine_code(e->what, arena, g->nodes.at[i]->kernel, name);
    }
    const char *text = e->text.at;
    if (getenv("DL_TEST_SHOW")) printf("%s\n", text);
    if (strstr(e->what, "2-D 1x1")) check_places(e->what, text);
    if (!variant && strstr(e->what, "transposed cat aligned")) check_taps(e->what, text);
    CHECK(!tile || (text && strstr(text, tile)), "%s: not in tiles %s", e->what, tile);
    return ok;
}

/* Runs graphs as one object, since half of what the compiler does for a small one is for what each
 * begins with; how many contractions they have. */
static int check_graphs(int n, emitted *graphs, dl_arena *arena, const dl_target *t, double most) {
    dl_buf text = {0};
    dl_emitted needs = {0};
    int kernels = 0;
    for (int i = 0; i < n; i++) {
        dl_putn(&text, graphs[i].text.at, graphs[i].text.n);
        for (int k = 0; k < DL_NEEDS; k++) needs.needs[k] |= graphs[i].needs.needs[k];
    }
    void *library = n ? open_text(graphs[0].what, arena, t, &text, &needs) : NULL;
    for (int i = 0; i < n; i++) {
        const emitted *e = &graphs[i];
        run r = {.what = e->what, .in = dl_interp_new(e->graph, true), .most = most};
        feed(r.in, e->graph);
        if (library) run_graph(&r, library, e->graph, e->code);
        CHECK(!r.nans, "%s: %lld NaN", e->what, (long long)r.nans);
        boxed += r.boxed, kernels += r.kernels;
        dl_interp_free(r.in);
        dl_buf_free(&graphs[i].text);
    }
    if (library) dlclose(library);
    dl_buf_free(&text);
    return kernels;
}

/* Has the graph a kernel that can be made as that variant? */
static bool can_be(const dl_graph *g, const dl_target *t, const char *variant) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const char *names[DL_MOST_VARIANTS];
        int n = has_contraction(g->nodes.at[i]) ? dl_cuda_variants(g->nodes.at[i]->kernel, t, names)
                                                : 0;
        for (int k = 0; k < n; k++) any |= strncmp(names[k], variant, strlen(variant)) == 0;
    }
    return any;
}

/* The drawn contractions, or of all each so many'th (of those that can be, by boxes with halos), in
 * one type; or `mixed`: in f32 and, after fusion, in that one; as check_graph's variant. */
static void test_type(const dl_target *t, dl_dtype dtype, bool mixed, bool tf32, int each,
                      const char *variant) {
    dl_error err = {0};
    /* a variant is of few of them: of those that can be it, some */
    static unsigned cell, number;
    const contraction_set set = variant ? all_contractions() : drawn_contractions(cell++, false);
    dl_module *m = build_set(&set, mixed ? DL_F32 : dtype, &err);
    if (dl_test_share() > 1 && !variant) each = 1;
    dl_pass_ctx ctx = {.arena = m->arena,
                       .weights = t->weights,
                       .loops = t->loops,
                       .half_gemms = t->half_gemms,
                       .tf32 = tf32,
                       .keep_gradients = true,
                       .step_options.optimizer = DL_OPT_NONE,
                       .err = &err};
    dl_pass_options options = {.validate = DL_VALIDATE_PASSES};
    if (mixed) options.observe = narrow, options.user = &dtype, options.skip = "recompute";
    CHECK(!err.code && dl_run_passes(m, dl_pipeline, &ctx, options), "%s", err.message);
    /* f32 sums of some thousand terms against double ones; of 16 bits, a few then fall on the other
     * side of a tie */
    double most = dtype == DL_F32 ? 1e-5 : dtype == DL_F16 ? 0x1p-13 : 0x1p-11;
    const char *only = getenv("DL_TEST_ONLY");
    int taken = 0, n = 0;
    bool halos = variant && strncmp(variant, "halos", strlen("halos")) == 0;
    emitted *graphs = DL_NEWS(m->arena, emitted, m->graphs.n + 1);
    for (int i = 0; i < m->graphs.n && !err.code; i += only ? 1 : each) {
        if (halos && !can_be(m->graphs.at[i], t, variant)) continue;
        if (variant && !dl_test_takes(number++)) continue;
        taken++;
        graphs[n] =
            (emitted){.graph = m->graphs.at[i],
                      .what = dl_format(m->arena, "%s%s%s%s, %s (%s)", dl_dtype_name(dtype),
                                        mixed ? " next to f32" : "", tf32 ? " in tf32" : "",
                                        variant ? dl_format(m->arena, ", %s", variant) : "",
                                        m->graphs.at[i]->name,
                                        set.of[i] < NCASES ? cases[set.of[i]].what : "sums")};
        if (only && !strstr(graphs[n].what, only)) continue;
        if (emit_checked(&graphs[n], m->arena, t, variant, NULL)) n++;
    }
    int all = check_graphs(n, graphs, m->arena, t, most);
    /* one graph that is drawn alone may have no contraction */
    bool some = dl_test_share() > 1, any = some && variant ? true : all >= taken;
    CHECK(only || (some || halos ? any : all * each >= 3 * NCASES), "%d kernels of %d graphs", all,
          taken);
    dl_arena_free(m->arena);
}

/* Where there is no wgmma, so that the cost model takes what multiplies otherwise. */
static const dl_target *without_groups(void) {
    dl_error err = {0};
    const dl_target *t = dl_target_find(NULL, "cuda:sm_80:emulated", &err);
    CHECK(t, "%s", err.message);
    return t;
}

/* A product of every size of tiles that there is, whose operands' neighbours lie along their rows,
 * or along the terms; 16 bytes at a time, or one by one. By wgmma, also of more terms than are on
 * their way at a time, and in TF32 of types that go through registers. */
static void test_tiles(const dl_target *newest) {
    static const struct {
        const char *variant, *tile;
        int m, n, terms[2];
        dl_dtype dtype, right; /* the right operand may have another one in memory */
    } rows[] = {
        {"128x128", "CT_BF16, 128, 128,", 300, 128, {8, 17}, DL_BF16, DL_BF16},
        {"128x64", "CT_BF16, 128, 64,", 300, 64, {8, 17}, DL_BF16, DL_BF16},
        {"64x128", "CT_BF16, 64, 128,", 150, 300, {8, 17}, DL_BF16, DL_BF16},
        {"64x64", "CT_BF16, 64, 64,", 150, 64, {8, 17}, DL_BF16, DL_BF16},
        {"128x32", "CT_BF16, 128, 32,", 300, 30, {8, 17}, DL_BF16, DL_BF16},
        {"128x8", "CT_BF16, 128, 8,", 300, 8, {8, 17}, DL_BF16, DL_BF16},
        {"16x128", "CT_BF16, 16, 128,", 16, 300, {8, 17}, DL_BF16, DL_BF16},
        {"128x256 by wgmma", "CT_BF16_WGMMA, 128, 256,", 150, 264, {328, 328}, DL_BF16, DL_BF16},
        {"128x128 by wgmma", "CT_BF16_WGMMA, 128, 128,", 136, 128, {16, 328}, DL_BF16, DL_BF16},
        {"128x64 by wgmma", "CT_BF16_WGMMA, 128, 64,", 130, 70, {296, 17}, DL_BF16, DL_BF16},
        {"128x256 by wgmma", "CT_TF32_WGMMA, 128, 256,", 150, 264, {164, 164}, DL_F32, DL_F32},
        {"128x128 by wgmma", "CT_TF32_WGMMA, 128, 128,", 135, 128, {17, 163}, DL_F32, DL_F32},
        {"128x64 by wgmma", "CT_TF32_WGMMA, 128, 64,", 130, 70, {162, 17}, DL_F32, DL_BF16},
        {"128x64 by wgmma", "CT_TF32_WGMMA, 128, 64,", 130, 71, {40, 50}, DL_F32, DL_F16},
        {"128x256 by TMA", "CT_BF16_WGMMA, 128, 256,", 152, 264, {328, 328}, DL_BF16, DL_BF16},
        {"128x128 by TMA", "CT_F16_WGMMA, 128, 128,", 136, 128, {1312, 17}, DL_F16, DL_F16},
        {"128x64 by TMA", "CT_BF16_WGMMA, 128, 64,", 264, 72, {296, 16}, DL_BF16, DL_BF16},
        {"128x256 by TMA", "CT_TF32_WGMMA, 128, 256,", 150, 264, {164, 0}, DL_F32, DL_F32},
        {"128x64 by TMA", "CT_TF32_WGMMA, 128, 64,", 130, 70, {660, 0}, DL_F32, DL_F32}};
    for (unsigned i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        unsigned r = i / 2, way = i % 2;
        const int *terms = rows[r].terms;
        const dl_target *t = strstr(rows[r].variant, " by ") ? newest : without_groups();
        /* no tensor map turns floats; of the two ways those drawn */
        if (!terms[way] || !dl_test_takes_of(r, way, terms[1] ? 2 : 1, i)) continue;
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        const char *of[2];
        for (int o = 0; o < 2; o++) {
            int n = o ? rows[r].n : rows[r].m;
            of[o] = way ? dl_format(arena, "K=%d, %c=%d", terms[way], "MN"[o], n)
                        : dl_format(arena, "%c=%d, K=%d", "MN"[o], n, terms[way]);
        }
        const char *type = dl_dtype_name(rows[r].dtype);
        const char *text = dl_format(
            arena,
            "graph @train {\n  input $a = %%0 : %s[%s]\n  input $b = %%1 : %s[%s]\n"
            "  %%2 = contract $a, $b {over=[K]} : %s[M=%d, N=%d]\n  output \"y\" = %%2\n}\n",
            type, of[0], type, of[1], type, rows[r].m, rows[r].n);
        dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
        dl_pass_ctx ctx = {.arena = arena,
                           .weights = t->weights,
                           .loops = t->loops,
                           .tf32 = true,
                           .step_options.optimizer = DL_OPT_NONE,
                           .err = &err};
        dl_dtype right = rows[r].right;
        dl_pass_options options = {.validate = DL_VALIDATE_PASSES};
        if (right != rows[r].dtype)
            options.observe = narrow, options.user = &right, options.skip = "recompute";
        bool ok = m && dl_run_passes(m, dl_pipeline, &ctx, options);
        CHECK(ok, "%s: %s", text, err.message);
        emitted e = {.what = dl_format(arena, "%s by %s", of[0], of[1])};
        if (ok) e.graph = m->graphs.at[0];
        if (ok && emit_checked(&e, arena, t, rows[r].variant,
                               dl_format(arena, "ct_tile<%s", rows[r].tile)))
            check_graphs(1, &e, arena, t, rows[r].dtype == DL_F32 ? 1e-5 : 0x1p-11);
        dl_arena_free(arena);
    }
}

int main(void) {
    char dir[] = "/tmp/dl_tiles_XXXXXX";
    dl_error none = {0};
    const dl_target *t = begin(dir);
    if (!t) return 77;
    const dl_target *old = without_groups();
    dl_arena *arena = dl_arena_new(NULL);
    if (!dl_nvrtc_find(arena, &nvrtc, &none) || !dl_nvrtc_load(&nvrtc, &none))
        dl_test_skip("%s", none.message);
    const char *only = getenv("DL_TEST_ONLY");
    if (!only || strcmp(only, "tiles") == 0) test_tiles(t);
    test_type(old, DL_F32, false, false, 1, NULL);
    test_type(old, DL_F32, false, true, 3, NULL);
    test_type(old, DL_BF16, false, false, 1, NULL);
    test_type(old, DL_F16, false, false, 4, NULL);
    test_type(old, DL_BF16, true, true, 2, NULL);
    test_type(old, DL_F16, true, false, 4, NULL);
    test_type(t, DL_F32, false, true, 4, "128x64 by wgmma");
    test_type(t, DL_BF16, true, true, 5, "128x64 by wgmma");
    test_type(t, DL_F32, false, true, 3, "128x64 by TMA");
    test_type(t, DL_BF16, false, false, 3, "128x64 by TMA");
    test_type(t, DL_F16, true, false, 5, "128x64 by TMA");
    test_type(t, DL_BF16, false, false, 1, "halos of 256");
    test_type(t, DL_BF16, true, true, 2, "halos of 128");
    test_type(t, DL_F16, false, false, 3, "halos of 128");
    bool all = !only && dl_test_share() == 1;
    CHECK(!all || boxed >= 30, "%d operands by tensor maps", boxed);
    CHECK(!all || !nvrtc.calls.compile || in_halos >= 20, "%d kernels by boxes with halos",
          in_halos);
    CHECK(!all || !nvrtc.calls.compile || in_groups >= 40, "%d kernels by wgmma", in_groups);
    dl_arena_free(arena);
    return dl_test_end();
}
