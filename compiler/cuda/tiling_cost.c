/* The estimated time of a tiling, which orders a kernel's variants; cost.c has that of kernels. */
#include "compiler/cuda/gemm_matrix.h"
#include "compiler/cuda/loader.h"

int64_t dl_tiling_tiles(const dl_gemm_problem *p, const dl_tiling *t) {
    return (t->halo.found ? 1 : dl_gemm_batch(p)) * t->mt * t->nt;
}

/* A CTA has a fixed cost of some more K tiles: the prologue until the first tiles arrive, and the
 * epilogue, longer where no other CTA overlaps with it. Alone on an SM it reaches half the rate of
 * two. */
double dl_tiling_time(const dl_gemm_problem *p, const dl_tiling *t) {
    static const double begins[] = {0, 19, 7}, half = 0.54, share = 500;
    int per_sm = t->per_sm;
    int64_t tiles = dl_tiling_tiles(p, t),
            blocks = dl_ceil_div(tiles * t->splits, p->multiprocessors);
    double rows = t->bm * (double)(t->halo.found ? t->halo.stride_phases : 1);
    double products = rows * t->bn / t->reach; /* per K element */
    for (int o = 0; o < 2 && !t->halo.found; o++) products += t->loader[o]->cost(p, t, o);
    double one = products * ((double)t->depth + begins[per_sm] * (double)dl_gemm_depth(p));
    int64_t alone = per_sm == 1 ? 0 : t->alone ? blocks : blocks % per_sm;
    double time = one * ((double)(blocks - alone) + (double)alone / half);
    if (t->splits > 1) /* sums, 4 bytes each, are written and read */
        time += share * (double)tiles * t->bm * t->bn * (double)t->splits / p->multiprocessors;
    return time;
}
