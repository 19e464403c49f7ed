/* Emulated CUDA kernels for tests: tests/unit/emulated_kernels.cu, as it is or with a fault in it. */
#ifndef DL_TEST_EMULATED_H
#define DL_TEST_EMULATED_H
#include <stdlib.h>
#include <unistd.h>

#include "compiler/cuda/emulate.h"
#include "ir/base/input.h"
#include "ir/base/object.h"
#include "ir/base/str.h"
#include "tests/check.h"

extern const char dl_cuda_kernels_emulated[], dl_cuda_kernels_prelude[];

typedef int launch_fn(const char *kernel, int nargs, void *const *args, unsigned grid, unsigned block,
                      unsigned shared, unsigned seed, char *error, size_t size);

static dl_arena *arena;
static dl_object object;
static launch_fn *launch;
static char error[400];

/* The preludes and the kernels, with `fault` in place of `text` (the first behind `after`) unless NULL. */
static inline char *source_with(const char *after, const char *text, const char *fault) {
    dl_error err = {0};
    char *kernels = dl_read_file(arena, "tests/unit/emulated_kernels.cu", 1 << 20, NULL, &err);
    CHECK(kernels, "%s", err.message);
    char *all = dl_format(arena, "%s%s%s", dl_cuda_kernels_emulated, dl_cuda_kernels_prelude, kernels);
    if (!text) return all;
    char *at = strstr(all, after);
    at = at ? strstr(at, text) : NULL;
    CHECK(at, "no '%s' behind '%s' to put a fault in", text, after);
    if (!at) return all;
    return dl_format(arena, "%.*s%s%s", (int)(at - all), all, fault, at + strlen(text));
}

static inline bool load(const char *source) {
    dl_error err = {0};
    dl_plan_object o = {.source = source};
    int compiled;
    bool ok = dl_cuda_emulate(arena, 1, &o, NULL, &compiled, &err) &&
              dl_object_load(&object, o.image, o.bytes, &err);
    CHECK(ok, "%s", err.message);
    if (!ok) return false;
    launch = (launch_fn *)(uintptr_t)dl_object_find(&object, "dl_emulated_launch");
    CHECK(launch && dl_object_find(&object, "norm_0"), "the object's functions");
    return launch != NULL;
}

/* The workspace is the last argument. */
static inline bool run_one(const char *kernel, unsigned grid, unsigned block, unsigned shared, unsigned seed,
                           int nargs, void *const *pointers) {
    void *at[16];
    for (int i = 0; i < nargs; i++) at[i] = (void *)(uintptr_t)&pointers[i];
    return launch(kernel, nargs, at, grid, block, shared, seed, error, sizeof error) == 0;
}
#define RUN(kernel, grid, block, shared, seed, ...)                                                          \
    run_one(kernel, grid, block, shared, seed, sizeof((void *[]){__VA_ARGS__, NULL}) / sizeof(void *),       \
            (void *[]){__VA_ARGS__, NULL})

/* Kernels that end with 77 where there is no C++ compiler, in a cache of their own. */
static inline bool begin(char *cache) {
    dl_error err = {0};
    uint64_t key;
    arena = dl_arena_new(NULL);
    if (!dl_cuda_emulate_toolchain(arena, &key, &err)) return printf("SKIP: %s\n", err.message), false;
    return mkdtemp(cache) && setenv("DLR_CACHE_DIR", cache, 1) == 0;
}
static inline void end(const char *cache) {
    char *command = dl_format(arena, "rm -rf '%s'", cache);
    CHECK(system(command) == 0);
    dl_arena_free(arena);
}
#endif
