/* Predicted times of kernels on GPUs: between what the hardware's ceilings allow and some
 * multiple of it, by architecture, kind and type. */
#include "compiler/cuda/cuda.h"
#include "ir/body.h"
#include "ir/builder.h"
#include "ir/text/parse.h"
#include "passes/pass.h"
#include "tests/check.h"

enum { GFLOPS = 1000, MBYTES = 100 };

/* A kernel of so much arithmetic and traffic on one parameter of a type; kind: of its instruction.
 */
static double predict(const char *target, dl_kinstr_kind kind, dl_dtype type, bool tf32,
                      int64_t gflops, int64_t mbytes) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const dl_target *t = dl_target_find(arena, target, &err);
    dl_kernel k = {.name = "k", .flops = gflops * 1000000000, .bytes = mbytes * 1000000};
    dl_kparam p = {.name = "p", .type = {.dtype = type}, .alias = -1};
    dl_kinstr in = {.kind = kind, .op = DL_OP_add, .type = type, .tf32 = tf32};
    CHECK(t, "%s", err.message);
    dl_push(arena, &k.params, p);
    dl_push(arena, &k.instrs, in);
    double us = t ? dl_cuda_predict(&k, t) : 0;
    dl_arena_free(arena);
    return us;
}

/* The time of GFLOPS, in microseconds, at so many TFLOP/s. */
static double floor_of(double tflops) { return GFLOPS / tflops * 1e3; }

static void test_products(void) {
    static const struct {
        const char *target;
        double half, tf32, f32; /* ceilings, TFLOP/s */
    } rows[] = {{"cuda:sm_80", 312, 156, 19.5},      {"cuda:sm_90a", 989, 495, 67},
                {"cuda:sm_100", 2250, 1125, 75},     {"cuda:sm_103", 2500, 1250, 77},
                {"cuda:sm_86", 125, 62.5, 31.2},     {"cuda:sm_89", 362, 183, 91.6},
                {"cuda:sm_120", 209.5, 104.8, 104.8}};
    enum { GROWING = 4 }; /* the first rows, each faster than the one before */
    double before = 1e9;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *on = rows[i].target;
        double bf16 = predict(on, DL_K_CONTRACT, DL_BF16, false, GFLOPS, 1);
        double tf32 = predict(on, DL_K_CONTRACT, DL_F32, true, GFLOPS, 1);
        double f32 = predict(on, DL_K_CONTRACT, DL_F32, false, GFLOPS, 1);
        double points = predict(on, DL_K_ELEM, DL_F32, false, GFLOPS, 1);
        double f64 = predict(on, DL_K_CONTRACT, DL_F64, true, GFLOPS, 1);
        CHECK(bf16 > floor_of(rows[i].half) && bf16 < 5 * floor_of(rows[i].half), "%s: bf16 %g us",
              on, bf16);
        CHECK(tf32 > floor_of(rows[i].tf32) && tf32 < 5 * floor_of(rows[i].tf32), "%s: TF32 %g us",
              on, tf32);
        CHECK(f32 > floor_of(rows[i].f32) && f32 < 2 * floor_of(rows[i].f32), "%s: f32 %g us", on,
              f32);
        bool apart = i >= GROWING, home = !strcmp(on, "cuda:sm_120"); /* TF32 has f32's rate */
        CHECK(bf16 < tf32 && (home || tf32 < f32) && f32 < points && f32 < f64,
              "%s: %g %g %g %g %g us", on, bf16, tf32, f32, points, f64);
        CHECK(bf16 == predict(on, DL_K_CONTRACT, DL_F16, false, GFLOPS, 1), "%s: f16 is not bf16",
              on);
        CHECK(bf16 <= before || apart, "%s: slower than what was there before", on);
        before = bf16;
    }
}

static void test_traffic(void) {
    static const char *const targets[] = {"cuda:sm_80", "cuda:sm_90", "cuda:sm_100"};
    static const double tbytes[] = {2.04, 4.8, 8};
    for (int i = 0; i < 3; i++) {
        double us = predict(targets[i], DL_K_ELEM, DL_F32, false, 0, MBYTES),
               least = MBYTES / tbytes[i];
        CHECK(us > least && us < 2 * least, "%s: %g us for %d MB", targets[i], us, MBYTES);
        double nothing = predict(targets[i], DL_K_ELEM, DL_F32, false, 0, 0);
        CHECK(nothing > 0 && nothing < 5, "%s: %g us for nothing", targets[i], nothing);
    }
    double real = predict("cuda:sm_90a", DL_K_CONTRACT, DL_BF16, false, GFLOPS, MBYTES);
    CHECK(predict("cuda:sm_90a:emulated", DL_K_CONTRACT, DL_BF16, false, GFLOPS, MBYTES) == real);
    CHECK(predict("cuda:sm_90", DL_K_CONTRACT, DL_BF16, false, GFLOPS, MBYTES) == real);
}

/* A device of another number of multiprocessors than its architecture's row: half of them take
 * twice as long for products, and as long for what memory bounds. */
static void test_sizes(void) {
    double whole = predict("cuda:sm_90a", DL_K_CONTRACT, DL_BF16, false, GFLOPS, 1),
           half = predict("cuda:sm_90a/66", DL_K_CONTRACT, DL_BF16, false, GFLOPS, 1),
           none = predict("cuda:sm_90a", DL_K_CONTRACT, DL_BF16, false, 0, 0);
    CHECK(fabs((half - none) / (whole - none) - 2) < 1e-3, "%g and %g us", whole, half);
    CHECK(predict("cuda:sm_90a/66", DL_K_ELEM, DL_F32, false, 0, MBYTES) ==
          predict("cuda:sm_90a", DL_K_ELEM, DL_F32, false, 0, MBYTES));
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    const dl_target *row = dl_target_find(arena, "cuda:sm_90a", &err),
                    *small = dl_target_find(arena, "cuda:sm_90a/66", &err),
                    *emulated = dl_target_find(arena, "cuda:sm_90a/7:emulated", &err);
    CHECK(row && dl_target_find(arena, "cuda:sm_90a/132", &err) == row);
    CHECK(small && !strcmp(small->name, "cuda:sm_90a/66") && small->multiprocessors == 66 &&
          !strcmp(small->arch, "sm_90a") && !small->emulated);
    CHECK(emulated && emulated->emulated && emulated->multiprocessors == 7 &&
          dl_target_is_emulated(emulated->name));
    static const char *const unknown[] = {"cuda:sm_90a/",     "cuda:sm_90a/0", "cuda:sm_90a/x",
                                          "cuda:sm_90a/66x",  "cuda:sm_91/66", "cuda:sm_90a/-6",
                                          "cuda:sm_90a/2000", "cuda:/66",      "cuda:sm_90a/6/6"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        err = (dl_error){0};
        CHECK(!dl_target_find(arena, unknown[i], &err) && err.code == DL_USAGE, "%s", unknown[i]);
    }
    dl_arena_free(arena);
}

/* The target of a device, by its compute capability: one whose code has no more shared memory than
 * the device (an Orin, 8.7, has an A100's). */
static void test_capabilities(void) {
    static const struct {
        int major, minor;
        const char *target;
        int block, sm; /* KiB, by NVIDIA's table of compute capabilities */
    } rows[] = {{8, 0, "cuda:sm_80", 163, 164},   {8, 6, "cuda:sm_86", 99, 100},
                {8, 7, "cuda:sm_80", 163, 164},   {8, 9, "cuda:sm_89", 99, 100},
                {9, 0, "cuda:sm_90a", 227, 228},  {10, 0, "cuda:sm_100", 227, 228},
                {10, 3, "cuda:sm_103", 227, 228}, {12, 0, "cuda:sm_120", 99, 100},
                {12, 1, "cuda:sm_120", 99, 100}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dl_error err = {0};
        const dl_target *t = dl_target_of_gpu(rows[i].major, rows[i].minor, &err);
        CHECK(t && !strcmp(t->name, rows[i].target) && t->shared == rows[i].block &&
                  t->shared_of_sm == rows[i].sm && t->registers == 65536,
              "%d.%d: %s", rows[i].major, rows[i].minor, t ? t->name : err.message);
    }
    dl_error err = {0};
    CHECK(!dl_target_of_gpu(7, 5, &err) && strstr(err.message, "8.0 to 8.9, 8.6, 8.9, 9.0"), "%s",
          err.message);
}

/* A product of matrices, by tiles that fit a device: of 128x128 two CTAs share an SM of 164 KiB,
 * one of 100 KiB has one at a time, and is so much slower; of 60 KiB a block has none. */
static void test_tiles(void) {
    static const char text[] =
        "graph @train {\n  input $a = %0 : bf16[M=8192, K=2048]\n  input $b = %1 : bf16[K=2048, "
        "N=4096]\n  %2 = contract $a, $b {over=[K]} : bf16[M=8192, N=4096]\n  output \"y\" = "
        "%2\n}\n";
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_target t = *dl_target_find(NULL, "cuda:sm_80", &err);
    dl_pass_ctx ctx = {.arena = arena,
                       .weights = t.weights,
                       .loops = t.loops,
                       .step_options.optimizer = DL_OPT_NONE,
                       .err = &err};
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    if (!m || !dl_run_passes(m, dl_pipeline, &ctx, (dl_pass_options){0})) {
        CHECK(false, "%s", err.message);
        dl_arena_free(arena);
        return;
    }
    static const int kib[][2] = {{163, 164}, {99, 100}, {60, 100}};
    double large[3] = {0}, small[3] = {0};
    for (int i = 0; i < 3; i++) {
        dl_cuda_variant all[DL_MOST_VARIANTS];
        t.shared = kib[i][0], t.shared_of_sm = kib[i][1];
        int n = dl_cuda_near(m->graphs.at[0]->kernels.at[0], &t, INFINITY, all);
        for (int v = 0; v < n; v++) {
            if (!strcmp(all[v].name, "128x128")) large[i] = all[v].time;
            if (!strcmp(all[v].name, "64x64")) small[i] = all[v].time;
        }
    }
    CHECK(large[0] > 0 && large[1] > 1.5 * large[0] && large[2] == 0, "128x128: %g, %g, %g",
          large[0], large[1], large[2]);
    CHECK(small[0] > 0 && small[1] == small[0] && small[2] == small[0], "64x64: %g, %g, %g",
          small[0], small[1], small[2]);
    dl_arena_free(arena);
}

/* Attention as an H200 timed it (bench/results/gpu-nvidia-h200-questions.json), 16 samples of 8
 * heads in bf16: the predicted time is within 15%. */
static void test_attention(void) {
    static const struct {
        const char *target;
        int size, tokens, back;
        double us;
    } rows[] = {{"cuda:sm_90a", 32, 968, 0, 72.1},  {"cuda:sm_90a", 48, 968, 0, 84.3},
                {"cuda:sm_90a", 64, 968, 0, 93.2},  {"cuda:sm_90a", 32, 968, 1, 200.5},
                {"cuda:sm_90a", 48, 968, 1, 246.4}, {"cuda:sm_90a", 48, 4050, 0, 1180},
                {"cuda:sm_90a", 48, 4050, 1, 3390}, {"cuda:sm_90", 32, 968, 0, 89.4},
                {"cuda:sm_90", 48, 968, 0, 132.5},  {"cuda:sm_90", 64, 968, 0, 150.3},
                {"cuda:sm_90", 32, 968, 1, 270},    {"cuda:sm_90", 48, 968, 1, 390}};
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        enum { BATCH = 16, HEADS = 8, MOST = 9 };
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        const dl_type q = {.dtype = DL_BF16,
                           .rank = 3,
                           .axis = {{dl_intern("N"), BATCH},
                                    {dl_intern("T"), rows[i].tokens},
                                    {dl_intern("E"), HEADS * rows[i].size}}};
        const dl_type log = {.dtype = DL_F32,
                             .rank = 3,
                             .axis = {{dl_intern("N"), BATCH}, {dl_intern("H"), HEADS}, q.axis[1]}};
        const dl_type forward[] = {q, q, q, q, log}, backward[] = {q, q, q, q, log, q, q, q, q};
        const dl_type *types = rows[i].back ? backward : forward;
        int nin = rows[i].back ? 6 : 3, nout = rows[i].back ? 3 : 2;
        const dl_attr attrs[] = {dl_attr_float(DL_ATTR_rate, 0), dl_attr_int(DL_ATTR_number, 7),
                                 dl_attr_int(DL_ATTR_heads, HEADS), dl_attr_int(DL_ATTR_causal, 0)};
        dl_kinstr call = {.kind = DL_K_CALL,
                          .op = rows[i].back ? DL_OP_flash_attention_grad : DL_OP_flash_attention,
                          .type = DL_BF16};
        call.call = dl_call_node(arena, call.op, nin, nout, types, 4, attrs, call.loc);
        dl_kernel k = {.name = "k", .nin = nin, .schedule.kind = DL_BY_CALL};
        for (int p = 0; p < nin + nout; p++) {
            const dl_kparam param = {
                .name = "p", .type = types[p], .is_out = p >= nin, .alias = -1};
            dl_push(arena, &k.params, param);
        }
        dl_push(arena, &k.instrs, call);
        const dl_target *t = dl_target_find(NULL, rows[i].target, &err);
        CHECK(t, "%s", err.message);
        double us = t ? dl_cuda_predict(&k, t) : 0;
        CHECK(fabs(us - rows[i].us) < 0.15 * rows[i].us,
              "%s, heads of %d, %d tokens%s: %g us for %g", rows[i].target, rows[i].size,
              rows[i].tokens, rows[i].back ? ", back" : "", us, rows[i].us);
        dl_arena_free(arena);
    }
}

int main(void) {
    test_products();
    test_sizes();
    test_capabilities();
    test_tiles();
    test_attention();
    test_traffic();
    return dl_test_end();
}
