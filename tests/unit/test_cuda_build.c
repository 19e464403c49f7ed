/* CUDA texts to cubins: what NVRTC is found and makes of a source, what a cubin tells, also a
 * damaged one, and the cache. Needs NVRTC (scripts/install-nvrtc), no GPU; exit 77 (skip) without
 * it. */
#include <elf.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/cuda/build.h"
#include "compiler/cuda/nvrtc.h"
#include "compiler/jit/cache.h"
#include "ir/base/dirs.h"
#include "ir/base/output.h"
#include "ir/plan/cubin.h"
#include "tests/check.h"

static dl_arena *arena;
static char top[] = "/tmp/dlc_cuda_XXXXXX";
static dl_nvrtc nvrtc;
static const char *const archs[] = {"sm_80", "sm_90a", "sm_100"};
enum { NARCHS = 3 };

/* `spills` keeps 64 values a thread where launch bounds leave 32 registers; `array` has an array
 * that is indexed by memory's contents, and so a frame without spills; `both` has both. */
static const char source[] =
    "extern \"C\" __global__ void __launch_bounds__(96) plain(float *a, const float *__restrict__ "
    "b, int n,\n"
    "                                                        double d, char *workspace) {\n"
    "    __shared__ float s[48];\n"
    "    s[threadIdx.x % 48] = b[threadIdx.x];\n"
    "    __syncthreads();\n"
    "    if ((int)threadIdx.x < n) a[threadIdx.x] = s[(threadIdx.x + 1) % 48] * (float)d;\n"
    "}\n"
    "template <int N> __device__ __forceinline__ void mix(float *a, const float *b, float more) {\n"
    "    float v[64];\n"
    "    _Pragma(\"unroll\") for (int i = 0; i < 64; i++) v[i] = b[threadIdx.x + N * i];\n"
    "    _Pragma(\"unroll\") for (int i = 0; i < 64; i++)\n"
    "        v[i] = v[i] * v[(i * 7 + 3) & 63] + v[(i * 5 + 1) & 63];\n"
    "    _Pragma(\"unroll\") for (int i = 0; i < 64; i++) a[threadIdx.x + N * i] = v[i] + more;\n"
    "}\n"
    "template <int N> __device__ __forceinline__ float pick(const float *a, const int *which) {\n"
    "    float v[20], sum = 0;\n"
    "    for (int i = 0; i < 20; i++) v[i] = a[i * N + threadIdx.x];\n"
    "    for (int i = 0; i < 20; i++) sum = sum * 0.5f + v[which[i] % 20];\n"
    "    return sum;\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(1024, 2) spills(float *a, const float *b, char "
    "*w) {\n"
    "    mix<1024>(a, b, 0);\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(128) array(float *a, const int *which, char "
    "*w) {\n"
    "    a[threadIdx.x] = pick<128>(a, which);\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(1024, 2) both(float *a, const float *b, const "
    "int "
    "*which,\n"
    "                                                            char *w) {\n"
    "    mix<1024>(a, b, pick<1024>(a, which));\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(64) dynamic(float *a, char *w) {\n"
    "    extern __shared__ float room[];\n"
    "    room[threadIdx.x] = a[threadIdx.x];\n"
    "    __syncthreads();\n"
    "    a[threadIdx.x] = room[threadIdx.x ^ 1];\n"
    "}\n";
static const char *const kernels[] = {"array", "both", "dynamic", "plain", "spills"};
enum { NKERNELS = 5 };

/* A GPU of that architecture. */
static const dl_target *on(const char *arch) {
    dl_target *t = DL_NEW(arena, dl_target);
    *t = (dl_target){.arch = arch, .registers = 65536};
    return t;
}

static const char *in(const char *name) { return dl_format(arena, "%s/%s", top, name); }

static bool read_image(const dl_plan_object *o, dl_cubin *cubin) {
    dl_error err = {0};
    bool ok = dl_cubin_read(arena, o->image, o->bytes, cubin, &err);
    CHECK(ok, "%s", err.message);
    return ok;
}

static dl_plan_object build_one(const char *text, const char *arch) {
    dl_plan_object o = {.source = text};
    int compiled = 0;
    dl_error err = {0};
    CHECK(dl_cuda_build(arena, 1, &o, on(arch), NULL, &compiled, &err), "%s: %s", arch,
          err.message);
    return o;
}

/* By NVRTC once, as the text says. */
static dl_plan_object compile_one(const char *text, const char *arch) {
    dl_buf cubin = {0}, log = {0};
    dl_error err = {0};
    CHECK(dl_nvrtc_compile(&nvrtc, text, arch, &cubin, &log, &err), "%s: %s", arch, err.message);
    dl_plan_object o = {.image = (unsigned char *)dl_strndup(arena, cubin.at, cubin.n),
                        .bytes = cubin.n};
    dl_buf_free(&cubin), dl_buf_free(&log);
    return o;
}

/* The source for each architecture: what is known of its kernels. */
static void test_kernels(void) {
    for (int i = 0; i < NARCHS; i++) {
        dl_plan_object o = compile_one(source, archs[i]);
        dl_cubin cubin;
        if (!o.bytes || !read_image(&o, &cubin)) continue;
        CHECK(cubin.n == NKERNELS, "%s: %d kernels", archs[i], cubin.n);
        for (int k = 0; k < NKERNELS && k < cubin.n; k++)
            CHECK_STR(cubin.kernels[k].name, kernels[k]);
        const dl_cubin_kernel *plain = dl_cubin_find(&cubin, "plain"),
                              *spills = dl_cubin_find(&cubin, "spills"),
                              *array = dl_cubin_find(&cubin, "array"),
                              *both = dl_cubin_find(&cubin, "both"),
                              *dynamic = dl_cubin_find(&cubin, "dynamic");
        CHECK(plain && spills && array && both && dynamic && !dl_cubin_find(&cubin, "mix"));
        if (!plain || !spills || !array || !both || !dynamic) continue;
        CHECK(plain->registers > 4 && plain->registers < 64, "%d", plain->registers);
        CHECK(plain->shared_bytes == 192 && plain->max_threads == 96 && plain->code_bytes >= 128,
              "%s: %d bytes shared, %d threads", archs[i], plain->shared_bytes, plain->max_threads);
        CHECK(plain->spill_stores == 0 && plain->spill_loads == 0 && plain->frame_bytes == 0);
        static const dl_cubin_param want[] = {
            {0, 0, 8}, {1, 8, 8}, {2, 16, 4}, {3, 24, 8}, {4, 32, 8}};
        CHECK(plain->nparams == 5 && plain->param_bytes == 40, "%d parameters, %d bytes",
              plain->nparams, plain->param_bytes);
        for (int p = 0; p < 5 && p < plain->nparams; p++)
            CHECK(memcmp(&plain->params[p], &want[p], sizeof want[p]) == 0, "parameter %d", p);
        CHECK(spills->registers <= 32 && spills->spill_stores > 0 && spills->spill_loads > 0 &&
              spills->frame_bytes >= 4 && spills->max_threads == 1024 && spills->nparams == 3);
        CHECK(array->spill_stores == 0 && array->spill_loads == 0 && array->frame_bytes == 80,
              "%d bytes", array->frame_bytes);
        CHECK(both->spill_stores > 0 && both->frame_bytes >= 80);
        CHECK(dynamic->shared_bytes == 0, "%d bytes", dynamic->shared_bytes);
    }
}

/* Kernels that spill are compiled for fewer blocks at once, others stay as they are; what spills
 * with one block, too, does so least; from the cache as from the compiler. `mended` has the values
 * of `spills`, and threads few enough that one block has registers for them. */
static void test_limits(void) {
    const char *text =
        dl_format(arena,
                  "%sextern \"C\" __global__ void __launch_bounds__(512, 4) mended(float *a, "
                  "const float *b, char *w) {\n    mix<512>(a, b, 0);\n}\n",
                  source);
    for (int i = 0; i < NARCHS; i++) {
        dl_plan_object once = compile_one(text, archs[i]), o = build_one(text, archs[i]), again = o;
        dl_cubin before, after;
        if (!o.image || !read_image(&once, &before) || !read_image(&o, &after)) continue;
        const dl_cubin_kernel *mended = dl_cubin_find(&after, "mended"),
                              *had = dl_cubin_find(&before, "mended");
        CHECK(had->spill_stores > 0 && had->registers <= 32 && !mended->spill_stores &&
                  !mended->spill_loads && mended->registers > 32 && mended->max_threads == 512,
              "%s: %d bytes, %d registers", archs[i], mended->spill_stores, mended->registers);
        const dl_cubin_kernel *spills = dl_cubin_find(&after, "spills"),
                              *did = dl_cubin_find(&before, "spills");
        CHECK(spills->spill_stores > 0 && spills->spill_stores < did->spill_stores &&
                  spills->registers > 32,
              "%s: %d bytes for %d", archs[i], spills->spill_stores, did->spill_stores);
        CHECK(dl_cubin_find(&after, "plain")->registers ==
              dl_cubin_find(&before, "plain")->registers);
        int compiled = 1;
        dl_error err = {0};
        CHECK(dl_cuda_build(arena, 1, &again, on(archs[i]), NULL, &compiled, &err) && !compiled &&
                  again.bytes == o.bytes && memcmp(again.image, o.image, o.bytes) == 0,
              "%s: %d compiled %s", archs[i], compiled, err.message);
    }
}

/* The numbers after "NAME" in what ptxas prints of a kernel, or -1. */
static int printed(const char *log, const char *kernel, const char *unit) {
    const char *at = strstr(log, dl_format(arena, "Function properties for %s\n", kernel));
    const char *end = at ? strstr(at, "Compile time") : NULL, *word = at ? strstr(at, unit) : NULL;
    if (!at || !word || (end && word > end)) return -1;
    while (word > at && (word[-1] == ' ' || (word[-1] >= '0' && word[-1] <= '9'))) word--;
    return atoi(word);
}

/* The numbers read from the ELF file are those that ptxas prints. */
static void test_printed(void) {
    for (int i = 0; i < NARCHS; i++) {
        void *program = NULL;
        const char *options[] = {dl_format(arena, "-arch=%s", archs[i]), "--ptxas-options=-v"};
        size_t log_bytes = 0, bytes = 0;
        bool made = nvrtc.calls.create(&program, source, "printed.cu", 0, NULL, NULL) == 0 &&
                    nvrtc.calls.compile(program, 2, options) == 0 &&
                    nvrtc.calls.log_size(program, &log_bytes) == 0 &&
                    nvrtc.calls.cubin_size(program, &bytes) == 0;
        char *log = dl_alloc(arena, log_bytes + 1), *image = dl_alloc(arena, bytes + 1);
        CHECK(made && nvrtc.calls.log(program, log) == 0 && nvrtc.calls.cubin(program, image) == 0);
        nvrtc.calls.destroy(&program);
        dl_cubin cubin;
        dl_plan_object o = {.image = (unsigned char *)image, .bytes = bytes};
        if (!made || !read_image(&o, &cubin)) continue;
        for (int k = 0; k < cubin.n; k++) {
            const dl_cubin_kernel *c = &cubin.kernels[k];
            const char *unit[] = {" bytes stack frame", " bytes spill stores", " bytes spill loads",
                                  " registers"};
            int have[] = {c->frame_bytes, c->spill_stores, c->spill_loads, c->registers};
            for (int u = 0; u < 4; u++)
                CHECK(printed(log, c->name, unit[u]) == have[u], "%s %s: %d, printed %d%s",
                      archs[i], c->name, have[u], printed(log, c->name, unit[u]), unit[u]);
        }
        CHECK(printed(log, "plain", " bytes smem") == dl_cubin_find(&cubin, "plain")->shared_bytes);
    }
}

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* 1: read, 0: refused as DL_INPUT. The bytes stand alone in memory, so that a sanitizer sees what
 * reads on. */
static int read_bytes(const unsigned char *image, size_t n) {
    unsigned char *alone = dl_malloc(n ? n : 1);
    if (n) memcpy(alone, image, n);
    dl_arena *scratch = dl_arena_new(NULL);
    dl_cubin cubin;
    dl_error err = {0};
    bool ok = dl_cubin_read(scratch, alone, n, &cubin, &err);
    CHECK(ok || (err.code == DL_INPUT && *err.message), "code %d: %s", (int)err.code, err.message);
    dl_arena_free(scratch);
    free(alone);
    return ok;
}

/* A cubin cut off anywhere, and one with bytes changed. */
static void test_damaged(void) {
    dl_plan_object o = build_one(source, "sm_90a");
    if (!o.image) return;
    CHECK(read_bytes(o.image, o.bytes) == 1);
    CHECK(read_bytes(NULL, 0) == 0 && read_bytes((const unsigned char *)"\177ELF", 4) == 0);
    Elf64_Ehdr head;
    memcpy(&head, o.image, sizeof head);
    uint64_t end = head.e_shoff + (uint64_t)head.e_shnum * sizeof(Elf64_Shdr);
    for (size_t n = 0; n < end; n += 1 + n / 64)
        CHECK(read_bytes(o.image, n) == 0, "cut at %zu", n);
    unsigned char *bad = dl_alloc(arena, o.bytes);
    uint64_t state = 11;
    int refused = 0, rounds = 4000;
    for (int i = 0; i < rounds; i++) {
        memcpy(bad, o.image, o.bytes);
        uint64_t from =
            i % 2 ? head.e_shoff : 0; /* every other time in the tables that all hangs on */
        for (uint32_t k = 1 + next_random(&state) % 8; k > 0; k--) {
            uint64_t at = from + next_random(&state) % (end - from);
            bad[at] = (unsigned char)(next_random(&state) % 3 ? next_random(&state) : 255);
        }
        refused += !read_bytes(bad, o.bytes);
    }
    CHECK(refused > rounds / 4 && refused < rounds, "%d of %d refused", refused, rounds);
}

/* A source's error is reported with its line; that of the first by index. */
static void test_errors(void) {
    dl_plan_object o[] = {
        {.source = "extern \"C\" __global__ void fine(char *w) { *w = 1; }\n"},
        {.source = "\nextern \"C\" __global__ void k(char *w) { *w = nowhere; }\n"},
        {.source = "extern \"C\" __global__ void k(char *w) { *w = elsewhere; }\n"}};
    int compiled = 0;
    dl_error err = {0};
    CHECK(!dl_cuda_build(arena, 3, o, on("sm_90a"), NULL, &compiled, &err) &&
          err.code == DL_RESOURCE);
    CHECK(strstr(err.message, "kernels.cu(2)") && strstr(err.message, "\"nowhere\" is undefined") &&
              !strstr(err.message, "elsewhere"),
          "%s", err.message);
    err = (dl_error){0}; /* what ptxas refuses, not the front end */
    dl_plan_object ptx = {.source =
                              "extern \"C\" __global__ void k(char *w) { asm(\"nonsense;\"); }\n"};
    CHECK(!dl_cuda_build(arena, 1, &ptx, on("sm_90a"), NULL, &compiled, &err) &&
              err.code == DL_RESOURCE && strstr(err.message, "nonsense"),
          "%s", err.message);
    err = (dl_error){0};
    o[0].source = "extern \"C\" __global__ void other(char *w) { *w = 1; }\n";
    CHECK(!dl_cuda_build(arena, 1, o, on("sm_35"), NULL, &compiled, &err) &&
              err.code == DL_RESOURCE && strstr(err.message, "sm_35") &&
              strstr(err.message, "sm_90"),
          "%s", err.message);
    dl_error ignored = {0};
    CHECK(
        dl_nvrtc_knows(&nvrtc, "sm_90a", &ignored) && !dl_nvrtc_knows(&nvrtc, "sm_90q", &ignored) &&
        !dl_nvrtc_knows(&nvrtc, "sm_9", &ignored) && !dl_nvrtc_knows(&nvrtc, "sm_90aa", &ignored));
    CHECK(dl_nvrtc_newest(&nvrtc) >= 90);
}

static const char *warned;
static void take_warning(void *to, const char *text) {
    (void)to;
    warned = dl_strdup(arena, text);
}
static const dl_console listener = {.warning = take_warning};

/* Many sources, two of them equal: compiled once, the second time served, and the same by any
 * number of threads; what is damaged in the cache is compiled anew. */
static void test_cache(void) {
    enum { N = 6 };
    dl_plan_object a[N] = {{0}}, b[N] = {{0}};
    int compiled = 0;
    dl_error err = {0};
    for (int i = 0; i < N; i++)
        a[i].source = b[i].source = dl_format(
            arena,
            "extern \"C\" __global__ void one(float *a, char *w) { a[threadIdx.x] += %d; }\n",
            i == N - 1 ? 0 : i);
    CHECK(dl_cuda_build(arena, N, a, on("sm_90a"), NULL, &compiled, &err) && compiled == N - 1,
          "%d compiled: %s", compiled, err.message);
    CHECK(dl_cuda_build(arena, N, b, on("sm_90a"), NULL, &compiled, &err) && compiled == 0,
          "%d compiled: %s", compiled, err.message);
    for (int i = 0; i < N; i++) {
        CHECK(a[i].image && b[i].image && a[i].bytes == b[i].bytes && a[i].key == b[i].key &&
              memcmp(a[i].image, b[i].image, a[i].bytes) == 0);
        CHECK(i == 0 || i == N - 1 || a[i].key != a[0].key);
    }
    CHECK(a[N - 1].key == a[0].key && a[N - 1].bytes == a[0].bytes);
    CHECK(dl_cuda_build(arena, 1, b, on("sm_80"), NULL, &compiled, &err) && compiled == 1 &&
              b[0].key != a[0].key,
          "another architecture is another object");
    const char *dir = dl_cache_dir(arena, &err);
    CHECK(dir && dl_cache_put(dir, a[1].key, "no cubin", 8, &err), "%s", err.message);
    warned = NULL;
    CHECK(dl_cuda_build(arena, N, b, on("sm_90a"), &listener, &compiled, &err) && compiled == 1 &&
              b[1].bytes == a[1].bytes && memcmp(a[1].image, b[1].image, a[1].bytes) == 0,
          "%d compiled: %s", compiled, err.message);
    CHECK(warned && strstr(warned, "compiled anew"), "%s", warned ? warned : "no warning");
    setenv("DLR_CACHE_DIR", in("other"), 1);
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(dl_cuda_build(arena, N, b, on("sm_90a"), NULL, &compiled, &err) && compiled == N - 1,
          "%s", err.message);
    for (int i = 0; i < N; i++)
        CHECK(a[i].bytes == b[i].bytes && memcmp(a[i].image, b[i].image, a[i].bytes) == 0,
              "one thread makes the same bits");
    sched_setaffinity(0, sizeof all, &all);
    setenv("DLR_CACHE_DIR", in("cache"), 1);
}

static const char folder_of_packages[] = "venv/lib/python3.9/site-packages/nvidia/cu13/lib";

/* A program under the library's name: an ELF file of this machine, and no library. */
static const char *make_false_library(void) {
    const char *folder = in(folder_of_packages),
               *file = dl_format(arena, "%s/libnvrtc.so.13", folder);
    CHECK(system(dl_format(arena, "mkdir -p '%s' && cp /proc/%d/exe '%s'", folder, (int)getpid(),
                           file)) == 0);
    return file;
}

/* A library that does not load gives way to the next place, and keys and cubins are of that one. */
static void give_way(void) {
    dl_nvrtc n;
    dl_error err = {0};
    const char *file = make_false_library();
    unsetenv("DLC_NVRTC");
    setenv("VIRTUAL_ENV", in("venv"), 1);
    CHECK(dl_nvrtc_find(arena, &n, &err) && !strcmp(n.path, file), "%s %s", n.path, err.message);
    uint64_t key = n.key;
    dl_plan_object o = {.source = "extern \"C\" __global__ void k(char *w) { *w = 1; }\n"};
    int compiled = 0;
    if (dl_nvrtc_load(&n, &err)) {
        CHECK(strcmp(n.path, file) != 0 && n.key != key && strstr(n.rejected, file), "%s", n.path);
        CHECK(dl_cuda_build(arena, 1, &o, on("sm_80"), NULL, &compiled, &err) && compiled == 1,
              "%s", err.message);
        unsetenv("VIRTUAL_ENV");
        key = o.key;
        CHECK(dl_cuda_build(arena, 1, &o, on("sm_80"), NULL, &compiled, &err) && compiled == 0 &&
                  o.key == key,
              "%d compiled: %s", compiled, err.message);
    } else
        CHECK(err.code == DL_RESOURCE && strstr(err.message, file), "%s", err.message);
}

/* In a child: here the library stays loaded, and what is loaded comes first. */
static void test_giving_way(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        give_way();
        fflush(stdout);
        _exit(dl_tests_failed ? 1 : 0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %d", status);
}

/* A folder or a file that DLC_NVRTC names, and nothing else; packages in VIRTUAL_ENV; what does not
 * load. */
static void test_search(void) {
    dl_nvrtc n;
    dl_error err = {0};
    setenv("DLC_NVRTC", nvrtc.path, 1);
    CHECK(dl_nvrtc_find(arena, &n, &err) && !n.calls.compile && n.key == nvrtc.key, "%s",
          err.message);
    CHECK(dl_nvrtc_load(&n, &err) && n.calls.compile && n.major == nvrtc.major, "%s", err.message);
    CHECK(strstr(dl_nvrtc_text(arena), dl_format(arena, "NVRTC %d.%d", n.major, n.minor)) &&
          strstr(dl_nvrtc_text(arena), nvrtc.path));
    setenv("DLC_NVRTC", in("nowhere"), 1);
    CHECK(!dl_nvrtc_find(arena, &n, &err) && err.code == DL_RESOURCE &&
              strstr(err.message, in("nowhere")) && strstr(err.message, "scripts/install-nvrtc"),
          "%s", err.message);
    CHECK_STR(dl_nvrtc_text(arena), "no NVRTC");
    const char *folder = in(folder_of_packages), *file = make_false_library();
    setenv("DLC_NVRTC", folder, 1);
    err = (dl_error){0};
    CHECK(dl_nvrtc_find(arena, &n, &err) && !strcmp(n.path, file), "%s", err.message);
    CHECK(!dl_nvrtc_load(&n, &err) && err.code == DL_RESOURCE &&
              strstr(err.message, "does not load"),
          "%s", err.message);
    unsetenv("DLC_NVRTC");
    setenv("VIRTUAL_ENV", in("venv"), 1);
    dl_candidates c =
        dl_cuda_search(arena, (const char *const[]){"libnvrtc.so.13", NULL}, "DLC_NVRTC", "none");
    int at = -1, bare = -1;
    for (int i = 0; i < c.n; i++) {
        if (!strcmp(c.at[i].path, file)) at = i;
        if (!strcmp(c.at[i].path, "libnvrtc.so.13")) bare = i;
    }
    CHECK(at >= 0 && bare > at, "%d, then %d", at, bare);
    CHECK(dl_write_file(file, "no ELF file", 11, &err));
    c = dl_cuda_search(arena, (const char *const[]){"libnvrtc.so.13", NULL}, "DLC_NVRTC", "none");
    for (int i = 0; i < c.n; i++)
        CHECK(strcmp(c.at[i].path, file) != 0, "what is no library is left out");
    unsetenv("VIRTUAL_ENV");
}

static bool remove_top(void) {
    dl_error ignored = {0};
    return dl_remove_tree(top, &ignored);
}

int main(void) {
    arena = dl_arena_new(NULL);
    dl_error err = {0};
    if (!mkdtemp(top)) return 1;
    setenv("DLR_CACHE_DIR", in("cache"), 1);
    test_giving_way();
    if (dl_tests_failed == 0 &&
        (!dl_nvrtc_find(arena, &nvrtc, &err) || !dl_nvrtc_load(&nvrtc, &err))) {
        dl_test_skip("%s", err.message);
        return remove_top() ? 77 : 1;
    }
    if (!nvrtc.calls.compile) return dl_test_end();
    test_kernels();
    test_limits();
    test_printed();
    test_damaged();
    test_errors();
    test_cache();
    test_search();
    CHECK(remove_top());
    dl_arena_free(arena);
    return dl_test_end();
}
