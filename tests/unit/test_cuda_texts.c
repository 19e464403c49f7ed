/* The kernels that test_emulated.c runs on the CPU, through NVRTC: for three architectures, without
 * a warning. Needs NVRTC (scripts/install-nvrtc), no GPU; exit 77 (skip) without it. */
#include "ir/base/input.h"
#include "ir/plan/cubin.h"
#include "tests/check.h"
#include "tests/unit/nvrtc_kept.h"

extern const char dl_cuda_kernels_device[], dl_cuda_kernels_feed[], dl_cuda_kernels_prelude[],
    dl_cuda_kernels_loops[];

static const char *const kernels[] = {
    "norm_0",    "norm_1",    "reduce_0", "turn_0",   "product_0", "product_1",   "product_2",
    "product_3", "product_4", "halves_0", "lots_0",   "random_0",  "functions_0", "numbers_0",
    "places_0",  "warps_0",   "wait_0",   "shared_0", "scale_0",   "few_0"};
enum { NKERNELS = sizeof kernels / sizeof *kernels };

static void test_arch(dl_arena *arena, const dl_nvrtc *nvrtc, const char *text, const char *arch) {
    dl_error err = {0};
    dl_buf cubin = {0}, log = {0};
    bool ok = nvrtc_compile_kept(nvrtc, text, arch, &cubin, &log, &err);
    CHECK(ok, "%s: %s", arch, err.message);
    CHECK(!log.n || strspn(log.at, " \n") == log.n, "%s: %s", arch, log.at);
    dl_cubin c;
    ok = ok && dl_cubin_read(arena, (const unsigned char *)cubin.at, cubin.n, &c, &err);
    CHECK(ok, "%s: %s", arch, err.message);
    for (int i = 0; ok && i < NKERNELS; i++) {
        const dl_cubin_kernel *k = dl_cubin_find(&c, kernels[i]);
        CHECK(k && k->spill_stores == 0 && k->spill_loads == 0, "%s: %s", arch, kernels[i]);
    }
    dl_buf_free(&cubin), dl_buf_free(&log);
}

enum { LOAD = 0x981, STORE = 0x986, PERMUTE = 0x816 };

/* Instructions of 16 bytes, which begin at multiples. */
static int count(const dl_buf *cubin, unsigned operation) {
    int n = 0;
    for (size_t at = 0; at + 16 <= cubin->n; at += 16) {
        uint64_t of;
        memcpy(&of, cubin->at + at, sizeof of);
        n += (of & 0xfff) == operation;
    }
    return n;
}

/* Loads, or stores, by how many bytes each moves. */
static void count_moves(const dl_buf *cubin, unsigned operation, int moves[17]) {
    static const int sizes[] = {1, 1, 2, 2, 4, 8, 16, 16};
    for (size_t at = 0; at + 16 <= cubin->n; at += 16) {
        uint64_t of[2];
        memcpy(of, cubin->at + at, sizeof of);
        if ((of[0] & 0xfff) == operation) moves[sizes[of[1] >> 9 & 7]]++;
    }
}

/* A lot is one load and one store, whatever its elements are. */
static void test_lots(dl_arena *arena, const dl_nvrtc *nvrtc, const char *arch) {
    static const char text[] =
        "template <class T, int N> INLINE void move(const T *__restrict__ x, T *__restrict__ y) {\n"
        "    vec<T, N> v;\n    v.load(x + threadIdx.x * N);\n"
        "    for (int i = 0; i < N; i++) v[i] = v[i] + (T)1;\n    v.store(y + threadIdx.x * "
        "N);\n}\n"
        "extern \"C\" __global__ void moves_0(const %s *__restrict__ x, %s *__restrict__ y) {\n"
        "    move<%s, %d>(x, y);\n}\n";
    static const struct {
        const char *type;
        int n, bytes;
    } of[] = {
        {"unsigned char", 4, 4}, {"bf16", 2, 4}, {"bf16", 4, 8}, {"float", 2, 8}, {"float", 4, 16}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        dl_error err = {0};
        dl_buf cubin = {0}, log = {0};
        const char *kernel = dl_format(arena, text, of[i].type, of[i].type, of[i].type, of[i].n),
                   *all = dl_format(arena, "%s%s%s%s", dl_cuda_kernels_device,
                                    dl_cuda_kernels_prelude, dl_cuda_kernels_loops, kernel);
        int moves[17] = {0};
        CHECK(nvrtc_compile_kept(nvrtc, all, arch, &cubin, &log, &err), "%s", err.message);
        count_moves(&cubin, LOAD, moves), count_moves(&cubin, STORE, moves);
        for (int bytes = 1; bytes <= 16; bytes++)
            CHECK(moves[bytes] == (bytes == of[i].bytes ? 2 : 0), "%s: %d %s: %d moves of %d bytes",
                  arch, of[i].n, of[i].type, moves[bytes], bytes);
        dl_buf_free(&cubin), dl_buf_free(&log);
    }
}

/* An element of 16 bits becomes a float by a shift or a mask of its word: nothing is taken apart
 * first. */
static void test_halves(dl_arena *arena, const dl_nvrtc *nvrtc, const char *arch) {
    static const char kernel[] = "extern \"C\" __global__ void halves_1(const bf16 *__restrict__ "
                                 "x, float *__restrict__ y) {\n"
                                 "    vec<bf16, 8> v;\n    vec<float, 8> w;\n    v.load(x + "
                                 "threadIdx.x * 8);\n#pragma unroll\n"
                                 "    for (int i = 0; i < 8; i++) w[i] = "
                                 "s_widen_bf16(v.half(i));\n    w.store(y + threadIdx.x * "
                                 "8);\n}\n";
    dl_error err = {0};
    dl_buf cubin = {0}, log = {0};
    int loads[17] = {0};
    const char *all = dl_format(arena, "%s%s%s%s", dl_cuda_kernels_device, dl_cuda_kernels_prelude,
                                dl_cuda_kernels_loops, kernel);
    CHECK(nvrtc_compile_kept(nvrtc, all, arch, &cubin, &log, &err), "%s", err.message);
    count_moves(&cubin, LOAD, loads);
    CHECK(loads[16] == 1 && count(&cubin, PERMUTE) == 0, "%s: %d loads, %d permutations", arch,
          loads[16], count(&cubin, PERMUTE));
    dl_buf_free(&cubin), dl_buf_free(&log);
}

/* There is one place where numbers are loaded, with a load for each size: no loop of its own for
 * every type. */
static void test_feed(dl_arena *arena, const dl_nvrtc *nvrtc, const char *arch) {
    dl_error err = {0};
    dl_buf cubin = {0}, log = {0};
    int loads[17] = {0};
    const char *all = dl_format(arena, "%s%s%s", dl_cuda_kernels_device, dl_cuda_kernels_prelude,
                                dl_cuda_kernels_feed);
    CHECK(nvrtc_compile_kept(nvrtc, all, arch, &cubin, &log, &err), "%s", err.message);
    count_moves(&cubin, LOAD, loads);
    CHECK(loads[2] == 1, "%s: %d loads of two bytes", arch, loads[2]);
    dl_buf_free(&cubin), dl_buf_free(&log);
}

int main(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_nvrtc nvrtc = {0};
    dl_error err = {0};
    if (!dl_nvrtc_find(arena, &nvrtc, &err) || !dl_nvrtc_load(&nvrtc, &err))
        return dl_test_skip("%s", err.message), 77;
    const char *text = dl_read_file(arena, "tests/unit/emulated_kernels.cu", 1 << 20, NULL, &err);
    CHECK(text, "%s", err.message);
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100", "sm_103"};
    for (size_t i = 0; text && i < sizeof archs / sizeof *archs; i++)
        test_arch(arena, &nvrtc,
                  dl_format(arena, "%s%s%s", dl_cuda_kernels_device, dl_cuda_kernels_prelude, text),
                  archs[i]);
    for (int i = 0; i < 2; i++)
        test_lots(arena, &nvrtc, archs[i]), test_halves(arena, &nvrtc, archs[i]),
            test_feed(arena, &nvrtc, archs[i]);
    dl_arena_free(arena);
    return dl_test_end();
}
