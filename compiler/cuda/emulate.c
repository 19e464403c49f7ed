#include "compiler/cuda/emulate.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/jit/jit_cc.h"

/* -fno-strict-aliasing: kernels access memory by several types, which CUDA's compiler allows.
 * -ffp-contract: as NVRTC does, where the CPU can; GCC contracts only with
 * -fexpensive-optimizations, or -O2. */
#define FLAGS                                                                                      \
    "-std=gnu++17", "-O1", "-fexpensive-optimizations", "-fPIC", "-fno-exceptions", "-fno-rtti",   \
        "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",     \
        "-fvisibility=hidden", "-w"
static const char *const flags[] = {FLAGS, NULL}, *const checked_flags[] = {
                                                      FLAGS, "-g1", "-fsanitize=address",
                                                      "-fno-omit-frame-pointer", NULL};

/* The next kernel's name from `at` on; *n: its length. NULL: there is none. */
static const char *next_kernel(const char *at, size_t *n) {
    static const char head[] = "extern \"C\" __global__ void ", bounds[] = "__launch_bounds__(";
    if (!(at = strstr(at, head))) return NULL;
    at += strlen(head);
    if (strncmp(at, bounds, strlen(bounds)) == 0) {
        at += strcspn(at, ")");
        at += strspn(at, ") \n");
    }
    *n = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return at;
}

/* The end of a source as emulated.cc expects it: the end of the namespace, and the table of
 * kernels. */
static void end_source(dl_buf *text) {
    dl_buf names = {0};
    size_t n;
    for (const char *at = text->at; (at = next_kernel(at, &n)); at += n)
        dl_putf(
            &names,
            "    {\"%.*s\", (void (*)())%.*s, emulated::arity(%.*s), emulated::pointers_of(%.*s), "
            "emulated::maps_of(%.*s), {emulated::table_of<0>(%.*s), "
            "emulated::table_of<1>(%.*s)}},\n",
            (int)n, at, (int)n, at, (int)n, at, (int)n, at, (int)n, at, (int)n, at, (int)n, at);
    dl_putf(text,
            "} /* namespace */\nconst emulated::entry emulated::kernels[] = {\n%s    {nullptr, "
            "nullptr, 0, "
            "0, 0, {0, 0}}};\n",
            names.at ? names.at : "");
    dl_buf_free(&names);
}

/* DLR_EMULATE: the sanitizer that checks kernels while they run. */
static bool read_language(dl_jit_language *in, dl_error *err) {
    const char *how = getenv("DLR_EMULATE");
    bool checked = how && strcmp(how, "address") == 0;
    *in = (dl_jit_language){.name = "C++",
                            .variable = "CXX",
                            .names = {"c++", "g++", "clang++"},
                            .package = "g++",
                            .suffix = "cc",
                            .include_path = "CPLUS_INCLUDE_PATH",
                            .flags = checked ? checked_flags : flags,
                            .end = end_source};
    return checked || !how || !*how ||
           dl_fail(err, DL_USAGE,
                   "DLR_EMULATE=%s in the environment: 'address' is expected, or nothing", how);
}

static dl_target target(void) {
    dl_target t = {.name = "cuda:emulated"};
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        t.flags[0] = "-mavx2", t.flags[1] = "-mfma";
#endif
    return t;
}

bool dl_cuda_emulate(dl_arena *arena, int n, dl_plan_object *objects, const dl_console *out,
                     int *compiled, dl_error *err) {
    dl_jit_language in;
    const dl_target t = target();
    if (!read_language(&in, err)) return false;
    return dl_jit_compile_as(arena, &in, n, objects, &t, out, compiled, err);
}

bool dl_cuda_emulate_toolchain(dl_arena *arena, uint64_t *key, dl_error *err) {
    dl_jit_language in;
    const dl_target t = target();
    dl_jit_cc cc;
    if (!read_language(&in, err)) return false;
    if (!dl_jit_find(arena, &in, &t, &cc, err)) return false;
    *key = cc.key;
    return true;
}
