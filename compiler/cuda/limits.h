/* Register limits: compiles kernels that spill again with other launch bounds. */
#ifndef DL_CUDA_LIMITS_H
#define DL_CUDA_LIMITS_H
#include "compiler/cuda/nvrtc.h"
#include "compiler/target/target.h"

/* A part of the cache keys of dl_cuda_compile's results: change it with the method. */
#define DL_CUDA_LIMITS "blocks halved"

/* dl_nvrtc_compile for t->arch, and again with other launch bounds for the kernels of the source
 * that spill: first with the number of CTAs per SM that fits now as an explicit bound, then with
 * half as many, and so on to one. Of each kernel it takes the first result without spills, else the
 * one that spills least (of equals the first). A source without spills is compiled once, others two
 * to five times. The result depends on the source, t->arch and
 * t->registers alone. Kernels begin with DL_CUDA_HEAD.
 * `cubin` must be empty. */
bool dl_cuda_compile(const dl_nvrtc *n, const char *source, const dl_target *t, dl_buf *cubin,
                     dl_buf *log, dl_error *err);
#endif
