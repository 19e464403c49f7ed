/* Convolutions by wgmma whose image comes by TMA's im2col mode: emulated, as PTX documents it,
 * next to plain C, in every order of threads, and with mistakes put into the feed, the kernels and
 * the emulation, each of which is found; by NVRTC for sm_90a, without spills. Exit 77 (skip)
 * without a C++ compiler. */
#include "ir/kernel/tensor_map.h"
#include "tests/unit/grouped.h"
#include "tests/unit/sixteen_bits.h"

static const char file[] = "tests/unit/image_kernels.cu";

/* As tests/unit/image_kernels.cu has them. Along H windows are 2 apart, and along W taps; one pixel
 * of padding in front of both, and along H after. */
enum { IMAGES = 6, C = 64, O = 24, H = 9, W = 7, OUT_H = 5, OUT_W = 6, TAPS_H = 3, TAPS_W = 2 };
enum {
    POSITIONS = IMAGES * OUT_H * OUT_W,
    OF_WEIGHT = TAPS_H * TAPS_W * C,
    PIXELS = IMAGES * H * W
};
enum { MOST = PIXELS * C };

typedef struct {
    _Alignas(64) uint16_t memory[MOST];
    double value[MOST];
} operand;
static operand x, other; /* the weight, or dy */

static void fill(operand *o, int from) {
    for (int i = 0; i < MOST; i++)
        o->memory[i] = narrow_16(number(from + i), 8, 7),
        o->value[i] = widen_16(o->memory[i], 8, 7);
}

/* The pixel's channel c that a position reads at a tap, or 0. */
static double read_x(int position, int tap, int c) {
    int n = position / (OUT_H * OUT_W), h = position / OUT_W % OUT_H * 2 - 1 + tap / TAPS_W,
        w = position % OUT_W - 1 + tap % TAPS_W * 2;
    return h < 0 || h >= H || w < 0 || w >= W ? 0 : x.value[((n * H + h) * W + w) * C + c];
}

static double wanted(bool by_weight, int i) {
    double sum = 0;
    if (!by_weight)
        for (int k = 0; k < OF_WEIGHT; k++)
            sum += read_x(i / O, k / C, k % C) * other.value[i % O * OF_WEIGHT + k];
    else
        for (int p = 0; p < POSITIONS; p++)
            sum += read_x(p, i % OF_WEIGHT / C, i % C) * other.value[p * O + i / OF_WEIGHT];
    return sum;
}

/* How many sums are wrong; -1: the launch fails. */
static int wrong_of(int kernel, unsigned seed) {
    static float y[POSITIONS * O + O * OF_WEIGHT];
    static union {
        _Alignas(DL_MAP_ALIGN) char bytes[DL_MAP_BYTES];
        dl_emulated_map map;
    } map;
    dl_tensor_map m = {.dtype = DL_BF16,
                       .swizzle = kernel ? 128 : 64,
                       .windows = 2,
                       .box = {kernel ? 64 : 32, kernel ? 32 : 128, 1},
                       .lower = {-1, -1},
                       .upper = {-2, -1}, /* W: 5 - 1, below 7 - 1; H: 8 - 1, below 9 - 1 */
                       .traversal = {1, 2},
                       .size = {C, W, H, IMAGES},
                       .step = {C * 2, W * C * 2, H * W * C * 2}};
    CHECK(dl_tensor_map_fits(&m, sizeof x.memory));
    map.map = dl_tensor_map_emulated(&m, (uint64_t)(uintptr_t)x.memory);
    const void *pointers[] = {other.memory, y, NULL};
    void *at[] = {(void *)&map, (void *)&pointers[0], (void *)&pointers[1], (void *)&pointers[2]};
    int n = kernel ? O * OF_WEIGHT : POSITIONS * O, wrong = 0, columns = kernel ? 256 : 64;
    int64_t shared = dl_tiling_shared(
        &(dl_tiling){.bm = 128, .bn = columns, .stages = kernel ? 5 : 6, .barriers = true});
    fill(&x, 0), fill(&other, MOST);
    for (int i = 0; i < n; i++) y[i] = NAN;
    if (launch(dl_format(arena, "images_%d", kernel), 4, at, 2, 256, (unsigned)shared, seed, error,
               sizeof error) != 0)
        return -1;
    for (int i = 0; i < n; i += 5) wrong += !(fabs((double)y[i] - wanted(kernel, i)) <= 2e-4);
    return wrong;
}

static void test_kernels(void) {
    if (!load(grouped_source(file, true))) return;
    for (int kernel = 0; kernel < 2; kernel++)
        for (unsigned seed = 0; seed < 2; seed++) {
            error[0] = 0;
            int wrong = wrong_of(kernel, seed);
            CHECK(wrong == 0, "images_%d, seed %u: %d wrong %s", kernel, seed, wrong, error);
        }
    dl_object_unload(&object);
}

static const grouped_fault faults[] = {
    /* the feed */
    {"s.position(row)", "s.position(row + 1)", 0, ""},
    {"at = s.position(k)", "at = s.position(k + 1)", 1, ""},
    {"at = s.tap(k)", "at = s.tap(k + 32)", 0, ""},
    {"row < s.count() ? row : 0", "row < s.count() / 2 ? row : 0", 1, ""},
    {"tap.at, pixel.x", "0, pixel.x", 0, ""},
    {"pixel.x, pixel.at", "pixel.x, 0", 0, ""},
    {"tap.x, barrier", "pixel.x, barrier", 0, "pixels -1 away"},
    {"S::ALONG_K ? held[i] : at, &tap = S::ALONG_K ? at : held[i]", "held[i], &tap = at", 1,
     "pixels -1 away"},
    {"if (threadIdx.x != 0) return;\n        ct_window at;", "ct_window at;", 0,
     "more boxes under way"},
    /* the kernels */
    {"% OUT_H * 2 - 1;", "% OUT_H * 2;", 0, "none that the map tells"},
    {"i % OUT_W - 1", "i % OUT_W", 0, ""},
    {"i % OUT_W - 1, w.x[1]", "i % OUT_W - 2, w.x[1]", 1, "none that the map tells"},
    {"TAPS_W * 2, w.x[1]", "TAPS_W, w.x[1]", 0, ""},
    {"w.x[1] = i / C / TAPS_W", "w.x[1] = i / C / TAPS_W * 128", 1, "pixels 256 away"},
    {"WINDOWS = 2", "WINDOWS = 1", 0, "a map of 2 windows"},
    {"w.at = i % C;", "w.at = 0;", 0, ""},
    /* the emulation */
    {"at[1 + i] += m->traversal[i];", "at[1 + i]++;", 0, ""},
    {"at[1 + i] = m->lower[i];", "at[1 + i] = 0;", 0, ""},
    {"at[1 + i] = m->lower[i];", "at[1 + i] -= m->size[1 + i];", 1, ""},
    {"<= m->size[1 + i] - 1 + m->upper[i]", "<= m->size[1 + i] + m->upper[i]", 1, ""},
    {"if (i == m->windows) at[1 + i]++;", "", 0, ""},
    {"i <= m->windows ? b->by[i - 1] : 0", "i <= m->windows ? 0 : 0", 1, ""},
    {"(long)pixel * m->swizzle, c)", "(long)pixel * 32, c)", 0, ""},
};

int main(void) {
    static char cache[] = "/tmp/dlc_windows_XXXXXX";
    if (!begin(cache)) return 77;
    grouped_machine_code(file, "images", 2);
    test_kernels();
    grouped_faults(file, dl_cuda_kernels_emulated_wgmma, faults, sizeof faults / sizeof *faults,
                   wrong_of);
    end(cache);
    return dl_test_end();
}
