/* Which source a kernel's code goes into. NVRTC takes some 20 ms for a source and some 10 to 100 for a
 * kernel, and as many sources at a time as there are CPUs. */
#include "compiler/cuda/cuda.h"

enum { SOURCE_KERNELS = 12 /* a source, at most */ };

int dl_cuda_share(int n, dl_piece *pieces) {
    int sources = n < 2 ? 1 : (n + SOURCE_KERNELS - 1) / SOURCE_KERNELS;
    if (n > 1 && sources < 2) sources = 2;
    for (int i = 0; i < n; i++) pieces[i].source = i % sources;
    return sources;
}
