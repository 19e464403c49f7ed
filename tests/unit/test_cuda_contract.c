/* CUDA kernels around contractions, emulated: those of graphs written here, with their gradients, each by
 * itself beside the interpreter, on the same operands. Those by wgmma through NVRTC, too, where there is one:
 * no spill, and no word of ptxas that it takes products one behind the other. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/cuda/cuda.h"
#include "compiler/cuda/emulate.h"
#include "compiler/cuda/nvrtc.h"
#include "ir/cubin.h"
#include "ir/interp.h"
#include "ir/tensor_map.h"
#include "runtime/convert.h"
#include "tests/check.h"
#include "tests/unit/contraction_cases.h"
#include "tests/unit/random_numbers.h"

typedef int launch_fn(const char *kernel, int nargs, void *const *args, unsigned grid, unsigned block,
                      unsigned shared, unsigned seed, char *error, size_t size);

typedef struct {
    const char *what;
    dl_interp *in;
    launch_fn *launch;
    double most;        /* relative distance */
    int kernels, boxed; /* operands that tensor maps bring */
} run;

/* The element at each logical index, row by row, in memory as its type has it. */
static void move(const dl_type *t, void *memory, double *numbers, bool to_memory) {
    int64_t at[DL_MAX_RANK] = {0};
    int bytes = dl_dtype_bytes(t->dtype);
    for (int64_t i = 0; i < dl_type_count(t); i++) {
        char *p = (char *)memory + dl_type_offset(t, at) * bytes;
        if (to_memory)
            dlr_convert(t->dtype, p, DL_F64, &numbers[i], 1);
        else
            dlr_convert(DL_F64, &numbers[i], t->dtype, p, 1);
        for (int k = t->rank - 1; k >= 0 && ++at[k] == t->axis[k].size; k--) at[k] = 0;
    }
}

static void *aligned(int64_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 256, (size_t)(bytes + !bytes))) abort();
    memset(p, 0xff, (size_t)bytes);
    return p;
}

/* One node: interpreted, and by its kernel. */
static void check_node(run *r, const dl_node *n, const dl_emitted *code) {
    const dl_kernel *k = n->kernel;
    dl_error err = {0};
    void *memory[64], *args[64 + DL_MAP_MOST], **behind = args + code->nmaps;
    union {
        _Alignas(DL_MAP_ALIGN) char bytes[DL_MAP_BYTES];
        dl_emulated_map map;
    } maps[DL_MAP_MOST];
    DL_CHECK(k->params.n + 1 < 64);
    for (int i = 0; i < k->params.n; i++) {
        const dl_type *t = &k->params.at[i].type;
        memory[i] = aligned(dl_type_bytes(t)), behind[i] = &memory[i];
        if (i < k->nin) move(t, memory[i], dl_interp_data(r->in, n->in[i]), true);
    }
    memory[k->params.n] = aligned(code->workspace), behind[k->params.n] = &memory[k->params.n];
    for (int i = 0; i < code->nmaps; i++) {
        const dl_tensor_map *m = &code->maps[i];
        maps[i].map = dl_tensor_map_emulated(m, (uint64_t)(uintptr_t)memory[m->param]), args[i] = &maps[i];
        CHECK(dl_tensor_map_fits(m, dl_type_bytes(&k->params.at[m->param].type)), "%s", r->what);
    }
    r->boxed += code->nmaps;
    bool ok = true;
    for (int phase = 0; phase < code->phases && ok; phase++) {
        char name[128], error[512] = "";
        snprintf(name, sizeof name, "%s_%d", k->name, phase);
        int front = phase ? 0 : code->nmaps;
        ok = !r->launch(name, front + k->params.n + 1, phase ? behind : args, (unsigned)code->units[phase],
                        (unsigned)code->threads[phase], (unsigned)code->shared[phase], (unsigned)(phase + 1),
                        error, sizeof error);
        CHECK(ok, "%s, %s: %s", r->what, name, error);
    }
    CHECK(dl_interp_node(r->in, n, &err), "%s", err.message);
    for (int i = k->nin; i < k->params.n && ok; i++) {
        const dl_type *t = &k->params.at[i].type;
        int64_t count = dl_type_count(t);
        double *got = malloc((size_t)(count + 1) * sizeof *got), off = 0, all = 1e-30;
        const double *want = dl_interp_data(r->in, &n->out[i - k->nin]);
        move(t, memory[i], got, false);
        for (int64_t j = 0; j < count; j++) {
            if (isinf(want[j]) && got[j] == want[j]) continue;
            off += (got[j] - want[j]) * (got[j] - want[j]), all += want[j] * want[j];
        }
        CHECK(sqrt(off / all) <= r->most, "%s, %s, output %d of %s: %.2e", r->what, k->name, i - k->nin,
              dl_type_text(t), sqrt(off / all));
        free(got);
    }
    for (int i = 0; i <= k->params.n; i++) free(memory[i]);
    r->kernels++;
}

static void feed(dl_interp *in, const dl_graph *g) {
    rng random = {7};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        double *data = dl_interp_data(in, v);
        for (int64_t k = 0; k < dl_type_count(&v->type); k++)
            data[k] = dl_interp_convert(v->type.dtype, uniform(&random, -1, 1), true);
    }
}

static bool has_contraction(const dl_node *n) { return n->kernel && dl_kernel_anchor(n->kernel) >= 0; }

/* The number of the kernel's variant whose name begins so, or 0. */
static int variant_of(const dl_kernel *k, const dl_target *t, const char *begins) {
    const char *names[DL_MOST_VARIANTS];
    int n = dl_cuda_variants(k, t, names), found = -1;
    for (int i = n - 1; i >= 0; i--)
        if (strncmp(names[i], begins, strlen(begins)) == 0) found = i;
    return found < 0 ? 0 : found;
}

static dl_nvrtc nvrtc;
static int boxed;     /* operands that tensor maps have brought */
static int in_groups; /* kernels by wgmma that NVRTC has compiled */

/* A kernel by wgmma, in the text that emulation has run but for what stands in front of it. */
static void check_machine_code(const char *what, dl_arena *arena, const dl_kernel *k, dl_way way) {
    dl_error err = {0};
    const dl_target *t = dl_target_find("cuda:sm_90a", &err);
    dl_buf text = {0}, whole = {0}, image = {0}, log = {0};
    dl_emitted code = {0};
    dl_cubin c = {0};
    bool ok = t && dl_cuda_emit(&text, k, t, way, &code, &err);
    if (ok && code.needs[DL_NEED_GROUPS] && nvrtc.calls.compile) {
        dl_cuda_open(&whole, t, &code);
        dl_putn(&whole, text.at, text.n);
        ok = dl_nvrtc_compile(&nvrtc, whole.at, "sm_90a", &image, &log, &err) &&
             dl_cubin_read(arena, (const unsigned char *)image.at, image.n, &c, &err);
        CHECK(!log.n || strspn(log.at, " \n") == log.n, "%s: %s", what, log.at);
        for (int i = 0; i < c.n; i++)
            CHECK(!c.kernels[i].spill_stores && !c.kernels[i].spill_loads, "%s: %s spills", what,
                  c.kernels[i].name);
        in_groups += ok && c.n == code.phases;
    }
    CHECK(ok, "%s: %s", what, err.message);
    dl_buf_free(&text), dl_buf_free(&whole), dl_buf_free(&image), dl_buf_free(&log);
}

/* Convolutions by 1 x 1 read their operands as matrices: no place is taken apart into coordinates. */
static void check_places(const char *what, const char *text) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, "INLINE place ")); n++) {
        const char *end = strstr(at, "return p;"), *rest = strchr(at, '%');
        CHECK(end && (!rest || rest > end), "%s: a place is taken apart: %.300s", what, at);
        at = end ? end : at + 1;
    }
    CHECK(n || strstr(text, "CT_BOXES"), "%s: no way to find a place", what);
}

/* All of a graph behind the passes; how many contractions it has. `variant`: as which those are made that can
 * be, or NULL; `tile`: what its text must have, or NULL. */
static int check_graph(const char *what, dl_arena *arena, const dl_graph *g, const dl_target *t, double most,
                       const char *variant, const char *tile) {
    dl_error err = {0};
    dl_buf text = {0}, whole = {0};
    dl_emitted needs = {0}, *code = DL_NEWS(arena, dl_emitted, g->nodes.n + 1);
    bool ok = true;
    int all = 0;
    for (int i = 0; i < g->nodes.n && ok; i++) {
        if (!has_contraction(g->nodes.at[i])) continue;
        int number = variant ? variant_of(g->nodes.at[i]->kernel, t, variant) : 0;
        ok = dl_cuda_emit(&text, g->nodes.at[i]->kernel, t, (dl_way){.variant = number}, &code[i], &err);
        CHECK(ok, "%s: %s", what, err.message);
        if (number) check_machine_code(what, arena, g->nodes.at[i]->kernel, (dl_way){.variant = number});
        for (int k = 0; k < DL_NEEDS; k++) needs.needs[k] |= code[i].needs[k];
    }
    dl_cuda_open(&whole, t, &needs);
    dl_putn(&whole, text.at, text.n);
    if (getenv("DL_TEST_SHOW")) printf("%s\n", text.at);
    if (strstr(what, "2-D 1x1")) check_places(what, text.at);
    CHECK(!tile || (text.at && strstr(text.at, tile)), "%s: not in tiles %s", what, tile);
    dl_plan_object object = {.source = whole.at};
    int compiled = 0;
    ok = ok && dl_cuda_emulate(arena, 1, &object, NULL, &compiled, &err);
    CHECK(ok, "%s: %s", what, err.message);
    if (ok) {
        char path[] = "/tmp/dl_tiles_XXXXXX";
        int fd = mkstemp(path);
        CHECK(fd >= 0 && write(fd, object.image, object.bytes) == (ssize_t)object.bytes, "%s", path);
        close(fd);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(library, "%s", dlerror());
        unlink(path);
        run r = {.what = what, .in = dl_interp_new(g, true), .most = most};
        *(void **)&r.launch = dlsym(library, "dl_emulated_launch");
        feed(r.in, g);
        for (int i = 0; i < g->nodes.n; i++)
            if (has_contraction(g->nodes.at[i]))
                check_node(&r, g->nodes.at[i], &code[i]);
            else
                CHECK(dl_interp_node(r.in, g->nodes.at[i], &err), "%s", err.message);
        all += r.kernels, boxed += r.boxed;
        dl_interp_free(r.in);
        dlclose(library);
    }
    dl_buf_free(&text), dl_buf_free(&whole);
    return all;
}

/* All, or each so many'th, in one type; or `mixed`: in f32 and, after fusion, in that one; as check_graph's
 * variant. */
static void test_type(const dl_target *t, dl_dtype dtype, bool mixed, bool tf32, int each,
                      const char *variant) {
    dl_error err = {0};
    dl_module *m = build_all(mixed ? DL_F32 : dtype, &err);
    dl_pass_ctx ctx = {.arena = m->arena,
                       .weights = t->weights,
                       .low_products = t->low_products,
                       .tf32 = tf32,
                       .keep_gradients = true,
                       .recipe.optimizer = DL_OPT_NONE,
                       .err = &err};
    dl_pass_options options = {.validate = true};
    if (mixed) options.observe = narrow, options.user = &dtype, options.skip = "recompute";
    CHECK(!err.code && dl_run_passes(m, dl_pipeline, &ctx, options), "%s", err.message);
    /* f32 sums of some thousand terms against double ones; of 16 bits, a few then fall on the other side of a
     * tie */
    double most = dtype == DL_F32 ? 1e-5 : dtype == DL_F16 ? 0x1p-13 : 0x1p-11;
    const char *only = getenv("DL_TEST_ONLY");
    int all = 0;
    for (int i = 0; i < m->graphs.n && !err.code; i += only ? 1 : each) {
        const char *what =
            dl_format(m->arena, "%s%s%s%s, %s (%s)", dl_dtype_name(dtype), mixed ? " beside f32" : "",
                      tf32 ? " in tf32" : "", variant ? dl_format(m->arena, ", %s", variant) : "",
                      m->graphs.at[i]->name, i < NCASES ? cases[i].what : "sums");
        if (!only || strstr(what, only))
            all += check_graph(what, m->arena, m->graphs.at[i], t, most, variant, NULL);
    }
    CHECK(only || all * each >= 3 * NCASES, "%d kernels", all);
    dl_arena_free(m->arena);
}

/* A product of every size of tiles that there is, whose operands' neighbours lie along their rows, or along
 * the terms; 16 bytes at a time, or one by one. By wgmma, also of more terms than are on their way at a time,
 * and in TF32 of types that go through registers. */
static void test_tiles(const dl_target *t) {
    static const struct {
        const char *variant, *tile;
        int m, n, terms[2];
        dl_dtype dtype, right; /* the right operand may have another one in memory */
    } rows[] = {{NULL, "CT_BF16, 128, 128,", 16896, 128, {8, 17}, DL_BF16, DL_BF16},
                {NULL, "CT_BF16, 128, 64,", 16640, 64, {8, 17}, DL_BF16, DL_BF16},
                {NULL, "CT_BF16, 64, 128,", 64, 16896, {8, 17}, DL_BF16, DL_BF16},
                {NULL, "CT_BF16, 64, 64,", 6400, 64, {8, 17}, DL_BF16, DL_BF16},
                {NULL, "CT_BF16, 128, 32,", 17000, 30, {8, 17}, DL_BF16, DL_BF16},
                {NULL, "CT_BF16, 128, 8,", 300, 8, {8, 17}, DL_BF16, DL_BF16},
                {NULL, "CT_BF16, 16, 128,", 16, 16896, {8, 17}, DL_BF16, DL_BF16},
                {"128x256 by wgmma", "CT_BF16_GROUPS, 128, 256,", 150, 264, {328, 328}, DL_BF16, DL_BF16},
                {"128x128 by wgmma", "CT_BF16_GROUPS, 128, 128,", 136, 128, {16, 328}, DL_BF16, DL_BF16},
                {"128x64 by wgmma", "CT_BF16_GROUPS, 128, 64,", 130, 70, {296, 17}, DL_BF16, DL_BF16},
                {"128x256 by wgmma", "CT_TF32_GROUPS, 128, 256,", 150, 264, {164, 164}, DL_F32, DL_F32},
                {"128x128 by wgmma", "CT_TF32_GROUPS, 128, 128,", 135, 128, {17, 163}, DL_F32, DL_F32},
                {"128x64 by wgmma", "CT_TF32_GROUPS, 128, 64,", 130, 70, {162, 17}, DL_F32, DL_BF16},
                {"128x64 by wgmma", "CT_TF32_GROUPS, 128, 64,", 130, 71, {40, 50}, DL_F32, DL_F16},
                {"128x256 by TMA", "CT_BF16_GROUPS, 128, 256,", 152, 264, {328, 328}, DL_BF16, DL_BF16},
                {"128x128 by TMA", "CT_F16_GROUPS, 128, 128,", 136, 128, {1312, 17}, DL_F16, DL_F16},
                {"128x64 by TMA", "CT_BF16_GROUPS, 128, 64,", 264, 72, {296, 16}, DL_BF16, DL_BF16},
                {"128x256 by TMA", "CT_TF32_GROUPS, 128, 256,", 150, 264, {164, 0}, DL_F32, DL_F32},
                {"128x64 by TMA", "CT_TF32_GROUPS, 128, 64,", 130, 70, {660, 0}, DL_F32, DL_F32}};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        int r = (int)i / 2, way = i % 2;
        const int *terms = rows[r].terms;
        if (!terms[way]) continue; /* no tensor map turns floats */
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        const char *of[2];
        for (int o = 0; o < 2; o++) {
            int n = o ? rows[r].n : rows[r].m;
            of[o] = way ? dl_format(arena, "K=%d, %c=%d", terms[way], "MN"[o], n)
                        : dl_format(arena, "%c=%d, K=%d", "MN"[o], n, terms[way]);
        }
        const char *type = dl_dtype_name(rows[r].dtype);
        const char *text =
            dl_format(arena,
                      "graph @train {\n  input $a = %%0 : %s[%s]\n  input $b = %%1 : %s[%s]\n"
                      "  %%2 = contract $a, $b {over=[K]} : %s[M=%d, N=%d]\n  output \"y\" = %%2\n}\n",
                      type, of[0], type, of[1], type, rows[r].m, rows[r].n);
        dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
        dl_pass_ctx ctx = {.arena = arena,
                           .weights = t->weights,
                           .tf32 = true,
                           .recipe.optimizer = DL_OPT_NONE,
                           .err = &err};
        dl_dtype right = rows[r].right;
        dl_pass_options options = {.validate = true};
        if (right != rows[r].dtype)
            options.observe = narrow, options.user = &right, options.skip = "recompute";
        bool ok = m && dl_run_passes(m, dl_pipeline, &ctx, options);
        CHECK(ok, "%s: %s", text, err.message);
        if (ok)
            check_graph(dl_format(arena, "%s by %s", of[0], of[1]), arena, m->graphs.at[0], t,
                        rows[r].dtype == DL_F32 ? 1e-5 : 0x1p-11, rows[r].variant,
                        dl_format(arena, "ct_tile<%s", rows[r].tile));
        dl_arena_free(arena);
    }
}

int main(void) {
    char dir[] = "/tmp/dl_tiles_XXXXXX";
    dl_error err = {0}, none = {0};
    dl_arena *arena = dl_arena_new(NULL);
    const dl_target *t = dl_target_find("cuda:sm_90a:emulated", &err);
    if (!t) {
        printf("SKIP: %s\n", err.message);
        return 77;
    }
    if (!mkdtemp(dir)) return 1;
    setenv("DLR_CACHE_DIR", dir, 1);
    if (!dl_nvrtc_find(arena, &nvrtc, &none) || !dl_nvrtc_load(&nvrtc, &none))
        printf("SKIP: %s\n", none.message);
    const char *only = getenv("DL_TEST_ONLY");
    if (!only || strcmp(only, "tiles") == 0) test_tiles(t);
    test_type(t, DL_F32, false, false, 1, NULL);
    test_type(t, DL_F32, false, true, 3, NULL);
    test_type(t, DL_BF16, false, false, 1, NULL);
    test_type(t, DL_F16, false, false, 4, NULL);
    test_type(t, DL_BF16, true, true, 2, NULL);
    test_type(t, DL_F16, true, false, 4, NULL);
    test_type(t, DL_F32, false, true, 4, "128x64 by wgmma");
    test_type(t, DL_BF16, true, true, 5, "128x64 by wgmma");
    test_type(t, DL_F32, false, true, 3, "128x64 by TMA");
    test_type(t, DL_BF16, false, false, 3, "128x64 by TMA");
    test_type(t, DL_F16, true, false, 5, "128x64 by TMA");
    CHECK(only || boxed >= 30, "%d operands by tensor maps", boxed);
    CHECK(only || !nvrtc.calls.compile || in_groups >= 40, "%d kernels by wgmma", in_groups);
    dl_arena_free(arena);
    return dl_test_end();
}
