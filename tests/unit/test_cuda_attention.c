/* Attention's CUDA kernels as machine code: every architecture, sizes of heads on both sides of
 * where tiles change; no registers spilled, no more shared memory than a block is granted, and the
 * launch that the plan says. What they compute: test_attention.c. Needs NVRTC
 * (scripts/install-nvrtc), no GPU; exit 77 without. */
#include <stdlib.h>

#include "compiler/cuda/build.h"
#include "compiler/cuda/emit_cuda.h"
#include "compiler/cuda/nvrtc.h"
#include "ir/base/dirs.h"
#include "ir/builder.h"
#include "ir/plan/cubin.h"
#include "tests/cache.h"
#include "tests/check.h"
#include "tests/unit/cuda_text.h"

typedef struct {
    int size;
    dl_dtype type;
    double rate;
    int causal;
    bool in_parts;
    int adds; /* biases of heads, and masks of samples */
} attention_case;

static const attention_case cases[] = {
    {48, DL_BF16, 0, 0, false, 0},   {48, DL_BF16, 0.1, 0, false, 0},
    {64, DL_F16, 0.1, 1, false, 0},  {64, DL_BF16, 0, 1, false, 0},
    {96, DL_BF16, 0, 0, false, 0},   {128, DL_BF16, 0, 1, false, 0},
    {256, DL_F16, 0, 0, false, 0},   {48, DL_F32, 0, 0, false, 0},
    {256, DL_F32, 0.1, 1, false, 0}, {48, DL_BF16, 0.1, 0, true, 0},
    {64, DL_F16, 0.1, 1, true, 0},   {48, DL_F32, 0.1, 0, true, 0},
    {64, DL_BF16, 0.1, 0, true, 0},  {256, DL_F32, 0.1, 1, true, 0},
    {48, DL_BF16, 0, 0, false, 1},   {64, DL_BF16, 0.1, 1, false, 2},
    {96, DL_F16, 0, 0, false, 2},    {48, DL_F32, 0, 0, false, 2},
    {256, DL_F32, 0.1, 1, false, 1}, {128, DL_BF16, 0.1, 1, true, 2},
    {128, DL_F16, 0, 1, false, 0},   {96, DL_F16, 0.1, 0, false, 0},
    {128, DL_F16, 0.1, 0, true, 0},  {64, DL_BF16, 0, 0, false, 2},
    {96, DL_BF16, 0.1, 1, false, 0}, {64, DL_BF16, 0, 0, false, 0},
    {128, DL_F16, 0, 0, false, 1},
};
enum {
    NCASES = sizeof cases / sizeof *cases,
    BATCH = 2,
    QUERIES = 1000,
    KEYS = 900,
    HEADS = 4,
    MOST = 14
};

/* Operands and results of a call, in order; returns how many of them are operands. */
enum { FORWARD, BACK, OF_ADDEND, KERNELS };
static int find_types(const attention_case *c, int kernel, dl_type types[MOST], int *all) {
    bool back = kernel != FORWARD;
    const dl_type number = {.dtype = DL_I64};
    dl_type q = {.dtype = c->type,
                 .rank = 3,
                 .axis = {{dl_intern("N"), BATCH},
                          {dl_intern("T"), QUERIES},
                          {dl_intern("E"), HEADS * c->size}}};
    dl_type k = q, log = q;
    int n = 0;
    k.axis[1] = (dl_axis){dl_intern("S"), KEYS};
    log.dtype = DL_F32, log.axis[1] = (dl_axis){dl_intern("H"), HEADS}, log.axis[2] = q.axis[1];
    types[n++] = q, types[n++] = k, types[n++] = k;
    if (back) types[n++] = q, types[n++] = log, types[n++] = q;
    dl_type added = {.dtype = DL_F32,
                     .rank = 4,
                     .axis = {{dl_intern("n"), 1},
                              {dl_intern("h"), HEADS},
                              {dl_intern("t"), QUERIES},
                              {dl_intern("s"), KEYS}}};
    for (int i = 0; i < c->adds; i++) {
        types[n++] = added;
        added.axis[0].size = BATCH, added.axis[1].size = added.axis[2].size = 1;
    }
    if (c->rate > 0) types[n++] = number, types[n++] = number;
    if (c->in_parts) types[n++] = number;
    *all = n;
    if (kernel == OF_ADDEND) {
        types[(*all)++] = types[6];
        return n;
    }
    types[(*all)++] = q, types[(*all)++] = back ? k : log;
    if (back) types[(*all)++] = k;
    return n;
}

static dl_kernel *make_kernel(dl_arena *arena, const attention_case *c, int kernel) {
    static const char *const names[KERNELS] = {"forward", "back", "of_addend"};
    static const dl_op ops[KERNELS] = {DL_OP_flash_attention, DL_OP_flash_attention_grad,
                                       DL_OP_flash_attention_bias_grad};
    dl_type types[MOST];
    int all, nin = find_types(c, kernel, types, &all);
    dl_attr attrs[] = {dl_attr_float(DL_ATTR_rate, c->rate), dl_attr_int(DL_ATTR_number, 7),
                       dl_attr_int(DL_ATTR_heads, HEADS), dl_attr_int(DL_ATTR_causal, c->causal),
                       dl_attr_int(DL_ATTR_k, 0)};
    dl_kernel *k = DL_NEW(arena, dl_kernel);
    k->name = names[kernel], k->nin = nin;
    for (int i = 0; i < all; i++) {
        dl_kparam p = {
            .name = dl_internf("p%d", i), .type = types[i], .is_out = i >= nin, .alias = -1};
        dl_push(arena, &k->params, p);
    }
    dl_kinstr call = {.kind = DL_K_CALL, .op = ops[kernel], .type = c->type};
    call.call = dl_call_node(arena, call.op, nin, all - nin, types, kernel == OF_ADDEND ? 5 : 4,
                             attrs, call.loc);
    dl_push(arena, &k->instrs, call);
    k->schedule.kind = DL_BY_CALL;
    return k;
}

static void check_kernels(const char *what, const dl_target *t, const dl_cubin *cubin,
                          const dl_kernel *k, const dl_emitted *code) {
    const int most = t->shared << 10;
    for (int p = 0; p < code->phases; p++) {
        char name[40];
        snprintf(name, sizeof name, "%s_%d", k->name, p);
        const dl_cubin_kernel *in = dl_cubin_find(cubin, name);
        CHECK(in, "%s: no %s", what, name);
        if (!in) continue;
        CHECK(in->spill_stores == 0 && in->spill_loads == 0 && in->frame_bytes == 0,
              "%s %s: %d and %d bytes spilled, a frame of %d; %d registers", what, name,
              in->spill_stores, in->spill_loads, in->frame_bytes, in->registers);
        CHECK(in->max_threads == code->threads[p], "%s %s: %d threads, launched with %d", what,
              name, in->max_threads, code->threads[p]);
        CHECK(in->shared_bytes + code->shared[p] <= most, "%s %s: %d bytes of shared memory", what,
              name, in->shared_bytes + code->shared[p]);
        CHECK(in->nparams == k->params.n + 1, "%s %s: %d parameters", what, name, in->nparams);
    }
}

/* The variant of a case's kernel: NULL, the first, or one of the others in turn, where there are
 * any. */
static const char *variant_of(const dl_kernel *k, const dl_target *t, bool others, int number) {
    const char *names[DL_MOST_VARIANTS];
    int ways = dl_cuda_variants(k, t, names);
    return others && ways > 1 ? names[ways - 1 - (number + 1) % (ways - 1)] : NULL;
}

static int kernels_of(const attention_case *c) { return c->adds ? KERNELS : OF_ADDEND; }

/* Each case a source of its kernels, all compiled at once. OTHERS: not in their first ways. */
static void test_arch(const char *target, bool others) {
    static unsigned number;
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const dl_target *t = dl_target_find(arena, target, &err);
    dl_plan_object objects[NCASES] = {0};
    dl_kernel *k[NCASES][KERNELS];
    dl_emitted code[NCASES][KERNELS];
    CHECK(t, "%s", err.message);
    int n = 0, of[NCASES]; /* the cases that this run takes */
    for (int i = 0; t && i < NCASES; i++)
        if (dl_test_takes(number++)) of[n++] = i;
    for (int i = 0; t && i < n; i++) {
        dl_buf text = {0};
        dl_emitted needs = {.needs = {[DL_NEED_ATTENTION] = 1, [DL_NEED_WGMMA] = t->has_wgmma}};
        dl_cuda_open(&text, t, &needs);
        for (int back = 0; back < kernels_of(&cases[of[i]]); back++) {
            k[i][back] = make_kernel(arena, &cases[of[i]], back);
            const char *name = variant_of(k[i][back], t, others, of[i]);
            CHECK(emit_cuda_text(&text, k[i][back], t, name, &code[i][back], &err), "%s",
                  err.message);
        }
        objects[i].source = dl_strdup(arena, text.at);
        dl_buf_free(&text);
    }
    int compiled = 0;
    bool built = t && dl_cuda_build(arena, n, objects, t, NULL, &compiled, &err);
    CHECK(built, "%s: %s", target, err.message);
    for (int i = 0; built && i < n; i++) {
        const attention_case *c = &cases[of[i]];
        dl_cubin cubin;
        char *what =
            dl_format(arena, "%s%s, %s, heads of %d, rate %g", target, others ? " otherwise" : "",
                      dl_dtype_name(c->type), c->size, c->rate);
        CHECK(dl_cubin_read(arena, objects[i].image, objects[i].bytes, &cubin, &err), "%s",
              err.message);
        for (int back = 0; back < kernels_of(c); back++)
            check_kernels(what, t, &cubin, k[i][back], &code[i][back]);
    }
    dl_arena_free(arena);
}

static void test_refused(void) {
    static const attention_case wrong[] = {{257, DL_F32, 0, 0, false, 0},
                                           {48, DL_F64, 0, 0, false, 0}};
    static const char *const says[] = {"heads of 257 features", "in f64"};
    dl_arena *arena = dl_arena_new(NULL);
    for (int i = 0; i < 4; i++) {
        dl_error err = {0};
        dl_buf text = {0};
        dl_emitted code;
        bool ok = emit_cuda_text(&text, make_kernel(arena, &wrong[i / 2], i % 2),
                                 dl_target_find(NULL, "cuda:sm_80", &err), NULL, &code, &err);
        CHECK(!ok && err.code == DL_INPUT && strstr(err.message, says[i / 2]), "%s", err.message);
        dl_buf_free(&text);
    }
    dl_arena_free(arena);
}

/* The row of a GPU says how much shared memory its kernels have: with less, tiles are smaller, and
 * a kernel that has no smaller ones is refused. */
static void test_shared(void) {
    static const attention_case wide = {96, DL_F32, 0, 0, false, 0};
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_target t = *dl_target_find(NULL, "cuda:sm_80", &err);
    static const int kib[] = {99, 68, 40, 32};
    int before = INT32_MAX;
    for (int i = 0; i < 4; i++) {
        dl_buf text = {0};
        dl_emitted code;
        t.shared = kib[i], err = (dl_error){0};
        bool ok = emit_cuda_text(&text, make_kernel(arena, &wide, 1), &t, NULL, &code, &err);
        int most = 0;
        for (int p = 0; ok && p < code.phases; p++)
            if (code.shared[p] > most) most = code.shared[p];
        if (kib[i] > 32)
            CHECK(ok && most > 0 && most <= kib[i] << 10 && most < before, "%d KiB: %d bytes: %s",
                  kib[i], most, err.message);
        else
            CHECK(!ok && err.code == DL_INPUT && strstr(err.message, "cuda:sm_80 has 32 KiB"), "%s",
                  err.message);
        before = most;
        dl_buf_free(&text);
    }
    dl_arena_free(arena);
}

int main(void) {
    static const char *const targets[] = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_100"};
    char top[] = "/tmp/dlc_cuda_attention_XXXXXX";
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_nvrtc nvrtc = {0};
    test_refused();
    test_shared();
    if (dl_tests_failed == 0 &&
        (!dl_nvrtc_find(arena, &nvrtc, &err) || !dl_nvrtc_load(&nvrtc, &err))) {
        dl_test_skip("%s", err.message);
        return 77;
    }
    if (!test_cache(top)) return 1;
    for (int i = 0; i < 3; i++) test_arch(targets[i], false);
    test_arch("cuda:sm_90a", true);
    CHECK(dl_remove_tree(top, &err), "%s", err.message);
    dl_arena_free(arena);
    return dl_test_end();
}
