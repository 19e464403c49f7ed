#include "compiler/cuda/peak.h"

#include "compiler/cuda/cuda.h"

extern const char dl_cuda_kernels_peak[];

/* A launch of either takes some tens of milliseconds on a whole GPU, or on half of one, with so
 * many CTAs that the last wave hardly counts. Emulated, where one product takes microseconds,
 * far fewer suffice. */
enum { THREADS = 256, WORDS = 4, CHAINS = 8, SWEEPS = 8 };
typedef struct {
    int steps;
    int64_t blocks, stream; /* CTAs of "flops" by warps; bytes */
} size;
static const size real = {1024, 65536, 512 << 20}, emulated = {16, 8, 1 << 20};

/* The variant of "flops": mma.sync by warps from registers, or wgmma by warpgroups from shared
 * memory. */
typedef struct {
    int work; /* operations per step and CTA */
    int shared;
} products;
static const products by_warps = {2 * 16 * 8 * 16 * CHAINS * (THREADS / 32), 0},
                      by_wgmma = {2 * 64 * 256 * 16 * (THREADS / 128),
                                  (256 + THREADS / 128 * 64) * 64};

static void add(dl_plan *p, const char *name, int64_t blocks, int shared, int launches) {
    int64_t *touched = DL_NEW(p->arena, int64_t);
    *touched = p->arena_bytes;
    dl_plan_kernel k = {.name = name,
                        .symbol = dl_format(p->arena, "peak_%s", name),
                        .where = "",
                        .variant = "",
                        .phases = 1,
                        .items = {blocks},
                        .threads = {THREADS},
                        .shared = {shared},
                        .nargs = 1,
                        .arg_bytes = touched};
    dl_plan_program program = {.name = name};
    dl_plan_launch launch = {.kernel = p->kernels.n, .nargs = 1, .args = DL_NEW(p->arena, int64_t)};
    for (int i = 0; i < launches; i++) dl_push(p->arena, &program.launches, launch);
    dl_push(p->arena, &p->kernels, k);
    dl_push(p->arena, &p->programs, program);
}

dl_plan *dl_cuda_peak_plan(dl_arena *parent, const dl_target *t, double *flops, double *bytes,
                           dl_error *err) {
    const size *s = t->emulated ? &emulated : &real;
    const products *by = t->has_wgmma ? &by_wgmma : &by_warps;
    const int64_t blocks = s->blocks * by_warps.work / by->work;
    const dl_emitted needs = {
        .needs = {[DL_NEED_TILES] = t->has_wgmma, [DL_NEED_WGMMA] = t->has_wgmma}};
    dl_arena *arena = dl_arena_new(parent);
    dl_plan *p = DL_NEW(arena, dl_plan);
    *p = (dl_plan){
        .arena = arena, .model = "peak", .target = t->name, .batch = 1, .arena_bytes = s->stream};
    dl_buf source = {0};
    t->backend->open(&source, t, &needs);
    dl_putf(&source,
            "#define PEAK_THREADS %d\n#define PEAK_WORDS %d\n#define PEAK_CHAINS %d\n#define "
            "PEAK_STEPS %d\n"
            "#define PEAK_SHARED %d\n%s",
            THREADS, WORDS, CHAINS, s->steps, by->shared, dl_cuda_kernels_peak);
    dl_push(arena, &p->objects, (dl_plan_object){.source = dl_strdup(arena, source.at)});
    dl_buf_free(&source);
    add(p, "flops", blocks, by->shared, 1);
    add(p, "stream", s->stream / (THREADS * WORDS * 16), 0, SWEEPS);
    *flops = (double)by->work * s->steps * (double)blocks;
    *bytes = 2.0 * (double)s->stream * SWEEPS;
    int compiled;
    return t->backend->build(arena, 1, p->objects.at, t, NULL, &compiled, err) ? p : NULL;
}
