/* The tilings of a GEMM, with split-K: all that are possible, by estimated time. */
#include "compiler/cuda/gemm_matrix.h"
#include "compiler/cuda/halo.h"
#include "compiler/cuda/loader.h"

enum {
    LEAST_TILES = 8,   /* K tiles per CTA, at least */
    MOST_SPLITS = 256, /* CTAs that share a tile's K; for direct kernels */
    BARRIER = 8        /* bytes */
};

static const dl_loader *const loaders[] = {
#define LOADER(id) &dl_loader_##id,
#include "compiler/cuda/loaders.def"
};
enum { NLOADERS = sizeof loaders / sizeof *loaders };

/* Halo kernels have a loop of their own, with as many columns as there are. */
static const dl_tile_size halos[] = {{256, 8, 4, 1, 2, 2, 0.65}, {128, 8, 4, 1, 2, 2, 0.60}};
static bool serves_halo(const dl_gemm_problem *p, dl_tiling *t) {
    if (!dl_gemm_halo(p, t->bm, &t->halo)) return false;
    t->bn = t->halo.columns;
    return true;
}
static const dl_loading halo = {.how = "", .n = 2, .sizes = halos, .serves = serves_halo};

int64_t dl_tiling_sums(const dl_tiling *t) {
    return (int64_t)t->bm * (t->bn + 8) * (int64_t)sizeof(float);
}

int64_t dl_tiling_shared(const dl_tiling *t) {
    int64_t left = t->tile_bytes[0] ? t->tile_bytes[0] : t->bm * DL_LINE,
            right = t->tile_bytes[1] ? t->tile_bytes[1] : t->bn * DL_LINE;
    return dl_at_least(t->stages * (left + right), dl_tiling_sums(t)) +
           (t->barriers ? t->stages * BARRIER : 0);
}

/* Whether a CTA's tiles fit into shared memory, and whether several of its size do. */
static bool fits(const dl_gemm_problem *p, dl_tiling *t) {
    const int64_t own = t->halo.found ? t->halo.shared : dl_tiling_shared(t);
    t->alone = t->per_sm * (own + DL_SHARED_OF_SYSTEM) > p->shared_of_sm;
    return own <= p->shared;
}

/* Splits K among about so many CTAs, such that each has enough. */
static void split(const dl_gemm_problem *p, int64_t splits, dl_tiling *t) {
    int64_t k = p->mode[DL_MODE_K].size, depth = dl_gemm_depth(p), terms = dl_ceil_div(k, depth);
    splits = dl_at_least(1, dl_at_most(dl_at_most(splits, terms / LEAST_TILES),
                                       p->direct ? MOST_SPLITS : 2 * p->multiprocessors));
    t->depth = dl_ceil_div(dl_at_least(terms, 1), splits) * depth;
    t->splits = dl_at_least(1, dl_ceil_div(k, t->depth));
}

static bool is_same(const dl_tiling *a, const dl_tiling *b) {
    return a->bm == b->bm && a->bn == b->bn && a->splits == b->splits && a->wgmma == b->wgmma &&
           a->halo.found == b->halo.found && a->loader[0] == b->loader[0] &&
           a->loader[1] == b->loader[1];
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

/* The loaders of the operands to which the tiling's own loader left none. */
static void take_rest(const dl_gemm_problem *p, dl_tiling *t) {
    for (int o = 0; o < 2; o++)
        for (int i = NLOADERS - 1; i >= 0 && !t->loader[o]; i--)
            if (loaders[i]->takes) loaders[i]->takes(p, t, o);
}

/* The tiling of a size, with split-K so that CTAs fill the SMs twice. False: the loading does not
 * serve the problem. */
static bool find(const dl_gemm_problem *p, const dl_loading *l, const dl_tile_size *s,
                 dl_tiling *t) {
    *t = (dl_tiling){.bm = s->bm,
                     .bn = s->bn,
                     .wm = s->wm,
                     .wn = s->wn,
                     .stages = s->stages,
                     .per_sm = s->per_sm,
                     .reach = s->reach,
                     .how = l->how,
                     .wgmma = l->wgmma};
    if (l->direct != p->direct || (l->wgmma && !p->has_wgmma) || !l->serves(p, t)) return false;
    take_rest(p, t);
    t->barriers = t->loader[0]->barriers || t->loader[1]->barriers;
    if (!fits(p, t)) return false;
    if (t->halo.found) {
        t->nt = 1;
        t->mt =
            p->mode[DL_MODE_M].at[0].size * t->halo.tiles[0] * t->halo.tiles[1] * t->halo.tiles[2];
        split(p, 1, t);
        return true;
    }
    t->mt = dl_ceil_div(p->mode[DL_MODE_M].size, t->bm),
    t->nt = dl_ceil_div(p->tile_columns.size, t->bn);
    int64_t tiles = dl_tiling_tiles(p, t);
    split(p, tiles < p->multiprocessors ? 2 * p->multiprocessors / dl_at_least(tiles, 1) : 1, t);
    return true;
}

static int insert_all(const dl_gemm_problem *p, const dl_loading *l, dl_tiling *of, int n) {
    for (int i = 0; i < l->n; i++) {
        dl_tiling t;
        if (!find(p, l, &l->sizes[i], &t)) continue;
        const int64_t splits[] = {t.splits, t.splits / 2, t.splits * 2};
        for (int k = 0; k < (t.halo.found ? 1 : 3); k++) {
            dl_tiling other = t;
            split(p, splits[k], &other);
            other.time = dl_tiling_time(p, &other);
            n = insert(of, n, &other);
        }
    }
    return n;
}

int dl_gemm_tilings(const dl_gemm_problem *p, dl_tiling *of) {
    int n = 0;
    for (int i = 0; i < NLOADERS; i++)
        for (int k = 0; k < loaders[i]->n; k++) n = insert_all(p, &loaders[i]->loadings[k], of, n);
    return insert_all(p, &halo, of, n);
}

const char *dl_tiling_name(const dl_tiling *t) {
    if (t->halo.found) return dl_internf("halos of %dx%d", t->bm, t->bn);
    return t->splits > 1
               ? dl_internf("%dx%d%s, terms in %lld", t->bm, t->bn, t->how, (long long)t->splits)
               : dl_internf("%dx%d%s", t->bm, t->bn, t->how);
}
