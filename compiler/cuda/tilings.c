/* The tilings of a GEMM, with split-K: all that are possible, by estimated time. */
#include <stdlib.h>

#include "compiler/cuda/gemm_matrix.h"
#include "compiler/cuda/halo.h"

enum {
    LEAST_TILES = 8,    /* K tiles per CTA, at least */
    STRIP_ELEMENT = 16, /* cost of assembling an element of a strip, in products, */
    READ = 250, /* and of copying or reading an element by itself: with fewer than 16 bytes */
    MOST_OTHERS = 128, /* rows that are multiplied with strips by wgmma */
    MOST_SPLITS = 256, /* CTAs that share a tile's K; for direct kernels */
    BARRIER = 8        /* bytes */
};

/* The GEMMs that a row is for. */
typedef enum {
    ANY,
    HALVES,     /* of 16 bits only: the row's sums would take two registers each */
    WGMMA,      /* by wgmma */
    TMA_TILES,  /* the same, with TMA tiles; */
    TMA_IM2COL, /* with TMA im2col */
    STRIPS, /* the operand with more rows is loaded as strips, and each warp assembles its elements
                for all of the other operand */
    STRIPS_WGMMA, /* one operand is loaded as strips, and multiplied by wgmma from registers; */
    STRIPS_TMA,   /* the same, with TMA tiles of the other one */
    HALO,         /* halo kernels; with as many columns as there are */
    DIRECT        /* direct: bm * bn sums on the CTA's threads */
} kind;

/* Tile sizes with their CTAs per SM, and the relative rate that they then reach, compared with
 * the original estimate for 128x128. Fitted, with the constants of time_of, to all variants of
 * 89 kernels (1,903 timings by the tuner) of models/unet.dl, vit.dl and resnet.dl in bf16 on an
 * H200; the choices then take 1% more than the fastest variants. */
static const struct {
    int bm, bn, wm, wn, stages, per_sm;
    double reach;
    kind kind;
} tilings[] = {{128, 128, 2, 4, 4, 2, 0.83, HALVES},       {128, 64, 4, 2, 4, 2, 0.65, ANY},
               {64, 128, 2, 4, 4, 2, 0.84, ANY},           {64, 64, 2, 2, 4, 2, 0.65, ANY},
               {128, 32, 4, 1, 4, 2, 0.32, ANY},           {128, 8, 4, 1, 4, 2, 0.21, ANY},
               {16, 128, 1, 4, 4, 2, 0.32, ANY},           {128, 256, 8, 1, 5, 1, 1.90, WGMMA},
               {128, 128, 8, 1, 5, 2, 1.43, WGMMA},        {128, 64, 8, 1, 6, 2, 1.13, WGMMA},
               {128, 256, 8, 1, 5, 1, 2.01, TMA_TILES},    {128, 128, 8, 1, 5, 2, 1.60, TMA_TILES},
               {128, 64, 8, 1, 6, 2, 1.22, TMA_TILES},     {128, 256, 8, 1, 5, 1, 2.35, TMA_IM2COL},
               {128, 128, 8, 1, 5, 2, 1.71, TMA_IM2COL},   {128, 64, 8, 1, 6, 2, 1.23, TMA_IM2COL},
               {256, 128, 8, 1, 5, 1, 1.75, WGMMA},        {256, 64, 8, 1, 5, 2, 1.20, WGMMA},
               {256, 128, 8, 1, 5, 1, 1.85, TMA_TILES},    {256, 64, 8, 1, 5, 2, 1.30, TMA_TILES},
               {256, 128, 8, 1, 5, 1, 2.10, TMA_IM2COL},   {256, 64, 8, 1, 5, 2, 1.40, TMA_IM2COL},
               {64, 192, 4, 1, 5, 2, 1.50, TMA_IM2COL},    {64, 256, 4, 1, 5, 2, 1.55, TMA_IM2COL},
               {256, 64, 8, 1, 4, 2, 0.83, STRIPS},        {64, 256, 1, 8, 4, 2, 0.83, STRIPS},
               {256, 64, 8, 1, 4, 2, 1.20, STRIPS_WGMMA},  {256, 64, 8, 1, 4, 2, 1.35, STRIPS_TMA},
               {64, 256, 8, 1, 4, 2, 1.20, STRIPS_WGMMA},  {64, 256, 8, 1, 4, 2, 1.35, STRIPS_TMA},
               {128, 128, 8, 1, 4, 2, 1.20, STRIPS_WGMMA}, {128, 128, 8, 1, 4, 2, 1.35, STRIPS_TMA},
               {256, 128, 8, 1, 4, 1, 1.40, STRIPS_WGMMA}, {256, 128, 8, 1, 4, 1, 1.55, STRIPS_TMA},
               {128, 256, 8, 1, 4, 1, 1.40, STRIPS_WGMMA}, {128, 256, 8, 1, 4, 1, 1.55, STRIPS_TMA},
               {256, 8, 4, 1, 2, 2, 0.65, HALO},           {128, 8, 4, 1, 2, 2, 0.60, HALO},
               {32, 32, 2, 4, 0, 2, 0.02, DIRECT},         {64, 32, 2, 4, 0, 2, 0.025, DIRECT}};
enum { NTILINGS = sizeof tilings / sizeof *tilings };

int64_t dl_tiling_sums(const dl_tiling *t) {
    return (int64_t)t->bm * (t->bn + 8) * (int64_t)sizeof(float);
}

int64_t dl_tiling_shared(const dl_tiling *t) {
    int64_t left = t->strip_bytes[0] ? t->strip_bytes[0] : t->bm * DL_LINE,
            right = t->strip_bytes[1] ? t->strip_bytes[1] : t->bn * DL_LINE;
    return dl_at_least(t->stages * (left + right), dl_tiling_sums(t)) +
           (t->tma_tiles ? t->stages * BARRIER : 0);
}

/* Elements in a tile's depth. */
static int64_t depth_of(const dl_gemm_problem *p) { return DL_LINE / p->word; }
static int64_t tiles_of(const dl_gemm_problem *p, const dl_tiling *t) {
    return (t->halo.found ? 1 : dl_gemm_batch(p)) * t->mt * t->nt;
}

/* Splits K among about so many CTAs, such that each has enough. */
static void split(const dl_gemm_problem *p, int64_t splits, dl_tiling *t) {
    int64_t k = p->mode[DL_MODE_K].size, depth = depth_of(p), terms = dl_ceil_div(k, depth);
    splits = dl_at_least(1, dl_at_most(dl_at_most(splits, terms / LEAST_TILES),
                                       p->direct ? MOST_SPLITS : 2 * p->multiprocessors));
    t->depth = dl_ceil_div(dl_at_least(terms, 1), splits) * depth;
    t->splits = dl_at_least(1, dl_ceil_div(k, t->depth));
}

/* In products of one SM. A CTA has a fixed cost of some more K tiles: the prologue until the
 * first tiles arrive, and the epilogue, longer where no other CTA overlaps with it. Alone on an
 * SM it reaches half the rate of two. */
static double time_of(const dl_gemm_problem *p, const dl_tiling *t, int i) {
    static const double begins[] = {0, 19, 7}, half = 0.54, share = 500;
    int per_sm = tilings[i].per_sm;
    int64_t tiles = tiles_of(p, t), blocks = dl_ceil_div(tiles * t->splits, p->multiprocessors);
    double rows = t->bm * (double)(t->halo.found ? t->halo.stride_phases : 1);
    double products = rows * t->bn / tilings[i].reach; /* per K element */
    for (int o = 0; o < 2; o++) { /* each warp assembles its strip's elements itself */
        int lines = o ? t->bn : t->bm, bytes = p->operand[o].bytes,
            words = bytes ? bytes / p->word : 1;
        if (t->strip_bytes[o])
            products += STRIP_ELEMENT * lines * (t->wgmma ? 1 : o ? t->wm : t->wn);
        if (!t->strip_bytes[o] && !t->halo.found && bytes < 16) products += READ * lines / words;
    }
    double one = products * ((double)t->depth + begins[per_sm] * (double)depth_of(p));
    double time = one * ((double)(blocks / per_sm * per_sm) + (double)(blocks % per_sm) / half);
    if (t->splits > 1) /* sums, 4 bytes each, are written and read */
        time += share * (double)tiles * t->bm * t->bn * (double)t->splits / p->multiprocessors;
    return time;
}

static bool is_same(const dl_tiling *a, const dl_tiling *b) {
    return a->bm == b->bm && a->bn == b->bn && a->splits == b->splits && a->wgmma == b->wgmma &&
           a->tma_tiles == b->tma_tiles && a->tma_im2col == b->tma_im2col &&
           a->halo.found == b->halo.found && !a->strip_bytes[0] == !b->strip_bytes[0] &&
           !a->strip_bytes[1] == !b->strip_bytes[1];
}

/* Inserts one by its time, if there is room. */
static int insert(dl_tiling *of, int n, const dl_tiling *t) {
    int at = n, end = n < DL_MOST_VARIANTS ? n : n - 1;
    for (int i = 0; i < n; i++)
        if (is_same(&of[i], t)) return n;
    while (at > 0 && t->time < of[at - 1].time) at--;
    if (at > end) return n;
    for (int i = end; i > at; i--) of[i] = of[i - 1];
    of[at] = *t;
    return end + 1;
}

static bool is_by_wgmma(int i) {
    return tilings[i].kind == WGMMA || tilings[i].kind == TMA_TILES ||
           tilings[i].kind == TMA_IM2COL || tilings[i].kind == STRIPS_WGMMA ||
           tilings[i].kind == STRIPS_TMA;
}

/* The operand that is loaded as strips for wgmma, which takes whole warpgroups of its rows, and up
 * to MOST_OTHERS of the other one's; or -1. */
static int strips_of_wgmma(const dl_gemm_problem *p, int i) {
    dl_strip strip;
    for (int o = 0; o < 2; o++) {
        int rows = o ? tilings[i].bn : tilings[i].bm, others = o ? tilings[i].bm : tilings[i].bn;
        if (others <= MOST_OTHERS && rows % (DL_ROWS_OF_WARP * tilings[i].wm) == 0 &&
            dl_gemm_strips(p, &p->operand[o], rows, &strip))
            return o;
    }
    return -1;
}

/* The tiling of row i of the table, with split-K so that CTAs fill the SMs twice. */
static dl_tiling tiling_of(const dl_gemm_problem *p, int i) {
    dl_tiling t = {.bm = tilings[i].bm,
                   .bn = tilings[i].bn,
                   .wm = tilings[i].wm,
                   .wn = tilings[i].wn,
                   .stages = tilings[i].stages,
                   .wgmma = is_by_wgmma(i),
                   .tma_tiles = tilings[i].kind == TMA_TILES || tilings[i].kind == TMA_IM2COL ||
                                tilings[i].kind == STRIPS_TMA,
                   .tma_im2col = tilings[i].kind == TMA_IM2COL};
    if (tilings[i].kind == HALO) {
        dl_gemm_halo(p, t.bm, &t.halo);
        t.bn = t.halo.columns, t.nt = 1;
        t.mt = p->mode[DL_MODE_M].at[0].size * t.halo.tiles[0] * t.halo.tiles[1] * t.halo.tiles[2];
        split(p, 1, &t);
        return t;
    }
    bool some = tilings[i].kind == STRIPS_WGMMA || tilings[i].kind == STRIPS_TMA;
    int only = some ? strips_of_wgmma(p, i) : -1;
    for (int o = 0; o < 2; o++) {
        dl_strip strip_bytes;
        if (t.wgmma && o != only) continue;
        if (dl_gemm_strips(p, &p->operand[o], o ? t.bn : t.bm, &strip_bytes))
            t.strip_bytes[o] = strip_bytes.bytes;
    }
    t.mt = dl_ceil_div(p->mode[DL_MODE_M].size, t.bm),
    t.nt = dl_ceil_div(p->tile_columns.size, t.bn);
    int64_t tiles = tiles_of(p, &t);
    split(p, tiles < p->multiprocessors ? 2 * p->multiprocessors / dl_at_least(tiles, 1) : 1, &t);
    return t;
}

/* Can TMA load an operand as a matrix or an image; and is one not a matrix? An image with one
 * tap is both. */
static bool has_tma_tiles(const dl_gemm_problem *p, int i) {
    dl_tensor_map maps[DL_MAP_MOST];
    return dl_gemm_tma_tiles(p, &p->operand[0], tilings[i].bm, maps) ||
           dl_gemm_tma_tiles(p, &p->operand[1], tilings[i].bn, maps);
}
static bool has_im2col(const dl_gemm_problem *p, int i, bool direct) {
    dl_tensor_map maps[DL_MAP_MOST];
    bool any = false;
    for (int o = 0; o < 2; o++) {
        int rows = o ? tilings[i].bn : tilings[i].bm;
        any |= dl_gemm_tma_im2col(p, &p->operand[o], rows, maps) &&
               !(direct && dl_gemm_tma_tiles(p, &p->operand[o], rows, maps));
    }
    return any;
}

/* The row whose rate applies: images that are matrices are as fast as those. */
static int reach_of(const dl_gemm_problem *p, int i) {
    if (tilings[i].kind != TMA_IM2COL || has_im2col(p, i, true)) return i;
    for (int k = 0; k < NTILINGS; k++)
        if (tilings[k].kind == TMA_TILES && tilings[k].bm == tilings[i].bm &&
            tilings[k].bn == tilings[i].bn)
            return k;
    return i;
}

static bool has_strips(const dl_gemm_problem *p, int i) {
    int wide = tilings[i].bn > tilings[i].bm;
    dl_strip strip_bytes;
    return dl_gemm_strips(p, &p->operand[wide], wide ? tilings[i].bn : tilings[i].bm, &strip_bytes);
}

/* The same for wgmma, with TMA tiles of the other operand? */
static bool has_strips_with_tma(const dl_gemm_problem *p, int i) {
    int o = strips_of_wgmma(p, i);
    dl_tensor_map maps[DL_MAP_MOST];
    return o >= 0 &&
           dl_gemm_tma_tiles(p, &p->operand[1 - o], o ? tilings[i].bm : tilings[i].bn, maps);
}

static bool serves(const dl_gemm_problem *p, int i) {
    if (p->direct || tilings[i].kind == DIRECT) return p->direct && tilings[i].kind == DIRECT;
    return tilings[i].kind == ANY || (tilings[i].kind == HALVES && p->word == 2) ||
           (tilings[i].kind == STRIPS && has_strips(p, i)) ||
           (tilings[i].kind == HALO && dl_gemm_halo(p, tilings[i].bm, &(dl_halo){0})) ||
           (tilings[i].kind == STRIPS_WGMMA && p->has_wgmma && strips_of_wgmma(p, i) >= 0) ||
           (tilings[i].kind == STRIPS_TMA && p->has_wgmma && has_strips_with_tma(p, i)) ||
           (tilings[i].kind == WGMMA && p->has_wgmma) ||
           (tilings[i].kind == TMA_TILES && p->has_wgmma && has_tma_tiles(p, i)) ||
           (tilings[i].kind == TMA_IM2COL && p->has_wgmma &&
            (p->word == 2 || tilings[i].bm > DL_ROWS_OF_GROUP) && has_im2col(p, i, false));
}

int dl_gemm_tilings(const dl_gemm_problem *p, dl_tiling *of) {
    int n = 0;
    for (int i = 0; i < NTILINGS; i++) {
        if (!serves(p, i)) continue;
        const dl_tiling t = tiling_of(p, i);
        int reach = reach_of(p, i);
        const int64_t splits[] = {t.splits, t.splits / 2, t.splits * 2};
        for (int k = 0; k < (t.halo.found ? 1 : 3); k++) {
            dl_tiling other = t;
            split(p, splits[k], &other);
            other.time = time_of(p, &other, reach);
            n = insert(of, n, &other);
        }
    }
    return n;
}

const char *dl_tiling_name(const dl_tiling *t) {
    if (t->halo.found) return dl_internf("halos of %dx%d", t->bm, t->bn);
    bool strips = t->wgmma && (t->strip_bytes[0] || t->strip_bytes[1]);
    const char *how = strips ? t->tma_tiles ? " by strips, TMA and wgmma" : " by strips and wgmma"
                      : t->tma_im2col ? " by TMA (im2col) and wgmma"
                      : t->tma_tiles  ? " by TMA and wgmma"
                      : t->wgmma      ? " by wgmma"
                                      : "";
    return t->splits > 1
               ? dl_internf("%dx%d%s, terms in %lld", t->bm, t->bn, how, (long long)t->splits)
               : dl_internf("%dx%d%s", t->bm, t->bn, how);
}
