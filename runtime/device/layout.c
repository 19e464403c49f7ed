#include "runtime/device/layout.h"

enum { CL_ROWS = 128 };

/* How a tensor is cut into tiles: `blocks` of up to `block` rows. Each row, of outer * inner
 * elements, is cut into `parts` of up to `step` outer elements, or of inner ones where one outer
 * element exceeds a tile. The whole is repeated `batch` times. */
typedef struct {
    int64_t batch, rows, outer, inner, block, blocks, step, parts;
    bool cut_inner;
} cut;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t product(const dl_type *t, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= t->axis[i].size;
    return n;
}

bool dlr_layout_is_rows(const dl_type *t) {
    return t->layout.kind != DL_PANEL &&
           (t->layout.kind != DL_CL || t->rank <= 1 + dl_layout_channels(t->layout));
}

static cut cut_of(const dl_type *t) {
    cut c = {.batch = 1, .rows = 1, .outer = dl_type_count(t), .inner = 1, .block = 1};
    if (t->layout.kind == DL_PANEL) {
        c.rows = t->axis[0].size, c.outer = t->axis[1].size, c.inner = product(t, 2, t->rank),
        c.block = t->layout.width;
    } else if (!dlr_layout_is_rows(t)) {
        const int channels = dl_layout_channels(t->layout);
        c.batch = product(t, 0, channels), c.rows = t->axis[channels].size;
        c.outer = product(t, channels + 1, t->rank);
        c.block = least(c.rows, CL_ROWS);
    }
    if (dl_type_count(t) == 0) return (cut){0};
    int64_t run = DLR_TILE / c.block;
    c.cut_inner = c.inner > run;
    c.step = c.cut_inner ? run : run / c.inner;
    c.parts = c.cut_inner ? c.outer * ceil_div(c.inner, run) : ceil_div(c.outer, c.step);
    c.blocks = ceil_div(c.rows, c.block);
    return c;
}

int64_t dlr_layout_tiles(const dl_type *t) {
    cut c = cut_of(t);
    return c.batch * c.blocks * c.parts;
}

/* The number of the row's part that holds element `at`. */
static int64_t part_of(const cut *c, int64_t at) {
    int64_t k = at / c->inner;
    return c->cut_inner ? k * ceil_div(c->inner, c->step) + at % c->inner / c->step : k / c->step;
}

void dlr_layout_span(const dl_type *t, int64_t first, int64_t n, int64_t *begin, int64_t *end) {
    cut c = cut_of(t);
    int64_t row_step = c.outer * c.inner, last = first + n - 1;
    int64_t rows[2] = {first / row_step, last / row_step}, groups[2];
    for (int i = 0; i < 2; i++) /* blocks that precede this tensor's */
        groups[i] = rows[i] / c.rows * c.blocks + rows[i] % c.rows / c.block;
    bool in_row = rows[0] == rows[1];
    *begin = groups[0] * c.parts + (in_row || c.block == 1 ? part_of(&c, first % row_step) : 0);
    *end =
        groups[1] * c.parts + (in_row || c.block == 1 ? part_of(&c, last % row_step) + 1 : c.parts);
}

dlr_tile dlr_layout_tile(const dl_type *t, int64_t i) {
    cut c = cut_of(t);
    int64_t part = i % c.parts, block = i / c.parts % c.blocks, batch = i / c.parts / c.blocks;
    int64_t inner_parts = c.cut_inner ? ceil_div(c.inner, c.step) : 1;
    int64_t k = c.cut_inner ? part / inner_parts : part * c.step,
            u = c.cut_inner ? part % inner_parts * c.step : 0;
    int64_t row = block * c.block, row_step = c.outer * c.inner;
    dlr_tile tile = {.first = (batch * c.rows + row) * row_step + k * c.inner + u,
                     .row_step = row_step,
                     .rows = least(c.block, c.rows - row),
                     .outer = c.cut_inner ? 1 : least(c.step, c.outer - k),
                     .inner = c.cut_inner ? least(c.step, c.inner - u) : c.inner};
    if (t->layout.kind == DL_PANEL) {
        tile.outer_step = c.block, tile.inner_step = c.outer * c.block;
        tile.stored = block * row_step * c.block + u * tile.inner_step + k * tile.outer_step;
        tile.padding = c.block - tile.rows;
    } else {
        tile.outer_step = c.rows;
        tile.stored = batch * c.rows * c.outer + k * c.rows + row;
    }
    return tile;
}

typedef uint32_t vec4 __attribute__((vector_size(16), aligned(4), may_alias));
#if defined __clang__
#define PAIR(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PAIR(a, b, i, j, k, l) __builtin_shuffle(a, b, (vec4){i, j, k, l})
#endif

static inline void transpose_4x4(const uint32_t *in, int64_t in_step, uint32_t *out,
                                 int64_t out_step) {
    vec4 a = *(const vec4 *)in, b = *(const vec4 *)(in + in_step);
    vec4 c = *(const vec4 *)(in + 2 * in_step), d = *(const vec4 *)(in + 3 * in_step);
    vec4 ab = PAIR(a, b, 0, 4, 1, 5), cd = PAIR(c, d, 0, 4, 1, 5);
    vec4 AB = PAIR(a, b, 2, 6, 3, 7), CD = PAIR(c, d, 2, 6, 3, 7);
    *(vec4 *)out = PAIR(ab, cd, 0, 1, 4, 5);
    *(vec4 *)(out + out_step) = PAIR(ab, cd, 2, 3, 6, 7);
    *(vec4 *)(out + 2 * out_step) = PAIR(AB, CD, 0, 1, 4, 5);
    *(vec4 *)(out + 3 * out_step) = PAIR(AB, CD, 2, 3, 6, 7);
}

/* out[j][i] = in[i][j] for i < m, j < n. */
#define TRANSPOSE(name, T)                                                                         \
    static void name(const void *in_, int64_t in_step, int64_t m, int64_t n, void *out_,           \
                     int64_t out_step) {                                                           \
        const T *in = in_;                                                                         \
        T *out = out_;                                                                             \
        for (int64_t i = 0; i < m; i++)                                                            \
            for (int64_t j = 0; j < n; j++) out[j * out_step + i] = in[i * in_step + j];           \
    }
TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(scalar_4, uint32_t)
TRANSPOSE(transpose_8, uint64_t)

/* Works by lines of 64 bytes on both sides. A tensor's rows are often a power of two apart, so that
 * few of them fit the cache at once. The inner loops therefore follow the tensor's rows, which are
 * the rows of `out` where `rows_out`. */
static inline void transpose_blocks(const uint32_t *in, int64_t in_step, int64_t m, int64_t n,
                                    uint32_t *out, int64_t out_step, bool rows_out) {
    enum { BLOCK = 16 };
    for (int64_t row = 0; row < (rows_out ? n : m); row += BLOCK)
        for (int64_t at = 0; at < (rows_out ? m : n); at += BLOCK) {
            int64_t i = rows_out ? at : row, j = rows_out ? row : at;
            int64_t height = least(BLOCK, m - i), width = least(BLOCK, n - j), m4 = height & ~3,
                    n4 = width & ~3;
            const uint32_t *from = in + i * in_step + j;
            uint32_t *to = out + j * out_step + i;
            for (int64_t r = 0; r < (rows_out ? n4 : m4); r += 4)
                for (int64_t c = 0; c < (rows_out ? m4 : n4); c += 4) {
                    int64_t a = rows_out ? c : r, b = rows_out ? r : c;
                    transpose_4x4(from + a * in_step + b, in_step, to + b * out_step + a, out_step);
                }
            scalar_4(from + n4, in_step, m4, width - n4, to + n4 * out_step, out_step);
            scalar_4(from + m4 * in_step, in_step, height - m4, width, to + m4, out_step);
        }
}

static void transpose(int bytes, const void *in, int64_t in_step, int64_t m, int64_t n, void *out,
                      int64_t out_step, bool rows_out) {
    switch (bytes) {
    case 1: transpose_1(in, in_step, m, n, out, out_step); break;
    case 2: transpose_2(in, in_step, m, n, out, out_step); break;
    case 8: transpose_8(in, in_step, m, n, out, out_step); break;
    default:
        if (rows_out)
            transpose_blocks(in, in_step, m, n, out, out_step, true);
        else
            transpose_blocks(in, in_step, m, n, out, out_step, false);
    }
}

/* Whether the tile lies in memory exactly as in row-major order. */
static bool is_plain(const dlr_tile *t) {
    return t->rows + t->padding == 1 && t->outer_step == 1 && t->inner == 1;
}

/* Copies lanes between the transposed tile, [outer][inner][lanes], and the tensor. */
static inline void copy_lanes(const dlr_tile *t, size_t bytes, char *tile, char *tensor,
                              bool store) {
    int64_t lanes = t->rows + t->padding;
    size_t n = (size_t)lanes * bytes;
    bool whole = t->inner == 1 && t->outer_step == lanes;
    if (whole) n *= (size_t)t->outer;
    for (int64_t u = 0; u < t->inner; u++)
        for (int64_t k = 0; k < (whole ? 1 : t->outer); k++) {
            char *a = tile + (size_t)((k * t->inner + u) * lanes) * bytes;
            char *b = tensor + (size_t)(t->stored + k * t->outer_step + u * t->inner_step) * bytes;
            if (store)
                memcpy(b, a, n);
            else
                memcpy(a, b, n);
        }
}

void dlr_tile_store(const dlr_tile *t, int bytes, const void *rows, int64_t row_step,
                    void *tensor) {
    int64_t run = t->outer * t->inner, lanes = t->rows + t->padding;
    if (is_plain(t)) {
        memcpy((char *)tensor + t->stored * bytes, rows, (size_t)(run * bytes));
        return;
    }
    _Alignas(64) char tile[DLR_TILE * 8];
    if (t->padding) memset(tile, 0, (size_t)(run * lanes * bytes));
    transpose(bytes, rows, row_step, t->rows, run, tile, lanes, false);
    copy_lanes(t, (size_t)bytes, tile, tensor, true);
}

void dlr_tile_load(const dlr_tile *t, int bytes, const void *tensor, void *rows, int64_t row_step) {
    int64_t run = t->outer * t->inner, lanes = t->rows + t->padding;
    if (is_plain(t)) {
        memcpy(rows, (const char *)tensor + t->stored * bytes, (size_t)(run * bytes));
        return;
    }
    _Alignas(64) char tile[DLR_TILE * 8];
    copy_lanes(t, (size_t)bytes, tile, (char *)tensor, false);
    transpose(bytes, tile, lanes, run, t->rows, rows, row_step, true);
}
