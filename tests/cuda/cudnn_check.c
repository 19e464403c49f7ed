/* Prints libcudnn's answers to our descriptions without a GPU, for check_library.py: a line, and
 * one for each that it refuses. Convolutions of each kind are described as
 * runtime/cuda/cudnn_plan.c does it; since 9.8 for a device that is described, too, so that
 * heuristics propose engines, which must become plans again from their words. Then it is asked to
 * begin. CUDNN_CHECK_SAYS=1 prints what is proposed. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cuda/cudnn.h"

static int bad;

/* In channels last. */
static dl_call describe(dl_tensor makes, int spatial, int64_t groups, dl_dtype type) {
    dl_call call = {.what = DL_CALLED_CONVOLUTION};
    dl_convolution *c = &call.convolution;
    *c =
        (dl_convolution){.makes = makes, .size = {.samples = 3, .groups = groups, .c = 16, .o = 8}};
    for (int i = 0; i < 3; i++) {
        bool is = i >= 3 - spatial;
        c->size.in[i] = is ? 12 : 1, c->size.tap[i] = is ? 3 : 1, c->size.out[i] = is ? 5 : 1;
        c->size.stride[i] = is ? 2 : 1, c->size.dilation[i] = is ? 2 : 1,
        c->size.pad_lo[i] = c->size.pad_hi[i] = is;
    }
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++) {
        static const int inwards[DL_TENSOR_AXES] = {1, 4, 3, 2, 0};
        int64_t size[DL_TENSOR_AXES], step = 1;
        dl_convolution_sizes(c, t, size);
        c->of[t].dtype = type;
        for (int i = 0; i < DL_TENSOR_AXES; i++)
            c->of[t].step[inwards[i]] = step, step *= size[inwards[i]];
    }
    return call;
}

/* An H200, by its data sheet, in the words in which cuDNN writes devices down. */
static const char h200[] =
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
    "\"deviceVer\": 900, "
    "\"driverVer\": 13000, \"cudaDeviceId\": 0, \"totalGlobalMem\": 150000000000, "
    "\"regsPerBlock\": 65536, "
    "\"multiProcessorCount\": 132, \"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000, "
    "\"l2CacheSize\": 62914560, \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "
    "\"maxSharedMemoryPerBlockOptin\": 232448, \"reservedSharedMemoryPerBlock\": 1024, "
    "\"maxRegistersPerSM\": 65536, \"pciDeviceId\": 9013, \"maxCtasPerSM\": 32, "
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, "
    "\"supportCoopLaunch\": 1, \"oversizedSharedMemoryPerBlock\": 0, \"deviceName\": \"NVIDIA "
    "H200\"}";

static dlr_dnn_desc device_of(const dlr_cudnn *l) {
    const dlr_dnn_attribute json = {DLR_DNN_DEVICEPROP_JSON_REPRESENTATION, DLR_DNN_TYPE_CHAR,
                                    sizeof h200 - 1, h200};
    dlr_dnn_desc to = NULL;
    return dlr_dnn_make(l, &to, DLR_DNN_DEVICEPROP, 1, &json) ? NULL : to;
}

static int proposed;

/* `is`: a convolution at all. Of one group each kind has a plan. */
static void try(const dlr_cudnn *l, dlr_dnn_desc device, dl_call call, bool is) {
    enum { MOST = 3 };
    const dl_convolution *c = &call.convolution;
    dlr_dnn_work w = {.l = l, .device = device, .call = call};
    dl_algorithm some[MOST];
    int status = dlr_dnn_describe(&w),
        n = status || !device ? 0 : dlr_dnn_candidates(&w, MOST, some);
    bool right = (w.graph != NULL) == is &&
                 (!device || ((status == 0) == is && (n || c->size.groups > 1 || !is)));
    if (!right || getenv("CUDNN_CHECK_SAYS"))
        printf("tensor %d made, sizes %lld %lld %lld, %lld groups, type %d%s: %s, %d plans\n",
               (int)c->makes, (long long)c->size.in[0], (long long)c->size.in[1],
               (long long)c->size.in[2], (long long)c->size.groups, (int)c->of[c->makes].dtype,
               c->tf32 ? " in TF32" : "", l->GetErrorString(status), n);
    for (int i = 0; i < n && getenv("CUDNN_CHECK_SAYS"); i++)
        printf("    %s: workspace %lld\n", dl_algorithm_name(&some[i]),
               (long long)some[i].workspace);
    bad += !right, proposed += n;
    dlr_dnn_end(&w);
}

int main(void) {
    dl_error err = {0};
    const dlr_cudnn *l = dlr_cudnn_load(&err);
    if (!l) return printf("%s\n", err.message), 77;
    dlr_dnn_desc device = l->version >= 90800 ? device_of(l) : NULL;
    static const dl_dtype types[] = {DL_F32, DL_F32, DL_BF16, DL_F16};
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++)
        for (int spatial = 1; spatial <= 3; spatial++)
            for (int64_t groups = 1; groups <= 4; groups += 3)
                for (int type = 0; type < 4; type++) {
                    dl_call call = describe(t, spatial, groups, types[type]);
                    call.convolution.tf32 = type == 1;
                    try(l, device, call, true);
                }
    dl_call wrong = describe(DL_TENSOR_Y, 2, 1, DL_F32);
    wrong.convolution.size.out[2]++;
    try(l, device, wrong, false);
    dlr_dnn_handle handle = NULL;
    int status = l->Create(&handle);
    printf("%s: %d descriptions refused; it begins: %s; %d plans for %s\n", l->path, bad,
           status ? l->GetErrorString(status) : "yes", proposed, device ? "an H200" : "none");
    return bad != 0;
}
