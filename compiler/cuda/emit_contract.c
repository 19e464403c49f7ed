/* Kernels around a contraction. */
#include "compiler/cuda/emit_cuda.h"

bool dl_cuda_contraction(dl_emitter *e, dl_emitted *code, dl_error *err) {
    (void)code;
    return dl_emit_refuse(e->k, &e->k->instrs.at[0], err,
                          "this version has no CUDA kernels for it [DL-E0803]");
}
