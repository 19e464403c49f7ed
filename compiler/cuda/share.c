/* Which source a kernel's code goes into. Sources compile side by side, as many as there are
 * threads, and each takes some 25 ms beside its kernels. So there are few, even ones, of an amount
 * that depends on no machine: then the same kernels make the same sources, and the cache serves
 * them. Two threads have equal parts of an even number of equal sources. */
#include <stdlib.h>

#include "compiler/cuda/cuda.h"

enum {
    LETTERS = 75, /* of a function's text, that NVRTC compiles in a ms (fitted to 187 functions, rms
                     25 ms) */
    FUNCTION = 11, /* ms that it takes, whatever there is in it */
    SOURCE = 700   /* of a source, about */
};

static int weight_of(const dl_piece *p) {
    return FUNCTION * p->code.phases + (int)(p->text.n / LETTERS);
}

int dl_cuda_share(int n, dl_piece *pieces) {
    int all = 0;
    for (int i = 0; i < n; i++) all += weight_of(&pieces[i]), pieces[i].source = -1;
    int pairs = (all + SOURCE) / (2 * SOURCE), sources = n < 2 ? 1 : pairs < 1 ? 2 : 2 * pairs;
    int *filled = dl_malloc((size_t)sources * sizeof *filled);
    for (int s = 0; s < sources; s++) filled[s] = 0;
    for (int placed = 0; placed < n;
         placed++) { /* the longest that is left to the source that is least full */
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
