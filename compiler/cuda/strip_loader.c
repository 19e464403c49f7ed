/* The strip loader: images of few channels, whose tiles are strips of the image
 * (kernels/contract_strips.cu). A strip is a contiguous run of memory that a row of positions
 * reads at a row of taps along W. */
#include "compiler/cuda/gather_loader.h"
#include "compiler/cuda/gemm_matrix.h"

enum {
    MOST = 24 << 10,  /* bytes of a tile: two CTAs per SM with four each */
    GATHERED = 16,    /* cost of assembling an element of a strip, in products */
    MOST_OTHERS = 128 /* rows that are multiplied with strips by wgmma */
};

static dl_mode_kind rows_of(const dl_operand *o) { return o->is_left ? DL_MODE_M : DL_MODE_N; }

/* Is it an image of one tensor, in the multiplied type, with contiguous channels of one group
 * that are too few for 16-byte copies? */
static bool has_few_channels(const dl_gemm_problem *p, const dl_operand *o) {
    bool varies = false;
    for (int i = 0; i < DL_MODES; i++) varies |= p->mode[i].varies || p->mode[i].size < 1;
    if (p->direct || varies || dl_gemm_batch(p) > 1 || p->word != 2 || !o->is_image ||
        o->nparts > 1 || o->bytes == 16)
        return false;
    const dl_type *t = dl_operand_part(p, o, 0);
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(t, stride);
    return t->dtype == o->dtype && o->channels == o->taps && o->channel == p->mode[o->taps].n - 1 &&
           (o->taps == DL_MODE_K || o->positions == DL_MODE_K) && stride[1] == 1 &&
           stride[t->rank - 1] == p->mode[o->taps].at[o->channel].size && o->base[0] == 0;
}

/* Bytes per copy, such that all rows are aligned to it; less than 4: none. */
static int piece_of(const dl_gemm_problem *p, const dl_operand *o, int64_t width) {
    const dl_type *t = dl_operand_part(p, o, 0);
    int64_t stride[DL_MAX_RANK];
    int piece = 16;
    dl_type_strides(t, stride);
    for (bool fits = false; !fits && piece >= 4; piece = fits ? piece : piece / 2) {
        fits = width % piece == 0;
        for (int i = 0; i < t->rank - 1; i++) fits &= i == 1 || stride[i] * p->word % piece == 0;
    }
    return piece;
}

/* Rows of so many items that a tile can touch; a tile begins at a multiple of its own items. */
static int64_t lines_of(int64_t items, int64_t line, int64_t all) {
    int64_t lines = items % line == 0   ? items / line
                    : line % items == 0 ? 1
                                        : (items - 2) / line + 2;
    return dl_at_most(lines, dl_ceil_div(all, line));
}

/* The distance from the first tap of a window to the one with the lowest W. */
static int64_t lower_corner_of(const dl_gemm_problem *p, const dl_operand *o) {
    int64_t tap_step = o->window_axis[2].tap_step;
    return tap_step < 0 ? tap_step * (p->mode[o->taps].at[2].size - 1) : 0;
}

bool dl_gemm_strips(const dl_gemm_problem *p, const dl_operand *o, int rows, dl_strip *to) {
    if (!has_few_channels(p, o)) return false;
    const dl_window_axis *w = &o->window_axis[2];
    int64_t taps = p->mode[o->taps].at[2].size, channels = p->mode[o->taps].at[o->channel].size;
    int64_t pixel = channels * p->word, depth = DL_LINE / p->word,
            far = w->tap_step < 0 ? -w->tap_step : w->tap_step;
    int64_t line[2] = {p->mode[o->positions].at[3].size, taps * channels};
    bool positions = o->taps == DL_MODE_K;
    *to = (dl_strip){
        .positions = positions, .row_line = line[!positions], .term_line = line[positions]};
    to->row_lines = lines_of(rows, to->row_line, p->mode[rows_of(o)].size);
    to->term_lines = lines_of(depth, to->term_line, p->mode[DL_MODE_K].size);
    to->width = o->limit[2] * pixel, to->piece = piece_of(p, o, to->width);
    if (to->piece < 4) return false;
    int64_t side = dl_at_most(line[0], positions ? rows : depth); /* positions of a run */
    int64_t run = ((side - 1) * w->position_step + (taps - 1) * far + 1) * pixel;
    to->pitch = dl_round_up(run + to->piece - p->word, to->piece);
    to->ends = p->mode[DL_MODE_K].size % depth != 0;
    if (to->term_line % 2 == 0 && (!positions || w->tap_step == 1 || channels % 2 == 0))
        to->pair_step = positions ? p->word : w->position_step * pixel;
    to->paired = positions && to->pair_step && w->position_step * channels % 2 == 0 &&
                 (w->begin + lower_corner_of(p, o)) * channels % 2 == 0;
    to->bytes =
        dl_ceil_div(to->row_lines * to->term_lines * to->pitch + depth * 4, 8 * DL_LINE_BLOCK) *
        (8 * DL_LINE_BLOCK);
    return to->bytes <= MOST;
}

/* The contribution of item j of a row to the address. */
static const char *byte_text(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o,
                             dl_mode_kind kind) {
    const dl_window_axis *w = &o->window_axis[2];
    int64_t channels = p->mode[o->taps].at[o->channel].size, pixel = channels * p->word,
            lower = lower_corner_of(p, o);
    if (kind == o->positions)
        return dl_format(e->arena, "j * $%lld$ + $%lld$", (long long)(w->position_step * pixel),
                         (long long)((w->begin + lower) * pixel));
    if (w->tap_step == 1) return dl_format(e->arena, "j * $%d$", p->word);
    return dl_format(e->arena, "j / $/%lld$ * $%lld$ + j %% $/%lld$ * $%d$ + $%lld$",
                     (long long)channels, (long long)(w->tap_step * pixel), (long long)channels,
                     p->word, (long long)(-lower * pixel));
}

static void put(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    dl_gemm_problem lines = *p; /* the same without coordinates along a row */
    dl_operand of = *o;
    dl_strip strip;
    bool is = dl_gemm_strips(p, o, o->is_left ? p->tiling.bm : p->tiling.bn, &strip);
    DL_CHECK(is);
    lines.mode[o->positions].at[3].size = lines.mode[o->taps].at[2].size = 1;
    lines.mode[o->taps].at[o->channel].size = 1;
    of.bounded[2] = false, of.origin[2] = NULL, of.along[0][2] = 0, of.bytes = strip.piece;
    of.has_bits = o->has_bits && (o->bounded[0] || o->bounded[1]);
    for (int k = 0; k < DL_MODES; k++)
        for (int c = 0; c < DL_MAX_RELATION; c++) of.scale[2][k][c] = 0;
    const char *constants = dl_format(
        e->arena,
        "    enum { ALONG_K = 1, BYTES = CT_STRIP, POSITIONS = %d, ROW_LINE = %lld, ROW_LINES = "
        "%lld, "
        "TERM_LINE = %lld, "
        "TERM_LINES = %lld, PIECE = %d, PITCH = %lld, WIDTH = %lld, PAIR_STEP = %lld, PAIRED = %d, "
        "ENDS = %d "
        "};\n"
        "    INLINE int row_byte(int j) const { return %s; }\n    INLINE int term_byte(int j) "
        "const { "
        "return %s; }\n",
        strip.positions, (long long)strip.row_line, (long long)strip.row_lines,
        (long long)strip.term_line, (long long)strip.term_lines, strip.piece,
        (long long)strip.pitch, (long long)strip.width, (long long)strip.pair_step, strip.paired,
        strip.ends, byte_text(e, p, o, rows_of(o)), byte_text(e, p, o, DL_MODE_K));
    dl_gemm_put_gather(e, &lines, &of, dl_operand_side(o), constants, strip.row_line);
}

/* ---- the loader ---- */

static const dl_tile_size by_mma[] = {{256, 64, 8, 1, 4, 2, 0.83}, {64, 256, 1, 8, 4, 2, 0.83}},
                          by_wgmma[] = {{256, 64, 8, 1, 4, 2, 1.20},
                                        {64, 256, 8, 1, 4, 2, 1.20},
                                        {128, 128, 8, 1, 4, 2, 1.20},
                                        {256, 128, 8, 1, 4, 1, 1.40},
                                        {128, 256, 8, 1, 4, 1, 1.40}},
                          with_tma[] = {{256, 64, 8, 1, 4, 2, 1.35},
                                        {64, 256, 8, 1, 4, 2, 1.35},
                                        {128, 128, 8, 1, 4, 2, 1.35},
                                        {256, 128, 8, 1, 4, 1, 1.55},
                                        {128, 256, 8, 1, 4, 1, 1.55}};
enum { BY_MMA = sizeof by_mma / sizeof *by_mma, BY_WGMMA = sizeof by_wgmma / sizeof *by_wgmma };

static bool takes(const dl_gemm_problem *p, dl_tiling *t, int operand) {
    dl_strip strip;
    if (!dl_gemm_strips(p, &p->operand[operand], dl_tiling_rows(t, operand), &strip)) return false;
    t->loader[operand] = &dl_loader_strip, t->tile_bytes[operand] = strip.bytes;
    return true;
}

/* The loader of an operand that a tiling for mma.sync leaves to others. */
static bool takes_rest(const dl_gemm_problem *p, dl_tiling *t, int operand) {
    return !t->wgmma && !t->halo.found && takes(p, t, operand);
}

/* The operand with more rows is loaded as strips, and each warp assembles its elements for all of
 * the other operand. */
static bool serves_mma(const dl_gemm_problem *p, dl_tiling *t) {
    return takes(p, t, t->bn > t->bm);
}

/* The operand that wgmma reads from registers, in whole warpgroups of its rows, with up to
 * MOST_OTHERS of the other one's; or -1. */
static int take_one(const dl_gemm_problem *p, dl_tiling *t) {
    for (int o = 0; o < 2; o++)
        if (dl_tiling_rows(t, 1 - o) <= MOST_OTHERS &&
            dl_tiling_rows(t, o) % (DL_ROWS_OF_WARP * t->wm) == 0 && takes(p, t, o))
            return o;
    return -1;
}

static bool serves_wgmma(const dl_gemm_problem *p, dl_tiling *t) { return take_one(p, t) >= 0; }

/* The same, with TMA tiles of the other operand. */
static bool serves_tma(const dl_gemm_problem *p, dl_tiling *t) {
    dl_tensor_map maps[DL_MAP_MOST];
    int o = take_one(p, t), other = 1 - o;
    if (o < 0 || !dl_gemm_tma_tiles(p, &p->operand[other], dl_tiling_rows(t, other), maps))
        return false;
    t->loader[other] = &dl_loader_tma_tile;
    return true;
}

/* Each warp assembles its elements itself. */
static double cost(const dl_gemm_problem *p, const dl_tiling *t, int operand) {
    (void)p;
    int warps = t->wgmma ? 1 : operand ? t->wm : t->wn;
    return GATHERED * dl_tiling_rows(t, operand) * warps;
}

static const dl_loading loadings[] = {
    {.how = "", .n = BY_MMA, .sizes = by_mma, .serves = serves_mma},
    {.how = " by strips and wgmma",
     .wgmma = true,
     .n = BY_WGMMA,
     .sizes = by_wgmma,
     .serves = serves_wgmma},
    {.how = " by strips, TMA and wgmma",
     .wgmma = true,
     .n = BY_WGMMA,
     .sizes = with_tma,
     .serves = serves_tma}};
const dl_loader dl_loader_strip = {.name = "strips",
                                   .words = &dl_loader_gather,
                                   .takes = takes_rest,
                                   .cost = cost,
                                   .put = put,
                                   .put_reader = dl_operand_put_reader,
                                   .n = 3,
                                   .loadings = loadings};
