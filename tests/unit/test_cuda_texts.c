/* The kernels that test_emulated.c runs on the CPU, through NVRTC: for three architectures, without a
 * warning. Needs NVRTC (scripts/install-nvrtc), no GPU; exit 77 (skip) without it. */
#include "compiler/cuda/nvrtc.h"
#include "ir/base/input.h"
#include "ir/cubin.h"
#include "tests/check.h"

extern const char dl_cuda_kernels_device[], dl_cuda_kernels_prelude[], dl_cuda_kernels_sweeps[];

static const char *const kernels[] = {"norm_0",    "norm_1",    "reduce_0",    "turn_0",    "product_0",
                                      "product_1", "product_2", "product_3",   "product_4", "halves_0",
                                      "lots_0",    "random_0",  "functions_0", "numbers_0", "places_0",
                                      "warps_0",   "wait_0",    "shared_0",    "scale_0",   "few_0"};
enum { NKERNELS = sizeof kernels / sizeof *kernels };

static void test_arch(dl_arena *arena, const dl_nvrtc *nvrtc, const char *text, const char *arch) {
    dl_error err = {0};
    dl_buf cubin = {0}, log = {0};
    bool ok = dl_nvrtc_compile(nvrtc, text, arch, &cubin, &log, &err);
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

/* Loads and stores by how many bytes each moves: instructions are of 16 bytes, and begin at multiples. */
static void count_moves(const dl_buf *cubin, int moves[17]) {
    static const int sizes[] = {1, 1, 2, 2, 4, 8, 16, 16};
    enum { LOAD = 0x981, STORE = 0x986 };
    for (size_t at = 0; at + 16 <= cubin->n; at += 16) {
        uint64_t of[2];
        memcpy(of, cubin->at + at, sizeof of);
        unsigned operation = of[0] & 0xfff;
        if (operation == LOAD || operation == STORE) moves[sizes[of[1] >> 9 & 7]]++;
    }
}

/* A lot is one load and one store, whatever its elements are. */
static void test_lots(dl_arena *arena, const dl_nvrtc *nvrtc, const char *arch) {
    static const char text[] =
        "template <class T, int N> INLINE void move(const T *__restrict__ x, T *__restrict__ y) {\n"
        "    lot<T, N> v;\n    v.load(x + threadIdx.x * N);\n"
        "    for (int i = 0; i < N; i++) v[i] = v[i] + (T)1;\n    v.store(y + threadIdx.x * N);\n}\n"
        "extern \"C\" __global__ void moves_0(const %s *__restrict__ x, %s *__restrict__ y) {\n"
        "    move<%s, %d>(x, y);\n}\n";
    static const struct {
        const char *type;
        int n, bytes;
    } of[] = {{"unsigned char", 4, 4}, {"bf16", 2, 4}, {"bf16", 4, 8}, {"float", 2, 8}, {"float", 4, 16}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        dl_error err = {0};
        dl_buf cubin = {0}, log = {0};
        const char *kernel = dl_format(arena, text, of[i].type, of[i].type, of[i].type, of[i].n),
                   *all = dl_format(arena, "%s%s%s%s", dl_cuda_kernels_device, dl_cuda_kernels_prelude,
                                    dl_cuda_kernels_sweeps, kernel);
        int moves[17] = {0};
        CHECK(dl_nvrtc_compile(nvrtc, all, arch, &cubin, &log, &err), "%s", err.message);
        count_moves(&cubin, moves);
        for (int bytes = 1; bytes <= 16; bytes++)
            CHECK(moves[bytes] == (bytes == of[i].bytes ? 2 : 0), "%s: %d %s: %d moves of %d bytes", arch,
                  of[i].n, of[i].type, moves[bytes], bytes);
        dl_buf_free(&cubin), dl_buf_free(&log);
    }
}

int main(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_nvrtc nvrtc = {0};
    dl_error err = {0};
    if (!dl_nvrtc_find(arena, &nvrtc, &err) || !dl_nvrtc_load(&nvrtc, &err))
        return printf("SKIP: %s\n", err.message), 77;
    const char *text = dl_read_file(arena, "tests/unit/emulated_kernels.cu", 1 << 20, NULL, &err);
    CHECK(text, "%s", err.message);
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100"};
    for (int i = 0; text && i < 3; i++)
        test_arch(arena, &nvrtc,
                  dl_format(arena, "%s%s%s", dl_cuda_kernels_device, dl_cuda_kernels_prelude, text),
                  archs[i]);
    test_lots(arena, &nvrtc, "sm_80"), test_lots(arena, &nvrtc, "sm_90a");
    dl_arena_free(arena);
    return dl_test_end();
}
