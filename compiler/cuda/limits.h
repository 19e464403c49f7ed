/* How many registers a kernel may take, where the limit that its text has makes it spill. */
#ifndef DL_CUDA_LIMITS_H
#define DL_CUDA_LIMITS_H
#include "compiler/cuda/nvrtc.h"

/* Stands in keys of what dl_cuda_compile makes: another text where it goes about it otherwise. */
#define DL_CUDA_LIMITS "blocks halved"

/* dl_nvrtc_compile, and again with other launch bounds for those kernels of the source that spill:
 * registers for as many blocks as fit beside each other now, said outright, then for half as many,
 * and so on to one. Of each kernel that is taken which does not spill, else what spills least, the
 * first one tried of equals. A source without spills is compiled once, others two to five times;
 * what comes out hangs on the source alone. Kernels are those that begin with DL_CUDA_HEAD. `cubin`
 * must be empty. */
bool dl_cuda_compile(const dl_nvrtc *n, const char *source, const char *arch, dl_buf *cubin,
                     dl_buf *log, dl_error *err);
#endif
