/* Assigns kernels' code to sources, which compile in parallel on all threads, each with an
 * overhead of some 25 ms. So there are few sources of equal size, in an even number, so that two
 * threads have equal parts; and more only where there are threads for them. Machines with up to
 * four threads have the same sources, which the cache serves. */
#include <stdlib.h>

#include "compiler/cuda/cuda.h"

enum {
    LETTERS = 75,  /* characters of a function that NVRTC compiles in a ms (fitted to 187 functions,
                      rms 25 ms) */
    FUNCTION = 11, /* ms per function, whatever its length */
    SOURCE = 700,  /* ms per source, about; */
    LEAST = 180,   /* where there are more threads than such sources: at least */
    FEW = 4        /* threads, for which sources are not made smaller */
};

static int weight_of(const dl_piece *p) {
    return FUNCTION * p->code.phases + (int)(p->text.n / LETTERS);
}

/* The number of sources for functions that take so many ms. */
static int count_sources(int n, int all, int threads) {
    if (!threads) return 1 + all / (2 * SOURCE);
    int pairs = (all + SOURCE) / (2 * SOURCE), few = n < 2 ? 1 : pairs < 1 ? 2 : 2 * pairs;
    int most = all / LEAST < n ? all / LEAST : n, sources = threads < most ? threads : most;
    return threads > FEW && sources > few ? sources : few;
}

int dl_cuda_assign_sources(int n, dl_piece *pieces, int threads) {
    int all = 0;
    for (int i = 0; i < n; i++) all += weight_of(&pieces[i]), pieces[i].source = -1;
    int sources = count_sources(n, all, threads);
    int *filled = dl_malloc((size_t)sources * sizeof *filled);
    for (int s = 0; s < sources; s++) filled[s] = 0;
    for (int placed = 0; placed < n;
         placed++) { /* the longest remaining piece goes to the least full source */
        int longest = -1, least = 0;
        for (int i = 0; i < n; i++)
            if (pieces[i].source < 0 &&
                (longest < 0 || weight_of(&pieces[i]) > weight_of(&pieces[longest])))
                longest = i;
        for (int s = 1; s < sources; s++)
            if (filled[s] < filled[least]) least = s;
        pieces[longest].source = least, filled[least] += weight_of(&pieces[longest]);
    }
    free(filled);
    return sources;
}
