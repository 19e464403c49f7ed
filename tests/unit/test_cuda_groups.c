/* Products of tiles by wgmma: emulated, by descriptors of tiles as PTX documents them, beside plain C, in
 * every order of threads, and with mistakes put into them, each of which is found; by NVRTC for sm_90a,
 * without spills and without a word of ptxas that it takes them one behind the other. Exit 77 (skip) without
 * a C++ compiler. */
#include "compiler/cuda/nvrtc.h"
#include "ir/cubin.h"
#include "tests/unit/emulated.h"
#include "tests/unit/sixteen_bits.h"

extern const char dl_cuda_kernels_contract[], dl_cuda_kernels_contract_groups[],
    dl_cuda_kernels_emulated_groups[], dl_cuda_kernels_warpgroup[];

enum { M = 122, K = 296, MOST_N = 250 };
static const struct {
    const char *kernel;
    int n, bn, stages;
    dl_dtype type;    /* f32: in TF32 */
    bool left, right; /* along the terms */
} kernels[] = {
    {"groups_0", 250, 256, 5, DL_BF16, true, true}, {"groups_1", 250, 256, 5, DL_BF16, false, false},
    {"groups_2", 120, 128, 5, DL_F16, true, false}, {"groups_3", 50, 64, 6, DL_F16, false, true},
    {"groups_4", 250, 256, 5, DL_F32, true, true},  {"groups_5", 250, 256, 5, DL_F32, false, false},
    {"groups_6", 120, 128, 5, DL_F32, false, true}, {"groups_7", 50, 64, 6, DL_F32, true, false}};
enum { NKERNELS = sizeof kernels / sizeof *kernels };

static char *whole(const char *first, const char *groups) {
    dl_error err = {0};
    const char *text = dl_read_file(arena, "tests/unit/group_kernels.cu", 1 << 20, NULL, &err);
    CHECK(text, "%s", err.message);
    return dl_format(arena, "%s%s%s%s%s%s", first, dl_cuda_kernels_prelude, dl_cuda_kernels_contract, groups,
                     dl_cuda_kernels_contract_groups, text ? text : "");
}

/* Element (row, k) of an operand, as it lies. */
static size_t place_of(bool along, int rows, int row, int k) {
    return along ? (size_t)(row * K + k) : (size_t)(k * ((rows + 7) / 8 * 8) + row);
}

/* An operand's elements, and what wgmma multiplies for them: of a float its nearest number of 11 digits, of
 * two as near the larger one. */
typedef struct {
    _Alignas(64) char memory[(MOST_N + 8) * K * 4];
    double value[(MOST_N + 8) * K];
} operand;

static void fill(operand *o, dl_dtype type, bool is_left) {
    int exponent = type == DL_BF16 ? 8 : 5, digits = type == DL_BF16 ? 7 : 10;
    for (int k = 0; k < (MOST_N + 8) * K; k++) {
        float v = number(is_left ? k : ~k);
        if (type == DL_F32) {
            int e;
            double m = frexp((double)v, &e);
            o->value[k] = ldexp(round(ldexp(m, 11)), e - 11);
            memcpy(o->memory + 4 * k, &v, 4);
        } else {
            uint16_t h = narrow_16(v, exponent, digits);
            o->value[k] = widen_16(h, exponent, digits);
            memcpy(o->memory + 2 * k, &h, 2);
        }
    }
}

/* How many sums are wrong; -1: the launch fails. */
static int wrong_of(int i, unsigned seed) {
    static operand a, b;
    static float c[M * MOST_N];
    int n = kernels[i].n, wrong = 0;
    int tiles = kernels[i].stages * (128 + kernels[i].bn) * 64, sums = 128 * (kernels[i].bn + 8) * 4;
    fill(&a, kernels[i].type, true), fill(&b, kernels[i].type, false);
    for (int k = 0; k < M * n; k++) c[k] = NAN;
    if (!RUN(kernels[i].kernel, 1, 256, (unsigned)(tiles > sums ? tiles : sums), seed, a.memory, b.memory, c))
        return -1;
    for (int row = 0; row < M; row++)
        for (int column = 0; column < n; column += 7) {
            double want = 0;
            for (int k = 0; k < K; k++)
                want += a.value[place_of(kernels[i].left, M, row, k)] *
                        b.value[place_of(kernels[i].right, n, column, k)];
            wrong += !(fabs((double)c[row * n + column] - want) <= 2e-4);
        }
    return wrong;
}

static void test_kernels(void) {
    if (!load(whole(dl_cuda_kernels_emulated, dl_cuda_kernels_emulated_groups))) return;
    for (int i = 0; i < NKERNELS; i++)
        for (unsigned seed = 0; seed < 2; seed++) {
            error[0] = 0;
            int wrong = wrong_of(i, seed);
            CHECK(wrong == 0, "%s, seed %u: %d wrong %s", kernels[i].kernel, seed, wrong, error);
        }
    dl_object_unload(&object);
}

/* ---- mistakes ---- */

static const struct {
    const char *text, *fault;
    int kernel;
    const char *says; /* "": sums are wrong */
} faults[] = {
    {"kd_async_fence();", "", 0, "is not fenced"},
    {"kd_async_fence();", "", 4, "is not fenced"},
    {"kd_wgmma_begin();\n        CT_UNROLL", "CT_UNROLL", 0, "without kd_wgmma_begin"},
    {"{ kd_wgmma_wait<0>(sums()); }", "{}", 0, "ends before its products are there"},
    {"kd_wgmma_wait<BEHIND - 1>(sums())", "kd_wgmma_wait<BEHIND + 1>(sums())", 0, ""},
    {"BEHIND = 2,", "BEHIND = 0,", 1, ""},
    {"s * 32, 16, 8 * CT_LINE)", "s * 32, 16, 4 * CT_LINE)", 0, ""},
    {"s * 32, 16, 8 * CT_LINE)", "s * 48, 16, 8 * CT_LINE)", 0, ""},
    {"kd_tile_of<64>(at + first * CT_LINE", "kd_tile_of<128>(at + first * CT_LINE", 2, ""},
    {"F::LINES * CT_BLOCK, 8", "8 * CT_BLOCK, 8", 1, ""},
    {"int first = (int)threadIdx.x / 128 * 64;", "int first = (int)threadIdx.x / 64 * 64;", 0, ""},
    {"int first = (int)threadIdx.x / 128 * 64;", "int first = (int)threadIdx.x % 2 * 64;", 0,
     "other tiles than"},
    {"at + first * CT_LINE + s * 32", "at + 64 + first * CT_LINE + s * 32", 3,
     "begins within its eight lines"},
    {"row = (int)threadIdx.x / 32 * 16", "row = (int)threadIdx.x / 64 * 32", 3, ""},
    {"ct_round_tile(a, tile), ct_round", "ct_round", 6, ""},
    {", ct_round_tile(b, tile + A::BYTES_OF_TILE)", "", 4, ""},
    {"ct_round_tile(b, tile + A::BYTES_OF_TILE);\n        kd_async_fence();",
     "kd_async_fence();\n        ct_round_tile(b, tile + A::BYTES_OF_TILE);", 4, "is not fenced"},
    {"i < F::COUNT;", "i < F::COUNT - 1;", 5, ""},
    {"row() + i % EIGHTS * 8, (", "row() + i % EIGHTS * 4, (", 5, ""},
    {"s.col(k + term() + f * 4, end)", "s.col(k + term() + f * 4, end + 1)", 5, ""},
    {"kd_wgmma_tf32(sums(), a, b)", "kd_wgmma_tf32(sums(), b, a)", 7, ""},
};

static void test_faults(void) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char *text = whole(dl_cuda_kernels_emulated, dl_cuda_kernels_emulated_groups);
        char *from = strstr(text, dl_cuda_kernels_contract_groups),
             *at = from ? strstr(from, faults[i].text) : NULL;
        CHECK(at, "no '%s' to put a fault in", faults[i].text);
        if (!at || !load(dl_format(arena, "%.*s%s%s", (int)(at - text), text, faults[i].fault,
                                   at + strlen(faults[i].text))))
            continue;
        error[0] = 0;
        int wrong = wrong_of(faults[i].kernel, 1);
        bool found = *faults[i].says ? wrong < 0 && strstr(error, faults[i].says) : wrong > 0;
        CHECK(found, "fault %zu (%s) is not seen: %d %s", i, faults[i].fault, wrong, error);
        dl_object_unload(&object);
    }
}

/* ---- machine code ---- */

static void test_machine_code(void) {
    dl_nvrtc nvrtc = {0};
    dl_error err = {0};
    dl_buf cubin = {0}, log = {0};
    dl_cubin c;
    if (!dl_nvrtc_find(arena, &nvrtc, &err) || !dl_nvrtc_load(&nvrtc, &err)) {
        printf("SKIP: %s\n", err.message);
        return;
    }
    bool ok = dl_nvrtc_compile(&nvrtc, whole(dl_cuda_kernels_device, dl_cuda_kernels_warpgroup), "sm_90a",
                               &cubin, &log, &err) &&
              dl_cubin_read(arena, (const unsigned char *)cubin.at, cubin.n, &c, &err);
    CHECK(ok, "%s", err.message);
    CHECK(!log.n || strspn(log.at, " \n") == log.n, "%s", log.at);
    for (int i = 0; ok && i < NKERNELS; i++) {
        const dl_cubin_kernel *k = dl_cubin_find(&c, kernels[i].kernel);
        CHECK(k && k->spill_stores == 0 && k->spill_loads == 0 && k->frame_bytes == 0, "%s",
              kernels[i].kernel);
        if (k && getenv("DL_TEST_SHOW"))
            printf("%s: %d registers, %lld bytes\n", k->name, k->registers, (long long)k->code_bytes);
    }
    dl_buf_free(&cubin), dl_buf_free(&log);
}

int main(void) {
    static char cache[] = "/tmp/dlc_groups_XXXXXX";
    if (!begin(cache)) return 77;
    check_twins(dl_cuda_kernels_warpgroup, dl_cuda_kernels_emulated_groups, 7);
    check_twins(dl_cuda_kernels_emulated_groups, dl_cuda_kernels_warpgroup, 7);
    test_kernels();
    test_faults();
    test_machine_code();
    end(cache);
    return dl_test_end();
}
