/* The CPU targets, the detection of this machine's, and the table of the backend. */
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef __aarch64__
#include <sys/auxv.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "compiler/cpu/cpu.h"
#include "compiler/cpu/library.h"
#include "compiler/jit/jit_cc.h"
#include "ir/base/object.h"
#include "ir/kernel/contraction_rules.h"
#include "ir/kernel/schedule.h"

/* Lanes sum the rows of as many points, each in one chain of floats. */
static const dl_loop_rules loops = {
    .contiguous_terms = DL_CHAIN, .strided_terms = DL_CHAIN, .floats = true, .maxima = true};

/* Best first. The generic target uses only the architecture's baseline (SSE2 on x86-64, NEON on
 * Arm). Two FMA pipes of four cycles need at least eight accumulators: 8 x 2 vectors fit the 32
 * registers of AVX-512 and NEON, 4 x 2 the 16 of AVX2. */
#define CPU(vector)                                                                                \
    .backend = &dl_backend_cpu, .lanes = vector, .panel = 2 * vector, .winograd = true,            \
    .weights = {.kind = DL_PANEL, .width = 2 * vector}, .expanded = 1u << DL_F64, .loops = &loops, \
    .contractions = &dl_common_contraction_rules
#define CPU_512     CPU(16), .rows = 8, .row_block = 128, .grad_rows = 8
#define NEON        CPU(4), .rows = 8, .row_block = 128, .grad_rows = 8
#define NEON_BF16   .half_gemms = 1u << DL_BF16
#define AVX512      "-mavx512f", "-mfma", "-mprefer-vector-width=512"
#define AVX512_BF16 AVX512, "-mavx512bw", "-mavx512dq"
#define AVX2        "-mavx2", "-mfma", "-mf16c"
/* A CPU with AVX-512, and the same kernels emulated: the compiler splits vectors of 16 lanes,
 * and kernels/instructions_emulated.c replaces special instructions. For tests on machines with
 * AVX2; those of Arm's run on any other CPU. */
#define BOTH(cpu, flags_of, ...)                                                                   \
    {"cpu:" cpu, CPU_512, .flags = {flags_of}, __VA_ARGS__}, {                                     \
        "cpu:" cpu ":emulated", CPU_512, .emulated = true, .flags = {AVX2}, __VA_ARGS__            \
    }
static const dl_target targets[] = {
#ifdef __x86_64__
    BOTH("amx_bf16", AVX512_BF16, .half_gemms = 1u << DL_BF16, .tiles = true),
    BOTH("avx512_bf16", AVX512_BF16, .half_gemms = 1u << DL_BF16),
    BOTH("avx512", AVX512),
    {"cpu:avx2", CPU(8), .rows = 6, .row_block = 132, .grad_rows = 4, .flags = {AVX2}},
#endif
#ifdef __aarch64__
    {"cpu:neon_bf16", NEON, NEON_BF16, .flags = {"-march=armv8.2-a+bf16"}},
    {"cpu:neon", NEON},
#else
    {"cpu:neon_bf16:emulated", NEON, NEON_BF16, .emulated = true},
    {"cpu:neon:emulated", NEON, .emulated = true},
#endif
    {"cpu:generic", CPU(4), .rows = 4, .row_block = 128, .grad_rows = 4},
};
enum { NTARGETS = sizeof targets / sizeof *targets };

#ifdef __x86_64__
/* Not every compiler supports these names in __builtin_cpu_supports. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
/* AVX512_BF16; avx512f's test covers whether the system saves its registers */
static bool multiplies_bf16(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 5;
}
static bool has_tiles(void) { /* AMX-BF16 and AMX-TILE */
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & 1u << 22 && d & 1u << 24;
}
/* Linux saves AMX tiles of processes that have asked for it (arch_prctl(2), since 5.16); threads
 * and forks inherit the permission. */
static bool may_use_tiles(void) {
#ifdef SYS_arch_prctl
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
#endif

/* CPUs that have tiles multiply bf16 without them at half the rate of floats
 * (docs/notebook/precision.md).
 */
static bool is_slow_here(const dl_target *t) {
#ifdef __x86_64__
    return t->half_gemms && !t->tiles && has_tiles();
#else
    (void)t;
    return false;
#endif
}

static bool runs_here(const dl_target *t) {
#ifdef __x86_64__
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (t->emulated) return avx2 || !t->flags[0];
    if (t->tiles && !(has_tiles() && may_use_tiles())) return false;
    if (t->half_gemms && !(__builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && multiplies_bf16()))
        return false;
    if (t->lanes == 16) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
    if (t->lanes == 8) return avx2;
#elif defined(__aarch64__)
    enum { BF16 = 1 << 14 }; /* HWCAP2_BF16 of linux/arch/arm64/include/uapi/asm/hwcap.h */
    if (t->half_gemms) return getauxval(AT_HWCAP2) & BF16;
#endif
    (void)t;
    return true;
}

const dl_target *dl_cpu_target(const char *name) {
    for (int i = 0; i < NTARGETS; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    return NULL;
}

static const dl_target *find(dl_arena *arena, const char *name, dl_error *err) {
    (void)arena;
    bool any = strcmp(name, dl_backend_cpu.name) == 0;
    for (int i = 0; i < NTARGETS; i++) {
        if (!any && strcmp(targets[i].name, name) != 0) continue;
        if (any && targets[i].emulated) continue;
        if (runs_here(&targets[i]) && !(any && is_slow_here(&targets[i]))) return &targets[i];
        if (any) continue;
        dl_fail(err, DL_RESOURCE,
                "this CPU cannot run target '%s'; leave --target out to use what it has", name);
        return NULL;
    }
    dl_fail(err, DL_USAGE, "no such CPU");
    return NULL;
}

static void list(dl_buf *names) {
    dl_puts(names, "cpu (the best here)");
    for (int i = 0; i < NTARGETS; i++)
        if (!targets[i].emulated) dl_putf(names, ", %s", targets[i].name);
}

static bool toolchain(dl_arena *arena, const dl_target *t, uint64_t *key, dl_error *err) {
    dl_jit_cc cc;
    if (!dl_jit_find(arena, &dl_jit_c, t, &cc, err)) return false;
    *key = cc.key;
    return true;
}

static bool check(const dl_plan *p, dl_error *err) {
    bool ok = true;
    for (int i = 0; ok && i < p->objects.n; i++) {
        dl_object object;
        ok = dl_object_load(&object, p->objects.at[i].image, p->objects.at[i].bytes, err);
        if (!ok) break;
        for (int k = 0; k < p->kernels.n; k++)
            for (int phase = 0; p->kernels.at[k].object == i && phase < p->kernels.at[k].phases;
                 phase++) {
                const char *name = dl_format(p->arena, "%s_%d", p->kernels.at[k].symbol, phase);
                if (!dl_object_find(&object, name))
                    ok = dl_fail(
                        err, DL_RESOURCE,
                        "the compiled code holds no function %s; set CC to another C compiler",
                        name);
            }
        dl_object_unload(&object);
    }
    return ok;
}

static bool put_libraries(dl_arena *arena, const dl_target *t, const char *dir,
                          const dl_console *out, dl_error *err) {
    dl_emitted needs[DL_CPU_COMMON_NEEDS];
    dl_plan_object objects[DL_CPU_COMMON_NEEDS] = {0};
    const int n = dl_cpu_common_needs(needs);
    for (int i = 0; i < n; i++)
        objects[i].nlibraries = dl_cpu_libraries(arena, t, &needs[i], objects[i].libraries);
    return dl_jit_put_libraries(arena, n, objects, t, dir, out, err);
}

const dl_backend dl_backend_cpu = {.name = "cpu",
                                   .find = find,
                                   .list = list,
                                   .variants = dl_cpu_variants,
                                   .emit = dl_cpu_emit,
                                   .open = dl_cpu_open,
                                   .libraries = dl_cpu_libraries,
                                   .put_libraries = put_libraries,
                                   .build = dl_jit_compile,
                                   .toolchain = toolchain,
                                   .check = check,
                                   .predict = dl_cpu_predict,
                                   .serial = dl_cpu_serial};
