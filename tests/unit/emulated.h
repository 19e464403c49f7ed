/* Emulated CUDA kernels for tests: tests/unit/emulated_kernels.cu, as it is or with a fault in it.
 */
#ifndef DL_TEST_EMULATED_H
#define DL_TEST_EMULATED_H
#include <stdlib.h>

#include "compiler/cuda/emulate.h"
#include "ir/base/input.h"
#include "ir/base/object.h"
#include "ir/base/philox.h"
#include "ir/base/str.h"
#include "tests/cache.h"
#include "tests/check.h"

extern const char dl_cuda_kernels_device[], dl_cuda_kernels_emulated[], dl_cuda_kernels_prelude[];

typedef int launch_fn(const char *kernel, int nargs, void *const *args, unsigned grid,
                      unsigned block, unsigned shared, unsigned seed, char *error, size_t size);

static dl_arena *arena;
static dl_object object;
static launch_fn *launch;
static char error[400];

/* The part of the kernels' text between two of its headings with this kernel in it. */
static inline const char *part_of(const char *kernels, const char *kernel) {
    static const char heading[] = "\n/* ---- ";
    const char *in = strstr(kernels, dl_format(arena, "%s(", kernel)), *from = kernels, *next;
    CHECK(in, "there is no kernel %s", kernel);
    while (in && (next = strstr(from + 1, heading)) && next < in) from = next;
    next = strstr(from + 1, heading);
    return next ? dl_format(arena, "%.*s\n", (int)(next - from), from) : from;
}

/* The preludes and all kernels, or those that stand together with one; with `fault` in place of
 * `text`, the first after `after`, unless that is NULL. */
static inline char *source_with(const char *kernel, const char *after, const char *text,
                                const char *fault) {
    dl_error err = {0};
    const char *kernels =
        dl_read_file(arena, "tests/unit/emulated_kernels.cu", 1 << 20, NULL, &err);
    CHECK(kernels, "%s", err.message);
    if (kernel) kernels = part_of(kernels, kernel);
    char *all =
        dl_format(arena, "%s%s%s", dl_cuda_kernels_emulated, dl_cuda_kernels_prelude, kernels);
    if (!text) return all;
    char *at = strstr(all, after);
    at = at ? strstr(at, text) : NULL;
    CHECK(at, "no '%s' after '%s' to put a fault in", text, after);
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
    CHECK(launch, "the object has no dl_emulated_launch");
    return launch != NULL;
}

/* The workspace is the last argument. */
static inline bool run_one(const char *kernel, unsigned grid, unsigned block, unsigned shared,
                           unsigned seed, int nargs, void *const *pointers) {
    void *at[16];
    for (int i = 0; i < nargs; i++) at[i] = (void *)(uintptr_t)&pointers[i];
    return launch(kernel, nargs, at, grid, block, shared, seed, error, sizeof error) == 0;
}
#define RUN(kernel, grid, block, shared, seed, ...)                                                \
    run_one(kernel, grid, block, shared, seed,                                                     \
            sizeof((void *[]){__VA_ARGS__, NULL}) / sizeof(void *), (void *[]){__VA_ARGS__, NULL})

/* Each function kd_* of one prelude, at least so many, is in the other. */
static inline void check_twins(const char *one, const char *other, int least) {
    int n = 0;
    for (const char *at = one; (at = strstr(at, " kd_")); at++) {
        size_t length = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (at[1 + length] != '(' || strncmp(at + 1, "kd_switch", length) == 0) continue;
        const char *name = dl_format(arena, "%.*s(", (int)length + 1, at);
        CHECK(strstr(other, name), "no twin of%s)", name);
        n++;
    }
    CHECK(n >= least, "%d functions", n);
}

static inline float number(int i) {
    return dl_unit_float(dl_random_word(5, 1, 1, (uint64_t)i)) * 4 - 2;
}

/* False, and says so, where there is no C++ compiler; a cache in a folder of that template. */
static inline bool begin(char *cache) {
    dl_error err = {0};
    uint64_t key;
    arena = dl_arena_new(NULL);
    if (!dl_cuda_emulate_toolchain(arena, &key, &err))
        return dl_test_skip("%s", err.message), false;
    return test_cache(cache);
}
static inline void end(const char *cache) {
    char *command = dl_format(arena, "rm -rf '%s'", cache);
    CHECK(system(command) == 0, "%s", command);
    dl_arena_free(arena);
}
#endif
