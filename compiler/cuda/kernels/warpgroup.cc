/* The twin of warpgroup.cu. Tiles are read, and sums made, as late as the wait for them allows; until then
 * sums are NaN. Found: sums used or tiles overwritten before the wait, a thread that ends without one, sums
 * that are multiplied into without kd_wgmma_begin, copies and rounded floats that nobody has fenced, lanes
 * that give different tiles, and tiles that begin where the hardware would turn their pieces otherwise. Not
 * seen: what else was written and not fenced, and warps of a group that give different tiles. */
} /* namespace */
namespace emulated {
typedef unsigned long tile;
enum { MOST_SUMS = 128, MOST_PRODUCTS = 32 };

struct product {
    tile a, b;
    int group, line;
    bool left_rows, right_rows;
    int word; /* bytes: of each operand 32 a row */
    float (*value)(const void *word);
};
template <float (*WIDEN)(unsigned short)> float value_of_half(const void *word) {
    unsigned short v;
    __builtin_memcpy(&v, word, sizeof v);
    return WIDEN(v);
}
static inline float value_of_tf32(const void *word) {
    unsigned v;
    __builtin_memcpy(&v, word, sizeof v);
    return bits_as<float>(v & 0xffffe000);
}
/* What a thread has begun. */
struct products {
    product at[MOST_PRODUCTS];
    float *sum, before[MOST_SUMS]; /* the thread's sums so far */
    int nsums, groups;
    bool begun;
};
static products under_way[THREADS];

struct tile_of_lane {
    tile a, b;
    int line;
};
static inline void same_tiles(void *const *lane, unsigned) {
    const tile_of_lane *first = (const tile_of_lane *)lane[0];
    for (int i = 1; i < WARP; i++) {
        const tile_of_lane *own = (const tile_of_lane *)lane[i];
        if (own->a != first->a || own->b != first->b)
            fail("line %d: lane %d multiplies other tiles than lane 0", own->line, i);
    }
}

/* Row r, or column r, and term k of a tile, by where its word lies. */
static inline float element_of(const product *p, tile t, bool rows, int r, int k) {
    int start = (int)(t & 0x3fff) << 4, leading = (int)(t >> 16 & 0x3fff) << 4,
        stride = (int)(t >> 32 & 0x3fff) << 4, word = p->word;
    int width = t >> 62 == 1 ? 128 : t >> 62 == 2 ? 64 : 0;
    if (!width || start % (8 * width) >= width)
        fail("line %d: a tile that begins within its eight lines", p->line);
    int at = start + (rows ? r * word / width * leading + r * word % width + k / 8 * stride + k % 8 * width
                           : r / 8 * stride + r % 8 * width + k * word);
    at ^= (at >> 7 & (width / 16 - 1)) << 4;
    return p->value(shared((unsigned long)now.dynamic + at, word, "a tile", p->line));
}

static inline void multiply_tiles(products *all, const product *p) {
    int lane = now.thread.x % WARP, row = now.thread.x / WARP % 4 * 16 + lane / 4, terms = 32 / p->word;
    float a[2][16];
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < terms; k++) a[h][k] = element_of(p, p->a, p->left_rows, row + 8 * h, k);
    for (int i = 0; i < all->nsums; i += 4)
        for (int e = 0; e < 2; e++) {
            float two[2] = {0, 0};
            for (int k = 0; k < terms; k++) {
                float b = element_of(p, p->b, p->right_rows, i * 2 + lane % 4 * 2 + e, k);
                two[0] += a[0][k] * b, two[1] += a[1][k] * b;
            }
            all->before[i + e] += two[0], all->before[i + 2 + e] += two[1];
        }
}

static inline void multiply_begin(float *sum, int nsums, product p) {
    int thread = now.thread.x;
    products *all = &under_way[thread];
    tile_of_lane own = {p.a, p.b, p.line};
    if (now.n % (4 * WARP)) fail("line %d: the block has no whole groups of four warps", p.line);
    for (int i = 0; i < now.n; i++)
        if (now.unfenced[i]) fail("line %d: what thread %d has written is not fenced", p.line, i);
    wait_warp(same_tiles, 0xffffffffu, &own, p.line);
    if (!now.products[thread]) {
        if (!all->begun) fail("line %d: sums without kd_wgmma_begin", p.line);
        all->sum = sum, all->nsums = nsums, all->groups = 0;
        __builtin_memcpy(all->before, sum, sizeof(float) * nsums);
        __builtin_memset(sum, 0xff, sizeof(float) * nsums);
    }
    if (all->sum != sum || all->nsums != nsums) fail("line %d: other sums than those under way", p.line);
    if (now.products[thread] == MOST_PRODUCTS)
        fail("line %d: more products under way than are emulated", p.line);
    p.group = all->groups;
    all->at[now.products[thread]++] = p;
}

static inline void multiply_end(int left) {
    int thread = now.thread.x, kept = 0;
    products *all = &under_way[thread];
    if (!now.products[thread]) return;
    for (int i = 0; i < now.products[thread]; i++) {
        if (all->at[i].group < all->groups - left)
            multiply_tiles(all, &all->at[i]);
        else
            all->at[kept++] = all->at[i];
    }
    now.products[thread] = kept;
    if (!kept) __builtin_memcpy(all->sum, all->before, sizeof(float) * all->nsums), all->begun = false;
}
} /* namespace emulated */

namespace {
typedef emulated::tile kd_tile;
template <int SWIZZLE> KD_INLINE kd_tile kd_tile_of(kd_saddr at, int leading, int stride) {
    unsigned long from = at - (unsigned long)emulated::now.dynamic;
    return (from >> 4 & 0x3fff) | (kd_tile)(leading >> 4) << 16 | (kd_tile)(stride >> 4) << 32 |
           (kd_tile)(SWIZZLE == 128 ? 1 : 2) << 62;
}
KD_INLINE void kd_async_fence() { emulated::now.unfenced[threadIdx.x] = false; }
KD_INLINE void kd_wgmma_begin() { emulated::under_way[threadIdx.x].begun = true; }
KD_INLINE void kd_wgmma_commit() { emulated::under_way[threadIdx.x].groups++; }
template <int LEFT, int N> void kd_wgmma_wait(float (&)[N]) { emulated::multiply_end(LEFT); }
template <bool LEFT_ROWS, bool RIGHT_ROWS, int N>
void kd_wgmma_bf16(float (&sum)[N], kd_tile a, kd_tile b, int line = __builtin_LINE()) {
    emulated::multiply_begin(
        sum, N, {a, b, 0, line, LEFT_ROWS, RIGHT_ROWS, 2, emulated::value_of_half<kd_widen_bf16>});
}
template <bool LEFT_ROWS, bool RIGHT_ROWS, int N>
void kd_wgmma_f16(float (&sum)[N], kd_tile a, kd_tile b, int line = __builtin_LINE()) {
    emulated::multiply_begin(
        sum, N, {a, b, 0, line, LEFT_ROWS, RIGHT_ROWS, 2, emulated::value_of_half<kd_widen_f16>});
}
template <int N> void kd_wgmma_tf32(float (&sum)[N], kd_tile a, kd_tile b, int line = __builtin_LINE()) {
    emulated::multiply_begin(sum, N, {a, b, 0, line, false, false, 4, emulated::value_of_tf32});
}
template <int BYTES> void kd_round_tf32_at(kd_saddr at, int line = __builtin_LINE()) {
    if (at % BYTES) emulated::fail("line %d: %d bytes at an address that is no multiple", line, BYTES);
    float *v = (float *)emulated::shared(at, BYTES, "floats to be rounded", line);
    for (int i = 0; i < BYTES / 4; i++) v[i] = kd_round_tf32(v[i]);
    emulated::now.unfenced[threadIdx.x] = true;
}
