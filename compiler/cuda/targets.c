/* The architectures, and the table of the backend. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/cuda/build.h"
#include "compiler/cuda/cuda.h"
#include "compiler/cuda/emulate.h"
#include "compiler/cuda/nvrtc.h"
#include "ir/base/hash.h"
#include "ir/kernel/contraction_rules.h"
#include "ir/plan/cubin.h"

/* The features of a row. */
#define NONE  .has_wgmma = false
#define WGMMA .has_wgmma = true
#define MAPS  .has_maps = true
#define TIMED .timed = true
#define ROW(sm, of_major, of_least, of_most, n, of_half, of_tf32, of_f32, of_f64, of_memory,       \
            of_sync, of_block, of_sm, of_registers, suffix, is_emulated, ...)                      \
    {                                                                                              \
        .name = "cuda:" #sm suffix, .backend = &dl_backend_cuda, .weights = {.kind = DL_CL},       \
        .half_gemms = 1u << DL_F16 | 1u << DL_BF16, .expanded = 1u << DL_F64, .has_tf32 = true,    \
        .balance = 256, .loops = &dl_cuda_loops, .contractions = &dl_common_contraction_rules,     \
        .arch = #sm, .emulated = is_emulated, .runs_on = {of_major, of_least, of_most},            \
        .multiprocessors = n, .half = of_half, .tf32 = of_tf32, .f32 = of_f32, .f64 = of_f64,      \
        .tbytes = of_memory, .sync = of_sync, .shared = of_block, .shared_of_sm = of_sm,           \
        .registers = of_registers, __VA_ARGS__                                                     \
    }
#define GPU(sm, major, least, most, n, half, tf32, f32, f64, tbytes, sync, block, on_sm,           \
            registers, ...)                                                                        \
    ROW(sm, major, least, most, n, half, tf32, f32, f64, tbytes, sync, block, on_sm, registers,    \
        "", false, __VA_ARGS__),                                                                   \
        ROW(sm, major, least, most, n, half, tf32, f32, f64, tbytes, sync, block, on_sm,           \
            registers, ":emulated", true, __VA_ARGS__),
static const dl_target targets[] = {
#include "compiler/target/gpus.def"
};
enum { NTARGETS = sizeof targets / sizeof *targets };

static const dl_target *row_of(const char *name) {
    for (int i = 0; i < NTARGETS; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    return NULL;
}

/* The row's copy of that name for n multiprocessors: products take as much longer as there are
 * fewer. The memory's rate is the row's. */
static const dl_target *size_of(dl_arena *arena, const dl_target *row, const char *name, int n) {
    DL_CHECK(arena);
    dl_target *t = DL_NEW(arena, dl_target);
    const double share = (double)n / row->multiprocessors;
    *t = *row;
    t->name = dl_strdup(arena, name), t->multiprocessors = n;
    t->half *= share, t->tf32 *= share, t->f32 *= share, t->f64 *= share;
    return t;
}

/* "cuda:sm_90a/60:emulated": the row of "cuda:sm_90a:emulated" for 60 multiprocessors. */
static const dl_target *find(dl_arena *arena, const char *name, dl_error *err) {
    enum { MOST = 1024 };
    char base[64];
    const size_t before = strcspn(name, "/");
    const bool has_number = name[before] == '/';
    const char *number = name + before + has_number;
    const size_t digits = has_number ? strspn(number, "0123456789") : 0;
    const int n = has_number ? atoi(number) : 0;
    bool fits = digits >= 1 && digits <= 4 && n >= 1 && n <= MOST && before + 16 < sizeof base;
    if (fits) snprintf(base, sizeof base, "%.*s%.12s", (int)before, name, number + digits);
    const dl_target *row = row_of(fits ? base : name);
    if (row) return has_number && n != row->multiprocessors ? size_of(arena, row, name, n) : row;
    dl_fail(err, DL_USAGE, "no such GPU");
    return NULL;
}

static void list(dl_buf *names) {
    for (int i = 0; i < NTARGETS; i++)
        if (!targets[i].emulated) dl_putf(names, "%s%s", i ? ", " : "", targets[i].name);
    dl_puts(names, ", each with /N for a device of N multiprocessors, and :emulated");
}

static const dl_target *runs_on(int major, int minor) {
    const dl_target *newest = NULL;
    for (int i = 0; i < NTARGETS; i++) {
        const dl_target *t = &targets[i];
        if (!t->emulated && t->runs_on.major == major && minor >= t->runs_on.least &&
            minor <= t->runs_on.most && (!newest || t->runs_on.least > newest->runs_on.least))
            newest = t;
    }
    return newest;
}

static bool build(dl_arena *arena, int n, dl_plan_object *objects, const dl_target *t,
                  const dl_console *out, int *compiled, dl_error *err) {
    return t->emulated ? dl_cuda_emulate(arena, n, objects, out, compiled, err)
                       : dl_cuda_build(arena, n, objects, t, out, compiled, err);
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
                                    .runs_on = runs_on,
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
