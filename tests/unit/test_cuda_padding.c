/* Contractions by windows compared with what is not finite, in every way in which CUDA kernels make
 * them, emulated, compared with the interpreter: what lies outside an image is no term of a
 * weight's gradient, though tiles hold a zero in its place; and an image's infinities go where its
 * windows are, whatever fills the rest of a tile. */
#include "ir/text/text.h"
#include "passes/pass.h"
#include "tests/unit/contraction_runs.h"
#include "tests/unit/random_numbers.h"

typedef struct {
    const char *what, *variant, *tile; /* `tile`: what the kernel's text must have */
    const char *type;
    bool tf32;
    int boxed; /* tensor maps; an image without parts has two (tma_tile_loader.c) */
    const char *x, *other, *more,
        *node; /* axes of $a and $b; what stands in front of the node that makes %9 */
    int odd;   /* the variable of which some elements are not finite */
} padding_case;

/* From 40 channels to 72, of which tensor maps can bring y. */
#define WIDE                                                                                       \
    "N=2, C=40, H=6, W=7", "N=2, C=72, H=6, W=7", "",                                              \
        "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3]} : "  \
        "T[O=72, C=40, kH=3, kW=3]",                                                               \
        1
#define LONG                                                                                       \
    "N=3, C=8, W=900", "N=3, C=24, W=450", "",                                                     \
        "conv_grad_weight $a, $b {stride=[2], pad_lo=[2], pad_hi=[1], kernel=[4]} : T[O=24, C=8, " \
        "kW=4]",                                                                                   \
        1
#define GROUPS                                                                                     \
    "N=2, C=48, H=5, W=6", "N=2, C=144, H=5, W=6", "",                                             \
        "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3], "    \
        "groups=3} : "                                                                             \
        "T[O=144, C=16, kH=3, kW=3]",                                                              \
        1
/* 6,912 weights of three groups of 16 channels. */
#define THREE(odd)                                                                                 \
    "N=2, C=48, H=5, W=6", "N=2, C=48, H=5, W=6", "",                                              \
        "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3], "    \
        "groups=3} : "                                                                             \
        "T[O=48, C=16, kH=3, kW=3]",                                                               \
        odd
#define FORWARD                                                                                    \
    "N=2, C=40, H=6, W=9", "O=72, C=40, kH=3, kW=3", "",                                           \
        "conv $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : T[N=2, C=72, H=6, W=9]", 0
#define STRIDED                                                                                    \
    "N=2, C=72, H=6, W=9", "O=72, C=40, kH=3, kW=3", "",                                           \
        "conv_grad_input $a, $b {stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], size=[12, 18]} : "   \
        "T[N=2, C=40, H=12, W=18]",                                                                \
        0

static const padding_case cases[] = {
    {"bf16", NULL, "ct_tile<CT_BF16,", "bf16", false, 0, WIDE},
    {"f16", NULL, "ct_tile<CT_F16,", "f16", false, 0, WIDE},
    {"TF32", NULL, "ct_tile<CT_TF32,", "f32", true, 0, WIDE},
    {"f32", NULL, "ct_tile<CT_F32,", "f32", false, 0, WIDE},
    {"bf16 by wgmma", "128x64 by wgmma", "ct_tile<CT_BF16_WGMMA,", "bf16", false, 0, WIDE},
    {"f16 by wgmma", "128x128 by wgmma", "ct_tile<CT_F16_WGMMA,", "f16", false, 0, WIDE},
    {"TF32 by wgmma", "128x64 by wgmma", "ct_tile<CT_TF32_WGMMA,", "f32", true, 0, WIDE},
    {"bf16 by TMA", "128x64 by TMA", "ct_tile<CT_BF16_WGMMA,", "bf16", false, 2, WIDE},
    {"f16 by TMA", "128x128 by TMA", "ct_tile<CT_F16_WGMMA,", "f16", false, 2, WIDE},
    {"shared terms in f32", NULL, "ct_leave<", "f32", false, 0, LONG},
    {"shared terms in TF32", NULL, "ct_leave<", "f32", true, 0, LONG},
    {"shared terms in bf16", NULL, "ct_leave<", "bf16", false, 0, LONG},
    {"shared terms by TMA", "128x64 by TMA", "ct_leave<", "bf16", false, 2, LONG},
    {"groups in f32", NULL, "ct_tile<CT_F32,", "f32", false, 0, GROUPS},
    {"groups in bf16", NULL, "ct_tile<CT_BF16,", "bf16", false, 0, GROUPS},
    {"groups by wgmma", "128x64 by wgmma", "ct_tile<CT_BF16_WGMMA,", "bf16", false, 0, GROUPS},
    {"three groups in f32", NULL, "ct_tile<CT_F32,", "f32", false, 0, THREE(1)},
    {"three groups by wgmma", "128x64 by wgmma", "ct_tile<CT_TF32_WGMMA,", "f32", true, 0,
     THREE(1)},
    {"three groups of an infinite x", NULL, "ct_tile<CT_BF16,", "bf16", false, 0, THREE(0)},
    {"odd channels", NULL, "ct_tile<CT_BF16,", "bf16", false, 0, "N=2, C=21, H=5, W=6",
     "N=2, C=35, H=3, W=4", "",
     "conv_grad_weight $a, $b {stride=[2, 2], pad_lo=[1, 2], pad_hi=[1, 1], kernel=[3, 3]} : "
     "T[O=35, C=21, kH=3, kW=3]",
     1},
    {"of a cat", NULL, "ct_tile<CT_F32,", "f32", false, 0, "N=2, C=8, H=5, W=6",
     "N=2, C=40, H=5, W=6",
     "  input $c = %3 : T[N=2, C=24, H=5, W=6]\n  %4 = cat $a, $c {axis=C} : T[N=2, C=32, H=5, "
     "W=6]\n",
     "conv_grad_weight %4, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3]} : "
     "T[O=40, C=32, kH=3, kW=3]",
     1},
    {"dilated, in space", NULL, "ct_tile<CT_TF32,", "f32", true, 0, "N=1, C=12, D=5, H=6, W=7",
     "N=1, C=20, D=5, H=3, W=7", "",
     "conv_grad_weight $a, $b {stride=[1, 2, 1], pad_lo=[1, 1, 2], pad_hi=[1, 1, 2], dilation=[1, "
     "1, 2], "
     "kernel=[3, 3, 3]} : T[O=20, C=12, kD=3, kH=3, kW=3]",
     1},
    {"depthwise", NULL, "ct_direct<", "bf16", false, 0, "N=2, C=40, H=6, W=7",
     "N=2, C=40, H=6, W=7", "",
     "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[3, 3], "
     "groups=40} : "
     "T[O=40, C=1, kH=3, kW=3]",
     1},
    {"an infinite x", NULL, "ct_tile<CT_BF16,", "bf16", false, 0, "N=2, C=40, H=6, W=7",
     "N=2, C=72, H=6, W=7", "",
     "conv_grad_weight $a, $b {stride=[1, 1], pad_lo=[0, 1], pad_hi=[2, 0], kernel=[3, 2]} : "
     "T[O=72, C=40, kH=3, kW=2]",
     0},
    {"a patch", NULL, "CT_STRIP", "bf16", false, 0, "N=2, C=5, H=6, W=8", "N=2, C=24, H=3, W=4", "",
     "conv_grad_weight $a, $b {stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], kernel=[4, 4]} : "
     "T[O=24, C=5, kH=4, kW=4]",
     1},
    {"a patch of an infinite x", NULL, "CT_STRIP", "f16", false, 0, "N=2, C=3, H=6, W=10",
     "O=24, C=3, kH=3, kW=3", "",
     "conv $a, $b {stride=[1, 2], pad_lo=[1, 1], pad_hi=[1, 1]} : T[N=2, C=24, H=6, W=5]", 0},
    {"forward in bf16", NULL, "ct_tile<CT_BF16,", "bf16", false, 0, FORWARD},
    {"forward in TF32", NULL, "ct_tile<CT_TF32,", "f32", true, 0, FORWARD},
    {"forward in f32", NULL, "ct_tile<CT_F32,", "f32", false, 0, FORWARD},
    {"forward by wgmma", "128x64 by wgmma", "ct_tile<CT_TF32_WGMMA,", "f32", true, 0, FORWARD},
    {"forward by TMA", "128x64 by TMA", "ct_tile<CT_BF16_WGMMA,", "bf16", false, 1, FORWARD},
    {"an input gradient in bf16", NULL, "ct_tile<CT_BF16,", "bf16", false, 0, STRIDED},
    {"an input gradient in f32", NULL, "ct_tile<CT_F32,", "f32", false, 0, STRIDED},
    {"an input gradient by wgmma", "128x64 by wgmma", "ct_tile<CT_BF16_WGMMA,", "bf16", false, 0,
     STRIDED},
};

/* Numbers; where `odd`, a third of what lies at the first place of the last axis is not finite. */
static void draw(const dl_type *t, rng *r, bool odd, double *to) {
    int64_t line = t->axis[t->rank - 1].size;
    for (int64_t i = 0; i < dl_type_count(t); i++) {
        to[i] = dl_interp_convert(t->dtype, uniform(r, -1, 1), true);
        if (odd && i % line == 0 && one_in(r, 3))
            to[i] = one_in(r, 3) ? NAN : one_in(r, 2) ? INFINITY : -INFINITY;
    }
}

/* The text with the element type in the place of each T. */
static const char *typed(dl_arena *arena, const char *type, const char *text) {
    dl_buf b = {0};
    for (; *text; text++)
        if (strncmp(text, "T[", 2) == 0)
            dl_puts(&b, type);
        else
            dl_putn(&b, text, 1);
    const char *all = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return all;
}

static void test_case(const padding_case *c, const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text =
        typed(arena, c->type,
              dl_format(arena,
                        "graph @train {\n  input $a = %%0 : T[%s]\n  input $b = %%1 : T[%s]\n%s"
                        "  %%9 = %s\n  output \"y\" = %%9\n}\n",
                        c->x, c->other, c->more, c->node));
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    dl_pass_ctx ctx = {.arena = arena,
                       .weights = t->weights,
                       .loops = t->loops,
                       .tf32 = c->tf32,
                       .step_options.optimizer = DL_OPT_NONE,
                       .err = &err};
    bool ok =
        m && dl_run_passes(m, dl_pipeline, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES});
    CHECK(ok, "%s: %s\n%s", c->what, err.message, text);
    if (ok) {
        const dl_graph *g = m->graphs.at[0];
        dl_buf kernels = {0};
        dl_emitted needs = {0}, *code = DL_NEWS(arena, dl_emitted, g->nodes.n + 1);
        run r = {.what = c->what, .in = dl_interp_new(g, true)};
        r.most = strcmp(c->type, "f32") == 0   ? 1e-5
                 : strcmp(c->type, "f16") == 0 ? 0x1p-11
                                               : 0x1p-8;
        rng random = {11};
        for (int i = 0; i < g->vars.n; i++) {
            const dl_value *v = &g->vars.at[i]->value;
            draw(&v->type, &random, strcmp(g->vars.at[i]->name, c->odd ? "b" : "a") == 0,
                 dl_interp_data(r.in, v));
        }
        bool emits = emit_graph(c->what, g, t, c->variant, &kernels, code, &needs);
        void *library = emits ? open_text(c->what, arena, t, &kernels, &needs) : NULL;
        if (library) run_graph(&r, library, g, code), dlclose(library);
        CHECK(kernels.at && strstr(kernels.at, c->tile), "%s: no '%s'", c->what, c->tile);
        CHECK(r.kernels == 1 && r.boxed == c->boxed && r.numbers && r.infinite + r.nans,
              "%s: %d kernels, %d boxes, of %lld numbers, %lld infinities, %lld NaN", c->what,
              r.kernels, r.boxed, (long long)r.numbers, (long long)r.infinite, (long long)r.nans);
        dl_interp_free(r.in);
        dl_buf_free(&kernels);
    }
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_padding_XXXXXX";
    const dl_target *t = begin(dir);
    if (!t) return 77;
    const char *only = getenv("DL_TEST_ONLY");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!only || strstr(cases[i].what, only)) test_case(&cases[i], t);
    return dl_test_end();
}
