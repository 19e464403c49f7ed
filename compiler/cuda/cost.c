#include "compiler/cuda/cuda.h"

/* What an H200 reached, measured (shared facts): tensor cores in bf16, f32 without them, memory; and a launch
 * within a graph. Rates of other GPUs are not known here. */
static const double tensor_tflops = 790, plain_tflops = 60, tbytes = 4.3, launch_us = 1.5;

double dl_cuda_predict(const dl_kernel *k, const dl_target *t) {
    bool contraction = dl_kernel_anchor(k) >= 0 || dl_kernel_call(k), low = false;
    (void)t;
    for (int i = 0; i < k->nin; i++) low |= dl_dtype_is_half(k->params.at[i].type.dtype);
    double peak = !contraction ? plain_tflops * 0.5 : low ? tensor_tflops * 0.6 : tensor_tflops * 0.3;
    double arithmetic = (double)k->flops / peak * 1e-6, traffic = (double)k->bytes / (tbytes * 0.8) * 1e-6;
    return (arithmetic > traffic ? arithmetic : traffic) + launch_us;
}
