#include "compiler/target.h"

#include <stdio.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

/* Best first. The generic path relies on nothing but the baseline of the architecture (SSE2 on x86-64). Two
 * FMA pipes of four cycles want eight accumulators at least: 8 x 2 vectors fit the 32 registers of AVX-512, 4
 * x 2 the 16 of AVX2. */
static const dl_target targets[] = {
#ifdef __x86_64__
    {"cpu:avx512", 16, 32, 8, 128, 8, {"-mavx512f", "-mfma", "-mprefer-vector-width=512", NULL}},
    {"cpu:avx2", 8, 16, 6, 132, 4, {"-mavx2", "-mfma", "-mf16c", NULL}},
#endif
    {"cpu:generic", 4, 8, 4, 128, 4, {NULL}},
};
enum { NTARGETS = sizeof targets / sizeof *targets };

#ifdef __x86_64__
/* Not every compiler can be asked for this feature by name. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

static bool runs_here(const dl_target *t) {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (t->lanes == 16) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
    if (t->lanes == 8) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#endif
    (void)t;
    return true;
}

const dl_target *dl_target_find(const char *name, dl_error *err) {
    bool any = !name || !*name || strcmp(name, "cpu") == 0;
    for (int i = 0; i < NTARGETS; i++) {
        if (!any && strcmp(targets[i].name, name) != 0) continue;
        if (runs_here(&targets[i])) return &targets[i];
        if (!any) {
            dl_fail(err, DL_RESOURCE,
                    "this CPU cannot run target '%s'; leave --target out to use what it has", name);
            return NULL;
        }
    }
    char known[200] = "";
    for (int i = 0; i < NTARGETS; i++) {
        strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, targets[i].name, sizeof known - strlen(known) - 1);
    }
    dl_fail(err, DL_USAGE, "unknown target '%s'; known: cpu (the best here), %s", name, known);
    return NULL;
}
