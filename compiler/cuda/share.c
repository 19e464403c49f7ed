/* Which source a kernel's code goes into. NVRTC takes some 20 ms for a source and its prelude, some 20 for a
 * kernel and more for one around tensor cores; sources compile side by side. So a source holds
 * a fixed amount, which depends on no machine: then the same kernels make the same sources, and the cache
 * serves them. */
#include "compiler/cuda/cuda.h"

enum { SOURCE_WEIGHT = 22 };

int dl_cuda_share(int n, dl_piece *pieces) {
    int source = 0, filled = 0;
    for (int i = 0; i < n; i++) {
        int weight = pieces[i].code.phases;
        if (filled && filled + weight > SOURCE_WEIGHT) source++, filled = 0;
        pieces[i].source = source, filled += weight;
    }
    return source + 1;
}
