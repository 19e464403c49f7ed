/* cuBLASLt as a table of functions: libcublasLt.so.13 or .12, loaded at run time.
 *
 * The header declares the functions that are used here with the prototypes of cuBLASLt's
 * documentation (docs.nvidia.com, "cuBLAS", "Using the cuBLASLt API"; cublasLt.h of 12.0 to 13.1).
 * The build needs no header of CUDA. Names are cuBLASLt's without `cublasLt`.
 * tests/cuda/cublaslt_header.c compares them with a header where one is found. */
#ifndef DLR_CUBLASLT_H
#define DLR_CUBLASLT_H
#include "runtime/cuda/library.h"
#include "runtime/driver/driver.h"

/* The environment variable that names its file. */
#define DLR_CUBLASLT_OVERRIDE "DLR_CUBLASLT"

typedef struct cublasLtContext *dlr_lt_handle;
typedef struct dlr_lt_opaque *dlr_lt_layout, *dlr_lt_desc, *dlr_lt_preference;

typedef struct {
    uint64_t data[DL_ALGORITHM_WORDS];
} dlr_lt_algorithm;

typedef struct {
    dlr_lt_algorithm algorithm;
    size_t workspace;
    int state; /* 0: the other members are valid */
    float waves;
    int reserved[4];
} dlr_lt_heuristic;

enum {
    DLR_LT_SUCCESS = 0,
    DLR_LT_NOT_INITIALIZED = 1,
    DLR_LT_ALLOC_FAILED = 3,
    DLR_LT_INVALID_VALUE = 7,
    DLR_LT_EXECUTION_FAILED = 13,
    DLR_LT_NOT_SUPPORTED = 15,

    /* types of data and of computation */
    DLR_LT_R_32F = 0,
    DLR_LT_R_16F = 2,
    DLR_LT_R_16BF = 14,
    DLR_LT_COMPUTE_32F = 68,
    DLR_LT_COMPUTE_32F_TF32 = 77,

    /* attributes of a matmul */
    DLR_LT_DESC_TRANSA = 3,
    DLR_LT_DESC_TRANSB = 4,
    DLR_LT_DESC_EPILOGUE = 7,
    DLR_LT_DESC_BIAS_POINTER = 8,
    DLR_LT_DESC_BIAS_DATA_TYPE = 26,
    DLR_LT_OP_T = 1,
    DLR_LT_EPILOGUE_DEFAULT = 1,
    DLR_LT_EPILOGUE_RELU = 2,
    DLR_LT_EPILOGUE_BIAS = 4,
    DLR_LT_EPILOGUE_RELU_BIAS = 6,

    /* attributes of a matrix layout */
    DLR_LT_LAYOUT_BATCH_COUNT = 5,
    DLR_LT_LAYOUT_BATCH_OFFSET = 6,

    /* attributes of a heuristics request */
    DLR_LT_PREFERENCE_WORKSPACE = 1,
    DLR_LT_PREFERENCE_REDUCTIONS = 3,
    DLR_LT_PREFERENCE_ALIGNMENT_A = 5, /* B, C and D follow */
    DLR_LT_REDUCTION_COMPUTE_TYPE = 2, /* a bit mask; 0: no reduction of split sums */

    DLR_LT_LEAST = 120000 /* 12.0 */
};

/* X(name, result, arguments): the functions. Types, attributes and results are enums in
 * cublasLt.h. */
#define DLR_CUBLASLT_FUNCTIONS(X)                                                                  \
    X(GetVersion, size_t, (void))                                                                  \
    X(GetStatusString, const char *, (int status))                                                 \
    X(Create, int, (dlr_lt_handle * handle))                                                       \
    X(Destroy, int, (dlr_lt_handle handle))                                                        \
    X(MatmulDescCreate, int, (dlr_lt_desc * desc, int compute, int scale))                         \
    X(MatmulDescDestroy, int, (dlr_lt_desc desc))                                                  \
    X(MatmulDescSetAttribute, int, (dlr_lt_desc desc, int what, const void *value, size_t size))   \
    X(MatrixLayoutCreate, int,                                                                     \
      (dlr_lt_layout * layout, int type, uint64_t rows, uint64_t columns, int64_t lead))           \
    X(MatrixLayoutDestroy, int, (dlr_lt_layout layout))                                            \
    X(MatrixLayoutSetAttribute, int,                                                               \
      (dlr_lt_layout layout, int what, const void *value, size_t size))                            \
    X(MatmulPreferenceCreate, int, (dlr_lt_preference * preference))                               \
    X(MatmulPreferenceDestroy, int, (dlr_lt_preference preference))                                \
    X(MatmulPreferenceSetAttribute, int,                                                           \
      (dlr_lt_preference preference, int what, const void *value, size_t size))                    \
    X(MatmulAlgoGetHeuristic, int,                                                                 \
      (dlr_lt_handle handle, dlr_lt_desc desc, dlr_lt_layout a, dlr_lt_layout b, dlr_lt_layout c,  \
       dlr_lt_layout d, dlr_lt_preference preference, int most, dlr_lt_heuristic *found, int *n))  \
    X(MatmulAlgoCheck, int,                                                                        \
      (dlr_lt_handle handle, dlr_lt_desc desc, dlr_lt_layout a, dlr_lt_layout b, dlr_lt_layout c,  \
       dlr_lt_layout d, const dlr_lt_algorithm *algorithm, dlr_lt_heuristic *found))               \
    X(Matmul, int,                                                                                 \
      (dlr_lt_handle handle, dlr_lt_desc desc, const void *alpha, const void *a,                   \
       dlr_lt_layout a_layout, const void *b, dlr_lt_layout b_layout, const void *beta,            \
       const void *c, dlr_lt_layout c_layout, void *d, dlr_lt_layout d_layout,                     \
       const dlr_lt_algorithm *algorithm, void *workspace, size_t size, dlr_cu_stream s))

typedef struct {
#define FIELD(name, result, arguments) result(*name) arguments;
    DLR_CUBLASLT_FUNCTIONS(FIELD)
#undef FIELD
    int64_t version; /* 130100: 13.1.0 */
    const char *path;
} dlr_cublaslt;

/* Loads the library once; it is never unloaded. Errors (DL_RESOURCE): none found, or older than
 * 12.0. */
const dlr_cublaslt *dlr_cublaslt_load(dl_error *err);
#endif
