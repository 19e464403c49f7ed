/* Products of tiles by wgmma: emulated, by descriptors of tiles as PTX documents them, next to
 * plain C, in every order of threads, and with mistakes put into them, each of which is found; by
 * NVRTC for sm_90a, without spills and without a word of ptxas that it takes them one after the
 * other. Exit 77 (skip) without a C++ compiler. */
#include "ir/kernel/tensor_map.h"
#include "tests/unit/grouped.h"
#include "tests/unit/sixteen_bits.h"

static const char file[] = "tests/unit/wgmma_kernels.cu";

enum { M = 122, K = 296, MOST_N = 250 };
static const struct {
    const char *kernel;
    int n, bm, bn, stages;
    dl_dtype type;    /* f32: in TF32 */
    bool left, right; /* along the terms */
    int boxes; /* by tensor maps: 1 the left operand, 2 the right, 3 both; their maps stand in front
                */
} kernels[] = {{"groups_0", 250, 128, 256, 5, DL_BF16, true, true, 0},
               {"groups_1", 250, 128, 256, 5, DL_BF16, false, false, 0},
               {"groups_2", 120, 128, 128, 5, DL_F16, true, false, 0},
               {"groups_3", 50, 128, 64, 6, DL_F16, false, true, 0},
               {"groups_4", 250, 128, 256, 5, DL_F32, true, true, 0},
               {"groups_5", 250, 128, 256, 5, DL_F32, false, false, 0},
               {"groups_6", 120, 128, 128, 5, DL_F32, false, true, 0},
               {"groups_7", 50, 128, 64, 6, DL_F32, true, false, 0},
               {"groups_8", 250, 128, 256, 5, DL_BF16, true, true, 3},
               {"groups_9", 250, 128, 256, 5, DL_F16, false, false, 3},
               {"groups_10", 120, 128, 128, 5, DL_BF16, true, false, 1},
               {"groups_11", 50, 128, 64, 6, DL_F32, false, true, 2},
               {"groups_12", 250, 128, 256, 5, DL_F32, true, true, 3},
               {"groups_13", 120, 128, 128, 5, DL_BF16, true, true, 2},
               {"groups_14", 120, 256, 128, 5, DL_BF16, true, true, 3},
               {"groups_15", 50, 256, 64, 5, DL_F16, false, false, 0},
               {"groups_16", 120, 256, 128, 5, DL_F32, true, true, 0}};
enum { NKERNELS = sizeof kernels / sizeof *kernels };

/* Element (row, k) of an operand, as it lies. */
static size_t place_of(bool along, int rows, int row, int k) {
    return along ? (size_t)(row * K + k) : (size_t)(k * ((rows + 7) / 8 * 8) + row);
}

/* An operand's elements, and what wgmma multiplies for them: of a float its nearest number of 11
 * digits, of two as near the larger one. */
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

/* A tensor map of an operand, which it says is the third of three matrices. */
static void make_map(dl_emulated_map *to, const operand *o, dl_dtype type, bool along, int rows,
                     int tile) {
    int word = dl_dtype_bytes(type), line = along ? 64 : 128,
        pitch = along ? K : (rows + 7) / 8 * 8;
    dl_tensor_map m = {.dtype = type,
                       .swizzle = line,
                       .box = {line / word, along ? tile : 64 / word, 1},
                       .size = {along ? K : rows, along ? rows : K, 3},
                       .step = {pitch * word, (int64_t)pitch * word * 512}};
    CHECK(dl_tensor_map_fits(&m, 1 << 30));
    *to = dl_tensor_map_emulated(&m, (uint64_t)(uintptr_t)o->memory - 2 * (uint64_t)m.step[1]);
}

static bool run(int i, unsigned shared, unsigned seed, const operand *a, const operand *b,
                float *c) {
    static union {
        _Alignas(DL_MAP_ALIGN) char bytes[DL_MAP_BYTES];
        dl_emulated_map map;
    } maps[2];
    const void *pointers[] = {a->memory, b->memory, c, NULL};
    void *at[4];
    int n = 0;
    make_map(&maps[0].map, a, kernels[i].type, kernels[i].left, M, kernels[i].bm);
    make_map(&maps[1].map, b, kernels[i].type, kernels[i].right, kernels[i].n, kernels[i].bn);
    for (int boxed = 1; boxed >= 0; boxed--)
        for (int o = 0; o < 2; o++)
            if ((kernels[i].boxes >> o & 1) == boxed)
                at[n++] = boxed ? (void *)&maps[o] : (void *)&pointers[o];
    at[n++] = (void *)&pointers[2], at[n++] = (void *)&pointers[3];
    return launch(kernels[i].kernel, n, at, 1, 256, shared, seed, error, sizeof error) == 0;
}

/* How many sums are wrong; -1: the launch fails. */
static int wrong_of(int i, unsigned seed) {
    static operand a, b;
    static float c[M * MOST_N];
    int n = kernels[i].n, wrong = 0;
    int64_t shared = dl_tiling_shared(&(dl_tiling){.bm = kernels[i].bm,
                                                   .bn = kernels[i].bn,
                                                   .stages = kernels[i].stages,
                                                   .barriers = kernels[i].boxes != 0});
    fill(&a, kernels[i].type, true), fill(&b, kernels[i].type, false);
    for (int k = 0; k < M * n; k++) c[k] = NAN;
    if (!run(i, (unsigned)shared, seed, &a, &b, c)) return -1;
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
    if (!load(grouped_source(file, true))) return;
    for (int i = 0; i < NKERNELS; i++)
        for (unsigned seed = 0; seed < 2; seed++) {
            error[0] = 0;
            int wrong = wrong_of(i, seed);
            CHECK(wrong == 0, "%s, seed %u: %d wrong %s", kernels[i].kernel, seed, wrong, error);
        }
    dl_object_unload(&object);
}

/* ---- mistakes ---- */

static const grouped_fault faults[] = {
    {"kd_async_fence();", ";", 0, "is not fenced"},
    {"kd_async_fence();", ";", 4, "is not fenced"},
    {"kd_wgmma_begin();\n        CT_UNROLL", "CT_UNROLL", 0, "without kd_wgmma_begin"},
    {"{ kd_wgmma_wait<0>(); }", "{}", 0, "ends before its products are there"},
    {"kd_wgmma_wait<READ_LAG - 1>()", "kd_wgmma_wait<READ_LAG + 1>()", 0, ""},
    {"READ_LAG = 2,", "READ_LAG = 0,", 1, ""},
    {"s * 32, 16, 8 * CT_LINE)", "s * 32, 16, 4 * CT_LINE)", 0, ""},
    {"s * 32, 16, 8 * CT_LINE)", "s * 48, 16, 8 * CT_LINE)", 0, ""},
    {"kd_tile_of<64>(at + first * CT_LINE", "kd_tile_of<128>(at + first * CT_LINE", 2, ""},
    {"F::LINES * CT_BLOCK, 8", "8 * CT_BLOCK, 8", 1, ""},
    {"int first = kd_thread() / 128 * (64 * MT);", "int first = kd_thread() / 64 * 64;", 0, ""},
    {"int first = kd_thread() / 128 * (64 * MT);", "int first = kd_thread() % 2 * 64;", 0,
     "other tiles than"},
    {"at + first * CT_LINE + s * 32", "at + 64 + first * CT_LINE + s * 32", 3,
     "begins within its eight lines"},
    {"kd_thread() / 32 % 4 * 16", "kd_thread() / 64 % 2 * 32", 3, ""},
    {"ct_round_tile(a, tile), ct_round", "ct_round", 6, ""},
    {", ct_round_tile(b, tile + A::BYTES_OF_TILE)", "", 4, ""},
    {"!B::TMA) kd_async_fence();",
     "!B::TMA) kd_async_fence(); ct_round_tile(b, tile + A::BYTES_OF_TILE);", 4, "is not fenced"},
    {"|| !A::TMA || !B::TMA) kd_async_fence();", ") kd_async_fence();", 13,
     "has put there is not fenced"},
    {"i < F::COUNT;", "i < F::COUNT - 1;", 5, ""},
    {"row() + i % EIGHTS * 8, (", "row() + i % EIGHTS * 4, (", 5, ""},
    {"s.col(k + term() + f * 4, end)", "s.col(k + term() + f * 4, end + 1)", 5, ""},
    {"kd_wgmma_tf32(sums(i), a, b)", "kd_wgmma_tf32(sums(i), b, a)", 7, ""},
    /* of boxes */
    {"kd_barrier_wait(barrier(stage), parity);", "", 8, "more arrive at a barrier"},
    {"barriers + (unsigned)stage * 8", "barriers + (unsigned)stage * 4", 8, "no multiple of 8"},
    {"if (stage == STAGES - 1) parity ^= 1;", "", 9, "ends before its copies are there"},
    {", parity = 0;", ", parity = 1;", 8, "more arrive at a barrier"},
    {"kd_barrier_expect(barrier(stage), BYTES)", "kd_barrier_expect(barrier(stage), BYTES - 64)", 8,
     "bytes, and"},
    {"kd_barrier_expect(barrier(stage), BYTES)", "kd_barrier_expect(barrier(stage), 2 * BYTES)", 10,
     "bytes, and"},
    {"if (threadIdx.x == 0) kd_barrier_expect(barrier(stage), BYTES);", "", 8,
     "for copies that nobody begins"},
    {"if (threadIdx.x == 0) kd_barrier_expect", "kd_barrier_expect", 8, "bytes, and"},
    {"kd_barrier_begin(barrier(i), 1)", "kd_barrier_begin(barrier(i), 2)", 8,
     "for copies that nobody begins"},
    {"i < STAGES; i++) kd_barrier_begin", "i < STAGES - 1; i++) kd_barrier_begin", 8,
     "a barrier that has not"},
    {"kd_barrier_begin(barrier(i), 1);\n        kd_async_fence();",
     "kd_barrier_begin(barrier(i), 1);", 8, "nobody has fenced"},
    {"if (threadIdx.x != 0) return;\n        CT_UNROLL", "CT_UNROLL", 8, "more boxes under way"},
    {"barriers = kd_saddr_of(at)", "barriers = kd_saddr_of(at - 4096)", 8, "was written to"},
    {"ALONG ? k : row, ALONG ? row : k", "row, k", 8, ""},
    {"c.z, barrier", "c.z + 1, barrier", 8, ""},
    {"first + i * boxes::OF_BLOCK", "first + i * 32", 9, ""},
    {"i * lines::LINES * CT_BLOCK)", "i * CT_BLOCK)", 9, ""},
    {"(i * THREADS + kd_thread()) * STEP", "(i * THREADS + kd_thread() / 2) * STEP", 12, ""},
    /* blocks of sums */
    {"first + i * 64", "first", 14, ""},
    {"<!A::ALONG_K, !B::ALONG_K>(sums(i), a, b)", "<!A::ALONG_K, !B::ALONG_K>(sums(0), a, b)", 14,
     ""},
    {"M_STEP = 64", "M_STEP = 16", 15, ""},
    {"kd_thread() / 128 * (64 * MT) + kd", "kd_thread() / 128 * 64 + kd", 14, ""},
};

/* In contract.cu, sums of 128 x 256 take more room than five of its tiles. */
static const grouped_fault in_front[] = {
    {"TILES > SUMS ? TILES : SUMS", "TILES", 8, "was written to"}};

/* A map whose lines are turned otherwise, or whose boxes are others, than the tiles that wgmma
 * reads. */
static void test_other_maps(void) {
    static const struct {
        const char *text, *fault;
    } of[] = {{"at ^= (at >> 7 & (m->swizzle / 16 - 1)) << 4;",
               "at ^= (at >> 7 & (192 / m->swizzle)) << 4;"},
              {"at ^= (at >> 7 & (m->swizzle / 16 - 1)) << 4;", ""},
              {"y++, from += m->swizzle)", "y++, from += 64)"},
              {"__builtin_memset(now.dynamic + at, 0, m->word)", "(void)at"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *source = grouped_with(file, "", of[i].text, of[i].fault);
        if (!source || !load(source)) continue;
        CHECK(wrong_of(9, 1) > 0, "map %zu (%s) is not seen: %s", i, of[i].fault, error);
        dl_object_unload(&object);
    }
}

/* ---- sums of several blocks ---- */

static const char ordered[] = "tests/unit/ordered_kernels.cu";

static int wrong_order_of(int kernel, unsigned seed) {
    enum { BLOCKS = 4, TILES = 5, FLOATS = 1024 };
    static _Alignas(64) float x[BLOCKS * TILES * FLOATS], sums[TILES * FLOATS];
    int turns[1 + TILES] = {0}, wrong = 0;
    (void)kernel;
    for (int i = 0; i < BLOCKS * TILES * FLOATS; i++) x[i] = number(i) * (float)(1 << i % 20);
    memset(sums, 0, sizeof sums);
    if (!RUN("ordered_0", BLOCKS, 384, 3 * FLOATS * 4 + 48, seed, x, sums, turns)) return -1;
    for (int i = 0; i < TILES * FLOATS; i++) {
        int from = i / FLOATS * FLOATS + (255 - i % FLOATS / 4) * 4 + i % 4;
        float want = 0; /* the order of blocks decides the bits */
        for (int b = 0; b < BLOCKS; b++) want += x[b * TILES * FLOATS + from];
        wrong += memcmp(&sums[i], &want, sizeof want) != 0;
    }
    return wrong;
}

static void test_ordered(void) {
    static const grouped_fault of[] = {
        {"kd_async_fence();\n            kd_barrier_arrive", "kd_barrier_arrive", 0, "not fenced"},
        {"kd_bulk_wait<1>();", "", 0, "a turn ends before its sums are there"},
        {"kd_bulk_wait<0>();", "", 0, "ends before its sums are there"},
        {"kd_turn_wait(turns + 1 + tile, block)", "kd_turn_wait(turns + 1 + tile, block + 1)", 0,
         "a block that has not begun"},
        {"kd_turn_end(turns + TILES, block + 1)", "kd_turn_end(turns + TILES, block)", 0,
         "a block that has not begun"},
        {"kd_barrier_arrive(ready", "(void)(ready", 0, "that nobody begins"},
        {"kd_barrier_arrive(taken", "(void)(taken", 0, "that nobody begins"},
        {"kd_barrier_wait(ready + tile % 2 * 8, tile / 2 & 1);", "", 0, "more arrive at a barrier"},
        {"if (tile > 1) kd_barrier_wait", "if (tile > 3) kd_barrier_wait", 0,
         "more arrive at a barrier"},
        {"kd_sync_first<1, 256>();", "", 0, ""},
        {"kd_sync_first<1, 256>();", "kd_sync_first<16, 256>();", 0, "no barrier of a CTA's"},
        {"kd_more_registers<240>", "kd_more_registers<256>", 0, "more registers than"},
        {"kd_fewer_registers<24>", "kd_fewer_registers<20>", 0, "20 registers"},
        {"FLOATS * 4);\n            if", "FLOATS * 4 + 8);\n            if", 0, "no multiple"},
    };
    for (unsigned seed = 0; load(grouped_source(ordered, true)) && seed < 4; seed++) {
        error[0] = 0;
        int wrong = wrong_order_of(0, seed);
        CHECK(wrong == 0, "seed %u: %d wrong %s", seed, wrong, error);
        dl_object_unload(&object);
    }
    grouped_faults(ordered, "ordered_0", of, sizeof of / sizeof *of, wrong_order_of);
    grouped_machine_code(ordered, "ordered", 1);
}

int main(void) {
    static char cache[] = "/tmp/dlc_groups_XXXXXX";
    if (!begin(cache)) return 77;
    check_twins(dl_cuda_kernels_warpgroup, dl_cuda_kernels_emulated_wgmma, 11);
    check_twins(dl_cuda_kernels_emulated_wgmma, dl_cuda_kernels_warpgroup, 11);
    test_ordered();
    test_kernels();
    grouped_faults(file, dl_cuda_kernels_contract_wgmma, faults, sizeof faults / sizeof *faults,
                   wrong_of);
    grouped_faults(file, "", in_front, 1, wrong_of);
    test_other_maps();
    grouped_machine_code(file, "groups", NKERNELS);
    end(cache);
    return dl_test_end();
}
