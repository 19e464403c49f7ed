/* cuDNN's backend as a table of functions: libcudnn.so.9, loaded at run time.
 *
 * It uses the backend interface (a graph of operations, engines with their knobs, execution plans).
 * The legacy calls such as cudnnConvolutionForward are deprecated since 9.0, take one padding for
 * both ends, and round 16-bit results before an epilogue in f32. An algorithm here is an engine and
 * its knobs. Engines report by notes whether they give the same bits each time, and the arithmetic
 * that they use.
 *
 * The header declares the functions that are used here with the prototypes of cuDNN's documentation
 * (docs.nvidia.com, "NVIDIA cuDNN Backend API", "cudnn_graph library"; cudnn_graph.h of 9.19 and
 * 9.26). The build needs no header of CUDA. Names are cuDNN's without `cudnn`.
 * tests/cuda/cudnn_header.c compares them with a header where one is found. */
#ifndef DLR_CUDNN_H
#define DLR_CUDNN_H
#include "runtime/cuda/library.h"
#include "runtime/driver/driver.h"

/* The environment variable that names its file. */
#define DLR_CUDNN_OVERRIDE "DLR_CUDNN"

typedef struct cudnnContext *dlr_dnn_handle;
typedef void *dlr_dnn_desc;

enum {
    DLR_DNN_SUCCESS = 0,
    DLR_DNN_NOT_INITIALIZED = 1001,
    DLR_DNN_BAD_PARAM = 2000,
    DLR_DNN_BAD_PARAM_NOT_FINALIZED = 2004,
    DLR_DNN_NOT_SUPPORTED = 3000,
    DLR_DNN_HOST_ALLOCATION_FAILED = 4003,
    DLR_DNN_EXECUTION_FAILED = 5000,

    /* types of data */
    DLR_DNN_FLOAT = 0,
    DLR_DNN_HALF = 2,
    DLR_DNN_BFLOAT16 = 9,

    /* descriptors */
    DLR_DNN_CONVOLUTION = 1,
    DLR_DNN_ENGINE = 2,
    DLR_DNN_ENGINECFG = 3,
    DLR_DNN_ENGINEHEUR = 4,
    DLR_DNN_EXECUTION_PLAN = 5,
    DLR_DNN_KNOB_CHOICE = 7,
    DLR_DNN_FORWARD = 10, /* operations */
    DLR_DNN_BACKWARD_FILTER = 11,
    DLR_DNN_BACKWARD_DATA = 12,
    DLR_DNN_OPERATIONGRAPH = 15,
    DLR_DNN_VARIANT_PACK = 16,
    DLR_DNN_TENSOR = 17,
    DLR_DNN_DEVICEPROP = 38,

    /* types of attributes */
    DLR_DNN_TYPE_HANDLE = 0,
    DLR_DNN_TYPE_DATA_TYPE = 1,
    DLR_DNN_TYPE_INT64 = 3,
    DLR_DNN_TYPE_FLOAT = 4,
    DLR_DNN_TYPE_VOID_PTR = 6,
    DLR_DNN_TYPE_CONVOLUTION_MODE = 7,
    DLR_DNN_TYPE_HEUR_MODE = 8,
    DLR_DNN_TYPE_KNOB_TYPE = 9,
    DLR_DNN_TYPE_NUMERICAL_NOTE = 11,
    DLR_DNN_TYPE_DESCRIPTOR = 15,
    DLR_DNN_TYPE_CHAR = 24,

    /* attributes of a convolution */
    DLR_DNN_CONVOLUTION_COMP_TYPE = 100,
    DLR_DNN_CONVOLUTION_CONV_MODE = 101,
    DLR_DNN_CONVOLUTION_DILATIONS = 102,
    DLR_DNN_CONVOLUTION_FILTER_STRIDES = 103,
    DLR_DNN_CONVOLUTION_POST_PADDINGS = 104,
    DLR_DNN_CONVOLUTION_PRE_PADDINGS = 105,
    DLR_DNN_CONVOLUTION_SPATIAL_DIMS = 106,
    DLR_DNN_CROSS_CORRELATION = 1,

    /* attributes of heuristics, of an engine and its choices, of a plan */
    DLR_DNN_ENGINEHEUR_MODE = 200,
    DLR_DNN_ENGINEHEUR_OPERATION_GRAPH = 201,
    DLR_DNN_ENGINEHEUR_RESULTS = 202,
    DLR_DNN_ENGINEHEUR_DEVICEPROP = 204,
    DLR_DNN_HEUR_MODE_FALLBACK = 2,
    DLR_DNN_HEUR_MODE_A = 3,
    DLR_DNN_ENGINECFG_ENGINE = 300,
    DLR_DNN_ENGINECFG_KNOB_CHOICES = 302,
    DLR_DNN_EXECUTION_PLAN_HANDLE = 400,
    DLR_DNN_EXECUTION_PLAN_ENGINE_CONFIG = 401,
    DLR_DNN_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    DLR_DNN_EXECUTION_PLAN_DEVICEPROP = 407,
    DLR_DNN_KNOB_CHOICE_KNOB_TYPE = 600,
    DLR_DNN_KNOB_CHOICE_KNOB_VALUE = 601,
    DLR_DNN_ENGINE_OPERATION_GRAPH = 1300,
    DLR_DNN_ENGINE_GLOBAL_INDEX = 1301,
    DLR_DNN_ENGINE_NUMERICAL_NOTE = 1303,
    DLR_DNN_ENGINE_DEVICEPROP = 1307,
    DLR_DNN_DEVICEPROP_JSON_REPRESENTATION = 2702,
    DLR_DNN_NOTE_TENSOR_CORE = 0,
    DLR_DNN_NOTE_NONDETERMINISTIC = 4,
    DLR_DNN_NOTE_STRICT_NAN_PROP = 9,

    /* attributes of operations: alpha, beta, the convolution and its tensors */
    DLR_DNN_FORWARD_ALPHA = 700,
    DLR_DNN_FORWARD_BETA = 701,
    DLR_DNN_FORWARD_CONV_DESC = 702,
    DLR_DNN_FORWARD_W = 703,
    DLR_DNN_FORWARD_X = 704,
    DLR_DNN_FORWARD_Y = 705,
    DLR_DNN_BWD_DATA_ALPHA = 706,
    DLR_DNN_BWD_DATA_BETA = 707,
    DLR_DNN_BWD_DATA_CONV_DESC = 708,
    DLR_DNN_BWD_DATA_W = 709,
    DLR_DNN_BWD_DATA_DX = 710,
    DLR_DNN_BWD_DATA_DY = 711,
    DLR_DNN_BWD_FILTER_ALPHA = 712,
    DLR_DNN_BWD_FILTER_BETA = 713,
    DLR_DNN_BWD_FILTER_CONV_DESC = 714,
    DLR_DNN_BWD_FILTER_DW = 715,
    DLR_DNN_BWD_FILTER_X = 716,
    DLR_DNN_BWD_FILTER_DY = 717,

    /* attributes of a graph, of a tensor, of a variant pack */
    DLR_DNN_OPERATIONGRAPH_HANDLE = 800,
    DLR_DNN_OPERATIONGRAPH_OPS = 801,
    DLR_DNN_TENSOR_BYTE_ALIGNMENT = 900,
    DLR_DNN_TENSOR_DATA_TYPE = 901,
    DLR_DNN_TENSOR_DIMENSIONS = 902,
    DLR_DNN_TENSOR_STRIDES = 903,
    DLR_DNN_TENSOR_UNIQUE_ID = 906,
    DLR_DNN_VARIANT_PACK_UNIQUE_IDS = 1000,
    DLR_DNN_VARIANT_PACK_DATA_POINTERS = 1001,
    DLR_DNN_VARIANT_PACK_WORKSPACE = 1003,

    DLR_DNN_LEAST = 90000 /* 9.0 */
};

/* X(name, result, arguments): the functions. Types, attributes and results are enums in
 * cudnn_graph.h. */
#define DLR_CUDNN_FUNCTIONS(X)                                                                     \
    X(GetVersion, size_t, (void))                                                                  \
    X(GetErrorString, const char *, (int status))                                                  \
    X(Create, int, (dlr_dnn_handle * handle))                                                      \
    X(Destroy, int, (dlr_dnn_handle handle))                                                       \
    X(SetStream, int, (dlr_dnn_handle handle, dlr_cu_stream s))                                    \
    X(BackendCreateDescriptor, int, (int type, dlr_dnn_desc *desc))                                \
    X(BackendDestroyDescriptor, int, (dlr_dnn_desc desc))                                          \
    X(BackendSetAttribute, int,                                                                    \
      (dlr_dnn_desc desc, int what, int type, int64_t n, const void *values))                      \
    X(BackendGetAttribute, int,                                                                    \
      (dlr_dnn_desc desc, int what, int type, int64_t most, int64_t *n, void *values))             \
    X(BackendFinalize, int, (dlr_dnn_desc desc))                                                   \
    X(BackendExecute, int, (dlr_dnn_handle handle, dlr_dnn_desc plan, dlr_dnn_desc pack))

typedef struct {
#define FIELD(name, result, arguments) result(*name) arguments;
    DLR_CUDNN_FUNCTIONS(FIELD)
#undef FIELD
    int64_t version; /* 92600: 9.26.0 */
    const char *path;
} dlr_cudnn;

/* Loads the library once; it is never unloaded. Errors (DL_RESOURCE): none found, or older than
 * 9.0. */
const dlr_cudnn *dlr_cudnn_load(dl_error *err);

/* ---- cudnn_plan.c ---- */

/* The most knobs of an engine that an algorithm's words can hold in addition to its number. */
enum { DLR_DNN_KNOBS = 2 * (DL_ALGORITHM_WORDS - 1) };

/* A convolution as cuDNN's descriptors, which are NULL until they are made. */
typedef struct {
    const dlr_cudnn *l;
    dlr_dnn_handle handle; /* of the device; NULL: */
    /* a described device (DEVICEPROP, since 9.8), for plans that are not run */
    dlr_dnn_desc device;
    dl_call call;
    /* descriptors of the operation */
    dlr_dnn_desc tensor[DL_NTENSORS], convolution, operation, graph;
    dlr_dnn_desc knob[DLR_DNN_KNOBS], engine, config, plan; /* descriptors of the plan */
} dlr_dnn_work;

/* Describes the convolution up to its graph. Both return a status; the caller must end the work in
 * any case. */
int dlr_dnn_describe(dlr_dnn_work *w);
/* Makes the plan of an algorithm, replacing the previous one. *workspace: the bytes that it
 * takes. */
int dlr_dnn_make_plan(dlr_dnn_work *w, const dl_algorithm *algorithm, int64_t *workspace);
/* The algorithms that cuDNN's heuristics propose, without those that are not deterministic or not
 * in f32; returns their number, at most `most`. */
int dlr_dnn_candidates(dlr_dnn_work *w, int most, dl_algorithm *to);
void dlr_dnn_end(dlr_dnn_work *w);

/* A finalized descriptor with its attributes. */
typedef struct {
    int what, type;
    int64_t n;
    const void *values;
} dlr_dnn_attribute;
int dlr_dnn_make(const dlr_cudnn *l, dlr_dnn_desc *to, int type, int n,
                 const dlr_dnn_attribute *attributes);
#endif
