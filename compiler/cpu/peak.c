#include "compiler/cpu/peak.h"

#include "compiler/cpu/cpu.h"
#include "compiler/cpu/library.h"
#include "compiler/jit/jit_cc.h"

extern const char dl_kernels_peak[];

/* One round takes more than 25 ms on any known CPU (120 GFLOP/s of AVX2 and 60 GB/s a thread
 * were the fastest): a thread that starts 0.1 ms late then changes the result by less than a
 * percent. */
enum { STEPS = 20 << 20, STREAM = 64 << 20, SWEEPS = 16 };

dl_plan *dl_peak_plan(dl_arena *parent, const dl_target *t, dl_dtype products, int threads,
                      double *flops, double *bytes, dl_error *err) {
    dl_arena *arena = dl_arena_new(parent);
    dl_plan *p = DL_NEW(arena, dl_plan);
    *p = (dl_plan){.arena = arena, .model = "peak", .target = t->name, .batch = 1};
    dl_buf source = {0};
    bool pairs = products == DL_BF16 && (t->half_gemms >> DL_BF16 & 1);
    dl_cpu_open_whole(
        &source, t,
        &(dl_emitted){
            .needs = {
                [DL_NEED_LOOPS] = pairs ? DL_LOOPS_GEMM : 0, [DL_NEED_HALVES] = pairs ? 2 : 0}});
    dl_putf(&source, "#define PEAK_STEPS %dL\n#define PEAK_BYTES %dL\n#define PEAK_SWEEPS %dL\n%s",
            STEPS, STREAM, SWEEPS, dl_kernels_peak);
    dl_push(arena, &p->objects, (dl_plan_object){.source = dl_strdup(arena, source.at)});
    dl_buf_free(&source);
    p->workspace_bytes = 64LL * threads, p->scratch_bytes = 64,
    p->arena_bytes = (int64_t)STREAM * threads;
    const char *names[] = {"flops", "stream"};
    for (int i = 0; i < 2; i++) {
        int64_t *touched = DL_NEW(arena, int64_t);
        *touched = p->arena_bytes;
        dl_plan_kernel k = {.name = names[i],
                            .symbol = dl_format(arena, "peak_%s", names[i]),
                            .where = "",
                            .variant = "",
                            .phases = 1,
                            .items = {threads},
                            .nargs = 1,
                            .arg_bytes = touched,
                            .workspace = p->workspace_bytes};
        dl_push(arena, &p->kernels, k);
        dl_plan_program program = {.name = names[i]};
        dl_plan_launch launch = {.kernel = i, .nargs = 1, .args = DL_NEW(arena, int64_t)};
        dl_push(arena, &program.launches, launch);
        dl_push(arena, &p->programs, program);
    }
    /* multiply-adds of a round: four AMX tile products, or one or two in each lane of
     * accumulators */
    double round = pairs && t->tiles ? 4 * 16 * 16 * 32
                                     : (pairs ? 2 : 1) * (t->rows == 8 ? 20 : 12) * t->lanes;
    *flops = 2 * round * STEPS * threads;
    *bytes = 2.0 * STREAM * SWEEPS * threads;
    int compiled;
    return dl_jit_compile(arena, 1, p->objects.at, t, NULL, &compiled, err) ? p : NULL;
}
