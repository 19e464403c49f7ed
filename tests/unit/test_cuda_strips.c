/* Images of few channels, which CUDA kernels read as patches: convolutions, weights' and images'
 * gradients of random shapes, emulated, compared with the interpreter; of one to three axes, with
 * strides, dilation and unlike padding; by mma.sync, and each in one of the tiles by wgmma. Which
 * of them are patches; and, where there is NVRTC, that none spills, nor multiplies one product
 * after the other. */
#include "ir/plan/cubin.h"
#include "ir/text/text.h"
#include "passes/pass.h"
#include "tests/unit/contraction_runs.h"
#include "tests/unit/nvrtc_kept.h"
#include "tests/unit/random_numbers.h"

enum { CASES = 45, COMPILED = 6, EACH = 4 /* by wgmma, too */ };

typedef enum { FORWARD, WEIGHT, IMAGE } direction;

/* One that is read by windows, of `few` channels, along up to three axes; `other`: what it is
 * multiplied to. */
typedef struct {
    direction direction;
    int axes, batch, few, other, size[3], kernel[3], stride[3], dilation[3], low[3], high[3],
        positions[3];
} shape;

static shape draw_shape(rng *r, int number) {
    static const int channels[] = {1, 2, 3, 4, 5, 6, 7, 12}, limits[] = {0, 300, 40, 12};
    shape s = {
        .direction = (direction)(number % 3), .axes = 1 + number / 3 % 3, .batch = 1 + below(r, 3)};
    s.few = channels[below(r, 8)], s.other = 9 + below(r, 70);
    for (int i = 0; i < s.axes; i++) {
        s.stride[i] = s.direction == IMAGE ? 1 : 1 + below(r, 3), s.kernel[i] = 1 + below(r, 5);
        s.dilation[i] = one_in(r, 4) ? 2 : 1;
        int reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
        s.low[i] = below(r, reach), s.high[i] = below(r, reach);
        s.positions[i] = 1 + below(r, limits[s.axes]) / s.stride[i];
        int least = (s.positions[i] - 1) * s.stride[i] + reach - s.low[i] - s.high[i];
        s.size[i] = least + below(r, s.stride[i]);
        if (s.size[i] < 1)
            s.positions[i] += (reach + s.stride[i]) / s.stride[i],
                i--; /* again, of other numbers */
    }
    return s;
}

static void put_list(dl_buf *b, const char *name, int n, const int *list) {
    dl_putf(b, ", %s=[", name);
    for (int i = 0; i < n; i++) dl_putf(b, "%s%d", i ? ", " : "", list[i]);
    dl_puts(b, "]");
}

static void put_axes(dl_buf *b, const shape *s, const char *prefix, const int *sizes) {
    for (int i = 0; i < s->axes; i++)
        dl_putf(b, ", %s%c=%d", prefix, "DHW"[3 - s->axes + i], sizes[i]);
    dl_puts(b, "]");
}

/* A convolution's image has the few channels, and the image that an image's gradient reads. */
static const char *text_of(dl_arena *arena, const shape *s, const char *type) {
    static const char *const ops[] = {"conv", "conv_grad_weight", "conv_grad_input"};
    bool image = s->direction == IMAGE;
    dl_buf x = {0}, y = {0}, w = {0}, all = {0};
    dl_putf(&x, "%s[N=%d, C=%d", type, s->batch, image ? s->other : s->few),
        put_axes(&x, s, "", s->size);
    dl_putf(&y, "%s[N=%d, C=%d", type, s->batch, image ? s->few : s->other),
        put_axes(&y, s, "", s->positions);
    dl_putf(&w, "%s[O=%d, C=%d", type, image ? s->few : s->other, image ? s->other : s->few);
    put_axes(&w, s, "k", s->kernel);
    const char *of[] = {s->direction == FORWARD  ? x.at
                        : s->direction == WEIGHT ? x.at
                                                 : y.at,
                        s->direction == WEIGHT ? y.at : w.at,
                        s->direction == FORWARD  ? y.at
                        : s->direction == WEIGHT ? w.at
                                                 : x.at};
    dl_putf(
        &all,
        "graph @train {\n  input $a = %%0 : %s\n  input $b = %%1 : %s\n  %%9 = %s $a, $b {groups=1",
        of[0], of[1], ops[s->direction]);
    put_list(&all, "stride", s->axes, s->stride), put_list(&all, "dilation", s->axes, s->dilation);
    put_list(&all, "pad_lo", s->axes, s->low), put_list(&all, "pad_hi", s->axes, s->high);
    if (s->direction == WEIGHT) put_list(&all, "kernel", s->axes, s->kernel);
    if (s->direction == IMAGE) put_list(&all, "size", s->axes, s->size);
    dl_putf(&all, "} : %s\n  output \"y\" = %%9\n}\n", of[2]);
    const char *text = dl_strdup(arena, all.at);
    dl_buf_free(&x), dl_buf_free(&y), dl_buf_free(&w), dl_buf_free(&all);
    return text;
}

/* Lines of the image begin at multiples of four bytes. */
static bool is_patched(const shape *s) {
    int width = s->direction == IMAGE ? s->positions[s->axes - 1] : s->size[s->axes - 1];
    return width * s->few % 2 == 0;
}

/* One of the variants that multiply strips by wgmma, by `number`; NULL: there is none. */
static const char *variant_by_wgmma(const dl_kernel *k, const dl_target *t, int number) {
    const char *names[DL_MOST_VARIANTS];
    int n = dl_cuda_variants(k, t, names), found = 0;
    for (int i = 0; i < n; i++)
        if (strstr(names[i], "by strips") && strstr(names[i], "wgmma")) names[found++] = names[i];
    return found ? names[number % found] : NULL;
}

/* The contraction of a graph. */
static const dl_kernel *contraction_of(const dl_graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (has_contraction(g->nodes.at[i])) return g->nodes.at[i]->kernel;
    return NULL;
}

/* `variant`: NULL, or one for sm_90a. */
static void check_machine_code(const dl_nvrtc *nvrtc, const char *what, dl_arena *arena,
                               const dl_kernel *k, const char *variant) {
    dl_error err = {0};
    const char *arch = variant ? "sm_90a" : "sm_80";
    const dl_target *t = dl_target_find(NULL, dl_format(arena, "cuda:%s", arch), &err);
    dl_buf text = {0}, whole = {0}, image = {0}, log = {0};
    dl_emitted code = {0};
    dl_cubin c = {0};
    const char *name = t && variant ? variant_of(k, t, variant) : NULL;
    bool ok = t && emit_cuda_text(&text, k, t, name, &code, &err);
    if (ok) {
        dl_cuda_open(&whole, t, &code);
        dl_putn(&whole, text.at, text.n);
        ok = nvrtc_compile_kept(nvrtc, whole.at, arch, &image, &log, &err) &&
             dl_cubin_read(arena, (const unsigned char *)image.at, image.n, &c, &err);
    }
    CHECK(ok && c.n, "%s: %s", what, err.message);
    CHECK(!log.n || strspn(log.at, " \n") == log.n, "%s: %s: %s", what, variant ? variant : "",
          log.at);
    for (int i = 0; i < c.n; i++)
        CHECK(!c.kernels[i].spill_stores && !c.kernels[i].spill_loads, "%s: %s spills", what,
              c.kernels[i].name);
    dl_buf_free(&text), dl_buf_free(&whole), dl_buf_free(&image), dl_buf_free(&log);
}

/* `nvrtc`: NULL, or to compile with; `by_wgmma`: in tiles by wgmma, where there are some. Is it a
 * patch? */
static bool test_shape(const shape *s, dl_dtype dtype, const dl_target *t, const dl_nvrtc *nvrtc,
                       bool by_wgmma, int number) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text = text_of(arena, s, dl_dtype_name(dtype));
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    dl_pass_ctx ctx = {.arena = arena,
                       .weights = t->weights,
                       .loops = t->loops,
                       .step_options.optimizer = DL_OPT_NONE,
                       .err = &err};
    bool ok = m && dl_run_passes(m, dl_pipeline, &ctx,
                                 (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
         patched = false;
    CHECK(ok, "%s\n%s", err.message, text);
    if (ok) {
        const dl_graph *g = m->graphs.at[0];
        dl_buf kernels = {0};
        dl_emitted needs = {0}, *code = DL_NEWS(arena, dl_emitted, g->nodes.n + 1);
        const char *variant =
            by_wgmma && contraction_of(g) ? variant_by_wgmma(contraction_of(g), t, number) : NULL;
        const char *what = dl_format(arena, "shape %d%s%s: %s", number, variant ? " in " : "",
                                     variant ? variant : "", text);
        CHECK(!by_wgmma || !variant == !is_patched(s), "%s", what);
        run r = {
            .what = what, .in = dl_interp_new(g, true), .most = dtype == DL_F16 ? 0x1p-11 : 0x1p-8};
        rng random = {(uint64_t)number};
        for (int i = 0; i < g->vars.n; i++) {
            const dl_value *v = &g->vars.at[i]->value;
            for (int64_t k = 0; k < dl_type_count(&v->type); k++)
                dl_interp_data(r.in, v)[k] =
                    dl_interp_convert(v->type.dtype, uniform(&random, -1, 1), true);
        }
        bool emits = emit_graph(what, g, t, variant, &kernels, code, &needs);
        void *library = emits ? open_text(what, arena, t, &kernels, &needs) : NULL;
        if (library) run_graph(&r, library, g, code), dlclose(library);
        CHECK(r.kernels == 1 && r.numbers && !r.nans, "%s: %d kernels", what, r.kernels);
        patched = kernels.at && strstr(kernels.at, "CT_STRIP");
        CHECK(patched == is_patched(s), "%s: %s", what, patched ? "a patch" : "no patch");
        if (nvrtc && contraction_of(g) && !by_wgmma == !variant)
            check_machine_code(nvrtc, what, arena, contraction_of(g), variant);
        dl_interp_free(r.in);
        dl_buf_free(&kernels);
    }
    dl_arena_free(arena);
    return patched;
}

int main(void) {
    char dir[] = "/tmp/dl_patches_XXXXXX";
    const dl_target *t = begin(dir);
    if (!t) return 77;
    dl_arena *arena = dl_arena_new(NULL);
    dl_nvrtc nvrtc = {0};
    dl_error none = {0};
    const dl_target *old = dl_target_find(NULL, "cuda:sm_80:emulated", &none);
    CHECK(old, "%s", none.message);
    bool compiles = dl_nvrtc_find(arena, &nvrtc, &none) && dl_nvrtc_load(&nvrtc, &none);
    if (!compiles) dl_test_skip("%s", none.message);
    int patched = 0;
    rng r = {3};
    for (int i = 0; i < CASES && old; i++) {
        const shape s = draw_shape(&r, i);
        const dl_nvrtc *with = compiles && i < COMPILED ? &nvrtc : NULL;
        patched += test_shape(&s, i % 2 ? DL_F16 : DL_BF16, old, with, false, i);
        if (i % EACH == 1 || getenv("DL_TEST_ALL"))
            test_shape(&s, i % 2 ? DL_BF16 : DL_F16, t, with, true, i / EACH + i);
    }
    CHECK(patched >= CASES / 2, "%d of %d are patches", patched, CASES);
    dl_arena_free(arena);
    return dl_test_end();
}
