/* Assigns kernels' code to sources. Sources are compiled in parallel, and each compiles the
 * hand-written loops that its kernels use. */
#include "compiler/cpu/cpu.h"

enum { NSOURCES = 2 }; /* compiled at the same time */

/* Compile times of these loops, as bytes of kernels' text that take as long (gcc 12, Xeon with
 * AVX-512). */
static const size_t loops_bytes[DL_NLOOPS] = {[DL_LOOPS_IMAGE] = 18 << 10,
                                              [DL_LOOPS_WEIGHT] = 30 << 10,
                                              [DL_LOOPS_GROUP] = 30 << 10,
                                              [DL_LOOPS_PRODUCT] = 18 << 10,
                                              [DL_LOOPS_ATTENTION] = 60 << 10};

typedef struct {
    size_t bytes;        /* of text, with the loops' weight */
    bool has[DL_NLOOPS]; /* loops that it contains */
} source;

/* The source where a kernel with these loops adds the least time. `rest`: text that is assigned
 * later, and can balance what new loops cost. */
static int choose_source(const source *sources, dl_loops loops, size_t rest) {
    size_t least = SIZE_MAX;
    int best = 0;
    for (int s = 0; s < NSOURCES; s++) {
        size_t bytes =
            sources[s].bytes + (loops && !sources[s].has[loops] ? loops_bytes[loops] + rest : 0);
        if (bytes < least) least = bytes, best = s;
    }
    return best;
}

static bool is_around(const dl_piece *p, dl_loops loops) {
    return p->code.needs[DL_NEED_LOOPS] == 1u << loops;
}

/* Balances the sources' times with few loops compiled twice: first kernels with loops, beginning
 * with the kind that has most text, then those without. */
int dl_cpu_assign_sources(int n, dl_piece *pieces) {
    source sources[NSOURCES] = {0};
    size_t all[DL_NLOOPS] = {0}, rest = 0;
    bool done[DL_NLOOPS] = {0};
    for (int l = 0; l < DL_NLOOPS; l++) {
        all[l] = loops_bytes[l];
        for (int i = 0; i < n; i++)
            all[l] += is_around(&pieces[i], (dl_loops)l) ? pieces[i].text.n : 0;
    }
    for (int i = 0; i < n; i++) rest += pieces[i].text.n;
    for (int round = 0; round < DL_NLOOPS; round++) {
        dl_loops loops = DL_LOOPS_NONE;
        for (int l = 1; l < DL_NLOOPS; l++)
            if (!done[l] && (!loops || all[l] > all[loops])) loops = (dl_loops)l;
        done[loops] = true;
        for (int i = 0; i < n; i++) {
            if (!is_around(&pieces[i], loops)) continue;
            source *s = &sources[pieces[i].source = choose_source(sources, loops, rest)];
            s->bytes += pieces[i].text.n + (s->has[loops] ? 0 : loops_bytes[loops]);
            rest -= pieces[i].text.n;
            s->has[loops] = true;
        }
    }
    return NSOURCES;
}
