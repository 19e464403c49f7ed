/* The architectures, and the table of the backend. */
#include <string.h>

#include "compiler/cuda/build.h"
#include "compiler/cuda/cuda.h"
#include "compiler/cuda/emulate.h"
#include "compiler/cuda/nvrtc.h"
#include "ir/base/hash.h"
#include "ir/plan/cubin.h"

#define GPU(sm, suffix, ...)                                                                       \
    {                                                                                              \
        .name = "cuda:" sm suffix, .backend = &dl_backend_cuda, .weights = {.kind = DL_CL},        \
        .half_gemms = 1u << DL_F16 | 1u << DL_BF16, .expanded = 1u << DL_F64, .has_tf32 = true,    \
        .balance = 256, .loops = &dl_cuda_loops, .arch = sm, __VA_ARGS__                           \
    }
#define BOTH(sm, ...)                                                                              \
    GPU(sm, "", .emulated = false, __VA_ARGS__), GPU(sm, ":emulated", .emulated = true, __VA_ARGS__)
/* A device of each architecture, by NVIDIA's data sheets: its SMs and rates. */
#define DEVICE(n, of_half, of_tf32, of_f32, of_f64, of_memory, of_sync)                            \
    .multiprocessors = n, .half = of_half, .tf32 = of_tf32, .f32 = of_f32, .f64 = of_f64,          \
    .tbytes = of_memory, .sync = of_sync
#define A100     DEVICE(108, 312, 156, 19.5, 9.7, 2.04, 1)   /* 80 GB SXM */
#define H200     DEVICE(132, 989, 495, 67, 34, 4.8, 0.65)    /* SXM; */
#define B200     DEVICE(148, 2250, 1125, 75, 37, 8.0, 0.4)   /* of these three mma.sync reaches */
#define B300     DEVICE(148, 2500, 1250, 77, 1.3, 8.0, 0.36) /* a part, as estimated */
#define RTX_5090 DEVICE(170, 209.5, 104.8, 104.8, 1.6, 1.79, 1) /* products with sums in f32 */
/* sm_100 and newer are multiplied by mma.sync, as sm_80 is: neither TMA nor tcgen05 is used. */
static const dl_target targets[] = {BOTH("sm_80", A100),
                                    BOTH("sm_90", H200),
                                    BOTH("sm_90a", H200, .has_wgmma = true, .has_maps = true),
                                    BOTH("sm_100", B200),
                                    BOTH("sm_103", B300),
                                    BOTH("sm_120", RTX_5090)};
enum { NTARGETS = sizeof targets / sizeof *targets };

static const dl_target *find(const char *name, dl_error *err) {
    for (int i = 0; i < NTARGETS; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    dl_fail(err, DL_USAGE, "no such GPU");
    return NULL;
}

static void list(dl_buf *names) {
    for (int i = 0; i < NTARGETS; i++)
        if (!targets[i].emulated) dl_putf(names, "%s%s", i ? ", " : "", targets[i].name);
    dl_puts(names, ", each with :emulated");
}

static bool build(dl_arena *arena, int n, dl_plan_object *objects, const dl_target *t,
                  const dl_console *out, int *compiled, dl_error *err) {
    return t->emulated ? dl_cuda_emulate(arena, n, objects, out, compiled, err)
                       : dl_cuda_build(arena, n, objects, t->arch, out, compiled, err);
}

static bool toolchain(dl_arena *arena, const dl_target *t, uint64_t *key, dl_error *err) {
    dl_nvrtc nvrtc = {0};
    bool ok = t->emulated ? dl_cuda_emulate_toolchain(arena, &nvrtc.key, err)
                          : dl_nvrtc_find(arena, &nvrtc, err);
    *key = dl_hash_str(t->name, t->emulated ? nvrtc.key : dl_cuda_options_key(nvrtc.key));
    return ok;
}

/* Calls `see` with the data of each phase of each kernel in an object's file. */
typedef bool phase_fn(void *user, int kernel, const dl_plan_entry *e, const dl_cubin_kernel *phase,
                      dl_error *err);
static bool each_phase(dl_arena *arena, const dl_plan *p, phase_fn *see, void *user,
                       dl_error *err) {
    for (int i = 0; i < p->objects.n; i++) {
        dl_cubin cubin;
        if (!dl_cubin_read(arena, p->objects.at[i].image, p->objects.at[i].bytes, &cubin, err))
            return false;
        for (int k = 0; k < p->kernels.n; k++)
            for (int phase = 0; phase < p->kernels.at[k].phases; phase++) {
                const dl_plan_entry e = dl_plan_entry_of(arena, &p->kernels.at[k], phase);
                if (e.object == i && !see(user, k, &e, dl_cubin_find(&cubin, e.symbol), err))
                    return false;
            }
    }
    return true;
}

static bool add_phase(void *user, int kernel, const dl_plan_entry *e, const dl_cubin_kernel *phase,
                      dl_error *err) {
    dl_resources *r = (dl_resources *)user + kernel;
    if (!phase) return dl_fail(err, DL_INPUT, "the cubin holds no kernel %s", e->symbol);
    if (r->registers < phase->registers) r->registers = phase->registers;
    if (r->shared_bytes < phase->shared_bytes) r->shared_bytes = phase->shared_bytes;
    r->spill_bytes += phase->spill_stores + phase->spill_loads;
    return true;
}

/* Dynamic shared memory is recorded in the plan. */
static bool resources(dl_arena *arena, const dl_plan *p, dl_resources *of, dl_error *err) {
    return !dl_target_is_emulated(p->target) && each_phase(arena, p, add_phase, of, err);
}

const dl_backend dl_backend_cuda = {.name = "cuda",
                                    .find = find,
                                    .list = list,
                                    .variants = dl_cuda_variants,
                                    .calls = dl_cuda_calls,
                                    .consolidate = dl_cuda_consolidate,
                                    .emit = dl_cuda_emit,
                                    .merge = dl_cuda_merge,
                                    .assign = dl_cuda_assign_sources,
                                    .open = dl_cuda_open,
                                    .feed = dl_cuda_feed,
                                    .build = build,
                                    .toolchain = toolchain,
                                    .check = dl_plan_check_code,
                                    .resources = resources,
                                    .predict = dl_cuda_predict};
