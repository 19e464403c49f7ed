/* Which tiles a product is cut into, and how many blocks share the terms of each: all that there are, by the
 * time that they should take. */
#include <stdlib.h>

#include "compiler/cuda/emit_tiles.h"

enum {
    MULTIPROCESSORS = 132, /* of the GPUs that this is for: enough blocks for each */
    LEAST_TILES = 8,       /* in depth, that a block multiplies */
    MOST_SPLITS = 64,
    MOST_SHARES = 256, /* blocks that share the terms of a tile; of sums by themselves */
    BARRIER = 8        /* bytes */
};

/* Which products a row is for. */
typedef enum {
    ANY,
    HALVES, /* of 16 bits: two registers a sum are too many for it */
    GROUPS, /* by wgmma. No GPU has run it yet: never the cost model's choice, but there to be tried */
    BOXES,  /* the same, of operands that tensor maps bring; */
    IMAGES, /* images among them */
    ALONE   /* sums by themselves: bm * bn of them on the block's threads */
} kind;

/* Tiles by rows and columns, with how much of a multiprocessor's arithmetic by mma.sync each reaches: guesses
 * by how often an element in shared memory is used. */
static const struct {
    int bm, bn, wm, wn, stages;
    double reach;
    kind kind;
} tilings[] = {
    {128, 128, 2, 4, 4, 1.0, HALVES}, {128, 64, 4, 2, 4, 0.8, ANY},     {64, 128, 2, 4, 4, 0.8, ANY},
    {64, 64, 2, 2, 4, 0.65, ANY},     {128, 32, 4, 1, 4, 0.5, ANY},     {128, 8, 4, 1, 4, 0.2, ANY},
    {16, 128, 1, 4, 4, 0.3, ANY},     {128, 256, 8, 1, 5, 1.6, GROUPS}, {128, 128, 8, 1, 5, 1.5, GROUPS},
    {128, 64, 8, 1, 6, 1.2, GROUPS},  {128, 256, 8, 1, 5, 1.7, BOXES},  {128, 128, 8, 1, 5, 1.6, BOXES},
    {128, 64, 8, 1, 6, 1.3, BOXES},   {128, 256, 8, 1, 5, 1.8, IMAGES}, {128, 128, 8, 1, 5, 1.7, IMAGES},
    {128, 64, 8, 1, 6, 1.4, IMAGES},  {256, 128, 8, 1, 5, 1.6, GROUPS}, {256, 64, 8, 1, 5, 1.25, GROUPS},
    {256, 128, 8, 1, 5, 1.75, BOXES}, {256, 64, 8, 1, 5, 1.35, BOXES},  {256, 128, 8, 1, 5, 1.9, IMAGES},
    {256, 64, 8, 1, 5, 1.45, IMAGES}, {32, 32, 2, 4, 0, 0.02, ALONE},   {64, 32, 2, 4, 0, 0.025, ALONE}};
enum { NTILINGS = sizeof tilings / sizeof *tilings };

int64_t dl_tiling_shared(const dl_tiling *t) {
    int64_t tiles = (int64_t)t->stages * (t->bm + t->bn) * DL_LINE, sums = (int64_t)t->bm * (t->bn + 8) * 4;
    return dl_at_least(tiles, sums) + (t->boxes ? t->stages * BARRIER : 0);
}

int64_t dl_product_many(const dl_product *p) {
    return (p->alone ? 1 : p->number[DL_BATCH].size) * p->parities[0] * p->parities[1] * p->parities[2];
}

/* Of words in a tile's depth. */
static int64_t depth_of(const dl_product *p) { return DL_LINE / p->word; }
static int64_t tiles_of(const dl_product *p, const dl_tiling *t) {
    return dl_product_many(p) * t->mt * t->nt;
}

/* Shares the terms among about so many blocks, each of which has some to multiply. */
static void split(const dl_product *p, int64_t splits, dl_tiling *t) {
    int64_t k = p->number[DL_TERMS].size, depth = depth_of(p), terms = dl_ceil_div(k, depth);
    splits = dl_at_least(
        1, dl_at_most(dl_at_most(splits, terms / LEAST_TILES), p->alone ? MOST_SHARES : MOST_SPLITS));
    t->depth = dl_ceil_div(dl_at_least(terms, 1), splits) * depth;
    t->splits = dl_at_least(1, dl_ceil_div(k, t->depth));
}

/* In products of a multiprocessor. */
static double time_of(const dl_product *p, const dl_tiling *t, double reach) {
    int64_t tiles = tiles_of(p, t);
    double waves = (double)dl_ceil_div(tiles * t->splits, MULTIPROCESSORS);
    double time = waves * t->bm * t->bn * (double)(t->depth + 4 * depth_of(p)) / reach;
    if (t->splits > 1) /* written and read, 4 bytes a sum: some 200 products' time a multiprocessor */
        time += 400.0 * (double)tiles * t->bm * t->bn * (double)t->splits / MULTIPROCESSORS;
    return time;
}

static bool is_same(const dl_tiling *a, const dl_tiling *b) {
    return a->bm == b->bm && a->bn == b->bn && a->splits == b->splits && a->groups == b->groups &&
           a->boxes == b->boxes && a->images == b->images;
}

/* One more, as far as there is room: by its time among those behind the first. */
static int insert(dl_tiling *of, double *times, int n, const dl_tiling *t, double time) {
    int at = n, end = n < DL_MOST_VARIANTS ? n : n - 1;
    for (int i = 0; i < n; i++)
        if (is_same(&of[i], t)) return n;
    while (at > 1 && time < times[at - 1]) at--;
    if (at > end) return n;
    for (int i = end; i > at; i--) of[i] = of[i - 1], times[i] = times[i - 1];
    of[at] = *t, times[at] = time;
    return end + 1;
}

static bool is_by_groups(int i) {
    return tilings[i].kind == GROUPS || tilings[i].kind == BOXES || tilings[i].kind == IMAGES;
}

/* Tiles of row i of the table, whose terms as many blocks share as fill the multiprocessors twice. */
static dl_tiling tiling_of(const dl_product *p, int i) {
    dl_tiling t = {.bm = tilings[i].bm,
                   .bn = tilings[i].bn,
                   .wm = tilings[i].wm,
                   .wn = tilings[i].wn,
                   .stages = tilings[i].stages,
                   .groups = is_by_groups(i),
                   .boxes = tilings[i].kind == BOXES || tilings[i].kind == IMAGES,
                   .images = tilings[i].kind == IMAGES};
    t.mt = dl_ceil_div(p->number[DL_ROWS].size, t.bm), t.nt = dl_ceil_div(p->across.size, t.bn);
    int64_t tiles = tiles_of(p, &t);
    split(p, tiles < MULTIPROCESSORS ? 2 * MULTIPROCESSORS / dl_at_least(tiles, 1) : 1, &t);
    return t;
}

/* Can an operand come by tensor maps, of matrices or, which is none, an image? */
static bool has_boxes(const dl_product *p, int i, bool images) {
    dl_tensor_map maps[DL_MAP_MOST];
    for (int o = 0; o < 2; o++) {
        int rows = o ? tilings[i].bn : tilings[i].bm;
        bool boxes = dl_product_boxes(p, &p->operand[o], rows, maps);
        if (images ? !boxes && dl_product_images(p, &p->operand[o], rows, maps) : boxes) return true;
    }
    return false;
}

static bool serves(const dl_product *p, int i) {
    if (p->alone || tilings[i].kind == ALONE) return p->alone && tilings[i].kind == ALONE;
    return tilings[i].kind == ANY || (tilings[i].kind == HALVES && p->word == 2) ||
           (tilings[i].kind == GROUPS && p->has_groups) ||
           (tilings[i].kind == BOXES && p->has_groups && has_boxes(p, i, false)) ||
           (tilings[i].kind == IMAGES && p->has_groups && has_boxes(p, i, true));
}

int dl_product_tilings(const dl_product *p, dl_tiling *of) {
    double times[DL_MOST_VARIANTS] = {0};
    int n = 0;
    for (int i = 0; i < NTILINGS; i++) {
        if (is_by_groups(i) || !serves(p, i)) continue;
        dl_tiling t = tiling_of(p, i);
        double time = time_of(p, &t, tilings[i].reach);
        if (!n || time < times[0]) of[0] = t, times[0] = time, n = 1;
    }
    for (int i = 0; i < NTILINGS; i++) {
        if (!serves(p, i)) continue;
        const dl_tiling t = tiling_of(p, i);
        const int64_t shares[] = {t.splits, t.splits / 2, t.splits * 2};
        for (int k = 0; k < 3; k++) {
            dl_tiling other = t;
            split(p, shares[k], &other);
            n = insert(of, times, n, &other, time_of(p, &other, tilings[i].reach));
        }
    }
    return n;
}

const char *dl_tiling_name(const dl_tiling *t) {
    const char *how = t->images   ? " by TMA (im2col) and wgmma"
                      : t->boxes  ? " by TMA and wgmma"
                      : t->groups ? " by wgmma"
                                  : "";
    return t->splits > 1 ? dl_internf("%dx%d%s, terms in %lld", t->bm, t->bn, how, (long long)t->splits)
                         : dl_internf("%dx%d%s", t->bm, t->bn, how);
}
