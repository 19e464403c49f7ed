/* The parts of which the stand-in of cuDNN (cudnn_standin.c) makes its convolutions. */
#ifndef CUDNN_STANDIN_H
#define CUDNN_STANDIN_H
#include "runtime/cuda/cudnn.h"
#include "tests/cuda/standin.h"

enum { EXACT, CORES, LOOSE, TRANSFORMED, ENGINES };
enum {
    VERSION = 92600,
    SPLIT_K_SLC = 17,
    MOST_SPLITS = 4,
    WINOGRAD = 5,
    MOST = 16,
    ATTRIBUTES = 8,
    AXES = 5
};

typedef struct {
    int type, n;
    int64_t name, alignment, size[AXES], step[AXES];
} tensor;
typedef struct {
    dl_tensor makes;
    int spatial;
    tensor of[DL_NTENSORS];
    int64_t stride[3], dilation[3], lo[3], hi[3];
} relation;

/* A plan that is put into a stream. */
typedef struct {
    relation r;
    uint64_t at[DL_NTENSORS], workspace;
    int64_t engine, splits;
} job;

/* Makes it: of a job. */
void cudnn_standin_run(void *of);
/* Bytes from a tensor's first element to after its last one. */
size_t cudnn_standin_reach(const tensor *t);
dl_dtype cudnn_standin_dtype(int type);
#endif
