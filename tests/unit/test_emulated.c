/* CUDA kernels on the CPU: hand-written ones next to plain C, in every order of threads; and
 * mistakes put into them, each of which is found. Numbers are in test_emulated_numbers.c. */
#include <sys/wait.h>

#include "tests/unit/emulated.h"
#include "tests/unit/sixteen_bits.h"

/* How many of n are further from what is right than `tolerance` (absolute); a NaN is. */
static int count_wrong(const float *got, const double *want, int n, double tolerance) {
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += !(fabs((double)got[i] - want[i]) <= tolerance);
    return wrong;
}

/* ---- kernels; each gives how many elements are wrong, or -1 where the launch fails ---- */

enum { ROWS = 9, COLUMNS = 100 };
static int norm(const char *kernel, unsigned seed) {
    static float x[ROWS * COLUMNS], scale[COLUMNS], y[ROWS * COLUMNS], again[ROWS * COLUMNS];
    static double want[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = number(i), y[i] = NAN;
    for (int i = 0; i < COLUMNS; i++) scale[i] = number(i + 5000);
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < COLUMNS; i++) mean += (double)x[r * COLUMNS + i] / COLUMNS;
        for (int i = 0; i < COLUMNS; i++)
            variance += pow((double)x[r * COLUMNS + i] - mean, 2) / COLUMNS;
        for (int i = 0; i < COLUMNS; i++)
            want[r * COLUMNS + i] =
                ((double)x[r * COLUMNS + i] - mean) / sqrt(variance + 1e-5) * (double)scale[i];
    }
    if (!RUN(kernel, ROWS, 128, 0, seed, x, scale, y)) return -1;
    if (!RUN(kernel, ROWS, 128, 0, seed + 100, x, scale, again)) return -1;
    return count_wrong(y, want, ROWS * COLUMNS, 2e-5) + (memcmp(y, again, sizeof y) != 0);
}

enum { HEIGHT = 75, WIDTH = 53 };
static int turn(const char *kernel, unsigned seed) {
    static float x[HEIGHT * WIDTH], y[HEIGHT * WIDTH];
    int wrong = 0;
    for (int i = 0; i < HEIGHT * WIDTH; i++) x[i] = number(i), y[i] = NAN;
    if (!RUN(kernel, 3 * 2, 256, 0, seed, x, y)) return -1;
    for (int i = 0; i < HEIGHT * WIDTH; i++) wrong += !(y[i % WIDTH * HEIGHT + i / WIDTH] == x[i]);
    return wrong;
}

static int few(const char *kernel, unsigned seed) {
    static _Alignas(16) char x[512], y[512];
    int wrong = 0;
    for (int i = 0; i < 512; i++) x[i] = (char)(i % 101), y[i] = -1;
    if (!RUN(kernel, 1, 32, 0, seed, x, y)) return -1;
    for (int i = 0; i < 512; i++) wrong += y[i] != (i % 16 == 15 ? -1 : x[i]);
    return wrong;
}

enum { M = 70, N = 56, K = 72, STAGE_BYTES = 2 * 64 * 40 * 2 };
static int product(const char *kernel, unsigned seed) {
    static _Alignas(64) float a[M * K], b[K * N], c[M * N];
    static _Alignas(64) uint16_t ha[M * K], hb[K * N];
    static double want[M * N];
    int kind = kernel[strlen(kernel) - 1] - '0'; /* bf16, f16, both with b turned, floats */
    bool turned = kind == 2 || kind == 3;
    for (int i = 0; i < M * K; i++)
        ha[i] = kind % 2 ? narrow_16(number(i), 5, 10) : narrow_16(number(i), 8, 7),
        a[i] = kind == 4 ? number(i)
                         : (float)(kind % 2 ? widen_16(ha[i], 5, 10) : widen_16(ha[i], 8, 7));
    for (int i = 0; i < K * N; i++)
        hb[i] = kind % 2 ? narrow_16(number(~i), 5, 10) : narrow_16(number(~i), 8, 7),
        b[i] = kind == 4 ? number(~i)
                         : (float)(kind % 2 ? widen_16(hb[i], 5, 10) : widen_16(hb[i], 8, 7));
    for (int i = 0; i < M * N; i++) c[i] = NAN, want[i] = 0;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++)
            for (int k = 0; k < K; k++)
                want[m * N + n] += (double)a[m * K + k] * (double)b[turned ? k * N + n : n * K + k];
    bool ok = kind == 4 ? RUN(kernel, 2, 128, STAGE_BYTES, seed, a, b, c)
                        : RUN(kernel, 2, 128, 3 * STAGE_BYTES, seed, ha, hb, c);
    return ok ? count_wrong(c, want, M * N, kind == 4 ? 2e-2 : 1e-4) : -1;
}

static int reduce(const char *kernel, unsigned seed) {
    enum { BLOCKS = 3, TOTAL = BLOCKS * 256 };
    static float x[TOTAL], sums[BLOCKS * 5];
    static double doubles[BLOCKS * 2];
    static int ints[BLOCKS * 3];
    for (int i = 0; i < TOTAL; i++) x[i] = number(i);
    for (int i = 256; i < 512; i++) x[i] = i % 2 ? 0.0f : -0.0f;
    x[2 * 256 + 77] = NAN;
    if (!RUN(kernel, BLOCKS, 256, 0, seed, x, sums, doubles, ints)) return -1;
    int wrong = 0;
    for (int b = 0; b < BLOCKS; b++) {
        double sum = 0, squares = 0, most = -INFINITY, least = INFINITY, warp = 0;
        int count = 0, first = INT32_MAX;
        for (int i = b * 256; i < b * 256 + 256; i++) {
            double v = (double)x[i];
            sum += v, squares += v * v, most = fmax(most, v), least = fmin(least, v);
            if (i >= b * 256 + 224) warp += v; /* thread 255's */
            if (v > 0 && !count++) first = i;
        }
        bool nan = b == 2;
        wrong +=
            ints[b * 3] != count || ints[b * 3 + 1] != first || ints[b * 3 + 2] != b * 256 + 255;
        wrong += !(fabs((double)sums[b * 5 + 4] - warp) <= 1e-5);
        if (nan)
            wrong += !isnan(sums[10]) + !isnan(sums[11]) + !isnan(sums[12]) + !isnan(sums[13]) +
                     !isnan(doubles[4]) + !isnan(doubles[5]);
        else
            wrong += !(fabs((double)sums[b * 5] - sum) <= 1e-4) +
                     !(fabs((double)sums[b * 5 + 1] - squares) <= 1e-3) +
                     !((double)sums[b * 5 + 2] == most) + !((double)sums[b * 5 + 3] == least) +
                     !(fabs(doubles[b * 2] - sum) <= 1e-12) + !(doubles[b * 2 + 1] == most);
    }
    return wrong;
}

static int warps(const char *kernel, unsigned seed) {
    static int y[64 * 6];
    int wrong = 0;
    if (!RUN(kernel, 1, 64, 0, seed, y)) return -1;
    for (int t = 0; t < 64; t++) {
        int base = t / 32 * 32, l = t % 32;
        unsigned ballot = 0;
        for (int i = 0; i < 32; i++) ballot |= (unsigned)((base + i) % 3 == 0) << i;
        wrong += y[t * 6] != base + 3 || y[t * 6 + 1] != (l ? t - 1 : t) ||
                 y[t * 6 + 2] != (l % 8 + 2 < 8 ? t + 2 : t) || (unsigned)y[t * 6 + 3] != ballot ||
                 y[t * 6 + 4] != (base ? 1 : 2) || y[t * 6 + 5] != 32 + 1 + 1;
    }
    return wrong;
}

static int draw(const char *kernel, unsigned seed) {
    static float y[1024];
    int64_t key = 0x123456789abcdef - (int64_t)seed, step = ((int64_t)1 << 32) + 5;
    int wrong = 0;
    if (!RUN(kernel, 2, 256, 0, seed, &key, &step, y)) return -1;
    for (uint64_t i = 0; i < 512; i++)
        wrong += y[2 * i] != dl_unit_float(dl_random_word((uint64_t)key, (uint64_t)step, 7, i)) ||
                 y[2 * i + 1] != dl_unit_float(dl_random_word((uint64_t)key, (uint64_t)step,
                                                              16777215, i + ((uint64_t)1 << 34)));
    return wrong;
}

static int place(const char *kernel, unsigned seed) {
    static int y[128 * 25];
    int wrong = 0;
    if (!RUN(kernel, 1, 128, 0, seed, y)) return -1;
    for (int t = 0; t < 128; t++)
        for (int n = 1; n <= 5; n++) {
            const int *at = y + (t * 5 + n - 1) * 5;
            int x = t - 64, low = (int)floor((double)x / n), period = n > 1 ? 2 * (n - 1) : 1;
            int w = (x % period + period) % period, turned = w < n ? w : period - w;
            wrong += at[0] != low ||
                     at[1] != (x < 0    ? 0
                               : x >= n ? n - 1
                                        : x) ||
                     at[2] != x - low * n || at[3] != turned || at[4] != turned + low * 1000;
        }
    return wrong;
}

static const struct {
    const char *kernel;
    int (*wrong)(const char *kernel, unsigned seed);
} kernels[] = {{"norm_0", norm},       {"norm_1", norm},       {"reduce_0", reduce},
               {"turn_0", turn},       {"product_0", product}, {"product_1", product},
               {"product_2", product}, {"product_3", product}, {"product_4", product},
               {"warps_0", warps},     {"random_0", draw},     {"places_0", place},
               {"few_0", few}};

static void test_kernels(void) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (unsigned seed = 0; seed < 6; seed++) {
            error[0] = 0;
            int wrong = kernels[i].wrong(kernels[i].kernel, seed);
            CHECK(wrong == 0, "%s, seed %u: %d wrong %s", kernels[i].kernel, seed, wrong, error);
        }
}

/* ---- mistakes ---- */

enum { WRONG = 1, FAILS = 2 }; /* how a mistake shows: in elements; as an error */
static const struct {
    const char *after, *text, *fault; /* the first `text` after `after` becomes `fault` */
    const char *kernel;
    int (*wrong)(const char *kernel, unsigned seed);
    int shows;
    const char *says;
} faults[] = {
    {"turn_0", "__syncthreads();", "", "turn_0", turn, WRONG, ""},
    {"norm_0", "__syncthreads(); /* parts are there */", "", "norm_0", norm, WRONG, ""},
    {"norm_0", "__syncthreads(); /* parts are read */", "", "norm_0", norm, WRONG, ""},
    {"void block_join", "__syncthreads();\n    for", "for", "norm_1", norm, WRONG, ""},
    {"void block_join", "__syncthreads(); /* the next", "/* the next", "norm_1", norm, WRONG, ""},
    {"multiply_halves(", "__syncthreads(); /* of all threads */", "", "product_0", product, WRONG,
     ""},
    {"multiply_halves(", "kd_copy_wait<1>();", "", "product_0", product, WRONG, ""},
    {"multiply_halves(", "kd_copy_wait<1>();", "kd_copy_wait<2>();", "product_1", product, WRONG,
     ""},
    {"load_halves(", "kd_copy_commit();", "", "product_2", product, WRONG, ""},
    {"product_4", "kd_copy_wait<0>();", "", "product_4", product, WRONG, ""},
    {"void mma_16_all", "w % 2 * 8][q + w / 2 * 8", "w / 2 * 8][q + w % 2 * 8", "product_0",
     product, WRONG, ""},
    {"multiply_halves(", "l % 16) * ROW + kk + l / 16 * 8", "l / 2) * ROW + kk + l % 2 * 8",
     "product_1", product, WRONG, ""},
    {"multiply_halves(", "two[1], fb[1][0] = two[2]", "two[2], fb[1][0] = two[1]", "product_2",
     product, WRONG, ""},
    {"product_4", "l % 4 + 4 * w", "l % 4 * 2 + w", "product_4", product, WRONG, ""},
    {"__device__ void store_tile", "i / 2 * 8) * N + column + i % 2] = v[i]",
     "i % 2 * 8) * N + column + i / 2] = v[i]", "product_3", product, WRONG, ""},
    {"turn_0(", "__syncthreads();", "if (i < 7) __syncthreads();", "turn_0", turn, FAILS,
     "224 of 256 threads wait at the barrier"},
    {"turn_0(", "__syncthreads();", "if (j < 7) {\n__syncthreads();\n} else\n__syncthreads();",
     "turn_0", turn, FAILS, "divergent barrier"},
    {"norm_0(", "if (t % 32 == 0) parts", "if (t == 70) return; if (t % 32 == 0) parts", "norm_0",
     norm, FAILS, "1 have ended"},
    {"norm_0(", "sum += __shfl_xor_sync(0xffffffffu, sum, m);",
     "if (t % 2) sum += __shfl_xor_sync(0xffffffffu, sum, m);", "norm_0", norm, FAILS, "lanes"},
    {"norm_0(", "sum += __shfl_xor_sync(0xffffffffu,", "sum += __shfl_xor_sync(0x0000ffffu,",
     "norm_0", norm, FAILS, "mask"},
    {"multiply_halves(", "l % 16) * ROW + kk + l / 16 * 8", "l % 16) * ROW + kk + l / 16 * 7",
     "product_0", product, FAILS, "a row of ldmatrix at an address"},
    {"multiply_halves(", "const kd_saddr sa = kd_saddr_of(s +",
     "const kd_saddr sa = kd_saddr_of(s + PART * 4 +", "product_0", product, FAILS,
     "outside of the block's shared memory"},
    {"load_halves(", "? a + row * K + at", "? a + row * K + at + 1", "product_0", product, FAILS,
     "from an address that is no multiple of 16"},
    {"few_0(", "kd_load_few<4>(x + at + 8)", "kd_load_few<4>(x + at + 6)", "few_0", few, FAILS,
     "4 bytes at an address that is no multiple"},
    {"few_0(", "kd_store_few(y + at + 12,", "kd_store_few(y + at + 11,", "few_0", few, FAILS,
     "2 bytes at an address that is no multiple"},
};

/* Each shows under at least one of four seeds, which is what a test of kernels runs. */
static void test_faults(void) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        int wrong = 0, fails = 0, says = 0;
        if (!load(source_with(faults[i].kernel, faults[i].after, faults[i].text, faults[i].fault)))
            continue;
        for (unsigned seed = 0; seed < 4; seed++) {
            error[0] = 0;
            int n = faults[i].wrong(faults[i].kernel, seed);
            wrong += n > 0, fails += n < 0;
            says += strstr(error, faults[i].says) && strstr(error, faults[i].kernel);
        }
        if (faults[i].shows == WRONG)
            CHECK(wrong && !fails, "fault %zu (%s) is not seen: %s", i, faults[i].text, error);
        else
            CHECK(fails == 4 && says == 4, "fault %zu (%s) is not refused: %s", i, faults[i].text,
                  error);
        dl_object_unload(&object);
    }
}

/* After an error the object is as good as before; launches that cannot be are refused. */
static void test_errors(void) {
    static float y[256];
    CHECK(!RUN("nothing_0", 1, 64, 0, 0, y) && strstr(error, "none of that name"), "%s", error);
    CHECK(!RUN("wait_0", 1, 48, 0, 0, y) && strstr(error, "multiple of 32"), "%s", error);
    CHECK(!RUN("wait_0", 1, 2048, 0, 0, y) && strstr(error, "at most 1024"), "%s", error);
    CHECK(!RUN("shared_0", 1, 64, 1 << 20, 0, y) && strstr(error, "227 KiB"), "%s", error);
    for (int i = 0; i < 3; i++) {
        CHECK(!RUN("wait_0", 1, 96, 0, (unsigned)i, y) && strstr(error, "kernel wait_0") &&
                  strstr(error, "64 of 96 threads wait at the barrier"),
              "%s", error);
        CHECK(!RUN("shared_0", 1, 64, 1008, (unsigned)i, y) && strstr(error, "a copy outside"),
              "%s", error);
        memset(y, 0, sizeof y);
        CHECK(RUN("wait_0", 1, 64, 0, (unsigned)i, y) && y[0] == 1 && y[63] == 1 && y[64] == 0,
              "%s", error);
        for (int k = 0; k < 256; k++) y[k] = (float)k;
        CHECK(RUN("shared_0", 1, 64, 1024, (unsigned)i, y) && y[4] == 5 && y[252] == 253, "%s",
              error);
    }
}

/* ---- an index that is off by one, in a child that runs under the address sanitizer ---- */

static int run_child(const char *fault) {
    setenv("DLR_EMULATE", "address", 1);
    unsetenv("LD_PRELOAD"); /* the compiler has no need of it */
    arena = dl_arena_new(NULL);
    if (!load(source_with(NULL, "scale_0(", "i < 100", fault))) return 3;
    float *x = calloc(100, sizeof *x), *y = calloc(100, sizeof *y);
    bool ok = x && y && RUN("scale_0", 2, 64, 0, 1, x, y);
    for (size_t i = 0; ok && i < sizeof kernels / sizeof *kernels; i++)
        ok = kernels[i].wrong(kernels[i].kernel, 1) == 0;
    free(x), free(y);
    dl_object_unload(&object), dl_arena_free(arena);
    return puts(ok ? "ended well" : error), ok ? 0 : 4;
}

static char *output_of(const char *command) {
    FILE *f = popen(command, "r");
    char *text = DL_NEWS(arena, char, 1 << 16);
    size_t n = f ? fread(text, 1, (1 << 16) - 1, f) : 0;
    if (f) pclose(f);
    text[n] = 0;
    return text;
}

static void test_address(void) {
    const char *cxx = getenv("CXX") && *getenv("CXX") ? getenv("CXX") : "c++";
    char *library = output_of(dl_format(arena, "%s -print-file-name=libasan.so", cxx));
    library[strcspn(library, "\n")] = 0;
    if (!strchr(library, '/')) /* clang's */
        library =
            output_of(dl_format(arena, "%s -print-file-name=libclang_rt.asan-$(uname -m).so", cxx));
    library[strcspn(library, "\n")] = 0;
    CHECK(strchr(library, '/'), "no library of the address sanitizer: %s", library);
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    static const char *const child[] = {"i < 100", "i <= 100"};
    for (int i = 0; i < 2; i++) {
        const char *text =
            output_of(dl_format(arena,
                                "LD_PRELOAD='%s' ASAN_OPTIONS=detect_leaks=0 '%s' child '%s' "
                                "2>&1",
                                library, self, child[i]));
        CHECK(i ? strstr(text, "heap-buffer-overflow") && strstr(text, "scale_0") &&
                      !strstr(text, "ended well")
                : strstr(text, "ended well") != NULL,
              "%s: %s", child[i], text);
    }
}

int main(int argc, char **argv) {
    static char cache[] = "/tmp/dlc_emulated_XXXXXX";
    if (argc == 3) return run_child(argv[2]);
    if (!begin(cache)) return 77;
    if (load(source_with(NULL, NULL, NULL, NULL))) {
        test_kernels();
        test_errors();
        dl_object_unload(&object);
    }
    check_twins(dl_cuda_kernels_device, dl_cuda_kernels_emulated, 24);
    check_twins(dl_cuda_kernels_emulated, dl_cuda_kernels_device, 24);
    test_faults();
    test_address();
    end(cache);
    return dl_test_end();
}
