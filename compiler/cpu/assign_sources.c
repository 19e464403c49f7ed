/* Assigns kernels' code to sources, which are compiled in parallel. */
#include "compiler/cpu/cpu.h"

enum { NSOURCES = 2 };

/* Each kernel to the source that has least text. */
int dl_cpu_assign_sources(int n, dl_piece *pieces, int threads) {
    (void)threads;
    size_t bytes[NSOURCES] = {0};
    for (int i = 0; i < n; i++) {
        int least = 0;
        for (int s = 1; s < NSOURCES; s++)
            if (bytes[s] < bytes[least]) least = s;
        pieces[i].source = least, bytes[least] += pieces[i].text.n;
    }
    return NSOURCES;
}
