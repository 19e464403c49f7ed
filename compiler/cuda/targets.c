/* Which architectures there are, and the table of the backend. */
#include <string.h>

#include "compiler/cuda/cuda.h"

#define GPU(sm, suffix, ...)                                                                                 \
    {                                                                                                        \
        .name = "cuda:" sm suffix, .backend = &dl_backend_cuda, .weights = {.kind = DL_CL},                  \
        .low_products = true, .has_tf32 = true, .arch = sm, __VA_ARGS__                                      \
    }
#define BOTH(sm) GPU(sm, "", .emulated = false), GPU(sm, ":emulated", .emulated = true)
static const dl_target targets[] = {BOTH("sm_80"), BOTH("sm_90"), BOTH("sm_90a"), BOTH("sm_100")};
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
                  void (*warn)(const char *text), int *compiled, dl_error *err) {
    (void)arena, (void)n, (void)objects, (void)warn, (void)compiled;
    return dl_fail(err, DL_RESOURCE, "target %s: CUDA sources are not compiled yet", t->name);
}

static bool toolchain(dl_arena *arena, const dl_target *t, uint64_t *key, dl_error *err) {
    (void)arena, (void)key;
    return dl_fail(err, DL_RESOURCE, "target %s: CUDA sources are not compiled yet", t->name);
}

static bool check(const dl_plan *p, dl_error *err) {
    return dl_fail(err, DL_RESOURCE, "target %s: CUDA sources are not compiled yet", p->target);
}

const dl_backend dl_backend_cuda = {.name = "cuda",
                                    .find = find,
                                    .list = list,
                                    .emit = dl_cuda_emit,
                                    .share = dl_cuda_share,
                                    .open = dl_cuda_open,
                                    .build = build,
                                    .toolchain = toolchain,
                                    .check = check,
                                    .predict = dl_cuda_predict};
