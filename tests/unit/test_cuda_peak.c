/* A GPU's ceilings: what is counted is what is done, emulated; and the same text in machine code
 * for each architecture, its products in registers. Emulation needs a C++ compiler, machine code
 * NVRTC. */
#include <stdlib.h>
#include <string.h>

#include "compiler/cuda/nvrtc.h"
#include "compiler/cuda/peak.h"
#include "ir/plan/cubin.h"
#include "runtime/exec/exec.h"
#include "tests/check.h"

static dl_arena *arena;

static dl_type words(dl_dtype dtype, int64_t n) {
    dl_type t = {.dtype = dtype, .rank = 1};
    t.axis[0] = (dl_axis){.name = dl_intern("N"), .size = n};
    return t;
}

/* Each run adds 1 to every word of the arena, SWEEPS times. */
static void check_stream(dlr_exec *e, const dl_plan *p, double bytes) {
    int64_t n = p->arena_bytes / 4;
    dl_type type = words(DL_I32, n);
    dlr_exec_run(e, 1, NULL);
    const int *at = dlr_exec_host(e, (dlr_view){.type = &type, .offset = 0}, DLR_READ);
    int64_t same = 0;
    for (int64_t i = 0; i < n; i++) same += at[i] == at[0];
    CHECK(same == n && at[0] > 0, "%lld of %lld words are %d", (long long)same, (long long)n,
          at[0]);
    CHECK(bytes == 2.0 * (double)p->arena_bytes * at[0], "%g bytes", bytes);
    CHECK(p->programs.at[1].launches.n == at[0]);
}

/* Half `i` of what a thread holds as the text has it: bf16, which is the upper half of a float. */
static float operand(unsigned number, int i) {
    unsigned h = number * 0x9e3779b9u;
    h = (h ^ h >> 15) * 0x85ebca6bu;
    h = ((h ^ h >> 13) & 0x807f807fu) | 0x3f803f80u;
    h = i ? h & 0xffff0000u : h << 16;
    float f;
    memcpy(&f, &h, sizeof f);
    return f;
}

/* The layout of a group's tiles, 64 x 32 by 32 x 256, of words as the text numbers them: a line of
 * 64 bytes is a row of A, or a column of B, and its pieces of 16 bytes change places by its number.
 * B lies in front. */
static double tiles_sum(int group) {
    double of[2][32] = {{0}}, sum = 0;
    for (int line = 0; line < 256 + 64; line++)
        for (int k = 0; k < 32; k++) {
            int at = (line < 256 ? line : line + group * 64) * 64 + k * 2;
            at ^= (at >> 7 & 3) << 4;
            of[line < 256][k] += operand((unsigned)at / 4, at / 2 % 2);
        }
    for (int k = 0; k < 32; k++) sum += of[0][k] * of[1][k];
    return sum;
}

/* The sum of all entries of a warp's product, A of 16 x 16 by B of 16 x 8: by PTX's layout, four
 * threads side by side hold a row of A, or a column of B; two numbers each, and two eight places
 * on. */
static double product_sum(int warp) {
    double a[16] = {0}, b[16] = {0}, sum = 0;
    for (int lane = 0; lane < 32; lane++)
        for (int half = 0; half < 2; half++) {
            unsigned thread = (unsigned)(warp * 32 + lane);
            int k = lane % 4 * 2 + half;
            for (unsigned i = 0; i < 4; i++) a[k + (i >= 2) * 8] += operand(thread * 4 + i, half);
            for (unsigned i = 0; i < 2; i++)
                b[k + (int)i * 8] += operand(thread * 2 + i + 4096, half);
        }
    for (int k = 0; k < 16; k++) sum += a[k] * b[k];
    return sum;
}

/* Every thread stores the sum of its accumulators, which begin as 0, 1, 2, ...: those that multiply
 * together, a warp or four, tell how often their product was added. */
static void check_flops(dlr_exec *e, const dl_plan *p, double flops, bool groups) {
    int threads = p->kernels.at[0].threads[0], together = groups ? 128 : 32,
        sums = groups ? 128 : 4 * 8;
    int64_t n = p->kernels.at[0].items[0] * threads / together;
    double rounds = flops / (groups ? 2 * 64 * 256 * 32 : 2 * 16 * 8 * 16) / (double)n;
    dl_type type = words(DL_F32, n * together);
    dlr_exec_run(e, 0, NULL);
    const float *at = dlr_exec_host(e, (dlr_view){.type = &type, .offset = 0}, DLR_READ);
    CHECK(rounds >= 8, "%g", rounds);
    for (int64_t i = 0; i < n; i++) {
        int in_block = (int)(i % (threads / together));
        double got = 0, want = rounds * (groups ? tiles_sum(in_block) : product_sum(in_block)),
               begin = (double)together * sums * (sums - 1) / 2;
        for (int k = 0; k < together; k++) got += at[i * together + k];
        CHECK(fabs(got - begin - want) <= 1e-4 * (begin + fabs(want)),
              "number %lld: %g, %g expected", (long long)i, got - begin, want);
    }
}

static bool test_emulated(const char *target) {
    dl_error err = {0};
    double flops, bytes;
    const dl_target *t = dl_target_find(NULL, target, &err);
    dl_plan *p = t ? dl_cuda_peak_plan(arena, t, &flops, &bytes, &err) : NULL;
    if (!p && err.code == DL_RESOURCE) {
        dl_test_skip("emulation: %s", err.message);
        return false;
    }
    CHECK(p != NULL, "%s", err.message);
    dlr_exec *e = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err) : NULL;
    CHECK(e != NULL, "%s", err.message);
    if (!e) return true;
    check_stream(e, p, bytes), check_flops(e, p, flops, t->has_wgmma);
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);
    return true;
}

static void expect_check(const dl_plan *p, const char *text) {
    dl_error err = {0};
    CHECK(!dl_plan_check_code(p, &err) && err.code == DL_INPUT && strstr(err.message, text),
          "want '%s', got '%s'", text, err.message);
}

/* A launch gives what the code takes, or the plan is refused. */
static void check_launches(dl_plan *p) {
    dl_error err = {0};
    dl_plan_kernel *k = &p->kernels.at[1];
    CHECK(dl_plan_check_code(p, &err), "%s", err.message);
    k->nargs = 2;
    expect_check(p, "kernel 'stream': peak_stream_0 takes 2 arguments, 16 bytes in all, and its "
                    "launches give 0 tensor "
                    "maps, 3 pointers and 0 numbers, 24 bytes");
    k->nargs = 1, k->threads[0] *= 2;
    expect_check(p, "peak_stream_0 is made for 256 threads a block, and is launched with 512");
    k->threads[0] /= 2, k->phases = 2;
    expect_check(p, "the plan's object 0 holds no function peak_stream_1 for kernel 'stream'");
    k->phases = 1, p->objects.at[0].bytes /= 2;
    expect_check(p, "the plan's object 0: ");
}

static bool test_compiled(void) {
    static const char *const targets[] = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_100"};
    dl_error err = {0};
    dl_nvrtc nvrtc;
    if (!dl_nvrtc_find(arena, &nvrtc, &err)) {
        dl_test_skip("machine code: %s", err.message);
        return false;
    }
    for (int i = 0; i < 3; i++) {
        double flops, bytes;
        const dl_target *t = dl_target_find(NULL, targets[i], &err);
        dl_plan *p = t ? dl_cuda_peak_plan(arena, t, &flops, &bytes, &err) : NULL;
        dl_cubin cubin;
        CHECK(
            p && dl_cubin_read(arena, p->objects.at[0].image, p->objects.at[0].bytes, &cubin, &err),
            "%s: %s", targets[i], err.message);
        if (!p) continue;
        const dl_cubin_kernel *k = dl_cubin_find(&cubin, "peak_flops_0"),
                              *s = dl_cubin_find(&cubin, "peak_stream_0");
        CHECK(k && s && k->nparams == 2 && s->nparams == 2);
        if (!k || !s) continue;
        CHECK(k->frame_bytes == 0 && s->frame_bytes == 0, "%d %d", k->frame_bytes, s->frame_bytes);
        CHECK(s->registers <= 64 && k->registers <= (t->has_wgmma ? 168 : 64), "%d, %d registers",
              k->registers, s->registers);
        CHECK(bytes >= 8 * 0x1p30 && flops > 1e13, "%g bytes, %g operations", bytes, flops);
        check_launches(p);
    }
    return true;
}

int main(void) {
    char dir[] = "/tmp/dl_cuda_peak_XXXXXX";
    if (!mkdtemp(dir)) return 1;
    setenv("DLR_CACHE_DIR", dir, 1);
    arena = dl_arena_new(NULL);
    bool emulated = test_emulated("cuda:sm_80:emulated") && test_emulated("cuda:sm_90a:emulated"),
         compiled = test_compiled();
    dl_arena_free(arena);
    if (!emulated && !compiled) return 77;
    return dl_test_end();
}
