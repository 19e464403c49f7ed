/* Which architectures there are, and the table of the backend. */
#include <string.h>

#include "compiler/cuda/cuda.h"

#define GPU(sm)                                                                                              \
    {.name = "cuda:" sm, .backend = &dl_backend_cuda, .weights = {.kind = DL_CL}, .arch = sm}, {             \
        .name = "cuda:" sm ":emulated", .backend = &dl_backend_cuda, .weights = {.kind = DL_CL}, .arch = sm, \
        .emulated = true                                                                                     \
    }
static const dl_target targets[] = {GPU("sm_80"), GPU("sm_90"), GPU("sm_90a"), GPU("sm_100")};
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
